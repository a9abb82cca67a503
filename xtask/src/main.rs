//! `cargo xtask`: the commands of this repository that are more than one cargo
//! command. A verb is one file here; what a verb needs from outside is fetched
//! into the user's cache folder, and everything it starts ends with it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its user")]

mod artifact;
mod browser;
mod cache;
mod cluster;
mod debian;
mod demo;
mod fetch;
mod fixtures;
mod generate;
mod group;
mod install;
mod manifest;
mod part;
mod progress;
mod python;
mod setup;
mod stubs;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[derive(Parser)]
#[command(
    about = "Build, test and try out WarpForge",
    name = "xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Set up what is needed, build in release, and run the main job
    Demo,
    /// Set up what the tests need and run every check: the same as CI
    Test(test::Args),
    /// Fetch the large things the build needs into the cache folder
    Setup(setup::Args),
    /// Write the committed generated files anew
    Generate(generate::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    group::end_all_on_signal()?;
    match cli.verb {
        None => {
            Cli::command().print_help()?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Verb::Demo) => demo::run(),
        Some(Verb::Test(args)) => test::run(&args),
        Some(Verb::Setup(args)) => setup::run(&args),
        Some(Verb::Generate(args)) => generate::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
