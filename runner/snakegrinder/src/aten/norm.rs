//! Normalisation. Statistics are taken in the wide type and the result is rounded once.

use warpforge_snakeburger::ir::{Attr, DType};
use warpforge_snakeburger::ops;

use super::Lower;
use super::reduce::mean_of;
use crate::cx::{Cx, Out, Res, attr_f, attr_i, attr_ints, attrs, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::batch_norm", batch_norm),
    ("aten::native_batch_norm", batch_norm),
    ("aten::_native_batch_norm_legit", batch_norm),
    ("aten::_native_batch_norm_legit_no_training", batch_norm),
    ("aten::group_norm", group_norm),
    ("aten::native_group_norm", group_norm),
    ("aten::instance_norm", instance_norm),
    ("aten::layer_norm", layer_norm),
    ("aten::native_layer_norm", layer_norm),
    ("aten::rms_norm", rms_norm),
    ("aten::_fused_rms_norm", rms_norm),
    ("aten::_weight_norm", weight_norm),
];

/// Operands of a norm: the input, then the weight and the bias where there are any.
fn operands(cx: &mut Cx<'_>, x: V) -> Res<(Vec<V>, bool, bool)> {
    let weight = if cx.given("weight") { cx.maybe_tensor("weight")? } else { None };
    let bias = if cx.given("bias") { cx.maybe_tensor("bias")? } else { None };
    let mut all = vec![x];
    all.extend(weight);
    all.extend(bias);
    Ok((all, weight.is_some(), bias.is_some()))
}

/// `x̂ · weight + bias`, weight and bias along the given axes.
fn affine(e: &mut Emitter, y: V, weight: Option<V>, bias: Option<V>, axes: &[usize]) -> V {
    let dims = e.dims(y);
    let dtype = e.dtype(y);
    let mut y = y;
    if let Some(weight) = weight {
        let weight = e.convert(weight, dtype);
        let weight = e.broadcast_in(weight, &dims, axes);
        y = e.mul(y, weight);
    }
    if let Some(bias) = bias {
        let bias = e.convert(bias, dtype);
        let bias = e.broadcast_in(bias, &dims, axes);
        y = e.add(y, bias);
    }
    y
}

/// `(x - mean) / sqrt(var + eps)` over axes; also the mean and the reciprocal deviation, which
/// keep their axes with size one.
fn standardise(e: &mut Emitter, x: V, axes: &[usize], eps: f64) -> (V, V, V) {
    let dims = e.dims(x);
    let all: Vec<usize> = (0..dims.len()).collect();
    let mean = mean_of(e, x, axes, true);
    let spread = e.broadcast_in(mean, &dims, &all);
    let low = e.sub(x, spread);
    let square = e.mul(low, low);
    let var = mean_of(e, square, axes, true);
    let var = e.shift(var, eps);
    let rstd = e.same(ops::Rsqrt::default(), &[var]);
    let scale = e.broadcast_in(rstd, &dims, &all);
    (e.mul(low, scale), mean, rstd)
}

fn layer_norm(cx: &mut Cx<'_>) -> Res {
    let name = if cx.given("input") { "input" } else { "self" };
    let x = cx.tensor(name)?;
    let shape = cx.ints("normalized_shape")?;
    let eps = cx.float("eps")?;
    let (all, has_weight, _) = operands(cx, x)?;
    let attributes = attrs([("eps", attr_f(eps)), ("normalized_shape", attr_ints(&shape))]);
    let native = cx.node.outputs.len() > 1;
    let n = shape.len();
    let outs = cx.composite("aten.layer_norm", attributes, &all, |e, args| {
        let dtype = e.dtype(args[0]);
        let x = e.convert(args[0], promote::wide(dtype));
        let rank = e.rank(x);
        let axes: Vec<usize> = (rank - n..rank).collect();
        let (y, mean, rstd) = standardise(e, x, &axes, eps);
        let mut rest = args[1..].iter().copied();
        let weight = if has_weight { rest.next() } else { None };
        let y = affine(e, y, weight, rest.next(), &axes);
        let y = e.convert(y, dtype);
        Ok(if native { vec![y, mean, rstd] } else { vec![y] })
    })?;
    Ok(if native { Out::many(outs) } else { outs[0].into() })
}

fn rms_norm(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("input")?;
    let shape = cx.ints("normalized_shape")?;
    let own = match cx.e.dtype(x) {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    };
    let eps = cx.maybe_float("eps")?.unwrap_or(own);
    let (all, _, _) = operands(cx, x)?;
    let attributes = attrs([("eps", attr_f(eps)), ("normalized_shape", attr_ints(&shape))]);
    let n = shape.len();
    let native = cx.node.outputs.len() > 1;
    let outs = cx.composite("aten.rms_norm", attributes, &all, |e, args| {
        let dtype = e.dtype(args[0]);
        let x = e.convert(args[0], promote::wide(dtype));
        let dims = e.dims(x);
        let axes: Vec<usize> = (dims.len() - n..dims.len()).collect();
        let square = e.mul(x, x);
        let mean = mean_of(e, square, &axes, true);
        let mean = e.shift(mean, eps);
        let rstd = e.same(ops::Rsqrt::default(), &[mean]);
        let every: Vec<usize> = (0..dims.len()).collect();
        let scale = e.broadcast_in(rstd, &dims, &every);
        let y = e.mul(x, scale);
        let y = affine(e, y, args.get(1).copied(), None, &axes);
        let y = e.convert(y, dtype);
        Ok(if native { vec![y, rstd] } else { vec![y] })
    })?;
    Ok(if native { Out::many(outs) } else { outs[0].into() })
}

fn group_norm(cx: &mut Cx<'_>) -> Res {
    let native = cx.node.outputs.len() > 1;
    let x = cx.tensor("input")?;
    let groups = cx.int(if cx.given("group") { "group" } else { "num_groups" })?;
    let eps = cx.float("eps")?;
    let (all, has_weight, _) = operands(cx, x)?;
    let attributes = attrs([("eps", attr_f(eps)), ("num_groups", attr_i(groups))]);
    let outs = cx.composite("aten.group_norm", attributes, &all, |e, args| {
        let dtype = e.dtype(args[0]);
        let x = e.convert(args[0], promote::wide(dtype));
        let dims = e.dims(x).to_vec();
        let rest: i64 = dims[1..].iter().product();
        let wide = e.reshape(x, &[dims[0], groups, rest / groups]);
        let (y, mean, rstd) = standardise(e, wide, &[2], eps);
        let y = e.reshape(y, &dims);
        let mut more = args[1..].iter().copied();
        let weight = if has_weight { more.next() } else { None };
        let y = affine(e, y, weight, more.next(), &[1]);
        let y = e.convert(y, dtype);
        let shape = [dims[0], groups];
        let (mean, rstd) = (e.reshape(mean, &shape), e.reshape(rstd, &shape));
        Ok(if native { vec![y, mean, rstd] } else { vec![y] })
    })?;
    Ok(if native { Out::many(outs) } else { outs[0].into() })
}

/// Every axis but the second.
fn around(rank: usize) -> Vec<usize> {
    (0..rank).filter(|axis| *axis != 1).collect()
}

fn batch_norm(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("input")?;
    let (momentum, eps) = (cx.maybe_float("momentum")?.unwrap_or(0.0), cx.float("eps")?);
    let native = cx.node.outputs.len() > 1;
    let has_stats = cx.given("running_mean") && !cx.is_none("running_mean");
    let training = cx.bool("training").or_else(|_| cx.bool("train")).unwrap_or(false);
    let training = training || !has_stats;
    let (mut all, has_weight, has_bias) = operands(cx, x)?;
    let attributes = attrs([("eps", attr_f(eps)), ("training", Attr::Bool(training))]);
    let name = if training { "aten.batch_norm_training" } else { "aten.batch_norm" };
    if !training {
        all.push(cx.tensor("running_mean")?);
        all.push(cx.tensor("running_var")?);
    }
    let outs = cx.composite(name, attributes, &all, |e, args| {
        let dtype = e.dtype(args[0]);
        let x = e.convert(args[0], promote::wide(dtype));
        let dims = e.dims(x);
        let axes = around(dims.len());
        let mut more = args[1..].iter().copied();
        let weight = if has_weight { more.next() } else { None };
        let bias = if has_bias { more.next() } else { None };
        let channels = [dims.get(1).copied().unwrap_or(1)];
        if training {
            let (y, mean, rstd) = standardise(e, x, &axes, eps);
            let every: Vec<usize> = (0..dims.len()).collect();
            let spread = e.broadcast_in(mean, &dims, &every);
            let low = e.sub(x, spread);
            let square = e.mul(low, low);
            let squares = e.reduce(square, Fold::Add, &axes);
            let y = affine(e, y, weight, bias, &[1]);
            let y = e.convert(y, dtype);
            let (mean, rstd) = (e.reshape(mean, &channels), e.reshape(rstd, &channels));
            return Ok(vec![y, mean, squares, rstd]);
        }
        let (Some(mean), Some(var)) = (more.next(), more.next()) else {
            return refuse("lacks its running statistics");
        };
        let wide = e.dtype(x);
        let (mean, var) = (e.convert(mean, wide), e.convert(var, wide));
        let var = e.shift(var, eps);
        let rstd = e.same(ops::Rsqrt::default(), &[var]);
        let (mean, rstd) = (e.broadcast_in(mean, &dims, &[1]), e.broadcast_in(rstd, &dims, &[1]));
        let low = e.sub(x, mean);
        let y = e.mul(low, rstd);
        let y = affine(e, y, weight, bias, &[1]);
        Ok(vec![e.convert(y, dtype)])
    })?;
    if training && has_stats {
        update_statistics(cx, x, outs[1], outs[2], momentum)?;
    }
    if !native {
        return Ok(outs[0].into());
    }
    if training {
        return Ok(Out::many([outs[0], outs[1], outs[3]]));
    }
    let dtype = cx.e.dtype(x);
    let (mean, var) = (cx.e.float(&[0], dtype, 0.0), cx.e.float(&[0], dtype, 0.0));
    Ok(Out::many([outs[0], mean, var]))
}

/// Moves the running statistics towards the batch's; the variance is the unbiased one.
fn update_statistics(cx: &mut Cx<'_>, x: V, mean: V, squares: V, momentum: f64) -> Res<()> {
    let dims = cx.e.dims(x);
    let count: i64 = around(dims.len()).iter().map(|axis| dims[*axis]).product();
    let divisor = cx.e.like(squares, (count - 1) as f64);
    let var = cx.e.div(squares, divisor);
    move_statistics(cx, [mean, var], momentum)
}

/// Moves the running mean and variance towards new ones.
fn move_statistics(cx: &mut Cx<'_>, new: [V; 2], momentum: f64) -> Res<()> {
    for (name, new) in ["running_mean", "running_var"].into_iter().zip(new) {
        if cx.is_none(name) {
            continue;
        }
        let slot = cx.slot(name)?;
        let old = cx.read(slot);
        // A value per channel: float64 costs nothing and rounds once, like PyTorch's kernel.
        let (old, new) = (cx.e.convert(old, DType::F64), cx.e.convert(new, DType::F64));
        let (old, new) = (cx.e.scale(old, 1.0 - momentum), cx.e.scale(new, momentum));
        let sum = cx.e.add(new, old);
        cx.write(slot, sum)?;
    }
    Ok(())
}

fn instance_norm(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("input")?;
    let eps = cx.float("eps")?;
    if !cx.bool("use_input_stats")? {
        return batch_norm_by_stats(cx, x, eps);
    }
    let (all, has_weight, _) = operands(cx, x)?;
    let attributes = attrs([("eps", attr_f(eps))]);
    let outs = cx.composite("aten.instance_norm", attributes, &all, |e, args| {
        let dtype = e.dtype(args[0]);
        let x = e.convert(args[0], promote::wide(dtype));
        let axes: Vec<usize> = (2..e.rank(x)).collect();
        let (y, _, _) = standardise(e, x, &axes, eps);
        let mut more = args[1..].iter().copied();
        let weight = if has_weight { more.next() } else { None };
        let y = affine(e, y, weight, more.next(), &[1]);
        Ok(vec![e.convert(y, dtype)])
    })?;
    if !cx.is_none("running_mean") {
        let momentum = cx.float("momentum")?;
        instance_statistics(cx, x, momentum)?;
    }
    Ok(outs[0].into())
}

/// Each instance moves the running statistics by itself, and they become the mean of what all of
/// them make: the same as moving them by the mean of the instances' statistics.
fn instance_statistics(cx: &mut Cx<'_>, x: V, momentum: f64) -> Res<()> {
    let dims = cx.e.dims(x);
    let axes: Vec<usize> = (2..dims.len()).collect();
    let count: i64 = axes.iter().map(|axis| dims[*axis]).product();
    let e = &mut cx.e;
    let x = e.convert(x, DType::F64);
    let mean = mean_of(e, x, &axes, true);
    let all: Vec<usize> = (0..dims.len()).collect();
    let spread = e.broadcast_in(mean, &dims, &all);
    let low = e.sub(x, spread);
    let squares = e.mul(low, low);
    let squares = e.reduce(squares, Fold::Add, &axes);
    let var = e.scale(squares, 1.0 / (count - 1) as f64);
    let mean = e.reshape(mean, &dims[..2]);
    let (mean, var) = (mean_of(e, mean, &[0], false), mean_of(e, var, &[0], false));
    move_statistics(cx, [mean, var], momentum)
}

fn batch_norm_by_stats(cx: &mut Cx<'_>, x: V, eps: f64) -> Res {
    let (mean, var) = (cx.tensor("running_mean")?, cx.tensor("running_var")?);
    let dtype = cx.e.dtype(x);
    let dims = cx.e.dims(x);
    let wide = promote::wide(dtype);
    let x = cx.e.convert(x, wide);
    let (mean, var) = (cx.e.convert(mean, wide), cx.e.convert(var, wide));
    let var = cx.e.shift(var, eps);
    let rstd = cx.e.same(ops::Rsqrt::default(), &[var]);
    let (mean, rstd) = (cx.e.broadcast_in(mean, &dims, &[1]), cx.e.broadcast_in(rstd, &dims, &[1]));
    let low = cx.e.sub(x, mean);
    let y = cx.e.mul(low, rstd);
    let (weight, bias) = (cx.maybe_tensor("weight")?, cx.maybe_tensor("bias")?);
    let y = affine(&mut cx.e, y, weight, bias, &[1]);
    Ok(cx.e.convert(y, dtype).into())
}

/// `v · g / ‖v‖`, the norm over every axis but one.
fn weight_norm(cx: &mut Cx<'_>) -> Res {
    let (v, g) = (cx.tensor("v")?, cx.tensor("g")?);
    let dims = cx.e.dims(v);
    let dim = cx.int("dim")?;
    let axes: Vec<usize> = (0..dims.len()).filter(|axis| dim < 0 || *axis as i64 != dim).collect();
    let (wide, dtype) = cx.wide(v);
    let square = cx.e.mul(wide, wide);
    let sum = cx.e.reduce_keep(square, Fold::Add, &axes);
    let norm = cx.e.same(ops::Sqrt::default(), &[sum]);
    let g = cx.e.convert(g, cx.e.dtype(norm));
    let kept = cx.e.dims(norm);
    let g = cx.e.broadcast_to(g, &kept);
    let ratio = cx.e.div(g, norm);
    let ratio = cx.e.broadcast_to(ratio, &dims);
    let y = cx.e.mul(wide, ratio);
    Ok(cx.e.convert(y, dtype).into())
}
