//! What was seen between two moments, in a few figures.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::record::{GpuUsage, MemoryOf, Record, two_digits};

/// What was seen between two moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// How many times it looked.
    pub records: u64,
    /// The time between two looks.
    pub interval_seconds: f64,
    /// The time from one moment to the other.
    pub seconds: f64,
    pub cpu_mean_percent: Option<f64>,
    pub cpu_max_percent: Option<f64>,
    pub cpu_max_temperature_celsius: Option<f64>,
    /// How many times heat lowered the processors' clocks.
    pub cpu_throttle_events: Option<u64>,
    pub memory_max_percent: Option<f64>,
    /// Whose memory that is a share of; null if nothing was recorded.
    pub memory_of: Option<MemoryOf>,
    /// The GPUs, in the order of the records.
    pub gpus: Vec<GpuSummary>,
    /// The monitor's own CPU time, as a share of one core, since it was started. What opening the
    /// vendors' libraries took is not part of it.
    pub overhead_percent: f64,
    /// The CPU time that opening the vendors' libraries took, once.
    pub opening_seconds: f64,
    /// What could not be watched, and why.
    pub missing: Vec<String>,
}

/// One GPU between two moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuSummary {
    pub index: u32,
    pub model: Option<String>,
    pub guid: Option<String>,
    pub mean_utilization_percent: Option<f64>,
    pub max_memory_percent: Option<f64>,
    pub mean_power_watts: Option<f64>,
    pub max_power_watts: Option<f64>,
    pub max_temperature_celsius: Option<f64>,
    pub mean_sm_clock_mhz: Option<f64>,
    /// Every reason that was seen.
    pub throttle_reasons: Vec<String>,
}

/// A record, and when it was made by the clock that durations are measured with.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    pub at: Instant,
    pub record: Record,
}

/// What a summary says of the monitor itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Itself {
    pub interval: Duration,
    pub overhead_percent: f64,
    pub opening: Duration,
    pub missing: Vec<String>,
}

/// The records between two moments. Each tells of the time since the one before, so that those
/// up to the second moment count, and none from before the first.
pub(super) fn summarise(taken: &[Taken], from: Instant, to: Instant, itself: Itself) -> Summary {
    let first = taken.partition_point(|taken| taken.at <= from);
    let last = taken.partition_point(|taken| taken.at <= to).max(first);
    let records: Vec<&Record> = taken[first..last].iter().map(|taken| &taken.record).collect();
    let cpu = |record: &&Record| record.cpu_utilization_percent;
    let values = |of: &dyn Fn(&&Record) -> Option<f64>| records.iter().filter_map(of).collect();
    let cpu_values: Vec<f64> = values(&cpu);
    let before =
        first.checked_sub(1).map_or_else(|| records.first().copied(), |i| Some(&taken[i].record));
    Summary {
        records: records.len() as u64,
        interval_seconds: itself.interval.as_secs_f64(),
        seconds: to.saturating_duration_since(from).as_secs_f64(),
        cpu_mean_percent: mean(&cpu_values),
        cpu_max_percent: greatest(&cpu_values),
        cpu_max_temperature_celsius: greatest(&values(&|record| record.cpu_temperature_celsius)),
        cpu_throttle_events: throttle_events(before, records.last().copied()),
        memory_max_percent: greatest(&values(&|record| record.memory_utilization_percent)),
        memory_of: records.last().map(|record| record.memory_of),
        gpus: gpus(&records),
        overhead_percent: itself.overhead_percent,
        opening_seconds: itself.opening.as_secs_f64(),
        missing: itself.missing,
    }
}

fn throttle_events(before: Option<&Record>, last: Option<&Record>) -> Option<u64> {
    let count = |record: Option<&Record>| record.and_then(|record| record.cpu_throttle_count);
    Some(count(last)?.saturating_sub(count(before)?))
}

/// GPUs come in the same order in every record, but may not all be there in the first ones: a
/// vendor's library takes its time to open.
fn gpus(records: &[&Record]) -> Vec<GpuSummary> {
    let Some(newest) = records.last() else { return Vec::new() };
    let same =
        |a: &GpuUsage, b: &GpuUsage| (a.index, &a.guid, &a.model) == (b.index, &b.guid, &b.model);
    let each = |gpu: &GpuUsage| {
        let seen = records.iter().flat_map(|record| &record.gpu_usage);
        gpu_summary(gpu, &seen.filter(|other| same(gpu, other)).collect::<Vec<_>>())
    };
    newest.gpu_usage.iter().map(each).collect()
}

fn gpu_summary(gpu: &GpuUsage, seen: &[&GpuUsage]) -> GpuSummary {
    let values = |of: fn(&GpuUsage) -> Option<f64>| -> Vec<f64> {
        seen.iter().filter_map(|usage| of(usage)).collect()
    };
    let power = values(|usage| usage.power_watts);
    let reasons: BTreeSet<&String> =
        seen.iter().filter_map(|usage| usage.throttle_reasons.as_ref()).flatten().collect();
    GpuSummary {
        index: gpu.index,
        model: gpu.model.clone(),
        guid: gpu.guid.clone(),
        mean_utilization_percent: mean(&values(|usage| usage.utilization_percent)),
        max_memory_percent: greatest(&values(|usage| usage.memory_utilization_percent)),
        mean_power_watts: mean(&power),
        max_power_watts: greatest(&power),
        max_temperature_celsius: greatest(&values(|usage| usage.temperature_celsius)),
        mean_sm_clock_mhz: mean(&values(|usage| usage.sm_clock_mhz)),
        throttle_reasons: reasons.into_iter().cloned().collect(),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (!values.is_empty()).then(|| two_digits(mean))
}

fn greatest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cpu: f64, count: u64, power: &[f64]) -> Record {
        let gpu = |(index, watts): (usize, &f64)| GpuUsage {
            index: index as u32,
            power_watts: Some(*watts),
            throttle_reasons: Some(if *watts > 600.0 {
                vec!["sw_power_cap".into()]
            } else {
                vec![]
            }),
            ..GpuUsage::default()
        };
        Record {
            timestamp: "2026-01-01T00:00:00Z".into(),
            cpu_utilization_percent: Some(cpu),
            total_memory_bytes: None,
            memory_utilization_percent: None,
            memory_of: MemoryOf::Machine,
            cpu_temperature_celsius: None,
            cpu_clock_mhz: None,
            cpu_throttle_count: Some(count),
            gpu_usage: power.iter().enumerate().map(gpu).collect(),
        }
    }

    /// Five records, a second apart; the GPU is there from the third on.
    fn taken(start: Instant) -> Vec<Taken> {
        let all = [(10.0, 3, &[][..]), (20.0, 3, &[]), (90.0, 5, &[500.0]), (70.0, 6, &[700.0])];
        let at = |i: usize| start + Duration::from_secs(1 + i as u64);
        all.iter()
            .enumerate()
            .map(|(i, (cpu, count, power))| Taken {
                at: at(i),
                record: record(*cpu, *count, power),
            })
            .collect()
    }

    #[test]
    fn what_lies_between_two_moments_counts() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let of = |from, to| summarise(&taken(start), at(from), at(to), Itself::default());
        let all = of(0.0, 9.0);
        assert_eq!((all.records, all.seconds), (4, 9.0));
        assert_eq!((all.cpu_mean_percent, all.cpu_max_percent), (Some(47.5), Some(90.0)));
        assert_eq!(all.cpu_throttle_events, Some(3));
        assert_eq!(
            (all.gpus[0].mean_power_watts, all.gpus[0].max_power_watts),
            (Some(600.0), Some(700.0))
        );
        assert_eq!(all.gpus[0].throttle_reasons, ["sw_power_cap"]);

        let middle = of(1.5, 3.5);
        assert_eq!((middle.records, middle.cpu_mean_percent), (2, Some(55.0)));
        assert_eq!(middle.cpu_throttle_events, Some(2), "since the record before");
        assert!(middle.gpus[0].throttle_reasons.is_empty());

        let nothing = of(3.1, 3.2);
        assert_eq!((nothing.records, nothing.cpu_mean_percent, nothing.memory_of), (0, None, None));
        assert_eq!(of(5.0, 1.0).records, 0, "the wrong way round");
    }
}
