//! One request: load, run, write down.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Instant;

use warpforge_golden_protocol::{
    Device, Event, NodeTime, Outcome, Precision, Run, RunTime, Started, Taps, Timings, Weights,
};
use warpforge_pt2::{
    Arg, Bytes, DimSpec, Input, InputKind, Mapped, Model, Node, OutputKind, Recipe, ScalarType,
    WeightSource,
};

use crate::failure::{self, Failure, FailureKind};
use crate::files::{self, Writer};
use crate::interp::{Interpreter, Observer, Settings};
use crate::progress::Progress;
use crate::torch::{Context, Fault, Layout, Library, Mapping, Tensor, Value};

/// Does what a request asks for; events go to `emit`.
pub fn run(request: &Run, emit: &mut dyn FnMut(Event)) -> Result<Outcome, Failure> {
    let start = Instant::now();
    prepare(request)?;
    let given = request.inputs.as_deref().map(files::read).transpose()?.unwrap_or_default();
    let model = load(request, &given)?;
    let settings = Settings {
        device: request.device,
        seed: request.seed,
        step: request.step,
        grad: request.grad,
        float: default_float(request),
    };
    let mut interpreter = Interpreter::new(&model.graph, settings)?;
    let state = State::load(&model, request, given, interpreter.library())?;
    let mut timings = Timings { load_seconds: start.elapsed().as_secs_f64(), ..Timings::default() };
    emit(Event::Started(Started {
        device: request.device,
        threads: Context::threads(),
        tf32: request.tf32,
        nodes: model.graph.nodes.len(),
    }));
    let mut first: Option<Results> = None;
    let mut files = Vec::new();
    let mut reproduced = None;
    for number in 0..request.repeats.max(1) {
        let taps = if number == 0 { Recorder::new(request)? } else { None };
        let tapped = taps.is_some();
        let mut watch = Watch {
            progress: Progress::new(number, model.graph.nodes.len(), emit),
            taps,
            device: request.device,
            node: None,
            nodes: request.time_nodes.then(Vec::new),
        };
        let inputs = state.fresh(interpreter.library()).map_err(failure::internal)?;
        let begin = Instant::now();
        let outputs = interpreter.run(inputs.clone(), &mut watch)?;
        synchronize(request.device)?;
        timings.runs.push(RunTime { seconds: begin.elapsed().as_secs_f64(), tapped });
        timings.nodes = watch.nodes.unwrap_or_default();
        if let Some(taps) = watch.taps {
            files.push(taps.finish()?);
        }
        let results = Results::collect(&model, &state, &inputs, outputs)?;
        match &first {
            None => {
                files.extend(results.write(&request.out)?);
                first = Some(results);
            }
            Some(first) => {
                let same = first.same(&results).map_err(failure::internal)?;
                reproduced = Some(same && reproduced != Some(false));
            }
        }
    }
    let path = request.out.join("timings.json");
    let text = serde_json::to_vec_pretty(&timings).map_err(failure::internal)?;
    files::write(&path, &text)?;
    files.push(path);
    let relative =
        |path: PathBuf| path.strip_prefix(&request.out).map(Path::to_owned).unwrap_or(path);
    let counts = interpreter.counts().clone();
    Ok(Outcome {
        files: files.into_iter().map(relative).collect(),
        timings,
        ops: counts.ops,
        shared_random: counts.shared_random,
        own_random: counts.own_random,
        reproduced,
    })
}

/// Sets libtorch up.
fn prepare(request: &Run) -> Result<(), Failure> {
    let device = |message: String| failure::failure(FailureKind::Device, message);
    let float = default_float(request);
    Context::configure(request.threads, request.tf32, float).map_err(failure::internal)?;
    if let Device::Cuda(index) = request.device {
        let count = Context::load_cuda().map_err(|fault| device(fault.to_string()))?;
        if index >= count {
            return Err(device(format!(
                "there is no {}: CUDA has {count} devices",
                request.device
            )));
        }
    }
    std::fs::create_dir_all(&request.out).map_err(|error| failure::io(&request.out, error))
}

/// In the oracle nothing is narrower than float64.
fn default_float(request: &Run) -> ScalarType {
    if request.precision == Precision::F64 { ScalarType::F64 } else { ScalarType::F32 }
}

fn synchronize(device: Device) -> Result<(), Failure> {
    match device {
        Device::Cpu => Ok(()),
        Device::Cuda(index) => Context::synchronize(index)
            .map_err(|fault| failure::failure(FailureKind::Device, fault)),
    }
}

fn load(request: &Run, given: &BTreeMap<String, Tensor>) -> Result<Model, Failure> {
    let mut model = Model::open(&request.model).map_err(failure::model)?;
    let source = match &request.weights {
        Weights::Archive => WeightSource::Archive,
        Weights::Safetensors(path) => WeightSource::Safetensors(path.clone()),
        Weights::Recipe(path) => WeightSource::Recipe(Recipe::read(path).map_err(failure::model)?),
        Weights::StandardRecipe(seed) => Model::standard_recipe(*seed),
    };
    model.set_weights(&source).map_err(failure::model)?;
    let shapes: Vec<_> = user_tensors(&model)
        .filter_map(|(position, input)| {
            Some((input.name.clone(), find(given, &input.name, position)?.1.shape()))
        })
        .collect();
    let mut dims: Vec<DimSpec> = request
        .dims
        .iter()
        .map(|(name, size)| DimSpec { name: name.clone(), size: *size })
        .collect();
    dims.extend(model.dims_of(shapes.iter().map(|(name, shape)| (&**name, &shape[..]))));
    model.specialise(&dims).map_err(failure::model)?;
    if request.precision == Precision::F64 {
        model = model.widened().map_err(failure::model)?;
    }
    Ok(model)
}

/// The inputs that a user gives, with their positions among all that are not the model's own.
fn user_tensors(model: &Model) -> impl Iterator<Item = (usize, &Input)> {
    let user = model.inputs.iter().filter(|input| input.kind == InputKind::User);
    user.enumerate().filter(|(_, input)| matches!(input.arg, Arg::Value(_)))
}

/// A given tensor by name, else by position.
fn find<'t>(
    given: &'t BTreeMap<String, Tensor>,
    name: &str,
    position: usize,
) -> Option<(&'t String, &'t Tensor)> {
    given.get_key_value(name).or_else(|| given.get_key_value(&format!("input.{position}")))
}

/// Everything that goes into the graph.
struct State {
    inputs: Vec<Value>,
    /// Which inputs a run may change, and so gets copies of.
    mutable: Vec<Mutable>,
}

struct Mutable {
    /// Several inputs may be one tensor.
    indices: Vec<usize>,
    user: bool,
}

impl State {
    fn load(
        model: &Model,
        request: &Run,
        given: BTreeMap<String, Tensor>,
        library: &mut Library,
    ) -> Result<Self, Failure> {
        let mut place = Place { library, request, maps: HashMap::new(), groups: HashMap::new() };
        let mut user = user_inputs(model, given)?.into_iter();
        let mut state = Self { inputs: Vec::new(), mutable: Vec::new() };
        let mut groups: HashMap<usize, usize> = HashMap::new();
        for (index, input) in model.inputs.iter().enumerate() {
            let value = match (input.kind, &input.arg) {
                (InputKind::User, Arg::Value(_)) => {
                    let (_, tensor) = user.next().ok_or_else(|| failure::internal("an input"))?;
                    state.mutable.push(Mutable { indices: vec![index], user: true });
                    let tensor = place.convert(tensor, input).map_err(failure::internal)?;
                    check(input, &tensor, request)?;
                    Value::Tensor(tensor)
                }
                // A number or None that was fixed at export: the graph holds it itself.
                (InputKind::User, _) => Value::None,
                (kind, _) => {
                    let (tensor, group) = place.stored(model, input)?;
                    if kind != InputKind::Parameter {
                        let at = groups.get(&group).copied().unwrap_or(state.mutable.len());
                        if at == state.mutable.len() {
                            groups.insert(group, at);
                            state.mutable.push(Mutable { indices: vec![], user: false });
                        }
                        state.mutable[at].indices.push(index);
                    }
                    Value::Tensor(tensor)
                }
            };
            state.inputs.push(value);
        }
        Ok(state)
    }

    /// The inputs for one run: what it might change is copied.
    fn fresh(&self, library: &mut Library) -> Result<Vec<Value>, Fault> {
        let mut inputs = self.inputs.clone();
        for mutable in &self.mutable {
            let Some(tensor) = mutable.indices.first().and_then(|at| inputs[*at].tensor()) else {
                continue;
            };
            let copy = files::copy(library, tensor)?;
            for index in &mutable.indices {
                inputs[*index] = (&copy).into();
            }
        }
        Ok(inputs)
    }
}

/// The given tensors in the graph's order, none missing and none too many.
fn user_inputs(
    model: &Model,
    given: BTreeMap<String, Tensor>,
) -> Result<Vec<(String, Tensor)>, Failure> {
    let mut used = BTreeSet::new();
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for (position, input) in user_tensors(model) {
        match find(&given, &input.name, position) {
            Some((name, tensor)) => {
                used.insert(name.clone());
                found.push((input.name.to_string(), tensor.clone()));
            }
            None => missing.push(format!("{} (or input.{position})", input.name)),
        }
    }
    if !missing.is_empty() {
        return Err(failure::inputs(format!("inputs are missing: {}", missing.join(", "))));
    }
    let surplus: Vec<_> = given.into_keys().filter(|name| !used.contains(name)).collect();
    if !surplus.is_empty() {
        let names: Vec<_> = user_tensors(model).map(|(_, input)| &*input.name).collect();
        let (surplus, names) = (surplus.join(", "), names.join(", "));
        return Err(failure::inputs(format!("no inputs of the model: {surplus}; it has {names}")));
    }
    Ok(found)
}

fn check(input: &Input, tensor: &Tensor, request: &Run) -> Result<(), Failure> {
    let Some(meta) = &input.meta else { return Ok(()) };
    let converted = request.precision != Precision::AsExported && meta.dtype.is_float();
    if meta.dims().is_some_and(|dims| dims != tensor.shape())
        || (!converted && tensor.dtype() != Some(meta.dtype))
    {
        let sizes: Vec<_> = meta.sizes.iter().map(ToString::to_string).collect();
        let wanted = format!("{} [{}]", meta.dtype, sizes.join(", "));
        return Err(failure::inputs(format!("{} is {tensor:?}, not {wanted}", input.name)));
    }
    Ok(())
}

/// Brings tensors to where and what the run wants.
struct Place<'a> {
    library: &'a mut Library,
    request: &'a Run,
    maps: HashMap<PathBuf, Mapping>,
    /// Tied weights are one tensor.
    groups: HashMap<usize, Tensor>,
}

impl Place<'_> {
    fn stored(&mut self, model: &Model, input: &Input) -> Result<(Tensor, usize), Failure> {
        let group = model.weights.group(&input.name).unwrap_or(usize::MAX);
        if let Some(tensor) = self.groups.get(&group) {
            return Ok((tensor.clone(), group));
        }
        let stored = model.weights.get(&input.name).map_err(failure::model)?;
        let bad = |fault: Fault| failure::model(format!("weight {}: {fault}", input.name));
        let layout = Layout {
            dtype: stored.dtype,
            shape: &stored.dims,
            strides: (&stored.strides[..]).into(),
        };
        let skip = stored.offset * stored.dtype.bytes();
        let tensor = match &stored.bytes {
            Bytes::Mapped { file, range } => {
                let map = self.map(file)?;
                Tensor::mapped(&map, (range.start + skip).min(range.end)..range.end, &layout)
            }
            Bytes::Owned(bytes) => Tensor::from_bytes(bytes.get(skip..).unwrap_or(&[]), &layout),
        };
        let tensor = self.convert(tensor.map_err(bad)?, input).map_err(bad)?;
        let tracked = input.meta.as_ref().is_some_and(|meta| meta.requires_grad);
        if input.kind == InputKind::Parameter && tracked {
            tensor.require_grad(true).map_err(bad)?;
        }
        self.groups.insert(group, tensor.clone());
        Ok((tensor, group))
    }

    /// A private mapping of a file that is mapped read-only already: operators may write.
    fn map(&mut self, file: &Mapped) -> Result<Mapping, Failure> {
        if let Some(map) = self.maps.get(file.path()) {
            return Ok(map.clone());
        }
        let opened = std::fs::File::open(file.path()).and_then(|file| Mapping::open(&file));
        let map = opened.map_err(|error| failure::io(file.path(), error))?;
        self.maps.insert(file.path().to_owned(), map.clone());
        Ok(map)
    }

    fn convert(&mut self, tensor: Tensor, input: &Input) -> Result<Tensor, Fault> {
        let stored = tensor.dtype().or(input.meta.as_ref().map(|meta| meta.dtype));
        let float = stored.is_some_and(ScalarType::is_float);
        let wanted = match (self.request.precision, stored) {
            (Precision::F64, Some(dtype)) => Some(dtype.widest()),
            (Precision::F32, _) if float => Some(ScalarType::F32),
            (Precision::Bf16, _) if float => Some(ScalarType::BF16),
            _ => None,
        };
        let dtype = wanted.or(stored).unwrap_or(ScalarType::F32);
        let device = self.request.device;
        if Some(dtype) == stored && device == Device::Cpu {
            return Ok(tensor);
        }
        let device = Value::Device(device.to_string());
        self.library.tensor("aten::to", "device", &[tensor.into(), device, dtype.into()])
    }
}

/// What a run gives.
#[derive(Default)]
struct Results {
    outputs: BTreeMap<String, Tensor>,
    buffers: BTreeMap<String, Tensor>,
    inputs: BTreeMap<String, Tensor>,
}

impl Results {
    fn collect(
        model: &Model,
        state: &State,
        inputs: &[Value],
        outputs: Vec<Value>,
    ) -> Result<Self, Failure> {
        let mut results = Self::default();
        // What was changed in place.
        for mutable in &state.mutable {
            let Some(index) = mutable.indices.first() else { continue };
            let (before, after) = (state.inputs[*index].tensor(), inputs[*index].tensor());
            let Some((before, after)) = before.zip(after) else { continue };
            if !files::same_bits(before, after).map_err(failure::internal)? {
                let names =
                    mutable.indices.iter().map(|index| model.inputs[*index].name.to_string());
                let target = if mutable.user { &mut results.inputs } else { &mut results.buffers };
                target.extend(names.map(|name| (name, after.clone())));
            }
        }
        for (output, value) in model.outputs.iter().zip(outputs) {
            let Some(tensor) = as_tensor(value).map_err(failure::internal)? else { continue };
            let (target, name) = match &output.kind {
                OutputKind::Mutation(name) => (&mut results.buffers, name),
                OutputKind::InputMutation(name) => (&mut results.inputs, name),
                OutputKind::User | OutputKind::Loss | OutputKind::Gradient(_) => {
                    (&mut results.outputs, &output.name)
                }
            };
            target.insert(name.to_string(), tensor);
        }
        Ok(results)
    }

    fn parts(&self) -> [(&'static str, &BTreeMap<String, Tensor>); 3] {
        [
            ("outputs.safetensors", &self.outputs),
            ("buffers.safetensors", &self.buffers),
            ("inputs.safetensors", &self.inputs),
        ]
    }

    /// The outputs always, changed buffers and inputs where there are any.
    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
        let mut files = Vec::new();
        for (name, tensors) in self.parts() {
            if tensors.is_empty() && name != "outputs.safetensors" {
                continue;
            }
            let mut writer = Writer::create(folder.join(name))?;
            for (name, tensor) in tensors {
                writer.add(name, tensor)?;
            }
            files.push(writer.finish()?);
        }
        Ok(files)
    }

    fn same(&self, other: &Self) -> Result<bool, Fault> {
        for ((_, ours), (_, theirs)) in self.parts().into_iter().zip(other.parts()) {
            if !ours.keys().eq(theirs.keys()) {
                return Ok(false);
            }
            for (a, b) in ours.values().zip(theirs.values()) {
                if !files::same_bits(a, b)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// A number that a model gives is written as a tensor without axes.
fn as_tensor(value: Value) -> Result<Option<Tensor>, Fault> {
    let scalar =
        |bytes: &[u8], dtype| Tensor::from_bytes(bytes, &Layout::dense(dtype, &[])).map(Some);
    match value {
        Value::Tensor(tensor) if tensor.defined() => Ok(Some(tensor)),
        Value::Int(value) => scalar(&value.to_le_bytes(), ScalarType::I64),
        Value::Float(value) => scalar(&value.to_le_bytes(), ScalarType::F64),
        Value::Bool(value) => scalar(&[value.into()], ScalarType::Bool),
        _ => Ok(None),
    }
}

/// Writes the wanted intermediate results down as they come.
struct Recorder {
    writer: Writer,
    /// `None` for all.
    wanted: Option<BTreeSet<String>>,
}

impl Recorder {
    fn new(request: &Run) -> Result<Option<Self>, Failure> {
        let wanted = match &request.taps {
            Taps::None => return Ok(None),
            Taps::All => None,
            Taps::Nodes(names) => Some(names.iter().cloned().collect()),
        };
        let name = format!("activations/step-{}.safetensors", request.step);
        Ok(Some(Self { writer: Writer::create(request.out.join(name))?, wanted }))
    }

    fn add(&mut self, node: &str, name: &str, tensor: &Tensor) -> Result<(), Failure> {
        let wanted = |wanted: &BTreeSet<String>| wanted.contains(name) || wanted.contains(node);
        if self.wanted.as_ref().is_none_or(wanted) {
            self.writer.add(name, tensor)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<PathBuf, Failure> {
        self.writer.finish()
    }
}

/// Looks on while the graph runs.
struct Watch<'a> {
    progress: Progress<'a>,
    taps: Option<Recorder>,
    device: Device,
    node: Option<(String, Instant)>,
    nodes: Option<Vec<NodeTime>>,
}

impl Observer for Watch<'_> {
    fn begin(&mut self, index: usize, node: &Node) -> Result<(), Failure> {
        self.progress.node(index, &node.name);
        if self.nodes.is_some() || self.taps.is_some() {
            self.node = Some((node.name.to_string(), Instant::now()));
        }
        Ok(())
    }

    fn made(&mut self, name: &str, tensor: &Tensor) -> Result<(), Failure> {
        let (Some(taps), Some((node, _))) = (&mut self.taps, &self.node) else { return Ok(()) };
        taps.add(node, name, tensor)
    }

    fn end(&mut self, node: &Node) -> Result<(), Failure> {
        let Some(nodes) = &mut self.nodes else { return Ok(()) };
        synchronize(self.device)?;
        let seconds = self.node.take().map_or(0.0, |(_, start)| start.elapsed().as_secs_f64());
        nodes.push(NodeTime { name: node.name.to_string(), op: node.call.to_string(), seconds });
        Ok(())
    }
}
