//! Activation functions. Those that backends have whole stay composites.

use warpforge_snakeburger::ir::{Attr, DType};
use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use crate::cx::{Cx, Out, Res, attrs, axis, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, Fold, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::celu", |cx| {
        let alpha = cx.float("alpha")?;
        elu_like(cx, alpha, 1.0, 1.0 / alpha)
    }),
    ("aten::elu", |cx| {
        let (alpha, scale, input) =
            (cx.float("alpha")?, cx.float("scale")?, cx.float("input_scale")?);
        elu_like(cx, alpha, scale, input)
    }),
    ("aten::gelu", gelu),
    ("aten::glu", glu),
    ("aten::hardshrink", |cx| {
        let lambda = cx.float("lambd")?;
        wide(cx, |e, x| {
            let size = e.same(ops::Abs {}, &[x]);
            let kept = e.compare_to(Direction::Gt, size, lambda);
            let zero = e.like(x, 0.0);
            e.select(kept, x, zero)
        })
    }),
    ("aten::hardsigmoid", |cx| {
        wide(cx, |e, x| {
            let six = hard(e, x);
            let divisor = e.like(six, 6.0);
            e.div(six, divisor)
        })
    }),
    ("aten::hardswish", |cx| {
        wide(cx, |e, x| {
            let six = hard(e, x);
            let product = e.mul(x, six);
            let divisor = e.like(x, 6.0);
            e.div(product, divisor)
        })
    }),
    ("aten::hardtanh", |cx| {
        let (low, high) = (cx.float("min_val")?, cx.float("max_val")?);
        let x = cx.tensor("self")?;
        Ok(between(&mut cx.e, x, low, high).into())
    }),
    ("aten::leaky_relu", |cx| {
        let slope = cx.float("negative_slope")?;
        wide(cx, |e, x| {
            let positive = e.compare_to(Direction::Gt, x, 0.0);
            let below = e.scale(x, slope);
            e.select(positive, x, below)
        })
    }),
    ("aten::log_sigmoid", |cx| wide(cx, log_sigmoid)),
    ("aten::log_softmax", |cx| softmax(cx, true, "dtype")),
    ("aten::_log_softmax", |cx| softmax(cx, true, "")),
    ("aten::special_log_softmax", |cx| softmax(cx, true, "dtype")),
    ("aten::mish", |cx| {
        wide(cx, |e, x| {
            let soft = softplus(e, x, 1.0, 20.0);
            let bend = e.same(ops::Tanh::default(), &[soft]);
            e.mul(x, bend)
        })
    }),
    ("aten::prelu", prelu),
    ("aten::_prelu_kernel", prelu),
    ("aten::relu", |cx| {
        let x = cx.tensor("self")?;
        Ok(relu(&mut cx.e, x).into())
    }),
    ("aten::relu6", |cx| {
        let x = cx.tensor("self")?;
        Ok(between(&mut cx.e, x, 0.0, 6.0).into())
    }),
    ("aten::rrelu", |cx| {
        let (lower, upper) = (cx.float("lower")?, cx.float("upper")?);
        if cx.bool("training")? {
            return random_slopes(cx, lower, upper);
        }
        let slope = f64::midpoint(lower, upper);
        wide(cx, |e, x| {
            let positive = e.compare_to(Direction::Ge, x, 0.0);
            let below = e.scale(x, slope);
            e.select(positive, x, below)
        })
    }),
    ("aten::selu", |cx| elu_like(cx, 1.673_263_242_354_377_2, 1.050_700_987_355_480_5, 1.0)),
    ("aten::sigmoid", |cx| {
        let x = cx.tensor("self")?;
        let dtype = promote::to_float(cx.e.dtype(x), cx.default);
        let x = cx.e.convert(x, dtype);
        Ok(cx.e.same(ops::Logistic::default(), &[x]).into())
    }),
    ("aten::special_expit", |cx| {
        let x = cx.tensor("self")?;
        let dtype = promote::to_float(cx.e.dtype(x), cx.default);
        let x = cx.e.convert(x, dtype);
        Ok(cx.e.same(ops::Logistic::default(), &[x]).into())
    }),
    ("aten::silu", silu),
    ("aten::softmax", |cx| softmax(cx, false, "dtype")),
    ("aten::_softmax", |cx| softmax(cx, false, "")),
    ("aten::special_softmax", |cx| softmax(cx, false, "dtype")),
    ("aten::softplus", |cx| {
        let (beta, threshold) = (cx.float("beta")?, cx.float("threshold")?);
        wide(cx, |e, x| softplus(e, x, beta, threshold))
    }),
    ("aten::softshrink", |cx| {
        let lambda = cx.float("lambd")?;
        wide(cx, |e, x| {
            let (above, below) =
                (e.compare_to(Direction::Gt, x, lambda), e.compare_to(Direction::Lt, x, -lambda));
            let (down, up, zero) = (e.shift(x, -lambda), e.shift(x, lambda), e.like(x, 0.0));
            let y = e.select(below, up, zero);
            e.select(above, down, y)
        })
    }),
    ("aten::threshold", |cx| {
        let (edge, value) = (cx.float("threshold")?, cx.float("value")?);
        let x = cx.tensor("self")?;
        let below = cx.e.compare_to(Direction::Le, x, edge);
        let value = cx.e.like(x, value);
        Ok(cx.e.select(below, value, x).into())
    }),
];

/// Each element below zero is multiplied by a slope of its own.
fn random_slopes(cx: &mut Cx<'_>, lower: f64, upper: f64) -> Res {
    let x = cx.tensor("self")?;
    let (dims, dtype) = (cx.e.dims(x), cx.e.dtype(x));
    let u = super::random::uniform(cx, &dims)?;
    let e = &mut cx.e;
    let u = e.convert(u, DType::F64);
    let slope = e.scale(u, upper - lower);
    let slope = e.shift(slope, lower);
    let slope = e.convert(slope, dtype);
    let below = e.mul(x, slope);
    let positive = e.compare_to(Direction::Gt, x, 0.0);
    Ok(e.select(positive, x, below).into())
}

/// A function of one float tensor, done in the wide type and rounded once.
fn wide(cx: &mut Cx<'_>, f: impl FnOnce(&mut Emitter, V) -> V) -> Res {
    let x = cx.tensor("self")?;
    let (x, dtype) = cx.wide(x);
    let y = f(&mut cx.e, x);
    Ok(cx.e.convert(y, dtype).into())
}

/// The same as a composite.
fn composite(
    cx: &mut Cx<'_>,
    name: &str,
    attributes: warpforge_snakeburger::ir::Dict,
    f: impl FnOnce(&mut Emitter, V) -> V,
) -> Res {
    let x = cx.tensor("self")?;
    let outs = cx.composite(name, attributes, &[x], |e, args| {
        let dtype = e.dtype(args[0]);
        let x = e.convert(args[0], promote::wide(dtype));
        let y = f(e, x);
        Ok(vec![e.convert(y, dtype)])
    })?;
    Ok(outs[0].into())
}

/// A choice and no maximum: nothing flows back at zero itself.
pub fn relu(e: &mut Emitter, x: V) -> V {
    let below = e.compare_to(Direction::Le, x, 0.0);
    e.where_then_zero(below, x)
}

/// Between two numbers. Choices and no clamp: nothing flows back at the bounds themselves.
fn between(e: &mut Emitter, x: V, low: f64, high: f64) -> V {
    let (under, over) = (e.compare_to(Direction::Le, x, low), e.compare_to(Direction::Ge, x, high));
    let (low, high) = (e.like(x, low), e.like(x, high));
    let y = e.select(over, high, x);
    e.select(under, low, y)
}

/// `relu6(x + 3)`.
fn hard(e: &mut Emitter, x: V) -> V {
    let up = e.shift(x, 3.0);
    between(e, up, 0.0, 6.0)
}

fn gelu(cx: &mut Cx<'_>) -> Res {
    let approximate = cx.str("approximate")?;
    let attributes = attrs([("approximate", Attr::Str(approximate.clone()))]);
    match &*approximate {
        "none" => composite(cx, "aten.gelu", attributes, |e, x| {
            let scaled = e.scale(x, std::f64::consts::FRAC_1_SQRT_2);
            let erf = e.same(ops::Erf {}, &[scaled]);
            let up = e.shift(erf, 1.0);
            let half = e.scale(x, 0.5);
            e.mul(half, up)
        }),
        "tanh" => composite(cx, "aten.gelu", attributes, |e, x| {
            let beta = std::f64::consts::SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI * 0.5;
            let square = e.mul(x, x);
            let cube = e.mul(square, x);
            let cube = e.scale(cube, 0.044_715);
            let sum = e.add(x, cube);
            let inner = e.scale(sum, beta);
            let bend = e.same(ops::Tanh::default(), &[inner]);
            let up = e.shift(bend, 1.0);
            let half = e.scale(x, 0.5);
            e.mul(half, up)
        }),
        other => refuse(format!("approximates by {other}")),
    }
}

fn silu(cx: &mut Cx<'_>) -> Res {
    composite(cx, "aten.silu", attrs([]), |e, x| {
        let gate = e.same(ops::Logistic::default(), &[x]);
        e.mul(x, gate)
    })
}

fn glu(cx: &mut Cx<'_>) -> Res {
    let x = cx.tensor("self")?;
    let dims = cx.e.dims(x);
    let at = axis(cx.int("dim")?, dims.len())?;
    let half = dims[at] / 2;
    let value = cx.e.slice_axis(x, at, 0, half, 1);
    let gate = cx.e.slice_axis(x, at, half, dims[at], 1);
    let (value, dtype) = cx.wide(value);
    let (gate, _) = cx.wide(gate);
    let gate = cx.e.same(ops::Logistic::default(), &[gate]);
    let y = cx.e.mul(value, gate);
    Ok(cx.e.convert(y, dtype).into())
}

fn elu_like(cx: &mut Cx<'_>, alpha: f64, scale: f64, input: f64) -> Res {
    wide(cx, |e, x| {
        let positive = e.compare_to(Direction::Gt, x, 0.0);
        let above = e.scale(x, scale);
        let inner = e.scale(x, input);
        let below = e.same(ops::ExponentialMinusOne::default(), &[inner]);
        let below = e.scale(below, alpha * scale);
        e.select(positive, above, below)
    })
}

/// `log(1 + exp(βx)) / β`, the identity where βx passes the threshold.
pub fn softplus(e: &mut Emitter, x: V, beta: f64, threshold: f64) -> V {
    let inner = e.scale(x, beta);
    let linear = e.compare_to(Direction::Gt, inner, threshold);
    let exp = e.same(ops::Exponential::default(), &[inner]);
    let log = e.same(ops::LogPlusOne::default(), &[exp]);
    let beta = e.like(log, beta);
    let soft = e.div(log, beta);
    e.select(linear, x, soft)
}

/// `min(0, x) - log(1 + exp(-|x|))`.
pub fn log_sigmoid(e: &mut Emitter, x: V) -> V {
    let zero = e.like(x, 0.0);
    let low = e.min(zero, x);
    let size = e.same(ops::Abs {}, &[x]);
    let below = e.neg(size);
    let exp = e.same(ops::Exponential::default(), &[below]);
    let log = e.same(ops::LogPlusOne::default(), &[exp]);
    e.sub(low, log)
}

fn prelu(cx: &mut Cx<'_>) -> Res {
    let (x, weight) = (cx.tensor("self")?, cx.tensor("weight")?);
    let dims = cx.e.dims(x);
    let count: i64 = cx.e.dims(weight).iter().product();
    let weight = if cx.e.rank(weight) == dims.len() && count != 1 {
        cx.e.broadcast_to(weight, &dims)
    } else if count == 1 {
        let flat = cx.e.reshape(weight, &[]);
        cx.e.broadcast_in(flat, &dims, &[])
    } else {
        let flat = cx.e.reshape(weight, &[count]);
        cx.e.broadcast_in(flat, &dims, &[1])
    };
    let positive = cx.e.compare_to(Direction::Gt, x, 0.0);
    let below = cx.e.mul(x, weight);
    Ok(cx.e.select(positive, x, below).into())
}

/// Along one axis, as a composite: its derivative is made from its result.
pub fn softmax_of(e: &mut Emitter, x: V, at: usize, log: bool) -> Res<V> {
    let name = if log { "aten.log_softmax" } else { "aten.softmax" };
    let attributes = attrs([("dim", crate::cx::attr_i(at as i64))]);
    let outs = e.composite(name, attributes, &[x], |e, args| {
        let dtype = e.dtype(args[0]);
        let x = e.convert(args[0], promote::wide(dtype));
        let y = shifted(e, x, at, log);
        Ok(vec![e.convert(y, dtype)])
    })?;
    Ok(outs[0])
}

/// Shifted by the maximum, so that nothing overflows.
fn shifted(e: &mut Emitter, x: V, at: usize, log: bool) -> V {
    let dims = e.dims(x);
    if dims.is_empty() {
        return e.like(x, if log { 0.0 } else { 1.0 });
    }
    let kept: Vec<usize> = (0..dims.len()).filter(|axis| *axis != at).collect();
    let top = e.reduce(x, Fold::Max, &[at]);
    let top = e.broadcast_in(top, &dims, &kept);
    let low = e.sub(x, top);
    let exp = e.same(ops::Exponential::default(), &[low]);
    let sum = e.reduce(exp, Fold::Add, &[at]);
    if log {
        let sum = e.same(ops::Log::default(), &[sum]);
        let sum = e.broadcast_in(sum, &dims, &kept);
        return e.sub(low, sum);
    }
    let sum = e.broadcast_in(sum, &dims, &kept);
    e.div(exp, sum)
}

fn softmax(cx: &mut Cx<'_>, log: bool, dtype: &str) -> Res {
    let x = cx.tensor("self")?;
    let asked = if dtype.is_empty() { None } else { cx.dtype(dtype)? };
    let asked = asked.unwrap_or(promote::to_float(cx.e.dtype(x), cx.default));
    let x = cx.e.convert(x, asked);
    let at = axis(cx.int("dim")?, cx.e.rank(x))?;
    Ok(Out::New(softmax_of(&mut cx.e, x, at, log)?))
}
