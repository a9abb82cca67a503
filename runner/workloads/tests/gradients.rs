//! Gradients of lowered models against PyTorch's autograd, both in float64.

use std::fmt::Write as _;
use std::path::Path;

use warpforge_compiler::{Remat, backward_from};
use warpforge_pt2::Model;
use warpforge_snakeburger::build::{Emitter, V};
use warpforge_snakeburger::eval::{Interpreter, Tensor, Value};
use warpforge_snakeburger::ir::{DType, Dict, Module, TensorTy};
use warpforge_snakeburger::ops;
use warpforge_snakeburger::prune::prune;
use warpforge_snakeburger::verify::verify;
use warpforge_tests::installed::{Fixture, fixtures, python};
use warpforge_tests::root;
use warpforge_workloads::given;
use warpforge_workloads::pass::{Options, argument};
use warpforge_workloads::program::{Signature, Slot};
use warpforge_workloads::tensors::{Named, read};

/// How far apart the two may be, relative to the gradient's largest element.
const TOLERANCE: f64 = 1e-9;

/// The number that weights element `k` of an output; `autograd.py` has the same.
fn weight(k: usize) -> f64 {
    (k as f64 * 0.7 + 0.3).cos()
}

fn cotangent(e: &mut Emitter, value: V) -> V {
    let ty = e.ty(value).clone();
    let count = ty.count().unwrap();
    if !ty.elem.storage().is_complex() {
        let numbers: Vec<f64> = (0..count).map(weight).collect();
        return e.floats(&numbers, &ty.dims, DType::F64);
    }
    let part = |from: usize| -> Vec<f64> { (0..count).map(|k| weight(2 * k + from)).collect() };
    let (real, imaginary) =
        (e.floats(&part(0), &ty.dims, DType::F64), e.floats(&part(1), &ty.dims, DType::F64));
    e.push(ops::Complex {}, &[real, imaginary], ty)
}

/// A program that yields the weighted outputs' gradients, and whose they are.
fn with_gradients(module: &Module) -> Result<(Module, Vec<(usize, Slot)>), String> {
    let main = module.entry().unwrap();
    let signature = Signature::of(module, main);
    let types: Vec<TensorTy> =
        main.arguments.iter().map(|id| module.ty(*id).as_tensor().unwrap().clone()).collect();
    let mut e = Emitter::new(&types);
    let values = e.arguments();
    let results = e.inline(module, &main.name, &values).unwrap();
    let differentiable = |e: &Emitter, value: V| {
        let dtype = e.dtype(value);
        dtype.is_float() || dtype.is_complex()
    };
    let mut seeds = Vec::new();
    for (slot, value) in signature.results.iter().zip(results) {
        if slot.kind != "mutated" && differentiable(&e, value) {
            let cotangent = cotangent(&mut e, value);
            seeds.push((value, cotangent));
        }
    }
    let wrt: Vec<usize> = (0..values.len())
        .filter(|i| {
            let kind = signature.arguments[*i].kind.as_str();
            matches!(kind, "parameter" | "input") && differentiable(&e, values[*i])
        })
        .collect();
    let by: Vec<V> = wrt.iter().map(|i| values[*i]).collect();
    let gradients =
        backward_from(&mut e, &seeds, &by, &Remat::Keep).map_err(|error| error.to_string())?;
    let (mut results, mut slots) = (Vec::new(), Vec::new());
    for (gradient, i) in gradients.into_iter().zip(wrt) {
        if let Some(gradient) = gradient {
            results.push(gradient);
            slots.push((i, signature.arguments[i].clone()));
        }
    }
    let (arguments, outs) = (vec![Dict::new(); types.len()], vec![Dict::new(); results.len()]);
    let built = prune(&e.finish(&results, arguments, outs));
    let built = verify(built).map_err(|problems| format!("{:?}", problems.first()))?;
    Ok((built.into_module(), slots))
}

fn ours(fixture: &Fixture) -> Result<Option<Named>, String> {
    let model = Model::open(&fixture.model).map_err(|error| error.to_string())?;
    // Constants too are those of float64.
    let Ok(wide) = model.widened() else { return Ok(None) };
    let program = warpforge_snakegrinder::lower(&wide).map_err(|error| error.to_string())?;
    let module = program.module.into_module();
    let main = module.entry().unwrap();
    let signature = Signature::of(&module, main);
    if signature.arguments.iter().any(|slot| slot.kind == "random") {
        return Ok(None);
    }
    let (module, slots) = with_gradients(&module)?;
    let given = read(&fixture.inputs).map_err(|error| error.to_string())?;
    let inputs = given::from_file(&model, &given).map_err(|error| error.to_string())?;
    let options = Options { seed: 0, step: 0, taps: None };
    let main = module.entry().unwrap();
    let mut arguments = Vec::new();
    for (slot, id) in signature.arguments.iter().zip(&main.arguments) {
        let ty = module.ty(*id).as_tensor().unwrap();
        let value = argument(slot, ty, &model, &inputs, &options);
        arguments.push(Value::Tensor(value.map_err(|error| error.to_string())?));
    }
    let results = Interpreter::new(&module).call("main", arguments);
    let results = results.map_err(|error| error.message)?;
    let mut named = Named::new();
    for ((_, slot), value) in slots.into_iter().zip(results) {
        let Value::Tensor(tensor) = value else { continue };
        named.insert(format!("{} {}", slot.kind, slot.names[0]), tensor);
    }
    Ok(Some(named))
}

/// The parts of an element.
fn parts(tensor: &Tensor, i: usize) -> [f64; 2] {
    if tensor.storage().is_complex() {
        let number = tensor.get(i).complex();
        return [number.re, number.im];
    }
    [tensor.get(i).float(), 0.0]
}

/// What is wrong with one gradient, if anything is.
fn difference(ours: Option<&Tensor>, theirs: &Tensor) -> Option<String> {
    let all: Vec<f64> = (0..theirs.count()).flat_map(|i| parts(theirs, i)).collect();
    let largest = all.iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()));
    let Some(ours) = ours else {
        return (largest != 0.0).then(|| "there is none".into());
    };
    if ours.dims() != theirs.dims() {
        return Some(format!("it is {}, not {}", ours.ty, theirs.ty));
    }
    let found: Vec<f64> = (0..ours.count()).flat_map(|i| parts(ours, i)).collect();
    let bad: Vec<usize> = (0..all.len())
        .filter(|i| {
            let (a, b) = (found[*i], all[*i]);
            let near = (a - b).abs() <= TOLERANCE * (largest + 1e-3);
            !(near || a == b || (a.is_nan() && b.is_nan()))
        })
        .collect();
    let first = *bad.first()?;
    Some(format!(
        "{} of {} differ, the first is {} and not {} (element {first})",
        bad.len(),
        all.len(),
        found[first],
        all[first]
    ))
}

fn compare(fixture: &Fixture, folder: &Path, compared: &mut usize) -> Vec<String> {
    let name = &fixture.name;
    let file = folder.join(format!("{name}.safetensors"));
    if !file.is_file() {
        return Vec::new();
    }
    let theirs = read(&file).unwrap();
    let ours = match ours(fixture) {
        Ok(Some(ours)) => ours,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let mut problems = Vec::new();
    for (gradient, wanted) in theirs.iter().filter(|(name, _)| name.contains(' ')) {
        *compared += 1;
        if let Some(why) = difference(ours.get(gradient), wanted) {
            problems.push(format!("{name}: {gradient}: {why}"));
        }
    }
    for (gradient, tensor) in &ours {
        let all = (0..tensor.count()).flat_map(|i| parts(tensor, i));
        if !theirs.contains_key(gradient) && all.into_iter().any(|x| x != 0.0) {
            problems.push(format!("{name}: {gradient}: PyTorch has none"));
        }
    }
    problems
}

/// Where the two part for a reason that is known.
const KNOWN: &[&str] = &[
    // PyTorch's own hardsigmoid has a sixth rounded to float32, also in float64.
    "op_activations_with_options: input tensors_0: 6 of 480 differ",
    // Of the largest among NaNs PyTorch's gradient is NaN, and here it is shared among them.
    "op_special_values: input tensors_0: 4 of 16 differ",
];

#[test]
fn every_fixture_has_the_gradients_that_autograd_has() {
    let only = std::env::var("WARPFORGE_TEST_FIXTURE").unwrap_or_default();
    let fixtures: Vec<Fixture> =
        fixtures().into_iter().filter(|fixture| fixture.name.contains(&only)).collect();
    let folder = tempfile::tempdir().unwrap();
    let status = python()
        .arg(root().join("runner/workloads/tests/autograd.py"))
        .arg(folder.path())
        .args(fixtures.iter().map(|fixture| &fixture.model))
        .status()
        .expect("the Python of `cargo xtask setup` is there");
    assert!(status.success(), "Python: {status}");
    let (mut compared, mut report) = (0, String::new());
    for fixture in &fixtures {
        for problem in compare(fixture, folder.path(), &mut compared) {
            if !KNOWN.iter().any(|known| problem.starts_with(known)) {
                let _ = writeln!(report, "{problem}");
            }
        }
    }
    assert!(report.is_empty(), "\n{report}");
    assert!(compared > 0, "nothing was compared");
}
