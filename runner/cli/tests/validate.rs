//! `warpforge validate`: verdicts, exit codes, reasons, and the files it leaves.

mod common;

use common::{Scratch, json, outcome};
use safetensors::tensor::{Dtype, TensorView, serialize};

/// Writes float32 tensors.
fn put(scratch: &Scratch, file: &str, tensors: &[(&str, &[usize], &[f32])]) {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, values)| values.iter().flat_map(|x| x.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), data)| {
        (*name, TensorView::new(Dtype::F32, shape.to_vec(), data).unwrap())
    });
    put_bytes(scratch, file, &serialize(views, None).unwrap());
}

fn put_bytes(scratch: &Scratch, file: &str, bytes: &[u8]) {
    let path = scratch.path().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn put_typed(scratch: &Scratch, file: &str, dtype: Dtype, shape: &[usize], data: &[u8]) {
    let view = TensorView::new(dtype, shape.to_vec(), data).unwrap();
    put_bytes(scratch, file, &serialize([("x", view)], None).unwrap());
}

const VALIDATE: [&str; 5] =
    ["validate", "--golden", "g.safetensors", "--candidate", "c.safetensors"];

/// The command with golden and candidate by their usual names, as a person sees it.
fn shown(scratch: &Scratch, more: &[&str]) -> String {
    of(scratch, &[&VALIDATE[..], more].concat())
}

fn shown_of(scratch: &Scratch, golden: &str, candidate: &str) -> String {
    of(scratch, &["validate", "--golden", golden, "--candidate", candidate])
}

fn of(scratch: &Scratch, args: &[&str]) -> String {
    let (code, out, err) = scratch.run(args);
    scratch.plain(&format!("$ warpforge {}\nexit {code}\n{out}{err}\n", args.join(" ")))
}

#[test]
fn two_files_that_agree_pass() {
    let scratch = Scratch::new();
    let logits = [0.1f32, -2.0, 3.5, 0.0];
    put(&scratch, "g.safetensors", &[("logits", &[2, 2], &logits), ("mask", &[1], &[1.0])]);
    let near = logits.map(|x| x * 1.000_000_2);
    put(&scratch, "c.safetensors", &[("logits", &[2, 2], &near), ("mask", &[1], &[1.0])]);
    insta::assert_snapshot!("pass", shown(&scratch, &[]));
}

#[test]
fn each_problem_is_its_own_reason() {
    let scratch = Scratch::new();
    let mut all = String::new();
    put(
        &scratch,
        "g.safetensors",
        &[
            ("decoder.weight", &[2], &[1.0, 2.0]),
            ("same", &[1], &[1.0]),
            ("shape", &[2, 3], &[0.0; 6]),
            ("values", &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
            ("worse", &[1], &[1.0]),
            ("nan", &[2], &[f32::NAN, 1.0]),
        ],
    );
    put(
        &scratch,
        "c.safetensors",
        &[
            ("module.decoder.weight", &[2], &[1.0, 2.0]),
            ("same", &[1], &[1.0]),
            ("shape", &[3, 2], &[0.0; 6]),
            ("values", &[2, 2], &[1.0, 2.5, 3.0, 4.0]),
            ("worse", &[1], &[9.0]),
            ("nan", &[2], &[f32::NAN, f32::INFINITY]),
        ],
    );
    all += &shown(&scratch, &[]);
    put_typed(&scratch, "g.safetensors", Dtype::F32, &[1], &1f32.to_le_bytes());
    put_typed(&scratch, "c.safetensors", Dtype::I32, &[1], &1i32.to_le_bytes());
    all += &shown(&scratch, &[]);
    put(&scratch, "c.safetensors", &[("y", &[1], &[1.0])]);
    all += &shown(&scratch, &[]);
    put(&scratch, "c.safetensors", &[("x", &[1], &[1.002])]);
    all += &shown(&scratch, &["--fail-on-mismatch"]);
    all += &shown(&scratch, &["--fail-on-mismatch=false"]);
    all += &shown(&scratch, &["--tolerance", "outputs.rtol=0.01"]);
    put_typed(&scratch, "g.safetensors", Dtype::BF16, &[1], &[0x80, 0x3f]);
    put_typed(&scratch, "c.safetensors", Dtype::BF16, &[1], &[0x81, 0x3f]);
    all += &shown(&scratch, &[]);
    put(&scratch, "g.safetensors", &[("x", &[2], &[f32::NAN, 1.0])]);
    put(&scratch, "c.safetensors", &[("x", &[2], &[f32::NAN, 1.0])]);
    all += &shown(&scratch, &[]);
    all += &shown(&scratch, &["--expect-nonfinite"]);
    insta::assert_snapshot!("reasons", all);
}

#[test]
fn sides_that_cannot_be_read_are_invalid_and_wrong_words_are_usage() {
    let scratch = Scratch::new();
    let mut all = String::new();
    put(&scratch, "g.safetensors", &[("x", &[2], &[1.0, 2.0])]);
    all += &shown(&scratch, &[]);
    let whole = std::fs::read(scratch.path().join("g.safetensors")).unwrap();
    put_bytes(&scratch, "c.safetensors", &whole[..whole.len() - 3]);
    all += &shown(&scratch, &[]);
    put_bytes(&scratch, "c.safetensors", b"hello, this is no tensor at all");
    all += &shown(&scratch, &[]);
    put_bytes(&scratch, "c.safetensors", &serialize([] as [(&str, TensorView); 0], None).unwrap());
    put_bytes(
        &scratch,
        "e.safetensors",
        &std::fs::read(scratch.path().join("c.safetensors")).unwrap(),
    );
    all += &shown_of(&scratch, "e.safetensors", "c.safetensors");
    put_bytes(&scratch, "c.safetensors", &whole);
    for tolerance in ["rtl=1", "outputs.rtol=-1", "rtol"] {
        all += &shown(&scratch, &["--tolerance", tolerance]);
    }
    put_bytes(&scratch, "folder/incomplete", b"");
    all += &shown_of(&scratch, "folder", "g.safetensors");
    put_bytes(&scratch, "other/outputs.safetensors", &whole);
    all += &shown_of(&scratch, "other", "folder");
    insta::assert_snapshot!("invalid", all);
}

#[test]
fn two_bundles_are_compared_by_kind() {
    let scratch = Scratch::new();
    for (side, by) in [("golden", 1.0f32), ("warpforge", 1.000_5)] {
        put(&scratch, &format!("run/{side}/outputs.safetensors"), &[("y", &[1], &[by])]);
        put(&scratch, &format!("run/{side}/checkpoint.safetensors"), &[("w", &[1], &[by])]);
        put(&scratch, &format!("run/{side}/activations/step-0.safetensors"), &[("a", &[1], &[by])]);
        scratch.write(
            &format!("run/{side}/loss_curve.json"),
            &format!("{{\"version\": 1, \"steps\": [{{\"step\": 0, \"loss\": {by}}}]}}"),
        );
        scratch.write(&format!("run/{side}/metrics.json"), &format!("{{\"f1\": {by}}}"));
    }
    let (code, out, err) = scratch.run(&["validate", "--golden", "run", "--candidate", "run"]);
    insta::assert_snapshot!("bundles", format!("exit {code}\n{out}{err}"));
}

#[test]
fn the_oracle_judges_both_sides() {
    let scratch = Scratch::new();
    put(&scratch, "g.safetensors", &[("x", &[2], &[1.0, 1.0])]);
    put(&scratch, "c.safetensors", &[("x", &[2], &[1.0001, 1.0])]);
    let exact: Vec<u8> = [1.0f64, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    put_typed(&scratch, "o.safetensors", Dtype::F64, &[2], &exact);
    insta::assert_snapshot!("oracle", shown(&scratch, &["--oracle", "o.safetensors"]));
    let loose = ["--oracle", "o.safetensors", "--tolerance", "oracle.factor=1e9"];
    // Golden has no error of its own, so that no factor helps.
    assert_eq!(scratch.run(&[&VALIDATE[..], &loose].concat()).0, 1);
}

#[test]
fn the_report_agrees_with_the_exit_code_in_every_form() {
    let scratch = Scratch::new();
    put(&scratch, "g.safetensors", &[("x", &[2], &[1.0, 2.0])]);
    put(&scratch, "c.safetensors", &[("x", &[2], &[1.0, 2.5])]);
    let args = [&VALIDATE[..], &["--report", "out/deep", "--json"]].concat();
    let report = json(&mut scratch.warpforge(&args));
    common::assert_valid("report", &report);
    assert_eq!(
        (&report["verdicts"]["correctness"], &report["version"]),
        (&"fail".into(), &1.into())
    );
    assert_eq!(report["reasons"][0]["kind"], "value_mismatch");
    assert_eq!(report["tensors"][0]["statistics"]["worst"]["coordinates"], serde_json::json!([1]));
    assert!(report["system"]["cpu"].is_object() && report["created"].is_string());
    let read =
        |name: &str| std::fs::read_to_string(scratch.path().join("out/deep").join(name)).unwrap();
    let written: serde_json::Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(written["verdicts"], report["verdicts"]);
    assert!(read("junit.xml").contains("failures=\"1\""));
    assert!(read("report.html").contains("<strong>Fail</strong>"));
    let parity: serde_json::Value = serde_json::from_str(&read("parity.json")).unwrap();
    assert_eq!(parity["verdict"], "fail");
    assert_eq!(scratch.run(&args).0, 1);
    assert_eq!(std::fs::read_dir(scratch.path().join("out/deep")).unwrap().count(), 4);

    put_bytes(&scratch, "c.safetensors", b"damaged");
    let report = json(&mut scratch.warpforge(&args));
    common::assert_valid("report", &report);
    assert_eq!(report["verdicts"]["correctness"], "invalid");
    assert!(read("junit.xml").contains("errors=\"1\""));

    scratch.write("file", "");
    let args = [&VALIDATE[..], &["--report", "file/x"]].concat();
    let (code, _, err) = outcome(&mut scratch.warpforge(&args));
    assert!(code == 2 && err.contains("--report"), "{code} {err}");
}
