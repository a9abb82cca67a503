//! What can be typed: the arguments of every command, as clap sees them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    agent, baseline, benchmark, bundle, compile, completions, config, conformance, data, doctor,
    get, hlo, logs, man, model, netserver, report, run, schema, stress, submit, system, validate,
    watch, workload,
};
use crate::settings::{Color, Flag};

const EXAMPLES: &str = "\
Examples:
  What works on this machine, what is missing, and how to get it:
    warpforge doctor

  The machine itself, for people and for programs:
    warpforge system
    warpforge system --json | jq .cpu

  A StableHLO program: is it valid, and what does it compute?
    warpforge hlo check model.mlir
    warpforge hlo run model.mlir --inputs x.safetensors --outputs y.safetensors

  Do two runs hold the same numbers?
    warpforge validate --golden golden.safetensors --candidate ours.safetensors

  How fast is this machine, and did it become slower?
    warpforge benchmark run --component cpu,ram --export
    warpforge benchmark compare before.json after.json

  Datasets and weights: what there is, and how to get it
    warpforge data list
    warpforge data fetch squad-v1.1

  A run on a Kubernetes cluster, and what became of it
    warpforge submit --workload bert-squad --wait
    warpforge get

  Which settings are in force, and which file, variable or flag set them:
    warpforge config show

  Completions for the shell you use:
    warpforge completions bash > ~/.local/share/bash-completion/completions/warpforge";

const ABOUT: &str = "Proves that a compiled training or inference run computes what PyTorch \
                     computes, and says how fast it does so";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "warpforge",
    version,
    about = ABOUT,
    long_about = None,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = EXAMPLES,
    after_long_help = format!(
        "{EXAMPLES}\n\n\
         Settings come from warpforge.toml (the nearest one from the current folder upwards, else\n\
         the user's own), then from the environment, then from flags; the later one wins.\n\n{}",
        crate::exit::TABLE,
    ),
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,

    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Read settings from FILE and not from the warpforge.toml that would be found
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,

    /// Leave out progress and remarks
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// When to colour the output [default: auto, which means on a terminal]
    #[arg(long, value_name = "WHEN", value_enum, global = true)]
    pub color: Option<Color>,

    /// Append a line of JSON to FILE for every stage, for the program that started this one
    #[arg(long, value_name = "FILE", global = true, hide = true)]
    pub events: Option<PathBuf>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    Doctor(doctor::Args),
    System(system::Args),
    Run(Box<run::Args>),
    Golden(workload::GoldenArgs),
    Execute(workload::ExecuteArgs),
    Model(model::Args),
    Compile(compile::Args),
    Hlo(hlo::Args),
    Conformance(conformance::Args),
    Validate(validate::Args),
    Data(data::Args),
    Baseline(baseline::Args),
    Benchmark(benchmark::Args),
    Stress(stress::Args),
    Netserver(netserver::Args),
    Bundle(bundle::Args),
    Submit(submit::Args),
    Get(get::Args),
    Logs(logs::Args),
    Watch(watch::Args),
    Report(report::Args),
    Agent(agent::Args),
    Config(config::Args),
    Completions(completions::Args),
    Man(man::Args),
    Schema(schema::Args),
}

impl Global {
    /// The settings that were given as flags.
    pub fn flags(&self) -> Vec<Flag> {
        let given = |key, name, text: &str| Flag { key, name, text: text.to_owned() };
        let color = self.color.map(|color| given("color", "--color", color.name()));
        let quiet = self.quiet.then(|| given("quiet", "--quiet", "true"));
        color.into_iter().chain(quiet).collect()
    }
}

/// Parses the command line; help and version come back as an error with exit code 0.
pub fn parse(args: Vec<OsString>) -> Result<Cli, clap::Error> {
    let matches = command().color(color_hint(&args)).try_get_matches_from(args)?;
    Cli::from_arg_matches(&matches)
}

/// The whole command, for whoever describes it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// The wish for colours in help and usage errors, which are printed before parsing has ended.
fn color_hint(args: &[OsString]) -> ColorChoice {
    let joined: Vec<_> = args.iter().filter_map(|arg| arg.to_str()).collect::<Vec<_>>();
    let wish = joined.iter().enumerate().find_map(|(index, arg)| match *arg {
        "--color" => joined.get(index + 1).copied(),
        other => other.strip_prefix("--color="),
    });
    match wish {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        super::command().debug_assert();
    }
}
