//! Mathematical functions of CHLO: a row each, evaluated directly and not by decomposition.

use super::elementwise::{C, F, Fun, I, IntFun, Loop, Out, ROW, Row, arithmetic, elementwise};
use super::elementwise_grad::{self as g, Grad};
use super::{Arity, Check, Count, Fusion, Infer, OpDef, Scalar, Tolerance};
use crate::eval::{Cx, EvalResult, LaneFn, Num, Tensor};
use crate::ir::DType;
use crate::num::{complex, format, special};
use crate::text::Form;

const EXACT: Tolerance = Tolerance::Exact;
const MATH: Tolerance = Tolerance::Ulp(8);
const FC: super::elementwise::Kinds = F.or(C);

fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

elementwise! {
    Acos "chlo.acos" Form::ARROW, Acos, MATH, Grad::One(g::acos), [],
        Row { kinds: FC, float: Fun::One(f64::acos), complex: Fun::One(complex::acos), ..ROW };
    Acosh "chlo.acosh" Form::ARROW, Acosh, MATH, Grad::One(g::acosh), [],
        Row { kinds: FC, float: Fun::One(special::acosh), complex: Fun::One(complex::acosh), ..ROW };
    Asin "chlo.asin" Form::ARROW, Asin, MATH, Grad::One(g::asin), [],
        Row { kinds: FC, float: Fun::One(f64::asin), complex: Fun::One(complex::asin), ..ROW };
    Asinh "chlo.asinh" Form::ARROW, Asinh, MATH, Grad::One(g::asinh), [],
        Row { kinds: FC, float: Fun::One(f64::asinh), complex: Fun::One(complex::asinh), ..ROW };
    Atan "chlo.atan" Form::ARROW, Atan, MATH, Grad::One(g::atan), [],
        Row { kinds: FC, float: Fun::One(f64::atan), complex: Fun::One(complex::atan), ..ROW };
    Atanh "chlo.atanh" Form::ARROW, Atanh, MATH, Grad::One(g::atanh), [],
        Row { kinds: FC, float: Fun::One(f64::atanh), complex: Fun::One(complex::atanh), ..ROW };
    BesselI1e "chlo.bessel_i1e" Form::ARROW, BesselI1e, MATH, Grad::Missing("its derivative needs a function that StableHLO lacks"), [],
        Row { kinds: F, float: Fun::One(special::bessel_i1e), ..ROW };
    Conj "chlo.conj" Form::ARROW, Conj, EXACT, Grad::One(g::conj), [],
        Row { kinds: FC, float: Fun::One(|x| x), complex: Fun::One(|z| z.conj()), ..ROW };
    Cosh "chlo.cosh" Form::ARROW, Cosh, MATH, Grad::One(g::cosh), [],
        Row { kinds: FC, float: Fun::One(f64::cosh), complex: Fun::One(complex::cosh), ..ROW };
    Digamma "chlo.digamma" Form::ARROW, Digamma, MATH, Grad::One(g::digamma), [],
        Row { kinds: F, float: Fun::One(special::digamma), ..ROW };
    Erf "chlo.erf" Form::ARROW, Erf, MATH, Grad::One(g::erf), [],
        Row { kinds: F, float: Fun::One(special::erf), ..ROW };
    ErfInv "chlo.erf_inv" Form::ARROW, ErfInv, MATH, Grad::One(g::erf_inv), [],
        Row { kinds: F, float: Fun::One(special::erf_inv), ..ROW };
    Erfc "chlo.erfc" Form::ARROW, Erfc, MATH, Grad::One(g::erfc), [],
        Row { kinds: F, float: Fun::One(special::erfc), ..ROW };
    IsInf "chlo.is_inf" Form::ARROW, IsInf, EXACT, Grad::Zero, [],
        Row { kinds: F, out: Out::Bool, float: Fun::One(|x| flag(x.is_infinite())), ..ROW };
    IsNegInf "chlo.is_neg_inf" Form::ARROW, IsNegInf, EXACT, Grad::Zero, [],
        Row { kinds: F, out: Out::Bool, float: Fun::One(|x| flag(x == f64::NEG_INFINITY)), ..ROW };
    IsPosInf "chlo.is_pos_inf" Form::ARROW, IsPosInf, EXACT, Grad::Zero, [],
        Row { kinds: F, out: Out::Bool, float: Fun::One(|x| flag(x == f64::INFINITY)), ..ROW };
    Lgamma "chlo.lgamma" Form::ARROW, Lgamma, MATH, Grad::One(g::lgamma), [],
        Row { kinds: F, float: Fun::One(special::lgamma), ..ROW };
    /// The upper half of the product of two integers.
    Mulhi "chlo.mulhi" Form::ARROW, Mul, EXACT, Grad::Zero, [],
        Row { arity: 2, kinds: I, int: IntFun::Two(mulhi), ..ROW };
    Polygamma "chlo.polygamma" Form::ARROW, Polygamma, MATH, Grad::Second(g::polygamma_x), [],
        Row { arity: 2, kinds: F, float: Fun::Two(special::polygamma), ..ROW };
    Sinh "chlo.sinh" Form::ARROW, Sinh, MATH, Grad::One(g::sinh), [],
        Row { kinds: FC, float: Fun::One(f64::sinh), complex: Fun::One(complex::sinh), ..ROW };
    Square "chlo.square" Form::ARROW, Square, EXACT, Grad::One(g::square), [],
        Row { kinds: I.or(FC), int: IntFun::One(|_, x| x.wrapping_mul(x)), complex: Fun::One(complex::square),
              ..arithmetic!(|x| x * x) };
    ChloTan "chlo.tan" Form::ARROW, Tan, MATH, Grad::One(g::tan), [],
        Row { kinds: FC, float: Fun::One(f64::tan), complex: Fun::One(complex::tan), ..ROW };
    Zeta "chlo.zeta" Form::ARROW, Zeta, MATH, Grad::Second(g::zeta_q), [],
        Row { arity: 2, kinds: F, float: Fun::Two(special::zeta), ..ROW };
}

fn mulhi(dtype: DType, x: i64, y: i64) -> i64 {
    let product = if dtype.is_unsigned() {
        (x as u64 as u128 * y as u64 as u128) >> dtype.bits()
    } else {
        ((i128::from(x) * i128::from(y)) >> dtype.bits()) as u128
    };
    product as i64
}

/// The neighbour of `x` on the way to `y`, in steps of the element type.
pub(crate) fn next_after(dtype: DType, x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x == y {
        return y;
    }
    let up = y > x;
    match dtype {
        DType::F64 if up => x.next_up(),
        DType::F64 => x.next_down(),
        DType::F32 if up => f64::from((x as f32).next_up()),
        DType::F32 => f64::from((x as f32).next_down()),
        narrow => next_code(narrow, x, up),
    }
}

/// Codes of a sign count magnitudes up; from zero the way leads to the smallest of either sign.
fn next_code(dtype: DType, x: f64, up: bool) -> f64 {
    let size = format::encode(dtype, x.abs());
    let (grows, negative) = if x == 0.0 { (true, !up) } else { (up == (x > 0.0), x < 0.0) };
    let next = format::decode(dtype, if grows { size + 1 } else { size.saturating_sub(1) });
    if negative { -next } else { next }
}

payload! {
    /// The next representable number in a direction.
    NextAfter {}
}

impl NextAfter {
    pub(crate) const ROW: Row = Row { arity: 2, kinds: F, ..ROW };
}

impl OpDef for NextAfter {
    const NAME: &'static str = "chlo.next_after";
    const FORM: Form = Form::ARROW;
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        Self::ROW.check(c);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Self::ROW.infer(c)
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (x, y) = (cx.tensor(0)?, cx.tensor(1)?);
        if x.dims() != y.dims() {
            return Err(cx.error(format!("operands are {} and {}", x.ty, y.ty)));
        }
        let ty = cx.result_of(0, x.dims())?;
        let (dtype, x, y) = (x.storage(), x.floats(), y.floats());
        Ok(vec![Tensor::from_floats(ty, |i| next_after(dtype, x[i], y[i])).into()])
    }

    fn lane(&self, ins: &[DType], _: DType) -> Option<LaneFn> {
        let dtype = ins[0];
        let next = move |args: &[Num]| next_after(dtype, args[0].float(), args[1].float());
        Some(Box::new(move |args| Num::F(next(args))))
    }

    fn fusion(&self) -> Fusion {
        Fusion::Elementwise(Scalar::NextAfter)
    }

    fn tolerance(&self) -> Tolerance {
        EXACT
    }

    derivative!(Missing("is no smooth function"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_after_steps_through_each_format() {
        assert_eq!(next_after(DType::BF16, 1.0, 2.0), 1.0 + 2f64.powi(-7));
        assert_eq!(next_after(DType::F16, 0.0, -1.0), -(2f64.powi(-24)));
        assert_eq!(next_after(DType::F16, 1.0, 0.0), 1.0 - 2f64.powi(-11));
        assert_eq!(next_after(DType::F32, -1.0, 0.0), -1.0 + 2f64.powi(-24));
        assert_eq!(next_after(DType::F64, 1.0, 1.0), 1.0);
        assert!(next_after(DType::F16, f64::NAN, 1.0).is_nan());
    }

    #[test]
    fn mulhi_is_the_upper_half() {
        assert_eq!(mulhi(DType::S8, -128, -128), 64);
        assert_eq!(mulhi(DType::U8, 255, 255), 254);
        assert_eq!(mulhi(DType::S64, i64::MIN, 2), -1);
        assert_eq!(mulhi(DType::U64, -1, -1), -2);
    }
}
