//! Pass 1 of a training: golden is driven step by step and leaves its folder.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use warpforge_golden_protocol as protocol;
use warpforge_golden_protocol::training::{Evaluate, Open, Step, Stepped};
use warpforge_parity::bundle::{self, Expect, Forced, ForcedAt, Order};
use warpforge_parity::compare::Number;
use warpforge_pt2::random::Stream;
use warpforge_snakeburger::eval::{Num, Tensor};
use warpforge_snakeburger::ir::DType;

use super::both::RunFile;
use super::progress::{Folder, curve};
use super::{Pass, Plan, Stage, Task, last_loss, ranks, sizes};
use crate::error::Error;
use crate::forward::record::FileInfo;
use crate::forward::{Weights, absolute};
use crate::tensors::{self, Named};

/// A session with golden.
pub struct Trainer<'a> {
    pub(super) plan: &'a Plan,
    pub(super) session: protocol::Session,
    pub peak_bytes: Option<u64>,
}

impl<'a> Trainer<'a> {
    /// Starts golden; one of several ranks meets the others, which must have the same key.
    pub fn new(plan: &'a Plan, key: &str) -> Result<Self, Error> {
        let mut session = protocol::Golden::find(&plan.libtorch)?.start()?;
        ranks::meet(plan, &mut session, key)?;
        Ok(Self { plan, session, peak_bytes: None })
    }

    /// Opens the model, in the place of one that was open.
    pub fn open(&mut self, precision: protocol::Precision) -> Result<(), Error> {
        let plan = self.plan;
        let open = Open {
            model: absolute(&plan.model)?,
            evaluation: plan.evaluation.as_deref().map(absolute).transpose()?,
            weights: plan.weights.message(plan.seed),
            precision,
            device: plan.device,
            threads: plan.threads,
            seed: plan.seed,
            dims: sizes(&plan.dims),
            evaluation_dims: sizes(&plan.evaluation_dims),
            loss: plan.loss.clone(),
            recipe: plan.recipe.clone(),
            tf32: false,
        };
        plan.check_time(|| "the start of golden".to_owned())?;
        let opened = self
            .session
            .open(&open, plan.request_limit(), &mut |_| {})
            .map_err(|error| plan.golden_error(error, "the start of golden"))?;
        self.peak_bytes = self.peak_bytes.max(opened.memory.peak_bytes);
        Ok(())
    }

    pub fn step(&mut self, step: &Step) -> Result<Stepped, Error> {
        let stepped = self
            .session
            .step(step, self.plan.request_limit(), &mut |_| {})
            .map_err(|error| self.plan.golden_error(error, "a step of golden"))?;
        self.peak_bytes = self.peak_bytes.max(stepped.memory.peak_bytes);
        Ok(stepped)
    }

    pub fn save(&mut self, path: &Path) -> Result<(), Error> {
        Ok(self.session.save(&absolute(path)?)?)
    }

    pub fn restore(&mut self, path: &Path) -> Result<(), Error> {
        Ok(self.session.restore(&absolute(path)?)?)
    }

    pub fn evaluate(&mut self, inputs: &Path, outputs: &Path) -> Result<f64, Error> {
        let evaluate = Evaluate { inputs: absolute(inputs)?, outputs: absolute(outputs)? };
        let evaluated = self
            .session
            .evaluate(&evaluate, self.plan.request_limit(), &mut |_| {})
            .map_err(|error| self.plan.golden_error(error, "golden's evaluation"))?;
        Ok(evaluated.seconds)
    }

    /// Ends the child; if it leads others, they end too.
    pub fn finish(mut self) -> Result<(), Error> {
        if self.plan.rank.is_some() {
            self.session.leave(self.plan.request_limit())?;
        }
        self.session.finish();
        Ok(())
    }
}

/// A digest of everything that golden's folder depends on.
pub fn key(
    plan: &Plan,
    task: &dyn Task,
    configuration: &serde_json::Value,
) -> Result<String, Error> {
    let mut hash = Sha256::new();
    let mut line = |name: &str, value: &str| {
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update(value.as_bytes());
        hash.update([0]);
    };
    line("golden", env!("CARGO_PKG_VERSION"));
    line("libtorch", protocol::LIBTORCH_VERSION);
    line("configuration", &configuration.to_string());
    line("recipe", &format!("{:?}", plan.recipe));
    line("run", &format!("{} {:?} {:?}", plan.steps, plan.forced, plan.noise));
    line("numerics", &format!("{} {} {}", plan.device, plan.threads, processor()));
    line("seed", &plan.seed.to_string());
    line("sizes", &format!("{:?} {:?}", plan.dims, plan.evaluation_dims));
    line("data", &task.digest());
    let weights = match &plan.weights {
        Weights::Safetensors(path) | Weights::Recipe(path) => Some(path.as_path()),
        Weights::Archive | Weights::StandardRecipe => None,
    };
    let files = [Some(plan.model.as_path()), plan.evaluation.as_deref(), weights];
    for path in files.into_iter().flatten() {
        line("file", &FileInfo::of(path)?.sha256);
    }
    Ok(hex(&hash.finalize()))
}

/// Which instructions libtorch may use: it chooses kernels by them.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let known = ["avx2", "fma", "avx512f", "avx512_bf16", "amx_tile"];
    let has = |name: &&str| flags.split_whitespace().any(|flag| flag == *name);
    known.iter().copied().filter(|name| has(name)).collect::<Vec<_>>().join("+")
}

/// The SHA-256 of a text.
pub fn text_digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Makes golden's folder, or goes on with it.
pub fn make(
    plan: &Plan,
    task: &dyn Task,
    order: &Order,
    expect: &Expect,
    out: &Path,
    run: &RunFile,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    on_stage(Stage::Loading);
    let mut folder = Folder::open(out, &run.key)?;
    folder.json(bundle::RUN, run)?;
    folder.json(bundle::EXPECT, expect)?;
    let mut trainer = Trainer::new(plan, &run.key)?;
    trainer.open(protocol::Precision::AsExported)?;
    let initial = folder.work("initial.safetensors");
    trainer.save(&initial)?;
    if let Some(state) = folder.state() {
        trainer.restore(&state)?;
    }
    folder.json(bundle::ORDER, order)?;
    let taps = protocol::Taps::Nodes(order.activations.clone());
    free_run(plan, task, &taps, &mut folder, &mut trainer, on_stage)?;
    if !folder.has(bundle::METRICS) {
        let mut metrics = evaluate(task, &folder, &mut trainer, on_stage)?.unwrap_or_default();
        metrics.insert("loss".to_owned(), Number(last_loss(folder.losses())));
        folder.json(bundle::METRICS, &metrics)?;
    }
    let last = folder.work("last.safetensors");
    trainer.save(&last)?;
    write_checkpoint(&folder, &tensors::read(&last)?)?;
    for run in 0..plan.noise.runs {
        noise(plan, task, run, &initial, &mut folder, &mut trainer, on_stage)?;
    }
    if plan.oracle && !folder.has(&format!("{}/{}", bundle::ORACLE, bundle::FORCED)) {
        trainer.open(protocol::Precision::F64)?;
        oracle(plan, &taps, &mut folder, &mut trainer, on_stage)?;
    }
    trainer.finish()?;
    folder.finish()
}

/// Writes a step's micro-batches.
pub(super) fn write_batches(
    batches: &[Named],
    place: &dyn Fn(usize) -> Result<PathBuf, Error>,
) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for (i, batch) in batches.iter().enumerate() {
        let path = absolute(&place(i)?)?;
        tensors::write(&path, batch.iter().map(|(name, tensor)| (name.as_str(), tensor)))?;
        paths.push(path);
    }
    Ok(paths)
}

fn free_run(
    plan: &Plan,
    task: &dyn Task,
    taps: &protocol::Taps,
    folder: &mut Folder,
    trainer: &mut Trainer<'_>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    let done = folder.steps();
    for step in done..plan.steps {
        if let Err(deadline) =
            plan.check_time(|| format!("golden's step {} of {}", step + 1, plan.steps))
        {
            if step > folder.steps() {
                folder.checkpoint(step, &mut |path| trainer.save(path))?;
            }
            return Err(deadline);
        }
        let forced = plan.forced.contains(&step);
        let batches = task.batches(step)?;
        let batches = write_batches(&batches, &|i| {
            if forced {
                folder.place(&bundle::batch(step.into(), i as u64))
            } else {
                Ok(folder.work(&format!("batch-{i}.safetensors")))
            }
        })?;
        let mut request = Step { step, batches: plan.share(batches), ..Step::default() };
        if forced {
            trainer.save(&folder.place(&bundle::states(step.into()))?)?;
            if Some(&step) == plan.forced.first() {
                // The same once more must give the same bits.
                let path = format!("repeat/{}", bundle::gradients(step.into()));
                let gradients = Some(absolute(&folder.place(&path)?)?);
                trainer.step(&Step { dry: true, gradients, ..request.clone() })?;
            }
            request.gradients = Some(absolute(&folder.place(&bundle::gradients(step.into()))?)?);
            request.activations =
                Some(absolute(&folder.place(&bundle::activations(step.into()))?)?);
            request.taps = taps.clone();
            request.state = Some(absolute(&folder.place(&bundle::weights(step.into()))?)?);
        }
        let stepped = trainer.step(&request)?;
        folder.loss(stepped.loss);
        if forced {
            note_forced(folder, bundle::FORCED, step, &stepped)?;
        }
        let loss = stepped.loss.unwrap_or(f64::NAN);
        on_stage(Stage::Training { pass: Pass::Golden, step: step + 1, steps: plan.steps, loss });
        if (step + 1) % plan.checkpoint_every.max(1) == 0 || step + 1 == plan.steps {
            folder.checkpoint(step + 1, &mut |path| trainer.save(path))?;
        }
    }
    Ok(())
}

/// Parameters and buffers by their own names, as a checkpoint of PyTorch has them.
pub(crate) fn write_checkpoint(folder: &Folder, state: &Named) -> Result<(), Error> {
    let own = state.iter().filter_map(|(name, tensor)| {
        let name = name.strip_prefix("parameter/").or_else(|| name.strip_prefix("buffer/"))?;
        Some((name, tensor))
    });
    tensors::write(&folder.place(bundle::CHECKPOINT)?, own)
}

/// Adds a step to the list of forced ones, or replaces it after a restart.
pub(crate) fn note_forced(
    folder: &mut Folder,
    name: &str,
    step: u32,
    stepped: &Stepped,
) -> Result<(), Error> {
    add_forced(folder, name, forced_at(step, stepped))
}

fn forced_at(step: u32, stepped: &Stepped) -> ForcedAt {
    ForcedAt {
        step: step.into(),
        loss: Number(stepped.loss.unwrap_or(f64::NAN)),
        learning_rate: stepped.learning_rate,
        gradient_norm: stepped.gradient_norm.map(Number),
    }
}

pub(crate) fn add_forced(folder: &mut Folder, name: &str, entry: ForcedAt) -> Result<(), Error> {
    let text = std::fs::read(folder.root().join(name)).unwrap_or_default();
    let known = serde_json::from_slice(&text);
    let mut forced = known.unwrap_or(Forced { version: 1, steps: Vec::new() });
    forced.steps.retain(|known| known.step != entry.step);
    forced.steps.push(entry);
    folder.json(name, &forced)
}

fn evaluate(
    task: &dyn Task,
    folder: &Folder,
    trainer: &mut Trainer<'_>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<Option<bundle::Metrics>, Error> {
    let batches = task.evaluation()?;
    if batches.is_empty() {
        return Ok(None);
    }
    let inputs = folder.work("evaluation-inputs.safetensors");
    let outputs = folder.work("evaluation-outputs.safetensors");
    let mut all = Vec::new();
    for (i, batch) in batches.iter().enumerate() {
        trainer.plan.check_time(|| "golden's evaluation".to_owned())?;
        tensors::write(&inputs, batch.iter().map(|(name, tensor)| (name.as_str(), tensor)))?;
        trainer.evaluate(&inputs, &outputs)?;
        all.push(tensors::read(&outputs)?);
        let (batch, batches) = (i + 1, batches.len());
        on_stage(Stage::Evaluating { pass: Pass::Golden, batch, batches });
    }
    task.score(&all).map(Some)
}

/// One run from weights that differ in their last bits.
fn noise(
    plan: &Plan,
    task: &dyn Task,
    run: u32,
    initial: &Path,
    folder: &mut Folder,
    trainer: &mut Trainer<'_>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    let losses_name = bundle::noise_curve(run as usize);
    if folder.has(&losses_name) {
        return Ok(());
    }
    let state = disturbed(&tensors::read(initial)?, plan.seed, run);
    let path = folder.work("disturbed.safetensors");
    tensors::write(&path, state.iter().map(|(name, tensor)| (name.as_str(), tensor)))?;
    trainer.restore(&path)?;
    let steps = plan.noise.steps.min(plan.steps);
    let mut losses = Vec::new();
    for step in 0..steps {
        plan.check_time(|| format!("run {} of golden's own spread", run + 1))?;
        let batches = task.batches(step)?;
        let batches =
            write_batches(&batches, &|i| Ok(folder.work(&format!("batch-{i}.safetensors"))))?;
        let request = Step { step, batches: plan.share(batches), ..Step::default() };
        let stepped = trainer.step(&request)?;
        losses.push(stepped.loss);
        on_stage(Stage::Noise { run: run + 1, runs: plan.noise.runs, step: step + 1, steps });
    }
    if steps == plan.steps {
        let mut metrics = evaluate(task, folder, trainer, on_stage)?.unwrap_or_default();
        metrics.insert("loss".to_owned(), Number(last_loss(&losses)));
        folder.json(&bundle::noise_metrics(run as usize), &metrics)?;
    }
    // Last: its presence says that the run is whole.
    folder.json(&losses_name, &curve(&losses))
}

/// Every parameter changed by about half a unit in its last place, up, down or not at all; its
/// wider copy follows it.
fn disturbed(state: &Named, seed: u64, run: u32) -> Named {
    let mut changed = state.clone();
    for (ordinal, (name, tensor)) in state.iter().enumerate() {
        let dtype = tensor.storage();
        let Some(parameter) = name.strip_prefix("parameter/").filter(|_| dtype.is_float()) else {
            continue;
        };
        let step = u32::MAX - 1 - run;
        let stream = Stream { seed, step, ordinal: ordinal as u32 };
        // Half the spacing just above one: rounding makes it a whole place or nothing.
        let unit = match dtype {
            DType::F64 => f64::EPSILON,
            DType::F16 => 2f64.powi(-11),
            DType::BF16 => 2f64.powi(-8),
            _ => f64::from(f32::EPSILON),
        };
        let moved = Tensor::from_nums(tensor.ty.clone(), |i| {
            let old = tensor.get(i).float();
            let way = f64::from(stream.bits(i as u64) % 3) - 1.0;
            Num::F(old * (1.0 + way * unit)).fit(dtype)
        });
        if let Some(master) = changed.get_mut(&format!("optimizer/master/{parameter}")) {
            let wide = master.storage();
            *master = Tensor::from_nums(master.ty.clone(), |i| moved.get(i).fit(wide));
        }
        changed.insert(name.clone(), moved);
    }
    changed
}

/// The forced steps in float64, from the same states.
fn oracle(
    plan: &Plan,
    taps: &protocol::Taps,
    folder: &mut Folder,
    trainer: &mut Trainer<'_>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    let mut forced = Forced { version: 1, steps: Vec::new() };
    for step in plan.forced.iter().copied().filter(|step| *step < plan.steps) {
        plan.check_time(|| format!("golden's step {} in float64", step + 1))?;
        on_stage(Stage::Forced { pass: Pass::Oracle, step });
        trainer.restore(&folder.place(&bundle::states(step.into()))?)?;
        let count = plan.recipe.accumulation as usize;
        let batches =
            (0..count).map(|i| absolute(&folder.place(&bundle::batch(step.into(), i as u64))?));
        let place = |name: String| -> Result<Option<PathBuf>, Error> {
            let name = format!("{}/{name}", bundle::ORACLE);
            Ok(Some(absolute(&folder.place(&name)?)?))
        };
        let request = Step {
            step,
            batches: plan.share(batches.collect::<Result<_, _>>()?),
            gradients: place(bundle::gradients(step.into()))?,
            activations: place(bundle::activations(step.into()))?,
            taps: taps.clone(),
            state: place(bundle::weights(step.into()))?,
            ..Step::default()
        };
        let stepped = trainer.step(&request)?;
        forced.steps.push(forced_at(step, &stepped));
    }
    folder.json(&format!("{}/{}", bundle::ORACLE, bundle::FORCED), &forced)
}
