//! The program of a worker's pod, `warpforge agent`. It reads what the operator mounted, finds out
//! whether the machine has what the run needs, waits for its peers, brings or makes the golden,
//! has the passes or the benchmarks run in child processes, stores the results, and writes the
//! message that the operator reads. The passes are never in this process: one that crashes or is killed for want of
//! memory takes nothing of this with it. Nothing here prints, and nothing here computes what is compared.

mod agent;
mod artifacts;
mod beside;
mod bundle;
mod child;
mod deadline;
mod ending;
pub mod event;
mod follow;
mod golden;
mod lead;
mod outcome;
mod places;
mod preflight;
mod progress;
mod rendezvous;
pub mod request;
mod serve;
mod suite;

pub use agent::{Options, run};
