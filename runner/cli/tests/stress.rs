//! `warpforge stress` as people and programs use it: what it does, what it refuses, and what it
//! leaves behind when it is ended.

mod common;

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Scratch, assert_valid, read_json};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

fn stress(scratch: &Scratch, args: &[&str]) -> (i32, String, String) {
    scratch.run(&[&["stress"], args].concat())
}

#[test]
fn a_processor_under_load_is_right_and_watched() {
    let scratch = Scratch::new();
    let watched = ["--monitor", "--monitor-interval", "0.05", "--monitor-output", "seen.json"];
    let (code, out, err) =
        stress(&scratch, &[&["cpu", "--duration", "0.2", "--json"], &watched[..]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let ran: Json = serde_json::from_str(&out).unwrap();
    assert_valid("stress", &ran);
    assert_eq!((&ran["component"], &ran["verdict"]), (&"cpu".into(), &"pass".into()));
    let tally = &ran["tally"];
    assert_eq!((&tally["unit"], &tally["errors"]), (&"OP".into(), &0.into()));
    assert!(tally["checks"].as_u64() > Some(0) && tally["rate"].as_f64() > Some(0.0), "{tally}");
    assert!(tally["seconds"].as_f64() >= Some(0.2), "{tally}");
    let seen = &ran["monitor"];
    assert!(seen["records"].as_u64() > Some(0) && seen["overhead_percent"].is_f64(), "{seen}");
    let records = read_json(&scratch.path().join("seen.json"));
    assert_valid("monitor", &records);
    assert!(records.as_array().unwrap().len() as u64 >= seen["records"].as_u64().unwrap());
}

#[test]
fn people_are_told_what_was_done_and_checked() {
    let (code, out, _) = stress(&Scratch::new(), &["cpu", "--duration", "0.1"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.starts_with("cpu  Pass\n") && out.contains("OP/s, of a round from"), "{out}");
    assert!(out.contains(", errors 0\n") && !out.contains("monitor"), "{out}");
}

#[test]
fn an_interruption_keeps_what_was_done_and_seen() {
    let scratch = Scratch::new();
    let program = scratch.warpforge(&[]).get_program().to_owned();
    let mut command = std::process::Command::new(program);
    command.args(["stress", "cpu", "--duration", "600", "--json"]);
    command.args(["--monitor", "--monitor-output", "seen.json"]).current_dir(scratch.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let file = scratch.path().join("seen.json");
    let begun = Instant::now();
    while !file.exists() {
        assert!(begun.elapsed() < Duration::from_mins(1), "it has not begun");
        sleep(Duration::from_millis(5));
    }
    sleep(Duration::from_millis(700));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let ran: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid("stress", &ran);
    assert_eq!((&ran["verdict"], &ran["reason"]), (&"inconclusive".into(), &"interrupted".into()));
    assert_eq!(ran["duration_seconds"], 600.0);
    let records = read_json(&file);
    assert_valid("monitor", &records);
    assert!(!records.as_array().unwrap().is_empty());
    let names: Vec<_> = fs::read_dir(scratch.path()).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "something is left behind: {names:?}");
}

#[test]
fn memory_and_storage_under_load_are_right_and_leave_nothing() {
    let scratch = Scratch::new();
    let folder = format!("folder={}", scratch.path().display());
    let storage = ["storage", "--param", &folder, "--param", "size_mib=16"];
    for args in [&["ram"][..], &storage] {
        let args = [args, &["--duration", "0.1", "--json"]].concat();
        let (code, out, err) = stress(&scratch, &args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}: {out}");
        let ran: Json = serde_json::from_str(&out).unwrap();
        assert_eq!((&ran["component"], &ran["verdict"]), (&args[0].into(), &"pass".into()));
        assert!(ran["tally"]["checks"].as_u64() > Some(0), "{ran}");
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "a file is left");
}

#[test]
fn a_gpu_works_or_is_named_as_missing() {
    let (code, out, err) = stress(&Scratch::new(), &["gpu", "--duration", "0.2", "--json"]);
    let ran: Json = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code} {out} {err}"));
    if code == 0 {
        assert!(ran["tally"]["checks"].as_u64() > Some(0), "{ran}");
    } else {
        assert_eq!((code, &ran["verdict"]), (4, &"skipped".into()), "{ran}");
        let reason = ran["reason"].as_str().unwrap();
        assert!(reason.contains("libcuda.so.1 not found"), "{reason}");
        assert_eq!(ran["tally"]["rounds"], 0);
    }
}

#[test]
fn what_cannot_be_done_is_refused() {
    let table: [(&str, &[&str]); 8] = [
        ("component", &["cpo"]),
        ("no-load", &["network"]),
        ("no-time", &["cpu", "--duration", "0"]),
        ("no-monitor", &["cpu", "--monitor-output", "seen.json"]),
        ("no-folder", &["cpu", "--monitor", "--monitor-output", "absent/seen.json"]),
        ("no-parameter", &["storage", "--param", "colour=red"]),
        ("no-effect", &["cpu", "--param", "cores=1"]),
        ("nothing", &[]),
    ];
    for (name, args) in table {
        let scratch = Scratch::new();
        let (code, out, err) = stress(&scratch, args);
        assert_eq!(code, 2, "{args:?}");
        let shown = format!("$ warpforge stress {}\n{out}{err}", args.join(" "));
        insta::assert_snapshot!(format!("stress-refused-{name}"), shown);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "{args:?}");
    }
}
