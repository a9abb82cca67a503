//! One wrong operation at a time: parity must see it, and the localiser must name its place.
//!
//! Each mutation changes one operation of a lowered program, or one inside the decomposition of a
//! single composite, by at least ten times what the tolerance allows there.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Scratch, outcome};
use serde_json::Value;
use warpforge_tests::{installed, root};

/// Where the change is made, and what becomes of which text.
struct Mutation {
    model: &'static str,
    /// The operation's line in `main` contains this, and is marked as a node's result …
    line: &'static str,
    /// … and is the n-th such line.
    nth: usize,
    from: &'static str,
    to: &'static str,
}

const fn of(
    model: &'static str,
    line: &'static str,
    nth: usize,
    from: &'static str,
    to: &'static str,
) -> Mutation {
    Mutation { model, line, nth, from, to }
}

const LAYER_NORM: &str = "composite \"aten.layer_norm\"";
const LINEAR: &str = "composite \"aten.linear\"";
const ATTENTION: &str = "composite \"aten.scaled_dot_product_attention\"";

const MUTATIONS: &[Mutation] = &[
    // The error function of GELU becomes its cousin.
    of("bert_qa", "composite \"aten.gelu\"", 1, "chlo.erf", "chlo.tan"),
    // Half of GELU's argument is forgotten.
    of("bert_qa", "composite \"aten.gelu\"", 0, "dense<0.5>", "dense<1.0>"),
    // An epsilon that is not negligible beside the variance of embeddings.
    of("bert_qa", LAYER_NORM, 0, "dense<1.0e-12>", "dense<1.0e-3>"),
    of("bert_qa", LAYER_NORM, 1, "stablehlo.rsqrt", "stablehlo.sqrt"),
    // The mean over half of the elements.
    of("bert_qa", LAYER_NORM, 2, "dense<64.0>", "dense<32.0>"),
    // The scale of a norm is added.
    of("bert_qa", LAYER_NORM, 3, "multiply %17, %18", "add %17, %18"),
    // Weights that are not transposed.
    of("bert_qa", LINEAR, 0, "contracting_dims = [2] x [1]", "contracting_dims = [2] x [0]"),
    of("bert_qa", LINEAR, 8, "contracting_dims = [2] x [1]", "contracting_dims = [2] x [0]"),
    // Attention's scale is added.
    of("bert_qa", ATTENTION, 0, "stablehlo.multiply", "stablehlo.add"),
    // Residual connections that are subtracted.
    of("bert_qa", "stablehlo.add", 0, "stablehlo.add", "stablehlo.subtract"),
    of("llama", "composite \"aten.silu\"", 0, "stablehlo.logistic", "stablehlo.tanh"),
    of("llama", "stablehlo.rsqrt", 1, "stablehlo.rsqrt", "stablehlo.sqrt"),
    // The two halves of a rotation change places.
    of("llama", "stablehlo.cosine", 0, "stablehlo.cosine", "stablehlo.sine"),
    of("llama", "stablehlo.negate", 1, "stablehlo.negate", "stablehlo.abs"),
    of("llama", LINEAR, 3, "contracting_dims = [2] x [1]", "contracting_dims = [2] x [0]"),
    of("gpt2", "stablehlo.tanh", 0, "stablehlo.tanh", "stablehlo.logistic"),
    of("gpt2", LAYER_NORM, 1, "stablehlo.subtract", "stablehlo.add"),
    of("vit", "composite \"aten.gelu\"", 0, "stablehlo.add", "stablehlo.subtract"),
    of("vit", LAYER_NORM, 2, "stablehlo.rsqrt", "stablehlo.sqrt"),
    of("resnet50", "stablehlo.add", 4, "stablehlo.add", "stablehlo.subtract"),
    of("resnet50", "composite \"aten.batch_norm\"", 5, "stablehlo.rsqrt", "stablehlo.exponential"),
    of("resnet50", LINEAR, 0, "stablehlo.add", "stablehlo.subtract"),
];

/// What was changed: the node and the path of its module.
struct Place {
    node: String,
    module: String,
}

fn quoted<'t>(text: &'t str, before: &str) -> &'t str {
    let at = text.find(before).unwrap_or_else(|| panic!("{text} has no {before}"));
    text[at + before.len()..].split('"').next().unwrap()
}

/// The program with one operation changed.
fn mutate(program: &str, mutation: &Mutation) -> (String, Place) {
    let mut lines: Vec<String> = program.lines().map(str::to_owned).collect();
    let end = lines.iter().position(|line| line == "  }").unwrap();
    let chosen = |line: &&String| line.contains(mutation.line) && line.contains("warpforge.tap");
    // Where no gradient flows, the mark is on the barrier behind the operation.
    let inside = |line: &&String| line.contains(mutation.line);
    let tapped = lines[..end].iter().filter(chosen).nth(mutation.nth);
    let line = tapped.or_else(|| lines[..end].iter().filter(inside).nth(mutation.nth)).cloned();
    let line = line.unwrap_or_else(|| panic!("{}: no such line", mutation.line));
    let at = lines.iter().position(|other| *other == line).unwrap();
    let node = quoted(&line, " loc(\"").to_owned();
    let module = quoted(&line, &format!(" loc(\"{node}\"(\"")).to_owned();
    if let Some((_, rest)) = line.split_once("decomposition = @") {
        let symbol = rest.split([',', '}']).next().unwrap();
        let head = format!("  func.func private @{symbol}(");
        let start = lines.iter().position(|line| line.starts_with(&head)).unwrap();
        let length = lines[start..].iter().position(|line| line == "  }").unwrap();
        let body = lines[start..=start + length].join("\n");
        assert!(body.contains(mutation.from), "{} is not in\n{body}", mutation.from);
        let body = body.replace(&format!("@{symbol}("), "@mutant(");
        let body = body.replacen(mutation.from, mutation.to, 1);
        lines[at] = line.replace(&format!("@{symbol},"), "@mutant,");
        lines.insert(start, body);
    } else {
        lines[at] = line.replacen(mutation.from, mutation.to, 1);
    }
    assert!(lines[at] != line, "nothing was changed in {line}");
    (lines.join("\n"), Place { node, module })
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_mutation_fails_and_its_place_is_named() {
    assert!(MUTATIONS.len() >= 20);
    let scratch = Scratch::new();
    let mut programs: BTreeMap<&str, String> = BTreeMap::new();
    let mut problems = Vec::new();
    for (number, mutation) in MUTATIONS.iter().enumerate() {
        let fixture = installed::fixture(mutation.model);
        let program = programs.entry(mutation.model).or_insert_with(|| {
            let (code, shown, errors) =
                scratch.run(&["compile", text(&fixture.model), "-o", "whole.mlir"]);
            assert_eq!(code, 0, "{shown}{errors}");
            std::fs::read_to_string(scratch.path().join("whole.mlir")).unwrap()
        });
        let (edited, place) = mutate(program, mutation);
        scratch.write("edited.mlir", &edited);
        let out = scratch.path().join("out");
        let (model, inputs) = (text(&fixture.model), text(&fixture.inputs));
        let mut command = scratch.warpforge(&["run", "--model", model, "--inputs", inputs]);
        command.args(["--program", "edited.mlir", "--out", text(&out), "--repeats", "0"]);
        command.args(["--threads", "1"]).env("LIBTORCH", root().join(".libtorch/torch"));
        let (code, shown, errors) = outcome(&mut command);
        let name = format!("{number} ({} in {}, {})", mutation.to, mutation.model, place.node);
        if code != 1 {
            problems.push(format!("{name}: exit {code}\n{shown}{errors}"));
            continue;
        }
        let report = std::fs::read_to_string(out.join("report.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let first = &report["first_divergence"];
        if first["name"] != place.node || first["module_path"] != place.module {
            problems.push(format!("{name}: in {}, not {first}", place.module));
        }
        let tensors = report["tensors"].as_array().unwrap();
        let own = format!("activations/{}", place.node);
        let own = tensors.iter().find(|tensor| tensor["name"] == own).unwrap();
        let used = own["statistics"]["tolerance_used"].as_f64().unwrap_or(f64::INFINITY);
        if used < 10.0 {
            problems.push(format!("{name}: changed by {used} times the tolerance only"));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
