//! `warpforge hlo check`: parse and verify.

use std::path::PathBuf;

use warpforge_snakeburger::ir::Graph;

use super::{load, read};
use crate::exit::Exit;
use crate::ui::{RED, Ui};

const EXAMPLES: &str = "\
Examples:
  warpforge hlo check model.mlir
  warpforge hlo check programs/*.mlir --quiet";

/// Parse and verify programs; report every problem with its place and constraint
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// StableHLO text files
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let mut exit = Exit::Pass;
    for file in &args.files {
        match load(file, &read(file)?) {
            Ok(module) => {
                let ops: usize =
                    module.funcs().iter().flat_map(|f| &f.body).map(Graph::node_count).sum();
                ui.note(&format!("{}: ok, {ops} operations", file.display()))?;
            }
            Err(problems) => {
                exit = Exit::Fail;
                for problem in &problems {
                    writeln!(ui.out(), "{problem}")?;
                }
                let count = problems.len();
                let noun = if count == 1 { "problem" } else { "problems" };
                writeln!(ui.out(), "{}: {RED}{count} {noun}{RED:#}", file.display())?;
            }
        }
    }
    Ok(exit)
}
