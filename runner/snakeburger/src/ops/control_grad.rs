//! Derivatives of branches and of loops that are counted. What happens inside is computed again on
//! the way back, where its values are at hand.

use rustc_hash::FxHashSet;

use super::Op;
use super::control::While;
use crate::build::{Emitter, V};
use crate::derive::{Derive, Derived, Why};
use crate::eval::Num;
use crate::ir::{DType, Def, Graph, NodeId, RegionId, TensorTy};

/// What an operation's regions read from around them, in order of first use.
pub fn captures(graph: &Graph, node: NodeId) -> Vec<V> {
    fn inside(graph: &Graph, region: RegionId, own: &mut FxHashSet<V>, read: &mut Vec<V>) {
        own.extend(graph.arguments(region));
        for id in &graph.region(region).nodes {
            read.extend(graph.operands(*id));
            graph.regions(*id).iter().for_each(|inner| inside(graph, *inner, own, read));
            own.extend(graph.results(*id));
        }
    }
    let (mut own, mut read) = (FxHashSet::default(), Vec::new());
    graph.regions(node).iter().for_each(|region| inside(graph, *region, &mut own, &mut read));
    let mut seen = FxHashSet::default();
    read.into_iter().filter(|value| !own.contains(value) && seen.insert(*value)).collect()
}

/// The values a node's regions read whose cotangents are wanted.
fn wanted(d: &Derive<'_>) -> Vec<V> {
    let captured = captures(d.e.graph(), d.node);
    captured.into_iter().filter(|value| d.driver.wants(*value)).collect()
}

/// The same choice among regions that compute the branches' cotangents.
pub(crate) fn of_branches<O: Clone + Into<Op>>(op: &O, d: &mut Derive<'_>) -> Derived {
    let captured = wanted(d);
    if captured.is_empty() {
        return Ok(());
    }
    let cotangents = d.cotangents().to_vec();
    let types: Vec<TensorTy> = captured.iter().map(|value| d.e.ty(*value).clone()).collect();
    let mut regions = Vec::new();
    for branch in d.regions() {
        let (open, _) = d.e.open(&[]);
        let yields = d.e.replay(branch, &[]);
        let seeds: Vec<(V, V)> =
            yields.iter().zip(&cotangents).filter_map(|(y, g)| Some((*y, (*g)?))).collect();
        let pulled = d.driver.pull(d.e, &seeds, &captured)?;
        let filled: Vec<V> = captured
            .iter()
            .enumerate()
            .map(|(i, value)| match pulled[i] {
                Some(cotangent) => cotangent,
                None => d.e.zeros_like(*value),
            })
            .collect();
        regions.push(d.e.close(open, &filled));
    }
    let when = d.operand(0);
    let outs = d.e.push_many(op.clone(), &[when], &types, &regions);
    for (value, cotangent) in captured.into_iter().zip(outs) {
        d.give_to(value, cotangent);
    }
    Ok(())
}

/// How often a loop runs, if it counts from zero to a number known beforehand.
fn turns(e: &Emitter, node: NodeId) -> Option<i64> {
    let graph = e.graph();
    let [condition, body] = *graph.regions(node) else { return None };
    let whole = |value: V| e.splat(value).filter(|n| n.fract() == 0.0).map(|n| n as i64);
    if whole(*graph.operands(node).first()?)? != 0 {
        return None;
    }
    let made = |value: V| match graph.def(value) {
        Def::Result(node, _) => Some((&graph.node(node).op, graph.operands(node))),
        Def::Argument(..) => None,
    };
    let (Op::Compare(test), [counter, end]) = made(*graph.yields(condition).first()?)? else {
        return None;
    };
    let counts = Some(*counter) == graph.arguments(condition).next();
    if !counts || test.comparison_direction != super::Direction::Lt {
        return None;
    }
    let (Op::Add(_), [counter, step]) = made(*graph.yields(body).first()?)? else { return None };
    let counts = Some(*counter) == graph.arguments(body).next() && whole(*step)? == 1;
    counts.then(|| whole(*end)).flatten()
}

/// A counted loop runs again with its states written down, then backward over them.
pub(crate) fn of_while(_: &While, d: &mut Derive<'_>) -> Derived {
    let Some(count) = turns(d.e, d.node) else {
        return Err("runs for a number of turns that is not known".into());
    };
    let body = d.regions()[1];
    let start = d.operands()[1..].to_vec();
    let captured = wanted(d);
    let floats: Vec<usize> = (0..start.len())
        .filter(|i| {
            let dtype = d.e.dtype(start[*i]);
            dtype.is_float() || dtype.is_complex()
        })
        .collect();
    let history = record(d.e, body, &start, count)?;
    // The state of the way back: a cotangent of each float of the state and of what is captured.
    let mut state: Vec<V> = Vec::new();
    for i in &floats {
        let cotangent = d.cotangent(i + 1);
        state.push(match cotangent {
            Some(cotangent) => cotangent,
            None => d.e.zeros_like(start[*i]),
        });
    }
    for value in &captured {
        state.push(d.e.zeros_like(*value));
    }
    let driver = &mut *d.driver;
    let outs = d.e.count(count, &state, |e, step, state| {
        let last = e.full(&[], DType::S64, Num::I(count - 1));
        let at = e.sub(last, step);
        let counter = e.dtype(e.graph().arguments(body).next().unwrap_or(at));
        let mut arguments = vec![e.convert(at, counter)];
        for rows in &history {
            arguments.push(e.pick_at(*rows, 0, at));
        }
        let yields = e.replay(body, &arguments);
        let seeds: Vec<(V, V)> =
            floats.iter().zip(state).map(|(i, g)| (yields[i + 1], *g)).collect();
        let mut wrt: Vec<V> = floats.iter().map(|i| arguments[i + 1]).collect();
        wrt.extend(&captured);
        let pulled = driver.pull(e, &seeds, &wrt)?;
        let mut next = Vec::new();
        for (i, cotangent) in pulled.into_iter().enumerate() {
            next.push(match (cotangent, i < floats.len()) {
                (Some(cotangent), true) => cotangent,
                (None, true) => e.zeros_like(state[i]),
                (Some(cotangent), false) => e.add(state[i], cotangent),
                (None, false) => state[i],
            });
        }
        Ok::<_, Why>(next)
    })?;
    for (k, i) in floats.iter().enumerate() {
        if d.wants(i + 1) {
            d.give(i + 1, outs[k]);
        }
    }
    for (value, cotangent) in captured.into_iter().zip(&outs[floats.len()..]) {
        d.give_to(value, *cotangent);
    }
    Ok(())
}

/// The state before each turn, one row each.
fn record(e: &mut Emitter, body: RegionId, start: &[V], count: i64) -> Result<Vec<V>, Why> {
    let mut all = start.to_vec();
    for value in start {
        let ty = e.ty(*value).clone();
        let dims: Vec<i64> = [count].iter().chain(ty.dims.iter()).copied().collect();
        all.push(e.zeros(&dims, ty.elem.storage()));
    }
    let outs = e.count(count, &all, |e, step, state| {
        let (now, rows) = state.split_at(start.len());
        let counter = e.dtype(e.graph().arguments(body).next().unwrap_or(step));
        let mut arguments = vec![e.convert(step, counter)];
        arguments.extend(now);
        let mut next = e.replay(body, &arguments);
        next.remove(0);
        for (rows, value) in rows.iter().zip(now) {
            let row = e.unsqueeze(*value, &[0]);
            next.push(e.put_at(*rows, row, 0, step));
        }
        Ok::<_, Why>(next)
    })?;
    Ok(outs[start.len()..].to_vec())
}
