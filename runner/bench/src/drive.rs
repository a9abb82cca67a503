//! Runs what was chosen, one benchmark after another or side by side, and makes a result of
//! whatever happens: one that fails or lacks its hardware stops no other.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use warpforge_parity::verdict::{Short, Verdict};

use crate::measure::now;
use crate::model::{
    BenchmarkId, BenchmarkMetric, BenchmarkRunResult, BenchmarkSpec, BenchmarkSuiteRun, Component,
    Kind, PERCENTILE, Params, VERSION, Value,
};
use crate::monitor::Summary;
use crate::registry::{Chosen, Selection, benchmark};
use crate::suite::{Context, Stop, Unable, Watch};
use crate::system::System;

/// The metadata that says on which class of machines a run was made.
pub const HARDWARE: &str = "hardware";
/// How long a figure is warmed up unless told otherwise.
pub const BURN_IN: Duration = Duration::from_millis(500);
/// A benchmark measures this long if neither it nor the caller says anything.
const DURATION: Duration = Duration::from_secs(10);
/// A figure whose interval reaches farther than this on either side says too little.
const STEADY: f64 = 0.1;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// In place of each benchmark's own.
    pub duration: Option<Duration>,
    pub burn_in: Duration,
    /// In place of the specs' values, in every benchmark that has the parameter.
    pub params: Vec<(String, String)>,
    /// All at once instead of one after another.
    pub parallel: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { duration: None, burn_in: BURN_IN, params: Vec::new(), parallel: false }
    }
}

/// A parameter that cannot be set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BadParam {
    #[error("none of the chosen benchmarks has a parameter {name}")]
    Unknown { name: String, exist: Vec<String> },
    #[error("{name} of {benchmark} is {wanted}, not {text:?}")]
    Value { name: String, benchmark: String, wanted: &'static str, text: String },
}

/// Whoever is told how it goes.
pub trait Observer: Watch {
    fn began(&self, id: &BenchmarkId);

    fn ended(&self, result: &BenchmarkRunResult);

    /// What the monitor saw between the two, if there is one.
    fn beside(&self, from: Instant, to: Instant) -> Option<Summary>;
}

/// Puts the caller's values in place of the specs'.
pub fn configure(chosen: &mut [Chosen], params: &[(String, String)]) -> Result<(), BadParam> {
    for (name, text) in params {
        let mut known = false;
        for spec in chosen.iter_mut().filter_map(|chosen| chosen.spec.as_mut()) {
            let Some(value) = spec.params.get_mut(name) else { continue };
            known = true;
            *value = value.parse_like(text).ok_or_else(|| BadParam::Value {
                name: name.clone(),
                benchmark: spec.id.to_string(),
                wanted: value.type_name(),
                text: text.clone(),
            })?;
        }
        if !known {
            let specs = chosen.iter().filter_map(|chosen| chosen.spec.as_ref());
            let exist = specs.flat_map(|spec| spec.params.keys().cloned()).collect();
            return Err(BadParam::Unknown { name: name.clone(), exist });
        }
    }
    Ok(())
}

/// Runs all that was chosen. Once `stop` is set, what runs ends and nothing more begins.
pub fn run(
    chosen: &[Chosen],
    options: &Options,
    system: &System,
    stop: &Stop,
    observer: &dyn Observer,
) -> Vec<BenchmarkRunResult> {
    let one = |chosen: &Chosen| {
        observer.began(&chosen.id);
        let result = run_one(chosen, options, system, stop, observer);
        observer.ended(&result);
        result
    };
    if options.parallel {
        return thread::scope(|scope| {
            let begun: Vec<_> =
                chosen.iter().map(|chosen| scope.spawn(move || one(chosen))).collect();
            // A benchmark's panic is a result; one of the observer is a defect like any other.
            begun.into_iter().map(|thread| thread.join().expect("an observer panicked")).collect()
        });
    }
    chosen.iter().take_while(|_| !stop.is_set()).map(one).collect()
}

fn run_one(
    chosen: &Chosen,
    options: &Options,
    system: &System,
    stop: &Stop,
    observer: &dyn Observer,
) -> BenchmarkRunResult {
    let spec = chosen.spec.clone().unwrap_or_else(|| planned(&chosen.id));
    let own = spec.default_duration_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let start_time = now();
    let begun = Instant::now();
    let cx = Context {
        duration: options.duration.or(own).unwrap_or(DURATION),
        burn_in: options.burn_in,
        params: &spec.params,
        system,
        stop,
        watch: observer,
    };
    let mut metrics = Vec::new();
    let outcome = measure(chosen, &cx, &mut metrics);
    let (verdict, reason) = judge(&outcome, &metrics);
    BenchmarkRunResult {
        metrics,
        success: verdict == Verdict::Pass,
        error_message: outcome.err().map(|unable| unable.to_string()),
        start_time,
        end_time: now(),
        system: Some(system.clone()),
        verdict,
        reason,
        monitor: observer.beside(begun, Instant::now()),
        spec,
    }
}

fn measure(
    chosen: &Chosen,
    cx: &Context<'_>,
    found: &mut Vec<BenchmarkMetric>,
) -> Result<(), Unable> {
    let suite = &chosen.id.suite;
    let mut benchmark = benchmark(&chosen.id)
        .ok_or_else(|| Unable::Missing(format!("the suite {suite} is not available yet")))?;
    let work = AssertUnwindSafe(|| {
        benchmark.prepare(cx)?;
        benchmark.run(cx, found)
    });
    catch_unwind(work).unwrap_or_else(|panic| Err(Unable::Failed(defect(panic.as_ref()))))
}

fn defect(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a defect of the benchmark: {}", text.unwrap_or("no message"))
}

/// Stands for a benchmark that is not there yet.
fn planned(id: &BenchmarkId) -> BenchmarkSpec {
    BenchmarkSpec {
        id: id.clone(),
        components: vec![Component::System],
        kind: Kind::Application,
        description: None,
        default_duration_seconds: None,
        external_tool: None,
        params: Params::new(),
        headline: None,
    }
}

fn judge(outcome: &Result<(), Unable>, metrics: &[BenchmarkMetric]) -> (Verdict, Option<String>) {
    if let Err(unable) = outcome {
        let verdict = match unable {
            Unable::Missing(_) => Verdict::Skipped,
            Unable::Failed(_) | Unable::Wrong(_) => Verdict::Fail,
            Unable::Interrupted => Verdict::Inconclusive,
        };
        return (verdict, Some(unable.to_string()));
    }
    if metrics.is_empty() {
        return (Verdict::Invalid, Some("nothing was measured".to_owned()));
    }
    if let Some(broken) = metrics.iter().find(|metric| !metric.value.is_finite()) {
        return (Verdict::Invalid, Some(format!("{} is no number", broken.key())));
    }
    match metrics.iter().find_map(unsteady) {
        Some(reason) => (Verdict::Inconclusive, Some(reason)),
        None => (Verdict::Pass, None),
    }
}

/// What is wrong with a figure whose samples say too little. Percentiles beyond the median are not
/// expected to be steady.
fn unsteady(metric: &BenchmarkMetric) -> Option<String> {
    if metric.tags.get(PERCENTILE).is_some_and(|percentile| percentile != "p50") {
        return None;
    }
    let Some(interval) = metric.interval else {
        return Some(format!("{}: {} samples are too few", metric.key(), metric.samples));
    };
    let reach = interval.relative(metric.median);
    (reach > STEADY).then(|| {
        let percent = Short(100.0 * reach);
        format!("{}: the samples tell it to \u{b1}{percent} % only", metric.key())
    })
}

/// The file of a run, as far as it has come.
pub fn suite_run(
    selection: &Selection,
    results: Vec<BenchmarkRunResult>,
    wanted: usize,
    metadata: BTreeMap<String, String>,
) -> BenchmarkSuiteRun {
    let verdict = Verdict::gravest(results.iter().map(|result| result.verdict));
    let complete = results.len() == wanted
        && !results.iter().any(|result| result.reason.as_deref() == Some(INTERRUPTED));
    let mut components: Vec<_> =
        results.iter().flat_map(|result| result.spec.components.iter().copied()).collect();
    components.sort();
    components.dedup();
    BenchmarkSuiteRun {
        version: VERSION,
        suite: subject(selection),
        components,
        benchmarks: results,
        metadata,
        complete,
        verdict: if complete { verdict } else { verdict.max(Verdict::Inconclusive) },
        score: None,
    }
}

/// As [`Unable::Interrupted`] says it.
const INTERRUPTED: &str = "interrupted";

/// What a selection is called in a file's name: the suite, or the components.
pub fn subject(selection: &Selection) -> String {
    match &selection.suite {
        Some(suite) => suite.clone(),
        None if selection.components.is_empty() => "all".to_owned(),
        None => {
            let names: Vec<_> = selection.components.iter().map(|c| c.name()).collect();
            names.join("-")
        }
    }
}

/// The parameters that were given, as the metadata shows them.
pub fn shown(params: &Params) -> String {
    let pair = |(name, value): (&String, &Value)| format!("{name}={value}");
    params.iter().map(pair).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Figure, Samples};

    fn figure(values: Vec<f64>) -> BenchmarkMetric {
        Figure::higher("rate", "GB/s").of(&Samples { values, ..Samples::default() })
    }

    #[test]
    fn verdicts_by_outcome_and_figures() {
        let steady = || figure(vec![1.0; 20]);
        let wide = || figure((0..20).map(f64::from).collect());
        let tail = |name: &str| {
            let mut metric = wide();
            metric.tags.insert(PERCENTILE.to_owned(), name.to_owned());
            metric
        };
        let table = [
            (Ok(()), vec![steady()], Verdict::Pass, None),
            (Ok(()), vec![steady(), tail("p99")], Verdict::Pass, None),
            (Ok(()), vec![steady(), tail("p50")], Verdict::Inconclusive, Some("rate")),
            (Ok(()), vec![steady(), wide()], Verdict::Inconclusive, Some("rate")),
            (Ok(()), vec![figure(vec![1.0])], Verdict::Inconclusive, Some("1 samples are too few")),
            (Ok(()), vec![figure(vec![f64::NAN; 20])], Verdict::Invalid, Some("is no number")),
            (Ok(()), vec![], Verdict::Invalid, Some("nothing was measured")),
            (Err(Unable::Missing("no GPU".into())), vec![], Verdict::Skipped, Some("no GPU")),
            (Err(Unable::Failed("no disk".into())), vec![], Verdict::Fail, Some("no disk")),
            (Err(Unable::Wrong("2 + 2 = 5".into())), vec![steady()], Verdict::Fail, Some("= 5")),
            (Err(Unable::Interrupted), vec![steady()], Verdict::Inconclusive, Some("interrupted")),
        ];
        for (outcome, metrics, verdict, words) in table {
            let (found, reason) = judge(&outcome, &metrics);
            assert_eq!(found, verdict, "{outcome:?}");
            match (words, &reason) {
                (None, None) => {}
                (Some(words), Some(reason)) => assert!(reason.contains(words), "{reason}"),
                _ => panic!("{outcome:?}: {reason:?}"),
            }
        }
    }

    #[test]
    fn a_panic_is_a_defect_with_its_message() {
        for (panic, text) in [
            (catch_unwind(|| panic!("plain")), "plain"),
            (catch_unwind(|| panic!("with {}", 1)), "with 1"),
        ] {
            let panic = panic.expect_err("it panics");
            assert_eq!(defect(panic.as_ref()), format!("a defect of the benchmark: {text}"));
        }
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let id = BenchmarkId { suite: "micro".to_owned(), name: "a".to_owned() };
        let mut metric = figure(vec![0.1, 0.2, 0.3, 1e-300, 1e300, 2.0 / 3.0]).against("peak", 3.0);
        metric.tags.insert("cores".to_owned(), "1".to_owned());
        metric.span = Some(crate::model::Span { from: now(), to: now() });
        let result = BenchmarkRunResult {
            spec: BenchmarkSpec {
                params: Params::from([
                    ("size".to_owned(), Value::Integer(-1)),
                    ("folder".to_owned(), Value::Text(String::new())),
                ]),
                ..planned(&id)
            },
            metrics: vec![metric],
            success: false,
            error_message: Some("\u{b1} \"quoted\"".to_owned()),
            start_time: now(),
            end_time: now(),
            system: None,
            verdict: Verdict::Inconclusive,
            reason: Some("unsteady".to_owned()),
            monitor: None,
        };
        let metadata = BTreeMap::from([(HARDWARE.to_owned(), "a machine".to_owned())]);
        let run = suite_run(&Selection::default(), vec![result], 2, metadata);
        assert_eq!((run.complete, run.verdict), (false, Verdict::Inconclusive));
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<BenchmarkSuiteRun>(&text).unwrap(), run);
    }
}
