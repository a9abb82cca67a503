//! One figure for a suite: the geometric mean of its metrics against those of a named machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{Compared, compare, machine};
use crate::model::BenchmarkSuiteRun;

/// The metadata that names a machine for people.
pub const MACHINE: &str = "machine";

/// How a run stands to a reference machine's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// The reference machine's name.
    pub reference: String,
    /// 1 is the reference itself; more is better.
    pub value: f64,
    /// How many metrics both have.
    pub metrics: u64,
}

/// The score of a run; none if the two have no metric in common.
pub fn score(run: &BenchmarkSuiteRun, reference: &BenchmarkSuiteRun) -> Option<Score> {
    let compared = compare(reference, run, 0.0).metrics;
    let usable = |row: &&Compared| row.ratio.is_finite() && row.ratio > 0.0;
    let logs: Vec<f64> = compared.iter().filter(usable).map(|row| row.ratio.ln()).collect();
    if logs.is_empty() {
        return None;
    }
    let name = reference.metadata.get(MACHINE).cloned().or_else(|| machine(reference));
    Some(Score {
        reference: name.unwrap_or_else(|| "unnamed".to_owned()),
        value: (logs.iter().sum::<f64>() / logs.len() as f64).exp(),
        metrics: logs.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::run_of;
    use crate::measure::{Figure, Samples};
    use crate::model::BenchmarkMetric;

    fn metrics(rate: f64, latency: f64) -> Vec<BenchmarkMetric> {
        let of = |figure: Figure, value| {
            figure.of(&Samples { values: vec![value], ..Samples::default() })
        };
        vec![of(Figure::higher("rate", "GB/s"), rate), of(Figure::lower("latency", "ns"), latency)]
    }

    #[test]
    fn it_is_the_geometric_mean_of_what_both_have() {
        let mut reference = run_of("a", metrics(10.0, 100.0));
        reference.metadata.insert(MACHINE.to_owned(), "the old one".to_owned());
        let found = score(&run_of("a", metrics(40.0, 100.0)), &reference).unwrap();
        assert_eq!((found.reference.as_str(), found.metrics), ("the old one", 2));
        assert!((found.value - 2.0).abs() < 1e-12);
        let faster = score(&run_of("a", metrics(10.0, 25.0)), &reference).unwrap();
        assert!((faster.value - 2.0).abs() < 1e-12);
        assert_eq!(score(&run_of("b", metrics(1.0, 1.0)), &reference), None);
    }
}
