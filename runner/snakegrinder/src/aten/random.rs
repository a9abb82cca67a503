//! Random numbers, drawn from a counter so that both passes draw the same: see `random` in the
//! crate that reads models. The program takes seed and step as its last argument; each call adds
//! its own ordinal.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use crate::cx::{Cx, Out, Res, attr_f, attrs, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, V};

/// Operators that draw; a model with none of them needs no random argument.
pub const DRAWS: &[&str] = &[
    "aten::bernoulli",
    "aten::bernoulli_",
    "aten::dropout",
    "aten::dropout_",
    "aten::feature_dropout",
    "aten::feature_dropout_",
    "aten::native_dropout",
    "aten::normal_",
    "aten::rand",
    "aten::rand_like",
    "aten::randint",
    "aten::randn",
    "aten::randn_like",
    "aten::scaled_dot_product_attention",
    "aten::uniform",
    "aten::uniform_",
    "aten::alpha_dropout",
    "aten::alpha_dropout_",
    "aten::feature_alpha_dropout",
    "aten::feature_alpha_dropout_",
];

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::bernoulli", |cx| {
        let x = cx.tensor("self")?;
        let dims = cx.e.dims(x);
        let u = uniform(cx, &dims)?;
        let dtype = cx.e.dtype(x);
        let p =
            if cx.given("p") { cx.e.like(u, cx.float("p")?) } else { cx.e.convert(x, DType::F32) };
        let hit = cx.e.compare(Direction::Lt, u, p);
        Ok(cx.e.convert(hit, dtype).into())
    }),
    ("aten::dropout", |cx| dropout(cx, Noise::ELEMENTS)),
    ("aten::feature_dropout", |cx| dropout(cx, Noise::FEATURES)),
    ("aten::alpha_dropout", |cx| dropout(cx, Noise { alpha: true, ..Noise::ELEMENTS })),
    ("aten::feature_alpha_dropout", |cx| dropout(cx, Noise { alpha: true, ..Noise::FEATURES })),
    ("aten::native_dropout", native_dropout),
    ("aten::normal_", |cx| {
        let target = cx.slot("self")?;
        let old = cx.read(target);
        let dims = cx.e.dims(old);
        let x = normal(cx, &dims)?;
        let x = cx.e.scale(x, cx.float("std")?);
        let x = cx.e.shift(x, cx.float("mean")?);
        cx.write(target, x)?;
        Ok(Out::Slot(target))
    }),
    ("aten::rand", |cx| {
        let dims = cx.ints("size")?;
        let dtype = cx.dtype("dtype")?.unwrap_or(cx.default);
        let u = uniform(cx, &dims)?;
        Ok(cx.e.convert(u, dtype).into())
    }),
    ("aten::rand_like", |cx| {
        let x = cx.tensor("self")?;
        let dims = cx.e.dims(x);
        let dtype = cx.dtype("dtype")?.unwrap_or(cx.e.dtype(x));
        let u = uniform(cx, &dims)?;
        Ok(cx.e.convert(u, dtype).into())
    }),
    ("aten::randn", |cx| {
        let dims = cx.ints("size")?;
        let dtype = cx.dtype("dtype")?.unwrap_or(cx.default);
        let x = normal(cx, &dims)?;
        Ok(cx.e.convert(x, dtype).into())
    }),
    ("aten::randn_like", |cx| {
        let x = cx.tensor("self")?;
        let dims = cx.e.dims(x);
        let dtype = cx.dtype("dtype")?.unwrap_or(cx.e.dtype(x));
        let x = normal(cx, &dims)?;
        Ok(cx.e.convert(x, dtype).into())
    }),
    ("aten::uniform_", |cx| {
        let target = cx.slot("self")?;
        let old = cx.read(target);
        let dims = cx.e.dims(old);
        let u = uniform(cx, &dims)?;
        let (from, to) = (cx.float("from")?, cx.float("to")?);
        let u = cx.e.scale(u, to - from);
        let u = cx.e.shift(u, from);
        cx.write(target, u)?;
        Ok(Out::Slot(target))
    }),
];

/// The generator's state of this call: key, then the counter's lower and upper half.
fn state(cx: &mut Cx<'_>) -> Res<V> {
    let Some(random) = cx.random else {
        return refuse("draws in a loop, where every turn would draw the same");
    };
    let seed = cx.e.slice_axis(random, 0, 0, 1, 1);
    let step = cx.e.slice_axis(random, 0, 1, 2, 1);
    let bits = cx.e.full(&[1], DType::U64, Num::I(32));
    let high = cx.e.same(ops::ShiftLeft {}, &[step, bits]);
    let ordinal = cx.e.full(&[1], DType::U64, Num::I(i64::from(cx.node.ordinal)));
    let high = cx.e.same(ops::Or {}, &[high, ordinal]);
    let low = cx.e.full(&[1], DType::U64, Num::I(0));
    Ok(cx.e.concat(&[seed, low, high], 0))
}

/// Thirty-two random bits for each element, from a state.
fn bits_from(e: &mut Emitter, state: V, dims: &[i64]) -> V {
    let bits = TensorTy::new(dims.iter().copied(), DType::U32);
    let op = ops::RngBitGenerator { rng_algorithm: ops::Algorithm::Philox };
    let next = e.ty(state).clone();
    e.push_many(op, &[state], &[next, bits], &[])[1]
}

pub fn bits(cx: &mut Cx<'_>, dims: &[i64]) -> Res<V> {
    let state = state(cx)?;
    Ok(bits_from(&mut cx.e, state, dims))
}

/// Numbers from 0 to below 1, multiples of 2^-24, from a state.
fn uniform_from(e: &mut Emitter, state: V, dims: &[i64]) -> V {
    let bits = bits_from(e, state, dims);
    let eight = e.full(dims, DType::U32, Num::I(8));
    let top = e.same(ops::ShiftRightLogical {}, &[bits, eight]);
    let top = e.convert(top, DType::F32);
    e.scale(top, 1.0 / 16_777_216.0)
}

pub fn uniform(cx: &mut Cx<'_>, dims: &[i64]) -> Res<V> {
    let state = state(cx)?;
    Ok(uniform_from(&mut cx.e, state, dims))
}

/// Box and Muller's method: elements 2k and 2k + 1 come from the same two uniform numbers.
pub fn normal(cx: &mut Cx<'_>, dims: &[i64]) -> Res<V> {
    let state = state(cx)?;
    let e = &mut cx.e;
    let count: i64 = dims.iter().product();
    let pairs = (count + 1) / 2;
    let u = uniform_from(e, state, &[2 * pairs]);
    let u = e.convert(u, DType::F64);
    let u = e.reshape(u, &[pairs, 2]);
    let (a, b) = (e.slice_axis(u, 1, 0, 1, 1), e.slice_axis(u, 1, 1, 2, 1));
    let a = e.shift(a, 1.0 / 16_777_216.0);
    let log = e.same(ops::Log::default(), &[a]);
    let log = e.scale(log, -2.0);
    let radius = e.same(ops::Sqrt::default(), &[log]);
    let angle = e.scale(b, std::f64::consts::TAU);
    let (cos, sin) =
        (e.same(ops::Cosine::default(), &[angle]), e.same(ops::Sine::default(), &[angle]));
    let (x, y) = (e.mul(radius, cos), e.mul(radius, sin));
    let both = e.concat(&[x, y], 1);
    let flat = e.reshape(both, &[2 * pairs]);
    let flat = e.slice_axis(flat, 0, 0, count, 1);
    Ok(e.reshape(flat, dims))
}

/// The mask that both passes draw: 1 where an element is kept.
pub fn keep_mask(e: &mut Emitter, state: V, dims: &[i64], p: f64) -> V {
    let u = uniform_from(e, state, dims);
    e.compare_to(Direction::Ge, u, p)
}

/// Which form of dropout.
#[derive(Clone, Copy)]
struct Noise {
    /// Whole channels at once.
    features: bool,
    /// Keeping mean and variance.
    alpha: bool,
}

impl Noise {
    const ELEMENTS: Self = Self { features: false, alpha: false };
    const FEATURES: Self = Self { features: true, alpha: false };
}

fn dropout(cx: &mut Cx<'_>, noise: Noise) -> Res {
    let (p, train) = (cx.float("p")?, cx.bool("train")?);
    // The schemas of those that work in place call it so.
    let slot = cx.slot(if cx.given("input") { "input" } else { "self" })?;
    if !train || p == 0.0 {
        return Ok(Out::Slot(slot));
    }
    let x = cx.read(slot);
    let (y, _) = dropped(cx, x, p, noise)?;
    Ok(y.into())
}

fn native_dropout(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("input")?;
    let (p, train) = (cx.float("p")?, cx.bool("train").unwrap_or(true));
    if !train || p == 0.0 {
        let dims = cx.e.dims(x);
        let ones = cx.e.full(&dims, DType::I1, Num::B(true));
        return Ok(Out::many([x, ones]));
    }
    let (y, mask) = dropped(cx, x, p, Noise::ELEMENTS)?;
    Ok(Out::many([y, mask]))
}

/// The tensor with elements dropped and the rest scaled up, and the mask of what was kept.
fn dropped(cx: &mut Cx<'_>, x: V, p: f64, noise: Noise) -> Res<(V, V)> {
    let state = state(cx)?;
    let attributes = attrs([("p", attr_f(p))]);
    // Calls of the same name and attributes share a function.
    let name = match (noise.alpha, noise.features) {
        (false, false) => "aten.dropout",
        (false, true) => "aten.feature_dropout",
        (true, false) => "aten.alpha_dropout",
        (true, true) => "aten.feature_alpha_dropout",
    };
    let outs = cx.composite(name, attributes, &[x, state], |e, args| {
        let dims = e.dims(args[0]);
        let mut drawn = dims.clone();
        if noise.features {
            drawn.iter_mut().skip(2).for_each(|size| *size = 1);
        }
        let mask = keep_mask(e, args[1], &drawn, p);
        let all: Vec<usize> = (0..dims.len()).collect();
        let mask = e.broadcast_in(mask, &dims, &all);
        // As PyTorch: the mask is scaled in the tensor's own type, then multiplied.
        let zero = e.like(args[0], 0.0);
        if noise.alpha && p < 1.0 {
            let Alpha { scale, kept, dropped } = alpha(p);
            let scale = rounded(e, args[0], &[scale]);
            let factor = e.select(mask, scale, zero);
            let (kept, dropped) = (rounded(e, args[0], &[kept]), rounded(e, args[0], &dropped));
            let shift = e.select(mask, kept, dropped);
            let y = e.mul(args[0], factor);
            return Ok(vec![e.add(y, shift), mask]);
        }
        let scale = if p >= 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
        let scale = rounded(e, args[0], &[scale]);
        let factor = e.select(mask, scale, zero);
        Ok(vec![e.mul(args[0], factor), mask])
    })?;
    Ok((outs[0], outs[1]))
}

/// What alpha dropout multiplies kept elements by, and adds to the kept and to the dropped ones.
struct Alpha {
    scale: f64,
    kept: f64,
    /// A sum that PyTorch rounds after each summand.
    dropped: [f64; 2],
}

fn alpha(p: f64) -> Alpha {
    /// The scale of SELU times its alpha.
    const ALPHA: f64 = 1.758_099_340_847_376_6;
    let scale = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
    Alpha { scale, kept: ALPHA * scale * p, dropped: [-ALPHA * scale, ALPHA * scale * p] }
}

/// A sum of numbers in the type and shape of a tensor, rounded after each.
fn rounded(e: &mut Emitter, like: V, summands: &[f64]) -> V {
    let (dims, dtype) = (e.dims(like), e.dtype(like));
    let mut sum: Option<V> = None;
    for number in summands {
        let number = e.float(&dims, promote::wide(dtype), *number);
        let number = match sum {
            Some(sum) => {
                let sum = e.convert(sum, promote::wide(dtype));
                e.add(sum, number)
            }
            None => number,
        };
        sum = Some(e.convert(number, dtype));
    }
    sum.unwrap_or_else(|| e.like(like, 0.0))
}

/// Attention's dropout on its probabilities.
pub fn attention_state(cx: &mut Cx<'_>) -> Res<V> {
    state(cx)
}
