//! A Kubernetes cluster with real nodes on one machine, for tests: the control plane, containerd
//! and a kubelet to every node, DNS, Prometheus and an S3 server, all in namespaces of their own.
//! The machine's network and mounts are never touched, and everything is gone with the test.

pub mod address;
mod cgroups;
mod cluster;
mod command;
mod control;
mod error;
pub mod image;
pub mod isolation;
pub mod keys;
pub mod kubeconfig;
pub mod libtorch;
mod network;
mod node;
pub mod part;
mod policies;
mod programs;
mod prometheus;
pub mod s3;
mod slow;
pub mod stock;
pub mod wait;

pub use cluster::{Cluster, Options};
pub use control::ApiServer;
pub use error::Error;
pub use image::Image;
pub use isolation::run;
pub use node::Node;
pub use programs::Programs;
pub use prometheus::Prometheus;
pub use s3::S3;
pub use slow::Slow;
