//! Programs, their gradients and central differences, all by the interpreter.
#![allow(dead_code, reason = "each test uses some of it")]

use warpforge_compiler::{Gradients, Remat, differentiate};
use warpforge_snakeburger::eval::{Interpreter, Tensor, Value};
use warpforge_snakeburger::ir::{DType, Module, TensorTy};
use warpforge_snakeburger::text::{Options, parse};
use warpforge_snakeburger::verify::verify;

pub fn program(text: &str) -> Module {
    let module = parse(text, Options::default()).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    verify(module).unwrap_or_else(|e| panic!("{e:?}\n{text}")).into_module()
}

pub fn tensor(dims: &[i64], values: &[f64]) -> Tensor {
    Tensor::from_floats(TensorTy::new(dims.iter().copied(), DType::F64), |i| values[i])
}

pub fn run(module: &Module, arguments: &[Tensor]) -> Vec<Tensor> {
    let arguments = arguments.iter().cloned().map(Value::Tensor).collect();
    let results = Interpreter::new(module).call("main", arguments).unwrap();
    results
        .into_iter()
        .map(|value| match value {
            Value::Tensor(tensor) => tensor,
            other => panic!("{other:?}"),
        })
        .collect()
}

pub fn floats(tensor: &Tensor) -> Vec<f64> {
    (0..tensor.count()).map(|i| tensor.get(i).float()).collect()
}

/// The gradients of the first result by some arguments.
pub fn gradients(module: &Module, wrt: &[usize], arguments: &[Tensor]) -> Vec<Vec<f64>> {
    let request = Gradients { loss: 0, wrt: wrt.to_vec(), remat: Remat::Keep };
    let with = differentiate(module, &request).unwrap_or_else(|error| panic!("{error}"));
    let results = run(&with, arguments);
    let own = module.entry().unwrap().results.len();
    results[own..].iter().map(floats).collect()
}

/// The same by differences.
pub fn differences(module: &Module, wrt: &[usize], arguments: &[Tensor]) -> Vec<Vec<f64>> {
    let step = 1e-6;
    let at = |i: usize, k: usize, by: f64| {
        let mut moved = arguments.to_vec();
        let old = &arguments[i];
        moved[i] = Tensor::from_floats(old.ty.clone(), |j| {
            old.get(j).float() + if j == k { by } else { 0.0 }
        });
        run(module, &moved)[0].get(0).float()
    };
    wrt.iter()
        .map(|i| {
            let slope = |k| (at(*i, k, step) - at(*i, k, -step)) / (2.0 * step);
            (0..arguments[*i].count()).map(slope).collect()
        })
        .collect()
}

#[track_caller]
pub fn close(found: &[f64], wanted: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(wanted).enumerate() {
        let same =
            (a - b).abs() <= tolerance * (1.0 + b.abs()) || a == b || (a.is_nan() && b.is_nan());
        assert!(same, "{what}: element {i} is {a}, not {b}\n{found:?}\n{wanted:?}");
    }
}
