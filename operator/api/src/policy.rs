//! How results are judged, and what happens when something fails.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Reason;
use crate::quantity::Decimal;

/// What may differ, by kind of quantity. What is left out keeps its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tolerances {
    /// Parameters after a step. Default: 1e-4 and 1e-6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Tolerance>,
    /// Results of the graph's nodes. Default: 1e-3 and 1e-5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activations: Option<Tolerance>,
    /// Gradients, before they are added up over workers. Default: 1e-3 and 1e-5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradients: Option<Tolerance>,
    /// The loss of each step. Default: 1e-4 and 1e-6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Tolerance>,
    /// Final metrics. Default: the workload's own, else 5e-3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Tolerance>,
}

/// Two numbers agree if |a - b| is at most absolute + relative * |b|.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tolerance {
    /// As a share of golden's value, such as "1e-4".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative: Option<Decimal>,
    /// Whatever the value, such as "1e-6".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute: Option<Decimal>,
}

/// What speed is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Thresholds {
    /// The least throughput of WarpForge as a multiple of golden's, such as "0.95".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_ratio: Option<Decimal>,
    /// How much slower than its baseline a run may be, as a share, such as "0.05".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum_regression: Option<Decimal>,
    /// Whether Performance Fail makes the run's exit code 1, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_on_performance: Option<bool>,
}

/// What is done about the golden pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GoldenPolicy {
    /// Use a stored golden of the same key, else make one.
    #[default]
    Reuse,
    /// Make one, whatever is stored.
    Refresh,
    /// Make one, and stop there.
    Only,
    /// Do without: only speed is measured, and Correctness is Skipped.
    Skip,
}

/// What happens when a worker fails. A verdict of Pass, Fail or Invalid is never overruled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// How often the rules may start all workers again.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10))]
    pub max_restarts: i32,
    /// The first that matches decides. None does: the run ends Inconclusive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub rules: Vec<FailureRule>,
}

/// What is done about some failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureRule {
    /// Which failures. (Not `on`, which YAML reads as `true`.)
    pub when: FailureMatch,
    /// What is done.
    pub action: FailureAction,
}

/// Failures by exit code or by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.exitCodes) != has(self.reasons)", "message": "exactly one of exitCodes and reasons" },
]))]
pub struct FailureMatch {
    /// Exit codes of a worker, such as 3 (inconclusive), 4 (skipped), 70 (internal error) or 137
    /// (killed). 0, 1 and 5 are verdicts, which no rule overrules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), inner(range(min = 2, max = 255)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub exit_codes: Vec<i32>,
    /// Reasons; `PreflightFailed` stands for all that begin so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "set"))]
    pub reasons: Vec<Reason>,
}

/// What is done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailureAction {
    /// End the run with Correctness Fail.
    FailRun,
    /// Start all workers again, at most maxRestarts times.
    Retry,
    /// Start all workers again, and none on the node where it failed.
    RetryExcludingNode,
    /// Start all workers again without counting it as a restart. The run deadline still holds.
    Ignore,
    /// End the run Inconclusive, as without a rule.
    Inconclusive,
}

/// How long a finished run stays before it is deleted, artifacts excepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ttl {
    /// After Correctness Pass. Left out: the profile's, else for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 315_360_000))]
    pub passed: Option<i64>,
    /// After any other verdict. Left out: the profile's, else for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 315_360_000))]
    pub failed: Option<i64>,
}

impl Ttl {
    /// What is left out is the other's.
    pub fn or(&self, other: &Self) -> Self {
        Self { passed: self.passed.or(other.passed), failed: self.failed.or(other.failed) }
    }
}
