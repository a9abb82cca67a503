//! `warpforge agent` as the operator starts it: the real passes with the real libtorch, and results
//! in a real S3 server.

mod common;
#[path = "../../store/tests/common/mod.rs"]
mod servers;
mod worker;

use std::fs;
use std::sync::LazyLock;

use common::edit::Program;
use serde_json::{Value, json};
use servers::s3::{READER, S3, WRITER};
use servers::{block_on, sha256};
use warpforge_bench::model::BenchmarkSuiteRun;
use warpforge_operator_api::Verdict;
use warpforge_operator_api::contract::GoldenUse;
use warpforge_store::ArtifactStore;
use worker::proxy::{Proxy, Way};
use worker::{BUCKET, Ended, Run, training, workload};

/// One server and one bucket for all tests of this file; every test has a prefix of its own.
static SERVER: LazyLock<S3> = LazyLock::new(|| {
    let server = S3::start();
    server.make_bucket(BUCKET).unwrap();
    server
});

/// A run whose results go below a prefix.
fn stored(uid: &str, subject: (&str, Value), prefix: &str) -> Run {
    Run::new(uid, subject).stored(&SERVER.endpoint, prefix, WRITER)
}

fn store(prefix: &str) -> ArtifactStore {
    ArtifactStore::open(SERVER.location(BUCKET, prefix, WRITER))
}

fn object(prefix: &str, key: &str) -> Vec<u8> {
    let (key, client) = (format!("{prefix}/{key}"), SERVER.client(WRITER));
    block_on(async {
        let got = client.get_object().bucket(BUCKET).key(key).send().await;
        got.unwrap().body.collect().await.unwrap().to_vec()
    })
}

fn put(prefix: &str, key: &str, bytes: &[u8]) {
    let (key, client) = (format!("{prefix}/{key}"), SERVER.client(WRITER));
    block_on(async {
        let put = client.put_object().bucket(BUCKET).key(key);
        put.body(bytes.to_vec().into()).send().await.unwrap();
    });
}

/// The names of stored goldens.
fn goldens(prefix: &str) -> Vec<String> {
    let store = store(prefix);
    let all = block_on(store.list()).unwrap();
    all.into_iter().filter(|name| name.starts_with("goldens/team-a/")).collect()
}

fn whole(prefix: &str, name: &str) -> bool {
    let store = store(prefix);
    block_on(store.verify(name, &mut |_| {})).is_ok()
}

/// Whether a child of a worker has trained golden.
fn trained_golden(ended: &Ended) -> bool {
    ended.events.concat().contains("\"event\":\"step\",\"pass\":\"Golden\"")
}

#[test]
fn a_workload_passes_its_bundle_is_stored_and_the_next_run_reuses_the_golden() {
    let mut workload = workload();
    // Long enough to be seen while it goes on.
    workload["parameters"]["steps"] = "60".into();
    let run = |uid: &str| stored(uid, ("workload", workload.clone()), "workload");
    let first = run("uid-1");
    let mut worker = first.start(0);
    // Live, by the operator's and Prometheus' eyes.
    worker.until("loss of golden", |worker| {
        let text = worker.ask("/progress").unwrap_or_default();
        text.contains("\"pass\":\"Golden\"") && text.contains("\"loss\":")
    });
    let metrics = worker.ask("/metrics").unwrap_or_default();
    let label = "workload=\"bert-squad\",worker=\"cpu-0\"";
    assert!(metrics.contains(label) && metrics.contains("warpforge_runner_steps"), "{metrics}");
    worker.until_pass("Warpforge");
    let interim = fs::read_to_string(worker.folder.join("termination-log")).unwrap();
    assert!(interim.contains("\"pass\":\"Warpforge\""), "{interim}");
    let made = worker.end();
    made.assert(0, "Agrees");
    assert_eq!(made.message.correctness, Some(Verdict::Pass));
    assert_eq!(made.message.golden, Some(GoldenUse::Made));
    assert!(trained_golden(&made));
    let report = made.message.report.clone().unwrap();
    let name = "team-a/nightly/uid-1/attempt-1";
    assert_eq!(report.uri, format!("s3://runs/workload/{name}/report.json"));
    assert_eq!(sha256(&object("workload", &format!("{name}/report.json"))), report.sha256);
    assert!(whole("workload", name));
    let results = made.message.results.clone().unwrap();
    assert!(results.ratio.is_some() && results.golden.loss.is_some(), "{results:?}");
    assert!(results.worst_error.is_some() && results.fallbacks == Some(0), "{results:?}");
    assert!(results.warpforge.throughput.is_some() && !results.hardware.is_empty(), "{results:?}");

    let [golden] = &goldens("workload")[..] else { panic!("{:?}", goldens("workload")) };
    assert!(whole("workload", golden));
    let again = run("uid-2").end();
    again.assert(0, "Agrees");
    assert_eq!(again.message.golden, Some(GoldenUse::Reused));
    assert!(!trained_golden(&again), "{:?}", again.events);
}

#[test]
fn a_damaged_golden_is_made_again_and_mended() {
    let run = |uid: &str| stored(uid, ("model", training(&json!({}))), "damaged");
    run("uid-1").end().assert(0, "Agrees");
    let golden = goldens("damaged").remove(0);
    put("damaged", &format!("{golden}/loss_curve.json"), b"{}");
    assert!(!whole("damaged", &golden));
    let again = run("uid-2").end();
    again.assert(0, "Agrees");
    assert_eq!(again.message.golden, Some(GoldenUse::Made));
    assert!(trained_golden(&again) && whole("damaged", &golden));
    // Stored under the key of another, it is not believed either.
    let key = format!("{golden}/run.json");
    let text = String::from_utf8(object("damaged", &key)).unwrap();
    put("damaged", &key, text.replace("small.pt2", "other.pt2").as_bytes());
    assert_eq!(run("uid-3").end().message.golden, Some(GoldenUse::Made));
    assert_eq!(run("uid-4").end().message.golden, Some(GoldenUse::Reused));
}

#[test]
fn a_program_that_computes_something_else_fails() {
    let run = |uid: &str| stored(uid, ("model", training(&json!({}))), "mutated");
    run("uid-1").end().assert(0, "Agrees");
    let step = "team-a/nightly/uid-1/attempt-1/warpforge/step.mlir";
    let mut program = Program::new(&String::from_utf8(object("mutated", step)).unwrap());
    let stale = program.argument("buffer", "norm.running_mean");
    program.set_result("mutated", "norm.running_mean", &stale);
    put("mutated", "programs/wrong.mlir", program.text().as_bytes());
    let program = "s3://runs/mutated/programs/wrong.mlir";
    let wrong = run("uid-2").with("programUri", json!(program)).end();
    assert_eq!((wrong.code, wrong.message.correctness), (1, Some(Verdict::Fail)), "{}", wrong.log);
    assert!(wrong.message.message.contains("running_mean"), "{}", wrong.message.message);
    assert!(wrong.message.report.is_some());
    // Golden is another's of the same key: the program is no part of it.
    assert_eq!(wrong.message.golden, Some(GoldenUse::Reused));
}

#[test]
fn passes_and_policies_do_what_they_say() {
    let run = |uid: &str| stored(uid, ("model", training(&json!({}))), "policies");
    let second = || run("uid-2").with("passes", json!(["Warpforge"]));
    let missing = second().end();
    missing.assert(3, "GoldenMissing");
    let only = run("uid-1").with("goldenPolicy", json!("Only")).end();
    only.assert(4, "GoldenMade");
    assert_eq!(only.message.correctness, Some(Verdict::Skipped));
    assert!(only.message.report.is_none() && only.message.results.is_some());
    assert_eq!(goldens("policies").len(), 1);
    second().end().assert(0, "Agrees");
    let refreshed = run("uid-3").with("goldenPolicy", json!("Refresh")).end();
    assert_eq!((refreshed.code, refreshed.message.golden), (0, Some(GoldenUse::Made)));
    assert!(whole("policies", &goldens("policies")[0]));
    // Nothing is stored where nothing is asked to be.
    let alone = Run::new("uid-4", ("model", training(&json!({})))).end();
    alone.assert(0, "Agrees");
    assert!(alone.message.report.is_none());
}

#[test]
fn a_models_forward_computation_is_compared_from_the_store() {
    let fixture = warpforge_tests::installed::committed_fixtures().remove(0);
    put("forward", "models/m.pt2", &fs::read(&fixture.model).unwrap());
    put("forward", "models/x.safetensors", &fs::read(&fixture.inputs).unwrap());
    let model = json!({
        "uri": "s3://runs/forward/models/m.pt2",
        "inputs": { "uris": ["s3://runs/forward/models/x.safetensors"] },
    });
    let run = |model| stored("uid-1", ("model", model), "forward");
    let ended = run(model).end();
    ended.assert(0, "Agrees");
    assert_eq!(ended.message.golden, Some(GoldenUse::Made));
    assert!(whole("forward", "team-a/nightly/uid-1/attempt-1"));
    let absent = run(json!({ "uri": "s3://runs/forward/models/absent.pt2" })).end();
    absent.assert(3, "PreflightFailed/DataMissing");
    assert!(absent.message.message.contains("absent.pt2"), "{}", absent.message.message);
    let absent = run(json!({ "uri": "data://fixtures/absent.pt2" })).end();
    absent.assert(3, "PreflightFailed/DataMissing");
}

#[test]
fn a_store_that_takes_nothing_is_found_before_anything_is_computed() {
    let nowhere = format!("http://127.0.0.1:{}", worker::free_port());
    let here = SERVER.endpoint.as_str();
    for (endpoint, bucket, (id, secret), said) in [
        (nowhere.as_str(), BUCKET, WRITER, "refused the connection"),
        (here, "absent", WRITER, "has no bucket"),
        (here, BUCKET, READER, "denied access"),
        (here, BUCKET, ("", "no secret"), "AWS_ACCESS_KEY_ID is not set"),
    ] {
        let run = Run::new("u", ("model", training(&json!({}))));
        let mut run = run.stored(endpoint, "taken", (id, secret));
        run.spec["spec"]["artifacts"]["s3"]["bucket"] = json!(bucket);
        run.arguments = vec!["--store-patience".into(), "20".into()];
        let ended = run.end();
        ended.assert(3, "PreflightFailed/StoreNotWritable");
        assert!(ended.message.message.contains(said), "{}", ended.message.message);
        assert!(ended.events.is_empty());
    }
}

#[test]
fn who_may_not_delete_replaces_no_golden_and_learns_it_first() {
    SERVER.keep(BUCKET, "kept");
    let run = |uid| stored(uid, ("model", training(&json!({}))), "kept");
    for policy in ["Refresh", "Only"] {
        let ended = run("u").with("goldenPolicy", json!(policy)).end();
        ended.assert(3, "PreflightFailed/StoreNotWritable");
        let said = &ended.message.message;
        assert!(said.contains("in a stored one's place") && said.contains("not delete"), "{said}");
        assert!(ended.events.is_empty());
    }
    // What takes nobody's place needs no such right.
    let ended = run("v").end();
    ended.assert(0, "Agrees");
    assert_eq!(goldens("kept").len(), 1);
}

#[test]
fn a_store_that_turns_bad_is_no_pass() {
    for (number, (way, said)) in [
        (Way::Down, ""),
        (Way::Silent, "did not answer"),
        (Way::Answers("507 Insufficient Storage", "InsufficientStorage"), "has no room left"),
        (Way::Answers("403 Forbidden", "AccessDenied"), "denied access"),
    ]
    .into_iter()
    .enumerate()
    {
        let proxy = Proxy::start(&SERVER.endpoint);
        let run = Run::new(&format!("uid-{number}"), ("model", training(&json!({}))));
        let mut run = run.stored(&proxy.endpoint, "turned", WRITER);
        run.arguments = vec!["--store-patience".into(), "3".into()];
        let mut worker = run.start(0);
        worker.until_pass("Warpforge");
        proxy.set(way);
        let ended = worker.end();
        ended.assert(3, "UploadFailed");
        assert_eq!((ended.message.correctness, ended.message.report), (None, None), "{way:?}");
        assert!(ended.message.message.contains(said), "{way:?}: {}", ended.message.message);
        assert!(!whole("turned", &format!("team-a/nightly/uid-{number}/attempt-1")));
    }
}

#[test]
fn a_machine_without_libtorch_is_no_place_for_golden() {
    let mut run = Run::new("u", ("model", training(&json!({}))));
    run.libtorch = "nowhere".into();
    let ended = run.end();
    ended.assert(3, "PreflightFailed");
    assert!(ended.message.message.contains("libtorch"), "{}", ended.message.message);
}

#[test]
fn what_makes_no_sense_is_rejected() {
    let run = || Run::new("u", ("workload", workload()));
    let mut newer = run();
    newer.spec["version"] = json!(2);
    newer.spec["spec"] = json!("of another form");
    let mut stranger = run();
    stranger.ranks["ranks"][0]["group"] = json!("gpu");
    let parameter = |name: &str| {
        let mut run = run();
        run.spec["spec"]["workload"]["parameters"][name] = json!("1");
        run
    };
    let mut unknown = run();
    unknown.spec["spec"]["workload"]["name"] = json!("faster-rcnn-coco");
    for (run, said) in [
        (newer, "spec.json cannot be used: it has version 2"),
        (stranger, "ranks.json has no worker cpu-0"),
        (parameter("bacth_size"), "there is no setting bacth_size"),
        (unknown, "faster-rcnn-coco"),
        (run().with("goldenPolicy", json!("Skip")), "goldenPolicy"),
    ] {
        let ended = run.end();
        ended.assert(2, "ConfigurationRejected");
        assert!(ended.message.message.contains(said), "{said}: {}", ended.message.message);
    }
}

/// A run of a suite; the operator resolves it without passes.
fn suite(uid: &str, suite: Value) -> Run {
    Run::new(uid, ("suite", suite)).with("passes", json!([])).stored(
        &SERVER.endpoint,
        "suites",
        WRITER,
    )
}

/// What a suite's run stored.
fn measured(uid: &str) -> BenchmarkSuiteRun {
    let file = format!("team-a/nightly/{uid}/attempt-1/benchmark.json");
    serde_json::from_slice(&object("suites", &file)).unwrap()
}

#[test]
fn a_suites_figures_are_stored_and_told() {
    let asked = json!({
        "name": "micro", "benchmarks": ["net_latency", "disk_io"], "durationSeconds": 2,
        "parameters": { "size_mib": "16", "cases": "random-read-32", "message_bytes": "64" },
    });
    let run = suite("uid-1", asked);
    let mut worker = run.start(0);
    worker.until("the second benchmark", |worker| {
        let text = worker.ask("/progress").unwrap_or_default();
        text.contains("\"pass\":\"Suite\",\"step\":1,\"steps\":2")
    });
    let metrics = worker.ask("/metrics").unwrap_or_default();
    assert!(metrics.contains("workload=\"suite/micro\""), "{metrics}");
    let ended = worker.end();
    // On a busy machine figures are not steady, which is a matter of Performance alone.
    assert!([0, 3].contains(&ended.code), "{}\n{}", ended.message.message, ended.log);
    ended.assert(ended.code, "Measured");
    assert_eq!(ended.message.correctness, Some(Verdict::Pass));
    assert_eq!(ended.message.performance.map(Verdict::exit_code), Some(ended.code));
    assert_eq!(ended.message.golden, None);
    let results = ended.message.results.clone().unwrap();
    let told: Vec<_> = results.benchmarks.iter().map(|of| (&*of.name, &*of.metric)).collect();
    let [("net_latency", "latency[peer=loopback,percentile=p50]"), ("disk_io", storage)] = told[..]
    else {
        panic!("{told:?}")
    };
    assert!(storage.starts_with("iops[depth=32,engine=io_uring"), "{storage}");
    assert!(!results.hardware.is_empty());
    let report = ended.message.report.clone().unwrap();
    let name = "team-a/nightly/uid-1/attempt-1";
    assert_eq!(report.uri, format!("s3://runs/suites/{name}/benchmark.json"));
    assert!(whole("suites", name));
    let stored = measured("uid-1");
    assert!(stored.complete && stored.benchmarks.iter().all(|result| result.monitor.is_some()));
    let timeline: Vec<Value> =
        serde_json::from_slice(&object("suites", &format!("{name}/timeline.json"))).unwrap();
    assert!(!timeline.is_empty());
    // People see it in the worker's log.
    assert!(ended.log.contains("micro/disk_io"), "{}", ended.log);
}

#[test]
fn a_second_worker_is_the_other_end_of_a_suites_network() {
    let asked = json!({ "name": "micro", "benchmarks": ["net_latency"], "durationSeconds": 1 });
    let run = suite("uid-2", asked).ranks(2);
    let other = run.start(1);
    let ended = run.start(0).end();
    ended.assert(ended.code, "Measured");
    other.end().assert(0, "Finished");
    let stored = measured("uid-2");
    let result = &stored.benchmarks[0];
    let port = run.ranks["port"].as_u64().unwrap() + 1;
    assert_eq!(result.spec.params["peer"].to_string(), format!("127.0.0.1:{port}"));
    assert_eq!(result.metrics[0].tags["peer"], "remote");
}

#[test]
fn a_suite_ends_by_its_deadline_with_what_it_has() {
    let asked = json!({
        "name": "micro", "benchmarks": ["net_latency", "net_bandwidth"], "durationSeconds": 30,
    });
    let run = suite("uid-3", asked).with("runDeadlineSeconds", json!(12));
    let ended = run.end();
    ended.assert(3, "Incomplete");
    assert_eq!(ended.message.correctness, Some(Verdict::Inconclusive));
    let said = &ended.message.message;
    assert!(said.contains("the time was up before all had run"), "{said}");
    let stored = measured("uid-3");
    assert!(!stored.complete && stored.benchmarks.len() == 1);
}

#[test]
fn a_suite_that_cannot_run_says_why() {
    let micro = |more: Value| {
        let mut suite = json!({ "name": "micro", "durationSeconds": 1 });
        suite.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        suite
    };
    let absent = suite("uid-4", micro(json!({ "benchmarks": ["gpu_flops"] }))).end();
    // No GPU is there in these tests, by the worker's own word.
    absent.assert(4, "HardwareMissing");
    assert!(
        absent.message.message.contains("gpu_flops Skipped: no "),
        "{}",
        absent.message.message
    );
    assert!(absent.message.report.is_some());
    for (asked, said) in [
        (json!({ "name": "micros" }), "did you mean micro?"),
        (json!({ "name": "linpack" }), "the suite linpack is not available yet"),
        (micro(json!({ "benchmarks": ["dsk_io"] })), "did you mean disk_io?"),
        (micro(json!({ "parameters": { "sise_mib": "1" } })), "did you mean size_mib?"),
        (micro(json!({ "parameters": { "peer": "example.com:80" } })), "have two of them"),
    ] {
        let ended = suite("uid-5", asked).end();
        ended.assert(2, "ConfigurationRejected");
        assert!(ended.message.message.contains(said), "{said}: {}", ended.message.message);
    }
}
