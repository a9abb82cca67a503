//! Knowledge of the machine a run happens on: a snapshot of its hardware and software
//! ([`system`]) and probes that say which capabilities work on it
//! ([`capability`]). Both read files below a [`Sysroot`], so they can be pointed at any tree.
//! Nothing here prints, exits, or knows a workload.

pub mod capability;
mod dynlib;
#[cfg(test)]
mod fixture;
mod limit;
mod sysroot;
pub mod system;

pub use sysroot::Sysroot;
