//! Building what depends on indices: gathers, scatters, sorts.

use crate::eval::Num;
use crate::ir::{DType, Ints, RegionId, TensorTy};
use crate::ops::{self, Direction};

use super::{Emitter, Fold, V};

fn ints(axes: impl IntoIterator<Item = usize>) -> Ints {
    axes.into_iter().map(|axis| axis as i64).collect()
}

impl Emitter {
    /// Nothing but zeros of a type.
    pub fn zeros(&mut self, dims: &[i64], dtype: DType) -> V {
        self.full(dims, dtype, Num::I(0).fit(dtype))
    }

    /// Indices as 64-bit integers; negative ones count from the end of an axis of this size.
    pub fn wrap(&mut self, index: V, size: i64) -> V {
        let index = self.convert(index, DType::S64);
        let negative = self.compare_to(Direction::Lt, index, 0.0);
        let dims = self.dims(index);
        let size = self.full(&dims, DType::S64, Num::I(size));
        let wrapped = self.add(index, size);
        self.select(negative, wrapped, index)
    }

    /// Elements of one axis, chosen anew at every place of the other axes, of which the index may
    /// have fewer.
    pub fn gather_along(&mut self, value: V, axis: usize, index: V) -> V {
        let places = self.dims(index);
        let ty = self.ty(value).with_dims(places.iter().copied());
        if places.contains(&0) {
            return self.zeros(&places, ty.elem.storage());
        }
        let value = self.head(value, axis, &places);
        let rank = places.len();
        let others = || (0..rank).filter(|other| *other != axis);
        let op = ops::Gather {
            dimension_numbers: ops::GatherDims {
                offset_dims: Ints::default(),
                collapsed_slice_dims: ints([axis]),
                operand_batching_dims: ints(others()),
                start_indices_batching_dims: ints(others()),
                start_index_map: ints([axis]),
                index_vector_dim: rank as i64,
            },
            slice_sizes: vec![1; rank].into(),
            indices_are_sorted: false,
        };
        self.push(op, &[value, index], ty)
    }

    /// The part of a tensor that is as large as `dims` along all axes but one.
    fn head(&mut self, value: V, axis: usize, dims: &[i64]) -> V {
        let mut limits = dims.to_vec();
        limits[axis] = self.dims(value)[axis];
        let rank = limits.len();
        self.slice(value, &vec![0; rank], &limits, &vec![1; rank])
    }

    /// Writes updates to places of one axis, chosen anew at every place of the other axes. A fold
    /// says how old and new elements are combined; without one the new replace the old.
    pub fn scatter_along(
        &mut self,
        value: V,
        axis: usize,
        index: V,
        updates: V,
        fold: Option<Fold>,
    ) -> V {
        let places = self.dims(index);
        if places.contains(&0) {
            return value;
        }
        let rank = places.len();
        let part = self.head(value, axis, &places);
        let others = || (0..rank).filter(|other| *other != axis);
        let numbers = ops::ScatterDims {
            update_window_dims: Ints::default(),
            inserted_window_dims: ints([axis]),
            input_batching_dims: ints(others()),
            scatter_indices_batching_dims: ints(others()),
            scatter_dims_to_operand_dims: ints([axis]),
            index_vector_dim: rank as i64,
        };
        let written = self.scatter(part, index, updates, numbers, fold);
        if part == value {
            return written;
        }
        let mut operands = vec![value, written];
        let zero = self.full(&[], DType::S64, Num::I(0));
        operands.resize(rank + 2, zero);
        self.same(ops::DynamicUpdateSlice {}, &operands)
    }

    pub(crate) fn scatter(
        &mut self,
        value: V,
        index: V,
        updates: V,
        scatter_dimension_numbers: ops::ScatterDims,
        fold: Option<Fold>,
    ) -> V {
        let ty = self.ty(value).clone();
        let scalar = TensorTy::scalar(ty.elem.storage());
        let region: RegionId = self.region(&[scalar.clone(), scalar], |e, args| {
            vec![fold.map_or(args[1], |fold| e.fold_two(fold, args[0], args[1]))]
        });
        let op = ops::Scatter {
            scatter_dimension_numbers,
            indices_are_sorted: false,
            unique_indices: false,
        };
        self.push_many(op, &[value, index, updates], &[ty], &[region])[0]
    }

    /// Index tensors of one shape side by side, and the axis they are numbered along.
    fn index_vectors(&mut self, indices: &[V]) -> (V, i64) {
        let rank = self.rank(indices[0]);
        if let [only] = indices {
            return (*only, rank as i64);
        }
        let columns: Vec<V> = indices.iter().map(|index| self.unsqueeze(*index, &[rank])).collect();
        (self.concat(&columns, rank), rank as i64)
    }

    /// Elements named by one index per axis of `axes`; the indices' axes stand before the
    /// remaining axis number `place` of the result.
    pub fn gather_at(&mut self, value: V, axes: &[usize], indices: &[V], place: usize) -> V {
        let (dims, batch) = (self.dims(value), self.dims(indices[0]));
        let mut result: Vec<i64> =
            (0..dims.len()).filter(|axis| !axes.contains(axis)).map(|axis| dims[axis]).collect();
        let kept = result.len();
        result.splice(place..place, batch.iter().copied());
        let ty = self.ty(value).with_dims(result.iter().copied());
        if result.contains(&0) {
            return self.zeros(&result, ty.elem.storage());
        }
        let (index, index_vector_dim) = self.index_vectors(indices);
        let mut sizes = dims.to_vec();
        for axis in axes {
            sizes[*axis] = 1;
        }
        let mut collapsed = axes.to_vec();
        collapsed.sort_unstable();
        let op = ops::Gather {
            dimension_numbers: ops::GatherDims {
                offset_dims: windows(kept, place, batch.len()),
                collapsed_slice_dims: ints(collapsed),
                operand_batching_dims: Ints::default(),
                start_indices_batching_dims: Ints::default(),
                start_index_map: ints(axes.iter().copied()),
                index_vector_dim,
            },
            slice_sizes: sizes.into(),
            indices_are_sorted: false,
        };
        self.push(op, &[value, index], ty)
    }

    /// Writes updates, of the shape [`Self::gather_at`] would yield, to where it would read.
    pub fn scatter_at(
        &mut self,
        value: V,
        axes: &[usize],
        indices: &[V],
        place: usize,
        updates: V,
        fold: Option<Fold>,
    ) -> V {
        if self.dims(updates).contains(&0) {
            return value;
        }
        let batch = self.rank(indices[0]);
        let kept = self.rank(value) - axes.len();
        let (index, index_vector_dim) = self.index_vectors(indices);
        let mut inserted = axes.to_vec();
        inserted.sort_unstable();
        let numbers = ops::ScatterDims {
            update_window_dims: windows(kept, place, batch),
            inserted_window_dims: ints(inserted),
            input_batching_dims: Ints::default(),
            scatter_indices_batching_dims: Ints::default(),
            scatter_dims_to_operand_dims: ints(axes.iter().copied()),
            index_vector_dim,
        };
        self.scatter(value, index, updates, numbers, fold)
    }

    /// For each element along an axis in order, where it stood. NaNs are the largest; equals keep
    /// their order.
    pub fn order(&mut self, value: V, axis: usize, descending: bool) -> V {
        let ty = self.ty(value).clone();
        let places = self.iota(&ty.dims, DType::S64, axis);
        let key = TensorTy::scalar(ty.elem.storage());
        let place = TensorTy::scalar(DType::S64);
        let types = [key.clone(), key, place.clone(), place];
        let region = self.region(&types, |e, args| {
            let (a, b) = if descending { (args[1], args[0]) } else { (args[0], args[1]) };
            let less = e.compare(Direction::Lt, a, b);
            if !e.dtype(a).is_float() {
                return vec![less];
            }
            let number = e.compare(Direction::Eq, a, a);
            let nan = e.compare(Direction::Ne, b, b);
            let last = e.same(ops::And {}, &[number, nan]);
            vec![e.same(ops::Or {}, &[less, last])]
        });
        let types = [ty.clone(), ty.with_elem(DType::S64)];
        let op = ops::Sort { dimension: axis as i64, is_stable: true };
        self.push_many(op, &[value, places], &types, &[region])[1]
    }
}

/// The axes of a result that are not the indices', which stand at `place`.
fn windows(kept: usize, place: usize, batch: usize) -> Ints {
    ints((0..place).chain(place + batch..kept + batch))
}
