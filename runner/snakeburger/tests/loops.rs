//! Loops over f32 against the general ways: the same programs in f32 and in i64, whose operations
//! share no loop, on whole numbers small enough that both are exact.

use proptest::prelude::*;
use warpforge_snakeburger::eval::{Interpreter, Num, Tensor, Value};
use warpforge_snakeburger::ir::{TensorTy, Ty};
use warpforge_snakeburger::text::{Options, parse};
use warpforge_tests::campaign;

/// What a program gives when its elements are of a type: `ELEM` in its text stands for it.
fn run(program: &str, elem: &str, numbers: &[i64]) -> Vec<Vec<i64>> {
    let module = parse(&program.replace("ELEM", elem), Options::default()).unwrap();
    let main = module.entry().unwrap();
    let mut given = numbers.iter().cycle();
    let mut argument = |ty: &TensorTy| {
        let mut tensor = Tensor::zeros(ty.clone());
        let float = tensor.storage().is_float();
        for i in 0..tensor.count() {
            let number = *given.next().unwrap();
            tensor.set(i, if float { Num::F(number as f64) } else { Num::I(number) });
        }
        Value::Tensor(tensor)
    };
    let arguments = main.arguments.iter().map(|ty| match module.ty(*ty) {
        Ty::Tensor(ty) => argument(ty),
        other => panic!("{other}"),
    });
    let results = Interpreter::new(&module).call("main", arguments.collect()).unwrap();
    let numbers = results.into_iter().map(|result| match result {
        Value::Tensor(tensor) => (0..tensor.count()).map(|i| tensor.get(i).int()).collect(),
        other => panic!("{other:?}"),
    });
    numbers.collect()
}

fn alike(program: &str, numbers: &[i64]) {
    assert_eq!(run(program, "f32", numbers), run(program, "i64", numbers), "{program}");
}

/// Numbers whose sums and products below stay whole in f32.
fn numbers() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(-20i64..20, 37..61)
}

/// A tensor's type: `2x3xELEM`, or of another element.
fn ty(dims: &[usize], elem: &str) -> String {
    let parts: Vec<String> = dims.iter().map(usize::to_string).chain([elem.to_owned()]).collect();
    format!("tensor<{}>", parts.join("x"))
}

fn config() -> ProptestConfig {
    ProptestConfig::with_cases(campaign::rounds(40, 2_000) as u32)
}

proptest! {
    #![proptest_config(config())]

    /// An operand that is used again keeps its value; sizes reach beyond one task.
    #[test]
    fn arithmetic(numbers in numbers(), rows in 1usize..40, columns in 1usize..900) {
        let t = ty(&[rows, columns], "ELEM");
        let b = ty(&[rows, columns], "i1");
        let program = format!(
            "func.func @main(%x: {t}, %y: {t}) -> ({t}, {t}, {t}) {{
                %0 = stablehlo.add %x, %y : {t}
                %1 = stablehlo.multiply %0, %y : {t}
                %2 = stablehlo.subtract %1, %0 : {t}
                %3 = stablehlo.maximum %2, %x : {t}
                %4 = stablehlo.minimum %3, %0 : {t}
                %5 = stablehlo.negate %4 : {t}
                %6 = stablehlo.abs %2 : {t}
                %7 = stablehlo.compare LT, %x, %y : ({t}, {t}) -> {b}
                %8 = stablehlo.select %7, %5, %6 : {b}, {t}
                %9 = stablehlo.multiply %8, %8 : {t}
                return %9, %8, %6 : {t}, {t}, {t}
            }}"
        );
        alike(&program, &numbers);
    }

    /// Every choice of dimensions, whether results lie side by side or not.
    #[test]
    fn reductions(numbers in numbers(), dims in prop::array::uniform3(1usize..80), chosen in 1u8..8) {
        let reduced: Vec<usize> = (0..3).filter(|d| chosen & (1 << d) != 0).collect();
        let kept: Vec<usize> = (0..3).filter(|d| !reduced.contains(d)).map(|d| dims[d]).collect();
        let (t, k, s) = (ty(&dims, "ELEM"), ty(&kept, "ELEM"), ty(&[], "ELEM"));
        let program = format!(
            "func.func @main(%x: {t}, %init: {s}) -> ({k}, {k}) {{
                %0 = stablehlo.reduce(%x init: %init) applies stablehlo.add across dimensions = {reduced:?} : ({t}, {s}) -> {k}
                %1 = stablehlo.reduce(%x init: %init) applies stablehlo.maximum across dimensions = {reduced:?} : ({t}, {s}) -> {k}
                return %0, %1 : {k}, {k}
            }}"
        );
        alike(&program, &numbers);
    }

    /// Rows that go to rows, some of them to the same one and some beyond the end.
    #[test]
    fn scatters(numbers in numbers(), rows in 1usize..6, updates in 1usize..9, width in 1usize..40) {
        let (t, u, s) = (ty(&[rows, width], "ELEM"), ty(&[updates, width], "ELEM"), ty(&[], "ELEM"));
        let places: Vec<String> =
            (0..updates).map(|i| (numbers[i].unsigned_abs() as usize % (rows + 1)).to_string()).collect();
        let places = format!("dense<[{}]> : tensor<{updates}xi32>", places.join(", "));
        let program = format!(
            "func.func @main(%x: {t}, %u: {u}) -> {t} {{
                %places = stablehlo.constant {places}
                %0 = \"stablehlo.scatter\"(%x, %places, %u) <{{
                    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
                }}> ({{
                ^bb0(%a: {s}, %b: {s}):
                    %1 = stablehlo.add %a, %b : {s}
                    stablehlo.return %1 : {s}
                }}) : ({t}, tensor<{updates}xi32>, {u}) -> {t}
                return %0 : {t}
            }}"
        );
        alike(&program, &numbers);
    }

    /// Matrices as they lie, each side by rows or by columns.
    #[test]
    fn products(numbers in numbers(), m in 1usize..40, k in 1usize..40, n in 1usize..40, l in 0usize..2, r in 0usize..2) {
        let left = if l == 0 { [k, m] } else { [m, k] };
        let right = if r == 0 { [k, n] } else { [n, k] };
        let (a, b, c) = (ty(&left, "ELEM"), ty(&right, "ELEM"), ty(&[m, n], "ELEM"));
        let program = format!(
            "func.func @main(%a: {a}, %b: {b}) -> {c} {{
                %0 = stablehlo.dot_general %a, %b, contracting_dims = [{l}] x [{r}] : ({a}, {b}) -> {c}
                return %0 : {c}
            }}"
        );
        alike(&program, &numbers);
    }
}

type Two = fn(f64, f64) -> f64;

/// What rounding, signs and what is no number come to: an f32 loop gives what f64 gives, rounded
/// once.
#[test]
fn every_kind_of_number_is_rounded_once() {
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        3.4e38,
        -3.4e38,
        1e-45,
        -1e-40,
        1.17e-38,
        0.1,
        1e20,
        7.0,
        1.000_000_1,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    let pairs: Vec<(f32, f32)> =
        edges.iter().flat_map(|x| edges.iter().map(move |y| (*x, *y))).collect();
    let functions: [(&str, Two); 6] = [
        ("add %x, %y", |x, y| x + y),
        ("subtract %x, %y", |x, y| x - y),
        ("multiply %x, %y", |x, y| x * y),
        ("divide %x, %y", |x, y| x / y),
        ("sqrt %x", |x, _| x.sqrt()),
        ("rsqrt %x", |x, _| 1.0 / x.sqrt()),
    ];
    let t = format!("tensor<{}xf32>", pairs.len());
    for (name, function) in functions {
        let text = format!(
            "func.func @main(%x: {t}, %y: {t}) -> {t} {{
                %0 = stablehlo.{name} : {t}
                return %0 : {t}
            }}"
        );
        let module = parse(&text, Options::default()).unwrap();
        let Ty::Tensor(ty) = module.ty(module.entry().unwrap().arguments[0]) else { panic!() };
        let side = |of: fn(&(f32, f32)) -> f32| -> Value {
            Tensor::from_floats(ty.clone(), |i| f64::from(of(&pairs[i]))).into()
        };
        let given = vec![side(|pair| pair.0), side(|pair| pair.1)];
        let results = Interpreter::new(&module).call("main", given).unwrap();
        let [Value::Tensor(result)] = &results[..] else { panic!("{results:?}") };
        let found: &[f32] = result.data.as_slice();
        for ((x, y), found) in pairs.iter().zip(found) {
            let wanted = function(f64::from(*x), f64::from(*y)) as f32;
            let same = found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan());
            assert!(same, "{name} of {x:e} and {y:e}: {found:e}, not {wanted:e}");
        }
    }
}
