//! Images taken apart into patches, and joined from them.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;

use super::Lower;
use crate::cx::{Cx, Res, refuse};
use crate::promote;
use warpforge_snakeburger::build::V;

pub const ROWS: &[(&str, Lower)] = &[("aten::col2im", col2im), ("aten::im2col", im2col)];

/// How patches lie along two axes.
struct Patches {
    kernel: Vec<i64>,
    dilation: Vec<i64>,
    padding: Vec<i64>,
    stride: Vec<i64>,
    counts: Vec<i64>,
}

fn patches(cx: &Cx<'_>, size: &[i64]) -> Res<Patches> {
    let list = |name: &str| cx.ints_n(name, 2);
    let (kernel, dilation) = (list("kernel_size")?, list("dilation")?);
    let (padding, stride) = (list("padding")?, list("stride")?);
    let counts: Vec<i64> = (0..2)
        .map(|i| {
            let room = size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1;
            room.div_euclid(stride[i].max(1)) + 1
        })
        .collect();
    if counts.iter().any(|n| *n < 1) {
        return refuse("takes patches larger than the image");
    }
    Ok(Patches { kernel, dilation, padding, stride, counts })
}

fn im2col(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dims = cx.e.dims(x).to_vec();
    if dims.len() < 3 {
        return refuse(format!("takes patches of {}", cx.e.ty(x)));
    }
    let first = dims.len() - 2;
    let p = patches(cx, &dims[first..])?;
    let e = &mut cx.e;
    let mut pad = vec![0; dims.len()];
    pad[first..].copy_from_slice(&p.padding);
    let dtype = e.dtype(x);
    let mut y = e.pad(x, &pad, &pad, &vec![0; dims.len()], Num::I(0).fit(dtype));
    // Each axis becomes the place in the patch and the number of the patch.
    for i in [1, 0] {
        let places: Vec<i64> = (0..p.kernel[i])
            .flat_map(|k| (0..p.counts[i]).map(move |n| (k, n)))
            .map(|(k, n)| k * p.dilation[i] + n * p.stride[i])
            .collect();
        let places = e.ints(&places, &[p.kernel[i], p.counts[i]], DType::S64);
        y = e.take(y, first + i, places);
    }
    let mut order: Vec<usize> = (0..first).collect();
    order.extend([first, first + 2, first + 1, first + 3]);
    let y = e.transpose(y, &order);
    let mut shape = dims[..first - 1].to_vec();
    shape.push(dims[first - 1] * p.kernel[0] * p.kernel[1]);
    shape.push(p.counts[0] * p.counts[1]);
    Ok(e.reshape(y, &shape).into())
}

fn col2im(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let (dims, size) = (cx.e.dims(x).to_vec(), cx.ints_n("output_size", 2)?);
    if dims.len() < 2 {
        return refuse(format!("joins patches of {}", cx.e.ty(x)));
    }
    let p = patches(cx, &size)?;
    let rank = dims.len();
    let channels = dims[rank - 2] / (p.kernel[0] * p.kernel[1]).max(1);
    let wanted = [channels * p.kernel[0] * p.kernel[1], p.counts[0] * p.counts[1]];
    if dims[rank - 2..] != wanted {
        return refuse(format!("joins patches of {} to {size:?}", cx.e.ty(x)));
    }
    let dtype = cx.e.dtype(x);
    let e = &mut cx.e;
    let wide = promote::wide(dtype);
    let mut y = e.convert(x, wide);
    let mut split = dims[..rank - 2].to_vec();
    split.extend([channels, p.kernel[0], p.kernel[1], p.counts[0], p.counts[1]]);
    y = e.reshape(y, &split);
    let first = rank - 1;
    // The patches' columns meet in the image's, then the rows.
    for (i, within, along) in [(1, first + 1, first + 3), (0, first, first + 1)] {
        let whole = size[i] + 2 * p.padding[i];
        let mut sum: Option<V> = None;
        for k in 0..p.kernel[i] {
            let part = e.slice_axis(y, within, k, k + 1, 1);
            let mut dims = e.dims(part).to_vec();
            dims.remove(within);
            let part = e.reshape(part, &dims);
            let at = along - 1;
            let (mut low, mut high) = (vec![0; dims.len()], vec![0; dims.len()]);
            let mut inside = vec![0; dims.len()];
            inside[at] = p.stride[i] - 1;
            low[at] = k * p.dilation[i] - p.padding[i];
            let covered = (p.counts[i] - 1) * p.stride[i] + 1;
            high[at] = whole - p.padding[i] - covered - k * p.dilation[i];
            let part = e.pad(part, &low, &high, &inside, Num::I(0).fit(wide));
            sum = Some(sum.map_or(part, |sum| e.add(sum, part)));
        }
        let Some(sum) = sum else { return refuse("joins empty patches") };
        y = sum;
    }
    Ok(e.convert(y, dtype).into())
}
