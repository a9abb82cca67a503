//! Trainings in both passes with the real libtorch: any model, the workload bert-squad, faults
//! that must be seen, and runs that are killed and go on.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Scratch, outcome};
use serde_json::Value;
use warpforge_tests::installed;
use warpforge_tests::root;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of this test's own")
}

/// Exit code and everything that was printed.
fn run(scratch: &Scratch, args: &[&str]) -> (i32, String) {
    let mut command = scratch.warpforge(args);
    command.env("LIBTORCH", root().join(".libtorch/torch"));
    let (code, shown, errors) = outcome(&mut command);
    (code, shown + &errors)
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

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
        let (code, shown) = run(&scratch, &args);
        assert_eq!(code, 0, "{name} {more:?}\n{shown}");
        assert_eq!(json(&out.join("parity.json"))["verdict"], "pass");
        for side in ["golden", "warpforge"] {
            for file in ["gradients/step-0.safetensors", "checkpoint.safetensors"] {
                assert!(out.join(side).join(file).is_file(), "{side}/{file}");
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
    let (code, shown) = run(scratch, &args);
    assert_eq!(code, 0, "{shown}");
}

fn execute(scratch: &Scratch, golden: &Path, out: &Path, program: Option<&Path>) {
    let mut args = vec!["execute", "bert-squad", "--golden", text(golden), "--out", text(out)];
    if let Some(program) = program {
        args.extend(["--program", text(program)]);
    }
    let (code, shown) = run(scratch, &args);
    assert_eq!(code, 0, "{shown}");
}

fn validate(scratch: &Scratch, golden: &Path, candidate: &Path) -> (i32, String) {
    let args = ["validate", "--golden", text(golden), "--candidate", text(candidate)];
    run(scratch, &[&args[..], &["--fail-on-mismatch"]].concat())
}

/// A golden whose settings say something else: what Pass 2 then does is a fault.
fn told_otherwise(golden: &Path, to: &Path, key: &str, value: Value) {
    copy(golden, to);
    let mut run = json(&to.join("run.json"));
    run["configuration"]["bert-squad"][key] = value;
    fs::write(to.join("run.json"), run.to_string()).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The last line with a constant near a number, given another value.
fn with_constant(program: &str, near: f64, instead: &str) -> String {
    let value = |line: &str| -> Option<f64> {
        let (_, rest) = line.split_once("stablehlo.constant dense<")?;
        rest.split_once('>')?.0.parse().ok()
    };
    let lines: Vec<&str> = program.lines().collect();
    let at = lines
        .iter()
        .rposition(|line| value(line).is_some_and(|found| (found / near - 1.0).abs() < 1e-5))
        .unwrap_or_else(|| panic!("no constant near {near}"));
    let (head, rest) = lines[at].split_once("dense<").unwrap();
    let changed = format!("{head}dense<{instead}>{}", rest.split_once('>').unwrap().1);
    let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
    lines[at] = changed;
    lines.join("\n")
}

#[test]
fn faults_are_seen_and_named_and_a_right_run_passes() {
    let scratch = Scratch::new();
    let folder = |name: &str| -> PathBuf { scratch.path().join(name) };
    let right = folder("golden");
    golden(&scratch, &right);
    let ours = folder("ours");
    execute(&scratch, &right, &ours, None);
    let (code, shown) = validate(&scratch, &right, &ours);
    assert_eq!(code, 0, "{shown}");

    let number = |value: f64| Value::from(value);
    let settings = [
        ("beta1", number(0.8), "optimiser"),
        ("beta2", number(0.99), "optimiser"),
        ("eps", number(1e-4), "optimiser"),
        ("weight_decay", number(0.0), "optimiser"),
        ("learning_rate", number(3.03e-3), "learning rate"),
        ("clip_norm", number(1e-3), "optimiser"),
    ];
    for (key, value, named) in settings {
        let (wrong, out) = (folder(&format!("g-{key}")), folder(&format!("c-{key}")));
        told_otherwise(&right, &wrong, key, value);
        execute(&scratch, &wrong, &out, None);
        let (code, shown) = validate(&scratch, &right, &out);
        assert_eq!(code, 1, "{key}\n{shown}");
        assert!(shown.contains(named), "{key} should be seen in {named}\n{shown}");
    }

    let program = fs::read_to_string(ours.join("step.mlir")).unwrap();
    let edits = [
        // Attention without 1/sqrt(d) on the way back alone.
        ("scale", with_constant(&program, 32f64.powf(-0.25), "1.0"), "gradients"),
        // The derivative of the error function without 2 / sqrt(pi).
        ("gelu", with_constant(&program, std::f64::consts::FRAC_2_SQRT_PI, "1.0"), "gradients"),
        // What dropout keeps is not scaled up.
        ("dropout", with_constant(&program, 1.0 / 0.9, "1.0"), ""),
    ];
    for (name, edited, named) in edits {
        let (file, out) = (scratch.write(&format!("{name}.mlir"), &edited), folder(name));
        execute(&scratch, &right, &out, Some(&file));
        let (code, shown) = validate(&scratch, &right, &out);
        assert_eq!(code, 1, "{name}\n{shown}");
        assert!(shown.contains(named), "{name} should be seen in {named}\n{shown}");
    }
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
    execute(&scratch, &whole, &whole_ours, None);
    let args = ["execute", "bert-squad", "--golden", text(&whole), "--out", text(&cut_ours)];
    for tenths in [6, 10, 17] {
        if killed(&scratch, &args, Duration::from_millis(tenths * 100)) {
            break;
        }
    }
    execute(&scratch, &whole, &cut_ours, None);
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
        let (code, shown) = run(&scratch, args);
        assert_eq!(code, 2, "{args:?}\n{shown}");
        assert!(shown.contains(said), "{args:?}\n{shown}");
    }
}
