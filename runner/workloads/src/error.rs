//! What can go wrong on the way to a verdict.

use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Model(#[from] warpforge_pt2::Error),
    #[error(transparent)]
    Lower(#[from] warpforge_snakegrinder::Error),
    #[error("the golden pass: {0}")]
    Golden(#[from] warpforge_golden_protocol::Error),
    #[error("{path}: {source}", path = path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path}: {why}", path = path.display())]
    File { path: PathBuf, why: String },
    #[error(transparent)]
    Step(#[from] warpforge_compiler::StepError),
    #[error(transparent)]
    Squad(#[from] crate::squad::Error),
    #[error("{0}")]
    Inputs(String),
    #[error("the time allowed ({:.1} s) was up during {at}", limit.as_secs_f64())]
    Deadline { limit: std::time::Duration, at: String },
    #[error("the program: {0}")]
    Program(String),
    #[error(transparent)]
    Bundle(#[from] warpforge_parity::bundle::BundleError),
    #[error(transparent)]
    Tensors(#[from] warpforge_parity::file::FileError),
}

impl Error {
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Error::Io { path: path.to_path_buf(), source }
    }
}
