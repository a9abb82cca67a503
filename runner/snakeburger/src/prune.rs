//! Leaving out what nobody uses.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{Def, Func, Graph, Module, NewNode, NodeId, RegionId, Ty, TypeTable, ValueId};
use crate::ops::Op;

/// The program without operations whose results nobody uses and functions nobody calls. What is
/// tapped counts as used, and so does what acts on the world outside.
pub fn prune(module: &Module) -> Module {
    let mut out = Module::default();
    (out.name, out.attrs) = (module.name.clone(), module.attrs.clone());
    (out.types, out.locs) = (module.types.clone(), module.locs.clone());
    let mut funcs: Vec<Func> = Vec::new();
    for func in module.funcs() {
        let body = func.body.as_ref().map(|graph| graph_of(graph, &module.types));
        funcs.push(Func { body, ..func.clone() });
    }
    let mut called: FxHashSet<Box<str>> = FxHashSet::default();
    let mut open: Vec<&Func> = funcs
        .iter()
        .filter(|func| func.visibility != crate::ir::Visibility::Private || &*func.name == "main")
        .collect();
    while let Some(func) = open.pop() {
        if !called.insert(func.name.clone()) {
            continue;
        }
        for (_, node) in func.body.iter().flat_map(Graph::nodes) {
            let name = match &node.op {
                Op::Composite(op) => &op.decomposition.0,
                Op::Call(op) => &op.callee.0,
                _ => continue,
            };
            open.extend(funcs.iter().filter(|func| func.name == *name));
        }
    }
    for func in funcs.into_iter().filter(|func| called.contains(&func.name)) {
        // Names were unique before.
        let _ = out.add(func);
    }
    out
}

/// The same, and `main` takes only the arguments that it reads.
pub fn prune_arguments(module: &Module) -> Module {
    let mut out = prune(module);
    let types = out.types.clone();
    let entry = out.entry().map(|func| func.name.clone());
    for func in out.funcs_mut().iter_mut().filter(|func| Some(&func.name) == entry.as_ref()) {
        let Some(body) = &func.body else { continue };
        let (graph, left) = with_arguments(body, &types);
        func.body = Some(graph);
        func.arguments = left.iter().map(|i| func.arguments[*i]).collect();
        let attrs = left.iter().map(|i| func.argument_attrs.get(*i).cloned().unwrap_or_default());
        func.argument_attrs = attrs.collect();
    }
    out
}

fn graph_of(graph: &Graph, types: &TypeTable) -> Graph {
    let all: Vec<usize> = (0..graph.arguments(Graph::BODY).len()).collect();
    rebuild(graph, &used_nodes(graph, types), &all)
}

/// A function's body without what nobody uses, and which of its arguments are left.
pub(crate) fn with_arguments(graph: &Graph, types: &TypeTable) -> (Graph, Vec<usize>) {
    let live = used_nodes(graph, types);
    let mut used = FxHashSet::default();
    for id in &live {
        used.extend(graph.operands(*id).iter().copied());
    }
    let left: Vec<usize> = graph
        .arguments(Graph::BODY)
        .enumerate()
        .filter_map(|(i, value)| used.contains(&value).then_some(i))
        .collect();
    (rebuild(graph, &live, &left), left)
}

fn has_effects(graph: &Graph, types: &TypeTable, id: NodeId) -> bool {
    let node = graph.node(id);
    let tapped = node
        .extra
        .as_ref()
        .is_some_and(|extra| extra.iter().any(|(name, _)| name.starts_with("warpforge.tap")));
    let outside = match &node.op {
        Op::CustomCall(op) => op.has_side_effect,
        Op::AllGather(_)
        | Op::AllReduce(_)
        | Op::AllToAll(_)
        | Op::CollectiveBroadcast(_)
        | Op::CollectivePermute(_)
        | Op::CollectiveReduce(_)
        | Op::CrossReplicaSum(_)
        | Op::ReduceScatter(_)
        | Op::RunParallel(_)
        | Op::Print(_)
        | Op::Probe(_) => true,
        _ => graph.results(id).len() == 0,
    };
    let token = graph.results(id).any(|value| !matches!(types.get(graph.ty(value)), Ty::Tensor(_)));
    tapped || outside || token
}

/// Every operation that is needed, those inside regions included.
fn used_nodes(graph: &Graph, types: &TypeTable) -> FxHashSet<NodeId> {
    let mut owner: FxHashMap<RegionId, NodeId> = FxHashMap::default();
    let mut home: FxHashMap<NodeId, RegionId> = FxHashMap::default();
    let mut open: Vec<RegionId> = vec![Graph::BODY];
    let mut roots = Vec::new();
    while let Some(region) = open.pop() {
        for id in &graph.region(region).nodes {
            home.insert(*id, region);
            for inner in graph.regions(*id) {
                owner.insert(*inner, *id);
                open.push(*inner);
            }
            let end = graph.node(*id).op.is_terminator();
            if (region == Graph::BODY && end) || (!end && has_effects(graph, types, *id)) {
                roots.push(*id);
            }
        }
    }
    let mut live = FxHashSet::default();
    while let Some(id) = roots.pop() {
        if !live.insert(id) {
            continue;
        }
        for value in graph.operands(id) {
            if let Def::Result(node, _) = graph.def(*value) {
                roots.push(node);
            }
        }
        roots.extend(graph.regions(id).iter().filter_map(|region| graph.terminator(*region)));
        // An effect inside a region needs the operation around it.
        roots.extend(home.get(&id).and_then(|region| owner.get(region)));
    }
    live
}

/// The graph of some of its operations and of some of its arguments.
fn rebuild(graph: &Graph, live: &FxHashSet<NodeId>, arguments: &[usize]) -> Graph {
    let own: Vec<ValueId> = graph.arguments(Graph::BODY).collect();
    let kept: Vec<ValueId> = arguments.iter().map(|i| own[*i]).collect();
    let types: Vec<_> = kept.iter().map(|value| graph.ty(*value)).collect();
    let mut to = Graph::default();
    let body = to.new_region(&types);
    let values: FxHashMap<ValueId, ValueId> = kept.into_iter().zip(to.arguments(body)).collect();
    let mut copy = Copy { from: graph, to, values, live };
    copy.region(Graph::BODY, body);
    copy.to
}

struct Copy<'g> {
    from: &'g Graph,
    to: Graph,
    values: FxHashMap<ValueId, ValueId>,
    live: &'g FxHashSet<NodeId>,
}

impl Copy<'_> {
    fn region(&mut self, from: RegionId, to: RegionId) {
        let graph = self.from;
        for id in graph.region(from).nodes.iter().filter(|id| self.live.contains(id)) {
            let node = graph.node(*id);
            let mut regions = Vec::new();
            for inner in graph.regions(*id) {
                let types: Vec<_> = graph.arguments(*inner).map(|value| graph.ty(value)).collect();
                let new = self.to.new_region(&types);
                self.values.extend(graph.arguments(*inner).zip(self.to.arguments(new)));
                self.region(*inner, new);
                regions.push(new);
            }
            let operands: Vec<ValueId> = graph
                .operands(*id)
                .iter()
                .map(|value| self.values.get(value).copied().unwrap_or(*value))
                .collect();
            let results: Vec<_> = graph.results(*id).map(|value| graph.ty(value)).collect();
            let new = NewNode {
                op: node.op.clone(),
                operands: &operands,
                results: &results,
                regions: &regions,
                loc: node.loc,
                offset: node.offset,
                extra: node.extra.clone(),
            };
            let new = self.to.push(to, new);
            self.values.extend(graph.results(*id).zip(self.to.results(new)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Options, parse};
    use crate::verify::verify;

    #[test]
    fn what_nobody_uses_is_left_out() {
        let text = "func.func @main(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<f32> {
            %0 = stablehlo.add %arg0, %arg1 : tensor<f32>
            %1 = call @unused(%arg1) : (tensor<f32>) -> tensor<f32>
            %2 = call @used(%arg2) : (tensor<f32>) -> tensor<f32>
            return %2 : tensor<f32>
        }
        func.func private @unused(%arg0: tensor<f32>) -> tensor<f32> { return %arg0 : tensor<f32> }
        func.func private @used(%arg0: tensor<f32>) -> tensor<f32> { return %arg0 : tensor<f32> }";
        let module = parse(text, Options::default()).unwrap();
        assert_eq!(prune(&module).entry().unwrap().arguments.len(), 3);
        let live = prune_arguments(&module);
        let names: Vec<&str> = live.funcs().iter().map(|func| &*func.name).collect();
        assert_eq!(names, ["main", "used"]);
        let main = live.entry().unwrap();
        assert_eq!(main.arguments.len(), 1, "the one that is read");
        assert_eq!(main.body.as_ref().unwrap().node_count(), 2);
        verify(live).unwrap();
    }
}
