//! One request: load, run, write down.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Instant;

use warpforge_golden_protocol::{Event, Outcome, Run, RunTime, Started, Taps, Timings};
use warpforge_pt2::{InputKind, Model, OutputKind};

use crate::failure::{self, Failure};
use crate::files::{self, Writer};
use crate::interp::{Interpreter, Settings};
use crate::load::{self, Loader, Machine};
use crate::progress::Progress;
use crate::torch::{Context, Fault, Library, Tensor, Value};
use crate::watch::{Recorder, Watch};
use crate::writes;

/// Does what a request asks for; events go to `emit`.
pub fn run(request: &Run, emit: &mut dyn FnMut(Event)) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let machine = Machine {
        device: request.device,
        precision: request.precision,
        threads: request.threads,
        tf32: request.tf32,
    };
    machine.prepare()?;
    std::fs::create_dir_all(&request.out).map_err(|error| failure::io(&request.out, error))?;
    let given = request.inputs.as_deref().map(files::read).transpose()?.unwrap_or_default();
    let model = read(request, &given, machine)?;
    let settings = Settings {
        device: request.device,
        seed: request.seed,
        step: request.step,
        grad: request.grad,
        float: machine.float(),
    };
    let mut interpreter = Interpreter::new(&model.graph, settings)?;
    let state = State::load(&model, &given, interpreter.library(), machine)?;
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
        let name = format!("activations/step-{}.safetensors", request.step);
        let taps = if number == 0 { &request.taps } else { &Taps::None };
        let taps = Recorder::new(request.out.join(name), taps)?;
        let tapped = taps.is_some();
        let progress = Progress::new(number, model.graph.nodes.len(), emit);
        let mut watch = Watch::new(progress, taps, machine);
        watch.nodes = request.time_nodes.then(Vec::new);
        let inputs = state.fresh(interpreter.library()).map_err(failure::internal)?;
        let begin = Instant::now();
        let outputs = interpreter.run(&model.graph, inputs.clone(), &mut watch)?;
        machine.synchronize()?;
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

fn read(
    request: &Run,
    given: &BTreeMap<String, Tensor>,
    machine: Machine,
) -> Result<Model, Failure> {
    let mut model = load::open(&request.model, &request.weights)?;
    let mut dims = load::dims(&request.dims);
    dims.extend(load::dims_of(&model, given));
    model.specialise(&dims).map_err(failure::model)?;
    load::widen(model, machine)
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
        given: &BTreeMap<String, Tensor>,
        library: &mut Library,
        machine: Machine,
    ) -> Result<Self, Failure> {
        let written = writes::written(&model.graph, library);
        let mut loader = Loader::new(library, machine);
        let mut user: BTreeMap<_, _> = loader.user(model, given)?.into_iter().collect();
        let mut state = Self { inputs: Vec::new(), mutable: Vec::new() };
        let mut groups: HashMap<usize, usize> = HashMap::new();
        for (index, input) in model.inputs.iter().enumerate() {
            let value = match input.kind {
                InputKind::User => match user.remove(&index) {
                    Some(tensor) => {
                        state.mutable.push(Mutable { indices: vec![index], user: true });
                        Value::Tensor(tensor)
                    }
                    // A number or None that was fixed at export: the graph holds it itself.
                    None => Value::None,
                },
                kind => {
                    let (tensor, group) = loader.stored(model, input)?;
                    if kind != InputKind::Parameter || written[index] {
                        let at = *groups.entry(group).or_insert(state.mutable.len());
                        if at == state.mutable.len() {
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
            let Some(tensor) = files::as_tensor(value).map_err(failure::internal)? else {
                continue;
            };
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
