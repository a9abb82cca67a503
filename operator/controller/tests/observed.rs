//! Objects as a cluster has them, and what is seen in them.

mod common;

use common::{UID, epoch, profile, request, slots};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use warpforge_operator_api::status::{
    Attempt, AttemptState, Condition, ConditionStatus, ConditionType,
};
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunStatus};
use warpforge_operator_controller::observed::{
    Claim, Disruption, JobEnd, PodPhase, PodSeen, Waiting, claims, job, pod, run,
};
use warpforge_operator_controller::resolve::resolve;

fn seen(status: &Value) -> PodSeen {
    let object: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "nightly-a-1-x-0-abcde",
            "creationTimestamp": "2027-01-15T08:00:00Z",
            "labels": {
                "warpforge.dev/run-uid": UID, "warpforge.dev/group": "a",
                "warpforge.dev/attempt": "1", "batch.kubernetes.io/job-completion-index": "3",
            },
            "annotations": { "batch.kubernetes.io/job-completion-index": "3" },
        },
        "spec": { "containers": [], "nodeName": "node1" },
        "status": status,
    }))
    .unwrap();
    assert_eq!(pod(&object, "another run"), None);
    pod(&object, UID).unwrap()
}

fn container(state: &Value) -> Value {
    let other = json!({
        "name": "istio-proxy", "image": "p", "imageID": "", "ready": true, "restartCount": 0,
        "state": { "running": {} },
    });
    json!([other, {
        "name": "runner", "image": "r:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": state,
    }])
}

#[test]
fn pods_that_wait() {
    let unschedulable = json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
    }]});
    let message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.".to_owned();
    assert_eq!(seen(&unschedulable).waiting, Some(Waiting::Unschedulable { message }));
    // A gate is no want of room.
    let gated = json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
    }]});
    assert_eq!(seen(&gated).waiting, None);

    let waiting = |reason: &str| {
        let state = json!({ "waiting": { "reason": reason, "message": "m" } });
        seen(&json!({ "phase": "Pending", "containerStatuses": container(&state) })).waiting
    };
    let pull = |hopeless| Some(Waiting::ImagePull { image: "r:1".into(), hopeless });
    let not =
        |reason: &str| Some(Waiting::NotStarted { reason: reason.to_owned(), message: "m".into() });
    for (reason, expected) in [
        ("ErrImagePull", pull(false)),
        ("ImagePullBackOff", pull(false)),
        ("InvalidImageName", pull(true)),
        ("ErrImageNeverPull", pull(true)),
        ("CreateContainerConfigError", not("CreateContainerConfigError")),
        ("ContainerCreating", None),
        ("PodInitializing", None),
    ] {
        assert_eq!(waiting(reason), expected, "{reason}");
    }
}

#[test]
fn pods_that_end() {
    let ended = |phase: &str, terminated: &Value| {
        let state = json!({ "terminated": terminated });
        seen(&json!({ "phase": phase, "containerStatuses": container(&state) }))
    };
    let good = ended(
        "Succeeded",
        &json!({ "exitCode": 0, "reason": "Completed", "message": "{}", "finishedAt": "2027-01-15T08:00:09Z" }),
    );
    let end = good.end.unwrap();
    assert_eq!(
        (good.phase, good.index, good.node.as_deref()),
        (PodPhase::Succeeded, 3, Some("node1"))
    );
    assert_eq!(
        (end.exit_code, end.text.as_str(), end.at),
        (Some(0), "{}", Some(good.created.plus(9)))
    );
    let oom = ended("Failed", &json!({ "exitCode": 137, "reason": "OOMKilled" })).end.unwrap();
    assert!(oom.out_of_memory && !oom.not_started);
    let start = ended("Failed", &json!({ "exitCode": 128, "reason": "StartError" })).end.unwrap();
    assert!(start.not_started && !start.out_of_memory);
    // A sidecar's end is not the runner's.
    let mut containers = container(&json!({ "running": {} }));
    containers[0]["state"] = json!({ "terminated": { "exitCode": 1 } });
    let sidecar = seen(&json!({ "phase": "Running", "containerStatuses": containers }));
    assert_eq!((sidecar.phase, sidecar.end), (PodPhase::Running, None));
    // Failed without a container: the kubelet refused or evicted it.
    let refused = seen(&json!({ "phase": "Failed", "reason": "UnexpectedAdmissionError" }));
    assert_eq!(refused.disruption, Some(Disruption::DeviceLost));
    assert_eq!(refused.end.unwrap().exit_code, None);
}

#[test]
fn what_the_cluster_did_to_a_pod() {
    let target = |reason: &str| {
        seen(&json!({ "phase": "Running", "conditions": [
            { "type": "DisruptionTarget", "status": "True", "reason": reason },
        ]}))
        .disruption
    };
    for (reason, expected) in [
        ("PreemptionByScheduler", Disruption::Preempted),
        ("DeletionByTaintManager", Disruption::NodeLost),
        ("DeletionByPodGC", Disruption::NodeLost),
        ("EvictionByEvictionAPI", Disruption::Evicted),
        ("TerminationByKubelet", Disruption::Evicted),
    ] {
        assert_eq!(target(reason), Some(expected), "{reason}");
    }
    assert_eq!(target("SomethingNew"), None);
    let message = "The ClusterQueue is stopped";
    let by_kueue = json!({ "phase": "Running", "conditions": [
        { "type": "TerminationTarget", "status": "True", "reason": "WorkloadEvicted",
          "message": message },
    ]});
    let expected = Disruption::Dequeued { message: message.to_owned() };
    assert_eq!(seen(&by_kueue).disruption, Some(expected));
    let status = |reason: &str| seen(&json!({ "phase": "Failed", "reason": reason })).disruption;
    for (reason, expected) in [
        ("Evicted", Disruption::Evicted),
        ("NodeLost", Disruption::NodeLost),
        ("Terminated", Disruption::NodeLost),
        ("OutOfnvidia.com/gpu", Disruption::DeviceLost),
        ("OutOfcpu", Disruption::DeviceLost),
    ] {
        assert_eq!(status(reason), Some(expected), "{reason}");
    }
}

#[test]
fn jobs() {
    let object = |conditions: Value| -> Job {
        serde_json::from_value(json!({
            "metadata": {
                "name": "j", "labels": { "warpforge.dev/group": "a", "warpforge.dev/attempt": "2" },
                "ownerReferences": [{
                    "apiVersion": "warpforge.dev/v1alpha1", "kind": "BenchmarkRun", "name": "n",
                    "uid": UID, "controller": true,
                }],
            },
            "spec": { "suspend": true, "template": {} },
            "status": { "conditions": conditions },
        }))
        .unwrap()
    };
    let end = |conditions: Value| job(&object(conditions), UID).unwrap().end;
    assert_eq!(end(json!([])), None);
    assert_eq!(end(json!([{ "type": "Suspended", "status": "True" }])), None);
    assert_eq!(end(json!([{ "type": "Complete", "status": "True" }])), Some(JobEnd::Complete));
    assert_eq!(end(json!([{ "type": "Failed", "status": "False" }])), None);
    let failed = json!([{
        "type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "m",
    }]);
    let expected = JobEnd::Failed { reason: "DeadlineExceeded".into(), message: "m".into() };
    assert_eq!(end(failed), Some(expected));
    // Someone else's, with the same labels.
    let mut other = object(json!([]));
    other.metadata.owner_references = None;
    assert_eq!(job(&other, UID), None);
}

#[test]
fn claims_to_slots() {
    let mut shared = profile();
    shared.spec.concurrency = Some(slots(2));
    let resolved = resolve("team", &request(), &shared).unwrap();
    let condition = |type_| Condition {
        type_,
        status: ConditionStatus::True,
        reason: "R".into(),
        message: String::new(),
        last_transition_time: epoch(),
        observed_generation: 1,
    };
    let make = |name: &str, conditions: &[ConditionType]| {
        let mut object = BenchmarkRun::new(name, request());
        object.metadata.namespace = Some("team".into());
        object.metadata.uid = Some(name.to_owned());
        let created = k8s_openapi::jiff::Timestamp::from_second(epoch().seconds()).unwrap();
        object.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created));
        object.status = Some(BenchmarkRunStatus {
            resolved: Some(resolved.clone()),
            conditions: conditions.iter().copied().map(condition).collect(),
            ..BenchmarkRunStatus::default()
        });
        object
    };
    let waits = make("waits", &[]);
    let attempt = Attempt {
        number: 1,
        state: AttemptState::Creating,
        started_at: epoch(),
        not_before: None,
        released_at: None,
        running_at: None,
        ending_at: None,
        golden: None,
    };
    let begun = |mut run: BenchmarkRun| {
        run.status.as_mut().unwrap().attempt = Some(attempt.clone());
        run
    };
    // Also while Kueue has not let it go.
    let holds = begun(make("holds", &[]));
    let done = make("done", &[ConditionType::Admitted, ConditionType::Complete]);
    let mut held_back = make("held-back", &[]);
    held_back.spec.suspend = true;
    let mut stopping = begun(make("stopping", &[ConditionType::Admitted]));
    stopping.spec.suspend = true;
    let mut unresolved = make("unresolved", &[]);
    unresolved.status = None;
    let own = make("own", &[]);
    let all = vec![waits, holds, done, held_back, stopping, unresolved, own];
    assert!(run(&all[0]).is_some());
    let claim = |uid: &str, holds| Claim { created: epoch(), uid: uid.into(), holds };
    let expected = [claim("waits", false), claim("holds", true), claim("stopping", true)];
    assert_eq!(claims(&all, "lab", "own"), expected);
    assert!(claims(&all, "another", "own").is_empty());
}
