//! What a program consists of: operations, FLOPs, bytes.

use std::collections::BTreeMap;

use crate::ir::{Graph, Module, NodeId, TensorTy};
use crate::ops::{Fusion, Op};

/// One operation's share of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub count: usize,
    pub flops: u64,
    pub bytes: u64,
}

/// Counts over all functions, each operation once however often it would run.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    pub by_op: BTreeMap<&'static str, Share>,
    pub constant_bytes: u64,
    /// Operations with unknown shapes, left out of FLOPs and bytes.
    pub dynamic: usize,
}

impl Counted {
    pub fn operations(&self) -> usize {
        self.by_op.values().map(|share| share.count).sum()
    }

    pub fn flops(&self) -> u64 {
        self.by_op.values().map(|share| share.flops).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.by_op.values().map(|share| share.bytes).sum()
    }
}

pub fn count(module: &Module) -> Counted {
    let mut counted = Counted::default();
    for graph in module.funcs().iter().filter_map(|func| func.body.as_ref()) {
        for (id, node) in graph.nodes() {
            let share = counted.by_op.entry(node.op.name()).or_default();
            share.count += 1;
            if let Op::Constant(constant) = &node.op {
                counted.constant_bytes += constant.value.data.len() as u64;
                continue;
            }
            if node.op.is_terminator() {
                continue; // moves nothing
            }
            match cost(module, graph, id) {
                Some((flops, bytes)) => {
                    share.flops += flops;
                    share.bytes += bytes;
                }
                None => counted.dynamic += 1,
            }
        }
    }
    counted
}

/// What one run of a function costs in FLOPs and bytes, functions it calls included as often as
/// they are called; a loop's body counts once.
pub fn cost_of_run(module: &Module, name: &str) -> (u64, u64) {
    fn walk<'m>(
        module: &'m Module,
        name: &'m str,
        known: &mut BTreeMap<&'m str, (u64, u64)>,
        depth: usize,
    ) -> (u64, u64) {
        if let Some(cost) = known.get(name) {
            return *cost;
        }
        let graph = module.func(name).and_then(|func| func.body.as_ref());
        // Functions that call each other without end have no cost to speak of.
        let Some(graph) = graph.filter(|_| depth < 64) else { return (0, 0) };
        let mut total = (0, 0);
        for (id, node) in graph.nodes() {
            let cost = match &node.op {
                Op::Composite(op) => walk(module, &op.decomposition.0, known, depth + 1),
                Op::Call(op) => walk(module, &op.callee.0, known, depth + 1),
                Op::Constant(_) => continue,
                op if op.is_terminator() => continue,
                _ => cost(module, graph, id).unwrap_or_default(),
            };
            total = (total.0 + cost.0, total.1 + cost.1);
        }
        known.insert(name, total);
        total
    }
    walk(module, name, &mut BTreeMap::new(), 0)
}

/// FLOPs and bytes of one operation; `None` if a shape is unknown.
fn cost(module: &Module, graph: &Graph, id: NodeId) -> Option<(u64, u64)> {
    let tensor = |value| module.value_ty(graph, value).as_tensor();
    let operands: Vec<&TensorTy> = graph.operands(id).iter().filter_map(|v| tensor(*v)).collect();
    let results: Vec<&TensorTy> = graph.results(id).filter_map(tensor).collect();
    let mut bytes = 0;
    for ty in operands.iter().chain(&results) {
        bytes += ty.count()? as u64 * ty.elem.storage().bytes() as u64;
    }
    let elements =
        |types: &[&TensorTy]| types.first().and_then(|ty| ty.count()).unwrap_or(0) as u64;
    let op = &graph.node(id).op;
    let flops = match op.fusion() {
        Fusion::Elementwise(_) => elements(&results),
        Fusion::Reduce => elements(&operands),
        Fusion::Contraction => 2 * elements(&results) * contracted(op, &operands)?,
        Fusion::Move | Fusion::Opaque => 0,
    };
    Some((flops, bytes))
}

/// How many products each element of a contraction's result sums up.
fn contracted(op: &Op, operands: &[&TensorTy]) -> Option<u64> {
    let (lhs, rhs) = (operands.first()?, operands.get(1)?);
    let size = |ty: &TensorTy, dim: i64| Some(*ty.dims.get(usize::try_from(dim).ok()?)? as u64);
    match op {
        Op::DotGeneral(op) => {
            let dims = op.dot_dimension_numbers.lhs_contracting_dimensions.iter();
            dims.map(|dim| size(lhs, *dim)).product()
        }
        Op::Convolution(op) => {
            let features = size(rhs, op.dimension_numbers.kernel_output_feature_dimension)?;
            Some(rhs.count()? as u64 / features.max(1))
        }
        _ => size(lhs, lhs.rank() as i64 - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Options, parse};

    #[test]
    fn a_product_of_matrices_costs_two_operations_per_multiply_add() {
        let text = "func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>) -> tensor<4x3xf32> {
            %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
            %1 = stablehlo.tanh %0 : tensor<4x3xf32>
            return %1 : tensor<4x3xf32>
        }";
        let counted = count(&parse(text, Options::default()).unwrap());
        let dot = counted.by_op["stablehlo.dot_general"];
        assert_eq!(dot, Share { count: 1, flops: 2 * 4 * 3 * 8, bytes: 4 * (32 + 24 + 12) });
        assert_eq!(counted.by_op["stablehlo.tanh"].flops, 12);
        assert_eq!((counted.operations(), counted.dynamic), (3, 0));
    }
}
