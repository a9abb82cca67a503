//! The exit codes every command shares, and the last line of defence against a panic.

use std::io::Write as _;
use std::panic::{self, PanicHookInfo};
use std::process::ExitCode;

use warpforge_parity::verdict::Verdict;

/// How a command ended, as the shell sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Pass = 0,
    Fail = 1,
    /// Wrong usage or wrong configuration.
    Usage = 2,
    Inconclusive = 3,
    Skipped = 4,
    Invalid = 5,
    /// A defect of the program itself, or an operating system that refused something basic.
    Internal = 70,
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Exit::Pass,
            Verdict::Fail => Exit::Fail,
            Verdict::Inconclusive => Exit::Inconclusive,
            Verdict::Skipped => Exit::Skipped,
            Verdict::Invalid => Exit::Invalid,
        }
    }
}

impl Exit {
    /// The one that has a code; a code that none has is a defect of ours.
    pub fn of_code(code: i32) -> Self {
        let all =
            [Self::Pass, Self::Fail, Self::Usage, Self::Inconclusive, Self::Skipped, Self::Invalid];
        all.into_iter().find(|exit| *exit as i32 == code).unwrap_or(Self::Internal)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The meaning of the codes for `--help` and the manual page.
pub const TABLE: &str = "\
Exit codes:
   0  pass                    3  inconclusive
   1  fail                    4  skipped
   2  wrong usage or          5  invalid
      configuration          70  internal error";

/// Runs the program; a panic becomes a short message and [`Exit::Internal`].
pub fn guarded(program: impl FnOnce() -> Exit + panic::UnwindSafe) -> Exit {
    panic::set_hook(Box::new(report_panic));
    panic::catch_unwind(program).unwrap_or(Exit::Internal)
}

fn report_panic(info: &PanicHookInfo<'_>) {
    let what = info.payload_as_str().unwrap_or("no message");
    let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
    // Nothing is left to do when even this cannot be written.
    let _ = writeln!(
        std::io::stderr(),
        "error: internal error: {what}{}\n  help: this is a bug in WarpForge; please report it \
         with the command you typed and the output of `warpforge system --json`",
        place.unwrap_or_default(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_internal_error() {
        assert_eq!(guarded(|| panic!("deliberate, from a test")), Exit::Internal);
        assert_eq!(guarded(|| Exit::Fail), Exit::Fail);
    }

    #[test]
    fn codes_are_those_of_the_design() {
        let codes = [Exit::Pass, Exit::Fail, Exit::Usage, Exit::Internal].map(|exit| exit as u8);
        assert_eq!(codes, [0, 1, 2, 70]);
    }
}
