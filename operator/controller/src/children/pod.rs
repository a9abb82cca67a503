//! A worker's pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource,
    EnvVar, EnvVarSource, LocalObjectReference, NodeAffinity, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, ObjectFieldSelector,
    PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, ResourceRequirements,
    SeccompProfile, SecretKeySelector, SecurityContext, Toleration, TopologySpreadConstraint,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use warpforge_operator_api::contract::{FOLDER, HTTP_PORT, TERMINATION_FILE, env};
use warpforge_operator_api::labels;
use warpforge_operator_api::resolved::ResolvedGroup;
use warpforge_operator_api::workers::{TaintEffect, TolerationOperator};

use super::{Build, CONTAINER};
use crate::observed::INDEX;

/// The user and group of runner images; an image without a passwd entry would have group 0.
const NOBODY: i64 = 65532;
/// How long a worker stays on a node that no longer reports. Kubernetes' five minutes would be
/// spent waiting for peers that never answer.
const LOST_AFTER_SECONDS: i64 = 60;

impl Build<'_> {
    pub(super) fn pod(&self, group: &ResolvedGroup) -> PodSpec {
        let pull = self.resolved.image_pull_secrets.iter();
        let pull: Vec<_> = pull.map(|name| LocalObjectReference { name: name.clone() }).collect();
        PodSpec {
            restart_policy: Some("Never".to_owned()),
            subdomain: Some(self.service_name()),
            service_account_name: Some(self.resolved.service_account_name.clone()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            priority_class_name: self.resolved.priority_class_name.clone(),
            image_pull_secrets: Some(pull).filter(|pull| !pull.is_empty()),
            node_selector: Some(group.node_selector.clone()).filter(|all| !all.is_empty()),
            affinity: self.affinity(),
            tolerations: Some(tolerations(group)),
            topology_spread_constraints: Some(vec![self.spread()]),
            termination_grace_period_seconds: Some(30),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(NOBODY),
                run_as_group: Some(NOBODY),
                fs_group: Some(NOBODY),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    localhost_profile: None,
                }),
                ..PodSecurityContext::default()
            }),
            volumes: Some(self.volumes()),
            containers: vec![self.container(group)],
            ..PodSpec::default()
        }
    }

    fn container(&self, group: &ResolvedGroup) -> Container {
        Container {
            name: CONTAINER.to_owned(),
            image: Some(group.image.clone()),
            args: Some(vec!["agent".to_owned()]),
            env: Some(self.env(group)),
            ports: Some(vec![ContainerPort {
                name: Some("http".to_owned()),
                container_port: i32::from(HTTP_PORT),
                ..ContainerPort::default()
            }]),
            resources: Some(resources(group)),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                read_only_root_filesystem: Some(true),
                capabilities: Some(Capabilities {
                    drop: Some(vec!["ALL".to_owned()]),
                    // RDMA pins the memory it transfers.
                    add: group.rdma.as_ref().map(|_| vec!["IPC_LOCK".to_owned()]),
                }),
                ..SecurityContext::default()
            }),
            termination_message_path: Some(TERMINATION_FILE.to_owned()),
            termination_message_policy: Some("File".to_owned()),
            volume_mounts: Some(self.mounts()),
            ..Container::default()
        }
    }

    fn env(&self, group: &ResolvedGroup) -> Vec<EnvVar> {
        let mut all = vec![
            literal(env::GROUP, &group.name),
            EnvVar {
                name: env::INDEX.to_owned(),
                value_from: Some(EnvVarSource {
                    field_ref: Some(ObjectFieldSelector {
                        field_path: format!("metadata.annotations['{INDEX}']"),
                        api_version: None,
                    }),
                    ..EnvVarSource::default()
                }),
                ..EnvVar::default()
            },
            literal(env::RUN_FOLDER, FOLDER),
            literal("HOME", "/scratch"),
            literal("TMPDIR", "/scratch"),
        ];
        let store = self.resolved.artifacts.as_ref().map(|artifacts| &artifacts.s3);
        if let Some(secret) = store.and_then(|s3| s3.credentials_secret.as_ref()) {
            for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
                all.push(secret_key(key, secret, key, false));
            }
            all.push(secret_key("AWS_SESSION_TOKEN", secret, "AWS_SESSION_TOKEN", true));
        }
        if let Some(secret) = &self.resolved.data.hugging_face_token_secret {
            all.push(secret_key("HF_TOKEN", &secret.name, &secret.key, false));
        }
        all.extend(group.env.iter().map(|variable| literal(&variable.name, &variable.value)));
        all
    }

    fn volumes(&self) -> Vec<Volume> {
        let named = |name: &str| Volume { name: name.to_owned(), ..Volume::default() };
        let mut all = vec![
            Volume {
                config_map: Some(ConfigMapVolumeSource {
                    name: self.config_map_name(),
                    ..ConfigMapVolumeSource::default()
                }),
                ..named("run")
            },
            Volume {
                empty_dir: Some(EmptyDirVolumeSource {
                    medium: Some("Memory".to_owned()),
                    size_limit: Some(Quantity(self.resolved.shared_memory.to_string())),
                }),
                ..named("shm")
            },
            Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..named("scratch") },
        ];
        all.extend(self.resolved.data.volume_claims.iter().map(|claim| Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.claim_name.clone(),
                read_only: Some(true),
            }),
            ..named(&format!("data-{}", claim.name))
        }));
        all
    }

    fn mounts(&self) -> Vec<VolumeMount> {
        let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
            name: name.to_owned(),
            mount_path: path.to_owned(),
            read_only: Some(read_only),
            ..VolumeMount::default()
        };
        let mut all = vec![
            mount("run", FOLDER, true),
            mount("shm", "/dev/shm", false),
            mount("scratch", "/scratch", false),
        ];
        all.extend(self.resolved.data.volume_claims.iter().map(|claim| {
            mount(&format!("data-{}", claim.name), &format!("/data/{}", claim.name), true)
        }));
        all
    }

    /// Keeps away from nodes on which earlier attempts failed.
    fn affinity(&self) -> Option<Affinity> {
        if self.excluded_nodes.is_empty() {
            return None;
        }
        // A field selector takes one value, and a node's name may differ from its host name label.
        let fields = self.excluded_nodes.iter().map(|node| NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec![node.clone()]),
        });
        let term =
            NodeSelectorTerm { match_fields: Some(fields.collect()), match_expressions: None };
        Some(Affinity {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                    node_selector_terms: vec![term],
                }),
                ..NodeAffinity::default()
            }),
            ..Affinity::default()
        })
    }

    /// One worker to a node, where there are enough of them.
    fn spread(&self) -> TopologySpreadConstraint {
        let mut own = self.selector();
        own.insert(labels::ATTEMPT.to_owned(), self.attempt.to_string());
        TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "kubernetes.io/hostname".to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(LabelSelector {
                match_labels: Some(own),
                ..LabelSelector::default()
            }),
            ..TopologySpreadConstraint::default()
        }
    }
}

fn resources(group: &ResolvedGroup) -> ResourceRequirements {
    let amounts = |all: &BTreeMap<String, warpforge_operator_api::quantity::Quantity>| {
        let all = all.iter().map(|(name, amount)| (name.clone(), Quantity(amount.to_string())));
        all.collect::<BTreeMap<_, _>>()
    };
    let mut limits = amounts(&group.resources.limits);
    // Devices are limits: Kubernetes makes the request the same.
    let gpus = group.gpus.iter().map(|gpus| (&gpus.resource_name, gpus.count));
    let rdma = group.rdma.iter().map(|rdma| (&rdma.resource_name, rdma.count));
    limits
        .extend(gpus.chain(rdma).map(|(name, count)| (name.clone(), Quantity(count.to_string()))));
    let requests = amounts(&group.resources.requests);
    ResourceRequirements {
        limits: Some(limits).filter(|all| !all.is_empty()),
        requests: Some(requests).filter(|all| !all.is_empty()),
        claims: None,
    }
}

fn tolerations(group: &ResolvedGroup) -> Vec<Toleration> {
    let own = group.tolerations.iter().map(|own| Toleration {
        key: own.key.clone(),
        operator: Some(match own.operator {
            TolerationOperator::Exists => "Exists".to_owned(),
            TolerationOperator::Equal => "Equal".to_owned(),
        }),
        value: own.value.clone(),
        effect: own.effect.map(|effect| match effect {
            TaintEffect::NoSchedule => "NoSchedule".to_owned(),
            TaintEffect::PreferNoSchedule => "PreferNoSchedule".to_owned(),
            TaintEffect::NoExecute => "NoExecute".to_owned(),
        }),
        toleration_seconds: own.toleration_seconds,
    });
    let lost = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    let lost = lost.into_iter().map(|key| Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        toleration_seconds: Some(LOST_AFTER_SECONDS),
        value: None,
    });
    own.chain(lost).collect()
}

fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn secret_key(name: &str, secret: &str, key: &str, optional: bool) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.to_owned(),
                key: key.to_owned(),
                optional: Some(optional),
            }),
            ..EnvVarSource::default()
        }),
    }
}
