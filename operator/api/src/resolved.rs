//! A run as it will be carried out: the request merged with its profile.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::data::{Artifacts, Data, Model, Pass, Suite, Workload};
use crate::policy::{FailurePolicy, GoldenPolicy, Thresholds, Tolerances, Ttl};
use crate::profile::Concurrency;
use crate::quantity::Quantity;
use crate::workers::{Rdma, Resources, Toleration, Variable, Vendor};

/// The request merged with its profile, taken once. Later changes of the profile do not reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    /// The profile, as it was.
    pub profile: ProfileRef,
    /// The workload, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// The model, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// The suite, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<Suite>,
    /// A program in the place of the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub program_uri: Option<String>,
    /// The passes that are computed.
    #[schemars(length(max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub passes: Vec<Pass>,
    /// What is done about the golden pass.
    pub golden_policy: GoldenPolicy,
    /// Where goldens are kept.
    pub goldens: GoldenPlaces,
    /// The worker groups.
    #[schemars(length(max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub workers: Vec<ResolvedGroup>,
    /// Data sets and weights.
    #[serde(default)]
    pub data: Data,
    /// Where results go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Artifacts>,
    /// What may differ between the passes.
    #[serde(default)]
    pub tolerances: Tolerances,
    /// What speed is asked for.
    #[serde(default)]
    pub thresholds: Thresholds,
    /// What happens when a worker fails.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// How long it may take until all workers of an attempt are running.
    pub pending_deadline_seconds: i64,
    /// How long the run may take from its first start.
    pub run_deadline_seconds: i64,
    /// A LocalQueue of Kueue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub queue_name: Option<String>,
    /// The priority of the workers' pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// The profile's part in how long the finished run stays; the run's own may change.
    #[serde(default)]
    pub ttl_seconds_after_finished: Ttl,
    /// The slots that the run shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// Secrets that images are pulled with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub image_pull_secrets: Vec<String>,
    /// The workers' ServiceAccount.
    #[schemars(length(max = 253))]
    pub service_account_name: String,
    /// Blocks of addresses that workers may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 64)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub egress_cidrs: Vec<String>,
    /// The size of a worker's `/dev/shm`.
    pub shared_memory: Quantity,
}

/// Which profile it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileRef {
    #[schemars(length(max = 253))]
    pub name: String,
    #[schemars(length(max = 63))]
    pub uid: String,
    pub generation: i64,
}

/// Where goldens are kept, as prefixes below the artifacts' own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoldenPlaces {
    /// Where the run stores one that it makes.
    #[schemars(length(max = 253))]
    pub write: String,
    /// Where it looks for one, in this order.
    #[schemars(length(max = 2), inner(length(max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub read: Vec<String>,
}

/// A worker group with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedGroup {
    #[schemars(length(max = 20))]
    pub name: String,
    /// How many workers.
    pub replicas: i32,
    /// Whose devices compute.
    pub vendor: Vendor,
    /// The runner's image.
    #[schemars(length(max = 512))]
    pub image: String,
    /// The GPUs of each worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
    /// Network adapters for RDMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<Rdma>,
    /// Labels that a worker's node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "bounds::texts::<32, 63>")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that do not keep a worker away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<Toleration>,
    /// Processors, memory and the like.
    #[serde(default)]
    pub resources: Resources,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<Variable>,
}

/// A number of devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gpus {
    /// The device plugin's resource.
    #[schemars(length(max = 253))]
    pub resource_name: String,
    /// How many of each worker.
    pub count: i32,
}

impl Resolved {
    /// All workers of all groups.
    pub fn worker_count(&self) -> i32 {
        self.workers.iter().map(|group| group.replicas).sum()
    }

    /// What is run, in a few characters.
    pub fn subject(&self) -> String {
        subject(self.workload.as_ref(), self.model.as_ref(), self.suite.as_ref())
    }
}

/// What is run, as a metric's label: without what makes two runs of it differ.
pub fn label(workload: Option<&Workload>, suite: Option<&Suite>) -> String {
    match (workload, suite) {
        (Some(workload), _) => workload.name.clone(),
        (None, Some(suite)) => format!("suite/{}", suite.name),
        (None, None) => "model".to_owned(),
    }
}

/// What is run, in a few characters: the column that `kubectl get` shows.
pub fn subject(
    workload: Option<&Workload>,
    model: Option<&Model>,
    suite: Option<&Suite>,
) -> String {
    let text = match (workload, model, suite) {
        (Some(Workload { name, preset: Some(preset), .. }), ..) => format!("{name}/{preset}"),
        (Some(workload), ..) => workload.name.clone(),
        (None, Some(model), _) => model.uri.rsplit('/').next().unwrap_or_default().to_owned(),
        (None, None, Some(suite)) => format!("suite {}", suite.name),
        (None, None, None) => String::new(),
    };
    crate::status::cut(&text, 128)
}
