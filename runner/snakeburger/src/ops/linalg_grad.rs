//! Derivatives of triangular systems and Cholesky decompositions.

use super::Direction;
use super::linalg::{Cholesky, TransposeA, TriangularSolve};
use crate::build::{Emitter, V};
use crate::derive::{Derive, Derived};
use crate::ir::DType;

/// The adjoint of each matrix.
fn adjoint(e: &mut Emitter, x: V) -> V {
    let rank = e.rank(x);
    let turned = e.swap(x, rank - 2, rank - 1);
    e.conj(turned)
}

/// Rows' and columns' numbers, compared.
fn mask(e: &mut Emitter, x: V, direction: Direction) -> V {
    let dims = e.dims(x);
    let rank = dims.len();
    let (i, j) = (e.iota(&dims, DType::S64, rank - 2), e.iota(&dims, DType::S64, rank - 1));
    e.compare(direction, i, j)
}

fn solve(e: &mut Emitter, a: V, b: V, left_side: bool, transpose_a: TransposeA) -> V {
    let op = TriangularSolve { left_side, lower: true, unit_diagonal: false, transpose_a };
    let ty = e.ty(b).clone();
    e.push(op, &[a, b], ty)
}

/// `L⁻ᴴ Φ(Lᴴ ḡ) L⁻¹`, made symmetric: Φ keeps the lower triangle and half the diagonal.
pub(crate) fn of_cholesky(op: &Cholesky, d: &mut Derive<'_>) -> Derived {
    let y = d.result(0);
    d.one(0, |e, g| {
        let (l, g) = if op.lower { (y, g) } else { (adjoint(e, y), adjoint(e, g)) };
        // Only the triangle is a result.
        let low = mask(e, l, Direction::Ge);
        let (l, g) = (e.where_else_zero(low, l), e.where_else_zero(low, g));
        let turned = adjoint(e, l);
        let product = e.batched_matmul(turned, g);
        let phi = e.where_else_zero(low, product);
        let half = e.scale(phi, 0.5);
        let diagonal = mask(e, phi, Direction::Eq);
        let phi = e.select(diagonal, half, phi);
        let left = solve(e, l, phi, true, TransposeA::Adjoint);
        let both = solve(e, l, left, false, TransposeA::No);
        let mirror = adjoint(e, both);
        let sum = e.add(both, mirror);
        e.scale(sum, 0.5)
    })
}

/// The right-hand side's cotangent solves the adjoint system; the coefficients' is its product
/// with the solution.
pub(crate) fn of_triangular_solve(op: &TriangularSolve, d: &mut Derive<'_>) -> Derived {
    let (a, x) = (d.operand(0), d.result(0));
    let g = d.g()?;
    let (coefficients, transpose_a) = match op.transpose_a {
        TransposeA::Yes => (d.e.conj(a), TransposeA::No),
        TransposeA::Adjoint => (a, TransposeA::No),
        _ => (a, TransposeA::Adjoint),
    };
    let ty = d.e.ty(g).clone();
    let back = TriangularSolve { transpose_a, ..op.clone() };
    let by_b = d.e.push(back, &[coefficients, g], ty);
    d.one(1, |_, _| by_b)?;
    d.one(0, |e, _| {
        let turned = adjoint(e, x);
        let product = if op.left_side {
            e.batched_matmul(by_b, turned)
        } else {
            e.batched_matmul(turned, by_b)
        };
        let product = e.neg(product);
        let rank = e.rank(product);
        let own = match op.transpose_a {
            TransposeA::Yes => e.swap(product, rank - 2, rank - 1),
            TransposeA::Adjoint => adjoint(e, product),
            _ => product,
        };
        let direction = match (op.lower, op.unit_diagonal) {
            (true, false) => Direction::Ge,
            (true, true) => Direction::Gt,
            (false, false) => Direction::Le,
            (false, true) => Direction::Lt,
        };
        let triangle = mask(e, own, direction);
        e.where_else_zero(triangle, own)
    })
}
