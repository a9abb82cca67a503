//! Matrix products of groups of rows, each with a matrix of its own: what mixtures of experts do.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::Direction;

use super::Lower;
use super::math::and;
use crate::cx::{Cx, Res, attrs, refuse};
use warpforge_snakeburger::build::V;

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::_grouped_mm", |cx| {
        let (x, weight) = (cx.tensor("self")?, cx.tensor("mat2")?);
        if !cx.is_none("bias") {
            return refuse("adds a bias to each group");
        }
        let asked = cx.dtype("out_dtype")?.unwrap_or(cx.e.dtype(x));
        let y = match cx.maybe_tensor("offs")? {
            Some(ends) => grouped(cx, x, weight, ends)?,
            None if cx.e.rank(x) == 3 && cx.e.rank(weight) == 3 => cx.e.batched_matmul(x, weight),
            None => return refuse("has no groups"),
        };
        Ok(cx.e.convert(y, asked).into())
    }),
    ("transformers::grouped_mm_fallback", |cx| {
        let (x, weight, ends) = (cx.tensor("input")?, cx.tensor("weight")?, cx.tensor("offs")?);
        Ok(grouped(cx, x, weight, ends)?.into())
    }),
];

/// Row `i` times the matrix of the group it lies in; rows past the last group are zero. `ends`
/// says where each group ends.
fn grouped(cx: &mut Cx<'_>, x: V, weight: V, ends: V) -> Res<V> {
    if cx.e.rank(x) != 2 || cx.e.rank(weight) != 3 || cx.e.rank(ends) != 1 {
        return refuse("groups other than the rows of one matrix");
    }
    let outs = cx.composite("aten.grouped_mm", attrs([]), &[x, weight, ends], |e, args| {
        let [x, weight, ends] = [args[0], args[1], args[2]];
        let (rows, columns) = (e.dims(x)[0], e.dims(weight)[2]);
        let (groups, dtype) = (e.dims(weight)[0], e.dtype(x));
        let ends = e.convert(ends, DType::S64);
        let shape = [rows, columns];
        let nothing = e.full(&shape, dtype, Num::F(0.0));
        let start = e.full(&[], DType::S64, Num::I(0));
        let outs = e.count(groups, &[nothing, start], |e, group, state| {
            let (so_far, start) = (state[0], state[1]);
            let end = e.pick_at(ends, 0, group);
            let matrix = e.pick_at(weight, 0, group);
            let product = e.dot(x, matrix, &[], &[], &[1], &[0]);
            let row = e.iota(&shape, DType::S64, 0);
            let (from, to) = (e.broadcast_in(start, &shape, &[]), e.broadcast_in(end, &shape, &[]));
            let (after, before) =
                (e.compare(Direction::Ge, row, from), e.compare(Direction::Lt, row, to));
            let inside = and(e, after, before);
            Ok::<_, crate::cx::Why>(vec![e.select(inside, product, so_far), end])
        })?;
        Ok(vec![outs[0]])
    })?;
    Ok(outs[0])
}
