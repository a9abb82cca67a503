//! Parity: whether two runs computed the same numbers. Tensors are compared pair by pair in one
//! streaming pass, held to stated tolerances, and turned into a verdict with reasons; where it is
//! not a pass, the localiser says at which operation the two runs parted; a report carries all of
//! it as JSON, as JUnit XML and as one self-contained page. Values come in as bytes: nothing here
//! knows a model, a device or a workload.

pub mod bundle;
pub mod compare;
pub mod file;
pub mod judge;
pub mod localise;
mod mapping;
pub mod performance;
pub mod report;
pub mod tolerance;
pub mod training;
pub mod verdict;
