//! `warpforge benchmark` as people and programs use it: what is listed, what is refused, what a
//! run leaves behind when it ends and when it is ended, and what a comparison says.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Scratch, assert_valid, outcome, read_json, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};

/// A run that is over at once, and whose figures are worth nothing but to have a form.
const BRIEF: [&str; 4] = ["--duration", "0.05", "--burnin-seconds", "0"];

fn benchmark(scratch: &Scratch, args: &[&str]) -> (i32, String, String) {
    scratch.run(&[&["benchmark"], args].concat())
}

fn snapshot(name: &str, args: &[&str]) {
    let scratch = Scratch::new();
    let (code, out, err) = benchmark(&scratch, args);
    let shown = format!("$ warpforge benchmark {}\nexit {code}\n{out}{err}", args.join(" "));
    insta::assert_snapshot!(name, scratch.plain(&shown));
}

#[test]
fn help_of_every_verb() {
    for verb in ["list", "describe", "run", "compare"] {
        snapshot(&format!("benchmark-help-{verb}"), &[verb, "--help"]);
    }
}

#[test]
fn suites_benchmarks_and_defaults_are_listed() {
    snapshot("benchmark-list", &["list"]);
    snapshot(
        "benchmark-list-component",
        &["list", "--suite", "micro", "--component", "ram,network"],
    );
    snapshot("benchmark-list-planned", &["list", "--suite", "linpack"]);
    let (code, out, _) = benchmark(&Scratch::new(), &["list", "--json"]);
    let listed = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_valid("benchmarks", &listed);
}

#[test]
fn every_benchmark_describes_itself() {
    let (_, out, _) = benchmark(&Scratch::new(), &["list", "--json"]);
    let listed: Json = serde_json::from_str(&out).unwrap();
    let names = listed["suites"][0]["benchmarks"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|spec| spec["id"]["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"cpu_flops") && names.contains(&"gpu_pcie"), "{names:?}");
    for name in names {
        let args = ["describe", "--suite", "micro", "--benchmark", name];
        snapshot(&format!("benchmark-describe-{name}"), &args);
    }
}

#[test]
fn what_is_mistyped_is_refused_with_the_nearest_name() {
    let rows: &[(&str, &[&str])] = &[
        ("suite", &["run", "--suite", "mikro"]),
        ("suite-listed", &["list", "--suite", "nothing-like-it"]),
        ("suite-planned", &["run", "--suite", "pepbench"]),
        ("benchmark", &["run", "--suite", "micro", "--benchmark", "cpu_flop"]),
        ("benchmark-described", &["describe", "--suite", "micro", "--benchmark", "zzz"]),
        ("benchmark-alone", &["run", "--benchmark", "cpu_flops"]),
        ("component", &["run", "--component", "cpu,gpuu"]),
        ("component-listed", &["list", "--component", "quux"]),
        ("nothing", &["run", "--suite", "micro", "--component", "system"]),
        ("param", &["run", "--suite", "micro", "--benchmark", "disk_io", "--param", "foldr=/"]),
        ("param-value", &["run", "--component", "storage", "--param", "size_mib=much"]),
        ("param-form", &["run", "--component", "storage", "--param", "size_mib"]),
        ("peer", &["run", "--component", "cpu", "--peer", "host:1"]),
        ("duration", &["run", "--component", "cpu", "--duration", "0"]),
        ("duration-text", &["run", "--component", "cpu", "--duration", "long"]),
        ("burn-in", &["run", "--component", "cpu", "--burnin-seconds", "-1"]),
        ("interval-alone", &["run", "--component", "cpu", "--monitor-interval", "2"]),
        ("output-alone", &["run", "--component", "cpu", "--monitor-output", "x.json"]),
        ("both-exports", &["run", "--component", "cpu", "--export", "--export-file", "x.json"]),
        ("unwritable", &["run", "--component", "cpu", "--export-file", "no-such-folder/x.json"]),
        ("score", &["run", "--component", "cpu", "--score", "missing.json"]),
        ("threshold", &["compare", "a.json", "b.json", "--threshold", "-1"]),
        ("compare", &["compare", "a.json", "b.json"]),
    ];
    for (name, args) in rows {
        let (code, ..) = benchmark(&Scratch::new(), args);
        assert_eq!(code, 2, "{args:?}");
        snapshot(&format!("benchmark-wrong-{name}"), args);
    }
}

#[test]
fn a_dry_run_says_what_would_run() {
    let rows: &[(&str, &[&str])] = &[
        ("defaults", &[]),
        ("components", &["--component", "cpu", "--component", "ram,storage"]),
        ("suite-and-component", &["--suite", "micro", "--component", "ram"]),
        ("named", &["--suite", "micro", "--benchmark", "gemm", "--benchmark", "mem_latency"]),
        ("duration", &["--component", "cpu", "--duration", "2.5"]),
        ("param", &["--component", "storage", "--param", "folder=/mnt"]),
    ];
    for (name, args) in rows {
        snapshot(&format!("benchmark-dry-{name}"), &[&["run", "--dry-run"], *args].concat());
    }
}

/// The only file in a folder whose name begins so.
fn only(folder: &Path, prefix: &str) -> PathBuf {
    let named = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(named).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn a_run_is_kept_in_a_file_of_the_promised_form() {
    let scratch = Scratch::new();
    let args = ["run", "--suite", "micro", "--benchmark", "mem_latency", "--export"];
    let (code, out, err) = benchmark(&scratch, &[&args[..], &BRIEF].concat());
    let file = only(scratch.path(), "warpforge_benchmark_micro_");
    let run = read_json(&file);
    assert_valid("benchmark", &run);
    assert_eq!((run["complete"].as_bool(), err.as_str()), (Some(true), ""));
    let result = &run["benchmarks"][0];
    assert!(!result["metrics"].as_array().unwrap().is_empty(), "{out}");
    assert!(result["system"]["cpu"].is_object() && result["monitor"].is_null());
    let verdict = run["verdict"].as_str().unwrap();
    assert_eq!(code, if verdict == "pass" { 0 } else { 3 }, "{verdict}: a brief run may be unsure");
    assert!(out.contains(file.file_name().unwrap().to_str().unwrap()), "{out}");
    // The random part and the time are of a fixed length.
    let name = file.file_stem().unwrap().to_str().unwrap();
    assert_eq!(name.len(), "warpforge_benchmark_micro_20260101T000000Z_00000000".len(), "{name}");
}

#[test]
fn one_that_cannot_run_is_skipped_with_its_reason_and_stops_no_other() {
    let scratch = Scratch::new();
    let args = ["run", "--component", "gpu,system,ram", "--json"];
    let (code, out, err) = benchmark(&scratch, &[&args[..], &BRIEF].concat());
    assert_eq!(err, "");
    let run: Json = serde_json::from_str(&out).unwrap();
    let results = run["benchmarks"].as_array().unwrap();
    let of = |name: &str| results.iter().find(|row| row["spec"]["id"]["name"] == name).unwrap();
    let system = of("end_to_end_infer");
    assert_eq!((&system["verdict"], &system["success"]), (&json!("skipped"), &json!(false)));
    assert_eq!(system["reason"], "the suite pepbench is not available yet");
    assert!(!of("mem_bandwidth")["metrics"].as_array().unwrap().is_empty());
    if !Path::new("/dev/nvidiactl").exists() && !Path::new("/dev/kfd").exists() {
        let gpu = of("gpu_flops");
        assert_eq!(gpu["verdict"], "skipped");
        let reason = gpu["reason"].as_str().unwrap();
        assert!(reason.contains("no NVIDIA driver (libcuda.so.1 not found)"), "{reason}");
    }
    // Skipped at the least, and graver only if the brief run was unsure.
    assert!(matches!(code, 3 | 4), "{code}");
}

#[test]
fn one_that_fails_is_told_by_the_exit_code_and_stops_no_other() {
    let scratch = Scratch::new();
    let names = ["--benchmark", "disk_io", "--benchmark", "mem_latency"];
    let args = ["run", "--suite", "micro", "--param", "folder=/nowhere/at/all", "--json"];
    let (code, out, _) = benchmark(&scratch, &[&args[..], &names, &BRIEF].concat());
    let run: Json = serde_json::from_str(&out).unwrap();
    let [failed, other] = [&run["benchmarks"][0], &run["benchmarks"][1]];
    assert_eq!((code, &failed["verdict"], &failed["success"]), (1, &json!("fail"), &json!(false)));
    assert!(failed["error_message"].as_str().unwrap().contains("/nowhere/at/all"), "{failed}");
    assert!(!other["metrics"].as_array().unwrap().is_empty(), "{other}");
}

#[test]
fn all_at_once_gives_the_same_results_in_their_order() {
    let scratch = Scratch::new();
    let names = ["--benchmark", "mem_latency", "--benchmark", "net_latency"];
    let args = [&["run", "--suite", "micro", "--parallel", "--json"], &names[..], &BRIEF].concat();
    let (_, out, err) = benchmark(&scratch, &args);
    let run: Json =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let name = |index: usize| run["benchmarks"][index]["spec"]["id"]["name"].clone();
    assert_eq!([name(0), name(1)], [json!("mem_latency"), json!("net_latency")]);
    assert_eq!(run["metadata"]["parallel"], "true");
}

#[test]
fn the_monitor_looks_on_and_its_records_have_the_documented_form() {
    let scratch = Scratch::new();
    let monitor = ["--monitor", "--monitor-interval", "0.05", "--monitor-output", "seen.json"];
    let args = ["run", "--suite", "micro", "--benchmark", "mem_latency", "--json"];
    let (_, out, _) = benchmark(&scratch, &[&args[..], &monitor, &BRIEF].concat());
    let run: Json = serde_json::from_str(&out).unwrap();
    let summary = &run["benchmarks"][0]["monitor"];
    assert!(summary["records"].as_u64().unwrap() >= 1, "{summary}");
    assert!(summary["overhead_percent"].is_number());
    let records = read_json(&scratch.path().join("seen.json"));
    assert_valid("monitor", &records);
    // Figures say which records were taken beside their samples.
    let span = &run["benchmarks"][0]["metrics"][0]["span"];
    assert!(span["to"].is_string());
    assert!(records.as_array().unwrap().iter().any(|record| {
        record["timestamp"].as_str().unwrap()[..16] == span["from"].as_str().unwrap()[..16]
    }));
    let record = &records[0];
    for field in ["timestamp", "total_memory_bytes", "memory_utilization_percent", "gpu_usage"] {
        assert!(!record[field].is_null(), "{field} of {record}");
    }
}

#[test]
fn without_a_file_the_monitors_summary_alone_is_kept() {
    let scratch = Scratch::new();
    let args = ["run", "--suite", "micro", "--benchmark", "mem_latency", "--json"];
    let monitor = ["--monitor", "--monitor-interval", "0.05"];
    let (_, out, _) = benchmark(&scratch, &[&args[..], &monitor, &BRIEF].concat());
    let run: Json = serde_json::from_str(&out).unwrap();
    assert!(run["benchmarks"][0]["monitor"]["records"].as_u64() >= Some(1), "{out}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

/// Starts a run that lasts until it is ended, and waits until it keeps something.
fn started(scratch: &Scratch, args: &[&str]) -> Child {
    started_for(scratch, "600", args)
}

fn started_for(scratch: &Scratch, seconds: &str, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpforge"));
    command.current_dir(scratch.path()).args(["benchmark", "run", "--suite", "micro"]).args(args);
    command.args(["--duration", seconds, "--export-file", "kept.json"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_mins(1);
    while !scratch.path().join("kept.json").exists() {
        assert!(Instant::now() < until, "nothing was kept");
        sleep(Duration::from_millis(20));
    }
    // The file is there before the first sample: let it get into the measuring.
    sleep(Duration::from_millis(500));
    child
}

fn interrupt(child: &mut Child) -> i32 {
    let id = Pid::from_child(child);
    kill_process(id, Signal::INT).unwrap();
    child.wait().unwrap().code().expect("it ends by itself")
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_leaves_nothing_else() {
    let scratch = Scratch::new();
    let folder = format!("folder={}", text(scratch.path()));
    let params = ["--param", &folder, "--param", "size_mib=16"];
    let names = ["--benchmark", "disk_io", "--benchmark", "gemm"];
    let mut child = started(&scratch, &[&names[..], &params].concat());
    assert_eq!(interrupt(&mut child), 3);
    let kept = read_json(&scratch.path().join("kept.json"));
    assert_valid("benchmark", &kept);
    assert_eq!((&kept["complete"], &kept["verdict"]), (&json!(false), &json!("inconclusive")));
    let results = kept["benchmarks"].as_array().unwrap();
    assert_eq!(results.len(), 1, "the second never began");
    assert_eq!(results[0]["reason"], "interrupted");
    let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [scratch.path().join("kept.json")]);
}

#[test]
fn figures_known_before_an_interruption_are_kept() {
    let scratch = Scratch::new();
    // A dozen figures, of which each takes from 0.4 to 1 s.
    let args = ["--benchmark", "mem_latency", "--burnin-seconds", "0"];
    let mut child = started_for(&scratch, "12", &args);
    sleep(Duration::from_millis(2500));
    assert_eq!(interrupt(&mut child), 3);
    let kept = read_json(&scratch.path().join("kept.json"));
    let result = &kept["benchmarks"][0];
    assert_eq!((&kept["complete"], &result["reason"]), (&json!(false), &json!("interrupted")));
    let figures = result["metrics"].as_array().unwrap();
    assert!(!figures.is_empty() && figures[0]["value"].as_f64() > Some(0.0), "{result}");
}

#[test]
fn a_killed_run_leaves_a_file_that_says_it_is_not_complete() {
    let scratch = Scratch::new();
    let folder = format!("folder={}", text(scratch.path()));
    let args = ["--benchmark", "disk_io", "--param", &folder, "--param", "size_mib=16"];
    let mut child = started(&scratch, &args);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(read_json(&scratch.path().join("kept.json"))["complete"], false);
    let left = fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(left, 1, "a temporary file survived");
}

/// A run made by hand: the value and half the width of the interval for each metric.
fn made(scratch: &Scratch, name: &str, machine: &str, metrics: &[(&str, f64, f64)]) {
    let metrics: Vec<_> = metrics
        .iter()
        .map(|(name, value, reach)| {
            json!({
                "name": name, "value": value, "unit": "GB/s", "higher_is_better": true,
                "samples": 30, "median": value, "expectation": null,
                "interval": {"low": value - reach, "high": value + reach, "confidence": 0.95},
            })
        })
        .collect();
    let run = json!({
        "version": 1, "suite": "micro", "components": ["ram"], "complete": true,
        "verdict": "pass", "score": null, "metadata": {"hardware": machine},
        "benchmarks": [{
            "spec": {
                "id": {"suite": "micro", "name": "mem_bandwidth"}, "components": ["ram"],
                "kind": "synthetic", "description": null, "default_duration_seconds": 10,
                "external_tool": null, "params": {},
            },
            "metrics": metrics, "success": true, "error_message": null,
            "start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:10Z",
            "system": null, "verdict": "pass", "reason": null, "monitor": null,
        }],
    });
    scratch.write(name, &run.to_string());
}

fn compared(scratch: &Scratch, args: &[&str]) -> (i32, String) {
    let all = [&["compare", "before.json", "after.json"], args].concat();
    let (code, out, err) = benchmark(scratch, &all);
    (code, out + &err)
}

#[test]
fn a_comparison_says_what_became_of_every_figure() {
    let scratch = Scratch::new();
    let before =
        [("copy", 100.0, 0.1), ("scale", 100.0, 0.1), ("add", 90.0, 0.1), ("old", 1.0, 0.1)];
    made(&scratch, "before.json", "a machine", &before);
    let after =
        [("copy", 100.1, 0.1), ("scale", 110.0, 0.1), ("add", 80.0, 0.1), ("new", 1.0, 0.1)];
    made(&scratch, "after.json", "a machine", &after);
    let (code, shown) = compared(&scratch, &[]);
    assert_eq!(code, 0, "a regression is told, and fails only where that was asked for");
    insta::assert_snapshot!("benchmark-compare", shown);
    assert_eq!(compared(&scratch, &["--fail-on-regression"]).0, 1);
    assert_eq!(compared(&scratch, &["--fail-on-regression", "--threshold", "15"]).0, 0);

    let (code, out) = compared(&scratch, &["--json"]);
    let found: Json = serde_json::from_str(&out).unwrap();
    assert_valid("benchmark-comparison", &found);
    let changes: Vec<_> =
        found["metrics"].as_array().unwrap().iter().map(|row| row["change"].clone()).collect();
    assert_eq!((code, changes), (0, vec![json!("same"), json!("faster"), json!("slower")]));
}

#[test]
fn different_machines_are_not_compared_unless_told_so() {
    let scratch = Scratch::new();
    made(&scratch, "before.json", "a machine", &[("copy", 100.0, 0.1)]);
    made(&scratch, "after.json", "another", &[("copy", 100.0, 0.1)]);
    let (code, shown) = compared(&scratch, &[]);
    assert_eq!(code, 2);
    insta::assert_snapshot!("benchmark-compare-machines", shown);
    assert_eq!(compared(&scratch, &["--different-machines"]).0, 0);
}

#[test]
fn runs_without_a_common_figure_are_invalid_and_other_files_are_refused() {
    let scratch = Scratch::new();
    made(&scratch, "before.json", "a machine", &[("copy", 100.0, 0.1)]);
    made(&scratch, "after.json", "a machine", &[("triad", 100.0, 0.1)]);
    assert_eq!(compared(&scratch, &[]).0, 5);
    scratch.write("after.json", "{\"version\": 1}");
    let (code, shown) = compared(&scratch, &[]);
    assert_eq!(code, 2);
    assert!(shown.contains("after.json") && shown.contains("missing field"), "{shown}");
}

#[test]
fn a_score_is_given_when_it_is_asked_for() {
    let scratch = Scratch::new();
    let args = ["run", "--suite", "micro", "--benchmark", "mem_latency"];
    let kept = ["--export-file", "reference.json", "--machine", "the old one"];
    benchmark(&scratch, &[&args[..], &kept, &BRIEF].concat());
    let score = ["--score", "reference.json", "--export-file", "scored.json"];
    let (_, out, _) = benchmark(&scratch, &[&args[..], &score, &BRIEF].concat());
    assert!(out.contains("\u{d7} the old one (over "), "{out}");
    let run = read_json(&scratch.path().join("scored.json"));
    assert_eq!(run["score"]["reference"], "the old one");
    let reference = read_json(&scratch.path().join("reference.json"));
    let figures = |run: &Json| run["benchmarks"][0]["metrics"].as_array().unwrap().len() as u64;
    assert_eq!(run["score"]["metrics"].as_u64().unwrap(), figures(&reference));
    assert!(reference["score"].is_null(), "no score unless asked for");
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_anything_is_measured() {
    let scratch = Scratch::new();
    let args = ["run", "--suite", "micro", "--benchmark", "cpu_flops", "--duration", "600"];
    let mut command =
        scratch.warpforge(&[&["benchmark"], &args[..], &["--export-file", "/"]].concat());
    // It would time out if it measured first.
    let (code, out, err) = outcome(command.timeout(Duration::from_mins(1)));
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
}
