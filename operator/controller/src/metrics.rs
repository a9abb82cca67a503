//! What Prometheus is told. Counters grow as statuses are stored; what stands in the runs themselves
//! is counted from the cache when it is asked for, so that it is right after a restart too. Every
//! label has a bounded set of values.

mod results;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};
use warpforge_operator_api::resolved::label;
use warpforge_operator_api::status::{ConditionType, Phase};
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunStatus, Reason, Verdict};

use self::results::{Found, Results};
use crate::cache::Cache;
use crate::queue::Queue;

/// How many values a label has that users choose; all further ones share [`OTHER`].
const MOST: usize = 100;
const OTHER: &str = "other";

/// Waits that are told with 0 while there is none, so that a graph has a line and not a gap.
const WAITS: [Reason; 4] =
    [Reason::WaitingForProfile, Reason::WaitingForSlot, Reason::WaitingForQueue, Reason::Starting];
/// The same of errors.
const ERRORS: [&str; 4] = ["Api", "Refused", "Watch", "Unreadable"];

pub struct Metrics {
    registry: Registry,
    runs: IntGaugeVec,
    waiting: IntGaugeVec,
    verdicts: IntCounterVec,
    reasons: IntCounterVec,
    golden: IntCounterVec,
    results: Results,
    last_success: IntGaugeVec,
    reconcile: Histogram,
    errors: IntCounterVec,
    depth: IntGauge,
    leader: IntGauge,
    workloads: Words,
    /// What is counted anew for an answer is that answer's alone.
    answering: Mutex<()>,
}

impl Metrics {
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let put = |collector: Box<dyn Collector>| registry.register(collector);
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
            put(Box::new(gauges.clone())).map(|()| gauges)
        };
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            put(Box::new(counters.clone())).map(|()| counters)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            put(Box::new(gauge.clone())).map(|()| gauge)
        };
        let reconcile = Histogram::with_opts(
            HistogramOpts::new("warpforge_reconcile_seconds", "How long it takes to see to a run.")
                .buckets(vec![0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0]),
        )?;
        put(Box::new(reconcile.clone()))?;
        let metrics = Self {
            runs: gauges("warpforge_runs", "Runs by phase.", &["phase"])?,
            waiting: gauges("warpforge_waiting", "Runs that wait, by reason.", &["reason"])?,
            verdicts: counters(
                "warpforge_verdicts_total",
                "Verdicts of runs that ended.",
                &["workload", "kind", "verdict"],
            )?,
            reasons: counters(
                "warpforge_reasons_total",
                "Why attempts and runs ended.",
                &["reason"],
            )?,
            golden: counters(
                "warpforge_golden_total",
                "Runs that found their golden stored (hit) or made it (made).",
                &["result"],
            )?,
            last_success: gauges(
                "warpforge_last_success_timestamp_seconds",
                "When a run of the workload last ended with Correctness Pass.",
                &["workload"],
            )?,
            errors: counters(
                "warpforge_reconcile_errors_total",
                "Errors while seeing to runs, by kind.",
                &["kind"],
            )?,
            depth: gauge("warpforge_queue_depth", "Runs that wait to be seen to.")?,
            leader: gauge("warpforge_leader", "Whether this replica is the one at work.")?,
            results: Results::new(&registry)?,
            reconcile,
            workloads: Words::default(),
            answering: Mutex::default(),
            registry,
        };
        for kind in ERRORS {
            metrics.errors.with_label_values(&[kind]);
        }
        for result in ["hit", "made"] {
            metrics.golden.with_label_values(&[result]);
        }
        Ok(metrics)
    }

    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    pub fn error(&self, kind: &str) {
        self.errors.with_label_values(&[kind]).inc();
    }

    pub fn reconciled(&self, took: Duration) {
        self.reconcile.observe(took.as_secs_f64());
    }

    /// A status was stored in place of another.
    pub fn changed(
        &self,
        run: &BenchmarkRun,
        before: &BenchmarkRunStatus,
        after: &BenchmarkRunStatus,
    ) {
        let workload = self.workload(run);
        if after.is_complete() && !before.is_complete() {
            self.ended(&workload, after);
        } else if let Some(ended) = after.attempts.last()
            && before.attempts.last().map(|last| last.number) != Some(ended.number)
        {
            let reason = Reason::parse(&ended.reason).map_or("Other", Reason::family);
            self.reasons.with_label_values(&[reason]).inc();
        }
    }

    fn ended(&self, workload: &str, status: &BenchmarkRunStatus) {
        let verdicts = [("correctness", status.correctness), ("performance", status.performance)];
        for (kind, verdict) in verdicts {
            if let Some(verdict) = verdict {
                self.verdicts.with_label_values(&[workload, kind, verdict.name()]).inc();
            }
        }
        self.succeeded(workload, status);
        // A condition's reason is one of the operator's own, whatever word the report has.
        if let Some(complete) = status.condition(ConditionType::Complete) {
            self.reasons.with_label_values(&[complete.reason.as_str()]).inc();
        }
        let golden = status.condition(ConditionType::GoldenReady);
        let golden = golden.and_then(|ready| match Reason::parse(&ready.reason)? {
            Reason::GoldenReused => Some("hit"),
            Reason::GoldenMade => Some("made"),
            _ => None,
        });
        if let Some(result) = golden {
            self.golden.with_label_values(&[result]).inc();
        }
    }

    fn succeeded(&self, workload: &str, status: &BenchmarkRunStatus) {
        if let (Some(Verdict::Pass), Some(at)) = (status.correctness, status.completed_at) {
            let last = self.last_success.with_label_values(&[workload]);
            last.set(last.get().max(at.seconds()));
        }
    }

    /// The text that Prometheus reads.
    pub fn render(
        &self,
        cache: Option<&Cache>,
        queue: &Queue,
    ) -> Result<String, prometheus::Error> {
        let _answer = self.answering.lock().unwrap_or_else(PoisonError::into_inner);
        self.depth.set(queue.depth() as i64);
        if let Some(cache) = cache {
            self.count(cache);
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn count(&self, cache: &Cache) {
        let mut phases: BTreeMap<&str, i64> =
            Phase::ALL.iter().map(|phase| (phase.name(), 0)).collect();
        let mut waiting: BTreeMap<&str, i64> =
            WAITS.iter().map(|reason| (reason.family(), 0)).collect();
        let mut found = Found::default();
        cache.each_run(|run| {
            let status = run.status.as_ref();
            let phase = status.map_or(Phase::default(), |status| status.phase);
            *phases.entry(phase.name()).or_default() += 1;
            let Some(status) = status else { return };
            if let (Phase::Pending | Phase::Queued | Phase::Starting, Some(reason)) =
                (status.phase, status.reason())
            {
                *waiting.entry(reason.family()).or_default() += 1;
            }
            let workload = self.workload(run);
            self.succeeded(&workload, status);
            self.results.find(&mut found, &workload, status);
        });
        self.results.tell(found);
        for (phase, count) in phases {
            self.runs.with_label_values(&[phase]).set(count);
        }
        self.waiting.reset();
        for (reason, count) in waiting {
            self.waiting.with_label_values(&[reason]).set(count);
        }
    }

    /// What is run, as a label.
    fn workload(&self, run: &BenchmarkRun) -> String {
        let name = label(run.spec.workload.as_ref(), run.spec.suite.as_ref());
        let (workload, new) = self.workloads.meet(&name);
        // From 0: a counter that Prometheus first sees at 1 has never increased.
        for kind in ["correctness", "performance"].iter().filter(|_| new) {
            for verdict in Verdict::ALL {
                self.verdicts.with_label_values(&[workload.as_str(), kind, verdict.name()]);
            }
        }
        workload
    }
}

/// Values of a label that are the users' to choose: only so many are told apart.
#[derive(Default)]
struct Words(Mutex<HashSet<String>>);

impl Words {
    fn bounded(&self, word: &str) -> String {
        self.meet(word).0
    }

    /// What a word is told as, and whether that is new.
    fn meet(&self, word: &str) -> (String, bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = if known.contains(word) || known.len() < MOST { word } else { OTHER };
        let new = !known.contains(told) && known.insert(told.to_owned());
        (told.to_owned(), new)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use warpforge_operator_api::contract::{self, Figure};
    use warpforge_operator_api::data::Workload;
    use warpforge_operator_api::{BenchmarkRunSpec, Time};

    fn run(workload: &str) -> BenchmarkRun {
        let name = workload.to_owned();
        let workload = Some(Workload { name, preset: None, parameters: BTreeMap::new() });
        BenchmarkRun::new("x", BenchmarkRunSpec { workload, ..BenchmarkRunSpec::empty() })
    }

    #[test]
    fn workloads_beyond_so_many_share_a_label() {
        let metrics = Metrics::new().unwrap();
        for number in 0..MOST {
            assert_eq!(metrics.workload(&run(&format!("w{number}"))), format!("w{number}"));
        }
        assert_eq!(metrics.workload(&run("one-more")), OTHER);
        assert_eq!(metrics.workload(&run("w7")), "w7");
    }

    #[test]
    fn a_workloads_verdicts_are_counted_from_nought_and_set_up_once() {
        let metrics = Metrics::new().unwrap();
        let queue = Arc::new(Queue::default());
        let told = |name: &str| {
            let text = metrics.render(None, &queue).unwrap();
            text.lines().filter(|line| line.contains(&format!("workload=\"{name}\""))).count()
        };
        for number in 0..=MOST {
            metrics.workload(&run(&format!("w{number}")));
        }
        // Five verdicts of two kinds, also of those that share a label.
        assert_eq!((told("w7"), told(OTHER)), (10, 10));
        metrics.verdicts.reset();
        for name in ["w7", "w100", "one-more"] {
            metrics.workload(&run(name));
        }
        assert_eq!((told("w7"), told(OTHER)), (0, 0));
    }

    #[test]
    fn the_latest_run_of_a_workload_is_told() {
        let metrics = Metrics::new().unwrap();
        let queue = Arc::new(Queue::default());
        let mut found = Found::default();
        let mut ended = |workload: &str, seconds: i64, ratio: f64| {
            let mut results = contract::Results {
                hardware: "epyc".into(),
                ratio: Figure::new(ratio),
                fallbacks: Some(seconds),
                ..contract::Results::default()
            };
            results.golden.throughput = Figure::new(100.0);
            results.warpforge.metric("f1", 96.5);
            results.benchmark("disk_io", "iops[depth=32]", ratio, "IOPS");
            let status = BenchmarkRunStatus {
                completed_at: Some(Time::default().plus(seconds)),
                results: Some(results),
                ..BenchmarkRunStatus::default()
            };
            metrics.results.find(&mut found, workload, &status);
        };
        ended("bert-squad", 20, 0.9);
        ended("bert-squad", 10, 0.5);
        ended("llama", 5, 0.7);
        metrics.results.tell(found);
        let text = metrics.render(None, &queue).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| line.contains("result_")).collect();
        for line in [
            r#"warpforge_result_ratio{hardware="epyc",workload="bert-squad"} 0.9"#,
            r#"warpforge_result_ratio{hardware="epyc",workload="llama"} 0.7"#,
            r#"warpforge_result_fallbacks{workload="bert-squad"} 20"#,
            r#"warpforge_result_benchmark{benchmark="disk_io",hardware="epyc",metric="iops[depth=32]",unit="IOPS",workload="llama"} 0.7"#,
            r#"warpforge_result_metric{metric="f1",pass="warpforge",workload="llama"} 96.5"#,
            r#"warpforge_result_throughput{hardware="epyc",pass="golden",workload="llama"} 100"#,
        ] {
            assert!(lines.contains(&line), "{line} is not in\n{text}");
        }
        metrics.results.tell(Found::default());
        assert!(!metrics.render(None, &queue).unwrap().contains("epyc"));
    }

    #[test]
    fn an_empty_operator_has_all_phases() {
        let metrics = Metrics::new().unwrap();
        let queue = Arc::new(Queue::default());
        let cache = Cache::new(queue.clone());
        let text = metrics.render(Some(&cache), &queue).unwrap();
        for phase in Phase::ALL {
            let line = format!("warpforge_runs{{phase=\"{}\"}} 0\n", phase.name());
            assert!(text.contains(&line), "{text}");
        }
    }
}
