//! SnakeBurger: StableHLO as text, as a typed and verified program, and as its meaning.
//!
//! [`text`] reads and writes MLIR, [`ir`] holds programs, [`ops`] defines every operation in one
//! place, [`build`] makes programs, [`derive`](mod@derive) is what derivative rules are made of, [`verify`] checks the specification's constraints, and [`eval`] is the reference
//! interpreter that every other way of running a program is compared with. Nothing here prints,
//! exits or knows a device.

pub mod build;
pub mod conformance;
pub mod derive;
pub mod diag;
pub mod eval;
pub mod extract;
pub mod ir;
pub mod num;
pub mod ops;
pub mod prune;
pub mod stats;
pub mod text;
pub mod verify;
pub mod widen;
