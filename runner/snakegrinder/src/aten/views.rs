//! Views: other shapes of the same memory.

use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops;

use super::Lower;
use crate::cx::{Cx, Out, Res, axis, refuse};
use crate::value::{SlotId, View};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::alias", itself),
    ("aten::as_strided", as_strided),
    ("aten::atleast_1d", |cx| at_least(cx, 1)),
    ("aten::atleast_2d", |cx| at_least(cx, 2)),
    ("aten::broadcast_to", expand),
    ("aten::chunk", chunk),
    ("aten::contiguous", itself),
    ("aten::detach", detach),
    ("aten::detach_", detach),
    ("aten::diagonal", diagonal),
    ("aten::expand", expand),
    ("aten::expand_as", |cx| {
        let dims = dims_of(cx, "other")?;
        expand_to(cx, dims)
    }),
    ("aten::flatten", flatten),
    ("aten::imag", |cx| part(cx, true)),
    ("aten::lift", itself),
    ("aten::lift_fresh", itself),
    ("aten::mH", transpose_last),
    ("aten::mT", transpose_last),
    ("aten::moveaxis", movedim),
    ("aten::movedim", movedim),
    ("aten::narrow", narrow),
    ("aten::numpy_T", reverse_axes),
    ("aten::permute", permute),
    ("aten::positive", itself),
    ("aten::ravel", |cx| reshape_to(cx, &[-1])),
    ("aten::real", |cx| part(cx, false)),
    ("aten::requires_grad_", itself),
    ("aten::reshape", |cx| {
        let shape = cx.ints("shape")?;
        reshape_to(cx, &shape)
    }),
    ("aten::reshape_as", |cx| {
        let dims = dims_of(cx, "other")?;
        reshape_to(cx, &dims)
    }),
    ("aten::resolve_conj", itself),
    ("aten::resolve_neg", itself),
    ("aten::select", select),
    ("aten::slice", slice),
    ("aten::split", split),
    ("aten::split_with_sizes", |cx| {
        let sizes = cx.ints("split_sizes")?;
        parts(cx, &sizes)
    }),
    ("aten::squeeze", squeeze),
    ("aten::swapaxes", |cx| transpose(cx, "axis0", "axis1")),
    ("aten::swapdims", |cx| transpose(cx, "dim0", "dim1")),
    ("aten::t", reverse_axes),
    ("aten::tensor_split", tensor_split),
    ("aten::transpose", |cx| transpose(cx, "dim0", "dim1")),
    ("aten::unbind", unbind),
    ("aten::unflatten", unflatten),
    ("aten::unfold", unfold),
    ("aten::unsafe_chunk", chunk),
    ("aten::unsafe_split", split),
    ("aten::unsqueeze", unsqueeze),
    ("aten::view", view),
    ("aten::view_as", |cx| {
        let dims = dims_of(cx, "other")?;
        reshape_to(cx, &dims)
    }),
    ("aten::view_as_complex", view_as_complex),
    ("aten::view_as_real", view_as_real),
    ("aten::_conj", |cx| {
        let x = cx.tensor("self")?;
        Ok(if cx.e.dtype(x).is_complex() { cx.e.same(ops::Conj {}, &[x]).into() } else { x.into() })
    }),
    ("aten::conj", |cx| {
        let x = cx.tensor("self")?;
        Ok(if cx.e.dtype(x).is_complex() { cx.e.same(ops::Conj {}, &[x]).into() } else { x.into() })
    }),
    ("aten::_reshape_alias", |cx| {
        let size = cx.ints("size")?;
        reshape_to(cx, &size)
    }),
    ("aten::_unsafe_view", |cx| {
        let size = cx.ints("size")?;
        reshape_to(cx, &size)
    }),
];

fn itself(cx: &mut Cx<'_>) -> Res {
    Ok(Out::Slot(cx.slot("self")?))
}

/// The same memory, of which nothing flows back.
fn detach(cx: &mut Cx<'_>) -> Res {
    let slot = cx.slot("self")?;
    Ok(Out::Slot(cx.view(slot, View::Detached)))
}

fn dims_of(cx: &mut Cx<'_>, name: &str) -> Res<Vec<i64>> {
    let value = cx.tensor(name)?;
    Ok(cx.e.dims(value).to_vec())
}

/// A view with another shape; the slot itself if the shape is the same.
pub fn reshape_slot(cx: &mut Cx<'_>, slot: SlotId, inner: Vec<i64>) -> SlotId {
    let value = cx.read(slot);
    let outer = cx.e.dims(value).to_vec();
    cx.view(slot, View::Reshape { outer, inner })
}

fn slice_slot(cx: &mut Cx<'_>, slot: SlotId, axis: usize, from: i64, to: i64, step: i64) -> SlotId {
    let value = cx.read(slot);
    let mut limits = cx.e.dims(value).to_vec();
    let (mut starts, mut strides) = (vec![0; limits.len()], vec![1; limits.len()]);
    (starts[axis], limits[axis], strides[axis]) = (from, to, step);
    cx.view(slot, View::Slice { starts, limits, strides })
}

/// A shape in which one size may be -1, for whatever is left.
pub fn resolve(shape: &[i64], count: i64) -> Res<Vec<i64>> {
    let known: i64 = shape.iter().filter(|size| **size != -1).product();
    let mut dims = shape.to_vec();
    if let Some(open) = dims.iter().position(|size| *size == -1) {
        if known == 0 || count % known != 0 {
            return refuse(format!("reshapes {count} elements to {shape:?}"));
        }
        dims[open] = count / known;
    }
    if dims.iter().product::<i64>() != count {
        return refuse(format!("reshapes {count} elements to {shape:?}"));
    }
    Ok(dims)
}

fn reshape_to(cx: &mut Cx<'_>, shape: &[i64]) -> Res {
    let slot = cx.slot("self")?;
    let dims = dims_of(cx, "self")?;
    let inner = resolve(shape, dims.iter().product())?;
    Ok(Out::Slot(reshape_slot(cx, slot, inner)))
}

fn view(cx: &mut Cx<'_>) -> Res {
    if cx.given("dtype") {
        return view_bits(cx);
    }
    let size = cx.ints("size")?;
    reshape_to(cx, &size)
}

/// The same bits as another type of the same or another width.
fn view_bits(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let Some(dtype) = cx.dtype("dtype")? else { return refuse("takes an element type") };
    let (from, to) = (cx.e.dtype(x).bytes() as i64, dtype.bytes() as i64);
    let mut dims = cx.e.dims(x).to_vec();
    if from == to {
        let ty = cx.e.ty(x).with_elem(dtype);
        return Ok(cx.e.push(ops::BitcastConvert {}, &[x], ty).into());
    }
    if from > to {
        let ratio = from / to;
        let mut split = dims.clone();
        split.push(ratio);
        let ty = cx.e.ty(x).with_dims(split).with_elem(dtype);
        let bits = cx.e.push(ops::BitcastConvert {}, &[x], ty);
        if let Some(last) = dims.last_mut() {
            *last *= ratio;
        }
        return Ok(cx.e.reshape(bits, &dims).into());
    }
    let ratio = to / from;
    let Some(last) = dims.last_mut().filter(|last| **last % ratio == 0) else {
        return refuse("views bits as a wider type that does not fit");
    };
    *last /= ratio;
    let ty = cx.e.ty(x).with_dims(dims.iter().copied()).with_elem(dtype);
    let mut split = dims;
    split.push(ratio);
    let x = cx.e.reshape(x, &split);
    Ok(cx.e.push(ops::BitcastConvert {}, &[x], ty).into())
}

fn at_least(cx: &mut Cx<'_>, rank: usize) -> Res {
    let mut dims = dims_of(cx, "self")?;
    while dims.len() < rank {
        dims.insert(0, 1);
    }
    reshape_to(cx, &dims)
}

fn flatten(cx: &mut Cx<'_>) -> Res {
    let dims = dims_of(cx, "self")?;
    let start = axis(cx.int("start_dim")?, dims.len())?;
    let end = axis(cx.int("end_dim")?, dims.len())?;
    if dims.is_empty() {
        return reshape_to(cx, &[1]);
    }
    if start > end {
        return refuse("flattens no axes");
    }
    let mut shape = dims[..start].to_vec();
    shape.push(dims[start..=end].iter().product());
    shape.extend(&dims[end + 1..]);
    reshape_to(cx, &shape)
}

fn unflatten(cx: &mut Cx<'_>) -> Res {
    let dims = dims_of(cx, "self")?;
    let at = axis(cx.int("dim")?, dims.len())?;
    let sizes = resolve(&cx.ints("sizes")?, dims[at])?;
    let mut shape = dims[..at].to_vec();
    shape.extend(sizes);
    shape.extend(&dims[at + 1..]);
    reshape_to(cx, &shape)
}

fn unsqueeze(cx: &mut Cx<'_>) -> Res {
    let mut dims = dims_of(cx, "self")?;
    let at = axis(cx.int("dim")?, dims.len() + 1)?;
    dims.insert(at, 1);
    reshape_to(cx, &dims)
}

fn squeeze(cx: &mut Cx<'_>) -> Res {
    let dims = dims_of(cx, "self")?;
    let chosen: Vec<usize> = if cx.given("dim") {
        cx.ints("dim")?.iter().map(|dim| axis(*dim, dims.len())).collect::<Res<_>>()?
    } else {
        (0..dims.len()).collect()
    };
    let kept = dims.iter().enumerate().filter(|(i, size)| **size != 1 || !chosen.contains(i));
    let shape: Vec<i64> = kept.map(|(_, size)| *size).collect();
    reshape_to(cx, &shape)
}

fn permute_slot(cx: &mut Cx<'_>, permutation: Vec<usize>) -> Res {
    let slot = cx.slot("self")?;
    Ok(Out::Slot(cx.view(slot, View::Permute(permutation))))
}

fn permute(cx: &mut Cx<'_>) -> Res {
    let rank = dims_of(cx, "self")?.len();
    let permutation = cx.ints("dims")?.iter().map(|dim| axis(*dim, rank)).collect::<Res<_>>()?;
    permute_slot(cx, permutation)
}

fn transpose(cx: &mut Cx<'_>, first: &str, second: &str) -> Res {
    let rank = dims_of(cx, "self")?.len();
    let (a, b) = (axis(cx.int(first)?, rank)?, axis(cx.int(second)?, rank)?);
    let mut permutation: Vec<usize> = (0..rank).collect();
    if rank > 0 {
        permutation.swap(a, b);
    }
    permute_slot(cx, permutation)
}

fn transpose_last(cx: &mut Cx<'_>) -> Res {
    let rank = dims_of(cx, "self")?.len();
    let mut permutation: Vec<usize> = (0..rank).collect();
    if rank >= 2 {
        permutation.swap(rank - 1, rank - 2);
    }
    permute_slot(cx, permutation)
}

fn reverse_axes(cx: &mut Cx<'_>) -> Res {
    let rank = dims_of(cx, "self")?.len();
    permute_slot(cx, (0..rank).rev().collect())
}

fn movedim(cx: &mut Cx<'_>) -> Res {
    let rank = dims_of(cx, "self")?.len();
    let of = |name: &str| -> Res<Vec<usize>> {
        cx.ints(name)?.iter().map(|dim| axis(*dim, rank)).collect()
    };
    let (from, to) = (of("source")?, of("destination")?);
    let mut permutation = vec![usize::MAX; rank];
    from.iter().zip(&to).for_each(|(from, to)| permutation[*to] = *from);
    let mut rest = (0..rank).filter(|axis| !from.contains(axis));
    for slot in permutation.iter_mut().filter(|slot| **slot == usize::MAX) {
        *slot = rest.next().unwrap_or(0);
    }
    permute_slot(cx, permutation)
}

fn expand(cx: &mut Cx<'_>) -> Res {
    let size = cx.ints("size")?;
    let dims = dims_of(cx, "self")?;
    if size.len() < dims.len() {
        return refuse(format!("expands {dims:?} to {size:?}"));
    }
    let skip = size.len() - dims.len();
    let shape = size
        .iter()
        .enumerate()
        .map(|(i, size)| if *size == -1 && i >= skip { dims[i - skip] } else { *size });
    let shape = shape.collect();
    expand_to(cx, shape)
}

fn expand_to(cx: &mut Cx<'_>, dims: Vec<i64>) -> Res {
    let slot = cx.slot("self")?;
    Ok(Out::Slot(cx.view(slot, View::Expand(dims))))
}

/// A place on an axis, counted from the front and held within it.
fn clamp(at: i64, size: i64) -> i64 {
    (if at < 0 { at.saturating_add(size) } else { at }).clamp(0, size)
}

fn slice(cx: &mut Cx<'_>) -> Res {
    let slot = cx.slot("self")?;
    let dims = dims_of(cx, "self")?;
    let at = axis(cx.int("dim")?, dims.len())?;
    let start = clamp(cx.maybe_int("start")?.unwrap_or(0), dims[at]);
    let end = clamp(cx.maybe_int("end")?.unwrap_or(i64::MAX), dims[at]).max(start);
    Ok(Out::Slot(slice_slot(cx, slot, at, start, end, cx.int("step")?)))
}

fn narrow(cx: &mut Cx<'_>) -> Res {
    let slot = cx.slot("self")?;
    let dims = dims_of(cx, "self")?;
    let at = axis(cx.int("dim")?, dims.len())?;
    let start = clamp(cx.int("start")?, dims[at]);
    let end = start + cx.int("length")?;
    Ok(Out::Slot(slice_slot(cx, slot, at, start, end, 1)))
}

fn select_slot(cx: &mut Cx<'_>, slot: SlotId, at: usize, index: i64) -> SlotId {
    let one = slice_slot(cx, slot, at, index, index + 1, 1);
    let value = cx.read(one);
    let mut dims = cx.e.dims(value).to_vec();
    dims.remove(at);
    reshape_slot(cx, one, dims)
}

fn select(cx: &mut Cx<'_>) -> Res {
    let slot = cx.slot("self")?;
    let dims = dims_of(cx, "self")?;
    let at = axis(cx.int("dim")?, dims.len())?;
    let index = cx.int("index")?;
    let index = if index < 0 { index + dims[at] } else { index };
    if !(0..dims[at]).contains(&index) {
        return refuse(format!("selects {index} of an axis of {}", dims[at]));
    }
    Ok(Out::Slot(select_slot(cx, slot, at, index)))
}

fn unbind(cx: &mut Cx<'_>) -> Res {
    let slot = cx.slot("self")?;
    let dims = dims_of(cx, "self")?;
    let at = axis(cx.int("dim")?, dims.len())?;
    let outs = (0..dims[at]).map(|i| Out::Slot(select_slot(cx, slot, at, i))).collect();
    Ok(Out::Many(outs))
}

/// Consecutive pieces of these sizes.
fn parts(cx: &mut Cx<'_>, sizes: &[i64]) -> Res {
    let slot = cx.slot("self")?;
    let rank = dims_of(cx, "self")?.len();
    let at = axis(cx.int("dim")?, rank)?;
    let mut start = 0;
    let mut outs = Vec::with_capacity(sizes.len());
    for size in sizes {
        outs.push(Out::Slot(slice_slot(cx, slot, at, start, start + size, 1)));
        start += size;
    }
    Ok(Out::Many(outs))
}

fn pieces(size: i64, step: i64) -> Vec<i64> {
    let step = step.max(1);
    let mut sizes: Vec<i64> = (0..size / step).map(|_| step).collect();
    if size % step != 0 || sizes.is_empty() {
        sizes.push(size % step);
    }
    sizes
}

fn split(cx: &mut Cx<'_>) -> Res {
    let dims = dims_of(cx, "self")?;
    let at = axis(cx.int("dim")?, dims.len())?;
    let sizes = if cx.given("split_size") {
        let sizes = cx.ints("split_size")?;
        if sizes.len() == 1 { pieces(dims[at], sizes[0]) } else { sizes }
    } else {
        cx.ints("split_sizes")?
    };
    parts(cx, &sizes)
}

fn chunk(cx: &mut Cx<'_>) -> Res {
    let dims = dims_of(cx, "self")?;
    let at = axis(cx.int("dim")?, dims.len())?;
    let chunks = cx.int("chunks")?.max(1);
    let step = (dims[at] + chunks - 1) / chunks;
    parts(cx, &pieces(dims[at], step))
}

fn tensor_split(cx: &mut Cx<'_>) -> Res {
    let dims = dims_of(cx, "self")?;
    let size = dims[axis(cx.int("dim")?, dims.len())?];
    let ends: Vec<i64> = if cx.given("indices") {
        let ends = cx.ints("indices")?;
        ends.iter().map(|end| clamp(*end, size)).chain([size]).collect()
    } else {
        let n = cx.int("sections")?.max(1);
        (1..=n).map(|i| i * (size / n) + i.min(size % n)).collect()
    };
    let mut start = 0;
    let sizes: Vec<i64> = ends
        .iter()
        .map(|end| {
            let size = (end - start).max(0);
            start = *end;
            size
        })
        .collect();
    parts(cx, &sizes)
}

fn diagonal(cx: &mut Cx<'_>) -> Res {
    let slot = cx.slot("self")?;
    let rank = dims_of(cx, "self")?.len();
    let (first, second) = (axis(cx.int("dim1")?, rank)?, axis(cx.int("dim2")?, rank)?);
    let offset = cx.int("offset")?;
    Ok(Out::Slot(cx.view(slot, View::Diagonal { offset, first, second })))
}

fn part(cx: &mut Cx<'_>, imaginary: bool) -> Res {
    let slot = cx.slot("self")?;
    let value = cx.read(slot);
    if !cx.e.dtype(value).is_complex() {
        return if imaginary { refuse("takes a complex tensor") } else { Ok(Out::Slot(slot)) };
    }
    Ok(Out::Slot(cx.view(slot, View::Part { imaginary })))
}

fn view_as_real(cx: &mut Cx<'_>) -> Res {
    let z = cx.tensor("self")?;
    let ty = cx.e.ty(z).clone();
    let ty = ty.with_elem(ty.elem.storage().part());
    let rank = ty.rank();
    let re = cx.e.push(ops::Real {}, &[z], ty.clone());
    let im = cx.e.push(ops::Imag {}, &[z], ty);
    let (re, im) = (cx.e.unsqueeze(re, &[rank]), cx.e.unsqueeze(im, &[rank]));
    Ok(cx.e.concat(&[re, im], rank).into())
}

fn view_as_complex(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dims = cx.e.dims(x).to_vec();
    let Some(dtype) = cx.e.dtype(x).complex_of() else {
        return refuse(format!("views {} as complex", cx.e.dtype(x)));
    };
    let last = dims.len().saturating_sub(1);
    let inner = dims[..last].to_vec();
    let re = cx.e.slice_axis(x, last, 0, 1, 1);
    let im = cx.e.slice_axis(x, last, 1, 2, 1);
    let (re, im) = (cx.e.reshape(re, &inner), cx.e.reshape(im, &inner));
    let ty = cx.e.ty(re).with_elem(dtype);
    Ok(cx.e.push(ops::Complex {}, &[re, im], ty).into())
}

/// Sliding windows of one axis, as a new last axis.
fn unfold(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dims = cx.e.dims(x).to_vec();
    let at = axis(cx.int("dimension")?, dims.len())?;
    let (size, step) = (cx.int("size")?, cx.int("step")?);
    let count = (dims[at] - size) / step + 1;
    let places: Vec<i64> = (0..count).flat_map(|i| (0..size).map(move |j| i * step + j)).collect();
    let places = cx.e.ints(&places, &[count, size], DType::S64);
    let windows = cx.e.take(x, at, places);
    let rank = dims.len() + 1;
    let mut order: Vec<usize> = (0..rank).filter(|axis| *axis != at + 1).collect();
    order.push(at + 1);
    Ok(cx.e.transpose(windows, &order).into())
}

/// Any strides over a tensor whose own are those of row-major order.
fn as_strided(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let count: i64 = cx.e.dims(x).iter().product();
    let (size, stride) = (cx.ints("size")?, cx.ints("stride")?);
    let offset = cx.maybe_int("storage_offset")?.unwrap_or(0);
    let total: i64 = size.iter().product();
    let mut places = Vec::with_capacity(total as usize);
    for i in 0..total {
        let (mut rest, mut place) = (i, offset);
        for axis in (0..size.len()).rev() {
            place += rest % size[axis] * stride[axis];
            rest /= size[axis];
        }
        if !(0..count).contains(&place) {
            return refuse("strides past the tensor's own elements");
        }
        places.push(place);
    }
    let flat = cx.e.reshape(x, &[count]);
    let places = cx.e.ints(&places, &size, DType::S64);
    Ok(cx.e.take(flat, 0, places).into())
}
