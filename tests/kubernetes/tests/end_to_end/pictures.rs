//! The dashboard: every panel shows what the cluster's Prometheus has read from the operator.

use std::fs;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use warpforge_operator_api::labels;
use warpforge_test_kubernetes::Error;
use warpforge_tests::root;

use crate::world::{RUNS, World};

/// Prometheus reads every second, and every query has data after two of them; a busy machine takes
/// longer.
const PATIENCE: Duration = Duration::from_mins(2);

/// Panels that need what this machine does not have.
const WITHOUT: &[(&str, &str)] = &[("Power", "no device here tells its power")];

/// A run while it runs: its own metrics, its log, its states.
pub async fn live(world: &'static World) -> Result<(), Error> {
    let parameters = json!({ "steps": "60", "noise_runs": "2" });
    world.submit(RUNS, "live", json!({ "workload": { "parameters": parameters } })).await?;
    let pods: Api<Pod> = Api::namespaced(world.cluster.client(), RUNS);
    let run = world.runs(RUNS).get("live").await?;
    let chosen = format!("{}={}", labels::RUN_UID, run.uid().unwrap_or_default());
    let chosen = ListParams::default().labels(&chosen);
    let address = world
        .cluster
        .until("the worker's address", PATIENCE, async || {
            let found = pods.list(&chosen).await.map_err(|error| error.to_string())?;
            let address = found.iter().find_map(|pod| pod.status.as_ref()?.pod_ip.clone());
            address.ok_or_else(|| "none".to_owned())
        })
        .await?;
    world.prometheus.follow(&[(format!("{address}:9464"), json!({ "job": "runner" }))])?;
    let query = "warpforge_runner_step{workload=\"bert-squad\", worker=\"cpu-0\"} > 0";
    world
        .cluster
        .until("the worker's steps", PATIENCE, async || {
            let series = world.prometheus.query(query).await.map_err(|error| error.to_string())?;
            if series.is_empty() { Err("no series".to_owned()) } else { Ok(()) }
        })
        .await?;
    let shown = world.warpforge(&["logs", "live", "--follow"], 0);
    assert!(shown.contains("bert-squad, preset demo: 60 steps"), "{shown}");
    let shown = world.warpforge(&["watch", "live"], 0);
    assert!(shown.contains("Correctness Pass"), "{shown}");
    Ok(())
}

/// A panel's name and one of its queries.
fn queries() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("charts/warpforge/files/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$workload", ".*").replace("$__rate_interval", "1m");
            all.push((panel["title"].as_str().unwrap().to_owned(), query));
        }
    }
    assert!(all.len() >= 15, "{all:?}");
    all
}

pub async fn panels(world: &'static World) -> Result<(), Error> {
    let targets = world.operators().await?;
    assert_eq!(targets.len(), 2, "two replicas");
    let targets: Vec<_> =
        targets.into_iter().map(|address| (address, json!({ "job": "operator" }))).collect();
    world.prometheus.follow(&targets)?;
    world
        .cluster
        .until("both operators to be read", PATIENCE, async || {
            let query = world.prometheus.query("count(warpforge_leader) == 2").await;
            let series = query.map_err(|error| error.to_string())?;
            if series.len() == 1 { Ok(()) } else { Err(format!("{series:?}")) }
        })
        .await?;
    // Rates are of what happens while Prometheus looks.
    world.submit(RUNS, "seen", json!({ "priorityClassName": "system-node-critical" })).await?;
    world.complete(RUNS, "seen").await?;
    for (panel, query) in queries() {
        let known = WITHOUT.iter().find(|(name, _)| *name == panel);
        if let Some((_, why)) = known {
            let series = world.prometheus.query(&query).await?;
            assert!(series.is_empty(), "{panel} has data after all; it was left out: {why}");
            continue;
        }
        world
            .cluster
            .until(&format!("data for {panel}: {query}"), PATIENCE, async || {
                let series = world.prometheus.query(&query).await;
                let series = series.map_err(|error| error.to_string())?;
                let number = |one: &Value| one["value"][1].as_str().map(str::to_owned);
                let numbers: Vec<_> = series.iter().filter_map(number).collect();
                let real =
                    numbers.iter().any(|number| number.parse::<f64>().is_ok_and(f64::is_finite));
                if real { Ok(()) } else { Err(format!("{series:?}")) }
            })
            .await?;
    }
    // One of the two is at work, and the verdicts are those of the runs.
    let leaders = world.prometheus.query("sum(warpforge_leader)").await?;
    assert_eq!(leaders[0]["value"][1], "1");
    let verdicts = "sum(warpforge_verdicts_total{kind=\"correctness\", verdict=\"Fail\"}) >= 1";
    assert_eq!(world.prometheus.query(verdicts).await?.len(), 1, "the mutated run is counted");
    Ok(())
}
