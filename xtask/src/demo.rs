//! `cargo xtask demo`: from a fresh checkout to the main job, with nothing else typed.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::group::Group;
use crate::setup::{self, What};
use crate::workspace;

const COMMANDS: [&str; 2] = ["doctor", "run bert-squad --preset demo --out target/demo"];

/// Runs every command, and passes on the first exit code that is not zero.
pub fn run() -> Result<ExitCode> {
    let root = workspace::root()?;
    setup::ensure(&[What::Golden])?;
    let warpforge = workspace::build_warpforge(&root)?;
    let mut code = 0;
    for arguments in COMMANDS {
        println!("\n$ warpforge {arguments}");
        let mut command = Command::new(&warpforge);
        command.args(arguments.split(' ')).current_dir(&root);
        let group = Group::spawn(&mut command)
            .with_context(|| format!("could not start {}", warpforge.display()))?;
        // A death by signal has no code; it counts as a failure.
        let ended = group.wait()?.code().unwrap_or(1);
        code = if code == 0 { ended } else { code };
    }
    Ok(ExitCode::from(code as u8))
}
