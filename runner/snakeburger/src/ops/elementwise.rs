//! Elementwise operations of StableHLO: a row each.
//!
//! A row says which element types an operation takes, what it does in each of the four domains
//! the interpreter computes in, its scalar function for backends, its tolerance, and its derivative. A domain
//! that is left out is not allowed by the specification.

use num_complex::Complex64;
use rayon::prelude::*;

use super::elementwise_grad::{self as g, Grad};
use super::{Arity, Check, Count, Fusion, Infer, OpDef, Scalar, Tolerance};
use crate::eval::{Cx, EvalResult, LaneFn, Num, Tensor, by_storage};
use crate::ir::{DType, Elem, Kind, TensorTy};
use crate::num::complex;
use crate::text::Form;

/// Sets of element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

pub(crate) const B: Kinds = Kinds(1);
pub(crate) const S: Kinds = Kinds(2);
pub(crate) const U: Kinds = Kinds(4);
pub(crate) const F: Kinds = Kinds(8);
pub(crate) const C: Kinds = Kinds(16);
pub(crate) const Q: Kinds = Kinds(32);
/// Signed and unsigned integers.
pub(crate) const I: Kinds = Kinds(6);
/// What most mathematical functions take.
pub(crate) const FCQ: Kinds = Kinds(56);
pub(crate) const FQ: Kinds = Kinds(40);
pub(crate) const IFCQ: Kinds = Kinds(62);
pub(crate) const ANY: Kinds = Kinds(63);
pub(crate) const BI: Kinds = Kinds(7);

impl Kinds {
    pub(crate) const fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    pub fn allows(self, elem: &Elem) -> bool {
        let kind = match elem {
            Elem::Quant(_) => Q,
            Elem::Plain(dtype) => match dtype.kind() {
                Kind::Bool => B,
                Kind::Signed => S,
                Kind::Unsigned => U,
                Kind::Float => F,
                Kind::Complex => C,
            },
        };
        self.0 & kind.0 != 0
    }
}

impl std::fmt::Display for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const WORDS: [(Kinds, &str); 6] = [
            (B, "boolean"),
            (S, "signed integer"),
            (U, "unsigned integer"),
            (F, "float"),
            (C, "complex"),
            (Q, "quantized"),
        ];
        let words: Vec<&str> =
            WORDS.iter().filter(|(kind, _)| self.0 & kind.0 != 0).map(|(_, word)| *word).collect();
        f.write_str(&words.join(" or "))
    }
}

/// A function of one or two numbers of one domain.
#[derive(Clone, Copy)]
pub(crate) enum Fun<T> {
    No,
    One(fn(T) -> T),
    Two(fn(T, T) -> T),
}

impl<T: Copy> Fun<T> {
    fn apply(self, x: impl Fn(usize) -> T) -> T {
        match self {
            Fun::No => x(0),
            Fun::One(f) => f(x(0)),
            Fun::Two(f) => f(x(0), x(1)),
        }
    }
}

/// The function of floats as a loop over f32, the first operand's elements becoming the result's:
/// for arithmetic that costs less than the call of a function would.
#[derive(Clone, Copy)]
pub(crate) enum Loop {
    No,
    One(fn(&mut [f32])),
    Two(fn(&mut [f32], &[f32])),
}

/// A row whose float function is also compiled as a [`Loop`]. The arithmetic is that of f64,
/// rounded once; the compiler takes f32 where that gives the same.
macro_rules! arithmetic {
    (|$x:ident| $value:expr) => {
        Row {
            float: Fun::One(|$x| $value),
            in_place: Loop::One(|values| {
                for value in values {
                    let $x = f64::from(*value);
                    *value = ($value) as f32;
                }
            }),
            ..ROW
        }
    };
    (|$x:ident, $y:ident| $value:expr) => {
        Row {
            arity: 2,
            float: Fun::Two(|$x, $y| $value),
            in_place: Loop::Two(|values, others| {
                for (value, other) in values.iter_mut().zip(others) {
                    let ($x, $y) = (f64::from(*value), f64::from(*other));
                    *value = ($value) as f32;
                }
            }),
            ..ROW
        }
    };
}
pub(crate) use arithmetic;

/// A function of integers, which must know their type.
#[derive(Clone, Copy)]
pub(crate) enum IntFun {
    No,
    One(fn(DType, i64) -> i64),
    Two(fn(DType, i64, i64) -> i64),
}

/// The element type of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Out {
    /// The operands' own.
    Same,
    /// The type of a complex number's parts.
    Part,
    /// `i1`.
    Bool,
}

/// Elements that one task of a parallel loop takes.
pub(crate) const TASK: usize = 1 << 14;

/// Everything a row says.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub arity: usize,
    pub kinds: Kinds,
    pub out: Out,
    pub float: Fun<f64>,
    pub in_place: Loop,
    pub int: IntFun,
    pub complex: Fun<Complex64>,
    pub bool: Fun<bool>,
}

/// A row with no domain filled in, for struct update.
pub(crate) const ROW: Row = Row {
    arity: 1,
    kinds: ANY,
    out: Out::Same,
    float: Fun::No,
    in_place: Loop::No,
    int: IntFun::No,
    complex: Fun::No,
    bool: Fun::No,
};

impl Row {
    pub(crate) fn check(&self, c: &mut Check<'_>) {
        for i in 0..c.operand_types().len() {
            let ty = c.operand(i);
            c.require(self.kinds.allows(&ty.elem), &format!("I{}", i + 1), || {
                format!("operand {i} is {ty}, it must be a {} tensor", self.kinds)
            });
        }
        let (first, result) = (c.operand(0), c.result(0));
        for (i, ty) in c.operands(0).into_iter().enumerate().skip(1) {
            let same = crate::ir::dims_compatible(&first.dims, &ty.dims)
                && ty.elem.expressed() == first.elem.expressed();
            c.require(same, "C1", || format!("operand {i} is {ty}, operand 0 is {first}"));
        }
        let types = |elem: &Elem| elem.quant().map(|quant| (quant.storage, quant.expressed));
        let quantized = c.operands(0).iter().any(|ty| ty.elem.quant().is_some());
        if self.out != Out::Bool && (quantized || result.elem.quant().is_some()) {
            let same = c.operands(0).iter().all(|ty| types(&ty.elem) == types(&result.elem));
            c.require(same, "C1", || format!("the result is {result}, operand 0 is {first}"));
        }
    }

    pub(crate) fn infer(&self, c: &Check<'_>) -> Infer {
        let first = c.operand(0);
        let elem: Elem = match self.out {
            Out::Bool => DType::I1.into(),
            Out::Part => match first.dtype() {
                Some(dtype) => dtype.part().into(),
                None => c.result(0).elem.clone(),
            },
            Out::Same if first.elem.quant().is_some() => c.result(0).elem.clone(),
            Out::Same => first.elem.clone(),
        };
        Infer::By("C1", vec![first.with_elem(elem).into()])
    }

    /// The row on single elements.
    pub(crate) fn num(&self, args: &[Num], dtype: DType) -> Num {
        match args[0] {
            Num::F(_) => Num::F(self.float.apply(|i| args[i].float())),
            Num::C(_) => Num::C(self.complex.apply(|i| args[i].complex())),
            Num::B(_) => Num::B(self.bool.apply(|i| args[i].bool())),
            Num::I(x) => Num::I(match self.int {
                IntFun::No => x,
                IntFun::One(f) => f(dtype, x),
                IntFun::Two(f) => f(dtype, x, args[1].int()),
            }),
        }
    }

    pub(crate) fn lane(&self, ins: &[DType], out: DType) -> LaneFn {
        let (row, dtype) = (*self, ins[0]);
        Box::new(move |args| row.num(args, dtype).fit(out))
    }

    pub(crate) fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let tensors = cx.tensors(0)?;
        let first = tensors[0];
        for other in &tensors[1..] {
            if other.dims() != first.dims() {
                return Err(cx.error(format!("operands are {} and {}", first.ty, other.ty)));
            }
        }
        let ty = cx.result_of(0, first.dims())?;
        let narrow = |ty: &TensorTy| ty.elem.plain() == Some(DType::F32);
        if !matches!(self.in_place, Loop::No)
            && narrow(&ty)
            && tensors.iter().all(|tensor| narrow(&tensor.ty))
        {
            return Ok(vec![self.in_place(cx)?.with_ty(ty).into()]);
        }
        Ok(vec![self.tensor(&tensors, ty).into()])
    }

    /// The row's loop over f32, in the first operand's memory if nobody else needs it.
    fn in_place(&self, cx: &mut Cx<'_, '_>) -> EvalResult<Tensor> {
        let mut first = cx.take_tensor(0)?;
        let values: &mut [f32] = first.data.as_mut_slice();
        match self.in_place {
            Loop::No => {}
            Loop::One(run) => values.par_chunks_mut(TASK).for_each(run),
            Loop::Two(run) => {
                let others: &[f32] = cx.tensor(1)?.data.as_slice();
                let pairs = values.par_chunks_mut(TASK).zip(others.par_chunks(TASK));
                pairs.for_each(|(values, others)| run(values, others));
            }
        }
        Ok(first)
    }

    /// The row on tensors of one shape.
    #[allow(clippy::unnecessary_cast, reason = "one of the storage types is i64 itself")]
    pub(crate) fn tensor(&self, tensors: &[&Tensor], ty: TensorTy) -> Tensor {
        let dtype = tensors[0].storage();
        if tensors.iter().any(|t| t.ty.elem.quant().is_some()) {
            let real: Vec<_> = tensors.iter().map(|t| t.real_values()).collect();
            return self.real(ty, &real);
        }
        match dtype.kind() {
            // Nothing but f32 is what models are made of: no copies of whole tensors as f64.
            Kind::Float
                if self.out != Out::Bool
                    && tensors.iter().all(|t| t.storage() == DType::F32)
                    && ty.elem.plain() == Some(DType::F32) =>
            {
                let narrow: Vec<&[f32]> = tensors.iter().map(|t| t.data.as_slice()).collect();
                let at = |k: usize, i: usize| f64::from(narrow[k][i]);
                match self.float {
                    Fun::No => tensors[0].clone(),
                    Fun::One(f) => Tensor::from_floats(ty, |i| f(at(0, i))),
                    Fun::Two(f) => Tensor::from_floats(ty, |i| f(at(0, i), at(1, i))),
                }
            }
            Kind::Float => {
                let real: Vec<_> = tensors.iter().map(|t| t.floats()).collect();
                self.real(ty, &real)
            }
            Kind::Signed | Kind::Unsigned if ty.elem.storage().is_int() => {
                by_storage!(dtype, T => {
                    let ints: Vec<&[T]> = tensors.iter().map(|t| t.data.as_slice()).collect();
                    let at = |k: usize, i: usize| ints[k][i] as i64;
                    match self.int {
                        IntFun::No => tensors[0].clone(),
                        IntFun::One(f) => Tensor::from_ints(ty, |i| f(dtype, at(0, i))),
                        IntFun::Two(f) => Tensor::from_ints(ty, |i| f(dtype, at(0, i), at(1, i))),
                    }
                })
            }
            _ => Tensor::from_nums(ty, |i| {
                let args: smallvec::SmallVec<[Num; 2]> = tensors.iter().map(|t| t.get(i)).collect();
                self.num(&args, dtype)
            }),
        }
    }

    /// On floats: of a float type, or what quantized elements stand for.
    fn real(&self, ty: TensorTy, args: &[impl std::ops::Deref<Target = [f64]> + Sync]) -> Tensor {
        if self.out == Out::Bool {
            return Tensor::from_nums(ty, |i| Num::F(self.float.apply(|k| args[k][i])));
        }
        match self.float {
            Fun::No => Tensor::quantize(ty, |i| args[0][i]),
            Fun::One(f) => Tensor::quantize(ty, |i| f(args[0][i])),
            Fun::Two(f) => Tensor::quantize(ty, |i| f(args[0][i], args[1][i])),
        }
    }
}

/// Declares elementwise operations: a payload and an [`OpDef`] from a [`Row`].
macro_rules! elementwise {
    ($($(#[$meta:meta])* $name:ident $text:literal $form:expr, $scalar:ident, $tolerance:expr, $grad:expr,
        [$($field:ident : $ty:ty = $default:expr),*], $row:expr;)*) => {$(
        payload! { $(#[$meta])* #[derive(Default)] $name { $($field: $ty = $default),* } }

        impl $name {
            pub(crate) const ROW: $crate::ops::elementwise::Row = $row;
        }

        impl OpDef for $name {
            const NAME: &'static str = $text;
            const FORM: Form = $form;
            const ARITY: Arity = Arity::tensors(Count::Exactly(Self::ROW.arity), 1);

            fn check(&self, c: &mut Check<'_>) {
                Self::ROW.check(c);
            }

            fn infer(&self, c: &Check<'_>) -> Infer {
                Self::ROW.infer(c)
            }

            fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
                Self::ROW.eval(cx)
            }

            fn lane(&self, ins: &[DType], out: DType) -> Option<LaneFn> {
                Some(Self::ROW.lane(ins, out))
            }

            fn fusion(&self) -> Fusion {
                Fusion::Elementwise(Scalar::$scalar)
            }

            fn tolerance(&self) -> Tolerance {
                $tolerance
            }

            fn derivative(&self) -> $crate::derive::Derivative<Self> {
                const GRAD: Grad = $grad;
                GRAD.column(|_, d| GRAD.apply(d))
            }
        }
    )*};
}
pub(crate) use elementwise;

/// How accurate a mathematical function is asked to be; the reference always does its best.
type Accuracy = Option<crate::ir::Attr>;

const EXACT: Tolerance = Tolerance::Exact;
const MATH: Tolerance = Tolerance::Ulp(4);

elementwise! {
    Abs "stablehlo.abs" Form::SAME, Abs, EXACT, Grad::One(g::abs), [],
        Row { kinds: S.or(FCQ), out: Out::Part, int: IntFun::One(|_, x| x.wrapping_abs()),
              complex: Fun::One(|z| complex::real(z.re.hypot(z.im))), ..arithmetic!(|x| x.abs()) };
    /// Logical or on booleans.
    Add "stablehlo.add" Form::SAME, Add, EXACT, Grad::Two(g::pass, g::pass), [],
        Row { int: IntFun::Two(|_, x, y| x.wrapping_add(y)), complex: Fun::Two(|x, y| x + y),
              bool: Fun::Two(|x, y| x | y), ..arithmetic!(|x, y| x + y) };
    And "stablehlo.and" Form::SAME, And, EXACT, Grad::Zero, [],
        Row { arity: 2, kinds: BI, int: IntFun::Two(|_, x, y| x & y), bool: Fun::Two(|x, y| x & y), ..ROW };
    Atan2 "stablehlo.atan2" Form::SAME, Atan2, MATH, Grad::Two(g::atan2_y, g::atan2_x), [],
        Row { arity: 2, kinds: FCQ, float: Fun::Two(f64::atan2), complex: Fun::Two(complex::atan2), ..ROW };
    Cbrt "stablehlo.cbrt" Form::SAME, Cbrt, MATH, Grad::One(g::cbrt), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, float: Fun::One(f64::cbrt), complex: Fun::One(complex::cbrt), ..ROW };
    Ceil "stablehlo.ceil" Form::SAME, Ceil, EXACT, Grad::Zero, [],
        Row { kinds: FQ, float: Fun::One(f64::ceil), ..ROW };
    Cosine "stablehlo.cosine" Form::SAME, Cos, MATH, Grad::One(g::cos), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, float: Fun::One(f64::cos), complex: Fun::One(complex::cos), ..ROW };
    CountLeadingZeros "stablehlo.count_leading_zeros" Form::SAME, CountLeadingZeros, EXACT, Grad::Zero, [],
        Row { kinds: I, int: IntFun::One(|t, x| i64::from((x << (64 - t.bits())).leading_zeros().min(t.bits()))), ..ROW };
    /// Division by zero gives all ones; the smallest integer divided by -1 gives itself.
    Divide "stablehlo.divide" Form::SAME, Div, EXACT, Grad::Two(g::div_a, g::div_b), [],
        Row { kinds: IFCQ, int: IntFun::Two(div), complex: Fun::Two(complex::div), ..arithmetic!(|x, y| x / y) };
    Exponential "stablehlo.exponential" Form::SAME, Exp, MATH, Grad::One(g::exp), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, float: Fun::One(f64::exp), complex: Fun::One(complex::exp), ..ROW };
    ExponentialMinusOne "stablehlo.exponential_minus_one" Form::SAME, Expm1, MATH, Grad::One(g::expm1), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, float: Fun::One(f64::exp_m1), complex: Fun::One(complex::exp_m1), ..ROW };
    Floor "stablehlo.floor" Form::SAME, Floor, EXACT, Grad::Zero, [],
        Row { kinds: FQ, float: Fun::One(f64::floor), ..ROW };
    Imag "stablehlo.imag" Form::SAME, Imag, EXACT, Grad::One(g::imag), [],
        Row { kinds: F.or(C), out: Out::Part, float: Fun::One(|_| 0.0), complex: Fun::One(|z| complex::real(z.im)), ..ROW };
    IsFinite "stablehlo.is_finite" Form::FUNCTIONAL, IsFinite, EXACT, Grad::Zero, [],
        Row { kinds: FQ, out: Out::Bool, float: Fun::One(|x| f64::from(u8::from(x.is_finite()))), ..ROW };
    Log "stablehlo.log" Form::SAME, Log, MATH, Grad::One(g::log), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, float: Fun::One(f64::ln), complex: Fun::One(complex::ln), ..ROW };
    LogPlusOne "stablehlo.log_plus_one" Form::SAME, Log1p, MATH, Grad::One(g::log1p), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, float: Fun::One(f64::ln_1p), complex: Fun::One(complex::ln_1p), ..ROW };
    Logistic "stablehlo.logistic" Form::SAME, Logistic, MATH, Grad::One(g::logistic), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, float: Fun::One(logistic), complex: Fun::One(complex::logistic), ..ROW };
    /// A NaN on either side wins.
    Maximum "stablehlo.maximum" Form::SAME, Max, EXACT, Grad::Two(g::max_a, g::max_b), [],
        Row { int: IntFun::Two(|t, x, y| if less(t, x, y) { y } else { x }),
              complex: Fun::Two(|x, y| if complex::less(x, y) { y } else { x }), bool: Fun::Two(|x, y| x | y),
              ..arithmetic!(|x, y| x.maximum_nan(y)) };
    Minimum "stablehlo.minimum" Form::SAME, Min, EXACT, Grad::Two(g::min_a, g::min_b), [],
        Row { int: IntFun::Two(|t, x, y| if less(t, x, y) { x } else { y }),
              complex: Fun::Two(|x, y| if complex::less(x, y) { x } else { y }), bool: Fun::Two(|x, y| x & y),
              ..arithmetic!(|x, y| x.minimum_nan(y)) };
    /// Logical and on booleans.
    Multiply "stablehlo.multiply" Form::SAME, Mul, EXACT, Grad::Two(g::mul_a, g::mul_b), [],
        Row { int: IntFun::Two(|_, x, y| x.wrapping_mul(y)), complex: Fun::Two(|x, y| x * y),
              bool: Fun::Two(|x, y| x & y), ..arithmetic!(|x, y| x * y) };
    Negate "stablehlo.negate" Form::SAME, Neg, EXACT, Grad::One(g::neg), [],
        Row { kinds: IFCQ, int: IntFun::One(|_, x| x.wrapping_neg()), complex: Fun::One(|z| -z), ..arithmetic!(|x| -x) };
    Not "stablehlo.not" Form::SAME, Not, EXACT, Grad::Zero, [],
        Row { kinds: BI, int: IntFun::One(|_, x| !x), bool: Fun::One(|x| !x), ..ROW };
    Or "stablehlo.or" Form::SAME, Or, EXACT, Grad::Zero, [],
        Row { arity: 2, kinds: BI, int: IntFun::Two(|_, x, y| x | y), bool: Fun::Two(|x, y| x | y), ..ROW };
    Popcnt "stablehlo.popcnt" Form::SAME, Popcnt, EXACT, Grad::Zero, [],
        Row { kinds: I, int: IntFun::One(|t, x| i64::from((x << (64 - t.bits())).count_ones())), ..ROW };
    Power "stablehlo.power" Form::SAME, Pow, MATH, Grad::Two(g::pow_base, g::pow_exponent), [],
        Row { arity: 2, kinds: IFCQ, float: Fun::Two(f64::powf), int: IntFun::Two(pow), complex: Fun::Two(complex::pow), ..ROW };
    Real "stablehlo.real" Form::SAME, Real, EXACT, Grad::One(g::real), [],
        Row { kinds: F.or(C), out: Out::Part, float: Fun::One(|x| x), complex: Fun::One(|z| complex::real(z.re)), ..ROW };
    /// The remainder has the dividend's sign; division by zero leaves the dividend.
    Remainder "stablehlo.remainder" Form::SAME, Rem, EXACT, Grad::Two(g::pass, g::rem_b), [],
        Row { arity: 2, kinds: IFCQ, float: Fun::Two(|x, y| x % y), int: IntFun::Two(rem), complex: Fun::Two(complex::rem), ..ROW };
    RoundNearestAfz "stablehlo.round_nearest_afz" Form::SAME, RoundAfz, EXACT, Grad::Zero, [],
        Row { kinds: FQ, float: Fun::One(f64::round), ..ROW };
    RoundNearestEven "stablehlo.round_nearest_even" Form::SAME, RoundEven, EXACT, Grad::Zero, [],
        Row { kinds: FQ, float: Fun::One(f64::round_ties_even), ..ROW };
    Rsqrt "stablehlo.rsqrt" Form::SAME, Rsqrt, MATH, Grad::One(g::rsqrt), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, complex: Fun::One(complex::rsqrt), ..arithmetic!(|x| 1.0 / x.sqrt()) };
    ShiftLeft "stablehlo.shift_left" Form::SAME, ShiftLeft, EXACT, Grad::Zero, [],
        Row { arity: 2, kinds: I, int: IntFun::Two(|t, x, y| if too_far(t, y) { 0 } else { x << y }), ..ROW };
    ShiftRightArithmetic "stablehlo.shift_right_arithmetic" Form::SAME, ShiftRightArithmetic, EXACT, Grad::Zero, [],
        Row { arity: 2, kinds: I, int: IntFun::Two(shift_right_arithmetic), ..ROW };
    ShiftRightLogical "stablehlo.shift_right_logical" Form::SAME, ShiftRightLogical, EXACT, Grad::Zero, [],
        Row { arity: 2, kinds: I, int: IntFun::Two(shift_right_logical), ..ROW };
    Sign "stablehlo.sign" Form::SAME, Sign, EXACT, Grad::Zero, [],
        Row { kinds: S.or(FCQ), float: Fun::One(sign), int: IntFun::One(|_, x| x.signum()), complex: Fun::One(complex::sign), ..ROW };
    Sine "stablehlo.sine" Form::SAME, Sin, MATH, Grad::One(g::sin), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, float: Fun::One(f64::sin), complex: Fun::One(complex::sin), ..ROW };
    Sqrt "stablehlo.sqrt" Form::SAME, Sqrt, MATH, Grad::One(g::sqrt), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, complex: Fun::One(complex::sqrt), ..arithmetic!(|x| x.sqrt()) };
    Subtract "stablehlo.subtract" Form::SAME, Sub, EXACT, Grad::Two(g::pass, g::sub_b), [],
        Row { kinds: IFCQ, int: IntFun::Two(|_, x, y| x.wrapping_sub(y)), complex: Fun::Two(|x, y| x - y),
              ..arithmetic!(|x, y| x - y) };
    Tan "stablehlo.tan" Form::SAME, Tan, MATH, Grad::One(g::tan), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, float: Fun::One(f64::tan), complex: Fun::One(complex::tan), ..ROW };
    Tanh "stablehlo.tanh" Form::SAME, Tanh, MATH, Grad::One(g::tanh), [result_accuracy: Accuracy = None],
        Row { kinds: FCQ, float: Fun::One(f64::tanh), complex: Fun::One(complex::tanh), ..ROW };
    Xor "stablehlo.xor" Form::SAME, Xor, EXACT, Grad::Zero, [],
        Row { arity: 2, kinds: BI, int: IntFun::Two(|_, x, y| x ^ y), bool: Fun::Two(|x, y| x ^ y), ..ROW };
}

/// Compares integers as their type's signedness says.
pub(crate) fn less(dtype: DType, x: i64, y: i64) -> bool {
    if dtype.is_unsigned() { (x as u64) < y as u64 } else { x < y }
}

fn div(dtype: DType, x: i64, y: i64) -> i64 {
    match y {
        0 => -1,
        _ if dtype.is_unsigned() => (x as u64 / y as u64) as i64,
        _ => x.wrapping_div(y),
    }
}

fn rem(dtype: DType, x: i64, y: i64) -> i64 {
    match y {
        0 => x,
        _ if dtype.is_unsigned() => (x as u64 % y as u64) as i64,
        _ => x.wrapping_rem(y),
    }
}

/// A negative exponent gives zero but for the bases 1 and -1.
fn pow(dtype: DType, base: i64, exponent: i64) -> i64 {
    if dtype.is_signed() && exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent & 1 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut rest) = (1i64, base, exponent as u64);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}

/// Whether a shift moves every bit out; a negative amount counts as a huge one.
fn too_far(dtype: DType, amount: i64) -> bool {
    amount as u64 >= u64::from(dtype.bits())
}

fn shift_right_arithmetic(dtype: DType, x: i64, amount: i64) -> i64 {
    let unused = 64 - dtype.bits();
    let signed = x << unused >> unused;
    signed >> if too_far(dtype, amount) { 63 } else { amount }
}

fn shift_right_logical(dtype: DType, x: i64, amount: i64) -> i64 {
    if too_far(dtype, amount) {
        return 0;
    }
    let unused = 64 - dtype.bits();
    (((x as u64) << unused >> unused) >> amount) as i64
}

fn sign(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 { x } else { x.signum() }
}

pub(crate) fn logistic(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

/// Maximum and minimum that give a NaN if either side is one.
trait NanMinMax {
    fn maximum_nan(self, other: Self) -> Self;
    fn minimum_nan(self, other: Self) -> Self;
}

impl NanMinMax for f64 {
    fn maximum_nan(self, other: f64) -> f64 {
        if self.is_nan() || other.is_nan() {
            return f64::NAN;
        }
        // Positive zero is the larger one.
        if self == other {
            if self.is_sign_negative() { other } else { self }
        } else {
            self.max(other)
        }
    }

    fn minimum_nan(self, other: f64) -> f64 {
        if self.is_nan() || other.is_nan() {
            return f64::NAN;
        }
        if self == other {
            if self.is_sign_negative() { self } else { other }
        } else {
            self.min(other)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::wrap;

    #[test]
    fn integer_functions_follow_their_type() {
        assert_eq!(div(DType::U8, 255, 2), 127);
        assert_eq!(div(DType::S64, i64::MIN, -1), i64::MIN);
        assert_eq!(div(DType::S8, 5, 0), -1);
        assert_eq!(rem(DType::S8, -7, 3), -1);
        assert_eq!(pow(DType::S32, 2, -1), 0);
        assert_eq!(pow(DType::S32, -1, -3), -1);
        assert_eq!(shift_right_arithmetic(DType::S8, -128, 9), -1);
        assert_eq!(shift_right_arithmetic(DType::U8, 0x80, 1), -64);
        assert_eq!(wrap(DType::U8, -64), 192);
        assert_eq!(shift_right_logical(DType::S8, -1, 4), 15);
    }
}
