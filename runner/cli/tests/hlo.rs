//! `warpforge hlo` and `warpforge conformance` on real files.

#![allow(clippy::format_push_string, reason = "what was typed and said, line by line")]

mod common;

use common::{Scratch, outcome};

const PROGRAM: &str = "\
func.func @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3x2xf32>) -> (tensor<2x2xf32>, tensor<i32>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.tanh %0 : tensor<2x2xf32>
  %c = stablehlo.constant dense<7> : tensor<i32>
  return %1, %c : tensor<2x2xf32>, tensor<i32>
}
";

const SCALED: &str = "\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.constant dense<0.1> : tensor<4xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
";

/// NumPy's file of a vector of f32.
fn npy(values: &[f32]) -> Vec<u8> {
    let header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}\n", values.len());
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[test]
fn check_reports_every_problem_with_its_place() {
    let scratch = Scratch::new();
    scratch.write("good.mlir", PROGRAM);
    scratch.write(
        "bad.mlir",
        "func.func @f(%a: tensor<2xi32>) {\n  %0 = stablehlo.ceil %a : tensor<2xi32>\n  %1 = stablehlo.iota dim = 3 : tensor<2xi32>\n  return\n}\n",
    );
    scratch.write("broken.mlir", "func.func @f( {");
    assert_eq!(
        scratch.run(&["hlo", "check", "good.mlir"]),
        (0, "good.mlir: ok, 4 operations\n".to_owned(), String::new())
    );
    let (code, out, err) = scratch.run(&["hlo", "check", "good.mlir", "bad.mlir", "broken.mlir"]);
    insta::assert_snapshot!("check-bad", format!("exit {code}\n{out}{err}"));
    let (code, out, err) = scratch.run(&["hlo", "check", "absent.mlir"]);
    insta::assert_snapshot!("check-absent", format!("exit {code}\n{out}{err}"));
}

#[test]
fn bytecode_is_refused_with_the_cure() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path().join("model.mlirbc"), b"ML\xefR\x01").unwrap();
    let (code, _, err) = scratch.run(&["hlo", "check", "model.mlirbc"]);
    insta::assert_snapshot!("check-bytecode", format!("exit {code}\n{err}"));
}

#[test]
fn formatting_is_stable_and_can_be_written_back() {
    let scratch = Scratch::new();
    scratch.write("p.mlir", PROGRAM);
    let (code, once, _) = scratch.run(&["hlo", "fmt", "p.mlir"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!("fmt", once);
    assert_eq!(
        scratch.run(&["hlo", "fmt", "p.mlir", "--write"]),
        (0, String::new(), String::new())
    );
    let written = std::fs::read_to_string(scratch.path().join("p.mlir")).unwrap();
    assert_eq!(written, once);
    let (_, generic, _) = scratch.run(&["hlo", "fmt", "p.mlir", "--generic"]);
    assert!(generic.contains("\"stablehlo.tanh\"(%0)"), "{generic}");
}

#[test]
fn a_program_runs_on_a_numpy_file_and_leaves_safetensors() {
    let scratch = Scratch::new();
    scratch.write("p.mlir", SCALED);
    std::fs::write(scratch.path().join("x.npy"), npy(&[1.0, 2.0, -3.0, 0.0])).unwrap();
    let args = ["hlo", "run", "p.mlir", "--inputs", "x.npy", "--quiet"];
    let (code, out, err) = scratch.run(&args);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(out, "result0: tensor<4xf32> = [0.1, 0.2, -0.3, 0.0]\n");

    let (code, _, err) = outcome(scratch.warpforge(&args).args(["--outputs", "y.safetensors"]));
    assert_eq!((code, err.as_str()), (0, ""));
    let bytes = std::fs::read(scratch.path().join("y.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    assert_eq!(header["result0"]["dtype"], "F32");
    let values: Vec<f32> = bytes[8 + length..]
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(values, [0.1, 0.2, -0.3, 0.0]);
    assert!(!scratch.path().join("y.partial").exists());
}

#[test]
fn precision_f64_computes_without_rounding_to_f32() {
    let scratch = Scratch::new();
    scratch.write("p.mlir", SCALED);
    std::fs::write(scratch.path().join("x.npy"), npy(&[3.0, 0.0, 0.0, 0.0])).unwrap();
    let args = ["hlo", "run", "p.mlir", "--inputs", "x.npy", "--quiet", "--precision", "f64"];
    let (_, out, _) = scratch.run(&args);
    // The constant is 0.1 as f32 has it, times three, exactly.
    let exact = f64::from(0.1f32) * 3.0;
    assert!(out.starts_with(&format!("result0: tensor<4xf64> = [{exact:?}, ")), "{out}");
}

#[test]
fn a_trace_holds_every_intermediate_with_its_statistics() {
    let scratch = Scratch::new();
    scratch.write("p.mlir", SCALED);
    std::fs::write(scratch.path().join("x.npy"), npy(&[1.0, f32::NAN, 3.0, 0.0])).unwrap();
    let args = ["hlo", "run", "p.mlir", "--inputs", "x.npy", "--trace", "t", "--quiet"];
    assert_eq!(scratch.run(&args).0, 0);
    let index = std::fs::read_to_string(scratch.path().join("t/trace.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        index.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["operation"], "stablehlo.multiply");
    assert_eq!((&lines[1]["nans"], &lines[1]["elements"]), (&1.into(), &4.into()));
    assert_eq!(lines[1]["min"], 0.0);
    assert!(scratch.path().join("t").join(lines[1]["file"].as_str().unwrap()).is_file());
}

#[test]
fn wrong_inputs_are_named() {
    let scratch = Scratch::new();
    scratch.write("p.mlir", SCALED);
    std::fs::write(scratch.path().join("short.npy"), npy(&[1.0])).unwrap();
    scratch.write("bad.npy", "no numpy file");
    let mut shown = String::new();
    for args in [
        &["hlo", "run", "p.mlir"][..],
        &["hlo", "run", "p.mlir", "--inputs", "short.npy"],
        &["hlo", "run", "p.mlir", "--inputs", "bad.npy"],
        &["hlo", "run", "p.mlir", "--entry", "nothing"],
    ] {
        let (code, out, err) = scratch.run(args);
        shown += &format!("$ warpforge {}\nexit {code}\n{out}{err}\n", args.join(" "));
    }
    insta::assert_snapshot!("run-wrong", shown);
}

#[test]
fn a_failed_expectation_is_exit_1_with_its_place() {
    let scratch = Scratch::new();
    scratch.write(
        "p.mlir",
        "func.func @main() {\n  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n  check.expect_eq_const %0, dense<[1, 3]> : tensor<2xi32>\n  return\n}\n",
    );
    let (code, out, err) = scratch.run(&["hlo", "run", "p.mlir"]);
    insta::assert_snapshot!("run-failed", format!("exit {code}\n{out}{err}"));
}

#[test]
fn stats_count_operations_and_flops() {
    let scratch = Scratch::new();
    scratch.write("p.mlir", PROGRAM);
    let (code, out, _) = scratch.run(&["hlo", "stats", "p.mlir"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!("stats", out);
    let report = common::json(&mut scratch.warpforge(&["hlo", "stats", "p.mlir", "--json"]));
    assert_eq!(report["flops"], 2 * 2 * 2 * 3 + 4);
    common::assert_valid("stats", &report);
}

#[test]
fn conformance_runs_a_folder_and_one_bad_file_stops_nothing() {
    let scratch = Scratch::new();
    let case = |wanted: &str| {
        format!(
            "func.func @main() {{\n  %0 = stablehlo.constant dense<2> : tensor<i32>\n  %1 = stablehlo.add %0, %0 : tensor<i32>\n  check.expect_eq_const %1, dense<{wanted}> : tensor<i32>\n  return\n}}\n"
        )
    };
    scratch.write("set/good.mlir", &case("4"));
    scratch.write("set/deep/bad.mlir", &case("5"));
    scratch.write("set/broken.mlir", "func.func @main() { nonsense }");
    scratch.write("set/off.mlir", &format!("// RUN-DISABLED(not today)\n{}", case("6")));
    scratch.write("set/loop.mlir", "func.func @main() {\n  %0 = stablehlo.constant dense<true> : tensor<i1>\n  %1 = stablehlo.while(%a = %0) : tensor<i1>\n  cond {\n    stablehlo.return %a : tensor<i1>\n  } do {\n    stablehlo.return %a : tensor<i1>\n  }\n  return\n}\n");
    scratch.write("set/notes.txt", "not a program");
    let args = ["conformance", "set", "--timeout", "1", "--json", "r.json", "--junit", "r.xml"];
    let (code, out, err) = scratch.run(&args);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(scratch.path().join("r.json")).unwrap())
            .unwrap();
    common::assert_valid("conformance", &report);
    let counts =
        ["passed", "failed", "unsupported", "disabled"].map(|key| report[key].as_u64().unwrap());
    assert_eq!(counts, [1, 3, 0, 1], "{out}");
    assert!(out.contains("deep/bad.mlir") && out.contains("found 4, expected 5"), "{out}");
    assert!(out.contains("the time limit was reached"), "{out}");
    let junit = std::fs::read_to_string(scratch.path().join("r.xml")).unwrap();
    assert!(junit.contains("tests=\"5\" failures=\"3\" skipped=\"1\""), "{junit}");

    assert_eq!(scratch.run(&["conformance", "set", "--filter", "good"]).0, 0);
    let (code, _, err) = scratch.run(&["conformance", "set", "--filter", "nothing-like-it"]);
    insta::assert_snapshot!("conformance-empty", format!("exit {code}\n{err}"));
}
