//! The reference interpreter: what a program means, evaluated operation by operation.
//!
//! It is the slow, obvious version that every backend is compared with. Floats of every format
//! are computed in f64 and rounded once to the result's type, so the four basic operations and
//! the square root are correctly rounded and long sums lose nothing on the way.

mod apply;
mod lifetime;
pub(crate) mod parallel;
mod scalar;
pub(crate) mod strided;
mod tensor;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use lifetime::Lifetimes;
use rustc_hash::FxHashMap;

pub(crate) use apply::Apply;
pub use scalar::{LaneFn, Program};
pub(crate) use tensor::by_storage;
pub use tensor::{Num, Tensor, Value, ravel, strides, unravel, wrap};

use crate::ir::{Func, Graph, Module, NodeId, RegionId, TensorTy, Ty, ValueId, dims_compatible};

/// Why an evaluation ended without a result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// Which kind of end it was.
    pub kind: ErrorKind,
    /// What happened, with the operation's name in front.
    pub message: String,
    /// Where in the program's text, if it was parsed.
    pub offset: Option<usize>,
}

/// The kinds of ends that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The program did something undefined or impossible with these inputs.
    Program,
    /// A `check.*` expectation does not hold.
    Check,
    /// The interpreter does not do this.
    Unsupported,
    /// A limit was reached: time, memory, depth.
    Limit,
}

impl EvalError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), offset: None }
    }

    pub fn program(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Program, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }
}

pub type EvalResult<T = Vec<Value>> = Result<T, EvalError>;

/// Bounds on an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most elements one tensor may have.
    pub max_elements: usize,
    /// How deep calls may nest.
    pub max_depth: usize,
    /// When to give up.
    pub deadline: Option<Instant>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_elements: 1 << 32, max_depth: 128, deadline: None }
    }
}

/// Sees every intermediate value as it is made.
pub trait Observer: Sync {
    fn value(&self, func: &Func, graph: &Graph, id: ValueId, value: &Value);
}

/// Evaluates functions of one module.
pub struct Interpreter<'m> {
    pub module: &'m Module,
    pub limits: Limits,
    pub observer: Option<&'m dyn Observer>,
    stopped: AtomicBool,
    /// Each function's lifetimes, worked out when it is called first.
    lifetimes: Mutex<FxHashMap<&'m str, Arc<Lifetimes>>>,
    /// Where this interpreter stands in a grid of processes.
    pub(crate) process: parallel::Process,
    pub(crate) probes: Probes,
}

/// The values `interpreter.probe` has seen, in the order it saw them.
pub(crate) type Probes = Arc<Mutex<FxHashMap<Box<str>, Vec<Tensor>>>>;

impl<'m> Interpreter<'m> {
    pub fn new(module: &'m Module) -> Self {
        Self {
            module,
            limits: Limits::default(),
            observer: None,
            stopped: AtomicBool::new(false),
            lifetimes: Mutex::default(),
            process: parallel::Process::default(),
            probes: Probes::default(),
        }
    }

    /// The same interpreter as a process of a grid.
    pub(crate) fn as_process(&self, process: parallel::Process) -> Self {
        Self {
            limits: self.limits,
            observer: self.observer,
            process,
            probes: self.probes.clone(),
            ..Self::new(self.module)
        }
    }

    /// Calls a function by name.
    pub fn call(&self, name: &str, arguments: Vec<Value>) -> EvalResult {
        self.call_at(name, arguments, 0)
    }

    fn call_at(&self, name: &str, arguments: Vec<Value>, depth: usize) -> EvalResult {
        if depth > self.limits.max_depth {
            let message = format!("calls nest deeper than {}", self.limits.max_depth);
            return Err(EvalError::new(ErrorKind::Limit, message));
        }
        let Some(func) = self.module.func(name) else {
            return Err(EvalError::program(format!("there is no function @{name}")));
        };
        let Some(graph) = &func.body else {
            return Err(EvalError::program(format!("function @{name} is only declared")));
        };
        self.check_arguments(func, &arguments)?;
        let env = vec![None; graph.value_count()];
        let lifetimes = self.lifetimes(func, graph);
        let mut frame = Frame { func, graph, env, lifetimes, depth };
        self.run_region(&mut frame, Graph::BODY, arguments)
    }

    fn lifetimes(&self, func: &'m Func, graph: &Graph) -> Arc<Lifetimes> {
        let mut known = self.lifetimes.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(&func.name).or_insert_with(|| Arc::new(Lifetimes::new(graph))).clone()
    }

    fn check_arguments(&self, func: &Func, arguments: &[Value]) -> EvalResult<()> {
        if arguments.len() != func.arguments.len() {
            return Err(EvalError::program(format!(
                "@{} takes {} arguments, {} were given",
                func.name,
                func.arguments.len(),
                arguments.len()
            )));
        }
        for (i, (argument, ty)) in arguments.iter().zip(&func.arguments).enumerate() {
            let declared = self.module.ty(*ty);
            if !argument.ty().compatible(declared) {
                return Err(EvalError::program(format!(
                    "argument {i} of @{} is {declared}, a value of type {} was given",
                    func.name,
                    argument.ty()
                )));
            }
        }
        Ok(())
    }

    /// Evaluates a region of a frame and returns what it yields.
    fn run_region(&self, frame: &mut Frame<'m>, id: RegionId, arguments: Vec<Value>) -> EvalResult {
        let graph = frame.graph;
        for (value, argument) in graph.arguments(id).zip(arguments) {
            if frame.lifetimes.is_used(value) {
                frame.env[value.index()] = Some(argument);
            }
        }
        let nodes = &graph.region(id).nodes;
        let Some((last, body)) = nodes.split_last() else {
            return Ok(Vec::new());
        };
        for node in body {
            self.step(frame, *node)?;
        }
        if graph.results(*last).len() > 0 || !graph.node(*last).op.is_terminator() {
            self.step(frame, *last)?;
            return Ok(Vec::new());
        }
        let yields = graph.operands(*last).iter().map(|value| frame.get(*value).cloned()).collect();
        frame.forget(*last);
        yields
    }

    fn step(&self, frame: &mut Frame<'m>, id: NodeId) -> EvalResult<()> {
        self.check_time()?;
        let graph = frame.graph;
        let node = graph.node(id);
        let mut cx = Cx { interpreter: self, frame, node: id };
        let place = |mut error: EvalError| {
            error.offset =
                error.offset.or((node.offset != u32::MAX).then_some(node.offset as usize));
            error
        };
        let results = node.op.eval(&mut cx).map_err(place)?;
        for (value, result) in graph.results(id).zip(results) {
            let declared = self.module.value_ty(graph, value);
            // Sizes the types leave open are known only now.
            if !result.is_a(declared) {
                let (name, found) = (node.op.name(), result.ty());
                let message = format!("{name}: the result is {found}, but {declared} was declared");
                return Err(place(EvalError::program(message)));
            }
            if let Some(observer) = self.observer {
                observer.value(frame.func, graph, value, &result);
            }
            frame.env[value.index()] = Some(result);
        }
        frame.forget(id);
        Ok(())
    }

    /// Fails once the time is up; loops that are not bounded by a tensor's size ask now and then.
    pub(crate) fn check_time(&self) -> EvalResult<()> {
        let late = self.limits.deadline.is_some_and(|deadline| Instant::now() > deadline);
        if late || self.stopped.load(Ordering::Relaxed) {
            return Err(EvalError::new(ErrorKind::Limit, "the time limit was reached"));
        }
        Ok(())
    }
}

/// The values of one call.
pub(crate) struct Frame<'m> {
    func: &'m Func,
    graph: &'m Graph,
    env: Vec<Option<Value>>,
    lifetimes: Arc<Lifetimes>,
    depth: usize,
}

impl Frame<'_> {
    fn get(&self, value: ValueId) -> EvalResult<&Value> {
        self.env[value.index()]
            .as_ref()
            .ok_or_else(|| EvalError::program("a value is used before it is defined"))
    }

    /// Drops what nobody needs after this operation.
    fn forget(&mut self, node: NodeId) {
        for value in self.lifetimes.ends(node) {
            self.env[value.index()] = None;
        }
    }
}

/// What an operation sees while it is evaluated.
pub struct Cx<'a, 'm> {
    pub interpreter: &'a Interpreter<'m>,
    frame: &'a mut Frame<'m>,
    pub node: NodeId,
}

impl<'m> Cx<'_, 'm> {
    pub fn module(&self) -> &'m Module {
        self.interpreter.module
    }

    pub fn graph(&self) -> &'m Graph {
        self.frame.graph
    }

    fn name(&self) -> &'static str {
        self.graph().node(self.node).op.name()
    }

    pub fn operand_count(&self) -> usize {
        self.graph().operands(self.node).len()
    }

    pub fn operand(&self, i: usize) -> EvalResult<&Value> {
        match self.graph().operands(self.node).get(i) {
            Some(value) => self.frame.get(*value),
            None => Err(self.error(format!("operand {i} is missing"))),
        }
    }

    /// Operand `i` to keep: moved out if this is its last use, so that its memory can be reused.
    pub fn take(&mut self, i: usize) -> EvalResult<Value> {
        let operands = self.graph().operands(self.node);
        let Some(value) = operands.get(i) else {
            return Err(self.error(format!("operand {i} is missing")));
        };
        let last = self.frame.lifetimes.can_move(self.node, *value)
            && operands.iter().filter(|other| *other == value).count() == 1;
        let slot = &mut self.frame.env[value.index()];
        let taken = if last { slot.take() } else { slot.clone() };
        taken.ok_or_else(|| self.error(format!("operand {i} is used before it is defined")))
    }

    /// Operand `i`, which must be a tensor, to write into: see [`Cx::take`].
    pub fn take_tensor(&mut self, i: usize) -> EvalResult<Tensor> {
        match self.take(i)? {
            Value::Tensor(tensor) => Ok(tensor),
            other => Err(self.error(format!("operand {i} is a {}, not a tensor", other.ty()))),
        }
    }

    /// Operand `i`, which must be a tensor.
    pub fn tensor(&self, i: usize) -> EvalResult<&Tensor> {
        match self.operand(i)? {
            Value::Tensor(tensor) => Ok(tensor),
            other => Err(self.error(format!("operand {i} is a {}, not a tensor", other.ty()))),
        }
    }

    /// All operands from `first` on, which must be tensors.
    pub fn tensors(&self, first: usize) -> EvalResult<Vec<&Tensor>> {
        (first..self.operand_count()).map(|i| self.tensor(i)).collect()
    }

    /// The declared type of result `i`, which must be a tensor's.
    pub fn result_ty(&self, i: usize) -> EvalResult<&'m TensorTy> {
        let value = self.graph().results(self.node).nth(i);
        match value.map(|value| self.module().value_ty(self.graph(), value)) {
            Some(Ty::Tensor(ty)) => Ok(ty),
            _ => Err(self.error(format!("result {i} is not a tensor"))),
        }
    }

    /// The type of result `i` once its shape is known: the declared element type and these
    /// dimensions, which must agree with what was declared.
    pub fn result_of(&self, i: usize, dims: &[i64]) -> EvalResult<TensorTy> {
        let declared = self.result_ty(i)?;
        let ty = declared.with_dims(dims.iter().copied());
        if !dims_compatible(dims, &declared.dims) {
            return Err(self.error(format!("the result is {ty}, but {declared} was declared")));
        }
        self.allow(&ty)?;
        Ok(ty)
    }

    /// Refuses tensors beyond the element limit.
    pub fn allow(&self, ty: &TensorTy) -> EvalResult<()> {
        match ty.count() {
            Some(count) if count <= self.interpreter.limits.max_elements => Ok(()),
            _ => Err(EvalError::new(
                ErrorKind::Limit,
                format!("{}: {ty} has more elements than allowed", self.name()),
            )),
        }
    }

    pub fn error(&self, message: impl std::fmt::Display) -> EvalError {
        EvalError::program(format!("{}: {message}", self.name()))
    }

    pub fn check_failed(&self, message: impl std::fmt::Display) -> EvalError {
        EvalError::new(ErrorKind::Check, format!("{}: {message}", self.name()))
    }

    pub fn region_id(&self, i: usize) -> EvalResult<RegionId> {
        let region = self.graph().regions(self.node).get(i).copied();
        region.ok_or_else(|| self.error(format!("region {i} is missing")))
    }

    /// Evaluates region `i` with these arguments.
    pub fn region(&mut self, i: usize, arguments: Vec<Value>) -> EvalResult {
        let id = self.region_id(i)?;
        self.interpreter.run_region(self.frame, id, arguments)
    }

    /// Calls another function of the module.
    pub fn call(&self, name: &str, arguments: Vec<Value>) -> EvalResult {
        self.interpreter.call_at(name, arguments, self.frame.depth + 1)
    }

    /// How deep the current call is nested.
    pub(crate) fn depth(&self) -> usize {
        self.frame.depth
    }

    /// Region `i` as a function of single elements.
    pub fn program(&self, i: usize) -> EvalResult<Option<Program>> {
        let id = self.region_id(i)?;
        let outer = |value: ValueId| match self.frame.get(value) {
            Ok(Value::Tensor(tensor)) if tensor.rank() == 0 => Some(tensor.get(0)),
            _ => None,
        };
        Ok(Program::compile(self.module(), self.graph(), id, &outer))
    }
}
