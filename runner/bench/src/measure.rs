//! From timed blocks to metrics: warm up, then sample until the interval is narrow or the time is
//! up. What is timed is the caller's; nothing here runs inside it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::model::{BenchmarkMetric, Expectation};
use crate::statistics::{interval, median};
use crate::suite::{Context, Unable};

/// So many samples at least, however narrow the interval is before.
const ENOUGH: usize = 20;
/// Nothing more is learnt from an interval that is narrower than this on either side.
const NARROW: f64 = 0.003;
/// With fewer than these the figure has no interval.
const LEAST: usize = 6;
/// Where even those take too long, this many times the allowed time ends it.
const PATIENCE: u32 = 3;

/// The samples of one figure, in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    pub values: Vec<f64>,
    /// How many the hardware's throttling made worthless.
    pub dropped: u64,
}

/// Takes samples for about `time`: each call of `block` is one, and returns a value for each of
/// the `N` figures. The burn-in's are thrown away.
pub fn collect<const N: usize>(
    cx: &Context<'_>,
    time: Duration,
    mut block: impl FnMut() -> Result<[f64; N], Unable>,
) -> Result<[Samples; N], Unable> {
    let begun = Instant::now();
    loop {
        cx.check()?;
        block()?;
        if begun.elapsed() >= cx.burn_in {
            break;
        }
    }
    let mut taken: [Samples; N] = std::array::from_fn(|_| Samples::default());
    let begun = Instant::now();
    loop {
        cx.check()?;
        let from = Instant::now();
        let values = block()?;
        let throttled = cx.watch.throttled(from, Instant::now());
        for (samples, value) in taken.iter_mut().zip(values) {
            if throttled {
                samples.dropped += 1;
            } else {
                samples.values.push(value);
            }
        }
        if done(&taken, begun.elapsed(), time) {
            return Ok(taken);
        }
    }
}

fn done(taken: &[Samples], elapsed: Duration, time: Duration) -> bool {
    let fewest = taken.iter().map(|samples| samples.values.len()).min().unwrap_or(0);
    if elapsed >= time {
        return fewest >= LEAST || elapsed >= time * PATIENCE;
    }
    fewest >= ENOUGH && fewest.is_multiple_of(10) && taken.iter().all(narrow)
}

fn narrow(samples: &Samples) -> bool {
    let middle = median(&samples.values);
    interval(&samples.values).is_some_and(|interval| interval.relative(middle) <= NARROW)
}

/// How many repetitions of `work` last about `target`, found by doubling.
pub fn repetitions(target: Duration, mut work: impl FnMut(u64) -> Duration) -> u64 {
    let mut count = 1_u64;
    loop {
        let took = work(count);
        if took * 8 >= target || count >= 1 << 40 {
            let each = took.as_secs_f64().max(1e-9) / count as f64;
            return ((target.as_secs_f64() / each) as u64).max(1);
        }
        count *= 2;
    }
}

/// A figure's name, unit and tags, to be filled with samples.
#[derive(Clone, Debug)]
pub struct Figure {
    metric: BenchmarkMetric,
}

impl Figure {
    pub fn higher(name: &str, unit: &str) -> Self {
        Self::new(name, unit, true)
    }

    pub fn lower(name: &str, unit: &str) -> Self {
        Self::new(name, unit, false)
    }

    fn new(name: &str, unit: &str, higher_is_better: bool) -> Self {
        Self {
            metric: BenchmarkMetric {
                name: name.to_owned(),
                value: 0.0,
                unit: unit.to_owned(),
                higher_is_better,
                tags: BTreeMap::new(),
                samples: 0,
                median: 0.0,
                interval: None,
                dropped: 0,
                expectation: None,
            },
        }
    }

    pub fn tag(mut self, name: &str, value: impl Into<String>) -> Self {
        self.metric.tags.insert(name.to_owned(), value.into());
        self
    }

    /// The figure as its samples say.
    pub fn of(self, samples: &Samples) -> BenchmarkMetric {
        let middle = median(&samples.values);
        BenchmarkMetric {
            value: middle,
            median: middle,
            samples: samples.values.len() as u64,
            interval: interval(&samples.values),
            dropped: samples.dropped,
            ..self.metric
        }
    }
}

impl BenchmarkMetric {
    /// Held against something known.
    pub fn against(mut self, of: impl Into<String>, value: f64) -> Self {
        let percent = 100.0 * self.value / value;
        self.expectation = Some(Expectation { of: of.into(), value, percent });
        self
    }
}
