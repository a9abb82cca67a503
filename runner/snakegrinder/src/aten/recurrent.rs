//! Recurrent layers. A layer is a loop over time; what does not depend on the hidden state, the
//! product of the inputs, is taken for all times before it. The gates come in PyTorch's order,
//! and every step rounds to the tensors' type as PyTorch's separate operators do.

use warpforge_pt2::Node;
use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{Attr, DType, Dict};

use super::Lower;
use super::activation::relu;
use super::math::{sigmoid, tanh};
use super::matmul::linear_of;
use super::random::{attention_state, keep_mask};
use crate::cx::{Cx, Out, Res, attr_f, attr_i, element, refuse};
use crate::promote;
use warpforge_snakeburger::build::{Emitter, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::gru", |cx| network(cx, Kind::Gru)),
    ("aten::gru_cell", |cx| cell(cx, Kind::Gru)),
    ("aten::lstm", |cx| network(cx, Kind::Lstm)),
    ("aten::lstm_cell", |cx| cell(cx, Kind::Lstm)),
    ("aten::rnn_relu", |cx| network(cx, Kind::Relu)),
    ("aten::rnn_relu_cell", |cx| cell(cx, Kind::Relu)),
    ("aten::rnn_tanh", |cx| network(cx, Kind::Tanh)),
    ("aten::rnn_tanh_cell", |cx| cell(cx, Kind::Tanh)),
];

/// Whether a call drops elements between its layers.
pub fn draws(node: &Node) -> bool {
    use warpforge_pt2::{Arg, Call};
    let Call::Op { name, .. } = &node.call else { return false };
    ["aten::gru", "aten::lstm", "aten::rnn_relu", "aten::rnn_tanh"].contains(&&**name)
        && matches!(node.arg("train"), Some(Arg::Bool(true)))
        && matches!(node.arg("dropout"), Some(Arg::Float(p)) if *p > 0.0)
        && matches!(node.arg("num_layers"), Some(Arg::Int(layers)) if *layers > 1)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Lstm => "aten.lstm",
            Kind::Gru => "aten.gru",
            Kind::Tanh => "aten.rnn_tanh",
            Kind::Relu => "aten.rnn_relu",
        }
    }

    fn states(self) -> usize {
        if self == Kind::Lstm { 2 } else { 1 }
    }
}

/// The parameters of one layer in one direction.
#[derive(Clone, Copy)]
struct Weights {
    input: V,
    hidden: V,
    biases: Option<(V, V)>,
    projection: Option<V>,
}

/// What all layers of a call have in common.
#[derive(Clone, Copy)]
struct Plan {
    kind: Kind,
    biases: bool,
    layers: usize,
    directions: usize,
    batch_first: bool,
    /// The type `torch.autocast` has matrix products done in.
    lower: Option<DType>,
    dropout: f64,
}

fn network(cx: &mut Cx<'_>, kind: Kind) -> Res {
    if cx.given("batch_sizes") {
        return refuse("reads a packed sequence, whose lengths are known only when it runs");
    }
    let x = cx.tensor("input")?;
    let hidden = if kind == Kind::Lstm { cx.tensors("hx")? } else { vec![cx.tensor("hx")?] };
    let weights = cx.tensors("params")?;
    let (layers, bidirectional) = (cx.int("num_layers")?, cx.bool("bidirectional")?);
    let (batch_first, biases) = (cx.bool("batch_first")?, cx.bool("has_biases")?);
    let dropout = if cx.bool("train")? && layers > 1 { cx.float("dropout")? } else { 0.0 };
    let lower = lower_type(cx)?;
    let plan = Plan {
        kind,
        biases,
        layers: layers.max(0) as usize,
        directions: 1 + usize::from(bidirectional),
        batch_first,
        lower,
        dropout,
    };
    if cx.e.rank(x) != 3 || hidden.len() != kind.states() {
        return refuse("takes a sequence of batches and the state before it");
    }
    let mut operands = vec![x];
    operands.extend(&hidden);
    operands.extend(&weights);
    if dropout > 0.0 {
        operands.push(attention_state(cx)?);
    }
    let outs =
        cx.composite(kind.name(), attributes(&plan), &operands, |e, args| run(e, plan, args))?;
    Ok(Out::many(outs))
}

fn attributes(plan: &Plan) -> Dict {
    let mut list: Dict = vec![
        ("batch_first".into(), Attr::Bool(plan.batch_first)),
        ("bidirectional".into(), Attr::Bool(plan.directions == 2)),
        ("has_biases".into(), Attr::Bool(plan.biases)),
        ("num_layers".into(), attr_i(plan.layers as i64)),
    ];
    if let Some(lower) = plan.lower {
        list.push(("autocast".into(), Attr::Str(lower.to_string().into())));
    }
    if plan.dropout > 0.0 {
        list.push(("dropout".into(), attr_f(plan.dropout)));
    }
    list
}

/// The type matrix products are done in where `torch.autocast` says so. The network itself is no
/// operator that is cast; the products inside it are.
fn lower_type(cx: &Cx<'_>) -> Res<Option<DType>> {
    match &cx.node.mode.autocast {
        Some(autocast) if autocast.enabled && &*autocast.device == "cpu" => {
            autocast.dtype.map_or(Ok(DType::BF16), element).map(Some)
        }
        _ => Ok(None),
    }
}

fn run(e: &mut Emitter, plan: Plan, args: &[V]) -> Res<Vec<V>> {
    let states = plan.kind.states();
    let hidden = &args[1..=states];
    let rest = &args[1 + states..];
    let projected = plan.kind == Kind::Lstm && e.dims(hidden[0])[2] != e.dims(hidden[1])[2];
    let per = 2 + 2 * usize::from(plan.biases) + usize::from(projected);
    let count = plan.layers * plan.directions;
    if rest.len() < per * count {
        return refuse(format!("has {} parameters for {count} layers of {per}", rest.len()));
    }
    let mut x = if plan.batch_first { e.swap(args[0], 0, 1) } else { args[0] };
    let mut lasts: Vec<Vec<V>> = vec![Vec::new(); states];
    let mask = match rest.get(per * count) {
        Some(state) if plan.dropout > 0.0 => {
            // One draw for all layers: the mask of each is its part of it.
            let features = e.dims(hidden[0])[2] * plan.directions as i64;
            let drawn = [plan.layers as i64 - 1, e.dims(x)[0], e.dims(x)[1], features];
            Some(keep_mask(e, *state, &drawn, plan.dropout))
        }
        _ => None,
    };
    for layer in 0..plan.layers {
        let mut outputs = Vec::new();
        for direction in 0..plan.directions {
            let at = layer * plan.directions + direction;
            let weights = weights(&rest[at * per..(at + 1) * per], plan.biases, projected);
            let start: Vec<V> = hidden
                .iter()
                .map(|state| {
                    let own = e.slice_axis(*state, 0, at as i64, at as i64 + 1, 1);
                    let dims = e.dims(own)[1..].to_vec();
                    e.reshape(own, &dims)
                })
                .collect();
            let (output, last) = layer_of(e, plan, x, &start, weights, direction == 1)?;
            outputs.push(output);
            lasts.iter_mut().zip(last).for_each(|(list, state)| list.push(state));
        }
        let last = e.rank(outputs[0]) - 1;
        x = e.concat(&outputs, last);
        if let Some(mask) = mask.filter(|_| layer + 1 < plan.layers) {
            let mask = e.slice_axis(mask, 0, layer as i64, layer as i64 + 1, 1);
            let dims = e.dims(x);
            let mask = e.reshape(mask, &dims);
            x = drop(e, x, mask, plan.dropout);
        }
    }
    if plan.batch_first {
        x = e.swap(x, 0, 1);
    }
    let mut outs = vec![x];
    for list in lasts {
        let rows: Vec<V> = list.iter().map(|state| e.unsqueeze(*state, &[0])).collect();
        outs.push(e.concat(&rows, 0));
    }
    Ok(outs)
}

fn weights(list: &[V], biases: bool, projected: bool) -> Weights {
    Weights {
        input: list[0],
        hidden: list[1],
        biases: biases.then(|| (list[2], list[3])),
        projection: projected.then(|| list[list.len() - 1]),
    }
}

/// As PyTorch: the mask is scaled in the tensor's own type, then multiplied.
fn drop(e: &mut Emitter, x: V, mask: V, p: f64) -> V {
    let dtype = e.dtype(x);
    let (dims, zero) = (e.dims(x), e.like(x, 0.0));
    let scale = if p >= 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
    let scale = e.float(&dims, promote::wide(dtype), scale);
    let scale = e.convert(scale, dtype);
    let factor = e.select(mask, scale, zero);
    e.mul(x, factor)
}

/// One layer in one direction: its outputs, and the state after it.
fn layer_of(
    e: &mut Emitter,
    plan: Plan,
    x: V,
    start: &[V],
    weights: Weights,
    reversed: bool,
) -> Res<(V, Vec<V>)> {
    let times = e.dims(x)[0];
    let gates = linear(e, plan.lower, x, weights.input, weights.biases.map(|(b, _)| b))?;
    let mut start = start.to_vec();
    if let Some(lower) = plan.lower {
        // What the first step makes of the state's type, every later one keeps.
        let narrow = matches!(plan.kind, Kind::Tanh | Kind::Relu) || weights.projection.is_some();
        if narrow {
            start[0] = e.convert(start[0], lower);
        }
    }
    let mut dims = vec![times];
    dims.extend(e.dims(start[0]).iter());
    let dtype = e.dtype(start[0]);
    let outputs = e.full(&dims, dtype, Num::F(0.0));
    start.push(outputs);
    let mut ends = e.count(times, &start, |e, i, state| {
        let at = if reversed {
            let last = e.like(i, times as f64 - 1.0);
            e.sub(last, i)
        } else {
            i
        };
        let now = e.pick_at(gates, 0, at);
        let (states, outputs) = (&state[..state.len() - 1], state[state.len() - 1]);
        let mut next = step(e, plan, now, states, weights)?;
        let row = e.unsqueeze(next[0], &[0]);
        next.push(e.put_at(outputs, row, 0, at));
        Ok(next)
    })?;
    let outputs = ends.pop();
    match outputs {
        Some(outputs) => Ok((outputs, ends)),
        None => refuse("has no outputs"),
    }
}

fn linear(e: &mut Emitter, lower: Option<DType>, x: V, weight: V, bias: Option<V>) -> Res<V> {
    let mut operands = vec![x, weight];
    operands.extend(bias);
    if let Some(lower) = lower {
        operands = operands.into_iter().map(|value| e.convert(value, lower)).collect();
    }
    linear_of(e, &operands)
}

/// Two operands in the wider of their types; they differ under `torch.autocast` only.
fn meet(e: &mut Emitter, a: V, b: V) -> (V, V) {
    let parts = [a, b].map(|value| promote::Part::Tensor(e.dtype(value)));
    let dtype = promote::promote(&parts, DType::F32);
    (e.convert(a, dtype), e.convert(b, dtype))
}

fn add(e: &mut Emitter, a: V, b: V) -> V {
    let (a, b) = meet(e, a, b);
    e.add(a, b)
}

fn mul(e: &mut Emitter, a: V, b: V) -> V {
    let (a, b) = meet(e, a, b);
    e.mul(a, b)
}

/// The next state from the gates of the input and the state before.
fn step(e: &mut Emitter, plan: Plan, now: V, state: &[V], weights: Weights) -> Res<Vec<V>> {
    let lower = plan.lower;
    let own = linear(e, lower, state[0], weights.hidden, weights.biases.map(|(_, b)| b))?;
    Ok(match plan.kind {
        Kind::Tanh | Kind::Relu => {
            let sum = add(e, own, now);
            vec![if plan.kind == Kind::Tanh { tanh(e, sum) } else { relu(e, sum) }]
        }
        Kind::Gru => {
            let (own, now) = (chunks(e, own, 3), chunks(e, now, 3));
            let (reset, input) = (add(e, own[0], now[0]), add(e, own[1], now[1]));
            let (reset, input) = (sigmoid(e, reset), sigmoid(e, input));
            let kept = mul(e, own[2], reset);
            let new = add(e, now[2], kept);
            let new = tanh(e, new);
            let (old, new) = meet(e, state[0], new);
            let change = e.sub(old, new);
            let change = mul(e, change, input);
            vec![add(e, change, new)]
        }
        Kind::Lstm => {
            let sum = add(e, own, now);
            let gates = chunks(e, sum, 4);
            let (input, forget) = (sigmoid(e, gates[0]), sigmoid(e, gates[1]));
            let (new, output) = (tanh(e, gates[2]), sigmoid(e, gates[3]));
            let (old, new) = (mul(e, forget, state[1]), mul(e, input, new));
            let memory = add(e, old, new);
            let bend = tanh(e, memory);
            let mut hidden = mul(e, output, bend);
            if let Some(projection) = weights.projection {
                hidden = linear(e, lower, hidden, projection, None)?;
            }
            vec![hidden, memory]
        }
    })
}

/// Equal parts of the last axis.
fn chunks(e: &mut Emitter, x: V, count: i64) -> Vec<V> {
    let last = e.rank(x) - 1;
    let size = e.dims(x)[last] / count;
    (0..count).map(|i| e.slice_axis(x, last, i * size, (i + 1) * size, 1)).collect()
}

fn cell(cx: &mut Cx<'_>, kind: Kind) -> Res {
    let x = cx.tensor("input")?;
    let state = if kind == Kind::Lstm { cx.tensors("hx")? } else { vec![cx.tensor("hx")?] };
    if state.len() != kind.states() {
        return refuse("takes another number of states");
    }
    let (input, hidden) = (cx.tensor("w_ih")?, cx.tensor("w_hh")?);
    let biases = match (cx.maybe_tensor("b_ih")?, cx.maybe_tensor("b_hh")?) {
        (Some(a), Some(b)) => Some((a, b)),
        _ => None,
    };
    let weights = Weights { input, hidden, biases, projection: None };
    let plan = Plan {
        kind,
        biases: biases.is_some(),
        layers: 1,
        directions: 1,
        batch_first: false,
        lower: lower_type(cx)?,
        dropout: 0.0,
    };
    let e = &mut cx.e;
    let now = linear(e, plan.lower, x, input, biases.map(|(b, _)| b))?;
    let next = step(e, plan, now, &state, weights)?;
    Ok(if kind == Kind::Lstm { Out::many(next) } else { next[0].into() })
}
