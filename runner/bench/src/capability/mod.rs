//! Probes of what this machine can be used for. Each one loads the real libraries and opens the
//! real devices, may therefore block (the caller sets the time limit and runs it in a process of
//! its own), and answers with a [`Finding`]. The judgement in each probe is a pure function of a
//! [`Sysroot`](crate::Sysroot) and of what the libraries said, so that every case has a test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod amd;
mod libtorch;
mod nvidia;
mod rdma;

pub use amd::amd;
pub use libtorch::{LIBTORCH_VERSION, libtorch};
pub use nvidia::nvidia;
pub use rdma::rdma;

/// How a probe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Usable now.
    Works,
    /// Not present on this machine, or not configured.
    Missing,
    /// Present, but it failed when it was tried.
    Broken,
}

/// One probe's answer: what was found, and what to do if that is not enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// How the probe ended.
    pub status: Status,
    /// What was found or why it does not work, in one line.
    pub detail: String,
    /// What a person can do about it; absent exactly when `status` is `works`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Finding {
    pub fn works(detail: impl Into<String>) -> Self {
        Self { status: Status::Works, detail: detail.into(), cure: None }
    }

    pub fn missing(detail: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { status: Status::Missing, detail: detail.into(), cure: Some(cure.into()) }
    }

    pub fn broken(detail: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { status: Status::Broken, detail: detail.into(), cure: Some(cure.into()) }
    }
}

/// `1 GPU: A` or `2 GPUs: A, B`.
fn counted(noun: &str, names: &[String]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{} {noun}{plural}: {}", names.len(), names.join(", "))
}

/// For the probes' tests: a finding that does not work has this detail, and a cure of one line.
#[cfg(test)]
#[track_caller]
fn check(finding: &Finding, status: Status, detail: &str, cure: &str) {
    assert_eq!((finding.status, finding.detail.as_str()), (status, detail));
    let given = finding.cure.as_deref().expect("a cure");
    assert!(given.contains(cure) && !given.contains('\n'), "{given}");
}
