//! Products of groups of rows with a matrix each, as mixtures of experts have them.

use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use crate::cx::{Cx, Res, attrs, refuse};
use crate::emit::{Emitter, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::_grouped_mm", |cx| {
        if !cx.is_none("bias") || !cx.is_none("out_dtype") {
            return refuse("adds a bias or yields another type");
        }
        grouped(cx, "self", "mat2")
    }),
    ("transformers::grouped_mm_fallback", |cx| grouped(cx, "input", "weight")),
];

fn grouped(cx: &mut Cx<'_>, rows: &str, matrices: &str) -> Res {
    let (rows, matrices) = (cx.tensor(rows)?, cx.tensor(matrices)?);
    let Some(ends) = cx.maybe_tensor("offs")? else {
        if cx.e.rank(rows) != 3 || cx.e.rank(matrices) != 3 {
            return refuse("groups rows by nothing");
        }
        return Ok(cx.e.batched_matmul(rows, matrices).into());
    };
    if cx.e.rank(rows) != 2 || cx.e.rank(matrices) != 3 || cx.e.rank(ends) != 1 {
        return refuse(format!("multiplies groups of {} by {}", cx.e.ty(rows), cx.e.ty(matrices)));
    }
    let operands = [rows, matrices, ends];
    let outs = cx.composite("aten.grouped_mm", attrs([]), &operands, |e, args| {
        Ok(vec![product(e, args[0], args[1], args[2])])
    })?;
    Ok(outs[0].into())
}

/// Each row stands in its group's place among zeros, and one product over groups and columns does
/// the rest; rows of no group yield zeros.
fn product(e: &mut Emitter, rows: V, matrices: V, ends: V) -> V {
    let (dims, groups) = (e.dims(rows), e.dims(matrices)[0]);
    let grid = [dims[0], groups];
    let ends = e.convert(ends, DType::S64);
    let row = e.iota(&grid, DType::S64, 0);
    let to = e.broadcast_in(ends, &grid, &[1]);
    let before = e.compare(Direction::Lt, row, to);
    // A group starts where the one before it ends.
    let starts = e.pad(ends, &[1], &[-1], &[0], warpforge_snakeburger::eval::Num::I(0));
    let from = e.broadcast_in(starts, &grid, &[1]);
    let after = e.compare(Direction::Ge, row, from);
    let own = e.same(ops::And {}, &[before, after]);
    let wide = [dims[0], groups, dims[1]];
    let own = e.broadcast_in(own, &wide, &[0, 1]);
    let spread = e.broadcast_in(rows, &wide, &[0, 2]);
    let zero = e.like(spread, 0.0);
    let spread = e.select(own, spread, zero);
    e.dot(spread, matrices, &[], &[], &[1, 2], &[0, 1])
}
