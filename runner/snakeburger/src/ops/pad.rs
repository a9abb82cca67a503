//! Tensors with more, or fewer, elements at the edges and between neighbours.

use super::boxes::{Walk, place, steps};
use super::indexing::{index_list, indices, per_tensor, result_dims, same_elem};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::build::{Emitter, Fold, V};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult, Num, Tensor};
use crate::ir::{DYNAMIC, Ints, TensorTy};
use crate::text::{Form, Types, Word};

payload! {
    /// Adds elements around and between those of a tensor; negative edges remove them.
    Pad { edge_padding_low: Ints, edge_padding_high: Ints, interior_padding: Ints }
}

/// The size of a padded dimension; nothing if it is negative or does not fit.
fn padded(dim: i64, low: i64, high: i64, interior: i64) -> Option<i64> {
    if dim == DYNAMIC {
        return Some(DYNAMIC);
    }
    let between = (dim - 1).max(0).checked_mul(interior)?;
    // In i128: the edges may cancel each other.
    let size = i128::from(dim) + i128::from(low) + i128::from(between) + i128::from(high);
    i64::try_from(size).ok().filter(|size| *size >= 0)
}

/// The shape of a padded tensor, or the first dimension that cannot be.
fn padded_dims(dims: &[i64], [low, high, interior]: [&[i64]; 3]) -> Result<Vec<i64>, usize> {
    (0..dims.len()).map(|d| padded(dims[d], low[d], high[d], interior[d]).ok_or(d)).collect()
}

impl Pad {
    fn lists(&self) -> [&[i64]; 3] {
        [&self.edge_padding_low, &self.edge_padding_high, &self.interior_padding]
    }
}

impl OpDef for Pad {
    const NAME: &'static str = "stablehlo.pad";
    const FORM: Form = Form::Plain {
        words: &[
            Word { text: "low", attr: "edge_padding_low" },
            Word { text: "high", attr: "edge_padding_high" },
            Word { text: "interior", attr: "interior_padding" },
        ],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        let before = c.problem_count();
        let operand = c.operand(0);
        check_types(c);
        let names = ["edge_padding_low", "edge_padding_high", "interior_padding"];
        for (name, list) in names.into_iter().zip(self.lists()) {
            c.require(list.len() == operand.rank(), "C2", || {
                format!("{name} has {} elements for {operand}", list.len())
            });
        }
        for interior in self.interior_padding.iter().filter(|interior| **interior < 0) {
            c.fail("C3", format!("the interior padding {interior} must not be negative"));
        }
        if c.problem_count() > before {
            return;
        }
        match padded_dims(&operand.dims, self.lists()) {
            Ok(dims) => result_dims(c, "C4", &dims),
            Err(d) => c.fail("C4", format!("dimension {d} of {operand} cannot be padded so")),
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        match padded_dims(&c.operand(0).dims, self.lists()) {
            Ok(dims) => Infer::Types(vec![c.operand(0).with_dims(dims).into()]),
            Err(_) => Infer::Declared,
        }
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        pad(cx, self.lists())
    }

    columns!(Move, Exact, Rule(derive_pad));
}

/// The constraints on types, the same for both kinds of padding.
fn check_types(c: &mut Check<'_>) {
    let (operand, value) = (c.operand(0), c.operand(1));
    per_tensor(c, "I1", operand);
    c.require(value.rank() == 0, "I2", || format!("the padding value {value} must be a scalar"));
    same_elem(c, "C1", operand, value);
    same_elem(c, "C1", operand, c.result(0));
}

/// Pads operand 0 with operand 1.
fn pad(cx: &Cx<'_, '_>, lists: [&[i64]; 3]) -> EvalResult {
    let (operand, value) = (cx.tensor(0)?, cx.tensor(1)?);
    let [low, _, interior] = lists;
    if let Some(interior) = interior.iter().find(|interior| **interior < 0) {
        return Err(cx.error(format!("the interior padding {interior} is negative")));
    }
    let dims = padded_dims(operand.dims(), lists)
        .map_err(|d| cx.error(format!("dimension {d} of {} cannot be padded so", operand.ty)))?;
    let ty = cx.result_of(0, &dims)?;
    Ok(vec![spread(operand, value, ty, low, interior).into()])
}

/// A tensor of `value`, and in it the operand's elements that the edges leave.
fn spread(operand: &Tensor, value: &Tensor, ty: TensorTy, low: &[i64], interior: &[i64]) -> Tensor {
    let mut result = value.gather_elements(ty.dims.iter().copied(), None, |_| Some(0));
    result.ty = ty;
    let (own, out) = (steps(operand.dims()), steps(result.dims()));
    let (mut first, mut target) = (Vec::new(), Vec::new());
    let (mut sizes, mut to) = (Vec::new(), Vec::new());
    for (d, dim) in operand.dims().iter().enumerate() {
        let gap = interior[d].saturating_add(1);
        // The first element at or behind the low edge, and the first one behind the high edge.
        let begin = if low[d] < 0 { low[d].unsigned_abs().div_ceil(gap as u64) as i64 } else { 0 };
        let room = result.dims()[d].saturating_sub(low[d]).max(0);
        let end = (room as u64).div_ceil(gap as u64).min(*dim as u64) as i64;
        first.push(begin);
        target.push(low[d].wrapping_add(begin.wrapping_mul(gap)));
        sizes.push((end - begin).max(0));
        to.push(out[d].wrapping_mul(gap as isize));
    }
    let walk = Walk::new(&sizes, &to, &own);
    walk.copy(&mut result, operand, &[(place(&target, &out), place(&first, &own))]);
    result
}

payload! {
    /// Padding whose amounts are known at run time only.
    DynamicPad {}
}

impl OpDef for DynamicPad {
    const NAME: &'static str = "stablehlo.dynamic_pad";
    const FORM: Form = Form::FUNCTIONAL;
    const ARITY: Arity = Arity::tensors(Count::Exactly(5), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, result) = (c.operand(0), c.result(0));
        check_types(c);
        for (i, label) in [(2, "I3"), (3, "I4"), (4, "I5")] {
            index_list(c, i, label, "C2", operand.rank());
        }
        c.require(operand.rank() == result.rank(), "C4", || {
            format!("{operand} and {result} differ in rank")
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let rank = cx.tensor(0)?.rank();
        let lists = [indices(cx.tensor(2)?), indices(cx.tensor(3)?), indices(cx.tensor(4)?)];
        if lists.iter().any(|list| list.len() != rank) {
            return Err(cx.error(format!("the amounts of padding must have {rank} elements")));
        }
        pad(cx, [&lists[0], &lists[1], &lists[2]])
    }

    columns!(Move, Exact, Missing("has a shape that is not known"));
}

/// The operand's elements out of the padded ones; what padded gets the rest.
fn derive_pad(op: &Pad, d: &mut Derive<'_>) -> Derived {
    let dims = d.e.dims(d.operand(0));
    let own = |e: &mut Emitter, g: V| {
        if dims.contains(&0) {
            return e.zeros(&dims, e.dtype(g));
        }
        let turned = |list: &[i64]| -> Vec<i64> { list.iter().map(|n| -n).collect() };
        let (low, high) = (turned(&op.edge_padding_low), turned(&op.edge_padding_high));
        let zero = Num::I(0).fit(e.dtype(g));
        let spread = e.pad(g, &low, &high, &vec![0; dims.len()], zero);
        let limits = e.dims(spread);
        let strides: Vec<i64> = op.interior_padding.iter().map(|n| n + 1).collect();
        e.slice(spread, &vec![0; dims.len()], &limits, &strides)
    };
    d.one(0, own)?;
    d.one(1, |e, g| {
        let axes: Vec<usize> = (0..dims.len()).collect();
        let inside = own(e, g);
        let (all, inside) = (e.reduce(g, Fold::Add, &axes), e.reduce(inside, Fold::Add, &axes));
        e.sub(all, inside)
    })
}
