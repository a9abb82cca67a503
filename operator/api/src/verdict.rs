//! Verdicts and the exit codes they have.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run found. In order of gravity: of several, the last counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Verdict {
    Pass,
    Skipped,
    Inconclusive,
    Fail,
    Invalid,
}

impl Verdict {
    pub const ALL: [Self; 5] =
        [Self::Pass, Self::Skipped, Self::Inconclusive, Self::Fail, Self::Invalid];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "Pass",
            Self::Skipped => "Skipped",
            Self::Inconclusive => "Inconclusive",
            Self::Fail => "Fail",
            Self::Invalid => "Invalid",
        }
    }

    /// The exit code of a process that ends with this verdict.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Inconclusive => 3,
            Self::Skipped => 4,
            Self::Invalid => 5,
        }
    }

    /// The verdict that an exit code stands for, if it is one of a verdict.
    pub fn of_exit_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.exit_code() == code)
    }

    /// Whether the comparison itself was decided: no failure rule overrules such a verdict.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Pass | Self::Fail | Self::Invalid)
    }
}

/// Exit codes of the runner beside those of verdicts.
pub mod exit {
    /// Wrong usage or configuration.
    pub const USAGE: i32 = 2;
    /// A fault of WarpForge itself.
    pub const INTERNAL: i32 = 70;
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_name_their_verdict() {
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::of_exit_code(verdict.exit_code()), Some(verdict));
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
        for code in [exit::USAGE, exit::INTERNAL, 137, -1] {
            assert_eq!(Verdict::of_exit_code(code), None);
        }
    }
}
