//! What operations with indices share: index operands, and the dimension numbers of gathers and
//! scatters.

use super::Check;
use crate::eval::{Cx, EvalResult, Tensor, strides, unravel};
use crate::ir::{DType, DYNAMIC, TensorTy, dim_compatible, dims_compatible};

/// Requires a type that is not quantized per axis.
pub(crate) fn per_tensor(c: &mut Check<'_>, label: &str, ty: &TensorTy) {
    let per_axis = ty.elem.quant().is_some_and(|quant| quant.axis.is_some());
    c.require(!per_axis, label, || format!("{ty} must not be quantized per axis"));
}

/// Requires operand `i` to be a list of integers with as many elements as `size` says.
pub(crate) fn index_list(c: &mut Check<'_>, i: usize, label: &str, number: &str, size: usize) {
    let ty = c.operand(i);
    let list = ty.rank() == 1 && is_index(ty);
    c.require(list, label, || format!("operand {i} is {ty}, it must be a list of integers"));
    if list {
        c.require(dim_compatible(ty.dims[0], size as i64), number, || {
            format!("operand {i} is {ty}, it must have {size} elements")
        });
    }
}

pub(crate) fn is_index(ty: &TensorTy) -> bool {
    ty.dtype().is_some_and(DType::is_int)
}

/// Requires result 0 to have these dimensions.
pub(crate) fn result_dims(c: &mut Check<'_>, number: &str, dims: &[i64]) {
    let result = c.result(0);
    c.require(dims_compatible(&result.dims, dims), number, || {
        format!("the result is {result}, it must be {}", result.with_dims(dims.iter().copied()))
    });
}

/// Requires two types to have the same elements.
pub(crate) fn same_elem(c: &mut Check<'_>, number: &str, a: &TensorTy, b: &TensorTy) {
    c.require(a.elem == b.elem, number, || format!("the elements of {a} and {b} differ"));
}

/// The dimension size at a place that may not exist.
pub(crate) fn dim_at(ty: &TensorTy, dim: i64) -> Option<i64> {
    usize::try_from(dim).ok().and_then(|dim| ty.dims.get(dim).copied())
}

/// A dimension's size where it is known, else the largest there is.
pub(crate) fn bound(dim: i64) -> i64 {
    if dim == DYNAMIC { i64::MAX } else { dim }
}

/// The elements of an integer tensor; an unsigned one beyond the range of i64 is its end.
pub(crate) fn indices(tensor: &Tensor) -> Vec<i64> {
    let unsigned = tensor.storage() == DType::U64;
    let index = |i: &i64| if unsigned && *i < 0 { i64::MAX } else { *i };
    tensor.ints().iter().map(index).collect()
}

/// Operand `i` as the dimensions of a tensor.
pub(crate) fn shape_operand(cx: &Cx<'_, '_>, i: usize) -> EvalResult<Vec<i64>> {
    let dims = indices(cx.tensor(i)?);
    match dims.iter().find(|dim| **dim < 0) {
        Some(dim) => Err(cx.error(format!("{dim} is no size of a dimension"))),
        None => Ok(dims),
    }
}

/// The dimension numbers of a gather or a scatter, under common names.
#[derive(Clone, Copy)]
pub(crate) struct DimNumbers<'a> {
    /// Dimensions of the windowed tensor (a gather's result, a scatter's updates) that walk
    /// through a window; the others count the windows.
    pub window: &'a [i64],
    /// Dimensions of the operand that no window dimension walks along.
    pub dropped: &'a [i64],
    /// Dimensions of the operand that go along with dimensions of the indices.
    pub batching: &'a [i64],
    pub index_batching: &'a [i64],
    /// For each place of an index vector the operand's dimension it counts in.
    pub map: &'a [i64],
    /// The dimension of the indices that index vectors lie along.
    pub vector: i64,
}

/// The attributes' names and the constraints' numbers, in the order `DimNumbers::check` has them.
pub(crate) struct Rules {
    pub window: &'static str,
    pub dropped: &'static str,
    pub batching: &'static str,
    pub index_batching: &'static str,
    pub map: &'static str,
    pub rank: &'static str,
    pub vector_range: &'static str,
    pub map_size: &'static str,
    pub window_sorted: &'static str,
    pub window_range: &'static str,
    pub dropped_unique: &'static str,
    pub dropped_sorted: &'static str,
    pub dropped_range: &'static str,
    pub batching_sorted: &'static str,
    pub batching_range: &'static str,
    pub index_batching_unique: &'static str,
    pub index_batching_range: &'static str,
    pub vector_apart: &'static str,
    pub batching_count: &'static str,
    pub batching_sizes: &'static str,
    pub map_unique: &'static str,
    pub map_range: &'static str,
}

impl DimNumbers<'_> {
    /// The constraints gathers and scatters have in common.
    pub(crate) fn check(
        &self,
        c: &mut Check<'_>,
        operand: &TensorTy,
        indices: &TensorTy,
        windowed_rank: usize,
        r: &Rules,
    ) {
        let rank = self.window.len() + self.dropped.len() + self.batching.len();
        c.require(rank == operand.rank(), r.rank, || {
            format!("{operand} has rank {}, the dimension lists name {rank}", operand.rank())
        });
        let vector_fits = (0..=indices.rank() as i64).contains(&self.vector);
        c.require(vector_fits, r.vector_range, || {
            format!("index_vector_dim {} does not fit {indices}", self.vector)
        });
        let length = dim_at(indices, self.vector).unwrap_or(1);
        c.require(dim_compatible(length, self.map.len() as i64), r.map_size, || {
            format!("{} has {} elements, an index has {length}", r.map, self.map.len())
        });
        sorted(c, r.window, self.window, r.window_sorted);
        c.dimensions(r.window, self.window, windowed_rank, r.window_range, r.window_sorted);
        let both = [self.dropped, self.batching].concat();
        c.unique(&format!("{} and {}", r.dropped, r.batching), &both, r.dropped_unique);
        sorted(c, r.dropped, self.dropped, r.dropped_sorted);
        in_range(c, r.dropped, self.dropped, operand, r.dropped_range);
        sorted(c, r.batching, self.batching, r.batching_sorted);
        in_range(c, r.batching, self.batching, operand, r.batching_range);
        c.unique(r.index_batching, self.index_batching, r.index_batching_unique);
        in_range(c, r.index_batching, self.index_batching, indices, r.index_batching_range);
        c.require(!self.index_batching.contains(&self.vector), r.vector_apart, || {
            format!("{} holds index_vector_dim {}", r.index_batching, self.vector)
        });
        self.check_batching(c, operand, indices, r);
        let both = [self.map, self.batching].concat();
        c.unique(&format!("{} and {}", r.map, r.batching), &both, r.map_unique);
        in_range(c, r.map, self.map, operand, r.map_range);
    }

    fn check_batching(&self, c: &mut Check<'_>, operand: &TensorTy, indices: &TensorTy, r: &Rules) {
        let sizes = (self.batching.len(), self.index_batching.len());
        c.require(sizes.0 == sizes.1, r.batching_count, || {
            format!(
                "{} and {} have {} and {} elements",
                r.batching, r.index_batching, sizes.0, sizes.1
            )
        });
        for (d, i) in self.batching.iter().zip(self.index_batching) {
            if let (Some(a), Some(b)) = (dim_at(operand, *d), dim_at(indices, *i)) {
                let what = format!("dimension {d} of {operand} and dimension {i} of {indices}");
                c.same_dim(r.batching_sizes, &what, a, b);
            }
        }
    }

    /// The sizes of the dimensions that count windows.
    pub(crate) fn batch_sizes(&self, indices: &[i64]) -> Vec<i64> {
        let kept = |(d, _): &(usize, &i64)| *d as i64 != self.vector;
        indices.iter().enumerate().filter(kept).map(|(_, size)| *size).collect()
    }

    /// The operand's dimensions that windows walk along.
    pub(crate) fn window_of(&self, rank: usize) -> Vec<usize> {
        let dropped = |d: i64| self.dropped.contains(&d) || self.batching.contains(&d);
        (0..rank).filter(|d| !dropped(*d as i64)).collect()
    }

    /// The windowed tensor's dimensions that count windows.
    pub(crate) fn batch_of(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|d| !self.window.contains(&(*d as i64))).collect()
    }

    /// The shape of the windowed tensor from the number and the sizes of windows.
    pub(crate) fn combine(&self, batch: &[i64], window: &[i64]) -> Vec<i64> {
        let (mut batch_left, mut window_left) = (batch.iter(), window.iter());
        (0..(batch.len() + window.len()) as i64)
            .filter_map(|d| {
                if self.window.contains(&d) { window_left.next() } else { batch_left.next() }
            })
            .copied()
            .collect()
    }

    /// Where in the operand each window starts: one row of `rank` places per window, batching
    /// dimensions included, nothing clamped.
    pub(crate) fn starts(&self, indices_of: &Tensor, rank: usize) -> Vec<i64> {
        let values = indices(indices_of);
        let own = strides(indices_of.dims());
        let batch: Vec<usize> = (0..own.len()).filter(|d| *d as i64 != self.vector).collect();
        let sizes = self.batch_sizes(indices_of.dims());
        let step = own.get(self.vector as usize).copied().unwrap_or(0);
        let count = sizes.iter().product::<i64>() as usize;
        let mut starts = vec![0; count * rank];
        for (i, row) in starts.chunks_exact_mut(rank.max(1)).enumerate() {
            let index = unravel(i, &sizes);
            let at: usize = batch.iter().zip(&index).map(|(d, i)| own[*d] * *i as usize).sum();
            for (k, d) in self.map.iter().enumerate() {
                row[*d as usize] = values[at + k * step];
            }
            for (d, i) in self.batching.iter().zip(self.index_batching) {
                row[*d as usize] = index[(*i - i64::from(*i >= self.vector)) as usize];
            }
        }
        starts
    }
}

fn sorted(c: &mut Check<'_>, name: &str, list: &[i64], number: &str) {
    c.require(list.is_sorted(), number, || format!("{name} {list:?} is not sorted"));
}

fn in_range(c: &mut Check<'_>, name: &str, list: &[i64], ty: &TensorTy, number: &str) {
    for dim in list {
        c.require(dim_at(ty, *dim).is_some(), number, || {
            format!("{name} holds {dim}, which is no dimension of {ty}")
        });
    }
}
