//! `BenchmarkProfile`: an administrator's defaults, limits and permissions.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::data::Artifacts;
use crate::policy::{FailurePolicy, GoldenPolicy, Thresholds, Tolerances, Ttl};
use crate::quantity::Quantity;
use crate::workers::{Resources, Toleration};

/// What runs that name this profile get, and what they may ask for.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "warpforge.dev",
    version = "v1alpha1",
    kind = "BenchmarkProfile",
    plural = "benchmarkprofiles",
    shortname = "bmp",
    shortname = "wfprofile",
    category = "warpforge",
    derive = "PartialEq",
    doc = "A BenchmarkProfile is an administrator's template for BenchmarkRuns: defaults for what they leave out, limits, and lists of what they may ask for. Runs take a snapshot of it when they begin.",
    printcolumn(
        name = "Group",
        type_ = "string",
        json_path = ".spec.concurrency.group",
        description = "Runs of one group share its slots"
    ),
    printcolumn(
        name = "Max",
        type_ = "integer",
        json_path = ".spec.concurrency.max",
        description = "How many of the group run at once"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkProfileSpec {
    /// What a run gets where it asks for nothing else. All of it is allowed, whatever the lists say.
    #[serde(default)]
    pub defaults: Defaults,
    /// How much a run may ask for.
    #[serde(default)]
    pub limits: Limits,
    /// What a run may ask for beyond the defaults. An empty list allows nothing more.
    #[serde(default)]
    pub allowed: Allowed,
    /// How many runs may run at once. Left out: as many as there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// Who shares goldens.
    #[serde(default)]
    pub goldens: Goldens,
    /// What workers may reach.
    #[serde(default)]
    pub network: Network,
}

/// What a run gets where it asks for nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Defaults {
    /// The runner's image by vendor.
    #[serde(default)]
    pub images: Images,
    /// Secrets of the run's namespace that images are pulled with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 253), regex(pattern = bounds::DNS_SUBDOMAIN)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub image_pull_secrets: Vec<String>,
    /// The workers' ServiceAccount, in the run's namespace. Workers get no token of it.
    #[serde(default = "default_account")]
    #[schemars(length(min = 1, max = 253), regex(pattern = bounds::DNS_SUBDOMAIN))]
    pub service_account_name: String,
    /// Where results go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Artifacts>,
    /// Processors, memory and the like of a worker.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    /// The size of a worker's `/dev/shm`, which counts as its memory.
    #[serde(default = "default_shared_memory")]
    pub shared_memory: Quantity,
    /// Labels that every worker's node must have, beside the run's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "bounds::texts::<16, 63>")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations of every worker, beside the run's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<Toleration>,
    /// What may differ between the passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerances: Option<Tolerances>,
    /// What speed is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// What is done about the golden pass.
    #[serde(default)]
    pub golden_policy: GoldenPolicy,
    /// What happens when a worker fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// How long it may take until all workers of an attempt are running.
    #[serde(default = "half_an_hour")]
    #[schemars(range(min = 10, max = 604_800))]
    pub pending_deadline_seconds: i64,
    /// How long a run may take from its first start.
    #[serde(default = "one_day")]
    #[schemars(range(min = 10, max = 2_592_000))]
    pub run_deadline_seconds: i64,
    /// A LocalQueue of Kueue, in the run's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = bounds::DNS_SUBDOMAIN))]
    pub queue_name: Option<String>,
    /// The priority of the workers' pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = bounds::DNS_SUBDOMAIN))]
    pub priority_class_name: Option<String>,
    /// How long finished runs stay before they are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<Ttl>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            images: Images::default(),
            image_pull_secrets: Vec::new(),
            service_account_name: default_account(),
            artifacts: None,
            resources: Resources::default(),
            shared_memory: default_shared_memory(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            tolerances: None,
            thresholds: None,
            golden_policy: GoldenPolicy::default(),
            failure_policy: None,
            pending_deadline_seconds: half_an_hour(),
            run_deadline_seconds: one_day(),
            queue_name: None,
            priority_class_name: None,
            ttl_seconds_after_finished: None,
        }
    }
}

fn default_account() -> String {
    "default".to_owned()
}

fn default_shared_memory() -> Quantity {
    Quantity::gibibytes(1)
}

fn half_an_hour() -> i64 {
    1800
}

fn one_day() -> i64 {
    86_400
}

fn one_week() -> i64 {
    604_800
}

/// The runner's image by vendor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// For workers that compute on the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = bounds::IMAGE))]
    pub cpu: Option<String>,
    /// For workers with NVIDIA GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = bounds::IMAGE))]
    pub nvidia: Option<String>,
    /// For workers with AMD GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = bounds::IMAGE))]
    pub amd: Option<String>,
}

/// How much a run may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Workers of all groups together.
    #[serde(default = "sixteen")]
    #[schemars(range(min = 1, max = 2048))]
    pub workers: i32,
    /// GPUs of one worker.
    #[serde(default = "sixteen")]
    #[schemars(range(min = 0, max = 64))]
    pub gpus_per_worker: i32,
    /// Restarts of one run.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 10))]
    pub restarts: i32,
    /// The longest pending deadline.
    #[serde(default = "one_day")]
    #[schemars(range(min = 10, max = 604_800))]
    pub pending_deadline_seconds: i64,
    /// The longest run deadline.
    #[serde(default = "one_week")]
    #[schemars(range(min = 10, max = 2_592_000))]
    pub run_deadline_seconds: i64,
    /// The most of a resource that one worker may ask for, such as `memory: 64Gi`. A resource that
    /// is not named has no limit, if it may be asked for at all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "bounds::quantities")]
    pub resources: BTreeMap<String, Quantity>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            workers: sixteen(),
            gpus_per_worker: sixteen(),
            restarts: ten(),
            pending_deadline_seconds: one_day(),
            run_deadline_seconds: one_week(),
            resources: BTreeMap::new(),
        }
    }
}

fn sixteen() -> i32 {
    16
}

fn ten() -> i32 {
    10
}

/// What a run may ask for beyond the defaults. An entry that ends in `*` allows all that begins
/// with what stands before it; any other allows exactly itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Allowed {
    /// Images, such as `registry.example.org/warpforge/*`. Before the `*` stands a `/`, `:` or `@`,
    /// so that no other registry begins alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 512)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub images: Vec<String>,
    /// Object stores, such as `https://minio.storage.svc:9000`, each exactly as a run would name
    /// it. `aws` stands for a run that names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 512)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub endpoints: Vec<String>,
    /// Where models, inputs and results may be, such as `s3://models/team-a/`. Files in a run's own
    /// volumes need no entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 1024)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub uri_prefixes: Vec<String>,
    /// Secrets of the run's namespace, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub secrets: Vec<String>,
    /// Volumes, as names of a PersistentVolumeClaim in the run's namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub volume_claims: Vec<String>,
    /// Resources beside `cpu`, `memory` and `ephemeral-storage`, such as `nvidia.com/gpu` or
    /// `rdma/*`. A list with none leaves workers their vendor's own GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub resources: Vec<String>,
    /// Labels of nodes that a run may choose by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub node_selectors: Vec<NodeLabel>,
    /// Keys of taints that a run may tolerate. A run can never tolerate all taints at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 317)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub tolerations: Vec<String>,
    /// Queues of Kueue: names of a LocalQueue in the run's namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub queues: Vec<String>,
    /// Priorities: names of a PriorityClass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub priority_classes: Vec<String>,
    /// Licences that a run may accept, by their ID.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub licenses: Vec<String>,
}

/// A node's label and the values that a run may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeLabel {
    /// The label's key.
    #[schemars(length(min = 1, max = 317), regex(pattern = bounds::QUALIFIED_NAME))]
    pub key: String,
    /// Its values; `*` for all.
    #[schemars(length(min = 1, max = 64), inner(length(max = 63)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub values: Vec<String>,
}

/// How many runs may run at once. Those that wait are let in by their age.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Concurrency {
    /// Runs of all namespaces and profiles that name the same group share its slots.
    #[schemars(length(min = 1, max = 63), regex(pattern = bounds::DNS_LABEL))]
    pub group: String,
    /// How many at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub max: i32,
    /// How long a run may wait for a slot or for Kueue.
    #[serde(default = "one_week")]
    #[schemars(range(min = 10, max = 2_592_000))]
    pub wait_deadline_seconds: i64,
}

/// Who shares goldens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Goldens {
    /// The namespace whose goldens all runs of this profile may read. Its own runs alone write
    /// them; those of other namespaces make theirs apart. Left out: no goldens are shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = bounds::DNS_LABEL))]
    pub trusted_writer: Option<String>,
}

/// What workers may reach beside each other and the cluster's DNS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Blocks of addresses, such as `10.0.0.0/8`. Link-local addresses, where clouds keep the
    /// node's own credentials, are left out of blocks that have others, too.
    #[serde(default = "everywhere")]
    #[schemars(
        length(max = 32),
        inner(length(min = 1, max = 64), regex(pattern = r"^[0-9a-fA-F.:]+/[0-9]{1,3}$"))
    )]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub egress_cidrs: Vec<String>,
}

impl Default for Network {
    fn default() -> Self {
        Self { egress_cidrs: everywhere() }
    }
}

fn everywhere() -> Vec<String> {
    vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()]
}
