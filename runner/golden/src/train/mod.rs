//! A training session: a model that is loaded once, keeps its parameters, buffers and optimiser
//! state, and is driven step by step. Gradients are libtorch's own, over the interpreted graph.

mod memory;
mod open;
mod optimizer;
mod schedule;
mod state;
mod together;

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use warpforge_golden_protocol::training::{Evaluate, Evaluated, Open, Opened, Step, Stepped};
use warpforge_golden_protocol::{Event, Taps};
use warpforge_pt2::{Model, OutputKind};

use self::open::Stored;
use self::optimizer::Optimizer;
use crate::failure::{self, Failure};
use crate::files;
use crate::interp::Interpreter;
use crate::load::{Loader, Machine};
use crate::progress::Progress;
use crate::ranks::{Next, Ranks};
use crate::torch::{Fault, GradMode, Library, Tensor, Value};
use crate::watch::{Recorder, Watch};

pub use self::together::follow;

type Emit<'e> = &'e mut dyn FnMut(Event);

/// A graph with its own tensors in place; what a batch gives is still open.
struct Program {
    model: Model,
    interpreter: Interpreter,
    inputs: Vec<Value>,
}

pub struct Training {
    machine: Machine,
    program: Program,
    evaluation: Option<Program>,
    /// Where the loss is among the outputs.
    loss: usize,
    /// Micro-batches to a step, those of all ranks.
    accumulation: u32,
    /// Those of this one.
    share: u32,
    ranks: Option<Rc<Ranks>>,
    stored: Stored,
    optimizer: Optimizer,
    opened: Opened,
}

/// What the micro-batches of a step came to.
struct Passes {
    losses: f64,
    own_random: BTreeMap<String, u64>,
    spent: Duration,
}

impl Training {
    /// `ranks`: those that it is trained by, if there are several.
    pub fn open(open: &Open, ranks: Option<Rc<Ranks>>) -> Result<Self, Failure> {
        together::announce(ranks.as_deref(), open.precision)?;
        let mut training = open::open(open, ranks)?;
        training.hand_out()?;
        Ok(training)
    }

    pub fn opened(&self) -> Opened {
        Opened { memory: memory::now(), ..self.opened.clone() }
    }

    pub fn step(&mut self, step: &Step, emit: Emit<'_>) -> Result<Stepped, Failure> {
        let (given, wanted) = (step.batches.len(), self.share as usize);
        if given != wanted {
            return Err(failure::inputs(format!(
                "{given} batches for a step of {wanted} micro-batches"
            )));
        }
        if step.activations.is_some() && step.taps == Taps::None {
            return Err(failure::inputs("a file for activations, but no nodes to write"));
        }
        self.machine.configure()?;
        self.lead(Next::Step { step: step.step, dry: step.dry })?;
        let kept = if step.dry { self.keep()? } else { Vec::new() };
        let done = self.advance(step, emit);
        self.put_back(kept)?;
        let stepped = done?;
        if let Some(path) = &step.state {
            self.save(path)?;
        }
        Ok(Stepped { memory: memory::now(), ..stepped })
    }

    fn advance(&mut self, step: &Step, emit: Emit<'_>) -> Result<Stepped, Failure> {
        for trained in &self.optimizer.trained {
            // Left behind by a step that failed.
            trained.parameter.drop_grad().map_err(failure::internal)?;
        }
        self.share_buffers()?;
        let Passes { mut losses, own_random, mut spent } = self.passes(step, emit)?;
        let _no_grad = GradMode::set(false);
        let library = self.program.interpreter.library();
        let begin = Instant::now();
        let mut taken = self.optimizer.take().map_err(failure::internal)?;
        if let Some(ranks) = &self.ranks {
            let trained = &self.optimizer.trained;
            losses = together::average(ranks, trained, &mut taken, losses, library)?;
        }
        let gradients = self.optimizer.gradients(taken, library);
        let (gradients, overflowed) = gradients.map_err(failure::internal)?;
        self.machine.synchronize()?;
        spent += begin.elapsed();
        let mut with = gradients.iter().map(|gradient| gradient.index).peekable();
        let names = self.optimizer.trained.iter().map(|trained| &trained.name).enumerate();
        let without = names.filter(|(index, _)| with.next_if_eq(index).is_none());
        let without_gradient = without.map(|(_, name)| name.clone()).collect();
        if let Some(path) = &step.gradients {
            let named = gradients
                .iter()
                .map(|gradient| (&*self.optimizer.trained[gradient.index].name, &gradient.tensor));
            files::write_tensors(path, named)?;
        }
        let begin = Instant::now();
        let clipped = self.optimizer.clip(&gradients, library);
        let gradient_norm = clipped.map_err(failure::internal)?.filter(|norm| norm.is_finite());
        if !step.dry {
            let updated = self.optimizer.update(step.step, gradients, overflowed, library);
            updated.map_err(failure::internal)?;
        }
        self.machine.synchronize()?;
        spent += begin.elapsed();
        Ok(Stepped {
            loss: Some(losses / f64::from(self.accumulation)).filter(|loss| loss.is_finite()),
            learning_rate: self.optimizer.learning_rate(step.step),
            gradient_norm,
            skipped: overflowed,
            seconds: spent.as_secs_f64(),
            without_gradient,
            own_random,
            memory: memory::now(),
        })
    }

    /// Forward and backward through every micro-batch; gradients add up in the parameters.
    fn passes(&mut self, step: &Step, emit: Emit<'_>) -> Result<Passes, Failure> {
        let mut passes = Passes { losses: 0.0, own_random: BTreeMap::new(), spent: Duration::ZERO };
        let before = self.ranks.as_ref().map_or(0, |ranks| ranks.rank * self.share);
        for (number, batch) in (0..).zip(&step.batches) {
            let first = number == 0;
            let taps = match &step.activations {
                Some(path) if first => Recorder::new(path.clone(), &step.taps)?,
                _ => None,
            };
            let ordinal = step.step.wrapping_mul(self.accumulation).wrapping_add(before + number);
            self.program.interpreter.set_step(ordinal);
            let inputs = self.program.batch(batch, self.machine)?;
            let nodes = self.program.model.graph.nodes.len();
            let mut watch = Watch::new(Progress::new(number, nodes, emit), taps, self.machine);
            let begin = Instant::now();
            let outputs = self.program.run(inputs, &mut watch)?;
            self.machine.synchronize()?;
            passes.spent += begin.elapsed();
            if let Some(taps) = watch.taps.take() {
                taps.finish()?;
            }
            if let Some(path) = step.outputs.as_ref().filter(|_| first) {
                write_outputs(path, &self.program.model, &outputs)?;
            }
            watch.progress.node(nodes, "backward");
            let begin = Instant::now();
            passes.losses += self.descend(outputs)?;
            self.machine.synchronize()?;
            passes.spent += begin.elapsed();
            for (op, count) in &self.program.interpreter.counts().own_random {
                *passes.own_random.entry(op.clone()).or_default() += count;
            }
        }
        Ok(passes)
    }

    /// Takes the gradients of one micro-batch; its loss.
    fn descend(&mut self, mut outputs: Vec<Value>) -> Result<f64, Failure> {
        let Value::Tensor(loss) = std::mem::replace(&mut outputs[self.loss], Value::None) else {
            return Err(failure::model(format!("the loss {} is no tensor", self.opened.loss)));
        };
        let mut changes = Vec::new();
        for (output, value) in self.program.model.outputs.iter().zip(outputs) {
            if let (OutputKind::Mutation(name), Value::Tensor(value)) = (&output.kind, value)
                && let Some(target) = self.stored.by_name.get(&**name)
            {
                changes.push((target.clone(), value));
            }
        }
        if !loss.tracked() {
            let name = &self.opened.loss;
            return Err(failure::model(format!("the loss {name} depends on no trained parameter")));
        }
        let number = loss.number().map_err(failure::internal)?;
        let library = self.program.interpreter.library();
        let grad = GradMode::set(true);
        let scaled = self.optimizer.scaled(loss, library).map_err(failure::internal)?;
        scaled.backward().map_err(|fault| failure::model(format!("backward: {fault}")))?;
        drop(grad);
        // Afterwards, as the backward pass may look at what is there before.
        let _no_grad = GradMode::set(false);
        for (target, value) in changes {
            assign(library, &target, value).map_err(failure::internal)?;
        }
        Ok(number)
    }

    pub fn evaluate(&mut self, evaluate: &Evaluate, emit: Emit<'_>) -> Result<Evaluated, Failure> {
        self.machine.configure()?;
        self.lead(Next::Own)?;
        let kept = self.keep()?;
        let done = self.show(evaluate, emit);
        self.put_back(kept)?;
        done
    }

    fn show(&mut self, evaluate: &Evaluate, emit: Emit<'_>) -> Result<Evaluated, Failure> {
        let program = self.evaluation.as_mut().unwrap_or(&mut self.program);
        program.interpreter.set_step(0);
        let inputs = program.batch(&evaluate.inputs, self.machine)?;
        let nodes = program.model.graph.nodes.len();
        let mut watch = Watch::new(Progress::new(0, nodes, emit), None, self.machine);
        let begin = Instant::now();
        program.interpreter.set_grad(false);
        let outputs = program.run(inputs, &mut watch);
        program.interpreter.set_grad(true);
        let outputs = outputs?;
        self.machine.synchronize()?;
        let seconds = begin.elapsed().as_secs_f64();
        write_outputs(&evaluate.outputs, &program.model, &outputs)?;
        Ok(Evaluated { seconds })
    }

    /// Copies of what a run may change besides the parameters that are trained.
    fn keep(&mut self) -> Result<Vec<(Tensor, Tensor)>, Failure> {
        let _no_grad = GradMode::set(false);
        let library = self.program.interpreter.library();
        let copy = |tensor: &Tensor| Ok((tensor.clone(), files::copy(library, tensor)?));
        let kept: Result<_, Fault> = self.stored.changeable.iter().map(copy).collect();
        kept.map_err(failure::internal)
    }

    fn put_back(&mut self, kept: Vec<(Tensor, Tensor)>) -> Result<(), Failure> {
        let _no_grad = GradMode::set(false);
        let library = self.program.interpreter.library();
        for (tensor, copy) in kept {
            assign(library, &tensor, copy).map_err(failure::internal)?;
        }
        Ok(())
    }

    /// Writes the state down, once it is known to be that of all ranks.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        self.check_alike()?;
        let state = self.state();
        files::write_tensors(path, state.iter().map(|(name, tensor)| (&**name, tensor)))
    }
}

impl Program {
    /// The graph's inputs for one batch.
    fn batch(&mut self, path: &Path, machine: Machine) -> Result<Vec<Value>, Failure> {
        let given = files::read(path)?;
        let mut loader = Loader::new(self.interpreter.library(), machine);
        let mut inputs = self.inputs.clone();
        for (index, tensor) in loader.user(&self.model, &given)? {
            inputs[index] = Value::Tensor(tensor);
        }
        Ok(inputs)
    }

    fn run(&mut self, inputs: Vec<Value>, watch: &mut Watch<'_>) -> Result<Vec<Value>, Failure> {
        self.interpreter.run(&self.model.graph, inputs, watch)
    }
}

/// What a model gives its user, by name.
fn write_outputs(path: &Path, model: &Model, outputs: &[Value]) -> Result<(), Failure> {
    let mut tensors = BTreeMap::new();
    for (output, value) in model.outputs.iter().zip(outputs) {
        if matches!(output.kind, OutputKind::User | OutputKind::Loss)
            && let Some(tensor) = files::as_tensor(value.clone()).map_err(failure::internal)?
        {
            tensors.insert(&*output.name, tensor);
        }
    }
    files::write_tensors(path, tensors.iter().map(|(name, tensor)| (*name, tensor)))
}

/// Gives a tensor other values, where it is.
fn assign(library: &mut Library, target: &Tensor, values: Tensor) -> Result<(), Fault> {
    library.apply("aten::copy_", "", &[target.into(), values.into()])
}
