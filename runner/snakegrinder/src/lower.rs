//! The walk over a graph: arguments in, one call after another, results out.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use warpforge_pt2::{
    Arg, Call, Graph, InputKind, Model, Node, OutputKind, Produces, TensorMeta, ValueId,
};
use warpforge_snakeburger::diag::Diagnostic;
use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::{Attr, DType, Dict, Module, TensorTy};
use warpforge_snakeburger::verify::{Verified, verify};

use crate::cx::{Cx, Out, Res, Why, element};
use crate::env::Env;
use crate::value::{SlotId, Slots, Val};
use crate::{aten, autocast, python, schema};
use warpforge_snakeburger::build::{Emitter, V};

/// A lowered model.
#[derive(Clone, Debug)]
pub struct Program {
    pub module: Verified,
    /// What the arguments of `main` are, in order.
    pub arguments: Vec<Argument>,
    pub results: Vec<ResultInfo>,
}

/// One argument of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    pub kind: ArgumentKind,
    /// The argument's name; tied weights are one argument of several names.
    pub names: Vec<Box<str>>,
    pub ty: TensorTy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    Parameter,
    Buffer,
    Constant,
    Input,
    /// Seed and step of the random numbers.
    Random,
}

impl ArgumentKind {
    pub fn name(self) -> &'static str {
        match self {
            ArgumentKind::Parameter => "parameter",
            ArgumentKind::Buffer => "buffer",
            ArgumentKind::Constant => "constant",
            ArgumentKind::Input => "input",
            ArgumentKind::Random => "random",
        }
    }
}

/// One result of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultInfo {
    pub kind: ResultKind,
    pub name: Box<str>,
    pub ty: TensorTy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    Output,
    Loss,
    /// The new content of a buffer, parameter or input that the model changed.
    Mutated,
}

impl ResultKind {
    pub fn name(self) -> &'static str {
        match self {
            ResultKind::Output => "output",
            ResultKind::Loss => "loss",
            ResultKind::Mutated => "mutated",
        }
    }
}

/// Calls of one operator that cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    pub call: String,
    pub why: String,
    pub count: usize,
    /// The module path of the first such call.
    pub module: String,
    /// The line of source of the first such call.
    pub source: Option<String>,
}

/// Why a model has no program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", list(.0))]
    Unsupported(Vec<Unsupported>),
    #[error("the sizes of input {0} are open; load the model with every size given")]
    Open(String),
    #[error("input {name}: {why}")]
    Input { name: String, why: String },
    /// What was built does not verify, or differs from what the exporter said: our mistake.
    #[error("the lowering is wrong: {0}")]
    Wrong(String),
}

fn list(all: &[Unsupported]) -> String {
    let mut text = format!("{} of the model's operators cannot be lowered:", all.len());
    for one in all {
        let times = if one.count == 1 { String::new() } else { format!(" ({} times)", one.count) };
        let _ = write!(text, "\n  {}{times}: {}", one.call, one.why);
        if !one.module.is_empty() {
            let _ = write!(text, ", in {}", one.module);
        }
        if let Some(source) = &one.source {
            let _ = write!(text, ", at {source}");
        }
    }
    text
}

/// Lowers a model whose sizes are all known.
pub fn lower(model: &Model) -> Result<Program, Error> {
    let (arguments, places) = arguments(model)?;
    let types: Vec<TensorTy> = arguments.iter().map(|argument| argument.ty.clone()).collect();
    let e = Emitter::new(&types);
    let values = e.arguments();
    let mut slots = Slots::default();
    let owners: Vec<SlotId> = values.iter().map(|value| slots.add(*value)).collect();
    let random = arguments.iter().position(|argument| argument.kind == ArgumentKind::Random);
    let default = element(model.default_float).unwrap_or(DType::F32);
    let mut walk = Walk {
        e: Some(e),
        slots: Some(slots),
        random: random.map(|i| values[i]),
        default,
        unsupported: BTreeMap::new(),
        blank: HashSet::new(),
        depth: 0,
        failed: None,
    };
    let mut env = Env::new(&model.graph);
    for (input, place) in model.inputs.iter().zip(&places) {
        if let (Arg::Value(id), Some(place)) = (&input.arg, place) {
            env.set(*id, Val::Tensor(owners[*place]));
        }
    }
    walk.graph(&model.graph, &mut env)?;
    if !walk.unsupported.is_empty() {
        return Err(Error::Unsupported(walk.unsupported.into_values().collect()));
    }
    let (mut e, mut slots) = walk.into_parts();
    let results = results(model, &env, &arguments, &owners, &mut e, &mut slots);
    finish(e, arguments, &results)
}

fn finish(
    e: Emitter,
    arguments: Vec<Argument>,
    results: &[(ResultKind, Box<str>, V)],
) -> Result<Program, Error> {
    let text = |name: &str, value: &str| (name.into(), Attr::Str(value.into()));
    let argument_attrs: Vec<Dict> = arguments
        .iter()
        .map(|argument| {
            vec![
                text("warpforge.name", &argument.names.join(" ")),
                text("warpforge.kind", argument.kind.name()),
            ]
        })
        .collect();
    let result_attrs = results
        .iter()
        .map(|(kind, name, _)| {
            vec![text("warpforge.name", name), text("warpforge.kind", kind.name())]
        })
        .collect();
    let values: Vec<V> = results.iter().map(|(_, _, value)| *value).collect();
    let infos = results
        .iter()
        .map(|(kind, name, value)| ResultInfo {
            kind: *kind,
            name: name.clone(),
            ty: e.ty(*value).clone(),
        })
        .collect();
    let module: Module = e.finish(&values, argument_attrs, result_attrs);
    let module = verify(module).map_err(|problems| {
        let first: Vec<String> =
            problems.iter().take(5).map(|Diagnostic { message, .. }| message.clone()).collect();
        Error::Wrong(first.join("; "))
    })?;
    Ok(Program { module, arguments, results: infos })
}

/// The program's arguments, and which of them each input of the graph is.
fn arguments(model: &Model) -> Result<(Vec<Argument>, Vec<Option<usize>>), Error> {
    let mut arguments: Vec<Argument> = Vec::new();
    let mut places = Vec::new();
    let mut tied: BTreeMap<usize, usize> = BTreeMap::new();
    for input in &model.inputs {
        let Some(meta) = &input.meta else {
            places.push(None);
            continue;
        };
        let kind = match input.kind {
            InputKind::Parameter => ArgumentKind::Parameter,
            InputKind::Buffer { .. } => ArgumentKind::Buffer,
            InputKind::Constant => ArgumentKind::Constant,
            InputKind::User => ArgumentKind::Input,
        };
        let group = match kind {
            ArgumentKind::Input => None,
            _ => model.weights.group(&input.name),
        };
        if let Some(place) = group.and_then(|group| tied.get(&group)) {
            arguments[*place].names.push(input.name.clone());
            places.push(Some(*place));
            continue;
        }
        let ty = tensor_ty(meta).map_err(|why| match why {
            None => Error::Open(input.name.to_string()),
            Some(why) => Error::Input { name: input.name.to_string(), why: why.0 },
        })?;
        if let Some(group) = group {
            tied.insert(group, arguments.len());
        }
        places.push(Some(arguments.len()));
        arguments.push(Argument { kind, names: vec![input.name.clone()], ty });
    }
    let mut draws = false;
    model.graph.each_node(&mut |node| draws |= aten::draws(node));
    if draws {
        let ty = TensorTy::new([2], DType::U64);
        let names = vec!["warpforge.random".into()];
        arguments.push(Argument { kind: ArgumentKind::Random, names, ty });
    }
    Ok((arguments, places))
}

pub fn tensor_ty(meta: &TensorMeta) -> Result<TensorTy, Option<Why>> {
    let dims = meta.dims().ok_or(None)?;
    Ok(TensorTy::new(dims, element(meta.dtype).map_err(Some)?))
}

/// Whether the exporter is known to be wrong about a result: it gives the last states of an LSTM
/// an axis of size one that they do not have.
fn misled(node: &Node, found: &TensorTy, exported: &TensorTy) -> bool {
    let lstm = matches!(&node.call, Call::Op { name, .. } if &**name == "aten::lstm");
    let (mut dims, own) = (exported.dims.to_vec(), found.dims.to_vec());
    lstm && dims.len() == 4 && dims.remove(1) == 1 && dims == own && found.elem == exported.elem
}

/// What a call makes where gradients are off: values that nothing flows back through.
fn detached(e: &mut Emitter, out: Out) -> Out {
    match out {
        Out::New(value) if e.dtype(value).is_float() || e.dtype(value).is_complex() => {
            Out::New(e.stop_gradient(value))
        }
        Out::Many(outs) => Out::Many(outs.into_iter().map(|out| detached(e, out)).collect()),
        other => other,
    }
}

/// What the program yields: the graph's tensors, then everything it changed in place.
fn results(
    model: &Model,
    env: &Env,
    arguments: &[Argument],
    owners: &[SlotId],
    e: &mut Emitter,
    slots: &mut Slots,
) -> Vec<(ResultKind, Box<str>, V)> {
    let mut results: Vec<(ResultKind, Box<str>, V)> = Vec::new();
    for output in &model.outputs {
        let Arg::Value(id) = &output.arg else { continue };
        let Some(Val::Tensor(slot)) = env.get(*id) else { continue };
        let value = slots.read(e, *slot);
        let (kind, name) = match &output.kind {
            OutputKind::User | OutputKind::Gradient(_) => (ResultKind::Output, &output.name),
            OutputKind::Loss => (ResultKind::Loss, &output.name),
            OutputKind::Mutation(name) | OutputKind::InputMutation(name) => {
                (ResultKind::Mutated, name)
            }
        };
        if !results.iter().any(|(k, n, _)| *k == kind && n == name) {
            results.push((kind, name.clone(), value));
        }
    }
    for (argument, slot) in arguments.iter().zip(owners) {
        if slots.written(*slot) {
            let value = slots.read(e, *slot);
            results.push((ResultKind::Mutated, argument.names[0].clone(), value));
        }
    }
    results
}

/// For each call whether it only serves to check values as the model runs: the checks, and numbers
/// taken out of tensors, and computed from those, that nothing but a check reads.
fn only_checked(graph: &Graph) -> Vec<bool> {
    let mut wanted = HashSet::new();
    graph.outputs.iter().for_each(|output| {
        output.each_value(&mut |id| {
            wanted.insert(id);
        });
    });
    let mut idle: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    for node in graph.nodes.iter().rev() {
        let number = match &node.call {
            Call::Op { name, .. } => aten::is_check(name) || &**name == "aten::item",
            Call::Python(_) => true,
            Call::HigherOrder(_) => false,
        };
        let is_idle = number && !node.makes().iter().any(|id| wanted.contains(id));
        if !is_idle {
            wanted.extend(node.reads());
        }
        idle.push(is_idle);
    }
    idle.reverse();
    idle
}

pub struct Walk {
    // Lent to the call at hand.
    e: Option<Emitter>,
    slots: Option<Slots>,
    pub random: Option<V>,
    default: DType,
    unsupported: BTreeMap<(String, String), Unsupported>,
    /// Tensors that began as memory nothing was written to.
    blank: HashSet<SlotId>,
    /// How many graphs the one at hand is inside of; only the outermost has taps, as the others'
    /// calls run any number of times.
    pub depth: usize,
    /// What went wrong in a subgraph.
    pub failed: Option<Error>,
}

impl Walk {
    fn into_parts(self) -> (Emitter, Slots) {
        match (self.e, self.slots) {
            (Some(e), Some(slots)) => (e, slots),
            _ => unreachable!("every call gives back what it borrowed"),
        }
    }

    pub fn emitter(&mut self) -> &mut Emitter {
        match &mut self.e {
            Some(e) => e,
            None => unreachable!("every call gives back what it borrowed"),
        }
    }

    pub fn slots(&mut self) -> &mut Slots {
        match &mut self.slots {
            Some(slots) => slots,
            None => unreachable!("every call gives back what it borrowed"),
        }
    }

    pub fn read(&mut self, slot: SlotId) -> V {
        match (&mut self.e, &mut self.slots) {
            (Some(e), Some(slots)) => slots.read(e, slot),
            _ => unreachable!("every call gives back what it borrowed"),
        }
    }

    pub fn graph(&mut self, graph: &Graph, env: &mut Env) -> Result<(), Error> {
        for (node, idle) in graph.nodes.iter().zip(only_checked(graph)) {
            if idle {
                continue;
            }
            match self.node(node, env) {
                Ok(out) => self.bind(graph, node, out, env)?,
                Err(why) => {
                    if let Some(error) = self.failed.take() {
                        return Err(error);
                    }
                    self.note(node, why);
                    self.stand_in(graph, node, env);
                }
            }
        }
        Ok(())
    }

    fn node(&mut self, node: &Node, env: &mut Env) -> Res {
        let mut args = Vec::with_capacity(node.args.len());
        for arg in &node.args {
            args.push((arg.name.clone(), env.arg(&arg.arg)?));
        }
        let (name, overload) = match &node.call {
            Call::Op { name, overload } => (name, overload),
            Call::Python(name) => {
                let args: Vec<Val> = args.into_iter().map(|(_, val)| val).collect();
                return python::call(name, &args).map(Out::Val);
            }
            Call::HigherOrder(name) => {
                let source = node.source.as_ref().map(|source| (&*source.file, source.line));
                self.emitter().locate(&node.name, &node.module, source);
                return self.higher(name, node, env);
            }
        };
        let (Some(mut e), Some(slots)) = (self.e.take(), self.slots.take()) else {
            unreachable!("every call gives back what it borrowed")
        };
        let source = node.source.as_ref().map(|source| (&*source.file, source.line));
        e.locate(&node.name, &node.module, source);
        let schema = schema::find(name, overload);
        let mut cx =
            Cx { e, slots, node, schema, args, default: self.default, random: self.random };
        let out = autocast::apply(&mut cx, node, name).and_then(|()| aten::lower(&mut cx, name));
        let out = if node.mode.grad == Some(false) {
            out.map(|out| detached(&mut cx.e, out))
        } else {
            out
        };
        self.e = Some(cx.e);
        self.slots = Some(cx.slots);
        out
    }

    /// Gives a call's results their names, and checks their types against the exporter's.
    fn bind(&mut self, graph: &Graph, node: &Node, out: Out, env: &mut Env) -> Result<(), Error> {
        let outs = match (out, node.outputs.len()) {
            (Out::Nothing, _) => return Ok(()),
            (Out::Many(outs), n) if n > 1 => outs,
            (out, _) => vec![out],
        };
        for (produces, out) in node.outputs.iter().zip(outs) {
            match (produces, out) {
                (Produces::Tensors(ids), Out::Many(outs)) => {
                    for (id, out) in ids.iter().zip(outs) {
                        self.bind_one(graph, node, *id, out, env)?;
                    }
                }
                (Produces::Tensor(id) | Produces::Scalar(id), Out::Many(mut outs)) => {
                    if !outs.is_empty() {
                        self.bind_one(graph, node, *id, outs.swap_remove(0), env)?;
                    }
                }
                (Produces::Tensor(id) | Produces::Scalar(id), out) => {
                    self.bind_one(graph, node, *id, out, env)?;
                }
                (Produces::Tensors(_) | Produces::Nothing, _) => {}
            }
        }
        Ok(())
    }

    fn bind_one(
        &mut self,
        graph: &Graph,
        node: &Node,
        id: ValueId,
        out: Out,
        env: &mut Env,
    ) -> Result<(), Error> {
        let (Some(e), Some(slots)) = (&mut self.e, &mut self.slots) else {
            unreachable!("every call gives back what it borrowed")
        };
        let slot = match out {
            Out::New(value) => slots.add(value),
            Out::Slot(slot) => slot,
            Out::Val(val) => {
                env.set(id, val);
                return Ok(());
            }
            Out::Many(_) | Out::Nothing => return Ok(()),
        };
        let value = slots.read(e, slot);
        let exported = graph.value(id).meta.as_ref().and_then(|meta| tensor_ty(meta).ok());
        let mut doubted = env.doubts(node);
        if let Some(exported) = exported
            && *e.ty(value) != exported
            && !doubted
        {
            doubted = misled(node, e.ty(value), &exported);
            if !doubted {
                return Err(Error::Wrong(format!(
                    "{} ({}) in {:?} became {}, the exporter says {exported}",
                    node.name,
                    node.call,
                    node.module,
                    e.ty(value)
                )));
            }
        }
        // Memory that nothing was written to holds whatever it holds, and so may any part of it:
        // not a result to compare, unless this call has written it.
        if aten::is_uninitialised(&node.call) {
            self.blank.insert(slot);
        }
        let blank = self.blank.contains(&slots.root(slot)) && !aten::writes(&node.call);
        if self.depth == 0 && !blank {
            e.tap(value, graph.name(id));
        }
        env.set(id, Val::Tensor(slot));
        if doubted {
            env.doubt(id);
        }
        Ok(())
    }

    fn note(&mut self, node: &Node, why: Why) {
        let call = node.call.to_string();
        let entry = self.unsupported.entry((call.clone(), why.0.clone()));
        let source = node.source.as_ref().map(|source| format!("{}:{}", source.file, source.line));
        let module = node.module.to_string();
        entry
            .or_insert_with(|| Unsupported { call, why: why.0, count: 0, module, source })
            .count += 1;
    }

    /// Values of the exported types in place of an unsupported call's results, so that the walk
    /// finds whatever else is unsupported.
    fn stand_in(&mut self, graph: &Graph, node: &Node, env: &mut Env) {
        let (Some(e), Some(slots)) = (&mut self.e, &mut self.slots) else { return };
        for id in node.makes() {
            let ty = graph.value(id).meta.as_ref().and_then(|meta| tensor_ty(meta).ok());
            let val = match ty {
                Some(ty) => {
                    let zero = Num::I(0).fit(ty.elem.storage());
                    let value = e.full(&ty.dims, ty.elem.storage(), zero);
                    Val::Tensor(slots.add(value))
                }
                None => Val::Int(1),
            };
            env.set(id, val);
        }
    }
}
