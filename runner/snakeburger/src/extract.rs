//! Cutting a piece out of a program: the operations between some values and another, as a program
//! of its own that can be run, saved and sent to somebody.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{
    Dict, Func, Graph, LocId, Module, NewNode, NodeId, RegionId, TypeId, ValueId, Visibility,
};
use crate::ops::{self, Op};

/// A piece of a function.
#[derive(Clone, Debug)]
pub struct Piece {
    /// A program whose `main` computes the piece.
    pub module: Module,
    /// The values of the original that `main` takes, in order.
    pub inputs: Vec<ValueId>,
}

/// The operations of `func` that make `targets` out of `boundary` values and the function's
/// arguments. What the targets do not need is left out.
pub fn piece(
    module: &Module,
    func: &Func,
    targets: &[ValueId],
    boundary: impl Fn(ValueId) -> bool,
) -> Option<Piece> {
    let graph = func.body.as_ref()?;
    let (needed, inputs) = needed(graph, targets, &boundary);
    let mut out = Module::default();
    (out.types, out.locs) = (module.types.clone(), module.locs.clone());
    let mut copy = Copy { from: graph, to: Graph::default(), values: FxHashMap::default() };
    let types: Vec<TypeId> = inputs.iter().map(|value| graph.ty(*value)).collect();
    let body = copy.to.new_region(&types);
    for (old, new) in inputs.iter().zip(copy.to.arguments(body)) {
        copy.values.insert(*old, new);
    }
    for node in &graph.region(Graph::BODY).nodes {
        if needed.contains(node) {
            copy.node(*node, body)?;
        }
    }
    let results: Option<Vec<ValueId>> =
        targets.iter().map(|target| copy.values.get(target).copied()).collect();
    let results = results?;
    let (loc, offset) = (LocId::default(), u32::MAX);
    let op = ops::FuncReturn {}.into();
    let end =
        NewNode { op, operands: &results, results: &[], regions: &[], loc, offset, extra: None };
    copy.to.push(body, end);
    let result_types: Vec<TypeId> = targets.iter().map(|target| graph.ty(*target)).collect();
    let body = copy.to;
    let called = callees(module, &body);
    let main = Func {
        name: "main".into(),
        visibility: Visibility::Public,
        argument_attrs: vec![Dict::new(); types.len()],
        result_attrs: vec![Dict::new(); result_types.len()],
        arguments: types,
        results: result_types,
        attrs: Dict::new(),
        loc,
        offset,
        body: Some(body),
    };
    out.add(main).ok()?;
    for func in called {
        out.add(func.clone()).ok()?;
    }
    Some(Piece { module: out, inputs })
}

/// Which operations of the body make the targets, and which values they start from.
fn needed(
    graph: &Graph,
    targets: &[ValueId],
    boundary: &impl Fn(ValueId) -> bool,
) -> (FxHashSet<NodeId>, Vec<ValueId>) {
    let mut nodes = FxHashSet::default();
    let mut inputs = Vec::new();
    let mut seen = FxHashSet::default();
    let mut open: Vec<ValueId> = targets.to_vec();
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        match graph.def(value) {
            crate::ir::Def::Result(node, _) if !boundary(value) || targets.contains(&value) => {
                if nodes.insert(node) {
                    reads(graph, node, &mut open);
                }
            }
            _ => inputs.push(value),
        }
    }
    inputs.sort_unstable();
    (nodes, inputs)
}

/// The values an operation reads, those its regions take from outside included.
fn reads(graph: &Graph, node: NodeId, out: &mut Vec<ValueId>) {
    let mut inside = FxHashSet::default();
    let mut all = Vec::new();
    gather(graph, node, &mut inside, &mut all);
    out.extend(all.into_iter().filter(|value| !inside.contains(value)));
}

fn gather(graph: &Graph, node: NodeId, inside: &mut FxHashSet<ValueId>, all: &mut Vec<ValueId>) {
    all.extend(graph.operands(node));
    for region in graph.regions(node) {
        inside.extend(graph.arguments(*region));
        for inner in &graph.region(*region).nodes {
            inside.extend(graph.results(*inner));
            gather(graph, *inner, inside, all);
        }
    }
}

struct Copy<'g> {
    from: &'g Graph,
    to: Graph,
    values: FxHashMap<ValueId, ValueId>,
}

impl Copy<'_> {
    fn node(&mut self, id: NodeId, region: RegionId) -> Option<()> {
        let from = self.from;
        let node = from.node(id);
        let mut regions = Vec::new();
        for inner in from.regions(id) {
            let types: Vec<TypeId> = from.arguments(*inner).map(|value| from.ty(value)).collect();
            let copy = self.to.new_region(&types);
            let arguments: Vec<ValueId> = self.to.arguments(copy).collect();
            self.values.extend(from.arguments(*inner).zip(arguments));
            for node in &from.region(*inner).nodes {
                self.node(*node, copy)?;
            }
            regions.push(copy);
        }
        let operands: Option<Vec<ValueId>> =
            from.operands(id).iter().map(|value| self.values.get(value).copied()).collect();
        let results: Vec<TypeId> = from.results(id).map(|value| from.ty(value)).collect();
        let new = NewNode {
            op: node.op.clone(),
            operands: &operands?,
            results: &results,
            regions: &regions,
            loc: node.loc,
            offset: u32::MAX,
            extra: node.extra.clone(),
        };
        let new = self.to.push(region, new);
        let made: Vec<ValueId> = self.to.results(new).collect();
        self.values.extend(from.results(id).zip(made));
        Some(())
    }
}

/// The functions a graph calls, directly or not.
fn callees<'m>(module: &'m Module, graph: &Graph) -> Vec<&'m Func> {
    let mut names: Vec<Box<str>> = Vec::new();
    let note = |graph: &Graph, names: &mut Vec<Box<str>>| {
        for (_, node) in graph.nodes() {
            let name = match &node.op {
                Op::Composite(op) => &op.decomposition.0,
                Op::Call(op) => &op.callee.0,
                _ => continue,
            };
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    };
    note(graph, &mut names);
    let mut at = 0;
    while at < names.len() {
        if let Some(body) = module.func(&names[at]).and_then(|func| func.body.as_ref()) {
            note(body, &mut names);
        }
        at += 1;
    }
    names.iter().filter_map(|name| module.func(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::{Interpreter, Tensor, Value};
    use crate::text::{Options, parse};
    use crate::verify::verify;

    #[test]
    fn a_piece_runs_by_itself() {
        let text = "func.func @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<f32> {
            %0 = stablehlo.add %arg0, %arg1 : tensor<2xf32>
            %1 = stablehlo.multiply %0, %arg1 : tensor<2xf32>
            %2 = stablehlo.constant dense<0.0> : tensor<f32>
            %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
            return %3 : tensor<f32>
        }";
        let module = parse(text, Options::default()).unwrap();
        let func = module.entry().unwrap();
        let graph = func.body.as_ref().unwrap();
        let nodes = &graph.region(Graph::BODY).nodes;
        let value = |i: usize| graph.results(nodes[i]).next().unwrap();
        let cut = value(0);
        let piece = piece(&module, func, &[value(3)], |value| value == cut).unwrap();
        assert_eq!(piece.inputs.len(), 2, "the sum and the second argument");
        let module = verify(piece.module).unwrap().into_module();
        let two =
            Tensor::from_floats(crate::ir::TensorTy::new([2], crate::ir::DType::F32), |_| 2.0);
        let arguments = vec![Value::Tensor(two.clone()), Value::Tensor(two)];
        let results = Interpreter::new(&module).call("main", arguments).unwrap();
        let Value::Tensor(sum) = &results[0] else { panic!("{results:?}") };
        assert_eq!(sum.get(0).float(), 8.0);
    }
}
