//! How long single operations took: counted as they come, read as percentiles.

use std::time::Duration;

use crate::measure::{Figure, Samples};
use crate::model::{BenchmarkMetric, PERCENTILE};

/// Every power of two is cut into so many equal parts, which keeps a reading within 0.8 %.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 6;
/// Up to 2⁴⁰ ns, some eighteen minutes; what lasts longer counts as that.
const BUCKETS: usize = (40 - PART_BITS as usize + 1) * PARTS;

/// The percentiles that are told, and the share of operations below them.
const PERCENTILES: &[(&str, f64)] = &[("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];
/// So many operations beyond a percentile make it a sample.
const BEYOND: f64 = 10.0;

/// Counts of durations in buckets whose width grows with them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Histogram {
    counts: Box<[u32]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into(), total: 0 }
    }
}

impl Histogram {
    pub fn add(&mut self, duration: Duration) {
        self.counts[bucket(duration.as_nanos() as u64)] += 1;
        self.total += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
    }

    /// Nanoseconds that a share of the operations did not exceed, in proportion between a
    /// bucket's limits; zero if nothing was counted.
    fn quantile(&self, share: f64) -> f64 {
        let wanted = share * self.total as f64;
        let mut below = 0.0;
        for (index, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= wanted {
                let (low, high) = (floor(index) as f64, floor(index + 1) as f64);
                return low + (high - low) * (wanted - below) / count;
            }
            below += count;
        }
        0.0
    }
}

/// The bucket of so many nanoseconds.
fn bucket(nanoseconds: u64) -> usize {
    let power = nanoseconds.checked_ilog2().unwrap_or(0).saturating_sub(PART_BITS);
    // The leading bit stays, so that parts go on where those of the power before ended.
    let index = (power as usize) * PARTS + (nanoseconds >> power) as usize;
    index.min(BUCKETS - 1)
}

/// The least that falls into a bucket.
fn floor(bucket: usize) -> u64 {
    let power = (bucket / PARTS).saturating_sub(1);
    ((bucket - power * PARTS) as u64) << power
}

/// The percentiles in microseconds, with `figure`'s unit and tags. `blocks` are the operations in
/// the order in which they came. Neighbours are taken together until enough of them lie beyond a
/// percentile to speak of it, and each such group is a sample. One that too few operations could
/// tell is left out. `beside` are the samples that came of the same blocks.
pub(super) fn percentiles(
    blocks: &[Histogram],
    beside: &Samples,
    tagged: impl Fn(Figure) -> Figure,
) -> Vec<BenchmarkMetric> {
    let figures = PERCENTILES.iter().filter_map(|(name, share)| {
        let values = values(blocks, *share)?;
        let samples = Samples { values, ..beside.clone() };
        let figure = Figure::lower("latency", "us").tag(PERCENTILE, *name);
        Some(tagged(figure).of(&samples))
    });
    figures.collect()
}

fn values(blocks: &[Histogram], share: f64) -> Option<Vec<f64>> {
    let total: u64 = blocks.iter().map(|block| block.total).sum();
    if (total as f64) * (1.0 - share) < 1.0 {
        return None;
    }
    let wanted = (BEYOND / (1.0 - share)) as u64;
    let mut values = Vec::new();
    let mut group = Histogram::default();
    for block in blocks {
        group.merge(block);
        if group.total >= wanted {
            values.push(group.quantile(share) / 1e3);
            group = Histogram::default();
        }
    }
    if values.is_empty() {
        values.push(group.quantile(share) / 1e3);
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(nanoseconds: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        nanoseconds.into_iter().for_each(|n| histogram.add(Duration::from_nanos(n)));
        histogram
    }

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        for index in 0..BUCKETS - 1 {
            assert_eq!(bucket(floor(index)), index);
            assert_eq!(bucket(floor(index + 1) - 1), index);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_quantile_is_within_a_bucket_of_the_true_one() {
        let histogram = counted((1..=100_000).map(|n| n * 37));
        for share in [0.01, 0.5, 0.99, 0.999] {
            let (found, wanted) = (histogram.quantile(share), share * 3_700_000.0);
            assert!((found / wanted - 1.0).abs() < 0.016, "{share}: {found} for {wanted}");
        }
        assert_eq!(Histogram::default().quantile(0.5), 0.0);
    }

    #[test]
    fn a_percentile_needs_operations_beyond_it() {
        let names = |blocks: &[Histogram]| {
            let beside = Samples { dropped: 3, ..Samples::default() };
            let metrics = percentiles(blocks, &beside, |figure| figure.tag("depth", "1"));
            assert!(metrics.iter().all(|metric| metric.dropped == 3), "{metrics:?}");
            let told = |metric: BenchmarkMetric| (metric.tags[PERCENTILE].clone(), metric.samples);
            metrics.into_iter().map(told).collect::<Vec<_>>()
        };
        let told = |name: &str, samples| (name.to_owned(), samples);
        assert_eq!(names(&[]), []);
        // Two hundred tell the 99th percentile but not the 99.9th.
        let few = names(&[counted(0..100), counted(0..100)]);
        assert_eq!(few, [told("p50", 2), told("p99", 1)]);
        let many: Vec<_> = (0..40).map(|_| counted(0..500)).collect();
        let wanted = [told("p50", 40), told("p99", 20), told("p999", 2)];
        assert_eq!(names(&many), wanted);
    }

    #[test]
    fn percentiles_are_microseconds() {
        let metrics =
            percentiles(&[counted(vec![50_000; 100])], &Samples::default(), |figure| figure);
        assert!((metrics[0].value - 50.0).abs() < 0.5, "{}", metrics[0].value);
        assert_eq!((metrics[0].unit.as_str(), metrics[0].higher_is_better), ("us", false));
    }
}
