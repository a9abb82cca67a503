//! Gradients of generated programs against central differences, in float64.

mod support;

use proptest::prelude::*;
use support::{close, differences, gradients, tensor};
use warpforge_snakeburger::build::{Emitter, Fold, V};
use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{DType, Dict, Module, TensorTy};
use warpforge_snakeburger::ops::{self, Direction};
use warpforge_snakeburger::verify::verify;

const N: i64 = 3;

/// One operation of a generated program, on values chosen among those before it. All are 3 x 3.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: u8,
    a: u8,
    b: u8,
    detail: u8,
}

fn step() -> impl Strategy<Value = Step> {
    (0u8..18, any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(kind, a, b, detail)| Step {
        kind,
        a,
        b,
        detail,
    })
}

/// Small again, so that nothing grows without end.
fn small(e: &mut Emitter, x: V) -> V {
    e.same(ops::Tanh::default(), &[x])
}

fn apply(e: &mut Emitter, step: Step, values: &[V]) -> V {
    let pick = |k: u8| values[k as usize % values.len()];
    let (a, b) = (pick(step.a), pick(step.b));
    let axis = usize::from(step.detail % 2);
    let every = [0, 1];
    match step.kind {
        0 => e.add(a, b),
        1 => e.sub(a, b),
        2 => {
            let product = e.mul(a, b);
            small(e, product)
        }
        3 => e.max(a, b),
        4 => e.same(ops::Sine::default(), &[a]),
        5 => e.same(ops::Logistic::default(), &[a]),
        6 => {
            let bound = small(e, a);
            e.same(ops::Exponential::default(), &[bound])
        }
        7 => {
            let square = e.mul(b, b);
            let divisor = e.shift(square, 1.0);
            e.div(a, divisor)
        }
        8 => {
            let sum = e.reduce_keep(a, Fold::Add, &[axis]);
            let sum = small(e, sum);
            e.broadcast_in(sum, &[N, N], &every)
        }
        9 => {
            let top = e.reduce(a, Fold::Max, &[axis]);
            e.broadcast_in(top, &[N, N], &[usize::from(step.b % 2)])
        }
        10 => {
            let product = e.dot(a, b, &[], &[], &[axis], &[usize::from(step.a % 2)]);
            small(e, product)
        }
        11 => e.transpose(a, &[1, 0]),
        12 => {
            let rows = e.ints(&[i64::from(step.detail % 3), 1, 1], &[N], DType::S64);
            e.take(a, axis, rows)
        }
        13 => {
            let truth = e.compare(Direction::Gt, a, b);
            let other = e.same(ops::Cosine::default(), &[b]);
            e.select(truth, a, other)
        }
        14 => {
            let part = e.slice(a, &[0, 1], &[N, N], &[1, 1]);
            e.pad(part, &[0, 0], &[0, 1], &[0, 0], Num::F(0.5))
        }
        15 => {
            let both = e.concat(&[a, b], axis);
            let mut limits = vec![N, N];
            let mut starts = vec![0, 0];
            (starts[axis], limits[axis]) = (1, 4);
            e.slice(both, &starts, &limits, &[1, 1])
        }
        16 => {
            let places = e.ints(&[2, 0, 2], &[N], DType::S64);
            let rows = e.scatter_at(a, &[0], &[places], 0, b, Some(Fold::Add));
            small(e, rows)
        }
        _ => {
            let product = e.reduce(a, Fold::Mul, &[axis]);
            e.broadcast_in(product, &[N, N], &[1])
        }
    }
}

fn program(steps: &[Step]) -> Module {
    let ty = TensorTy::new([N, N], DType::F64);
    let mut e = Emitter::new(&[ty.clone(), ty]);
    let mut values = e.arguments();
    for step in steps {
        let value = apply(&mut e, *step, &values);
        values.push(value);
    }
    let weights: Vec<f64> = (0..9).map(|k| (f64::from(k) * 0.7 + 0.3).cos()).collect();
    let weights = e.floats(&weights, &[N, N], DType::F64);
    let last = values[values.len() - 1];
    let product = e.mul(last, weights);
    let loss = e.reduce(product, Fold::Add, &[0, 1]);
    let module = e.finish(&[loss], vec![Dict::new(); 2], vec![Dict::new()]);
    verify(module).unwrap().into_module()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gradients_are_what_differences_say(
        steps in prop::collection::vec(step(), 1..12),
        numbers in prop::collection::vec(-1.5f64..1.5, 18),
    ) {
        let module = program(&steps);
        let arguments = [tensor(&[N, N], &numbers[..9]), tensor(&[N, N], &numbers[9..])];
        let found = gradients(&module, &[0, 1], &arguments);
        let wanted = differences(&module, &[0, 1], &arguments);
        for (found, wanted) in found.iter().zip(&wanted) {
            close(found, wanted, 2e-5, &format!("{steps:?}"));
        }
    }
}
