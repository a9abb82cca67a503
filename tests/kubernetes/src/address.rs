//! Who has which address in the cluster's own network. It exists in a namespace of its own, so the
//! numbers need not be free anywhere else.

/// The bridge, where the control plane, DNS, S3 and Prometheus listen.
pub const HOST: &str = "172.30.0.1";
pub const HOST_NET: &str = "172.30.0.1/24";
pub const BRIDGE: &str = "cluster0";
pub const API_PORT: u16 = 6443;
/// Of Services.
pub const SERVICES: &str = "10.96.0.0/24";
/// The API server's own Service.
pub const API_SERVICE: &str = "10.96.0.1";
/// Of all pods.
pub const PODS: &str = "10.244.0.0/16";

/// Nodes are counted from 1, as their names are.
pub fn node(number: usize) -> String {
    format!("172.30.0.{}", 10 + number)
}

/// Of the pods of one node.
pub fn pods(number: usize) -> String {
    format!("10.244.{number}.0/24")
}
