//! What the operator sees of one run, as plain data. Objects of the cluster are read by pure
//! functions ([`job`], [`pod`], [`claims`]); nothing later looks at them again.

mod jobs;
mod pods;
mod slots;

use std::collections::BTreeSet;

use warpforge_operator_api::contract::Progress;
use warpforge_operator_api::{BenchmarkProfileSpec, BenchmarkRun, BenchmarkRunStatus, Time};

pub use jobs::{JobEnd, JobSeen, job};
pub use pods::{Disruption, INDEX, PodEnd, PodPhase, PodSeen, Waiting, pod};
pub use slots::{Claim, claim, claims, holds_slot};

/// All that is seen of a run at one time.
#[derive(Clone, Debug)]
pub struct Observed {
    pub run: RunSeen,
    /// The profile that the run names, if it exists.
    pub profile: Option<ProfileSeen>,
    /// The run's Jobs, of all attempts.
    pub jobs: Vec<JobSeen>,
    /// Pods of those Jobs.
    pub pods: Vec<PodSeen>,
    /// The run's other children, without those that are being deleted.
    pub others: BTreeSet<ChildId>,
    /// Claims to slots of the run's concurrency group, without its own.
    pub claims: Vec<Claim>,
    /// What the leader last answered.
    pub progress: Option<Answer>,
}

/// A leader's answer to the question how far it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The attempt whose leader was asked.
    pub attempt: i32,
    pub at: Time,
    pub progress: Progress,
}

/// The run itself.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSeen {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub created: Time,
    /// Someone deleted it, and a finalizer still holds it.
    pub deleting: bool,
    pub status: BenchmarkRunStatus,
}

/// The profile, as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileSeen {
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub spec: BenchmarkProfileSpec,
}

/// A kind of child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChildKind {
    Job,
    ConfigMap,
    Service,
    NetworkPolicy,
}

/// A child by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildId {
    pub kind: ChildKind,
    pub name: String,
}

impl ChildId {
    pub fn new(kind: ChildKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }
}

/// The run as plain data; `None` if it has no name or UID yet, which no object of a cluster lacks.
pub fn run(run: &BenchmarkRun) -> Option<RunSeen> {
    let metadata = &run.metadata;
    Some(RunSeen {
        namespace: metadata.namespace.clone()?,
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
        generation: metadata.generation.unwrap_or_default(),
        created: time(metadata.creation_timestamp.as_ref())?,
        deleting: metadata.deletion_timestamp.is_some(),
        status: run.status.clone().unwrap_or_default(),
    })
}

fn time(time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>) -> Option<Time> {
    time.map(|time| Time::from(time.0))
}
