//! Systems of linear equations: triangular ones and Cholesky's factor are StableHLO's own;
//! Gauss's elimination and Householder's reflections are loops over columns.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction, TransposeA};

use super::Lower;
use super::math::{abs, and, log, not, only, sqrt};
use super::reduce::extreme_and_place;
use crate::cx::{Cx, Out, Res, broadcast, refuse};
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::cholesky", |cx| Ok(cholesky(cx)?.into())),
    ("aten::cholesky_inverse", |cx| {
        let x = cx.tensor("self")?;
        let upper = cx.bool("upper")?;
        let unit = unit_like(&mut cx.e, x);
        Ok(from_factor(&mut cx.e, x, unit, upper).into())
    }),
    ("aten::cholesky_solve", |cx| {
        let (b, factor) = (cx.tensor("self")?, cx.tensor("input2")?);
        let upper = cx.bool("upper")?;
        let (factor, b) = same_batch(&mut cx.e, factor, b)?;
        Ok(from_factor(&mut cx.e, factor, b, upper).into())
    }),
    ("aten::det", |cx| determinant(cx, "self")),
    ("aten::inverse", |cx| Ok(inverse(cx, "self")?.into())),
    ("aten::linalg_cholesky", |cx| Ok(cholesky(cx)?.into())),
    ("aten::linalg_cholesky_ex", |cx| {
        let factor = cholesky(cx)?;
        Ok(with_info(cx, factor))
    }),
    ("aten::linalg_det", |cx| determinant(cx, "A")),
    ("aten::linalg_inv", |cx| Ok(inverse(cx, "A")?.into())),
    ("aten::linalg_inv_ex", |cx| {
        let y = inverse(cx, "A")?;
        Ok(with_info(cx, y))
    }),
    ("aten::linalg_qr", qr),
    ("aten::linalg_slogdet", |cx| {
        let (sign, log) = log_determinant(cx, "A")?;
        Ok(Out::many([sign, log]))
    }),
    ("aten::linalg_solve", |cx| Ok(solve(cx)?.into())),
    ("aten::linalg_solve_ex", |cx| {
        let y = solve(cx)?;
        let a = cx.tensor("A")?;
        let info = info_of(cx, a);
        Ok(Out::many([y, info]))
    }),
    ("aten::linalg_solve_triangular", |cx| {
        let (a, b) = (cx.tensor("self")?, cx.tensor("B")?);
        let (a, b) = same_batch(&mut cx.e, a, b)?;
        let op = ops::TriangularSolve {
            left_side: cx.bool("left")?,
            lower: !cx.bool("upper")?,
            unit_diagonal: cx.bool("unitriangular")?,
            transpose_a: TransposeA::No,
        };
        let ty = cx.e.ty(b).clone();
        Ok(cx.e.push(op, &[a, b], ty).into())
    }),
    ("aten::logdet", |cx| {
        let (sign, log) = log_determinant(cx, "self")?;
        let negative = cx.e.compare_to(Direction::Lt, sign, 0.0);
        let nan = cx.e.like(log, f64::NAN);
        Ok(cx.e.select(negative, nan, log).into())
    }),
    ("aten::slogdet", |cx| {
        let (sign, log) = log_determinant(cx, "self")?;
        Ok(Out::many([sign, log]))
    }),
    ("aten::triangular_solve", |cx| {
        let (b, a) = (cx.tensor("self")?, cx.tensor("A")?);
        let (a, b) = same_batch(&mut cx.e, a, b)?;
        let turned = cx.bool("transpose")?;
        let op = ops::TriangularSolve {
            left_side: true,
            lower: !cx.bool("upper")?,
            unit_diagonal: cx.bool("unitriangular")?,
            transpose_a: if turned { TransposeA::Yes } else { TransposeA::No },
        };
        let ty = cx.e.ty(b).clone();
        let y = cx.e.push(op, &[a, b], ty);
        Ok(Out::many([y, a]))
    }),
    ("aten::linalg_eig", |_| unknown_steps("eigenvectors")),
    ("aten::linalg_eigh", |_| unknown_steps("eigenvectors")),
    ("aten::linalg_eigvals", |_| unknown_steps("complex eigenvalues")),
    ("aten::linalg_lstsq", |_| unknown_steps("a least-squares solution")),
    ("aten::linalg_matrix_exp", |_| unknown_steps("a matrix's exponential")),
    ("aten::linalg_pinv", |_| unknown_steps("singular vectors")),
    ("aten::linalg_svd", |_| unknown_steps("singular vectors")),
    ("aten::matrix_exp", |_| unknown_steps("a matrix's exponential")),
    ("aten::svd", |_| unknown_steps("singular vectors")),
];

fn unknown_steps(what: &str) -> Res {
    refuse(format!("needs {what}, which an iteration finds that is not written here"))
}

/// A matrix or a batch of them, of floats.
fn matrix(cx: &mut Cx<'_>, name: &str, square: bool) -> Res<V> {
    let x = cx.tensor(name)?;
    let dims = cx.e.dims(x);
    let rank = dims.len();
    if rank < 2 || (square && dims[rank - 1] != dims[rank - 2]) {
        return refuse("takes square matrices");
    }
    if !cx.e.dtype(x).is_float() {
        return refuse("takes matrices of real numbers");
    }
    Ok(x)
}

/// Whether a decomposition failed is not known before the program runs: it is taken to succeed.
fn with_info(cx: &mut Cx<'_>, y: V) -> Out {
    let info = info_of(cx, y);
    Out::many([y, info])
}

fn info_of(cx: &mut Cx<'_>, matrices: V) -> V {
    let dims = cx.e.dims(matrices);
    cx.e.full(&dims[..dims.len() - 2], DType::S32, Num::I(0))
}

fn identity(e: &mut Emitter, n: i64, dtype: DType) -> V {
    let (i, j) = (e.iota(&[n, n], DType::S64, 0), e.iota(&[n, n], DType::S64, 1));
    let same = e.compare(Direction::Eq, i, j);
    e.convert(same, dtype)
}

/// The unit matrix for each matrix of a batch.
fn unit_like(e: &mut Emitter, x: V) -> V {
    let (dims, dtype) = (e.dims(x), e.dtype(x));
    let unit = identity(e, dims[dims.len() - 1], dtype);
    e.broadcast_to(unit, &dims)
}

fn same_batch(e: &mut Emitter, a: V, b: V) -> Res<(V, V)> {
    let (left, right) = (e.dims(a).to_vec(), e.dims(b).to_vec());
    let (m, n) = (left.len(), right.len());
    if m < 2 || n < 2 {
        return refuse("takes matrices");
    }
    let batch = broadcast(&[left[..m - 2].to_vec(), right[..n - 2].to_vec()])?;
    let with = |matrix: &[i64]| -> Vec<i64> { batch.iter().chain(matrix).copied().collect() };
    let (left, right) = (with(&left[m - 2..]), with(&right[n - 2..]));
    Ok((e.broadcast_to(a, &left), e.broadcast_to(b, &right)))
}

fn triangular(e: &mut Emitter, a: V, b: V, lower: bool, unit: bool, turned: bool) -> V {
    let transpose_a = if turned { TransposeA::Yes } else { TransposeA::No };
    let op = ops::TriangularSolve { left_side: true, lower, unit_diagonal: unit, transpose_a };
    let ty = e.ty(b).clone();
    e.push(op, &[a, b], ty)
}

fn cholesky(cx: &mut Cx<'_>) -> Res<V> {
    let x = cx.tensor("self")?;
    let upper = cx.bool("upper")?;
    let e = &mut cx.e;
    let y = e.same(ops::Cholesky { lower: !upper }, &[x]);
    // The other triangle of the result is anything.
    let dims = e.dims(y);
    let rank = dims.len();
    if rank < 2 {
        return refuse("takes matrices");
    }
    let (i, j) = (e.iota(&dims, DType::S64, rank - 2), e.iota(&dims, DType::S64, rank - 1));
    let kept = e.compare(if upper { Direction::Le } else { Direction::Ge }, i, j);
    Ok(only(e, kept, y))
}

/// Solves with the matrix whose Cholesky factor this is.
fn from_factor(e: &mut Emitter, factor: V, b: V, upper: bool) -> V {
    let half = triangular(e, factor, b, !upper, false, upper);
    triangular(e, factor, half, !upper, false, !upper)
}

/// Both triangular factors in one matrix, the rows' order, and its sign.
struct Factors {
    packed: V,
    order: V,
    sign: V,
}

/// Elimination with the largest element of each column as the pivot; matrices are
/// `[batch, n, n]`.
fn eliminate(e: &mut Emitter, a: V) -> Res<Factors> {
    let dims = e.dims(a).to_vec();
    let (batch, n) = (dims[0], dims[1]);
    let dtype = e.dtype(a);
    let order = e.iota(&[batch, n], DType::S64, 1);
    let sign = e.float(&[batch], dtype, 1.0);
    let outs = e.count(n, &[a, order, sign], |e, k, state| {
        let (a, order, sign) = (state[0], state[1], state[2]);
        let column = e.pick_at(a, 2, k);
        let size = abs(e, column);
        let row = e.iota(&[batch, n], DType::S64, 1);
        let step = e.broadcast_in(k, &[batch, n], &[]);
        let open = e.compare(Direction::Ge, row, step);
        let none = e.like(size, -1.0);
        let size = e.select(open, size, none);
        let (_, pivot) = extreme_and_place(e, size, Fold::Max, 1);
        let pivot_of = e.broadcast_in(pivot, &[batch, n], &[0]);
        let is_pivot = e.compare(Direction::Eq, row, pivot_of);
        let is_step = e.compare(Direction::Eq, row, step);
        let order = swapped(e, order, is_step, is_pivot);
        let (step_rows, pivot_rows) =
            (e.broadcast_in(is_step, &dims, &[0, 1]), e.broadcast_in(is_pivot, &dims, &[0, 1]));
        let a = swapped(e, a, step_rows, pivot_rows);
        let at = e.broadcast_in(k, &[batch], &[]);
        let stays = e.compare(Direction::Eq, pivot, at);
        let other = e.neg(sign);
        let sign = e.select(stays, sign, other);
        // Every row below loses its multiple of the pivot's row; the multiples stay in the
        // column they clear.
        let top = e.pick_at(a, 1, k);
        let head = e.pick_at(top, 1, k);
        let head = e.broadcast_in(head, &[batch, n], &[0]);
        let column = e.pick_at(a, 2, k);
        let factor = e.div(column, head);
        let below = e.compare(Direction::Gt, row, step);
        let (factor_of, top) =
            (e.broadcast_in(factor, &dims, &[0, 1]), e.broadcast_in(top, &dims, &[0, 2]));
        let product = e.mul(factor_of, top);
        let less = e.sub(a, product);
        let (i, j) = (e.broadcast_in(below, &dims, &[0, 1]), e.broadcast_in(below, &dims, &[0, 2]));
        let inside = and(e, i, j);
        let a = e.select(inside, less, a);
        let in_column = e.broadcast_in(is_step, &dims, &[0, 2]);
        let cleared = and(e, i, in_column);
        let a = e.select(cleared, factor_of, a);
        Ok::<_, crate::cx::Why>(vec![a, order, sign])
    })?;
    Ok(Factors { packed: outs[0], order: outs[1], sign: outs[2] })
}

/// Exchanges the row that one mask marks with the one another marks.
fn swapped(e: &mut Emitter, x: V, first: V, second: V) -> V {
    let dims = e.dims(x);
    let axes: Vec<usize> = (0..dims.len()).filter(|axis| *axis != 1).collect();
    let mut rows = Vec::new();
    for mask in [first, second] {
        let row = only(e, mask, x);
        let row = e.reduce(row, Fold::Add, &[1]);
        rows.push(e.broadcast_in(row, &dims, &axes));
    }
    let x = e.select(first, rows[1], x);
    // Where both masks mark the same row, it stays what it was.
    let apart = not(e, first);
    let moved = and(e, second, apart);
    e.select(moved, rows[0], x)
}

fn flat(e: &mut Emitter, x: V) -> V {
    let dims = e.dims(x).to_vec();
    let rank = dims.len();
    let batch: i64 = dims[..rank - 2].iter().product();
    e.reshape(x, &[batch, dims[rank - 2], dims[rank - 1]])
}

/// Solves for every column of the right side.
fn solve_of(e: &mut Emitter, a: V, b: V) -> Res<V> {
    let dims = e.dims(b).to_vec();
    let (a, b) = (flat(e, a), flat(e, b));
    let factors = eliminate(e, a)?;
    let (shape, dtype) = (e.dims(a), e.dtype(a));
    let order = e.broadcast_in(factors.order, &shape, &[0, 1]);
    let column = e.iota(&shape, DType::S64, 2);
    let places = e.compare(Direction::Eq, order, column);
    let places = e.convert(places, dtype);
    let b = e.batched_matmul(places, b);
    let half = triangular(e, factors.packed, b, true, true, false);
    let y = triangular(e, factors.packed, half, false, false, false);
    Ok(e.reshape(y, &dims))
}

fn inverse(cx: &mut Cx<'_>, name: &str) -> Res<V> {
    let a = matrix(cx, name, true)?;
    let unit = unit_like(&mut cx.e, a);
    solve_of(&mut cx.e, a, unit)
}

fn solve(cx: &mut Cx<'_>) -> Res<V> {
    let a = matrix(cx, "A", true)?;
    let b = cx.tensor("B")?;
    let left = cx.bool("left")?;
    let e = &mut cx.e;
    let (coefficients, right) = (e.dims(a).to_vec(), e.dims(b).to_vec());
    let vectors = right.len() == 1
        || (coefficients.len() == right.len() + 1
            && right[..] == coefficients[..coefficients.len() - 1]);
    if vectors {
        let rank = right.len();
        let b = e.unsqueeze(b, &[rank]);
        let (a, b) = same_batch(e, a, b)?;
        let y = solve_of(e, a, b)?;
        let mut dims = e.dims(y).to_vec();
        dims.pop();
        return Ok(e.reshape(y, &dims));
    }
    let (a, b) = same_batch(e, a, b)?;
    if left {
        return solve_of(e, a, b);
    }
    let rank = e.rank(a);
    let (a, b) = (e.swap(a, rank - 2, rank - 1), e.swap(b, rank - 2, rank - 1));
    let y = solve_of(e, a, b)?;
    Ok(e.swap(y, rank - 2, rank - 1))
}

/// The diagonal of the upper factor, and the sign of the rows' order, `[batch, n]` and `[batch]`.
fn pivots(e: &mut Emitter, a: V) -> Res<(V, V)> {
    let a = flat(e, a);
    let factors = eliminate(e, a)?;
    let dims = e.dims(a);
    let (i, j) = (e.iota(&dims, DType::S64, 1), e.iota(&dims, DType::S64, 2));
    let on = e.compare(Direction::Eq, i, j);
    let kept = only(e, on, factors.packed);
    Ok((e.reduce(kept, Fold::Add, &[2]), factors.sign))
}

fn determinant(cx: &mut Cx<'_>, name: &str) -> Res {
    let a = matrix(cx, name, true)?;
    let dims = cx.e.dims(a);
    let (pivots, sign) = pivots(&mut cx.e, a)?;
    let product = cx.e.reduce(pivots, Fold::Mul, &[1]);
    let y = cx.e.mul(product, sign);
    Ok(cx.e.reshape(y, &dims[..dims.len() - 2]).into())
}

fn log_determinant(cx: &mut Cx<'_>, name: &str) -> Res<(V, V)> {
    let a = matrix(cx, name, true)?;
    let dims = cx.e.dims(a);
    let e = &mut cx.e;
    let (pivots, sign) = pivots(e, a)?;
    let signs = e.same(ops::Sign {}, &[pivots]);
    let product = e.reduce(signs, Fold::Mul, &[1]);
    let sign = e.mul(product, sign);
    let size = abs(e, pivots);
    let logs = log(e, size);
    let sum = e.reduce(logs, Fold::Add, &[1]);
    let batch = &dims[..dims.len() - 2];
    Ok((e.reshape(sign, batch), e.reshape(sum, batch)))
}

/// Householder's reflections, with LAPACK's signs.
fn qr(cx: &mut Cx<'_>) -> Res {
    let a = matrix(cx, "A", false)?;
    let mode = cx.str("mode")?;
    let e = &mut cx.e;
    let dims = e.dims(a).to_vec();
    let x = flat(e, a);
    let (batch, rows, columns) = (e.dims(x)[0], e.dims(x)[1], e.dims(x)[2]);
    let dtype = e.dtype(x);
    let unit = identity(e, rows, dtype);
    let unit = e.broadcast_to(unit, &[batch, rows, rows]);
    let outs = e.count(rows.min(columns), &[unit, x], |e, k, state| {
        let (q, r) = (state[0], state[1]);
        let column = e.pick_at(r, 2, k);
        let row = e.iota(&[batch, rows], DType::S64, 1);
        let step = e.broadcast_in(k, &[batch, rows], &[]);
        let (here, below) =
            (e.compare(Direction::Eq, row, step), e.compare(Direction::Gt, row, step));
        let own = only(e, here, column);
        let head = e.reduce(own, Fold::Add, &[1]);
        let tail = only(e, below, column);
        let square = e.mul(tail, tail);
        let rest = e.reduce(square, Fold::Add, &[1]);
        let own_square = e.mul(head, head);
        let sum = e.add(own_square, rest);
        let norm = sqrt(e, sum);
        let against = e.neg(norm);
        let positive = e.compare_to(Direction::Ge, head, 0.0);
        let target = e.select(positive, against, norm);
        let lead = e.sub(head, target);
        let lead_of = e.broadcast_in(lead, &[batch, rows], &[0]);
        let vector = e.select(here, lead_of, tail);
        let lead_square = e.mul(lead, lead);
        let length = e.add(lead_square, rest);
        let two = e.like(length, 2.0);
        let scale = e.div(two, length);
        // A column that is zero below needs no reflection.
        let some = e.compare_to(Direction::Ne, rest, 0.0);
        let scale = only(e, some, scale);
        let scale_of = e.broadcast_in(scale, &[batch, rows], &[0]);
        let scaled = e.mul(vector, scale_of);
        let shadow = e.dot(vector, r, &[0], &[0], &[1], &[1]);
        let change = e.dot(scaled, shadow, &[0], &[0], &[], &[]);
        let r = e.sub(r, change);
        let shadow = e.dot(q, vector, &[0], &[0], &[2], &[1]);
        let change = e.dot(shadow, scaled, &[0], &[0], &[], &[]);
        let q = e.sub(q, change);
        Ok::<_, crate::cx::Why>(vec![q, r])
    })?;
    let (q, r) = (outs[0], outs[1]);
    let (i, j) = {
        let shape = e.dims(r);
        (e.iota(&shape, DType::S64, 1), e.iota(&shape, DType::S64, 2))
    };
    let upper = e.compare(Direction::Le, i, j);
    let r = only(e, upper, r);
    let kept = if &*mode == "complete" { rows } else { rows.min(columns) };
    let q = e.slice_axis(q, 2, 0, kept, 1);
    let r = e.slice_axis(r, 1, 0, kept, 1);
    let outer = &dims[..dims.len() - 2];
    let shape = |m: i64, n: i64| -> Vec<i64> { outer.iter().copied().chain([m, n]).collect() };
    let r = e.reshape(r, &shape(kept, columns));
    let q = if &*mode == "r" {
        e.full(&[0], dtype, Num::F(0.0))
    } else {
        e.reshape(q, &shape(rows, kept))
    };
    Ok(Out::many([q, r]))
}
