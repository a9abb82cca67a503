//! Elements chosen by index tensors, and written to where index tensors say.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use super::math::and;
use super::scan::running_sum;
use crate::cx::{Cx, Operand, Out, Res, axis, broadcast, refuse};
use crate::promote;
use crate::value::View;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::_index_put_impl", index_put),
    ("aten::_unsafe_index", index),
    ("aten::_unsafe_index_put", index_put),
    ("aten::diagonal_scatter", diagonal_scatter),
    ("aten::gather", |cx| {
        let (x, at, index, dims) = along(cx)?;
        let y = cx.e.gather_along(x, at, index);
        Ok(cx.e.reshape(y, &dims).into())
    }),
    ("aten::index", index),
    ("aten::index_put", index_put),
    ("aten::index_select", |cx| {
        let (x, index) = (cx.tensor("self")?, cx.tensor("index")?);
        let dims = cx.e.dims(x);
        if dims.is_empty() {
            return Ok(x.into());
        }
        let at = axis(cx.int("dim")?, dims.len())?;
        let count: i64 = cx.e.dims(index).iter().product();
        let index = cx.e.reshape(index, &[count]);
        Ok(cx.e.gather_at(x, &[at], &[index], at).into())
    }),
    ("aten::masked_scatter", masked_scatter),
    ("aten::put", put),
    ("aten::select_scatter", select_scatter),
    ("aten::slice_scatter", slice_scatter),
    ("aten::take", |cx| {
        let (x, index) = (cx.tensor("self")?, cx.tensor("index")?);
        let count: i64 = cx.e.dims(x).iter().product();
        let flat = cx.e.reshape(x, &[count]);
        let index = cx.e.wrap(index, count);
        Ok(cx.e.gather_at(flat, &[0], &[index], 0).into())
    }),
    ("aten::take_along_dim", take_along_dim),
];

/// Operators that yield as many elements as the values of their operands say.
pub const OPEN: &[&str] = &[
    "aten::_unique",
    "aten::_unique2",
    "aten::argwhere",
    "aten::bincount",
    "aten::masked_select",
    "aten::nonzero",
    "aten::nonzero_numpy",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::unique_dim_consecutive",
    "torchvision::nms",
];

/// The tensor, axis and index of a gather or scatter, each with an axis at least, and the index's
/// own shape.
pub fn along(cx: &mut Cx<'_>) -> Res<(V, usize, V, Vec<i64>)> {
    let (x, index) = (cx.tensor("self")?, cx.tensor("index")?);
    let dims = cx.e.dims(index).to_vec();
    let (x, index) = (with_axis(&mut cx.e, x), with_axis(&mut cx.e, index));
    let rank = cx.e.rank(x);
    let at = axis(cx.int("dim")?, rank)?;
    if cx.e.rank(index) != rank {
        return refuse(format!("chooses from {} by {}", cx.e.ty(x), cx.e.ty(index)));
    }
    let index = cx.e.convert(index, DType::S64);
    Ok((x, at, index, dims))
}

/// A tensor without axes gets one.
pub fn with_axis(e: &mut Emitter, x: V) -> V {
    if e.rank(x) == 0 { e.reshape(x, &[1]) } else { x }
}

/// Index tensors that replace axes of a tensor.
struct Advanced {
    axes: Vec<usize>,
    /// One for each axis, all of one shape.
    indices: Vec<V>,
    /// Before which of the remaining axes the indices' axes stand.
    place: usize,
}

fn is_mask(e: &Emitter, index: V) -> bool {
    matches!(e.dtype(index), DType::I1 | DType::U8)
}

fn advanced(cx: &mut Cx<'_>, x: V, list: &[Option<V>]) -> Res<Advanced> {
    let dims = cx.e.dims(x);
    if list.len() > dims.len() {
        return refuse(format!("indexes {} by {} tensors", cx.e.ty(x), list.len()));
    }
    let axes: Vec<usize> = (0..list.len()).filter(|i| list[*i].is_some()).collect();
    let given: Vec<V> = list.iter().flatten().copied().collect();
    if given.iter().any(|index| is_mask(&cx.e, *index)) {
        return refuse("takes the elements a mask marks, so its shape depends on values");
    }
    let shapes: Vec<Vec<i64>> = given.iter().map(|index| cx.e.dims(*index).to_vec()).collect();
    let shape = broadcast(&shapes)?;
    let indices = axes
        .iter()
        .zip(given)
        .map(|(at, index)| {
            let index = cx.e.wrap(index, dims[*at]);
            cx.e.broadcast_to(index, &shape)
        })
        .collect();
    // Indices side by side stay where they are; those of separate axes move to the front.
    let adjacent = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let place = if adjacent { axes.first().copied().unwrap_or(0) } else { 0 };
    Ok(Advanced { axes, indices, place })
}

fn index(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let list = cx.maybe_tensors("indices")?;
    let by = advanced(cx, x, &list)?;
    if by.axes.is_empty() {
        return Ok(x.into());
    }
    Ok(cx.e.gather_at(x, &by.axes, &by.indices, by.place).into())
}

fn index_put(cx: &mut Cx<'_>) -> Res {
    let (x, values) = (cx.tensor("self")?, cx.tensor("values")?);
    let list = cx.maybe_tensors("indices")?;
    let accumulate = cx.bool("accumulate")?;
    let dtype = cx.e.dtype(x);
    let values = cx.e.convert(values, dtype);
    let mut masks = list.iter().flatten().filter(|index| is_mask(&cx.e, **index));
    if masks.next().is_some() {
        return mask_put(cx, x, &list, values, accumulate);
    }
    let by = advanced(cx, x, &list)?;
    if by.axes.is_empty() {
        return refuse("writes by no index at all");
    }
    let dims = cx.e.dims(x);
    let mut shape: Vec<i64> =
        (0..dims.len()).filter(|at| !by.axes.contains(at)).map(|at| dims[at]).collect();
    let batch = cx.e.dims(by.indices[0]);
    shape.splice(by.place..by.place, batch.iter().copied());
    let values = shaped(&mut cx.e, values, &shape)?;
    let e = &mut cx.e;
    Ok(added(e, x, values, accumulate, |e, x, values, fold| {
        e.scatter_at(x, &by.axes, &by.indices, by.place, values, fold)
    })
    .into())
}

/// Repeats values to a shape; axes of size one that are too many at the front are dropped.
fn shaped(e: &mut Emitter, values: V, shape: &[i64]) -> Res<V> {
    let dims = e.dims(values).to_vec();
    let extra = dims.len().saturating_sub(shape.len());
    if dims[..extra].iter().any(|size| *size != 1)
        || broadcast(&[dims[extra..].to_vec(), shape.to_vec()])? != shape
    {
        return refuse(format!("writes values of {dims:?} where {shape:?} belong"));
    }
    let values = e.reshape(values, &dims[extra..]);
    Ok(e.broadcast_to(values, shape))
}

/// Writes values, or adds them in the wide type.
fn added(
    e: &mut Emitter,
    x: V,
    values: V,
    accumulate: bool,
    put: impl FnOnce(&mut Emitter, V, V, Option<Fold>) -> V,
) -> V {
    if !accumulate {
        return put(e, x, values, None);
    }
    let dtype = e.dtype(x);
    if dtype.is_bool() {
        return put(e, x, values, Some(Fold::Or));
    }
    let wide = promote::wide(dtype);
    let (x, values) = (e.convert(x, wide), e.convert(values, wide));
    let sum = put(e, x, values, Some(Fold::Add));
    e.convert(sum, dtype)
}

/// Writes to the places a mask marks: one value to all of them, or the values in order.
fn mask_put(cx: &mut Cx<'_>, x: V, list: &[Option<V>], values: V, accumulate: bool) -> Res {
    let before = list.iter().take_while(|index| index.is_none()).count();
    let (Some(Some(mask)), true) = (list.get(before), list.iter().flatten().count() == 1) else {
        return mask_and_places(cx, x, list, values, accumulate);
    };
    let mask = cx.e.convert(*mask, DType::I1);
    let dims = cx.e.dims(x);
    let over = before + cx.e.rank(mask);
    if dims.len() < over || cx.e.dims(mask)[..] != dims[before..over] {
        return refuse(format!("marks {} by {}", cx.e.ty(x), cx.e.ty(mask)));
    }
    let e = &mut cx.e;
    let axes: Vec<usize> = (before..over).collect();
    let spread = e.broadcast_in(mask, &dims, &axes);
    // The marked elements are one axis of the values, which stands where the mask's axes do.
    let after = dims.len() - over;
    let mut shape = e.dims(values).to_vec();
    while shape.len() < before + 1 + after {
        shape.insert(0, 1);
    }
    let extra = shape.len() - (before + 1 + after);
    if shape[..extra].iter().any(|size| *size != 1) {
        return refuse("writes values of more axes than are marked");
    }
    shape.drain(..extra);
    let values = e.reshape(values, &shape);
    let values = if shape[before] == 1 {
        let mut wide = shape[..before].to_vec();
        wide.extend(vec![1; over - before]);
        wide.extend(&shape[before + 1..]);
        let values = e.reshape(values, &wide);
        let fits = wide.iter().zip(&dims[..]).all(|(from, to)| *from == 1 || from == to);
        if !fits {
            return refuse(format!("writes values of {shape:?} to {dims:?}"));
        }
        let all: Vec<usize> = (0..dims.len()).collect();
        e.broadcast_in(values, &dims, &all)
    } else {
        let places = marked_places(e, mask, shape[before]);
        let taken = e.take(values, before, places);
        let fits = e.dims(taken).iter().zip(&dims[..]).all(|(from, to)| *from == 1 || from == to);
        if !fits {
            return refuse(format!("writes values of {shape:?} to {dims:?}"));
        }
        let all: Vec<usize> = (0..dims.len()).collect();
        e.broadcast_in(taken, &dims, &all)
    };
    let values = if accumulate { e.fold_two(Fold::Add, x, values) } else { values };
    Ok(e.select(spread, values, x).into())
}

/// Writes where all masks are set and the other axes are at one place each. A mask stands for the
/// unknown number of places it marks, so the values must be the same for all of them.
fn mask_and_places(cx: &mut Cx<'_>, x: V, list: &[Option<V>], values: V, accumulate: bool) -> Res {
    let dims = cx.e.dims(x).to_vec();
    let e = &mut cx.e;
    let mut marked: Option<V> = None;
    let (mut axis, mut indexed, mut masks) = (0, Vec::new(), 0);
    for index in list {
        let Some(index) = *index else {
            axis += 1;
            continue;
        };
        let here = if is_mask(e, index) {
            masks += 1;
            let axes: Vec<usize> = (axis..axis + e.rank(index)).collect();
            if axes.last().is_none_or(|last| *last >= dims.len())
                || e.dims(index)[..] != dims[axes[0]..=axes[axes.len() - 1]]
            {
                return refuse(format!("marks {} by {}", e.ty(x), e.ty(index)));
            }
            let mask = e.convert(index, DType::I1);
            indexed.extend(&axes);
            axis += axes.len();
            e.broadcast_in(mask, &dims, &axes)
        } else {
            if axis >= dims.len() || e.dims(index).iter().product::<i64>() != 1 {
                return refuse("writes by a mask together with a list of places");
            }
            let place = e.wrap(index, dims[axis]);
            let place = e.reshape(place, &[]);
            let place = e.broadcast_in(place, &dims, &[]);
            let own = e.iota(&dims, DType::S64, axis);
            let place = e.convert(place, DType::S64);
            indexed.push(axis);
            axis += 1;
            e.compare(Direction::Eq, own, place)
        };
        marked = Some(match marked {
            Some(before) => and(e, before, here),
            None => here,
        });
    }
    // Two masks stand for pairs of places, and not for all their combinations.
    let (Some(marked), 1) = (marked, masks) else {
        return refuse("writes by several masks");
    };
    let adjacent = indexed.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let place = if adjacent { indexed[0] } else { 0 };
    let rest: Vec<usize> = (0..dims.len()).filter(|axis| !indexed.contains(axis)).collect();
    let mut shape: Vec<i64> = e.dims(values).to_vec();
    while shape.len() < rest.len() + 1 {
        shape.insert(0, 1);
    }
    if shape.len() != rest.len() + 1 || shape.remove(place) != 1 {
        return refuse("writes a value of its own to each of the places a mask marks");
    }
    if !rest.iter().zip(&shape).all(|(axis, size)| *size == 1 || *size == dims[*axis]) {
        return refuse(format!("writes values of {shape:?} to {dims:?}"));
    }
    let mut whole = vec![1; dims.len()];
    rest.iter().zip(&shape).for_each(|(axis, size)| whole[*axis] = *size);
    let values = e.reshape(values, &whole);
    let all: Vec<usize> = (0..dims.len()).collect();
    let values = e.broadcast_in(values, &dims, &all);
    let values = if accumulate { e.fold_two(Fold::Add, x, values) } else { values };
    Ok(e.select(marked, values, x).into())
}

/// For each marked element how many are marked before it, and a number below `limit` elsewhere.
fn marked_places(e: &mut Emitter, mask: V, limit: i64) -> V {
    let dims = e.dims(mask);
    let count: i64 = dims.iter().product();
    let flat = e.reshape(mask, &[count]);
    let ones = e.convert(flat, DType::S64);
    let sums = running_sum(e, ones, 0);
    let places = e.shift(sums, -1.0);
    let low = e.full(&[], DType::S64, Num::I(0));
    let high = e.full(&[], DType::S64, Num::I(limit - 1));
    let ty = e.ty(places).clone();
    let places = e.push(ops::Clamp {}, &[low, places, high], ty);
    e.reshape(places, &dims)
}

/// The elements of the source in order, where the mask is set.
fn masked_scatter(cx: &mut Cx<'_>) -> Res {
    let (x, mask, source) = (cx.tensor("self")?, cx.tensor("mask")?, cx.tensor("source")?);
    let shapes = [cx.e.dims(x).to_vec(), cx.e.dims(mask).to_vec()];
    let dims = broadcast(&shapes)?;
    let e = &mut cx.e;
    let mask = e.convert(mask, DType::I1);
    let (x, mask) = (e.broadcast_to(x, &dims), e.broadcast_to(mask, &dims));
    let count: i64 = e.dims(source).iter().product();
    if count == 0 {
        return Ok(x.into());
    }
    let source = e.reshape(source, &[count]);
    let places = marked_places(e, mask, count);
    let taken = e.take(source, 0, places);
    Ok(e.select(mask, taken, x).into())
}

/// For each element of a result of `size`, which element it repeats, if each is repeated as often
/// as a list says.
pub fn which_repeated(e: &mut Emitter, times: V, size: i64) -> V {
    let count = e.dims(times)[0];
    let times = e.convert(times, DType::S64);
    let ends = running_sum(e, times, 0);
    let ends = e.broadcast_in(ends, &[size, count], &[1]);
    let places = e.iota(&[size, count], DType::S64, 0);
    let past = e.compare(Direction::Le, ends, places);
    let past = e.convert(past, DType::S64);
    e.reduce(past, Fold::Add, &[1])
}

fn put(cx: &mut Cx<'_>) -> Res {
    let (x, index, source) = (cx.tensor("self")?, cx.tensor("index")?, cx.tensor("source")?);
    let accumulate = cx.bool("accumulate")?;
    let e = &mut cx.e;
    let dims = e.dims(x);
    let count: i64 = dims.iter().product();
    let flat = e.reshape(x, &[count]);
    let places: i64 = e.dims(index).iter().product();
    let index = e.reshape(index, &[places]);
    let index = e.wrap(index, count);
    let source = e.reshape(source, &[places]);
    let y = added(e, flat, source, accumulate, |e, x, values, fold| {
        e.scatter_at(x, &[0], &[index], 0, values, fold)
    });
    Ok(e.reshape(y, &dims).into())
}

fn take_along_dim(cx: &mut Cx<'_>) -> Res {
    let (x, index) = (cx.tensor("self")?, cx.tensor("indices")?);
    let Some(dim) = cx.maybe_int("dim")? else {
        let (size, count) = (cx.e.dims(x).iter().product(), cx.e.dims(index).iter().product());
        let (x, index) = (cx.e.reshape(x, &[size]), cx.e.reshape(index, &[count]));
        let index = cx.e.wrap(index, size);
        return Ok(cx.e.gather_along(x, 0, index).into());
    };
    let (dims, places) = (cx.e.dims(x).to_vec(), cx.e.dims(index).to_vec());
    if dims.len() != places.len() || dims.is_empty() {
        return refuse(format!("chooses from {dims:?} by {places:?}"));
    }
    let at = axis(dim, dims.len())?;
    let (mut whole, mut wanted) = (dims.clone(), places.clone());
    (whole[at], wanted[at]) = (1, 1);
    let others = broadcast(&[whole, wanted])?;
    let (mut whole, mut wanted) = (others.clone(), others);
    (whole[at], wanted[at]) = (dims[at], places[at]);
    let (x, index) = (cx.e.broadcast_to(x, &whole), cx.e.broadcast_to(index, &wanted));
    let index = cx.e.wrap(index, dims[at]);
    Ok(cx.e.gather_along(x, at, index).into())
}

/// A copy of the tensor with a view of it set to `src`.
fn set_view(cx: &mut Cx<'_>, x: V, views: Vec<View>) -> Res {
    let src = cx.operand("src")?;
    let Operand::Tensor(src) = src else { return refuse("takes a tensor as src") };
    let copy = cx.slots.add(x);
    let mut slot = copy;
    for view in views {
        slot = cx.view(slot, view);
    }
    cx.write(slot, src)?;
    Ok(Out::New(cx.read(copy)))
}

fn span(dims: &[i64], at: usize, from: i64, to: i64, step: i64) -> View {
    let mut limits = dims.to_vec();
    let (mut starts, mut strides) = (vec![0; dims.len()], vec![1; dims.len()]);
    (starts[at], limits[at], strides[at]) = (from, to, step);
    View::Slice { starts, limits, strides }
}

fn select_scatter(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dims = cx.e.dims(x).to_vec();
    let at = axis(cx.int("dim")?, dims.len())?;
    let (index, size) = (cx.int("index")?, dims.get(at).copied().unwrap_or(0));
    let index = if index < 0 { index + size } else { index };
    if !(0..size).contains(&index) {
        return refuse(format!("selects {index} of {dims:?}"));
    }
    let mut outer = dims.clone();
    outer[at] = 1;
    let mut inner = dims.clone();
    inner.remove(at);
    let views = vec![span(&dims, at, index, index + 1, 1), View::Reshape { outer, inner }];
    set_view(cx, x, views)
}

fn slice_scatter(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dims = cx.e.dims(x).to_vec();
    let at = axis(cx.int("dim")?, dims.len())?;
    let Some(size) = dims.get(at).copied() else {
        return refuse("slices a tensor without axes");
    };
    let clamp = |n: i64| (if n < 0 { n + size } else { n }).clamp(0, size);
    let start = clamp(cx.maybe_int("start")?.unwrap_or(0));
    let end = clamp(cx.maybe_int("end")?.unwrap_or(i64::MAX)).max(start);
    let step = cx.int("step")?;
    set_view(cx, x, vec![span(&dims, at, start, end, step)])
}

fn diagonal_scatter(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let rank = cx.e.rank(x);
    let (first, second) = (axis(cx.int("dim1")?, rank)?, axis(cx.int("dim2")?, rank)?);
    let offset = cx.int("offset")?;
    set_view(cx, x, vec![View::Diagonal { offset, first, second }])
}
