//! Running totals. Each is made in as many steps as the length has binary digits: what stands
//! 1, 2, 4, … places before is combined with every element.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use crate::cx::{Cx, Operand, Out, Res, axis, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::cummax", |cx| extreme(cx, Fold::Max)),
    ("aten::cummin", |cx| extreme(cx, Fold::Min)),
    ("aten::cumprod", |cx| total(cx, Fold::Mul)),
    ("aten::cumsum", |cx| total(cx, Fold::Add)),
    ("aten::diff", diff),
    ("aten::logcumsumexp", logcumsumexp),
];

/// The tensor moved along an axis; what comes in at the front is given.
fn moved(e: &mut Emitter, x: V, at: usize, by: i64, with: Num) -> V {
    let rank = e.rank(x);
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    (low[at], high[at]) = (by, -by);
    e.pad(x, &low, &high, &vec![0; rank], with)
}

fn steps(e: &Emitter, x: V, at: usize) -> impl Iterator<Item = i64> + use<> {
    let size = e.dims(x)[at];
    std::iter::successors(Some(1i64), |step| Some(step * 2)).take_while(move |step| *step < size)
}

/// Sums of all elements up to each.
pub fn running_sum(e: &mut Emitter, x: V, at: usize) -> V {
    running(e, x, at, Fold::Add)
}

fn running(e: &mut Emitter, x: V, at: usize, fold: Fold) -> V {
    let dtype = e.dtype(x);
    let start = Num::I(i64::from(fold == Fold::Mul)).fit(dtype);
    let mut y = x;
    for step in steps(e, x, at) {
        let before = moved(e, y, at, step, start);
        y = e.fold_two(fold, before, y);
    }
    y
}

fn total(cx: &mut Cx<'_>, fold: Fold) -> Res {
    let x = cx.tensor("self")?;
    let own = cx.e.dtype(x);
    let natural = if own.is_bool() || own.is_int() { DType::S64 } else { own };
    let dtype = cx.dtype("dtype")?.unwrap_or(natural);
    let rank = cx.e.rank(x);
    let at = axis(cx.int("dim")?, rank)?;
    let x = cx.e.convert(x, dtype);
    if rank == 0 {
        return Ok(x.into());
    }
    let x = cx.e.convert(x, promote::wide(dtype));
    let y = running(&mut cx.e, x, at, fold);
    Ok(cx.e.convert(y, dtype).into())
}

/// The extreme so far and where it stands: the last of equals, and a NaN once there is one.
fn extreme(cx: &mut Cx<'_>, fold: Fold) -> Res {
    let x = cx.tensor("self")?;
    let (rank, dtype) = (cx.e.rank(x), cx.e.dtype(x));
    let at = axis(cx.int("dim")?, rank)?;
    let e = &mut cx.e;
    if rank == 0 {
        let zero = e.full(&[], DType::S64, Num::I(0));
        return Ok(Out::many([x, zero]));
    }
    let dims = e.dims(x);
    let (mut y, mut place) = (x, e.iota(&dims, DType::S64, at));
    let direction = if fold == Fold::Max { Direction::Ge } else { Direction::Le };
    for step in steps(e, x, at) {
        // Nothing stands before the first elements: there the later always wins.
        let before = moved(e, y, at, step, Num::I(0).fit(dtype));
        let before_place = moved(e, place, at, step, Num::I(-1));
        let mut later = e.compare(direction, y, before);
        if dtype.is_float() {
            let (nan, number) =
                (e.compare(Direction::Ne, y, y), e.compare(Direction::Eq, before, before));
            later = e.same(ops::And {}, &[later, number]);
            later = e.same(ops::Or {}, &[later, nan]);
        }
        let none = e.compare_to(Direction::Lt, before_place, 0.0);
        let later = e.same(ops::Or {}, &[later, none]);
        y = e.select(later, y, before);
        place = e.select(later, place, before_place);
    }
    Ok(Out::many([y, place]))
}

fn logcumsumexp(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let rank = cx.e.rank(x);
    let at = axis(cx.int("dim")?, rank)?;
    let (x, dtype) = cx.wide(x);
    if dtype.is_complex() {
        return refuse("sums complex exponentials");
    }
    let e = &mut cx.e;
    let mut y = x;
    if rank > 0 {
        for step in steps(e, x, at) {
            let before = moved(e, y, at, step, Num::F(f64::NEG_INFINITY));
            let (high, low) = (e.max(before, y), e.min(before, y));
            let gap = e.sub(low, high);
            let small = e.same(ops::Exponential::default(), &[gap]);
            let log = e.same(ops::LogPlusOne::default(), &[small]);
            let sum = e.add(high, log);
            // Infinity minus infinity is no number, and equal infinities are their own sum.
            let bool_ty = e.ty(high).with_elem(DType::I1);
            let infinite = e.push(ops::IsInf {}, &[high], bool_ty);
            y = e.select(infinite, high, sum);
        }
    }
    Ok(e.convert(y, dtype).into())
}

/// Each element but the last, and each but the first.
fn neighbours(e: &mut Emitter, x: V, at: usize) -> (V, V) {
    let size = e.dims(x)[at];
    let inner = (size - 1).max(0);
    (e.slice_axis(x, at, 0, inner, 1), e.slice_axis(x, at, size.min(1), size, 1))
}

fn diff(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let mut parts = vec![x];
    if let Some(front) = cx.maybe_tensor("prepend")? {
        parts.insert(0, front);
    }
    parts.extend(cx.maybe_tensor("append")?);
    let rank = cx.e.rank(x);
    if rank == 0 {
        return refuse("takes differences of a tensor without axes");
    }
    let at = axis(cx.int("dim")?, rank)?;
    let operands: Vec<Operand> = parts.iter().map(|part| Operand::Tensor(*part)).collect();
    let dtype = cx.common(&operands);
    let parts: Vec<V> = parts.iter().map(|part| cx.e.convert(*part, dtype)).collect();
    let mut y = cx.e.concat(&parts, at);
    let size = cx.e.dims(y)[at];
    for _ in 0..cx.int("n")?.min(size) {
        let (left, right) = neighbours(&mut cx.e, y, at);
        y = if dtype.is_bool() {
            cx.e.compare(Direction::Ne, right, left)
        } else {
            cx.e.sub(right, left)
        };
    }
    Ok(y.into())
}
