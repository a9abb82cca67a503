//! From timed blocks to metrics: warm up, then sample until the interval is narrow or the time is
//! up. What is timed is the caller's; nothing here runs inside it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::{Timestamp, Unit};

use crate::model::{BenchmarkMetric, Expectation, Span};
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
    /// From the beginning of the first to the end of the last.
    pub span: Option<Span>,
}

/// Takes samples for about `time`: each call of `block` is one, and returns a value for each of
/// the `N` figures. The burn-in's are thrown away.
pub fn collect<const N: usize>(
    cx: &Context<'_>,
    time: Duration,
    mut block: impl FnMut() -> Result<[f64; N], Unable>,
) -> Result<[Samples; N], Unable> {
    let (samples, _) = collect_beside(cx, time, || block().map(|values| (values, ())))?;
    Ok(samples)
}

/// The same; with whatever else the blocks that count yield.
pub fn collect_beside<T, const N: usize>(
    cx: &Context<'_>,
    time: Duration,
    mut block: impl FnMut() -> Result<([f64; N], T), Unable>,
) -> Result<([Samples; N], Vec<T>), Unable> {
    let begun = Instant::now();
    loop {
        cx.check()?;
        block()?;
        if begun.elapsed() >= cx.burn_in {
            break;
        }
    }
    let mut taken: [Samples; N] = std::array::from_fn(|_| Samples::default());
    let mut beside = Vec::new();
    let (first, begun) = (now(), Instant::now());
    loop {
        cx.check()?;
        let from = Instant::now();
        let (values, other) = block()?;
        let throttled = cx.watch.throttled(from, Instant::now());
        for (samples, value) in taken.iter_mut().zip(values) {
            if throttled {
                samples.dropped += 1;
            } else {
                samples.values.push(value);
            }
        }
        if !throttled {
            beside.push(other);
        }
        if done(&taken, begun.elapsed(), time) {
            let span = Span { from: first, to: now() };
            for samples in &mut taken {
                samples.span = Some(span.clone());
            }
            return Ok((taken, beside));
        }
    }
}

/// As files have it.
pub(crate) fn now() -> String {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now).to_string()
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
                span: None,
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
            span: samples.span.clone(),
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;

    use super::*;
    use crate::Sysroot;
    use crate::model::Params;
    use crate::suite::{Stop, Watch};
    use crate::system::{Surroundings, System};

    /// Says of every third block that the hardware was throttled.
    #[derive(Default)]
    struct Hot(Mutex<u64>);

    impl Watch for Hot {
        fn doing(&self, _: &str) {}

        fn throttled(&self, _: Instant, _: Instant) -> bool {
            let mut asked = self.0.lock().unwrap();
            *asked += 1;
            asked.is_multiple_of(3)
        }
    }

    fn within<T>(milliseconds: u64, burn_in: u64, work: impl FnOnce(&Context<'_>) -> T) -> T {
        let system = System::read(&Sysroot::at("/nowhere"), &Surroundings::default());
        work(&Context {
            duration: Duration::from_millis(milliseconds),
            burn_in: Duration::from_millis(burn_in),
            params: &Params::new(),
            system: &system,
            stop: &Stop::default(),
            watch: &Hot::default(),
        })
    }

    #[test]
    fn blocks_of_the_burn_in_and_beside_throttling_do_not_count() {
        let count = Cell::new(0_u64);
        let (samples, beside) = within(40, 5, |cx| {
            let found = collect_beside(cx, cx.duration, || {
                std::thread::sleep(Duration::from_millis(1));
                count.set(count.get() + 1);
                Ok(([count.get() as f64], count.get()))
            });
            let ([samples], beside) = found.unwrap();
            (samples, beside)
        });
        let kept: Vec<_> = beside.iter().map(|block| *block as f64).collect();
        assert_eq!(samples.values, kept, "what is beside belongs to what counts");
        assert!(samples.dropped > 0 && beside[0] > 1, "{samples:?}");
        // Two of three count, from the first after the burn-in on.
        let begun = beside[0];
        assert!(beside.iter().all(|block| (block - begun) % 3 != 2), "{beside:?}");
        let metric = Figure::higher("rate", "1/s").of(&samples);
        assert_eq!((metric.samples, metric.dropped), (kept.len() as u64, samples.dropped));
        let span = metric.span.unwrap();
        let [from, to] = [span.from, span.to].map(|time| time.parse::<Timestamp>().unwrap());
        assert!(from < to, "{from} {to}");
    }

    #[test]
    fn sampling_ends_when_the_figure_is_known_or_the_time_is_up() {
        let taken = |time, value: fn(u64) -> f64| {
            let mut count = 0;
            let found = within(time, 0, |cx| {
                collect(cx, cx.duration, || {
                    std::thread::sleep(Duration::from_micros(100));
                    count += 1;
                    Ok([value(count)])
                })
            });
            let [samples] = found.unwrap();
            samples.values.len()
        };
        assert_eq!(taken(60_000, |_| 1.0), ENOUGH);
        assert!(taken(200, |count| count as f64) >= LEAST);
    }
}
