//! The walk back.

use rustc_hash::{FxHashMap, FxHashSet};
use warpforge_snakeburger::build::{Emitter, V};
use warpforge_snakeburger::derive::{Called, Derive, Driver, Why};
use warpforge_snakeburger::ir::NodeId;
use warpforge_snakeburger::ops::{Op, captures};

use super::composites;
use super::remat::Groups;
use super::{Error, Remat};

/// Appends the way back from a loss to the program being built: the cotangents of `wrt`, none for
/// a value the loss does not depend on. `seed` is the loss's own cotangent, and of its type.
///
/// Operations that were appended before, where the program stands now, are walked; so a step can
/// be built around it: forward first, then this, then what is done with the gradients. What is
/// computed in vain is left to [`prune`](warpforge_snakeburger::prune::prune).
pub fn backward(
    e: &mut Emitter,
    loss: V,
    seed: V,
    wrt: &[V],
    remat: &Remat,
) -> Result<Vec<Option<V>>, Error> {
    backward_from(e, &[(loss, seed)], wrt, remat)
}

/// The same from several values, each with its cotangent.
pub fn backward_from(
    e: &mut Emitter,
    seeds: &[(V, V)],
    wrt: &[V],
    remat: &Remat,
) -> Result<Vec<Option<V>>, Error> {
    let mut walk = Walk::default();
    match remat {
        Remat::Keep => {}
        Remat::Modules(prefixes) => {
            let nodes = e.graph().region(e.here()).nodes.clone();
            walk.groups = Groups::new(e, &nodes, prefixes);
        }
        Remat::Budget(_) => return Err(Error::Budget),
    }
    let pulled = walk.pull(e, seeds, wrt);
    pulled.map_err(|why| {
        walk.failed.unwrap_or(Error::NoDerivative {
            op: "the program".into(),
            location: "unknown".into(),
            why,
        })
    })
}

#[derive(Default)]
struct Walk {
    /// What is computed again; only of the outermost walk.
    groups: Groups,
    /// The values whose cotangents are wanted, of the region that is walked and those around it.
    wanted: Vec<FxHashSet<V>>,
    /// The innermost operation without a derivative.
    failed: Option<Error>,
}

impl Walk {
    /// Everything that depends on `wrt` in a way that a derivative can follow.
    fn dependent(e: &Emitter, nodes: &[NodeId], wrt: &[V]) -> FxHashSet<V> {
        let graph = e.graph();
        let mut all: FxHashSet<V> = wrt.iter().copied().collect();
        for id in nodes {
            let node = graph.node(*id);
            if !node.op.flows() || e.stops_gradient(*id) {
                continue;
            }
            let depends = graph.operands(*id).iter().any(|value| all.contains(value))
                || (!graph.regions(*id).is_empty()
                    && captures(graph, *id).iter().any(|value| all.contains(value)));
            if depends {
                all.extend(graph.results(*id).filter(|value| {
                    let dtype = e.dtype(*value);
                    dtype.is_float() || dtype.is_complex()
                }));
            }
        }
        all
    }

    fn wanted(&self, value: V) -> bool {
        self.wanted.last().is_some_and(|wanted| wanted.contains(&value))
    }

    fn node(
        &mut self,
        e: &mut Emitter,
        id: NodeId,
        mut cotangents: Vec<Option<V>>,
    ) -> Result<Vec<(V, V)>, Why> {
        let op = e.graph().node(id).op.clone();
        e.loc = e.graph().node(id).loc;
        let values = if self.wanted.len() == 1 {
            self.groups.recall(e, id, &mut cotangents)
        } else {
            [e.graph().operands(id).to_vec(), e.graph().results(id).collect()]
        };
        let mut d = Derive::new(e, id, values, cotangents, self);
        let outcome = op.derive(&mut d);
        let gifts = d.into_gifts();
        if let Err(why) = outcome {
            self.failed.get_or_insert_with(|| Error::NoDerivative {
                op: match &op {
                    Op::Composite(op) => op.name.to_string(),
                    op => op.name().to_owned(),
                },
                location: e.location(e.graph().node(id).loc),
                why: why.clone(),
            });
            return Err(why);
        }
        Ok(gifts)
    }
}

impl Driver for Walk {
    fn pull(
        &mut self,
        e: &mut Emitter,
        seeds: &[(V, V)],
        wrt: &[V],
    ) -> Result<Vec<Option<V>>, Why> {
        let nodes = e.graph().region(e.here()).nodes.clone();
        let loc = e.loc;
        self.wanted.push(Self::dependent(e, &nodes, wrt));
        let asked: FxHashSet<V> = wrt.iter().copied().collect();
        let mut cotangents: FxHashMap<V, V> = FxHashMap::default();
        for (value, cotangent) in seeds {
            add(e, &mut cotangents, *value, *cotangent);
        }
        for id in nodes.into_iter().rev() {
            let results: Vec<V> = e.graph().results(id).collect();
            let own: Vec<Option<V>> = results
                .iter()
                .map(|value| {
                    let found = cotangents.get(value).copied().filter(|_| self.wanted(*value));
                    if !asked.contains(value) {
                        cotangents.remove(value);
                    }
                    found
                })
                .collect();
            // Nothing flows into it, or nothing that is wanted lies beyond.
            if own.iter().all(Option::is_none) || !e.graph().node(id).op.flows() {
                continue;
            }
            for (value, cotangent) in self.node(e, id, own)? {
                if self.wanted(value) {
                    add(e, &mut cotangents, value, cotangent);
                }
            }
        }
        self.wanted.pop();
        e.loc = loc;
        Ok(wrt.iter().map(|value| cotangents.get(value).copied()).collect())
    }

    fn call(&mut self, e: &mut Emitter, call: &Called<'_>) -> Result<Vec<(usize, V)>, Why> {
        composites::derive(self, e, call)
    }

    fn wants(&self, value: V) -> bool {
        self.wanted(value)
    }
}

fn add(e: &mut Emitter, cotangents: &mut FxHashMap<V, V>, value: V, cotangent: V) {
    let sum = match cotangents.get(&value) {
        Some(before) => e.add(*before, cotangent),
        None => cotangent,
    };
    cotangents.insert(value, sum);
}
