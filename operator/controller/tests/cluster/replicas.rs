//! Several replicas, of which one is at work.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams, PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use warpforge_operator_api::Verdict;
use warpforge_operator_api::status::Phase;

use super::scene::{Operator, Scene, scene, until};

async fn holder(scene: &Scene) -> Option<String> {
    let lease = scene.api::<Lease>().get_opt("warpforge-operator").await.unwrap()?;
    lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

async fn until_one_leads(operators: &[Operator]) -> usize {
    until("one to lead", async || {
        for (index, operator) in operators.iter().enumerate() {
            if operator.leads().await {
                return Some(index);
            }
        }
        None
    })
    .await
}

#[test]
fn another_replica_takes_over_from_one_that_is_killed_and_at_once_from_one_that_stops() {
    scene(async |scene| {
        scene.profile(None, |_| ()).await;
        let mut operators = vec![scene.operator(), scene.operator()];
        let leader = until_one_leads(&operators).await;
        assert!(!operators[1 - leader].leads().await);
        assert_eq!(operators[1 - leader].get("/readyz").await.unwrap().0, 200);
        let run = scene.submit("survives", scene.spec()).await;
        let pods = scene.until_pods(&run, 1).await;
        scene.starts(&pods[0], "127.0.0.1").await;
        operators.remove(leader).kill();
        let killed = std::time::Instant::now();
        until_one_leads(&operators).await;
        // Not before the hold of the one that is gone was over.
        assert!(killed.elapsed() >= Duration::from_secs(2), "{:?}", killed.elapsed());
        scene.concludes(&pods[0], Verdict::Pass).await;
        let status = scene.until_phase("survives", Phase::Complete).await;
        assert_eq!((status.exit_code, status.attempts.len()), (Some(0), 1));
        // A replica that stops in good order lets the next begin at once.
        let last = operators.remove(0);
        let mut last = last;
        assert_eq!(last.stop(), Some(0), "{}", last.log());
        assert_eq!(holder(&scene).await, None);
    });
}

#[test]
fn a_replica_that_was_stopped_for_long_ends_instead_of_going_on() {
    scene(async |scene| {
        let mut first = scene.operator();
        until("the first to lead", async || first.leads().await.then_some(())).await;
        let process = Pid::from_child(&first.child);
        kill_process(process, Signal::STOP).unwrap();
        let second = scene.operator();
        until("the second to lead", async || second.leads().await.then_some(())).await;
        let identity = holder(&scene).await;
        kill_process(process, Signal::CONT).unwrap();
        let code = until("the first to end", async || first.child.try_wait().unwrap()).await;
        assert_ne!(code.code(), Some(0), "{}", first.log());
        assert_eq!(holder(&scene).await, identity);
    });
}

/// The holder's clock is an hour off, one way or the other: what counts is that its record changes.
#[test]
fn a_lease_is_neither_taken_nor_kept_by_a_clock_that_is_wrong() {
    for hours in [-1, 1] {
        scene(async |scene| {
            let leases = scene.api::<Lease>();
            let renewed = || {
                let time = Timestamp::now() + SignedDuration::from_hours(hours);
                json!({ "holderIdentity": "another", "leaseDurationSeconds": 3,
                        "renewTime": MicroTime(time) })
            };
            let lease = json!({ "metadata": { "name": "warpforge-operator" }, "spec": renewed() });
            let lease = serde_json::from_value(lease).unwrap();
            leases.create(&PostParams::default(), &lease).await.unwrap();
            let operator = scene.operator();
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(500)).await;
                let patch = Patch::Merge(json!({ "spec": renewed() }));
                let params = PatchParams::default();
                leases.patch("warpforge-operator", &params, &patch).await.unwrap();
                assert!(!operator.leads().await, "{hours} h: it took what another holds");
            }
            let last = std::time::Instant::now();
            until("the operator to lead", async || operator.leads().await.then_some(())).await;
            assert!(last.elapsed() >= Duration::from_secs(2), "{:?}", last.elapsed());
        });
    }
}
