//! `warpforge benchmark`: how fast this machine is, part by part, and whether it became slower.

mod compare;
mod describe;
mod list;
mod run;
mod show;

use std::path::Path;

use anyhow::Context as _;
use clap::Subcommand;
use warpforge_bench::model::{BenchmarkSuiteRun, Component, VERSION};
use warpforge_bench::registry::{SUITES, Unknown};

pub use compare::Shown as Compared;
pub use list::Listed;
pub(super) use run::{bad_param, param, seconds};
pub(super) use show::seen;

use super::Context;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::settings::nearest::nearest;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  What can be measured here, and what is missing:
    warpforge benchmark list

  Processor and memory, five seconds each, kept in a file:
    warpforge benchmark run --component cpu,ram --duration 5 --export

  One benchmark with another parameter:
    warpforge benchmark run --suite micro --benchmark disk_io --param folder=/mnt/scratch

  Did an upgrade make this machine slower?
    warpforge benchmark compare before.json after.json --fail-on-regression";

/// Measure this machine part by part; compare two measurements
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(list::Args),
    Describe(describe::Args),
    Run(Box<run::Args>),
    Compare(compare::Args),
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    match &args.verb {
        Verb::List(args) => list::run(args, ui),
        Verb::Describe(args) => describe::run(args, ui),
        Verb::Run(args) => run::run(args, context, ui),
        Verb::Compare(args) => compare::run(args, ui),
    }
}

/// A component by its name, for clap.
fn component(text: &str) -> Result<Component, String> {
    text.parse().map_err(|()| {
        let names = Component::ALL.map(Component::name);
        match nearest(text, names.into_iter()) {
            Some(near) => format!("there is no component {text}; did you mean {near}?"),
            None => format!("there is no component {text}; there are {}", names.join(", ")),
        }
    })
}

/// What was mistyped, and what was perhaps meant.
fn unknown(unknown: &Unknown) -> Misuse {
    let (name, exist) = match unknown {
        Unknown::Suite { name, exist } | Unknown::Benchmark { name, exist, .. } => (name, exist),
        Unknown::Planned { .. } => {
            let names: Vec<_> = SUITES.iter().map(|suite| suite.name()).collect();
            return Misuse::new(unknown.to_string(), format!("available: {}", names.join(", ")));
        }
        Unknown::NoSuite => {
            return Misuse::new(unknown.to_string(), "`warpforge benchmark list` shows them all");
        }
        Unknown::Nothing { suite, .. } => {
            let help = format!("`warpforge benchmark list --suite {suite}` shows what it has");
            return Misuse::new(unknown.to_string(), help);
        }
    };
    Misuse::new(unknown.to_string(), suggestion(name, exist))
}

/// The nearest of the names there are, or all of them.
fn suggestion(name: &str, exist: &[String]) -> String {
    match nearest(name, exist.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None if exist.is_empty() => "there are none".to_owned(),
        None => format!("there are {}", exist.join(", ")),
    }
}

/// Shows what a file of `benchmark run --export` has.
pub(super) fn show_file(path: &Path, ui: &mut Ui) -> anyhow::Result<()> {
    for result in &read(path)?.benchmarks {
        show::result(result, ui)?;
    }
    Ok(())
}

/// A file of `benchmark run --export`.
fn read(path: &Path) -> anyhow::Result<BenchmarkSuiteRun> {
    let help = "files of `warpforge benchmark run --export` are meant";
    let unreadable = || Misuse::new(format!("cannot read {}", path.display()), help);
    let bytes = std::fs::read(path).with_context(unreadable)?;
    let run: BenchmarkSuiteRun = serde_json::from_slice(&bytes).with_context(unreadable)?;
    if run.version != VERSION {
        let message = format!(
            "{} has the form {}, and this program reads {VERSION}",
            path.display(),
            run.version
        );
        return Err(Misuse::new(message, "measure again, or use the program that made it").into());
    }
    Ok(run)
}
