//! Scaled dot-product attention: a composite, as every backend has it whole.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{Attr, DType};
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use super::activation::softmax_of;
use super::random::{attention_state, keep_mask};
use crate::cx::{Cx, Res, attr_f, attrs, broadcast};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, V};

pub const ROWS: &[(&str, Lower)] = &[("aten::scaled_dot_product_attention", attention)];

fn attention(cx: &mut Cx<'_>) -> Res {
    let (query, key, value) = (cx.tensor("query")?, cx.tensor("key")?, cx.tensor("value")?);
    let mask = cx.maybe_tensor("attn_mask")?;
    let (p, causal) = (cx.float("dropout_p")?, cx.bool("is_causal")?);
    let grouped = cx.bool("enable_gqa").unwrap_or(false);
    let last = *cx.e.dims(query).last().unwrap_or(&1);
    let scale = cx.maybe_float("scale")?.unwrap_or(1.0 / (last as f64).sqrt());
    let mut operands = vec![query, key, value];
    operands.extend(mask);
    if p > 0.0 {
        operands.push(attention_state(cx)?);
    }
    let attributes = attrs([
        ("dropout_p", attr_f(p)),
        ("enable_gqa", Attr::Bool(grouped)),
        ("is_causal", Attr::Bool(causal)),
        ("scale", attr_f(scale)),
    ]);
    let has_mask = mask.is_some();
    let outs =
        cx.composite("aten.scaled_dot_product_attention", attributes, &operands, |e, args| {
            let dtype = e.dtype(args[0]);
            let wide = promote::wide(dtype);
            let [query, key, value] = [args[0], args[1], args[2]].map(|v| e.convert(v, wide));
            let (key, value) = if grouped {
                let heads = e.dims(query)[e.rank(query) - 3];
                (repeat_heads(e, key, heads), repeat_heads(e, value, heads))
            } else {
                (key, value)
            };
            let (query, key, value) = same_batch(e, query, key, value)?;
            // Both sides take the root of the scale, as PyTorch does to keep the product small.
            let root = scale.abs().sqrt();
            let query = e.scale(query, root.copysign(scale));
            let key = e.scale(key, root);
            let rank = e.rank(query);
            let batch: Vec<usize> = (0..rank - 2).collect();
            let scores = e.dot(query, key, &batch, &batch, &[rank - 1], &[rank - 1]);
            let mask = has_mask.then(|| args[3]);
            let (scores, hidden) = masked(e, scores, mask, causal);
            let weights = softmax_of(e, scores, rank - 1, false)?;
            let weights = nothing_to_see(e, weights, hidden);
            let weights = if p > 0.0 {
                let dims = e.dims(weights);
                let kept = keep_mask(e, args[3 + usize::from(has_mask)], &dims, p);
                let zero = e.like(weights, 0.0);
                let scaled = e.scale(weights, 1.0 / (1.0 - p));
                e.select(kept, scaled, zero)
            } else {
                weights
            };
            let y = e.dot(weights, value, &batch, &batch, &[rank - 1], &[rank - 2]);
            Ok(vec![e.convert(y, dtype)])
        })?;
    Ok(outs[0].into())
}

/// Grouped queries: each head of keys serves several of queries.
fn repeat_heads(e: &mut Emitter, x: V, heads: i64) -> V {
    let dims = e.dims(x).to_vec();
    let at = dims.len() - 3;
    let times = heads / dims[at].max(1);
    if times <= 1 {
        return x;
    }
    let mut wide = dims.clone();
    wide.insert(at + 1, times);
    let axes: Vec<usize> = (0..wide.len()).filter(|axis| *axis != at + 1).collect();
    let x = e.broadcast_in(x, &wide, &axes);
    let mut result = dims;
    result[at] = heads;
    e.reshape(x, &result)
}

fn same_batch(e: &mut Emitter, q: V, k: V, v: V) -> Res<(V, V, V)> {
    let batch = |e: &Emitter, x: V| e.dims(x)[..e.rank(x) - 2].to_vec();
    let dims = broadcast(&[batch(e, q), batch(e, k), batch(e, v)])?;
    let mut spread = |x: V| {
        let own = e.dims(x);
        let shape: Vec<i64> = dims.iter().chain(&own[own.len() - 2..]).copied().collect();
        e.broadcast_to(x, &shape)
    };
    Ok((spread(q), spread(k), spread(v)))
}

/// Scores with masked places at minus infinity, and which places those are if any.
fn masked(e: &mut Emitter, scores: V, mask: Option<V>, causal: bool) -> (V, Option<V>) {
    let dims = e.dims(scores);
    let rank = dims.len();
    let mut scores = scores;
    let mut visible: Option<V> = None;
    if causal {
        let shape = [dims[rank - 2], dims[rank - 1]];
        let (i, j) = (e.iota(&shape, DType::S64, 0), e.iota(&shape, DType::S64, 1));
        let seen = e.compare(Direction::Ge, i, j);
        visible = Some(e.broadcast_to(seen, &dims));
    }
    match mask {
        Some(mask) if e.dtype(mask).is_bool() => {
            let mask = e.broadcast_to(mask, &dims);
            visible = Some(match visible {
                Some(seen) => e.same(ops::And {}, &[seen, mask]),
                None => mask,
            });
        }
        Some(mask) => {
            let mask = e.convert(mask, e.dtype(scores));
            let mask = e.broadcast_to(mask, &dims);
            scores = e.add(scores, mask);
        }
        None => {}
    }
    if let Some(visible) = visible {
        let hidden = e.like(scores, f64::NEG_INFINITY);
        scores = e.select(visible, scores, hidden);
    }
    (scores, visible)
}

/// A query that may see nothing attends to nothing.
fn nothing_to_see(e: &mut Emitter, weights: V, visible: Option<V>) -> V {
    let Some(visible) = visible else { return weights };
    let dims = e.dims(weights);
    let rank = dims.len();
    let any = e.reduce(visible, warpforge_snakeburger::build::Fold::Or, &[rank - 1]);
    let axes: Vec<usize> = (0..rank - 1).collect();
    let any = e.broadcast_in(any, &dims, &axes);
    let zero = e.full(&dims, e.dtype(weights), Num::F(0.0));
    e.select(any, weights, zero)
}
