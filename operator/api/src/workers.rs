//! Who runs it: groups of alike workers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::quantity::Quantity;

/// Workers that are alike: as many pods, each with the same devices, image and resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.vendor != 'Cpu' || !has(self.gpusPerWorker) || self.gpusPerWorker == 0",
        "message": "a Cpu worker has no GPUs",
    },
]))]
pub struct WorkerGroup {
    /// Tells the group from others of the run.
    #[schemars(length(min = 1, max = 20), regex(pattern = bounds::DNS_LABEL))]
    pub name: String,
    /// How many workers.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 256))]
    pub replicas: i32,
    /// Whose devices compute.
    pub vendor: Vendor,
    /// Devices of each worker. Left out: one, or none for Cpu.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub gpus_per_worker: Option<i32>,
    /// The resource that the device plugin offers. Left out: `nvidia.com/gpu` or `amd.com/gpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = bounds::QUALIFIED_NAME))]
    pub gpu_resource_name: Option<String>,
    /// Network adapters for RDMA. Left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<Rdma>,
    /// Labels that a worker's node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "bounds::texts::<16, 63>")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that do not keep a worker away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<Toleration>,
    /// The runner's image. Left out: the profile's for this vendor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = bounds::IMAGE))]
    pub image: Option<String>,
    /// Processors, memory and the like. What is left out comes from the profile.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    /// Environment variables with literal values; secrets have places of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<Variable>,
}

impl WorkerGroup {
    /// One worker, with everything else left out.
    pub fn new(name: &str, vendor: Vendor) -> Self {
        Self {
            name: name.to_owned(),
            replicas: 1,
            vendor,
            gpus_per_worker: None,
            gpu_resource_name: None,
            rdma: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            image: None,
            resources: Resources::default(),
            env: Vec::new(),
        }
    }
}

fn one() -> i32 {
    1
}

/// Whose devices compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Vendor {
    Nvidia,
    Amd,
    Cpu,
}

impl Vendor {
    /// The resource that the vendor's own device plugin offers.
    pub fn resource(self) -> Option<&'static str> {
        match self {
            Self::Nvidia => Some("nvidia.com/gpu"),
            Self::Amd => Some("amd.com/gpu"),
            Self::Cpu => None,
        }
    }
}

/// Network adapters for RDMA, as a device plugin offers them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rdma {
    /// The device plugin's resource, such as `rdma/hca_shared_devices_a`.
    #[schemars(length(min = 1, max = 253), regex(pattern = bounds::QUALIFIED_NAME))]
    pub resource_name: String,
    /// How many of each worker.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub count: i32,
}

/// Processors, memory and other resources of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What the node must have free.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "bounds::quantities")]
    pub requests: BTreeMap<String, Quantity>,
    /// What the container may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "bounds::quantities")]
    pub limits: BTreeMap<String, Quantity>,
}

impl Resources {
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.limits.is_empty()
    }
}

/// A taint that does not keep a pod away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The taint's key. Left out, with the operator Exists: all taints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317), regex(pattern = bounds::QUALIFIED_NAME))]
    pub key: Option<String>,
    /// How the value is compared.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// The taint's value, for the operator Equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// The taint's effect. Left out: all effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// How long a running worker stays on a node that becomes so tainted. Left out: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub toleration_seconds: Option<i64>,
}

/// How a toleration's value is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    Exists,
    #[default]
    Equal,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// An environment variable with a literal value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    #[schemars(length(min = 1, max = 253), regex(pattern = bounds::VARIABLE))]
    pub name: String,
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub value: String,
}
