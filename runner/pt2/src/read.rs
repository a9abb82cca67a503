//! From the schema's plain data to a [`Graph`]: names become indices, mode regions dissolve.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::dtype::ScalarType;
use crate::error::{Error, Result};
use crate::graph::{
    Arg, Autocast, Call, Graph, Mode, NamedArg, Node, Produces, Source, TensorMeta, Value, ValueId,
};
use crate::schema;
use crate::symbols::Expr;

/// Turns a whole program's graph; `inputs` are what its own inputs are called.
pub(crate) fn graph(source: &schema::Graph) -> Result<Graph> {
    Reader::default().function(source)
}

/// Reads one function after another, counting calls across all of them.
#[derive(Default)]
struct Reader {
    ordinal: u32,
    /// Paths and files repeat on thousands of nodes; each is stored once.
    texts: HashSet<Arc<str>>,
}

/// One function under construction.
#[derive(Default)]
struct Function {
    graph: Graph,
    names: HashSet<Arc<str>>,
}

/// What names mean where a node stands: inside a dissolved region, its inputs are the caller's.
type Scope = HashMap<Box<str>, Arg>;

impl Reader {
    fn function(&mut self, source: &schema::Graph) -> Result<Graph> {
        let mut function = Function::default();
        let mut scope = Scope::new();
        for input in &source.inputs {
            let arg = match input {
                schema::Argument::AsTensor(tensor) => {
                    Arg::Value(function.define(&tensor.name, &tensor.name, source, &mut scope)?)
                }
                schema::Argument::AsSymInt(schema::Sym::Name(name))
                | schema::Argument::AsSymFloat(schema::Sym::Name(name))
                | schema::Argument::AsSymBool(schema::Sym::Name(name)) => {
                    Arg::Value(function.define(name, name, source, &mut scope)?)
                }
                schema::Argument::AsCustomObj(object) => {
                    let class = &object.class_fqn;
                    return Err(Error::Graph(format!(
                        "the model takes a TorchScript object ({class}), which only Python can make"
                    )));
                }
                other => self.arg(other, &scope)?,
            };
            function.graph.inputs.push(arg);
        }
        self.body(source, &mut function, &mut scope, &Mode::default(), "")?;
        function.graph.outputs = self.args(&source.outputs, &scope)?;
        Ok(function.graph)
    }

    fn body(
        &mut self,
        source: &schema::Graph,
        function: &mut Function,
        scope: &mut Scope,
        mode: &Mode,
        prefix: &str,
    ) -> Result<()> {
        for node in &source.nodes {
            let problem = |error: Error| match error {
                Error::Graph(why) => {
                    Error::Node { node: name_of(node), target: node.target.clone(), why }
                }
                other => other,
            };
            match region(node) {
                Some(kind) => {
                    self.dissolve(node, &kind, function, scope, mode, prefix).map_err(problem)?
                }
                None => {
                    self.node(node, source, function, scope, mode, prefix).map_err(problem)?;
                }
            }
        }
        Ok(())
    }

    /// Puts a region's calls in place of the call of the region.
    fn dissolve(
        &mut self,
        node: &schema::Node,
        kind: &Region,
        function: &mut Function,
        scope: &mut Scope,
        mode: &Mode,
        prefix: &str,
    ) -> Result<()> {
        let at = node.inputs.iter().position(|arg| matches!(arg.arg, schema::Argument::AsGraph(_)));
        let Some(at) = at else { return Err(Error::Graph("its subgraph is missing".into())) };
        let schema::Argument::AsGraph(sub) = &node.inputs[at].arg else { unreachable!() };
        let mode = kind.mode(mode, &node.inputs[..at])?;
        // `invoke_subgraph` names the subgraph before the operands.
        let given: Vec<&schema::Argument> = node.inputs[at + 1..]
            .iter()
            .filter(|arg| arg.kind != Some(2))
            .map(|arg| &arg.arg)
            .skip(usize::from(matches!(kind, Region::Invoke)))
            .collect();
        if given.len() != sub.graph.inputs.len() {
            let (has, needs) = (given.len(), sub.graph.inputs.len());
            return Err(Error::Graph(format!(
                "its subgraph takes {needs} values, {has} are given"
            )));
        }
        let mut inner = Scope::new();
        for (input, given) in sub.graph.inputs.iter().zip(given) {
            if let Some(name) = argument_name(input) {
                inner.insert(name.into(), self.arg(given, scope)?);
            }
        }
        let prefix = format!("{prefix}{}.", sub.name);
        self.body(&sub.graph, function, &mut inner, &mode, &prefix)?;
        let results = self.args(&sub.graph.outputs, &inner)?;
        let mut results = results.into_iter();
        for output in &node.outputs {
            let names: Vec<&str> = match output {
                schema::Argument::AsTensors(tensors) => {
                    tensors.iter().map(|tensor| tensor.name.as_str()).collect()
                }
                other => argument_name(other).into_iter().collect(),
            };
            if names.is_empty() {
                results.next();
            }
            for name in names {
                let Some(result) = results.next() else {
                    return Err(Error::Graph("its subgraph yields too few values".into()));
                };
                // The region's results keep the inner names; what they are called outside leads
                // to the same value.
                scope.insert(name.into(), result);
            }
        }
        Ok(())
    }

    fn node(
        &mut self,
        node: &schema::Node,
        source: &schema::Graph,
        function: &mut Function,
        scope: &mut Scope,
        mode: &Mode,
        prefix: &str,
    ) -> Result<()> {
        let call = call(&node.target)?;
        let mut args = Vec::with_capacity(node.inputs.len());
        for arg in &node.inputs {
            let value = match &arg.arg {
                schema::Argument::AsGraph(sub) => Arg::Graph(Box::new(self.function(&sub.graph)?)),
                other => self.arg(other, scope)?,
            };
            args.push(NamedArg {
                name: arg.name.as_str().into(),
                arg: value,
                keyword: arg.kind == Some(2),
            });
        }
        let name = function.unique(&name_of(node), prefix);
        let mut outputs = Vec::with_capacity(node.outputs.len());
        let single = node.outputs.len() == 1;
        for output in &node.outputs {
            // A node's only tensor is known by the node's name, which mode regions make unique.
            let known_as = |own: &str| {
                if single { name.to_string() } else { function_name(own, prefix) }
            };
            outputs.push(match output {
                schema::Argument::AsTensor(tensor) if tensor.name.is_empty() => Produces::Nothing,
                schema::Argument::AsTensor(tensor) => Produces::Tensor(function.define(
                    &tensor.name,
                    &known_as(&tensor.name),
                    source,
                    scope,
                )?),
                schema::Argument::AsTensors(tensors) => {
                    let mut ids = Vec::with_capacity(tensors.len());
                    for tensor in tensors {
                        let known_as = function_name(&tensor.name, prefix);
                        ids.push(function.define(&tensor.name, &known_as, source, scope)?);
                    }
                    Produces::Tensors(ids)
                }
                schema::Argument::AsNone(_) => Produces::Nothing,
                other => match argument_name(other) {
                    Some(own) => {
                        Produces::Scalar(function.define(own, &known_as(own), source, scope)?)
                    }
                    None => Produces::Nothing,
                },
            });
        }
        let stack = node.metadata.get("nn_module_stack").map_or("", String::as_str);
        let trace = node.metadata.get("stack_trace").map_or("", String::as_str);
        let (module, source) = (self.text(module_path(stack)), self.source(trace));
        let ordinal = self.ordinal;
        self.ordinal += 1;
        let mode = mode.clone();
        function.graph.nodes.push(Node {
            name,
            call,
            args,
            outputs,
            module,
            source,
            mode,
            ordinal,
        });
        Ok(())
    }

    fn args(&mut self, args: &[schema::Argument], scope: &Scope) -> Result<Vec<Arg>> {
        args.iter().map(|arg| self.arg(arg, scope)).collect()
    }

    fn arg(&mut self, arg: &schema::Argument, scope: &Scope) -> Result<Arg> {
        use schema::Argument as A;
        let value = |name: &str| lookup(scope, name);
        Ok(match arg {
            A::AsNone(_) => Arg::None,
            A::AsTensor(tensor) => value(&tensor.name)?,
            A::AsTensors(tensors) => list(tensors, |tensor| value(&tensor.name))?,
            A::AsNestedTensors(lists) => {
                list(lists, |tensors| list(tensors, |tensor| value(&tensor.name)))?
            }
            A::AsOptionalTensor(tensor) => optional(tensor, scope)?,
            A::AsOptionalTensors(tensors) => list(tensors, |tensor| optional(tensor, scope))?,
            A::AsInt(n) => Arg::Int(*n),
            A::AsInts(ns) => list(ns, |n| Ok(Arg::Int(*n)))?,
            A::AsIntLists(lists) => list(lists, |ns| list(ns, |n| Ok(Arg::Int(*n))))?,
            A::AsFloat(x) => Arg::Float(x.0),
            A::AsFloats(xs) => list(xs, |x| Ok(Arg::Float(x.0)))?,
            A::AsBool(b) => Arg::Bool(*b),
            A::AsBools(bs) => list(bs, |b| Ok(Arg::Bool(*b)))?,
            A::AsString(text) => Arg::Str(text.as_str().into()),
            A::AsStrings(texts) => list(texts, |text| Ok(Arg::Str(text.as_str().into())))?,
            A::AsSymInt(sym) => known(sym, scope, |n| Arg::Int(*n))?,
            A::AsSymInts(syms) => list(syms, |sym| known(sym, scope, |n| Arg::Int(*n)))?,
            A::AsSymFloat(sym) => known(sym, scope, |x| Arg::Float(x.0))?,
            A::AsSymFloats(syms) => list(syms, |sym| known(sym, scope, |x| Arg::Float(x.0)))?,
            A::AsSymBool(sym) => known(sym, scope, |b| Arg::Bool(*b))?,
            A::AsSymBools(syms) => list(syms, |sym| known(sym, scope, |b| Arg::Bool(*b)))?,
            A::AsScalarType(code) => Arg::ScalarType(ScalarType::from_code(*code)?),
            // The schema counts formats and layouts otherwise than the dispatcher does.
            A::AsMemoryFormat(code) => Arg::MemoryFormat(match code {
                1 => 0,
                4 => 1,
                2 => 2,
                3 => 3,
                _ => return Err(Error::Graph(format!("memory format {code} is not known"))),
            }),
            A::AsLayout(7) => Arg::Layout(0),
            A::AsLayout(code) => {
                return Err(Error::Graph(format!(
                    "layout {code} is sparse; only dense tensors run"
                )));
            }
            A::AsDevice(device) => {
                Arg::Device { kind: device.r#type.as_str().into(), index: device.index }
            }
            A::AsComplex(z) => Arg::Complex(z.real.0, z.imag.0),
            A::AsOperator(name) => Arg::Operator(name.as_str().into()),
            A::AsGraph(sub) => Arg::Graph(Box::new(self.function(&sub.graph)?)),
            A::AsCustomObj(object) => {
                let class = &object.class_fqn;
                return Err(Error::Graph(format!("it uses a TorchScript object ({class})")));
            }
            A::AsStringToArgument(named) => {
                let mut named: Vec<_> = named.iter().collect();
                named.sort_by_key(|(name, _)| name.as_str());
                list(&named, |(_, arg)| self.arg(arg, scope))?
            }
        })
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    /// The innermost frame of a Python stack trace.
    fn source(&mut self, trace: &str) -> Option<Source> {
        let frame = &trace[trace.rfind("File \"")? + 6..];
        let (file, rest) = frame.split_once('"')?;
        let digits = rest.strip_prefix(", line ")?;
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        Some(Source { file: self.text(file), line: digits[..end].parse().ok()? })
    }
}

impl Function {
    fn define(
        &mut self,
        name: &str,
        known_as: &str,
        source: &schema::Graph,
        scope: &mut Scope,
    ) -> Result<ValueId> {
        let id = ValueId(u32::try_from(self.graph.values.len()).unwrap_or(u32::MAX));
        let meta = source.tensor_values.get(name).map(meta).transpose()?;
        self.graph.values.push(Value { name: known_as.into(), meta });
        scope.insert(name.into(), Arg::Value(id));
        Ok(id)
    }

    /// A node name no other node of the function has.
    fn unique(&mut self, name: &str, prefix: &str) -> Arc<str> {
        let mut candidate: Arc<str> = function_name(name, prefix).into();
        let mut count = 1;
        while self.names.contains(&candidate) {
            count += 1;
            candidate = format!("{prefix}{name}_{count}").into();
        }
        self.names.insert(candidate.clone());
        candidate
    }
}

fn function_name(name: &str, prefix: &str) -> String {
    format!("{prefix}{name}")
}

fn list<T>(items: &[T], f: impl FnMut(&T) -> Result<Arg>) -> Result<Arg> {
    Ok(Arg::List(items.iter().map(f).collect::<Result<_>>()?))
}

fn name_of(node: &schema::Node) -> String {
    let first = || node.outputs.iter().find_map(argument_name).unwrap_or("unnamed").to_owned();
    node.name.clone().unwrap_or_else(first)
}

fn lookup(scope: &Scope, name: &str) -> Result<Arg> {
    let unknown = || Error::Graph(format!("it reads {name}, which nothing before it makes"));
    scope.get(name).cloned().ok_or_else(unknown)
}

fn known<T>(sym: &schema::Sym<T>, scope: &Scope, f: impl Fn(&T) -> Arg) -> Result<Arg> {
    match sym {
        schema::Sym::Name(name) => lookup(scope, name),
        schema::Sym::Known(value) => Ok(f(value)),
    }
}

fn optional(tensor: &schema::OptionalTensor, scope: &Scope) -> Result<Arg> {
    match tensor {
        schema::OptionalTensor::AsTensor(tensor) => lookup(scope, &tensor.name),
        schema::OptionalTensor::AsNone(_) => Ok(Arg::None),
    }
}

/// The name of the value an argument refers to, if it is one value.
pub(crate) fn argument_name(arg: &schema::Argument) -> Option<&str> {
    match arg {
        schema::Argument::AsTensor(tensor)
        | schema::Argument::AsOptionalTensor(schema::OptionalTensor::AsTensor(tensor)) => {
            Some(&tensor.name)
        }
        schema::Argument::AsSymInt(schema::Sym::Name(name))
        | schema::Argument::AsSymFloat(schema::Sym::Name(name))
        | schema::Argument::AsSymBool(schema::Sym::Name(name)) => Some(name),
        _ => None,
    }
}

pub(crate) fn meta(meta: &schema::TensorMeta) -> Result<TensorMeta> {
    Ok(TensorMeta {
        dtype: ScalarType::from_code(meta.dtype)?,
        sizes: meta.sizes.iter().map(size).collect(),
        requires_grad: meta.requires_grad,
    })
}

fn size(size: &schema::SymInt) -> Expr {
    match size {
        schema::SymInt::AsInt(n) => Expr::Known(*n),
        schema::SymInt::AsExpr(expr) => Expr::parse(&expr.expr_str),
    }
}

/// `torch.ops.aten.add.Tensor` and the like.
fn call(target: &str) -> Result<Call> {
    if let Some(name) = target.strip_prefix("torch.ops.higher_order.") {
        return Ok(Call::HigherOrder(name.into()));
    }
    let Some(rest) = target.strip_prefix("torch.ops.") else {
        return Ok(Call::Python(target.into()));
    };
    let parts: Vec<&str> = rest.split('.').collect();
    let [namespace, op, overload] = parts[..] else {
        return Err(Error::Graph(format!("{target} is no operator's name")));
    };
    let overload = if overload == "default" { "" } else { overload };
    Ok(Call::Op { name: format!("{namespace}::{op}").into(), overload: overload.into() })
}

/// The path of the innermost module: `L__self__,,M;L__self__emb,emb,torch.nn.Embedding` is `emb`.
fn module_path(stack: &str) -> &str {
    let last = stack.rsplit(';').next().unwrap_or("");
    let path = last.split(',').nth(1).unwrap_or("");
    if path.starts_with("_empty_nn_module_stack") {
        ""
    } else {
        path.split('@').next().unwrap_or("")
    }
}

/// A higher-order call that means its subgraph under a mode.
enum Region {
    SetGrad,
    Autocast,
    Plain,
    Invoke,
}

fn region(node: &schema::Node) -> Option<Region> {
    match node.target.strip_prefix("torch.ops.higher_order.")? {
        "wrap_with_set_grad_enabled" => Some(Region::SetGrad),
        "wrap_with_autocast" => Some(Region::Autocast),
        "wrap"
        | "tag_activation_checkpoint"
        | "strict_mode"
        | "hints_wrapper"
        | "wrap_activation_checkpoint" => Some(Region::Plain),
        "invoke_subgraph" => Some(Region::Invoke),
        _ => None,
    }
}

impl Region {
    fn mode(&self, outer: &Mode, args: &[schema::NamedArgument]) -> Result<Mode> {
        use schema::Argument as A;
        let args: Vec<&A> = args.iter().map(|arg| &arg.arg).collect();
        match (self, &args[..]) {
            (Region::Plain | Region::Invoke, _) => Ok(outer.clone()),
            (Region::SetGrad, [A::AsBool(enabled)]) => {
                Ok(Mode { grad: Some(*enabled), ..outer.clone() })
            }
            (Region::Autocast, [A::AsString(device), dtype, A::AsBool(enabled), cache]) => {
                let dtype = match dtype {
                    A::AsScalarType(code) => Some(ScalarType::from_code(*code)?),
                    _ => None,
                };
                let cache = !matches!(cache, A::AsBool(false));
                let device = device.as_str().into();
                let autocast = Some(Autocast { device, dtype, enabled: *enabled, cache });
                Ok(Mode { autocast, ..outer.clone() })
            }
            _ => Err(Error::Graph("its mode arguments are not of the known form".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_paths_and_sources_are_read() {
        let stack = "L__self__,,__main__.M;L__self___layer_0,layer.0@1,torch.nn.Linear";
        assert_eq!(module_path(stack), "layer.0");
        let trace =
            "File \"/a.py\", line 8, in forward\n  File \"/b.py\", line 189, in f\n  return";
        let source = Reader::default().source(trace).unwrap();
        assert_eq!((&*source.file, source.line), ("/b.py", 189));
    }

    #[test]
    fn targets_name_operators() {
        let add = call("torch.ops.aten.add.Tensor").unwrap();
        assert_eq!(add.to_string(), "aten.add.Tensor");
        assert_eq!(call("torch.ops.aten.linear.default").unwrap().to_string(), "aten.linear");
        assert_eq!(call("_operator.mul").unwrap(), Call::Python("_operator.mul".into()));
        assert!(call("torch.ops.aten").is_err());
    }
}
