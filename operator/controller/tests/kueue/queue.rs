//! A queue of Kueue's for one scene, with a quota of its own.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use warpforge_operator_api::BenchmarkRun;

use super::scene::{Scene, until};

/// Where pods of a queue go: Kueue writes it into them.
pub const POOL: (&str, &str) = ("warpforge.test/pool", "lab");
const FLAVOR: &str = "lab";
pub const GPU: &str = "nvidia.com/gpu";

fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("kueue.x-k8s.io", "v1beta1", kind))
}

fn object(kind: &str, name: &str, spec: &Value) -> DynamicObject {
    DynamicObject::new(name, &resource(kind)).data(json!({ "spec": spec }))
}

/// Makes the flavor that all quotas are of; its webhook must answer.
pub async fn flavor(client: &Client) -> Result<(), kube::Error> {
    let flavors: Api<DynamicObject> = Api::all_with(client.clone(), &resource("ResourceFlavor"));
    let flavor = object("ResourceFlavor", FLAVOR, &json!({ "nodeLabels": { POOL.0: POOL.1 } }));
    flavors.create(&PostParams::default(), &flavor).await.map(drop)
}

pub async fn are_served(client: &Client) -> bool {
    let workloads: Api<DynamicObject> = Api::all_with(client.clone(), &resource("Workload"));
    workloads.list(&ListParams::default()).await.is_ok()
}

pub struct Queue<'a> {
    scene: &'a Scene,
    /// Of the `ClusterQueue`, which is the scene's own.
    name: String,
}

impl<'a> Queue<'a> {
    /// Lets so many workers in at once, each with a processor, and so many with a GPU.
    pub async fn new(scene: &'a Scene, local: &str, workers: u32, gpus: u32) -> Self {
        let queue = Self { scene, name: scene.namespace.clone() };
        let spec = json!({
            "namespaceSelector": {},
            "preemption": { "withinClusterQueue": "LowerPriority" },
            "resourceGroups": [quota(workers, gpus)],
        });
        let made = object("ClusterQueue", &queue.name, &spec);
        queue.cluster().create(&PostParams::default(), &made).await.unwrap();
        let made = object("LocalQueue", local, &json!({ "clusterQueue": queue.name }));
        let locals: Api<DynamicObject> =
            Api::namespaced_with(scene.client.clone(), &scene.namespace, &resource("LocalQueue"));
        locals.create(&PostParams::default(), &made).await.unwrap();
        until("the queue to be active", async || {
            let seen = locals.get(local).await.ok()?;
            let conditions = seen.data["status"]["conditions"].as_array()?.clone();
            let active = |one: &Value| one["type"] == "Active" && one["status"] == "True";
            conditions.iter().any(active).then_some(())
        })
        .await;
        queue
    }

    fn cluster(&self) -> Api<DynamicObject> {
        Api::all_with(self.scene.client.clone(), &resource("ClusterQueue"))
    }

    pub async fn allow(&self, workers: u32, gpus: u32) {
        self.edit(json!({ "resourceGroups": [quota(workers, gpus)] })).await;
    }

    /// As an administrator who takes the queue out of service, or brings it back.
    pub async fn stop(&self, policy: &str) {
        self.edit(json!({ "stopPolicy": policy })).await;
    }

    async fn edit(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.cluster().patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// What Kueue holds of the scene's runs.
    pub async fn workloads(&self) -> Vec<DynamicObject> {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.scene.client.clone(),
            &self.scene.namespace,
            &resource("Workload"),
        );
        api.list(&ListParams::default()).await.unwrap().items
    }

    pub async fn until_workloads(&self, count: usize) -> Vec<DynamicObject> {
        until(&format!("{count} Workloads"), async || {
            Some(self.workloads().await).filter(|found| found.len() == count)
        })
        .await
    }

    /// Nothing of a run is left, neither ours nor Kueue's.
    pub async fn nothing_is_left(&self, run: &BenchmarkRun) {
        let name = run.name_any();
        until(&format!("all of {name} to go"), async || {
            let pods: Api<Pod> = self.scene.api();
            let pods = pods.list(&ListParams::default()).await.unwrap().items;
            // A kubelet ends what was deleted while it ran.
            for pod in pods.iter().filter(|pod| is_stopping(pod)) {
                self.scene.ends(pod, 137, "").await;
            }
            let none = self.workloads().await.is_empty() && self.scene.jobs().await.is_empty();
            (none && pods.is_empty()).then_some(())
        })
        .await;
    }
}

fn quota(workers: u32, gpus: u32) -> Value {
    let quotas = [("cpu", workers), ("memory", 1000), (GPU, gpus)].map(|(name, count)| {
        let unit = if name == "memory" { "Gi" } else { "" };
        json!({ "name": name, "nominalQuota": format!("{count}{unit}") })
    });
    json!({
        "coveredResources": ["cpu", "memory", GPU],
        "flavors": [{ "name": FLAVOR, "resources": quotas }],
    })
}

/// Whether Kueue has given a Workload its quota.
pub fn admitted(workload: &DynamicObject) -> bool {
    let conditions = workload.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|one| one["type"] == "Admitted" && one["status"] == "True")
}

fn is_stopping(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_some() && phase == Some("Running")
}

/// Whether a pod may be scheduled.
pub fn free(pod: &Pod) -> bool {
    pod.spec.as_ref().unwrap().scheduling_gates.as_ref().is_none_or(Vec::is_empty)
}
