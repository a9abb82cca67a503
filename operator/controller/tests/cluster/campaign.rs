//! The operator killed at any moment over runs that overlap: nothing is lost or made twice.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event, watcher};
use warpforge_operator_api::status::{ConditionType, Phase};
use warpforge_operator_api::{BenchmarkRun, Verdict};
use warpforge_tests::campaign::{numbers, rounds, seed};

use super::scene::{Scene, scene};

const SLOTS: i32 = 2;

/// What was seen of runs and Jobs, in order.
#[derive(Default)]
struct Witness {
    holders: BTreeSet<String>,
    most_holders: usize,
    /// UIDs of Jobs by name.
    jobs: BTreeMap<String, BTreeSet<String>>,
    writes: BTreeMap<String, BTreeSet<String>>,
}

async fn watch_runs(scene: &Scene, witness: Arc<Mutex<Witness>>) {
    let mut events = pin!(watcher(scene.runs(), watcher::Config::default()));
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(run) | Event::InitApply(run)) = event else { continue };
        let mut witness = witness.lock().unwrap();
        let name = run.name_any();
        let version = run.resource_version().unwrap();
        witness.writes.entry(name.clone()).or_default().insert(version);
        let status = run.status.unwrap_or_default();
        if status.is(ConditionType::Admitted) && !status.is_complete() {
            witness.holders.insert(name);
        } else {
            witness.holders.remove(&name);
        }
        witness.most_holders = witness.most_holders.max(witness.holders.len());
    }
}

async fn watch_jobs(scene: &Scene, witness: Arc<Mutex<Witness>>) {
    let mut events = pin!(watcher(scene.api::<Job>(), watcher::Config::default()));
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(job) | Event::InitApply(job)) = event else { continue };
        let mut witness = witness.lock().unwrap();
        witness.jobs.entry(job.name_any()).or_default().insert(job.uid().unwrap());
    }
}

/// Starts every pod and then ends it well, at once.
async fn kubelet(scene: &Scene, runs: &[BenchmarkRun]) {
    loop {
        for run in runs {
            for pod in scene.pods(run).await {
                let status = pod.status.as_ref();
                match status.and_then(|status| status.phase.as_deref()) {
                    Some("Running") => scene.concludes(&pod, Verdict::Pass).await,
                    Some("Pending") | None => scene.starts(&pod, "127.0.0.1").await,
                    _ => {}
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn kills_at_any_moment_lose_and_duplicate_nothing() {
    let (kills, count) = (rounds(5, 20), rounds(6, 20));
    scene(async |scene| {
        scene.profile(Some(SLOTS), |_| ()).await;
        let witness = Arc::new(Mutex::new(Witness::default()));
        let mut runs = Vec::new();
        for index in 0..count {
            runs.push(scene.submit(&format!("run-{index}"), scene.spec()).await);
        }
        let operate = async {
            let mut numbers = numbers("operator kills");
            for _ in 0..kills {
                let operator = scene.operator_with(&["--lease-seconds", "2"]);
                // Longer than it takes to come to power, for most.
                let moment = Duration::from_millis(1500 + numbers.below(2500));
                tokio::time::sleep(moment).await;
                operator.kill();
            }
            let _last = scene.operator_with(&["--lease-seconds", "2"]);
            let start = Instant::now();
            loop {
                let all = scene.runs().list(&ListParams::default()).await.unwrap().items;
                let complete = all.iter().filter(|run| {
                    run.status.as_ref().is_some_and(|status| status.phase == Phase::Complete)
                });
                if complete.count() == count {
                    return all;
                }
                assert!(start.elapsed() < Duration::from_secs(90), "seed {}: {all:#?}", seed());
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let all = tokio::select! {
            all = operate => all,
            () = watch_runs(&scene, witness.clone()) => unreachable!("watches do not end"),
            () = watch_jobs(&scene, witness.clone()) => unreachable!("watches do not end"),
            () = kubelet(&scene, &runs) => unreachable!("a kubelet does not end"),
        };
        let witness = witness.lock().unwrap();
        for run in &all {
            let status = run.status.as_ref().unwrap();
            let name = run.name_any();
            assert_eq!(status.correctness, Some(Verdict::Pass), "{name}: {}", status.message);
            assert_eq!(status.attempts.len(), 1, "{name}: {:?}", status.attempts);
            // Made, queued, admitted, released, running, complete.
            let writes = witness.writes[&name].len();
            assert!(writes <= 6, "{name} was written {writes} times");
        }
        assert_eq!(witness.jobs.len(), count);
        assert!(witness.jobs.values().all(|uids| uids.len() == 1), "{:?}", witness.jobs);
        assert!(witness.most_holders <= SLOTS as usize, "{} held slots", witness.most_holders);
    });
}
