//! Walks an exported graph and has libtorch compute each call. Operators go through the
//! dispatcher by their names; only Python's scalar functions, control flow and the operators of
//! [`random`] are known here.

use std::collections::BTreeMap;

use warpforge_golden_protocol::Device;
use warpforge_pt2::random::Stream;
use warpforge_pt2::{Arg, Call, Graph, Mode, Node, Produces, ValueId};

use crate::failure::{self, Failure, FailureKind};
use crate::random::{self, Arguments, Draw};
use crate::scalar;
use crate::torch::{Autocast, Fault, GradMode, Library, Op, ScalarType, Tensor, Value};

/// Who looks on. Nodes inside of control flow are part of the node that chooses.
pub trait Observer {
    fn begin(&mut self, index: usize, node: &Node) -> Result<(), Failure>;
    /// A tensor that the node made, by its name in the graph.
    fn made(&mut self, name: &str, tensor: &Tensor) -> Result<(), Failure>;
    fn end(&mut self, node: &Node) -> Result<(), Failure>;
}

/// How the graph is run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub device: Device,
    pub seed: u64,
    pub step: u32,
    /// Whether gradients are recorded where the model does not forbid it.
    pub grad: bool,
    /// What floats are made as where nothing says it.
    pub float: ScalarType,
}

/// What ran, by count.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub ops: BTreeMap<String, u64>,
    pub shared_random: BTreeMap<String, u64>,
    pub own_random: BTreeMap<String, u64>,
}

/// An operator, and what runs in its place when it draws random numbers.
#[derive(Clone)]
struct Found {
    op: Op,
    shared: Option<random::Run>,
}

/// Runs one graph, any number of times.
pub struct Interpreter {
    settings: Settings,
    device: String,
    library: Library,
    /// By the nodes' ordinals.
    ops: Vec<Option<Found>>,
    counts: Counts,
}

impl Interpreter {
    /// Looks every operator up, so that one message names all that libtorch does not have.
    pub fn new(graph: &Graph, settings: Settings) -> Result<Self, Failure> {
        let mut library = Library::default();
        let mut ops = Vec::new();
        let mut unknown: BTreeMap<String, (u64, String)> = BTreeMap::new();
        graph.each_node(&mut |node| {
            let Call::Op { name, overload } = &node.call else { return };
            let index = node.ordinal as usize;
            if ops.len() <= index {
                ops.resize(index + 1, None);
            }
            if let Ok(op) = library.find(name, overload) {
                let shared = random::intercepted(name, overload);
                ops[index] = Some(Found { op, shared });
            } else {
                let place = || (0, failure::at(node, FailureKind::Unsupported, "").to_string());
                unknown.entry(node.call.to_string()).or_insert_with(place).0 += 1;
            }
        });
        if !unknown.is_empty() {
            let line = |(op, (count, first)): (_, &(u64, String))| {
                let first = first.trim_end_matches(": ");
                format!("{op} ({count} times, first {first})")
            };
            let list: Vec<_> = unknown.iter().map(line).collect();
            let mut message = format!("libtorch has no operator {}", list.join("; "));
            // Such as torchvision's: they come with a Python package, not with libtorch.
            if unknown.keys().any(|op| !op.starts_with("aten")) {
                message += ". Operators of other libraries cannot be run: export the model with \
                            them written in plain PyTorch, or decomposed before export";
            }
            return Err(failure::failure(FailureKind::Unsupported, message));
        }
        let device = settings.device.to_string();
        Ok(Self { settings, device, library, ops, counts: Counts::default() })
    }

    pub fn library(&mut self) -> &mut Library {
        &mut self.library
    }

    /// Which step of a longer run comes next.
    pub fn set_step(&mut self, step: u32) {
        self.settings.step = step;
    }

    pub fn set_grad(&mut self, grad: bool) {
        self.settings.grad = grad;
    }

    /// Runs the graph that it was made for once; the inputs are the graph's own, in order, and
    /// so are the results.
    pub fn run(
        &mut self,
        graph: &Graph,
        inputs: Vec<Value>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Value>, Failure> {
        self.counts = Counts::default();
        let Settings { seed, step, .. } = self.settings;
        tch::manual_seed(seed.wrapping_add(u64::from(step) << 32) as i64);
        self.function(graph, inputs, Some(observer))
    }

    /// What the last run did.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn function(
        &mut self,
        graph: &Graph,
        inputs: Vec<Value>,
        mut observer: Option<&mut dyn Observer>,
    ) -> Result<Vec<Value>, Failure> {
        let mut values: Vec<Option<Value>> = vec![None; graph.values.len()];
        if inputs.len() != graph.inputs.len() {
            let (given, takes) = (inputs.len(), graph.inputs.len());
            return Err(failure::model(format!("{given} values for a graph of {takes} inputs")));
        }
        for (input, value) in graph.inputs.iter().zip(inputs) {
            if let Arg::Value(id) = input {
                values[id.index()] = Some(value);
            }
        }
        let mut modes = Modes::new(self.settings);
        let done = last_uses(graph);
        for (index, (node, done)) in graph.nodes.iter().zip(done).enumerate() {
            if let Some(observer) = &mut observer {
                observer.begin(index, node)?;
            }
            modes.enter(&node.mode).map_err(|fault| failure::at(node, FailureKind::Op, fault))?;
            let results = self.node(node, &values)?;
            assign(node, results, &mut values)?;
            if let Some(observer) = &mut observer {
                for id in node.makes() {
                    if let Some(Value::Tensor(tensor)) = &values[id.index()]
                        && tensor.defined()
                    {
                        observer.made(graph.name(id), tensor)?;
                    }
                }
                observer.end(node)?;
            }
            for id in done {
                values[id.index()] = None;
            }
        }
        let output = |arg: &Arg| self.value(arg, &values).map_err(failure::model);
        graph.outputs.iter().map(output).collect()
    }

    fn node(&mut self, node: &Node, values: &[Option<Value>]) -> Result<Vec<Value>, Failure> {
        *self.counts.ops.entry(node.call.to_string()).or_default() += 1;
        let failed = |fault: Fault| failure::at(node, FailureKind::Op, fault);
        match &node.call {
            Call::Op { .. } => {
                let Some(Some(found)) = self.ops.get(node.ordinal as usize).cloned() else {
                    return Err(failure::at(node, FailureKind::Internal, "it was not looked up"));
                };
                self.op(node, &found, values).map_err(failed)
            }
            Call::Python(name) => {
                let arguments = node.args.iter().map(|arg| self.value(&arg.arg, values));
                let arguments = arguments.collect::<Result<Vec<_>, _>>().map_err(failed)?;
                let Some(result) = scalar::call(name, &arguments) else {
                    let message = "this Python function is not known";
                    return Err(failure::at(node, FailureKind::Unsupported, message));
                };
                Ok(vec![result.map_err(failed)?])
            }
            Call::HigherOrder(name) => self.control_flow(name, node, values),
        }
    }

    fn op(
        &mut self,
        node: &Node,
        Found { op, shared }: &Found,
        values: &[Option<Value>],
    ) -> Result<Vec<Value>, Fault> {
        let mut positional = Vec::with_capacity(node.args.len());
        let mut named = Vec::new();
        for arg in &node.args {
            let value = self.value(&arg.arg, values)?;
            if arg.keyword {
                named.push((arg.name.to_string(), value));
            } else {
                positional.push(value);
            }
        }
        let slots = op.bind(&positional, &named)?;
        let arguments = Arguments { op, slots: &slots };
        if (shared.is_none() && !op.is_random()) || arguments.certain() {
            return op.invoke(&slots);
        }
        let count = |counts: &mut BTreeMap<String, u64>| {
            *counts.entry(node.call.to_string()).or_default() += 1;
        };
        let Some(run) = shared else {
            count(&mut self.counts.own_random);
            return op.invoke(&slots);
        };
        count(&mut self.counts.shared_random);
        let Settings { seed, step, float, .. } = self.settings;
        let stream = Stream { seed, step, ordinal: node.ordinal };
        let device = &self.device;
        run(&mut Draw { library: &mut self.library, stream, device, float }, &arguments)
    }

    pub(crate) fn value(&self, arg: &Arg, values: &[Option<Value>]) -> Result<Value, Fault> {
        Ok(match arg {
            Arg::None => Value::None,
            Arg::Value(id) => match values.get(id.index()) {
                Some(Some(value)) => value.clone(),
                _ => return Err(Fault(format!("value {} is not there", id.0))),
            },
            Arg::Int(value) | Arg::MemoryFormat(value) | Arg::Layout(value) => Value::Int(*value),
            Arg::Float(value) => Value::Float(*value),
            Arg::Bool(value) => Value::Bool(*value),
            Arg::Complex(re, im) => Value::Complex(*re, *im),
            Arg::Str(text) => Value::Str(text.to_string()),
            Arg::ScalarType(dtype) => Value::Int(dtype.c10()),
            // The graph runs where the run wants it, wherever it was exported.
            Arg::Device { .. } => Value::Device(self.device.clone()),
            Arg::List(items) => {
                let items = items.iter().map(|item| self.value(item, values));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            Arg::Graph(_) => return Err(Fault("a graph is no value".into())),
            Arg::Operator(name) => return Err(Fault(format!("the operator {name} is no value"))),
        })
    }
}

/// Gives a node's results their names.
fn assign(node: &Node, results: Vec<Value>, values: &mut [Option<Value>]) -> Result<(), Failure> {
    let wrong = |results: usize| {
        let message = format!("it gave {results} results for {} outputs", node.outputs.len());
        failure::at(node, FailureKind::Op, message)
    };
    let count = results.len();
    // Control flow may be said to give one list, where its graphs give single values.
    let results = match &node.outputs[..] {
        [Produces::Tensors(ids)]
            if ids.len() == count && !matches!(results[..], [Value::List(_)]) =>
        {
            vec![Value::List(results)]
        }
        _ => results,
    };
    if results.len() < node.outputs.len() && !matches!(node.outputs[..], [Produces::Nothing]) {
        return Err(wrong(count));
    }
    for (output, result) in node.outputs.iter().zip(results) {
        match (output, result) {
            (Produces::Tensor(id) | Produces::Scalar(id), result) => {
                values[id.index()] = Some(result);
            }
            (Produces::Tensors(ids), Value::List(items)) if ids.len() <= items.len() => {
                for (id, item) in ids.iter().zip(items) {
                    values[id.index()] = Some(item);
                }
            }
            (Produces::Tensors(_), _) => return Err(wrong(count)),
            (Produces::Nothing, _) => {}
        }
    }
    Ok(())
}

/// For each node, the values that nothing needs after it.
fn last_uses(graph: &Graph) -> Vec<Vec<ValueId>> {
    let mut last: Vec<Option<usize>> = vec![None; graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        for id in node.makes().into_iter().chain(node.reads()) {
            last[id.index()] = Some(index);
        }
    }
    for output in &graph.outputs {
        output.each_value(&mut |id| last[id.index()] = None);
    }
    let mut done = vec![Vec::new(); graph.nodes.len()];
    for (value, index) in last.into_iter().enumerate() {
        if let Some(index) = index {
            done[index].push(ValueId(value as u32));
        }
    }
    done
}

/// The modes that libtorch is in, changed where a node wants others.
struct Modes {
    settings: Settings,
    now: Mode,
    // Left in this order, which is the reverse of the one they are entered in.
    autocast: Option<Autocast>,
    grad: Option<GradMode>,
}

impl Modes {
    fn new(settings: Settings) -> Self {
        let grad = Some(GradMode::set(settings.grad));
        Self { settings, now: Mode::default(), autocast: None, grad }
    }

    fn enter(&mut self, mode: &Mode) -> Result<(), Fault> {
        if *mode == self.now {
            return Ok(());
        }
        self.autocast = None;
        self.grad = None;
        self.grad = Some(GradMode::set(self.settings.grad && mode.grad.unwrap_or(true)));
        if let Some(autocast) = &mode.autocast {
            let device = match self.settings.device {
                Device::Cpu => "cpu",
                Device::Cuda(_) => "cuda",
            };
            let region = Autocast::enter(device, autocast.enabled, autocast.dtype, autocast.cache)?;
            self.autocast = Some(region);
        }
        self.now = mode.clone();
        Ok(())
    }
}
