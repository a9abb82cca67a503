//! Windows of a tensor, taken from where indices say.

use super::boxes::{Walk, place, steps};
use super::index_grad;
use super::indexing::{
    DimNumbers, Rules, bound, dim_at, index_list, is_index, per_tensor, result_dims, same_elem,
    shape_operand,
};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, Tensor, strides, unravel};
use crate::ir::{DYNAMIC, Ints};
use crate::text::Form;

struct_attr! {
    /// Which dimension plays which part.
    GatherDims ("stablehlo.gather", "an attribute #stablehlo.gather<…>") {
        offset_dims: Ints = Ints::default(),
        collapsed_slice_dims: Ints = Ints::default(),
        operand_batching_dims: Ints = Ints::default(),
        start_indices_batching_dims: Ints = Ints::default(),
        start_index_map: Ints = Ints::default(),
        index_vector_dim: i64 = 0,
    }
}

impl GatherDims {
    fn numbers(&self) -> DimNumbers<'_> {
        DimNumbers {
            window: &self.offset_dims,
            dropped: &self.collapsed_slice_dims,
            batching: &self.operand_batching_dims,
            index_batching: &self.start_indices_batching_dims,
            map: &self.start_index_map,
            vector: self.index_vector_dim,
        }
    }

    /// The result's shape for windows of these sizes.
    fn result_dims(&self, indices: &[i64], sizes: &[i64]) -> Vec<i64> {
        let numbers = self.numbers();
        let window = numbers.window_of(sizes.len());
        let window: Vec<i64> = window.into_iter().map(|d| sizes[d]).collect();
        numbers.combine(&numbers.batch_sizes(indices), &window)
    }

    fn check(&self, c: &mut Check<'_>, rules: &Rules, label: &str, elem: &str) {
        let (operand, indices, result) = (c.operand(0), c.operand(1), c.result(0));
        per_tensor(c, "I1", operand);
        c.require(is_index(indices), label, || format!("the indices {indices} must be integers"));
        self.numbers().check(c, operand, indices, result.rank(), rules);
        same_elem(c, elem, operand, result);
    }
}

const GATHER: Rules = Rules {
    window: "offset_dims",
    dropped: "collapsed_slice_dims",
    batching: "operand_batching_dims",
    index_batching: "start_indices_batching_dims",
    map: "start_index_map",
    rank: "C1",
    vector_range: "C2",
    map_size: "C3",
    window_sorted: "C4",
    window_range: "C5",
    dropped_unique: "C6",
    dropped_sorted: "C7",
    dropped_range: "C8",
    batching_sorted: "C10",
    batching_range: "C11",
    index_batching_unique: "C13",
    index_batching_range: "C14",
    vector_apart: "C15",
    batching_count: "C16",
    batching_sizes: "C17",
    map_unique: "C18",
    map_range: "C19",
};

/// The specification of `dynamic_gather` knows no batching dimensions: theirs have no numbers.
const DYNAMIC_GATHER: Rules = Rules {
    dropped_sorted: "C6",
    dropped_range: "C7",
    batching_sorted: "",
    batching_range: "",
    index_batching_unique: "",
    index_batching_range: "",
    vector_apart: "",
    batching_count: "",
    batching_sizes: "",
    map_unique: "C9",
    map_range: "C10",
    ..GATHER
};

payload! {
    /// Windows of a tensor from where indices say, moved inside.
    Gather {
        dimension_numbers: GatherDims,
        slice_sizes: Ints,
        indices_are_sorted: bool = false,
    }
}

impl OpDef for Gather {
    const NAME: &'static str = "stablehlo.gather";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        let before = c.problem_count();
        let operand = c.operand(0);
        let dims = &self.dimension_numbers;
        dims.check(c, &GATHER, "I2", "C23");
        let single = [
            ("C9", "collapsed_slice_dims", &dims.collapsed_slice_dims),
            ("C12", "operand_batching_dims", &dims.operand_batching_dims),
        ];
        for (number, name, list) in single {
            for d in list {
                let size = usize::try_from(*d).ok().and_then(|d| self.slice_sizes.get(d));
                let size = size.copied().unwrap_or(1);
                c.require(size <= 1, number, || {
                    format!("dimension {d} of {name} has the slice size {size}, not 1 or less")
                });
            }
        }
        c.require(self.slice_sizes.len() == operand.rank(), "C20", || {
            format!("{} slice_sizes for {operand}", self.slice_sizes.len())
        });
        for (d, (size, dim)) in self.slice_sizes.iter().zip(&operand.dims).enumerate() {
            c.require((0..=bound(*dim)).contains(size), "C21", || {
                format!("a slice of size {size} of dimension {d} of {operand}")
            });
        }
        if c.problem_count() == before {
            result_dims(c, "C22", &dims.result_dims(&c.operand(1).dims, &self.slice_sizes));
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let dims = self.dimension_numbers.result_dims(&c.operand(1).dims, &self.slice_sizes);
        Infer::Types(vec![c.operand(0).with_dims(dims).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        gather(cx, &self.dimension_numbers, &self.slice_sizes)
    }

    columns!(Move, Exact, Rule(index_grad::of_gather));
}

payload! {
    /// A gather whose window sizes are known at run time only.
    DynamicGather { dimension_numbers: GatherDims, indices_are_sorted: bool = false }
}

impl OpDef for DynamicGather {
    const NAME: &'static str = "stablehlo.dynamic_gather";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(3), 1);

    // C8 and C12 speak of values and are held when they are known.
    fn check(&self, c: &mut Check<'_>) {
        let before = c.problem_count();
        self.dimension_numbers.check(c, &DYNAMIC_GATHER, "I2", "C14");
        index_list(c, 2, "I3", "C11", c.operand(0).rank());
        if c.problem_count() == before {
            let sizes = vec![DYNAMIC; c.operand(0).rank()];
            let dims = self.dimension_numbers.result_dims(&c.operand(1).dims, &sizes);
            result_dims(c, "C13", &dims);
        }
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let sizes = shape_operand(cx, 2)?;
        if sizes.len() != cx.tensor(0)?.rank() {
            return Err(cx.error(format!("{} slice sizes for {}", sizes.len(), cx.tensor(0)?.ty)));
        }
        gather(cx, &self.dimension_numbers, &sizes)
    }

    columns!(Move, Exact, Missing("has a shape that is not known"));
}

fn gather(cx: &Cx<'_, '_>, dims: &GatherDims, sizes: &[i64]) -> EvalResult {
    let (operand, indices) = (cx.tensor(0)?, cx.tensor(1)?);
    check_windows(cx, dims, operand, indices, sizes)?;
    let ty = cx.result_of(0, &dims.result_dims(indices.dims(), sizes))?;
    let mut result = Tensor::zeros(ty);
    if result.count() == 0 {
        return Ok(vec![result.into()]);
    }
    let (places, walk) = plan(dims, operand, indices, result.dims(), sizes)
        .ok_or_else(|| cx.error(format!("an empty slice starts at the end of {}", operand.ty)))?;
    walk.copy(&mut result, operand, &places);
    Ok(vec![result.into()])
}

/// What the verifier cannot know of dynamic shapes.
fn check_windows(
    cx: &Cx<'_, '_>,
    dims: &GatherDims,
    operand: &Tensor,
    indices: &Tensor,
    sizes: &[i64],
) -> EvalResult<()> {
    for (d, (size, dim)) in sizes.iter().zip(operand.dims()).enumerate() {
        let numbers = dims.numbers();
        let single =
            numbers.dropped.contains(&(d as i64)) || numbers.batching.contains(&(d as i64));
        if size > dim || (single && *size > 1) {
            let message = format!("a slice of size {size} of dimension {d} of {}", operand.ty);
            return Err(cx.error(message));
        }
    }
    let length = dim_at(&indices.ty, dims.index_vector_dim).unwrap_or(1);
    if length != dims.start_index_map.len() as i64 {
        return Err(cx.error(format!("index vectors of length {length} in {}", indices.ty)));
    }
    for (d, i) in dims.operand_batching_dims.iter().zip(&dims.start_indices_batching_dims) {
        if dim_at(&operand.ty, *d) != dim_at(&indices.ty, *i) {
            let message = format!("dimension {d} of {} is not {i} of {}", operand.ty, indices.ty);
            return Err(cx.error(message));
        }
    }
    Ok(())
}

/// Where each window comes from and goes to, and how one is walked. Nothing if one starts behind
/// the last element, which only a dropped dimension of slice size 0 allows.
fn plan(
    dims: &GatherDims,
    operand: &Tensor,
    indices: &Tensor,
    result: &[i64],
    sizes: &[i64],
) -> Option<(Vec<(isize, isize)>, Walk)> {
    let numbers = dims.numbers();
    let (own, out) = (steps(operand.dims()), steps(result));
    let window = numbers.window_of(sizes.len());
    let batch = numbers.batch_of(result.len());
    let window_sizes: Vec<i64> = window.iter().map(|d| sizes[*d]).collect();
    let from: Vec<isize> = window.iter().map(|d| own[*d]).collect();
    let to: Vec<isize> = numbers.window.iter().map(|d| out[*d as usize]).collect();
    let batch_dims: Vec<i64> = batch.iter().map(|d| result[*d]).collect();
    let batch_steps: Vec<isize> = batch.iter().map(|d| out[*d]).collect();

    let rank = operand.rank();
    let mut starts = numbers.starts(indices, rank);
    let count: i64 = batch_dims.iter().product();
    let places = (0..count as usize).map(|i| {
        let start = &mut starts[i * rank..(i + 1) * rank];
        for (d, start) in start.iter_mut().enumerate() {
            *start = (*start).clamp(0, operand.dims()[d] - sizes[d]);
        }
        let inside = start.iter().zip(operand.dims()).all(|(start, dim)| start < dim);
        inside.then(|| (place(&unravel(i, &batch_dims), &batch_steps), place(start, &own)))
    });
    let places: Option<Vec<(isize, isize)>> = places.collect();
    Some((places?, Walk::new(&window_sizes, &to, &from)))
}

payload! {
    /// Slices along one dimension by index, as `torch.index_select` with leading dimensions
    /// that both operands share.
    TorchIndexSelect { dim: i64, batch_dims: i64 }
}

impl TorchIndexSelect {
    /// The dimension and the number of shared ones; negative numbers count from the end.
    fn places(&self, operand: usize, index: usize) -> Option<(usize, usize)> {
        let wrap = |n: i64, rank: usize| {
            usize::try_from(if n < 0 { n.checked_add(rank as i64)? } else { n }).ok()
        };
        let (dim, batch) = (wrap(self.dim, operand)?, wrap(self.batch_dims, index)?);
        (dim < operand && batch <= index && batch <= dim).then_some((dim, batch))
    }

    fn dims(operand: &[i64], index: &[i64], dim: usize, batch: usize) -> Vec<i64> {
        [&operand[..dim], &index[batch..], &operand[dim + 1..]].concat()
    }
}

impl OpDef for TorchIndexSelect {
    const NAME: &'static str = "stablehlo.torch_index_select";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    // The specification does not have this operation, so its constraints have no numbers.
    fn check(&self, c: &mut Check<'_>) {
        let (operand, index) = (c.operand(0), c.operand(1));
        per_tensor(c, "", operand);
        same_elem(c, "", operand, c.result(0));
        c.require(is_index(index), "", || format!("the index {index} must hold integers"));
        let Some((dim, batch)) = self.places(operand.rank(), index.rank()) else {
            let message = format!("dim {} and batch_dims {}", self.dim, self.batch_dims);
            return c.fail("", format!("{message} do not fit {operand} and {index}"));
        };
        for d in 0..batch {
            c.same_dim("", "a shared dimension", operand.dims[d], index.dims[d]);
        }
        result_dims(c, "", &Self::dims(&operand.dims, &index.dims, dim, batch));
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let (operand, index) = (c.operand(0), c.operand(1));
        match self.places(operand.rank(), index.rank()) {
            Some((dim, batch)) => {
                let dims = Self::dims(&operand.dims, &index.dims, dim, batch);
                Infer::Types(vec![operand.with_dims(dims).into()])
            }
            None => Infer::Declared,
        }
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (operand, index) = (cx.tensor(0)?, cx.tensor(1)?);
        let places = self.places(operand.rank(), index.rank());
        let (dim, batch) = places.ok_or_else(|| cx.error("the dimensions do not fit"))?;
        if operand.dims()[..batch] != index.dims()[..batch] {
            return Err(cx.error(format!("{} and {} do not fit", operand.ty, index.ty)));
        }
        let chosen = super::indexing::indices(index);
        let size = operand.dims()[dim];
        if let Some(outside) = chosen.iter().find(|i| !(0..size).contains(*i)) {
            return Err(cx.error(format!("index {outside} of a dimension of size {size}")));
        }
        let dims = Self::dims(operand.dims(), index.dims(), dim, batch);
        let ty = cx.result_of(0, &dims)?;
        let own = strides(operand.dims());
        let source = |i: usize| {
            let at = unravel(i, &dims);
            let behind = dim + index.rank() - batch;
            let number = at[..batch].iter().chain(&at[dim..behind]);
            let number = number.zip(index.dims()).fold(0, |n, (i, size)| n * size + i) as usize;
            let kept = at[..dim].iter().chain([&chosen[number]]).chain(&at[behind..]);
            kept.zip(&own).map(|(i, step)| *i as usize * step).sum()
        };
        let mut result = operand.gather_elements(dims.iter().copied(), None, |i| Some(source(i)));
        result.ty = ty;
        Ok(vec![result.into()])
    }

    columns!(Move, Exact, Missing("has no rule; use gather"));
}
