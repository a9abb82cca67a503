//! Pass 2 of a training, beside golden's folder.

use std::collections::BTreeSet;
use std::path::Path;

use warpforge_parity::bundle::{self, ForcedAt, Metrics};
use warpforge_parity::compare::Number;
use warpforge_parity::performance::Blocks;
use warpforge_snakeburger::text::{self, PrintOptions};

use super::both::RunFile;
use super::progress::Folder;
use super::stepper::{Programs, Stepper, Wanted};
use super::{Pass, Plan, Stage, Task, golden, last_loss};
use crate::error::Error;
use crate::tensors::{self, Named};

/// The program of a step, as Pass 2 ran it.
pub const STEP: &str = "step.mlir";

/// Makes Pass 2's folder, or goes on with it.
#[expect(clippy::too_many_arguments, reason = "each is a thing of its own")]
pub fn make(
    plan: &Plan,
    task: &dyn Task,
    programs: &Programs,
    golden: &Path,
    out: &Path,
    run: &RunFile,
    blocks: Option<&Blocks>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    let mut folder = Folder::open(out, &run.key)?;
    folder.json(bundle::RUN, run)?;
    if let Some(blocks) = blocks {
        folder.json(bundle::TIMINGS, blocks)?;
    }
    let locations = PrintOptions { locations: true, ..PrintOptions::default() };
    let path = folder.place(STEP)?;
    bundle::write_beside(&path, text::print(&programs.step, locations).as_bytes())
        .map_err(|error| Error::io(&path, error))?;
    let mut stepper = Stepper::new(programs, plan.seed)?;
    forced(plan, golden, &mut folder, &mut stepper, on_stage)?;
    stepper.state = match folder.state() {
        Some(path) => tensors::read(&path)?,
        None => programs.initial()?,
    };
    let done = folder.steps();
    for step in done..plan.steps {
        if let Err(deadline) =
            plan.check_time(|| format!("warpforge's step {} of {}", step + 1, plan.steps))
        {
            if step > folder.steps() {
                folder.checkpoint(step, &mut |path| write(path, &stepper.state))?;
            }
            return Err(deadline);
        }
        let batches = task.batches(step)?;
        let stepped = stepper.step(step, &batches, &Wanted::default())?;
        folder.loss(stepped.loss.is_finite().then_some(stepped.loss));
        let (loss, steps) = (stepped.loss, plan.steps);
        on_stage(Stage::Training { pass: Pass::WarpForge, step: step + 1, steps, loss });
        if (step + 1) % plan.checkpoint_every.max(1) == 0 || step + 1 == plan.steps {
            folder.checkpoint(step + 1, &mut |path| write(path, &stepper.state))?;
        }
    }
    let batches = task.evaluation()?;
    let mut outputs = Vec::new();
    for (i, batch) in batches.iter().enumerate() {
        plan.check_time(|| "warpforge's evaluation".to_owned())?;
        outputs.push(stepper.evaluate(batch)?);
        let (batch, batches) = (i + 1, batches.len());
        on_stage(Stage::Evaluating { pass: Pass::WarpForge, batch, batches });
    }
    let mut metrics = if outputs.is_empty() { Metrics::new() } else { task.score(&outputs)? };
    metrics.insert("loss".to_owned(), Number(last_loss(folder.losses())));
    folder.json(bundle::METRICS, &metrics)?;
    golden::write_checkpoint(&folder, &stepper.state)?;
    folder.finish()
}

fn write(path: &Path, named: &Named) -> Result<(), Error> {
    tensors::write(path, named.iter().map(|(name, tensor)| (name.as_str(), tensor)))
}

/// The steps from golden's own state and batch, and the optimiser alone on golden's gradients.
fn forced(
    plan: &Plan,
    golden: &Path,
    folder: &mut Folder,
    stepper: &mut Stepper<'_>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    let taps: BTreeSet<String> = stepper.order().activations.into_iter().collect();
    let initial = std::mem::take(&mut stepper.state);
    for step in plan.forced.iter().copied().filter(|step| *step < plan.steps) {
        if folder.has(&bundle::optimizer(step.into())) {
            continue;
        }
        plan.check_time(|| format!("warpforge's step {} from golden's state", step + 1))?;
        on_stage(Stage::Forced { pass: Pass::WarpForge, step });
        // What golden's file lacks is as at the start, such as momentum before the first step.
        let mut state = initial.clone();
        state.extend(tensors::read(&golden.join(bundle::states(step.into())))?);
        stepper.state = state.clone();
        let count = plan.recipe.accumulation as usize;
        let batches =
            (0..count).map(|i| tensors::read(&golden.join(bundle::batch(step.into(), i as u64))));
        let batches: Vec<Named> = batches.collect::<Result<_, _>>()?;
        let activations = folder.place(&bundle::activations(step.into()))?;
        let wanted = Wanted { taps: Some((&activations, &taps)) };
        let stepped = stepper.step(step, &batches, &wanted)?;
        write(&folder.place(&bundle::gradients(step.into()))?, &stepped.gradients)?;
        write(&folder.place(&bundle::weights(step.into()))?, &stepper.state)?;
        let entry = ForcedAt {
            step: step.into(),
            loss: Number(stepped.loss),
            learning_rate: stepped.learning_rate,
            gradient_norm: stepped.gradient_norm.map(Number),
        };
        golden::add_forced(folder, bundle::FORCED, entry)?;
        stepper.state = state;
        let gradients = tensors::read(&golden.join(bundle::gradients(step.into())))?;
        let alone = stepper.update(step, &gradients)?;
        // Last: its presence says that the step is done.
        write(&folder.place(&bundle::optimizer(step.into()))?, &alone)?;
    }
    Ok(())
}
