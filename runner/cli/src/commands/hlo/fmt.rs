//! `warpforge hlo fmt`: the program in the one form it is printed in.

use std::path::PathBuf;

use anyhow::Context as _;
use warpforge_snakeburger::diag::Source;
use warpforge_snakeburger::text::{self, Options, PrintOptions};

use super::read;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  warpforge hlo fmt model.mlir
  warpforge hlo fmt model.mlir --write
  warpforge hlo fmt model.mlir --generic --locations";

/// Print a program in its canonical form
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A StableHLO text file
    file: PathBuf,

    /// Write the result back to the file
    #[arg(short, long)]
    write: bool,

    /// Use MLIR's generic form for every operation
    #[arg(long)]
    generic: bool,

    /// Keep locations
    #[arg(long)]
    locations: bool,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let text = read(&args.file)?;
    let name = args.file.display().to_string();
    let options = PrintOptions { generic: args.generic, locations: args.locations };
    let mut parts = Vec::new();
    for (first_line, part) in text::split(&text) {
        let source = Source { name: &name, text: part, first_line };
        let module = text::parse(part, Options::default()).map_err(|diagnostic| {
            Misuse::new(source.render(&diagnostic), "only a program that parses can be formatted")
        })?;
        parts.push(text::print(&module, options));
    }
    let printed = parts.join("\n// -----\n\n");
    if args.write {
        let beside = args.file.with_extension("partial");
        std::fs::write(&beside, printed)
            .and_then(|()| std::fs::rename(&beside, &args.file))
            .with_context(|| format!("cannot write {name}"))?;
    } else {
        ui.out().write_all(printed.as_bytes())?;
    }
    Ok(Exit::Pass)
}
