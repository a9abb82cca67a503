//! The runner's two files.

use k8s_openapi::api::core::v1::ConfigMap;
use warpforge_operator_api::contract::{
    RANKS_FILE, RENDEZVOUS_PORT, Rank, RankMap, RunRef, RunnerSpec, SPEC_FILE, VERSION,
};
use warpforge_operator_api::labels;

use super::Build;

/// All workers of an attempt by rank: group by group, in the order of the spec.
pub fn rank_map(build: &Build<'_>) -> RankMap {
    let service = build.service_name();
    let workers = build.resolved.workers.iter().flat_map(|group| {
        let job = build.job_name(&group.name);
        let service = &service;
        let namespace = &build.run.namespace;
        (0..group.replicas.unsigned_abs()).map(move |index| Rank {
            rank: 0,
            group: group.name.clone(),
            index,
            host: format!("{job}-{index}.{service}.{namespace}.svc"),
            vendor: group.vendor,
            gpus: group.gpus.as_ref().map_or(0, |gpus| gpus.count.unsigned_abs()),
        })
    });
    let ranks = (0..).zip(workers).map(|(rank, worker)| Rank { rank, ..worker }).collect();
    RankMap { version: VERSION, port: RENDEZVOUS_PORT, ranks }
}

impl Build<'_> {
    pub(super) fn config_map(&self) -> ConfigMap {
        let started = self.run.status.started_at;
        let spec = RunnerSpec {
            version: VERSION,
            run: RunRef {
                namespace: self.run.namespace.clone(),
                name: self.run.name.clone(),
                uid: self.run.uid.clone(),
            },
            attempt: self.attempt,
            deadline: started.map(|start| start.plus(self.resolved.run_deadline_seconds)),
            spec: self.resolved.clone(),
        };
        // Plain structures of strings and numbers: there is nothing that JSON could not hold.
        let files = [
            (SPEC_FILE, serde_json::to_string_pretty(&spec)),
            (RANKS_FILE, serde_json::to_string_pretty(&rank_map(self))),
        ];
        let data = files.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.ok()?)));
        ConfigMap {
            metadata: self
                .metadata(self.config_map_name(), &[(labels::ATTEMPT, self.attempt.to_string())]),
            data: Some(data.collect()),
            immutable: Some(true),
            ..ConfigMap::default()
        }
    }
}
