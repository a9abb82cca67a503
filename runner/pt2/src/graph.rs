//! The graph: a flat list of calls in execution order, each argument typed.
//!
//! Regions that only set a mode (`torch.no_grad`, `torch.autocast`, checkpointing) are dissolved:
//! their calls stand in the list with the mode they run under. Only `cond` keeps subgraphs.

use std::sync::Arc;

use crate::dtype::ScalarType;
use crate::symbols::Expr;

/// A value of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a value: its name and, if it is a tensor, its type at export.
#[derive(Clone, Debug)]
pub struct Value {
    pub name: Arc<str>,
    pub meta: Option<TensorMeta>,
}

/// A tensor's type.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorMeta {
    pub dtype: ScalarType,
    pub sizes: Vec<Expr>,
    pub requires_grad: bool,
}

impl TensorMeta {
    /// The sizes, if none depends on a symbol.
    pub fn dims(&self) -> Option<Vec<i64>> {
        self.sizes.iter().map(Expr::known).collect()
    }
}

/// A function's body.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub values: Vec<Value>,
    pub inputs: Vec<Arg>,
    pub outputs: Vec<Arg>,
    pub nodes: Vec<Node>,
}

impl Graph {
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    pub fn name(&self, id: ValueId) -> &str {
        &self.value(id).name
    }

    /// This graph's nodes and those of its subgraphs, outer ones first.
    pub fn each_node<'g>(&'g self, f: &mut dyn FnMut(&'g Node)) {
        for node in &self.nodes {
            f(node);
            for arg in &node.args {
                if let Arg::Graph(graph) = &arg.arg {
                    graph.each_node(f);
                }
            }
        }
    }
}

/// One call.
#[derive(Clone, Debug)]
pub struct Node {
    /// The node's name, unique in its graph.
    pub name: Arc<str>,
    pub call: Call,
    pub args: Vec<NamedArg>,
    pub outputs: Vec<Produces>,
    /// The path of the innermost module the call was made in, such as `bert.encoder.layer.3`.
    pub module: Arc<str>,
    /// The innermost line of the model's Python source.
    pub source: Option<Source>,
    pub mode: Mode,
    /// Counts the calls of the whole program: the same number in both passes.
    pub ordinal: u32,
}

impl Node {
    /// The argument of this name.
    pub fn arg(&self, name: &str) -> Option<&Arg> {
        self.args.iter().find(|arg| &*arg.name == name).map(|arg| &arg.arg)
    }

    /// Every tensor or scalar value the call reads, in order.
    pub fn reads(&self) -> Vec<ValueId> {
        let mut values = Vec::new();
        self.args.iter().for_each(|arg| arg.arg.each_value(&mut |id| values.push(id)));
        values
    }

    /// Every value the call makes, in order.
    pub fn makes(&self) -> Vec<ValueId> {
        let mut values = Vec::new();
        for output in &self.outputs {
            match output {
                Produces::Tensor(id) | Produces::Scalar(id) => values.push(*id),
                Produces::Tensors(ids) => values.extend(ids),
                Produces::Nothing => {}
            }
        }
        values
    }
}

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// An operator of the dispatcher: `aten::add`, overload `Tensor` (empty for the default one).
    Op { name: Box<str>, overload: Box<str> },
    /// A Python function on scalars, such as `_operator.mul` or `math.ceil`.
    Python(Box<str>),
    /// A higher-order operator that keeps its subgraphs, such as `cond`.
    HigherOrder(Box<str>),
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Call::Op { name, overload } => {
                let name = name.replacen("::", ".", 1);
                if overload.is_empty() {
                    f.write_str(&name)
                } else {
                    write!(f, "{name}.{overload}")
                }
            }
            Call::Python(name) => f.write_str(name),
            Call::HigherOrder(name) => write!(f, "higher_order.{name}"),
        }
    }
}

/// An argument with the name the operator's schema has for it.
#[derive(Clone, Debug)]
pub struct NamedArg {
    pub name: Box<str>,
    pub arg: Arg,
    pub keyword: bool,
}

/// An argument.
#[derive(Clone, Debug)]
pub enum Arg {
    None,
    /// A tensor or scalar made earlier.
    Value(ValueId),
    Int(i64),
    Float(f64),
    Bool(bool),
    Complex(f64, f64),
    Str(Box<str>),
    ScalarType(ScalarType),
    /// `torch.memory_format`: 0 contiguous, 1 preserve, 2 channels last, 3 channels last 3d.
    MemoryFormat(i64),
    /// `torch.layout`: 0 is strided, the only one that occurs in dense models.
    Layout(i64),
    Device {
        kind: Box<str>,
        index: Option<i64>,
    },
    List(Vec<Arg>),
    Graph(Box<Graph>),
    /// An operator as a value, of `higher_order` calls.
    Operator(Box<str>),
}

impl Arg {
    pub fn each_value(&self, f: &mut dyn FnMut(ValueId)) {
        match self {
            Arg::Value(id) => f(*id),
            Arg::List(items) => items.iter().for_each(|item| item.each_value(f)),
            _ => {}
        }
    }
}

/// What one output slot of a call holds.
#[derive(Clone, Debug)]
pub enum Produces {
    Tensor(ValueId),
    Tensors(Vec<ValueId>),
    Scalar(ValueId),
    Nothing,
}

/// A line of the model's source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    pub file: Arc<str>,
    pub line: u32,
}

/// The modes a call runs under.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Mode {
    /// What `torch.set_grad_enabled` says, where the model says it.
    pub grad: Option<bool>,
    pub autocast: Option<Autocast>,
}

/// A `torch.autocast` region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autocast {
    pub device: Box<str>,
    pub dtype: Option<ScalarType>,
    pub enabled: bool,
    pub cache: bool,
}
