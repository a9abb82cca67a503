//! How far a run is, as the leader's `/progress` says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Time;
use crate::contract::GoldenUse;
use crate::data::Stage;
use crate::status::ProgressSeen;

/// The answer of `/progress`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    pub version: u32,
    pub pass: Stage,
    /// From 0.
    pub step: u32,
    pub steps: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u32>,
    /// What becomes of the golden, once that is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub golden: Option<GoldenUse>,
}

impl Progress {
    /// As it stands in a run's status.
    pub fn seen(&self, at: Time) -> ProgressSeen {
        ProgressSeen {
            summary: format!("{} {}/{}", self.pass.name(), self.step, self.steps),
            pass: self.pass,
            step: i64::from(self.step),
            steps: i64::from(self.steps),
            loss: self.loss.map(|loss| format!("{loss:.6e}")),
            eta_seconds: self.eta_seconds.map(i64::from),
            updated_at: at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_fits_the_status() {
        let progress = Progress {
            version: 1,
            pass: Stage::Warpforge,
            step: u32::MAX,
            steps: u32::MAX,
            loss: Some(f64::MIN),
            eta_seconds: Some(u32::MAX),
            golden: None,
        };
        let seen = progress.seen(Time::default());
        assert!(seen.summary.len() <= 64 && seen.loss.unwrap().len() <= 32);
    }
}
