//! What a report of a training has beside the rest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Report, Verdicts};
use crate::judge::Parity;
use crate::performance::Performance;
use crate::training::TrainingParity;

/// A training in both passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrainingReport {
    /// Such as `bert-squad`; absent for a model of the user's own.
    pub workload: Option<String>,
    /// Such as `demo`.
    pub preset: Option<String>,
    pub parity: TrainingParity,
    /// Absent if speed was not measured.
    pub performance: Option<Performance>,
}

/// A dataset or a model's weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// Such as `squad-v1.1`.
    pub id: String,
    /// Such as `CC BY-SA 4.0`.
    pub licence: String,
    /// The line that the licence asks for.
    pub attribution: String,
    /// Whether its terms were accepted with `--accept-license`.
    #[serde(default)]
    pub accepted: bool,
}

impl Report {
    /// A report of a training; the rest is for the caller to fill in.
    pub fn of_training(title: impl Into<String>, parity: TrainingParity) -> Self {
        let mut report = Self::new(title, Parity::of(Vec::new(), Vec::new(), parity.tolerances));
        report.verdicts = Verdicts { correctness: parity.verdict, performance: None };
        report.summary.clone_from(&parity.summary);
        report.reasons.clone_from(&parity.reasons);
        report.elements = parity.elements;
        report.training = Some(Box::new(TrainingReport {
            workload: None,
            preset: None,
            parity,
            performance: None,
        }));
        report
    }

    /// Adds what was measured of speed, and its verdict.
    pub fn with_performance(mut self, performance: Performance) -> Self {
        self.verdicts.performance = performance.verdict;
        if let Some(training) = &mut self.training {
            training.performance = Some(performance);
        }
        self
    }
}
