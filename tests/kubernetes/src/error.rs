//! What can go wrong with a cluster of the tests, and where.

use std::io;
use std::path::Path;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("{program} failed ({status}): {said}")]
    Command { program: String, status: String, said: String },
    #[error("{what} did not come about within {limit:?} (last: {last})\n{logs}")]
    Late { what: String, limit: Duration, last: String, logs: String },
    #[error("no certificate: {0}")]
    Keys(#[from] rcgen::Error),
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    #[error("the API server: {0}")]
    Kube(#[from] Box<kube::Error>),
    #[error("the S3 server: {0}")]
    S3(String),
    #[error("Prometheus: {0}")]
    Prometheus(String),
    #[error("{0}")]
    Wrong(String),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

/// Says what was tried when the system refused.
pub trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, Error>;

    fn at(self, what: &str, path: &Path) -> Result<T, Error>
    where
        Self: Sized,
    {
        self.tried(|| format!("{what} {}", path.display()))
    }
}

impl<T, E: Into<io::Error>> Tried<T> for Result<T, E> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Io { what: what(), source: source.into() })
    }
}
