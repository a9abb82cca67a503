//! Resizing images. Sizes are known, so that which elements a result is made of, and by how much
//! of each, are constants. They are computed as PyTorch does: in the type it computes in, step by
//! step, since a rounding may decide which element is taken.

use warpforge_snakeburger::ir::DType;

use super::Lower;
use crate::cx::{Cx, Number, Res, as_number, refuse};
use crate::promote;
use crate::value::Val;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::_upsample_bicubic2d_aa", |cx| smooth(cx, 2, Filter::CubicAntialias)),
    ("aten::_upsample_bilinear2d_aa", |cx| smooth(cx, 2, Filter::LinearAntialias)),
    ("aten::_upsample_nearest_exact1d", |cx| nearest(cx, 1, true)),
    ("aten::_upsample_nearest_exact2d", |cx| nearest(cx, 2, true)),
    ("aten::_upsample_nearest_exact3d", |cx| nearest(cx, 3, true)),
    ("aten::upsample_bicubic2d", |cx| smooth(cx, 2, Filter::Cubic)),
    ("aten::upsample_bilinear2d", |cx| smooth(cx, 2, Filter::Linear)),
    ("aten::upsample_linear1d", |cx| smooth(cx, 1, Filter::Linear)),
    ("aten::upsample_nearest1d", |cx| nearest(cx, 1, false)),
    ("aten::upsample_nearest2d", |cx| nearest(cx, 2, false)),
    ("aten::upsample_nearest3d", |cx| nearest(cx, 3, false)),
    ("aten::upsample_trilinear3d", |cx| smooth(cx, 3, Filter::Linear)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Filter {
    Linear,
    Cubic,
    LinearAntialias,
    CubicAntialias,
}

/// Arithmetic in the type PyTorch uses.
#[derive(Clone, Copy)]
struct Precision {
    double: bool,
}

impl Precision {
    fn of(dtype: DType) -> Self {
        Self { double: dtype == DType::F64 }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn round(self, x: f64) -> f64 {
        if self.double { x } else { f64::from(x as f32) }
    }
}

/// The input, and along each resized axis its new size and the factor it was given by, if any.
struct Sizes {
    x: V,
    first: usize,
    axes: Vec<(i64, Option<f64>)>,
}

fn sizes(cx: &mut Cx<'_>, space: usize) -> Res<Sizes> {
    let x = cx.tensor(if cx.given("input") { "input" } else { "self" })?;
    let dims = cx.e.dims(x);
    if dims.len() != space + 2 || dims.contains(&0) {
        return refuse(format!("resizes {} along {space} axes", cx.e.ty(x)));
    }
    let factors: Vec<Option<f64>> = if cx.given("input") {
        match cx.val("scale_factors")? {
            Val::List(items) => {
                items.iter().map(|item| as_number(item).map(Number::float)).collect()
            }
            _ => Vec::new(),
        }
    } else if space == 1 {
        vec![cx.maybe_float("scales")?]
    } else {
        let names = &["scales_d", "scales_h", "scales_w"][3 - space..];
        names.iter().map(|name| cx.maybe_float(name)).collect::<Res<_>>()?
    };
    let factor = |i: usize| factors.get(i).copied().flatten();
    let sizes = match cx.maybe_ints("output_size")? {
        Some(sizes) if sizes.len() == space => sizes,
        _ => (0..space)
            .map(|i| match factor(i) {
                Some(factor) => Ok((dims[i + 2] as f64 * factor) as i64),
                None => refuse("resizes by nothing"),
            })
            .collect::<Res<_>>()?,
    };
    if sizes.iter().any(|size| *size < 1) {
        return refuse(format!("resizes to {sizes:?}"));
    }
    let axes = sizes.into_iter().enumerate().map(|(i, size)| (size, factor(i))).collect();
    Ok(Sizes { x, first: 2, axes })
}

/// How far apart neighbours of the result lie in the input.
fn step(p: Precision, from: i64, to: i64, factor: Option<f64>, corners: bool) -> f64 {
    if corners {
        return if to > 1 { p.round((from - 1) as f64 / (to - 1) as f64) } else { 0.0 };
    }
    match factor {
        Some(factor) if factor > 0.0 => p.round(1.0 / factor),
        _ => p.round(from as f64 / to as f64),
    }
}

fn nearest(cx: &mut Cx<'_>, space: usize, exact: bool) -> Res {
    let Sizes { x, first, axes } = sizes(cx, space)?;
    let mut y = x;
    // Places are found in single precision, whatever the elements' type.
    let p = Precision { double: false };
    for (i, (size, factor)) in axes.into_iter().enumerate() {
        let at = first + i;
        let from = cx.e.dims(y)[at];
        let step = step(p, from, size, factor, false);
        let place = |k: i64| {
            let at = if exact { p.round(k as f64 + 0.5) } else { k as f64 };
            (p.round(at * step).floor() as i64).clamp(0, from - 1)
        };
        let places: Vec<i64> = (0..size).map(place).collect();
        y = repeat_or_take(&mut cx.e, y, at, &places);
    }
    Ok(y.into())
}

/// Elements along an axis; by repetition where each is taken equally often and in order.
fn repeat_or_take(e: &mut Emitter, x: V, at: usize, places: &[i64]) -> V {
    let dims = e.dims(x);
    let (from, to) = (dims[at], places.len() as i64);
    let times = to / from;
    if to % from == 0 && (0..to).zip(places).all(|(k, place)| k / times == *place) {
        if times == 1 {
            return x;
        }
        let mut wide = dims.to_vec();
        wide.insert(at + 1, times);
        let axes: Vec<usize> = (0..wide.len()).filter(|axis| *axis != at + 1).collect();
        let y = e.broadcast_in(x, &wide, &axes);
        let mut dims = dims;
        dims[at] = to;
        return e.reshape(y, &dims);
    }
    let places = e.ints(places, &[to], DType::S64);
    e.take(x, at, places)
}

/// Which elements one element of a result is made of, and by how much of each.
type Taps = Vec<(i64, f64)>;

fn smooth(cx: &mut Cx<'_>, space: usize, filter: Filter) -> Res {
    let Sizes { x, first, axes } = sizes(cx, space)?;
    let corners = cx.bool("align_corners")?;
    let dtype = cx.e.dtype(x);
    if !dtype.is_float() {
        return refuse(format!("interpolates {dtype}"));
    }
    let p = Precision::of(dtype);
    let mut y = cx.e.convert(x, promote::wide(dtype));
    for (i, (size, factor)) in axes.into_iter().enumerate().rev() {
        let at = first + i;
        let from = cx.e.dims(y)[at];
        let step = step(p, from, size, factor, corners);
        let taps: Vec<Taps> = (0..size)
            .map(|k| match filter {
                Filter::Linear => linear(p, k, [from, size], step, corners),
                Filter::Cubic => cubic(p, k, from, step, corners),
                Filter::LinearAntialias => antialias(p, k, from, step, 2.0, |x| {
                    let x = x.abs();
                    if x < 1.0 { p.round(1.0 - x) } else { 0.0 }
                }),
                Filter::CubicAntialias => antialias(p, k, from, step, 4.0, |x| {
                    let x = x.abs();
                    match x {
                        x if x < 1.0 => near(p, x, -0.5),
                        x if x < 2.0 => far(p, x, -0.5),
                        _ => 0.0,
                    }
                }),
            })
            .collect();
        y = weighted(&mut cx.e, y, at, &taps);
    }
    Ok(cx.e.convert(y, dtype).into())
}

/// Where in the input an element of the result lies.
fn source(p: Precision, k: i64, step: f64, corners: bool) -> f64 {
    if corners {
        p.round(step * k as f64)
    } else {
        p.round(p.round(step * p.round(k as f64 + 0.5)) - 0.5)
    }
}

fn linear(p: Precision, k: i64, [from, to]: [i64; 2], step: f64, corners: bool) -> Taps {
    if from == to {
        return vec![(k, 1.0)];
    }
    let real = source(p, k, step, corners).max(0.0);
    let low = (real as i64).min(from - 1);
    let weight = p.round(real - low as f64).clamp(0.0, 1.0);
    vec![(low, p.round(1.0 - weight)), ((low + 1).min(from - 1), weight)]
}

/// The middle part of the cubic kernel.
fn near(p: Precision, x: f64, a: f64) -> f64 {
    let inner = p.round(p.round((a + 2.0) * x) - (a + 3.0));
    p.round(p.round(p.round(inner * x) * x) + 1.0)
}

/// The outer part of the cubic kernel.
fn far(p: Precision, x: f64, a: f64) -> f64 {
    let inner = p.round(p.round(a * x) - 5.0 * a);
    let inner = p.round(p.round(inner * x) + 8.0 * a);
    p.round(p.round(inner * x) - 4.0 * a)
}

fn cubic(p: Precision, k: i64, from: i64, step: f64, corners: bool) -> Taps {
    let real = source(p, k, step, corners);
    let low = real.floor();
    let t = p.round(real - low).clamp(0.0, 1.0);
    let other = p.round(1.0 - t);
    let weights = [
        far(p, p.round(t + 1.0), -0.75),
        near(p, t, -0.75),
        near(p, other, -0.75),
        far(p, p.round(other + 1.0), -0.75),
    ];
    let place = |i: i64| (low as i64 - 1 + i).clamp(0, from - 1);
    (0..).zip(weights).map(|(i, weight)| (place(i), weight)).collect()
}

/// A kernel as wide as the step, so that no element of the input is passed over.
fn antialias(
    p: Precision,
    k: i64,
    from: i64,
    step: f64,
    taps: f64,
    kernel: impl Fn(f64) -> f64,
) -> Taps {
    let reach = if step >= 1.0 { p.round(taps * 0.5 * step) } else { taps * 0.5 };
    let squeeze = if step >= 1.0 { p.round(1.0 / step) } else { 1.0 };
    let center = p.round(step * p.round(k as f64 + 0.5));
    let start = (p.round(p.round(center - reach) + 0.5) as i64).max(0);
    let end = (p.round(p.round(center + reach) + 0.5) as i64).min(from);
    let most = reach.ceil() as i64 * 2 + 1;
    let count = (end - start).clamp(0, most);
    let weight = |j: i64| {
        let distance = p.round(p.round((j + start) as f64 - center) + 0.5);
        kernel(p.round(distance * squeeze))
    };
    let weights: Vec<f64> = (0..count).map(weight).collect();
    let total = weights.iter().fold(0.0, |sum, weight| p.round(sum + weight));
    (start..).zip(weights.into_iter().map(|weight| p.round(weight / total))).collect()
}

/// Sums of elements along an axis, each by its weight.
fn weighted(e: &mut Emitter, x: V, at: usize, taps: &[Taps]) -> V {
    let size = taps.len() as i64;
    let width = taps.iter().map(Vec::len).max().unwrap_or(1).max(1);
    // Short lists are filled with what weighs nothing.
    let padded = |list: &Taps, i: usize| {
        list.get(i).copied().unwrap_or((list.first().map_or(0, |tap| tap.0), 0.0))
    };
    let all: Vec<(i64, f64)> =
        taps.iter().flat_map(|list| (0..width).map(move |i| padded(list, i))).collect();
    if width == 1 && all.iter().all(|(_, weight)| *weight == 1.0) {
        let places: Vec<i64> = all.iter().map(|(place, _)| *place).collect();
        return repeat_or_take(e, x, at, &places);
    }
    let shape = [size, width as i64];
    let places: Vec<i64> = all.iter().map(|(place, _)| *place).collect();
    let weights: Vec<f64> = all.iter().map(|(_, weight)| *weight).collect();
    let places = e.ints(&places, &shape, DType::S64);
    let taken = e.take(x, at, places);
    let (dims, dtype) = (e.dims(taken), e.dtype(taken));
    let weights = e.floats(&weights, &shape, dtype);
    let weights = e.broadcast_in(weights, &dims, &[at, at + 1]);
    let parts = e.mul(taken, weights);
    e.reduce(parts, Fold::Add, &[at + 1])
}
