//! What is run, and what it needs: workloads, models, suites, data, and the object store.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// A workload that comes with WarpForge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Which one, such as `bert-squad`. `warpforge run --help` has all.
    #[schemars(length(min = 1, max = 63), regex(pattern = bounds::WORD))]
    pub name: String,
    /// How large: one of the workload's presets, such as `tiny`. Left out: the workload's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = bounds::WORD))]
    pub preset: Option<String>,
    /// Settings that differ from the preset's, as `warpforge run WORKLOAD --set` takes them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "bounds::texts::<64, 1024>")]
    pub parameters: BTreeMap<String, String>,
}

/// Any PyTorch model saved by `torch.export.save`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Where the `.pt2` file is: `s3://BUCKET/KEY`, or `data://CLAIM/PATH` for a file in one of
    /// `data.volumeClaims`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = bounds::URI))]
    pub uri: String,
    /// The model's inputs. Left out: they are drawn by the seed 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<ModelInputs>,
    /// Train the model in both passes. Left out: its forward computation is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Training>,
}

/// Where a model's inputs come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelInputs {
    /// Safetensors files with the inputs; a training uses several in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 1024), regex(pattern = bounds::URI)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub uris: Vec<String>,
    /// The seed of drawn inputs, recipes and dropout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub seed: Option<i64>,
}

/// How a model is trained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Training {
    /// How many updates of the parameters.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub steps: i32,
    /// The output to train on, if the model has several scalar ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub loss: Option<String>,
    /// Further options of `warpforge run --train` without their dashes, such as `lr: "1e-4"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "bounds::texts::<32, 253>")]
    pub settings: BTreeMap<String, String>,
}

/// A suite of `warpforge benchmark`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suite {
    /// Which one. `warpforge benchmark list` has all.
    #[schemars(length(min = 1, max = 63), regex(pattern = bounds::WORD))]
    pub name: String,
    /// Only these of its benchmarks, in this order. Left out: its defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63), regex(pattern = bounds::WORD)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub benchmarks: Vec<String>,
    /// Only what exercises these. Left out, and no benchmarks named: what a worker of its vendor
    /// has, so Cpu workers leave out gpu.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 6), extend("x-kubernetes-list-type" = "set"))]
    pub components: Vec<Component>,
    /// How long each benchmark measures, in place of its own time. A session with the network's
    /// other end lasts no longer than an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_000))]
    pub duration_seconds: Option<i32>,
    /// Parameters of the benchmarks that have them, such as `size_mib: "256"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "bounds::texts::<64, 1024>")]
    pub parameters: BTreeMap<String, String>,
}

/// A part of a worker's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Component {
    Cpu,
    Gpu,
    Ram,
    Storage,
    Network,
    /// The machine as a whole.
    System,
}

impl Component {
    pub const ALL: [Self; 6] =
        [Self::Cpu, Self::Gpu, Self::Ram, Self::Storage, Self::Network, Self::System];

    /// As `warpforge benchmark --component` calls it.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Ram => "ram",
            Self::Storage => "storage",
            Self::Network => "network",
            Self::System => "system",
        }
    }
}

/// A computation of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Pass {
    /// By PyTorch itself.
    Golden,
    /// By WarpForge's compiler and backends.
    Warpforge,
}

impl Pass {
    /// As a metric's label.
    pub fn label(self) -> &'static str {
        Stage::from(self).label()
    }
}

/// What a worker is at: a pass of a model, or a suite of benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Stage {
    /// PyTorch's own pass.
    Golden,
    /// WarpForge's pass.
    Warpforge,
    /// Benchmarks.
    Suite,
}

impl Stage {
    pub fn name(self) -> &'static str {
        match self {
            Self::Golden => "Golden",
            Self::Warpforge => "Warpforge",
            Self::Suite => "Suite",
        }
    }

    /// As a metric's label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Golden => "golden",
            Self::Warpforge => "warpforge",
            Self::Suite => "suite",
        }
    }
}

impl From<Pass> for Stage {
    fn from(pass: Pass) -> Self {
        match pass {
            Pass::Golden => Self::Golden,
            Pass::Warpforge => Self::Warpforge,
        }
    }
}

/// Data sets and weights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Data {
    /// Volumes with data sets or models, each mounted in every worker, read-only, as `/data/NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volume_claims: Vec<VolumeClaim>,
    /// A token for the Hugging Face hub, for data sets and weights that need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugging_face_token_secret: Option<SecretKey>,
    /// Licences that you accept, by their ID, for data that may not be used without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 63)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub accept_licenses: Vec<String>,
}

/// A volume of the run's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaim {
    /// The folder below `/data` that it appears as.
    #[schemars(length(min = 1, max = 40), regex(pattern = bounds::DNS_LABEL))]
    pub name: String,
    /// The PersistentVolumeClaim's name.
    #[schemars(length(min = 1, max = 253), regex(pattern = bounds::DNS_SUBDOMAIN))]
    pub claim_name: String,
}

/// One key of a secret in the run's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// The secret's name.
    #[schemars(length(min = 1, max = 253), regex(pattern = bounds::DNS_SUBDOMAIN))]
    pub name: String,
    /// The key in it.
    #[serde(default = "token")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

fn token() -> String {
    "token".to_owned()
}

/// Where results go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifacts {
    /// An object store that speaks S3.
    pub s3: S3,
}

/// An object store that speaks S3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3 {
    /// Its address, such as `https://minio.storage.svc:9000`. Left out: AWS, by the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^https?://[^\s@/\\?#]+$"))]
    pub endpoint: Option<String>,
    /// The region.
    #[serde(default = "region")]
    #[schemars(length(min = 1, max = 63), regex(pattern = bounds::WORD))]
    pub region: String,
    /// The bucket.
    #[schemars(length(min = 3, max = 63), regex(pattern = r"^[a-z0-9][-a-z0-9.]*[a-z0-9]$"))]
    pub bucket: String,
    /// What all keys begin with, such as `team-a/nightly`. A run's bundle lies below it, in
    /// NAMESPACE/NAME/UID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512), regex(pattern = r"^[-A-Za-z0-9_./=]*$"))]
    pub prefix: String,
    /// A secret with `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, in the run's namespace. Left
    /// out: the store needs none, or the pod's own identity serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = bounds::DNS_SUBDOMAIN))]
    pub credentials_secret: Option<String>,
}

fn region() -> String {
    "us-east-1".to_owned()
}
