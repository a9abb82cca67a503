//! Pass 2 of a training: the program of a step, run on the reference interpreter again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use warpforge_compiler::{StepRequest, kind};
use warpforge_parity::bundle::Order;
use warpforge_pt2::{InputKind, Model};
use warpforge_snakeburger::eval::{Interpreter, Tensor, Value};
use warpforge_snakeburger::ir::{Module, TensorTy, Ty};
use warpforge_training::Recipe;

use crate::error::Error;
use crate::pass;
use crate::program::{Signature, Slot, Tap};
use crate::tensors::Named;
use crate::training::{Plan, remat};

/// The programs of a training.
pub struct Programs {
    pub model: Model,
    pub step: Module,
    /// The optimiser alone.
    pub update: Module,
    pub evaluation: Option<(Model, Module)>,
    pub recipe: Recipe,
    /// The node that makes the loss.
    loss: String,
}

/// A program with what its arguments and results are.
struct Prepared<'a> {
    module: &'a Module,
    signature: Signature,
}

impl<'a> Prepared<'a> {
    fn new(module: &'a Module) -> Result<Self, Error> {
        let func = module.entry().ok_or_else(|| Error::Program("it has no function".into()))?;
        Ok(Self { module, signature: Signature::of(module, func) })
    }

    fn name(&self) -> &'a str {
        self.module.entry().map_or("main", |func| &func.name)
    }

    fn argument_types(&self) -> impl Iterator<Item = Result<&'a TensorTy, Error>> {
        let module = self.module;
        let types = module.entry().map(|func| func.arguments.as_slice()).unwrap_or_default();
        types.iter().map(move |ty| match module.ty(*ty) {
            Ty::Tensor(ty) => Ok(ty),
            other => Err(Error::Program(format!("an argument is {other}"))),
        })
    }
}

impl Programs {
    /// Lowers the models and makes the step's program, unless it is given.
    pub fn new(plan: &Plan, step: Option<Module>) -> Result<Self, Error> {
        Self::of(plan, open(plan, &plan.model, &plan.dims)?, step)
    }

    /// The same for a model that is open already, such as one in float64.
    pub fn of(plan: &Plan, model: Model, step: Option<Module>) -> Result<Self, Error> {
        let forward = warpforge_snakegrinder::lower(&model)?;
        let module = forward.module.into_module();
        let (loss, trained) = outline(plan, &model, &module)?;
        let remat = remat::settled(&plan.remat, &module, loss, &trained)?;
        let request = StepRequest {
            forward: &module,
            loss,
            trained: &trained,
            recipe: &plan.recipe,
            gradients: true,
            remat: &remat,
        };
        let made = match step {
            Some(step) => step,
            None => warpforge_compiler::step(&request)?,
        };
        let update = warpforge_compiler::update(&request)?;
        let evaluation = match &plan.evaluation {
            Some(path) => {
                let model = open(plan, path, &plan.evaluation_dims)?;
                let module = warpforge_snakegrinder::lower(&model)?.module.into_module();
                Some((model, module))
            }
            None => None,
        };
        let func = module.entry().ok_or_else(|| Error::Program("it has no function".into()))?;
        let loss = Signature::of(&module, func).results[loss].names[0].clone();
        Ok(Self { model, step: made, update, evaluation, recipe: plan.recipe.clone(), loss })
    }

    /// The state that training starts from.
    pub fn initial(&self) -> Result<Named, Error> {
        let step = Prepared::new(&self.step)?;
        let mut state = Named::new();
        let results = &step.signature.results;
        let mutated = |name: &str| {
            results.iter().any(|slot| slot.kind == "mutated" && slot.names[0] == *name)
        };
        for (slot, ty) in step.signature.arguments.iter().zip(step.argument_types()) {
            let (ty, name) = (ty?, &slot.names[0]);
            let tensor = match slot.kind.as_str() {
                // Constants that a module makes for itself are no state.
                "buffer" if !saved(&self.model, name) && !mutated(name) => continue,
                "parameter" | "buffer" => stored(&self.model, name, ty)?,
                kind::OPTIMIZER => match (name.strip_prefix("master/"), name.as_str()) {
                    (Some(parameter), _) => stored(&self.model, parameter, ty)?,
                    (None, "scale") => {
                        let scale = self.recipe.loss_scale.unwrap_or_default();
                        Tensor::from_floats(ty.clone(), |_| scale.initial)
                    }
                    _ => Tensor::zeros(ty.clone()),
                },
                _ => continue,
            };
            state.insert(state_name(slot), tensor);
        }
        Ok(state)
    }
}

/// Whether a buffer is saved with the model's weights.
fn saved(model: &Model, name: &str) -> bool {
    let input = model.inputs.iter().find(|input| &*input.name == name);
    input.is_some_and(|input| matches!(input.kind, InputKind::Buffer { persistent: true }))
}

/// What the model holds under a name, in the type that the program wants it in.
fn stored(model: &Model, name: &str, ty: &TensorTy) -> Result<Tensor, Error> {
    let tensor = pass::weight(model, name)?;
    let why = format!("{name} is {} where the program wants {ty}", tensor.ty);
    pass::fit(tensor, ty).ok_or(Error::Inputs(why))
}

/// One of a plan's models, with the plan's weights.
pub fn open(plan: &Plan, path: &Path, dims: &[warpforge_pt2::DimSpec]) -> Result<Model, Error> {
    let mut model = Model::open(path)?;
    model.specialise(dims)?;
    model.set_weights(&plan.weights.source(plan.seed)?)?;
    Ok(model)
}

/// The place of the loss among the results, and of what is trained among the arguments.
fn outline(plan: &Plan, model: &Model, module: &Module) -> Result<(usize, Vec<usize>), Error> {
    let program = Prepared::new(module)?;
    let func = module.entry().ok_or_else(|| Error::Program("it has no function".into()))?;
    let results = &program.signature.results;
    let scalar_float = |i: usize| match func.results.get(i).map(|ty| module.ty(*ty)) {
        Some(Ty::Tensor(ty)) => ty.count() == Some(1) && ty.elem.storage().is_float(),
        _ => false,
    };
    let candidates: Vec<usize> =
        (0..results.len()).filter(|i| results[*i].kind != "mutated" && scalar_float(*i)).collect();
    let names = |places: &[usize]| -> String {
        let names: Vec<&str> = places.iter().map(|i| results[*i].names[0].as_str()).collect();
        names.join(", ")
    };
    let loss = match &plan.loss {
        Some(name) => {
            candidates.iter().copied().find(|i| results[*i].names[0] == *name).ok_or_else(|| {
                Error::Inputs(format!(
                    "the model has no scalar output called {name}; it has {}",
                    names(&candidates)
                ))
            })?
        }
        None => match candidates.iter().copied().find(|i| results[*i].kind == "loss") {
            Some(marked) => marked,
            None => match &candidates[..] {
                [only] => *only,
                [] => {
                    let all: Vec<usize> = (0..results.len()).collect();
                    return Err(Error::Inputs(format!(
                        "the model has no scalar output to train on: it has {}; export it so that it returns its loss",
                        names(&all)
                    )));
                }
                many => {
                    return Err(Error::Inputs(format!(
                        "say which output is the loss: {}",
                        names(many)
                    )));
                }
            },
        },
    };
    let tracked: BTreeSet<&str> = model
        .inputs
        .iter()
        .filter(|input| input.kind == InputKind::Parameter)
        .filter(|input| input.meta.as_ref().is_some_and(|meta| meta.requires_grad))
        .map(|input| &*input.name)
        .collect();
    let trained: Vec<usize> = program
        .signature
        .arguments
        .iter()
        .enumerate()
        .filter(|(_, slot)| slot.kind == "parameter")
        .filter(|(_, slot)| slot.names.iter().any(|name| tracked.contains(name.as_str())))
        .map(|(i, _)| i)
        .collect();
    if trained.is_empty() {
        return Err(Error::Inputs("no parameter of the model is trained: all are frozen".into()));
    }
    Ok((loss, trained))
}

/// The name under which files of state hold an argument or a result.
fn state_name(slot: &Slot) -> String {
    let name = &slot.names[0];
    match slot.kind.as_str() {
        kind::OPTIMIZER => format!("optimizer/{name}"),
        "buffer" => format!("buffer/{name}"),
        _ => format!("parameter/{name}"),
    }
}

/// Which values of a step are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// Nodes whose results go to this file.
    pub taps: Option<(&'a Path, &'a BTreeSet<String>)>,
}

/// What a step gave.
#[derive(Clone, Debug)]
pub struct Stepped {
    pub loss: f64,
    pub learning_rate: f64,
    pub gradient_norm: Option<f64>,
    pub gradients: Named,
    pub seconds: f64,
}

/// A training under way.
pub struct Stepper<'a> {
    programs: &'a Programs,
    step: Prepared<'a>,
    update: Prepared<'a>,
    evaluation: Option<Prepared<'a>>,
    /// What the step changes, by the names of files of state.
    pub state: Named,
    seed: u64,
}

impl<'a> Stepper<'a> {
    pub fn new(programs: &'a Programs, seed: u64) -> Result<Self, Error> {
        let evaluation = programs.evaluation.as_ref();
        Ok(Self {
            programs,
            step: Prepared::new(&programs.step)?,
            update: Prepared::new(&programs.update)?,
            evaluation: evaluation.map(|(_, module)| Prepared::new(module)).transpose()?,
            state: programs.initial()?,
            seed,
        })
    }

    /// What is looked at during a step, in the graph's order: the nodes whose results leave a
    /// module (the last of each module path), and the parameters.
    pub fn order(&self) -> Order {
        let taps = &self.step.signature.taps;
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (i, tap) in taps.iter().enumerate() {
            // Of several micro-batches the first counts.
            if !taps[..i].iter().any(|known| known.name == tap.name) {
                last.insert(&tap.module, i);
            }
        }
        let mut places: Vec<usize> = last.into_values().collect();
        places.sort_unstable();
        // The loss is a quantity of its own.
        let boundaries = places.into_iter().map(|i| &taps[i]);
        let boundaries: Vec<&Tap> =
            boundaries.filter(|tap| tap.name != self.programs.loss).collect();
        let parameters = self.step.signature.arguments.iter();
        let parameters = parameters.filter(|slot| slot.kind == "parameter");
        Order {
            activations: boundaries.iter().map(|tap| tap.name.clone()).collect(),
            parameters: parameters.map(|slot| slot.names[0].clone()).collect(),
            modules: boundaries.iter().map(|tap| (tap.name.clone(), tap.module.clone())).collect(),
        }
    }

    /// One update of the state.
    pub fn step(
        &mut self,
        step: u32,
        batches: &[Named],
        wanted: &Wanted<'_>,
    ) -> Result<Stepped, Error> {
        let inputs = |name: &str| -> Option<Tensor> {
            let (name, batch) = match name.rsplit_once('@') {
                Some((name, index)) if batches.len() > 1 => (name, index.parse().ok()?),
                _ => (name, 0),
            };
            batches.get::<usize>(batch)?.get(name).cloned()
        };
        let (program, state) = (&self.step, std::mem::take(&mut self.state));
        let taps = wanted.taps.map(|(path, only)| (path, Some(only)));
        let watch = pass::Watch::new(program.module, &program.signature, taps)?;
        let (results, state, seconds) =
            run(self.programs, program, state, step, self.seed, &inputs, Some(&watch))?;
        watch.finish()?;
        let mut stepped = Stepped {
            loss: f64::NAN,
            learning_rate: 0.0,
            gradient_norm: None,
            gradients: Named::new(),
            seconds,
        };
        self.state = state;
        for (slot, tensor) in program.signature.results.iter().zip(results) {
            let name = &slot.names[0];
            match slot.kind.as_str() {
                kind::LOSS => stepped.loss = tensor.get(0).float(),
                kind::GRADIENT => {
                    stepped.gradients.insert(name.clone(), tensor);
                }
                kind::REPORT if name == warpforge_compiler::LEARNING_RATE => {
                    stepped.learning_rate = tensor.get(0).float();
                }
                kind::REPORT => stepped.gradient_norm = Some(tensor.get(0).float()),
                "mutated" => {
                    // Under the name that the next step asks for it.
                    let mut given = program.signature.arguments.iter();
                    let held = given.find(|slot| slot.kind != "input" && slot.names[0] == *name);
                    if let Some(slot) = held {
                        self.state.insert(state_name(slot), tensor);
                    }
                }
                kind::PARAMETER | kind::OPTIMIZER => {
                    self.state.insert(state_name(slot), tensor);
                }
                _ => {}
            }
        }
        Ok(stepped)
    }

    /// The state after the optimiser alone has seen these gradients.
    pub fn update(&self, step: u32, gradients: &Named) -> Result<Named, Error> {
        let program = &self.update;
        let inputs = |name: &str| gradients.get(name).cloned();
        let state = self.state.clone();
        let (results, mut state, _) =
            run(self.programs, program, state, step, self.seed, &inputs, None)?;
        for (slot, tensor) in program.signature.results.iter().zip(results) {
            if matches!(slot.kind.as_str(), kind::PARAMETER | kind::OPTIMIZER) {
                state.insert(state_name(slot), tensor);
            }
        }
        Ok(state)
    }

    /// The evaluation model's outputs with the present weights.
    pub fn evaluate(&self, batch: &Named) -> Result<Named, Error> {
        let Some((program, (model, _))) =
            self.evaluation.as_ref().zip(self.programs.evaluation.as_ref())
        else {
            return Err(Error::Inputs("there is no model to evaluate".into()));
        };
        let mut arguments = Vec::new();
        for (slot, ty) in program.signature.arguments.iter().zip(program.argument_types()) {
            let ty = ty?;
            let held = match slot.kind.as_str() {
                "parameter" | "buffer" => slot
                    .names
                    .iter()
                    .find_map(|name| {
                        let of = |kind: &str| self.state.get(&format!("{kind}/{name}"));
                        of("parameter").or_else(|| of("buffer"))
                    })
                    .cloned(),
                _ => None,
            };
            let tensor = if let Some(tensor) = held {
                tensor
            } else {
                let options = pass::Options { seed: self.seed, step: 0, taps: None };
                pass::argument(slot, ty, model, batch, &options)?
            };
            arguments.push(Value::Tensor(fitting(tensor, ty, &slot.names[0])?));
        }
        let interpreter = Interpreter::new(program.module);
        let results = interpreter
            .call(program.name(), arguments)
            .map_err(|error| Error::Program(error.message))?;
        let mut outputs = Named::new();
        for (slot, result) in program.signature.results.iter().zip(results) {
            if let (Value::Tensor(tensor), "output" | "loss") = (result, slot.kind.as_str()) {
                outputs.insert(slot.names[0].clone(), tensor);
            }
        }
        Ok(outputs)
    }
}

fn fitting(tensor: Tensor, ty: &TensorTy, name: &str) -> Result<Tensor, Error> {
    if tensor.ty == *ty {
        return Ok(tensor);
    }
    let why = format!("{name} is {} where the program wants {ty}", tensor.ty);
    Err(Error::Inputs(why))
}

/// Runs a program that changes a state, which it is given whole so that memory can be reused;
/// what it does not read is handed back.
fn run(
    programs: &Programs,
    program: &Prepared<'_>,
    mut state: Named,
    step: u32,
    seed: u64,
    inputs: &dyn Fn(&str) -> Option<Tensor>,
    watch: Option<&pass::Watch>,
) -> Result<(Vec<Tensor>, Named, f64), Error> {
    let mut arguments = Vec::new();
    for (slot, ty) in program.signature.arguments.iter().zip(program.argument_types()) {
        let (ty, name) = (ty?, &slot.names[0]);
        let changed = program.signature.results.iter().any(|result| {
            result.names[0] == *name
                && (result.kind == slot.kind || (result.kind == "mutated" && slot.kind != "input"))
        });
        let tensor = match slot.kind.as_str() {
            kind::SEED => Tensor::from_ints(ty.clone(), |_| seed as i64),
            kind::STEP => Tensor::from_ints(ty.clone(), |_| i64::from(step)),
            "input" | kind::GRADIENT => inputs(name)
                .ok_or_else(|| Error::Inputs(format!("there is no {} {name}", slot.kind)))?,
            "constant" => stored(&programs.model, name, ty)?,
            _ => {
                let key = state_name(slot);
                if slot.kind == "buffer" && !state.contains_key(&key) {
                    arguments.push(Value::Tensor(stored(&programs.model, name, ty)?));
                    continue;
                }
                let held = if changed { state.remove(&key) } else { state.get(&key).cloned() };
                held.ok_or_else(|| Error::Inputs(format!("the state has no {key}")))?
            }
        };
        arguments.push(Value::Tensor(fitting(tensor, ty, name)?));
    }
    let mut interpreter = Interpreter::new(program.module);
    if let Some(watch) = watch {
        interpreter.observer = Some(watch);
    }
    let start = Instant::now();
    let results = interpreter
        .call(program.name(), arguments)
        .map_err(|error| Error::Program(error.message))?;
    let seconds = start.elapsed().as_secs_f64();
    let tensors = results.into_iter().map(|value| match value {
        Value::Tensor(tensor) => Ok(tensor),
        other => Err(Error::Program(format!("a result is {}", other.ty()))),
    });
    Ok((tensors.collect::<Result<_, _>>()?, state, seconds))
}
