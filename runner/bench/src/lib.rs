//! Benchmarks, and knowledge of the machine they run on: suites of benchmarks ([`registry`],
//! [`suites`]) with what they measured ([`model`], [`statistics`]), a snapshot of hardware and
//! software ([`system`]) and probes that say which capabilities work ([`capability`]). Snapshot and
//! probes read files below a [`Sysroot`], so they can be pointed at any tree. Nothing here prints,
//! exits, or knows a workload.

pub mod capability;
pub mod compare;
pub mod drive;
mod dynlib;
#[cfg(test)]
mod fixture;
mod gpu;
mod limit;
pub mod load;
pub mod measure;
pub mod model;
pub mod monitor;
pub mod netserver;
pub mod registry;
pub mod score;
pub mod statistics;
pub mod stress;
pub mod suite;
pub mod suites;
mod sysroot;
pub mod system;

pub use sysroot::Sysroot;
