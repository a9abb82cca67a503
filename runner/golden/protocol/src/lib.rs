//! How `warpforge` and `warpforge-golden` speak: the messages, and the side that starts the
//! child process, finds libtorch for it, watches it and reports what became of it. Requests go
//! to its standard input and events come from its standard output, one JSON object to a line;
//! tensors travel as safetensors files. Links no libtorch and needs none to be built.
//!
//! The same binary runs with the libtorch of `cargo xtask setup golden`, which has no CUDA, and
//! with an installed Python torch of the same version, which may have it.

mod client;
mod libtorch;
mod message;
pub mod ranks;
mod signals;
pub mod training;

pub use client::{Error, Golden, Session};
pub use libtorch::{Libtorch, Search, Torch, Unavailable, installed_torch};
pub use message::{
    Device, Event, Failure, FailureKind, Hello, Log, NodeTime, Outcome, Precision, Progress,
    Request, Run, RunTime, Started, Taps, Task, Timings, Weights,
};

/// The version of the messages. Both sides must have the same.
pub const VERSION: u32 = 3;

/// The version of libtorch that `warpforge-golden` is built for.
pub const LIBTORCH_VERSION: &str = "2.11.0";

/// The name of the program, and the variable that says where another one is.
pub const BINARY: &str = "warpforge-golden";
pub const BINARY_VARIABLE: &str = "WARPFORGE_GOLDEN";
