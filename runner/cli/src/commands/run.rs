//! `warpforge run`: a model in both passes, compared, with a verdict.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget};
use warpforge_agent::event::Blame;
use warpforge_bench::system::snapshot;
use warpforge_golden_protocol::{self as protocol, Device, FailureKind, Search};
use warpforge_parity::judge::Settings;
use warpforge_parity::report::Report;
use warpforge_parity::training::TrainingSettings;
use warpforge_workloads::forward::{self, Request, Stage, Weights};

use super::Context;
use super::benchmark::seconds;
use super::model::Given;
use super::training::Training;
use super::validate::training::baselines;
use super::validate::{show, tolerances};
use super::workload::{self, Common, GoldenPart, Name, Part, WorkloadOptions};
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::{BOLD, Ui};

const EXAMPLES: &str = "\
Examples:
  warpforge run --model bert.pt2 --inputs x.safetensors
  warpforge run --model bert.pt2 --seed 7 --out bundle/
  warpforge run --model bert.pt2 --program edited.mlir
  warpforge run --model bert.pt2 --train --steps 20 --lr 3e-5 --inputs a.safetensors
  warpforge run bert-squad --preset demo
  warpforge run bert-squad --preset base --model bert-base/ --data squad/

Inputs are named as the graph names them, or input.0, input.1, … by position; without --inputs
they are drawn from the seed. The bundle holds golden/, warpforge/, run.json (how the run was set
up), parity.json, report.json, report.html, junit.xml and timeline.json (what the machine did).";

/// Run a model in PyTorch and in WarpForge, and compare every number
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Args {
    /// A workload that comes with WarpForge, in the place of a model
    #[arg(value_enum, value_name = "WORKLOAD", conflicts_with_all = ["train", "inputs"])]
    workload: Option<Name>,

    /// A model saved by torch.export.save; of a workload, the folder that holds train.pt2,
    /// eval.pt2, vocab.txt and weights.safetensors
    #[arg(long, value_name = "FILE|DIR", required_unless_present = "workload")]
    model: Option<PathBuf>,

    /// The model's inputs, a safetensors file; for a training several, used in turn
    #[arg(long, value_name = "FILE")]
    inputs: Vec<PathBuf>,

    /// The folder for the bundle
    #[arg(long, value_name = "DIR", default_value = "warpforge-run")]
    out: PathBuf,

    /// Run this StableHLO program in Pass 2's place
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// The seed of drawn inputs, recipes and dropout
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Where the golden pass runs
    #[arg(long, value_name = "cpu|cuda:N", default_value = "cpu")]
    golden_device: Device,

    /// Threads of one golden operator [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    threads: Option<u32>,

    /// Timed repetitions of each pass
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: u32,

    /// Leave out the float64 run that rounding errors are measured against
    #[arg(long)]
    no_oracle: bool,

    /// Give up after this many seconds of either golden run; a training as a whole, which keeps
    /// what is done and goes on when it is started again
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// What a training's Pass 2 computes again on the way back instead of keeping it: keep,
    /// modules (every numbered layer), MODULE,... (by path), or as few layers as it takes to
    /// keep a batch within BYTES (such as 2GiB) [default: keep]
    #[arg(long, value_name = "WHAT")]
    remat: Option<String>,

    /// The file of baselines that a training's speed is held against
    #[arg(long, value_name = "FILE", default_value = super::baseline::FILE)]
    baselines: PathBuf,

    /// Let the verdict on a training's speed count for the exit code, too
    #[arg(long)]
    fail_on_performance: bool,

    /// The least throughput of a training as a multiple of golden's, such as 0.85
    #[arg(long, value_name = "RATIO")]
    minimum_ratio: Option<f64>,

    /// How often to look at what the machine does meanwhile, for timeline.json and the report
    #[arg(long, value_name = "SECONDS", default_value = "1.0", value_parser = seconds)]
    monitor_interval: Duration,

    /// Do not look at what the machine does
    #[arg(long, conflicts_with = "monitor_interval")]
    no_monitor: bool,

    /// Change a tolerance, such as rtol=1e-4 or activations.atol=1e-6
    #[arg(long = "tolerance", value_name = "KEY=VALUE")]
    tolerances: Vec<String>,

    /// Golden is expected to hold NaN or infinity
    #[arg(long, alias = "expect-nan")]
    expect_nonfinite: bool,

    #[command(flatten)]
    given: Given,

    #[command(flatten)]
    training: Training,

    #[command(flatten)]
    options: WorkloadOptions,

    #[command(flatten)]
    golden: GoldenPart,
}

impl Args {
    fn monitor(&self) -> Option<Duration> {
        (!self.no_monitor).then_some(self.monitor_interval)
    }
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    let tolerances = tolerances(&args.tolerances)?;
    if args.workload.is_some() || args.training.train {
        let common = Common {
            out: &args.out,
            program: args.program.as_deref(),
            seed: args.seed,
            device: args.golden_device,
            threads: args.threads.unwrap_or_else(processors),
            libtorch: libtorch(context),
            settings: TrainingSettings {
                tolerances,
                expect_nonfinite: args.expect_nonfinite,
                ..TrainingSettings::default()
            },
            oracle: !args.no_oracle,
            limit: args.timeout,
            remat: args.remat.as_deref(),
            baselines: baselines(&args.baselines)?,
            fail_on_performance: args.fail_on_performance,
            minimum_ratio: args.minimum_ratio,
            golden: args.golden.part(),
            monitor: args.monitor(),
            events: context.events,
        };
        return match (args.workload, &args.model) {
            (Some(Name::BertSquad), model) => {
                workload::run(model.as_deref(), &args.options, common, context, ui)
            }
            (None, Some(model)) => {
                workload::train(model, &args.inputs, &args.given, &args.training, &common, ui)
            }
            (None, None) => Ok(Exit::Usage),
        };
    }
    let Some(model) = &args.model else { return Ok(Exit::Usage) };
    if args.minimum_ratio.is_some() || args.golden.part() != Part::All {
        let problem = "a forward run's speed is not judged, and its golden has no key".to_owned();
        return Err(Misuse::new(problem, "train the model with --train").into());
    }
    let inputs = match &args.inputs[..] {
        [] => None,
        [one] => Some(one.clone()),
        _ => {
            let problem = "a forward run takes one file of inputs".to_owned();
            return Err(Misuse::new(problem, "give several with --train").into());
        }
    };
    let settings = Settings { tolerances, expect_nonfinite: args.expect_nonfinite };
    let request = Request {
        model: model.clone(),
        inputs,
        dims: args.given.dims.clone(),
        weights: weights(&args.given),
        program: args.program.clone(),
        out: args.out.clone(),
        seed: args.seed,
        threads: args.threads.unwrap_or_else(processors),
        device: args.golden_device,
        oracle: !args.no_oracle,
        repeats: args.repeats,
        settings,
        limit: args.timeout.map(Duration::from_secs),
        libtorch: libtorch(context),
        monitor: args.monitor(),
    };
    let bar = progress(ui);
    let system = serde_json::to_value(snapshot()).ok();
    let report = forward::run(&request, system, &mut |stage| {
        context.events.forward(&stage);
        show_stage(&bar, &stage);
    });
    bar.finish_and_clear();
    let report = report.map_err(explain)?;
    show(&report, args, ui)?;
    Ok(report.verdicts.correctness.into())
}

/// Where libtorch is looked for: a setting decides alone, as in `warpforge doctor`.
pub(super) fn libtorch(context: &Context<'_>) -> Search {
    let settings = context.settings();
    let mut search = Search::from_environment();
    search.named = settings.libtorch.value.clone().or(search.named);
    search.cache = Some(settings.cache_dir.value.clone());
    search
}

pub(super) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

pub(super) fn weights(given: &Given) -> Weights {
    match (&given.weights_from, given.recipe.as_deref()) {
        (Some(path), _) => Weights::Safetensors(path.clone()),
        (None, Some("standard")) => Weights::StandardRecipe,
        (None, Some(path)) => Weights::Recipe(path.into()),
        (None, None) => Weights::Archive,
    }
}

/// What the user can cure is told apart from what went wrong with us.
pub(super) fn explain(error: warpforge_workloads::Error) -> anyhow::Error {
    use warpforge_workloads::Error as E;
    let help = match &error {
        E::Deadline { .. } => {
            let help = "what was done is kept: the same command goes on from there";
            let late = Misuse::new(error.to_string(), help).blaming(Blame::Deadline);
            return late.ending(Exit::Inconclusive).into();
        }
        E::Model(_) => "docs/exporting.md shows how a model is exported",
        E::Lower(warpforge_snakegrinder::Error::Wrong(_))
        | E::Step(warpforge_compiler::StepError::Wrong(_)) => return error.into(),
        E::Golden(protocol::Error::Failed(failure)) if failure.kind == FailureKind::Peer => {
            let help = "see what the other ranks say; started again, all go on from the last \
                        checkpoint";
            let lost = Misuse::new(error.to_string(), help).blaming(Blame::Peer);
            return lost.ending(Exit::Inconclusive).into();
        }
        E::Golden(golden) => match golden_help(golden) {
            Some(help) => help,
            None => return error.into(),
        },
        E::Lower(_) => "docs/aten-coverage.md lists the operators that can be lowered",
        E::Inputs(_) => "`warpforge model inspect` lists the inputs and their types",
        E::Step(_) => "docs/validation.md says what can be trained",
        E::Squad(_) => "docs/workloads.md says what the data look like",
        E::Program(_) => "`warpforge hlo check` lists every problem of a program",
        E::File { .. } | E::Tensors(_) => "give tensors as safetensors files that are whole",
        E::Io { source, .. } if source.kind() == ErrorKind::StorageFull => {
            let help = "make room, or name a folder on another disk";
            return Misuse::new(error.to_string(), help).blaming(Blame::Disk).into();
        }
        E::Io { .. } | E::Bundle(_) => "name files that can be read and a folder to write to",
    };
    Misuse::new(error.to_string(), help).into()
}

/// What the user can do about a failure of the golden pass, if it is theirs to cure.
fn golden_help(error: &warpforge_golden_protocol::Error) -> Option<&'static str> {
    use warpforge_golden_protocol::{Error as E, FailureKind as K};
    let E::Failed(failure) = error else { return None };
    Some(match failure.kind {
        K::Unsupported => {
            "libtorch has the operators of PyTorch itself; export the model with its own operators \
             written in those, or decomposed (docs/exporting.md)"
        }
        K::Model => "docs/exporting.md shows how a model is exported",
        K::Inputs => "`warpforge model inspect` lists the inputs and their types",
        K::Device => {
            "`warpforge doctor` says which devices can be used; name one with --golden-device"
        }
        K::Op => "the model itself fails in PyTorch on these inputs: give others with --inputs",
        K::Ranks => {
            "start every rank with the same command and its own --rank, at an address of rank 0 \
             that is free"
        }
        K::Peer | K::Protocol | K::Io | K::Internal => return None,
    })
}

pub(super) fn progress(ui: &Ui) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if !ui.shows_progress() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn show_stage(bar: &ProgressBar, stage: &Stage) {
    bar.set_message(match stage {
        Stage::Loading => "reading the model".to_owned(),
        Stage::Golden { oracle: false, node, nodes } => format!("golden: {node} of {nodes} calls"),
        Stage::Golden { oracle: true, node, nodes } => {
            format!("golden in float64: {node} of {nodes} calls")
        }
        Stage::Program => "running the program".to_owned(),
        Stage::Comparing => "comparing".to_owned(),
    });
}

fn show(report: &Report, args: &Args, ui: &mut Ui) -> anyhow::Result<()> {
    show::show(report, Some(&args.out), ui)?;
    if let Some(first) = &report.first_divergence {
        let place = if first.module_path.is_empty() { &first.name } else { &first.module_path };
        writeln!(
            ui.out(),
            "first diverged in {BOLD}{place}{BOLD:#}: {} ({})",
            first.name,
            first.op
        )?;
        if let Some(repro) = &first.repro {
            writeln!(ui.out(), "  in {}: {repro}", args.out.display())?;
        }
    }
    let time = |side: &Option<warpforge_parity::report::Timing>| {
        side.as_ref().map_or("not timed".to_owned(), |t| format!("{:.3} s", t.median_ns / 1e9))
    };
    ui.note(&format!(
        "golden {}, reference interpreter {}",
        time(&report.timings.golden),
        time(&report.timings.candidate),
    ))?;
    Ok(())
}
