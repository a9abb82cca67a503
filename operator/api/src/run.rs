//! `BenchmarkRun`: a user's request for one run.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bounds;
use crate::data::{Artifacts, Data, Model, Pass, Suite, Workload};
use crate::policy::{FailurePolicy, GoldenPolicy, Thresholds, Tolerances, Ttl};
use crate::status::BenchmarkRunStatus;
use crate::workers::{Vendor, WorkerGroup};

/// What is run, by whom, and how it is judged. It cannot be changed once made, but for suspend and
/// ttlSecondsAfterFinished; what is left out comes from the profile.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "warpforge.dev",
    version = "v1alpha1",
    kind = "BenchmarkRun",
    plural = "benchmarkruns",
    namespaced,
    shortname = "bmr",
    shortname = "wfrun",
    category = "warpforge",
    status = "BenchmarkRunStatus",
    derive = "PartialEq",
    doc = "A BenchmarkRun runs a model in PyTorch and in WarpForge, compares the two number by number, and ends with two verdicts: whether they agree (Correctness), and how fast it was (Performance). Or it runs a suite of benchmarks, and tells whether they computed what they should and whether their figures can be believed.",
    printcolumn = r#"{"name": "Workload", "type": "string", "jsonPath": ".status.subject", "description": "What is run"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "Where the run is"}"#,
    printcolumn = r#"{"name": "Correctness", "type": "string", "jsonPath": ".status.correctness", "description": "Whether both passes agree, or the benchmarks are right"}"#,
    printcolumn = r#"{"name": "Performance", "type": "string", "jsonPath": ".status.performance", "description": "Whether it is fast enough, or the figures are steady"}"#,
    printcolumn = r#"{"name": "Progress", "type": "string", "jsonPath": ".status.progress.summary", "description": "The pass and step it is at, or the benchmark"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.reason", "description": "Why it waits or how it ended", "priority": 1}"#,
    printcolumn = r#"{"name": "Restarts", "type": "integer", "jsonPath": ".status.restarts", "description": "How often its workers were started again", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct BenchmarkRunSpec {
    /// Run a workload that comes with WarpForge. Exactly one of workload, model and suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// Run any exported PyTorch model. Exactly one of workload, model and suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Run a suite of benchmarks. Exactly one of workload, model and suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<Suite>,
    /// A StableHLO program that takes the place of the one that WarpForge makes of the model, as
    /// `warpforge run --program` takes it: `s3://BUCKET/KEY` or `data://CLAIM/PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = bounds::URI))]
    pub program_uri: Option<String>,
    /// The BenchmarkProfile with defaults, limits and permissions. It is read once: later changes
    /// of it do not reach a run that has been resolved.
    #[serde(default = "default_profile")]
    #[schemars(length(min = 1, max = 253), regex(pattern = bounds::DNS_SUBDOMAIN))]
    pub profile: String,
    /// Which passes of a workload or model may be computed. Without Golden, a stored one is compared with, or the run ends
    /// Inconclusive; without Warpforge, only golden is made.
    #[serde(default = "both_passes")]
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub passes: Vec<Pass>,
    /// Groups of workers, side by side. All of them start together or not at all, and the first
    /// worker of the first group leads.
    #[serde(default = "one_cpu")]
    #[schemars(length(min = 1, max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub workers: Vec<WorkerGroup>,
    /// Data sets and weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// What may differ between the passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerances: Option<Tolerances>,
    /// What speed is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// What is done about the golden pass. Left out: the profile's, else Reuse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub golden_policy: Option<GoldenPolicy>,
    /// Where results go. Left out: where the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Artifacts>,
    /// What happens when a worker fails. Left out: what the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// How long it may take until all workers of an attempt are running. Left out: the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 604_800))]
    pub pending_deadline_seconds: Option<i64>,
    /// How long the run may take from its first start, with all its attempts. Left out: the
    /// profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 2_592_000))]
    pub run_deadline_seconds: Option<i64>,
    /// Holds the run back, or stops its workers; false lets it begin anew.
    #[serde(default)]
    pub suspend: bool,
    /// A LocalQueue of Kueue that admits the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = bounds::DNS_SUBDOMAIN))]
    pub queue_name: Option<String>,
    /// The priority of the workers' pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = bounds::DNS_SUBDOMAIN))]
    pub priority_class_name: Option<String>,
    /// How long the finished run stays before it is deleted. Its artifacts stay where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<Ttl>,
}

impl BenchmarkRunSpec {
    /// A run of nothing yet, with the defaults that the API server would fill in.
    pub fn empty() -> Self {
        Self {
            workload: None,
            model: None,
            suite: None,
            program_uri: None,
            profile: default_profile(),
            passes: both_passes(),
            workers: one_cpu(),
            data: None,
            tolerances: None,
            thresholds: None,
            golden_policy: None,
            artifacts: None,
            failure_policy: None,
            pending_deadline_seconds: None,
            run_deadline_seconds: None,
            suspend: false,
            queue_name: None,
            priority_class_name: None,
            ttl_seconds_after_finished: None,
        }
    }
}

fn default_profile() -> String {
    "default".to_owned()
}

fn both_passes() -> Vec<Pass> {
    vec![Pass::Golden, Pass::Warpforge]
}

fn one_cpu() -> Vec<WorkerGroup> {
    vec![WorkerGroup::new("cpu", Vendor::Cpu)]
}

/// All of the spec but what may change: `suspend` and `ttlSecondsAfterFinished`.
const IMMUTABLE: &[&str] = &[
    "workload",
    "model",
    "suite",
    "programUri",
    "profile",
    "passes",
    "workers",
    "data",
    "tolerances",
    "thresholds",
    "goldenPolicy",
    "artifacts",
    "failurePolicy",
    "pendingDeadlineSeconds",
    "runDeadlineSeconds",
    "queueName",
    "priorityClassName",
];

/// One rule for each field, so that the message names it and no rule is dear.
fn rules() -> Value {
    let one_of = json!({
        "rule": "[has(self.workload), has(self.model), has(self.suite)].filter(given, given).size() == 1",
        "message": "exactly one of workload, model and suite",
    });
    let only = json!({
        "rule": "!has(self.goldenPolicy) || self.goldenPolicy != 'Only' || 'Golden' in self.passes",
        "message": "goldenPolicy Only needs the pass Golden",
    });
    let skip = json!({
        "rule": "!has(self.goldenPolicy) || self.goldenPolicy != 'Skip' || 'Warpforge' in self.passes",
        "message": "goldenPolicy Skip needs the pass Warpforge",
    });
    let program = json!({
        "rule": "!has(self.programUri) || (!has(self.suite) && 'Warpforge' in self.passes && \
                 (!has(self.goldenPolicy) || self.goldenPolicy != 'Only'))",
        "message": "programUri needs a workload or a model, and the pass Warpforge, which \
                    goldenPolicy Only leaves out",
    });
    let suite = json!({
        "rule": "!has(self.suite) || (self.passes.size() == 2 && !has(self.goldenPolicy) && \
                 !has(self.tolerances) && !has(self.thresholds))",
        "message": "a suite has no passes: leave out passes, goldenPolicy, tolerances, thresholds",
    });
    // A rule on the field itself would not see that it was added or taken away.
    let immutable = IMMUTABLE.iter().map(|field| {
        json!({
            "rule": format!(
                "has(self.{field}) == has(oldSelf.{field}) && \
                 (!has(self.{field}) || self.{field} == oldSelf.{field})"
            ),
            "message": format!("{field} cannot be changed; make another run"),
        })
    });
    Value::Array([one_of, only, skip, program, suite].into_iter().chain(immutable).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_immutable_but_two() {
        let schema = schemars::schema_for!(BenchmarkRunSpec);
        let properties = schema.get("properties").and_then(Value::as_object).unwrap();
        let changing: Vec<_> =
            properties.keys().filter(|name| !IMMUTABLE.contains(&name.as_str())).collect();
        assert_eq!(changing, ["suspend", "ttlSecondsAfterFinished"]);
        assert!(IMMUTABLE.iter().all(|name| properties.contains_key(*name)));
    }

    #[test]
    fn defaults_are_those_of_an_empty_object() {
        let empty: BenchmarkRunSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(empty, BenchmarkRunSpec::empty());
    }
}
