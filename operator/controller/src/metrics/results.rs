//! What runs measured, as their statuses have it: of each workload the latest.

use prometheus::core::Collector;
use prometheus::{GaugeVec, Opts, Registry};
use warpforge_operator_api::contract::{BenchmarkFigure, Figure};
use warpforge_operator_api::data::Pass;
use warpforge_operator_api::{BenchmarkRunStatus, Time};

use super::Words;

pub struct Results {
    throughput: GaugeVec,
    ratio: GaugeVec,
    loss: GaugeVec,
    metric: GaugeVec,
    worst_error: GaugeVec,
    fallbacks: GaugeVec,
    power: GaugeVec,
    benchmark: GaugeVec,
    hardware: Words,
    metrics: Words,
    benchmarks: Words,
    units: Words,
}

/// A number that a run came to, and when.
struct Seen {
    at: Option<Time>,
    gauge: GaugeVec,
    labels: Vec<String>,
    value: f64,
}

/// All numbers of all runs, as they are found.
#[derive(Default)]
pub struct Found(Vec<Seen>);

impl Results {
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let gauge = GaugeVec::new(Opts::new(format!("warpforge_result_{name}"), help), labels)?;
            let collector: Box<dyn Collector> = Box::new(gauge.clone());
            registry.register(collector).map(|()| gauge)
        };
        Ok(Self {
            throughput: gauge(
                "throughput",
                "Samples a second of the workload's latest run.",
                &["workload", "hardware", "pass"],
            )?,
            ratio: gauge(
                "ratio",
                "WarpForge's throughput as a multiple of golden's, of the latest run.",
                &["workload", "hardware"],
            )?,
            loss: gauge("loss", "The loss that a run last told.", &["workload", "pass"])?,
            metric: gauge(
                "metric",
                "F1, exact match and the like, of the latest run.",
                &["workload", "metric", "pass"],
            )?,
            worst_error: gauge(
                "worst_error",
                "The largest error of the latest run as a multiple of what is allowed.",
                &["workload"],
            )?,
            fallbacks: gauge(
                "fallbacks",
                "Operations of the latest run that did not run where they should have.",
                &["workload"],
            )?,
            power: gauge("power_watts", "Mean power of the latest run.", &["workload", "pass"])?,
            benchmark: gauge(
                "benchmark",
                "The figure that stands for a suite's benchmark, of the latest run.",
                &["workload", "hardware", "benchmark", "metric", "unit"],
            )?,
            hardware: Words::default(),
            metrics: Words::default(),
            benchmarks: Words::default(),
            units: Words::default(),
        })
    }

    /// Notes what a run came to.
    pub fn find(&self, found: &mut Found, workload: &str, status: &BenchmarkRunStatus) {
        let mut see = |gauge: &GaugeVec, at, labels: &[&str], value: Option<f64>| {
            let Some(value) = value else { return };
            let labels = std::iter::once(workload).chain(labels.iter().copied());
            let labels = labels.map(str::to_owned).collect();
            found.0.push(Seen { at, gauge: gauge.clone(), labels, value });
        };
        if let Some(progress) = status.progress.as_ref().filter(|_| !status.is_complete()) {
            let loss = progress.loss.as_ref().and_then(|loss| loss.parse().ok());
            see(&self.loss, Some(progress.updated_at), &[progress.pass.label()], loss);
        }
        let Some(results) = &status.results else { return };
        let at = status.completed_at;
        let value = |figure: &Option<Figure>| figure.as_ref().and_then(Figure::value);
        let hardware = self.hardware.bounded(&results.hardware);
        for pass in [Pass::Golden, Pass::Warpforge] {
            let (of, pass) = (results.of(pass), pass.label());
            see(&self.throughput, at, &[&hardware, pass], value(&of.throughput));
            see(&self.loss, at, &[pass], value(&of.loss));
            see(&self.power, at, &[pass], value(&of.power_watts));
            for (metric, figure) in &of.metrics {
                see(&self.metric, at, &[&self.metrics.bounded(metric), pass], figure.value());
            }
        }
        for BenchmarkFigure { name, metric, value, unit } in &results.benchmarks {
            let name = self.benchmarks.bounded(name);
            let (metric, unit) = (self.metrics.bounded(metric), self.units.bounded(unit));
            see(&self.benchmark, at, &[&hardware, &name, &metric, &unit], value.value());
        }
        see(&self.ratio, at, &[&hardware], value(&results.ratio));
        see(&self.worst_error, at, &[], value(&results.worst_error));
        see(&self.fallbacks, at, &[], results.fallbacks.map(|count| count as f64));
    }

    /// Tells the latest of each, and nothing of runs that are gone.
    pub fn tell(&self, mut found: Found) {
        let all = [&self.throughput, &self.ratio, &self.loss, &self.metric];
        all.into_iter()
            .chain([&self.worst_error, &self.fallbacks, &self.power, &self.benchmark])
            .for_each(GaugeVec::reset);
        found.0.sort_by_key(|seen| seen.at);
        for Seen { gauge, labels, value, .. } in found.0 {
            gauge.with_label_values(&labels).set(value);
        }
    }
}
