//! `warpforge completions`: completions for a shell.

use clap_complete::Shell;

use crate::args;
use crate::exit::Exit;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  warpforge completions bash > ~/.local/share/bash-completion/completions/warpforge
  warpforge completions zsh  > ~/.zfunc/_warpforge
  warpforge completions fish > ~/.config/fish/completions/warpforge.fish";

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell to write them for
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    // Written to memory first: the generator panics where a write fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "warpforge", &mut script);
    ui.out().write_all(&script)?;
    Ok(Exit::Pass)
}
