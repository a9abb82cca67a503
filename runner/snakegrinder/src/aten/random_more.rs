//! Random integers, orders and distributions, drawn like the others so that both passes agree.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use super::random::{bits, normal, uniform};
use crate::cx::{Cx, Out, Res, refuse};
use warpforge_snakeburger::build::{Fold, V};

/// Operators here that draw.
pub const DRAWS: &[&str] = &[
    "aten::bernoulli_",
    "aten::exponential_",
    "aten::multinomial",
    "aten::normal",
    "aten::randint",
    "aten::randint_like",
    "aten::random_",
    "aten::randperm",
    "aten::rrelu",
    "aten::rrelu_",
];

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::bernoulli_", |cx| {
        let target = cx.slot("self")?;
        let old = cx.read(target);
        let dims = cx.e.dims(old);
        let u = uniform(cx, &dims)?;
        let p = match cx.operand("p")? {
            crate::cx::Operand::Tensor(p) => {
                let p = cx.e.convert(p, DType::F32);
                cx.e.broadcast_to(p, &dims)
            }
            crate::cx::Operand::Number(p) => cx.e.like(u, p.float()),
        };
        let hit = cx.e.compare(Direction::Lt, u, p);
        write(cx, hit)
    }),
    ("aten::exponential_", |cx| {
        let target = cx.slot("self")?;
        let old = cx.read(target);
        let dims = cx.e.dims(old);
        let rate = cx.float("lambd")?;
        let x = exponential(cx, &dims, rate)?;
        write(cx, x)
    }),
    ("aten::multinomial", multinomial),
    ("aten::normal", normal_of),
    ("aten::randint", |cx| {
        let dims = cx.ints("size")?;
        let dtype = cx.dtype("dtype")?.unwrap_or(DType::S64);
        integers(cx, &dims, dtype)
    }),
    ("aten::randint_like", |cx| {
        let x = cx.tensor("self")?;
        let dims = cx.e.dims(x);
        let dtype = cx.dtype("dtype")?.unwrap_or(cx.e.dtype(x));
        integers(cx, &dims, dtype)
    }),
    ("aten::random_", |cx| {
        let (from, to) = if cx.given("to") {
            (if cx.given("from") { cx.int("from")? } else { 0 }, cx.maybe_int("to")?)
        } else {
            (0, None)
        };
        let Some(to) = to else { return refuse("draws from all that its type can hold") };
        let target = cx.slot("self")?;
        let old = cx.read(target);
        let dims = cx.e.dims(old);
        let x = between(cx, &dims, from, to)?;
        write(cx, x)
    }),
    ("aten::randperm", |cx| {
        let n = cx.int("n")?;
        let dtype = cx.dtype("dtype")?.unwrap_or(DType::S64);
        let keys = bits(cx, &[n])?;
        let e = &mut cx.e;
        let places = e.iota(&[n], DType::S64, 0);
        let (key, place) = (TensorTy::scalar(DType::U32), TensorTy::scalar(DType::S64));
        let order = e.region(&[key.clone(), key, place.clone(), place], |e, args| {
            vec![e.compare(Direction::Lt, args[0], args[1])]
        });
        let types = [e.ty(keys).clone(), e.ty(places).clone()];
        // Stable, so that equal bits leave the places in order.
        let op = ops::Sort { dimension: 0, is_stable: true };
        let outs = e.push_many(op, &[keys, places], &types, &[order]);
        Ok(e.convert(outs[1], dtype).into())
    }),
];

fn exponential(cx: &mut Cx<'_>, dims: &[i64], rate: f64) -> Res<V> {
    let u = uniform(cx, dims)?;
    let e = &mut cx.e;
    let u = e.convert(u, DType::F64);
    // Shifted into (0, 1], where the logarithm is finite.
    let u = e.shift(u, 1.0 / 16_777_216.0);
    let log = super::math::log(e, u);
    Ok(e.scale(log, -1.0 / rate))
}

/// Without replacement: the places of the largest quotients of weights and exponential numbers,
/// as PyTorch does it. With it: where a uniform number falls among the running sums, in float64,
/// so that the two passes' rounding does not decide it.
fn multinomial(cx: &mut Cx<'_>) -> Res {
    let weights = cx.tensor("self")?;
    let (n, replacement) = (cx.int("num_samples")?, cx.bool("replacement")?);
    let dims = cx.e.dims(weights).to_vec();
    let Some((classes, rows)) = dims.split_last() else {
        return refuse("draws from a single number");
    };
    let last = rows.len();
    let mut drawn = rows.to_vec();
    drawn.push(n);
    if !replacement || n == 1 {
        let dtype = cx.e.dtype(weights);
        let q = exponential(cx, &dims, 1.0)?;
        let e = &mut cx.e;
        let q = e.convert(q, dtype);
        let ratio = e.div(weights, q);
        let places = e.order(ratio, last, true);
        return Ok(e.slice_axis(places, last, 0, n, 1).into());
    }
    let u = uniform(cx, &drawn)?;
    let e = &mut cx.e;
    let u = e.convert(u, DType::F64);
    let weights = e.convert(weights, DType::F64);
    let sums = super::scan::running_sum(e, weights, last);
    let whole = e.slice_axis(sums, last, classes - 1, *classes, 1);
    let whole = e.broadcast_to(whole, &drawn);
    let point = e.mul(u, whole);
    // How many running sums lie at or below the point.
    let mut both = drawn.clone();
    both.push(*classes);
    let rows: Vec<usize> = (0..=last).collect();
    let point = e.broadcast_in(point, &both, &rows);
    let mut axes: Vec<usize> = (0..last).collect();
    axes.push(last + 1);
    let sums = e.broadcast_in(sums, &both, &axes);
    let below = e.compare(Direction::Le, sums, point);
    let below = e.convert(below, DType::S64);
    let place = e.reduce(below, Fold::Add, &[last + 1]);
    // A point at the very end belongs to the last class.
    let top = e.full(&drawn, DType::S64, Num::I(classes - 1));
    Ok(e.min(place, top).into())
}

fn write(cx: &mut Cx<'_>, value: V) -> Res {
    let target = cx.slot("self")?;
    cx.write(target, value)?;
    Ok(Out::Slot(target))
}

fn integers(cx: &mut Cx<'_>, dims: &[i64], dtype: DType) -> Res {
    if cx.maybe_tensor("high").is_ok() {
        return refuse("draws below what a tensor says");
    }
    let low = if cx.given("low") { cx.int("low")? } else { 0 };
    let high = cx.int("high")?;
    let x = between(cx, dims, low, high)?;
    Ok(cx.e.convert(x, dtype).into())
}

/// `low + bits % (high - low)`.
fn between(cx: &mut Cx<'_>, dims: &[i64], low: i64, high: i64) -> Res<V> {
    let range = high.checked_sub(low).filter(|range| (1..1i64 << 32).contains(range));
    let Some(range) = range else {
        return refuse(format!("draws from {low} to {high}, more than 32 bits say"));
    };
    let bits = bits(cx, dims)?;
    let e = &mut cx.e;
    let wide = e.convert(bits, DType::S64);
    let range = e.full(dims, DType::S64, Num::I(range));
    let rest = e.same(ops::Remainder {}, &[wide, range]);
    let low = e.full(dims, DType::S64, Num::I(low));
    Ok(e.add(rest, low))
}

/// Mean and deviation are numbers or tensors.
fn normal_of(cx: &mut Cx<'_>) -> Res {
    let both = [cx.operand("mean")?, cx.operand("std")?];
    let dims = if cx.given("size") {
        cx.ints("size")?
    } else {
        let mut shapes = Vec::new();
        for operand in both {
            if let crate::cx::Operand::Tensor(value) = operand {
                shapes.push(cx.e.dims(value).to_vec());
            }
        }
        crate::cx::broadcast(&shapes)?
    };
    let dtype =
        if cx.given("size") { cx.dtype("dtype")?.unwrap_or(cx.default) } else { cx.common(&both) };
    let x = normal(cx, &dims)?;
    let [mean, std] = both.map(|operand| match operand {
        crate::cx::Operand::Tensor(value) => {
            let value = cx.e.convert(value, DType::F64);
            cx.e.broadcast_to(value, &dims)
        }
        crate::cx::Operand::Number(number) => cx.e.full(&dims, DType::F64, number.num()),
    });
    let x = cx.e.mul(x, std);
    let x = cx.e.add(x, mean);
    Ok(cx.e.convert(x, dtype).into())
}
