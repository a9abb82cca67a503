//! The rest of CHLO: constants, shapes, and the largest elements.

use std::cmp::Ordering;
use std::sync::Arc;

use rayon::prelude::*;

use super::elementwise::less;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult, Num, Tensor, Value};
use crate::ir::{Attr, DType, DYNAMIC, Dict, Literal, NodeId, TensorTy};
use crate::text::{Form, Parse, Parser, Printer, Types, Word, form};

payload! {
    /// A constant tensor.
    ChloConstant { value: Arc<Literal> }
}

impl OpDef for ChloConstant {
    const NAME: &'static str = "chlo.constant";
    const FORM: Form = super::Constant::FORM;
    const ARITY: Arity = Arity::tensors(Count::Exactly(0), 1);

    fn check(&self, _: &mut Check<'_>) {}

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Types(vec![self.value.ty.clone().into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        cx.allow(&self.value.ty)?;
        Ok(vec![Tensor::from_literal(&self.value).into()])
    }

    columns!(Opaque, Exact, Zero);
}

payload! {
    /// One number in the shape of an operand.
    ConstantLike { value: Attr }
}

impl ConstantLike {
    fn number(&self) -> Option<(Num, Option<DType>)> {
        match &self.value {
            Attr::Float(value, dtype) => Some((Num::F(*value), Some(dtype.unwrap_or(DType::F64)))),
            Attr::Int(value, dtype) => {
                Some((Num::I(*value as i64), Some(dtype.unwrap_or(DType::S64))))
            }
            Attr::Bool(value) => Some((Num::B(*value), Some(DType::I1))),
            _ => None,
        }
    }
}

impl OpDef for ConstantLike {
    const NAME: &'static str = "chlo.constant_like";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let result = c.result(0);
        let Some((_, dtype)) = self.number() else {
            return c.fail("I1", "value must be a number such as 1.0 : f32");
        };
        c.require(result.dtype().is_some_and(|found| Some(found) == dtype), "", || {
            format!("the result is {result}, the value of another type")
        });
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(vec![c.operand(0).with_elem(c.result(0).elem.clone()).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let ty = cx.result_of(0, cx.tensor(0)?.dims())?;
        let Some((value, _)) = self.number() else {
            return Err(cx.error("value is no number"));
        };
        Ok(vec![Tensor::from_nums(ty, |_| value).into()])
    }

    columns!(Opaque, Exact, Zero);
}

payload! {
    /// The same elements under a shape given at run time; one size may be -1.
    ChloDynamicReshape {}
}

impl OpDef for ChloDynamicReshape {
    const NAME: &'static str = "chlo.dynamic_reshape";
    const FORM: Form = Form::FUNCTIONAL;
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, shape, result) = (c.operand(0), c.operand(1), c.result(0));
        c.require(operand.elem == result.elem, "", || format!("{operand} becomes {result}"));
        let sizes = shape.rank() == 1 && shape.dtype().is_some_and(DType::is_int);
        c.require(sizes, "I2", || format!("the shape is {shape}"));
        let rank = shape.dims.first().copied().unwrap_or(DYNAMIC);
        c.require(rank == DYNAMIC || rank == result.rank() as i64, "", || {
            format!("the shape is {shape}, the result {result}")
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let mut dims = cx.tensor(1)?.ints().to_vec();
        let known = dims.iter().filter(|size| **size != -1);
        let product = known.copied().try_fold(1i64, i64::checked_mul).unwrap_or(-1);
        if let Some(open) = dims.iter_mut().find(|size| **size == -1) {
            *open = if product > 0 { operand.count() as i64 / product } else { 0 };
        }
        let ty = cx.result_of(0, &dims)?;
        if ty.count() != Some(operand.count()) {
            return Err(cx.error(format!("{} does not fit the shape {dims:?}", operand.ty)));
        }
        Ok(vec![operand.clone().with_dims(dims).into()])
    }

    columns!(Move, Exact, Rule(derive_reshape));
}

payload! {
    /// The `k` largest elements along the last dimension, and where they are.
    TopK { k: i64, largest: bool = true, is_stable: bool = true }
}

impl OpDef for TopK {
    const NAME: &'static str = "chlo.top_k";
    const FORM: Form = Form::Custom { parse: parse_top_k, print: print_top_k };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 2);

    fn check(&self, c: &mut Check<'_>) {
        let operand = c.operand(0);
        let last = operand.dims.last().copied();
        c.require(last.is_some(), "I1", || format!("{operand} has no last dimension"));
        let fits = self.k >= 0 && last.is_none_or(|last| last == DYNAMIC || self.k <= last);
        c.require(fits, "I2", || format!("k is {}, the operand {operand}", self.k));
        let real = operand.dtype().is_some_and(|dtype| !dtype.is_complex());
        c.require(real, "I1", || format!("{operand} cannot be put in order"));
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let operand = c.operand(0);
        let mut dims = operand.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = self.k;
        }
        let values = operand.with_dims(dims);
        let indices = values.with_elem(DType::S32);
        Infer::Types(vec![values.into(), indices.into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let Some((last, outer)) = operand.dims().split_last() else {
            return Err(cx.error("the operand has no last dimension"));
        };
        if self.k > *last {
            return Err(cx.error(format!("k is {}, the operand {}", self.k, operand.ty)));
        }
        let (row, k) = (*last as usize, self.k as usize);
        let dims: Vec<i64> = outer.iter().copied().chain([self.k]).collect();
        let (values, indices) = (cx.result_of(0, &dims)?, cx.result_of(1, &dims)?);
        let rows = outer.iter().product::<i64>().max(0) as usize;
        let order = |r: usize| self.row_order(operand, r * row, row, k);
        let chosen: Vec<usize> = (0..rows).into_par_iter().flat_map_iter(order).collect();
        let from = |i: usize| i / k.max(1) * row + chosen[i];
        let mut taken = operand.gather_elements(dims, None, |i| Some(from(i)));
        taken.ty = values;
        Ok(vec![taken.into(), Tensor::from_ints(indices, |i| chosen[i] as i64).into()])
    }

    columns!(Opaque, Exact, Rule(derive_top_k));
}

impl TopK {
    /// The places of a row's first `k` elements in order; of equal ones the first comes first.
    fn row_order(&self, operand: &Tensor, start: usize, row: usize, k: usize) -> Vec<usize> {
        let dtype = operand.storage();
        let mut places: Vec<usize> = (0..row).collect();
        let key: Vec<Num> = places.iter().map(|i| operand.get(start + i)).collect();
        places.sort_by(|a, b| {
            let order = total_order(dtype, key[*a], key[*b]);
            if self.largest { order.reverse() } else { order }
        });
        places.truncate(k);
        places
    }
}

fn total_order(dtype: DType, x: Num, y: Num) -> Ordering {
    match (x, y) {
        (Num::I(x), Num::I(y)) if less(dtype, x, y) => Ordering::Less,
        (Num::I(x), Num::I(y)) if x == y => Ordering::Equal,
        (Num::I(_), Num::I(_)) => Ordering::Greater,
        (Num::B(x), Num::B(y)) => x.cmp(&y),
        (x, y) => x.float().total_cmp(&y.float()),
    }
}

/// `(%x, k = 2) {…} : T -> (T, U)`.
fn parse_top_k(p: &mut Parser<'_>, info: &'static super::OpInfo) -> Parse<form::RawOp> {
    const WORDS: &[Word] = &[Word { text: "k", attr: "k" }];
    form::parse_plain(p, info, WORDS, Types::Arrow)
}

fn print_top_k(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push("(");
    p.values(p.graph().operands(node));
    if let Some(k) = form::take(&mut attrs, "k") {
        p.push(", k = ");
        p.short_attr(&k);
    }
    p.push(")");
    p.attributes(&attrs);
    form::print_types(p, node, Types::Arrow);
}

payload! {
    /// Shapes of the least rank that broadcast as the given ones do.
    MinimumBroadcastShapes {}
}

impl OpDef for MinimumBroadcastShapes {
    const NAME: &'static str = "chlo.minimum_broadcast_shapes";
    const FORM: Form = Form::ARROW;
    const ARITY: Arity = Arity {
        operands: Count::AtLeast(2),
        results: Count::AtLeast(2),
        regions: Count::Exactly(0),
        tensors: true,
    };

    fn check(&self, c: &mut Check<'_>) {
        let (operands, results) = (c.operand_types().len(), c.result_types().len());
        c.require(operands == results, "", || format!("{results} results for {operands} shapes"));
        for (i, ty) in c.operands(0).into_iter().enumerate() {
            let shape = ty.rank() == 1 && ty.dtype().is_some_and(DType::is_int);
            c.require(shape, "I1", || format!("operand {i} is {ty}, no shape"));
        }
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let shapes: Vec<Vec<i64>> = cx.tensors(0)?.iter().map(|t| t.ints().to_vec()).collect();
        let Some(least) = minimum_shapes(&shapes) else {
            return Err(cx.error(format!("the shapes {shapes:?} do not broadcast")));
        };
        let one = |(i, shape): (usize, &Vec<i64>)| -> EvalResult<Value> {
            let declared: &TensorTy = cx.result_ty(i)?;
            let mut shape = shape.clone();
            // A static result may be longer than it need be: ones in front change nothing.
            if let Some(len) = declared.dims.first().filter(|len| **len != DYNAMIC) {
                let missing = (*len as usize).saturating_sub(shape.len());
                shape.splice(0..0, vec![1; missing]);
            }
            let ty = cx.result_of(i, &[shape.len() as i64])?;
            Ok(Tensor::from_ints(ty, |j| shape[j]).into())
        };
        least.iter().enumerate().map(one).collect()
    }

    columns!(Opaque, Exact, Missing("shapes are not known"));
}

/// Joins neighbouring dimensions that the same operands broadcast along. Dimensions in which all
/// are 1 join anything.
fn minimum_shapes(shapes: &[Vec<i64>]) -> Option<Vec<Vec<i64>>> {
    let rank = shapes.iter().map(Vec::len).max()?;
    // From the last dimension to the first: the size per operand, none where it has ended.
    let mut result: Vec<Vec<i64>> = vec![Vec::new(); shapes.len()];
    let mut last: Option<Vec<bool>> = None;
    for d in 0..rank {
        let size = |shape: &Vec<i64>| shape.len().checked_sub(d + 1).map(|at| shape[at]);
        let sizes: Vec<i64> = shapes.iter().map(|shape| size(shape).unwrap_or(1)).collect();
        let common = sizes.iter().copied().find(|size| *size != 1).unwrap_or(1);
        if sizes.iter().any(|size| *size != 1 && *size != common) {
            return None;
        }
        if common == 1 {
            continue;
        }
        let varies: Vec<bool> = sizes.iter().map(|size| *size != 1).collect();
        let joins = last.as_ref() == Some(&varies);
        for (out, size) in result.iter_mut().zip(&sizes) {
            match out.last_mut().filter(|_| joins) {
                Some(before) => *before = before.checked_mul(*size)?,
                None => out.push(*size),
            }
        }
        last = Some(varies);
    }
    for shape in &mut result {
        while shape.last() == Some(&1) {
            shape.pop();
        }
        shape.reverse();
    }
    Some(result)
}

fn derive_reshape(_: &ChloDynamicReshape, d: &mut Derive<'_>) -> Derived {
    super::shape::derive_reshape(d)
}

/// Back to the places that the second result names.
#[expect(clippy::unnecessary_wraps, reason = "rules are of one type")]
fn derive_top_k(_: &TopK, d: &mut Derive<'_>) -> Derived {
    let (x, places) = (d.operand(0), d.result(1));
    let Some(g) = d.cotangent(0) else { return Ok(()) };
    let zeros = d.e.zeros_like(x);
    let last = d.e.rank(x) - 1;
    let back = d.e.scatter_along(zeros, last, places, g, None);
    d.give(0, back);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_shrink_to_what_broadcasting_needs() {
        let shapes = [vec![1, 2, 3, 1, 2, 1], vec![1, 1, 1, 2, 3]];
        let least = minimum_shapes(&shapes).unwrap();
        assert_eq!(least, [vec![6, 2, 1], vec![2, 3]]);
        assert_eq!(minimum_shapes(&[vec![2], vec![3]]), None);
    }
}
