//! Derivatives of reductions.

use super::reduce::Reduce;
use super::{Direction, Op};
use crate::build::{Emitter, Fold, V};
use crate::derive::{Derive, Derived, Why};
use crate::ir::{DType, Def, RegionId};

/// What a reduction's body does to two elements, if it is one of the plain functions.
pub(crate) fn fold_of(e: &Emitter, region: RegionId) -> Option<Fold> {
    let graph = e.graph();
    let arguments: Vec<V> = graph.arguments(region).collect();
    let [a, b] = arguments[..] else { return None };
    let [yielded] = *graph.yields(region) else { return None };
    let Def::Result(node, _) = graph.def(yielded) else { return None };
    let operands = graph.operands(node);
    if operands != [a, b] && operands != [b, a] {
        return None;
    }
    match graph.node(node).op {
        Op::Add(_) => Some(Fold::Add),
        Op::Multiply(_) => Some(Fold::Mul),
        Op::Maximum(_) => Some(Fold::Max),
        Op::Minimum(_) => Some(Fold::Min),
        _ => None,
    }
}

pub(crate) fn of_reduce(op: &Reduce, d: &mut Derive<'_>) -> Derived {
    let region = d.regions()[0];
    let axes: Vec<usize> = op.dimensions.iter().map(|axis| *axis as usize).collect();
    let count = d.operands().len() / 2;
    if count == 2 && chooses(d.e, region) {
        return of_choice(d, &axes);
    }
    let Some(fold) = fold_of(d.e, region).filter(|_| count == 1) else {
        return Err("reduces by a function that has no derivative here".into());
    };
    let (x, y) = (d.operand(0), d.result(0));
    let back = Back::new(d.e, x, &axes);
    d.one(0, |e, g| match fold {
        Fold::Mul => back.product(e, x, g),
        Fold::Max | Fold::Min => back.extreme(e, x, y, g),
        _ => back.spread(e, g),
    })?;
    if d.wants(1) {
        initial(d, fold)?;
    }
    Ok(())
}

/// The cotangent of where a reduction starts: every result has it in.
fn initial(d: &mut Derive<'_>, fold: Fold) -> Result<(), Why> {
    if fold != Fold::Add {
        return Err("is differentiated by its initial value".into());
    }
    d.one(1, |e, g| {
        let all: Vec<usize> = (0..e.rank(g)).collect();
        e.reduce(g, Fold::Add, &all)
    })
}

/// The way from a reduced shape back.
struct Back {
    dims: Vec<i64>,
    axes: Vec<usize>,
    kept: Vec<usize>,
}

impl Back {
    fn new(e: &Emitter, x: V, axes: &[usize]) -> Self {
        let dims = e.dims(x).to_vec();
        let kept = (0..dims.len()).filter(|axis| !axes.contains(axis)).collect();
        Self { dims, axes: axes.to_vec(), kept }
    }

    fn spread(&self, e: &mut Emitter, value: V) -> V {
        e.broadcast_in(value, &self.dims, &self.kept)
    }

    /// Equals share the cotangent evenly, and so do NaNs, which are any extreme.
    fn extreme(&self, e: &mut Emitter, x: V, y: V, g: V) -> V {
        let top = self.spread(e, y);
        let hit = e.equal(x, top);
        let nan = e.compare(Direction::Ne, x, x);
        let hit = e.same(super::Or {}, &[hit, nan]);
        let dtype = e.dtype(g);
        let ones = e.convert(hit, dtype);
        let count = e.reduce(ones, Fold::Add, &self.axes);
        let share = e.div(g, count);
        let share = self.spread(e, share);
        e.mul(share, ones)
    }

    /// The product of all others, without dividing by zeros.
    fn product(&self, e: &mut Emitter, x: V, g: V) -> V {
        let zero = e.compare_to(Direction::Eq, x, 0.0);
        let one = e.like(x, 1.0);
        let filled = e.select(zero, one, x);
        let product = e.reduce(filled, Fold::Mul, &self.axes);
        let part = if e.dtype(x).is_complex() { e.dtype(x).part() } else { e.dtype(x) };
        let zeros = e.convert(zero, part);
        let zeros = e.reduce(zeros, Fold::Add, &self.axes);
        let (none, single) =
            (e.compare_to(Direction::Eq, zeros, 0.0), e.compare_to(Direction::Eq, zeros, 1.0));
        let (none, single) = (self.spread(e, none), self.spread(e, single));
        let product = self.spread(e, product);
        let others = e.div(product, filled);
        let alone = e.same(super::And {}, &[single, zero]);
        let slope = e.where_else_zero(alone, product);
        let slope = e.select(none, others, slope);
        let slope = e.conj(slope);
        let g = self.spread(e, g);
        e.mul(g, slope)
    }
}

/// Whether a body takes both values of a pair from the same side: an extreme and its place.
fn chooses(e: &Emitter, region: RegionId) -> bool {
    let graph = e.graph();
    let selects: Vec<V> = graph
        .yields(region)
        .iter()
        .filter_map(|value| match graph.def(*value) {
            Def::Result(node, _) if matches!(graph.node(node).op, Op::Select(_)) => {
                Some(graph.operands(node)[0])
            }
            _ => None,
        })
        .collect();
    selects.len() == 2 && selects[0] == selects[1]
}

/// The element whose place was chosen gets it all.
fn of_choice(d: &mut Derive<'_>, axes: &[usize]) -> Derived {
    let (x, places, chosen) = (d.operand(0), d.operand(1), d.result(1));
    if d.e.dtype(places) != DType::S64 && !d.e.dtype(places).is_int() {
        return Err("chooses by what is no place".into());
    }
    let Some(g) = d.cotangent(0) else { return Ok(()) };
    if d.wants(0) {
        let back = Back::new(d.e, x, axes);
        let chosen = back.spread(d.e, chosen);
        let hit = d.e.equal(places, chosen);
        let g = back.spread(d.e, g);
        let own = d.e.where_else_zero(hit, g);
        d.give(0, own);
    }
    Ok(())
}
