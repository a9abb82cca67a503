//! A model's training step as one program, from its forward computation: micro-batches forward
//! and backward, gradients added up, unscaled and clipped, parameters updated.
//!
//! Arguments and results say in `warpforge.kind` and `warpforge.name` what they are. Arguments are
//! those of the forward program (an input once for each micro-batch, `NAME@I` if there are
//! several), the optimiser's state, and the numbers `seed` and `step`; results are the loss, the
//! learning rate, the gradients' norm where they are clipped, and everything that the step
//! changes, under the name it came in as.

use warpforge_snakeburger::build::{Emitter, V};
use warpforge_snakeburger::ir::{Attr, DType, Dict, Module, TensorTy, Ty, lookup};
use warpforge_snakeburger::prune::{prune, prune_arguments};
use warpforge_snakeburger::verify::verify;
use warpforge_training::Recipe;

use crate::differentiate::{self, Remat};
use crate::optimizer::{self, Numbers};

/// Why there is no program of a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the forward program cannot be trained: {0}")]
    Program(String),
    #[error(transparent)]
    Gradient(#[from] differentiate::Error),
    /// What was built does not verify: our mistake.
    #[error("the step is wrong: {0}")]
    Wrong(String),
}

/// The attributes that say what an argument or a result is.
const NAME: &str = "warpforge.name";
const KIND: &str = "warpforge.kind";

/// Kinds of arguments and results beside those of a forward program.
pub mod kind {
    /// What the optimiser keeps.
    pub const OPTIMIZER: &str = "optimizer";
    /// The seed of all random numbers.
    pub const SEED: &str = "seed";
    /// The number of the step, counted from 0.
    pub const STEP: &str = "step";
    /// A parameter after the step.
    pub const PARAMETER: &str = "parameter";
    pub const GRADIENT: &str = "gradient";
    /// The mean loss of the micro-batches.
    pub const LOSS: &str = "loss";
    /// Learning rate and norm of the gradients.
    pub const REPORT: &str = "report";
}

/// The names of the numbers that a step reports.
pub const LEARNING_RATE: &str = "learning_rate";
pub const GRADIENT_NORM: &str = "gradient_norm";

/// What the step is made of.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub forward: &'a Module,
    /// Which result of the forward program is the loss.
    pub loss: usize,
    /// Which of its arguments are trained.
    pub trained: &'a [usize],
    pub recipe: &'a Recipe,
    /// Whether gradients are results too.
    pub gradients: bool,
    pub remat: &'a Remat,
}

/// A slot of the program under construction.
struct Slot {
    kind: String,
    name: String,
    ty: TensorTy,
}

impl Slot {
    fn new(kind: &str, name: impl Into<String>, ty: TensorTy) -> Self {
        Self { kind: kind.to_owned(), name: name.into(), ty }
    }

    fn attrs(&self) -> Dict {
        let text = |key: &str, value: &str| (key.into(), Attr::Str(value.into()));
        vec![text(NAME, &self.name), text(KIND, &self.kind)]
    }
}

/// The arguments of the program under construction.
#[derive(Default)]
struct Arguments {
    slots: Vec<Slot>,
}

impl Arguments {
    fn add(&mut self, slot: Slot) -> usize {
        self.slots.push(slot);
        self.slots.len() - 1
    }
}

/// What becomes of an argument of the forward program.
enum Place {
    /// It is the same for all micro-batches.
    One(usize),
    /// One for each micro-batch.
    Each(Vec<usize>),
    /// It is made from the seed and the step.
    Random,
}

/// Which arguments of the program belong to a trained parameter.
struct Trained {
    /// Of the forward program.
    argument: usize,
    name: String,
    master: Option<usize>,
    slots: Vec<usize>,
}

/// The arguments of the loss scale.
struct Scaling {
    scale: usize,
    good: usize,
    updates: usize,
}

/// Makes the program of a step.
pub fn step(request: &Request<'_>) -> Result<Module, Error> {
    let outline = Outline::new(request)?;
    let types: Vec<TensorTy> = outline.arguments.iter().map(|slot| slot.ty.clone()).collect();
    let e = Emitter::new(&types);
    let given = e.arguments();
    let mut build = Build { request, outline: &outline, given, e, results: Vec::new() };
    build.all()?;
    let values: Vec<V> = build.results.iter().map(|(_, value)| *value).collect();
    let result_attrs = build.results.iter().map(|(slot, _)| slot.attrs()).collect();
    let argument_attrs = outline.arguments.iter().map(Slot::attrs).collect();
    let module = build.e.finish(&values, argument_attrs, result_attrs);
    verified(prune(&module))
}

/// The program that updates parameters alone: gradients are arguments.
pub fn update(request: &Request<'_>) -> Result<Module, Error> {
    let mut outline = Outline::new(request)?;
    let mut gradients = Vec::new();
    for trained in &outline.trained {
        let Place::One(at) = outline.places[trained.argument] else { continue };
        let ty = outline.arguments[trained.master.unwrap_or(at)].ty.clone();
        gradients.push((trained.name.clone(), ty));
    }
    let first = outline.arguments.len();
    for (name, ty) in gradients {
        outline.arguments.push(Slot::new(kind::GRADIENT, name, ty));
    }
    let types: Vec<TensorTy> = outline.arguments.iter().map(|slot| slot.ty.clone()).collect();
    let e = Emitter::new(&types);
    let given = e.arguments();
    let gradients: Vec<Option<V>> = given[first..].iter().map(|value| Some(*value)).collect();
    let mut build = Build { request, outline: &outline, given, e, results: Vec::new() };
    let current = build.start();
    build.update(&current, gradients)?;
    let values: Vec<V> = build.results.iter().map(|(_, value)| *value).collect();
    let result_attrs = build.results.iter().map(|(slot, _)| slot.attrs()).collect();
    let argument_attrs = outline.arguments.iter().map(Slot::attrs).collect();
    let module = build.e.finish(&values, argument_attrs, result_attrs);
    // What only the model reads is no argument of the update.
    verified(prune_arguments(&module))
}

fn verified(module: Module) -> Result<Module, Error> {
    let verified = verify(module).map_err(|problems| {
        let first = problems.iter().take(5).map(|problem| problem.message.clone());
        Error::Wrong(first.collect::<Vec<_>>().join("; "))
    })?;
    Ok(verified.into_module())
}

/// The program's arguments and what they stand for.
struct Outline {
    arguments: Vec<Slot>,
    places: Vec<Place>,
    trained: Vec<Trained>,
    scaling: Option<Scaling>,
    seed: Option<usize>,
    step: usize,
}

impl Outline {
    fn new(request: &Request<'_>) -> Result<Self, Error> {
        let Request { forward, recipe, .. } = *request;
        let func = forward.entry().ok_or_else(|| Error::Program("it has no function".into()))?;
        let text = |attrs: Option<&Dict>, key: &str| match attrs.and_then(|a| lookup(a, key)) {
            Some(Attr::Str(text)) => Some(text.to_string()),
            _ => None,
        };
        let mut arguments = Arguments::default();
        let mut places = Vec::new();
        let mut random = false;
        let mut names = Vec::new();
        for (i, ty) in func.arguments.iter().enumerate() {
            let Ty::Tensor(ty) = forward.ty(*ty) else {
                return Err(Error::Program(format!("argument {i} is no tensor")));
            };
            let attrs = func.argument_attrs.get(i);
            let name = text(attrs, NAME).unwrap_or_else(|| format!("input.{i}"));
            let kind = text(attrs, KIND).unwrap_or_else(|| "input".to_owned());
            names.push(name.clone());
            places.push(match kind.as_str() {
                "random" => {
                    random = true;
                    Place::Random
                }
                "input" if recipe.accumulation > 1 => Place::Each(
                    (0..recipe.accumulation)
                        .map(|j| arguments.add(Slot::new(&kind, format!("{name}@{j}"), ty.clone())))
                        .collect(),
                ),
                _ => Place::One(arguments.add(Slot::new(&kind, name, ty.clone()))),
            });
        }
        let mut trained = Vec::new();
        for argument in request.trained {
            let Some(Place::One(at)) = places.get(*argument) else {
                return Err(Error::Program(format!("argument {argument} cannot be trained")));
            };
            let ty = arguments.slots[*at].ty.clone();
            // Tied parameters have one state, under their first name.
            let name = names[*argument].split(' ').next().unwrap_or_default().to_owned();
            let narrow = matches!(ty.elem.storage(), DType::BF16 | DType::F16);
            let wide =
                if recipe.master_weights && narrow { ty.with_elem(DType::F32) } else { ty.clone() };
            let mut slot = |slot: &str, ty: &TensorTy| {
                arguments.add(Slot::new(kind::OPTIMIZER, format!("{slot}/{name}"), ty.clone()))
            };
            let master = (wide != ty).then(|| slot("master", &wide));
            let slots = optimizer::slots(recipe).iter().map(|name| slot(name, &wide)).collect();
            trained.push(Trained { argument: *argument, name, master, slots });
        }
        let mut number = |kind: &str, name: &str, dtype: DType| {
            arguments.add(Slot::new(kind, name, TensorTy::scalar(dtype)))
        };
        let scaling = recipe.loss_scale.map(|_| Scaling {
            scale: number(kind::OPTIMIZER, "scale", DType::F32),
            good: number(kind::OPTIMIZER, "good_steps", DType::S32),
            updates: number(kind::OPTIMIZER, "updates", DType::S64),
        });
        let seed = random.then(|| number(kind::SEED, "seed", DType::U64));
        let step = number(kind::STEP, "step", DType::S64);
        Ok(Self { arguments: arguments.slots, places, trained, scaling, seed, step })
    }
}

/// A program under construction.
struct Build<'a> {
    request: &'a Request<'a>,
    outline: &'a Outline,
    given: Vec<V>,
    e: Emitter,
    results: Vec<(Slot, V)>,
}

impl Build<'_> {
    fn result(&mut self, kind: &str, name: &str, value: V) {
        let ty = self.e.ty(value).clone();
        self.results.push((Slot::new(kind, name, ty), value));
    }

    /// What each argument of the forward program is before the step.
    fn start(&self) -> Vec<Option<V>> {
        let value = |place: &Place| match place {
            Place::One(at) => Some(self.given[*at]),
            Place::Each(_) | Place::Random => None,
        };
        self.outline.places.iter().map(value).collect()
    }

    fn all(&mut self) -> Result<(), Error> {
        let Request { forward, recipe, .. } = *self.request;
        let func = forward.entry().ok_or_else(|| Error::Program("it has no function".into()))?;
        let mutated = mutated(forward)?;
        let mut current = self.start();
        let mut sums: Vec<Option<V>> = vec![None; self.outline.trained.len()];
        let mut losses = Vec::new();
        for batch in 0..recipe.accumulation {
            let mut arguments = Vec::with_capacity(current.len());
            for (place, value) in self.outline.places.iter().zip(&current) {
                arguments.push(match (place, value) {
                    (_, Some(value)) => *value,
                    (Place::Each(each), None) => self.given[each[batch as usize]],
                    _ => self.random(batch)?,
                });
            }
            let wrt: Vec<V> =
                self.outline.trained.iter().map(|trained| arguments[trained.argument]).collect();
            let results = self
                .e
                .inline(forward, &func.name, &arguments)
                .ok_or_else(|| Error::Program("it has no body".into()))?;
            let loss = *results
                .get(self.request.loss)
                .ok_or_else(|| Error::Program("the loss is missing".into()))?;
            let seed = self.seed(loss);
            let gradients =
                differentiate::backward(&mut self.e, loss, seed, &wrt, self.request.remat)?;
            for (sum, gradient) in sums.iter_mut().zip(gradients) {
                *sum = match (*sum, gradient) {
                    (Some(sum), Some(gradient)) => Some(self.e.add(sum, gradient)),
                    (sum, gradient) => sum.or(gradient),
                };
            }
            losses.push(loss);
            for (result, argument) in &mutated {
                current[*argument] = Some(results[*result]);
            }
        }
        let loss = self.mean(&losses);
        self.result(kind::LOSS, "loss", loss);
        for argument in mutated.iter().map(|(_, argument)| *argument) {
            let is_trained = self.request.trained.contains(&argument);
            if let (Some(value), Place::One(at), false) =
                (current[argument], &self.outline.places[argument], is_trained)
            {
                let name = self.outline.arguments[*at].name.clone();
                self.result("mutated", &name, value);
            }
        }
        self.unscaled(&mut sums);
        self.update(&current, sums)
    }

    /// Seed and step of one micro-batch's random numbers.
    fn random(&mut self, batch: u32) -> Result<V, Error> {
        let seed = self.outline.seed.ok_or_else(|| Error::Program("there is no seed".into()))?;
        let (seed, step) = (self.given[seed], self.given[self.outline.step]);
        let e = &mut self.e;
        let step = e.convert(step, DType::U64);
        let first = e.scale(step, f64::from(self.request.recipe.accumulation));
        let step = e.shift(first, f64::from(batch));
        let (seed, step) = (e.reshape(seed, &[1]), e.reshape(step, &[1]));
        Ok(e.concat(&[seed, step], 0))
    }

    /// Where the way back starts: the loss's part in the mean, times the scale.
    fn seed(&mut self, loss: V) -> V {
        let one = self.e.like(loss, 1.0);
        let scaled = match &self.outline.scaling {
            Some(scaling) => {
                let scale = self.given[scaling.scale];
                let dtype = self.e.dtype(loss);
                self.e.convert(scale, dtype)
            }
            None => one,
        };
        match self.request.recipe.accumulation {
            1 => scaled,
            n => {
                let n = self.e.like(scaled, f64::from(n));
                self.e.div(scaled, n)
            }
        }
    }

    fn mean(&mut self, losses: &[V]) -> V {
        let mut sum = losses[0];
        for loss in &losses[1..] {
            sum = self.e.add(sum, *loss);
        }
        match losses.len() {
            1 => sum,
            n => {
                let n = self.e.like(sum, n as f64);
                self.e.div(sum, n)
            }
        }
    }

    /// Gradients of the loss itself, in the type that they are used in.
    fn unscaled(&mut self, gradients: &mut [Option<V>]) {
        let (outline, e) = (self.outline, &mut self.e);
        for (trained, gradient) in outline.trained.iter().zip(gradients.iter_mut()) {
            // Micro-batches add up in the parameter's own type, all else is done in the copy's.
            if let (Some(master), Some(gradient)) = (trained.master, gradient) {
                let dtype = outline.arguments[master].ty.elem.storage();
                *gradient = e.convert(*gradient, dtype);
            }
        }
        let Some(scaling) = &outline.scaling else { return };
        let scale = e.convert(self.given[scaling.scale], DType::F64);
        let one = e.like(scale, 1.0);
        let inverse = e.div(one, scale);
        let inverse = e.convert(inverse, DType::F32);
        for gradient in gradients.iter_mut().flatten() {
            let (dims, dtype) = (e.dims(*gradient), e.dtype(*gradient));
            let wide = e.convert(*gradient, DType::F32);
            let factor = e.broadcast_in(inverse, &dims, &[]);
            let product = e.mul(wide, factor);
            *gradient = e.convert(product, dtype);
        }
    }

    /// From gradients to the parameters after the step.
    fn update(&mut self, current: &[Option<V>], gradients: Vec<Option<V>>) -> Result<(), Error> {
        let Request { recipe, .. } = *self.request;
        let outline = self.outline;
        let mut gradients = gradients;
        let present: Vec<usize> =
            (0..gradients.len()).filter(|i| gradients[*i].is_some()).collect();
        let overflow = outline.scaling.as_ref().filter(|_| !present.is_empty()).map(|_| {
            let all: Vec<V> = gradients.iter().copied().flatten().collect();
            optimizer::overflowed(&mut self.e, &all)
        });
        if self.request.gradients {
            for i in &present {
                if let Some(gradient) = gradients[*i] {
                    self.result(kind::GRADIENT, &outline.trained[*i].name, gradient);
                }
            }
        }
        if let (Some(limit), false) = (recipe.clip_norm, present.is_empty()) {
            let all: Vec<V> = gradients.iter().copied().flatten().collect();
            let (clipped, norm) = optimizer::clip(&mut self.e, &all, limit);
            for (i, gradient) in present.iter().zip(clipped) {
                gradients[*i] = Some(gradient);
            }
            self.result(kind::REPORT, GRADIENT_NORM, norm);
        }
        let step = self.given[outline.step];
        let updates = outline.scaling.as_ref().map_or(step, |scaling| self.given[scaling.updates]);
        let numbers = Numbers::new(&mut self.e, recipe, step, updates);
        self.result(kind::REPORT, LEARNING_RATE, numbers.rate);
        for (trained, gradient) in outline.trained.iter().zip(gradients) {
            self.parameter(trained, gradient, current, &numbers, overflow)?;
        }
        if let (Some(scaling), Some(scale), Some(overflow)) =
            (&outline.scaling, recipe.loss_scale, overflow)
        {
            let (old, good) = (self.given[scaling.scale], self.given[scaling.good]);
            let (new, good) = optimizer::rescale(&mut self.e, scale, old, good, overflow);
            self.result(kind::OPTIMIZER, "scale", new);
            self.result(kind::OPTIMIZER, "good_steps", good);
            let counted = self.e.shift(updates, 1.0);
            let counted = self.e.select(overflow, updates, counted);
            self.result(kind::OPTIMIZER, "updates", counted);
        }
        Ok(())
    }

    /// One parameter and its state; nothing changes where the step is left out.
    fn parameter(
        &mut self,
        trained: &Trained,
        gradient: Option<V>,
        current: &[Option<V>],
        numbers: &Numbers,
        overflow: Option<V>,
    ) -> Result<(), Error> {
        let own = current[trained.argument]
            .ok_or_else(|| Error::Program(format!("{} is no parameter", trained.name)))?;
        let old_slots: Vec<V> = trained.slots.iter().map(|at| self.given[*at]).collect();
        let old = trained.master.map_or(own, |at| self.given[at]);
        let recipe = self.request.recipe;
        let e = &mut self.e;
        // PyTorch leaves parameters alone that the loss does not depend on.
        let (new, slots) = match gradient {
            None => (old, old_slots.clone()),
            Some(gradient) => {
                let dtype = e.dtype(old);
                let gradient = e.convert(gradient, dtype);
                let decays = !recipe.no_decay.contains(&trained.name);
                let updated =
                    optimizer::update(e, recipe, numbers, decays, old, gradient, &old_slots);
                (updated.parameter, updated.slots)
            }
        };
        let mut keep = |new: V, old: V| match overflow {
            Some(overflow) if new != old => {
                let dims = e.dims(new);
                let overflow = e.broadcast_in(overflow, &dims, &[]);
                e.select(overflow, old, new)
            }
            _ => new,
        };
        let new = keep(new, old);
        let slots: Vec<V> =
            slots.into_iter().zip(&old_slots).map(|(new, old)| keep(new, *old)).collect();
        let dtype = e.dtype(own);
        let parameter = e.convert(new, dtype);
        let Place::One(at) = &self.outline.places[trained.argument] else { return Ok(()) };
        let name = self.outline.arguments[*at].name.clone();
        self.result(kind::PARAMETER, &name, parameter);
        if let Some(master) = trained.master {
            let name = self.outline.arguments[master].name.clone();
            self.result(kind::OPTIMIZER, &name, new);
        }
        for (at, slot) in trained.slots.iter().zip(slots) {
            let name = self.outline.arguments[*at].name.clone();
            self.result(kind::OPTIMIZER, &name, slot);
        }
        Ok(())
    }
}

/// Which results are new contents of which arguments.
fn mutated(forward: &Module) -> Result<Vec<(usize, usize)>, Error> {
    let func = forward.entry().ok_or_else(|| Error::Program("it has no function".into()))?;
    let text = |attrs: &Dict, key: &str| match lookup(attrs, key) {
        Some(Attr::Str(text)) => Some(text.to_string()),
        _ => None,
    };
    let mut found = Vec::new();
    for (result, attrs) in func.result_attrs.iter().enumerate() {
        if text(attrs, KIND).as_deref() != Some("mutated") {
            continue;
        }
        let Some(name) = text(attrs, NAME) else { continue };
        let argument = func.argument_attrs.iter().position(|attrs| {
            let input = text(attrs, KIND).as_deref() == Some("input");
            !input && text(attrs, NAME).is_some_and(|names| names.split(' ').any(|n| n == name))
        });
        if let Some(argument) = argument {
            found.push((result, argument));
        }
    }
    Ok(found)
}
