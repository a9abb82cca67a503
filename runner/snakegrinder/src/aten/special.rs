//! Functions of one or two numbers that are rarer than arithmetic.

use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakeburger::ops::{self, Direction, Op};

use super::Lower;
use super::arithmetic::truncate;
use super::math::{abs, and, exp, log, log1p, not, only, polynomial};
use crate::cx::{Cx, Operand, Res, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::fix", |cx| {
        let x = cx.tensor("self")?;
        Ok(truncate(&mut cx.e, x).into())
    }),
    ("aten::float_power", float_power),
    ("aten::gcd", |cx| {
        let (a, b) = integers(cx)?;
        Ok(gcd(&mut cx.e, a, b).into())
    }),
    ("aten::heaviside", |cx| {
        let both = [cx.operand("self")?, cx.operand("values")?];
        let dtype = cx.common(&both);
        let both = cx.together(&both, dtype)?;
        let e = &mut cx.e;
        let zero = e.compare_to(Direction::Eq, both[0], 0.0);
        let above = e.compare_to(Direction::Gt, both[0], 0.0);
        let step = e.convert(above, dtype);
        Ok(e.select(zero, both[1], step).into())
    }),
    ("aten::isreal", |cx| {
        let x = cx.tensor("self")?;
        let dtype = cx.e.dtype(x);
        let ty = cx.e.ty(x).with_elem(dtype.part());
        if !dtype.is_complex() {
            return Ok(cx.e.full(&ty.dims, DType::I1, Num::B(true)).into());
        }
        let imaginary = cx.e.push(ops::Imag {}, &[x], ty);
        Ok(cx.e.compare_to(Direction::Eq, imaginary, 0.0).into())
    }),
    ("aten::lcm", |cx| {
        let (a, b) = integers(cx)?;
        let e = &mut cx.e;
        let divisor = gcd(e, a, b);
        let zero = e.compare_to(Direction::Eq, divisor, 0.0);
        let one = e.like(divisor, 1.0);
        let divisor = e.select(zero, one, divisor);
        let part = e.div(a, divisor);
        let product = e.mul(part, b);
        Ok(magnitude(e, product).into())
    }),
    ("aten::ldexp", |cx| {
        let (x, power) = (cx.tensor("self")?, cx.tensor("other")?);
        // PyTorch multiplies by a power of two of the exponents' float type.
        let own = promote::to_float(cx.e.dtype(power), cx.default);
        let power = cx.e.convert(power, own);
        let two = cx.e.like(power, 2.0);
        let factor = cx.e.same(ops::Power {}, &[two, power]);
        let both = [Operand::Tensor(x), Operand::Tensor(factor)];
        let dtype = cx.common(&both);
        let both = cx.together(&both, dtype)?;
        Ok(cx.e.mul(both[0], both[1]).into())
    }),
    ("aten::logaddexp2", logaddexp2),
    ("aten::mvlgamma", mvlgamma),
    ("aten::nextafter", |cx| pair(cx, ops::NextAfter {})),
    ("aten::polygamma", polygamma),
    ("aten::signbit", signbit),
    ("aten::special_entr", |cx| {
        wide(cx, |e, x| {
            let log = log(e, x);
            let product = e.mul(x, log);
            let y = e.neg(product);
            let zero = e.compare_to(Direction::Eq, x, 0.0);
            let negative = e.compare_to(Direction::Lt, x, 0.0);
            let (nothing, lowest) = (e.like(x, 0.0), e.like(x, f64::NEG_INFINITY));
            let y = e.select(zero, nothing, y);
            e.select(negative, lowest, y)
        })
    }),
    ("aten::special_erfc", |cx| wide(cx, |e, x| e.same(ops::Erfc {}, &[x]))),
    ("aten::special_erfcx", |cx| doubled(cx, erfcx)),
    ("aten::special_erfinv", |cx| wide(cx, |e, x| e.same(ops::ErfInv {}, &[x]))),
    ("aten::special_gammaln", |cx| wide(cx, |e, x| e.same(ops::Lgamma {}, &[x]))),
    ("aten::special_log_ndtr", |cx| {
        doubled(cx, |e, x| {
            let t = e.scale(x, std::f64::consts::FRAC_1_SQRT_2);
            let down = e.neg(t);
            let zero = e.like(down, 0.0);
            let down = e.max(down, zero);
            let tail = erfcx(e, down);
            let half = e.scale(tail, 0.5);
            let log = log(e, half);
            let square = e.mul(t, t);
            let low = e.sub(log, square);
            let rest = e.same(ops::Erfc {}, &[t]);
            let rest = e.scale(rest, -0.5);
            let high = log1p(e, rest);
            let below = e.compare_to(Direction::Lt, x, -1.0);
            e.select(below, low, high)
        })
    }),
    ("aten::special_multigammaln", mvlgamma),
    ("aten::special_ndtr", |cx| {
        wide(cx, |e, x| {
            let t = e.scale(x, -std::f64::consts::FRAC_1_SQRT_2);
            let y = e.same(ops::Erfc {}, &[t]);
            e.scale(y, 0.5)
        })
    }),
    ("aten::special_ndtri", |cx| {
        doubled(cx, |e, x| {
            let twice = e.scale(x, 2.0);
            let around = e.shift(twice, -1.0);
            let y = e.same(ops::ErfInv {}, &[around]);
            e.scale(y, std::f64::consts::SQRT_2)
        })
    }),
    ("aten::special_polygamma", polygamma),
    ("aten::special_psi", |cx| wide(cx, |e, x| e.same(ops::Digamma {}, &[x]))),
    ("aten::special_xlog1py", |cx| {
        let both = [cx.operand("self")?, cx.operand("other")?];
        let dtype = promote::to_float(cx.common(&both), cx.default);
        let both = cx.together(&both, promote::wide(dtype))?;
        let e = &mut cx.e;
        let log = log1p(e, both[1]);
        let product = e.mul(both[0], log);
        let zero = e.compare_to(Direction::Eq, both[0], 0.0);
        let number = e.compare(Direction::Eq, both[1], both[1]);
        let plain = and(e, zero, number);
        let nothing = e.like(product, 0.0);
        let y = e.select(plain, nothing, product);
        Ok(e.convert(y, dtype).into())
    }),
    ("aten::special_zeta", |cx| pair(cx, ops::Zeta {})),
];

/// A function of floats, done in the wide type and rounded once.
pub fn wide(cx: &mut Cx<'_>, f: impl FnOnce(&mut Emitter, V) -> V) -> Res {
    let x = cx.tensor("self")?;
    let (x, dtype) = cx.wide(x);
    let y = f(&mut cx.e, x);
    Ok(cx.e.convert(y, dtype).into())
}

/// The same in double precision, where single would lose most digits on the way.
fn doubled(cx: &mut Cx<'_>, f: impl FnOnce(&mut Emitter, V) -> V) -> Res {
    let x = cx.tensor("self")?;
    let dtype = promote::to_float(cx.e.dtype(x), cx.default);
    let x = cx.e.convert(x, dtype);
    let x = cx.e.convert(x, DType::F64);
    let y = f(&mut cx.e, x);
    Ok(cx.e.convert(y, dtype).into())
}

fn pair(cx: &mut Cx<'_>, op: impl Into<Op>) -> Res {
    let both = [cx.operand("self")?, cx.operand("other")?];
    let dtype = promote::to_float(cx.common(&both), cx.default);
    let both = cx.together(&both, dtype)?;
    Ok(cx.e.same(op, &both).into())
}

fn integers(cx: &mut Cx<'_>) -> Res<(V, V)> {
    let both = [cx.operand("self")?, cx.operand("other")?];
    let dtype = cx.common(&both);
    if !dtype.is_int() {
        return refuse("takes integers");
    }
    let both = cx.together(&both, dtype)?;
    Ok((both[0], both[1]))
}

/// The magnitude of integers; what is unsigned has no other.
fn magnitude(e: &mut Emitter, x: V) -> V {
    if e.dtype(x).is_unsigned() { x } else { abs(e, x) }
}

/// Euclid's algorithm on all elements until none has a remainder.
fn gcd(e: &mut Emitter, a: V, b: V) -> V {
    let types: [TensorTy; 2] = [a, b].map(|value| e.ty(value).clone());
    let axes: Vec<usize> = (0..types[0].rank()).collect();
    let goes_on = e.region(&types, |e, args| {
        let some = e.compare_to(Direction::Ne, args[1], 0.0);
        vec![e.reduce(some, Fold::Or, &axes)]
    });
    let step = e.region(&types, |e, args| {
        let (a, b) = (args[0], args[1]);
        let done = e.compare_to(Direction::Eq, b, 0.0);
        let one = e.like(b, 1.0);
        let divisor = e.select(done, one, b);
        let rest = e.same(ops::Remainder {}, &[a, divisor]);
        vec![e.select(done, a, b), e.select(done, b, rest)]
    });
    let outs = e.push_many(ops::While {}, &[a, b], &types, &[goes_on, step]);
    magnitude(e, outs[0])
}

/// Everything is done in double precision.
fn float_power(cx: &mut Cx<'_>) -> Res {
    let both = [cx.operand("self")?, cx.operand("exponent")?];
    let complex = cx.common(&both).is_complex();
    let dtype = if complex { DType::C128 } else { DType::F64 };
    let both = cx.together(&both, dtype)?;
    Ok(cx.e.same(ops::Power {}, &both).into())
}

fn logaddexp2(cx: &mut Cx<'_>) -> Res {
    let both = [cx.operand("self")?, cx.operand("other")?];
    let dtype = promote::to_float(cx.common(&both), cx.default);
    let both = cx.together(&both, promote::wide(dtype))?;
    let e = &mut cx.e;
    let high = e.max(both[0], both[1]);
    let difference = e.sub(both[0], both[1]);
    let size = abs(e, difference);
    let below = e.scale(size, -std::f64::consts::LN_2);
    let small = exp(e, below);
    let log = log1p(e, small);
    let log = e.scale(log, std::f64::consts::LOG2_E);
    let sum = e.add(high, log);
    // Equal infinities have no difference.
    let same = e.compare(Direction::Eq, both[0], both[1]);
    let finite = e.push(ops::IsFinite {}, &[both[0]], e.ty(both[0]).with_elem(DType::I1));
    let infinite = not(e, finite);
    let equal = and(e, same, infinite);
    let y = e.select(equal, both[0], sum);
    Ok(e.convert(y, dtype).into())
}

/// The sum of the logarithms of the gamma function at steps of one half.
fn mvlgamma(cx: &mut Cx<'_>) -> Res {
    let p = cx.int("p")?;
    if p < 1 {
        return refuse("has no dimension");
    }
    wide(cx, |e, x| {
        let mut sum: Option<V> = None;
        for i in 0..p {
            let at = e.shift(x, -0.5 * i as f64);
            let term = e.same(ops::Lgamma {}, &[at]);
            sum = Some(match sum {
                Some(sum) => e.add(sum, term),
                None => term,
            });
        }
        let constant = (p * (p - 1)) as f64 / 4.0 * std::f64::consts::PI.ln();
        e.shift(sum.unwrap_or(x), constant)
    })
}

fn polygamma(cx: &mut Cx<'_>) -> Res {
    let n = cx.int("n")?;
    wide(cx, |e, x| {
        if n == 0 {
            return e.same(ops::Digamma {}, &[x]);
        }
        if n == 1 {
            return trigamma(e, x);
        }
        let order = e.like(x, n as f64);
        e.same(ops::Polygamma {}, &[order, x])
    })
}

/// As PyTorch has it: a reflection, six steps up, and four terms of the asymptotic series, which
/// leaves 4e-10 to the true value.
fn trigamma(e: &mut Emitter, x: V) -> V {
    use std::f64::consts::PI;
    let low = e.compare_to(Direction::Lt, x, 0.5);
    let (one, zero) = (e.like(x, 1.0), e.like(x, 0.0));
    let turn = e.scale(x, PI);
    let sine = e.same(ops::Sine::default(), &[turn]);
    let square = e.mul(sine, sine);
    let reflected = e.like(x, -PI * PI);
    let reflected = e.div(reflected, square);
    let mut sum = e.select(low, reflected, zero);
    let mirrored = e.sub(one, x);
    let mut x = e.select(low, mirrored, x);
    for _ in 0..6 {
        let square = e.mul(x, x);
        let term = e.div(one, square);
        sum = e.add(sum, term);
        x = e.shift(x, 1.0);
    }
    let square = e.mul(x, x);
    let inverse = e.div(one, square);
    let series = polynomial(e, inverse, &[1.0 / 42.0, -1.0 / 30.0, 1.0 / 6.0, 0.0]);
    let twice = e.scale(x, 2.0);
    let half = e.div(one, twice);
    let series = e.add(series, half);
    let series = e.shift(series, 1.0);
    let tail = e.div(series, x);
    let sum = e.add(sum, tail);
    let negative = e.neg(sum);
    e.select(low, negative, sum)
}

/// By the bits: a negative zero is negative too.
fn signbit(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dtype = cx.e.dtype(x);
    if dtype.is_int() || dtype.is_bool() {
        let dims = cx.e.dims(x);
        if !dtype.is_signed() {
            return Ok(cx.e.full(&dims, DType::I1, Num::B(false)).into());
        }
        return Ok(cx.e.compare_to(Direction::Lt, x, 0.0).into());
    }
    let bits = match dtype.bits() {
        16 => DType::S16,
        32 => DType::S32,
        64 => DType::S64,
        _ => return refuse(format!("reads the sign of {dtype}")),
    };
    let ty = cx.e.ty(x).with_elem(bits);
    let bits = cx.e.push(ops::BitcastConvert {}, &[x], ty);
    Ok(cx.e.compare_to(Direction::Lt, bits, 0.0).into())
}

/// `exp(x²) erfc(x)`; far out by the asymptotic series, where both factors leave the range.
fn erfcx(e: &mut Emitter, x: V) -> V {
    let far = e.compare_to(Direction::Gt, x, 20.0);
    let square = e.mul(x, x);
    let (inside, rest) = (exp(e, square), e.same(ops::Erfc {}, &[x]));
    let near = e.mul(inside, rest);
    let one = e.like(x, 1.0);
    let inverse = e.div(one, square);
    let series = polynomial(e, inverse, &[6.5625, -1.875, 0.75, -0.5, 1.0]);
    let scale = e.scale(x, std::f64::consts::PI.sqrt());
    let tail = e.div(series, scale);
    let y = e.select(far, tail, near);
    let nan = e.compare(Direction::Ne, x, x);
    let infinite = e.compare_to(Direction::Eq, x, f64::INFINITY);
    let y = e.select(nan, x, y);
    let plain = not(e, infinite);
    only(e, plain, y)
}
