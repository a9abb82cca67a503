//! Baselines: what a workload reached on a class of machines, kept in one JSON file. A measurement
//! becomes one only by an explicit promotion.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Performance, Ratio};
use crate::bundle::write_beside;
use crate::verdict::{Short, Verdict};

const VERSION: u32 = 1;

/// Everything that was promoted, by workload and class of hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baselines {
    /// The form of this file.
    pub version: u32,
    pub baselines: BTreeMap<String, BTreeMap<String, Baseline>>,
}

impl Default for Baselines {
    fn default() -> Self {
        Self { version: VERSION, baselines: BTreeMap::new() }
    }
}

/// One promoted measurement. Machines of a class differ in speed; the ratio to golden, measured in
/// the same run, does not, and is what is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    pub ratio: Ratio,
    /// The candidate's median.
    pub throughput: f64,
    pub unit: String,
    pub peak_memory_bytes: Option<u64>,
    /// When, in RFC 3339.
    pub promoted: String,
    /// The report it was taken from.
    pub source: String,
}

/// Why a file of baselines cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} cannot be written: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{} is no file of baselines: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
    #[error(
        "the report has no ratio of two passes that took turns, so that nothing can be promoted"
    )]
    NothingMeasured,
    #[error(
        "the report\u{2019}s speed is {0}; only a measurement that is not Fail or Invalid can be promoted"
    )]
    NotGood(Verdict),
}

/// A measurement against its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    pub verdict: Verdict,
    pub reason: Option<String>,
    /// Absent if there is none.
    pub baseline: Option<Baseline>,
    /// The ratio as a multiple of the baseline's.
    pub change: Option<f64>,
}

impl Baselines {
    /// Reads the file; one that does not exist holds nothing.
    pub fn load(path: &Path) -> Result<Self, BaselineError> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(BaselineError::Unreadable { path: path.into(), source }),
        };
        let malformed = |why: String| BaselineError::Malformed { path: path.into(), why };
        let found: Self =
            serde_json::from_slice(&text).map_err(|error| malformed(error.to_string()))?;
        if found.version != VERSION {
            let why = format!("it has version {}, this program knows {VERSION}", found.version);
            return Err(malformed(why));
        }
        Ok(found)
    }

    pub fn save(&self, path: &Path) -> Result<(), BaselineError> {
        let text = serde_json::to_string_pretty(self).map_err(io::Error::from);
        let written = text.and_then(|text| write_beside(path, (text + "\n").as_bytes()));
        written.map_err(|source| BaselineError::Unwritable { path: path.into(), source })
    }

    pub fn get(&self, workload: &str, hardware_class: &str) -> Option<&Baseline> {
        self.baselines.get(workload)?.get(hardware_class)
    }

    /// Makes a measurement the baseline of its workload and class; gives back the one before.
    pub fn promote(
        &mut self,
        measured: &Performance,
        promoted: String,
        source: String,
    ) -> Result<Option<Baseline>, BaselineError> {
        let ratio = measured.ratio.filter(|_| measured.interleaved);
        let ratio = ratio.ok_or(BaselineError::NothingMeasured)?;
        if let Some(verdict @ (Verdict::Fail | Verdict::Invalid)) = measured.verdict {
            return Err(BaselineError::NotGood(verdict));
        }
        let baseline = Baseline {
            ratio,
            throughput: measured.candidate.median,
            unit: measured.unit.clone(),
            peak_memory_bytes: measured.candidate.peak_memory_bytes,
            promoted,
            source,
        };
        let classes = self.baselines.entry(measured.workload.clone()).or_default();
        Ok(classes.insert(measured.hardware_class.clone(), baseline))
    }

    /// A ratio against the baseline: no baseline is Inconclusive, never a pass.
    pub fn compare(
        &self,
        workload: &str,
        hardware_class: &str,
        ratio: Ratio,
        delta: f64,
    ) -> Compared {
        let Some(baseline) = self.get(workload, hardware_class) else {
            let reason = format!(
                "there is no baseline of {workload} on {hardware_class} (`warpforge baseline \
                 promote` makes one)"
            );
            let verdict = Verdict::Inconclusive;
            return Compared { verdict, reason: Some(reason), baseline: None, change: None };
        };
        let change = ratio.value / baseline.ratio.value;
        let least = baseline.ratio.value * (1.0 - delta);
        let (low, high) = ratio.interval.unwrap_or((0.0, f64::INFINITY));
        let (verdict, reason) = if low >= least {
            (Verdict::Pass, None)
        } else if high < least {
            let slower = Short(100.0 * (1.0 - change));
            (Verdict::Fail, Some(format!("{slower} % slower than the baseline")))
        } else {
            let why = "too few or too uneven blocks to compare with the baseline".to_owned();
            (Verdict::Inconclusive, Some(why))
        };
        Compared { verdict, reason, baseline: Some(baseline.clone()), change: Some(change) }
    }
}
