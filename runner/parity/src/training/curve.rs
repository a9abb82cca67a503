//! The free run: the candidate's loss curve within golden's own spread.
//!
//! Rounding makes two trainings drift apart exponentially until they are as different as two
//! trainings can be. How fast, is a matter of luck: a perturbation is harmless for a hundred steps
//! and then flips something. So a step's difference is held to the largest that the perturbed
//! goldens showed up to somewhat later (the candidate may have been less lucky), times a factor
//! for the few goldens there are. Moving averages are held to the same, since a small bias hides
//! in the noise of single batches and not in their mean.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bundle::{LossAt, LossCurve};
use crate::compare::{Number, Tolerance};
use crate::verdict::{Reason, Verdict};

/// Points beyond this are thinned out, so that a report stays readable.
const MOST_POINTS: usize = 2000;

/// How the free run is held to golden's spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurveBounds {
    /// Differences may be this many times the largest of the perturbed goldens, with three or
    /// more of them; with two or one it is 1.5 or 3 times as much.
    pub factor: f64,
    /// The spread at step s is the largest up to step `ahead` × s + `ahead_steps`.
    pub ahead: f64,
    pub ahead_steps: u64,
    /// The moving average spans this share of the run, and at least five steps.
    pub window: f64,
}

impl Default for CurveBounds {
    fn default() -> Self {
        Self { factor: 5.0, ahead: 1.5, ahead_steps: 10, window: 0.05 }
    }
}

/// Both loss curves and what was made of them. The lists have one entry for each point drawn:
/// every step, or in a long run the worst of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FreeRun {
    pub verdict: Verdict,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// Steps compared.
    pub compared: u64,
    /// Perturbed goldens.
    pub perturbed: u64,
    /// The last step at which golden's spread was measured and not extrapolated.
    pub measured_until: Option<u64>,
    /// By what the spread grows in a step where it is extrapolated.
    pub growth: f64,
    /// Steps that the moving average spans.
    pub window: u64,
    /// The largest difference as a multiple of what is allowed, by step and by moving average.
    pub used: Option<f64>,
    pub used_smoothed: Option<f64>,
    pub steps: Vec<u64>,
    pub golden: Vec<Number>,
    pub candidate: Vec<Number>,
    /// The largest difference among perturbed goldens.
    pub spread: Vec<f64>,
    /// What the candidate may differ by.
    pub allowed: Vec<f64>,
    /// Moving averages of candidate − golden, and what they may be.
    pub smoothed: Vec<Number>,
    pub smoothed_allowed: Vec<f64>,
}

/// Judges a curve against golden's.
pub(super) fn free_run(
    golden: &LossCurve,
    candidate: &LossCurve,
    perturbed: &[LossCurve],
    tolerance: Tolerance,
    bounds: &CurveBounds,
    expect_nonfinite: bool,
) -> FreeRun {
    let mut reasons = Vec::new();
    let common = common(&golden.steps, &candidate.steps);
    if common < golden.steps.len().max(candidate.steps.len()) {
        reasons.push(Reason::CurveStepsDiffer {
            golden: golden.steps.len() as u64,
            candidate: candidate.steps.len() as u64,
        });
    }
    let values = |steps: &[LossAt]| steps.iter().map(|at| at.loss.0).collect::<Vec<f64>>();
    let (ours, theirs) = (values(&golden.steps[..common]), values(&candidate.steps[..common]));
    let window = ((bounds.window * common as f64) as usize).max(5) | 1;
    let level = smooth(&ours, window);
    let noises: Vec<Vec<f64>> = perturbed
        .iter()
        .map(|curve| values(&curve.steps[..self::common(&golden.steps, &curve.steps)]))
        .map(|curve| curve.iter().zip(&ours).map(|(a, b)| a - b).collect::<Vec<f64>>())
        .filter(|curve| !curve.is_empty() && curve.iter().all(|x| x.is_finite()))
        .collect();
    let factor = bounds.factor * (3.0 / noises.len().max(1) as f64).max(1.0);
    let differences: Vec<f64> = theirs.iter().zip(&ours).map(|(a, b)| a - b).collect();
    let by_step = Envelope::of(&noises, &level, bounds);
    let averaged: Vec<Vec<f64>> = noises.iter().map(|noise| smooth(noise, window)).collect();
    let by_average = Envelope::of(&averaged, &level, bounds);
    let allow = |envelope: &Envelope, level: &[f64]| -> Vec<f64> {
        let spread = |s: usize| envelope.at(s).map_or(0.0, |spread| factor * spread);
        level.iter().enumerate().map(|(s, x)| tolerance.allows(*x).max(spread(s))).collect()
    };
    let (allowed, smoothed_allowed) = (allow(&by_step, &ours), allow(&by_average, &level));
    let same = |s: usize| {
        let (a, b) = (ours[s], theirs[s]);
        expect_nonfinite && !a.is_finite() && (a == b || (a.is_nan() && b.is_nan()))
    };
    let share = |difference: f64, allowed: f64| match difference.abs() {
        0.0 => 0.0,
        size if size.is_finite() => size / allowed,
        _ => f64::INFINITY,
    };
    let shares: Vec<f64> = (0..common)
        .map(|s| if same(s) { 0.0 } else { share(differences[s], allowed[s]) })
        .collect();
    let finite = ours.iter().chain(&theirs).all(|x| x.is_finite());
    let smoothed = if finite { smooth(&differences, window) } else { vec![0.0; common] };
    let smoothed_shares: Vec<f64> =
        smoothed.iter().zip(&smoothed_allowed).map(|(d, a)| share(*d, *a)).collect();

    let step = |s: usize| golden.steps.get(s).map_or(0, |at| at.step);
    let mut leaves = |shares: &[f64], differences: &[f64], allowed: &[f64], smoothed: bool| {
        let outside = |share: &&f64| **share > 1.0;
        let Some(s) = shares.iter().position(|share| outside(&share)) else { return };
        let steps = shares.iter().filter(outside).count() as u64;
        let (difference, allowed) = (Number(differences[s].abs()), allowed[s]);
        reasons.push(if noises.is_empty() && differences[s].is_finite() {
            Reason::Undecided {
                why: format!(
                    "the loss curves part at step {}, and without perturbed goldens nothing says \
                     whether golden\u{2019}s own would",
                    step(s)
                ),
            }
        } else {
            Reason::CurveLeavesSpread { step: step(s), difference, allowed, steps, smoothed }
        });
    };
    leaves(&shares, &differences, &allowed, false);
    if finite && !noises.is_empty() {
        leaves(&smoothed_shares, &smoothed, &smoothed_allowed, true);
    }
    if common == 0 {
        reasons.push(Reason::NothingCompared);
    }
    let verdicts = reasons.iter().map(Reason::verdict).chain([Verdict::Pass]);
    let largest = |shares: &[f64]| {
        Some(shares.iter().copied().fold(0.0, f64::max)).filter(|share| share.is_finite())
    };
    let kept = thinned(&shares);
    let pick = |list: &[f64]| kept.iter().map(|s| list[*s]).collect::<Vec<f64>>();
    let numbers = |list: &[f64]| kept.iter().map(|s| Number(list[*s])).collect::<Vec<Number>>();
    let spread: Vec<f64> = (0..common).map(|s| by_step.at(s).unwrap_or(0.0)).collect();
    FreeRun {
        verdict: Verdict::gravest(verdicts),
        compared: common as u64,
        perturbed: noises.len() as u64,
        measured_until: by_step.measured.checked_sub(1).map(step),
        growth: by_step.growth,
        window: window as u64,
        used: largest(&shares),
        used_smoothed: largest(&smoothed_shares),
        steps: kept.iter().map(|s| step(*s)).collect(),
        golden: numbers(&ours),
        candidate: numbers(&theirs),
        spread: pick(&spread),
        allowed: pick(&allowed),
        smoothed: numbers(&smoothed),
        smoothed_allowed: pick(&smoothed_allowed),
        reasons,
    }
}

/// How many steps two curves have in common from the start.
fn common(a: &[LossAt], b: &[LossAt]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a.step == b.step).count()
}

/// Centred moving averages.
fn smooth(values: &[f64], window: usize) -> Vec<f64> {
    let mut sums = vec![0.0];
    let mut sum = 0.0;
    for value in values {
        sum += if value.is_finite() { *value } else { 0.0 };
        sums.push(sum);
    }
    let half = window / 2;
    (0..values.len())
        .map(|at| {
            let (from, to) = (at.saturating_sub(half), values.len().min(at + half + 1));
            (sums[to] - sums[from]) / (to - from) as f64
        })
        .collect()
}

/// The spread of golden by step.
struct Envelope {
    /// The largest difference so far.
    running: Vec<f64>,
    /// The smoothed loss of every step of the run.
    level: Vec<f64>,
    measured: usize,
    growth: f64,
    ahead: f64,
    ahead_steps: usize,
    factor: f64,
}

impl Envelope {
    fn of(noises: &[Vec<f64>], level: &[f64], bounds: &CurveBounds) -> Self {
        let measured = noises.iter().map(Vec::len).min().unwrap_or(0);
        let mut largest = 0.0f64;
        let running: Vec<f64> = (0..measured)
            .map(|s| {
                largest = noises.iter().map(|noise| noise[s].abs()).fold(largest, f64::max);
                largest
            })
            .collect();
        let (ahead, ahead_steps) = (bounds.ahead, bounds.ahead_steps as usize);
        let (level, growth, factor) = (level.to_vec(), 0.0, bounds.factor);
        let mut envelope = Self { running, level, measured, growth, ahead, ahead_steps, factor };
        if measured < envelope.level.len() {
            envelope.growth = envelope.grows();
        }
        envelope
    }

    /// The exponent with which the spread grew over its second half.
    fn grows(&self) -> f64 {
        let (last, middle) = (self.measured.saturating_sub(1), self.measured / 2);
        match (self.running.get(middle), self.running.get(last)) {
            (Some(from), Some(to)) if *from > 0.0 && last > middle => {
                (to / from).ln() / (last - middle) as f64
            }
            _ => 0.0,
        }
    }

    /// The spread at a step; none without perturbed goldens.
    fn at(&self, step: usize) -> Option<f64> {
        let last = self.measured.checked_sub(1)?;
        let ahead = (self.ahead * step as f64) as usize + self.ahead_steps;
        if let Some(spread) = self.running.get(ahead) {
            return Some(*spread);
        }
        let known = self.running[last];
        if self.measured >= self.level.len() {
            return Some(known);
        }
        // Beyond the last measured step it stays the same share of the loss, and goes on growing
        // as it did, until what it allows is as large as the loss was at its largest.
        let end = ahead.min(self.level.len() - 1);
        let share = known / self.level[last].abs().max(f64::MIN_POSITIVE);
        let level = self.level.get(step).copied().unwrap_or(0.0).abs();
        let grown = (self.growth * end.saturating_sub(last) as f64).min(50.0).exp();
        let most = self.level.iter().map(|x| x.abs()).fold(0.0, f64::max);
        Some((known.max(share * level) * grown).min((most / self.factor).max(known)))
    }
}

/// Indices to keep: all, or the worst of each run of several.
fn thinned(shares: &[f64]) -> Vec<usize> {
    let stride = shares.len().div_ceil(MOST_POINTS).max(1);
    let worst = |from: usize| {
        let to = shares.len().min(from + stride);
        (from..to).max_by(|a, b| shares[*a].total_cmp(&shares[*b])).unwrap_or(from)
    };
    (0..shares.len()).step_by(stride).map(worst).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: impl IntoIterator<Item = f64>) -> LossCurve {
        let at = |(step, loss)| LossAt { step, loss: Number(loss) };
        LossCurve { version: 1, steps: (0..).zip(values).map(at).collect() }
    }

    fn judged(golden: &LossCurve, candidate: &LossCurve, perturbed: &[LossCurve]) -> FreeRun {
        let tolerance = Tolerance { rtol: 1e-4, atol: 1e-6 };
        free_run(golden, candidate, perturbed, tolerance, &CurveBounds::default(), false)
    }

    /// A loss that falls, with the noise of its batches.
    fn falling(n: usize) -> Vec<f64> {
        let batch = |s: usize| 0.3 * ((s * 7919 % 101) as f64 / 101.0 - 0.5);
        (0..n).map(|s| 0.5 + 3.0 * (-(s as f64) / 80.0).exp() + batch(s)).collect()
    }

    /// A drift that grows from rounding to a few per cent, with its own numbers for each seed.
    fn drift(n: usize, seed: u64) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
        };
        let start = 1e-7 * (1.0 + next().abs());
        (0..n).map(|s| (start * (s as f64 / 12.0).exp()).min(0.05) * next()).collect()
    }

    fn moved(by: &[f64]) -> LossCurve {
        curve(falling(by.len()).iter().zip(by).map(|(a, b)| a + b))
    }

    #[test]
    fn clean_runs_stay_within_the_spread() {
        let n = 300;
        for seed in 0..60 {
            let noises: Vec<LossCurve> =
                (0..3).map(|i| moved(&drift(n, 1000 + seed * 3 + i))).collect();
            for length in [n, 120] {
                let cut: Vec<LossCurve> = noises
                    .iter()
                    .map(|noise| LossCurve { version: 1, steps: noise.steps[..length].to_vec() })
                    .collect();
                let found = judged(&curve(falling(n)), &moved(&drift(n, seed + 1)), &cut);
                assert_eq!(found.verdict, Verdict::Pass, "{seed} {length}: {:?}", found.reasons);
                assert_eq!(found.measured_until, Some(length as u64 - 1));
            }
        }
    }

    #[test]
    fn early_differences_and_small_biases_are_caught() {
        let n = 300;
        let golden = curve(falling(n));
        let noises: Vec<LossCurve> = (1..4).map(|seed| moved(&drift(n, seed))).collect();
        let labels = |by: &dyn Fn(usize, f64) -> f64| {
            let clean = drift(n, 77);
            let by: Vec<f64> = clean.iter().enumerate().map(|(s, d)| by(s, *d)).collect();
            let found = judged(&golden, &moved(&by), &noises);
            (found.verdict, found.reasons.iter().map(Reason::label).collect::<Vec<_>>())
        };
        // Another batch at one step.
        let (verdict, reasons) = labels(&|s, d| if s == 3 { 0.1 } else { d });
        assert_eq!((verdict, reasons[0]), (Verdict::Fail, "CurveLeavesSpread"));
        // A tenth of a per cent from the start.
        assert_eq!(labels(&|s, d| d + 1e-3 * (s > 5) as u8 as f64).0, Verdict::Fail);
        // Within what single steps may differ by, but always to one side: only the mean shows it.
        let (verdict, reasons) = labels(&|s, d| d + if s > 200 { 0.15 } else { 0.0 });
        assert_eq!((verdict, &reasons[..]), (Verdict::Fail, &["CurveLeavesSpread"][..]));
        assert_eq!(labels(&|s, d| if s == 250 { f64::NAN } else { d }).0, Verdict::Fail);
    }

    #[test]
    fn without_a_spread_only_the_tolerance_passes() {
        let golden = curve(falling(20));
        assert_eq!(judged(&golden, &golden, &[]).verdict, Verdict::Pass);
        let near = judged(&golden, &moved(&[1e-5; 20]), &[]);
        assert_eq!((near.verdict, near.measured_until), (Verdict::Pass, None));
        let far = judged(&golden, &moved(&[1e-2; 20]), &[]);
        assert_eq!((far.verdict, far.reasons.len()), (Verdict::Inconclusive, 1));
        let nan = judged(&golden, &moved(&[f64::NAN; 20]), &[]);
        assert_eq!(nan.verdict, Verdict::Fail);
        assert_eq!(judged(&curve([]), &curve([]), &[]).verdict, Verdict::Invalid);
    }

    #[test]
    fn curves_of_other_lengths_are_named() {
        let found = judged(&curve(falling(20)), &curve(falling(15)), &[]);
        assert_eq!(found.reasons, [Reason::CurveStepsDiffer { golden: 20, candidate: 15 }]);
        assert_eq!(found.compared, 15);
    }

    #[test]
    fn long_runs_are_thinned_and_keep_the_worst() {
        let mut shares = vec![0.1; 10_001];
        shares[7777] = 3.0;
        let kept = thinned(&shares);
        assert!(kept.len() <= MOST_POINTS && kept.contains(&7777));
        assert_eq!(thinned(&[0.0; 7]).len(), 7);
    }
}
