//! The objects that a run becomes: Indexed Jobs, one headless Service, a ConfigMap with the
//! runner's two files for each attempt, and a NetworkPolicy. All are built from the stored snapshot
//! alone, so that building them again gives the same.

mod files;
mod job;
mod names;
mod network;
mod pod;

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use warpforge_operator_api::{GROUP, Resolved, VERSION, labels};

use crate::observed::{ChildId, ChildKind, JobSeen, RunSeen};

pub use files::rank_map;
pub(crate) use job::QUEUE;
pub use names::LONGEST_JOB;

/// The runner's container in every pod.
pub const CONTAINER: &str = "runner";

/// An object to create.
#[derive(Clone, Debug, PartialEq)]
pub enum Child {
    Job(Box<Job>),
    ConfigMap(Box<ConfigMap>),
    Service(Box<Service>),
    NetworkPolicy(Box<NetworkPolicy>),
}

impl Child {
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Job(child) => &child.metadata,
            Self::ConfigMap(child) => &child.metadata,
            Self::Service(child) => &child.metadata,
            Self::NetworkPolicy(child) => &child.metadata,
        }
    }

    pub fn id(&self) -> ChildId {
        let kind = match self {
            Self::Job(_) => ChildKind::Job,
            Self::ConfigMap(_) => ChildKind::ConfigMap,
            Self::Service(_) => ChildKind::Service,
            Self::NetworkPolicy(_) => ChildKind::NetworkPolicy,
        };
        ChildId::new(kind, self.metadata().name.clone().unwrap_or_default())
    }
}

/// What all children of an attempt are built from.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    pub run: &'a RunSeen,
    pub resolved: &'a Resolved,
    /// Counted from 1.
    pub attempt: i32,
    /// Nodes to keep away from.
    pub excluded_nodes: &'a [String],
}

/// Who lets an attempt's workers go, all of them at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The operator, by the Jobs' `suspend`.
    Operator,
    /// Kueue, by the only Job's `suspend`.
    KueueJob,
    /// Kueue, by the gates of the pods, which it counts as one group.
    KueuePods,
    /// Kueue, by the `suspend` of each of several Jobs: not all at once.
    Apart,
}

impl Gate {
    pub fn of(resolved: &Resolved) -> Self {
        match (&resolved.queue_name, resolved.workers.len()) {
            (None, _) => Self::Operator,
            (Some(_), 1) => Self::KueueJob,
            (Some(_), _) => Self::KueuePods,
        }
    }

    /// As it turned out: in a namespace with a queue named `default`, Kueue takes in Jobs that name
    /// none.
    pub fn seen(resolved: &Resolved, jobs: &[&JobSeen]) -> Self {
        let gate = Self::of(resolved);
        let taken = gate != Self::KueueJob && jobs.iter().any(|job| job.queue.is_some());
        match resolved.workers.len() {
            _ if !taken => gate,
            1 => Self::KueueJob,
            _ => Self::Apart,
        }
    }
}

impl Build<'_> {
    /// All children of the attempt, in the order in which they are created: what pods need comes
    /// before the Jobs.
    pub fn all(&self) -> Vec<Child> {
        let mut children = vec![
            Child::ConfigMap(Box::new(self.config_map())),
            Child::Service(Box::new(self.service())),
            Child::NetworkPolicy(Box::new(self.network_policy())),
        ];
        children.extend(
            self.resolved.workers.iter().map(|group| Child::Job(Box::new(self.job(group)))),
        );
        children
    }

    /// Names of all children, without building them.
    pub fn ids(&self) -> Vec<ChildId> {
        let mut ids = vec![
            ChildId::new(ChildKind::ConfigMap, self.config_map_name()),
            ChildId::new(ChildKind::Service, self.service_name()),
            ChildId::new(ChildKind::NetworkPolicy, self.network_policy_name()),
        ];
        ids.extend(
            self.resolved
                .workers
                .iter()
                .map(|group| ChildId::new(ChildKind::Job, self.job_name(&group.name))),
        );
        ids
    }

    fn metadata(&self, name: String, more: &[(&str, String)]) -> ObjectMeta {
        let mut all = self.selector();
        all.insert(labels::MANAGED_BY.into(), labels::MANAGED_BY_VALUE.into());
        all.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.run.namespace.clone()),
            labels: Some(all),
            annotations: Some(self.annotations()),
            owner_references: Some(vec![self.owner()]),
            ..ObjectMeta::default()
        }
    }

    /// Labels that all pods of the run have, and no others.
    fn selector(&self) -> BTreeMap<String, String> {
        [(labels::RUN_UID.to_owned(), self.run.uid.clone())].into()
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        [(labels::RUN_NAME.to_owned(), self.run.name.clone())].into()
    }

    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: "BenchmarkRun".to_owned(),
            name: self.run.name.clone(),
            uid: self.run.uid.clone(),
            controller: Some(true),
            // Needs the right to set finalizers on runs; the run has none that would wait for it.
            block_owner_deletion: None,
        }
    }
}
