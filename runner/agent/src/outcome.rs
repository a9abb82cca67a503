//! What a report says, in the words of the last message.

mod power;

use std::fs;
use std::path::Path;

use warpforge_operator_api::contract::{Figure, PassResults, Results, Termination};
use warpforge_operator_api::{Reason, Verdict};
use warpforge_parity::bundle::{LOSS_CURVE, LossCurve, METRICS, Metrics, REPORT_JSON};
use warpforge_parity::performance::Pass;
use warpforge_parity::report::{Report, VERSION};
use warpforge_parity::verdict::Verdict as Judged;

use crate::ending::Failure;

/// The reason of a pass, which has no reason against it.
const AGREES: &str = "Agrees";

/// Reads the report of a bundle.
pub fn read(bundle: &Path) -> Result<Report, Failure> {
    let path = bundle.join(REPORT_JSON);
    let wrong = |why: String| {
        Failure::new(Reason::InternalError, format!("{REPORT_JSON} cannot be used: {why}"))
    };
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let report: Report = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if report.version == VERSION {
        Ok(report)
    } else {
        Err(wrong(format!("it has version {}", report.version)))
    }
}

/// The message of a worker that has a report. `code` is the one that the child ended with: a
/// verdict on speed may make it graver.
pub fn message(report: &Report, code: i32) -> Termination {
    let reason = report.reasons.first().map_or(AGREES, |reason| reason.label());
    let mut text = report.summary.clone();
    let speed = report.training.as_ref().and_then(|training| training.performance.as_ref());
    if let Some(speed) = speed.filter(|speed| !speed.summary.is_empty()) {
        text = format!("{text}; {}", speed.summary);
    }
    Termination {
        exit_code: Some(code),
        performance: report.verdicts.performance.map(verdict),
        results: Some(results(report)),
        ..Termination::verdict(verdict(report.verdicts.correctness), reason, &text)
    }
}

pub fn verdict(judged: Judged) -> Verdict {
    match judged {
        Judged::Pass => Verdict::Pass,
        Judged::Skipped => Verdict::Skipped,
        Judged::Inconclusive => Verdict::Inconclusive,
        Judged::Fail => Verdict::Fail,
        Judged::Invalid => Verdict::Invalid,
    }
}

/// The figures of a report.
pub fn results(report: &Report) -> Results {
    let mut results = Results {
        fallbacks: Some(report.executed.fallbacks.iter().map(|each| each.count as i64).sum()),
        ..Results::default()
    };
    let statistics = report.tensors.iter().filter_map(|tensor| tensor.statistics.as_ref());
    let mut worst = largest(statistics.filter_map(|all| all.tolerance_used));
    if let Some(training) = &report.training {
        let parity = &training.parity;
        worst = largest(worst.into_iter().chain(parity.quantities.iter().filter_map(|q| q.used)));
        for metric in &parity.metrics {
            results.golden.metric(&metric.name, metric.golden.0);
            if let Some(candidate) = metric.candidate {
                results.warpforge.metric(&metric.name, candidate.0);
            }
        }
        if let Some(run) = &parity.free_run {
            let last = |curve: &[warpforge_parity::compare::Number]| Figure::new(curve.last()?.0);
            results.golden.loss = last(&run.golden);
            results.warpforge.loss = last(&run.candidate);
        }
        if let Some(speed) = &training.performance {
            results.hardware = speed.hardware_class.chars().take(63).collect();
            results.golden.throughput = Figure::new(speed.golden.median);
            results.warpforge.throughput = Figure::new(speed.candidate.median);
            results.ratio = speed.ratio.and_then(|ratio| Figure::new(ratio.value));
        }
    }
    if let Some(timeline) = &report.timeline {
        let watts = |pass| power::mean_watts(timeline, pass).and_then(Figure::new);
        results.golden.power_watts = watts(Pass::Golden);
        results.warpforge.power_watts = watts(Pass::Warpforge);
    }
    results.worst_error = worst.and_then(Figure::new);
    results
}

fn largest(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.filter(|value| value.is_finite()).reduce(f64::max)
}

/// The figures of a golden alone, from its own files; what it does not have is left out.
pub fn golden_results(folder: &Path) -> Results {
    let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
    let curve: Option<LossCurve> = serde_json::from_slice(&read(LOSS_CURVE)).ok();
    let metrics: Metrics = serde_json::from_slice(&read(METRICS)).unwrap_or_default();
    let mut golden = PassResults {
        loss: curve.and_then(|curve| Figure::new(curve.steps.last()?.loss.0)),
        ..PassResults::default()
    };
    for (name, value) in metrics {
        golden.metric(&name, value.0);
    }
    Results { golden, ..Results::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use warpforge_parity::judge::{Parity, Settings};

    use super::*;

    #[test]
    fn power_is_told_of_the_passes_that_were_watched() {
        let parity = Parity::of(Vec::new(), Vec::new(), Settings::default().tolerances);
        let mut report = Report::new("x", parity);
        let power = |report: &Report| {
            let Results { golden, warpforge, .. } = results(report);
            (golden.power_watts, warpforge.power_watts)
        };
        assert_eq!(power(&report), (None, None), "nobody looked");
        let timeline = json!({
            "interval_seconds": 1.0,
            "seconds": [1.0, 2.0],
            "series": [{ "name": "GPU 0 power", "unit": "W", "values": [50.0, 300.0] }],
            "spans": [
                { "name": "loading", "pass": null, "from_seconds": 0.0, "to_seconds": 1.5 },
                { "name": "warpforge", "pass": "warpforge", "from_seconds": 1.5, "to_seconds": 3.0 },
            ],
            "missing": [],
            "overhead_percent": 0.1,
        });
        report.timeline = Some(serde_json::from_value(timeline).unwrap());
        assert_eq!(power(&report), (None, Figure::new(300.0)), "golden was brought");
    }
}
