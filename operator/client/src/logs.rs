//! A run's workers.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use warpforge_operator_api::{BenchmarkRun, labels};

/// The annotation with a pod's index in its Job.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A worker of a run's attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker {
    pub attempt: u32,
    /// Such as `cpu-0`.
    pub name: String,
    pub pod: String,
    /// Whether its container has begun, so that there is something to read.
    pub started: bool,
}

/// The workers whose pods are there, in order. A finished run's are gone with its verdict stored.
pub async fn workers(api: &Api<Pod>, run: &BenchmarkRun) -> Result<Vec<Worker>, kube::Error> {
    let uid = run.metadata.uid.as_deref().unwrap_or_default();
    let selected = ListParams::default().labels(&format!("{}={uid}", labels::RUN_UID));
    let pods = api.list(&selected).await?;
    let mut all: Vec<_> = pods.items.iter().filter_map(worker).collect();
    all.sort();
    Ok(all)
}

fn worker(pod: &Pod) -> Option<Worker> {
    let group = pod.labels().get(labels::GROUP)?;
    let index = pod.annotations().get(INDEX)?;
    let status = pod.status.as_ref();
    let containers = status.into_iter().flat_map(|status| status.container_statuses.iter());
    let started = containers.flatten().any(|container| {
        let state = container.state.as_ref();
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    Some(Worker {
        attempt: pod.labels().get(labels::ATTEMPT)?.parse().ok()?,
        name: format!("{group}-{index}"),
        pod: pod.name_any(),
        started,
    })
}
