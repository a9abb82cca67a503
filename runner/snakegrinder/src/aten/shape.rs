//! New tensors from the elements of others: joined, repeated, turned, padded.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops;

use super::Lower;
use super::index::which_repeated;
use crate::cx::{Cx, Number, Operand, Out, Res, axis, broadcast, refuse};
use warpforge_snakeburger::build::{Emitter, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::broadcast_tensors", |cx| {
        let tensors = cx.tensors("tensors")?;
        let shapes: Vec<Vec<i64>> = tensors.iter().map(|t| cx.e.dims(*t).to_vec()).collect();
        let dims = broadcast(&shapes)?;
        Ok(Out::many(tensors.iter().map(|t| cx.e.broadcast_to(*t, &dims)).collect::<Vec<_>>()))
    }),
    ("aten::cat", |cx| cat(cx, "tensors")),
    ("aten::concat", |cx| cat(cx, "tensors")),
    ("aten::concatenate", |cx| cat(cx, "tensors")),
    ("aten::channel_shuffle", channel_shuffle),
    ("aten::native_channel_shuffle", channel_shuffle),
    ("aten::constant_pad_nd", |cx| {
        let x = cx.tensor("self")?;
        let value = cx.number("value")?.float();
        let pad = cx.ints("pad")?;
        Ok(constant_pad(&mut cx.e, x, &pad, value).into())
    }),
    ("aten::diag_embed", diag_embed),
    ("aten::flip", flip),
    ("aten::fliplr", |cx| flip_axes(cx, &[1])),
    ("aten::flipud", |cx| flip_axes(cx, &[0])),
    ("aten::hstack", |cx| {
        let tensors = cx.tensors("tensors")?;
        let at = usize::from(tensors.first().is_some_and(|t| cx.e.rank(*t) > 1));
        Ok(join(cx, &tensors, at)?.into())
    }),
    ("aten::meshgrid", meshgrid),
    ("aten::pad", pad),
    ("aten::pixel_shuffle", pixel_shuffle),
    ("aten::pixel_unshuffle", pixel_unshuffle),
    ("aten::reflection_pad1d", |cx| pad_by(cx, "padding", reflect)),
    ("aten::reflection_pad2d", |cx| pad_by(cx, "padding", reflect)),
    ("aten::reflection_pad3d", |cx| pad_by(cx, "padding", reflect)),
    ("aten::repeat", repeat),
    ("aten::repeat_interleave", repeat_interleave),
    ("aten::replication_pad1d", |cx| pad_by(cx, "padding", replicate)),
    ("aten::replication_pad2d", |cx| pad_by(cx, "padding", replicate)),
    ("aten::replication_pad3d", |cx| pad_by(cx, "padding", replicate)),
    ("aten::roll", roll),
    ("aten::rot90", rot90),
    ("aten::stack", stack),
    ("aten::tile", tile),
    ("aten::vstack", |cx| {
        let mut tensors = cx.tensors("tensors")?;
        for t in &mut tensors {
            let mut dims = cx.e.dims(*t).to_vec();
            while dims.len() < 2 {
                dims.insert(0, 1);
            }
            *t = cx.e.reshape(*t, &dims);
        }
        Ok(join(cx, &tensors, 0)?.into())
    }),
];

/// Tensors end to end, in their common type. One-dimensional empty ones are left out, as PyTorch
/// leaves them out.
pub fn join(cx: &mut Cx<'_>, tensors: &[V], at: usize) -> Res<V> {
    let operands: Vec<Operand> = tensors.iter().map(|t| Operand::Tensor(*t)).collect();
    let dtype = cx.common(&operands);
    let all: Vec<V> = tensors
        .iter()
        .copied()
        .filter(|t| cx.e.dims(*t)[..] != [0] || tensors.iter().all(|t| cx.e.rank(*t) == 1))
        .collect();
    let all: Vec<V> = all.into_iter().map(|t| cx.e.convert(t, dtype)).collect();
    if all.is_empty() {
        return refuse("joins no tensors");
    }
    Ok(cx.e.concat(&all, at))
}

fn cat(cx: &mut Cx<'_>, name: &str) -> Res {
    let tensors = cx.tensors(name)?;
    let rank = tensors.iter().map(|t| cx.e.rank(*t)).max().unwrap_or(0);
    let at = axis(cx.int("dim")?, rank)?;
    Ok(join(cx, &tensors, at)?.into())
}

fn stack(cx: &mut Cx<'_>) -> Res {
    let tensors = cx.tensors("tensors")?;
    let rank = tensors.first().map_or(0, |t| cx.e.rank(*t));
    let at = axis(cx.int("dim")?, rank + 1)?;
    let tensors: Vec<V> = tensors.into_iter().map(|t| cx.e.unsqueeze(t, &[at])).collect();
    Ok(join(cx, &tensors, at)?.into())
}

/// The whole tensor `times` as often along each axis.
fn repeated(e: &mut Emitter, x: V, times: &[i64]) -> V {
    let mut dims = e.dims(x).to_vec();
    while dims.len() < times.len() {
        dims.insert(0, 1);
    }
    let x = e.reshape(x, &dims);
    let wide: Vec<i64> = times.iter().zip(&dims).flat_map(|(n, size)| [*n, *size]).collect();
    let axes: Vec<usize> = (0..dims.len()).map(|i| 2 * i + 1).collect();
    let x = e.broadcast_in(x, &wide, &axes);
    let dims: Vec<i64> = times.iter().zip(&dims).map(|(n, size)| n * size).collect();
    e.reshape(x, &dims)
}

fn repeat(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let times = cx.ints("repeats")?;
    Ok(repeated(&mut cx.e, x, &times).into())
}

fn tile(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let mut times = cx.ints("dims")?;
    while times.len() < cx.e.rank(x) {
        times.insert(0, 1);
    }
    Ok(repeated(&mut cx.e, x, &times).into())
}

/// The tensor and the axis along which it is repeated; without one it is taken as a line.
fn repeated_axis(cx: &mut Cx<'_>) -> Res<(V, usize)> {
    let x = cx.tensor("self")?;
    if let Some(dim) = cx.maybe_int("dim")? {
        return Ok((x, axis(dim, cx.e.rank(x))?));
    }
    let count: i64 = cx.e.dims(x).iter().product();
    Ok((cx.e.reshape(x, &[count]), 0))
}

/// Each element as often as a tensor says; the size of the result must have been given.
fn repeat_by(cx: &mut Cx<'_>) -> Res {
    let times = cx.tensor("repeats")?;
    let Some(size) = cx.maybe_int("output_size")? else {
        return refuse("repeats as often as a tensor says, so its shape depends on values");
    };
    if !cx.given("self") {
        return Ok(which_repeated(&mut cx.e, times, size).into());
    }
    let (x, at) = repeated_axis(cx)?;
    // A single number of times holds for all.
    let count = cx.e.dims(x).get(at).copied().unwrap_or(1);
    let times = match cx.e.dims(times)[..] {
        [n] if n == count => times,
        [] | [1] => {
            let one = cx.e.reshape(times, &[1]);
            cx.e.broadcast_in(one, &[count], &[0])
        }
        _ => return refuse(format!("repeats {} by {}", cx.e.ty(x), cx.e.ty(times))),
    };
    let places = which_repeated(&mut cx.e, times, size);
    Ok(cx.e.gather_at(x, &[at], &[places], at).into())
}

fn repeat_interleave(cx: &mut Cx<'_>) -> Res {
    let Ok(times) = cx.int("repeats") else {
        return repeat_by(cx);
    };
    let (x, at) = repeated_axis(cx)?;
    let mut dims = cx.e.dims(x).to_vec();
    let mut wide = dims.clone();
    wide.insert(at + 1, times);
    let axes: Vec<usize> = (0..wide.len()).filter(|axis| *axis != at + 1).collect();
    let x = cx.e.broadcast_in(x, &wide, &axes);
    dims[at] *= times;
    Ok(cx.e.reshape(x, &dims).into())
}

fn flip_axes(cx: &mut Cx<'_>, axes: &[usize]) -> Res {
    let x = cx.tensor("self")?;
    Ok(if axes.is_empty() { x } else { cx.e.reverse(x, axes) }.into())
}

fn flip(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let rank = cx.e.rank(x);
    let axes: Vec<usize> = cx.ints("dims")?.iter().map(|d| axis(*d, rank)).collect::<Res<_>>()?;
    flip_axes(cx, &axes)
}

fn roll(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dims = cx.e.dims(x).to_vec();
    let (shifts, axes) = (cx.ints("shifts")?, cx.ints("dims")?);
    if axes.is_empty() {
        let count = dims.iter().product();
        let flat = cx.e.reshape(x, &[count]);
        let turned = turn(&mut cx.e, flat, 0, shifts[0]);
        return Ok(cx.e.reshape(turned, &dims).into());
    }
    let mut x = x;
    for (shift, dim) in shifts.iter().zip(&axes) {
        x = turn(&mut cx.e, x, axis(*dim, dims.len())?, *shift);
    }
    Ok(x.into())
}

fn turn(e: &mut Emitter, x: V, at: usize, shift: i64) -> V {
    let size = e.dims(x)[at];
    let shift = if size == 0 { 0 } else { shift.rem_euclid(size) };
    if shift == 0 {
        return x;
    }
    let tail = e.slice_axis(x, at, size - shift, size, 1);
    let head = e.slice_axis(x, at, 0, size - shift, 1);
    e.concat(&[tail, head], at)
}

fn rot90(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dims = cx.ints("dims")?;
    let (a, b) = (axis(dims[0], cx.e.rank(x))?, axis(dims[1], cx.e.rank(x))?);
    Ok(match cx.int("k")?.rem_euclid(4) {
        1 => {
            let flipped = cx.e.reverse(x, &[b]);
            cx.e.swap(flipped, a, b)
        }
        2 => cx.e.reverse(x, &[a, b]),
        3 => {
            let turned = cx.e.swap(x, a, b);
            cx.e.reverse(turned, &[b])
        }
        _ => x,
    }
    .into())
}

/// Amounts as PyTorch lists them, the last axis first, turned into low and high per axis.
fn amounts(pad: &[i64], rank: usize) -> (Vec<i64>, Vec<i64>) {
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    for (i, pair) in pad.chunks(2).enumerate().take(rank) {
        (low[rank - 1 - i], high[rank - 1 - i]) = (pair[0], pair.get(1).copied().unwrap_or(0));
    }
    (low, high)
}

pub fn constant_pad(e: &mut Emitter, x: V, pad: &[i64], value: f64) -> V {
    let rank = e.rank(x);
    let (low, high) = amounts(pad, rank);
    let dtype = e.dtype(x);
    let value = if dtype.is_int() { Num::I(value as i64) } else { Num::F(value) };
    e.pad(x, &low, &high, &vec![0; rank], value.fit(dtype))
}

/// Where an index outside an axis of this size is mirrored to, the edge not repeated.
pub fn reflect(at: i64, size: i64) -> i64 {
    if size == 1 {
        return 0;
    }
    let period = 2 * (size - 1);
    let at = at.rem_euclid(period);
    at.min(period - at)
}

fn replicate(at: i64, size: i64) -> i64 {
    at.clamp(0, size - 1)
}

fn circular(at: i64, size: i64) -> i64 {
    at.rem_euclid(size)
}

/// Pads with elements of the tensor itself.
fn pad_by(cx: &mut Cx<'_>, name: &str, place: fn(i64, i64) -> i64) -> Res {
    let mut x = cx.tensor("self")?;
    let rank = cx.e.rank(x);
    let (low, high) = amounts(&cx.ints(name)?, rank);
    for at in 0..rank {
        if (low[at], high[at]) == (0, 0) {
            continue;
        }
        let size = cx.e.dims(x)[at];
        let places: Vec<i64> = (-low[at]..size + high[at]).map(|i| place(i, size)).collect();
        let places = cx.e.ints(&places, &[places.len() as i64], DType::S64);
        x = cx.e.take(x, at, places);
    }
    Ok(x.into())
}

fn pad(cx: &mut Cx<'_>) -> Res {
    match &*cx.str("mode")? {
        "constant" => {
            let x = cx.tensor("self")?;
            let value = cx.maybe_number("value")?.map_or(0.0, Number::float);
            let pad = cx.ints("pad")?;
            Ok(constant_pad(&mut cx.e, x, &pad, value).into())
        }
        "reflect" => pad_by(cx, "pad", reflect),
        "replicate" => pad_by(cx, "pad", replicate),
        "circular" => pad_by(cx, "pad", circular),
        other => refuse(format!("pads by {other}")),
    }
}

fn meshgrid(cx: &mut Cx<'_>) -> Res {
    let tensors = cx.tensors("tensors")?;
    let swap = cx.given("indexing") && &*cx.str("indexing")? == "xy" && tensors.len() >= 2;
    let sizes: Vec<i64> = tensors.iter().map(|t| cx.e.dims(*t).iter().product()).collect();
    let mut dims = sizes.clone();
    if swap {
        dims.swap(0, 1);
    }
    let mut outs = Vec::new();
    for (i, t) in tensors.iter().enumerate() {
        let at = match (swap, i) {
            (true, 0) => 1,
            (true, 1) => 0,
            _ => i,
        };
        let flat = cx.e.reshape(*t, &[sizes[i]]);
        outs.push(cx.e.broadcast_in(flat, &dims, &[at]));
    }
    Ok(Out::many(outs))
}

fn pixel_shuffle(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let r = cx.int("upscale_factor")?;
    let dims = cx.e.dims(x).to_vec();
    let n = dims.len();
    let (c, h, w) = (dims[n - 3] / (r * r), dims[n - 2], dims[n - 1]);
    let batch = dims[..n - 3].to_vec();
    let b = batch.len();
    let wide: Vec<i64> = batch.iter().copied().chain([c, r, r, h, w]).collect();
    let x = cx.e.reshape(x, &wide);
    let order: Vec<usize> = (0..b).chain([b, b + 3, b + 1, b + 4, b + 2]).collect();
    let x = cx.e.transpose(x, &order);
    let result: Vec<i64> = batch.into_iter().chain([c, h * r, w * r]).collect();
    Ok(cx.e.reshape(x, &result).into())
}

fn pixel_unshuffle(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let r = cx.int("downscale_factor")?;
    let dims = cx.e.dims(x).to_vec();
    let n = dims.len();
    let (c, h, w) = (dims[n - 3], dims[n - 2] / r, dims[n - 1] / r);
    let batch = dims[..n - 3].to_vec();
    let b = batch.len();
    let wide: Vec<i64> = batch.iter().copied().chain([c, h, r, w, r]).collect();
    let x = cx.e.reshape(x, &wide);
    let order: Vec<usize> = (0..b).chain([b, b + 2, b + 4, b + 1, b + 3]).collect();
    let x = cx.e.transpose(x, &order);
    let result: Vec<i64> = batch.into_iter().chain([c * r * r, h, w]).collect();
    Ok(cx.e.reshape(x, &result).into())
}

fn channel_shuffle(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let groups = cx.int("groups")?;
    let dims = cx.e.dims(x).to_vec();
    let mut wide = dims.clone();
    wide.splice(1..2, [groups, dims[1] / groups]);
    let x = cx.e.reshape(x, &wide);
    let x = cx.e.swap(x, 1, 2);
    Ok(cx.e.reshape(x, &dims).into())
}

/// The last axis becomes the diagonal of two new ones.
fn diag_embed(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dims = cx.e.dims(x).to_vec();
    let rank = dims.len() + 1;
    let offset = cx.int("offset")?;
    let (first, second) = (axis(cx.int("dim1")?, rank)?, axis(cx.int("dim2")?, rank)?);
    let n = dims[dims.len() - 1];
    let size = n + offset.abs();
    let mut square = dims[..dims.len() - 1].to_vec();
    square.extend([n, n]);
    let (i, j) =
        (cx.e.iota(&square, DType::S64, rank - 2), cx.e.iota(&square, DType::S64, rank - 1));
    let on = cx.e.compare(ops::Direction::Eq, i, j);
    let axes: Vec<usize> = (0..rank - 2).chain([rank - 1]).collect();
    let spread = cx.e.broadcast_in(x, &square, &axes);
    let dtype = cx.e.dtype(x);
    let zero = cx.e.full(&square, dtype, Num::I(0).fit(dtype));
    let square = cx.e.select(on, spread, zero);
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    (low[rank - 2], high[rank - 1]) = ((-offset).max(0), (-offset).max(0));
    (high[rank - 2], low[rank - 1]) = (offset.max(0), offset.max(0));
    debug_assert!(size >= n);
    let square = cx.e.pad(square, &low, &high, &vec![0; rank], Num::I(0).fit(dtype));
    let mut order = vec![usize::MAX; rank];
    (order[first], order[second]) = (rank - 2, rank - 1);
    let mut rest = 0..rank - 2;
    for place in order.iter_mut().filter(|place| **place == usize::MAX) {
        *place = rest.next().unwrap_or(0);
    }
    Ok(cx.e.transpose(square, &order).into())
}
