//! The same elements in another shape or order.

use super::{Arity, Check, Count, Infer, OpDef};
use crate::build::Fold;
use crate::derive::{Derive, Derived};
use crate::eval::strided::Move;
use crate::eval::{Cx, EvalResult, Tensor, strides};
use crate::ir::{Elem, Ints, TensorTy, Ty, dim_compatible};
use crate::text::{Form, Types, Word};

/// Whether two element types agree but for the place of the quantized dimension.
pub(crate) fn elem_moves_to(from: &Elem, to: &Elem) -> bool {
    match (from, to) {
        (Elem::Quant(from), Elem::Quant(to)) if from.axis.is_some() => {
            let mut moved = (**from).clone();
            moved.axis = to.axis;
            moved == **to
        }
        _ => from == to,
    }
}

payload! {
    /// The same elements in row-major order under another shape.
    Reshape {}
}

impl OpDef for Reshape {
    const NAME: &'static str = "stablehlo.reshape";
    const FORM: Form = Form::FUNCTIONAL;
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        check_reshape(c);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let ty = cx.result_ty(0)?;
        let operand = cx.tensor(0)?;
        // A size the types leave open may turn out not to fit.
        if ty.count() != Some(operand.count()) {
            return Err(cx.error(format!("{} does not become {ty}", operand.ty)));
        }
        let mut result = operand.clone().with_dims(ty.dims.iter().copied());
        result.ty.elem = ty.elem.clone();
        Ok(vec![result.into()])
    }

    columns!(Move, Exact, Rule(|_, d| derive_reshape(d)));
}

/// The constraints `reshape` and its dynamic sibling share, C1 to C3 of both.
pub(crate) fn check_reshape(c: &mut Check<'_>) {
    let (operand, result) = (c.operand(0), c.result(0));
    c.require(elem_moves_to(&operand.elem, &result.elem), "C1", || {
        format!("{operand} becomes {result}")
    });
    let sizes = (operand.count(), result.count());
    let same = match sizes {
        (Some(a), Some(b)) => a == b,
        _ => !(operand.is_static() && result.is_static()),
    };
    c.require(same, "C2", || format!("{operand} and {result} differ in size"));
    c.require(quant_blocks_agree(operand, result), "C3", || {
        format!("the quantized dimensions of {operand} and {result} do not match")
    });
}

/// A reshape of a per-axis quantized tensor keeps what stands before and behind the axis.
fn quant_blocks_agree(operand: &TensorTy, result: &TensorTy) -> bool {
    let axes = (
        operand.elem.quant().and_then(|quant| quant.axis),
        result.elem.quant().and_then(|quant| quant.axis),
    );
    let (Some(from), Some(to)) = axes else { return true };
    let size = |dims: &[i64]| dims.iter().try_fold(1i64, |size, dim| size.checked_mul(*dim));
    let blocks = |ty: &TensorTy, axis: i64| {
        let (before, rest) = ty.dims.split_at_checked(axis as usize)?;
        let (dim, behind) = rest.split_first()?;
        Some((size(before)?, *dim, size(behind)?))
    };
    !(operand.is_static() && result.is_static()) || blocks(operand, from) == blocks(result, to)
}

payload! {
    /// Repeats elements along new or widened dimensions.
    BroadcastInDim { broadcast_dimensions: Ints }
}

impl OpDef for BroadcastInDim {
    const NAME: &'static str = "stablehlo.broadcast_in_dim";
    const FORM: Form = Form::Plain {
        words: &[Word { text: "dims", attr: "broadcast_dimensions" }],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        check_broadcast(c, &self.broadcast_dimensions, ["C1", "C2", "C3", "C4", "C5", "C6"]);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let ty = cx.result_ty(0)?;
        cx.allow(ty)?;
        Ok(vec![broadcast(cx.tensor(0)?, &self.broadcast_dimensions, ty).into()])
    }

    columns!(Move, Exact, Rule(derive_broadcast));
}

/// The constraints `broadcast_in_dim` and its dynamic sibling share, under their own numbers.
pub(crate) fn check_broadcast(c: &mut Check<'_>, dims: &[i64], numbers: [&str; 6]) {
    let (operand, result) = (c.operand(0), c.result(0));
    let elem = match (&operand.elem, &result.elem) {
        (Elem::Quant(from), Elem::Quant(to)) if from.axis.is_some() => {
            (from.storage, from.expressed) == (to.storage, to.expressed) && to.axis.is_some()
        }
        (from, to) => from == to,
    };
    c.require(elem, numbers[0], || format!("{operand} becomes {result}"));
    c.require(dims.len() == operand.rank(), numbers[1], || {
        format!("{} broadcast_dimensions for {operand}", dims.len())
    });
    c.dimensions("broadcast_dimensions", dims, result.rank(), numbers[2], numbers[3]);
    for (d, (size, place)) in operand.dims.iter().zip(dims).enumerate() {
        let Some(wanted) = usize::try_from(*place).ok().and_then(|p| result.dims.get(p)) else {
            continue;
        };
        c.require(*size == 1 || dim_compatible(*size, *wanted), numbers[4], || {
            format!("dimension {d} of {operand} is {size}, dimension {place} of {result} {wanted}")
        });
    }
    if let (Some(from), Some(to)) = (operand.elem.quant(), result.elem.quant())
        && let (Some(axis), Some(moved)) = (from.axis, to.axis)
    {
        let place = dims.get(axis as usize).copied();
        c.require(place == Some(moved), numbers[5], || {
            format!("the quantized dimension {axis} of {operand} becomes {moved} in {result}")
        });
        if operand.dims.get(axis as usize) == Some(&1) {
            let same = to.scales.iter().all(|s| *s == from.scales[0])
                && to.zero_points.iter().all(|z| *z == from.zero_points[0]);
            c.require(same, numbers[5], || format!("{result} must repeat the scale of {operand}"));
        }
    }
}

/// Repeats an operand's elements to fill a static type.
pub(crate) fn broadcast(operand: &Tensor, dims: &[i64], ty: &TensorTy) -> Tensor {
    let mut moves: Vec<Move> = ty.dims.iter().map(|size| (*size as usize, 0)).collect();
    for ((size, step), place) in operand.dims().iter().zip(strides(operand.dims())).zip(dims) {
        if *size != 1 {
            moves[*place as usize].1 = step;
        }
    }
    operand.strided(ty.clone(), &moves)
}

payload! {
    /// Reorders dimensions.
    Transpose { permutation: Ints }
}

impl OpDef for Transpose {
    const NAME: &'static str = "stablehlo.transpose";
    const FORM: Form = Form::Plain {
        words: &[Word { text: "dims", attr: "permutation" }],
        types: Types::Functional,
    };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, result) = (c.operand(0), c.result(0));
        c.require(elem_moves_to(&operand.elem, &result.elem), "C1", || {
            format!("{operand} becomes {result}")
        });
        c.require(self.permutation.len() == operand.rank(), "C2", || {
            format!("permutation {:?} for {operand}", self.permutation)
        });
        c.dimensions("permutation", &self.permutation, operand.rank(), "C2", "C2");
        if let (Some(from), Some(to)) = (operand.elem.quant(), result.elem.quant())
            && let Some(moved) = to.axis
        {
            let place = self.permutation.get(moved as usize).copied();
            c.require(place == from.axis, "C4", || {
                format!("the quantized dimension of {operand} does not become that of {result}")
            });
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let operand = c.operand(0);
        let dims = self.permutation.iter().map(|d| operand.dims[*d as usize]);
        let ty = TensorTy::new(dims, c.result(0).elem.clone());
        Infer::By("C3", vec![Ty::Tensor(ty)])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let dims: Vec<i64> = self.permutation.iter().map(|d| operand.dims()[*d as usize]).collect();
        let ty = cx.result_of(0, &dims)?;
        let mut result = transpose(operand, &self.permutation);
        result.ty = ty;
        Ok(vec![result.into()])
    }

    columns!(Move, Exact, Rule(derive_transpose));
}

/// Reorders dimensions: dimension `d` of the result is dimension `permutation[d]`.
pub(crate) fn transpose(operand: &Tensor, permutation: &[i64]) -> Tensor {
    let from = strides(operand.dims());
    let dim = |d: &i64| operand.dims()[*d as usize];
    let moves: Vec<Move> =
        permutation.iter().map(|d| (dim(d) as usize, from[*d as usize])).collect();
    operand.strided(operand.ty.with_dims(permutation.iter().map(dim)), &moves)
}

/// Back to the operand's shape.
pub(crate) fn derive_reshape(d: &mut Derive<'_>) -> Derived {
    let dims = d.e.dims(d.operand(0));
    d.one(0, |e, g| e.reshape(g, &dims))
}

/// The sum over everything an element was repeated to.
fn derive_broadcast(op: &BroadcastInDim, d: &mut Derive<'_>) -> Derived {
    let (dims, wide) = (d.e.dims(d.operand(0)), d.e.dims(d.result(0)));
    let places: Vec<usize> = op.broadcast_dimensions.iter().map(|place| *place as usize).collect();
    d.one(0, |e, g| {
        let stays = |axis: usize| {
            places.iter().position(|place| *place == axis).filter(|i| dims[*i] == wide[axis])
        };
        let summed: Vec<usize> = (0..wide.len()).filter(|axis| stays(*axis).is_none()).collect();
        let sum = e.reduce(g, Fold::Add, &summed);
        // What stays stands in the order of the result; the operand's may be another.
        let kept: Vec<usize> = (0..wide.len()).filter_map(stays).collect();
        let mut order: Vec<usize> = (0..kept.len()).collect();
        order.sort_by_key(|i| kept[*i]);
        let sum = e.transpose(sum, &order);
        e.reshape(sum, &dims)
    })
}

fn derive_transpose(op: &Transpose, d: &mut Derive<'_>) -> Derived {
    let mut inverse = vec![0; op.permutation.len()];
    for (i, axis) in op.permutation.iter().enumerate() {
        inverse[*axis as usize] = i;
    }
    d.one(0, |e, g| e.transpose(g, &inverse))
}
