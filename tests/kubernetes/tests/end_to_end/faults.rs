//! What goes wrong on a cluster. Whatever it is, a run ends, once, and says why in words.

mod table;

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use warpforge_operator_api::status::Phase;
use warpforge_operator_api::{BenchmarkProfile, BenchmarkRunStatus, Verdict, labels};
use warpforge_test_kubernetes::{Error, Node, Slow};
use warpforge_tests::campaign;

use crate::world::{BUCKET, PATIENCE, RUNS, World, merge, note};
use table::{FAULTS, Fault, Harm, LONG, SLOW};

/// A profile that allows what the faults ask for, and secrets that they name.
async fn prepare(world: &World) -> Result<(), Error> {
    let secrets: Api<Secret> = Api::namespaced(world.cluster.client(), RUNS);
    let (id, key) = warpforge_test_kubernetes::s3::READER;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "reader" },
        "stringData": { "AWS_ACCESS_KEY_ID": id, "AWS_SECRET_ACCESS_KEY": key },
    });
    let apply = PatchParams::apply("test").force();
    secrets.patch("reader", &apply, &Patch::Apply(&secret)).await?;
    let profiles: Api<BenchmarkProfile> = Api::all(world.cluster.client());
    let mut spec = serde_json::to_value(profiles.get("default").await?.spec).unwrap_or_default();
    merge(
        &mut spec,
        json!({
            "allowed": { "images": ["warpforge.test/*"], "secrets": ["none", "reader", "s3"],
                         "uriPrefixes": ["s3://results", "s3://nowhere"],
                         "endpoints": [world.s3.endpoint(), SLOW],
                         "resources": ["nvidia.com/gpu"] },
            "concurrency": { "group": "faults", "max": 8 },
        }),
    );
    merge(&mut spec, json!({ "defaults": { "failurePolicy": { "maxRestarts": 0, "rules": [] } } }));
    let profile = json!({
        "apiVersion": "warpforge.dev/v1alpha1", "kind": "BenchmarkProfile",
        "metadata": { "name": "faults" }, "spec": spec,
    });
    profiles.patch("faults", &apply, &Patch::Apply(&profile)).await?;
    Ok(())
}

/// A sample, or all of them, or those that are named.
fn chosen() -> Vec<&'static Fault> {
    if let Ok(names) = std::env::var("WARPFORGE_TEST_FAULTS") {
        let named = |fault: &&Fault| names.split(',').any(|name| name == fault.name);
        let found: Vec<_> = FAULTS.iter().chain(LONG).filter(named).collect();
        assert_eq!(found.len(), names.split(',').count(), "WARPFORGE_TEST_FAULTS={names}");
        return found;
    }
    let mut numbers = campaign::numbers("cluster faults");
    let mut rest: Vec<&Fault> = FAULTS.iter().collect();
    let mut chosen = Vec::new();
    for _ in 0..campaign::rounds(4, FAULTS.len()) {
        chosen.push(rest.swap_remove(numbers.below(rest.len() as u64) as usize));
    }
    chosen.extend(LONG.iter().take(campaign::rounds(0, LONG.len())));
    chosen
}

pub async fn all(world: &'static World) -> Result<(), Error> {
    let mut problems = Vec::new();
    for fault in chosen() {
        prepare(world).await?;
        let start = std::time::Instant::now();
        let status = Box::pin(suffer(world, fault)).await?;
        let told = format!("{}: {}", status.reason, status.message);
        let named = status.reason.ends_with(fault.reason);
        if status.correctness != Some(fault.verdict) || !named {
            problems.push(format!("{}: {:?}, {told}", fault.name, status.correctness));
        } else if matches!(fault.harm, Harm::Node(..) | Harm::NodeDeleted)
            && !lost_and_tried_elsewhere(&status)
        {
            problems.push(format!("{}: its node was not lost: {:?}", fault.name, status.attempts));
        } else if status.message.len() < 20 {
            problems.push(format!("{}: nobody understands {told:?}", fault.name));
        }
        note(&format!("{}: {told} ({:.0?})", fault.name, start.elapsed()));
        nothing_is_left(world, fault.name).await?;
    }
    let seed = campaign::seed();
    assert!(problems.is_empty(), "WARPFORGE_TEST_SEED={seed}\n{}", problems.join("\n"));
    Ok(())
}

fn lost_and_tried_elsewhere(status: &BenchmarkRunStatus) -> bool {
    let reasons: Vec<_> = status.attempts.iter().map(|attempt| attempt.reason.as_str()).collect();
    matches!(reasons[..], ["NodeLost", _]) && status.excluded_nodes.len() == 1
}

/// The slow way to the object store, laid once.
fn slow(world: &World) -> &'static Slow {
    static WAY: OnceLock<Slow> = OnceLock::new();
    WAY.get_or_init(|| {
        let (from, to) = (SLOW, world.s3.endpoint());
        let address = |url: &str| url.trim_start_matches("http://").to_owned();
        Slow::start(&address(from), &address(&to)).unwrap()
    })
}

/// A run that the fault happens to, to its end.
async fn suffer(world: &World, fault: &Fault) -> Result<BenchmarkRunStatus, Error> {
    let name = fault.name;
    match fault.harm {
        Harm::Store => world.s3.stop(),
        Harm::Slow(pace) => slow(world).pace(pace),
        Harm::Devices => {
            for node in world.cluster.nodes() {
                node.unhealthy("nvidia.com/gpu", "gpu-3")?;
                world.cluster.offers(node, "nvidia.com/gpu", 7).await?;
            }
        }
        _ => {}
    }
    let mut spec = json!({ "profile": "faults" });
    merge(&mut spec, (fault.asks)());
    world.submit(RUNS, name, spec).await?;
    match fault.harm {
        Harm::Nothing => world.complete(RUNS, name).await,
        Harm::Slow(_) => {
            let before = slow(world).sent();
            let ended = world.complete(RUNS, name).await;
            let sent = slow(world).sent() - before;
            note(&format!("{name}: {} kB on the slow way", sent / 1000));
            assert!(sent > 0, "nothing went the slow way");
            ended
        }
        Harm::Full(seconds) => {
            running(world, name).await?;
            world.s3.fill()?;
            let ended = match seconds {
                Some(seconds) => {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    world.s3.empty()?;
                    world.complete(RUNS, name).await
                }
                None => world.complete(RUNS, name).await,
            };
            world.s3.empty()?;
            ended
        }
        Harm::Device | Harm::DeviceAndKubelet => {
            let node = node_of(world, name).await?;
            for number in 0..8 {
                node.unhealthy("nvidia.com/gpu", &format!("gpu-{number}"))?;
            }
            world.cluster.offers(node, "nvidia.com/gpu", 0).await?;
            if matches!(fault.harm, Harm::DeviceAndKubelet) {
                node.restart_kubelet()?;
            }
            let ended = world.complete(RUNS, name).await;
            node.repair()?;
            world.cluster.ready(node).await?;
            ended
        }
        Harm::Store => {
            let ended = world.complete(RUNS, name).await;
            world.s3.restart()?;
            world.s3.make_bucket("again").await?;
            ended
        }
        Harm::Devices => {
            let ended = world.complete(RUNS, name).await;
            world.cluster.nodes().iter().try_for_each(|node| node.repair())?;
            ended
        }
        Harm::Node(harm, mend) => {
            let node = node_of(world, name).await?;
            harm(node)?;
            let ended = world.complete(RUNS, name).await;
            mend(node)?;
            world.cluster.ready(node).await?;
            ended
        }
        Harm::NodeDeleted => {
            let node = node_of(world, name).await?;
            node.crash()?;
            let nodes: Api<NodeObject> = Api::all(world.cluster.client());
            nodes.delete(&node.name(), &DeleteParams::default()).await?;
            let ended = world.complete(RUNS, name).await;
            node.start()?;
            world.cluster.ready(node).await?;
            ended
        }
        Harm::ApiServer(seconds) => {
            running(world, name).await?;
            world.cluster.api_server().stop();
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            world.cluster.api_server().start()?;
            world.cluster.api_server().answers(&world.cluster.client()).await?;
            world.complete(RUNS, name).await
        }
        Harm::Profile => {
            running(world, name).await?;
            let profiles: Api<BenchmarkProfile> = Api::all(world.cluster.client());
            profiles.delete("faults", &DeleteParams::default()).await?;
            world.complete(RUNS, name).await
        }
        Harm::Kill(process) => {
            running(world, name).await?;
            world
                .cluster
                .until("the process to kill", PATIENCE, async || {
                    match kill("/usr/bin/warpforge", process) {
                        0 => Err("it is not there".to_owned()),
                        _ => Ok(()),
                    }
                })
                .await?;
            world.complete(RUNS, name).await
        }
    }
}

async fn running(world: &World, name: &str) -> Result<(), Error> {
    let runs = world.runs(RUNS);
    world
        .cluster
        .until(&format!("{name} to run"), PATIENCE, async || {
            let run = runs.get(name).await.map_err(|error| error.to_string())?;
            let status = run.status.unwrap_or_default();
            match status.phase {
                Phase::Running | Phase::Complete => Ok(()),
                _ => Err(format!("{} {}", status.phase.name(), status.message)),
            }
        })
        .await
}

async fn node_of<'a>(world: &'a World, name: &str) -> Result<&'a Node, Error> {
    running(world, name).await?;
    let run = world.runs(RUNS).get(name).await?;
    let pods = pods(world, &run.uid().unwrap_or_default()).await?;
    let node = pods.first().and_then(|pod| pod.spec.as_ref()?.node_name.clone());
    let node = node.unwrap_or_default();
    let found = world.cluster.nodes().iter().find(|one| one.name() == node);
    let found = found.map(AsRef::as_ref);
    found.ok_or_else(|| Error::Wrong(format!("{name} runs on no node of ours: {node:?}")))
}

async fn pods(world: &World, uid: &str) -> Result<Vec<Pod>, Error> {
    let pods: Api<Pod> = Api::namespaced(world.cluster.client(), RUNS);
    let chosen = ListParams::default().labels(&format!("{}={uid}", labels::RUN_UID));
    Ok(pods.list(&chosen).await?.items)
}

/// Kills every process with this beginning of its command line. The test sees those of its nodes.
fn kill(program: &str, argument: &str) -> usize {
    let start = format!("{program}\0{argument}\0").into_bytes();
    let mut count = 0;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let id = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        if let Some(id) = id.filter(|_| line.starts_with(&start)) {
            count += usize::from(kill_process(id, Signal::KILL).is_ok());
        }
    }
    count
}

/// A run that has ended has no Jobs and no pods.
async fn nothing_is_left(world: &World, name: &str) -> Result<(), Error> {
    let uid = world.runs(RUNS).get(name).await?.uid().unwrap_or_default();
    let jobs: Api<Job> = Api::namespaced(world.cluster.client(), RUNS);
    let chosen = ListParams::default().labels(&format!("{}={uid}", labels::RUN_UID));
    world
        .cluster
        .until(&format!("all of {name} to go"), PATIENCE, async || {
            let jobs = jobs.list(&chosen).await.map_err(|error| error.to_string())?.items.len();
            let pods = pods(world, &uid).await.map_err(|error| error.to_string())?.len();
            if jobs + pods == 0 { Ok(()) } else { Err(format!("{jobs} Jobs, {pods} pods")) }
        })
        .await
}

/// Whatever phase a run is in, deleting it ends its pods; the same name can be used at once.
pub async fn deleted(world: &'static World) -> Result<(), Error> {
    for phase in [Phase::Pending, Phase::Starting, Phase::Running] {
        world.submit(RUNS, "deleted", json!({})).await?;
        let runs = world.runs(RUNS);
        world
            .cluster
            .until(&format!("phase {}", phase.name()), PATIENCE, async || {
                let run = runs.get("deleted").await.map_err(|error| error.to_string())?;
                let now = run.status.unwrap_or_default().phase;
                let passed = Phase::ALL.iter().position(|one| *one == now)
                    >= Phase::ALL.iter().position(|one| *one == phase);
                if passed { Ok(()) } else { Err(now.name().to_owned()) }
            })
            .await?;
        delete(world, "deleted").await?;
    }
    // What a finished run stored stays when the run is deleted.
    world.submit(RUNS, "deleted", json!({})).await?;
    let report = world.complete(RUNS, "deleted").await?.report.expect("a report").uri;
    delete(world, "deleted").await?;
    let key = report.strip_prefix(&format!("s3://{BUCKET}/")).unwrap().to_owned();
    let client = world.s3.client(warpforge_test_kubernetes::s3::READER);
    let read = client.head_object().bucket(BUCKET).key(&key).send().await;
    assert!(read.is_ok(), "{report}: {read:?}");
    Ok(())
}

/// Deletes a run, and waits until it and its pods are gone.
async fn delete(world: &World, name: &str) -> Result<(), Error> {
    let runs = world.runs(RUNS);
    let uid = runs.get(name).await?.uid().unwrap_or_default();
    runs.delete(name, &DeleteParams::default()).await?;
    world
        .cluster
        .until("its pods to go", PATIENCE, async || {
            let there = runs.get_opt(name).await.map_err(|error| error.to_string())?;
            let pods = pods(world, &uid).await.map_err(|error| error.to_string())?;
            match there.is_none() && pods.is_empty() {
                true => Ok(()),
                false => Err(format!("{} pods", pods.len())),
            }
        })
        .await
}

/// Operators are killed again and again while runs overlap: each run ends once, with its verdict.
pub async fn operators_killed(world: &'static World) -> Result<(), Error> {
    prepare(world).await?;
    let mut numbers = campaign::numbers("operators killed");
    let names: Vec<_> = (0..3).map(|number| format!("overlapping-{number}")).collect();
    for name in &names {
        world.submit(RUNS, name, json!({ "profile": "faults" })).await?;
    }
    for _ in 0..campaign::rounds(3, 20) {
        tokio::time::sleep(Duration::from_millis(numbers.below(4_000))).await;
        world
            .cluster
            .until("an operator to kill", PATIENCE, async || {
                match kill("/usr/bin/warpforge-operator", "run") {
                    0 => Err("none runs".to_owned()),
                    _ => Ok(()),
                }
            })
            .await?;
    }
    for name in &names {
        let status = world.complete(RUNS, name).await?;
        assert_eq!(status.correctness, Some(Verdict::Pass), "{name}: {}", status.message);
        assert_eq!(status.attempts.len(), 1, "{name} was tried more than once");
        nothing_is_left(world, name).await?;
    }
    Ok(())
}
