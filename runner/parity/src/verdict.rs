//! Verdicts, and the reasons that lead to them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{NonFiniteCounts, Number, Worst};

/// How a comparison ended. Ordered by gravity: of several, the greatest counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything that was to be compared was, and agrees.
    Pass,
    /// Something needed is missing; the reason names it.
    Skipped,
    /// Noise or infrastructure kept it from being decided.
    Inconclusive,
    /// The two runs do not compute the same.
    Fail,
    /// The comparison itself means nothing: nothing was compared, or inputs differ.
    Invalid,
}

impl Verdict {
    pub const ALL: [Self; 5] =
        [Self::Pass, Self::Skipped, Self::Inconclusive, Self::Fail, Self::Invalid];

    /// The gravest of several; `Invalid` if there are none, since nothing is never a pass.
    pub fn gravest(verdicts: impl IntoIterator<Item = Self>) -> Self {
        verdicts.into_iter().max().unwrap_or(Self::Invalid)
    }

    /// The exit code of a process that ends with this verdict.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Inconclusive => 3,
            Self::Skipped => 4,
            Self::Invalid => 5,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "Pass",
            Self::Skipped => "Skipped",
            Self::Inconclusive => "Inconclusive",
            Self::Fail => "Fail",
            Self::Invalid => "Invalid",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a verdict is not a pass. `tensor` names what it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// Elements lie outside the tolerance.
    ValueMismatch {
        tensor: String,
        mismatches: u64,
        count: u64,
        max_abs: f64,
        worst: Option<Worst>,
    },
    /// NaN or infinity, where it is not expected or not on both sides.
    NonFinite {
        tensor: String,
        counts: NonFiniteCounts,
        worst: Option<Worst>,
    },
    /// The candidate is further from the float64 oracle than golden's own error allows.
    OracleBound {
        tensor: String,
        candidate_rmse: f64,
        bound: f64,
    },
    /// In float64, where rounding is no excuse, the program and libtorch disagree.
    LoweringDiffers {
        tensor: String,
        relative: f64,
    },
    /// The two lie further apart than a share of golden's norm.
    RelativeDistance {
        tensor: String,
        relative: f64,
        bound: f64,
    },
    /// What is zero but for rounding in golden is larger than rounding in the candidate.
    NoiseTooLarge {
        tensor: String,
        rms: f64,
        bound: f64,
    },
    /// So much of a quantity is rounding noise that the rest says too little.
    TooManyLeftOut {
        quantity: String,
        left_out: u64,
        count: u64,
        most: f64,
    },
    /// The losses of a teacher-forced step.
    LossDiffers {
        step: u64,
        golden: Number,
        candidate: Number,
        allowed: f64,
    },
    /// A number both passes are told, or derive from what they are told, differs at a step.
    SettingDiffers {
        step: u64,
        setting: String,
        golden: Number,
        candidate: Number,
    },
    /// The free run's loss curve leaves golden's own spread.
    CurveLeavesSpread {
        /// The first step at which it does.
        step: u64,
        difference: Number,
        allowed: f64,
        /// How many steps do.
        steps: u64,
        /// Whether it is the moving average that does.
        smoothed: bool,
    },
    /// The loss curves do not cover the same steps.
    CurveStepsDiffer {
        golden: u64,
        candidate: u64,
    },
    /// A final metric differs by more than the workload and golden's own spread allow.
    MetricDiffers {
        metric: String,
        golden: Number,
        candidate: Number,
        allowed: f64,
    },
    /// Golden itself does not reach what the workload expects of it.
    ExpectationMissed {
        metric: String,
        golden: Number,
        wanted: String,
    },
    /// Golden has the file, the candidate does not.
    MissingFile {
        path: String,
    },
    /// A file of golden that the comparison needs.
    GoldenLacks {
        path: String,
    },
    /// Golden has the teacher-forced step, the candidate does not.
    MissingStep {
        step: u64,
    },
    /// The candidate has the teacher-forced step, golden does not.
    ExtraStep {
        step: u64,
    },
    /// Golden has the tensor, the candidate does not.
    MissingTensor {
        tensor: String,
    },
    /// The candidate has the tensor, golden does not.
    ExtraTensor {
        tensor: String,
    },
    ShapeDiffers {
        tensor: String,
        golden: Vec<usize>,
        candidate: Vec<usize>,
    },
    DtypeDiffers {
        tensor: String,
        golden: String,
        candidate: String,
    },
    /// The elements are of a type that cannot be compared.
    UnsupportedDtype {
        tensor: String,
        dtype: String,
    },
    /// The oracle's tensor has another shape, or is no float.
    OracleUnusable {
        tensor: String,
        why: String,
    },
    /// No element was compared.
    NothingCompared,
    /// A run was cut off before its bundle was complete.
    IncompleteBundle {
        path: String,
        why: String,
    },
    /// A file is damaged or of another format.
    Unreadable {
        path: String,
        why: String,
    },
    /// A golden that does not reproduce itself.
    UnstableReference {
        why: String,
    },
    /// The run's time was up before both passes were done.
    Deadline {
        limit_seconds: f64,
        /// What was under way.
        at: String,
    },
    /// Noise or infrastructure.
    Undecided {
        why: String,
    },
    /// Something needed is missing: what it is needed for, and how to get it.
    Absent {
        what: String,
        cure: String,
    },
}

impl Reason {
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::ValueMismatch { .. }
            | Self::NonFinite { .. }
            | Self::OracleBound { .. }
            | Self::LoweringDiffers { .. }
            | Self::RelativeDistance { .. }
            | Self::NoiseTooLarge { .. }
            | Self::LossDiffers { .. }
            | Self::SettingDiffers { .. }
            | Self::CurveLeavesSpread { .. }
            | Self::CurveStepsDiffer { .. }
            | Self::MetricDiffers { .. }
            | Self::MissingFile { .. }
            | Self::MissingStep { .. }
            | Self::ExtraStep { .. }
            | Self::MissingTensor { .. }
            | Self::ExtraTensor { .. }
            | Self::ShapeDiffers { .. }
            | Self::DtypeDiffers { .. } => Verdict::Fail,
            Self::GoldenLacks { .. }
            | Self::UnsupportedDtype { .. }
            | Self::OracleUnusable { .. }
            | Self::NothingCompared
            | Self::IncompleteBundle { .. }
            | Self::Unreadable { .. }
            | Self::UnstableReference { .. } => Verdict::Invalid,
            Self::TooManyLeftOut { .. }
            | Self::ExpectationMissed { .. }
            | Self::Deadline { .. }
            | Self::Undecided { .. } => Verdict::Inconclusive,
            Self::Absent { .. } => Verdict::Skipped,
        }
    }

    /// The variant's name: a label for metrics, a status, a test's failure type.
    pub fn label(&self) -> &'static str {
        match self {
            Self::ValueMismatch { .. } => "ValueMismatch",
            Self::NonFinite { .. } => "NonFinite",
            Self::OracleBound { .. } => "OracleBound",
            Self::LoweringDiffers { .. } => "LoweringDiffers",
            Self::RelativeDistance { .. } => "RelativeDistance",
            Self::NoiseTooLarge { .. } => "NoiseTooLarge",
            Self::TooManyLeftOut { .. } => "TooManyLeftOut",
            Self::LossDiffers { .. } => "LossDiffers",
            Self::SettingDiffers { .. } => "SettingDiffers",
            Self::CurveLeavesSpread { .. } => "CurveLeavesSpread",
            Self::CurveStepsDiffer { .. } => "CurveStepsDiffer",
            Self::MetricDiffers { .. } => "MetricDiffers",
            Self::ExpectationMissed { .. } => "ExpectationMissed",
            Self::MissingFile { .. } => "MissingFile",
            Self::GoldenLacks { .. } => "GoldenLacks",
            Self::MissingStep { .. } => "MissingStep",
            Self::ExtraStep { .. } => "ExtraStep",
            Self::MissingTensor { .. } => "MissingTensor",
            Self::ExtraTensor { .. } => "ExtraTensor",
            Self::ShapeDiffers { .. } => "ShapeDiffers",
            Self::DtypeDiffers { .. } => "DtypeDiffers",
            Self::UnsupportedDtype { .. } => "UnsupportedDtype",
            Self::OracleUnusable { .. } => "OracleUnusable",
            Self::NothingCompared => "NothingCompared",
            Self::IncompleteBundle { .. } => "IncompleteBundle",
            Self::Unreadable { .. } => "Unreadable",
            Self::UnstableReference { .. } => "UnstableReference",
            Self::Deadline { .. } => "Deadline",
            Self::Undecided { .. } => "Undecided",
            Self::Absent { .. } => "Absent",
        }
    }

    /// The tensor it is about.
    pub fn tensor(&self) -> Option<&str> {
        match self {
            Self::ValueMismatch { tensor, .. }
            | Self::NonFinite { tensor, .. }
            | Self::OracleBound { tensor, .. }
            | Self::LoweringDiffers { tensor, .. }
            | Self::RelativeDistance { tensor, .. }
            | Self::NoiseTooLarge { tensor, .. }
            | Self::MissingTensor { tensor }
            | Self::ExtraTensor { tensor }
            | Self::ShapeDiffers { tensor, .. }
            | Self::DtypeDiffers { tensor, .. }
            | Self::UnsupportedDtype { tensor, .. }
            | Self::OracleUnusable { tensor, .. } => Some(tensor),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ValueMismatch { tensor, mismatches, count, max_abs, worst } => {
                write!(f, "{tensor}: {mismatches} of {count} elements are outside the tolerance")?;
                write!(f, ", by up to {}", Short(*max_abs))?;
                Place(worst).fmt(f)
            }
            Self::NonFinite { tensor, counts, worst } => {
                let NonFiniteCounts { golden_nan, golden_infinite, .. } = counts;
                let NonFiniteCounts { candidate_nan, candidate_infinite, .. } = counts;
                write!(
                    f,
                    "{tensor}: golden has {golden_nan} NaN and {golden_infinite} infinite \
                     elements, the candidate {candidate_nan} and {candidate_infinite}"
                )?;
                Place(worst).fmt(f)
            }
            Self::OracleBound { tensor, candidate_rmse, bound } => {
                let (rmse, bound) = (Short(*candidate_rmse), Short(*bound));
                write!(f, "{tensor}: the RMSE to the oracle is {rmse}, more than {bound}")
            }
            Self::LoweringDiffers { tensor, relative } => write!(
                f,
                "{tensor}: in float64 it differs from libtorch's by {} of its norm, so the \
                 lowering is wrong and not the rounding",
                Short(*relative)
            ),
            Self::RelativeDistance { tensor, relative, bound } => {
                let (relative, bound) = (Short(*relative), Short(*bound));
                write!(f, "{tensor}: relative distance {relative}, more than {bound}")
            }
            Self::NoiseTooLarge { tensor, rms, bound } => {
                let (rms, bound) = (Short(*rms), Short(*bound));
                write!(
                    f,
                    "{tensor}: zero but for rounding in golden, and of size {rms} in the \
                     candidate, more than {bound}"
                )
            }
            Self::TooManyLeftOut { quantity, left_out, count, most } => write!(
                f,
                "{quantity}: {left_out} of {count} elements are rounding noise and were left out, \
                 more than {} %",
                Short(100.0 * most)
            ),
            Self::LossDiffers { step, golden, candidate, allowed } => write!(
                f,
                "loss at step {step}: golden {}, candidate {}, further apart than {}",
                Long(golden.0),
                Long(candidate.0),
                Short(*allowed)
            ),
            Self::SettingDiffers { step, setting, golden, candidate } => {
                let (golden, candidate) = (Long(golden.0), Long(candidate.0));
                write!(f, "{setting} at step {step}: golden {golden}, candidate {candidate}")
            }
            Self::CurveLeavesSpread { step, difference, allowed, steps, smoothed } => write!(
                f,
                "loss curve: {} golden\u{2019}s own spread at step {step} (difference {}, allowed \
                 {}; {steps} steps in all)",
                if *smoothed { "its moving average leaves" } else { "it leaves" },
                Short(difference.0),
                Short(*allowed)
            ),
            Self::CurveStepsDiffer { golden, candidate } => {
                write!(f, "loss curve: golden has {golden} steps, the candidate {candidate}")
            }
            Self::MetricDiffers { metric, golden, candidate, allowed } => write!(
                f,
                "metric {metric}: golden {}, candidate {}, further apart than {}",
                Long(golden.0),
                Long(candidate.0),
                Short(*allowed)
            ),
            Self::ExpectationMissed { metric, golden, wanted } => write!(
                f,
                "golden misses its own expectation: {metric} is {} and not {wanted}",
                Long(golden.0)
            ),
            Self::MissingFile { path } => write!(f, "the candidate has no {path}"),
            Self::GoldenLacks { path } => write!(f, "golden has no {path}"),
            Self::MissingStep { step } => {
                write!(f, "the candidate has no teacher-forced step {step}")
            }
            Self::ExtraStep { step } => write!(f, "golden has no teacher-forced step {step}"),
            Self::MissingTensor { tensor } => write!(f, "{tensor}: the candidate does not have it"),
            Self::ExtraTensor { tensor } => write!(f, "{tensor}: golden does not have it"),
            Self::ShapeDiffers { tensor, golden, candidate } => {
                write!(f, "{tensor}: golden has the shape {golden:?}, the candidate {candidate:?}")
            }
            Self::DtypeDiffers { tensor, golden, candidate } => {
                write!(f, "{tensor}: golden has the type {golden}, the candidate {candidate}")
            }
            Self::UnsupportedDtype { tensor, dtype } => {
                write!(f, "{tensor}: elements of type {dtype} cannot be compared")
            }
            Self::OracleUnusable { tensor, why } => write!(f, "{tensor}: {why}"),
            Self::NothingCompared => f.write_str("nothing was compared"),
            Self::IncompleteBundle { path, why } => write!(f, "{path} is incomplete: {why}"),
            Self::UnstableReference { why } => write!(f, "the reference is unstable: {why}"),
            Self::Deadline { limit_seconds, at } => write!(
                f,
                "the time allowed ({} s) was up during {at}; what was done is kept, and the same \
                 command goes on from there",
                Short(*limit_seconds)
            ),
            Self::Unreadable { why, .. } | Self::Undecided { why } => f.write_str(why),
            Self::Absent { what, cure } => write!(f, "{what} ({cure})"),
        }
    }
}

/// "; worst at [1, 2]: …".
struct Place<'a>(&'a Option<Worst>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Worst { coordinates, golden, candidate, .. }) = self.0 else { return Ok(()) };
        let (Number(golden), Number(candidate)) = (golden, candidate);
        write!(
            f,
            "; worst at {coordinates:?}: golden {}, candidate {}",
            Long(*golden),
            Long(*candidate)
        )
    }
}

/// A number with three digits.
pub struct Short(pub f64);

/// A number with seven digits: enough to tell two float32 values apart in most cases.
pub struct Long(pub f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        digits(f, self.0, 3)
    }
}

impl fmt::Display for Long {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        digits(f, self.0, 7)
    }
}

fn digits(f: &mut fmt::Formatter<'_>, value: f64, digits: i32) -> fmt::Result {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        write!(f, "{value}")
    } else if (1e-3..1e5).contains(&size) {
        let places = (digits - 1 - size.log10().floor() as i32).max(0) as usize;
        write!(f, "{value:.places$}")
    } else {
        write!(f, "{value:.*e}", (digits - 1) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_counts_and_nothing_is_invalid() {
        use Verdict::{Fail, Inconclusive, Invalid, Pass, Skipped};
        assert_eq!(Verdict::gravest([Pass, Skipped, Pass]), Skipped);
        assert_eq!(Verdict::gravest([Skipped, Inconclusive]), Inconclusive);
        assert_eq!(Verdict::gravest([Fail, Inconclusive]), Fail);
        assert_eq!(Verdict::gravest([Fail, Invalid]), Invalid);
        assert_eq!(Verdict::gravest([Pass]), Pass);
        assert_eq!(Verdict::gravest([]), Invalid);
    }

    #[test]
    fn exit_codes_are_those_of_the_design() {
        assert_eq!(Verdict::ALL.map(Verdict::exit_code), [0, 4, 3, 1, 5]);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 1.0, 0.012_345, 123.456, 99_999.0, 1e-7, -2.5e9, f64::INFINITY];
        let shown = shown.map(|x| Short(x).to_string());
        assert_eq!(shown, ["0", "1.00", "0.0123", "123", "99999", "1.00e-7", "-2.50e9", "inf"]);
    }

    #[test]
    fn reasons_survive_json() {
        let reason =
            Reason::ShapeDiffers { tensor: "a".into(), golden: vec![2], candidate: vec![3] };
        let json = serde_json::to_value(&reason).unwrap();
        assert_eq!(json["kind"], "shape_differs");
        assert_eq!(serde_json::from_value::<Reason>(json).unwrap(), reason);
        assert_eq!(reason.to_string(), "a: golden has the shape [2], the candidate [3]");
    }
}
