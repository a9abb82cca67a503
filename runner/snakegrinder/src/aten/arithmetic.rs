//! Arithmetic on elements, with PyTorch's type promotion and broadcasting.

use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops::{self, Direction, Op};

use super::Lower;
use crate::cx::{Cx, Number, Operand, Res, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::abs", abs),
    ("aten::acos", |cx| unary(cx, ops::Acos {})),
    ("aten::acosh", |cx| unary(cx, ops::Acosh {})),
    ("aten::add", |cx| sum(cx, false)),
    ("aten::addcdiv", |cx| addc(cx, true)),
    ("aten::addcmul", |cx| addc(cx, false)),
    ("aten::angle", angle),
    ("aten::asin", |cx| unary(cx, ops::Asin {})),
    ("aten::asinh", |cx| unary(cx, ops::Asinh {})),
    ("aten::atan", |cx| unary(cx, ops::Atan {})),
    ("aten::atan2", |cx| float_pair(cx, ops::Atan2 {})),
    ("aten::arctan2", |cx| float_pair(cx, ops::Atan2 {})),
    ("aten::atanh", |cx| unary(cx, ops::Atanh {})),
    ("aten::bitwise_and", |cx| integer_pair(cx, ops::And {})),
    ("aten::bitwise_left_shift", |cx| integer_pair(cx, ops::ShiftLeft {})),
    ("aten::bitwise_not", |cx| same_type(cx, ops::Not {})),
    ("aten::bitwise_or", |cx| integer_pair(cx, ops::Or {})),
    ("aten::bitwise_right_shift", right_shift),
    ("aten::bitwise_xor", |cx| integer_pair(cx, ops::Xor {})),
    ("aten::ceil", |cx| same_type(cx, ops::Ceil {})),
    ("aten::copysign", copysign),
    ("aten::cos", |cx| unary(cx, ops::Cosine::default())),
    ("aten::cosh", |cx| unary(cx, ops::Cosh {})),
    ("aten::deg2rad", |cx| scaled(cx, std::f64::consts::PI / 180.0)),
    ("aten::digamma", |cx| unary(cx, ops::Digamma {})),
    ("aten::special_digamma", |cx| unary(cx, ops::Digamma {})),
    ("aten::div", div),
    ("aten::divide", div),
    ("aten::erf", |cx| unary(cx, ops::Erf {})),
    ("aten::special_erf", |cx| unary(cx, ops::Erf {})),
    ("aten::erfc", |cx| unary(cx, ops::Erfc {})),
    ("aten::erfinv", |cx| unary(cx, ops::ErfInv {})),
    ("aten::exp", |cx| unary(cx, ops::Exponential::default())),
    ("aten::exp2", |cx| {
        unary_by(cx, |e, x| {
            let x = e.scale(x, std::f64::consts::LN_2);
            e.same(ops::Exponential::default(), &[x])
        })
    }),
    ("aten::expm1", |cx| unary(cx, ops::ExponentialMinusOne::default())),
    ("aten::floor", |cx| same_type(cx, ops::Floor {})),
    ("aten::floor_divide", |cx| {
        let (a, b) = pair(cx)?;
        Ok(floor_div(cx, a, b).into())
    }),
    ("aten::fmax", |cx| by_number(cx, Direction::Ge)),
    ("aten::fmin", |cx| by_number(cx, Direction::Le)),
    ("aten::fmod", |cx| pair(cx).map(|(a, b)| cx.e.same(ops::Remainder {}, &[a, b]).into())),
    ("aten::frac", |cx| {
        unary_by(cx, |e, x| {
            let whole = truncate(e, x);
            e.sub(x, whole)
        })
    }),
    ("aten::hypot", hypot),
    ("aten::lerp", lerp),
    ("aten::lgamma", |cx| unary(cx, ops::Lgamma {})),
    ("aten::log", |cx| unary(cx, ops::Log::default())),
    ("aten::log10", |cx| logarithm(cx, std::f64::consts::LN_10)),
    ("aten::log1p", |cx| unary(cx, ops::LogPlusOne::default())),
    ("aten::log2", |cx| logarithm(cx, std::f64::consts::LN_2)),
    ("aten::logaddexp", logaddexp),
    ("aten::logit", logit),
    ("aten::maximum", |cx| pair(cx).map(|(a, b)| cx.e.max(a, b).into())),
    ("aten::minimum", |cx| pair(cx).map(|(a, b)| cx.e.min(a, b).into())),
    ("aten::mul", |cx| pair(cx).map(|(a, b)| multiply(&mut cx.e, a, b).into())),
    ("aten::multiply", |cx| pair(cx).map(|(a, b)| multiply(&mut cx.e, a, b).into())),
    ("aten::nan_to_num", nan_to_num),
    ("aten::neg", |cx| same_type(cx, ops::Negate {})),
    ("aten::negative", |cx| same_type(cx, ops::Negate {})),
    ("aten::pow", pow),
    ("aten::rad2deg", |cx| scaled(cx, 180.0 / std::f64::consts::PI)),
    ("aten::reciprocal", |cx| {
        unary_by(cx, |e, x| {
            let one = e.like(x, 1.0);
            e.div(one, x)
        })
    }),
    ("aten::remainder", remainder),
    ("aten::round", round),
    ("aten::rsqrt", |cx| unary(cx, ops::Rsqrt::default())),
    ("aten::rsub", |cx| sum(cx, true)),
    ("aten::sgn", sign),
    ("aten::sign", sign),
    ("aten::sin", |cx| unary(cx, ops::Sine::default())),
    ("aten::sinc", |cx| {
        unary_by(cx, |e, x| {
            let angle = e.scale(x, std::f64::consts::PI);
            let zero = e.compare_to(Direction::Eq, x, 0.0);
            let sine = e.same(ops::Sine::default(), &[angle]);
            let ratio = e.div(sine, angle);
            let one = e.like(x, 1.0);
            e.select(zero, one, ratio)
        })
    }),
    ("aten::sinh", |cx| unary(cx, ops::Sinh {})),
    ("aten::sqrt", |cx| unary(cx, ops::Sqrt::default())),
    ("aten::square", |cx| {
        let x = cx.tensor("self")?;
        Ok(multiply(&mut cx.e, x, x).into())
    }),
    ("aten::sub", |cx| sum(cx, false)),
    ("aten::subtract", |cx| sum(cx, false)),
    ("aten::tan", |cx| unary(cx, ops::Tan::default())),
    ("aten::tanh", |cx| unary(cx, ops::Tanh::default())),
    ("aten::true_divide", div),
    ("aten::trunc", |cx| {
        let x = cx.tensor("self")?;
        Ok(truncate(&mut cx.e, x).into())
    }),
    ("aten::xlogy", xlogy),
    ("aten::special_xlogy", xlogy),
    ("aten::__and__", |cx| integer_pair(cx, ops::And {})),
    ("aten::__iand__", |cx| integer_pair_in_place(cx, ops::And {})),
    ("aten::__ior__", |cx| integer_pair_in_place(cx, ops::Or {})),
    ("aten::__lshift__", |cx| integer_pair(cx, ops::ShiftLeft {})),
    ("aten::__or__", |cx| integer_pair(cx, ops::Or {})),
    ("aten::__rshift__", right_shift),
    ("aten::__xor__", |cx| integer_pair(cx, ops::Xor {})),
];

/// A function of floats; integers become floats first.
fn unary(cx: &mut Cx<'_>, op: impl Into<Op>) -> Res {
    let x = cx.tensor("self")?;
    let dtype = promote::to_float(cx.e.dtype(x), cx.default);
    let x = cx.e.convert(x, dtype);
    Ok(cx.e.same(op, &[x]).into())
}

/// A function of floats made of several steps, done in the wide type.
fn unary_by(cx: &mut Cx<'_>, f: impl FnOnce(&mut Emitter, V) -> V) -> Res {
    let x = cx.tensor("self")?;
    let (wide, dtype) = cx.wide(x);
    let y = f(&mut cx.e, wide);
    Ok(cx.e.convert(y, dtype).into())
}

/// An operation whose result has the operand's type; integers stay as they are where rounding
/// would do nothing.
fn same_type(cx: &mut Cx<'_>, op: impl Into<Op>) -> Res {
    let x = cx.tensor("self")?;
    let op = op.into();
    let rounds = matches!(op, Op::Ceil(_) | Op::Floor(_));
    if rounds && !cx.e.dtype(x).is_float() {
        return Ok(x.into());
    }
    Ok(cx.e.same(op, &[x]).into())
}

/// PyTorch's sign of a NaN is zero.
fn sign(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dtype = cx.e.dtype(x);
    if dtype.is_bool() {
        return Ok(x.into());
    }
    let sign = cx.e.same(ops::Sign {}, &[x]);
    if !dtype.is_float() {
        return Ok(sign.into());
    }
    let number = cx.e.compare(Direction::Eq, x, x);
    let zero = cx.e.like(x, 0.0);
    Ok(cx.e.select(number, sign, zero).into())
}

fn scaled(cx: &mut Cx<'_>, factor: f64) -> Res {
    unary_by(cx, |e, x| e.scale(x, factor))
}

fn logarithm(cx: &mut Cx<'_>, base: f64) -> Res {
    unary_by(cx, |e, x| {
        let log = e.same(ops::Log::default(), &[x]);
        let base = e.like(x, base);
        e.div(log, base)
    })
}

fn abs(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let ty = cx.e.ty(x).clone();
    if ty.elem.storage().is_unsigned() || ty.elem.storage().is_bool() {
        return Ok(x.into());
    }
    let ty = ty.with_elem(ty.elem.storage().part());
    Ok(cx.e.push(ops::Abs {}, &[x], ty).into())
}

fn operands(cx: &mut Cx<'_>) -> Res<[Operand; 2]> {
    Ok([cx.operand("self")?, cx.operand("other")?])
}

/// `self` and `other` in their common type and shape.
fn pair(cx: &mut Cx<'_>) -> Res<(V, V)> {
    let both = operands(cx)?;
    let dtype = cx.common(&both);
    let both = cx.together(&both, dtype)?;
    Ok((both[0], both[1]))
}

fn float_pair(cx: &mut Cx<'_>, op: impl Into<Op>) -> Res {
    let both = operands(cx)?;
    let dtype = promote::to_float(cx.common(&both), cx.default);
    let both = cx.together(&both, dtype)?;
    Ok(cx.e.same(op, &both).into())
}

fn integer_pair(cx: &mut Cx<'_>, op: impl Into<Op>) -> Res {
    let (a, b) = pair(cx)?;
    Ok(cx.e.same(op, &[a, b]).into())
}

fn integer_pair_in_place(cx: &mut Cx<'_>, op: impl Into<Op>) -> Res {
    let target = cx.slot("self")?;
    let (a, b) = pair(cx)?;
    let value = cx.e.same(op, &[a, b]);
    cx.write(target, value)?;
    Ok(crate::cx::Out::Slot(target))
}

fn right_shift(cx: &mut Cx<'_>) -> Res {
    let (a, b) = pair(cx)?;
    let op: Op = if cx.e.dtype(a).is_unsigned() {
        ops::ShiftRightLogical {}.into()
    } else {
        ops::ShiftRightArithmetic {}.into()
    };
    Ok(cx.e.same(op, &[a, b]).into())
}

/// Booleans multiply as `and`.
pub fn multiply(e: &mut Emitter, a: V, b: V) -> V {
    if e.dtype(a).is_bool() { e.same(ops::And {}, &[a, b]) } else { e.mul(a, b) }
}

/// `self ± alpha · other`; reversed for `rsub`.
fn sum(cx: &mut Cx<'_>, reversed: bool) -> Res {
    let minus = reversed || cx.node.call.to_string().contains("sub");
    let both = operands(cx)?;
    let dtype = cx.common(&both);
    let both = cx.together(&both, dtype)?;
    let (a, b) = if reversed { (both[1], both[0]) } else { (both[0], both[1]) };
    let alpha = cx.number("alpha").unwrap_or(Number::Int(1));
    if dtype.is_bool() && !minus {
        return Ok(cx.e.same(ops::Or {}, &[a, b]).into());
    }
    let narrow = dtype.is_float() && promote::wide(dtype) != dtype;
    if alpha.float() == 1.0 && !matches!(alpha, Number::Complex(..)) {
        return Ok(if minus { cx.e.sub(a, b) } else { cx.e.add(a, b) }.into());
    }
    let wide = promote::wide(dtype);
    let (a, b) = if narrow { (cx.e.convert(a, wide), cx.e.convert(b, wide)) } else { (a, b) };
    let dims = cx.e.dims(b);
    let alpha = cx.e.full(&dims, wide, alpha.num());
    let b = cx.e.mul(alpha, b);
    let sum = if minus { cx.e.sub(a, b) } else { cx.e.add(a, b) };
    Ok(cx.e.convert(sum, dtype).into())
}

/// `self + value · tensor1 · tensor2`, or their quotient.
fn addc(cx: &mut Cx<'_>, quotient: bool) -> Res {
    let all = [cx.operand("self")?, cx.operand("tensor1")?, cx.operand("tensor2")?];
    let dtype = cx.common(&all);
    let wide = promote::wide(dtype);
    let all = cx.together(&all, wide)?;
    let value = cx.number("value")?;
    let dims = cx.e.dims(all[0]);
    let value = cx.e.full(&dims, wide, value.num());
    let product = if quotient { cx.e.div(all[1], all[2]) } else { cx.e.mul(all[1], all[2]) };
    let product = cx.e.mul(value, product);
    let sum = cx.e.add(all[0], product);
    Ok(cx.e.convert(sum, dtype).into())
}

fn div(cx: &mut Cx<'_>) -> Res {
    let rounding = cx.maybe_str("rounding_mode").unwrap_or_default();
    let both = operands(cx)?;
    let common = cx.common(&both);
    match rounding.as_deref() {
        None => {
            let dtype = promote::to_float(common, cx.default);
            let both = cx.together(&both, dtype)?;
            Ok(cx.e.div(both[0], both[1]).into())
        }
        Some("floor") => {
            let both = cx.together(&both, common)?;
            Ok(floor_div(cx, both[0], both[1]).into())
        }
        Some("trunc") => {
            let both = cx.together(&both, common)?;
            let quotient = cx.e.div(both[0], both[1]);
            Ok(truncate(&mut cx.e, quotient).into())
        }
        Some(other) => refuse(format!("rounds by {other}")),
    }
}

/// Towards zero.
pub fn truncate(e: &mut Emitter, x: V) -> V {
    if !e.dtype(x).is_float() {
        return x;
    }
    let (floor, ceil) = (e.same(ops::Floor {}, &[x]), e.same(ops::Ceil {}, &[x]));
    let negative = e.compare_to(Direction::Lt, x, 0.0);
    e.select(negative, ceil, floor)
}

/// Towards minus infinity.
fn floor_div(cx: &mut Cx<'_>, a: V, b: V) -> V {
    let e = &mut cx.e;
    let dtype = e.dtype(a);
    if dtype.is_float() {
        // Through the remainder, as PyTorch does: the rounded quotient could be one too large.
        let rest = modulo(e, a, b);
        let exact = e.sub(a, rest);
        let quotient = e.div(exact, b);
        let quotient = e.same(ops::RoundNearestEven {}, &[quotient]);
        let plain = e.div(a, b);
        let zero = e.compare_to(Direction::Eq, b, 0.0);
        return e.select(zero, plain, quotient);
    }
    let quotient = e.div(a, b);
    if dtype.is_unsigned() || dtype.is_bool() {
        return quotient;
    }
    let rest = e.same(ops::Remainder {}, &[a, b]);
    let uneven = e.compare_to(Direction::Ne, rest, 0.0);
    let (rest_negative, b_negative) =
        (e.compare_to(Direction::Lt, rest, 0.0), e.compare_to(Direction::Lt, b, 0.0));
    let signs_differ = e.compare(Direction::Ne, rest_negative, b_negative);
    let less = e.same(ops::And {}, &[uneven, signs_differ]);
    let below = e.shift(quotient, -1.0);
    e.select(less, below, quotient)
}

/// The remainder with the divisor's sign.
fn modulo(e: &mut Emitter, a: V, b: V) -> V {
    let rest = e.same(ops::Remainder {}, &[a, b]);
    if e.dtype(a).is_unsigned() {
        return rest;
    }
    let uneven = e.compare_to(Direction::Ne, rest, 0.0);
    let (rest_negative, b_negative) =
        (e.compare_to(Direction::Lt, rest, 0.0), e.compare_to(Direction::Lt, b, 0.0));
    let signs_differ = e.compare(Direction::Ne, rest_negative, b_negative);
    let wrap = e.same(ops::And {}, &[uneven, signs_differ]);
    let wrapped = e.add(rest, b);
    e.select(wrap, wrapped, rest)
}

fn remainder(cx: &mut Cx<'_>) -> Res {
    let (a, b) = pair(cx)?;
    Ok(modulo(&mut cx.e, a, b).into())
}

fn pow(cx: &mut Cx<'_>) -> Res {
    let both = [cx.operand("self")?, cx.operand("exponent")?];
    let dtype = cx.common(&both);
    if let (Operand::Tensor(x), Operand::Number(exponent)) = (both[0], both[1])
        && !matches!(exponent, Number::Complex(..))
    {
        let x = cx.e.convert(x, dtype);
        let exponent = exponent.float();
        // The exponents PyTorch computes otherwise than by the general power.
        if exponent == 2.0 {
            return Ok(multiply(&mut cx.e, x, x).into());
        }
        if dtype.is_float() {
            let wide = promote::wide(dtype);
            let x = cx.e.convert(x, wide);
            let y = match exponent {
                0.5 => cx.e.same(ops::Sqrt::default(), &[x]),
                -0.5 => cx.e.same(ops::Rsqrt::default(), &[x]),
                1.0 => x,
                3.0 => {
                    let square = cx.e.mul(x, x);
                    cx.e.mul(square, x)
                }
                -1.0 => {
                    let one = cx.e.like(x, 1.0);
                    cx.e.div(one, x)
                }
                -2.0 => {
                    let (one, square) = (cx.e.like(x, 1.0), cx.e.mul(x, x));
                    cx.e.div(one, square)
                }
                _ => {
                    let exponent = cx.e.like(x, exponent);
                    cx.e.same(ops::Power {}, &[x, exponent])
                }
            };
            return Ok(cx.e.convert(y, dtype).into());
        }
    }
    let both = cx.together(&both, dtype)?;
    Ok(cx.e.same(ops::Power {}, &both).into())
}

fn round(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    if !cx.e.dtype(x).is_float() {
        return Ok(x.into());
    }
    let decimals = cx.int("decimals").unwrap_or(0);
    if decimals == 0 {
        return Ok(cx.e.same(ops::RoundNearestEven {}, &[x]).into());
    }
    unary_by(cx, |e, x| {
        let ten = 10f64.powi(decimals.unsigned_abs() as i32);
        let ten = e.like(x, ten);
        let (up, down) = if decimals > 0 { (e.mul(x, ten), true) } else { (e.div(x, ten), false) };
        let whole = e.same(ops::RoundNearestEven {}, &[up]);
        if down { e.div(whole, ten) } else { e.mul(whole, ten) }
    })
}

fn xlogy(cx: &mut Cx<'_>) -> Res {
    let both = operands(cx)?;
    let dtype = promote::to_float(cx.common(&both), cx.default);
    let both = cx.together(&both, dtype)?;
    let log = cx.e.same(ops::Log::default(), &[both[1]]);
    let product = cx.e.mul(both[0], log);
    let zero = cx.e.compare_to(Direction::Eq, both[0], 0.0);
    let nan = cx.e.compare(Direction::Ne, both[1], both[1]);
    let nan = cx.e.same(ops::Not {}, &[nan]);
    let plain = cx.e.same(ops::And {}, &[zero, nan]);
    let nothing = cx.e.like(product, 0.0);
    Ok(cx.e.select(plain, nothing, product).into())
}

/// The larger or smaller of two numbers; a NaN yields to a number.
fn by_number(cx: &mut Cx<'_>, direction: Direction) -> Res {
    let (a, b) = pair(cx)?;
    if !cx.e.dtype(a).is_float() {
        return Ok(if direction == Direction::Ge { cx.e.max(a, b) } else { cx.e.min(a, b) }.into());
    }
    let a_nan = cx.e.compare(Direction::Ne, a, a);
    let b_number = cx.e.compare(Direction::Eq, b, b);
    let first = cx.e.compare(direction, a, b);
    let b_nan = cx.e.same(ops::Not {}, &[b_number]);
    let first = cx.e.same(ops::Or {}, &[first, b_nan]);
    let number = cx.e.select(first, a, b);
    Ok(cx.e.select(a_nan, b, number).into())
}

fn copysign(cx: &mut Cx<'_>) -> Res {
    let both = operands(cx)?;
    let dtype = promote::to_float(cx.common(&both), cx.default);
    let both = cx.together(&both, dtype)?;
    let size = cx.e.same(ops::Abs {}, &[both[0]]);
    // A negative zero's sign shows in its reciprocal only.
    let one = cx.e.like(both[1], 1.0);
    let flipped = cx.e.div(one, both[1]);
    let (a, b) = (
        cx.e.compare_to(Direction::Lt, both[1], 0.0),
        cx.e.compare_to(Direction::Lt, flipped, 0.0),
    );
    let negative = cx.e.same(ops::Or {}, &[a, b]);
    let below = cx.e.neg(size);
    Ok(cx.e.select(negative, below, size).into())
}

fn hypot(cx: &mut Cx<'_>) -> Res {
    let both = operands(cx)?;
    let dtype = cx.common(&both);
    let both = cx.together(&both, promote::wide(dtype))?;
    let (a, b) = (cx.e.mul(both[0], both[0]), cx.e.mul(both[1], both[1]));
    let sum = cx.e.add(a, b);
    let root = cx.e.same(ops::Sqrt::default(), &[sum]);
    Ok(cx.e.convert(root, dtype).into())
}

fn lerp(cx: &mut Cx<'_>) -> Res {
    let all = [cx.operand("self")?, cx.operand("end")?, cx.operand("weight")?];
    let dtype = cx.common(&all[..2]);
    let wide = promote::wide(dtype);
    let all = cx.together(&all, wide)?;
    let difference = cx.e.sub(all[1], all[0]);
    // From whichever end is nearer, so that weight 1 gives `end` exactly.
    let step = cx.e.mul(all[2], difference);
    let near = cx.e.add(all[0], step);
    let one = cx.e.like(all[2], 1.0);
    let rest = cx.e.sub(one, all[2]);
    let back = cx.e.mul(difference, rest);
    let far = cx.e.sub(all[1], back);
    let size = cx.e.same(ops::Abs {}, &[all[2]]);
    let small = cx.e.compare_to(Direction::Lt, size, 0.5);
    let y = cx.e.select(small, near, far);
    Ok(cx.e.convert(y, dtype).into())
}

fn logaddexp(cx: &mut Cx<'_>) -> Res {
    let both = operands(cx)?;
    let dtype = promote::to_float(cx.common(&both), cx.default);
    let both = cx.together(&both, promote::wide(dtype))?;
    let high = cx.e.max(both[0], both[1]);
    let difference = cx.e.sub(both[0], both[1]);
    let size = cx.e.same(ops::Abs {}, &[difference]);
    let below = cx.e.neg(size);
    let small = cx.e.same(ops::Exponential::default(), &[below]);
    let log = cx.e.same(ops::LogPlusOne::default(), &[small]);
    let sum = cx.e.add(high, log);
    // Equal infinities have no difference.
    let same = cx.e.compare(Direction::Eq, both[0], both[1]);
    let finite = cx.e.push(ops::IsFinite {}, &[both[0]], cx.e.ty(both[0]).with_elem(DType::I1));
    let infinite = cx.e.same(ops::Not {}, &[finite]);
    let both_infinite = cx.e.same(ops::And {}, &[same, infinite]);
    let y = cx.e.select(both_infinite, both[0], sum);
    Ok(cx.e.convert(y, dtype).into())
}

fn logit(cx: &mut Cx<'_>) -> Res {
    let eps = cx.maybe_float("eps")?;
    unary_by(cx, |e, x| {
        let x = match eps {
            Some(eps) => {
                let (low, high) = (e.like(x, eps), e.like(x, 1.0 - eps));
                e.same(ops::Clamp {}, &[low, x, high])
            }
            None => x,
        };
        let one = e.like(x, 1.0);
        let rest = e.sub(one, x);
        let odds = e.div(x, rest);
        e.same(ops::Log::default(), &[odds])
    })
}

fn nan_to_num(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dtype = cx.e.dtype(x);
    if !dtype.is_float() {
        return Ok(x.into());
    }
    let largest = match dtype {
        DType::F64 => f64::MAX,
        DType::BF16 => 3.389_531_389_251_535_5e38,
        DType::F16 => 65504.0,
        _ => f64::from(f32::MAX),
    };
    let nan = cx.maybe_float("nan")?.unwrap_or(0.0);
    let high = cx.maybe_float("posinf")?.unwrap_or(largest);
    let low = cx.maybe_float("neginf")?.unwrap_or(-largest);
    let e = &mut cx.e;
    let is_nan = e.compare(Direction::Ne, x, x);
    let is_high = e.compare_to(Direction::Eq, x, f64::INFINITY);
    let is_low = e.compare_to(Direction::Eq, x, f64::NEG_INFINITY);
    let (nan, high, low) = (e.like(x, nan), e.like(x, high), e.like(x, low));
    let y = e.select(is_nan, nan, x);
    let y = e.select(is_high, high, y);
    Ok(e.select(is_low, low, y).into())
}

fn angle(cx: &mut Cx<'_>) -> Res {
    let z = cx.tensor("self")?;
    let dtype = cx.e.dtype(z);
    if dtype.is_complex() {
        let ty = cx.e.ty(z).with_elem(dtype.part());
        let (re, im) =
            (cx.e.push(ops::Real {}, &[z], ty.clone()), cx.e.push(ops::Imag {}, &[z], ty));
        return Ok(cx.e.same(ops::Atan2 {}, &[im, re]).into());
    }
    unary_by(cx, |e, x| {
        let negative = e.compare_to(Direction::Lt, x, 0.0);
        let (pi, zero) = (e.like(x, std::f64::consts::PI), e.like(x, 0.0));
        let y = e.select(negative, pi, zero);
        let nan = e.compare(Direction::Ne, x, x);
        e.select(nan, x, y)
    })
}
