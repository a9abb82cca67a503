//! The walk back: what is computed and what is not.

#![allow(clippy::format_push_string, reason = "programs are written line by line")]

mod support;

use support::{close, differences, floats, program, run, tensor};
use warpforge_compiler::differentiate::peak_bytes;
use warpforge_compiler::{Gradients, Remat, differentiate};
use warpforge_snakeburger::ir::{Attr, Module, lookup};
use warpforge_snakeburger::text::{PrintOptions, print};

fn count(module: &Module, name: &str) -> usize {
    let graphs = module.funcs().iter().filter_map(|func| func.body.as_ref());
    graphs
        .flat_map(warpforge_snakeburger::ir::Graph::nodes)
        .filter(|(_, node)| node.op.name() == name)
        .count()
}

fn request(wrt: &[usize]) -> Gradients {
    Gradients { loss: 0, wrt: wrt.to_vec(), remat: Remat::Keep }
}

/// `sum(tanh(x W) W2 + x A B)`: frozen weights and an adapter.
const LORA: &str = "func.func @main(%x: tensor<2x4xf64>, %w: tensor<4x4xf64>, %w2: tensor<4x4xf64>, %a: tensor<4x1xf64>, %b: tensor<1x4xf64>) -> (tensor<f64> {warpforge.name = \"loss\", warpforge.kind = \"loss\"}, tensor<2x4xf64>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf64>, tensor<4x4xf64>) -> tensor<2x4xf64>
    %1 = stablehlo.tanh %0 {warpforge.tap = \"tanh\"} : tensor<2x4xf64>
    %2 = stablehlo.dot_general %1, %w2, contracting_dims = [1] x [0] : (tensor<2x4xf64>, tensor<4x4xf64>) -> tensor<2x4xf64>
    %3 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<2x4xf64>, tensor<4x1xf64>) -> tensor<2x1xf64>
    %4 = stablehlo.dot_general %3, %b, contracting_dims = [1] x [0] : (tensor<2x1xf64>, tensor<1x4xf64>) -> tensor<2x4xf64>
    %5 = stablehlo.add %2, %4 : tensor<2x4xf64>
    %6 = stablehlo.multiply %5, %5 : tensor<2x4xf64>
    %z = stablehlo.constant dense<0.0> : tensor<f64>
    %7 = stablehlo.reduce(%6 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<f64>
    return %7, %5 : tensor<f64>, tensor<2x4xf64>
}";

#[test]
fn frozen_weights_cost_nothing() {
    let module = program(LORA);
    let forward = count(&module, "stablehlo.dot_general");
    let adapter = differentiate(&module, &request(&[3, 4])).unwrap();
    // Back through the adapter: one product for B, one on the way to A, one for A.
    assert_eq!(count(&adapter, "stablehlo.dot_general"), forward + 3);
    let all = differentiate(&module, &request(&[1, 2, 3, 4])).unwrap();
    assert_eq!(count(&all, "stablehlo.dot_general"), forward + 6);
}

#[test]
fn results_attributes_and_taps_stay_and_gradients_follow() {
    let module = program(LORA);
    let with = differentiate(&module, &request(&[3])).unwrap();
    let main = with.entry().unwrap();
    assert_eq!(main.results.len(), 3);
    let text = |i: usize, name: &str| match lookup(&main.result_attrs[i], name) {
        Some(Attr::Str(text)) => text.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(text(0, "warpforge.name"), "loss");
    assert_eq!(text(2, "warpforge.kind"), "gradient");
    assert_eq!(text(2, "warpforge.name"), "input.3");
    assert_eq!(print(&with, PrintOptions::default()).matches("warpforge.tap").count(), 1);
}

#[test]
fn a_value_used_twice_gets_both_shares() {
    let module = program(
        "func.func @main(%x: tensor<2xf64>) -> tensor<f64> {
            %0 = stablehlo.sine %x : tensor<2xf64>
            %1 = stablehlo.multiply %0, %x : tensor<2xf64>
            %2 = stablehlo.add %1, %0 : tensor<2xf64>
            %3 = stablehlo.multiply %2, %0 : tensor<2xf64>
            %z = stablehlo.constant dense<0.0> : tensor<f64>
            %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
            return %4 : tensor<f64>
        }",
    );
    let x = [tensor(&[2], &[0.4, -1.1])];
    let found = support::gradients(&module, &[0], &x);
    close(&found[0], &differences(&module, &[0], &x)[0], 1e-8, "shares");
}

#[test]
fn what_the_loss_does_not_depend_on_is_zero() {
    let module = program(
        "func.func @main(%x: tensor<2xf64>, %y: tensor<f64>) -> tensor<f64> {
            return %y : tensor<f64>
        }",
    );
    let found =
        support::gradients(&module, &[0, 1], &[tensor(&[2], &[1.0, 2.0]), tensor(&[], &[3.0])]);
    assert_eq!(found, [vec![0.0, 0.0], vec![1.0]]);
}

#[test]
fn a_stop_stops() {
    let module = program(
        "func.func @main(%x: tensor<f64>) -> tensor<f64> {
            %0 = stablehlo.optimization_barrier %x {warpforge.stop_gradient} : tensor<f64>
            %1 = stablehlo.multiply %0, %x : tensor<f64>
            return %1 : tensor<f64>
        }",
    );
    assert_eq!(support::gradients(&module, &[0], &[tensor(&[], &[3.0])]), [vec![3.0]]);
}

#[test]
fn composites_are_differentiated_once_for_all_alike() {
    let module = program(
        "func.func @main(%x: tensor<3xf64>) -> tensor<f64> {
            %0 = stablehlo.composite \"my.bend\" %x {decomposition = @bend} : (tensor<3xf64>) -> tensor<3xf64>
            %1 = stablehlo.composite \"my.bend\" %0 {decomposition = @bend} : (tensor<3xf64>) -> tensor<3xf64>
            %z = stablehlo.constant dense<0.0> : tensor<f64>
            %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
            return %2 : tensor<f64>
        }
        func.func private @bend(%x: tensor<3xf64>) -> tensor<3xf64> {
            %0 = stablehlo.tanh %x : tensor<3xf64>
            %1 = stablehlo.multiply %0, %x : tensor<3xf64>
            return %1 : tensor<3xf64>
        }",
    );
    let with = differentiate(&module, &request(&[0])).unwrap();
    assert_eq!(
        with.funcs().len(),
        3,
        "main, the meaning and its derivative\n{}",
        print(&with, PrintOptions::default())
    );
    let x = [tensor(&[3], &[0.3, -0.9, 1.4])];
    let found = support::gradients(&module, &[0], &x);
    close(&found[0], &differences(&module, &[0], &x)[0], 1e-8, "composite");
}

#[test]
fn what_has_no_derivative_is_named() {
    let module = program(
        "func.func @main(%x: tensor<2xf64>) -> tensor<f64> {
            %0 = stablehlo.custom_call @strange(%x) : (tensor<2xf64>) -> tensor<f64> loc(\"node\"(\"layer.0\"))
            return %0 : tensor<f64>
        }",
    );
    let error = differentiate(&module, &request(&[0])).unwrap_err().to_string();
    assert!(error.contains("stablehlo.custom_call") && error.contains("layer.0"), "{error}");
}

/// Layers that each make something large out of something small.
fn layers(count: usize) -> String {
    let mut body = String::new();
    let mut last = "%x".to_owned();
    for i in 0..count {
        let loc = format!("loc(\"node\"(\"net.{i}.act\"))");
        body.push_str(&format!(
            "%a{i} = stablehlo.broadcast_in_dim {last}, dims = [1] : (tensor<4xf64>) -> tensor<64x4xf64> {loc}
             %b{i} = stablehlo.sine %a{i} : tensor<64x4xf64> {loc}
             %c{i} = stablehlo.multiply %b{i}, %a{i} : tensor<64x4xf64> {loc}
             %d{i} = stablehlo.reduce(%c{i} init: %z) applies stablehlo.add across dimensions = [0] : (tensor<64x4xf64>, tensor<f64>) -> tensor<4xf64> {loc}
             %e{i} = stablehlo.tanh %d{i} : tensor<4xf64> {loc}\n"
        ));
        last = format!("%e{i}");
    }
    format!(
        "func.func @main(%x: tensor<4xf64>) -> tensor<f64> {{
            %z = stablehlo.constant dense<0.0> : tensor<f64>
            {body}
            %s = stablehlo.reduce({last} init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<f64>
            return %s : tensor<f64>
        }}"
    )
}

#[test]
fn computing_again_gives_the_same_numbers_with_less_alive() {
    let module = program(&layers(6));
    let keep = differentiate(&module, &request(&[0])).unwrap();
    let with =
        |remat: Remat| differentiate(&module, &Gradients { remat, ..request(&[0]) }).unwrap();
    let again = with(Remat::Modules(vec!["net".into()]));
    let x = [tensor(&[4], &[0.3, -0.2, 0.1, 0.5])];
    let numbers = |module: &Module| run(module, &x).iter().flat_map(floats).collect::<Vec<_>>();
    assert_eq!(numbers(&keep), numbers(&again));
    let (before, after) = (peak_bytes(&keep), peak_bytes(&again));
    assert!(after * 2 < before, "{after} of {before} bytes");
    // A budget between the two computes some layers again, not all.
    let budget = u64::midpoint(before, after);
    let some = with(Remat::Budget(budget));
    assert!(peak_bytes(&some) <= budget);
    assert_eq!(numbers(&keep), numbers(&some));
    let sines = [&keep, &some, &again].map(|module| count(module, "stablehlo.sine"));
    assert!(sines[0] < sines[1] && sines[1] < sines[2], "{sines:?}");
}
