//! What Prometheus is told. Counters grow as statuses are stored; what stands in the runs themselves
//! is counted from the cache when it is asked for, so that it is right after a restart too. Every
//! label has a bounded set of values.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use warpforge_operator_api::status::{ConditionType, Phase};
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunStatus, Reason, Verdict};

use crate::cache::Cache;
use crate::queue::Queue;

/// How many workloads have a label of their own; all further ones share [`OTHER`].
const MOST_WORKLOADS: usize = 100;
const OTHER: &str = "other";

pub struct Metrics {
    registry: Registry,
    runs: IntGaugeVec,
    waiting: IntGaugeVec,
    verdicts: IntCounterVec,
    reasons: IntCounterVec,
    golden: IntCounterVec,
    loss: GaugeVec,
    last_success: IntGaugeVec,
    reconcile: Histogram,
    errors: IntCounterVec,
    depth: IntGauge,
    leader: IntGauge,
    workloads: Mutex<HashSet<String>>,
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
        let loss = GaugeVec::new(
            Opts::new("warpforge_result_loss", "The loss that a run of the workload last told."),
            &["workload", "pass"],
        )?;
        put(Box::new(loss.clone()))?;
        let reconcile = Histogram::with_opts(
            HistogramOpts::new("warpforge_reconcile_seconds", "How long it takes to see to a run.")
                .buckets(vec![0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0]),
        )?;
        put(Box::new(reconcile.clone()))?;
        Ok(Self {
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
            loss,
            reconcile,
            workloads: Mutex::default(),
            registry,
        })
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
        let loss = after.progress.as_ref().filter(|_| after.progress != before.progress);
        if let Some(progress) = loss
            && let Some(loss) = progress.loss.as_ref().and_then(|loss| loss.parse().ok())
        {
            let labels = [workload.as_str(), &progress.pass.name().to_lowercase()];
            self.loss.with_label_values(&labels).set(loss);
        }
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
        self.depth.set(queue.depth() as i64);
        if let Some(cache) = cache {
            self.count(cache);
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn count(&self, cache: &Cache) {
        let mut phases: BTreeMap<&str, i64> =
            Phase::ALL.iter().map(|phase| (phase.name(), 0)).collect();
        let mut waiting: BTreeMap<&str, i64> = BTreeMap::new();
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
            self.succeeded(&self.workload(run), status);
        });
        for (phase, count) in phases {
            self.runs.with_label_values(&[phase]).set(count);
        }
        self.waiting.reset();
        for (reason, count) in waiting {
            self.waiting.with_label_values(&[reason]).set(count);
        }
    }

    /// What is run, as a label: names are the users' to choose, so only so many are told apart.
    fn workload(&self, run: &BenchmarkRun) -> String {
        let spec = &run.spec;
        let name = match (&spec.workload, &spec.suite) {
            (Some(workload), _) => workload.name.clone(),
            (None, Some(suite)) => format!("suite/{}", suite.name),
            (None, None) => "model".to_owned(),
        };
        let mut known = self.workloads.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&name) {
            name
        } else if known.len() < MOST_WORKLOADS {
            known.insert(name.clone());
            name
        } else {
            OTHER.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use warpforge_operator_api::BenchmarkRunSpec;
    use warpforge_operator_api::data::Workload;

    fn run(workload: &str) -> BenchmarkRun {
        let name = workload.to_owned();
        let workload = Some(Workload { name, preset: None, parameters: BTreeMap::new() });
        BenchmarkRun::new("x", BenchmarkRunSpec { workload, ..BenchmarkRunSpec::empty() })
    }

    #[test]
    fn workloads_beyond_so_many_share_a_label() {
        let metrics = Metrics::new().unwrap();
        for number in 0..MOST_WORKLOADS {
            assert_eq!(metrics.workload(&run(&format!("w{number}"))), format!("w{number}"));
        }
        assert_eq!(metrics.workload(&run("one-more")), OTHER);
        assert_eq!(metrics.workload(&run("w7")), "w7");
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
