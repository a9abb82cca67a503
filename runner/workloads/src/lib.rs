//! What is run and judged: today the forward computation of any exported model, in both passes.
//!
//! [`forward`] goes from a model to a report; [`given`] finds or draws the inputs, [`pass`] runs a
//! lowered program on the reference interpreter, [`program`] reads what a program says about
//! itself, [`isolate`] runs one node of it alone, and [`repro`] writes such a node down. Nothing
//! here prints.

mod error;
pub mod forward;
pub mod given;
pub mod isolate;
pub mod pass;
pub mod program;
pub mod repro;
pub mod tensors;

pub use error::Error;
