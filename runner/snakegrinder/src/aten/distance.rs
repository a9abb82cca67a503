//! Distances and angles between vectors.

use warpforge_snakeburger::ir::DType;

use super::Lower;
use super::math::{abs, at_least, sqrt};
use super::reduce::vector_norm;
use crate::cx::{Cx, Operand, Res, axis, broadcast, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::_cdist_forward", cdist),
    ("aten::_euclidean_dist", |cx| {
        let (a, b) = (cx.tensor("x1")?, cx.tensor("x2")?);
        Ok(cross_distances(cx, a, b, 2.0, true)?.into())
    }),
    ("aten::_pdist_forward", pdist),
    ("aten::cdist", cdist),
    ("aten::cosine_similarity", cosine_similarity),
    ("aten::dist", |cx| {
        let both = [cx.operand("self")?, cx.operand("other")?];
        let p = cx.float("p")?;
        let dtype = cx.common(&both);
        let both = cx.together(&both, promote::wide(dtype))?;
        let difference = cx.e.sub(both[0], both[1]);
        let size = abs(&mut cx.e, difference);
        let axes: Vec<usize> = (0..cx.e.rank(size)).collect();
        let y = vector_norm(&mut cx.e, size, p, &axes, false)?;
        Ok(cx.e.convert(y, dtype.part()).into())
    }),
    ("aten::pairwise_distance", |cx| {
        let (a, b) = (cx.tensor("x1")?, cx.tensor("x2")?);
        let (p, eps, keep) = (cx.float("p")?, cx.float("eps")?, cx.bool("keepdim")?);
        let y = pairwise(cx, a, b, p, eps, keep)?;
        let dtype = cx.common(&[Operand::Tensor(a), Operand::Tensor(b)]);
        Ok(cx.e.convert(y, dtype).into())
    }),
    ("aten::pdist", pdist),
];

/// The norm of the difference along the last axis, in the wide type.
pub fn pairwise(cx: &mut Cx<'_>, a: V, b: V, p: f64, eps: f64, keep: bool) -> Res<V> {
    let both = [Operand::Tensor(a), Operand::Tensor(b)];
    let dtype = promote::to_float(cx.common(&both), cx.default);
    let both = cx.together(&both, promote::wide(dtype))?;
    let e = &mut cx.e;
    let difference = e.sub(both[0], both[1]);
    let difference = e.shift(difference, eps);
    let size = abs(e, difference);
    let last = e.rank(size).saturating_sub(1);
    vector_norm(e, size, p, &[last], keep)
}

/// The product of the two tensors, each divided by its own norm.
fn cosine_similarity(cx: &mut Cx<'_>) -> Res {
    let both = [cx.operand("x1")?, cx.operand("x2")?];
    let eps = cx.float("eps")?;
    let dtype = promote::to_float(cx.common(&both), cx.default);
    let both = cx.together(&both, promote::wide(dtype))?;
    let dims = cx.e.dims(both[0]);
    let at = axis(cx.int("dim")?, dims.len())?;
    let e = &mut cx.e;
    let all: Vec<usize> = (0..dims.len()).collect();
    let mut units = Vec::new();
    for x in both {
        let square = e.mul(x, x);
        let sum = e.reduce_keep(square, Fold::Add, &[at]);
        let norm = sqrt(e, sum);
        let norm = at_least(e, norm, eps);
        let norm = e.broadcast_in(norm, &dims, &all);
        units.push(e.div(x, norm));
    }
    let product = e.mul(units[0], units[1]);
    let sum = e.reduce(product, Fold::Add, &[at]);
    Ok(e.convert(sum, dtype).into())
}

/// From every row of one to every row of the other.
fn cdist(cx: &mut Cx<'_>) -> Res {
    let (a, b) = (cx.tensor("x1")?, cx.tensor("x2")?);
    let p = cx.float("p")?;
    // How to choose the way euclidean distances are computed: by the product of the matrices if
    // there are more than 25 rows, or whenever (1) or never (2) that is wanted.
    let mode = cx.maybe_int("compute_mode")?.unwrap_or(0);
    let rows = |v: V| cx.e.dims(v)[cx.e.rank(v).saturating_sub(2)];
    let product = mode == 1 || (mode == 0 && (rows(a) > 25 || rows(b) > 25));
    Ok(cross_distances(cx, a, b, p, product)?.into())
}

fn cross_distances(cx: &mut Cx<'_>, a: V, b: V, p: f64, product: bool) -> Res<V> {
    let (left, right) = (cx.e.dims(a).to_vec(), cx.e.dims(b).to_vec());
    if left.len() < 2 || right.len() < 2 {
        return refuse("takes matrices");
    }
    let both = [Operand::Tensor(a), Operand::Tensor(b)];
    let dtype = cx.common(&both);
    let wide = promote::wide(dtype);
    let (m, n) = (left.len(), right.len());
    let batch = broadcast(&[left[..m - 2].to_vec(), right[..n - 2].to_vec()])?;
    let (rows, columns, width) = (left[m - 2], right[n - 2], left[m - 1]);
    let rank = batch.len() + 3;
    let with = |tail: &[i64]| -> Vec<i64> { batch.iter().chain(tail).copied().collect() };
    let e = &mut cx.e;
    let (a, b) = (e.convert(a, wide), e.convert(b, wide));
    let (a, b) =
        (e.broadcast_to(a, &with(&[rows, width])), e.broadcast_to(b, &with(&[columns, width])));
    let y = if p == 2.0 && product {
        let axes: Vec<usize> = (0..batch.len()).collect();
        let last = batch.len() + 1;
        let inner = e.dot(a, b, &axes, &axes, &[last], &[last]);
        let shape = with(&[rows, columns]);
        let before: Vec<usize> = axes.iter().copied().chain([batch.len()]).collect();
        let after: Vec<usize> = axes.iter().copied().chain([batch.len() + 1]).collect();
        let mut norms = Vec::new();
        for (x, axes) in [(a, before), (b, after)] {
            let square = e.mul(x, x);
            let sum = e.reduce(square, Fold::Add, &[last]);
            norms.push(e.broadcast_in(sum, &shape, &axes));
        }
        let twice = e.scale(inner, -2.0);
        let sum = e.add(norms[0], norms[1]);
        let sum = e.add(sum, twice);
        let sum = at_least(e, sum, 0.0);
        sqrt(e, sum)
    } else {
        let shape = with(&[rows, columns, width]);
        let before: Vec<usize> = (0..rank).filter(|axis| *axis != rank - 2).collect();
        let after: Vec<usize> = (0..rank).filter(|axis| *axis != rank - 3).collect();
        let (a, b) = (e.broadcast_in(a, &shape, &before), e.broadcast_in(b, &shape, &after));
        let difference = e.sub(a, b);
        let size = abs(e, difference);
        vector_norm(e, size, p, &[rank - 1], false)?
    };
    Ok(e.convert(y, dtype))
}

/// The distances of every two rows, the first of which comes first.
fn pdist(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let p = cx.float("p")?;
    let rows = cx.e.dims(x)[0];
    let pairs: Vec<(i64, i64)> =
        (0..rows).flat_map(|i| (i + 1..rows).map(move |j| (i, j))).collect();
    let (wide, dtype) = cx.wide(x);
    let e = &mut cx.e;
    let count = [pairs.len() as i64];
    let firsts: Vec<i64> = pairs.iter().map(|(i, _)| *i).collect();
    let seconds: Vec<i64> = pairs.iter().map(|(_, j)| *j).collect();
    let (i, j) = (e.ints(&firsts, &count, DType::S64), e.ints(&seconds, &count, DType::S64));
    let (a, b) = (e.take(wide, 0, i), e.take(wide, 0, j));
    let difference = e.sub(a, b);
    let size = abs(e, difference);
    let y = vector_norm(e, size, p, &[1], false)?;
    Ok(e.convert(y, dtype).into())
}
