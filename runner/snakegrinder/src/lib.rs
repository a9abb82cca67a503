//! SnakeGrinder: an exported PyTorch graph becomes StableHLO that anyone can read.
//!
//! Every ATen call is lowered by one row of the table in [`aten`]. Changes in place and views
//! become functions of values; omitted arguments take the defaults of ATen's own schemas; what a
//! backend wants whole (attention, normalisation, activations) stays a `stablehlo.composite` with
//! its decomposition beside it. Weights are arguments of the program, never constants. Each
//! operation carries its node's name and module path as its location, and the operation that makes
//! a node's result is marked `warpforge.tap`, so that both passes line up.

pub mod aten;
mod autocast;
mod cx;
mod env;
mod higher;
mod lower;
mod promote;
mod python;
mod schema;
mod value;

pub use lower::{
    Argument, ArgumentKind, Error, Program, ResultInfo, ResultKind, Unsupported, lower,
};
pub use promote::dtype;
