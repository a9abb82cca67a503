//! Operations that combine many elements: reductions, windows, sums of products, lookups.

use std::sync::Arc;

use crate::eval::{Num, Tensor};
use crate::ir::{DType, Dims, Ints, Literal, RegionId, TensorTy};
use crate::ops;

use super::{Emitter, V};

/// How elements are combined in a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    Add,
    Mul,
    Max,
    Min,
    And,
    Or,
}

impl Emitter {
    fn fold_start(fold: Fold, dtype: DType) -> Num {
        match (fold, dtype) {
            (Fold::Add | Fold::Or | Fold::Max, DType::I1) => Num::B(false),
            (Fold::Mul | Fold::And | Fold::Min, DType::I1) => Num::B(true),
            (Fold::Add | Fold::Or, _) => Num::I(0).fit(dtype),
            (Fold::Mul | Fold::And, _) => Num::I(1).fit(dtype),
            (Fold::Max, dtype) if dtype.is_int() => Num::I(dtype.int_range().0 as i64),
            (Fold::Min, dtype) if dtype.is_int() => Num::I(dtype.int_range().1 as i64),
            (Fold::Max, _) => Num::F(f64::NEG_INFINITY),
            (Fold::Min, _) => Num::F(f64::INFINITY),
        }
    }

    /// The operation of a fold on two values.
    pub fn fold_two(&mut self, fold: Fold, a: V, b: V) -> V {
        match fold {
            Fold::Add => self.add(a, b),
            Fold::Mul => self.mul(a, b),
            Fold::Max => self.max(a, b),
            Fold::Min => self.min(a, b),
            Fold::And => self.same(ops::And {}, &[a, b]),
            Fold::Or => self.same(ops::Or {}, &[a, b]),
        }
    }

    /// Where a fold of this type starts.
    pub fn neutral(&mut self, fold: Fold, dtype: DType) -> V {
        self.full(&[], dtype, Self::fold_start(fold, dtype))
    }

    pub fn folder(&mut self, fold: Fold, dtype: DType) -> RegionId {
        let scalar = TensorTy::scalar(dtype);
        self.region(&[scalar.clone(), scalar], |e, args| vec![e.fold_two(fold, args[0], args[1])])
    }

    /// Combines all elements along some axes, which disappear.
    pub fn reduce(&mut self, value: V, fold: Fold, axes: &[usize]) -> V {
        if axes.is_empty() {
            return value;
        }
        let ty = self.ty(value).clone();
        let start = self.neutral(fold, ty.elem.storage());
        let region = self.folder(fold, ty.elem.storage());
        let kept = (0..ty.rank()).filter(|axis| !axes.contains(axis)).map(|axis| ty.dims[axis]);
        let result = ty.with_dims(kept.collect::<Vec<_>>());
        let mut dimensions: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
        dimensions.sort_unstable();
        let op = ops::Reduce { dimensions: dimensions.into() };
        self.push_many(op, &[value, start], &[result], &[region])[0]
    }

    /// A reduction whose axes stay with size one.
    pub fn reduce_keep(&mut self, value: V, fold: Fold, axes: &[usize]) -> V {
        let mut dims = self.dims(value);
        for axis in axes {
            dims[*axis] = 1;
        }
        let reduced = self.reduce(value, fold, axes);
        self.reshape(reduced, &dims)
    }

    /// Combines the elements of each window.
    pub fn reduce_window(&mut self, value: V, fold: Fold, window: &Window) -> V {
        let ty = self.ty(value).clone();
        let start = self.neutral(fold, ty.elem.storage());
        let region = self.folder(fold, ty.elem.storage());
        let result = ty.with_dims(window.result(&ty.dims));
        self.push_many(window.op(), &[value, start], &[result], &[region])[0]
    }

    /// A matrix product over batches: both operands are `[batch…, rows, columns]`.
    pub fn batched_matmul(&mut self, a: V, b: V) -> V {
        let rank = self.rank(a);
        let batch: Vec<usize> = (0..rank - 2).collect();
        self.dot(a, b, &batch, &batch, &[rank - 1], &[rank - 2])
    }

    /// Sums of products: batch axes pair up, contracting axes pair up and disappear.
    pub fn dot(
        &mut self,
        a: V,
        b: V,
        batch_a: &[usize],
        batch_b: &[usize],
        over_a: &[usize],
        over_b: &[usize],
    ) -> V {
        self.dot_by(a, b, [batch_a, batch_b], [over_a, over_b], &[])
    }

    /// The same, with the precision asked for.
    pub fn dot_by(
        &mut self,
        a: V,
        b: V,
        batch: [&[usize]; 2],
        over: [&[usize]; 2],
        precision: &[ops::Precision],
    ) -> V {
        let (left, right) = (self.dims(a), self.dims(b));
        let free = |dims: &Dims, side: usize| {
            (0..dims.len())
                .filter(|axis| !batch[side].contains(axis) && !over[side].contains(axis))
                .map(|axis| dims[axis])
                .collect::<Vec<_>>()
        };
        let mut dims: Vec<i64> = batch[0].iter().map(|axis| left[*axis]).collect();
        dims.extend(free(&left, 0));
        dims.extend(free(&right, 1));
        let ty = self.ty(a).with_dims(dims);
        let ints = |axes: &[usize]| -> Ints { axes.iter().map(|axis| *axis as i64).collect() };
        let op = ops::DotGeneral {
            dot_dimension_numbers: ops::DotDims {
                lhs_batching_dimensions: ints(batch[0]),
                rhs_batching_dimensions: ints(batch[1]),
                lhs_contracting_dimensions: ints(over[0]),
                rhs_contracting_dimensions: ints(over[1]),
            },
            precision_config: precision.to_vec(),
            algorithm: None,
        };
        self.push(op, &[a, b], ty)
    }

    /// Rows of one axis, chosen by an index tensor: the axis gives way to the indices' axes.
    pub fn take(&mut self, value: V, axis: usize, indices: V) -> V {
        let (dims, places) = (self.dims(value), self.dims(indices));
        let mut result: Vec<i64> = dims[..axis].to_vec();
        result.extend(&places);
        result.extend(&dims[axis + 1..]);
        let mut sizes: Vec<i64> = dims.to_vec();
        sizes[axis] = 1;
        let before = 0..axis;
        let after = axis + places.len()..result.len();
        let op = ops::Gather {
            dimension_numbers: ops::GatherDims {
                offset_dims: before.chain(after).map(|axis| axis as i64).collect(),
                collapsed_slice_dims: [axis as i64].into(),
                operand_batching_dims: Ints::default(),
                start_indices_batching_dims: Ints::default(),
                start_index_map: [axis as i64].into(),
                index_vector_dim: places.len() as i64,
            },
            slice_sizes: sizes.into(),
            indices_are_sorted: false,
        };
        let ty = self.ty(value).with_dims(result);
        self.push(op, &[value, indices], ty)
    }
}

/// A window that slides over every axis.
#[derive(Clone, Debug)]
pub struct Window {
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
    pub dilation: Vec<i64>,
    pub base: Vec<i64>,
    pub low: Vec<i64>,
    pub high: Vec<i64>,
}

impl Window {
    /// A window of one element everywhere.
    pub fn new(rank: usize) -> Self {
        let (ones, zeros) = (vec![1; rank], vec![0; rank]);
        Self {
            sizes: ones.clone(),
            strides: ones.clone(),
            dilation: ones.clone(),
            base: ones,
            low: zeros.clone(),
            high: zeros,
        }
    }

    /// The operation that slides it.
    pub fn op(&self) -> ops::ReduceWindow {
        let flat: Vec<i64> =
            self.low.iter().zip(&self.high).flat_map(|(low, high)| [*low, *high]).collect();
        let ty = TensorTy::new([self.sizes.len() as i64, 2], DType::S64);
        let data = Tensor::from_ints(ty.clone(), |i| flat[i]).data;
        ops::ReduceWindow {
            window_dimensions: self.sizes.clone().into(),
            window_strides: Some(self.strides.clone().into()),
            base_dilations: Some(self.base.clone().into()),
            window_dilations: Some(self.dilation.clone().into()),
            padding: Some(Arc::new(Literal { ty, data, splat: false })),
        }
    }

    /// The shape of what a window makes of a shape.
    pub fn result(&self, dims: &[i64]) -> Vec<i64> {
        (0..dims.len())
            .map(|i| {
                let base = if dims[i] == 0 { 0 } else { (dims[i] - 1) * self.base[i] + 1 };
                let padded = base + self.low[i] + self.high[i];
                let window = (self.sizes[i] - 1) * self.dilation[i] + 1;
                if padded < window { 0 } else { (padded - window) / self.strides[i] + 1 }
            })
            .collect()
    }
}
