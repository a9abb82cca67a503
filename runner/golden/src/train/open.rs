//! How a session begins: both models read, their tensors shared, the loss found.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use warpforge_golden_protocol::training::{Memory, Open, Opened};
use warpforge_golden_protocol::{Device, Precision};
use warpforge_pt2::{Arg, InputKind, Model, OutputKind, ScalarType, TensorMeta};
use warpforge_training::Recipe;

use super::optimizer::{Optimizer, Subject};
use super::{Program, Training, together};
use crate::failure::{self, Failure, FailureKind};
use crate::interp::{Interpreter, Settings};
use crate::load::{self, Loader, Machine};
use crate::ranks::Ranks;
use crate::torch::{Context, Tensor, Value};
use crate::writes;

/// The tensors that a model holds. Tied ones are one tensor, under their first name.
#[derive(Default)]
pub struct Stored {
    /// Every name, those of tied tensors too; constants are not among them.
    pub by_name: HashMap<String, Tensor>,
    pub parameters: Vec<(String, Tensor)>,
    /// Those that belong to the state.
    pub buffers: Vec<(String, Tensor)>,
    /// What a run may change by itself.
    pub changeable: Vec<Tensor>,
    /// A parameter that the graph itself writes to, if there is one.
    written: Option<String>,
    subjects: Vec<Subject>,
    frozen: Vec<String>,
}

pub fn open(open: &Open, ranks: Option<Rc<Ranks>>) -> Result<Training, Failure> {
    let start = Instant::now();
    let recipe = &open.recipe;
    recipe.check().map_err(|why| failure::inputs(format!("the recipe: {why}")))?;
    let share = together::share_of(recipe.accumulation, ranks.as_deref())?;
    if ranks.is_some() && open.device != Device::Cpu {
        let why = format!("several ranks train on cpu, not on {}", open.device);
        return Err(failure::failure(FailureKind::Device, why));
    }
    let machine = Machine {
        device: open.device,
        precision: open.precision,
        threads: open.threads,
        tf32: open.tf32,
    };
    machine.prepare()?;
    let settings = Settings {
        device: open.device,
        seed: open.seed,
        step: 0,
        grad: true,
        float: machine.float(),
    };
    let ready = |path: &Path, dims: &BTreeMap<String, i64>| -> Result<_, Failure> {
        let mut model = load::open(path, &open.weights)?;
        // Sizes that are left open are as each batch has them.
        if model.symbols.is_empty() || !dims.is_empty() {
            model.specialise(&load::dims(dims)).map_err(failure::model)?;
        }
        let model = load::widen(model, machine)?;
        let interpreter = Interpreter::new(&model.graph, settings)?;
        Ok(Program { model, interpreter, inputs: Vec::new() })
    };
    let mut program = ready(&open.model, &open.dims)?;
    let loss = loss(&program.model, open.loss.as_deref())?;
    let mut stored = Stored::default();
    stored.load(&mut program, open, machine)?;
    if let Some(name) = stored.written.as_ref().filter(|_| ranks.is_some()) {
        return Err(failure::model(format!(
            "the graph writes to the parameter {name} as it runs: each rank would have its own"
        )));
    }
    let evaluation = match &open.evaluation {
        Some(path) => {
            let mut program = ready(path, &open.evaluation_dims)?;
            stored.share(&mut program, machine)?;
            Some(program)
        }
        None => None,
    };
    let subjects = std::mem::take(&mut stored.subjects);
    let trained = subjects.iter().map(|subject| subject.name.clone()).collect();
    let device = open.device.to_string();
    let library = program.interpreter.library();
    // A rank's own loss is the mean of its own micro-batches.
    let own = Recipe { accumulation: share, ..recipe.clone() };
    let optimizer = Optimizer::new(&own, subjects, &device, library);
    let opened = Opened {
        device: open.device,
        threads: Context::threads(),
        trained,
        frozen: std::mem::take(&mut stored.frozen),
        loss: program.model.outputs[loss].name.to_string(),
        load_seconds: start.elapsed().as_secs_f64(),
        memory: Memory::default(),
    };
    Ok(Training {
        machine,
        program,
        evaluation,
        loss,
        accumulation: recipe.accumulation,
        share,
        ranks,
        stored,
        optimizer: optimizer.map_err(failure::internal)?,
        opened,
    })
}

impl Stored {
    /// Loads what the trained model holds.
    fn load(
        &mut self,
        program: &mut Program,
        open: &Open,
        machine: Machine,
    ) -> Result<(), Failure> {
        let Program { model, interpreter, inputs } = program;
        let library = interpreter.library();
        let written = writes::written(&model.graph, library);
        let mut no_decay: BTreeSet<&str> =
            open.recipe.no_decay.iter().map(|name| &**name).collect();
        let excused = no_decay.clone();
        let replaced: BTreeSet<&str> = model.outputs.iter().filter_map(mutated).collect();
        let mut loader = Loader::new(library, machine);
        let mut seen = BTreeSet::new();
        for (index, input) in model.inputs.iter().enumerate() {
            if input.kind == InputKind::User {
                inputs.push(Value::None);
                continue;
            }
            let (tensor, group) = loader.stored(model, input)?;
            inputs.push(Value::Tensor(tensor.clone()));
            let written = written[index] || replaced.contains(&*input.name);
            if input.kind == InputKind::Constant {
                if written {
                    self.changeable.push(tensor);
                }
                continue;
            }
            let mut names: Vec<&str> = vec![&input.name];
            names.extend(
                model.weights.names().filter(|name| {
                    **name != *input.name && model.weights.group(name) == Some(group)
                }),
            );
            for name in &names {
                no_decay.remove(name);
                self.by_name.insert((*name).to_owned(), tensor.clone());
            }
            if !seen.insert(group) {
                continue;
            }
            let name = input.name.to_string();
            let InputKind::Buffer { persistent } = input.kind else {
                if written {
                    self.changeable.push(tensor.clone());
                    self.written.get_or_insert_with(|| name.clone());
                }
                self.parameters.push((name.clone(), tensor.clone()));
                if tensor.tracked() {
                    let decays = !names.iter().any(|name| excused.contains(name));
                    let stored = model.weights.shape(&name).map(|(dtype, _)| dtype);
                    let master = master(&tensor, stored, open);
                    self.subjects.push(Subject { name, parameter: tensor, decays, master });
                } else {
                    self.frozen.push(name);
                }
                continue;
            };
            self.changeable.push(tensor.clone());
            if persistent || written {
                self.buffers.push((name, tensor));
            }
        }
        if let Some(name) = no_decay.first() {
            return Err(failure::inputs(format!(
                "the recipe: {name} is to have no weight decay, but is no parameter of the model"
            )));
        }
        Ok(())
    }

    /// Gives another model the same tensors, by name; what only it has is its own.
    fn share(&self, program: &mut Program, machine: Machine) -> Result<(), Failure> {
        let Program { model, interpreter, inputs } = program;
        let mut loader = Loader::new(interpreter.library(), machine);
        for input in &model.inputs {
            let own = match input.kind {
                InputKind::User => {
                    inputs.push(Value::None);
                    continue;
                }
                InputKind::Constant | InputKind::Buffer { persistent: false } => true,
                InputKind::Parameter | InputKind::Buffer { persistent: true } => false,
            };
            let shared =
                self.by_name.get(&*input.name).filter(|_| input.kind != InputKind::Constant);
            let dims = input.meta.as_ref().and_then(TensorMeta::dims);
            let dtype = input.meta.as_ref().map(|meta| meta.dtype);
            let converted = matches!(machine.precision, Precision::F32 | Precision::Bf16);
            let fits = |tensor: &&Tensor| {
                dims.as_ref().is_none_or(|dims| *dims == tensor.shape())
                    && (converted || dtype.is_none() || dtype == tensor.dtype())
            };
            match shared.filter(fits) {
                Some(tensor) => inputs.push(tensor.into()),
                None if own || shared.is_none() => {
                    inputs.push(Value::Tensor(loader.stored(model, input)?.0));
                }
                None => {
                    let (path, name) = (model.path.display(), &input.name);
                    let wanted = dtype.map_or("", ScalarType::name);
                    let dims = dims.unwrap_or_default();
                    let given = shared.map(|tensor| format!("{tensor:?}")).unwrap_or_default();
                    return Err(failure::model(format!(
                        "{path}: {name} is {wanted} {dims:?}, and {given} in the trained model"
                    )));
                }
            }
        }
        Ok(())
    }
}

fn mutated(output: &warpforge_pt2::Output) -> Option<&str> {
    match &output.kind {
        OutputKind::Mutation(name) => Some(name),
        _ => None,
    }
}

/// The type of a parameter's wider copy. In the oracle those have one that have one otherwise:
/// it begins where the run begins, with the narrow values in use and the wide ones remembered.
fn master(tensor: &Tensor, stored: Option<ScalarType>, open: &Open) -> Option<ScalarType> {
    let narrow = |dtype: ScalarType| dtype.is_float() && dtype.bytes() < 4;
    let oracle = open.precision == Precision::F64;
    let dtype = if oracle { stored } else { tensor.dtype() };
    let wanted = open.recipe.master_weights && dtype.is_some_and(narrow);
    wanted.then_some(if oracle { ScalarType::F64 } else { ScalarType::F32 })
}

/// Which output is descended.
fn loss(model: &Model, named: Option<&str>) -> Result<usize, Failure> {
    let given = model.outputs.iter().enumerate();
    let given =
        given.filter(|(_, output)| matches!(output.kind, OutputKind::User | OutputKind::Loss));
    let given: Vec<_> = given.collect();
    let scalar = |arg: &Arg| {
        let Arg::Value(id) = arg else { return false };
        let meta = model.graph.value(*id).meta.as_ref();
        meta.is_some_and(|meta| meta.sizes.is_empty() && meta.dtype.is_float())
    };
    let names = || given.iter().map(|(_, output)| &*output.name).collect::<Vec<_>>().join(", ");
    let bad = |message: String| Err(failure::failure(FailureKind::Model, message));
    let found: Vec<_> = if let Some(name) = named {
        let at = |(position, _): &(usize, _)| format!("output.{position}") == name;
        let by_position = given.iter().enumerate().find(at).map(|(_, found)| found);
        let by_name = given.iter().find(|(_, output)| &*output.name == name);
        by_name.or(by_position).into_iter().collect()
    } else {
        let marked = given.iter().filter(|(_, output)| output.kind == OutputKind::Loss);
        let marked: Vec<_> = marked.collect();
        let scalars = given.iter().filter(|(_, output)| scalar(&output.arg));
        if marked.is_empty() { scalars.collect() } else { marked }
    };
    match (&found[..], named) {
        ([(index, output)], _) if scalar(&output.arg) => Ok(*index),
        ([(_, output)], _) => bad(format!("{} is no loss: it is no single float", output.name)),
        ([], Some(name)) => bad(format!("the model has no output {name}; it has {}", names())),
        ([], None) => bad(format!(
            "the model gives no loss, that is, a single float; its outputs are {}",
            names()
        )),
        _ => bad(format!("several outputs could be the loss; say which of {}", names())),
    }
}
