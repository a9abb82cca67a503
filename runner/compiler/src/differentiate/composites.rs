//! Derivatives of composites: a composite again, `NAME_backward`, whose meaning is beside it.
//!
//! By default that meaning is the composite's own with its derivative, less what the derivative
//! does not need. A few have a rule of their own, where PyTorch's differs from the derivative of
//! what they are made of, or where a result of the forward pass saves computing it again.

use warpforge_snakeburger::build::{Emitter, Fold, V};
use warpforge_snakeburger::derive::{Called, Driver, Why};
use warpforge_snakeburger::ir::{AttrValue, DType, Dict, Ints, lookup};
use warpforge_snakeburger::ops::{self, Direction};

/// A composite's call inside the function that computes its derivative.
struct Call<'a> {
    attributes: &'a Dict,
    operands: &'a [V],
    results: &'a [V],
    cotangents: &'a [Option<V>],
}

/// Cotangents of the operands, none where nothing flows.
type Rule = fn(&mut Emitter, &Call<'_>) -> Option<Vec<Option<V>>>;

/// The composites that have a rule of their own. One that declines leaves it to the default.
const RULES: &[(&str, Rule)] = &[
    ("aten.dropout", dropout),
    ("aten.embedding", embedding),
    ("aten.layer_norm", layer_norm),
    ("aten.log_softmax", |e, call| softmax(e, call, true)),
    ("aten.softmax", |e, call| softmax(e, call, false)),
];

/// The cotangents of a call's operands.
pub fn derive(
    driver: &mut dyn Driver,
    e: &mut Emitter,
    call: &Called<'_>,
) -> Result<Vec<(usize, V)>, Why> {
    let given: Vec<usize> =
        (0..call.cotangents.len()).filter(|i| call.cotangents[*i].is_some()).collect();
    let wanted: Vec<usize> = (0..call.wanted.len()).filter(|i| call.wanted[*i]).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let (n, m) = (call.operands.len(), call.results.len());
    let mut all = [call.operands, call.results].concat();
    all.extend(call.cotangents.iter().flatten());
    let name = match call.name.contains('.') {
        true => format!("{}_backward", call.name),
        false => format!("warpforge.{}_backward", call.name),
    };
    let variant = format!("{} {given:?} {wanted:?}", call.function);
    let body = |e: &mut Emitter, args: &[V]| -> Result<Vec<V>, Why> {
        let mut cotangents = vec![None; m];
        for (k, i) in given.iter().enumerate() {
            cotangents[*i] = Some(args[n + m + k]);
        }
        let inner = Call {
            attributes: call.attributes,
            operands: &args[..n],
            results: &args[n..n + m],
            cotangents: &cotangents,
        };
        let rule = RULES.iter().find(|(name, _)| *name == call.name);
        let own = rule.and_then(|(_, rule)| rule(e, &inner));
        let found: Vec<Option<V>> = match own {
            Some(found) => wanted.iter().map(|i| found[*i]).collect(),
            None => by_meaning(driver, e, call.function, &inner, &wanted)?,
        };
        let filled = found.into_iter().zip(&wanted);
        Ok(filled.map(|(value, i)| value.unwrap_or_else(|| e.zeros_like(args[*i]))).collect())
    };
    let outs = e.lean_composite(&name, call.attributes.clone(), &variant, &all, body)?;
    Ok(wanted.iter().copied().zip(outs).collect())
}

/// What the composite is made of, and back through that.
fn by_meaning(
    driver: &mut dyn Driver,
    e: &mut Emitter,
    function: &str,
    call: &Call<'_>,
    wanted: &[usize],
) -> Result<Vec<Option<V>>, Why> {
    let Some(results) = e.expand(function, call.operands) else {
        return Err(format!("calls @{function}, which has no body"));
    };
    let seeds: Vec<(V, V)> =
        results.into_iter().zip(call.cotangents).filter_map(|(y, g)| Some((y, (*g)?))).collect();
    let wrt: Vec<V> = wanted.iter().map(|i| call.operands[*i]).collect();
    driver.pull(e, &seeds, &wrt)
}

fn attribute<T: AttrValue>(call: &Call<'_>, name: &str) -> Option<T> {
    lookup(call.attributes, name).and_then(T::from_attr)
}

/// The type narrow floats are computed in.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::BF16 | DType::F16 => DType::F32,
        other => other,
    }
}

/// From the result: `y · (g - Σ y g)`, and of the logarithm `g - exp(y) · Σ g`.
fn softmax(e: &mut Emitter, call: &Call<'_>, log: bool) -> Option<Vec<Option<V>>> {
    let axis = usize::try_from(attribute::<i64>(call, "dim")?).ok()?;
    let (y, g) = (call.results[0], call.cotangents[0]?);
    let dtype = e.dtype(y);
    let dims = e.dims(y);
    if dims.is_empty() {
        return Some(vec![None]);
    }
    let kept: Vec<usize> = (0..dims.len()).filter(|other| *other != axis).collect();
    let (y, g) = (e.convert(y, wide(dtype)), e.convert(g, wide(dtype)));
    let dx = if log {
        let sum = e.reduce(g, Fold::Add, &[axis]);
        let sum = e.broadcast_in(sum, &dims, &kept);
        let exp = e.same(ops::Exponential::default(), &[y]);
        let part = e.mul(exp, sum);
        e.sub(g, part)
    } else {
        let product = e.mul(y, g);
        let sum = e.reduce(product, Fold::Add, &[axis]);
        let sum = e.broadcast_in(sum, &dims, &kept);
        let low = e.sub(g, sum);
        e.mul(low, y)
    };
    Some(vec![Some(e.convert(dx, dtype))])
}

/// The mask is a result of the forward pass; the random bits are not drawn again.
fn dropout(e: &mut Emitter, call: &Call<'_>) -> Option<Vec<Option<V>>> {
    let p: f64 = attribute(call, "p")?;
    let (mask, g) = (*call.results.get(1)?, call.cotangents[0]?);
    let (dims, dtype) = (e.dims(g), e.dtype(g));
    let scale = if p >= 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
    let scale = e.float(&dims, wide(dtype), scale);
    let scale = e.convert(scale, dtype);
    let factor = e.where_else_zero(mask, scale);
    Some(vec![Some(e.mul(g, factor)), None])
}

/// One scatter into zeros; the row of padding learns nothing.
fn embedding(e: &mut Emitter, call: &Call<'_>) -> Option<Vec<Option<V>>> {
    let (table, indices, g) = (call.operands[0], call.operands[1], call.cotangents[0]?);
    let dims = e.dims(g);
    let rows = e.rank(indices);
    let mut g = g;
    if let Some(padding) = attribute::<i64>(call, "padding_idx") {
        let padding = e.compare_to(Direction::Eq, indices, padding as f64);
        let axes: Vec<usize> = (0..rows).collect();
        let padding = e.broadcast_in(padding, &dims, &axes);
        g = e.where_then_zero(padding, g);
    }
    if attribute::<bool>(call, "scale_grad_by_freq") == Some(true) {
        let (sizes, count) = (e.dims(table), e.dims(indices).iter().product());
        let flat = e.reshape(indices, &[count]);
        let (none, ones) = (e.zeros(&sizes[..1], e.dtype(g)), e.float(&[count], e.dtype(g), 1.0));
        let times = e.scatter_at(none, &[0], &[flat], 0, ones, Some(Fold::Add));
        let times = e.take(times, 0, indices);
        let axes: Vec<usize> = (0..rows).collect();
        let times = e.broadcast_in(times, &dims, &axes);
        g = e.div(g, times);
    }
    let zeros = e.zeros_like(table);
    let table = e.scatter_at(zeros, &[0], &[indices], 0, g, Some(Fold::Add));
    Some(vec![Some(table), None])
}

/// `rstd · (ĝ - mean ĝ - x̂ · mean(ĝ x̂))`, where ĝ is the cotangent times the weight.
fn layer_norm(e: &mut Emitter, call: &Call<'_>) -> Option<Vec<Option<V>>> {
    let eps: f64 = attribute(call, "eps")?;
    let shape: Ints = attribute(call, "normalized_shape")?;
    // With two operands it is not said which of weight and bias is there.
    let affine = match call.operands.len() {
        1 => false,
        3 => true,
        _ => return None,
    };
    if call.cotangents.iter().skip(1).any(Option::is_some) {
        return None;
    }
    let (x, g) = (call.operands[0], call.cotangents[0]?);
    let dtype = e.dtype(x);
    let dims = e.dims(x);
    let own: Vec<usize> = (dims.len() - shape.len()..dims.len()).collect();
    let rows: Vec<usize> = (0..dims.len() - shape.len()).collect();
    let (x, g) = (e.convert(x, wide(dtype)), e.convert(g, wide(dtype)));
    let count: i64 = shape.iter().product();
    let mean = |e: &mut Emitter, value: V| {
        let sum = e.reduce(value, Fold::Add, &own);
        let count = e.like(sum, count as f64);
        e.div(sum, count)
    };
    let spread = |e: &mut Emitter, value: V| e.broadcast_in(value, &dims, &rows);
    let middle = mean(e, x);
    let middle = spread(e, middle);
    let low = e.sub(x, middle);
    let square = e.mul(low, low);
    let variance = mean(e, square);
    let variance = e.shift(variance, eps);
    let rstd = e.same(ops::Rsqrt::default(), &[variance]);
    let rstd = spread(e, rstd);
    let hat = e.mul(low, rstd);
    let mut outs = vec![None];
    let mut scaled = g;
    if affine {
        let weight = e.convert(call.operands[1], wide(dtype));
        let weight = e.broadcast_in(weight, &dims, &own);
        scaled = e.mul(g, weight);
        let product = e.mul(g, hat);
        for (value, like) in [(product, call.operands[1]), (g, call.operands[2])] {
            let sum = e.reduce(value, Fold::Add, &rows);
            outs.push(Some(e.in_type_of(sum, like)));
        }
    }
    let product = e.mul(scaled, hat);
    let (first, second) = (mean(e, scaled), mean(e, product));
    let (first, second) = (spread(e, first), spread(e, second));
    let along = e.mul(hat, second);
    let rest = e.sub(scaled, first);
    let rest = e.sub(rest, along);
    let dx = e.mul(rest, rstd);
    outs[0] = Some(e.convert(dx, dtype));
    Some(outs)
}
