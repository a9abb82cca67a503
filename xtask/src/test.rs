//! `cargo xtask test`: every check there is, in parts with ceilings of their own.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Result;

use crate::part::{Part, run_all};
use crate::workspace;

/// Replays a sampled campaign when it is set already.
const SEED: &str = "WARPFORGE_TEST_SEED";
const FULL: &str = "WARPFORGE_TEST_FULL";

#[derive(clap::Args)]
pub struct Args {
    /// Run the long campaigns whole instead of a sample of them
    #[arg(long)]
    full: bool,
}

enum Program {
    Cargo,
    Xtask,
}

struct Row {
    name: &'static str,
    /// Minutes with nothing cached on two cores; the second for `--full`.
    minutes: (u64, u64),
    program: Program,
    arguments: &'static str,
}

/// The whole run, in order. A plain run is meant to end within an hour; the ceilings leave room
/// for a busy machine, and together stay below the hour and a half it may never take. The licence
/// and tidy checks are among the tests.
const ROWS: &[Row] = &[
    Row { name: "setup", minutes: (12, 12), program: Program::Xtask, arguments: "setup" },
    Row { name: "fmt", minutes: (1, 1), program: Program::Cargo, arguments: "fmt --all --check" },
    Row {
        name: "clippy",
        minutes: (10, 10),
        program: Program::Cargo,
        arguments: "clippy --workspace --all-targets --release --locked -- -D warnings",
    },
    Row { name: "build", minutes: (38, 38), program: Program::Cargo, arguments: workspace::BUILD },
    Row {
        name: "generated",
        minutes: (1, 1),
        program: Program::Xtask,
        arguments: "generate --check",
    },
    Row {
        name: "doc",
        minutes: (4, 4),
        program: Program::Cargo,
        arguments: "doc --workspace --no-deps --release --locked",
    },
    Row {
        name: "tests",
        minutes: (22, 240),
        program: Program::Cargo,
        arguments: "test --workspace --release --locked --no-fail-fast",
    },
];

pub fn run(args: &Args) -> Result<ExitCode> {
    let root = workspace::root()?;
    let seed = std::env::var(SEED).unwrap_or_else(|_| commit_seed(&root).to_string());
    println!("campaigns use {SEED}={seed}; set it to repeat this run");
    // The build may put a new file in our place, so the path is asked for now.
    let xtask = std::env::current_exe()?;
    let parts = ROWS.iter().map(|row| {
        let mut command = match row.program {
            Program::Cargo => workspace::cargo(),
            Program::Xtask => Command::new(&xtask),
        };
        command.args(row.arguments.split(' ')).current_dir(&root).env(SEED, &seed);
        command.env("RUSTDOCFLAGS", "-D warnings");
        if args.full {
            command.env(FULL, "1");
        }
        let minutes = if args.full { row.minutes.1 } else { row.minutes.0 };
        Part { name: row.name, ceiling: Duration::from_mins(minutes), command }
    });
    let passed = run_all(parts.collect())?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The head commit's first sixteen digits, so that every commit samples anew and
/// a failure can be repeated; zero where there is no commit.
fn commit_seed(root: &Path) -> u64 {
    let head = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root).output();
    let head = head.ok().filter(|output| output.status.success());
    let digits = head.and_then(|output| String::from_utf8(output.stdout).ok());
    digits.and_then(|text| u64::from_str_radix(text.get(..16)?, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceilings_keep_the_budget() {
        assert!(ROWS.iter().map(|row| row.minutes.0).sum::<u64>() <= 88);
    }
}
