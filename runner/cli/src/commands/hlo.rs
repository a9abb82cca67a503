//! `warpforge hlo`: StableHLO programs as text: check, format, run, count.

mod check;
mod fmt;
mod run;
mod stats;

use std::path::Path;

use anyhow::Context as _;
use warpforge_snakeburger::diag::Source;
use warpforge_snakeburger::ir::Module;
use warpforge_snakeburger::text::{self, Options};
use warpforge_snakeburger::verify;

use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  warpforge hlo check model.mlir other.mlir
  warpforge hlo fmt model.mlir
  warpforge hlo run model.mlir --inputs x.safetensors --outputs y.safetensors
  warpforge hlo stats model.mlir --json";

/// Check, format, run or count StableHLO programs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Check(check::Args),
    Fmt(fmt::Args),
    Run(run::Args),
    Stats(stats::Args),
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    match &args.verb {
        Verb::Check(args) => check::run(args, ui),
        Verb::Fmt(args) => fmt::run(args, ui),
        Verb::Run(args) => run::run(args, ui),
        Verb::Stats(args) => stats::run(args, ui),
    }
}

pub use stats::Stats;

/// Reads a program's text; one that is not UTF-8 may be bytecode, which has its own message.
pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).map_err(|error| {
        Misuse::new(
            format!("cannot read {}: {error}", path.display()),
            "name a StableHLO file (.mlir)",
        )
    })?;
    if bytes.starts_with(b"ML\xefR") {
        let message = format!("{} is MLIR bytecode, which is not supported", path.display());
        return Err(Misuse::new(message, text::BYTECODE_CURE).into());
    }
    String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8 text", path.display()))
}

/// A program that parsed and passed the verifier, or every problem it has.
pub(super) fn load(path: &Path, text: &str) -> Result<Module, Vec<String>> {
    let name = path.display().to_string();
    let source = Source::new(&name, text);
    let module = text::parse(text, Options::default())
        .map_err(|diagnostic| vec![source.render(&diagnostic)])?;
    let problems = verify::problems(&module);
    if problems.is_empty() {
        return Ok(module);
    }
    Err(problems.iter().map(|problem| source.render(problem)).collect())
}

/// As [`load`], for commands that need one good program.
pub(super) fn load_one(path: &Path) -> anyhow::Result<(String, Module)> {
    let text = read(path)?;
    match load(path, &text) {
        Ok(module) => Ok((text, module)),
        Err(problems) => {
            let help = "`warpforge hlo check` lists every problem of a program";
            Err(Misuse::new(problems.join("\n"), help).into())
        }
    }
}
