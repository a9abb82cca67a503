//! Short names for the functions of elements that families share.

use warpforge_snakeburger::ops;

use warpforge_snakeburger::build::{Emitter, V};

pub fn abs(e: &mut Emitter, x: V) -> V {
    let dtype = e.dtype(x);
    let ty = e.ty(x).with_elem(dtype.part());
    e.push(ops::Abs {}, &[x], ty)
}

pub fn cos(e: &mut Emitter, x: V) -> V {
    e.same(ops::Cosine::default(), &[x])
}

pub fn sin(e: &mut Emitter, x: V) -> V {
    e.same(ops::Sine::default(), &[x])
}

pub fn exp(e: &mut Emitter, x: V) -> V {
    e.same(ops::Exponential::default(), &[x])
}

pub fn log(e: &mut Emitter, x: V) -> V {
    e.same(ops::Log::default(), &[x])
}

pub fn log1p(e: &mut Emitter, x: V) -> V {
    e.same(ops::LogPlusOne::default(), &[x])
}

pub fn sqrt(e: &mut Emitter, x: V) -> V {
    e.same(ops::Sqrt::default(), &[x])
}

pub fn tanh(e: &mut Emitter, x: V) -> V {
    e.same(ops::Tanh::default(), &[x])
}

pub fn sigmoid(e: &mut Emitter, x: V) -> V {
    e.same(ops::Logistic::default(), &[x])
}

pub fn and(e: &mut Emitter, a: V, b: V) -> V {
    e.same(ops::And {}, &[a, b])
}

pub fn not(e: &mut Emitter, a: V) -> V {
    e.same(ops::Not {}, &[a])
}

/// The larger of a value and a number; equals pass in the derivative.
pub fn at_least(e: &mut Emitter, x: V, low: f64) -> V {
    let (low, high) = (e.like(x, low), e.like(x, f64::INFINITY));
    e.same(ops::Clamp {}, &[low, x, high])
}

/// A number less a value.
pub fn from(e: &mut Emitter, number: f64, x: V) -> V {
    let number = e.like(x, number);
    e.sub(number, x)
}

/// A value where a condition holds; zero elsewhere.
pub fn only(e: &mut Emitter, condition: V, x: V) -> V {
    let zero = e.like(x, 0.0);
    e.select(condition, x, zero)
}

/// The polynomial with these coefficients, the highest power's first.
pub fn polynomial(e: &mut Emitter, x: V, coefficients: &[f64]) -> V {
    let mut sum = e.like(x, coefficients.first().copied().unwrap_or(0.0));
    for coefficient in coefficients.iter().skip(1) {
        let product = e.mul(sum, x);
        sum = e.shift(product, *coefficient);
    }
    sum
}
