//! Trainings in both passes: a workload of ours or any model, whole (`warpforge run`) or pass by
//! pass (`warpforge golden`, `warpforge execute`).

mod part;
mod ranks;
mod sources;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use indicatif::ProgressBar;
use warpforge_bench::system::snapshot;
use warpforge_golden_protocol::{Device, Search};
use warpforge_parity::bundle::GOLDEN;
use warpforge_parity::performance::Baselines;
use warpforge_parity::training::TrainingSettings;
use warpforge_parity::verdict::Verdict;
use warpforge_pt2::Model;
use warpforge_workloads::bert_squad::{self, Config, Machine, Preset, Workload};
use warpforge_workloads::training::both::{self, Request, RunFile};
use warpforge_workloads::training::{Deadline, Noise, Plan, Stage, given, remat, spread};

pub use part::{GoldenPart, Part};

use super::Context;
use super::model::Given;
use super::run::{explain, libtorch, processors, progress, weights};
use super::training::Training;
use super::validate::training as shown;
use crate::events::Events;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

/// The workloads that come with WarpForge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// BERT answers questions about passages (SQuAD v1.1)
    BertSquad,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Size {
    #[default]
    Demo,
    Base,
    Full,
}

impl From<Size> for Preset {
    fn from(size: Size) -> Self {
        match size {
            Size::Demo => Preset::Demo,
            Size::Base => Preset::Base,
            Size::Full => Preset::Full,
        }
    }
}

/// Where Pass 2 runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// The reference interpreter
    #[default]
    Cpu,
    Cuda,
    Hip,
}

/// What can be said about a workload.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadOptions {
    /// How large
    #[arg(long, value_enum, default_value_t = Size::Demo, requires = "workload")]
    preset: Size,

    /// Where Pass 2 runs
    #[arg(long, value_enum, default_value_t = Target::Cpu, requires = "workload")]
    device: Target,

    /// A folder with the data set's files: those that are published (held against their
    /// digests), or train.json and dev.json in the same form [default: generated passages for
    /// demo, what `warpforge data fetch` brought for the others]
    #[arg(long, value_name = "DIR", requires = "workload")]
    data: Option<PathBuf>,

    /// Accept the licence of this dataset, which forbids commercial use
    #[arg(long, value_name = "ID", requires = "workload")]
    accept_license: Vec<String>,

    /// Change a setting; `--set help` lists them
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "workload")]
    set: Vec<String>,

    /// Make golden again though it is there
    #[arg(long, requires = "workload")]
    refresh_golden: bool,
}

/// What all trainings are told.
pub struct Common<'a> {
    pub out: &'a Path,
    pub program: Option<&'a Path>,
    pub seed: u64,
    pub device: Device,
    pub threads: u32,
    pub libtorch: Search,
    pub settings: TrainingSettings,
    pub oracle: bool,
    /// Seconds for all of it.
    pub limit: Option<u64>,
    pub remat: Option<&'a str>,
    pub baselines: Baselines,
    pub fail_on_performance: bool,
    pub minimum_ratio: Option<f64>,
    pub golden: Part,
    pub monitor: Option<Duration>,
    pub events: &'a Events,
}

/// Run golden's pass of a workload alone
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  warpforge golden bert-squad --out golden/
  warpforge golden bert-squad --preset full --model bert-large/ --data squad/ --epochs 2 --batch-size 8 --out golden/
  warpforge golden bert-squad --ranks 2 --rank 0 --rendezvous 10.0.0.1:29500 --out golden/
  warpforge golden bert-squad --ranks 2 --rank 1 --rendezvous 10.0.0.1:29500 --out golden/

A golden that is cut off goes on from its last checkpoint when it is started again.")]
pub struct GoldenArgs {
    #[arg(value_enum, value_name = "WORKLOAD")]
    workload: Name,

    /// How large
    #[arg(long, value_enum, default_value_t = Size::Demo)]
    preset: Size,

    /// A folder with train.pt2, eval.pt2, vocab.txt and weights.safetensors
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,

    /// A folder with the data set's files: those that are published (held against their
    /// digests), or train.json and dev.json in the same form [default: generated passages for
    /// demo, what `warpforge data fetch` brought for the others]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Accept the licence of this dataset, which forbids commercial use
    #[arg(long, value_name = "ID")]
    accept_license: Vec<String>,

    #[arg(long, value_name = "N")]
    epochs: Option<f64>,

    #[arg(long, value_name = "N")]
    batch_size: Option<u32>,

    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Change a setting; `--set help` lists them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Where golden runs
    #[arg(long, value_name = "cpu|cuda:N", default_value = "cpu")]
    device: Device,

    /// Threads of one operator [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    threads: Option<u32>,

    /// The folder for golden's results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    #[command(flatten)]
    ranks: ranks::RankOptions,

    /// Say the key that golden would have, and stop
    #[arg(long, hide = true)]
    golden_key: bool,
}

/// Run WarpForge's pass of a workload alone, beside golden's results
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  warpforge execute bert-squad --golden golden/ --out ours/
  warpforge validate --golden golden/ --candidate ours/ --fail-on-mismatch

Settings, data and model are those that golden's folder names.")]
pub struct ExecuteArgs {
    #[arg(value_enum, value_name = "WORKLOAD")]
    workload: Name,

    /// The folder that `warpforge golden` made
    #[arg(long, value_name = "DIR")]
    golden: PathBuf,

    /// Where Pass 2 runs
    #[arg(long, value_enum, default_value_t = Target::Cpu)]
    device: Target,

    /// Run this program in the place of the step's own
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// What is computed again on the way back instead of kept: keep, modules, MODULE,... or
    /// BYTES, as `warpforge run --remat` has it [default: as golden's settings say]
    #[arg(long, value_name = "WHAT")]
    remat: Option<String>,

    /// Accept the licence of this dataset, which forbids commercial use
    #[arg(long, value_name = "ID")]
    accept_license: Vec<String>,

    /// The folder for the results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

fn misuse(message: impl Into<String>, help: &str) -> anyhow::Error {
    Misuse::new(message, help).into()
}

/// Backends beside the reference interpreter are named, not there.
fn check(target: Target) -> anyhow::Result<()> {
    let name = match target {
        Target::Cpu => return Ok(()),
        Target::Cuda => "cuda",
        Target::Hip => "hip",
    };
    let problem = format!("Pass 2 does not run on {name} yet");
    Err(misuse(problem, "leave --device out: the reference interpreter runs it on the processor"))
}

fn settings(preset: Size, changes: &[String]) -> anyhow::Result<Config> {
    let config = Config::preset(preset.into());
    if changes.iter().any(|change| change == "help") {
        let mut list = String::new();
        let all = serde_json::to_value(&config)?;
        for (name, value) in all.as_object().into_iter().flatten() {
            let _ = write!(list, "\n  {name}={value}");
        }
        return Err(misuse(format!("the settings are{list}"), "change one with --set key=value"));
    }
    let with = config.with(changes);
    with.map_err(|problem| misuse(problem, "`--set help` lists the settings"))
}

/// `warpforge run bert-squad`.
pub fn run(
    model: Option<&Path>,
    options: &WorkloadOptions,
    common: Common<'_>,
    context: &Context<'_>,
    ui: &mut Ui,
) -> anyhow::Result<Exit> {
    check(options.device)?;
    let mut config = settings(options.preset, &options.set)?;
    if common.seed != 0 {
        config.seed = common.seed;
    }
    config.data = options.data.clone().or(config.data);
    config.model = model.map(Path::to_owned).or(config.model);
    if let Some(ratio) = common.minimum_ratio {
        config.throughput_delta = 1.0 - ratio;
    }
    config.wall_limit_seconds = common.limit.unwrap_or(config.wall_limit_seconds);
    if let Some(remat) = common.remat {
        remat.clone_into(&mut config.remat);
    }
    let machine =
        Machine { device: common.device, threads: common.threads, libtorch: common.libtorch };
    let folder = common.out.join("model");
    let workload = workload(config, &options.accept_license, machine, &folder, context)?;
    let config = &workload.config;
    ui.note(&format!(
        "bert-squad, preset {}: {} steps of {} windows, {} questions",
        config.preset.name(),
        workload.plan.steps,
        config.batch_size * config.micro_batches(),
        workload.task.questions(),
    ))?;
    let mut request = request_of(&workload);
    request.program = common.program.map(Path::to_owned);
    request.settings = common.settings;
    request.refresh = options.refresh_golden;
    request.baselines = common.baselines;
    request.monitor = common.monitor;
    let rest = (common.fail_on_performance, common.golden, common.events);
    finish(&request, common.out, rest, ui)
}

/// The workload with its data and weights found, checked and attributed.
fn workload(
    mut config: Config,
    accepted: &[String],
    machine: Machine,
    folder: &Path,
    context: &Context<'_>,
) -> anyhow::Result<Workload> {
    let sources = sources::settle(&mut config, accepted, context)?;
    let mut workload = Workload::new(&config, machine, folder).map_err(explain)?;
    if let Some(data) = sources.data {
        workload.attributions = vec![data];
    }
    workload.attributions.extend(sources.weights);
    Ok(workload)
}

fn request_of(workload: &Workload) -> Request<'_> {
    let config = &workload.config;
    let samples = f64::from(config.batch_size) * f64::from(config.micro_batches());
    Request {
        title: format!("{} ({})", bert_squad::NAME, config.preset.name()),
        plan: &workload.plan,
        task: &workload.task,
        configuration: serde_json::json!({ bert_squad::NAME: config }),
        determining: config.determining(),
        workload: Some((bert_squad::NAME.into(), config.preset.name().into())),
        program: None,
        expect: config.expect.clone(),
        attributions: workload.attributions.clone(),
        settings: TrainingSettings::default(),
        refresh: false,
        items_per_step: samples,
        hardware_class: snapshot().hardware_class(),
        allowed_delta: Some(config.throughput_delta),
        memory_limit_bytes: Some(config.memory_limit_bytes),
        baselines: Baselines::default(),
        timing: (3, 2),
        monitor: None,
    }
}

/// `warpforge run --model F --train`.
pub fn train(
    model: &Path,
    inputs: &[PathBuf],
    given: &Given,
    training: &Training,
    common: &Common<'_>,
    ui: &mut Ui,
) -> anyhow::Result<Exit> {
    let opened = Model::open(model).map_err(|error| explain(error.into()))?;
    let names: Vec<String> = opened.inputs.iter().map(|input| input.name.to_string()).collect();
    let recipe = training.recipe(&names)?;
    if training.steps == 0 {
        return Err(misuse("--steps is 0: nothing would be trained", "say how many steps"));
    }
    let remat = remat::parse(common.remat.unwrap_or("keep")).map_err(|problem| {
        misuse(format!("--remat: {problem}"), &format!("say one of: {}", remat::FORMS))
    })?;
    let deadline = common.limit.map(|seconds| Deadline::after(Duration::from_secs(seconds)));
    let (batches, dims) = given::read(model, inputs, &given.dims, common.seed).map_err(explain)?;
    let accumulation = recipe.accumulation;
    let items = batches.first().and_then(|batch| batch.values().next());
    let items = items.and_then(|tensor| tensor.dims().first().copied()).unwrap_or(1);
    let task = given::Batches::new(batches, accumulation);
    let steps = training.steps;
    let plan = Plan {
        model: model.to_owned(),
        evaluation: None,
        weights: weights(given),
        dims,
        evaluation_dims: Vec::new(),
        loss: training.loss.clone(),
        recipe,
        steps,
        forced: spread(steps, training.forced),
        noise: Noise { runs: training.noise, steps },
        seed: common.seed,
        threads: common.threads,
        device: common.device,
        oracle: common.oracle,
        checkpoint_every: 100,
        deadline,
        remat,
        libtorch: common.libtorch.clone(),
        rank: None,
    };
    let title = model.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let inputs: Vec<String> = inputs.iter().map(|path| path.display().to_string()).collect();
    let configuration = serde_json::json!({ "model": {
        "path": model, "inputs": inputs, "loss": plan.loss, "recipe": plan.recipe,
        "steps": steps, "seed": common.seed, "threads": common.threads,
    }});
    let request = Request {
        title,
        plan: &plan,
        task: &task,
        determining: configuration.clone(),
        configuration,
        workload: None,
        program: common.program.map(Path::to_owned),
        expect: warpforge_parity::bundle::Expect::new(),
        attributions: Vec::new(),
        settings: common.settings,
        refresh: false,
        items_per_step: items as f64 * f64::from(accumulation),
        hardware_class: snapshot().hardware_class(),
        allowed_delta: common.minimum_ratio.map(|ratio| 1.0 - ratio),
        memory_limit_bytes: None,
        baselines: common.baselines.clone(),
        timing: (2, 2),
        monitor: common.monitor,
    };
    let rest = (common.fail_on_performance, common.golden, common.events);
    finish(&request, common.out, rest, ui)
}

fn finish(
    request: &Request<'_>,
    out: &Path,
    (fail_on_performance, golden, events): (bool, Part, &Events),
    ui: &mut Ui,
) -> anyhow::Result<Exit> {
    if golden != Part::All {
        return part::of_golden(request, &out.join(GOLDEN), golden, events, ui);
    }
    let bar = progress(ui);
    let system = serde_json::to_value(snapshot()).ok();
    let report = both::run(request, out, system, &mut |stage| {
        events.training(&stage);
        show_stage(&bar, &stage);
    });
    bar.finish_and_clear();
    let report = report.map_err(explain)?;
    shown::show(&report, Some(out), ui)?;
    let speed = report.verdicts.performance.filter(|_| fail_on_performance);
    Ok(Verdict::gravest([report.verdicts.correctness].into_iter().chain(speed)).into())
}

fn show_stage(bar: &ProgressBar, stage: &Stage) {
    bar.set_message(match stage {
        Stage::Loading => "reading models and data".to_owned(),
        Stage::Training { pass, step, steps, loss } => {
            format!("{}: step {step} of {steps}, loss {loss:.4}", pass.name())
        }
        Stage::Forced { pass, step } => format!("{}: step {step} from golden's state", pass.name()),
        Stage::Evaluating { pass, batch, batches } => {
            format!("{}: evaluating, {batch} of {batches}", pass.name())
        }
        Stage::Noise { run, runs, step, steps } => {
            format!("golden's own spread: run {run} of {runs}, step {step} of {steps}")
        }
        Stage::Measuring { .. } => "timing both passes".to_owned(),
        Stage::Comparing => "comparing".to_owned(),
    });
}

/// `warpforge golden`.
pub fn golden(args: &GoldenArgs, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    let Name::BertSquad = args.workload;
    let mut config = settings(args.preset, &args.set)?;
    config.model = args.model.clone().or(config.model);
    config.data = args.data.clone().or(config.data);
    config.epochs = args.epochs.unwrap_or(config.epochs);
    config.batch_size = args.batch_size.unwrap_or(config.batch_size);
    config.seed = args.seed.unwrap_or(config.seed);
    if args.epochs.is_some() {
        config.steps = None;
    }
    config.ranks = args.ranks.count();
    let rank = args.ranks.rank(args.device)?;
    let threads = args.threads.unwrap_or_else(processors);
    let machine = Machine { device: args.device, threads, libtorch: libtorch(context) };
    // Only the rank that leads writes to the folder, which all may have in common.
    let follower = rank.as_ref().filter(|rank| !rank.leads()).map(|rank| rank.rank);
    let own = follower.map(|_| tempfile::tempdir()).transpose()?;
    let folder = own.as_ref().map_or(args.out.as_path(), |own| own.path()).join("model");
    let mut workload = workload(config, &args.accept_license, machine, &folder, context)?;
    workload.plan.rank = rank;
    let request = request_of(&workload);
    if args.golden_key {
        return part::of_golden(&request, &args.out, Part::Key, context.events, ui);
    }
    let bar = progress(ui);
    let system = serde_json::to_value(snapshot()).ok();
    let made = both::make_golden(&request, &args.out, system.as_ref(), &mut |stage| {
        context.events.training(&stage);
        show_stage(&bar, &stage);
    });
    bar.finish_and_clear();
    match made {
        Err(warpforge_workloads::Error::Golden(error)) if error.is_missing() => {
            ui.note("Skipped: golden needs libtorch (cargo xtask setup golden)")?;
            return Ok(Exit::Skipped);
        }
        made => made.map_err(explain)?,
    }
    ui.note(&match follower {
        Some(rank) => format!("rank {rank} has done its part"),
        None => format!("golden's results are in {}", args.out.display()),
    })?;
    Ok(Exit::Pass)
}

/// `warpforge execute`.
pub fn execute(args: &ExecuteArgs, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    let Name::BertSquad = args.workload;
    check(args.device)?;
    let known = RunFile::read(&args.golden).map_err(explain)?;
    let mut config: Config = serde_json::from_value(known.configuration[bert_squad::NAME].clone())
        .map_err(|error| {
            let path = args.golden.display();
            misuse(
                format!("{path} is no golden of {}: {error}", bert_squad::NAME),
                "make one with `warpforge golden bert-squad --out DIR`",
            )
        })?;
    if let Some(remat) = &args.remat {
        config.remat.clone_from(remat);
    }
    let machine =
        Machine { device: Device::Cpu, threads: processors(), libtorch: libtorch(context) };
    let folder = args.out.join("model");
    let workload = workload(config, &args.accept_license, machine, &folder, context)?;
    let mut request = request_of(&workload);
    request.program.clone_from(&args.program);
    let bar = progress(ui);
    let system = serde_json::to_value(snapshot()).ok();
    let made =
        both::make_candidate(&request, &args.golden, &args.out, system.as_ref(), &mut |stage| {
            context.events.training(&stage);
            show_stage(&bar, &stage);
        });
    bar.finish_and_clear();
    made.map_err(explain)?;
    ui.note(&format!("the results are in {}", args.out.display()))?;
    Ok(Exit::Pass)
}
