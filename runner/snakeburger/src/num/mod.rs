//! Numbers as the specification defines them: narrow float formats, random bits, matrix products,
//! and functions that the standard library lacks.

pub mod complex;
mod dd;
pub mod format;
mod inverse;
pub mod matmul;
pub mod random;
pub mod special;
