//! What is run and judged: today the forward computation of any exported model, in both passes.
//!
//! [`given`] finds or draws the inputs, [`pass`] runs a lowered program on the reference
//! interpreter, [`program`] reads what a program says about itself. Nothing here prints.

mod error;
pub mod given;
pub mod pass;
pub mod program;
pub mod tensors;

pub use error::Error;
