//! Trainings in both passes with the real libtorch: any model, narrow formats, and runs that are
//! killed and go on. Faults that must be seen are in `faults.rs`.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Scratch, read_json, text};
use safetensors::SafeTensors;
use warpforge_tests::installed;
use warpforge_tests::root;

#[test]
fn models_that_return_a_loss_train_alike_in_both_passes() {
    let scratch = Scratch::new();
    let cases: [(&str, &[&str]); 3] = [
        ("bert_qa_train", &["--weight-decay", "0.01", "--clip-norm", "1", "--no-norm-decay"]),
        (
            "bert_qa_train",
            &["--optimizer", "sgd", "--momentum", "0.9", "--nesterov", "--lr", "0.1"],
        ),
        ("llama_train", &["--optimizer", "adam", "--accumulate", "2", "--schedule", "linear"]),
    ];
    for (i, (name, more)) in cases.into_iter().enumerate() {
        let fixture = installed::fixture(name);
        let out = scratch.path().join(i.to_string());
        let mut args = vec!["run", "--model", text(&fixture.model), "--inputs"];
        args.extend([text(&fixture.inputs), "--train", "--steps", "4", "--forced", "2"]);
        args.extend(["--noise", "1", "--threads", "1", "--out", text(&out)]);
        args.extend(more);
        let (code, shown) = scratch.golden(&args);
        assert_eq!(code, 0, "{name} {more:?}\n{shown}");
        assert_eq!(read_json(&out.join("parity.json"))["verdict"], "pass");
        for side in ["golden", "warpforge"] {
            for file in ["gradients/step-0.safetensors", "checkpoint.safetensors"] {
                assert!(out.join(side).join(file).is_file(), "{side}/{file}");
            }
        }
    }
}

/// A number of a state after a step.
fn whole_number(side: &Path, step: u32, name: &str) -> i64 {
    let bytes = fs::read(side.join(format!("weights/step-{step}.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let data = file.tensor(name).unwrap().data().to_owned();
    i64::from_le_bytes(data.try_into().unwrap())
}

#[test]
fn narrow_formats_train_alike_in_both_passes() {
    let scratch = Scratch::new();
    let cases: [(&str, &[&str]); 4] = [
        ("bf16", &["--weight-decay", "0.01", "--clip-norm", "1"]),
        ("bf16", &["--master-weights", "--accumulate", "2"]),
        ("bf16", &["--master-weights", "--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.1"]),
        // Its gradients overflow at first: infinity is part of the run.
        ("f16", &["--master-weights", "--scale-loss", "--clip-norm", "1", "--expect-nonfinite"]),
    ];
    let steps = 6;
    for (i, (name, more)) in cases.into_iter().enumerate() {
        let fixture = |name: String| root().join("runner/workloads/tests/fixtures").join(name);
        let model = fixture(format!("{name}.pt2"));
        let inputs: Vec<PathBuf> =
            (0..4).map(|i| fixture(format!("{name}.{i}.safetensors"))).collect();
        let out = scratch.path().join(i.to_string());
        let count = steps.to_string();
        let mut args = vec!["run", "--model", text(&model), "--train", "--steps", &count];
        args.extend(["--forced", &count, "--threads", "1", "--out", text(&out)]);
        args.extend(inputs.iter().flat_map(|path| ["--inputs", text(path)]));
        args.extend(more);
        let (code, shown) = scratch.golden(&args);
        assert_eq!(code, 0, "{name} {more:?}\n{shown}");
        if name == "f16" {
            // The scale of 65536 is halved until nothing overflows; only then are there updates.
            let updates =
                |side: &str, step| whole_number(&out.join(side), step, "optimizer/updates");
            for side in ["golden", "warpforge"] {
                let counted: Vec<i64> = (0..steps).map(|step| updates(side, step)).collect();
                assert_eq!(counted, [0, 0, 0, 1, 2, 3], "{side}");
            }
        }
    }
}

/// Settings that make the demo quick.
const SMALL: &[&str] = &[
    "--set",
    "steps=4",
    "--set",
    "forced=2",
    "--set",
    "noise_runs=1",
    "--set",
    "batch_size=8",
    "--set",
    "evaluation_questions=0",
    "--set",
    "expect={}",
    "--set",
    "checkpoint_every=2",
];

fn golden(scratch: &Scratch, out: &Path) {
    let mut args = vec!["golden", "bert-squad", "--threads", "1", "--out", text(out)];
    args.extend(SMALL);
    let (code, shown) = scratch.golden(&args);
    assert_eq!(code, 0, "{shown}");
}

fn execute(scratch: &Scratch, golden: &Path, out: &Path) {
    let args = ["execute", "bert-squad", "--golden", text(golden), "--out", text(out)];
    let (code, shown) = scratch.golden(&args);
    assert_eq!(code, 0, "{shown}");
}

/// Starts a command and kills it after a while; whether it ended by itself before.
fn killed(scratch: &Scratch, args: &[&str], after: Duration) -> bool {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("warpforge"));
    command.args(args).current_dir(scratch.path()).env_clear();
    command.env("HOME", scratch.path().join("home"));
    command.env("LIBTORCH", root().join(".libtorch/torch"));
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let start = std::time::Instant::now();
    while start.elapsed() < after {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

#[test]
fn a_run_that_is_killed_goes_on_to_the_same_bits() {
    let scratch = Scratch::new();
    let folder = |name: &str| -> PathBuf { scratch.path().join(name) };
    let (whole, cut) = (folder("golden"), folder("cut"));
    golden(&scratch, &whole);
    let mut args = vec!["golden", "bert-squad", "--threads", "1", "--out", text(&cut)];
    args.extend(SMALL);
    for tenths in [8, 13, 21] {
        if killed(&scratch, &args, Duration::from_millis(tenths * 100)) {
            break;
        }
    }
    golden(&scratch, &cut);
    let same = |a: &Path, b: &Path, files: &[&str]| {
        for file in files {
            let (a, b) = (fs::read(a.join(file)).unwrap(), fs::read(b.join(file)).unwrap());
            assert!(a == b, "{file} differs");
        }
    };
    let files = ["loss_curve.json", "checkpoint.safetensors", "gradients/step-2.safetensors"];
    same(&whole, &cut, &files);
    let (whole_ours, cut_ours) = (folder("ours"), folder("cut-ours"));
    execute(&scratch, &whole, &whole_ours);
    let args = ["execute", "bert-squad", "--golden", text(&whole), "--out", text(&cut_ours)];
    for tenths in [6, 10, 17] {
        if killed(&scratch, &args, Duration::from_millis(tenths * 100)) {
            break;
        }
    }
    execute(&scratch, &whole, &cut_ours);
    same(&whole_ours, &cut_ours, &files);
}

#[test]
fn what_cannot_be_trained_is_refused_with_a_cure() {
    let scratch = Scratch::new();
    let fixture = installed::committed_fixture("tied");
    let model = text(&fixture.model);
    let cases: [(&[&str], &str); 5] = [
        (&["run", "--model", model, "--train", "--betas", "0.9"], "--betas takes two numbers"),
        (&["run", "--model", model, "--train", "--steps", "0"], "nothing would be trained"),
        (&["run", "--model", model, "--train", "--lr=-1"], "the learning rate is -1"),
        (&["run", "bert-squad", "--device", "cuda"], "Pass 2 does not run on cuda yet"),
        (&["run", "bert-squad", "--set", "batch=1"], "there is no setting batch"),
    ];
    for (args, said) in cases {
        let (code, shown) = scratch.golden(args);
        assert_eq!(code, 2, "{args:?}\n{shown}");
        assert!(shown.contains(said), "{args:?}\n{shown}");
    }
}
