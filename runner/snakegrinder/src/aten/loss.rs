//! Losses that compare elements or distances.

use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::Direction;

use super::Lower;
use super::activation::log_sigmoid;
use super::distance::pairwise;
use super::math::{abs, at_least, exp, from, log, log1p, only, sqrt};
use crate::cx::{Cx, Operand, Res, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::binary_cross_entropy", binary_cross_entropy),
    ("aten::binary_cross_entropy_with_logits", with_logits),
    ("aten::cosine_embedding_loss", cosine_embedding),
    ("aten::hinge_embedding_loss", hinge_embedding),
    ("aten::huber_loss", |cx| {
        let delta = cx.float("delta")?;
        elementwise(cx, ["self", "target"], |e, x, y| {
            let z = distance(e, x, y);
            let square = e.mul(z, z);
            let near = e.scale(square, 0.5);
            let far = e.shift(z, -0.5 * delta);
            let far = e.scale(far, delta);
            let inside = e.compare_to(Direction::Lt, z, delta);
            e.select(inside, near, far)
        })
    }),
    ("aten::kl_div", kl_div),
    ("aten::l1_loss", |cx| elementwise(cx, ["self", "target"], distance)),
    ("aten::margin_ranking_loss", margin_ranking),
    ("aten::mse_loss", |cx| {
        elementwise(cx, ["self", "target"], |e, x, y| {
            let z = e.sub(x, y);
            e.mul(z, z)
        })
    }),
    ("aten::poisson_nll_loss", poisson),
    ("aten::smooth_l1_loss", smooth_l1),
    ("aten::soft_margin_loss", |cx| {
        elementwise(cx, ["self", "target"], |e, x, y| {
            let below = e.neg(x);
            let product = e.mul(below, y);
            let exp = exp(e, product);
            log1p(e, exp)
        })
    }),
    ("aten::triplet_margin_loss", triplet_margin),
];

fn distance(e: &mut Emitter, x: V, y: V) -> V {
    let z = e.sub(x, y);
    abs(e, z)
}

/// What `reduction` asks for: 0 leaves the elements, 1 takes their mean, 2 their sum.
pub fn reduced(cx: &mut Cx<'_>, loss: V) -> Res {
    let dtype = cx.e.dtype(loss);
    let reduction = cx.int("reduction")?;
    let y = reduce(&mut cx.e, loss, reduction)?;
    Ok(cx.e.convert(y, dtype).into())
}

/// The reduction in the wide type.
pub fn reduce(e: &mut Emitter, loss: V, reduction: i64) -> Res<V> {
    if reduction == 0 {
        return Ok(loss);
    }
    let dtype = e.dtype(loss);
    let dims = e.dims(loss);
    let axes: Vec<usize> = (0..dims.len()).collect();
    // One number in the end: in float64 it is rounded once, not at every step on the way.
    let x = e.convert(loss, DType::F64);
    let sum = e.reduce(x, Fold::Add, &axes);
    let total = match reduction {
        1 => {
            let count = e.like(sum, dims.iter().product::<i64>() as f64);
            e.div(sum, count)
        }
        2 => sum,
        other => return refuse(format!("has reduction {other}")),
    };
    Ok(e.convert(total, promote::wide(dtype)))
}

/// A loss of two tensors' elements, then the reduction. Elements are rounded to the tensors' type
/// before they are summed, as PyTorch has them in memory.
fn elementwise(cx: &mut Cx<'_>, names: [&str; 2], f: impl FnOnce(&mut Emitter, V, V) -> V) -> Res {
    let (dtype, both) = wide(cx, names)?;
    let loss = f(&mut cx.e, both[0], both[1]);
    let loss = cx.e.convert(loss, dtype);
    reduced(cx, loss)
}

/// Tensors in their common shape and wide type, and the common type.
fn wide<const N: usize>(cx: &mut Cx<'_>, names: [&str; N]) -> Res<(DType, Vec<V>)> {
    let mut all = Vec::new();
    for name in names {
        all.push(Operand::Tensor(cx.tensor(name)?));
    }
    let dtype = promote::to_float(cx.common(&all), cx.default);
    let all = cx.together(&all, promote::wide(dtype))?;
    Ok((dtype, all))
}

/// Multiplies a loss by a tensor of weights, if there is one.
fn weighted(cx: &mut Cx<'_>, loss: V) -> Res<V> {
    let Some(weight) = cx.maybe_tensor("weight")? else { return Ok(loss) };
    let dtype = cx.e.dtype(loss);
    let dims = cx.e.dims(loss);
    let weight = cx.e.convert(weight, dtype);
    let weight = cx.e.broadcast_to(weight, &dims);
    Ok(cx.e.mul(loss, weight))
}

/// The logarithms are kept above -100, so that certainty has a finite loss.
fn binary_cross_entropy(cx: &mut Cx<'_>) -> Res {
    let (dtype, both) = wide(cx, ["self", "target"])?;
    let (x, y) = (both[0], both[1]);
    let e = &mut cx.e;
    let below = e.neg(x);
    let rest = log1p(e, below);
    let rest = at_least(e, rest, -100.0);
    let own = log(e, x);
    let own = at_least(e, own, -100.0);
    let away = e.shift(y, -1.0);
    let (a, b) = (e.mul(away, rest), e.mul(y, own));
    let loss = e.sub(a, b);
    let loss = e.convert(loss, dtype);
    let loss = weighted(cx, loss)?;
    reduced(cx, loss)
}

fn with_logits(cx: &mut Cx<'_>) -> Res {
    let (dtype, both) = wide(cx, ["self", "target"])?;
    let (x, y) = (both[0], both[1]);
    let mut log = log_sigmoid(&mut cx.e, x);
    if let Some(weight) = cx.maybe_tensor("pos_weight")? {
        let (dims, wide) = (cx.e.dims(log), cx.e.dtype(log));
        let weight = cx.e.convert(weight, wide);
        let weight = cx.e.shift(weight, -1.0);
        let weight = cx.e.broadcast_to(weight, &dims);
        let weight = cx.e.mul(weight, y);
        let weight = cx.e.shift(weight, 1.0);
        log = cx.e.mul(log, weight);
    }
    let rest = from(&mut cx.e, 1.0, y);
    let rest = cx.e.mul(rest, x);
    let loss = cx.e.sub(rest, log);
    let loss = weighted(cx, loss)?;
    let loss = cx.e.convert(loss, dtype);
    reduced(cx, loss)
}

fn smooth_l1(cx: &mut Cx<'_>) -> Res {
    let beta = cx.float("beta")?;
    elementwise(cx, ["self", "target"], |e, x, y| {
        let z = distance(e, x, y);
        if beta == 0.0 {
            return z;
        }
        let square = e.mul(z, z);
        let half = e.scale(square, 0.5);
        let beta_v = e.like(half, beta);
        let near = e.div(half, beta_v);
        let far = e.shift(z, -0.5 * beta);
        let inside = e.compare_to(Direction::Lt, z, beta);
        e.select(inside, near, far)
    })
}

fn kl_div(cx: &mut Cx<'_>) -> Res {
    let log_target = cx.bool("log_target")?;
    elementwise(cx, ["self", "target"], |e, x, y| {
        if log_target {
            let difference = e.sub(y, x);
            let p = exp(e, y);
            return e.mul(p, difference);
        }
        // A probability of zero adds nothing, whatever its logarithm.
        let log = log(e, y);
        let entropy = e.mul(y, log);
        let some = e.compare_to(Direction::Ne, y, 0.0);
        let entropy = only(e, some, entropy);
        let cross = e.mul(y, x);
        e.sub(entropy, cross)
    })
}

fn poisson(cx: &mut Cx<'_>) -> Res {
    let (log_input, full) = (cx.bool("log_input")?, cx.bool("full")?);
    let eps = cx.float("eps")?;
    elementwise(cx, ["input", "target"], |e, x, y| {
        let loss = if log_input {
            let (rate, product) = (exp(e, x), e.mul(y, x));
            e.sub(rate, product)
        } else {
            let shifted = e.shift(x, eps);
            let log = log(e, shifted);
            let product = e.mul(y, log);
            e.sub(x, product)
        };
        if !full {
            return loss;
        }
        // Stirling's approximation of the factorial, which is exact enough above one only.
        let own = log(e, y);
        let product = e.mul(y, own);
        let first = e.sub(product, y);
        let around = e.scale(y, std::f64::consts::TAU);
        let around = log(e, around);
        let half = e.scale(around, 0.5);
        let stirling = e.add(first, half);
        let large = e.compare_to(Direction::Gt, y, 1.0);
        let stirling = only(e, large, stirling);
        e.add(loss, stirling)
    })
}

fn hinge_embedding(cx: &mut Cx<'_>) -> Res {
    let margin = cx.float("margin")?;
    let (x, y) = (cx.tensor("self")?, cx.tensor("target")?);
    let dims = crate::cx::broadcast(&[cx.e.dims(x).to_vec(), cx.e.dims(y).to_vec()])?;
    let (x, dtype) = cx.wide(x);
    let e = &mut cx.e;
    let (x, y) = (e.broadcast_to(x, &dims), e.broadcast_to(y, &dims));
    let gap = from(e, margin, x);
    let gap = at_least(e, gap, 0.0);
    let (apart, alike) =
        (e.compare_to(Direction::Ne, y, 1.0), e.compare_to(Direction::Ne, y, -1.0));
    let (a, b) = (only(e, apart, gap), only(e, alike, x));
    let loss = e.add(a, b);
    let loss = e.convert(loss, dtype);
    reduced(cx, loss)
}

fn cosine_embedding(cx: &mut Cx<'_>) -> Res {
    let margin = cx.float("margin")?;
    let (dtype, both) = wide(cx, ["input1", "input2"])?;
    let target = cx.tensor("target")?;
    let e = &mut cx.e;
    let at = [e.rank(target).min(1)];
    let mut products = Vec::new();
    for (a, b) in [(0, 1), (0, 0), (1, 1)] {
        let product = e.mul(both[a], both[b]);
        products.push(e.reduce(product, Fold::Add, &at));
    }
    let (first, second) = (e.shift(products[1], 1e-12), e.shift(products[2], 1e-12));
    let scale = e.mul(first, second);
    let scale = sqrt(e, scale);
    let cos = e.div(products[0], scale);
    let dims = e.dims(cos);
    let target = e.broadcast_to(target, &dims);
    let near = from(e, 1.0, cos);
    let far = e.shift(cos, -margin);
    let far = at_least(e, far, 0.0);
    let (alike, apart) =
        (e.compare_to(Direction::Eq, target, 1.0), e.compare_to(Direction::Eq, target, -1.0));
    let (near, far) = (only(e, alike, near), only(e, apart, far));
    let loss = e.add(near, far);
    let loss = e.convert(loss, dtype);
    reduced(cx, loss)
}

fn margin_ranking(cx: &mut Cx<'_>) -> Res {
    let margin = cx.float("margin")?;
    let (dtype, all) = wide(cx, ["input1", "input2", "target"])?;
    let e = &mut cx.e;
    let difference = e.sub(all[0], all[1]);
    let against = e.neg(all[2]);
    let product = e.mul(against, difference);
    let loss = e.shift(product, margin);
    let loss = at_least(e, loss, 0.0);
    let loss = e.convert(loss, dtype);
    reduced(cx, loss)
}

fn triplet_margin(cx: &mut Cx<'_>) -> Res {
    let (margin, p, eps) = (cx.float("margin")?, cx.float("p")?, cx.float("eps")?);
    let swap = cx.bool("swap")?;
    let (anchor, positive, negative) =
        (cx.tensor("anchor")?, cx.tensor("positive")?, cx.tensor("negative")?);
    let dtype = cx.e.dtype(anchor);
    let near = pairwise(cx, anchor, positive, p, eps, false)?;
    let mut far = pairwise(cx, anchor, negative, p, eps, false)?;
    if swap {
        let other = pairwise(cx, positive, negative, p, eps, false)?;
        far = cx.e.min(far, other);
    }
    let e = &mut cx.e;
    let loss = e.shift(near, margin);
    let loss = e.sub(loss, far);
    let loss = at_least(e, loss, 0.0);
    let loss = e.convert(loss, dtype);
    reduced(cx, loss)
}
