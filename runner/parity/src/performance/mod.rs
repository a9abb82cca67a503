//! Speed: throughput of both passes in interleaved blocks of one run, their ratio with an interval,
//! and a verdict of its own. Correctness does not depend on any of this.

mod baseline;
#[cfg(test)]
mod tests;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bundle::{GOLDEN, TIMINGS, WARPFORGE};
use crate::verdict::{Short, Verdict};
pub use baseline::{Baseline, BaselineError, Baselines, Compared};

/// The form of [`Blocks`].
pub const VERSION: u32 = 1;

/// Which pass a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pass {
    Golden,
    Warpforge,
}

/// Some steps of one pass, timed together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    pub pass: Pass,
    pub steps: u64,
    pub seconds: f64,
}

/// What `timings.json` of a training run holds: blocks in the order in which they ran. Interleaved
/// measurements of both passes stand together, in the candidate's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    pub version: u32,
    pub blocks: Vec<Block>,
    /// What a step processes.
    pub items_per_step: f64,
    /// Such as `samples/s`.
    pub unit: String,
    #[serde(default)]
    pub peak_memory_bytes: PeakMemory,
    /// What the workload holds speed to.
    #[serde(default)]
    pub rules: Rules,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PeakMemory {
    pub golden: Option<u64>,
    pub warpforge: Option<u64>,
}

/// What speed is held to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Whether there is a verdict; without one, speed is reported only.
    pub judged: bool,
    /// Why it is not judged, such as "the reference interpreter is not meant to be fast".
    pub why_not: Option<String>,
    /// By what share the candidate may be slower than golden.
    pub allowed_delta: Option<f64>,
    /// By what share the ratio may fall below the baseline's.
    pub baseline_delta: f64,
    pub workload: String,
    /// Machines of one class have the same baseline.
    pub hardware_class: String,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            judged: false,
            why_not: None,
            allowed_delta: None,
            baseline_delta: 0.15,
            workload: String::new(),
            hardware_class: String::new(),
        }
    }
}

/// One pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// The median of the blocks.
    pub median: f64,
    /// Each block, in the order in which they ran.
    pub samples: Vec<f64>,
    pub steps: u64,
    pub peak_memory_bytes: Option<u64>,
}

/// The candidate's throughput as a multiple of golden's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    pub value: f64,
    /// The interval that holds it with a confidence of 95 %; absent with fewer than two pairs of
    /// blocks.
    pub interval: Option<(f64, f64)>,
    pub pairs: u64,
}

/// Speed and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Performance {
    /// Absent if speed is reported and not judged.
    pub verdict: Option<Verdict>,
    pub summary: String,
    pub reasons: Vec<String>,
    pub workload: String,
    pub hardware_class: String,
    pub unit: String,
    /// Whether the passes took turns in one run; otherwise the ratio says little.
    pub interleaved: bool,
    pub golden: Throughput,
    pub candidate: Throughput,
    pub ratio: Option<Ratio>,
    pub allowed_delta: Option<f64>,
    pub baseline: Option<Compared>,
}

/// What both sides' folders say of speed; none if neither timed blocks.
pub fn read(golden: &Path, candidate: &Path) -> Option<Blocks> {
    let side = |folder: &Path, inner: &str| {
        let inside = folder.join(inner).join(TIMINGS);
        let path = if inside.is_file() { inside } else { folder.join(TIMINGS) };
        // Runs without blocks write their times in another form.
        let blocks: Blocks = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        (blocks.version == VERSION).then_some(blocks)
    };
    merge(side(golden, GOLDEN), side(candidate, WARPFORGE))
}

/// The blocks of both passes from both sides' files: the candidate's alone if it has both.
pub fn merge(golden: Option<Blocks>, candidate: Option<Blocks>) -> Option<Blocks> {
    let has = |blocks: &Blocks, pass| blocks.blocks.iter().any(|block| block.pass == pass);
    match (golden, candidate) {
        (golden, Some(candidate)) if has(&candidate, Pass::Golden) => Some(Blocks {
            peak_memory_bytes: PeakMemory {
                golden: candidate
                    .peak_memory_bytes
                    .golden
                    .or(golden.and_then(|golden| golden.peak_memory_bytes.golden)),
                ..candidate.peak_memory_bytes
            },
            ..candidate
        }),
        (Some(golden), Some(mut candidate)) => {
            let ours = golden.blocks.into_iter().filter(|block| block.pass == Pass::Golden);
            candidate.blocks = ours.chain(candidate.blocks).collect();
            candidate.peak_memory_bytes.golden =
                candidate.peak_memory_bytes.golden.or(golden.peak_memory_bytes.golden);
            Some(candidate)
        }
        (one, other) => one.or(other),
    }
}

/// Judges what was measured by the workload's rules.
pub fn judge(blocks: &Blocks, baselines: &Baselines) -> Performance {
    let rules = &blocks.rules;
    let golden = throughput(blocks, Pass::Golden);
    let candidate = throughput(blocks, Pass::Warpforge);
    let ratio = ratio(&golden.samples, &candidate.samples);
    let interleaved = interleaved(&blocks.blocks);
    let baseline = ratio.map(|ratio| {
        baselines.compare(&rules.workload, &rules.hardware_class, ratio, rules.baseline_delta)
    });
    let mut reasons = Vec::new();
    let mut verdicts = Vec::new();
    let mut say = |verdict, reason: Option<String>| {
        verdicts.push(verdict);
        reasons.extend(reason);
    };
    match ratio {
        None => {
            let why = "no block of one of the passes was timed".to_owned();
            say(Verdict::Invalid, Some(why));
        }
        Some(_) if !interleaved => {
            let why = "the passes were not timed in turns, so that their ratio says little";
            say(Verdict::Inconclusive, Some(why.to_owned()));
        }
        Some(ratio) => {
            if let Some(delta) = rules.allowed_delta {
                let (verdict, reason) = against_golden(ratio, delta);
                say(verdict, reason);
            }
            if let Some(compared) = &baseline {
                say(compared.verdict, compared.reason.clone());
            }
        }
    }
    let verdict = rules.judged.then(|| Verdict::gravest(verdicts));
    let mut performance = Performance {
        verdict,
        summary: String::new(),
        reasons: if rules.judged { reasons } else { Vec::new() },
        workload: rules.workload.clone(),
        hardware_class: rules.hardware_class.clone(),
        unit: blocks.unit.clone(),
        interleaved,
        golden,
        candidate,
        ratio,
        allowed_delta: rules.allowed_delta,
        baseline,
    };
    performance.summary = performance.sentence(rules.why_not.as_deref());
    performance
}

fn against_golden(ratio: Ratio, delta: f64) -> (Verdict, Option<String>) {
    let least = 1.0 - delta;
    let (low, high) = ratio.interval.unwrap_or((0.0, f64::INFINITY));
    let percent = Short(100.0 * delta);
    if low >= least {
        (Verdict::Pass, None)
    } else if high < least {
        let slower = Short(100.0 * (1.0 - ratio.value));
        (Verdict::Fail, Some(format!("{slower} % slower than golden; {percent} % are allowed")))
    } else {
        let why = format!("too few or too uneven blocks to tell whether it is within {percent} %");
        (Verdict::Inconclusive, Some(why))
    }
}

fn throughput(blocks: &Blocks, pass: Pass) -> Throughput {
    let of = || blocks.blocks.iter().filter(|block| block.pass == pass && block.seconds > 0.0);
    let rate = |block: &Block| block.steps as f64 * blocks.items_per_step / block.seconds;
    let samples: Vec<f64> = of().map(rate).filter(|rate| rate.is_finite()).collect();
    let memory = blocks.peak_memory_bytes;
    Throughput {
        median: median(&samples),
        samples,
        steps: of().map(|block| block.steps).sum(),
        peak_memory_bytes: match pass {
            Pass::Golden => memory.golden,
            Pass::Warpforge => memory.warpforge,
        },
    }
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length.is_multiple_of(2) => f64::midpoint(sorted[half - 1], sorted[half]),
        _ => sorted[half],
    }
}

/// Each pass follows the other at least once, and neither ran as a whole before the other.
fn interleaved(blocks: &[Block]) -> bool {
    blocks.windows(2).filter(|pair| pair[0].pass != pair[1].pass).count() >= 2
}

/// The median of the pairs' ratios, with the interval of their mean logarithm by Student's t:
/// blocks that ran one after the other share whatever slowed the machine down.
fn ratio(golden: &[f64], candidate: &[f64]) -> Option<Ratio> {
    let logs: Vec<f64> = candidate.iter().zip(golden).map(|(c, g)| (c / g).ln()).collect();
    if logs.is_empty() || logs.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let interval = (logs.len() > 1).then(|| {
        let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half = t95(logs.len() - 1) * (variance / n).sqrt();
        ((mean - half).exp(), (mean + half).exp())
    });
    Some(Ratio { value: mean.exp(), interval, pairs: logs.len() as u64 })
}

/// Student's t for 95 % on both sides.
fn t95(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    // Beyond the table the error of this is below half a per cent.
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or(1.96 + 2.5 / freedom as f64)
}

impl Performance {
    fn sentence(&self, why_not: Option<&str>) -> String {
        let Some(ratio) = self.ratio else { return "speed was not measured".to_owned() };
        let compared = match ratio.interval {
            Some((low, high)) => {
                format!("{}\u{d7} golden ({} to {})", Short(ratio.value), Short(low), Short(high))
            }
            None => format!("{}\u{d7} golden", Short(ratio.value)),
        };
        let speeds = format!(
            "golden {} {unit}, candidate {} {unit}: {compared}",
            Short(self.golden.median),
            Short(self.candidate.median),
            unit = self.unit
        );
        match (self.verdict, self.reasons.first()) {
            (None, _) => {
                let why = why_not.map(|why| format!(": {why}")).unwrap_or_default();
                format!("{speeds}; reported, not judged{why}")
            }
            (Some(_), Some(reason)) => format!("{speeds}; {reason}"),
            (Some(_), None) => speeds,
        }
    }
}
