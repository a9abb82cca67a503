//! What a queue does to runs, each tried.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use warpforge_operator_api::policy::{FailureAction, FailureMatch, FailurePolicy, FailureRule};
use warpforge_operator_api::profile::{Concurrency, Images};
use warpforge_operator_api::quantity::Quantity;
use warpforge_operator_api::status::{ConditionType, Phase};
use warpforge_operator_api::workers::{Vendor, WorkerGroup};
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunSpec, BenchmarkRunStatus, Reason, Verdict};

use super::queue::{GPU, POOL, Queue, admitted, free};
use super::scene::{Scene, until};
use super::server::kueue;

const QUEUE: &str = "lab";

/// A profile whose workers take a processor each and may name a queue.
async fn profile(scene: &Scene) {
    profile_with(scene, 600).await;
}

async fn profile_with(scene: &Scene, wait_deadline_seconds: i64) {
    scene
        .profile(None, |spec| {
            let request =
                |(name, text): (&str, &str)| (name.to_owned(), Quantity::new(text).unwrap());
            spec.defaults.resources.requests =
                [("cpu", "1"), ("memory", "1Gi")].map(request).into();
            spec.defaults.resources.limits.clear();
            let image = Some("runner:1".to_owned());
            spec.defaults.images =
                Images { cpu: image.clone(), nvidia: image, ..Images::default() };
            spec.allowed.queues = vec!["*".into()];
            spec.allowed.resources = vec![GPU.into()];
            spec.allowed.priority_classes = vec!["*".into()];
            spec.concurrency = Some(Concurrency {
                group: scene.namespace.clone(),
                max: 100,
                wait_deadline_seconds,
            });
        })
        .await;
}

fn queued(scene: &Scene) -> BenchmarkRunSpec {
    BenchmarkRunSpec { queue_name: Some(QUEUE.into()), ..scene.spec() }
}

/// A worker without a GPU beside one with.
fn two_groups(scene: &Scene) -> BenchmarkRunSpec {
    let gpu = WorkerGroup { gpus_per_worker: Some(1), ..WorkerGroup::new("b", Vendor::Nvidia) };
    BenchmarkRunSpec { workers: vec![WorkerGroup::new("a", Vendor::Cpu), gpu], ..queued(scene) }
}

fn again_after_preemption(spec: BenchmarkRunSpec) -> BenchmarkRunSpec {
    let when = FailureMatch { exit_codes: Vec::new(), reasons: vec![Reason::Preempted] };
    let rules = vec![FailureRule { when, action: FailureAction::Ignore }];
    BenchmarkRunSpec { failure_policy: Some(FailurePolicy { max_restarts: 0, rules }), ..spec }
}

async fn until_waits(scene: &Scene, run: &str) -> BenchmarkRunStatus {
    let status = scene.until_phase(run, Phase::Queued).await;
    assert_eq!(status.reason, "WaitingForQueue");
    let admitted = status.condition(ConditionType::Admitted).unwrap();
    assert!(!status.is(ConditionType::Admitted), "{admitted:?}");
    assert_eq!(admitted.reason, "WaitingForQueue");
    status
}

/// Until the run's workers all run, with Kueue's leave.
async fn until_runs(scene: &Scene, run: &BenchmarkRun, workers: usize) -> Vec<Pod> {
    let pods = until(&format!("{workers} free pods of {}", run.name_any()), async || {
        let pods = scene.pods(run).await;
        (pods.len() == workers && pods.iter().all(free)).then_some(pods)
    })
    .await;
    for pod in &pods {
        let selector = pod.spec.as_ref().unwrap().node_selector.clone().unwrap_or_default();
        assert_eq!(selector.get(POOL.0).map(String::as_str), Some(POOL.1), "{selector:?}");
        scene.starts(pod, "127.0.0.1").await;
    }
    let status = scene.until_phase(&run.name_any(), Phase::Running).await;
    assert!(status.is(ConditionType::Admitted));
    pods
}

#[test]
fn a_run_waits_for_quota_and_goes_when_it_is_free() {
    kueue(async |scene| {
        profile(&scene).await;
        let queue = Queue::new(&scene, QUEUE, 1, 0).await;
        let _operator = scene.operator();
        let first = scene.submit("first", queued(&scene)).await;
        let pods = until_runs(&scene, &first, 1).await;
        let second = scene.submit("second", queued(&scene)).await;
        let waiting = until_waits(&scene, "second").await;
        assert_eq!(waiting.started_at, None, "time in the queue does not count");
        let workloads = queue.until_workloads(2).await;
        assert_eq!(workloads.iter().filter(|one| admitted(one)).count(), 1);
        assert!(scene.pods(&second).await.is_empty());

        scene.concludes(&pods[0], Verdict::Pass).await;
        let pods = until_runs(&scene, &second, 1).await;
        scene.concludes(&pods[0], Verdict::Pass).await;
        scene.until_phase("second", Phase::Complete).await;
        queue.nothing_is_left(&second).await;
    });
}

/// Neither group goes while the other cannot.
#[test]
fn two_groups_are_admitted_as_one_or_not_at_all() {
    kueue(async |scene| {
        profile(&scene).await;
        let queue = Queue::new(&scene, QUEUE, 2, 0).await;
        let _operator = scene.operator();
        let run = scene.submit("both", two_groups(&scene)).await;
        for (workers, gpus) in [(2, 0), (1, 1)] {
            queue.allow(workers, gpus).await;
            scene.until_pods(&run, 2).await;
            until_waits(&scene, "both").await;
            let workloads = queue.until_workloads(1).await;
            let sets = workloads[0].data["spec"]["podSets"].as_array().unwrap();
            assert_eq!(sets.len(), 2, "{sets:?}");
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(!admitted(&queue.workloads().await[0]), "{workers} workers, {gpus} GPUs");
            assert!(!scene.pods(&run).await.iter().any(free), "{workers} workers, {gpus} GPUs");
        }
        queue.allow(2, 1).await;
        let pods = until_runs(&scene, &run, 2).await;
        scene.ends(&pods[1], 0, "").await;
        scene.concludes(&pods[0], Verdict::Pass).await;
        let status = scene.until_phase("both", Phase::Complete).await;
        assert_eq!(status.correctness, Some(Verdict::Pass), "{}", status.message);
        queue.nothing_is_left(&run).await;
    });
}

/// Also one whose worker failed, and whose pods nobody replaces.
#[test]
fn a_failed_run_gives_its_quota_back() {
    kueue(async |scene| {
        profile(&scene).await;
        let queue = Queue::new(&scene, QUEUE, 2, 1).await;
        let _operator = scene.operator();
        let run = scene.submit("fails", two_groups(&scene)).await;
        let pods = until_runs(&scene, &run, 2).await;
        // Only now: of two that wait, Kueue takes whichever it sees first.
        let next = scene.submit("next", two_groups(&scene)).await;
        scene.until_phase("next", Phase::Queued).await;
        scene.ends(&pods[1], 137, "").await;
        scene.until_phase("fails", Phase::Complete).await;
        until_runs(&scene, &next, 2).await;
        scene.delete("next").await;
        queue.nothing_is_left(&next).await;
    });
}

#[test]
fn a_run_whose_queue_is_drained_ends_with_a_reason() {
    kueue(async |scene| {
        profile(&scene).await;
        let queue = Queue::new(&scene, QUEUE, 9, 9).await;
        let _operator = scene.operator();
        let one = scene.submit("one", queued(&scene)).await;
        let two = scene.submit("two", two_groups(&scene)).await;
        until_runs(&scene, &one, 1).await;
        until_runs(&scene, &two, 2).await;
        queue.stop("HoldAndDrain").await;
        for (name, words) in
            [("one", "(By Kueue.)"), ("two", "Kueue says: The ClusterQueue is stopped")]
        {
            let status = scene.until_phase(name, Phase::Complete).await;
            assert_eq!(status.reason, "Preempted", "{}", status.message);
            assert_eq!(status.correctness, Some(Verdict::Inconclusive));
            assert!(status.message.contains(words), "{}", status.message);
        }
        queue.nothing_is_left(&two).await;
    });
}

/// It waits in the queue again, and passes when there is room.
#[test]
fn a_run_makes_room_for_a_more_important_one_and_comes_again() {
    kueue(async |scene| {
        let class = format!("{}-urgent", scene.namespace);
        let classes: Api<PriorityClass> = Api::all(scene.client.clone());
        let urgent = json!({ "metadata": { "name": class }, "value": 1000 });
        let urgent = serde_json::from_value(urgent).unwrap();
        classes.create(&PostParams::default(), &urgent).await.unwrap();
        profile(&scene).await;
        let queue = Queue::new(&scene, QUEUE, 2, 1).await;
        let _operator = scene.operator();
        for (name, spec) in [("one", queued(&scene)), ("two", two_groups(&scene))] {
            let workers = spec.workers.len();
            let run = scene.submit(name, again_after_preemption(spec)).await;
            until_runs(&scene, &run, workers).await;
            let spec =
                BenchmarkRunSpec { priority_class_name: Some(class.clone()), ..two_groups(&scene) };
            let urgent = scene.submit(&format!("urgent-{name}"), spec).await;
            let pods = until_runs(&scene, &urgent, 2).await;
            let waiting = until_waits(&scene, name).await;
            assert_eq!(waiting.attempts.len(), 1);
            assert_eq!(waiting.attempts[0].reason, "Preempted");
            assert_eq!(waiting.restarts, 0);
            scene.concludes(&pods[0], Verdict::Pass).await;
            let pods = until_runs(&scene, &run, workers).await;
            scene.concludes(&pods[0], Verdict::Pass).await;
            let status = scene.until_phase(name, Phase::Complete).await;
            assert_eq!(status.correctness, Some(Verdict::Pass), "{}", status.message);
            queue.nothing_is_left(&run).await;
        }
    });
}

#[test]
fn a_deleted_run_leaves_nothing_in_the_queue() {
    kueue(async |scene| {
        profile(&scene).await;
        let queue = Queue::new(&scene, QUEUE, 0, 0).await;
        let _operator = scene.operator();
        for (name, spec) in [("one", queued(&scene)), ("two", two_groups(&scene))] {
            let run = scene.submit(name, spec).await;
            until_waits(&scene, name).await;
            queue.until_workloads(1).await;
            scene.delete(name).await;
            queue.nothing_is_left(&run).await;
        }
    });
}

#[test]
fn a_queue_that_does_not_exist_is_waited_for_and_no_longer() {
    kueue(async |scene| {
        profile_with(&scene, 10).await;
        let queue = Queue::new(&scene, "another", 9, 9).await;
        let _operator = scene.operator();
        for (name, spec) in [("one", queued(&scene)), ("two", two_groups(&scene))] {
            let run = scene.submit(name, spec).await;
            until_waits(&scene, name).await;
            let status = scene.until_phase(name, Phase::Complete).await;
            assert_eq!(status.reason, "QueueDeadlineExceeded", "{}", status.message);
            assert_eq!(status.correctness, Some(Verdict::Inconclusive));
            queue.nothing_is_left(&run).await;
        }
    });
}

/// Kueue takes in Jobs that name no queue where there is one named `default`.
#[test]
fn a_namespaces_default_queue_holds_runs_that_name_none() {
    kueue(async |scene| {
        profile(&scene).await;
        let queue = Queue::new(&scene, "default", 0, 0).await;
        let _operator = scene.operator();
        let run = scene.submit("one", scene.spec()).await;
        until_waits(&scene, "one").await;
        queue.allow(1, 0).await;
        let pods = until_runs(&scene, &run, 1).await;
        scene.concludes(&pods[0], Verdict::Pass).await;
        scene.until_phase("one", Phase::Complete).await;
        for (name, queue_name) in [("apart", None), ("named", Some("default".to_owned()))] {
            let spec = BenchmarkRunSpec { queue_name, ..two_groups(&scene) };
            scene.submit(name, spec).await;
            let status = scene.until_phase(name, Phase::Complete).await;
            assert_eq!(status.reason, "QueuedApart", "{}", status.message);
        }
        queue.nothing_is_left(&run).await;
    });
}
