//! Pooling: the largest or the mean of each window.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use super::reduce::extreme_and_place;
use crate::cx::{Cx, Out, Res, refuse};
use warpforge_snakeburger::build::{Emitter, Fold, V, Window};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::_adaptive_avg_pool2d", |cx| adaptive_avg(cx, 2)),
    ("aten::_adaptive_avg_pool3d", |cx| adaptive_avg(cx, 3)),
    ("aten::adaptive_avg_pool1d", |cx| adaptive_avg(cx, 1)),
    ("aten::adaptive_avg_pool2d", |cx| adaptive_avg(cx, 2)),
    ("aten::adaptive_avg_pool3d", |cx| adaptive_avg(cx, 3)),
    ("aten::adaptive_max_pool1d", |cx| adaptive_max(cx, 1)),
    ("aten::adaptive_max_pool2d", |cx| adaptive_max(cx, 2)),
    ("aten::adaptive_max_pool3d", |cx| adaptive_max(cx, 3)),
    ("aten::avg_pool1d", |cx| avg(cx, 1)),
    ("aten::avg_pool2d", |cx| avg(cx, 2)),
    ("aten::avg_pool3d", |cx| avg(cx, 3)),
    ("aten::max_pool1d", |cx| max(cx, 1, false)),
    ("aten::max_pool1d_with_indices", |cx| max(cx, 1, true)),
    ("aten::max_pool2d", |cx| max(cx, 2, false)),
    ("aten::max_pool2d_with_indices", |cx| max(cx, 2, true)),
    ("aten::max_pool3d", |cx| max(cx, 3, false)),
    ("aten::max_pool3d_with_indices", |cx| max(cx, 3, true)),
    ("aten::max_unpool2d", |cx| max_unpool(cx, 2)),
    ("aten::max_unpool3d", |cx| max_unpool(cx, 3)),
];

/// Where windows lie along the last axes, and how many there are.
struct Geometry {
    window: Window,
    padding: Vec<i64>,
    counts: Vec<i64>,
    first: usize,
}

fn geometry(cx: &Cx<'_>, x: V, space: usize) -> Res<Geometry> {
    let dims = cx.e.dims(x);
    let Some(first) = dims.len().checked_sub(space).filter(|first| *first > 0) else {
        return refuse(format!("pools {} along {space} axes", cx.e.ty(x)));
    };
    let sizes = cx.ints_n("kernel_size", space)?;
    let strides = match cx.ints("stride")? {
        none if none.is_empty() => sizes.clone(),
        _ => cx.ints_n("stride", space)?,
    };
    let padding = cx.ints_n("padding", space)?;
    let dilation =
        cx.ints_n("dilation", space).or_else(|_| Ok::<_, crate::cx::Why>(vec![1; space]))?;
    let ceil = cx.bool("ceil_mode")?;
    let mut window = Window::new(dims.len());
    let mut counts = Vec::new();
    for i in 0..space {
        let (size, stride, pad, at) = (sizes[i], strides[i], padding[i], first + i);
        let reach = dilation[i] * (size - 1) + 1;
        if stride < 1 || size < 1 {
            return refuse("pools with an empty window or no stride");
        }
        let room = dims[at] + 2 * pad - reach + if ceil { stride - 1 } else { 0 };
        let mut count = room.div_euclid(stride) + 1;
        // A window that would start beyond the input and its padding before it is left out.
        if ceil && (count - 1) * stride >= dims[at] + pad {
            count -= 1;
        }
        if count < 1 {
            return refuse("pools with a window larger than the input");
        }
        window.sizes[at] = size;
        window.strides[at] = stride;
        window.dilation[at] = dilation[i];
        window.low[at] = pad;
        window.high[at] = ((count - 1) * stride + reach - dims[at] - pad).max(0);
        counts.push(count);
    }
    Ok(Geometry { window, padding, counts, first })
}

fn max(cx: &mut Cx<'_>, space: usize, places: bool) -> Res {
    let x = cx.tensor("self")?;
    let geometry = geometry(cx, x, space)?;
    let y = cx.e.reduce_window(x, Fold::Max, &geometry.window);
    if !places {
        return Ok(y.into());
    }
    let index = max_places(&mut cx.e, x, &geometry);
    Ok(Out::many([y, index]))
}

/// The number of each element along the last axes, counted through.
fn numbered(e: &mut Emitter, dims: &[i64], first: usize) -> V {
    let count: i64 = dims[first..].iter().product();
    let line = e.iota(&[count], DType::S64, 0);
    let plane = e.reshape(line, &dims[first..]);
    e.broadcast_to(plane, dims)
}

/// Where in the input the largest element of each window stands: the first of equals, the last
/// of NaNs.
fn max_places(e: &mut Emitter, x: V, geometry: &Geometry) -> V {
    let (ty, window) = (e.ty(x).clone(), &geometry.window);
    let dtype = ty.elem.storage();
    let index = numbered(e, &ty.dims, geometry.first);
    let (value, place) = (TensorTy::scalar(dtype), TensorTy::scalar(DType::S64));
    let types = [value.clone(), place.clone(), value, place];
    let region = e.region(&types, |e, args| {
        let (a, i, b, j) = (args[0], args[1], args[2], args[3]);
        // What stands for padding has no place of its own and never wins.
        let real = e.compare_to(Direction::Ge, j, 0.0);
        let unset = e.compare_to(Direction::Lt, i, 0.0);
        let mut better = e.compare(Direction::Gt, b, a);
        if dtype.is_float() {
            let nan = e.compare(Direction::Ne, b, b);
            better = e.same(ops::Or {}, &[better, nan]);
        }
        let better = e.same(ops::Or {}, &[better, unset]);
        let take = e.same(ops::And {}, &[better, real]);
        vec![e.select(take, b, a), e.select(take, j, i)]
    });
    let start = e.neutral(Fold::Max, dtype);
    let none = e.full(&[], DType::S64, Num::I(-1));
    let counts = window.result(&ty.dims);
    let results = [ty.with_dims(counts.iter().copied()), TensorTy::new(counts, DType::S64)];
    e.push_many(window.op(), &[x, index, start, none], &results, &[region])[1]
}

fn avg(cx: &mut Cx<'_>, space: usize) -> Res {
    let x = cx.tensor("self")?;
    let geometry = geometry(cx, x, space)?;
    let dims = cx.e.dims(x);
    let dtype = cx.e.dtype(x);
    let with_padding = cx.bool("count_include_pad")?;
    let divisor = if space > 1 { cx.maybe_int("divisor_override")? } else { None };
    if divisor == Some(0) {
        return refuse("divides by zero");
    }
    let wide = crate::promote::wide(dtype);
    let x = cx.e.convert(x, wide);
    let sum = cx.e.reduce_window(x, Fold::Add, &geometry.window);
    let members: Vec<Vec<i64>> = (0..space)
        .map(|i| {
            let at = geometry.first + i;
            let (size, pad) = (geometry.window.sizes[at], geometry.padding[i]);
            (0..geometry.counts[i])
                .map(|k| {
                    let start = k * geometry.window.strides[at] - pad;
                    let end = (start + size).min(dims[at] + pad);
                    if with_padding { end - start } else { end.min(dims[at]) - start.max(0) }
                })
                .collect()
        })
        .collect();
    let y = match divisor {
        Some(divisor) => {
            let divisor = cx.e.like(sum, divisor as f64);
            cx.e.div(sum, divisor)
        }
        None => divide(&mut cx.e, sum, &members, geometry.first),
    };
    Ok(cx.e.convert(y, dtype).into())
}

/// Divides sums along the last axes by the number of elements they are of, which is a product of
/// one number for each axis.
fn divide(e: &mut Emitter, sum: V, members: &[Vec<i64>], first: usize) -> V {
    let even = members.iter().all(|list| list.iter().all(|n| *n == list[0]));
    let divisor = if even {
        let count: i64 = members.iter().map(|list| list.first().copied().unwrap_or(1)).product();
        e.like(sum, count as f64)
    } else {
        let mut table = vec![1i64];
        for list in members {
            table = table.iter().flat_map(|n| list.iter().map(move |m| n * m)).collect();
        }
        let table: Vec<f64> = table.into_iter().map(|n| n as f64).collect();
        let (dims, dtype) = (e.dims(sum), e.dtype(sum));
        let table = e.floats(&table, &dims[first..], dtype);
        e.broadcast_to(table, &dims)
    };
    e.div(sum, divisor)
}

/// The windows of an adaptive pool along one axis: where each starts and ends.
fn spans(size: i64, count: i64) -> Vec<(i64, i64)> {
    (0..count).map(|i| (i * size / count, ((i + 1) * size + count - 1) / count)).collect()
}

/// The first pooled axis and the number of windows along each.
fn adaptive(cx: &Cx<'_>, x: V, space: usize) -> Res<(usize, Vec<i64>)> {
    let dims = cx.e.dims(x);
    let Some(first) = dims.len().checked_sub(space).filter(|first| *first > 0) else {
        return refuse(format!("pools {} along {space} axes", cx.e.ty(x)));
    };
    let counts = cx.ints_n("output_size", space)?;
    if dims[first..].contains(&0) || counts.iter().any(|n| *n < 1) {
        return refuse("pools an empty tensor");
    }
    Ok((first, counts))
}

/// The elements of each window of one axis on a new axis after it; short windows are filled up.
fn unrolled(e: &mut Emitter, x: V, at: usize, spans: &[(i64, i64)], with: Num) -> V {
    let (count, width) =
        (spans.len() as i64, spans.iter().map(|(from, to)| to - from).max().unwrap_or(1));
    let place = |(from, to): &(i64, i64), k: i64| (from + k).min(to - 1);
    let places: Vec<i64> =
        spans.iter().flat_map(|span| (0..width).map(move |k| place(span, k))).collect();
    let places = e.ints(&places, &[count, width], DType::S64);
    let taken = e.take(x, at, places);
    if spans.iter().all(|(from, to)| to - from == width) {
        return taken;
    }
    let inside: Vec<i64> = spans
        .iter()
        .flat_map(|(from, to)| (0..width).map(move |k| i64::from(from + k < *to)))
        .collect();
    let inside = e.ints(&inside, &[count, width], DType::S64);
    let inside = e.convert(inside, DType::I1);
    let (dims, dtype) = (e.dims(taken), e.dtype(taken));
    let inside = e.broadcast_in(inside, &dims, &[at, at + 1]);
    let fill = e.full(&dims, dtype, with);
    e.select(inside, taken, fill)
}

fn adaptive_avg(cx: &mut Cx<'_>, space: usize) -> Res {
    let x = cx.tensor("self")?;
    let (first, counts) = adaptive(cx, x, space)?;
    let dims = cx.e.dims(x);
    let (mut y, dtype) = cx.wide(x);
    let e = &mut cx.e;
    if counts.iter().all(|n| *n == 1) {
        let axes: Vec<usize> = (first..dims.len()).collect();
        y = e.reduce_keep(y, Fold::Add, &axes);
    } else if (0..space).all(|i| dims[first + i] % counts[i] == 0) {
        let mut window = Window::new(dims.len());
        for i in 0..space {
            window.sizes[first + i] = dims[first + i] / counts[i];
            window.strides[first + i] = dims[first + i] / counts[i];
        }
        y = e.reduce_window(y, Fold::Add, &window);
    } else {
        for i in 0..space {
            let spans = spans(dims[first + i], counts[i]);
            let parts = unrolled(e, y, first + i, &spans, Num::F(0.0));
            y = e.reduce(parts, Fold::Add, &[first + i + 1]);
        }
    }
    let members: Vec<Vec<i64>> = (0..space)
        .map(|i| spans(dims[first + i], counts[i]).iter().map(|(from, to)| to - from).collect())
        .collect();
    let y = divide(e, y, &members, first);
    Ok(e.convert(y, dtype).into())
}

fn adaptive_max(cx: &mut Cx<'_>, space: usize) -> Res {
    let x = cx.tensor("self")?;
    let (first, counts) = adaptive(cx, x, space)?;
    let dims = cx.e.dims(x);
    let e = &mut cx.e;
    let dtype = e.dtype(x);
    let least =
        if dtype.is_int() { Num::I(dtype.int_range().0 as i64) } else { Num::F(f64::NEG_INFINITY) };
    let mut y = x;
    let mut index = numbered(e, &dims, first);
    // Backwards, so that of equals the first counted through is found.
    for i in (0..space).rev() {
        let at = first + i;
        let spans = spans(dims[at], counts[i]);
        let parts = unrolled(e, y, at, &spans, least);
        let places = unrolled(e, index, at, &spans, Num::I(0));
        let (_, chosen) = extreme_and_place(e, parts, Fold::Max, at + 1);
        y = e.reduce(parts, Fold::Max, &[at + 1]);
        let chosen = e.unsqueeze(chosen, &[at + 1]);
        let taken = e.gather_along(places, at + 1, chosen);
        let kept = e.dims(y);
        index = e.reshape(taken, &kept);
    }
    Ok(Out::many([y, index]))
}

fn max_unpool(cx: &mut Cx<'_>, space: usize) -> Res {
    let (x, index) = (cx.tensor("self")?, cx.tensor("indices")?);
    let size = cx.ints_n("output_size", space)?;
    let dims = cx.e.dims(x);
    let Some(first) = dims.len().checked_sub(space) else {
        return refuse(format!("unpools {} along {space} axes", cx.e.ty(x)));
    };
    let e = &mut cx.e;
    let flat = |last: i64| -> Vec<i64> { dims[..first].iter().copied().chain([last]).collect() };
    let inner = flat(dims[first..].iter().product());
    let outer = flat(size.iter().product());
    let (x, index) = (e.reshape(x, &inner), e.reshape(index, &inner));
    let dtype = e.dtype(x);
    let empty = e.zeros(&outer, dtype);
    let y = e.scatter_along(empty, first, index, x, None);
    let shape: Vec<i64> = dims[..first].iter().chain(&size).copied().collect();
    Ok(e.reshape(y, &shape).into())
}
