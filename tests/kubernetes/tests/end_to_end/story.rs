//! What a user does, from the first run to the last.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use warpforge_operator_api::Verdict;
use warpforge_operator_api::status::ConditionType;
use warpforge_test_kubernetes::{Error, s3};
use warpforge_tests::root;

use crate::world::{BUCKET, PATIENCE, RELEASE, RUNS, World, merge, object, small};

/// The sample as it is, but for the parameters that make it take seconds.
pub async fn demo(world: &'static World) -> Result<(), Error> {
    let text = fs::read_to_string(root().join("manifests/samples/cpu-demo.yaml")).unwrap();
    let mut sample: Value = serde_saphyr::from_str(&text).unwrap();
    if !warpforge_tests::campaign::full() {
        merge(&mut sample, json!({ "spec": { "workload": { "parameters": small() } } }));
    }
    world.apply(RUNS, &sample).await?;
    let status = world.complete(RUNS, "cpu-demo").await?;
    assert_eq!(status.correctness, Some(Verdict::Pass), "{}", status.message);
    assert_eq!(status.condition(ConditionType::GoldenReady).unwrap().reason, "GoldenMade");
    let results = status.results.as_ref().unwrap();
    assert!(results.ratio.is_some() && results.golden.loss.is_some());

    // The bundle is whole: every file that its list names, and the report that the status names.
    let report = status.report.as_ref().unwrap();
    let key = report.uri.strip_prefix(&format!("s3://{BUCKET}/")).unwrap();
    let folder = key.strip_suffix("report.json").unwrap().trim_end_matches('/');
    let name = folder.strip_prefix("runs/").unwrap();
    let store = format!("s3://{BUCKET}/runs");
    let endpoint = world.s3.endpoint();
    let place = ["--store", &store, "--endpoint", &endpoint];
    let text = world.warpforge(&[&["bundle", "verify", name], &place[..]].concat(), 0);
    assert!(text.contains("is whole"), "{text}");

    // People read it from where they are.
    let shown = world.warpforge(&["get", "cpu-demo"], 0);
    assert!(shown.contains("Pass") && shown.contains("samples/s"), "{shown}");
    let table = world.warpforge(&["get"], 0);
    assert!(table.contains("cpu-demo") && table.contains("Complete"), "{table}");
    world.warpforge(&["watch", "cpu-demo"], 0);
    let page = world.warpforge(&["report", "cpu-demo", "--quiet"], 0);
    let page = fs::read_to_string(page.trim()).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("Pass"));
    let browser = world.cluster.folder().join("browser");
    fs::write(&browser, "#!/bin/sh\ncp \"$1\" opened.html\n").unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    world.warpforge(&["report", "cpu-demo", "--open"], 0);
    assert_eq!(fs::read_to_string(world.cluster.folder().join("opened.html")).unwrap(), page);

    // The same again takes golden from the store.
    merge(&mut sample, json!({ "metadata": { "name": "cpu-demo-again" } }));
    world.apply(RUNS, &sample).await?;
    let status = world.complete(RUNS, "cpu-demo-again").await?;
    assert_eq!(status.correctness, Some(Verdict::Pass), "{}", status.message);
    assert_eq!(status.condition(ConditionType::GoldenReady).unwrap().reason, "GoldenReused");
    Ok(())
}

/// The step that a run of ours took, with one sign changed, in its place.
pub async fn mutated(world: &'static World) -> Result<(), Error> {
    world.submit(RUNS, "right", json!({})).await?;
    let status = world.complete(RUNS, "right").await?;
    let report = status.report.unwrap().uri;
    let folder = report.strip_prefix(&format!("s3://{BUCKET}/")).unwrap().to_owned();
    let step = folder.replace("report.json", "warpforge/step.mlir");
    let client = world.s3.client(s3::WRITER);
    let read = client.get_object().bucket(BUCKET).key(&step).send().await;
    let bytes = read.unwrap().body.collect().await.unwrap().into_bytes();
    let right = String::from_utf8(bytes.to_vec()).unwrap();
    // GELU's derivative without its factor.
    let wrong = right.replace("dense<1.1283792>", "dense<1.0>");
    assert_ne!(right, wrong);
    let put = client.put_object().bucket(BUCKET).key("programs/wrong.mlir");
    put.body(wrong.into_bytes().into()).send().await.unwrap();

    let file = world.cluster.folder().join("wrong.json");
    let run = json!({
        "apiVersion": "warpforge.dev/v1alpha1", "kind": "BenchmarkRun",
        "metadata": { "name": "wrong" },
        "spec": {
            "workload": { "name": "bert-squad", "preset": "demo", "parameters": small() },
            "programUri": format!("s3://{BUCKET}/programs/wrong.mlir"),
        },
    });
    fs::write(&file, run.to_string()).unwrap();
    let shown = world.warpforge(&["submit", "--file", file.to_str().unwrap(), "--wait"], 1);
    assert!(shown.contains("Correctness Fail") && shown.contains("gradients"), "{shown}");
    let status = world.complete(RUNS, "wrong").await?;
    assert_eq!((status.correctness, status.exit_code), (Some(Verdict::Fail), Some(1)));
    assert_eq!(status.condition(ConditionType::GoldenReady).unwrap().reason, "GoldenReused");
    Ok(())
}

/// The sample of a suite, shorter: two workers, so that its network is that between two nodes.
pub async fn suite(world: &'static World) -> Result<(), Error> {
    let text = fs::read_to_string(root().join("manifests/samples/node-check.yaml")).unwrap();
    let mut sample: Value = serde_saphyr::from_str(&text).unwrap();
    let changes = json!({ "spec": {
        "suite": {
            "benchmarks": ["disk_io", "net_bandwidth", "net_latency"],
            "durationSeconds": 2,
            "parameters": { "size_mib": "16", "cases": "random-read-32" },
        },
        "workers": [{ "name": "cpu", "replicas": 2, "vendor": "Cpu" }],
    }});
    merge(&mut sample, changes);
    world.apply(RUNS, &sample).await?;
    let status = world.complete(RUNS, "node-check").await?;
    let message = &status.message;
    assert_eq!(
        (status.correctness, &*status.reason),
        (Some(Verdict::Pass), "Measured"),
        "{message}"
    );
    assert_eq!(status.condition(ConditionType::Validated).unwrap().reason, "Measured");
    assert!(status.condition(ConditionType::GoldenReady).is_none());
    let results = status.results.as_ref().unwrap();
    let told: Vec<_> = results.benchmarks.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(told, ["disk_io", "net_bandwidth", "net_latency"]);

    // Steady or not, as busy as this machine is; people read the figures either way.
    let code = status.exit_code.unwrap();
    assert!([0, 3].contains(&code), "{message}");
    let shown = world.warpforge(&["get", "node-check"], 0);
    assert!(shown.contains("suite micro") && shown.contains("Gbit/s"), "{shown}");
    let shown = world.warpforge(&["report", "node-check"], code);
    assert!(shown.contains("micro/disk_io") && shown.contains("benchmark.json"), "{shown}");
    let file = shown.lines().last().unwrap_or_default();
    let stored: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let peer = stored["benchmarks"][1]["spec"]["params"]["peer"].as_str().unwrap();
    assert!(peer.contains("-1.wf-node-check-peers-"), "the other end is the second worker: {peer}");
    Ok(())
}

/// Two workers, on two nodes, compute one golden.
pub async fn two_ranks(world: &'static World) -> Result<(), Error> {
    let spec = json!({
        "goldenPolicy": "Only",
        "workers": [{ "name": "cpu", "replicas": 2, "vendor": "Cpu" }],
    });
    world.submit(RUNS, "two-ranks", spec).await?;
    let status = world.complete(RUNS, "two-ranks").await?;
    let message = &status.message;
    // Nothing was compared, and the golden is there.
    assert_eq!(status.correctness, Some(Verdict::Skipped), "{message}");
    assert_eq!(status.condition(ConditionType::GoldenReady).unwrap().reason, "GoldenMade");
    Ok(())
}

/// The Job that a `CronJob` of the chart would make.
pub async fn schedule(world: &'static World) -> Result<(), Error> {
    let schedules: Api<CronJob> = Api::namespaced(world.cluster.client(), RELEASE);
    let cron = schedules.get(&format!("{RELEASE}-small")).await?;
    let template = cron.spec.unwrap().job_template;
    let jobs: Api<Job> = Api::namespaced(world.cluster.client(), RELEASE);
    let job = json!({ "metadata": { "name": "by-hand" }, "spec": template.spec.clone() });
    jobs.create(&PostParams::default(), &object(job)).await?;
    world
        .cluster
        .until("the schedule's Job", PATIENCE, async || {
            let status = jobs.get("by-hand").await.map_err(|error| error.to_string())?.status;
            let status = status.unwrap_or_default();
            if status.succeeded == Some(1) { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await?;
    let run = world.runs(RELEASE).get("by-hand").await?;
    assert_eq!(run.status.unwrap().correctness, Some(Verdict::Pass));

    // Another verdict ends the Job at once: nobody tries again until it passes.
    let mut template = serde_json::to_value(template.spec).unwrap();
    let arguments = &mut template["template"]["spec"]["containers"][0]["args"];
    let arguments = arguments.as_array_mut().unwrap();
    let argument = arguments.iter_mut().find(|argument| *argument == "--set=expect={}");
    *argument.expect("the demo expects nothing") = "--set=expect=what".into();
    let job = json!({ "metadata": { "name": "by-hand-wrong" }, "spec": template });
    jobs.create(&PostParams::default(), &object(job)).await?;
    let (reason, pods) = world
        .cluster
        .until("the end of the schedule's Job", PATIENCE, async || {
            let job = jobs.get("by-hand-wrong").await.map_err(|error| error.to_string())?;
            let status = job.status.unwrap_or_default();
            let mut conditions = status.conditions.iter().flatten();
            match conditions.find(|one| one.type_ == "Failed" && one.status == "True") {
                Some(failed) => Ok((failed.reason.clone(), status.failed)),
                None => Err(format!("{status:?}")),
            }
        })
        .await?;
    assert_eq!(reason.as_deref(), Some("PodFailurePolicy"));
    assert_eq!(pods, Some(1), "it was tried again");
    let run = world.runs(RELEASE).get("by-hand-wrong").await?;
    let status = run.status.unwrap();
    assert_eq!((status.correctness, status.exit_code), (Some(Verdict::Invalid), Some(5)));
    Ok(())
}

pub async fn helm_test(world: &'static World) -> Result<(), Error> {
    let shown = world.helm(&["test", RELEASE, "--logs", "--timeout=10m"]);
    assert!(shown.contains("Correctness Pass"), "{shown}");
    Ok(())
}

/// Runs and their definitions are the users', not the release's.
pub async fn uninstall(world: &'static World) -> Result<(), Error> {
    let before = world.runs(RUNS).list(&ListParams::default()).await?.items.len();
    world.helm(&["uninstall", RELEASE, "--wait"]);
    let runs = world.runs(RUNS).list(&ListParams::default()).await?.items;
    assert_eq!(runs.len(), before);
    if let Some(run) = runs.first() {
        let name = run.metadata.name.as_deref().unwrap();
        world.runs(RUNS).delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}
