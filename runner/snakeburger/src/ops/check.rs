//! What an operation's checks see, and how they report.

use crate::diag::Diagnostic;
use crate::ir::{Graph, Module, NodeId, RegionId, TensorTy, Ty, ValueId, dim_compatible};

/// The types a region takes and yields.
pub struct RegionSig<'a> {
    pub arguments: Vec<&'a Ty>,
    pub results: Vec<&'a Ty>,
}

/// One operation under check: its types, and where problems go.
pub struct Check<'a> {
    pub module: &'a Module,
    pub graph: &'a Graph,
    pub node: NodeId,
    problems: &'a mut Vec<Diagnostic>,
    operands: Vec<&'a Ty>,
    results: Vec<&'a Ty>,
}

/// Stands in for the type of what is no tensor, so that checks need no second error path: the
/// arity check has reported it already.
static NO_TENSOR: std::sync::LazyLock<TensorTy> =
    std::sync::LazyLock::new(|| TensorTy::scalar(crate::ir::DType::I1));

impl<'a> Check<'a> {
    pub(crate) fn new(
        module: &'a Module,
        graph: &'a Graph,
        node: NodeId,
        problems: &'a mut Vec<Diagnostic>,
    ) -> Self {
        let ty = |value: ValueId| module.value_ty(graph, value);
        let operands = graph.operands(node).iter().map(|value| ty(*value)).collect();
        let results = graph.results(node).map(ty).collect();
        Self { module, graph, node, problems, operands, results }
    }

    /// Reports that a constraint does not hold; `constraint` is its number in the specification.
    pub fn fail(&mut self, constraint: &str, message: impl std::fmt::Display) {
        let node = self.graph.node(self.node);
        let offset = (node.offset != u32::MAX).then_some(node.offset as usize);
        let number = if constraint.is_empty() { String::new() } else { format!(" ({constraint})") };
        let message = format!("{}{number}: {message}", node.op.name());
        self.problems.push(Diagnostic { offset, message });
    }

    /// Reports a constraint unless it holds.
    pub fn require(&mut self, holds: bool, constraint: &str, message: impl FnOnce() -> String) {
        if !holds {
            self.fail(constraint, message());
        }
    }

    pub(crate) fn problem_count(&self) -> usize {
        self.problems.len()
    }

    pub fn operand_types(&self) -> &[&'a Ty] {
        &self.operands
    }

    pub fn result_types(&self) -> &[&'a Ty] {
        &self.results
    }

    /// The tensor type of operand `i`.
    pub fn operand(&self, i: usize) -> &'a TensorTy {
        self.operands.get(i).and_then(|ty| ty.as_tensor()).unwrap_or(&NO_TENSOR)
    }

    /// The tensor type of result `i`.
    pub fn result(&self, i: usize) -> &'a TensorTy {
        self.results.get(i).and_then(|ty| ty.as_tensor()).unwrap_or(&NO_TENSOR)
    }

    /// The tensor types of all operands from `first` on.
    pub fn operands(&self, first: usize) -> Vec<&'a TensorTy> {
        (first..self.operands.len()).map(|i| self.operand(i)).collect()
    }

    pub fn regions(&self) -> &'a [RegionId] {
        self.graph.regions(self.node)
    }

    /// What region `i` takes and yields.
    pub fn region(&self, i: usize) -> RegionSig<'a> {
        let Some(region) = self.regions().get(i).copied() else {
            return RegionSig { arguments: Vec::new(), results: Vec::new() };
        };
        let ty = |value: ValueId| self.module.value_ty(self.graph, value);
        RegionSig {
            arguments: self.graph.arguments(region).map(ty).collect(),
            results: self.graph.yields(region).iter().map(|value| ty(*value)).collect(),
        }
    }

    /// Requires region `i` to take and yield these types.
    pub fn region_is(&mut self, i: usize, constraint: &str, arguments: &[Ty], results: &[Ty]) {
        let found = self.region(i);
        let same = |found: &[&Ty], wanted: &[Ty]| {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| a.compatible(b))
        };
        if same(&found.arguments, arguments) && same(&found.results, results) {
            return;
        }
        let list = |types: &mut dyn Iterator<Item = String>| types.collect::<Vec<_>>().join(", ");
        let message = format!(
            "region {i} is ({}) -> ({}), it must be ({}) -> ({})",
            list(&mut found.arguments.iter().map(ToString::to_string)),
            list(&mut found.results.iter().map(ToString::to_string)),
            list(&mut arguments.iter().map(ToString::to_string)),
            list(&mut results.iter().map(ToString::to_string)),
        );
        self.fail(constraint, message);
    }

    /// Requires result `i` to have this type, but for dimensions one side does not know.
    pub fn result_is(&mut self, i: usize, constraint: &str, wanted: &Ty) {
        let Some(found) = self.results.get(i).copied() else { return };
        self.require(found.compatible(wanted), constraint, || {
            format!("result {i} is {found}, it must be {wanted}")
        });
    }

    /// Requires every number of a list to be a dimension of a rank, none of them twice.
    pub fn dimensions(&mut self, name: &str, list: &[i64], rank: usize, range: &str, unique: &str) {
        for dim in list {
            self.require((0..rank as i64).contains(dim), range, || {
                format!("{name} holds {dim}, which is no dimension of rank {rank}")
            });
        }
        self.unique(name, list, unique);
    }

    /// Requires no number to occur twice.
    pub fn unique(&mut self, name: &str, list: &[i64], constraint: &str) {
        let twice = list.iter().enumerate().find(|(i, dim)| list[..*i].contains(dim));
        if let Some((_, dim)) = twice {
            self.fail(constraint, format!("{name} holds {dim} twice"));
        }
    }

    /// Requires two dimension sizes to be equal where both are known.
    pub fn same_dim(&mut self, constraint: &str, what: &str, a: i64, b: i64) {
        self.require(dim_compatible(a, b), constraint, || format!("{what}: {a} is not {b}"));
    }
}
