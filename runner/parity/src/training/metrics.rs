//! Final metrics: both passes against each other, and golden against what is expected of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bundle::{Expectation, Metrics};
use crate::compare::{Number, Tolerance};
use crate::verdict::{Reason, Short, Verdict};

/// One metric of both passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricAt {
    pub name: String,
    pub verdict: Verdict,
    pub golden: Number,
    /// Absent if the candidate does not have it.
    pub candidate: Option<Number>,
    /// What the workload allows, or the tolerance.
    pub delta: f64,
    /// The range of golden and its perturbed copies; absent if none ran to the end.
    pub spread: Option<f64>,
    /// The larger of the two.
    pub allowed: f64,
    pub expectation: Option<Expectation>,
    /// Whether golden keeps the expectation.
    pub golden_keeps: bool,
    /// Whether the candidate does.
    pub candidate_keeps: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

/// Judges one metric. `perturbed` are the metrics of goldens that ran as long as golden did.
pub(super) fn metric(
    name: &str,
    golden: Number,
    candidate: Option<Number>,
    perturbed: &[Metrics],
    expectation: Option<Expectation>,
    tolerance: Tolerance,
) -> MetricAt {
    let delta = delta(golden.0, expectation, tolerance);
    let others = perturbed.iter().filter_map(|metrics| metrics.get(name)).map(|n| n.0);
    let spread = range(golden.0, others);
    let allowed = delta.max(spread.unwrap_or(0.0));
    let mut reasons = Vec::new();
    match candidate {
        None => reasons.push(Reason::MissingTensor { tensor: format!("metrics/{name}") }),
        Some(Number(b)) if (b - golden.0).abs() <= allowed => {}
        Some(candidate) => reasons.push(Reason::MetricDiffers {
            metric: name.to_owned(),
            golden,
            candidate,
            allowed,
        }),
    }
    let golden_keeps = keeps(golden.0, expectation);
    if !golden_keeps {
        let wanted = expectation.map_or_else(String::new, |e| wanted(&e));
        reasons.push(Reason::ExpectationMissed { metric: name.to_owned(), golden, wanted });
    }
    let verdicts = reasons.iter().map(Reason::verdict).chain([Verdict::Pass]);
    MetricAt {
        name: name.to_owned(),
        verdict: Verdict::gravest(verdicts),
        golden,
        candidate,
        delta,
        spread,
        allowed,
        expectation,
        golden_keeps,
        candidate_keeps: candidate.is_some_and(|Number(b)| keeps(b, expectation)),
        reasons,
    }
}

/// The workload's own delta wins over the general tolerance.
fn delta(golden: f64, expectation: Option<Expectation>, tolerance: Tolerance) -> f64 {
    let general = tolerance.allows(golden);
    let Some(Expectation { absolute, relative, .. }) = expectation else { return general };
    let size = if golden.is_finite() { golden.abs() } else { 0.0 };
    let relative = relative.map(|share| share * size);
    match (absolute, relative) {
        (None, None) => general,
        (a, b) => a.unwrap_or(0.0).max(b.unwrap_or(0.0)),
    }
}

fn range(golden: f64, others: impl Iterator<Item = f64>) -> Option<f64> {
    let finite: Vec<f64> = others.filter(|x| x.is_finite()).collect();
    if finite.is_empty() {
        return None;
    }
    let all = || finite.iter().copied().chain([golden]);
    Some(all().fold(f64::NEG_INFINITY, f64::max) - all().fold(f64::INFINITY, f64::min))
        .filter(|range| range.is_finite())
}

fn keeps(value: f64, expectation: Option<Expectation>) -> bool {
    let Some(Expectation { at_least, at_most, .. }) = expectation else { return true };
    at_least.is_none_or(|least| value >= least) && at_most.is_none_or(|most| value <= most)
}

/// "at least 85.0 and at most 90.0".
pub(crate) fn wanted(expectation: &Expectation) -> String {
    let least = expectation.at_least.map(|x| format!("at least {}", Short(x)));
    let most = expectation.at_most.map(|x| format!("at most {}", Short(x)));
    least.into_iter().chain(most).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(golden: f64, candidate: f64, perturbed: &[f64], expect: Expectation) -> MetricAt {
        let perturbed: Vec<Metrics> =
            perturbed.iter().map(|x| Metrics::from([("f1".to_owned(), Number(*x))])).collect();
        let tolerance = Tolerance { rtol: 5e-3, atol: 0.0 };
        metric("f1", Number(golden), Some(Number(candidate)), &perturbed, Some(expect), tolerance)
    }

    #[test]
    fn the_larger_of_delta_and_spread_is_allowed() {
        let points = Expectation { absolute: Some(0.5), ..Expectation::default() };
        for (golden, candidate, perturbed, verdict) in [
            (88.0, 88.4, &[][..], Verdict::Pass),
            (88.0, 88.6, &[], Verdict::Fail),
            (88.0, 88.6, &[88.9], Verdict::Pass),
            (88.0, 88.6, &[87.8, 88.5], Verdict::Pass),
            (88.0, 89.6, &[87.8, 88.5], Verdict::Fail),
            (88.0, f64::NAN, &[87.8, 88.5], Verdict::Fail),
            (f64::NAN, f64::NAN, &[], Verdict::Fail),
        ] {
            let found = judged(golden, candidate, perturbed, points);
            assert_eq!(found.verdict, verdict, "{golden} {candidate} {perturbed:?}");
        }
        // Without a delta the general tolerance holds.
        assert_eq!(judged(100.0, 100.4, &[], Expectation::default()).verdict, Verdict::Pass);
        assert_eq!(judged(100.0, 100.6, &[], Expectation::default()).verdict, Verdict::Fail);
    }

    #[test]
    fn a_golden_that_misses_its_expectation_is_not_our_failure() {
        let above =
            Expectation { at_least: Some(90.0), absolute: Some(0.5), ..Expectation::default() };
        let found = judged(88.0, 88.0, &[], above);
        assert_eq!((found.verdict, found.golden_keeps), (Verdict::Inconclusive, false));
        assert!(found.reasons[0].to_string().contains("f1 is 88.00000 and not at least 90.0"));
        // A difference is still a difference.
        assert_eq!(judged(88.0, 70.0, &[], above).verdict, Verdict::Fail);
        let found = judged(90.2, 89.9, &[], above);
        assert_eq!((found.verdict, found.candidate_keeps), (Verdict::Pass, false));
    }
}
