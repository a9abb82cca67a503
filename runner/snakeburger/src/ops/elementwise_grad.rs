//! Derivatives of elementwise operations: a function for each operand. Where there is a choice,
//! at kinks and ties, it is PyTorch's.

use super::{
    Ceil, Complex, Cosh, Cosine, Digamma, Exponential, Floor, Imag, Log, Polygamma, Power, Real,
    Rsqrt, Sign, Sine, Sinh, Zeta,
};
use crate::build::{Emitter, V};
use crate::derive::{Derivative, Derive, Derived};
use crate::ops::Direction;

/// The cotangent of an operand, from the result's, the operands and the result.
pub(crate) type Of = fn(&mut Emitter, V, &[V], V) -> V;

/// The column of an elementwise operation.
#[derive(Clone, Copy)]
pub(crate) enum Grad {
    Zero,
    Missing(&'static str),
    One(Of),
    Two(Of, Of),
    /// Only by the second operand; the first is a number of a family.
    Second(Of),
}

impl Grad {
    pub fn column<O>(self, rule: fn(&O, &mut Derive<'_>) -> Derived) -> Derivative<O> {
        match self {
            Grad::Zero => Derivative::Zero,
            Grad::Missing(why) => Derivative::Missing(why),
            _ => Derivative::Rule(rule),
        }
    }

    pub fn apply(self, d: &mut Derive<'_>) -> Derived {
        let (xs, y) = (d.operands().to_vec(), d.result(0));
        let (first, second) = match self {
            Grad::One(first) => (Some(first), None),
            Grad::Two(first, second) => (Some(first), Some(second)),
            Grad::Second(second) => (None, Some(second)),
            Grad::Zero | Grad::Missing(_) => (None, None),
        };
        for (i, of) in [first, second].into_iter().enumerate() {
            match of {
                Some(of) => d.one(i, |e, g| of(e, g, &xs, y))?,
                None if d.wants(i) => return Err(format!("has no derivative by operand {i}")),
                None => {}
            }
        }
        Ok(())
    }
}

/// `g · conj(slope)`.
fn chain(e: &mut Emitter, g: V, slope: V) -> V {
    let slope = e.conj(slope);
    e.mul(g, slope)
}

/// `1 - x²`, `x² + 1` and the like.
fn square_plus(e: &mut Emitter, x: V, sign: f64, constant: f64) -> V {
    let square = e.mul(x, x);
    let square = if sign < 0.0 { e.neg(square) } else { square };
    e.shift(square, constant)
}

fn rsqrt_of(e: &mut Emitter, x: V) -> V {
    e.same(Rsqrt::default(), &[x])
}

pub(crate) fn pass(_: &mut Emitter, g: V, _: &[V], _: V) -> V {
    g
}

pub(crate) fn neg(e: &mut Emitter, g: V, _: &[V], _: V) -> V {
    e.neg(g)
}

pub(crate) fn sub_b(e: &mut Emitter, g: V, _: &[V], _: V) -> V {
    e.neg(g)
}

/// Zero at zero.
pub(crate) fn abs(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let sign = e.same(Sign {}, &[x[0]]);
    let g = e.in_type_of(g, sign);
    e.mul(g, sign)
}

pub(crate) fn mul_a(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    chain(e, g, x[1])
}

pub(crate) fn mul_b(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    chain(e, g, x[0])
}

pub(crate) fn div_a(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let divisor = e.conj(x[1]);
    e.div(g, divisor)
}

pub(crate) fn div_b(e: &mut Emitter, g: V, x: &[V], y: V) -> V {
    let slope = e.div(y, x[1]);
    let g = e.neg(g);
    chain(e, g, slope)
}

/// Zero at the origin.
fn atan2(e: &mut Emitter, g: V, x: &[V], of: usize) -> V {
    let (a, b) = (e.mul(x[0], x[0]), e.mul(x[1], x[1]));
    let sum = e.add(a, b);
    let slope = e.div(x[1 - of], sum);
    let slope = if of == 1 { e.neg(slope) } else { slope };
    let origin = e.compare_to(Direction::Eq, sum, 0.0);
    let slope = e.where_then_zero(origin, slope);
    e.mul(g, slope)
}

pub(crate) fn atan2_y(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    atan2(e, g, x, 0)
}

pub(crate) fn atan2_x(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    atan2(e, g, x, 1)
}

pub(crate) fn cbrt(e: &mut Emitter, g: V, _: &[V], y: V) -> V {
    let square = e.mul(y, y);
    let square = e.scale(square, 3.0);
    let square = e.conj(square);
    e.div(g, square)
}

pub(crate) fn cos(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let sin = e.same(Sine::default(), &[x[0]]);
    let slope = e.neg(sin);
    chain(e, g, slope)
}

pub(crate) fn sin(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let slope = e.same(Cosine::default(), &[x[0]]);
    chain(e, g, slope)
}

pub(crate) fn tan(e: &mut Emitter, g: V, _: &[V], y: V) -> V {
    let slope = square_plus(e, y, 1.0, 1.0);
    chain(e, g, slope)
}

pub(crate) fn tanh(e: &mut Emitter, g: V, _: &[V], y: V) -> V {
    let slope = square_plus(e, y, -1.0, 1.0);
    chain(e, g, slope)
}

pub(crate) fn exp(e: &mut Emitter, g: V, _: &[V], y: V) -> V {
    chain(e, g, y)
}

pub(crate) fn expm1(e: &mut Emitter, g: V, _: &[V], y: V) -> V {
    let slope = e.shift(y, 1.0);
    chain(e, g, slope)
}

pub(crate) fn log(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let x = e.conj(x[0]);
    e.div(g, x)
}

pub(crate) fn log1p(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let x = e.shift(x[0], 1.0);
    let x = e.conj(x);
    e.div(g, x)
}

pub(crate) fn logistic(e: &mut Emitter, g: V, _: &[V], y: V) -> V {
    let one = e.like(y, 1.0);
    let rest = e.sub(one, y);
    let slope = e.mul(rest, y);
    chain(e, g, slope)
}

pub(crate) fn sqrt(e: &mut Emitter, g: V, _: &[V], y: V) -> V {
    let twice = e.scale(y, 2.0);
    let twice = e.conj(twice);
    e.div(g, twice)
}

pub(crate) fn rsqrt(e: &mut Emitter, g: V, _: &[V], y: V) -> V {
    let square = e.mul(y, y);
    let cube = e.mul(square, y);
    let slope = e.scale(cube, -0.5);
    chain(e, g, slope)
}

pub(crate) fn real(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    if !e.dtype(x[0]).is_complex() {
        return g;
    }
    let zero = e.zeros_like(g);
    let ty = e.ty(x[0]).clone();
    e.push(Complex {}, &[g, zero], ty)
}

pub(crate) fn imag(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let zero = e.zeros_like(g);
    if !e.dtype(x[0]).is_complex() {
        return zero;
    }
    let ty = e.ty(x[0]).clone();
    e.push(Complex {}, &[zero, g], ty)
}

pub(crate) fn conj(e: &mut Emitter, g: V, _: &[V], _: V) -> V {
    e.conj(g)
}

/// Equals share the cotangent; where one is a NaN both get it.
fn extreme(e: &mut Emitter, g: V, x: &[V], loses: Direction, of: usize) -> V {
    let (own, other) = (x[of], x[1 - of]);
    let lost = e.compare(loses, own, other);
    let tie = e.equal(own, other);
    let half = e.scale(g, 0.5);
    let shared = e.select(tie, half, g);
    e.where_then_zero(lost, shared)
}

pub(crate) fn max_a(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    extreme(e, g, x, Direction::Lt, 0)
}

pub(crate) fn max_b(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    extreme(e, g, x, Direction::Lt, 1)
}

pub(crate) fn min_a(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    extreme(e, g, x, Direction::Gt, 0)
}

pub(crate) fn min_b(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    extreme(e, g, x, Direction::Gt, 1)
}

/// Zero where the exponent is, whatever the base.
pub(crate) fn pow_base(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    if let Some(exponent) = e.splat(x[1]) {
        if exponent == 0.0 {
            return e.zeros_like(g);
        }
        let power = match exponent {
            1.0 => return g,
            2.0 => x[0],
            _ => {
                let less = e.like(x[1], exponent - 1.0);
                e.same(Power {}, &[x[0], less])
            }
        };
        let slope = e.scale(power, exponent);
        return chain(e, g, slope);
    }
    let less = e.shift(x[1], -1.0);
    let power = e.same(Power {}, &[x[0], less]);
    let slope = e.mul(x[1], power);
    let flows = chain(e, g, slope);
    let flat = e.compare_to(Direction::Eq, x[1], 0.0);
    e.where_then_zero(flat, flows)
}

/// Zero where a base of zero has an exponent that is not negative.
pub(crate) fn pow_exponent(e: &mut Emitter, g: V, x: &[V], y: V) -> V {
    let log = e.same(Log::default(), &[x[0]]);
    let slope = e.mul(y, log);
    let flows = chain(e, g, slope);
    let zero = e.compare_to(Direction::Eq, x[0], 0.0);
    let rises = if e.dtype(x[1]).is_complex() {
        let part = e.ty(x[1]).with_elem(e.dtype(x[1]).part());
        let real = e.push(Real {}, &[x[1]], part);
        e.compare_to(Direction::Ge, real, 0.0)
    } else {
        e.compare_to(Direction::Ge, x[1], 0.0)
    };
    let flat = e.same(super::And {}, &[zero, rises]);
    e.where_then_zero(flat, flows)
}

/// `-trunc(a / b)`.
pub(crate) fn rem_b(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let ratio = e.div(x[0], x[1]);
    let below = e.compare_to(Direction::Lt, ratio, 0.0);
    let (up, down) = (e.same(Ceil {}, &[ratio]), e.same(Floor {}, &[ratio]));
    let whole = e.select(below, up, down);
    let g = e.neg(g);
    e.mul(g, whole)
}

pub(crate) fn acos(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let rest = square_plus(e, x[0], -1.0, 1.0);
    let slope = rsqrt_of(e, rest);
    let slope = e.neg(slope);
    chain(e, g, slope)
}

pub(crate) fn asin(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let rest = square_plus(e, x[0], -1.0, 1.0);
    let slope = rsqrt_of(e, rest);
    chain(e, g, slope)
}

pub(crate) fn acosh(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let rest = square_plus(e, x[0], 1.0, -1.0);
    let slope = rsqrt_of(e, rest);
    chain(e, g, slope)
}

pub(crate) fn asinh(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let rest = square_plus(e, x[0], 1.0, 1.0);
    let slope = rsqrt_of(e, rest);
    chain(e, g, slope)
}

pub(crate) fn atan(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let rest = square_plus(e, x[0], 1.0, 1.0);
    let rest = e.conj(rest);
    e.div(g, rest)
}

pub(crate) fn atanh(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let rest = square_plus(e, x[0], -1.0, 1.0);
    let rest = e.conj(rest);
    e.div(g, rest)
}

pub(crate) fn cosh(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let slope = e.same(Sinh {}, &[x[0]]);
    chain(e, g, slope)
}

pub(crate) fn sinh(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let slope = e.same(Cosh {}, &[x[0]]);
    chain(e, g, slope)
}

pub(crate) fn lgamma(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let slope = e.same(Digamma {}, &[x[0]]);
    e.mul(g, slope)
}

pub(crate) fn digamma(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let one = e.like(x[0], 1.0);
    let slope = e.same(Polygamma {}, &[one, x[0]]);
    e.mul(g, slope)
}

pub(crate) fn polygamma_x(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let next = e.shift(x[0], 1.0);
    let slope = e.same(Polygamma {}, &[next, x[1]]);
    e.mul(g, slope)
}

pub(crate) fn zeta_q(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let next = e.shift(x[0], 1.0);
    let zeta = e.same(Zeta {}, &[next, x[1]]);
    let slope = e.mul(x[0], zeta);
    let slope = e.neg(slope);
    e.mul(g, slope)
}

/// `factor · exp(± x²) · g`.
fn bell(e: &mut Emitter, g: V, x: V, sign: f64, factor: f64) -> V {
    let square = e.mul(x, x);
    let square = if sign < 0.0 { e.neg(square) } else { square };
    let exp = e.same(Exponential::default(), &[square]);
    let slope = e.scale(exp, factor);
    e.mul(g, slope)
}

pub(crate) fn erf(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    bell(e, g, x[0], -1.0, std::f64::consts::FRAC_2_SQRT_PI)
}

pub(crate) fn erfc(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    bell(e, g, x[0], -1.0, -std::f64::consts::FRAC_2_SQRT_PI)
}

pub(crate) fn erf_inv(e: &mut Emitter, g: V, _: &[V], y: V) -> V {
    bell(e, g, y, 1.0, 1.0 / std::f64::consts::FRAC_2_SQRT_PI)
}

pub(crate) fn square(e: &mut Emitter, g: V, x: &[V], _: V) -> V {
    let slope = e.scale(x[0], 2.0);
    chain(e, g, slope)
}

/// The parts' cotangents of a complex number's.
pub(crate) fn parts(e: &mut Emitter, g: V) -> (V, V) {
    let part = e.ty(g).with_elem(e.dtype(g).part());
    (e.push(Real {}, &[g], part.clone()), e.push(Imag {}, &[g], part))
}
