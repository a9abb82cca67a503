//! Sorting, and what depends on an order. NaNs are larger than any number.

use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use super::index::with_axis;
use super::reduce::extreme_and_place;
use crate::cx::{Cx, Operand, Out, Res, axis, refuse};
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::argsort", |cx| {
        let (x, at) = along(cx)?;
        let descending = cx.bool("descending")?;
        let dims = dims_of(cx)?;
        let places = cx.e.order(x, at, descending);
        Ok(cx.e.reshape(places, &dims).into())
    }),
    ("aten::bucketize", |cx| {
        let (bounds, x) = (cx.tensor("boundaries")?, cx.operand("self")?);
        search(cx, bounds, x)
    }),
    ("aten::histc", histc),
    ("aten::isin", isin),
    ("aten::kthvalue", |cx| {
        let (x, at) = along(cx)?;
        let k = cx.int("k")? - 1;
        if !(0..cx.e.dims(x)[at]).contains(&k) {
            return refuse(format!("takes number {} of {}", k + 1, cx.e.dims(x)[at]));
        }
        let places = cx.e.order(x, at, false);
        let place = cx.e.slice_axis(places, at, k, k + 1, 1);
        chosen(cx, x, at, place)
    }),
    ("aten::median", |cx| median(cx, false)),
    ("aten::mode", mode),
    ("aten::msort", |cx| {
        let x = cx.tensor("self")?;
        if cx.e.rank(x) == 0 {
            return Ok(x.into());
        }
        let places = cx.e.order(x, 0, false);
        Ok(cx.e.gather_along(x, 0, places).into())
    }),
    ("aten::nanmedian", |cx| median(cx, true)),
    ("aten::searchsorted", |cx| {
        let mut bounds = cx.tensor("sorted_sequence")?;
        if let Some(sorter) = cx.maybe_tensor("sorter")? {
            let last = cx.e.rank(bounds).saturating_sub(1);
            bounds = cx.e.gather_along(bounds, last, sorter);
        }
        let x = cx.operand("self")?;
        search(cx, bounds, x)
    }),
    ("aten::sort", |cx| {
        let (x, at) = along(cx)?;
        let descending = cx.bool("descending")?;
        let dims = dims_of(cx)?;
        let places = cx.e.order(x, at, descending);
        // Values are looked up again, so that a gradient has a plain way back.
        let values = cx.e.gather_along(x, at, places);
        Ok(Out::many([cx.e.reshape(values, &dims), cx.e.reshape(places, &dims)]))
    }),
    ("aten::topk", |cx| {
        let (x, at) = along(cx)?;
        let (k, largest) = (cx.int("k")?, cx.bool("largest")?);
        let mut dims = dims_of(cx)?;
        if !(0..=cx.e.dims(x)[at]).contains(&k) {
            return refuse(format!("takes {k} of {}", cx.e.dims(x)[at]));
        }
        let places = cx.e.order(x, at, largest);
        let places = cx.e.slice_axis(places, at, 0, k, 1);
        let values = cx.e.gather_along(x, at, places);
        if let Some(size) = dims.get_mut(at) {
            *size = k;
        }
        Ok(Out::many([cx.e.reshape(values, &dims), cx.e.reshape(places, &dims)]))
    }),
];

fn dims_of(cx: &mut Cx<'_>) -> Res<Vec<i64>> {
    let x = cx.tensor("self")?;
    Ok(cx.e.dims(x).to_vec())
}

/// The tensor, with an axis at least, and the axis to work along.
fn along(cx: &mut Cx<'_>) -> Res<(V, usize)> {
    let x = cx.tensor("self")?;
    let x = with_axis(&mut cx.e, x);
    let at = axis(cx.int("dim")?, cx.e.rank(x))?;
    Ok((x, at))
}

/// The elements at one place along an axis, and the places: with the axis or without.
fn chosen(cx: &mut Cx<'_>, x: V, at: usize, place: V) -> Res {
    let values = cx.e.gather_along(x, at, place);
    let mut dims = dims_of(cx)?;
    if !dims.is_empty() {
        if cx.bool("keepdim")? {
            dims[at] = 1;
        } else {
            dims.remove(at);
        }
    }
    Ok(Out::many([cx.e.reshape(values, &dims), cx.e.reshape(place, &dims)]))
}

/// How many NaNs there are along an axis, which stays.
fn nans(e: &mut Emitter, x: V, at: usize) -> V {
    let mut dims = e.dims(x);
    if !e.dtype(x).is_float() {
        dims[at] = 1;
        return e.zeros(&dims, DType::S64);
    }
    let nan = e.compare(Direction::Ne, x, x);
    let nan = e.convert(nan, DType::S64);
    e.reduce_keep(nan, Fold::Add, &[at])
}

/// The lower of the middle elements. NaNs are left out, or one of them is the median.
fn median(cx: &mut Cx<'_>, without_nans: bool) -> Res {
    let all = !cx.given("dim");
    let (x, at) = if all {
        let x = cx.tensor("self")?;
        let count: i64 = cx.e.dims(x).iter().product();
        (cx.e.reshape(x, &[count]), 0)
    } else {
        along(cx)?
    };
    let size = cx.e.dims(x)[at];
    if size == 0 {
        return refuse("takes the median of nothing");
    }
    let e = &mut cx.e;
    let places = e.order(x, at, false);
    let nans = nans(e, x, at);
    let whole = e.like(nans, size as f64);
    let numbers = e.sub(whole, nans);
    let middle = if without_nans {
        let last = e.shift(numbers, -1.0);
        let zero = e.like(last, 0.0);
        let last = e.max(last, zero);
        let two = e.like(last, 2.0);
        e.div(last, two)
    } else {
        let some = e.compare_to(Direction::Gt, nans, 0.0);
        let plain = e.like(nans, ((size - 1) / 2) as f64);
        e.select(some, numbers, plain)
    };
    let place = e.gather_along(places, at, middle);
    if all {
        let value = e.gather_along(x, 0, place);
        return Ok(e.reshape(value, &[]).into());
    }
    chosen(cx, x, at, place)
}

/// The most frequent element, the smallest of several, and where it stands last.
fn mode(cx: &mut Cx<'_>) -> Res {
    let (x, at) = along(cx)?;
    let e = &mut cx.e;
    let dims = e.dims(x);
    if dims[at] == 0 {
        return refuse("takes the mode of nothing");
    }
    let order = e.order(x, at, false);
    let sorted = e.gather_along(x, at, order);
    let mut pairs = dims.to_vec();
    pairs.insert(at, dims[at]);
    let (rows, columns): (Vec<usize>, Vec<usize>) = (
        (0..pairs.len()).filter(|i| *i != at).collect(),
        (0..pairs.len()).filter(|i| *i != at + 1).collect(),
    );
    let (a, b) = (e.broadcast_in(sorted, &pairs, &rows), e.broadcast_in(sorted, &pairs, &columns));
    let same = e.compare(Direction::Eq, a, b);
    let same = e.convert(same, DType::S64);
    let counts = e.reduce(same, Fold::Add, &[at]);
    let (_, best) = extreme_and_place(e, counts, Fold::Max, at);
    let best = e.unsqueeze(best, &[at]);
    let value = e.gather_along(sorted, at, best);
    let all: Vec<usize> = (0..dims.len()).collect();
    let spread = e.broadcast_in(value, &dims, &all);
    let equal = e.compare(Direction::Eq, x, spread);
    let number = e.iota(&dims, DType::S64, at);
    let zero = e.like(number, 0.0);
    let number = e.select(equal, number, zero);
    let place = e.reduce_keep(number, Fold::Max, &[at]);
    chosen(cx, x, at, place)
}

/// How many bounds lie below each value; with `right` also those that equal it.
fn search(cx: &mut Cx<'_>, bounds: V, x: Operand) -> Res {
    let right = cx.bool("right")?
        || cx.maybe_str("side").is_ok_and(|side| side.as_deref() == Some("right"));
    let dtype = if cx.bool("out_int32")? { DType::S32 } else { DType::S64 };
    // Without axes a tensor still counts in full here: both are to have one type.
    let common = match x {
        Operand::Tensor(x) => {
            let both = [bounds, x].map(|value| Operand::Tensor(with_axis(&mut cx.e, value)));
            cx.common(&both)
        }
        Operand::Number(_) => cx.common(&[Operand::Tensor(bounds), x]),
    };
    let e = &mut cx.e;
    let bounds = e.convert(bounds, common);
    let x = match x {
        Operand::Tensor(x) => e.convert(x, common),
        Operand::Number(number) => e.full(&[], common, number.num()),
    };
    let (dims, list) = (e.dims(x), e.dims(bounds));
    let Some(size) = list.last().copied() else {
        return refuse("searches a tensor without axes");
    };
    let mut pairs = dims.to_vec();
    pairs.push(size);
    let own: Vec<usize> = (0..dims.len()).collect();
    let values = e.broadcast_in(x, &pairs, &own);
    let bounds = if list.len() == 1 {
        e.broadcast_in(bounds, &pairs, &[dims.len()])
    } else {
        // The leading axes pair up; the values' last axis has no counterpart.
        if list.len() != dims.len() || list[..list.len() - 1] != dims[..dims.len() - 1] {
            return refuse(format!("searches {list:?} for {dims:?}"));
        }
        let axes: Vec<usize> = (0..list.len() - 1).chain([dims.len()]).collect();
        e.broadcast_in(bounds, &pairs, &axes)
    };
    // A NaN comes after everything, as the comparison that fails says.
    let direction = if right { Direction::Gt } else { Direction::Ge };
    let beyond = e.compare(direction, bounds, values);
    let below = e.same(ops::Not {}, &[beyond]);
    let below = e.convert(below, dtype);
    Ok(e.reduce(below, Fold::Add, &[dims.len()]).into())
}

fn histc(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let bins = cx.int("bins")?;
    let (low, high) = (cx.number("min")?.float(), cx.number("max")?.float());
    let (x, dtype) = cx.wide(x);
    let e = &mut cx.e;
    let count: i64 = e.dims(x).iter().product();
    if bins < 1 || count == 0 {
        return refuse("counts in no bins, or nothing");
    }
    let x = e.reshape(x, &[count]);
    let wide = e.dtype(x);
    let (low, high) = if low == high {
        let (least, most) = if low == 0.0 {
            (e.reduce(x, Fold::Min, &[0]), e.reduce(x, Fold::Max, &[0]))
        } else {
            (e.float(&[], wide, low), e.float(&[], wide, high))
        };
        let flat = e.compare(Direction::Eq, least, most);
        let (below, above) = (e.shift(least, -1.0), e.shift(most, 1.0));
        (e.select(flat, below, least), e.select(flat, above, most))
    } else {
        (e.float(&[], wide, low), e.float(&[], wide, high))
    };
    // The bounds of the bins, counted from the nearer end.
    let edges = bins + 1;
    let range = e.sub(high, low);
    let bins_of = e.like(range, bins as f64);
    let step = e.div(range, bins_of);
    let (low, high, step) = (
        e.broadcast_to(low, &[edges]),
        e.broadcast_to(high, &[edges]),
        e.broadcast_to(step, &[edges]),
    );
    let numbers = e.iota(&[edges], DType::S64, 0);
    let early = e.compare_to(Direction::Lt, numbers, (edges / 2) as f64);
    let up = e.convert(numbers, wide);
    let down = e.neg(up);
    let down = e.shift(down, bins as f64);
    let (up, down) = (e.mul(step, up), e.mul(step, down));
    let (up, down) = (e.add(low, up), e.sub(high, down));
    let bounds = e.select(early, up, down);
    let (values, bounds) =
        (e.broadcast_in(x, &[edges, count], &[1]), e.broadcast_in(bounds, &[edges, count], &[0]));
    // At least each bound; but what equals the last bound is inside.
    let at_least = e.compare(Direction::Ge, values, bounds);
    let above = e.compare(Direction::Gt, values, bounds);
    let last = e.iota(&[edges, count], DType::S64, 0);
    let last = e.compare_to(Direction::Eq, last, bins as f64);
    let reached = e.select(last, above, at_least);
    let reached = e.convert(reached, DType::S64);
    let reached = e.reduce(reached, Fold::Add, &[1]);
    let (from, to) = (e.slice_axis(reached, 0, 0, bins, 1), e.slice_axis(reached, 0, 1, edges, 1));
    let counts = e.sub(from, to);
    Ok(e.convert(counts, dtype).into())
}

fn isin(cx: &mut Cx<'_>) -> Res {
    let (elements, tests) = (
        if cx.given("elements") { "elements" } else { "element" },
        if cx.given("test_elements") { "test_elements" } else { "test_element" },
    );
    let both = [cx.operand(elements)?, cx.operand(tests)?];
    let dtype = cx.common(&both);
    let invert = cx.bool("invert")?;
    let [x, tests] = both.map(|operand| match operand {
        Operand::Tensor(value) => cx.e.convert(value, dtype),
        Operand::Number(number) => cx.e.full(&[], dtype, number.num()),
    });
    let e = &mut cx.e;
    let dims = e.dims(x);
    let count: i64 = e.dims(tests).iter().product();
    let tests = e.reshape(tests, &[count]);
    let mut pairs = dims.to_vec();
    pairs.push(count);
    let own: Vec<usize> = (0..dims.len()).collect();
    let (a, b) = (e.broadcast_in(x, &pairs, &own), e.broadcast_in(tests, &pairs, &[dims.len()]));
    let same = e.compare(Direction::Eq, a, b);
    let found = e.reduce(same, Fold::Or, &[dims.len()]);
    Ok(if invert { e.same(ops::Not {}, &[found]) } else { found }.into())
}
