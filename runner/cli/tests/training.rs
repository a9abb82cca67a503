//! `warpforge validate` on two trainings, and `warpforge baseline`.

mod common;
#[path = "../../parity/tests/synthetic/mod.rs"]
mod synthetic;

use common::{Scratch, json};
use synthetic::{Fault, Synthetic};
use warpforge_parity::performance::{Block, Blocks, Pass, PeakMemory, Rules, VERSION};

const VALIDATE: [&str; 5] = ["validate", "--golden", "D", "--candidate", "E"];

/// The folders `D` and `E` of two trainings that took turns at being timed.
fn trained(fault: Option<Fault>, judged: bool) -> Scratch {
    let scratch = Scratch::new();
    Synthetic { fault, ..Synthetic::default() }.write(scratch.path());
    let moved = |from: &str, to: &str| {
        std::fs::rename(scratch.path().join(from), scratch.path().join(to)).unwrap();
    };
    moved("golden", "D");
    moved("warpforge", "E");
    let block = |pass, seconds| Block { pass, steps: 10, seconds };
    let pair = |_| [block(Pass::Golden, 0.5), block(Pass::Warpforge, 0.55)];
    let blocks = Blocks {
        version: VERSION,
        blocks: (0..4).flat_map(pair).collect(),
        items_per_step: 16.0,
        unit: "samples/s".into(),
        peak_memory_bytes: PeakMemory { golden: Some(1 << 28), warpforge: Some(1 << 29) },
        rules: Rules {
            judged,
            allowed_delta: Some(0.15),
            workload: "bert-squad/demo".into(),
            hardware_class: "test machine".into(),
            ..Rules::default()
        },
    };
    scratch.write("E/timings.json", &serde_json::to_string(&blocks).unwrap());
    scratch
}

fn shown(scratch: &Scratch, more: &[&str]) -> String {
    let args = [&VALIDATE[..], more].concat();
    let (code, out, err) = scratch.run(&args);
    scratch.plain(&format!("$ warpforge {}\nexit {code}\n{out}{err}\n", args.join(" ")))
}

#[test]
fn two_trainings_are_shown_by_quantity() {
    let mut all = shown(&trained(None, false), &["--fail-on-mismatch"]);
    all += &shown(&trained(Some(Fault::GradientScale), false), &["--fail-on-mismatch"]);
    all += &shown(&trained(Some(Fault::WrongBeta), false), &[]);
    all += &shown(&trained(Some(Fault::Expectation), false), &[]);
    insta::assert_snapshot!("trainings", all);
}

#[test]
fn exit_codes_are_the_verdicts() {
    for (fault, code) in [
        (None, 0),
        (Some(Fault::StaleBuffer), 1),
        (Some(Fault::MissingStep), 1),
        (Some(Fault::Expectation), 3),
        (Some(Fault::Unstable), 5),
    ] {
        assert_eq!(trained(fault, false).run(&VALIDATE).0, code, "{fault:?}");
    }
    let cut_off = trained(None, false);
    cut_off.write("E/incomplete", "");
    let (code, out, _) = cut_off.run(&VALIDATE);
    assert!(code == 5 && out.contains("incomplete"), "{code} {out}");
    let (code, _, err) = cut_off.run(&["validate", "--golden", "D", "--candidate", "F"]);
    assert!(code == 2 && err.contains("no file or folder"), "{code} {err}");
}

#[test]
fn the_report_is_written_and_keeps_its_schema() {
    let scratch = trained(Some(Fault::GradientScale), false);
    let args = [&VALIDATE[..], &["--report", "out", "--json"]].concat();
    let report = json(&mut scratch.warpforge(&args));
    common::assert_valid("report", &report);
    assert_eq!(report["verdicts"]["correctness"], "fail");
    let read = |name: &str| std::fs::read_to_string(scratch.path().join("out").join(name)).unwrap();
    let parity: serde_json::Value = serde_json::from_str(&read("parity.json")).unwrap();
    common::assert_valid("training-parity", &parity);
    let first = &parity["first"];
    assert_eq!((&first["quantity"], &first["step"]), (&"gradients".into(), &0.into()));
    assert!(read("report.html").contains("Gradients by parameter"));
    assert!(read("junit.xml").contains("gradients at step 30"));
}

#[test]
fn speed_is_judged_apart_and_baselines_are_promoted_by_hand() {
    let scratch = trained(None, true);
    let with_report = [&VALIDATE[..], &["--report", "out"]].concat();
    // No baseline is Inconclusive, and counts only where it is asked to.
    let (code, out, _) = scratch.run(&with_report);
    assert!(code == 0 && out.contains("no baseline of bert-squad/demo"), "{code} {out}");
    let strict = [&with_report[..], &["--fail-on-performance"]].concat();
    assert_eq!(scratch.run(&strict).0, 3);
    let (_, none, _) = scratch.run(&["baseline", "show"]);
    assert!(none.contains("holds no baseline"), "{none}");
    let (code, out, err) = scratch.run(&["baseline", "promote", "out"]);
    assert!(code == 0 && out.contains("0.909x golden (the first of its kind)"), "{out}{err}");
    assert_eq!(scratch.run(&strict).0, 0);
    let (_, listed, _) = scratch.run(&["baseline", "show"]);
    for word in ["bert-squad/demo", "test machine", "0.909x", "291 samples/s"] {
        assert!(listed.contains(word), "{listed}");
    }
    let stored = json(&mut scratch.warpforge(&["baseline", "show", "--json"]));
    common::assert_valid("baselines", &stored);
    let (code, _, err) = scratch.run(&["baseline", "promote", "D"]);
    assert!(code == 2 && err.contains("report.json"), "{code} {err}");
}
