//! Convolutions. Products are summed in the wide type, the bias is added there, and the result is
//! rounded once.

use warpforge_snakeburger::ir::{DType, Ints};
use warpforge_snakeburger::ops;

use super::Lower;
use crate::cx::{Cx, Out, Res, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::_convolution", |cx| convolution(cx)),
    ("aten::_convolution_mode", |cx| {
        let space = cx.ints("stride")?.len();
        forward(cx, space)
    }),
    ("aten::conv1d", |cx| forward(cx, 1)),
    ("aten::conv2d", |cx| forward(cx, 2)),
    ("aten::conv3d", |cx| forward(cx, 3)),
    ("aten::conv_tbc", conv_tbc),
    ("aten::conv_transpose1d", |cx| backward(cx, 1)),
    ("aten::conv_transpose2d", |cx| backward(cx, 2)),
    ("aten::conv_transpose3d", |cx| backward(cx, 3)),
    ("aten::convolution", convolution),
];

/// How a kernel slides.
struct Slide {
    stride: Vec<i64>,
    padding: Vec<[i64; 2]>,
    dilation: Vec<i64>,
    groups: i64,
}

fn convolution(cx: &mut Cx<'_>) -> Res {
    let weight = cx.tensor("weight")?;
    let Some(space) = cx.e.rank(weight).checked_sub(2) else {
        return refuse("convolves with a kernel of fewer than two axes");
    };
    if cx.bool("transposed")? { backward(cx, space) } else { forward(cx, space) }
}

/// The input with a batch axis and whether it had one, and the weight.
fn operands(cx: &mut Cx<'_>, space: usize) -> Res<(V, bool, V)> {
    let (x, weight) = (cx.tensor("input")?, cx.tensor("weight")?);
    if cx.e.rank(weight) != space + 2 {
        return refuse(format!("convolves along {space} axes with {}", cx.e.ty(weight)));
    }
    match cx.e.rank(x) {
        rank if rank == space + 2 => Ok((x, true, weight)),
        rank if rank == space + 1 => Ok((cx.e.unsqueeze(x, &[0]), false, weight)),
        _ => refuse(format!("convolves {} along {space} axes", cx.e.ty(x))),
    }
}

/// Adds the bias, rounds, and drops the batch axis that was not there.
fn finish(cx: &mut Cx<'_>, y: V, dtype: DType, batched: bool) -> Res {
    let mut y = y;
    if let Some(bias) = cx.maybe_tensor("bias")? {
        let dims = cx.e.dims(y);
        let wide = cx.e.dtype(y);
        let bias = cx.e.convert(bias, wide);
        let bias = cx.e.broadcast_in(bias, &dims, &[1]);
        y = cx.e.add(y, bias);
    }
    let y = cx.e.convert(y, dtype);
    if batched {
        return Ok(y.into());
    }
    let dims = cx.e.dims(y);
    Ok(cx.e.reshape(y, &dims[1..]).into())
}

fn forward(cx: &mut Cx<'_>, space: usize) -> Res {
    let (x, batched, weight) = operands(cx, space)?;
    let dtype = cx.e.dtype(x);
    let dilation = cx.ints_n("dilation", space)?;
    let kernel = cx.e.dims(weight)[2..].to_vec();
    let padding = match cx.maybe_str("padding") {
        Ok(Some(mode)) => match &*mode {
            "valid" => vec![[0, 0]; space],
            // What is left over of an odd amount goes to the end.
            "same" => (0..space)
                .map(|i| {
                    let total = dilation[i] * (kernel[i] - 1);
                    [total / 2, total - total / 2]
                })
                .collect(),
            _ => return refuse(format!("pads by {mode:?}")),
        },
        _ => cx.ints_n("padding", space)?.iter().map(|n| [*n, *n]).collect(),
    };
    let stride = cx.ints_n("stride", space)?;
    let slide = Slide { stride, padding, dilation, groups: cx.int("groups")? };
    let y = convolve(&mut cx.e, x, weight, &slide)?;
    finish(cx, y, dtype, batched)
}

/// A convolution of `[batch, features, space…]` by `[out, in, space…]`, in the wide type.
fn convolve(e: &mut Emitter, x: V, weight: V, slide: &Slide) -> Res<V> {
    let wide = promote::wide(e.dtype(x));
    let (x, weight) = (e.convert(x, wide), e.convert(weight, wide));
    let (dims, kernel) = (e.dims(x), e.dims(weight));
    if slide.groups < 1 || kernel[1] * slide.groups != dims[1] || kernel[0] % slide.groups != 0 {
        let (x, weight) = (e.ty(x), e.ty(weight));
        return refuse(format!("convolves {x} with {weight} in {} groups", slide.groups));
    }
    let space = dims.len() - 2;
    let mut result = vec![dims[0], kernel[0]];
    for i in 0..space {
        let padded = dims[i + 2] + slide.padding[i][0] + slide.padding[i][1];
        let window = (kernel[i + 2] - 1) * slide.dilation[i] + 1;
        if slide.stride[i] < 1 || padded < window {
            return refuse("convolves with a kernel larger than the input");
        }
        result.push((padded - window) / slide.stride[i] + 1);
    }
    let op = op(space, slide, vec![1; space], [1, 0]);
    let ty = e.ty(x).with_dims(result);
    Ok(e.push(op, &[x, weight], ty))
}

/// `features` are the kernel's axes of input and of output features.
fn op(space: usize, slide: &Slide, spread: Vec<i64>, features: [i64; 2]) -> ops::Convolution {
    let spatial: Ints = (2..space as i64 + 2).collect();
    ops::Convolution {
        window_strides: Some(slide.stride.clone().into()),
        padding: Some(ops::Padding(slide.padding.clone())),
        lhs_dilation: Some(spread.into()),
        rhs_dilation: Some(slide.dilation.clone().into()),
        window_reversal: None,
        dimension_numbers: ops::ConvDims {
            input_batch_dimension: 0,
            input_feature_dimension: 1,
            input_spatial_dimensions: spatial.clone(),
            kernel_input_feature_dimension: features[0],
            kernel_output_feature_dimension: features[1],
            kernel_spatial_dimensions: spatial.clone(),
            output_batch_dimension: 0,
            output_feature_dimension: 1,
            output_spatial_dimensions: spatial,
        },
        feature_group_count: slide.groups,
        batch_group_count: 1,
        precision_config: Vec::new(),
    }
}

/// A transposed convolution: the input is spread by the stride and met by the turned kernel.
fn backward(cx: &mut Cx<'_>, space: usize) -> Res {
    let (x, batched, weight) = operands(cx, space)?;
    let dtype = cx.e.dtype(x);
    let (stride, dilation) = (cx.ints_n("stride", space)?, cx.ints_n("dilation", space)?);
    let (padding, extra) = (cx.ints_n("padding", space)?, cx.ints_n("output_padding", space)?);
    let groups = cx.int("groups")?;
    let (dims, kernel) = (cx.e.dims(x), cx.e.dims(weight));
    if groups < 1 || dims[1] != kernel[0] || kernel[0] % groups != 0 {
        let (x, weight) = (cx.e.ty(x), cx.e.ty(weight));
        return refuse(format!("convolves {x} with {weight} in {groups} groups"));
    }
    let mut result = vec![dims[0], kernel[1] * groups];
    let mut around = Vec::new();
    for i in 0..space {
        let reach = dilation[i] * (kernel[i + 2] - 1);
        around.push([reach - padding[i], reach - padding[i] + extra[i]]);
        let spread = (dims[i + 2] - 1) * stride[i] + 1;
        let size = spread + reach - 2 * padding[i] + extra[i];
        if size < 1 || dims[i + 2] < 1 {
            return refuse("yields nothing");
        }
        result.push(size);
    }
    let e = &mut cx.e;
    let wide = promote::wide(dtype);
    let (x, weight) = (e.convert(x, wide), e.convert(weight, wide));
    // [groups × in, out, space…] to [in, groups × out, space…].
    let mut split = vec![groups, kernel[0] / groups];
    split.extend(&kernel[1..]);
    let weight = e.reshape(weight, &split);
    let weight = e.swap(weight, 0, 1);
    let mut joined = vec![kernel[0] / groups, groups * kernel[1]];
    joined.extend(&kernel[2..]);
    let weight = e.reshape(weight, &joined);
    let weight = e.reverse(weight, &(2..space + 2).collect::<Vec<_>>());
    let slide = Slide { stride: vec![1; space], padding: around, dilation, groups };
    let op = op(space, &slide, stride, [0, 1]);
    let ty = e.ty(x).with_dims(result);
    let y = e.push(op, &[x, weight], ty);
    finish(cx, y, dtype, batched)
}

/// A convolution of `[time, batch, in]` by `[time, in, out]`.
fn conv_tbc(cx: &mut Cx<'_>) -> Res {
    let (x, weight) = (cx.tensor("self")?, cx.tensor("weight")?);
    let (dtype, pad) = (cx.e.dtype(x), cx.int("pad")?);
    if cx.e.rank(x) != 3 || cx.e.rank(weight) != 3 {
        return refuse("convolves tensors that do not have three axes");
    }
    let x = cx.e.transpose(x, &[1, 2, 0]);
    let weight = cx.e.transpose(weight, &[2, 1, 0]);
    let slide = Slide { stride: vec![1], padding: vec![[pad, pad]], dilation: vec![1], groups: 1 };
    let y = convolve(&mut cx.e, x, weight, &slide)?;
    let Out::New(y) = finish(cx, y, dtype, true)? else { return refuse("yields no tensor") };
    Ok(cx.e.transpose(y, &[2, 0, 1]).into())
}
