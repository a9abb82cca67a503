//! What a lowered program says about itself, in the attributes that survive as text: which
//! argument is which weight, which result is which output, where a node's result is made.

use std::collections::HashMap;

use warpforge_snakeburger::ir::{
    Attr, Def, Dict, Func, Graph, Loc, LocId, Module, ValueId, lookup,
};

/// The attributes snakegrinder writes.
pub const NAME: &str = "warpforge.name";
pub const KIND: &str = "warpforge.kind";
pub const TAP: &str = "warpforge.tap";

/// A program's outside, and the places inside that have names of the exported graph.
#[derive(Clone, Debug)]
pub struct Signature {
    pub arguments: Vec<Slot>,
    pub results: Vec<Slot>,
    pub taps: Vec<Tap>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// `parameter`, `buffer`, `constant`, `input`, `random`; `output`, `loss`, `mutated`.
    pub kind: String,
    /// Tied weights have several names.
    pub names: Vec<String>,
}

/// A value that an exported node makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    pub name: String,
    pub value: ValueId,
    /// The StableHLO operation or composite that makes it.
    pub op: String,
    /// The path of the module the node stands in.
    pub module: String,
}

impl Signature {
    /// Reads the attributes of `main`; slots without any are named by position.
    pub fn of(module: &Module, func: &Func) -> Self {
        let slots = |attrs: &[Dict], count: usize, kind: &str, stem: &str| {
            (0..count).map(|i| slot(attrs.get(i), kind, &format!("{stem}{i}"))).collect()
        };
        let taps = func.body.as_ref().map(|graph| taps(module, graph)).unwrap_or_default();
        Self {
            arguments: slots(&func.argument_attrs, func.arguments.len(), "input", "input."),
            results: slots(&func.result_attrs, func.results.len(), "output", "output."),
            taps,
        }
    }
}

fn text(dict: &Dict, name: &str) -> Option<String> {
    match lookup(dict, name) {
        Some(Attr::Str(text)) => Some(text.to_string()),
        _ => None,
    }
}

fn slot(attrs: Option<&Dict>, kind: &str, name: &str) -> Slot {
    let empty = Dict::new();
    let attrs = attrs.unwrap_or(&empty);
    let names = text(attrs, NAME).unwrap_or_else(|| name.to_owned());
    Slot {
        kind: text(attrs, KIND).unwrap_or_else(|| kind.to_owned()),
        names: names.split(' ').map(str::to_owned).collect(),
    }
}

fn taps(module: &Module, graph: &Graph) -> Vec<Tap> {
    let mut taps = Vec::new();
    for id in &graph.region(Graph::BODY).nodes {
        let node = graph.node(*id);
        let Some(extra) = &node.extra else { continue };
        let results: Vec<ValueId> = graph.results(*id).collect();
        for (i, value) in results.iter().enumerate() {
            let key = if results.len() == 1 { TAP.to_owned() } else { format!("{TAP}{i}") };
            if let Some(name) = text(extra, &key) {
                let op = match &node.op {
                    warpforge_snakeburger::ops::Op::Composite(op) => op.name.to_string(),
                    op => op.name().to_owned(),
                };
                let module = module_path(module, node.loc).unwrap_or_default();
                taps.push(Tap { name, value: *value, op, module });
            }
        }
    }
    taps
}

/// The module path is the name inside the node's name.
fn module_path(module: &Module, loc: LocId) -> Option<String> {
    match module.locs.get(loc) {
        Loc::Name { child: Some(child), .. } => match module.locs.get(*child) {
            Loc::Name { name, .. } => Some(name.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// For each tap, the taps its piece of the program starts from, and the arguments it reads.
pub fn sources(graph: &Graph, taps: &[Tap]) -> Vec<Vec<ValueId>> {
    let tapped: HashMap<ValueId, usize> =
        taps.iter().enumerate().map(|(i, tap)| (tap.value, i)).collect();
    taps.iter()
        .map(|tap| {
            let mut found = Vec::new();
            let mut seen = std::collections::HashSet::new();
            let mut open = vec![tap.value];
            while let Some(value) = open.pop() {
                if !seen.insert(value) {
                    continue;
                }
                let stop = value != tap.value && tapped.contains_key(&value);
                match graph.def(value) {
                    Def::Result(node, _) if !stop => open.extend(graph.operands(node)),
                    _ => found.push(value),
                }
            }
            found.sort_unstable();
            found
        })
        .collect()
}
