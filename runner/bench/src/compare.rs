//! Two runs of the same benchmarks: which figures are faster, slower or the same, and of which
//! that cannot be said.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use warpforge_parity::verdict::Verdict;

use crate::model::{BenchmarkMetric, BenchmarkRunResult, BenchmarkSuiteRun, PEER};
use crate::statistics::Interval;

/// Differences up to this do not matter unless another threshold is given.
pub const THRESHOLD: f64 = 0.02;

/// The confidence of a comparison: many are made at once, and each false alarm costs someone a day.
const CONFIDENCE: f64 = 0.99;
const Z99: f64 = 2.575_829;
/// That of the intervals in the files.
const Z95: f64 = 1.959_964;

/// How a figure changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Better, by more than the threshold and more than chance.
    Faster,
    /// Worse, by more than the threshold and more than chance.
    Slower,
    /// Whatever difference there is lies within the threshold.
    Same,
    /// The samples do not tell.
    Ambiguous,
}

impl Change {
    pub fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Ambiguous => "ambiguous",
        }
    }
}

/// One figure in both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Suite and name.
    pub benchmark: String,
    /// The metric's name and tags.
    pub metric: String,
    pub unit: String,
    pub before: f64,
    pub after: f64,
    /// How much better the second is; above 1 for the better, whichever direction that is.
    pub ratio: f64,
    /// Where the ratio lies; null where one side has no interval.
    pub interval: Option<Interval>,
    pub change: Change,
}

/// Two runs held against each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The share that has to be exceeded.
    pub threshold: f64,
    pub metrics: Vec<Compared>,
    /// What could not be compared, and why.
    pub left_out: Vec<String>,
    /// Benchmarks that passed in the first run and do not in the second.
    pub broken: Vec<String>,
}

/// Why two runs are not compared.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refused {
    #[error("the runs are of different machines: {before}; {after}")]
    Machines { before: String, after: String },
    #[error("{which} names no machine")]
    NoMachine { which: &'static str },
}

/// Whether both ran on machines of one kind.
pub fn same_machine(a: &BenchmarkSuiteRun, b: &BenchmarkSuiteRun) -> Result<(), Refused> {
    let before = machine(a).ok_or(Refused::NoMachine { which: "the first run" })?;
    let after = machine(b).ok_or(Refused::NoMachine { which: "the second run" })?;
    if before == after { Ok(()) } else { Err(Refused::Machines { before, after }) }
}

/// The class of machine a run was made on.
pub fn machine(run: &BenchmarkSuiteRun) -> Option<String> {
    run.metadata.get(crate::drive::HARDWARE).cloned()
}

/// Holds the second run against the first.
pub fn compare(a: &BenchmarkSuiteRun, b: &BenchmarkSuiteRun, threshold: f64) -> Comparison {
    let mut found =
        Comparison { threshold, metrics: Vec::new(), left_out: Vec::new(), broken: Vec::new() };
    let after: BTreeMap<_, _> =
        b.benchmarks.iter().map(|result| (&result.spec.id, result)).collect();
    for before in &a.benchmarks {
        match after.get(&before.spec.id) {
            Some(after) => found.benchmark(before, after),
            None => found.left_out.push(format!("{}: only in the first", before.spec.id)),
        }
    }
    let before: Vec<_> = a.benchmarks.iter().map(|result| &result.spec.id).collect();
    for result in b.benchmarks.iter().filter(|result| !before.contains(&&result.spec.id)) {
        found.left_out.push(format!("{}: only in the second", result.spec.id));
    }
    found
}

impl Comparison {
    /// Whether something became worse.
    pub fn regressed(&self) -> bool {
        !self.broken.is_empty() || self.count(Change::Slower) > 0
    }

    pub fn count(&self, change: Change) -> usize {
        self.metrics.iter().filter(|row| row.change == change).count()
    }

    /// A pass unless nothing was compared, or, if regressions count, something became worse.
    pub fn verdict(&self, fail_on_regression: bool) -> Verdict {
        if fail_on_regression && self.regressed() {
            Verdict::Fail
        } else if self.metrics.is_empty() {
            Verdict::Invalid
        } else {
            Verdict::Pass
        }
    }

    fn benchmark(&mut self, before: &BenchmarkRunResult, after: &BenchmarkRunResult) {
        let id = &before.spec.id;
        if before.success && !after.success {
            let why = after.reason.as_deref().unwrap_or("no reason given");
            self.broken.push(format!("{id}: {}: {why}", after.verdict));
        }
        if let Some(name) = differing(before, after) {
            self.left_out.push(format!("{id}: the parameter {name} differs"));
            return;
        }
        for a in &before.metrics {
            let same = |b: &&BenchmarkMetric| {
                b.key() == a.key() && b.unit == a.unit && b.higher_is_better == a.higher_is_better
            };
            match after.metrics.iter().find(same) {
                Some(b) => self.metrics.push(metric(&id.to_string(), a, b, self.threshold)),
                None => self.left_out.push(format!("{id} {}: only in the first", a.key())),
            }
        }
        let keys: Vec<_> = before.metrics.iter().map(BenchmarkMetric::key).collect();
        for b in after.metrics.iter().filter(|b| !keys.contains(&b.key())) {
            self.left_out.push(format!("{id} {}: only in the second", b.key()));
        }
    }
}

/// A parameter that the two were run with different values of.
fn differing<'a>(a: &'a BenchmarkRunResult, b: &BenchmarkRunResult) -> Option<&'a str> {
    let other = |name: &String| b.spec.params.get(name);
    // The peer is an address and not a way to measure: the same place may have another tomorrow.
    // Whether it is a remote one is a tag of the figures.
    let mut params = a.spec.params.iter().filter(|(name, _)| name.as_str() != PEER);
    let found = params.find(|(name, value)| other(name).is_some_and(|v| v != *value));
    found.map(|(name, _)| name.as_str())
}

fn metric(benchmark: &str, a: &BenchmarkMetric, b: &BenchmarkMetric, threshold: f64) -> Compared {
    let ratio = goodness(a, b);
    let interval = spread(a).zip(spread(b)).map(|(a, b)| {
        let half = Z99 * a.hypot(b);
        let (low, high) = (ratio.ln() - half, ratio.ln() + half);
        Interval { low: low.exp(), high: high.exp(), confidence: CONFIDENCE }
    });
    let interval = interval.filter(|found| found.low.is_finite() && found.high.is_finite());
    Compared {
        benchmark: benchmark.to_owned(),
        metric: a.key(),
        unit: a.unit.clone(),
        before: a.value,
        after: b.value,
        ratio,
        interval,
        change: change(ratio, interval, threshold),
    }
}

/// How much better `b` is than `a`.
pub fn goodness(a: &BenchmarkMetric, b: &BenchmarkMetric) -> f64 {
    if a.higher_is_better { b.value / a.value } else { a.value / b.value }
}

/// The standard error of the figure's logarithm, as its interval has it.
pub fn spread(metric: &BenchmarkMetric) -> Option<f64> {
    let Interval { low, high, .. } = metric.interval?;
    (low > 0.0).then(|| (high / low).ln() / 2.0 / Z95)
}

fn change(ratio: f64, interval: Option<Interval>, threshold: f64) -> Change {
    let Some(Interval { low, high, .. }) = interval else { return Change::Ambiguous };
    // A ratio and its inverse are equally far from 1.
    let (least, most) = (1.0 / (1.0 + threshold), 1.0 + threshold);
    if ratio > most && low > 1.0 {
        Change::Faster
    } else if ratio < least && high < 1.0 {
        Change::Slower
    } else if low >= least && high <= most {
        Change::Same
    } else {
        Change::Ambiguous
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Noise, run_of};
    use crate::measure::{Figure, Samples};

    fn figure(values: Vec<f64>) -> BenchmarkMetric {
        Figure::higher("rate", "GB/s").of(&Samples { values, ..Samples::default() })
    }

    fn drawn(noise: &mut Noise, middle: f64, deviation: f64) -> BenchmarkMetric {
        figure((0..30).map(|_| middle * (1.0 + deviation * noise.normal())).collect())
    }

    fn changed(a: &BenchmarkMetric, b: &BenchmarkMetric) -> Change {
        metric("micro/x", a, b, THRESHOLD).change
    }

    #[test]
    fn equal_machines_are_the_same_and_a_shift_of_three_percent_is_found() {
        let mut noise = Noise::new(8);
        let (mut same, mut faster, mut slower) = (0, 0, 0);
        for _ in 0..1000 {
            let a = drawn(&mut noise, 100.0, 0.01);
            same += usize::from(changed(&a, &drawn(&mut noise, 100.0, 0.01)) == Change::Same);
            faster += usize::from(changed(&a, &drawn(&mut noise, 103.0, 0.01)) == Change::Faster);
            slower += usize::from(changed(&a, &drawn(&mut noise, 97.0, 0.01)) == Change::Slower);
        }
        assert!(same >= 990, "{same} of 1000 are the same");
        assert!(faster >= 950 && slower >= 950, "{faster} and {slower} of 1000 are found");
    }

    #[test]
    fn noise_is_ambiguous_and_never_a_change() {
        let mut noise = Noise::new(9);
        let mut alarms = 0;
        for _ in 0..1000 {
            let (a, b) = (drawn(&mut noise, 100.0, 0.1), drawn(&mut noise, 100.0, 0.1));
            let change = changed(&a, &b);
            assert_ne!(change, Change::Same, "30 samples of 10 % cannot tell 2 %");
            alarms += usize::from(change != Change::Ambiguous);
        }
        assert!(alarms <= 20, "{alarms} of 1000");
    }

    /// A figure as it stands in a file.
    fn written(value: f64, reach: f64) -> BenchmarkMetric {
        let interval = Interval { low: value - reach, high: value + reach, confidence: 0.95 };
        BenchmarkMetric { value, interval: Some(interval), ..figure(vec![value]) }
    }

    #[test]
    fn pairs_made_by_hand() {
        use Change::{Ambiguous, Faster, Same, Slower};
        let rows = [
            (written(100.0, 0.1), written(100.0, 0.1), Same),
            (written(100.0, 0.1), written(101.0, 0.1), Same),
            (written(100.0, 0.1), written(102.5, 0.1), Faster),
            (written(100.0, 0.1), written(97.5, 0.1), Slower),
            // Certainly more than nothing, and perhaps more than the threshold.
            (written(100.0, 0.5), written(101.9, 0.5), Ambiguous),
            // Far apart, and as far spread.
            (written(100.0, 20.0), written(110.0, 20.0), Ambiguous),
            (written(100.0, 0.1), figure(vec![100.0]), Ambiguous),
            (written(0.0, 0.0), written(1.0, 0.1), Ambiguous),
        ];
        for (a, b, expected) in rows {
            assert_eq!(changed(&a, &b), expected, "{} and {}", a.value, b.value);
        }
        let lower = |value| BenchmarkMetric { higher_is_better: false, ..written(value, 0.1) };
        assert_eq!(changed(&lower(100.0), &lower(90.0)), Faster);
        assert_eq!(changed(&lower(100.0), &lower(110.0)), Slower);
    }

    #[test]
    fn what_only_one_has_is_named_and_nothing_compared_is_invalid() {
        let a = run_of("a", vec![written(1.0, 0.001)]);
        let b = run_of("b", vec![written(1.0, 0.001)]);
        let found = compare(&a, &b, THRESHOLD);
        assert_eq!(found.left_out, ["micro/a: only in the first", "micro/b: only in the second"]);
        assert_eq!(found.verdict(false), Verdict::Invalid);

        let mut other = a.clone();
        other.benchmarks[0].metrics[0].name = "other".to_owned();
        let left_out = compare(&a, &other, THRESHOLD).left_out;
        assert_eq!(
            left_out,
            ["micro/a rate: only in the first", "micro/a other: only in the second"]
        );
    }

    #[test]
    fn what_no_longer_works_is_a_regression() {
        let a = run_of("a", vec![written(1.0, 0.001)]);
        let mut b = a.clone();
        b.benchmarks[0].success = false;
        b.benchmarks[0].verdict = Verdict::Fail;
        b.benchmarks[0].reason = Some("no space".to_owned());
        let found = compare(&a, &b, THRESHOLD);
        assert_eq!(found.broken, ["micro/a: Fail: no space"]);
        assert_eq!((found.verdict(true), found.verdict(false)), (Verdict::Fail, Verdict::Pass));
    }

    #[test]
    fn other_parameters_are_another_benchmark() {
        use crate::model::Value::{Integer, Text};
        let a = run_of("a", vec![written(1.0, 0.001)]);
        let with = |name: &str, value| {
            let mut run = a.clone();
            run.benchmarks[0].spec.params.insert(name.to_owned(), value);
            run
        };
        let found = compare(&a, &with("size", Integer(2)), THRESHOLD);
        assert_eq!(found.left_out, ["micro/a: the parameter size differs"]);
        let [here, there] = ["", "10.0.0.7:1"].map(|peer| with(PEER, Text(peer.to_owned())));
        assert_eq!(compare(&here, &there, THRESHOLD).left_out, [""; 0]);
    }

    #[test]
    fn machines_are_told_apart() {
        let a = run_of("a", Vec::new());
        let mut b = a.clone();
        assert_eq!(same_machine(&a, &b), Ok(()));
        b.metadata.insert(crate::drive::HARDWARE.to_owned(), "another".to_owned());
        assert!(matches!(same_machine(&a, &b), Err(Refused::Machines { .. })));
        b.metadata.clear();
        assert_eq!(same_machine(&a, &b), Err(Refused::NoMachine { which: "the second run" }));
    }
}
