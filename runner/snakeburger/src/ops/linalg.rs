//! Triangular systems and Cholesky decompositions.

use num_complex::Complex64;
use rayon::prelude::*;

use super::contract::Domain;
use super::elementwise::FCQ;
use super::linalg_grad;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, Tensor};
use crate::ir::{Elem, TensorTy, dim_compatible, dims_compatible};
use crate::num::complex::div;
use crate::text::{Form, Types, Word};

/// Whether two element types agree but for scales and zero points.
pub(crate) fn same_baseline(a: &Elem, b: &Elem) -> bool {
    match (a, b) {
        (Elem::Quant(a), Elem::Quant(b)) => {
            (a.storage, a.storage_min, a.storage_max, a.expressed, a.axis)
                == (b.storage, b.storage_min, b.storage_max, b.expressed, b.axis)
        }
        _ => a == b,
    }
}

/// The two innermost dimensions, if there are so many.
fn matrix(ty: &TensorTy) -> Option<(i64, i64)> {
    match ty.dims[..] {
        [.., rows, columns] => Some((rows, columns)),
        _ => None,
    }
}

payload! {
    /// The triangular matrix whose product with its adjoint is the operand.
    Cholesky { lower: bool = false }
}

impl OpDef for Cholesky {
    const NAME: &'static str = "stablehlo.cholesky";
    const FORM: Form =
        Form::Plain { words: &[Word { text: "lower", attr: "lower" }], types: Types::Same };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (a, result) = (c.operand(0), c.result(0));
        c.require(FCQ.allows(&a.elem), "I1", || format!("{a} must be a {FCQ} tensor"));
        let same = same_baseline(&a.elem, &result.elem) && dims_compatible(&a.dims, &result.dims);
        c.require(same, "C1", || format!("the operand is {a}, the result {result}"));
        c.require(a.rank() >= 2, "C2", || format!("{a} holds no matrices"));
        if let Some((rows, columns)) = matrix(a) {
            c.same_dim("C3", &format!("matrices of {a} must be square"), rows, columns);
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::By("C1", vec![c.operand(0).with_elem(c.result(0).elem.clone()).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let a = cx.tensor(0)?;
        let ty = cx.result_of(0, a.dims())?;
        let n = square(cx, a)?;
        let data = Complex64::read(a);
        let mut out = vec![Complex64::default(); data.len()];
        out.par_chunks_mut((n * n).max(1)).zip(data.par_chunks((n * n).max(1))).for_each(
            |(out, a)| {
                if self.lower {
                    lower_factor(n, |i, j| a[i * n + j], |i, j, z| out[i * n + j] = z);
                } else {
                    lower_factor(
                        n,
                        |i, j| a[j * n + i].conj(),
                        |i, j, z| out[j * n + i] = z.conj(),
                    );
                }
            },
        );
        Ok(vec![Complex64::write(ty, &out).into()])
    }

    columns!(Opaque, Accumulated, Rule(linalg_grad::of_cholesky));
}

/// The size of a batch of square matrices.
fn square(cx: &Cx<'_, '_>, a: &Tensor) -> Result<usize, crate::eval::EvalError> {
    match matrix(&a.ty) {
        Some((rows, columns)) if rows == columns => Ok(rows as usize),
        _ => Err(cx.error(format!("{} holds no square matrices", a.ty))),
    }
}

/// Row by row: `L[i][j] = (A[i][j] - Σ L[i][k] conj(L[j][k])) / L[j][j]`.
fn lower_factor(
    n: usize,
    a: impl Fn(usize, usize) -> Complex64,
    mut put: impl FnMut(usize, usize, Complex64),
) {
    let mut l = vec![Complex64::default(); n * n];
    for i in 0..n {
        for j in 0..=i {
            let (x, y) = (&l[i * n..i * n + j], &l[j * n..j * n + j]);
            let sum: Complex64 = x.iter().zip(y).map(|(x, y)| x * y.conj()).sum();
            let rest = a(i, j) - sum;
            l[i * n + j] =
                if i == j { Complex64::new(rest.re.sqrt(), 0.0) } else { rest / l[j * n + j].re };
            put(i, j, l[i * n + j]);
        }
    }
}

enum_attr! {
    /// What is done to the coefficient matrix first.
    TransposeA ("stablehlo.transpose", "NO_TRANSPOSE, TRANSPOSE or ADJOINT") {
        Invalid = "TRANSPOSE_INVALID", No = "NO_TRANSPOSE", Yes = "TRANSPOSE", Adjoint = "ADJOINT",
    }
}

payload! {
    /// Solves linear systems whose coefficients form a triangle.
    TriangularSolve {
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: TransposeA,
    }
}

impl OpDef for TriangularSolve {
    const NAME: &'static str = "stablehlo.triangular_solve";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (a, b, result) = (c.operand(0), c.operand(1), c.result(0));
        for (i, ty) in [("I1", a), ("I2", b)] {
            c.require(FCQ.allows(&ty.elem), i, || format!("{ty} must be a {FCQ} tensor"));
        }
        c.require(self.transpose_a != TransposeA::Invalid, "I6", || {
            "transpose_a must be NO_TRANSPOSE, TRANSPOSE or ADJOINT".into()
        });
        c.require(same_baseline(&a.elem, &b.elem), "C1", || format!("operands are {a} and {b}"));
        c.require(a.rank() >= 2 && a.rank() == b.rank(), "C2", || {
            format!("operands are {a} and {b}, of one rank from 2 on they must be")
        });
        if let (Some((rows, columns)), Some(right)) = (matrix(a), matrix(b)) {
            let other = if self.left_side { right.0 } else { right.1 };
            let batches = a.dims.iter().rev().skip(2).zip(b.dims.iter().rev().skip(2));
            let fits = batches.into_iter().all(|(a, b)| dim_compatible(*a, *b))
                && dim_compatible(rows, columns)
                && dim_compatible(columns, other)
                && dim_compatible(rows, other);
            c.require(fits, "C3", || format!("{a} and {b} do not fit together"));
        }
        let same = same_baseline(&b.elem, &result.elem) && dims_compatible(&b.dims, &result.dims);
        c.require(same, "C4", || format!("b is {b}, the result {result}"));
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::By("C4", vec![c.operand(1).with_elem(c.result(0).elem.clone()).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
        let n = square(cx, a)?;
        let (rows, columns) = matrix(&b.ty).unwrap_or((0, 0));
        let (rows, columns) = (rows as usize, columns as usize);
        let batch = |t: &Tensor| t.dims()[..t.rank() - 2].to_vec();
        if batch(a) != batch(b) || n != if self.left_side { rows } else { columns } {
            return Err(cx.error(format!("{} and {} do not fit together", a.ty, b.ty)));
        }
        let ty = cx.result_of(0, b.dims())?;
        let coefficients = Complex64::read(a);
        let mut x = Complex64::read(b).into_owned();
        if !x.is_empty() {
            x.par_chunks_mut(rows * columns)
                .zip(coefficients.par_chunks(n * n))
                .for_each(|(x, a)| self.solve(a, n, x, columns));
        }
        Ok(vec![Complex64::write(ty, &x).into()])
    }

    columns!(Opaque, Accumulated, Rule(linalg_grad::of_triangular_solve));
}

impl TriangularSolve {
    /// Replaces one right-hand side by its solution.
    fn solve(&self, a: &[Complex64], n: usize, x: &mut [Complex64], columns: usize) {
        // From the right, the transposed system is solved for every row.
        let turned = (self.transpose_a == TransposeA::No) != self.left_side;
        let entry = |i: usize, j: usize| {
            let z = if turned { a[j * n + i] } else { a[i * n + j] };
            if self.transpose_a == TransposeA::Adjoint { z.conj() } else { z }
        };
        let (count, along, across) =
            if self.left_side { (columns, columns, 1) } else { (x.len() / columns, 1, columns) };
        let forward = self.lower != turned;
        for c in 0..count {
            for step in 0..n {
                let i = if forward { step } else { n - 1 - step };
                let known = if forward { 0..i } else { i + 1..n };
                let sum: Complex64 = known.map(|j| entry(i, j) * x[c * across + j * along]).sum();
                let at = c * across + i * along;
                let rest = x[at] - sum;
                x[at] = if self.unit_diagonal { rest } else { div(rest, entry(i, i)) };
            }
        }
    }
}
