//! Sorting, and applying a region to every element.

use super::{Arity, Check, Count, Infer, OpDef};
use crate::derive::{Derive, Derived};
use crate::eval::{Apply, Cx, EvalResult, Num, Tensor, strides};
use crate::ir::{DType, Ints, TensorTy, Ty, dims_compatible};
use crate::text::Form;

/// Any number of tensors in and out, one region.
const TENSORS: Arity = Arity {
    operands: Count::AtLeast(0),
    results: Count::AtLeast(0),
    regions: Count::Exactly(1),
    tensors: true,
};

payload! {
    /// Sorts along a dimension; several tensors are sorted together.
    Sort { dimension: i64 = -1, is_stable: bool = false }
}

impl OpDef for Sort {
    const NAME: &'static str = "stablehlo.sort";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = TENSORS;

    fn check(&self, c: &mut Check<'_>) {
        let inputs = c.operands(0);
        let results = c.result_types().len();
        c.require(!inputs.is_empty(), "C1", || "there is nothing to sort".into());
        c.require(inputs.len() == results, "C2", || {
            format!("there are {} inputs and {results} results", inputs.len())
        });
        let Some(first) = inputs.first() else { return };
        for (i, input) in inputs.iter().enumerate() {
            c.result_is(i, "C2", &Ty::Tensor((*input).clone()));
            c.require(dims_compatible(&input.dims, &first.dims), "C3", || {
                format!("input {i} is {input}, input 0 is {first}")
            });
            let per_axis = input.elem.quant().is_some_and(|quant| quant.axis.is_some());
            c.require(!per_axis, "I1", || format!("input {i} is quantized per axis: {input}"));
        }
        let rank = first.rank() as i64;
        c.require((-rank..rank).contains(&self.dimension), "C4", || {
            format!("dimension {} is none of {first}", self.dimension)
        });
        let pair = |ty: &&TensorTy| [(); 2].map(|()| TensorTy::scalar(ty.elem.clone()).into());
        let arguments: Vec<Ty> = inputs.iter().flat_map(pair).collect();
        c.region_is(0, "C5", &arguments, &[TensorTy::scalar(DType::I1).into()]);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::By("C2", c.operand_types().iter().map(|ty| (*ty).clone()).collect())
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let inputs: Vec<Tensor> = cx.tensors(0)?.into_iter().cloned().collect();
        let Some(first) = inputs.first() else { return Ok(Vec::new()) };
        if inputs.iter().any(|input| input.dims() != first.dims()) {
            return Err(cx.error("the inputs differ in shape"));
        }
        cx.scalars(0, 2 * inputs.len(), 1)?;
        let rank = first.rank() as i64;
        let dim = if self.dimension < 0 { self.dimension + rank } else { self.dimension };
        let (Some(size), Some(stride)) =
            (first.dims().get(dim as usize), strides(first.dims()).get(dim as usize).copied())
        else {
            return Err(cx.error(format!("there is no dimension {dim}")));
        };
        let (size, stride) = (*size as usize, stride.max(1));
        let slices = first.count().checked_div(size).unwrap_or(0);
        let start = |slice: usize| slice / stride * stride * size + slice % stride;
        let orders = cx.each(0, slices, |comparator, slice| {
            sorted(comparator, &inputs, size, |k| start(slice) + k * stride)
        })?;
        let from = |i: usize| {
            let (slice, k) = (i / (stride * size) * stride + i % stride, i / stride % size);
            start(slice) + orders[slice][k] * stride
        };
        let moved = |input: &Tensor| {
            input.gather_elements(input.dims().iter().copied(), None, |i| Some(from(i))).into()
        };
        Ok(inputs.iter().map(moved).collect())
    }

    columns!(Opaque, Exact, Rule(derive_sort));
}

/// The order of a slice's elements; element `k` stands at `place(k)` of each input.
fn sorted(
    comparator: &mut dyn Apply,
    inputs: &[Tensor],
    size: usize,
    place: impl Fn(usize) -> usize,
) -> EvalResult<Vec<usize>> {
    let n = inputs.len();
    let keys: Vec<Num> = (0..size)
        .flat_map(|k| inputs.iter().map(move |input| (input, k)))
        .map(|(input, k)| input.get(place(k)))
        .collect();
    let mut arguments = vec![Num::B(false); 2 * n];
    let mut less = |x: usize, y: usize| {
        for i in 0..n {
            arguments[2 * i] = keys[x * n + i];
            arguments[2 * i + 1] = keys[y * n + i];
        }
        let mut result = [Num::B(false)];
        comparator.apply(&arguments, &mut result)?;
        Ok(result[0].bool())
    };
    merge_sort(size, &mut less)
}

/// A stable merge sort of the numbers below `size`. The standard library's may panic when a
/// comparator is no order, and this one comes from the program.
fn merge_sort(
    size: usize,
    less: &mut impl FnMut(usize, usize) -> EvalResult<bool>,
) -> EvalResult<Vec<usize>> {
    let mut order: Vec<usize> = (0..size).collect();
    let mut merged = Vec::with_capacity(size);
    let mut width = 1;
    while width < size {
        merged.clear();
        for run in order.chunks(2 * width) {
            let (mut left, mut right) = run.split_at(width.min(run.len()));
            while let ([x, left_rest @ ..], [y, right_rest @ ..]) = (left, right) {
                if less(*y, *x)? {
                    merged.push(*y);
                    right = right_rest;
                } else {
                    merged.push(*x);
                    left = left_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut order, &mut merged);
        width *= 2;
    }
    Ok(order)
}

payload! {
    /// Applies a region to each element.
    Map { dimensions: Ints }
}

impl OpDef for Map {
    const NAME: &'static str = "stablehlo.map";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::AtLeast(0), 1).with_regions(1);

    fn check(&self, c: &mut Check<'_>) {
        let (inputs, result) = (c.operands(0), c.result(0));
        for (i, input) in inputs.iter().enumerate() {
            c.require(dims_compatible(&input.dims, &result.dims), "C1", || {
                format!("input {i} is {input}, the result {result}")
            });
        }
        c.require(!inputs.is_empty(), "C2", || "there is nothing to map".into());
        let Some(first) = inputs.first() else { return };
        let range = (0..first.rank() as i64).eq(self.dimensions.iter().copied());
        c.require(range, "C3", || {
            format!("dimensions are {:?}, they must be all of {first}", self.dimensions)
        });
        let scalar = |ty: &&TensorTy| TensorTy::scalar(ty.elem.clone()).into();
        let arguments: Vec<Ty> = inputs.iter().map(scalar).collect();
        c.region_is(0, "C4", &arguments, &[scalar(&result)]);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(vec![c.operand(0).with_elem(c.result(0).elem.clone()).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let inputs: Vec<Tensor> = cx.tensors(0)?.into_iter().cloned().collect();
        let Some(first) = inputs.first() else { return Err(cx.error("there is nothing to map")) };
        if inputs.iter().any(|input| input.dims() != first.dims()) {
            return Err(cx.error("the inputs differ in shape"));
        }
        let ty = cx.result_of(0, first.dims())?;
        cx.scalars(0, inputs.len(), 1)?;
        let results = cx.each(0, first.count(), |body, i| {
            let arguments: smallvec::SmallVec<[Num; 4]> =
                inputs.iter().map(|input| input.get(i)).collect();
            let mut result = [Num::B(false)];
            body.apply(&arguments, &mut result)?;
            Ok(result[0])
        })?;
        Ok(vec![Tensor::from_nums(ty, |i| results[i]).into()])
    }

    columns!(Opaque, Exact, Missing("has no rule; write the function on tensors"));
}

/// Elements go back to where they came from: the sort is done again with their places beside.
#[expect(clippy::unnecessary_wraps, reason = "rules are of one type")]
fn derive_sort(op: &Sort, d: &mut Derive<'_>) -> Derived {
    let axis = op.dimension as usize;
    let mut operands = d.operands().to_vec();
    let count = operands.len();
    let dims = d.e.dims(operands[0]);
    let places = d.e.iota(&dims, DType::S64, axis);
    operands.push(places);
    let types: Vec<TensorTy> = operands.iter().map(|value| d.e.ty(*value).clone()).collect();
    let scalars = types.iter().flat_map(|ty| {
        let scalar = TensorTy::scalar(ty.elem.clone());
        [scalar.clone(), scalar]
    });
    let scalars: Vec<TensorTy> = scalars.collect();
    let old = d.regions()[0];
    let region = d.e.region(&scalars, |e, args| e.replay(old, &args[..2 * count]));
    let sorted = d.e.push_many(op.clone(), &operands, &types, &[region])[count];
    for i in 0..count {
        let (true, Some(g)) = (d.wants(i), d.cotangent(i)) else { continue };
        let zeros = d.e.zeros_like(g);
        let back = d.e.scatter_along(zeros, axis, sorted, g, None);
        d.give(i, back);
    }
    Ok(())
}
