//! The update of parameters by their gradients, as a program: the arithmetic of `torch.optim`,
//! operation by operation and in its order, so that each intermediate is rounded where PyTorch
//! rounds it. What Python computes in double precision (learning rate, bias corrections) is
//! float64 here too and takes a tensor's type only where it meets one. Formats narrower than
//! float32 are computed in float32 and rounded at the end of what is one kernel in PyTorch.

use std::f64::consts::PI;

use warpforge_snakeburger::build::{Emitter, Fold, V};
use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction};
use warpforge_training::{Adam, LossScale, Optimizer, Recipe, Schedule, Sgd};

/// The names of what the optimiser keeps for each parameter.
pub fn slots(recipe: &Recipe) -> &'static [&'static str] {
    match recipe.optimizer {
        Optimizer::Adam(_) | Optimizer::AdamW(_) => &["exp_avg", "exp_avg_sq"],
        Optimizer::Sgd(sgd) if sgd.momentum != 0.0 => &["momentum_buffer"],
        Optimizer::Sgd(_) => &[],
    }
}

/// The learning rate at a step, both without axes.
pub(crate) fn learning_rate(e: &mut Emitter, recipe: &Recipe, step: V) -> V {
    let step = e.convert(step, DType::F64);
    let warmup = match recipe.schedule {
        Schedule::Constant => 0,
        Schedule::Warmup { warmup }
        | Schedule::Linear { warmup, .. }
        | Schedule::Cosine { warmup, .. }
        | Schedule::Step { warmup, .. } => warmup,
    };
    let warmup = f64::from(warmup);
    let past = match recipe.schedule {
        Schedule::Constant | Schedule::Warmup { .. } => e.like(step, 1.0),
        Schedule::Linear { total, .. } => {
            let total = f64::from(total);
            let end = e.like(step, total);
            let left = e.sub(end, step);
            let length = e.like(left, total - warmup);
            let factor = e.div(left, length);
            let zero = e.like(factor, 0.0);
            e.max(zero, factor)
        }
        Schedule::Cosine { total, .. } => {
            let total = f64::from(total);
            let done = e.shift(step, -warmup);
            let length = e.like(done, total - warmup);
            let part = e.div(done, length);
            let angle = e.scale(part, PI);
            let wave = e.same(ops::Cosine { result_accuracy: None }, &[angle]);
            let lifted = e.shift(wave, 1.0);
            let factor = e.scale(lifted, 0.5);
            let zero = e.like(factor, 0.0);
            let ended = e.compare_to(Direction::Ge, step, total);
            e.select(ended, zero, factor)
        }
        Schedule::Step { every, gamma, .. } => {
            let done = e.shift(step, -warmup);
            let period = e.like(done, f64::from(every));
            let periods = e.div(done, period);
            let whole = e.same(ops::Floor {}, &[periods]);
            let gamma = e.like(whole, gamma);
            e.same(ops::Power {}, &[gamma, whole])
        }
    };
    let factor = if warmup > 0.0 {
        let length = e.like(step, warmup);
        let rising = e.div(step, length);
        let warming = e.compare_to(Direction::Lt, step, warmup);
        e.select(warming, rising, past)
    } else {
        past
    };
    e.scale(factor, recipe.learning_rate)
}

/// What an update needs besides tensors: numbers without axes, in float64.
pub(crate) struct Numbers {
    pub rate: V,
    /// The number of this update, counted from 1.
    count: V,
    adam: Option<Corrections>,
}

struct Corrections {
    /// The learning rate by the first bias correction, negated.
    step_size: V,
    /// The square root of the second.
    root: V,
}

impl Numbers {
    pub fn new(e: &mut Emitter, recipe: &Recipe, step: V, updates: V) -> Self {
        let rate = learning_rate(e, recipe, step);
        let updates = e.convert(updates, DType::F64);
        let count = e.shift(updates, 1.0);
        let adam = match recipe.optimizer {
            Optimizer::Adam(adam) | Optimizer::AdamW(adam) => {
                let mut correction = |beta: f64| {
                    let beta = e.like(count, beta);
                    let power = e.same(ops::Power {}, &[beta, count]);
                    let one = e.like(power, 1.0);
                    e.sub(one, power)
                };
                let (first, second) = (correction(adam.betas[0]), correction(adam.betas[1]));
                let size = e.div(rate, first);
                let step_size = e.neg(size);
                let root = e.same(ops::Sqrt { result_accuracy: None }, &[second]);
                Some(Corrections { step_size, root })
            }
            Optimizer::Sgd(_) => None,
        };
        Self { rate, count, adam }
    }
}

/// One kernel of PyTorch: narrow operands are widened, and the result takes the first one's type.
fn kernel<const N: usize>(
    e: &mut Emitter,
    operands: [V; N],
    compute: impl FnOnce(&mut Emitter, [V; N]) -> V,
) -> V {
    let dtype = e.dtype(operands[0]);
    let wide = operands.map(|operand| e.convert(operand, widened(dtype)));
    let made = compute(e, wide);
    e.convert(made, dtype)
}

/// The type that a kernel computes in.
fn widened(dtype: DType) -> DType {
    if matches!(dtype, DType::BF16 | DType::F16) { DType::F32 } else { dtype }
}

/// A number without axes as a tensor like another.
fn spread(e: &mut Emitter, number: V, like: V) -> V {
    let (dims, dtype) = (e.dims(like), e.dtype(like));
    let number = e.convert(number, dtype);
    e.broadcast_in(number, &dims, &[])
}

/// `a + alpha * b`, the product rounded first. Of all kernels' numbers, only this one's `alpha` is
/// rounded to the tensors' own type.
fn add_scaled(e: &mut Emitter, a: V, b: V, alpha: f64) -> V {
    let alpha = Num::F(alpha).fit(e.dtype(a)).float();
    kernel(e, [a, b], |e, [a, b]| {
        if alpha == 1.0 {
            return e.add(a, b);
        }
        let scaled = e.scale(b, alpha);
        e.add(a, scaled)
    })
}

/// The parameter and its slots after an update.
pub(crate) struct Updated {
    pub parameter: V,
    pub slots: Vec<V>,
}

/// Updates one parameter; `slots` are as [`slots`] names them.
pub(crate) fn update(
    e: &mut Emitter,
    recipe: &Recipe,
    numbers: &Numbers,
    decays: bool,
    parameter: V,
    gradient: V,
    slots: &[V],
) -> Updated {
    match (recipe.optimizer, &numbers.adam, slots) {
        (Optimizer::AdamW(adam), Some(corrections), [mean, square]) => {
            let decay = if decays { adam.weight_decay } else { 0.0 };
            let parameter = if decay == 0.0 {
                parameter
            } else {
                let part = e.scale(numbers.rate, decay);
                let one = e.like(part, 1.0);
                let kept = e.sub(one, part);
                kernel(e, [parameter], |e, [parameter]| {
                    let kept = spread(e, kept, parameter);
                    e.mul(parameter, kept)
                })
            };
            adam_step(e, adam, corrections, parameter, gradient, [*mean, *square])
        }
        (Optimizer::Adam(adam), Some(corrections), [mean, square]) => {
            let gradient = decayed(e, gradient, parameter, adam.weight_decay, decays);
            adam_step(e, adam, corrections, parameter, gradient, [*mean, *square])
        }
        (Optimizer::Sgd(sgd), _, _) => {
            let gradient = decayed(e, gradient, parameter, sgd.weight_decay, decays);
            sgd_step(e, sgd, numbers, parameter, gradient, slots.first().copied())
        }
        // Slots come from `slots` and numbers from `new`, of the same recipe.
        _ => Updated { parameter, slots: slots.to_vec() },
    }
}

/// The gradient with weight decay added.
fn decayed(e: &mut Emitter, gradient: V, parameter: V, decay: f64, decays: bool) -> V {
    if decays && decay != 0.0 { add_scaled(e, gradient, parameter, decay) } else { gradient }
}

fn adam_step(
    e: &mut Emitter,
    adam: Adam,
    corrections: &Corrections,
    parameter: V,
    gradient: V,
    [mean, square]: [V; 2],
) -> Updated {
    let mean = kernel(e, [mean, gradient], |e, [mean, gradient]| {
        lerp(e, mean, gradient, 1.0 - adam.betas[0])
    });
    let kept = kernel(e, [square], |e, [square]| e.scale(square, adam.betas[1]));
    let square = kernel(e, [kept, gradient], |e, [kept, gradient]| {
        let part = e.scale(gradient, 1.0 - adam.betas[1]);
        let part = e.mul(part, gradient);
        e.add(kept, part)
    });
    let root = kernel(e, [square], |e, [x]| e.same(ops::Sqrt { result_accuracy: None }, &[x]));
    let corrected = kernel(e, [root], |e, [root]| {
        let correction = spread(e, corrections.root, root);
        e.div(root, correction)
    });
    let below = kernel(e, [corrected], |e, [corrected]| e.shift(corrected, adam.eps));
    let parameter = kernel(e, [parameter, mean, below], |e, [parameter, mean, below]| {
        let size = spread(e, corrections.step_size, mean);
        let scaled = e.mul(size, mean);
        let change = e.div(scaled, below);
        e.add(parameter, change)
    });
    Updated { parameter, slots: vec![mean, square] }
}

/// From `a` towards `b`; like PyTorch's, from the nearer end.
fn lerp(e: &mut Emitter, a: V, b: V, weight: f64) -> V {
    let way = e.sub(b, a);
    if weight < 0.5 {
        let part = e.scale(way, weight);
        e.add(a, part)
    } else {
        let part = e.scale(way, 1.0 - weight);
        e.sub(b, part)
    }
}

fn sgd_step(
    e: &mut Emitter,
    sgd: Sgd,
    numbers: &Numbers,
    parameter: V,
    gradient: V,
    buffer: Option<V>,
) -> Updated {
    let (direction, slots) = match buffer {
        None => (gradient, vec![]),
        Some(buffer) => {
            let kept = kernel(e, [buffer], |e, [buffer]| e.scale(buffer, sgd.momentum));
            let moved = add_scaled(e, kept, gradient, 1.0 - sgd.dampening);
            // The buffer begins as the first gradient, whatever the dampening.
            let first = e.compare_to(Direction::Eq, numbers.count, 1.0);
            let dims = e.dims(gradient);
            let first = e.broadcast_in(first, &dims, &[]);
            let buffer = e.select(first, gradient, moved);
            let direction =
                if sgd.nesterov { add_scaled(e, gradient, buffer, sgd.momentum) } else { buffer };
            (direction, vec![buffer])
        }
    };
    let rate = e.neg(numbers.rate);
    // As in `add_scaled`.
    let own = e.dtype(parameter);
    let rate = e.convert(rate, own);
    let parameter = kernel(e, [parameter, direction], |e, [parameter, direction]| {
        let rate = spread(e, rate, direction);
        let change = e.mul(rate, direction);
        e.add(parameter, change)
    });
    Updated { parameter, slots }
}

/// Scales gradients down so that their common norm is at most `limit`, as
/// `clip_grad_norm_` does; also the norm before.
pub(crate) fn clip(e: &mut Emitter, gradients: &[V], limit: f64) -> (Vec<V>, V) {
    let types: Vec<DType> = gradients.iter().map(|gradient| e.dtype(*gradient)).collect();
    let dtype = types.iter().copied().reduce(promoted).unwrap_or(DType::F32);
    let mut norms = Vec::with_capacity(gradients.len());
    for (gradient, own) in gradients.iter().zip(&types) {
        let axes: Vec<usize> = (0..e.rank(*gradient)).collect();
        // Each tensor's norm is rounded before they are put together.
        let norm = norm(e, *gradient, &axes, *own);
        let norm = e.convert(norm, dtype);
        norms.push(e.reshape(norm, &[1]));
    }
    let all = e.concat(&norms, 0);
    let norm = norm(e, all, &[0], dtype);
    let below = kernel(e, [norm], |e, [norm]| e.shift(norm, 1e-6));
    // Python divides a number by a tensor so.
    let inverse = kernel(e, [below], |e, [below]| {
        let one = e.like(below, 1.0);
        e.div(one, below)
    });
    let factor = kernel(e, [inverse], |e, [inverse]| e.scale(inverse, limit));
    let one = e.like(factor, 1.0);
    let factor = e.min(factor, one);
    let clipped = gradients
        .iter()
        .map(|gradient| {
            kernel(e, [*gradient], |e, [gradient]| {
                let factor = spread(e, factor, gradient);
                e.mul(gradient, factor)
            })
        })
        .collect();
    (clipped, norm)
}

/// The Euclidean norm over all axes, in a type.
fn norm(e: &mut Emitter, value: V, axes: &[usize], dtype: DType) -> V {
    let wide = e.convert(value, widened(dtype));
    let square = e.mul(wide, wide);
    let sum = e.reduce(square, Fold::Add, axes);
    let norm = e.same(ops::Sqrt { result_accuracy: None }, &[sum]);
    e.convert(norm, dtype)
}

/// The type that holds both, as PyTorch puts tensors of two types together.
fn promoted(a: DType, b: DType) -> DType {
    match (a, b) {
        _ if a == b => a,
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        _ => DType::F32,
    }
}

/// Whether any gradient has an infinity or a NaN.
pub(crate) fn overflowed(e: &mut Emitter, gradients: &[V]) -> V {
    let mut flags = Vec::with_capacity(gradients.len());
    for gradient in gradients {
        let ty = e.ty(*gradient).with_elem(DType::I1);
        let finite = e.push(ops::IsFinite {}, &[*gradient], ty);
        let axes: Vec<usize> = (0..e.rank(finite)).collect();
        let all = e.reduce(finite, Fold::And, &axes);
        flags.push(e.reshape(all, &[1]));
    }
    let all = e.concat(&flags, 0);
    let finite = e.reduce(all, Fold::And, &[0]);
    e.same(ops::Not {}, &[finite])
}

/// The scale and the count of good steps after this one.
pub(crate) fn rescale(
    e: &mut Emitter,
    scaling: LossScale,
    scale: V,
    good: V,
    overflow: V,
) -> (V, V) {
    let smaller = e.scale(scale, scaling.backoff);
    let larger = e.scale(scale, scaling.growth);
    let counted = e.shift(good, 1.0);
    let full = e.compare_to(Direction::Eq, counted, f64::from(scaling.interval));
    let zero = e.like(counted, 0.0);
    let grown = e.select(full, larger, scale);
    let count = e.select(full, zero, counted);
    let scale = e.select(overflow, smaller, grown);
    let good = e.select(overflow, zero, count);
    (scale, good)
}
