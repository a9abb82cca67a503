//! `warpforge run`: a model in both passes, compared, with a verdict.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget};
use warpforge_bench::system::snapshot;
use warpforge_golden_protocol::{Device, Search};
use warpforge_parity::judge::Settings;
use warpforge_parity::report::Report;
use warpforge_workloads::forward::{self, Request, Stage, Weights};

use super::Context;
use super::model::Given;
use super::validate::{show, tolerances};
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::{BOLD, Ui};

const EXAMPLES: &str = "\
Examples:
  warpforge run --model bert.pt2 --inputs x.safetensors
  warpforge run --model bert.pt2 --seed 7 --out bundle/
  warpforge run --model bert.pt2 --program edited.mlir

Inputs are named as the graph names them, or input.0, input.1, … by position; without --inputs
they are drawn from the seed. The bundle holds golden/, warpforge/, report.json, report.html and
junit.xml.";

/// Run a model in PyTorch and in WarpForge, and compare every number
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A model saved by torch.export.save
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// The model's inputs, a safetensors file
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,

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

    /// Give up after this many seconds of either golden run
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Change a tolerance, such as rtol=1e-4 or activations.atol=1e-6
    #[arg(long = "tolerance", value_name = "KEY=VALUE")]
    tolerances: Vec<String>,

    /// Golden is expected to hold NaN or infinity
    #[arg(long)]
    expect_nonfinite: bool,

    #[command(flatten)]
    given: Given,
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    let tolerances = tolerances(&args.tolerances)?;
    let settings = Settings { tolerances, expect_nonfinite: args.expect_nonfinite };
    let request = Request {
        model: args.model.clone(),
        inputs: args.inputs.clone(),
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
    };
    let bar = progress(ui);
    let system = serde_json::to_value(snapshot()).ok();
    let report = forward::run(&request, system, &mut |stage| show_stage(&bar, &stage));
    bar.finish_and_clear();
    let report = report.map_err(explain)?;
    show(&report, args, ui)?;
    Ok(report.verdicts.correctness.into())
}

/// Where libtorch is looked for: a setting decides alone, as in `warpforge doctor`.
fn libtorch(context: &Context<'_>) -> Search {
    let settings = context.settings();
    let mut search = Search::from_environment();
    search.named = settings.libtorch.value.clone().or(search.named);
    search.cache = Some(settings.cache_dir.value.clone());
    search
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

fn weights(given: &Given) -> Weights {
    match (&given.weights_from, given.recipe.as_deref()) {
        (Some(path), _) => Weights::Safetensors(path.clone()),
        (None, Some("standard")) => Weights::StandardRecipe,
        (None, Some(path)) => Weights::Recipe(path.into()),
        (None, None) => Weights::Archive,
    }
}

/// What the user can cure is told apart from what went wrong with us.
fn explain(error: warpforge_workloads::Error) -> anyhow::Error {
    use warpforge_workloads::Error as E;
    let help = match &error {
        E::Model(_) => "docs/exporting.md shows how a model is exported",
        E::Lower(warpforge_snakegrinder::Error::Wrong(_)) | E::Golden(_) => return error.into(),
        E::Lower(_) => "docs/aten-coverage.md lists the operators that can be lowered",
        E::Inputs(_) => "`warpforge model inspect` lists the inputs and their types",
        E::Program(_) => "`warpforge hlo check` lists every problem of a program",
        E::File { .. } | E::Tensors(_) => "give tensors as safetensors files that are whole",
        E::Io { .. } | E::Bundle(_) => "name files that can be read and a folder to write to",
    };
    Misuse::new(error.to_string(), help).into()
}

fn progress(ui: &Ui) -> ProgressBar {
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
