//! The interpreter against independent arithmetic: wide integers, the hardware's own floats, and
//! identities that hold whatever the values are.

use proptest::prelude::*;
use warpforge_snakeburger::eval::{Interpreter, Num, Tensor, Value};
use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakeburger::text::{Options, parse};
use warpforge_snakeburger::verify;

/// Runs `main` of a program whose body is given, on tensors `%a` and `%b` of one type.
fn run(body: &str, ty: &str, result: &str, arguments: Vec<Tensor>) -> Tensor {
    let names = ["a", "b"].map(|name| format!("%{name}: {ty}"));
    let head = names[..arguments.len()].join(", ");
    let text = format!("func.func @main({head}) -> {result} {{ {body} return %r : {result} }}");
    let module = parse(&text, Options::default()).unwrap_or_else(|d| panic!("{d}\n{text}"));
    assert_eq!(verify::problems(&module), []);
    let values = arguments.into_iter().map(Value::Tensor).collect();
    match Interpreter::new(&module).call("main", values).unwrap().pop() {
        Some(Value::Tensor(tensor)) => tensor,
        other => panic!("{other:?}"),
    }
}

fn ints(dtype: DType, values: &[i64]) -> Tensor {
    Tensor::from_ints(TensorTy::new([values.len() as i64], dtype), |i| values[i])
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_floats(TensorTy::new([values.len() as i64], DType::F32), |i| f64::from(values[i]))
}

/// The value of stored bits in a type wide enough for all of them.
fn wide(dtype: DType, bits: i64) -> i128 {
    if dtype.is_unsigned() { i128::from(bits as u64) } else { i128::from(bits) }
}

const INTEGERS: &[DType] = &[
    DType::S4,
    DType::S8,
    DType::S16,
    DType::S32,
    DType::S64,
    DType::U4,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];

type FloatOracle = (&'static str, fn(f32, f32) -> f32);
type IntOracle = fn(i128, i128) -> i128;
const INT_OPS: &[(&str, IntOracle)] = &[
    ("add", |x, y| x + y),
    ("subtract", |x, y| x - y),
    ("multiply", |x, y| x * y),
    ("and", |x, y| x & y),
    ("or", |x, y| x | y),
    ("xor", |x, y| x ^ y),
    ("maximum", i128::max),
    ("minimum", i128::min),
    ("divide", |x, y| if y == 0 { -1 } else { x / y }),
    ("remainder", |x, y| if y == 0 { x } else { x % y }),
];

proptest! {
    #[test]
    fn integers_agree_with_wide_ones_modulo_their_width(
        dtype in prop::sample::select(INTEGERS),
        op in prop::sample::select(INT_OPS),
        pairs in prop::collection::vec((any::<i64>(), any::<i64>()), 1..20),
    ) {
        let (x, y): (Vec<i64>, Vec<i64>) = pairs.into_iter().unzip();
        let (a, b) = (ints(dtype, &x), ints(dtype, &y));
        let ty = a.ty.to_string();
        let body = format!("%r = stablehlo.{} %a, %b : {ty}", op.0);
        let found = run(&body, &ty, &ty, vec![a.clone(), b.clone()]);
        for i in 0..found.count() {
            let exact = op.1(wide(dtype, a.ints()[i]), wide(dtype, b.ints()[i]));
            let modulus = 1i128 << dtype.bits();
            let got = wide(dtype, found.ints()[i]);
            prop_assert_eq!((got - exact).rem_euclid(modulus), 0, "{} {}", op.0, dtype);
        }
    }

    #[test]
    fn basic_float_operations_are_correctly_rounded(pairs in prop::collection::vec((any::<f32>(), any::<f32>()), 1..40)) {
        let (x, y): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let oracles: [FloatOracle; 4] = [
            ("add", |x, y| x + y),
            ("subtract", |x, y| x - y),
            ("multiply", |x, y| x * y),
            ("divide", |x, y| x / y),
        ];
        let ty = format!("tensor<{}xf32>", x.len());
        for (name, oracle) in oracles {
            let body = format!("%r = stablehlo.{name} %a, %b : {ty}");
            let found = run(&body, &ty, &ty, vec![floats(&x), floats(&y)]);
            for i in 0..x.len() {
                let wanted = oracle(x[i], y[i]);
                let got = found.get(i).float() as f32;
                prop_assert!(got.to_bits() == wanted.to_bits() || (got.is_nan() && wanted.is_nan()), "{name} {} {}", x[i], y[i]);
            }
        }
    }

    #[test]
    fn moving_there_and_back_changes_nothing(rows in 1i64..6, columns in 1i64..6, low in 0i64..3, high in 0i64..3) {
        let ty = TensorTy::new([rows, columns], DType::S32);
        let a = Tensor::from_ints(ty.clone(), |i| i as i64 * 7 - 3);
        let (t, n) = (ty.to_string(), rows * columns);
        let (padded, turned) = (rows + low + high, format!("tensor<{columns}x{rows}xi32>"));
        let wide = format!("tensor<{padded}x{columns}xi32>");
        let programs = [
            format!("%0 = stablehlo.transpose %a, dims = [1, 0] : ({t}) -> {turned}
                     %r = stablehlo.transpose %0, dims = [1, 0] : ({turned}) -> {t}"),
            format!("%0 = stablehlo.reshape %a : ({t}) -> tensor<{n}xi32>
                     %r = stablehlo.reshape %0 : (tensor<{n}xi32>) -> {t}"),
            format!("%0 = stablehlo.reverse %a, dims = [0, 1] : {t}
                     %r = stablehlo.reverse %0, dims = [0, 1] : {t}"),
            format!("%z = stablehlo.constant dense<9> : tensor<i32>
                     %0 = stablehlo.pad %a, %z, low = [{low}, 0], high = [{high}, 0], interior = [0, 0] : ({t}, tensor<i32>) -> {wide}
                     %r = stablehlo.slice %0 [{low}:{}, 0:{columns}] : ({wide}) -> {t}", low + rows),
        ];
        for body in programs {
            prop_assert_eq!(&run(&body, &t, &t, vec![a.clone()]), &a, "{}", body);
        }
    }

    #[test]
    fn sorting_orders_and_keeps_every_element(values in prop::collection::vec(any::<i64>(), 1..50)) {
        let a = ints(DType::S64, &values);
        let ty = a.ty.to_string();
        let body = format!("%r = \"stablehlo.sort\"(%a) ({{ ^bb0(%x: tensor<i64>, %y: tensor<i64>):
            %p = stablehlo.compare LT, %x, %y : (tensor<i64>, tensor<i64>) -> tensor<i1>
            stablehlo.return %p : tensor<i1> }}) {{dimension = 0 : i64}} : ({ty}) -> {ty}");
        let mut wanted = values.clone();
        wanted.sort_unstable();
        prop_assert_eq!(run(&body, &ty, &ty, vec![a]).ints().to_vec(), wanted);
    }

    #[test]
    fn a_sum_is_the_sum(values in prop::collection::vec(-1e6f64..1e6, 1..300)) {
        let ty = TensorTy::new([values.len() as i64], DType::F64);
        let a = Tensor::from_floats(ty, |i| values[i].round());
        let t = a.ty.to_string();
        let body = format!("%z = stablehlo.constant dense<0.0> : tensor<f64>
            %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : ({t}, tensor<f64>) -> tensor<f64>");
        let wanted: f64 = values.iter().map(|x| x.round()).sum();
        prop_assert_eq!(run(&body, &t, "tensor<f64>", vec![a]).get(0), Num::F(wanted));
    }
}
