//! How a worker ends: its exit code and its last message, which agree.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use warpforge_operator_api::Reason;
use warpforge_operator_api::contract::Termination;
use warpforge_operator_api::reason::Kind;
use warpforge_operator_api::verdict::exit;

use crate::request::Refusal;

/// A worker that ends without a verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Failure {
    pub reason: Reason,
    pub message: String,
}

impl Failure {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The code that goes with the reason.
    pub fn exit_code(&self) -> i32 {
        match self.reason.kind() {
            Kind::Request => exit::USAGE,
            _ if self.reason == Reason::InternalError => exit::INTERNAL,
            _ => warpforge_operator_api::Verdict::Inconclusive.exit_code(),
        }
    }

    pub fn message(&self) -> Termination {
        Termination::failure(self.exit_code(), self.reason, &self.message)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(Reason::ConfigurationRejected, refusal.to_string())
    }
}

/// Writes a message in the place of the one before. Not beside: the file is a mount of the
/// kubelet's, and cannot be renamed over.
pub fn write(path: &Path, message: &Termination) -> io::Result<()> {
    let text = message.to_json();
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_one_that_the_operator_can_read() {
        for reason in Reason::ALL.iter().filter(|reason| reason.kind() != Kind::Way) {
            let failure = Failure::new(*reason, "why");
            let text = failure.message().to_json();
            let read = Termination::of_exit(&text, failure.exit_code()).unwrap();
            assert_eq!(read.reason, reason.name());
        }
    }
}
