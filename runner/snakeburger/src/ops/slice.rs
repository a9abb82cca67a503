//! Parts of tensors: cut out, or written into a copy.

use super::boxes::{put, take};
use super::indexing::{bound, index_list, indices, is_index, per_tensor, result_dims, same_elem};
use super::{Arity, Check, Count, Infer, OpDef, OpInfo};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult, Num, Tensor};
use crate::ir::{Attr, AttrValue, DYNAMIC, Dict, Ints, NodeId, TensorTy};
use crate::text::{Form, Parse, Parser, Printer, Types, Word, form};

payload! {
    /// Every stride-th element between a start and a limit, per dimension.
    Slice { start_indices: Ints, limit_indices: Ints, strides: Ints }
}

/// How many elements lie between start and limit.
fn slice_size(start: i64, limit: i64, stride: i64) -> i64 {
    (limit.saturating_sub(start).max(0) as u64).div_ceil(stride.max(1) as u64) as i64
}

fn slice_sizes(start: &[i64], limit: &[i64], stride: &[i64]) -> Vec<i64> {
    let ends = start.iter().zip(limit);
    ends.zip(stride).map(|((start, limit), stride)| slice_size(*start, *limit, *stride)).collect()
}

impl OpDef for Slice {
    const NAME: &'static str = "stablehlo.slice";
    const FORM: Form = Form::Custom { parse: parse_slice, print: print_slice };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let before = c.problem_count();
        let operand = c.operand(0);
        per_tensor(c, "I1", operand);
        same_elem(c, "C1", operand, c.result(0));
        let lists = [
            ("start_indices", &self.start_indices),
            ("limit_indices", &self.limit_indices),
            ("strides", &self.strides),
        ];
        for (name, list) in lists {
            c.require(list.len() == operand.rank(), "C2", || {
                format!("{name} has {} elements for {operand}", list.len())
            });
        }
        let ends = self.start_indices.iter().zip(&self.limit_indices);
        for (d, ((start, limit), dim)) in ends.zip(&operand.dims).enumerate() {
            let ordered = 0 <= *start && start <= limit && *limit <= bound(*dim);
            c.require(ordered, "C3", || format!("{start}:{limit} in dimension {d} of {operand}"));
        }
        for stride in self.strides.iter().filter(|stride| **stride <= 0) {
            c.fail("C4", format!("the stride {stride} must be positive"));
        }
        if c.problem_count() == before {
            let sizes = slice_sizes(&self.start_indices, &self.limit_indices, &self.strides);
            result_dims(c, "C5", &sizes);
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let sizes = slice_sizes(&self.start_indices, &self.limit_indices, &self.strides);
        Infer::Types(vec![c.operand(0).with_dims(sizes).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        slice(cx, &self.start_indices, &self.limit_indices, &self.strides)
    }

    columns!(Move, Exact, Rule(derive_slice));
}

/// Cuts a slice out of operand 0.
fn slice(cx: &Cx<'_, '_>, start: &[i64], limit: &[i64], stride: &[i64]) -> EvalResult {
    let operand = cx.tensor(0)?;
    for (d, dim) in operand.dims().iter().enumerate() {
        let (start, limit, stride) = (start[d], limit[d], stride[d]);
        if start < 0 || start > limit || limit > *dim || stride <= 0 {
            let message = format!("{start}:{limit}:{stride} in dimension {d} of {}", operand.ty);
            return Err(cx.error(message));
        }
    }
    let ty = cx.result_of(0, &slice_sizes(start, limit, stride))?;
    Ok(vec![take(operand, ty, start, stride).into()])
}

/// `%x [0:2, 0:4:2] : (T) -> U`.
fn parse_slice(p: &mut Parser<'_>, _: &'static OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp { operands: vec![p.operand()?], ..Default::default() };
    let ranges = p.list("[", "]", |p| {
        let start = p.cur.int64()?;
        p.cur.expect(":")?;
        let limit = p.cur.int64()?;
        let stride = if p.cur.eat(":") { p.cur.int64()? } else { 1 };
        Ok([start, limit, stride])
    })?;
    for (i, name) in ["start_indices", "limit_indices", "strides"].into_iter().enumerate() {
        let list: Ints = ranges.iter().map(|range| range[i]).collect();
        raw.attrs.push((name.into(), list.to_attr()));
    }
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Functional)?;
    Ok(raw)
}

fn print_slice(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    let mut list = |name: &str| match form::take(&mut attrs, name) {
        Some(Attr::DenseInts(_, list)) => list,
        _ => Ints::default(),
    };
    let (start, limit) = (list("start_indices"), list("limit_indices"));
    let stride = list("strides");
    p.push(" ");
    p.values(p.graph().operands(node));
    p.push(" [");
    for (i, ((start, limit), stride)) in start.iter().zip(&limit).zip(&stride).enumerate() {
        p.push(if i > 0 { ", " } else { "" });
        p.push(&format!("{start}:{limit}"));
        if *stride != 1 {
            p.push(&format!(":{stride}"));
        }
    }
    p.push("]");
    p.attributes(&attrs);
    form::print_types(p, node, Types::Functional);
}

payload! {
    /// A slice whose start, limit and strides are known at run time only.
    RealDynamicSlice {}
}

impl OpDef for RealDynamicSlice {
    const NAME: &'static str = "stablehlo.real_dynamic_slice";
    const FORM: Form = Form::FUNCTIONAL;
    const ARITY: Arity = Arity::tensors(Count::Exactly(4), 1);

    // The specification does not have this operation, so its constraints have no numbers.
    fn check(&self, c: &mut Check<'_>) {
        let (operand, result) = (c.operand(0), c.result(0));
        same_elem(c, "", operand, result);
        for i in 1..4 {
            index_list(c, i, "", "", operand.rank());
            let (first, other) = (c.operand(1), c.operand(i));
            same_elem(c, "", first, other);
        }
        c.require(operand.rank() == result.rank(), "", || {
            format!("{operand} and {result} differ in rank")
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let lists = (indices(cx.tensor(1)?), indices(cx.tensor(2)?), indices(cx.tensor(3)?));
        let rank = cx.tensor(0)?.rank();
        if [&lists.0, &lists.1, &lists.2].iter().any(|list| list.len() != rank) {
            return Err(cx.error(format!("the lists of indices must have {rank} elements")));
        }
        slice(cx, &lists.0, &lists.1, &lists.2)
    }

    columns!(Move, Exact, Missing("has a shape that is not known"));
}

payload! {
    /// A slice of static size whose start is known at run time only; it is moved inside.
    DynamicSlice { slice_sizes: Ints }
}

/// The start indices of a dynamic slice: one integer scalar per dimension, all of one type.
fn check_starts(c: &mut Check<'_>, first: usize, [label, number, same]: [&str; 3]) {
    let rank = c.operand(0).rank();
    let starts = c.operands(first);
    c.require(starts.len() == rank, number, || {
        format!("{} start indices for an operand of rank {rank}", starts.len())
    });
    for (i, ty) in starts.iter().enumerate() {
        c.require(ty.rank() == 0 && is_index(ty), label, || {
            format!("start index {i} is {ty}, it must be an integer scalar")
        });
        c.require(ty.elem == starts[0].elem, same, || {
            format!("start index {i} is {ty}, start index 0 is {}", starts[0])
        });
    }
}

/// The start indices from operand `first` on, moved so that a box of `sizes` lies inside.
fn starts(cx: &Cx<'_, '_>, first: usize, sizes: &[i64]) -> EvalResult<Vec<i64>> {
    let operand = cx.tensor(0)?;
    let mut starts = Vec::with_capacity(sizes.len());
    for (d, (dim, size)) in operand.dims().iter().zip(sizes).enumerate() {
        let start = indices(cx.tensor(first + d)?)[0];
        if *size < 0 || size > dim {
            return Err(
                cx.error(format!("a part of size {size} of dimension {d} of {}", operand.ty))
            );
        }
        starts.push(start.clamp(0, dim - size));
    }
    Ok(starts)
}

fn check_sizes(c: &mut Check<'_>, number: &str, operand: &TensorTy, sizes: &[i64]) {
    for (d, (size, dim)) in sizes.iter().zip(&operand.dims).enumerate() {
        let fits = *size == DYNAMIC || (0..=bound(*dim)).contains(size);
        c.require(fits, number, || format!("a part of size {size} of dimension {d} of {operand}"));
    }
}

impl OpDef for DynamicSlice {
    const NAME: &'static str = "stablehlo.dynamic_slice";
    const FORM: Form = Form::Plain {
        words: &[Word { text: "sizes", attr: "slice_sizes" }],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::AtLeast(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let operand = c.operand(0);
        per_tensor(c, "I1", operand);
        same_elem(c, "C1", operand, c.result(0));
        check_starts(c, 1, ["I2", "C2", "C3"]);
        c.require(self.slice_sizes.len() == operand.rank(), "C2", || {
            format!("{} slice_sizes for {operand}", self.slice_sizes.len())
        });
        check_sizes(c, "C4", operand, &self.slice_sizes);
        result_dims(c, "C5", &self.slice_sizes);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(vec![c.operand(0).with_dims(self.slice_sizes.iter().copied()).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let starts = starts(cx, 1, &self.slice_sizes)?;
        let ty = cx.result_of(0, &self.slice_sizes)?;
        Ok(vec![take(cx.tensor(0)?, ty, &starts, &vec![1; starts.len()]).into()])
    }

    columns!(Move, Exact, Rule(derive_dynamic_slice));
}

payload! {
    /// A copy of a tensor with a part of it replaced; the part's start is moved inside.
    DynamicUpdateSlice {}
}

impl OpDef for DynamicUpdateSlice {
    const NAME: &'static str = "stablehlo.dynamic_update_slice";
    const FORM: Form = Form::FUNCTIONAL;
    const ARITY: Arity = Arity::tensors(Count::AtLeast(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, update) = (c.operand(0), c.operand(1));
        per_tensor(c, "I1", operand);
        per_tensor(c, "I2", update);
        same_elem(c, "C1", operand, c.result(0));
        result_dims(c, "C1", &operand.dims);
        same_elem(c, "C2", operand, update);
        c.require(update.rank() == operand.rank(), "C3", || {
            format!("{operand} and {update} differ in rank")
        });
        check_starts(c, 2, ["I3", "C4", "C5"]);
        check_sizes(c, "C6", operand, &update.dims);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::By("C1", vec![c.operand(0).clone().into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let update: &Tensor = cx.tensor(1)?;
        let starts = starts(cx, 2, update.dims())?;
        let mut result = cx.tensor(0)?.clone();
        result.ty = cx.result_of(0, result.dims())?;
        put(&mut result, update, &starts);
        Ok(vec![result.into()])
    }

    columns!(Move, Exact, Rule(derive_update));
}

/// Zeros around and between.
fn derive_slice(op: &Slice, d: &mut Derive<'_>) -> Derived {
    let (dims, taken) = (d.e.dims(d.operand(0)), d.e.dims(d.result(0)));
    d.one(0, |e, g| {
        if taken.contains(&0) {
            return e.zeros(&dims, e.dtype(g));
        }
        let inside: Vec<i64> = op.strides.iter().map(|stride| stride - 1).collect();
        let high: Vec<i64> = (0..dims.len())
            .map(|i| dims[i] - op.start_indices[i] - (taken[i] - 1) * op.strides[i] - 1)
            .collect();
        let zero = Num::I(0).fit(e.dtype(g));
        e.pad(g, &op.start_indices, &high, &inside, zero)
    })
}

fn derive_dynamic_slice(_: &DynamicSlice, d: &mut Derive<'_>) -> Derived {
    let (dims, places) = (d.e.dims(d.operand(0)), d.operands()[1..].to_vec());
    d.one(0, |e, g| {
        let zeros = e.zeros(&dims, e.dtype(g));
        let operands: Vec<_> = [zeros, g].into_iter().chain(places).collect();
        e.same(DynamicUpdateSlice {}, &operands)
    })
}

fn derive_update(_: &DynamicUpdateSlice, d: &mut Derive<'_>) -> Derived {
    let (update, places) = (d.operand(1), d.operands()[2..].to_vec());
    let ty = d.e.ty(update).clone();
    d.one(0, |e, g| {
        let zeros = e.zeros_like(update);
        let operands: Vec<_> = [g, zeros].iter().chain(&places).copied().collect();
        e.same(DynamicUpdateSlice {}, &operands)
    })?;
    d.one(1, |e, g| {
        let operands: Vec<_> = [g].iter().chain(&places).copied().collect();
        let slice_sizes = ty.dims.iter().copied().collect();
        e.push(DynamicSlice { slice_sizes }, &operands, ty)
    })
}
