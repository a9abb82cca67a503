//! How an error looks to the person who has to do something about it.

use std::fmt;
use std::io::{ErrorKind, Write};

use anstyle::{AnsiColor, Style};
use warpforge_agent::event::Blame;

use crate::exit::Exit;
use crate::settings::Problems;

const RED: Style = AnsiColor::Red.on_default().bold();
const CYAN: Style = AnsiColor::Cyan.on_default();

/// An error the user can cure: bad usage, a folder that cannot be written, …
///
/// Put it in a chain with `anyhow`'s `context`; it decides the exit code and the help line.
#[derive(Debug)]
pub struct Misuse {
    pub message: String,
    pub help: String,
    /// What it is about, where the exit code does not say it.
    pub blame: Option<Blame>,
    exit: Exit,
}

impl Misuse {
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into(), blame: None, exit: Exit::Usage }
    }

    /// With another exit code than wrong usage has: a network that is away, a file that is wrong.
    pub fn ending(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    pub fn blaming(self, blame: Blame) -> Self {
        Self { blame: Some(blame), ..self }
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Misuse {}

/// Writes the error with its causes and what to do next, and says how to exit.
pub fn report(error: &anyhow::Error, out: &mut dyn Write) -> Exit {
    if is_broken_pipe(error) {
        // The reader (`head`, a pager) had enough: nobody is left to tell, and nothing failed.
        return Exit::Pass;
    }
    let (exit, help) = judge(error);
    // If standard error is gone, the exit code still says it.
    let _ = write_report(error, help, out);
    exit
}

fn judge(error: &anyhow::Error) -> (Exit, Option<&str>) {
    if let Some(misuse) = error.downcast_ref::<Misuse>() {
        (misuse.exit, Some(&misuse.help))
    } else if error.downcast_ref::<Problems>().is_some() {
        (Exit::Usage, None)
    } else {
        (Exit::Internal, None)
    }
}

fn write_report(
    error: &anyhow::Error,
    help: Option<&str>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    if let Some(problems) = error.downcast_ref::<Problems>() {
        for problem in &problems.0 {
            writeln!(out, "{RED}error:{RED:#} {problem}")?;
        }
        return Ok(());
    }
    writeln!(out, "{RED}error:{RED:#} {error}")?;
    for cause in error.chain().skip(1) {
        writeln!(out, "  {CYAN}because:{CYAN:#} {cause}")?;
    }
    if let Some(help) = help {
        writeln!(out, "  {CYAN}help:{CYAN:#} {help}")?;
    }
    Ok(())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    fn reported(error: &anyhow::Error) -> (Exit, String) {
        let mut out = anstream::StripStream::new(Vec::new());
        let exit = report(error, &mut out);
        (exit, String::from_utf8(out.into_inner()).unwrap())
    }

    #[test]
    fn misuse_shows_causes_and_help() {
        let error = Err::<(), _>(std::io::Error::other("disk is full"))
            .context(Misuse::new("cannot write to out/", "choose another folder with --out"))
            .unwrap_err();
        let expected = "error: cannot write to out/\n  because: disk is full\n  \
                        help: choose another folder with --out\n";
        assert_eq!(reported(&error), (Exit::Usage, expected.to_owned()));
    }

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        let error = anyhow::Error::from(std::io::Error::from(ErrorKind::BrokenPipe));
        assert_eq!(reported(&error), (Exit::Pass, String::new()));
    }

    #[test]
    fn anything_else_is_internal() {
        let (exit, text) = reported(&anyhow::anyhow!("no such process"));
        assert_eq!((exit, text.as_str()), (Exit::Internal, "error: no such process\n"));
    }
}
