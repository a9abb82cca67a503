//! Statistics that are more than one reduction.

use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use super::math::{abs, only, sqrt};
use super::reduce::{mean_of, total, vector_norm};
use crate::cx::{Cx, Res, axis, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::corrcoef", |cx| {
        let x = cx.tensor("self")?;
        let (x, dtype) = cx.wide(x);
        let e = &mut cx.e;
        let matrix = covariance(e, x, 1.0)?;
        if e.rank(matrix) == 0 {
            let one = e.div(matrix, matrix);
            return Ok(e.convert(one, dtype).into());
        }
        let dims = e.dims(matrix);
        let (i, j) = (e.iota(&dims, DType::S64, 0), e.iota(&dims, DType::S64, 1));
        let on = e.compare(Direction::Eq, i, j);
        let diagonal = only(e, on, matrix);
        let variance = e.reduce(diagonal, Fold::Add, &[1]);
        let deviation = sqrt(e, variance);
        let (rows, columns) =
            (e.broadcast_in(deviation, &dims, &[0]), e.broadcast_in(deviation, &dims, &[1]));
        let y = e.div(matrix, rows);
        let y = e.div(y, columns);
        let (low, high) = (e.like(y, -1.0), e.like(y, 1.0));
        let y = e.same(ops::Clamp {}, &[low, y, high]);
        Ok(e.convert(y, dtype).into())
    }),
    ("aten::cov", |cx| {
        if !cx.is_none("fweights") || !cx.is_none("aweights") {
            return refuse("weighs its observations");
        }
        let x = cx.tensor("self")?;
        let correction = cx.int("correction")?;
        let (x, dtype) = cx.wide(x);
        let y = covariance(&mut cx.e, x, correction as f64)?;
        Ok(cx.e.convert(y, dtype).into())
    }),
    ("aten::cumulative_trapezoid", |cx| trapezoid(cx, true)),
    ("aten::nanmean", nanmean),
    ("aten::quantile", quantile),
    ("aten::renorm", renorm),
    ("aten::trapezoid", |cx| trapezoid(cx, false)),
    ("aten::trapz", |cx| trapezoid(cx, false)),
];

/// Of the rows of a matrix; a vector is one row.
fn covariance(e: &mut Emitter, x: V, correction: f64) -> Res<V> {
    let single = e.rank(x) < 2;
    if e.rank(x) > 2 {
        return refuse("takes a matrix or a vector");
    }
    let count = e.dims(x).last().copied().unwrap_or(1);
    let rows = if single { 1 } else { e.dims(x)[0] };
    let x = e.reshape(x, &[rows, count]);
    let mean = mean_of(e, x, &[1], true);
    let mean = e.broadcast_in(mean, &[rows, count], &[0, 1]);
    let low = e.sub(x, mean);
    let products = e.dot(low, low, &[], &[], &[1], &[1]);
    let divisor = e.like(products, (count as f64 - correction).max(0.0));
    let y = e.div(products, divisor);
    Ok(if single { e.reshape(y, &[]) } else { y })
}

fn nanmean(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let rank = cx.e.rank(x);
    let axes = cx.axes_or_all("dim", rank)?;
    let keep = cx.bool("keepdim")?;
    let dtype = cx.dtype("dtype")?.unwrap_or(cx.e.dtype(x));
    let e = &mut cx.e;
    let x = e.convert(x, promote::wide(dtype));
    let number = e.compare(Direction::Eq, x, x);
    let kept = only(e, number, x);
    let ones = e.convert(number, e.dtype(x));
    let (sum, count) =
        (total(e, kept, Fold::Add, &axes, keep), total(e, ones, Fold::Add, &axes, keep));
    let y = e.div(sum, count);
    Ok(e.convert(y, dtype).into())
}

/// Scales every slice along an axis whose norm is too large.
fn renorm(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let (p, most) = (cx.float("p")?, cx.float("maxnorm")?);
    let dims = cx.e.dims(x);
    let at = axis(cx.int("dim")?, dims.len())?;
    let (x, dtype) = cx.wide(x);
    let e = &mut cx.e;
    let others: Vec<usize> = (0..dims.len()).filter(|axis| *axis != at).collect();
    let size = abs(e, x);
    let norm = vector_norm(e, size, p, &others, true)?;
    let large = e.compare_to(Direction::Gt, norm, most);
    let above = e.shift(norm, 1e-7);
    let (limit, one) = (e.like(norm, most), e.like(norm, 1.0));
    let factor = e.div(limit, above);
    let factor = e.select(large, factor, one);
    let all: Vec<usize> = (0..dims.len()).collect();
    let factor = e.broadcast_in(factor, &dims, &all);
    let y = e.mul(x, factor);
    Ok(e.convert(y, dtype).into())
}

/// Half the sum of neighbours times their distance, summed.
fn trapezoid(cx: &mut Cx<'_>, running: bool) -> Res {
    let y = cx.tensor("y")?;
    let dims = cx.e.dims(y).to_vec();
    let at = axis(cx.int("dim")?, dims.len())?;
    let (y, dtype) = cx.wide(y);
    let size = dims[at];
    let x = if cx.given("x") { Some(cx.tensor("x")?) } else { None };
    let step = if x.is_none() { cx.float("dx")? } else { 1.0 };
    let e = &mut cx.e;
    if size == 0 {
        return refuse("goes along an axis without elements");
    }
    let (left, right) = (e.slice_axis(y, at, 0, size - 1, 1), e.slice_axis(y, at, 1, size, 1));
    let mut area = e.add(left, right);
    if let Some(x) = x {
        let x = e.convert(x, e.dtype(y));
        let (x, along) =
            if e.rank(x) == 1 { (x, vec![at]) } else { (x, (0..dims.len()).collect()) };
        let x = e.broadcast_in(x, &dims, &along);
        let (from, to) = (e.slice_axis(x, at, 0, size - 1, 1), e.slice_axis(x, at, 1, size, 1));
        let width = e.sub(to, from);
        area = e.mul(area, width);
    }
    if !running {
        let sum = e.reduce(area, Fold::Add, &[at]);
        let half = e.scale(sum, 0.5 * step);
        return Ok(e.convert(half, dtype).into());
    }
    let sums = running_sum(e, area, at);
    let half = e.scale(sums, 0.5 * step);
    Ok(e.convert(half, dtype).into())
}

/// Sums of all elements up to each.
fn running_sum(e: &mut Emitter, x: V, at: usize) -> V {
    let size = e.dims(x)[at];
    let mut window = warpforge_snakeburger::build::Window::new(e.rank(x));
    window.sizes[at] = size.max(1);
    window.low[at] = (size - 1).max(0);
    e.reduce_window(x, Fold::Add, &window)
}

/// The elements in order, and between which two of them each quantile lies.
fn quantile(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let keep = cx.bool("keepdim")?;
    let interpolation = cx.str("interpolation")?;
    let dim = cx.maybe_int("dim")?;
    let dtype = cx.e.dtype(x);
    let q = match cx.operand("q")? {
        crate::cx::Operand::Tensor(q) => q,
        crate::cx::Operand::Number(number) => cx.e.full(&[], dtype, number.num()),
    };
    let e = &mut cx.e;
    let outer = e.dims(x).to_vec();
    let rank = outer.len();
    // The axis comes last; without one all elements make one row.
    let (rows, size, mut shape) = match dim {
        Some(dim) => {
            let at = axis(dim, rank)?;
            let mut shape = outer.clone();
            let size = if rank == 0 { 1 } else { shape.remove(at) };
            let order: Vec<usize> = (0..rank).filter(|i| *i != at).chain([at]).take(rank).collect();
            (e.transpose(x, &order), size, if keep { restored(&outer, at) } else { shape })
        }
        None => (x, outer.iter().product(), if keep { vec![1; rank] } else { Vec::new() }),
    };
    let count = outer.iter().product::<i64>() / size.max(1);
    let rows = e.reshape(rows, &[count, size]);
    let sorted = sorted(e, rows);
    let places: i64 = e.dims(q).iter().product();
    let many = e.rank(q) > 0;
    let q = e.convert(q, dtype);
    let q = e.reshape(q, &[places]);
    let rank_of = e.scale(q, size as f64 - 1.0);
    let rank_of = match &*interpolation {
        "linear" | "midpoint" => rank_of,
        "lower" => e.same(ops::Floor {}, &[rank_of]),
        "higher" => e.same(ops::Ceil {}, &[rank_of]),
        "nearest" => e.same(ops::RoundNearestEven {}, &[rank_of]),
        other => return refuse(format!("interpolates by {other}")),
    };
    let below = e.same(ops::Floor {}, &[rank_of]);
    let above = e.same(ops::Ceil {}, &[rank_of]);
    let weight = e.sub(rank_of, below);
    let weight = if &*interpolation == "midpoint" { e.like(weight, 0.5) } else { weight };
    let (low, high) = (e.convert(below, DType::S64), e.convert(above, DType::S64));
    let (low, high) = (e.take(sorted, 1, low), e.take(sorted, 1, high));
    let weight = e.broadcast_in(weight, &[count, places], &[1]);
    let gap = e.sub(high, low);
    let step = e.mul(gap, weight);
    let value = e.add(low, step);
    // One NaN makes all quantiles of its row NaN.
    let nan = e.compare(Direction::Ne, rows, rows);
    let nan = e.reduce(nan, Fold::Or, &[1]);
    let nan = e.broadcast_in(nan, &[count, places], &[0]);
    let none = e.like(value, f64::NAN);
    let value = e.select(nan, none, value);
    // The quantiles' axis comes first.
    let value = e.transpose(value, &[1, 0]);
    if many {
        shape.insert(0, places);
    }
    Ok(e.reshape(value, &shape).into())
}

fn restored(dims: &[i64], at: usize) -> Vec<i64> {
    let mut dims = dims.to_vec();
    if let Some(size) = dims.get_mut(at) {
        *size = 1;
    }
    dims
}

fn sorted(e: &mut Emitter, rows: V) -> V {
    let scalar = TensorTy::scalar(e.dtype(rows));
    let order = e.region(&[scalar.clone(), scalar], |e, args| {
        vec![e.compare(Direction::Lt, args[0], args[1])]
    });
    let ty = e.ty(rows).clone();
    e.push_many(ops::Sort { dimension: 1, is_stable: false }, &[rows], &[ty], &[order])[0]
}
