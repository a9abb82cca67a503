//! A worker group's Job.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{PodSchedulingGate, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use warpforge_operator_api::labels;
use warpforge_operator_api::resolved::ResolvedGroup;

use super::{Build, Gate};

/// By which Kueue knows what to admit, and into which queue.
pub(crate) const QUEUE: &str = "kueue.x-k8s.io/queue-name";
const POD_GROUP: &str = "kueue.x-k8s.io/pod-group-name";
const POD_GROUP_TOTAL: &str = "kueue.x-k8s.io/pod-group-total-count";
const RETRIABLE: &str = "kueue.x-k8s.io/retriable-in-group";
const GATE: &str = "kueue.x-k8s.io/admission";

impl Build<'_> {
    /// An Indexed Job that never retries: only the operator does, the whole gang, under new names.
    pub(super) fn job(&self, group: &ResolvedGroup) -> Job {
        let gate = Gate::of(self.resolved);
        let attempt = self.attempt.to_string();
        let mut more = vec![(labels::GROUP, group.name.clone()), (labels::ATTEMPT, attempt)];
        let mut template = self.selector();
        template.insert(labels::MANAGED_BY.into(), labels::MANAGED_BY_VALUE.into());
        template.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        let mut annotations = self.annotations();
        let queue = self.resolved.queue_name.clone().unwrap_or_default();
        let mut pod = self.pod(group);
        match gate {
            Gate::Operator | Gate::Apart => {}
            Gate::KueueJob => more.push((QUEUE, queue)),
            Gate::KueuePods => {
                self.pod_group(queue, &mut template, &mut annotations);
                // Kueue adds it by itself, if it looks after pods. If not, they wait all the same.
                pod.scheduling_gates = Some(vec![PodSchedulingGate { name: GATE.to_owned() }]);
            }
        }
        Job {
            metadata: self.metadata(self.job_name(&group.name), &more),
            spec: Some(JobSpec {
                completion_mode: Some("Indexed".to_owned()),
                completions: Some(group.replicas),
                parallelism: Some(group.replicas),
                backoff_limit: Some(0),
                pod_replacement_policy: Some("Failed".to_owned()),
                suspend: Some(gate != Gate::KueuePods),
                // Should the operator never come back, pods still end.
                active_deadline_seconds: Some(self.resolved.run_deadline_seconds),
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta {
                        labels: Some(template),
                        annotations: Some(annotations),
                        ..ObjectMeta::default()
                    }),
                    spec: Some(pod),
                },
                ..JobSpec::default()
            }),
            status: None,
        }
    }

    /// All pods of the attempt as one unit, so that no group is admitted without the others.
    fn pod_group(
        &self,
        queue: String,
        labels: &mut BTreeMap<String, String>,
        annotations: &mut BTreeMap<String, String>,
    ) {
        labels.insert(QUEUE.to_owned(), queue);
        labels.insert(POD_GROUP.to_owned(), self.config_map_name());
        let total = self.resolved.worker_count().to_string();
        annotations.insert(POD_GROUP_TOTAL.to_owned(), total);
        // Nobody replaces a pod. Kueue would wait for that, and hold pods and quota until then.
        annotations.insert(RETRIABLE.to_owned(), "false".to_owned());
    }
}
