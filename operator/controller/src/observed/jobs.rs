//! A Job as the operator sees it.

use k8s_openapi::api::batch::v1::Job;
use warpforge_operator_api::labels;

use crate::children::QUEUE;

/// A Job of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    pub name: String,
    pub group: String,
    pub attempt: i32,
    pub suspended: bool,
    /// The queue of Kueue that it is in.
    pub queue: Option<String>,
    pub deleting: bool,
    pub end: Option<JobEnd>,
}

/// How a Job ended, as the Job controller has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    Complete,
    Failed { reason: String, message: String },
}

/// A Job as plain data, if it is a child of the run with this UID. A Job that only carries the
/// labels is someone else's.
pub fn job(job: &Job, run: &str) -> Option<JobSeen> {
    let owners = job.metadata.owner_references.iter().flatten();
    owners.into_iter().find(|owner| owner.uid == run && owner.controller == Some(true))?;
    let label = |key: &str| job.metadata.labels.as_ref()?.get(key);
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut met = conditions.filter(|condition| condition.status == "True");
    Some(JobSeen {
        name: job.metadata.name.clone()?,
        group: label(labels::GROUP)?.clone(),
        attempt: label(labels::ATTEMPT)?.parse().ok()?,
        suspended: job.spec.as_ref().and_then(|spec| spec.suspend).unwrap_or(false),
        queue: label(QUEUE).cloned(),
        deleting: job.metadata.deletion_timestamp.is_some(),
        end: met.find_map(|condition| match condition.type_.as_str() {
            "Complete" | "SuccessCriteriaMet" => Some(JobEnd::Complete),
            "Failed" | "FailureTarget" => Some(JobEnd::Failed {
                reason: condition.reason.clone().unwrap_or_default(),
                message: condition.message.clone().unwrap_or_default(),
            }),
            _ => None,
        }),
    })
}
