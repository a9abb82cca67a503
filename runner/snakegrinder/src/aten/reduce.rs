//! Reductions: many elements to one.

use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use crate::cx::{Cx, Number, Out, Res, axis, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::all", |cx| truth(cx, Fold::And)),
    ("aten::amax", |cx| extreme(cx, Fold::Max)),
    ("aten::amin", |cx| extreme(cx, Fold::Min)),
    ("aten::aminmax", |cx| {
        let (low, high) = (extreme_of(cx, Fold::Min)?, extreme_of(cx, Fold::Max)?);
        Ok(Out::many([low, high]))
    }),
    ("aten::any", |cx| truth(cx, Fold::Or)),
    ("aten::argmax", |cx| arg_extreme(cx, Fold::Max)),
    ("aten::argmin", |cx| arg_extreme(cx, Fold::Min)),
    ("aten::count_nonzero", count_nonzero),
    ("aten::frobenius_norm", |cx| norm_of(cx, 2.0)),
    ("aten::linalg_vector_norm", |cx| {
        let order = cx.number("ord")?.float();
        norm_of(cx, order)
    }),
    ("aten::logsumexp", logsumexp),
    ("aten::max", |cx| max_or_min(cx, Fold::Max)),
    ("aten::mean", mean),
    ("aten::min", |cx| max_or_min(cx, Fold::Min)),
    ("aten::nansum", nansum),
    ("aten::norm", |cx| {
        let order = cx.maybe_number("p")?.map_or(2.0, Number::float);
        norm_of(cx, order)
    }),
    ("aten::prod", prod),
    ("aten::std", |cx| deviation(cx, true, false)),
    ("aten::std_mean", |cx| deviation(cx, true, true)),
    ("aten::sum", sum),
    ("aten::trace", |cx| {
        let x = cx.tensor("self")?;
        let dims = cx.e.dims(x).to_vec();
        let shape = [dims[0], dims[1]];
        let (i, j) = (cx.e.iota(&shape, DType::S64, 0), cx.e.iota(&shape, DType::S64, 1));
        let on = cx.e.compare(Direction::Eq, i, j);
        let zero = cx.e.like(x, 0.0);
        let x = cx.e.select(on, x, zero);
        Ok(cx.e.reduce(x, Fold::Add, &[0, 1]).into())
    }),
    ("aten::var", |cx| deviation(cx, false, false)),
    ("aten::var_mean", |cx| deviation(cx, false, true)),
];

fn keeps(cx: &Cx<'_>) -> bool {
    cx.bool("keepdim").unwrap_or(false)
}

/// The axes an operator reduces; all if it names none.
fn axes(cx: &Cx<'_>, x: V) -> Res<Vec<usize>> {
    let rank = cx.e.rank(x);
    let list = if cx.given("dim") { cx.maybe_ints("dim")? } else { None };
    match list {
        // A tensor without axes has nothing to reduce, whatever axis is named.
        Some(dims) if !dims.is_empty() && rank > 0 => {
            dims.iter().map(|dim| axis(*dim, rank)).collect()
        }
        _ => Ok((0..rank).collect()),
    }
}

/// Reduces in the wide type.
pub fn total(e: &mut Emitter, x: V, fold: Fold, axes: &[usize], keep: bool) -> V {
    if keep { e.reduce_keep(x, fold, axes) } else { e.reduce(x, fold, axes) }
}

/// The type sums are asked for in: integers become int64.
fn sum_type(cx: &Cx<'_>, x: V) -> Res<DType> {
    let own = cx.e.dtype(x);
    let natural = if own.is_bool() || own.is_int() { DType::S64 } else { own };
    Ok(cx.dtype("dtype")?.unwrap_or(natural))
}

fn sum(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let (dtype, axes, keep) = (sum_type(cx, x)?, axes(cx, x)?, keeps(cx));
    let x = cx.e.convert(x, dtype);
    let x = cx.e.convert(x, promote::wide(dtype));
    let y = total(&mut cx.e, x, Fold::Add, &axes, keep);
    Ok(cx.e.convert(y, dtype).into())
}

fn nansum(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let (dtype, axes, keep) = (sum_type(cx, x)?, axes(cx, x)?, keeps(cx));
    let x = cx.e.convert(x, promote::wide(dtype));
    let nan = cx.e.compare(Direction::Ne, x, x);
    let zero = cx.e.like(x, 0.0);
    let x = cx.e.select(nan, zero, x);
    let y = total(&mut cx.e, x, Fold::Add, &axes, keep);
    Ok(cx.e.convert(y, dtype).into())
}

fn prod(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let (dtype, axes, keep) = (sum_type(cx, x)?, axes(cx, x)?, keeps(cx));
    let x = cx.e.convert(x, promote::wide(dtype));
    let y = total(&mut cx.e, x, Fold::Mul, &axes, keep);
    Ok(cx.e.convert(y, dtype).into())
}

/// The mean along axes, in the tensor's own (wide) type.
pub fn mean_of(e: &mut Emitter, x: V, axes: &[usize], keep: bool) -> V {
    let dims = e.dims(x);
    let count: i64 = axes.iter().map(|axis| dims[*axis]).product();
    let sum = total(e, x, Fold::Add, axes, keep);
    let count = e.like(sum, count as f64);
    e.div(sum, count)
}

fn mean(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dtype = cx.dtype("dtype")?.unwrap_or(cx.e.dtype(x));
    let (axes, keep) = (axes(cx, x)?, keeps(cx));
    let x = cx.e.convert(x, promote::wide(dtype));
    let y = mean_of(&mut cx.e, x, &axes, keep);
    Ok(cx.e.convert(y, dtype).into())
}

/// The sum of squared distances from the mean, over `count - correction`, and the mean.
fn variance(e: &mut Emitter, x: V, axes: &[usize], correction: f64) -> (V, V) {
    let dims = e.dims(x);
    let count: i64 = axes.iter().map(|axis| dims[*axis]).product();
    let mean = mean_of(e, x, axes, true);
    let all: Vec<usize> = (0..dims.len()).collect();
    let spread = e.broadcast_in(mean, &dims, &all);
    let low = e.sub(x, spread);
    let square = e.mul(low, low);
    let sum = e.reduce_keep(square, Fold::Add, axes);
    let divisor = e.like(sum, (count as f64 - correction).max(0.0));
    (e.div(sum, divisor), mean)
}

fn deviation(cx: &mut Cx<'_>, rooted: bool, with_mean: bool) -> Res {
    let x = cx.tensor("self")?;
    let (axes, keep) = (axes(cx, x)?, keeps(cx));
    let correction = if cx.given("unbiased") {
        f64::from(u8::from(cx.bool("unbiased")?))
    } else if cx.given("correction") {
        cx.maybe_number("correction")?.map_or(1.0, Number::float)
    } else {
        1.0
    };
    let (wide, dtype) = cx.wide(x);
    let (variance, mean) = variance(&mut cx.e, wide, &axes, correction);
    let y = if rooted {
        root(&mut cx.e, variance, |e, variance| e.same(ops::Sqrt::default(), &[variance]))
    } else {
        variance
    };
    let mut outs = Vec::new();
    let kept: Vec<i64> = {
        let dims = cx.e.dims(x);
        (0..dims.len()).filter(|i| !axes.contains(i)).map(|i| dims[i]).collect()
    };
    for value in [y, mean].into_iter().take(1 + usize::from(with_mean)) {
        let value = if keep { value } else { cx.e.reshape(value, &kept) };
        outs.push(cx.e.convert(value, dtype));
    }
    Ok(if with_mean { Out::many(outs) } else { outs[0].into() })
}

fn truth(cx: &mut Cx<'_>, fold: Fold) -> Res {
    let x = cx.tensor("self")?;
    let (axes, keep) = (axes(cx, x)?, keeps(cx));
    let truths = cx.e.convert(x, DType::I1);
    let y = total(&mut cx.e, truths, fold, &axes, keep);
    // Bytes stay bytes, as in PyTorch.
    let dtype = if cx.e.dtype(x) == DType::U8 { DType::U8 } else { DType::I1 };
    Ok(cx.e.convert(y, dtype).into())
}

fn extreme_of(cx: &mut Cx<'_>, fold: Fold) -> Res<V> {
    let x = cx.tensor("self")?;
    let (axes, keep) = (axes(cx, x)?, keeps(cx));
    Ok(total(&mut cx.e, x, fold, &axes, keep))
}

fn extreme(cx: &mut Cx<'_>, fold: Fold) -> Res {
    Ok(extreme_of(cx, fold)?.into())
}

/// The extreme along one axis and the place of its first occurrence.
pub fn extreme_and_place(e: &mut Emitter, x: V, fold: Fold, at: usize) -> (V, V) {
    let dims = e.dims(x);
    let dtype = e.dtype(x);
    let place = e.iota(&dims, DType::S64, at);
    let (start, zero) =
        (e.neutral(fold, dtype), e.full(&[], DType::S64, warpforge_snakeburger::eval::Num::I(0)));
    let (value, index) = (
        warpforge_snakeburger::ir::TensorTy::scalar(dtype),
        warpforge_snakeburger::ir::TensorTy::scalar(DType::S64),
    );
    let direction = if fold == Fold::Max { Direction::Gt } else { Direction::Lt };
    let types = [value.clone(), index.clone(), value, index];
    let region = e.region(&types, |e, args| {
        let (a, i, b, j) = (args[0], args[1], args[2], args[3]);
        // A NaN outranks any number; of equals the first counts.
        let better = e.compare(direction, a, b);
        let same = e.compare(Direction::Eq, a, b);
        let first = e.compare(Direction::Lt, i, j);
        let (better, same, first) = if e.dtype(a).is_float() {
            let (a_nan, b_nan) = (e.compare(Direction::Ne, a, a), e.compare(Direction::Ne, b, b));
            let b_number = e.same(ops::Not {}, &[b_nan]);
            let only_a = e.same(ops::And {}, &[a_nan, b_number]);
            let both = e.same(ops::And {}, &[a_nan, b_nan]);
            (e.same(ops::Or {}, &[better, only_a]), e.same(ops::Or {}, &[same, both]), first)
        } else {
            (better, same, first)
        };
        let tie = e.same(ops::And {}, &[same, first]);
        let left = e.same(ops::Or {}, &[better, tie]);
        vec![e.select(left, a, b), e.select(left, i, j)]
    });
    let kept: Vec<i64> = (0..dims.len()).filter(|i| *i != at).map(|i| dims[i]).collect();
    let results = [e.ty(x).with_dims(kept.iter().copied()), e.ty(place).with_dims(kept)];
    let op = ops::Reduce { dimensions: [at as i64].into() };
    let outs = e.push_many(op, &[x, place, start, zero], &results, &[region]);
    (outs[0], outs[1])
}

fn max_or_min(cx: &mut Cx<'_>, fold: Fold) -> Res {
    if cx.given("other") {
        let both = [cx.operand("self")?, cx.operand("other")?];
        let dtype = cx.common(&both);
        let both = cx.together(&both, dtype)?;
        return Ok(cx.e.fold_two(fold, both[0], both[1]).into());
    }
    if !cx.given("dim") {
        return extreme(cx, fold);
    }
    let x = cx.tensor("self")?;
    let (rank, keep) = (cx.e.rank(x), keeps(cx));
    if rank == 0 {
        let zero = cx.e.full(&[], DType::S64, warpforge_snakeburger::eval::Num::I(0));
        return Ok(Out::many([x, zero]));
    }
    let at = axis(cx.int("dim")?, rank)?;
    let (value, place) = extreme_and_place(&mut cx.e, x, fold, at);
    Ok(Out::many(kept(cx, x, [value, place], at, keep)))
}

fn kept<const N: usize>(cx: &mut Cx<'_>, x: V, values: [V; N], at: usize, keep: bool) -> [V; N] {
    let mut dims = cx.e.dims(x);
    dims[at] = 1;
    values.map(|value| if keep { cx.e.reshape(value, &dims) } else { value })
}

fn arg_extreme(cx: &mut Cx<'_>, fold: Fold) -> Res {
    let x = cx.tensor("self")?;
    let (dims, keep) = (cx.e.dims(x).to_vec(), keeps(cx));
    let Some(dim) = cx.maybe_int("dim")? else {
        let flat = cx.e.reshape(x, &[dims.iter().product()]);
        let (_, place) = extreme_and_place(&mut cx.e, flat, fold, 0);
        let shape = if keep { vec![1; dims.len()] } else { Vec::new() };
        return Ok(cx.e.reshape(place, &shape).into());
    };
    if dims.is_empty() {
        return Ok(cx.e.full(&[], DType::S64, warpforge_snakeburger::eval::Num::I(0)).into());
    }
    let at = axis(dim, dims.len())?;
    let (_, place) = extreme_and_place(&mut cx.e, x, fold, at);
    Ok(kept(cx, x, [place], at, keep)[0].into())
}

fn count_nonzero(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let axes = axes(cx, x)?;
    let truths = cx.e.convert(x, DType::I1);
    let counts = cx.e.convert(truths, DType::S64);
    Ok(cx.e.reduce(counts, Fold::Add, &axes).into())
}

fn logsumexp(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let (axes, keep) = (axes(cx, x)?, keeps(cx));
    let (x, dtype) = cx.wide(x);
    let y = log_sum_exp(&mut cx.e, x, &axes, keep);
    Ok(cx.e.convert(y, dtype).into())
}

pub fn log_sum_exp(e: &mut Emitter, x: V, axes: &[usize], keep: bool) -> V {
    let dims = e.dims(x);
    let top = e.reduce_keep(x, Fold::Max, axes);
    // An infinite maximum would make a NaN of infinity minus infinity.
    let finite = e.push(ops::IsFinite {}, &[top], e.ty(top).with_elem(DType::I1));
    let zero = e.like(top, 0.0);
    let top = e.select(finite, top, zero);
    // The result is the same whatever is taken off and added again.
    let top = e.stop_gradient(top);
    let all: Vec<usize> = (0..dims.len()).collect();
    let spread = e.broadcast_in(top, &dims, &all);
    let low = e.sub(x, spread);
    let exp = e.same(ops::Exponential::default(), &[low]);
    let sum = e.reduce_keep(exp, Fold::Add, axes);
    let log = e.same(ops::Log::default(), &[sum]);
    let y = e.add(log, top);
    if keep {
        return y;
    }
    let kept: Vec<i64> = (0..dims.len()).filter(|i| !axes.contains(i)).map(|i| dims[i]).collect();
    e.reshape(y, &kept)
}

fn norm_of(cx: &mut Cx<'_>, order: f64) -> Res {
    let x = cx.tensor("self")?;
    let (axes, keep) = (axes(cx, x)?, keeps(cx));
    let asked = cx.dtype("dtype").unwrap_or_default();
    let complex = cx.e.dtype(x).is_complex();
    let dtype = asked.unwrap_or(promote::to_float(cx.e.dtype(x).part(), cx.default));
    let x = if complex { x } else { cx.e.convert(x, promote::wide(dtype)) };
    let part = cx.e.ty(x).with_elem(cx.e.dtype(x).part());
    let size = cx.e.push(ops::Abs {}, &[x], part);
    let y = vector_norm(&mut cx.e, size, order, &axes, keep)?;
    Ok(cx.e.convert(y, dtype).into())
}

/// A root whose derivative at zero is zero, as PyTorch has it for norms, and not infinite.
fn root(e: &mut Emitter, sum: V, of: impl FnOnce(&mut Emitter, V) -> V) -> V {
    let nothing = e.compare_to(Direction::Eq, sum, 0.0);
    let one = e.like(sum, 1.0);
    let some = e.select(nothing, one, sum);
    let y = of(e, some);
    let zero = e.zeros_like(y);
    e.select(nothing, zero, y)
}

/// A norm of magnitudes.
pub fn vector_norm(e: &mut Emitter, size: V, order: f64, axes: &[usize], keep: bool) -> Res<V> {
    Ok(if order == 0.0 {
        let some = e.compare_to(Direction::Ne, size, 0.0);
        let dtype = e.dtype(size);
        let ones = e.convert(some, dtype);
        total(e, ones, Fold::Add, axes, keep)
    } else if order == f64::INFINITY {
        total(e, size, Fold::Max, axes, keep)
    } else if order == f64::NEG_INFINITY {
        total(e, size, Fold::Min, axes, keep)
    } else if order == 1.0 {
        total(e, size, Fold::Add, axes, keep)
    } else if order == 2.0 {
        let square = e.mul(size, size);
        let sum = total(e, square, Fold::Add, axes, keep);
        root(e, sum, |e, sum| e.same(ops::Sqrt::default(), &[sum]))
    } else if order.is_finite() {
        let exponent = e.like(size, order);
        let powers = e.same(ops::Power {}, &[size, exponent]);
        let sum = total(e, powers, Fold::Add, axes, keep);
        let exponent = e.like(sum, 1.0 / order);
        root(e, sum, |e, sum| e.same(ops::Power {}, &[sum, exponent]))
    } else {
        return refuse(format!("is the norm of order {order}"));
    })
}
