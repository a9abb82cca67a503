//! The exported PyTorch model: what `torch.export.save` wrote, read without Python.
//!
//! An archive is mapped, its graph becomes a flat list of calls with typed arguments, and its
//! weights stay where they are in the file. Both passes start here and share nothing else: how
//! libtorch runs the graph is `golden`'s business, how it becomes StableHLO is `snakegrinder`'s.
//! Members that hold Python pickles are never opened.

mod archive;
mod dtype;
mod error;
mod graph;
mod map;
mod model;
pub mod random;
mod read;
mod recipe;
mod schema;
mod symbols;
mod weights;
mod widen;

pub use archive::Archive;
pub use dtype::ScalarType;
pub use error::Error;
pub use graph::{
    Arg, Autocast, Call, Graph, Mode, NamedArg, Node, Produces, Source, TensorMeta, Value, ValueId,
};
pub use map::Mapped;
pub use model::{Input, InputKind, Model, Options, Output, OutputKind};
pub use recipe::{Init, Recipe};
pub use symbols::{DimSpec, Expr, Symbol};
pub use weights::{Bytes, Tensor, WeightSource, Weights};
