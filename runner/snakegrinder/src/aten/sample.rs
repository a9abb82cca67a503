//! Images sampled at places that are values: grids, regions of interest.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use crate::cx::{Cx, Res, refuse};
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::affine_grid_generator", affine_grid),
    ("aten::grid_sampler", grid_sampler),
    ("aten::grid_sampler_2d", grid_sampler),
    ("aten::grid_sampler_3d", grid_sampler),
    ("torchvision::roi_align", roi_align),
];

/// Coordinates from -1 to 1 of a size's elements: of their centres, or from end to end.
fn centres(size: i64, corners: bool) -> Vec<f64> {
    let scale = if corners || size < 1 { 1.0 } else { (size - 1) as f64 / size as f64 };
    (0..size)
        .map(
            |i| {
                if size <= 1 {
                    0.0
                } else {
                    (2 * i - (size - 1)) as f64 / (size - 1) as f64 * scale
                }
            },
        )
        .collect()
}

fn affine_grid(cx: &mut Cx<'_>) -> Res {
    let theta = cx.tensor("theta")?;
    let (size, corners) = (cx.ints("size")?, cx.bool("align_corners")?);
    let space = size.len().saturating_sub(2);
    let wanted = [size.first().copied().unwrap_or(0), space as i64, space as i64 + 1];
    if !(2..=3).contains(&space) || cx.e.dims(theta)[..] != wanted {
        return refuse(format!("makes a grid of {size:?} by {}", cx.e.ty(theta)));
    }
    let (theta, dtype) = cx.wide(theta);
    let e = &mut cx.e;
    let points: i64 = size[2..].iter().product();
    // Of each point its coordinates, the last axis first, and a one.
    let lists: Vec<Vec<f64>> = size[2..].iter().map(|size| centres(*size, corners)).collect();
    let mut base = Vec::new();
    for point in 0..points {
        let mut rest = point;
        for list in lists.iter().rev() {
            base.push(list[(rest % list.len() as i64) as usize]);
            rest /= list.len() as i64;
        }
        base.push(1.0);
    }
    let wide = e.dtype(theta);
    let base = e.floats(&base, &[points, space as i64 + 1], wide);
    let grid = e.dot(theta, base, &[], &[], &[2], &[1]);
    let grid = e.transpose(grid, &[0, 2, 1]);
    let mut dims = vec![size[0]];
    dims.extend(&size[2..]);
    dims.push(space as i64);
    let grid = e.reshape(grid, &dims);
    Ok(e.convert(grid, dtype).into())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Zeros,
    Border,
    Reflection,
}

/// One axis of an image that is sampled.
#[derive(Clone, Copy)]
struct Side {
    size: i64,
    beyond: Beyond,
    corners: bool,
}

impl Side {
    /// Keeps a coordinate within the image, as the mode of padding says.
    fn confine(self, e: &mut Emitter, x: V) -> V {
        match self.beyond {
            Beyond::Zeros => {
                // Anything this far out is as good as any other, and fits an integer.
                clamp(e, x, -4.0, self.size as f64 + 4.0)
            }
            Beyond::Border => clamp(e, x, 0.0, (self.size - 1) as f64),
            Beyond::Reflection => {
                let reflected = self.reflect(e, x);
                clamp(e, reflected, 0.0, (self.size - 1) as f64)
            }
        }
    }

    fn reflect(self, e: &mut Emitter, x: V) -> V {
        let (low, high) =
            if self.corners { (0, 2 * (self.size - 1)) } else { (-1, 2 * self.size - 1) };
        if low == high {
            return e.like(x, 0.0);
        }
        let (low, span) = (low as f64 / 2.0, (high - low) as f64 / 2.0);
        let x = e.shift(x, -low);
        let x = e.same(ops::Abs {}, &[x]);
        let length = e.like(x, span);
        let extra = e.same(ops::Remainder {}, &[x, length]);
        let turns = e.div(x, length);
        let turns = e.same(ops::Floor {}, &[turns]);
        let two = e.like(turns, 2.0);
        let odd = e.same(ops::Remainder {}, &[turns, two]);
        let even = e.compare_to(Direction::Eq, odd, 0.0);
        let there = e.shift(extra, low);
        let back = e.sub(length, extra);
        let back = e.shift(back, low);
        e.select(even, there, back)
    }

    /// Whether a coordinate, a whole number, is one of the image's.
    fn inside(self, e: &mut Emitter, x: V) -> V {
        let from = e.compare_to(Direction::Ge, x, 0.0);
        let to = e.compare_to(Direction::Le, x, (self.size - 1) as f64);
        e.same(ops::And {}, &[from, to])
    }
}

fn clamp(e: &mut Emitter, x: V, low: f64, high: f64) -> V {
    let (low, high) = (e.like(x, low), e.like(x, high));
    let x = e.max(x, low);
    e.min(x, high)
}

/// An image `[batch, channels, elements]` and its sides.
struct Image {
    flat: V,
    sides: Vec<Side>,
}

impl Image {
    /// The elements at whole coordinates of shape `[batch, points]`, one list for each side;
    /// zero outside.
    fn at(&self, e: &mut Emitter, places: &[V]) -> V {
        let dims = e.dims(places[0]);
        let mut flat = e.zeros(&dims, DType::S64);
        let mut inside = e.full(&dims, DType::I1, Num::B(true));
        for (side, place) in self.sides.iter().zip(places) {
            let within = side.inside(e, *place);
            inside = e.same(ops::And {}, &[inside, within]);
            let whole = clamp(e, *place, 0.0, (side.size - 1) as f64);
            let whole = e.convert(whole, DType::S64);
            flat = e.scale(flat, side.size as f64);
            flat = e.add(flat, whole);
        }
        let image = e.dims(self.flat);
        let shape = [image[0], image[1], dims[1]];
        let index = e.broadcast_in(flat, &shape, &[0, 2]);
        let taken = e.gather_along(self.flat, 2, index);
        let inside = e.broadcast_in(inside, &shape, &[0, 2]);
        let zero = e.like(taken, 0.0);
        e.select(inside, taken, zero)
    }

    /// Elements by their weights, added to a sum.
    fn add(&self, e: &mut Emitter, sum: Option<V>, places: &[V], weight: V) -> V {
        let taken = self.at(e, places);
        let dims = e.dims(taken);
        let weight = e.broadcast_in(weight, &dims, &[0, 2]);
        let part = e.mul(taken, weight);
        sum.map_or(part, |sum| e.add(sum, part))
    }
}

fn grid_sampler(cx: &mut Cx<'_>) -> Res {
    let (x, grid) = (cx.tensor("input")?, cx.tensor("grid")?);
    let (mode, corners) = (cx.int("interpolation_mode")?, cx.bool("align_corners")?);
    let beyond = match cx.int("padding_mode")? {
        0 => Beyond::Zeros,
        1 => Beyond::Border,
        2 => Beyond::Reflection,
        other => return refuse(format!("pads by mode {other}")),
    };
    let (dims, places) = (cx.e.dims(x).to_vec(), cx.e.dims(grid).to_vec());
    let space = dims.len().saturating_sub(2);
    if !(2..=3).contains(&space) || places.len() != dims.len() || dims.contains(&0) {
        return refuse(format!("samples {} at {}", cx.e.ty(x), cx.e.ty(grid)));
    }
    let (x, dtype) = cx.wide(x);
    let e = &mut cx.e;
    let wide = e.dtype(x);
    let grid = e.convert(grid, wide);
    let points: i64 = places[1..=space].iter().product();
    let flat = e.reshape(x, &[dims[0], dims[1], dims[2..].iter().product()]);
    let sides: Vec<Side> =
        dims[2..].iter().map(|size| Side { size: *size, beyond, corners }).collect();
    // The grid counts the last axis first.
    let grid = e.reshape(grid, &[dims[0], points, space as i64]);
    let coordinates: Vec<V> = (0..space)
        .map(|i| {
            let back = (space - 1 - i) as i64;
            let one = e.slice_axis(grid, 2, back, back + 1, 1);
            let one = e.reshape(one, &[dims[0], points]);
            let up = e.shift(one, 1.0);
            let size = dims[2 + i] as f64;
            if corners {
                e.scale(up, (size - 1.0) / 2.0)
            } else {
                let real = e.scale(up, size / 2.0);
                e.shift(real, -0.5)
            }
        })
        .collect();
    let image = Image { flat, sides };
    let y = match mode {
        0 => linear(e, &image, &coordinates),
        1 => {
            let places: Vec<V> = image
                .sides
                .iter()
                .zip(&coordinates)
                .map(|(side, x)| {
                    let x = side.confine(e, *x);
                    e.same(ops::RoundNearestEven {}, &[x])
                })
                .collect();
            image.at(e, &places)
        }
        2 if space == 2 => cubic(e, &image, &coordinates),
        _ => return refuse(format!("interpolates by mode {mode}")),
    };
    let mut shape = vec![dims[0], dims[1]];
    shape.extend(&places[1..=space]);
    let y = e.reshape(y, &shape);
    Ok(e.convert(y, dtype).into())
}

fn linear(e: &mut Emitter, image: &Image, coordinates: &[V]) -> V {
    // Of each side the two places beside a coordinate, and their weights.
    let sides: Vec<[(V, V); 2]> = image
        .sides
        .iter()
        .zip(coordinates)
        .map(|(side, x)| {
            let x = side.confine(e, *x);
            let low = e.same(ops::Floor {}, &[x]);
            let high = e.shift(low, 1.0);
            [(low, e.sub(high, x)), (high, e.sub(x, low))]
        })
        .collect();
    let mut sum = None;
    for corner in 0..1usize << sides.len() {
        let chosen: Vec<(V, V)> =
            sides.iter().enumerate().map(|(i, side)| side[corner >> i & 1]).collect();
        let places: Vec<V> = chosen.iter().map(|(place, _)| *place).collect();
        let mut weight = chosen[0].1;
        for (_, other) in &chosen[1..] {
            weight = e.mul(weight, *other);
        }
        sum = Some(image.add(e, sum, &places, weight));
    }
    sum.unwrap_or(image.flat)
}

/// The weights of four neighbours of a coordinate, which lies `t` beyond the second.
fn cubic_weights(e: &mut Emitter, t: V) -> [V; 4] {
    const A: f64 = -0.75;
    let near = |e: &mut Emitter, x: V| {
        let y = e.scale(x, A + 2.0);
        let y = e.shift(y, -(A + 3.0));
        let y = e.mul(y, x);
        let y = e.mul(y, x);
        e.shift(y, 1.0)
    };
    let far = |e: &mut Emitter, x: V| {
        let y = e.scale(x, A);
        let y = e.shift(y, -5.0 * A);
        let y = e.mul(y, x);
        let y = e.shift(y, 8.0 * A);
        let y = e.mul(y, x);
        e.shift(y, -4.0 * A)
    };
    let minus = e.neg(t);
    let other = e.shift(minus, 1.0);
    let (first, last) = (e.shift(t, 1.0), e.shift(other, 1.0));
    [far(e, first), near(e, t), near(e, other), far(e, last)]
}

fn cubic(e: &mut Emitter, image: &Image, coordinates: &[V]) -> V {
    let sides: Vec<Vec<(V, V)>> = image
        .sides
        .iter()
        .zip(coordinates)
        .map(|(side, x)| {
            let x = if side.beyond == Beyond::Zeros { side.confine(e, *x) } else { *x };
            let low = e.same(ops::Floor {}, &[x]);
            let t = e.sub(x, low);
            let weights = cubic_weights(e, t);
            (-1..3)
                .zip(weights)
                .map(|(i, weight)| {
                    let place = e.shift(low, f64::from(i));
                    (side.confine(e, place), weight)
                })
                .collect()
        })
        .collect();
    let mut sum = None;
    for (row, row_weight) in &sides[0] {
        for (column, column_weight) in &sides[1] {
            let weight = e.mul(*row_weight, *column_weight);
            sum = Some(image.add(e, sum, &[*row, *column], weight));
        }
    }
    sum.unwrap_or(image.flat)
}

/// Means of samples in each part of each region. The regions are `[image, x1, y1, x2, y2]`.
fn roi_align(cx: &mut Cx<'_>) -> Res {
    let (x, rois) = (cx.tensor("input")?, cx.tensor("rois")?);
    let scale = cx.float("spatial_scale")?;
    let parts = [cx.int("pooled_height")?, cx.int("pooled_width")?];
    let (ratio, aligned) = (cx.int("sampling_ratio")?, cx.bool("aligned")?);
    let dims = cx.e.dims(x).to_vec();
    if dims.len() != 4 || cx.e.rank(rois) != 2 || parts.iter().any(|n| *n < 1) {
        return refuse(format!("pools regions of {}", cx.e.ty(x)));
    }
    if ratio < 1 {
        return refuse("takes as many samples as a region's size says, which is a value");
    }
    let (x, dtype) = cx.wide(x);
    let e = &mut cx.e;
    let wide = e.dtype(x);
    let rois = e.convert(rois, wide);
    let count = e.dims(rois)[0];
    let column = |e: &mut Emitter, i: i64| {
        let one = e.slice_axis(rois, 1, i, i + 1, 1);
        e.reshape(one, &[count])
    };
    let number = column(e, 0);
    let number = e.convert(number, DType::S64);
    let offset = if aligned { 0.5 } else { 0.0 };
    let samples = [parts[0] * ratio, parts[1] * ratio];
    let shape = [count, samples[0], samples[1]];
    // Along each side the two places beside each sample and their weights.
    let mut sides: Vec<[(V, V); 2]> = Vec::new();
    for side in 0..2 {
        let (start, end) = (column(e, 2 - side as i64), column(e, 4 - side as i64));
        let (start, end) = (e.scale(start, scale), e.scale(end, scale));
        let (start, end) = (e.shift(start, -offset), e.shift(end, -offset));
        let mut length = e.sub(end, start);
        if !aligned {
            let one = e.like(length, 1.0);
            length = e.max(length, one);
        }
        let part = e.like(length, parts[side] as f64);
        let part = e.div(length, part);
        let line = [count, samples[side]];
        let (start, part) = (e.broadcast_in(start, &line, &[0]), e.broadcast_in(part, &line, &[0]));
        let list = |f: &dyn Fn(i64) -> f64| (0..samples[side]).map(f).collect::<Vec<f64>>();
        let bins = e.floats(&list(&|i| (i / ratio) as f64), &[samples[side]], wide);
        let within = e.floats(&list(&|i| (i % ratio) as f64 + 0.5), &[samples[side]], wide);
        let (bins, within) = (e.broadcast_to(bins, &line), e.broadcast_to(within, &line));
        let bins = e.mul(bins, part);
        let within = e.mul(within, part);
        let ratio_of = e.like(within, ratio as f64);
        let within = e.div(within, ratio_of);
        let place = e.add(start, bins);
        let place = e.add(place, within);
        sides.push(beside(e, place, dims[2 + side]));
    }
    let mut sum: Option<V> = None;
    let number = e.broadcast_in(number, &shape, &[0]);
    for (row, row_weight) in sides[0] {
        for (column, column_weight) in sides[1] {
            let (row, column) =
                (e.broadcast_in(row, &shape, &[0, 1]), e.broadcast_in(column, &shape, &[0, 2]));
            let taken = e.gather_at(x, &[0, 2, 3], &[number, row, column], 0);
            let all = e.dims(taken);
            let (a, b) = (
                e.broadcast_in(row_weight, &all, &[0, 1]),
                e.broadcast_in(column_weight, &all, &[0, 2]),
            );
            let weight = e.mul(a, b);
            let part = e.mul(weight, taken);
            sum = Some(sum.map_or(part, |sum| e.add(sum, part)));
        }
    }
    let Some(sum) = sum else { return refuse("samples nothing") };
    let sum = e.reshape(sum, &[count, parts[0], ratio, parts[1], ratio, dims[1]]);
    let sum = e.reduce(sum, Fold::Add, &[2, 4]);
    let samples = e.like(sum, (ratio * ratio) as f64);
    let mean = e.div(sum, samples);
    let y = e.transpose(mean, &[0, 3, 1, 2]);
    Ok(e.convert(y, dtype).into())
}

/// The two elements beside a coordinate and their weights; none count far outside.
fn beside(e: &mut Emitter, place: V, size: i64) -> [(V, V); 2] {
    let far = {
        let before = e.compare_to(Direction::Lt, place, -1.0);
        let behind = e.compare_to(Direction::Gt, place, size as f64);
        e.same(ops::Or {}, &[before, behind])
    };
    let place = clamp(e, place, 0.0, (size - 1) as f64);
    let low = e.same(ops::Floor {}, &[place]);
    let weight = e.sub(place, low);
    let minus = e.neg(weight);
    let other = e.shift(minus, 1.0);
    let zero = e.like(weight, 0.0);
    let (weight, other) = (e.select(far, zero, weight), e.select(far, zero, other));
    let low = e.convert(low, DType::S64);
    let high = e.shift(low, 1.0);
    let last = e.like(high, (size - 1) as f64);
    let high = e.min(high, last);
    [(low, other), (high, weight)]
}
