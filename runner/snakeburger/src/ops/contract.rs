//! What the operations that sum products share: the domain they compute in, and moving elements
//! into the order a matrix product wants.

use std::borrow::Cow;

use num_complex::Complex64;
use rayon::prelude::*;

use crate::eval::strided::{self, Move};
use crate::eval::{Num, Tensor, strides};
use crate::ir::{Kind, TensorTy};
use crate::num::matmul::{Field, Product};

enum_attr! {
    /// How accurate a contraction is asked to be; the reference always does its best.
    Precision ("stablehlo.precision", "DEFAULT, HIGH or HIGHEST") {
        Default = "DEFAULT", High = "HIGH", Highest = "HIGHEST",
    }
}

/// Numbers that tensors are read as and written from.
pub(crate) trait Domain: Field {
    fn read(tensor: &Tensor) -> Cow<'_, [Self]>;
    fn write(ty: TensorTy, values: &[Self]) -> Tensor;
}

impl Domain for f64 {
    /// What the elements stand for, if they are quantized.
    fn read(tensor: &Tensor) -> Cow<'_, [f64]> {
        tensor.real_values()
    }

    fn write(ty: TensorTy, values: &[f64]) -> Tensor {
        if ty.elem.quant().is_some() || ty.elem.storage().is_float() {
            return Tensor::quantize(ty, |i| values[i]);
        }
        let dtype = ty.elem.storage();
        Tensor::from_nums(ty, |i| Num::F(values[i]).convert(dtype))
    }
}

impl Domain for Complex64 {
    fn read(tensor: &Tensor) -> Cow<'_, [Complex64]> {
        if tensor.ty.elem.quant().is_some() {
            let real = tensor.real_values();
            return Cow::Owned(real.iter().map(|x| Complex64::new(*x, 0.0)).collect());
        }
        Cow::Owned(tensor.complexes())
    }

    fn write(ty: TensorTy, values: &[Complex64]) -> Tensor {
        if ty.elem.quant().is_some() {
            return Tensor::quantize(ty, |i| values[i].re);
        }
        Tensor::from_nums(ty, |i| Num::C(values[i]))
    }
}

/// Booleans too: a sum of products is not zero exactly when some product is true.
impl Domain for i64 {
    fn read(tensor: &Tensor) -> Cow<'_, [i64]> {
        tensor.ints()
    }

    fn write(ty: TensorTy, values: &[i64]) -> Tensor {
        Tensor::from_nums(ty, |i| Num::I(values[i]))
    }
}

/// Runs a function that is generic in the domain in the one these types call for.
macro_rules! in_domain {
    ($lhs:expr, $rhs:expr, $ty:expr, $f:ident ( $($argument:expr),* )) => {
        match $crate::ops::contract::domain(&$lhs.ty, &$rhs.ty, $ty) {
            $crate::ir::Kind::Complex => $f::<num_complex::Complex64>($($argument),*),
            $crate::ir::Kind::Float => $f::<f64>($($argument),*),
            _ => $f::<i64>($($argument),*),
        }
    };
}
pub(crate) use in_domain;

pub(crate) fn domain(lhs: &TensorTy, rhs: &TensorTy, result: &TensorTy) -> Kind {
    let kinds = [lhs, rhs, result].map(|ty| ty.elem.expressed().kind());
    if kinds.contains(&Kind::Complex) {
        Kind::Complex
    } else if kinds.contains(&Kind::Float) {
        Kind::Float
    } else {
        Kind::Signed
    }
}

/// Reorders dimensions of row-major data: dimension `d` of the result is `permutation[d]`.
pub(crate) fn permuted<'a, T: Domain>(
    data: Cow<'a, [T]>,
    dims: &[i64],
    permutation: &[usize],
) -> Cow<'a, [T]> {
    let from = strides(dims);
    let moves: Vec<Move> =
        permutation.iter().map(|d| (dims[*d].max(0) as usize, from[*d])).collect();
    let real: Vec<&Move> = moves.iter().filter(|(size, _)| *size != 1).collect();
    let in_order = real.windows(2).all(|pair| pair[0].1 == pair[1].0 * pair[1].1);
    if (in_order && real.last().is_none_or(|last| last.1 == 1)) || data.is_empty() {
        return data;
    }
    let mut out = vec![T::default(); data.len()];
    strided::copy(&data, &mut out, &moves);
    Cow::Owned(out)
}

/// Sizes of a batch of matrix products.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub batch: usize,
    pub m: usize,
    pub k: usize,
    pub n: usize,
}

/// A batch of matrix products: `batch` × `m` × `k` by `batch` × `k` × `n`, either of them
/// transposed or not.
pub(crate) fn batched<T: Field>(
    sizes: Sizes,
    (lhs, lhs_transposed): (&[T], bool),
    (rhs, rhs_transposed): (&[T], bool),
) -> Vec<T> {
    let Sizes { batch, m, k, n } = sizes;
    let mut out = vec![T::default(); batch * m * n];
    if out.is_empty() || k == 0 {
        return out;
    }
    out.par_chunks_mut(m * n).enumerate().for_each(|(b, out)| {
        let (lhs, rhs) = (&lhs[b * m * k..(b + 1) * m * k], &rhs[b * k * n..(b + 1) * k * n]);
        let product = Product { m, k, n, lhs, rhs, lhs_transposed, rhs_transposed };
        T::product(&product, out, batch == 1);
    });
    out
}
