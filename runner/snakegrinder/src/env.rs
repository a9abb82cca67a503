//! The names of a graph.

use warpforge_pt2::{Arg, Graph, Node, ValueId};

use crate::cx::{Res, refuse};
use crate::value::Val;

/// What each value of a graph stands for.
pub struct Env {
    vals: Vec<Option<Val>>,
    /// Values whose exported types are known to be wrong.
    doubted: Vec<bool>,
}

impl Env {
    pub fn new(graph: &Graph) -> Self {
        let count = graph.values.len();
        Self { vals: vec![None; count], doubted: vec![false; count] }
    }

    pub fn get(&self, id: ValueId) -> Option<&Val> {
        self.vals.get(id.index())?.as_ref()
    }

    pub fn set(&mut self, id: ValueId, val: Val) {
        self.vals[id.index()] = Some(val);
    }

    pub fn doubt(&mut self, id: ValueId) {
        self.doubted[id.index()] = true;
    }

    /// Whether the exporter had a wrong idea of what a call reads.
    pub fn doubts(&self, node: &Node) -> bool {
        node.reads().iter().any(|id| self.doubted.get(id.index()) == Some(&true))
    }

    pub fn arg(&self, arg: &Arg) -> Res<Val> {
        Ok(match arg {
            Arg::Value(id) => match self.get(*id) {
                Some(val) => val.clone(),
                None => return refuse("reads a value that no call has made"),
            },
            Arg::None | Arg::Graph(_) => Val::None,
            Arg::Int(n) => Val::Int(*n),
            Arg::Float(x) => Val::Float(*x),
            Arg::Bool(b) => Val::Bool(*b),
            Arg::Complex(re, im) => Val::Complex(*re, *im),
            Arg::Str(text) | Arg::Operator(text) => Val::Str(text.clone()),
            Arg::ScalarType(ty) => Val::Type(*ty),
            Arg::List(items) => {
                Val::List(items.iter().map(|item| self.arg(item)).collect::<Res<_>>()?)
            }
            Arg::MemoryFormat(_) | Arg::Layout(_) | Arg::Device { .. } => Val::Place,
        })
    }
}
