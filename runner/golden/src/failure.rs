//! Failures as the protocol reports them, and how to make them.

use std::fmt::Display;
use std::path::Path;

pub use warpforge_golden_protocol::{Failure, FailureKind};
use warpforge_pt2::Node;

pub fn failure(kind: FailureKind, message: impl Display) -> Failure {
    Failure { kind, message: message.to_string(), node: None, module: None, source_line: None }
}

pub fn model(error: impl Display) -> Failure {
    failure(FailureKind::Model, error)
}

pub fn inputs(message: impl Display) -> Failure {
    failure(FailureKind::Inputs, message)
}

pub fn internal(message: impl Display) -> Failure {
    failure(FailureKind::Internal, message)
}

pub fn io(path: &Path, error: impl Display) -> Failure {
    failure(FailureKind::Io, format!("{}: {error}", path.display()))
}

/// The failure of one node.
pub fn at(node: &Node, kind: FailureKind, message: impl Display) -> Failure {
    let source = node.source.as_ref();
    Failure {
        node: Some(node.name.to_string()),
        module: Some(node.module.to_string()),
        source_line: source.map(|source| format!("{}:{}", source.file, source.line)),
        ..failure(kind, format!("{}: {message}", node.call))
    }
}
