//! A pod as the operator sees it.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};
use warpforge_operator_api::{Time, labels};

use super::time;
use crate::children::CONTAINER;

/// Where the Job controller writes a pod's index.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A worker's pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSeen {
    pub name: String,
    pub group: String,
    pub attempt: i32,
    pub index: u32,
    pub phase: PodPhase,
    pub created: Time,
    pub node: Option<String>,
    pub ip: Option<String>,
    /// Someone deleted it, and it has not gone yet.
    pub deleting: bool,
    /// Held back by a scheduling gate, such as Kueue's.
    pub gated: bool,
    /// What keeps it from starting.
    pub waiting: Option<Waiting>,
    /// What the cluster did to it.
    pub disruption: Option<Disruption>,
    pub end: Option<PodEnd>,
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    /// The node no longer reports.
    Unknown,
}

/// What keeps a pod from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    Unschedulable {
        message: String,
    },
    ImagePull {
        image: String,
        /// Waiting longer cannot help.
        hopeless: bool,
    },
    NotStarted {
        reason: String,
        message: String,
    },
}

/// What the cluster did to a pod, by the reason of its condition `DisruptionTarget` or its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disruption {
    Evicted,
    Preempted,
    /// Kueue took back its admission, and says why.
    Dequeued {
        message: String,
    },
    NodeLost,
    DeviceLost,
}

/// How a pod's container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEnd {
    /// `None` if the container never ran.
    pub exit_code: Option<i32>,
    pub out_of_memory: bool,
    /// The container could not be started at all.
    pub not_started: bool,
    /// The termination message, as it was left.
    pub text: String,
    pub at: Option<Time>,
}

/// A pod as plain data, if it carries the run's labels. Its Job owns it, and the Job's owner is
/// the run; the caller selects by Job.
pub fn pod(pod: &Pod, run: &str) -> Option<PodSeen> {
    let metadata = &pod.metadata;
    let label = |key: &str| metadata.labels.as_ref()?.get(key);
    label(labels::RUN_UID).filter(|uid| *uid == run)?;
    let index =
        metadata.annotations.as_ref().and_then(|all| all.get(INDEX)).or_else(|| label(INDEX));
    let empty = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&empty);
    let phase = phase(status);
    let container = container(status);
    let spec = pod.spec.as_ref();
    Some(PodSeen {
        name: metadata.name.clone()?,
        group: label(labels::GROUP)?.clone(),
        attempt: label(labels::ATTEMPT)?.parse().ok()?,
        index: index?.parse().ok()?,
        phase,
        created: time(metadata.creation_timestamp.as_ref())?,
        node: spec.and_then(|spec| spec.node_name.clone()),
        ip: status.pod_ip.clone(),
        deleting: metadata.deletion_timestamp.is_some(),
        gated: spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|g| !g.is_empty()),
        waiting: waiting(status, container),
        disruption: disruption(status),
        end: end(phase, container),
    })
}

fn phase(status: &PodStatus) -> PodPhase {
    match status.phase.as_deref() {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Unknown") => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

fn container(status: &PodStatus) -> Option<&ContainerStatus> {
    status.container_statuses.iter().flatten().find(|container| container.name == CONTAINER)
}

fn waiting(status: &PodStatus, container: Option<&ContainerStatus>) -> Option<Waiting> {
    let conditions = || status.conditions.iter().flatten();
    if let Some(condition) = conditions().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    }) {
        let message = condition.message.clone().unwrap_or_default();
        return Some(Waiting::Unschedulable { message });
    }
    let container = container?;
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let image = container.image.clone();
    match reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "RegistryUnavailable"
        | "ImageInspectError"
        | "SignatureValidationFailed" => Some(Waiting::ImagePull { image, hopeless: false }),
        "InvalidImageName" | "ErrImageNeverPull" => {
            Some(Waiting::ImagePull { image, hopeless: true })
        }
        "CreateContainerConfigError"
        | "CreateContainerError"
        | "RunContainerError"
        | "CrashLoopBackOff" => Some(Waiting::NotStarted {
            reason: reason.to_owned(),
            message: waiting.message.clone().unwrap_or_default(),
        }),
        _ => None,
    }
}

fn disruption(status: &PodStatus) -> Option<Disruption> {
    let met = |type_: &'static str| {
        let all = status.conditions.iter().flatten();
        all.filter(move |condition| condition.type_ == type_ && condition.status == "True")
    };
    if let Some(condition) = met("TerminationTarget").next() {
        let message = condition.message.clone().unwrap_or_default();
        return Some(Disruption::Dequeued { message });
    }
    let target = met("DisruptionTarget");
    let by_condition = target.filter_map(|condition| condition.reason.as_deref());
    let by_status = status.reason.as_deref();
    by_condition.chain(by_status).find_map(|reason| match reason {
        "PreemptionByScheduler" | "Preempting" | "Preempted" => Some(Disruption::Preempted),
        "DeletionByTaintManager"
        | "DeletionByPodGC"
        | "NodeLost"
        | "NodeShutdown"
        | "Shutdown"
        | "Terminated"
        | "NodeAffinity" => Some(Disruption::NodeLost),
        "EvictionByEvictionAPI" | "TerminationByKubelet" | "Evicted" => Some(Disruption::Evicted),
        "UnexpectedAdmissionError" => Some(Disruption::DeviceLost),
        // The kubelet refuses a pod for which the scheduler saw room that is gone.
        reason if reason.starts_with("OutOf") => Some(Disruption::DeviceLost),
        _ => None,
    })
}

fn end(phase: PodPhase, container: Option<&ContainerStatus>) -> Option<PodEnd> {
    let state = container.and_then(|container| container.state.as_ref());
    let terminated = match state {
        Some(ContainerState { terminated: Some(terminated), .. }) => terminated,
        // A pod may fail without its container: evicted, or refused by the kubelet.
        _ if phase == PodPhase::Failed => {
            return Some(PodEnd {
                exit_code: None,
                out_of_memory: false,
                not_started: false,
                text: String::new(),
                at: None,
            });
        }
        _ => return None,
    };
    let reason = terminated.reason.as_deref().unwrap_or_default();
    Some(PodEnd {
        exit_code: Some(terminated.exit_code),
        out_of_memory: reason == "OOMKilled",
        not_started: matches!(reason, "StartError" | "ContainerCannotRun"),
        text: terminated.message.clone().unwrap_or_default(),
        at: time(terminated.finished_at.as_ref()),
    })
}
