//! What a run cannot do, each tried.

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use warpforge_operator_api::status::ConditionType;
use warpforge_operator_api::{BenchmarkProfile, Verdict, labels};
use warpforge_test_kubernetes::{Error, s3, stock};

use crate::world::{BUCKET, PATIENCE, RUNS, World, merge, object, worker};

/// Requests that the default profile does not allow, and the field that the refusal names.
fn refused() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("image", worker(json!({ "image": "evil.example/miner:1" })), "workers[cpu].image"),
        (
            "node",
            worker(json!({ "nodeSelector": { "kubernetes.io/hostname": "node2" } })),
            "workers[cpu].nodeSelector",
        ),
        (
            "secret",
            json!({ "data": { "huggingFaceTokenSecret": { "name": "other", "key": "token" } } }),
            "data.huggingFaceTokenSecret",
        ),
        (
            "endpoint",
            json!({ "artifacts": { "s3": { "endpoint": "http://10.9.9.9:80", "bucket": "results" } } }),
            "artifacts.s3.endpoint",
        ),
        (
            "bucket",
            json!({ "artifacts": { "s3": { "endpoint": "http://172.30.0.1:8333",
                                             "bucket": "others" } } }),
            "artifacts.s3.bucket",
        ),
        (
            "volume",
            json!({ "data": { "volumeClaims": [{ "name": "x", "claimName": "other" }] } }),
            "data.volumeClaims",
        ),
        ("program", json!({ "programUri": "s3://others/step.mlir" }), "programUri"),
        ("priority", json!({ "priorityClassName": "system-node-critical" }), "priorityClassName"),
    ]
}

/// Fields that a run has no words for at all.
fn wordless() -> Vec<(&'static str, Value)> {
    vec![
        ("account", json!({ "serviceAccountName": "operator" })),
        ("host-path", worker(json!({ "volumes": [{ "hostPath": { "path": "/" } }] }))),
        ("privileged", worker(json!({ "securityContext": { "privileged": true } }))),
        ("host-network", worker(json!({ "hostNetwork": true }))),
        (
            "secret-elsewhere",
            json!({ "data": { "huggingFaceTokenSecret": {
                "name": "s3", "key": "AWS_ACCESS_KEY_ID", "namespace": "others" } } }),
        ),
        ("secret-env", worker(json!({ "env": [{ "name": "A", "valueFrom": {} }] }))),
    ]
}

pub async fn requests(world: &'static World) -> Result<(), Error> {
    for (name, change, field) in refused() {
        let name = format!("refused-{name}");
        world.submit(RUNS, &name, change).await?;
        let status = world.complete(RUNS, &name).await?;
        assert_eq!(status.correctness, Some(Verdict::Invalid), "{name}: {}", status.message);
        assert_eq!(status.reason, "Refused", "{name}");
        assert!(status.message.contains(field), "{name}: {}", status.message);
    }
    for (name, change) in wordless() {
        let error = world.submit(RUNS, &format!("wordless-{name}"), change).await;
        let error = error.expect_err(name).to_string();
        assert!(error.contains("field not declared in schema"), "{name}: {error}");
    }
    Ok(())
}

/// A pod as the operator makes it for a run, with a shell in the place of the runner: what it sees
/// is what a runner sees.
pub async fn runner(world: &'static World) -> Result<(), Error> {
    world.submit(RUNS, "looked-into", json!({})).await?;
    let pods: Api<Pod> = Api::namespaced(world.cluster.client(), RUNS);
    let run = world.runs(RUNS).get("looked-into").await?;
    let uid = format!("{}={}", labels::RUN_UID, run.uid().unwrap());
    let pod = world
        .cluster
        .until("the run's pod", PATIENCE, async || {
            let found = pods.list(&ListParams::default().labels(&uid)).await;
            let found = found.map_err(|error| error.to_string())?;
            found.items.into_iter().next().ok_or_else(|| "none".to_owned())
        })
        .await?;
    let mut spec = serde_json::to_value(pod.spec.unwrap()).unwrap();
    let script = "[ -e /var/run/secrets ] && echo token; : > /x; cat /proc/self/status";
    let container = &mut spec["containers"][0];
    container["image"] = stock::SHELL.into();
    container["args"] = json!([script]);
    spec.as_object_mut().unwrap().remove("nodeName");
    let shell = stock::shell(world.cluster.folder())?;
    world.cluster.import(&shell)?;
    let annotations = json!({ "batch.kubernetes.io/job-completion-index": "0" });
    let probe = json!({ "metadata": { "name": "probe", "annotations": annotations },
                        "spec": spec });
    pods.create(&PostParams::default(), &object(probe)).await?;
    world
        .cluster
        .until("the probe's end", PATIENCE, async || {
            let pod = pods.get("probe").await.map_err(|error| error.to_string())?;
            let status = pod.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Succeeded" | "Failed") => Ok(()),
                _ => Err(format!("{status:?}")),
            }
        })
        .await?;
    let text = pods.logs("probe", &LogParams::default()).await?;
    assert!(!text.contains("token"), "{text}");
    for line in [
        "Read-only file system",
        "Uid:\t65532\t65532\t65532\t65532",
        "Gid:\t65532\t65532\t65532\t65532",
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        // By a filter.
        "Seccomp:\t2",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    world.complete(RUNS, "looked-into").await.map(drop)
}

/// The same request in another namespace makes a golden of its own; with a profile that says
/// nothing of the network, whose policy is open.
pub async fn goldens(world: &'static World) -> Result<(), Error> {
    world.namespace("others").await?;
    let profiles: Api<BenchmarkProfile> = Api::all(world.cluster.client());
    let mut spec = serde_json::to_value(profiles.get("default").await?.spec).unwrap();
    spec.as_object_mut().unwrap().remove("network").expect("the default profile's network");
    let profile = object(json!({ "metadata": { "name": "open" }, "spec": spec }));
    profiles.create(&PostParams::default(), &profile).await?;
    world.submit("others", "mine", json!({ "profile": "open" })).await?;
    let status = world.complete("others", "mine").await?;
    assert_eq!(status.correctness, Some(Verdict::Pass), "{}", status.message);
    assert_eq!(status.condition(ConditionType::GoldenReady).unwrap().reason, "GoldenMade");
    Ok(())
}

/// A namespace whose credentials reach its own folders and no others: its runs have all they need
/// with them, and no run can bring what another namespace stored.
pub async fn artifacts(world: &'static World) -> Result<(), Error> {
    world.namespace("tenant").await?;
    let secrets: Api<Secret> = Api::namespaced(world.cluster.client(), "tenant");
    let (id, key) = s3::TENANT;
    let secret = json!({ "stringData": { "AWS_ACCESS_KEY_ID": id, "AWS_SECRET_ACCESS_KEY": key } });
    secrets.patch("s3", &PatchParams::default(), &Patch::Merge(&secret)).await?;
    world.submit(RUNS, "theirs", json!({})).await?;
    let theirs = world.complete(RUNS, "theirs").await?;
    let theirs = theirs.report.unwrap().uri.replace("report.json", "warpforge/step.mlir");

    // The store itself refuses: to read, to write, to list.
    let client = world.s3.client(s3::TENANT);
    let key = theirs.strip_prefix(&format!("s3://{BUCKET}/")).unwrap();
    let refused = |text: String| assert!(text.contains("AccessDenied"), "{text}");
    let read = client.get_object().bucket(BUCKET).key(key).send().await;
    refused(format!("{:?}", read.map(drop)));
    let write = client.put_object().bucket(BUCKET).key(key).send().await;
    refused(format!("{:?}", write.map(drop)));
    let folder = format!("runs/{RUNS}/");
    let list = client.list_objects_v2().bucket(BUCKET).prefix(folder).send().await;
    refused(format!("{:?}", list.map(drop)));

    // Nor does a run get there, though its profile would let it.
    let profiles: Api<BenchmarkProfile> = Api::all(world.cluster.client());
    let mut spec = serde_json::to_value(profiles.get("default").await?.spec).unwrap();
    merge(&mut spec, json!({ "allowed": { "uriPrefixes": [format!("s3://{BUCKET}")] } }));
    let profile = object(json!({ "metadata": { "name": "curious" }, "spec": spec }));
    profiles.create(&PostParams::default(), &profile).await?;
    world.submit("tenant", "own", json!({})).await?;
    let curious = json!({ "profile": "curious", "programUri": theirs });
    world.submit("tenant", "curious", curious).await?;
    let status = world.complete("tenant", "curious").await?;
    assert_eq!(status.correctness, Some(Verdict::Inconclusive), "{}", status.message);
    assert!(status.message.contains("step.mlir"), "{}: {}", status.reason, status.message);
    let status = world.complete("tenant", "own").await?;
    assert_eq!(status.correctness, Some(Verdict::Pass), "{}", status.message);
    Ok(())
}
