//! Which inputs a graph may write to in place, told from the operators' schemas.

use std::collections::{BTreeSet, HashMap};

use warpforge_pt2::{Arg, Call, Graph, Node, ValueId};

use crate::torch::{Alias, Library};

/// For each input of the graph, whether an operator may change it: itself or through a view.
/// What a kernel does to its running statistics is said in no schema, and not found here.
pub fn written(graph: &Graph, library: &mut Library) -> Vec<bool> {
    let mut roots: HashMap<ValueId, BTreeSet<usize>> = HashMap::new();
    for (index, input) in graph.inputs.iter().enumerate() {
        if let Arg::Value(id) = input {
            roots.insert(*id, BTreeSet::from([index]));
        }
    }
    let mut written = vec![false; graph.inputs.len()];
    for node in &graph.nodes {
        let (changed, shown) = effects(node, library, &roots);
        for index in changed {
            written[index] = true;
        }
        if !shown.is_empty() {
            roots.extend(node.makes().into_iter().map(|id| (id, shown.clone())));
        }
    }
    written
}

/// The inputs that a node writes to, and those that its results may be views of.
fn effects(
    node: &Node,
    library: &mut Library,
    roots: &HashMap<ValueId, BTreeSet<usize>>,
) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let behind = |arg: &Arg| {
        let mut found: BTreeSet<usize> = BTreeSet::new();
        arg.each_value(&mut |id| found.extend(roots.get(&id).into_iter().flatten()));
        found
    };
    let mut changed = BTreeSet::new();
    let mut shown = BTreeSet::new();
    match &node.call {
        Call::Op { name, overload } => {
            let Ok(op) = library.find(name, overload) else { return (changed, shown) };
            for (position, arg) in node.args.iter().enumerate() {
                let by_name = || op.parameters().iter().position(|name| **name == *arg.name);
                let index = if arg.keyword { by_name() } else { Some(position) };
                let alias = index.map_or(Alias::None, |index| op.alias(index));
                if alias == Alias::Write {
                    changed.extend(behind(&arg.arg));
                }
                if alias != Alias::None && op.gives_views() {
                    shown.extend(behind(&arg.arg));
                }
            }
        }
        Call::Python(_) => node.args.iter().for_each(|arg| shown.extend(behind(&arg.arg))),
        // Which operand becomes which input of the inner graph is not looked into.
        Call::HigherOrder(_) => {
            for arg in &node.args {
                shown.extend(behind(&arg.arg));
            }
            let mut writes = false;
            for arg in &node.args {
                if let Arg::Graph(inner) = &arg.arg {
                    writes |= written(inner, library).contains(&true);
                }
            }
            if writes {
                changed.clone_from(&shown);
            }
        }
    }
    (changed, shown)
}
