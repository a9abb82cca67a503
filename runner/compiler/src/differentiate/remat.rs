//! Computing values again for the way back instead of keeping them.
//!
//! What is computed again is a module's whole piece of the forward computation, from what it read;
//! that goes through a barrier together with the cotangent that arrives, so that nothing merges the
//! two computations and the second does not happen before the way back is there.

use rustc_hash::{FxHashMap, FxHashSet};
use warpforge_snakeburger::build::{Emitter, V};
use warpforge_snakeburger::ir::{Def, Graph, Module, NodeId};
use warpforge_snakeburger::ops::{self, Op};

use super::{Error, Gradients, Remat, differentiate};

/// The operations that are computed again together, and what became of their values.
#[derive(Default)]
pub struct Groups {
    of: FxHashMap<NodeId, usize>,
    nodes: Vec<Vec<NodeId>>,
    values: Vec<Option<FxHashMap<V, V>>>,
}

/// The part of a module path that names a group: the prefix asked for, and the number of the
/// layer right behind it if there is one.
fn group_name<'p>(path: &'p str, prefixes: &[String]) -> Option<&'p str> {
    let prefix = prefixes.iter().filter(|prefix| begins(path, prefix)).max_by_key(|p| p.len())?;
    let rest = path[prefix.len()..].strip_prefix('.').unwrap_or_default();
    let next = rest.split('.').next().unwrap_or_default();
    let numbered = !next.is_empty() && next.bytes().all(|b| b.is_ascii_digit());
    Some(if numbered { &path[..prefix.len() + 1 + next.len()] } else { &path[..prefix.len()] })
}

fn begins(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Groups {
    pub fn new(e: &Emitter, nodes: &[NodeId], prefixes: &[String]) -> Self {
        let mut groups = Self::default();
        let mut names: FxHashMap<&str, usize> = FxHashMap::default();
        for id in nodes {
            let node = e.graph().node(*id);
            let path = e.module_path(node.loc).and_then(|path| group_name(path, prefixes));
            // What regions read from around them is not followed.
            let plain = ops::captures(e.graph(), *id).is_empty();
            let (Some(path), true) = (path, plain) else { continue };
            let next = groups.nodes.len();
            let group = *names.entry(path).or_insert(next);
            if group == next {
                groups.nodes.push(Vec::new());
                groups.values.push(None);
            }
            groups.nodes[group].push(*id);
            groups.of.insert(*id, group);
        }
        groups
    }

    /// The values of an operation as they are for the way back; `cotangents` go through the
    /// barrier if its group is computed again now.
    pub fn recall(
        &mut self,
        e: &mut Emitter,
        id: NodeId,
        cotangents: &mut [Option<V>],
    ) -> [Vec<V>; 2] {
        let own = [e.graph().operands(id).to_vec(), e.graph().results(id).collect()];
        let Some(group) = self.of.get(&id).copied() else { return own };
        if self.values[group].is_none() {
            self.values[group] = Some(again(e, &self.nodes[group], cotangents));
        }
        let Some(values) = &self.values[group] else { return own };
        own.map(|list| {
            list.iter().map(|value| values.get(value).copied().unwrap_or(*value)).collect()
        })
    }
}

fn again(e: &mut Emitter, nodes: &[NodeId], cotangents: &mut [Option<V>]) -> FxHashMap<V, V> {
    let mut made: FxHashSet<V> = FxHashSet::default();
    let mut inputs: Vec<V> = Vec::new();
    for id in nodes {
        for value in e.graph().operands(*id) {
            if !made.contains(value) && !inputs.contains(value) && !is_constant(e.graph(), *value) {
                inputs.push(*value);
            }
        }
        made.extend(e.graph().results(*id));
    }
    let mut through = inputs.clone();
    through.extend(cotangents.iter().flatten());
    let types: Vec<_> = through.iter().map(|value| e.ty(*value).clone()).collect();
    let mut outs = e.push_many(ops::OptimizationBarrier {}, &through, &types, &[]).into_iter();
    let mut values: FxHashMap<V, V> = inputs.into_iter().zip(outs.by_ref()).collect();
    for cotangent in cotangents.iter_mut().flatten() {
        *cotangent = outs.next().unwrap_or(*cotangent);
    }
    e.again(nodes, &mut values);
    values
}

fn is_constant(graph: &Graph, value: V) -> bool {
    matches!(graph.def(value), Def::Result(node, _) if matches!(graph.node(node).op, Op::Constant(_)))
}

/// The most bytes that are alive at once while `main` runs, each value from where it is made to
/// its last use; arguments are there all the time, and what happens inside of calls is not seen.
pub fn peak_bytes(module: &Module) -> u64 {
    let Some(graph) = module.entry().and_then(|main| main.body.as_ref()) else { return 0 };
    let bytes = |value: V| {
        let ty = module.value_ty(graph, value).as_tensor();
        ty.map_or(0, |ty| ty.count().unwrap_or(0) * ty.elem.storage().bytes()) as u64
    };
    let nodes = &graph.region(Graph::BODY).nodes;
    let mut last: FxHashMap<V, usize> = FxHashMap::default();
    for (at, id) in nodes.iter().enumerate() {
        last.extend(graph.operands(*id).iter().map(|value| (*value, at)));
        last.extend(ops::captures(graph, *id).into_iter().map(|value| (value, at)));
    }
    let mut alive: u64 = graph.arguments(Graph::BODY).map(bytes).sum();
    let mut peak = alive;
    let mut ends: FxHashMap<usize, u64> = FxHashMap::default();
    for (at, id) in nodes.iter().enumerate() {
        for value in graph.results(*id) {
            alive += bytes(value);
            *ends.entry(last.get(&value).copied().unwrap_or(at)).or_default() += bytes(value);
        }
        peak = peak.max(alive);
        alive -= ends.get(&at).copied().unwrap_or(0);
    }
    peak
}

/// The modules to compute again so that the program with gradients keeps within a number of
/// bytes: as few of the numbered layers as it takes, the first ones first, for theirs are kept
/// longest. All of them if nothing is enough.
pub fn within(module: &Module, request: &Gradients, bytes: u64) -> Result<Remat, Error> {
    let layers = layers(module);
    let with = |count: usize| -> Result<(Remat, u64), Error> {
        let remat = match count {
            0 => Remat::Keep,
            _ => Remat::Modules(layers[..count].to_vec()),
        };
        let request = Gradients { remat: remat.clone(), ..request.clone() };
        Ok((remat, peak_bytes(&differentiate(module, &request)?)))
    };
    let (mut low, mut high) = (0, layers.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        if with(middle)?.1 <= bytes { high = middle } else { low = middle + 1 }
    }
    Ok(with(low)?.0)
}

/// The outermost numbered modules, in the order of the program.
fn layers(module: &Module) -> Vec<String> {
    let Some(graph) = module.entry().and_then(|main| main.body.as_ref()) else { return Vec::new() };
    let mut found: Vec<String> = Vec::new();
    for id in &graph.region(Graph::BODY).nodes {
        let Some(path) = module_path(module, graph.node(*id).loc) else { continue };
        let mut end = 0;
        for part in path.split('.') {
            end += part.len() + usize::from(end > 0);
            if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
                let layer = path[..end].to_owned();
                if !found.contains(&layer) {
                    found.push(layer);
                }
                break;
            }
        }
    }
    found
}

fn module_path(module: &Module, loc: warpforge_snakeburger::ir::LocId) -> Option<&str> {
    use warpforge_snakeburger::ir::Loc;
    match module.locs.get(loc) {
        Loc::Name { child: Some(child), .. } => match module.locs.get(*child) {
            Loc::Name { name, .. } => Some(name),
            _ => None,
        },
        _ => None,
    }
}
