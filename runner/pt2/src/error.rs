//! What can be wrong with an exported model, in words its owner can act on.

use std::path::PathBuf;

/// Why a model could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is no .pt2 archive: {why}; save the model with torch.export.save", path = path.display())]
    Archive { path: PathBuf, why: String },
    #[error("{path}: the member {member:?} leaves the archive's own folder", path = path.display())]
    Escapes { path: PathBuf, member: String },
    #[error("{path}: the member {member} is compressed; torch.export.save stores members as they are", path = path.display())]
    Compressed { path: PathBuf, member: String },
    #[error("{path}: the member {member} is missing", path = path.display())]
    Missing { path: PathBuf, member: String },
    #[error("{path}: the member {member} does not match its checksum; the file is damaged", path = path.display())]
    Checksum { path: PathBuf, member: String },
    #[error("{path}, {member}, line {line}, column {column}: {why}", path = path.display())]
    Json { path: PathBuf, member: String, line: usize, column: usize, why: String },
    #[error(
        "the model was saved with version {major}.{minor} of the export schema; versions 8.0 to 8.17 are known: export it with torch 2.11"
    )]
    Schema { major: i64, minor: i64 },
    #[error("the model has {count} graphs ({names}); one is expected")]
    Graphs { count: usize, names: String },
    #[error(
        "weight {name} is saved as a Python pickle, which is never opened; export a model whose weights are plain tensors"
    )]
    Pickled { name: String },
    #[error("weight {name}: {why}")]
    Weight { name: String, why: String },
    #[error("weight {name} is not in {from}")]
    NoWeight { name: String, from: String },
    #[error("{node} ({target}): {why}")]
    Node { node: String, target: String, why: String },
    #[error("{0}")]
    Graph(String),
    #[error("{0}")]
    Dims(String),
    #[error("{path}: {why}", path = path.display())]
    Recipe { path: PathBuf, why: String },
    #[error("{0}")]
    Widen(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
