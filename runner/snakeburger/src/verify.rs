//! The verifier: every constraint of every operation, all problems of a module at once.

use crate::diag::Diagnostic;
use crate::ir::{Func, Graph, Module, NodeId, RegionId};
use crate::ops::{self, Check, Infer};

/// A module that passed the verifier.
#[derive(Clone, Debug)]
pub struct Verified(Module);

impl Verified {
    pub fn module(&self) -> &Module {
        &self.0
    }

    pub fn into_module(self) -> Module {
        self.0
    }
}

/// Checks a whole module; the problems come in the order of the text.
pub fn verify(module: Module) -> Result<Verified, Vec<Diagnostic>> {
    let problems = problems(&module);
    if problems.is_empty() { Ok(Verified(module)) } else { Err(problems) }
}

/// Every problem of a module.
pub fn problems(module: &Module) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for func in module.funcs() {
        if let Some(graph) = &func.body {
            check_func(module, func, graph, &mut problems);
        }
    }
    problems
}

fn check_func(module: &Module, func: &Func, graph: &Graph, problems: &mut Vec<Diagnostic>) {
    for (id, _) in graph.nodes() {
        check_node(module, graph, id, problems);
    }
    check_return(module, func, graph, problems);
    for (id, node) in graph.nodes() {
        for region in graph.regions(id) {
            let ends = graph
                .terminator(*region)
                .is_some_and(|last| graph.node(last).op.name() == "stablehlo.return");
            if !ends {
                let offset = (node.offset != u32::MAX).then_some(node.offset as usize);
                let message = format!("{}: a region must end in stablehlo.return", node.op.name());
                problems.push(Diagnostic { offset, message });
            }
        }
        terminators_last(graph, graph.regions(id), problems);
    }
    terminators_last(graph, &[Graph::BODY], problems);
}

/// A terminator may only stand at a region's end.
fn terminators_last(graph: &Graph, regions: &[RegionId], problems: &mut Vec<Diagnostic>) {
    for region in regions {
        let nodes = &graph.region(*region).nodes;
        for node in nodes.iter().rev().skip(1).map(|id| graph.node(*id)) {
            if node.op.is_terminator() {
                let offset = (node.offset != u32::MAX).then_some(node.offset as usize);
                let message =
                    format!("{} must be the last operation of its region", node.op.name());
                problems.push(Diagnostic { offset, message });
            }
        }
    }
}

fn check_return(module: &Module, func: &Func, graph: &Graph, problems: &mut Vec<Diagnostic>) {
    let fail = |problems: &mut Vec<Diagnostic>, offset: u32, message: String| {
        let offset = (offset != u32::MAX).then_some(offset as usize);
        problems.push(Diagnostic { offset, message });
    };
    let last = graph.terminator(Graph::BODY);
    let Some(last) = last.filter(|last| graph.node(*last).op.is_terminator()) else {
        let message = format!("function @{} must end in a return", func.name);
        return fail(problems, func.offset, message);
    };
    let yields = graph.yields(Graph::BODY);
    let offset = graph.node(last).offset;
    if yields.len() != func.results.len() {
        let message = format!(
            "function @{} returns {} values, its type says {}",
            func.name,
            yields.len(),
            func.results.len()
        );
        return fail(problems, offset, message);
    }
    for (i, (value, declared)) in yields.iter().zip(&func.results).enumerate() {
        let (found, declared) = (module.value_ty(graph, *value), module.ty(*declared));
        if found != declared {
            let message = format!(
                "function @{} returns {found} as result {i}, its type says {declared}",
                func.name
            );
            fail(problems, offset, message);
        }
    }
}

/// Checks one operation: its outline first, then its own constraints, then its result types.
pub fn check_node(module: &Module, graph: &Graph, id: NodeId, problems: &mut Vec<Diagnostic>) {
    let op = &graph.node(id).op;
    let mut check = Check::new(module, graph, id, problems);
    let before = check.problem_count();
    outline(&mut check, ops::info_of(op).arity);
    if check.problem_count() > before {
        return;
    }
    op.check(&mut check);
    if check.problem_count() > before {
        return;
    }
    let (constraint, types) = match op.infer(&check) {
        Infer::Types(types) => ("", types),
        Infer::By(constraint, types) => (constraint, types),
        Infer::Declared => return,
    };
    for (i, ty) in types.iter().enumerate() {
        check.result_is(i, constraint, ty);
    }
}

fn outline(check: &mut Check<'_>, arity: ops::Arity) {
    let counts = [
        ("operands", arity.operands, check.operand_types().len()),
        ("results", arity.results, check.result_types().len()),
        ("regions", arity.regions, check.regions().len()),
    ];
    for (what, wanted, found) in counts {
        check.require(wanted.allows(found), "", || format!("has {found} {what}, needs {wanted}"));
    }
    if !arity.tensors {
        return;
    }
    let lists =
        [("operand", check.operand_types().to_vec()), ("result", check.result_types().to_vec())];
    for (what, types) in lists {
        for (i, ty) in types.iter().enumerate() {
            check.require(ty.as_tensor().is_some(), "", || {
                format!("{what} {i} is {ty}, not a tensor")
            });
        }
    }
}
