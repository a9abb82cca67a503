//! A run from its request to its end.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde_json::json;
use warpforge_operator_api::contract::{
    Figure, GoldenUse, HTTP_PORT, Progress, Report, Results, Termination,
};
use warpforge_operator_api::data::Stage;
use warpforge_operator_api::policy::{FailureAction, FailureMatch, FailureRule, Ttl};
use warpforge_operator_api::status::{ConditionType, Phase};
use warpforge_operator_api::workers::{Vendor, WorkerGroup};
use warpforge_operator_api::{BenchmarkRunSpec, Reason, Verdict};

use super::scene::{Scene, scene, until};

#[test]
fn a_run_goes_through_its_phases_and_leaves_nothing_but_its_verdict() {
    scene(async |scene| {
        scene.profile(Some(1), |_| ()).await;
        let operator = scene.operator();
        let workers = vec![
            WorkerGroup { replicas: 2, ..WorkerGroup::new("a", Vendor::Cpu) },
            WorkerGroup::new("b", Vendor::Cpu),
        ];
        let run = scene.submit("whole", BenchmarkRunSpec { workers, ..scene.spec() }).await;
        let mut states = Box::pin(
            scene
                .runs()
                .watch(&WatchParams::default().fields("metadata.name=whole"), "0")
                .await
                .unwrap(),
        );
        let pods = scene.until_pods(&run, 3).await;
        let jobs = scene.jobs().await;
        assert_eq!(jobs.len(), 2);
        assert!(jobs.iter().all(|job| job.spec.as_ref().unwrap().suspend == Some(false)));
        assert!(jobs.iter().all(|job| job.owner_references()[0].uid == run.uid().unwrap()));
        let status = scene.until_phase("whole", Phase::Starting).await;
        assert!(status.is(ConditionType::Admitted) && status.resolved.is_some());
        for pod in &pods {
            scene.starts(pod, "127.0.0.1").await;
        }
        scene.until_phase("whole", Phase::Running).await;
        scene.ends(&pods[2], 0, "").await;
        let message = Termination {
            performance: Some(Verdict::Inconclusive),
            golden: Some(GoldenUse::Made),
            report: Some(Report { uri: "s3://b/report.json".into(), sha256: "0".repeat(64) }),
            results: Some(Results { ratio: Figure::new(0.75), ..Results::default() }),
            ..Termination::verdict(Verdict::Pass, "Agrees", "all 12 tensors agree")
        };
        scene.ends(&pods[0], 0, &message.to_json()).await;
        let status = scene.until_phase("whole", Phase::Complete).await;
        assert_eq!(status.correctness, Some(Verdict::Pass));
        assert_eq!(status.performance, Some(Verdict::Inconclusive));
        assert_eq!(status.exit_code, Some(0));
        assert_eq!(status.report, message.report);
        assert_eq!(status.results, message.results);
        let metrics = operator.metrics().await;
        let line = "warpforge_result_ratio{hardware=\"\",workload=\"bert-squad\"} 0.75";
        assert!(metrics.contains(line), "{metrics}");
        until("all children to go", async || children(&scene).await.is_empty().then_some(())).await;

        // One write for each step, and none after the last.
        let version = scene.runs().get("whole").await.unwrap().resource_version();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(scene.runs().get("whole").await.unwrap().resource_version(), version);
        let mut seen = Vec::new();
        while let Some(Ok(event)) = states.next().await {
            let (WatchEvent::Added(state) | WatchEvent::Modified(state)) = event else { continue };
            let last = state.resource_version() == version;
            let status = state.status.unwrap_or_default();
            let attempt = status.attempt.map(|attempt| attempt.state);
            seen.push(format!("{} {attempt:?}", status.phase.name()));
            if last {
                break;
            }
        }
        let steps = ["Pending None", "Starting Some(Creating)", "Starting Some(Released)"];
        let ends = ["Running Some(Running)", "Complete None"];
        assert_eq!(seen, [&steps[..], &ends[..]].concat());

        let events = scene.api::<Event>().list(&ListParams::default()).await.unwrap();
        let told: BTreeSet<_> = events.iter().filter_map(|event| event.reason.clone()).collect();
        let expected = ["Admitted", "Complete", "Resolved", "Running"];
        let expected: BTreeSet<_> = expected.into_iter().map(str::to_owned).collect();
        assert!(told.is_superset(&expected), "{told:?}");

        let metrics = operator.metrics().await;
        for line in [
            "warpforge_runs{phase=\"Complete\"} 1",
            "warpforge_verdicts_total{kind=\"correctness\",verdict=\"Pass\",workload=\"bert-squad\"} 1",
            "warpforge_verdicts_total{kind=\"performance\",verdict=\"Inconclusive\",workload=\"bert-squad\"} 1",
            "warpforge_reasons_total{reason=\"Finished\"} 1",
            "warpforge_golden_total{result=\"made\"} 1",
            "warpforge_leader 1",
            "warpforge_queue_depth 0",
            "warpforge_last_success_timestamp_seconds{workload=\"bert-squad\"} 1",
        ] {
            assert!(metrics.contains(line), "no {line} in\n{metrics}");
        }
        assert!(metrics.contains("warpforge_reconcile_seconds_bucket"), "{metrics}");
        assert_eq!(operator.get("/healthz").await.unwrap().0, 200);
        assert_eq!(operator.get("/readyz").await.unwrap().0, 200);
        assert_eq!(operator.get("/other").await.unwrap().0, 404);
    });
}

async fn children(scene: &Scene) -> Vec<String> {
    let params = ListParams::default().labels("app.kubernetes.io/managed-by=warpforge-operator");
    let mut names = Vec::new();
    names.extend(scene.jobs().await.iter().map(kube::ResourceExt::name_any));
    let pods = scene.api::<Pod>().list(&params).await.unwrap();
    names.extend(pods.iter().map(kube::ResourceExt::name_any));
    let maps = scene.api::<ConfigMap>().list(&params).await.unwrap();
    names.extend(maps.iter().map(kube::ResourceExt::name_any));
    let services = scene.api::<Service>().list(&params).await.unwrap();
    names.extend(services.iter().map(kube::ResourceExt::name_any));
    let policies = scene.api::<NetworkPolicy>().list(&params).await.unwrap();
    names.extend(policies.iter().map(kube::ResourceExt::name_any));
    names
}

#[test]
fn a_failed_attempt_is_made_again_under_a_new_name() {
    scene(async |scene| {
        scene.profile(None, |_| ()).await;
        let _operator = scene.operator();
        let mut spec = scene.spec();
        let when = FailureMatch { exit_codes: Vec::new(), reasons: vec![Reason::UploadFailed] };
        let rule = FailureRule { when, action: FailureAction::Retry };
        spec.failure_policy = Some(warpforge_operator_api::policy::FailurePolicy {
            max_restarts: 1,
            rules: vec![rule],
        });
        let run = scene.submit("again", spec).await;
        let first = scene.until_pods(&run, 1).await;
        scene.starts(&first[0], "127.0.0.1").await;
        let message = Termination::failure(3, Reason::UploadFailed, "the store is full");
        scene.ends(&first[0], 3, &message.to_json()).await;
        let second = until("another pod", async || {
            let pods = scene.pods(&run).await;
            pods.into_iter().find(|pod| pod.name_any() != first[0].name_any())
        })
        .await;
        let status = scene.status("again").await;
        assert_eq!((status.restarts, status.attempts.len()), (1, 1));
        assert_eq!(status.attempts[0].reason, "UploadFailed");
        scene.starts(&second, "127.0.0.1").await;
        scene.until_phase("again", Phase::Running).await;
        scene.concludes(&second, Verdict::Fail).await;
        let status = scene.until_phase("again", Phase::Complete).await;
        assert_eq!((status.correctness, status.exit_code), (Some(Verdict::Fail), Some(1)));
    });
}

#[test]
fn slots_are_given_in_order_and_given_back_by_the_end_suspension_and_deletion() {
    scene(async |scene| {
        scene.profile(Some(1), |_| ()).await;
        let operator = scene.operator();
        let mut runs = Vec::new();
        for name in ["one", "two", "three", "four"] {
            runs.push(scene.submit(name, scene.spec()).await);
            // Ages are counted in seconds.
            tokio::time::sleep(Duration::from_millis(1100)).await;
        }
        let waiting = scene.until_phase("four", Phase::Queued).await;
        assert_eq!(waiting.reason, "WaitingForSlot");
        let metrics = operator.metrics().await;
        assert!(metrics.contains("warpforge_waiting{reason=\"WaitingForSlot\"} 3"), "{metrics}");

        scene.plays(&runs[0], 1, Verdict::Pass).await;
        scene.until_phase("two", Phase::Starting).await;
        assert_eq!(scene.status("three").await.phase, Phase::Queued);

        scene.patch("two", json!({ "spec": { "suspend": true } })).await;
        scene.until_phase("two", Phase::Suspended).await;
        scene.until_phase("three", Phase::Starting).await;
        assert_eq!(scene.status("four").await.phase, Phase::Queued);

        scene.until_pods(&runs[2], 1).await;
        scene.delete("three").await;
        scene.until_phase("four", Phase::Starting).await;
        until("the deleted run's pods to go", async || {
            scene.pods(&runs[2]).await.is_empty().then_some(())
        })
        .await;

        // The one that was held back comes again once it may.
        scene.patch("two", json!({ "spec": { "suspend": false } })).await;
        scene.until_phase("two", Phase::Queued).await;
        scene.plays(&runs[3], 1, Verdict::Pass).await;
        scene.plays(&runs[1], 1, Verdict::Pass).await;
        let status = scene.until_phase("two", Phase::Complete).await;
        assert_eq!(status.attempts.len(), 2);
    });
}

#[test]
fn a_run_that_waits_for_its_profile_goes_on_when_it_appears() {
    scene(async |scene| {
        let _operator = scene.operator();
        let run = scene.submit("early", scene.spec()).await;
        let status = scene.until_phase("early", Phase::Pending).await;
        assert_eq!(status.reason, "WaitingForProfile");
        scene.profile(None, |_| ()).await;
        scene.until_pods(&run, 1).await;
    });
}

#[test]
fn a_finished_run_is_deleted_when_its_time_is_over() {
    scene(async |scene| {
        scene.profile(None, |_| ()).await;
        let _operator = scene.operator();
        let ttl = Some(Ttl { passed: Some(1), failed: None });
        let spec = BenchmarkRunSpec { ttl_seconds_after_finished: ttl, ..scene.spec() };
        let passes = scene.submit("passes", spec.clone()).await;
        let fails = scene.submit("fails", spec).await;
        scene.plays(&fails, 1, Verdict::Fail).await;
        scene.plays(&passes, 1, Verdict::Pass).await;
        until("the passed run to go", async || {
            scene.runs().get_opt("passes").await.unwrap().is_none().then_some(())
        })
        .await;
        assert_eq!(scene.until_phase("fails", Phase::Complete).await.exit_code, Some(1));
        // The time to live may be set afterwards.
        scene
            .patch("fails", json!({ "spec": { "ttlSecondsAfterFinished": { "failed": 0 } } }))
            .await;
        until("the failed run to go", async || {
            scene.runs().get_opt("fails").await.unwrap().is_none().then_some(())
        })
        .await;
    });
}

#[test]
fn the_leaders_progress_reaches_the_status_and_the_metrics() {
    // An address of its own: the port is the same for all pods.
    const ADDRESS: &str = "127.0.0.77";
    scene(async |scene| {
        scene.profile(None, |_| ()).await;
        let operator = scene.operator();
        let progress = Progress {
            version: 1,
            pass: Stage::Warpforge,
            step: 120,
            steps: 500,
            loss: Some(2.5),
            eta_seconds: Some(60),
            golden: Some(GoldenUse::Reused),
        };
        let listener = TcpListener::bind((ADDRESS, HTTP_PORT)).unwrap();
        let body = serde_json::to_string(&progress).unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.read(&mut [0; 1024]);
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        let run = scene.submit("tells", scene.spec()).await;
        let pods = scene.until_pods(&run, 1).await;
        scene.starts(&pods[0], ADDRESS).await;
        let status = until("progress", async || {
            Some(scene.status("tells").await).filter(|status| status.progress.is_some())
        })
        .await;
        assert_eq!(status.progress.as_ref().unwrap().summary, "Warpforge 120/500");
        assert!(status.is(ConditionType::GoldenReady));
        let metrics = operator.metrics().await;
        let line = "warpforge_result_loss{pass=\"warpforge\",workload=\"bert-squad\"} 2.5";
        assert!(metrics.contains(line), "{metrics}");
        let version = scene.runs().get("tells").await.unwrap().resource_version();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(scene.runs().get("tells").await.unwrap().resource_version(), version);
    });
}

#[test]
fn a_request_that_the_profile_does_not_allow_ends_invalid() {
    scene(async |scene| {
        scene.profile(None, |_| ()).await;
        let _operator = scene.operator();
        let mut spec = scene.spec();
        spec.workers[0].image = Some("elsewhere.example.org/x:1".into());
        scene.submit("greedy", spec).await;
        let status = scene.until_phase("greedy", Phase::Complete).await;
        assert_eq!((status.correctness, status.exit_code), (Some(Verdict::Invalid), Some(5)));
        assert_eq!(status.reason, "Refused");
        assert!(status.message.contains("elsewhere.example.org/x:1"), "{}", status.message);
        assert!(children(&scene).await.is_empty());
    });
}

#[test]
fn a_run_may_be_deleted_in_any_phase() {
    scene(async |scene| {
        scene.profile(Some(3), |_| ()).await;
        let operator = scene.operator();
        let mut runs = Vec::new();
        for name in ["complete", "running", "starting", "suspended", "queued"] {
            runs.push(scene.submit(name, scene.spec()).await);
            tokio::time::sleep(Duration::from_millis(1100)).await;
        }
        scene.patch("suspended", json!({ "spec": { "suspend": true } })).await;
        scene.until_phase("suspended", Phase::Suspended).await;
        let pods = scene.until_pods(&runs[1], 1).await;
        scene.starts(&pods[0], "127.0.0.1").await;
        scene.until_phase("running", Phase::Running).await;
        scene.until_phase("starting", Phase::Starting).await;
        scene.until_phase("queued", Phase::Queued).await;
        scene.plays(&runs[0], 1, Verdict::Pass).await;
        scene.until_phase("complete", Phase::Complete).await;
        for run in &runs {
            scene.delete(&run.name_any()).await;
        }
        until("all children to go", async || children(&scene).await.is_empty().then_some(())).await;
        until("the operator to forget them", async || {
            let metrics = operator.metrics().await;
            let counts = metrics.lines().filter(|line| line.starts_with("warpforge_runs{"));
            let counts: Vec<_> = counts.collect();
            let none = !counts.is_empty() && counts.iter().all(|line| line.ends_with(" 0"));
            none.then_some(())
        })
        .await;
    });
}
