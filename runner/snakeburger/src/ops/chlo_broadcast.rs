//! Binary operations of CHLO that broadcast their operands to a common shape.

use super::chlo_math::{NextAfter, Polygamma, Zeta, next_after};
use super::compare::{Compare, CompareType, Direction};
use super::elementwise::{
    Add, And, Atan2, B, Divide, F, Kinds, Maximum, Minimum, Multiply, Or, Power, ROW, Remainder,
    Row, ShiftLeft, ShiftRightArithmetic, ShiftRightLogical, Subtract, Xor,
};
use super::shape::broadcast;
use super::{Arity, Check, Count, Infer, OpDef, Payload};
use crate::eval::{Cx, EvalResult, Num, Tensor};
use crate::ir::{DType, DYNAMIC, Elem, Ints, TensorTy, dims_compatible};
use crate::text::Form;

/// A common shape, and which of its dimensions each operand's become.
struct Common {
    dims: Vec<i64>,
    places: Vec<Vec<i64>>,
}

/// The common shape of operands; an explicit list says where the lower-ranked one's dimensions go.
fn common(shapes: &[&[i64]], explicit: Option<&[i64]>) -> Result<Common, String> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut result = Common { dims: vec![1; rank], places: Vec::new() };
    for shape in shapes {
        let places: Vec<i64> = match explicit {
            Some(dims) if shape.len() < rank => dims.to_vec(),
            _ => (rank - shape.len()..rank).map(|d| d as i64).collect(),
        };
        let sorted = places.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = places.iter().all(|place| (0..rank as i64).contains(place));
        if places.len() != shape.len() || !sorted || !inside {
            return Err(format!("broadcast_dimensions {places:?} for a rank of {}", shape.len()));
        }
        for (size, place) in shape.iter().zip(&places) {
            let common = &mut result.dims[*place as usize];
            *common = match (*common, *size) {
                (a, b) if a == b => a,
                (1, other) | (other, 1) => other,
                (DYNAMIC, known) | (known, DYNAMIC) => known,
                (a, b) => return Err(format!("sizes {a} and {b} of dimension {place}")),
            };
        }
        result.places.push(places);
    }
    Ok(result)
}

fn check_common(c: &mut Check<'_>, explicit: Option<&[i64]>) {
    let shapes: Vec<&[i64]> = c.operands(0).into_iter().map(|ty| &ty.dims[..]).collect();
    let result = c.result(0);
    match common(&shapes, explicit) {
        Err(problem) => c.fail("", format!("the operands do not broadcast: {problem}")),
        Ok(common) => c.require(dims_compatible(&common.dims, &result.dims), "", || {
            format!("the result is {result}, the operands broadcast to {:?}", common.dims)
        }),
    }
}

/// The operands at their common shape.
fn spread(cx: &Cx<'_, '_>, explicit: Option<&[i64]>) -> EvalResult<(Vec<Tensor>, TensorTy)> {
    let tensors = cx.tensors(0)?;
    let shapes: Vec<&[i64]> = tensors.iter().map(|tensor| tensor.dims()).collect();
    let common = common(&shapes, explicit).map_err(|problem| cx.error(problem))?;
    let ty = cx.result_of(0, &common.dims)?;
    let spread = tensors.iter().zip(&common.places).map(|(tensor, places)| {
        let ty = tensor.ty.with_dims(common.dims.iter().copied());
        broadcast(tensor, places, &ty)
    });
    Ok((spread.collect(), ty))
}

/// What kinds of elements an operation takes, and what it does with operands of one shape.
trait Binary: Payload {
    const KINDS: Kinds;
    fn result(elem: &Elem) -> Option<Elem>;
    fn apply(&self, tensors: &[Tensor], ty: TensorTy) -> Tensor;
}

fn check_kinds(c: &mut Check<'_>, kinds: Kinds) {
    let (lhs, rhs) = (c.operand(0), c.operand(1));
    for (i, ty) in [lhs, rhs].into_iter().enumerate() {
        c.require(kinds.allows(&ty.elem), &format!("I{}", i + 1), || {
            format!("operand {i} is {ty}, it must be a {kinds} tensor")
        });
    }
    c.require(lhs.elem.expressed() == rhs.elem.expressed(), "", || {
        format!("operands are {lhs} and {rhs}")
    });
}

macro_rules! broadcasts {
    ($($name:ident $text:literal { $($body:tt)* })*) => {$(
        payload! { $name { broadcast_dimensions: Option<Ints> = None, $($body)* } }

        impl OpDef for $name {
            const NAME: &'static str = $text;
            const FORM: Form = Form::FUNCTIONAL;
            const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

            fn check(&self, c: &mut Check<'_>) {
                check_kinds(c, <Self as Binary>::KINDS);
                check_common(c, self.broadcast_dimensions.as_deref());
                let (lhs, result) = (c.operand(0), c.result(0));
                let wanted = <Self as Binary>::result(&lhs.elem);
                let fits = lhs.elem.quant().is_some() || wanted == Some(result.elem.clone());
                c.require(fits, "", || format!("the result is {result}, operand 0 is {lhs}"));
            }

            fn infer(&self, _: &Check<'_>) -> Infer {
                Infer::Declared
            }

            fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
                let (tensors, ty) = spread(cx, self.broadcast_dimensions.as_deref())?;
                Ok(vec![self.apply(&tensors, ty).into()])
            }

            columns!(Opaque, Exact, Missing("has no rule; broadcast the operands first"));
        }
    )*};
}

/// Operations that are a row of an elementwise one.
macro_rules! rows {
    ($($name:ident $text:literal $row:ident;)*) => {
        broadcasts! { $($name $text {})* }

        $(impl Binary for $name {
            const KINDS: Kinds = $row::ROW.kinds;

            fn result(elem: &Elem) -> Option<Elem> {
                Some(elem.clone())
            }

            fn apply(&self, tensors: &[Tensor], ty: TensorTy) -> Tensor {
                const OP: Row = $row::ROW;
                OP.tensor(&tensors.iter().collect::<Vec<_>>(), ty)
            }
        })*
    };
}

rows! {
    BroadcastAdd "chlo.broadcast_add" Add;
    BroadcastAnd "chlo.broadcast_and" And;
    BroadcastAtan2 "chlo.broadcast_atan2" Atan2;
    BroadcastDivide "chlo.broadcast_divide" Divide;
    BroadcastMaximum "chlo.broadcast_maximum" Maximum;
    BroadcastMinimum "chlo.broadcast_minimum" Minimum;
    BroadcastMultiply "chlo.broadcast_multiply" Multiply;
    BroadcastOr "chlo.broadcast_or" Or;
    BroadcastPolygamma "chlo.broadcast_polygamma" Polygamma;
    BroadcastPower "chlo.broadcast_power" Power;
    BroadcastRemainder "chlo.broadcast_remainder" Remainder;
    BroadcastShiftLeft "chlo.broadcast_shift_left" ShiftLeft;
    BroadcastShiftRightArithmetic "chlo.broadcast_shift_right_arithmetic" ShiftRightArithmetic;
    BroadcastShiftRightLogical "chlo.broadcast_shift_right_logical" ShiftRightLogical;
    BroadcastSubtract "chlo.broadcast_subtract" Subtract;
    BroadcastXor "chlo.broadcast_xor" Xor;
    BroadcastZeta "chlo.broadcast_zeta" Zeta;
}

broadcasts! {
    BroadcastCompare "chlo.broadcast_compare" {
        comparison_direction: Direction, compare_type: Option<CompareType> = None
    }
    BroadcastComplex "chlo.broadcast_complex" {}
    BroadcastNextAfter "chlo.broadcast_next_after" {}
}

impl Binary for BroadcastCompare {
    const KINDS: Kinds = ROW.kinds;

    fn result(_: &Elem) -> Option<Elem> {
        Some(DType::I1.into())
    }

    fn apply(&self, tensors: &[Tensor], ty: TensorTy) -> Tensor {
        let (comparison_direction, compare_type) = (self.comparison_direction, self.compare_type);
        Compare { comparison_direction, compare_type }.tensor(&tensors[0], &tensors[1], ty)
    }
}

impl Binary for BroadcastComplex {
    const KINDS: Kinds = F;

    fn result(elem: &Elem) -> Option<Elem> {
        elem.plain().and_then(DType::complex_of).map(Elem::from)
    }

    fn apply(&self, tensors: &[Tensor], ty: TensorTy) -> Tensor {
        let (re, im) = (tensors[0].floats(), tensors[1].floats());
        Tensor::from_nums(ty, |i| Num::C(num_complex::Complex64::new(re[i], im[i])))
    }
}

impl Binary for BroadcastNextAfter {
    const KINDS: Kinds = NextAfter::ROW.kinds;

    fn result(elem: &Elem) -> Option<Elem> {
        Some(elem.clone())
    }

    fn apply(&self, tensors: &[Tensor], ty: TensorTy) -> Tensor {
        let dtype = tensors[0].storage();
        let (x, y) = (tensors[0].floats(), tensors[1].floats());
        Tensor::from_floats(ty, |i| next_after(dtype, x[i], y[i]))
    }
}

payload! {
    /// Takes each element from one of two tensors, all three broadcast.
    BroadcastSelect {}
}

impl OpDef for BroadcastSelect {
    const NAME: &'static str = "chlo.broadcast_select";
    const FORM: Form = Form::FUNCTIONAL;
    const ARITY: Arity = Arity::tensors(Count::Exactly(3), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (pred, on_true, on_false, result) =
            (c.operand(0), c.operand(1), c.operand(2), c.result(0));
        c.require(B.allows(&pred.elem), "I1", || format!("the predicate is {pred}"));
        c.require(on_true.elem == on_false.elem && on_true.elem == result.elem, "", || {
            format!("operands are {on_true} and {on_false}, the result {result}")
        });
        check_common(c, None);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (tensors, ty) = spread(cx, None)?;
        let pick = |i: usize| tensors[if tensors[0].get(i).bool() { 1 } else { 2 }].get(i);
        Ok(vec![Tensor::from_nums(ty, pick).into()])
    }

    columns!(Opaque, Exact, Missing("has no rule; use select"));
}
