//! Programs that are run to their end, whose word is heard if they fail.

use std::process::Command;

use crate::error::{Error, Tried};

/// Runs it; gives what it wrote to its output.
pub fn run(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().display().to_string();
    let output = command.output().tried(|| format!("could not start {program}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let arguments: Vec<_> = command.get_args().map(|one| one.display().to_string()).collect();
    Err(Error::Command {
        program: format!("{program} {}", arguments.join(" ")),
        status: output.status.to_string(),
        said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
