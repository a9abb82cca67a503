//! What requests become, and what is refused.

use serde_json::{Value, json};

use super::*;

pub(crate) fn spec(change: &Value) -> RunnerSpec {
    let mut run = json!({
        "profile": { "name": "default", "uid": "p", "generation": 1 },
        "workload": { "name": "bert-squad" },
        "passes": ["Golden", "Warpforge"],
        "goldenPolicy": "Reuse",
        "goldens": { "write": "goldens/ns", "read": ["goldens/ns"] },
        "workers": [],
        "data": { "volumeClaims": [{ "name": "squad", "claimName": "c" }] },
        "artifacts": { "s3": { "bucket": "bkt", "prefix": "team-a" } },
        "pendingDeadlineSeconds": 60,
        "runDeadlineSeconds": 600,
        "serviceAccountName": "default",
        "sharedMemory": "64Mi",
    });
    for (name, value) in change.as_object().cloned().unwrap_or_default() {
        run[name] = value;
    }
    let text = json!({
        "version": 1,
        "run": { "namespace": "ns", "name": "r", "uid": "u" },
        "attempt": 1,
        "spec": run,
    });
    serde_json::from_value(text).unwrap()
}

fn ranks(count: u32) -> RankMap {
    let rank = |rank| json!({ "rank": rank, "group": "cpu", "index": rank, "host": "h", "vendor": "Cpu", "gpus": 0 });
    let all: Vec<_> = (0..count).map(rank).collect();
    serde_json::from_value(json!({ "version": 1, "port": 29500, "ranks": all })).unwrap()
}

fn asked(change: &Value) -> Result<Passes, Refusal> {
    request(&spec(change), &ranks(1)).map(passes)
}

fn passes(request: Request) -> Passes {
    let Request::Passes(passes) = request else { panic!("{request:?}") };
    passes
}

/// A run of a suite, resolved: it has no passes.
fn suite(suite: &Value) -> Value {
    json!({ "workload": null, "passes": [], "suite": suite })
}

fn line(change: &Value, step: Step) -> String {
    let request = asked(change).unwrap();
    let file = |source: &Source| source.file_name();
    let files = match &request.subject {
        Subject::Model { source, inputs, .. } => Files {
            model: Some(file(source)),
            inputs: inputs.iter().map(file).collect(),
            program: request.program.as_ref().map(file),
        },
        Subject::Workload { .. } => {
            Files { program: request.program.as_ref().map(file), ..Files::default() }
        }
    };
    let all = arguments(&request, &files, step, "out".as_ref(), 9, Vendor::Cpu);
    all.join("  ".as_ref()).into_string().unwrap()
}

const MODEL: &str = "s3://models/a/m.pt2";

fn token() -> Value {
    json!({ "huggingFaceTokenSecret": { "name": "hub", "key": "token" } })
}

fn licences() -> Value {
    json!({ "acceptLicenses": ["coco"] })
}

#[test]
fn requests_become_arguments() {
    let workload = json!({
        "workload": {
            "name": "bert-squad",
            "preset": "demo",
            "parameters": {
                "steps": "4", "expect": "{}", "data": "data://squad/v1.1",
                "wall_limit_seconds": "60",
            },
        },
        "programUri": "s3://programs/wrong.mlir",
    });
    for (change, step, expected) in [
        (json!({}), Step::Whole, "run  bert-squad  --out  out  --timeout  9"),
        (json!({}), Step::Key, "run  bert-squad  --out  out  --timeout  9  --golden-key"),
        (json!({}), Step::Golden, "run  bert-squad  --out  out  --timeout  9  --golden-only"),
        (
            workload.clone(),
            Step::Whole,
            "run  bert-squad  --program  wrong.mlir  --out  out  --timeout  9  --preset  demo  \
             --set  data=/data/squad/v1.1  --set  expect={}  --set  steps=4",
        ),
        // A program in Pass 2's place changes nothing of golden's.
        (
            workload,
            Step::Key,
            "run  bert-squad  --out  out  --timeout  9  --preset  demo  \
             --set  data=/data/squad/v1.1  --set  expect={}  --set  steps=4  --golden-key",
        ),
        (
            json!({
                "data": { "acceptLicenses": ["coco", "squad-v1.1"] },
                "tolerances": {
                    "weights": { "relative": "1e-4", "absolute": "1e-6" },
                    "activations": { "relative": "1e-2" },
                },
                "thresholds": { "minimumRatio": "0.85", "failOnPerformance": true },
            }),
            Step::Whole,
            "run  bert-squad  --out  out  --timeout  9  --accept-license  coco  \
             --accept-license  squad-v1.1  --tolerance=weights.rtol=1e-4  \
             --tolerance=weights.atol=1e-6  --tolerance=activations.rtol=1e-2  \
             --tolerance=outputs.rtol=1e-2  --minimum-ratio=0.85  --fail-on-performance",
        ),
        (
            json!({ "workload": null, "model": { "uri": MODEL, "inputs": {
                "uris": ["data://squad/x.safetensors"], "seed": 7,
            }}}),
            Step::Whole,
            "run  --model  m.pt2  --inputs  x.safetensors  --out  out  --timeout  9  --seed  7",
        ),
        (
            json!({ "workload": null, "model": { "uri": MODEL, "training": {
                "steps": 5, "loss": "l",
                "settings": { "lr": "1e-4", "nesterov": "true", "no-oracle": "false" },
            }}}),
            Step::Golden,
            "run  --model  m.pt2  --out  out  --timeout  9  --train  --steps  5  --loss=l  \
             --lr=1e-4  --nesterov  --golden-only",
        ),
    ] {
        assert_eq!(line(&change, step), expected, "{change}");
    }
    assert_eq!(
        asked(&json!({ "workload": { "name": "w", "parameters": {
        "wall_limit_seconds": "60" } } }))
        .unwrap()
        .limit,
        Some(60)
    );
}

#[test]
fn what_cannot_be_done_is_refused_by_its_field() {
    let model = |more: Value| {
        let mut model = json!({ "uri": MODEL });
        for (name, value) in more.as_object().unwrap() {
            model[name] = value.clone();
        }
        json!({ "workload": null, "model": model })
    };
    let settings =
        |settings: Value| model(json!({ "training": { "steps": 1, "settings": settings } }));
    let program = |uri: &str| json!({ "programUri": uri });
    for (change, expected) in [
        (json!({ "workload": null }), "spec.json: exactly one"),
        (json!({ "goldenPolicy": "Skip" }), "goldenPolicy: Skip"),
        (json!({ "passes": [] }), "passes: there is none"),
        (json!({ "passes": ["Warpforge"], "goldenPolicy": "Refresh" }), "goldenPolicy: Refresh"),
        (json!({ "passes": ["Golden"], "artifacts": null }), "artifacts: a golden alone"),
        (json!({ "tolerances": { "metrics": { "relative": "1" } } }), "tolerances.metrics: "),
        (json!({ "thresholds": { "maximumRegression": "0.1" } }), "thresholds.maximumRegression: "),
        (json!({ "data": token() }), "data.huggingFaceTokenSecret: workers fetch nothing"),
        (program("data://other/p.mlir"), "programUri: data://other/p.mlir names no volume"),
        (program("data://squad/../p.mlir"), "programUri: "),
        (
            json!({ "goldenPolicy": "Only", "programUri": "s3://programs/p.mlir" }),
            "programUri: it takes Pass 2's place, and a golden alone has none",
        ),
        (program("/etc/passwd"), "programUri: /etc/passwd is neither"),
        (
            json!({ "workload": { "name": "w", "parameters": { "wall_limit_seconds": "soon" } } }),
            "workload.parameters.wall_limit_seconds: \"soon\"",
        ),
        (
            json!({ "workload": { "name": "w", "parameters": { "a=b": "c" } } }),
            "workload.parameters.a=b: ",
        ),
        (model(json!({ "uri": "http://x/m.pt2" })), "model.uri: http://x/m.pt2 is neither"),
        (model(json!({ "uri": "s3://bucket" })), "model.uri: s3://bucket names no file"),
        (
            model(json!({ "inputs": { "uris": ["data://squad/a", "data://squad/b"] } })),
            "model.inputs.uris: a forward run takes one",
        ),
        // Options that name files or devices of the worker are not a run's to set.
        (settings(json!({ "out": "/" })), "model.training.settings.out: there is no such setting"),
        (settings(json!({ "events": "x" })), "model.training.settings.events: "),
        (settings(json!({ "nesterov": "yes" })), "model.training.settings.nesterov: say true or"),
    ] {
        let refusal = asked(&change).unwrap_err().to_string();
        assert!(refusal.starts_with(expected), "{change}: {refusal}");
    }
    let forward = model(json!({}));
    for (name, value, expected) in [
        ("passes", json!(["Golden"]), "passes: a forward run"),
        ("thresholds", json!({ "minimumRatio": "1" }), "thresholds.minimumRatio: "),
        ("thresholds", json!({ "failOnPerformance": true }), "thresholds.failOnPerformance: "),
        ("artifacts", json!(null), "model.uri: s3://models/a/m.pt2 is in an object store"),
        ("data", token(), "data.huggingFaceTokenSecret: "),
        ("data", licences(), "data.acceptLicenses: a workload's data"),
    ] {
        let mut change = forward.clone();
        change[name] = value;
        let refusal = asked(&change).unwrap_err().to_string();
        assert!(refusal.starts_with(expected), "{name}: {refusal}");
    }
    let mut unjudged = forward;
    unjudged["thresholds"] = json!({ "failOnPerformance": false });
    assert!(asked(&unjudged).unwrap().judging.is_empty());
}

#[test]
fn another_version_is_refused_whichever_file_has_it() {
    let (mut other, mut map) = (spec(&json!({})), ranks(1));
    other.version = 2;
    let said = request(&other, &map).unwrap_err().to_string();
    assert!(said.starts_with("spec.json: it has version 2"), "{said}");
    map.version = 0;
    let said = request(&spec(&json!({})), &map).unwrap_err().to_string();
    assert!(said.starts_with("ranks.json: it has version 0"), "{said}");
}

#[test]
fn passes_and_policy_say_what_becomes_of_golden() {
    let of = |may_reuse, may_make, second_pass| Golden { may_reuse, may_make, second_pass };
    for (passes, policy, expected) in [
        (json!(["Golden", "Warpforge"]), "Reuse", of(true, true, true)),
        (json!(["Golden", "Warpforge"]), "Refresh", of(false, true, true)),
        (json!(["Golden"]), "Reuse", of(true, true, false)),
        (json!(["Golden"]), "Refresh", of(false, true, false)),
        (json!(["Golden"]), "Only", of(false, true, false)),
        (json!(["Warpforge"]), "Reuse", of(true, false, true)),
    ] {
        let request = asked(&json!({ "passes": passes, "goldenPolicy": policy })).unwrap();
        assert_eq!(request.golden, expected, "{passes} {policy}");
        let stores = (request.stores_golden(), request.replaces_golden());
        assert_eq!(stores, (expected.may_make, policy != "Reuse"), "{passes} {policy}");
    }
    let forward = json!({ "workload": null, "model": { "uri": MODEL }, "goldenPolicy": "Refresh" });
    assert!(!asked(&forward).unwrap().replaces_golden());
}

#[test]
fn several_workers_make_a_golden_and_nothing_more() {
    let both = request(&spec(&json!({})), &ranks(2)).unwrap_err().to_string();
    assert!(both.contains("2 workers: Pass 2 across workers is not there yet"), "{both}");
    let only = request(&spec(&json!({ "goldenPolicy": "Only" })), &ranks(2)).unwrap();
    let line = golden_of_rank(
        &passes(only.clone()),
        "g".as_ref(),
        (1, 2),
        "h:29501",
        9,
        Vendor::Cpu,
        Step::Golden,
    );
    let line = line.join(" ".as_ref()).into_string().unwrap();
    assert_eq!(
        line,
        "golden bert-squad --out g --set wall_limit_seconds=9 --rank 1 --ranks 2 --rendezvous h:29501"
    );
    assert!(supported(&both_passes(), Vendor::Nvidia).is_err());
    assert!(supported(&only, Vendor::Nvidia).is_ok());
}

fn both_passes() -> Request {
    request(&spec(&json!({})), &ranks(1)).unwrap()
}

#[test]
fn a_suite_becomes_arguments_of_benchmark_run() {
    let line = |asked: &Value, vendor, peer| {
        let request = request(&spec(&suite(asked)), &ranks(1)).unwrap();
        let Request::Suite(suite) = request else { panic!("{request:?}") };
        let files = ("r.json".as_ref(), "t.json".as_ref());
        let all = suite.arguments(files, 9, vendor, peer);
        let all = all.join(" ".as_ref()).into_string().unwrap();
        let (own, rest) = all.split_once(" --timeout=9").unwrap();
        assert_eq!(rest, " --monitor --export-file r.json --monitor-output t.json");
        own.to_owned()
    };
    let plain = json!({ "name": "micro" });
    let of_cpu = "--component=cpu --component=ram --component=storage --component=network \
                  --component=system";
    assert_eq!(line(&plain, Vendor::Cpu, None), format!("benchmark run --suite=micro {of_cpu}"));
    assert_eq!(line(&plain, Vendor::Nvidia, None), "benchmark run --suite=micro");
    let chosen = json!({
        "name": "micro", "benchmarks": ["gemm", "disk_io"], "components": ["Cpu", "Storage"],
        "durationSeconds": 3, "parameters": { "size_mib": "64", "folder": "/scratch" },
    });
    assert_eq!(
        line(&chosen, Vendor::Cpu, Some("h:1")),
        "benchmark run --suite=micro --benchmark=gemm --benchmark=disk_io --component=cpu \
         --component=storage --duration=3 --param=folder=/scratch --param=size_mib=64 \
         --peer=h:1"
    );
}

#[test]
fn what_a_suite_cannot_do_is_refused_by_its_field() {
    let micro = json!({ "name": "micro" });
    let with = |name: &str, value: Value| {
        let mut change = suite(&micro);
        change[name] = value;
        change
    };
    let parameter = |name: &str| suite(&json!({ "name": "micro", "parameters": { name: "h:1" } }));
    for (change, workers, expected) in [
        (with("passes", json!(["Golden"])), 1, "passes: a suite compares nothing"),
        (with("goldenPolicy", json!("Only")), 1, "goldenPolicy: "),
        (with("thresholds", json!({ "minimumRatio": "1" })), 1, "thresholds: "),
        (with("tolerances", json!({ "loss": { "relative": "1" } })), 1, "tolerances: "),
        (with("programUri", json!("s3://b/p.mlir")), 1, "programUri: "),
        (with("data", token()), 1, "data.huggingFaceTokenSecret: "),
        (with("data", licences()), 1, "data.acceptLicenses: "),
        (suite(&micro), 3, "workers: 3 workers: the first runs the suite"),
        (parameter("peer"), 2, "suite.parameters.peer: the other end is a second worker"),
        (parameter("a=b"), 1, "suite.parameters.a=b: "),
        (
            suite(&json!({ "name": "micro", "parameters": { "folder": "data://squad" } })),
            1,
            "suite.parameters.folder: volumes are read-only",
        ),
        (
            suite(&json!({ "name": "micro", "benchmarks": ["disk_io"] })),
            2,
            "workers: the second is the other end of network benchmarks",
        ),
        (suite(&json!({ "name": "micro", "components": ["Cpu"] })), 2, "workers: the second"),
    ] {
        let refusal = request(&spec(&change), &ranks(workers)).unwrap_err().to_string();
        assert!(refusal.starts_with(expected), "{change}: {refusal}");
    }
    let two = request(&spec(&suite(&micro)), &ranks(2)).unwrap();
    assert!(two.stores_bundle() && supported(&two, Vendor::Nvidia).is_ok());
    assert_eq!(second_worker(&ranks(2)).map(|rank| rank.index), Some(1));
    assert_eq!(second_worker(&ranks(1)), None);
    for part in warpforge_operator_api::data::Component::ALL {
        let known: Result<warpforge_bench::model::Component, ()> = part.argument().parse();
        assert!(known.is_ok(), "{part:?}");
    }
}
