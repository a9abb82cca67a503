//! Singular values and the eigenvalues of symmetric matrices, by Jacobi's rotations: each makes
//! two columns orthogonal or clears one element, and a few sweeps over all pairs clear all. The
//! vectors that belong to them are refused, as only PyTorch's library knows which sign it gives
//! them.

use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use super::math::{abs, only, sqrt};
use crate::cx::{Cx, Res, Why, refuse};
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::linalg_eigvalsh", |cx| {
        let lower = !cx.str("UPLO")?.eq_ignore_ascii_case("u");
        let (x, dtype) = real(cx, "self")?;
        let values = eigenvalues(&mut cx.e, x, lower)?;
        Ok(cx.e.convert(values, dtype).into())
    }),
    ("aten::linalg_svdvals", |cx| {
        let (x, dtype) = real(cx, "A")?;
        let values = singular_values(&mut cx.e, x)?;
        Ok(cx.e.convert(values, dtype).into())
    }),
];

/// Convergence is quadratic once it sets in; this many sweeps leave nothing in double precision.
const SWEEPS: i64 = 15;

/// The matrices in float64, since rotations add up their roundings, and the type they had.
fn real(cx: &mut Cx<'_>, name: &str) -> Res<(V, DType)> {
    let x = cx.tensor(name)?;
    if cx.e.rank(x) < 2 || !cx.e.dtype(x).is_float() {
        return refuse("takes matrices of real numbers");
    }
    let dtype = cx.e.dtype(x);
    Ok((cx.e.convert(x, DType::F64), dtype))
}

/// Runs `turn` for every pair of places below `n`, sweep after sweep.
fn sweep(e: &mut Emitter, n: i64, x: V, turn: impl FnOnce(&mut Emitter, V, V, V) -> V) -> Res<V> {
    let pairs: Vec<(i64, i64)> = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect();
    let count = pairs.len() as i64;
    if count == 0 {
        return Ok(x);
    }
    let firsts: Vec<i64> = pairs.iter().map(|(i, _)| *i).collect();
    let seconds: Vec<i64> = pairs.iter().map(|(_, j)| *j).collect();
    let firsts = e.ints(&firsts, &[count], DType::S64);
    let seconds = e.ints(&seconds, &[count], DType::S64);
    let outs = e.count(SWEEPS * count, &[x], |e, step, state| {
        let length = e.like(step, count as f64);
        let at = e.same(ops::Remainder {}, &[step, length]);
        let (p, q) = (e.pick_at(firsts, 0, at), e.pick_at(seconds, 0, at));
        Ok::<_, Why>(vec![turn(e, state[0], p, q)])
    })?;
    Ok(outs[0])
}

/// Cosine and sine of the rotation that clears `off` between `first` and `second`.
fn rotation(e: &mut Emitter, first: V, second: V, off: V) -> (V, V) {
    let clear = e.compare_to(Direction::Eq, off, 0.0);
    let one = e.like(off, 1.0);
    let safe = e.select(clear, one, off);
    let difference = e.sub(second, first);
    let twice = e.scale(safe, 2.0);
    let ratio = e.div(difference, twice);
    let size = abs(e, ratio);
    let square = e.mul(ratio, ratio);
    let inner = e.shift(square, 1.0);
    let root = sqrt(e, inner);
    let sum = e.add(size, root);
    let tangent = e.div(one, sum);
    let negative = e.compare_to(Direction::Lt, ratio, 0.0);
    let other = e.neg(tangent);
    let tangent = e.select(negative, other, tangent);
    let nothing = e.like(tangent, 0.0);
    let tangent = e.select(clear, nothing, tangent);
    let square = e.mul(tangent, tangent);
    let inner = e.shift(square, 1.0);
    let root = sqrt(e, inner);
    let cosine = e.div(one, root);
    (cosine, e.mul(cosine, tangent))
}

/// Turns two slices of an axis of `[batch, n, m]` by an angle for each matrix.
fn turned(e: &mut Emitter, x: V, axis: usize, [p, q]: [V; 2], [cosine, sine]: [V; 2]) -> V {
    let (a, b) = (e.pick_at(x, axis, p), e.pick_at(x, axis, q));
    let dims = e.dims(a);
    let (cosine, sine) = (e.broadcast_in(cosine, &dims, &[0]), e.broadcast_in(sine, &dims, &[0]));
    let (ac, bs) = (e.mul(a, cosine), e.mul(b, sine));
    let (as_, bc) = (e.mul(a, sine), e.mul(b, cosine));
    let (a, b) = (e.sub(ac, bs), e.add(as_, bc));
    let (a, b) = (e.unsqueeze(a, &[axis]), e.unsqueeze(b, &[axis]));
    let x = e.put_at(x, a, axis, p);
    e.put_at(x, b, axis, q)
}

/// In falling order.
pub fn singular_values(e: &mut Emitter, x: V) -> Res<V> {
    let dims = e.dims(x).to_vec();
    let rank = dims.len();
    let (rows, columns) = (dims[rank - 2], dims[rank - 1]);
    let batch: i64 = dims[..rank - 2].iter().product();
    let mut x = e.reshape(x, &[batch, rows, columns]);
    if rows < columns {
        x = e.swap(x, 1, 2);
    }
    let count = rows.min(columns);
    let x = sweep(e, count, x, |e, x, p, q| {
        let (a, b) = (e.pick_at(x, 2, p), e.pick_at(x, 2, q));
        let mut products = Vec::new();
        for (left, right) in [(a, a), (b, b), (a, b)] {
            let product = e.mul(left, right);
            products.push(e.reduce(product, Fold::Add, &[1]));
        }
        let (cosine, sine) = rotation(e, products[0], products[1], products[2]);
        turned(e, x, 2, [p, q], [cosine, sine])
    })?;
    let square = e.mul(x, x);
    let sum = e.reduce(square, Fold::Add, &[1]);
    let values = sqrt(e, sum);
    let values = sorted(e, values, Direction::Gt);
    let shape: Vec<i64> = dims[..rank - 2].iter().copied().chain([count]).collect();
    Ok(e.reshape(values, &shape))
}

/// In rising order, of the matrix that one triangle stands for.
fn eigenvalues(e: &mut Emitter, x: V, lower: bool) -> Res<V> {
    let dims = e.dims(x).to_vec();
    let rank = dims.len();
    let n = dims[rank - 1];
    if dims[rank - 2] != n {
        return refuse("takes square matrices");
    }
    let batch: i64 = dims[..rank - 2].iter().product();
    let x = e.reshape(x, &[batch, n, n]);
    let shape = e.dims(x);
    let (i, j) = (e.iota(&shape, DType::S64, 1), e.iota(&shape, DType::S64, 2));
    let kept = e.compare(if lower { Direction::Ge } else { Direction::Le }, i, j);
    let other = e.swap(x, 1, 2);
    let x = e.select(kept, x, other);
    let x = sweep(e, n, x, |e, x, p, q| {
        let (row_p, row_q) = (e.pick_at(x, 1, p), e.pick_at(x, 1, q));
        let (first, off) = (e.pick_at(row_p, 1, p), e.pick_at(row_p, 1, q));
        let second = e.pick_at(row_q, 1, q);
        let (cosine, sine) = rotation(e, first, second, off);
        let x = turned(e, x, 1, [p, q], [cosine, sine]);
        turned(e, x, 2, [p, q], [cosine, sine])
    })?;
    let on = e.compare(Direction::Eq, i, j);
    let diagonal = only(e, on, x);
    let values = e.reduce(diagonal, Fold::Add, &[2]);
    let values = sorted(e, values, Direction::Lt);
    Ok(e.reshape(values, &dims[..rank - 1]))
}

fn sorted(e: &mut Emitter, rows: V, direction: Direction) -> V {
    let scalar = TensorTy::scalar(e.dtype(rows));
    let order =
        e.region(&[scalar.clone(), scalar], |e, args| vec![e.compare(direction, args[0], args[1])]);
    let ty = e.ty(rows).clone();
    e.push_many(ops::Sort { dimension: 1, is_stable: false }, &[rows], &[ty], &[order])[0]
}
