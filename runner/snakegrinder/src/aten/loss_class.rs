//! Losses of class scores. A class is found by comparing its number with every place of the class
//! axis: what is ignored matches none.

use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakeburger::ops::Direction;

use super::Lower;
use super::activation::softmax_of;
use super::loss::{reduce, reduced};
use super::math::{and, at_least, from, not, only};
use crate::cx::{Cx, Out, Res, attr_f, attr_i, attrs, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::cross_entropy_loss", cross_entropy),
    ("aten::multi_margin_loss", multi_margin),
    ("aten::multilabel_margin_loss", |cx| {
        let (loss, _) = multilabel_margin(cx)?;
        reduced(cx, loss)
    }),
    ("aten::multilabel_margin_loss_forward", |cx| {
        let (loss, hits) = multilabel_margin(cx)?;
        let Out::New(loss) = reduced(cx, loss)? else { return refuse("has no loss") };
        Ok(Out::many([loss, hits]))
    }),
    ("aten::nll_loss", |cx| Ok(nll_of(cx)?.0.into())),
    ("aten::nll_loss2d", |cx| Ok(nll_of(cx)?.0.into())),
    ("aten::nll_loss2d_forward", nll_forward),
    ("aten::nll_loss_forward", nll_forward),
    ("aten::nll_loss_nd", |cx| Ok(nll_of(cx)?.0.into())),
];

/// How a loss of classes is reduced.
#[derive(Clone, Copy)]
struct How {
    reduction: i64,
    ignore: i64,
    smoothing: f64,
}

/// Where the classes are.
fn class_axis(e: &Emitter, x: V) -> usize {
    usize::from(e.rank(x) != 1)
}

/// A tensor of one axis, spread along the class axis of a shape.
fn along_classes(e: &mut Emitter, weight: V, x: V) -> V {
    let (dims, at) = (e.dims(x), class_axis(e, x));
    e.broadcast_in(weight, &dims, &[at])
}

/// True where a place of the class axis is the target's class.
fn hits(e: &mut Emitter, x: V, target: V) -> V {
    let (dims, at) = (e.dims(x), class_axis(e, x));
    let target = e.convert(target, DType::S64);
    let axes: Vec<usize> = (0..dims.len()).filter(|axis| *axis != at).collect();
    let target = e.broadcast_in(target, &dims, &axes);
    let class = e.iota(&dims, DType::S64, at);
    e.compare(Direction::Eq, class, target)
}

/// The element of the class axis that hits; zero where none does.
fn picked(e: &mut Emitter, hits: V, x: V) -> V {
    let at = class_axis(e, x);
    let x = only(e, hits, x);
    e.reduce(x, Fold::Add, &[at])
}

/// The negative log-likelihood of scores in the wide type, and the sum of the weights.
fn nll(e: &mut Emitter, x: V, target: V, weight: Option<V>, how: How) -> Res<(V, V)> {
    let target = e.convert(target, DType::S64);
    let counted = e.compare_to(Direction::Ne, target, how.ignore as f64);
    let dims = e.dims(counted).to_vec();
    if dims.len() + 1 != e.rank(x) {
        return refuse("takes scores of one axis more than the classes have");
    }
    let hit = hits(e, x, target);
    let chosen = picked(e, hit, x);
    let weights = match weight {
        Some(weight) => {
            let spread = along_classes(e, weight, x);
            picked(e, hit, spread)
        }
        None => e.like(chosen, 1.0),
    };
    let weights = only(e, counted, weights);
    // Weighted sums in float64: a quotient of two sums would else round three times.
    let (chosen, weights) = if weight.is_some() && how.reduction != 0 {
        (e.convert(chosen, DType::F64), e.convert(weights, DType::F64))
    } else {
        (chosen, weights)
    };
    let product = if weight.is_some() { e.mul(chosen, weights) } else { chosen };
    let loss = e.neg(product);
    let loss = only(e, counted, loss);
    let axes: Vec<usize> = (0..dims.len()).collect();
    let total = e.reduce(weights, Fold::Add, &axes);
    let loss = match how.reduction {
        0 => loss,
        1 => {
            let sum = e.reduce(loss, Fold::Add, &axes);
            e.div(sum, total)
        }
        2 => e.reduce(loss, Fold::Add, &axes),
        other => return refuse(format!("has reduction {other}")),
    };
    let dtype = e.dtype(x);
    let (loss, total) = (e.convert(loss, dtype), e.convert(total, dtype));
    Ok((loss, total))
}

fn nll_of(cx: &mut Cx<'_>) -> Res<(V, V)> {
    let (x, target) = (cx.tensor("self")?, cx.tensor("target")?);
    let weight = cx.maybe_tensor("weight")?;
    let how =
        How { reduction: cx.int("reduction")?, ignore: cx.int("ignore_index")?, smoothing: 0.0 };
    let (x, dtype) = cx.wide(x);
    let wide = cx.e.dtype(x);
    let weight = weight.map(|weight| cx.e.convert(weight, wide));
    let (loss, total) = nll(&mut cx.e, x, target, weight, how)?;
    Ok((cx.e.convert(loss, dtype), cx.e.convert(total, dtype)))
}

fn nll_forward(cx: &mut Cx<'_>) -> Res {
    let (loss, total) = nll_of(cx)?;
    // Without a reduction PyTorch leaves the sum of the weights at zero.
    let total = if cx.int("reduction")? == 0 { cx.e.like(total, 0.0) } else { total };
    Ok(Out::many([loss, total]))
}

fn cross_entropy(cx: &mut Cx<'_>) -> Res {
    let (x, target) = (cx.tensor("self")?, cx.tensor("target")?);
    let mut operands = vec![x, target];
    operands.extend(cx.maybe_tensor("weight")?);
    let how = How {
        reduction: cx.int("reduction")?,
        ignore: cx.int("ignore_index")?,
        smoothing: cx.float("label_smoothing")?,
    };
    let attributes = attrs([
        ("ignore_index", attr_i(how.ignore)),
        ("label_smoothing", attr_f(how.smoothing)),
        ("reduction", attr_i(how.reduction)),
    ]);
    let outs = cx.composite("aten.cross_entropy_loss", attributes, &operands, |e, args| {
        let dtype = e.dtype(args[0]);
        let wide = promote::wide(dtype);
        let x = e.convert(args[0], wide);
        let at = class_axis(e, x);
        // PyTorch has the logarithms in the tensor's type before it picks among them.
        let logs = softmax_of(e, x, at, true)?;
        let logs = e.convert(logs, dtype);
        let logs = e.convert(logs, wide);
        let weight = args.get(2).map(|weight| e.convert(*weight, wide));
        let loss = if e.ty(args[0]).dims == e.ty(args[1]).dims {
            soft(e, logs, args[1], weight, how)?
        } else {
            hard(e, logs, args[1], weight, how)?
        };
        Ok(vec![e.convert(loss, dtype)])
    })?;
    Ok(outs[0].into())
}

/// Targets are probabilities.
fn soft(e: &mut Emitter, logs: V, target: V, weight: Option<V>, how: How) -> Res<V> {
    let at = class_axis(e, logs);
    let classes = e.dims(logs)[at];
    let wide = e.dtype(logs);
    let mut target = e.convert(target, wide);
    if how.smoothing > 0.0 {
        let kept = e.scale(target, 1.0 - how.smoothing);
        target = e.shift(kept, how.smoothing / classes as f64);
    }
    let mut product = e.mul(logs, target);
    if let Some(weight) = weight {
        let weight = along_classes(e, weight, logs);
        product = e.mul(product, weight);
    }
    let sum = e.reduce(product, Fold::Add, &[at]);
    let loss = e.neg(sum);
    reduce(e, loss, how.reduction)
}

/// Targets are numbers of classes.
fn hard(e: &mut Emitter, logs: V, target: V, weight: Option<V>, how: How) -> Res<V> {
    let (loss, total) = nll(e, logs, target, weight, how)?;
    if how.smoothing == 0.0 {
        return Ok(loss);
    }
    let at = class_axis(e, logs);
    let classes = e.dims(logs)[at];
    let all = match weight {
        Some(weight) => {
            let weight = along_classes(e, weight, logs);
            e.mul(logs, weight)
        }
        None => logs,
    };
    let sum = e.reduce(all, Fold::Add, &[at]);
    let smooth = e.neg(sum);
    let counted = e.convert(target, DType::S64);
    let counted = e.compare_to(Direction::Ne, counted, how.ignore as f64);
    let smooth = only(e, counted, smooth);
    let axes: Vec<usize> = (0..e.rank(smooth)).collect();
    let smooth = match how.reduction {
        0 => smooth,
        1 => {
            let sum = e.reduce(smooth, Fold::Add, &axes);
            e.div(sum, total)
        }
        _ => e.reduce(smooth, Fold::Add, &axes),
    };
    let (loss, smooth) =
        (e.scale(loss, 1.0 - how.smoothing), e.scale(smooth, how.smoothing / classes as f64));
    Ok(e.add(loss, smooth))
}

/// Every class that is not the target's costs what it lacks of the margin.
fn multi_margin(cx: &mut Cx<'_>) -> Res {
    let (x, target) = (cx.tensor("self")?, cx.tensor("target")?);
    let (p, margin) = (cx.float("p")?, cx.float("margin")?);
    let weight = cx.maybe_tensor("weight")?;
    let single = cx.e.rank(x) < 2;
    let (x, dtype) = cx.wide(x);
    let e = &mut cx.e;
    let classes = e.dims(x).last().copied().unwrap_or(1);
    let rows = e.dims(x).iter().product::<i64>() / classes.max(1);
    let (x, target) = (e.reshape(x, &[rows, classes]), e.reshape(target, &[rows]));
    let hit = hits(e, x, target);
    let own = picked(e, hit, x);
    let own = e.broadcast_in(own, &[rows, classes], &[0]);
    let lack = e.sub(x, own);
    let lack = e.shift(lack, margin);
    let lack = at_least(e, lack, 0.0);
    let mut cost = if p == 2.0 { e.mul(lack, lack) } else { lack };
    if let Some(weight) = weight {
        let wide = e.dtype(x);
        let weight = e.convert(weight, wide);
        let spread = along_classes(e, weight, x);
        let weight = picked(e, hit, spread);
        let weight = e.broadcast_in(weight, &[rows, classes], &[0]);
        cost = e.mul(cost, weight);
    }
    let others = not(e, hit);
    let cost = only(e, others, cost);
    let sum = e.reduce(cost, Fold::Add, &[1]);
    let count = e.like(sum, classes as f64);
    let mut loss = e.div(sum, count);
    if single {
        loss = e.reshape(loss, &[]);
    }
    let loss = e.convert(loss, dtype);
    reduced(cx, loss)
}

/// Each class before a row's first -1 against each class that is not among them. Also yields
/// which classes are targets.
fn multilabel_margin(cx: &mut Cx<'_>) -> Res<(V, V)> {
    let (x, target) = (cx.tensor("self")?, cx.tensor("target")?);
    let shape = cx.e.dims(x).to_vec();
    let (x, dtype) = cx.wide(x);
    let e = &mut cx.e;
    let classes = shape.last().copied().unwrap_or(1);
    let rows = shape.iter().product::<i64>() / classes.max(1);
    let (x, target) = (e.reshape(x, &[rows, classes]), e.reshape(target, &[rows, classes]));
    let cube = [rows, classes, classes];
    // A label counts if none up to and including it is -1.
    let ends = e.compare_to(Direction::Lt, target, 0.0);
    let ends = e.broadcast_in(ends, &cube, &[0, 2]);
    let (label, before) = (e.iota(&cube, DType::S64, 1), e.iota(&cube, DType::S64, 2));
    let earlier = e.compare(Direction::Le, before, label);
    let ended = and(e, ends, earlier);
    let ended = e.reduce(ended, Fold::Or, &[2]);
    let counts = not(e, ended);
    let counts = e.broadcast_in(counts, &cube, &[0, 1]);
    let wanted = e.broadcast_in(target, &cube, &[0, 1]);
    let class = e.iota(&cube, e.dtype(target), 2);
    let hit = e.compare(Direction::Eq, class, wanted);
    let hit = and(e, hit, counts);
    let is_target = e.reduce(hit, Fold::Or, &[1]);
    let scores = e.broadcast_in(x, &cube, &[0, 2]);
    let own = only(e, hit, scores);
    let own = e.reduce(own, Fold::Add, &[2]);
    let own = e.broadcast_in(own, &cube, &[0, 1]);
    let lead = e.sub(own, scores);
    let lack = from(e, 1.0, lead);
    let lack = at_least(e, lack, 0.0);
    let others = not(e, is_target);
    let others = e.broadcast_in(others, &cube, &[0, 2]);
    let pairs = and(e, others, counts);
    let cost = only(e, pairs, lack);
    let sum = e.reduce(cost, Fold::Add, &[1, 2]);
    let count = e.like(sum, classes as f64);
    let loss = e.div(sum, count);
    let loss = if shape.len() < 2 { e.reshape(loss, &[]) } else { loss };
    let (loss, is_target) = (e.convert(loss, dtype), e.convert(is_target, dtype));
    let ty = TensorTy::new(shape.iter().copied(), dtype);
    let is_target = e.reshape(is_target, &ty.dims);
    Ok((loss, is_target))
}
