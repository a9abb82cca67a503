//! Gradients of small programs, by hand and by differences.

#![allow(clippy::format_collect, reason = "types are written as text")]

mod support;

use support::{close, differences, gradients, program, tensor};
use warpforge_snakeburger::eval::Tensor;

/// A program of one float64 argument whose result is weighted and summed up.
fn weighted(dims: &str, count: usize, out: &str, body: &str) -> String {
    let numbers: Vec<String> =
        (0..count).map(|k| format!("{:?}", (k as f64 * 0.7 + 0.3).cos())).collect();
    let rank = out.matches('x').count();
    let axes: Vec<String> = (0..rank).map(|axis| axis.to_string()).collect();
    format!(
        "func.func @main(%x: tensor<{dims}f64>) -> tensor<f64> {{
            {body}
            %w0 = stablehlo.constant dense<[{}]> : tensor<{count}xf64>
            %w = stablehlo.reshape %w0 : (tensor<{count}xf64>) -> tensor<{out}f64>
            %p = stablehlo.multiply %y, %w : tensor<{out}f64>
            %z = stablehlo.constant dense<0.0> : tensor<f64>
            %s = stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [{}] : (tensor<{out}f64>, tensor<f64>) -> tensor<f64>
            return %s : tensor<f64>
        }}",
        numbers.join(", "),
        axes.join(", "),
    )
}

/// The gradient is what differences say.
#[track_caller]
fn smooth(dims: &[i64], out: &[i64], values: &[f64], body: &str) {
    let text = |dims: &[i64]| dims.iter().map(|d| format!("{d}x")).collect::<String>();
    let count = out.iter().product::<i64>() as usize;
    let text = weighted(&text(dims), count, &text(out), body);
    let module = program(&text);
    let arguments = [tensor(dims, values)];
    let found = gradients(&module, &[0], &arguments);
    let wanted = differences(&module, &[0], &arguments);
    close(&found[0], &wanted[0], 1e-6, body);
}

/// Of a vector of four by `%y = OP %x`.
#[track_caller]
fn unary(op: &str, values: [f64; 4]) {
    let arrow = if op.starts_with("chlo") { " -> tensor<4xf64>" } else { "" };
    smooth(&[4], &[4], &values, &format!("%y = {op} %x : tensor<4xf64>{arrow}"));
}

#[test]
fn functions_of_one_number() {
    let any = [-1.3, -0.2, 0.4, 2.1];
    let positive = [0.1, 0.7, 1.3, 4.2];
    let inside = [-0.9, -0.3, 0.2, 0.7];
    for op in [
        "abs",
        "cbrt",
        "cosine",
        "exponential",
        "exponential_minus_one",
        "logistic",
        "negate",
        "sine",
        "tan",
        "tanh",
    ] {
        unary(&format!("stablehlo.{op}"), any);
    }
    for op in ["log", "log_plus_one", "rsqrt", "sqrt"] {
        unary(&format!("stablehlo.{op}"), positive);
    }
    for op in ["acos", "asin", "atanh", "erf_inv"] {
        unary(&format!("chlo.{op}"), inside);
    }
    for op in ["asinh", "atan", "cosh", "erf", "erfc", "sinh", "square"] {
        unary(&format!("chlo.{op}"), any);
    }
    for op in ["digamma", "lgamma"] {
        unary(&format!("chlo.{op}"), positive);
    }
    unary("chlo.acosh", [1.2, 1.7, 2.3, 4.2]);
}

#[test]
fn functions_of_two_numbers() {
    let values = [0.7, 1.9, 0.4, 2.6, 1.1, 0.8, 3.1, 0.9];
    for op in [
        "add",
        "atan2",
        "divide",
        "maximum",
        "minimum",
        "multiply",
        "power",
        "remainder",
        "subtract",
    ] {
        let body = format!(
            "%a = stablehlo.slice %x [0:4] : (tensor<8xf64>) -> tensor<4xf64>
             %b = stablehlo.slice %x [4:8] : (tensor<8xf64>) -> tensor<4xf64>
             %y = stablehlo.{op} %a, %b : tensor<4xf64>"
        );
        smooth(&[8], &[4], &values, &body);
    }
}

fn ramp(count: usize) -> Vec<f64> {
    (0..count).map(|k| ((k * k) as f64 * 0.37 + 0.2).sin()).collect()
}

#[test]
fn shapes_and_places() {
    let cases: &[(&[i64], &[i64], &str)] = &[
        (&[2, 3], &[3, 2], "%y = stablehlo.reshape %x : (tensor<2x3xf64>) -> tensor<3x2xf64>"),
        (&[2, 3], &[3, 2], "%y = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf64>) -> tensor<3x2xf64>"),
        (&[2, 1], &[3, 2, 4], "%y = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<2x1xf64>) -> tensor<3x2x4xf64>"),
        (&[2, 3], &[3, 4, 2], "%y = stablehlo.broadcast_in_dim %x, dims = [2, 0] : (tensor<2x3xf64>) -> tensor<3x4x2xf64>"),
        (&[7], &[3], "%y = stablehlo.slice %x [1:6:2] : (tensor<7xf64>) -> tensor<3xf64>"),
        (&[3], &[8], "%c = stablehlo.constant dense<0.5> : tensor<f64>
            %y = stablehlo.pad %x, %c, low = [1], high = [2], interior = [1] : (tensor<3xf64>, tensor<f64>) -> tensor<8xf64>"),
        (&[5], &[3], "%c = stablehlo.constant dense<0.5> : tensor<f64>
            %y = stablehlo.pad %x, %c, low = [-1], high = [-1], interior = [0] : (tensor<5xf64>, tensor<f64>) -> tensor<3xf64>"),
        (&[2, 2], &[2, 6], "%n = stablehlo.negate %x : tensor<2x2xf64>
            %y = stablehlo.concatenate %x, %n, %x, dim = 1 : (tensor<2x2xf64>, tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x6xf64>"),
        (&[4], &[4], "%y = stablehlo.reverse %x, dims = [0] : tensor<4xf64>"),
        (&[5], &[2], "%i = stablehlo.constant dense<2> : tensor<i64>
            %y = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<5xf64>, tensor<i64>) -> tensor<2xf64>"),
        (&[5], &[5], "%i = stablehlo.constant dense<4> : tensor<i64>
            %u = stablehlo.slice %x [0:2] : (tensor<5xf64>) -> tensor<2xf64>
            %v = stablehlo.multiply %u, %u : tensor<2xf64>
            %y = stablehlo.dynamic_update_slice %x, %v, %i : (tensor<5xf64>, tensor<2xf64>, tensor<i64>) -> tensor<5xf64>"),
        (&[4, 2], &[3, 2], "%i = stablehlo.constant dense<[[1], [1], [9]]> : tensor<3x1xi64>
            %y = \"stablehlo.gather\"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>} : (tensor<4x2xf64>, tensor<3x1xi64>) -> tensor<3x2xf64>"),
        (&[6], &[6], "%y = \"stablehlo.sort\"(%x) <{dimension = 0 : i64, is_stable = true}> ({
            ^bb0(%a: tensor<f64>, %b: tensor<f64>):
              %c = stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            }) : (tensor<6xf64>) -> tensor<6xf64>"),
    ];
    for (dims, out, body) in cases {
        let values = ramp(dims.iter().product::<i64>() as usize);
        smooth(dims, out, &values, body);
    }
}

fn scatter(how: &str) -> String {
    format!(
        "%i = stablehlo.constant dense<[[1], [3], [1], [7]]> : tensor<4x1xi64>
         %o = stablehlo.slice %x [0:5] : (tensor<9xf64>) -> tensor<5xf64>
         %u = stablehlo.slice %x [5:9] : (tensor<9xf64>) -> tensor<4xf64>
         %y = \"stablehlo.scatter\"(%o, %i, %u) ({{
           ^bb0(%a: tensor<f64>, %b: tensor<f64>):
             {how}
         }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}} : (tensor<5xf64>, tensor<4x1xi64>, tensor<4xf64>) -> tensor<5xf64>"
    )
}

#[test]
fn scatters_by_any_function() {
    let values = [0.3, 0.9, -0.4, 0.2, 0.6, 1.3, 0.8, -1.1, 0.5];
    for op in ["add", "multiply", "maximum", "minimum"] {
        let how =
            format!("%c = stablehlo.{op} %a, %b : tensor<f64>\n stablehlo.return %c : tensor<f64>");
        smooth(&[9], &[5], &values, &scatter(&how));
    }
}

fn reduce(op: &str) -> String {
    format!(
        "%i = stablehlo.constant dense<{}> : tensor<f64>
         %y = stablehlo.reduce(%x init: %i) applies stablehlo.{op} across dimensions = [1] : (tensor<2x3xf64>, tensor<f64>) -> tensor<2xf64>",
        match op {
            "add" => "0.0",
            "multiply" => "1.0",
            "maximum" => "0xFFF0000000000000",
            _ => "0x7FF0000000000000",
        }
    )
}

#[test]
fn reductions() {
    let values = [0.4, -1.2, 0.7, 2.0, 1.5, -0.3];
    for op in ["add", "multiply", "maximum", "minimum"] {
        smooth(&[2, 3], &[2], &values, &reduce(op));
    }
    // One zero and two zeros among the factors.
    smooth(&[2, 3], &[2], &[0.4, 0.0, 0.7, 0.0, 1.5, 0.0], &reduce("multiply"));
}

fn window(op: &str, attributes: &str, dims: &str, out: &str) -> String {
    let init = if op == "add" { "0.0" } else { "0xFFF0000000000000" };
    format!(
        "%i = stablehlo.constant dense<{init}> : tensor<f64>
         %y = \"stablehlo.reduce_window\"(%x, %i) ({{
           ^bb0(%a: tensor<f64>, %b: tensor<f64>):
             %c = stablehlo.{op} %a, %b : tensor<f64>
             stablehlo.return %c : tensor<f64>
         }}) {{{attributes}}} : (tensor<{dims}xf64>, tensor<f64>) -> tensor<{out}xf64>"
    )
}

#[test]
fn windows() {
    let values = ramp(7);
    for op in ["add", "maximum"] {
        let plain = "window_dimensions = array<i64: 3>, window_strides = array<i64: 2>, padding = dense<[[1, 0]]> : tensor<1x2xi64>";
        smooth(&[7], &[3], &values, &window(op, plain, "7", "3"));
        let holes = "window_dimensions = array<i64: 2>, window_dilations = array<i64: 3>, window_strides = array<i64: 1>, padding = dense<[[1, 1]]> : tensor<1x2xi64>";
        smooth(&[7], &[6], &values, &window(op, holes, "7", "6"));
    }
    let spread = "window_dimensions = array<i64: 2>, base_dilations = array<i64: 2>, padding = dense<[[1, 0]]> : tensor<1x2xi64>";
    smooth(&[7], &[13], &values, &window("add", spread, "7", "13"));
}

#[test]
fn products_in_every_layout() {
    let halves = |dims: &str, a: &str, b: &str, split: usize, all: usize| {
        format!(
            "%a0 = stablehlo.slice %x [0:{split}] : (tensor<{all}xf64>) -> tensor<{split}xf64>
             %b0 = stablehlo.slice %x [{split}:{all}] : (tensor<{all}xf64>) -> tensor<{}xf64>
             %a = stablehlo.reshape %a0 : (tensor<{split}xf64>) -> tensor<{a}xf64>
             %b = stablehlo.reshape %b0 : (tensor<{}xf64>) -> tensor<{b}xf64>
             %y = stablehlo.dot_general %a, %b, {dims}",
            all - split,
            all - split
        )
    };
    let values = ramp(48);
    let body = halves(
        "batching_dims = [0] x [2], contracting_dims = [2] x [0] : (tensor<2x3x4xf64>, tensor<4x3x2xf64>) -> tensor<2x3x3xf64>",
        "2x3x4",
        "4x3x2",
        24,
        48,
    );
    smooth(&[48], &[2, 3, 3], &values, &body);
    let body = halves(
        "contracting_dims = [2, 0] x [0, 2] : (tensor<2x3x4xf64>, tensor<4x3x2xf64>) -> tensor<3x3xf64>",
        "2x3x4",
        "4x3x2",
        24,
        48,
    );
    smooth(&[48], &[3, 3], &values, &body);
    let body = halves(
        "contracting_dims = [1] x [1] : (tensor<6x4xf64>, tensor<6x4xf64>) -> tensor<6x6xf64>",
        "6x4",
        "6x4",
        24,
        48,
    );
    smooth(&[48], &[6, 6], &values, &body);
}

fn convolution(attributes: &str, shapes: [&str; 3], counts: [usize; 2]) -> String {
    let [input, kernel, output] = shapes;
    let all = counts[0] + counts[1];
    format!(
        "%a0 = stablehlo.slice %x [0:{}] : (tensor<{all}xf64>) -> tensor<{}xf64>
         %b0 = stablehlo.slice %x [{}:{all}] : (tensor<{all}xf64>) -> tensor<{}xf64>
         %a = stablehlo.reshape %a0 : (tensor<{}xf64>) -> tensor<{input}xf64>
         %b = stablehlo.reshape %b0 : (tensor<{}xf64>) -> tensor<{kernel}xf64>
         %y = stablehlo.convolution(%a, %b) {attributes} : (tensor<{input}xf64>, tensor<{kernel}xf64>) -> tensor<{output}xf64>",
        counts[0], counts[0], counts[0], counts[1], counts[0], counts[1]
    )
}

#[test]
fn convolutions_with_every_attribute() {
    let values = ramp(80);
    // Stride, padding, dilation of both, a turned window.
    let body = convolution(
        "dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [2], pad = [[2, 1]], lhs_dilate = [2], rhs_dilate = [2], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}",
        ["2x2x5", "3x2x3", "2x3x4"],
        [20, 18],
    );
    smooth(&[38], &[2, 3, 4], &values[..38], &body);
    // Groups of features, dimensions in another order.
    let body = convolution(
        "dim_numbers = [0, b, f]x[i, 0, o]->[f, 0, b], window = {stride = [1], pad = [[1, 0]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64}",
        ["5x2x4", "2x3x6", "6x4x2"],
        [40, 36],
    );
    smooth(&[76], &[6, 4, 2], &values[..76], &body);
    // Groups of batches.
    let body = convolution(
        "dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[0, 0]]} {batch_group_count = 2 : i64, feature_group_count = 1 : i64}",
        ["4x2x4", "4x2x2", "2x4x3"],
        [32, 16],
    );
    smooth(&[48], &[2, 4, 3], &values[..48], &body);
}

#[test]
fn branches_and_counted_loops() {
    for when in ["true", "false"] {
        let body = format!(
            "%t = stablehlo.constant dense<{when}> : tensor<i1>
             %y = \"stablehlo.if\"(%t) ({{
               %a = stablehlo.multiply %x, %x : tensor<3xf64>
               stablehlo.return %a : tensor<3xf64>
             }}, {{
               %b = stablehlo.sine %x : tensor<3xf64>
               stablehlo.return %b : tensor<3xf64>
             }}) : (tensor<i1>) -> tensor<3xf64>"
        );
        smooth(&[3], &[3], &[0.3, -0.8, 1.2], &body);
    }
    let body = "%n = stablehlo.constant dense<0> : tensor<i64>
        %outer = stablehlo.sine %x : tensor<3xf64>
        %r:2 = stablehlo.while(%i = %n, %v = %x) : tensor<i64>, tensor<3xf64>
        cond {
          %e = stablehlo.constant dense<4> : tensor<i64>
          %c = stablehlo.compare LT, %i, %e : (tensor<i64>, tensor<i64>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i64>
          %j = stablehlo.add %i, %one : tensor<i64>
          %f = stablehlo.convert %i : (tensor<i64>) -> tensor<f64>
          %g = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f64>) -> tensor<3xf64>
          %p = stablehlo.multiply %v, %outer : tensor<3xf64>
          %q = stablehlo.add %p, %g : tensor<3xf64>
          %t = stablehlo.tanh %q : tensor<3xf64>
          stablehlo.return %j, %t : tensor<i64>, tensor<3xf64>
        }
        %y = stablehlo.negate %r#1 : tensor<3xf64>";
    smooth(&[3], &[3], &[0.3, -0.8, 1.2], body);
}

#[test]
fn triangles() {
    let make = "%v = stablehlo.reshape %x : (tensor<9xf64>) -> tensor<3x3xf64>
        %m = stablehlo.dot_general %v, %v, contracting_dims = [1] x [1] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
        %i = stablehlo.iota dim = 0 : tensor<3x3xi64>
        %j = stablehlo.iota dim = 1 : tensor<3x3xi64>
        %d = stablehlo.compare EQ, %i, %j : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi1>
        %e = stablehlo.convert %d : (tensor<3x3xi1>) -> tensor<3x3xf64>
        %a = stablehlo.add %m, %e : tensor<3x3xf64>";
    for lower in ["true", "false"] {
        let relation = if lower == "true" { "GE" } else { "LE" };
        let body = format!(
            "{make}
             %l = stablehlo.cholesky %a, lower = {lower} : tensor<3x3xf64>
             %t = stablehlo.compare {relation}, %i, %j : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi1>
             %z1 = stablehlo.constant dense<0.0> : tensor<3x3xf64>
             %y = stablehlo.select %t, %l, %z1 : tensor<3x3xi1>, tensor<3x3xf64>"
        );
        smooth(&[9], &[3, 3], &ramp(9), &body);
        for left in ["true", "false"] {
            for turned in ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"] {
                let body = format!(
                    "{make}
                     %y = \"stablehlo.triangular_solve\"(%a, %v) {{left_side = {left}, lower = {lower}, unit_diagonal = false, transpose_a = #stablehlo<transpose {turned}>}} : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>"
                );
                smooth(&[9], &[3, 3], &ramp(9), &body);
            }
        }
    }
}

/// The gradient by `%x` of a program with one vector.
fn gradient(values: &[f64], body: &str) -> Vec<f64> {
    let n = values.len();
    let text = format!(
        "func.func @main(%x: tensor<{n}xf64>) -> tensor<f64> {{
            {body}
            %z = stablehlo.constant dense<0.0> : tensor<f64>
            %s = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [0] : (tensor<{n}xf64>, tensor<f64>) -> tensor<f64>
            return %s : tensor<f64>
        }}"
    );
    let arguments: Vec<Tensor> = vec![tensor(&[n as i64], values)];
    gradients(&program(&text), &[0], &arguments).remove(0)
}

#[test]
fn ties_kinks_and_no_numbers_are_as_in_pytorch() {
    let nan = f64::NAN;
    let with = |number: &str, op: &str| {
        format!(
            "%c = stablehlo.constant dense<{number}> : tensor<3xf64>
             %y = stablehlo.{op} %x, %c : tensor<3xf64>"
        )
    };
    // Equals share; a NaN passes to both.
    close(&gradient(&[0.0, 1.0, nan], &with("0.0", "maximum")), &[0.5, 1.0, 1.0], 0.0, "max");
    close(&gradient(&[0.0, 1.0, -2.0], &with("0.0", "minimum")), &[0.5, 0.0, 1.0], 0.0, "min");
    let zero = |op: &str| format!("%y = stablehlo.{op} %x : tensor<1xf64>");
    close(&gradient(&[0.0], &zero("abs")), &[0.0], 0.0, "abs");
    close(&gradient(&[0.0], &zero("sqrt")), &[f64::INFINITY], 0.0, "sqrt");
    // The power of zero, and an exponent of zero.
    close(&gradient(&[0.0, 2.0, 1.0], &with("2.0", "power")), &[0.0, 4.0, 2.0], 0.0, "square");
    close(&gradient(&[0.0, 2.0, 1.0], &with("0.0", "power")), &[0.0; 3], 0.0, "constant");
    // Bounds pass.
    let clamp = "%a = stablehlo.constant dense<-1.0> : tensor<f64>
        %b = stablehlo.constant dense<1.0> : tensor<f64>
        %y = stablehlo.clamp %a, %x, %b : (tensor<f64>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>";
    close(&gradient(&[-1.0, 1.0, 1.5], clamp), &[1.0, 1.0, 0.0], 0.0, "clamp");
    // What was not chosen leaks nothing, not even a NaN.
    let select = "%c = stablehlo.constant dense<0.0> : tensor<2xf64>
        %p = stablehlo.compare GT, %x, %c : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
        %l = stablehlo.log %x : tensor<2xf64>
        %y = stablehlo.select %p, %l, %c : tensor<2xi1>, tensor<2xf64>";
    close(&gradient(&[-1.0, 2.0], select), &[-0.0, 0.5], 0.0, "select");
}

#[test]
fn equals_share_a_reduced_maximum() {
    let text = "func.func @main(%x: tensor<4xf64>) -> tensor<f64> {
        %i = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
        %y = stablehlo.reduce(%x init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<f64>
        return %y : tensor<f64>
    }";
    let found = gradients(&program(text), &[0], &[tensor(&[4], &[2.0, 1.0, 2.0, 0.0])]);
    close(&found[0], &[0.5, 0.0, 0.5, 0.0], 0.0, "amax");
}
