//! The objects that a run becomes.

mod common;

use std::collections::BTreeSet;

use common::{UID, epoch, profile, request};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use proptest::prelude::*;
use serde_json::{Value, json};
use warpforge_operator_api::contract::{RankMap, RunnerSpec};
use warpforge_operator_api::data::{Artifacts, Data, S3, SecretKey, VolumeClaim};
use warpforge_operator_api::workers::{Rdma, Vendor, WorkerGroup};
use warpforge_operator_api::{BenchmarkRunSpec, BenchmarkRunStatus, Resolved};
use warpforge_operator_controller::children::{Build, Child, LONGEST_JOB, rank_map};
use warpforge_operator_controller::observed::{self, ChildKind, ProfileSeen, RunSeen};
use warpforge_operator_controller::resolve::resolve;

fn run(name: &str, uid: &str) -> RunSeen {
    RunSeen {
        namespace: "team".into(),
        name: name.into(),
        uid: uid.into(),
        generation: 1,
        created: epoch(),
        deleting: false,
        status: BenchmarkRunStatus::default(),
    }
}

/// A profile that allows what the tests ask for.
fn open() -> ProfileSeen {
    let mut profile = profile();
    let allowed = &mut profile.spec.allowed;
    let any = vec!["*".to_owned()];
    (allowed.resources, allowed.secrets, allowed.volume_claims) =
        (any.clone(), any.clone(), any.clone());
    (allowed.queues, allowed.endpoints) = (any, vec!["https://s3.lab".into()]);
    allowed.uri_prefixes = vec!["s3://results".into()];
    profile
}

fn resolved(spec: &BenchmarkRunSpec) -> Resolved {
    resolve("team", spec, &open()).unwrap()
}

fn jobs(spec: &BenchmarkRunSpec, excluded_nodes: &[String]) -> Vec<Job> {
    let (run, resolved) = (run("nightly", UID), resolved(spec));
    let build = Build { run: &run, resolved: &resolved, attempt: 2, excluded_nodes };
    let jobs = build.all().into_iter().filter_map(|child| match child {
        Child::Job(job) => Some(*job),
        _ => None,
    });
    jobs.collect()
}

fn pod(job: &Job) -> (&PodSpec, &Container) {
    let pod = job.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    (pod, &pod.containers[0])
}

fn all(spec: &BenchmarkRunSpec) -> Vec<Child> {
    let (run, resolved) = (run("nightly", UID), resolved(spec));
    Build { run: &run, resolved: &resolved, attempt: 1, excluded_nodes: &[] }.all()
}

#[test]
fn jobs_never_retry_and_wait_for_their_release() {
    let mut spec = request();
    spec.workers[1].replicas = 3;
    let jobs = jobs(&spec, &[]);
    let spec = serde_json::to_value(jobs[1].spec.as_ref().unwrap()).unwrap();
    for (field, expected) in [
        ("completionMode", json!("Indexed")),
        ("completions", json!(3)),
        ("parallelism", json!(3)),
        ("backoffLimit", json!(0)),
        ("podReplacementPolicy", json!("Failed")),
        ("suspend", json!(true)),
        ("activeDeadlineSeconds", json!(3600)),
        ("ttlSecondsAfterFinished", Value::Null),
    ] {
        assert_eq!(spec[field], expected, "{field}");
    }
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Never");
    // And the operator knows them again.
    let seen = observed::job(&jobs[1], UID).unwrap();
    assert_eq!((seen.group.as_str(), seen.attempt, seen.suspended), ("b", 2, true));
    assert_eq!(observed::job(&jobs[1], "another run"), None);
}

#[test]
fn pods_are_restricted_and_hold_no_token() {
    let mut spec = request();
    spec.workers[1].rdma = Some(Rdma { resource_name: "rdma/hca".into(), count: 1 });
    let jobs = jobs(&spec, &[]);
    for (job, locks) in jobs.iter().zip([false, true]) {
        let (pod, container) = pod(job);
        assert_eq!(pod.automount_service_account_token, Some(false));
        assert_eq!(pod.host_network, None);
        assert_eq!(pod.host_pid, None);
        let context = serde_json::to_value(&pod.security_context).unwrap();
        assert_eq!(context["runAsNonRoot"], true);
        assert_eq!(context["runAsGroup"], 65532);
        assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
        let context = serde_json::to_value(&container.security_context).unwrap();
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
        let added = if locks { json!(["IPC_LOCK"]) } else { Value::Null };
        assert_eq!(context["capabilities"]["add"], added);
        assert!(pod.volumes.iter().flatten().all(|volume| volume.host_path.is_none()));
    }
}

#[test]
fn devices_memory_and_volumes() {
    let mut spec = request();
    spec.workers[1].gpus_per_worker = Some(2);
    spec.workers[1].rdma = Some(Rdma { resource_name: "rdma/hca".into(), count: 1 });
    let claim = VolumeClaim { name: "squad".into(), claim_name: "squad-v1".into() };
    spec.data = Some(Data {
        volume_claims: vec![claim],
        hugging_face_token_secret: Some(SecretKey { name: "hub".into(), key: "t".into() }),
        accept_licenses: Vec::new(),
    });
    spec.artifacts = Some(Artifacts {
        s3: S3 {
            endpoint: Some("https://s3.lab".into()),
            region: "r".into(),
            bucket: "results".into(),
            prefix: String::new(),
            credentials_secret: Some("keys".into()),
        },
    });
    let jobs = jobs(&spec, &["n1".into(), "n2".into()]);
    let (pod, container) = pod(&jobs[1]);
    let limits = serde_json::to_value(&container.resources).unwrap()["limits"].clone();
    assert_eq!(limits, json!({ "nvidia.com/gpu": "2", "rdma/hca": "1" }));
    let volumes = serde_json::to_value(&pod.volumes).unwrap();
    assert_eq!(volumes[1]["emptyDir"], json!({ "medium": "Memory", "sizeLimit": "1Gi" }));
    let claim = json!({ "claimName": "squad-v1", "readOnly": true });
    assert_eq!(volumes[3]["persistentVolumeClaim"], claim);
    let mounts = container.volume_mounts.iter().flatten().map(|mount| mount.mount_path.as_str());
    let expected = ["/etc/warpforge/run", "/dev/shm", "/scratch", "/data/squad"];
    assert_eq!(mounts.collect::<Vec<_>>(), expected);
    let env = serde_json::to_value(&container.env).unwrap().to_string();
    for part in [
        r#""name":"AWS_SECRET_ACCESS_KEY","valueFrom":{"secretKeyRef":{"key":"AWS_SECRET_ACCESS_KEY","name":"keys""#,
        r#""name":"HF_TOKEN","valueFrom":{"secretKeyRef":{"key":"t","name":"hub""#,
        r"metadata.annotations['batch.kubernetes.io/job-completion-index']",
    ] {
        assert!(env.contains(part), "{part} in {env}");
    }
    let affinity = serde_json::to_value(&pod.affinity).unwrap();
    let terms = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let not = |node| json!({ "key": "metadata.name", "operator": "NotIn", "values": [node] });
    assert_eq!(terms[0]["matchFields"], json!([not("n1"), not("n2")]));
    let spread = serde_json::to_value(&pod.topology_spread_constraints).unwrap();
    assert_eq!(spread[0]["topologyKey"], "kubernetes.io/hostname");
}

#[test]
fn the_service_and_the_policy_are_for_the_runs_own_pods() {
    let children = all(&request());
    let value = |kind| {
        let child = children.iter().find(|child| child.id().kind == kind).unwrap();
        match child {
            Child::Service(service) => serde_json::to_value(service).unwrap(),
            Child::NetworkPolicy(policy) => serde_json::to_value(policy).unwrap(),
            _ => unreachable!(),
        }
    };
    let own = json!({ "warpforge.dev/run-uid": UID });
    let service = value(ChildKind::Service);
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
    assert_eq!(service["spec"]["selector"], own);
    let policy = value(ChildKind::NetworkPolicy);
    assert_eq!(policy["spec"]["podSelector"]["matchLabels"], own);
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    let block = json!({ "cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"] });
    assert_eq!(policy["spec"]["egress"][2]["to"][0]["ipBlock"], block);
}

/// An empty list of peers would mean everyone.
#[test]
fn no_egress_is_none() {
    let mut closed = open();
    closed.spec.network.egress_cidrs.clear();
    let resolved = resolve("team", &request(), &closed).unwrap();
    let run = run("nightly", UID);
    let build = Build { run: &run, resolved: &resolved, attempt: 1, excluded_nodes: &[] };
    let policy = build.all().into_iter().find_map(|child| match child {
        Child::NetworkPolicy(policy) => policy.spec?.egress,
        _ => None,
    });
    assert_eq!(policy.unwrap().len(), 2, "peers and DNS");
}

#[test]
fn the_files_say_who_is_who() {
    let mut spec = request();
    spec.workers[0].replicas = 2;
    spec.workers[1].gpus_per_worker = Some(4);
    let children = all(&spec);
    let Child::ConfigMap(files) = &children[0] else { panic!("the first is the ConfigMap") };
    assert_eq!(files.immutable, Some(true));
    let files = files.data.as_ref().unwrap();
    let ranks: RankMap = serde_json::from_str(&files["ranks.json"]).unwrap();
    let who = ranks.ranks.iter().map(|r| (r.rank, r.group.as_str(), r.index, r.gpus));
    assert_eq!(who.collect::<Vec<_>>(), [(0, "a", 0, 0), (1, "a", 1, 0), (2, "b", 0, 4)]);
    let Child::Job(job) = &children[3] else { panic!("then the Jobs") };
    let Child::Service(service) = &children[1] else { panic!("then the Service") };
    let name = job.metadata.name.as_ref().unwrap();
    let service = service.metadata.name.as_ref().unwrap();
    assert_eq!(ranks.ranks[1].host, format!("{name}-1.{service}.team.svc"));
    assert_eq!(pod(job).0.subdomain.as_ref(), Some(service));
    assert_eq!(ranks.find("b", 0).unwrap().rank, 2);
    let runner: RunnerSpec = serde_json::from_str(&files["spec.json"]).unwrap();
    assert_eq!((runner.version, runner.attempt, runner.run.name.as_str()), (1, 1, "nightly"));
    assert_eq!(runner.spec, resolved(&spec));
}

#[test]
fn workers_know_the_runs_deadline_once_it_has_begun() {
    let resolved = resolved(&request());
    let deadline = |started_at| {
        let mut run = run("nightly", UID);
        run.status.started_at = started_at;
        let build = Build { run: &run, resolved: &resolved, attempt: 2, excluded_nodes: &[] };
        let Child::ConfigMap(files) = &build.all()[0] else { panic!("the first is the ConfigMap") };
        let spec = &files.data.as_ref().unwrap()["spec.json"];
        serde_json::from_str::<RunnerSpec>(spec).unwrap().deadline
    };
    // From the run's first start, whichever attempt this is.
    assert_eq!(deadline(Some(epoch())), Some(epoch().plus(resolved.run_deadline_seconds)));
    // Kueue has not let it begin.
    assert_eq!(deadline(None), None);
}

#[test]
fn kueue_admits_all_groups_as_one() {
    let mut spec = request();
    spec.queue_name = Some("lab".into());
    let two = jobs(&spec, &[]);
    let groups: BTreeSet<_> = two
        .iter()
        .map(|job| {
            let spec = job.spec.as_ref().unwrap();
            assert_eq!(spec.suspend, Some(false), "the pods are gated, not the Job");
            assert!(
                !job.metadata.labels.as_ref().unwrap().contains_key("kueue.x-k8s.io/queue-name")
            );
            let template = spec.template.metadata.as_ref().unwrap();
            assert_eq!(template.labels.as_ref().unwrap()["kueue.x-k8s.io/queue-name"], "lab");
            let annotations = template.annotations.as_ref().unwrap();
            assert_eq!(annotations["kueue.x-k8s.io/pod-group-total-count"], "2");
            assert_eq!(annotations["kueue.x-k8s.io/retriable-in-group"], "false");
            let gates = spec.template.spec.as_ref().unwrap().scheduling_gates.as_ref().unwrap();
            assert_eq!(gates[0].name, "kueue.x-k8s.io/admission", "held where nobody admits pods");
            template.labels.as_ref().unwrap()["kueue.x-k8s.io/pod-group-name"].clone()
        })
        .collect();
    assert_eq!(groups.len(), 1);
    spec.workers.truncate(1);
    let one = &jobs(&spec, &[])[0];
    assert_eq!(one.spec.as_ref().unwrap().suspend, Some(true));
    assert_eq!(pod(one).0.scheduling_gates, None);
    assert_eq!(one.metadata.labels.as_ref().unwrap()["kueue.x-k8s.io/queue-name"], "lab");
}

fn is_label(name: &str, most: usize) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= most
        && name.chars().all(|c| letter(c) || c == '-')
        && name.starts_with(letter)
        && name.ends_with(letter)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Names are labels of the right length, whatever a run and its groups are called.
    #[test]
    fn names_fit(
        name in "[a-z0-9]([-.a-z0-9]{0,250}[a-z0-9])?",
        group in "[a-z]([-a-z0-9]{0,18}[a-z0-9])?",
        attempt in 1..99_999_i32,
    ) {
        let mut spec = request();
        spec.workers = vec![WorkerGroup::new(&group, Vendor::Cpu)];
        let (run, resolved) = (run(&name, UID), resolved(&spec));
        let build = Build { run: &run, resolved: &resolved, attempt, excluded_nodes: &[] };
        let ids = build.ids();
        let built: Vec<_> = build.all().iter().map(Child::id).collect();
        prop_assert_eq!(&ids, &built);
        for id in ids {
            let most = if id.kind == ChildKind::Job { LONGEST_JOB } else { 63 };
            prop_assert!(is_label(&id.name, most), "{:?}", id);
            prop_assert!(id.kind != ChildKind::Service || id.name.starts_with("wf-"));
        }
        for rank in rank_map(&build).ranks {
            let label = rank.host.split('.').next().unwrap().to_owned();
            prop_assert!(is_label(&label, 63), "{}", label);
        }
    }
}

/// Runs whose names begin alike, or are alike with other UIDs, and groups and attempts that read
/// alike when joined.
#[test]
fn names_do_not_collide() {
    let long = "x".repeat(200);
    let mut names = BTreeSet::new();
    let mut count = 0;
    for (name, uid) in [
        (long.clone(), "1"),
        (format!("{long}y"), "2"),
        (long, "3"),
        ("nightly".into(), "4"),
        ("nightly".into(), "5"),
        ("night.ly".into(), "6"),
        ("night-ly".into(), "7"),
    ] {
        let run = run(&name, uid);
        for groups in [["a", "a-1"], ["a-1-1", "run"]] {
            let mut spec = request();
            spec.workers = groups.map(|group| WorkerGroup::new(group, Vendor::Cpu)).into();
            let resolved = resolved(&spec);
            for attempt in [1, 11] {
                let build = Build { run: &run, resolved: &resolved, attempt, excluded_nodes: &[] };
                let jobs = build.ids().into_iter().filter(|id| id.kind == ChildKind::Job);
                for id in jobs {
                    count += 1;
                    names.insert(id.name);
                }
            }
        }
    }
    assert_eq!(names.len(), count);
}
