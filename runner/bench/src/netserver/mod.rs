//! The other end of the network benchmarks: a server that takes in bytes, sends them, or sends
//! back what it gets, and what a benchmark needs to speak with it. A benchmark opens a session and
//! within it as many streams as it measures; with the session everything of it ends.

mod client;
mod protocol;
mod server;
mod streams;
#[cfg(test)]
mod tests;

pub use client::{Closing, Fault, Peer, Session};
pub use protocol::{LONGEST, PORT, Report, Role, VERSION};
pub use server::{Event, Limits, serve};
pub use streams::{receive, send};
