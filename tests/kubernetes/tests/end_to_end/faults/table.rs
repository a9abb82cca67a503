//! The faults, and how a run ends that each happens to.

use serde_json::{Value, json};
use warpforge_operator_api::Verdict;
use warpforge_test_kubernetes::{Error, Node};

use crate::world::{merge, worker};

/// The slow way to the object store.
pub const SLOW: &str = "http://172.30.0.1:8334";

/// A fault, and how a run ends that it happens to.
pub struct Fault {
    pub name: &'static str,
    /// What the run asks for beyond the small demo.
    pub asks: fn() -> Value,
    pub harm: Harm,
    pub verdict: Verdict,
    /// Or what ends so: which process the kernel kills for want of memory is its own choice, and it
    /// may be golden's.
    pub reason: &'static str,
}

/// What is done, and when.
#[derive(Clone, Copy)]
pub enum Harm {
    /// The request itself is enough.
    Nothing,
    /// To the object store, before the run is there.
    Store,
    /// To the way to the object store, which takes so many bytes a second.
    Slow(u64),
    /// To the object store's disk, once the run is running: for so many seconds, or until the run
    /// has ended.
    Full(Option<u64>),
    /// To one GPU of every node, before the run is there.
    Devices,
    /// To all GPUs of the worker's node, once the run is running.
    Device,
    /// The same, and the node's kubelet starts anew.
    DeviceAndKubelet,
    /// To the worker's node, once the run is running; mended when it has ended.
    Node(fn(&Node) -> Result<(), Error>, fn(&Node) -> Result<(), Error>),
    /// The worker's node loses its power and is taken out of the cluster.
    NodeDeleted,
    /// To the API server, for so many seconds, once the run is running.
    ApiServer(u64),
    /// To the profile, once the run is running.
    Profile,
    /// To every process of the worker with this name, once it is there.
    Kill(&'static str),
}

fn nothing() -> Value {
    json!({})
}

fn memory(limit: &str) -> Value {
    worker(json!({ "resources": { "requests": { "memory": "32Mi" },
                                  "limits": { "memory": limit } } }))
}

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "unschedulable",
        asks: || {
            let much = json!({ "resources": { "requests": { "cpu": "100000" } } });
            let mut spec = worker(much);
            merge(&mut spec, json!({ "pendingDeadlineSeconds": 20 }));
            spec
        },
        harm: Harm::Nothing,
        verdict: Verdict::Inconclusive,
        reason: "Unschedulable",
    },
    Fault {
        name: "image-missing",
        asks: || {
            let mut spec = worker(json!({ "image": "warpforge.test/runner-cpu:none" }));
            merge(&mut spec, json!({ "pendingDeadlineSeconds": 60 }));
            spec
        },
        harm: Harm::Nothing,
        verdict: Verdict::Inconclusive,
        reason: "ImagePullFailed",
    },
    Fault {
        name: "secret-missing",
        asks: || {
            json!({
                "pendingDeadlineSeconds": 40,
                "data": { "huggingFaceTokenSecret": { "name": "none", "key": "token" } },
            })
        },
        harm: Harm::Nothing,
        verdict: Verdict::Inconclusive,
        reason: "ContainerNotStarted",
    },
    Fault {
        name: "driver-missing",
        asks: || {
            json!({
                "goldenPolicy": "Only",
                "workers": [{ "name": "gpu", "vendor": "Nvidia", "gpusPerWorker": 1,
                              "image": "warpforge.test/runner-cpu:1" }],
            })
        },
        harm: Harm::Nothing,
        verdict: Verdict::Inconclusive,
        reason: "PreflightFailed/DriverMissing",
    },
    Fault {
        name: "devices-broken",
        asks: || {
            json!({
                "goldenPolicy": "Only",
                "pendingDeadlineSeconds": 30,
                "workers": [{ "name": "gpu", "vendor": "Nvidia", "gpusPerWorker": 8,
                              "image": "warpforge.test/runner-cpu:1" }],
            })
        },
        harm: Harm::Devices,
        verdict: Verdict::Inconclusive,
        reason: "Unschedulable",
    },
    Fault {
        name: "out-of-memory",
        asks: || memory("40Mi"),
        harm: Harm::Nothing,
        verdict: Verdict::Inconclusive,
        reason: "OutOfMemory",
    },
    Fault {
        name: "golden-out-of-memory",
        asks: || {
            let mut spec = memory("96Mi");
            merge(&mut spec, json!({ "goldenPolicy": "Only" }));
            spec
        },
        harm: Harm::Nothing,
        verdict: Verdict::Inconclusive,
        reason: "GoldenOutOfMemory",
    },
    Fault {
        name: "agent-killed",
        asks: nothing,
        harm: Harm::Kill("agent"),
        verdict: Verdict::Inconclusive,
        reason: "RunnerLost",
    },
    Fault {
        name: "store-away",
        asks: nothing,
        harm: Harm::Store,
        verdict: Verdict::Inconclusive,
        reason: "PreflightFailed/StoreNotWritable",
    },
    Fault {
        name: "store-refuses",
        asks: || {
            json!({ "artifacts": { "s3": { "endpoint": "http://172.30.0.1:8333", "bucket": "results",
                                           "prefix": "runs", "credentialsSecret": "reader" } } })
        },
        harm: Harm::Nothing,
        verdict: Verdict::Inconclusive,
        reason: "PreflightFailed/StoreNotWritable",
    },
    Fault {
        name: "bucket-missing",
        asks: || {
            json!({ "artifacts": { "s3": { "endpoint": "http://172.30.0.1:8333", "bucket": "nowhere",
                                           "prefix": "runs", "credentialsSecret": "s3" } } })
        },
        harm: Harm::Nothing,
        verdict: Verdict::Inconclusive,
        reason: "PreflightFailed/StoreNotWritable",
    },
    Fault {
        name: "store-slow",
        asks: the_slow_way,
        harm: Harm::Slow(16_000_000),
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
    Fault {
        name: "gpu-unhealthy",
        asks: with_gpu,
        harm: Harm::Device,
        // The kubelet lets a pod keep what it has; a computation that it breaks says so itself.
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
    Fault {
        name: "api-server-away",
        asks: nothing,
        harm: Harm::ApiServer(30),
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
    Fault {
        name: "profile-deleted",
        asks: nothing,
        harm: Harm::Profile,
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
];

/// Those that take minutes: a node is given a minute to come back, a store five.
pub const LONG: &[Fault] = &[
    Fault {
        name: "gpu-unhealthy-and-kubelet-restarted",
        asks: || {
            let mut spec = with_gpu();
            merge(&mut spec, json!({ "workload": { "parameters": { "steps": "100" } } }));
            spec
        },
        harm: Harm::DeviceAndKubelet,
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
    Fault {
        name: "store-very-slow",
        asks: the_slow_way,
        harm: Harm::Slow(500_000),
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
    Fault {
        name: "store-full-for-a-while",
        asks: nothing,
        harm: Harm::Full(Some(60)),
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
    Fault {
        name: "store-full",
        asks: nothing,
        harm: Harm::Full(None),
        verdict: Verdict::Inconclusive,
        reason: "UploadFailed",
    },
    Fault {
        name: "node-without-power",
        asks: long,
        harm: Harm::Node(Node::crash, Node::start),
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
    Fault {
        name: "node-deleted",
        asks: long,
        harm: Harm::NodeDeleted,
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
    Fault {
        name: "node-frozen",
        asks: long,
        harm: Harm::Node(Node::freeze, Node::thaw),
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
    Fault {
        name: "node-cut-off",
        asks: long,
        harm: Harm::Node(Node::cut, Node::join),
        verdict: Verdict::Pass,
        reason: "Agrees",
    },
];

fn the_slow_way() -> Value {
    json!({ "artifacts": { "s3": { "endpoint": SLOW, "bucket": "results", "prefix": "slow",
                                   "credentialsSecret": "s3" } } })
}

/// A worker that has a GPU, and does not look for it.
fn with_gpu() -> Value {
    worker(json!({ "resources": { "limits": { "nvidia.com/gpu": "1" } } }))
}

/// Still running when its node is found to be lost; a rule has it tried again elsewhere.
fn long() -> Value {
    json!({
        "workload": { "parameters": { "steps": "300", "noise_runs": "2" } },
        "failurePolicy": { "maxRestarts": 1, "rules": [
            { "when": { "reasons": ["NodeLost"] }, "action": "RetryExcludingNode" },
        ]},
    })
}
