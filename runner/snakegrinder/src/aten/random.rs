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
    "aten::feature_alpha_dropout",
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
    ("aten::dropout", |cx| dropout(cx, "input", false)),
    ("aten::dropout_", |cx| {
        let target = cx.slot("self")?;
        let Out::New(value) = dropout(cx, "self", false)? else { return Ok(Out::Slot(target)) };
        cx.write(target, value)?;
        Ok(Out::Slot(target))
    }),
    ("aten::feature_dropout", |cx| dropout(cx, "input", true)),
    ("aten::alpha_dropout", inference_only),
    ("aten::feature_alpha_dropout", inference_only),
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

/// Drops whole channels if `features`.
fn dropout(cx: &mut Cx<'_>, name: &str, features: bool) -> Res {
    let (p, train) = (cx.float("p")?, cx.bool("train")?);
    let slot = cx.slot(name)?;
    if !train || p == 0.0 {
        return Ok(Out::Slot(slot));
    }
    let x = cx.read(slot);
    let (y, _) = dropped(cx, x, p, features)?;
    Ok(y.into())
}

/// Alpha dropout's masks are not shared between the passes.
fn inference_only(cx: &mut Cx<'_>) -> Res {
    if cx.bool("train")? && cx.float("p")? > 0.0 {
        return refuse("draws masks in training that the two passes do not share");
    }
    Ok(Out::Slot(cx.slot("input")?))
}

fn native_dropout(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("input")?;
    let (p, train) = (cx.float("p")?, cx.bool("train").unwrap_or(true));
    if !train || p == 0.0 {
        let dims = cx.e.dims(x);
        let ones = cx.e.full(&dims, DType::I1, Num::B(true));
        return Ok(Out::many([x, ones]));
    }
    let (y, mask) = dropped(cx, x, p, false)?;
    Ok(Out::many([y, mask]))
}

/// The tensor with elements dropped and the rest scaled up, and the mask of what was kept.
fn dropped(cx: &mut Cx<'_>, x: V, p: f64, features: bool) -> Res<(V, V)> {
    let state = state(cx)?;
    let attributes = attrs([("p", attr_f(p))]);
    let outs = cx.composite("aten.dropout", attributes, &[x, state], |e, args| {
        let dims = e.dims(args[0]);
        let mut drawn = dims.clone();
        if features {
            drawn.iter_mut().skip(2).for_each(|size| *size = 1);
        }
        let mask = keep_mask(e, args[1], &drawn, p);
        let all: Vec<usize> = (0..dims.len()).collect();
        let mask = e.broadcast_in(mask, &dims, &all);
        let dtype = e.dtype(args[0]);
        // As PyTorch: the mask is scaled in the tensor's own type, then multiplied.
        let zero = e.like(args[0], 0.0);
        let scale = if p >= 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
        let scale = e.float(&dims, promote::wide(dtype), scale);
        let scale = e.convert(scale, dtype);
        let factor = e.select(mask, scale, zero);
        Ok(vec![e.mul(args[0], factor), mask])
    })?;
    Ok((outs[0], outs[1]))
}

/// Attention's dropout on its probabilities.
pub fn attention_state(cx: &mut Cx<'_>) -> Res<V> {
    state(cx)
}
