//! `warpforge man`: manual pages from the same definition as `--help`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Command;
use clap_mangen::Man;

use crate::args;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  Read the manual without installing it:
    warpforge man | man -l -

  Install a page for every command:
    warpforge man --out ~/.local/share/man/man1";

/// Print the manual page, or write one for every command
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Write a page for every command into DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    // Hidden options are for the program's own use and have no place in a manual.
    let mut command = args::command().disable_help_subcommand(true);
    command.build();
    match &args.out {
        None => ui.out().write_all(&page(&command)?)?,
        Some(folder) => {
            let count = write_pages(&command, folder)
                .with_context(|| unwritable(folder, "the manual pages"))?;
            ui.note(&format!("{count} pages written to {}", folder.display()))?;
        }
    }
    Ok(Exit::Pass)
}

/// What to say about a folder named by `--out`.
pub fn unwritable(folder: &Path, what: &str) -> Misuse {
    Misuse::new(
        format!("cannot write {what} to {}", folder.display()),
        "name a folder that can be written with --out",
    )
}

fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    Ok(text)
}

fn write_pages(command: &Command, folder: &Path) -> std::io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command.clone(), folder)?;
    Ok(count(command))
}

/// A page for the command and for every one below it.
fn count(command: &Command) -> usize {
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    1 + shown.map(count).sum::<usize>()
}
