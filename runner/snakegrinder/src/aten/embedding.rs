//! Embeddings: rows of a table by their numbers.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{Attr, DType};
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use super::reduce::vector_norm;
use crate::cx::{Cx, Out, Res, attr_i, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::_embedding_bag", |cx| embedding_bag(cx, true)),
    ("aten::_embedding_bag_forward_only", |cx| embedding_bag(cx, true)),
    ("aten::embedding", |cx| {
        let operands = [cx.tensor("weight")?, cx.tensor("indices")?];
        if cx.e.rank(operands[0]) != 2 {
            return refuse(format!("takes rows of {}", cx.e.ty(operands[0])));
        }
        // Of no meaning for the result: what its derivative does.
        let mut attributes = Vec::new();
        let padding = cx.int("padding_idx")?;
        if padding >= 0 {
            attributes.push(("padding_idx".into(), attr_i(padding)));
        }
        if cx.bool("scale_grad_by_freq")? {
            attributes.push(("scale_grad_by_freq".into(), Attr::Bool(true)));
        }
        let outs = cx.composite("aten.embedding", attributes, &operands, |e, args| {
            Ok(vec![e.take(args[0], 0, args[1])])
        })?;
        Ok(outs[0].into())
    }),
    ("aten::embedding_bag", |cx| embedding_bag(cx, false)),
    ("aten::embedding_renorm", |cx| Ok(renorm(cx)?.into())),
    ("aten::_no_grad_embedding_renorm_", |cx| {
        let target = cx.slot("weight")?;
        let value = renorm(cx)?;
        cx.write(target, value)?;
        Ok(Out::Slot(target))
    }),
];

/// Rows that are named and too long are shortened.
fn renorm(cx: &mut Cx<'_>) -> Res<V> {
    let (table, indices) =
        if cx.given("weight") { ("weight", "input") } else { ("self", "indices") };
    let (table, indices) = (cx.tensor(table)?, cx.tensor(indices)?);
    let (limit, order) = (cx.float("max_norm")?, cx.float("norm_type")?);
    let dims = cx.e.dims(table);
    if dims.len() != 2 {
        return refuse(format!("shortens rows of {}", cx.e.ty(table)));
    }
    let (wide, dtype) = cx.wide(table);
    let e = &mut cx.e;
    let size = e.same(ops::Abs {}, &[wide]);
    let norm = vector_norm(e, size, order, &[1], false)?;
    let count: i64 = e.dims(indices).iter().product();
    let indices = e.reshape(indices, &[count]);
    let named = e.full(&[dims[0]], DType::I1, Num::B(false));
    let yes = e.full(&[count], DType::I1, Num::B(true));
    let named = e.scatter_at(named, &[0], &[indices], 0, yes, None);
    let long = e.compare_to(Direction::Gt, norm, limit);
    let short = e.same(ops::And {}, &[named, long]);
    let divisor = e.shift(norm, 1e-7);
    let limit = e.like(norm, limit);
    let factor = e.div(limit, divisor);
    let (factor, short) = (e.broadcast_in(factor, &dims, &[0]), e.broadcast_in(short, &dims, &[0]));
    let scaled = e.mul(wide, factor);
    let scaled = e.convert(scaled, dtype);
    Ok(e.select(short, scaled, table))
}

/// Which bag each index is in: the last one that starts no later.
fn bag_of(e: &mut Emitter, offsets: V, count: i64) -> V {
    let bags = e.dims(offsets)[0];
    let offsets = e.convert(offsets, DType::S64);
    let starts = e.broadcast_in(offsets, &[count, bags], &[1]);
    let places = e.iota(&[count, bags], DType::S64, 0);
    let begun = e.compare(Direction::Le, starts, places);
    let begun = e.convert(begun, DType::S64);
    let begun = e.reduce(begun, Fold::Add, &[1]);
    e.shift(begun, -1.0)
}

/// Rows of each bag together; to the operators with an underscore, -1 means that none is left out.
fn embedding_bag(cx: &mut Cx<'_>, internal: bool) -> Res {
    let (weight, indices) = (cx.tensor("weight")?, cx.tensor("indices")?);
    let (offsets, scales) = (cx.tensor("offsets")?, cx.maybe_tensor("per_sample_weights")?);
    let mode = cx.int("mode")?;
    let skipped = if cx.given("padding_idx") { cx.maybe_int("padding_idx")? } else { None };
    let skipped = skipped.filter(|index| !internal || *index >= 0);
    let trailing = cx.bool("include_last_offset")?;
    let dims = cx.e.dims(weight);
    if cx.e.rank(indices) != 1 || cx.e.rank(offsets) != 1 || dims.len() != 2 {
        return refuse("takes bags of something but a list of indices");
    }
    let (count, dtype) = (cx.e.dims(indices)[0], cx.e.dtype(weight));
    let e = &mut cx.e;
    let bags = e.dims(offsets)[0] - i64::from(trailing);
    let bag = bag_of(e, offsets, count);
    let wide = promote::wide(dtype);
    let rows = e.take(weight, 0, indices);
    let mut rows = e.convert(rows, wide);
    if let Some(scales) = scales {
        let scales = e.convert(scales, wide);
        let row_dims = e.dims(rows);
        let scales = e.broadcast_in(scales, &row_dims, &[0]);
        rows = e.mul(rows, scales);
    }
    // Indices that are left out go to a bag beyond the last, which is dropped.
    let mut target = bag;
    if let Some(skipped) = skipped {
        let index = e.convert(indices, DType::S64);
        let skipped = if skipped < 0 { skipped + dims[0] } else { skipped };
        let out = e.compare_to(Direction::Eq, index, skipped as f64);
        let beyond = e.like(bag, bags as f64);
        target = e.select(out, beyond, bag);
    }
    let ones = e.full(&[count], DType::S64, Num::I(1));
    let sizes = e.zeros(&[bags], DType::S64);
    let sizes = e.scatter_at(sizes, &[0], &[target], 0, ones, Some(Fold::Add));
    let filled = e.compare_to(Direction::Gt, sizes, 0.0);
    let filled = e.broadcast_in(filled, &[bags, dims[1]], &[0]);
    let result = if mode == 2 {
        let start = e.float(&[bags, dims[1]], wide, f64::NEG_INFINITY);
        let most = e.scatter_at(start, &[0], &[target], 0, rows, Some(Fold::Max));
        let zero = e.like(most, 0.0);
        e.select(filled, most, zero)
    } else {
        let start = e.float(&[bags, dims[1]], wide, 0.0);
        let sum = e.scatter_at(start, &[0], &[target], 0, rows, Some(Fold::Add));
        if mode == 1 {
            let one = e.like(sizes, 1.0);
            let divisor = e.max(sizes, one);
            let divisor = e.convert(divisor, wide);
            let divisor = e.broadcast_in(divisor, &[bags, dims[1]], &[0]);
            e.div(sum, divisor)
        } else {
            sum
        }
    };
    let result = e.convert(result, dtype);
    // The other results are scratch of PyTorch's kernels, whose shapes differ by device.
    Ok(Out::many([result]))
}
