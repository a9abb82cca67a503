//! What is run and judged: any exported model's forward computation or training, and the workload
//! [`bert_squad`], in both passes.
//!
//! [`forward`] and [`training`] go from a model to a report; [`squad`] is data for questions; [`given`] finds or draws the inputs, [`pass`] runs a
//! lowered program on the reference interpreter, [`program`] reads what a program says about
//! itself, [`isolate`] runs one node of it alone, and [`repro`] writes such a node down. Nothing
//! here prints.

pub mod bert_squad;
mod error;
pub mod forward;
pub mod given;
pub mod isolate;
pub mod pass;
pub mod program;
pub mod repro;
pub mod squad;
pub mod tensors;
mod timeline;
pub mod training;

pub use error::Error;
