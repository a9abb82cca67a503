//! Medians with intervals that ask nothing of a distribution's shape. Timings are skewed and
//! follow one another in their disturbances; both are allowed for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The confidence of every [`Interval`] that is made here.
pub const CONFIDENCE: f64 = 0.95;
/// The standard normal quantile that belongs to it.
const Z95: f64 = 1.959_964;

/// Where a median lies, with a stated confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    /// Between 0 and 1.
    pub confidence: f64,
}

impl Interval {
    /// Half its width as a share of `middle`.
    pub fn relative(&self, middle: f64) -> f64 {
        if middle == 0.0 { f64::INFINITY } else { (self.high - self.low) / 2.0 / middle.abs() }
    }
}

/// The middle of the values; zero if there are none.
pub fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// The value below which a share of the others lies, between neighbours in proportion. The values
/// are in order.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    let part = place - below as f64;
    sorted[below] + (sorted[above] - sorted[below]) * part
}

/// The values in order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median's interval by order statistics: as many values from both ends as a fair coin leaves
/// out with the stated confidence. Samples that resemble their predecessors count for fewer.
/// None for fewer than six, of which even the extremes do not reach 95 %.
pub fn interval(values: &[f64]) -> Option<Interval> {
    let n = values.len();
    if values.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let cut = left_out(n)?;
    let inner = n as f64 / 2.0 - cut as f64;
    let widened = inner * (n as f64 / effective(values)).sqrt();
    let cut = (n as f64 / 2.0 - widened).max(0.0) as usize;
    let sorted = sorted(values);
    Some(Interval { low: sorted[cut], high: sorted[n - 1 - cut], confidence: CONFIDENCE })
}

/// The greatest `k` with 2·P(Bin(n, ½) < k + 1) ≤ 5 %: so many lie outside at each end.
fn left_out(n: usize) -> Option<usize> {
    const EXACT: usize = 256;
    if n > EXACT {
        let half = n as f64 / 2.0;
        return Some((half - Z95 * (n as f64).sqrt() / 2.0).floor() as usize - 1);
    }
    let (mut probability, mut below) = (0.5_f64.powi(n as i32), 0.0);
    let mut kept = None;
    for k in 0..n / 2 {
        below += probability;
        if 2.0 * below > 1.0 - CONFIDENCE {
            break;
        }
        kept = Some(k);
        probability *= (n - k) as f64 / (k + 1) as f64;
    }
    kept
}

/// How many independent samples tell as much: fewer, by the correlation of neighbours.
fn effective(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    let product: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    // What chance alone makes of independent samples is not held against them.
    let chance = 2.0 / n.sqrt();
    let likeness = if square > 0.0 { product / square } else { 0.0 };
    let likeness = if likeness > chance { likeness.min(0.95) } else { 0.0 };
    n * (1.0 - likeness) / (1.0 + likeness)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::Noise;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let values = [1.0, 2.0, 4.0, 8.0];
        let at = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&values, share));
        assert_eq!(at, [1.0, 1.75, 3.0, 5.0, 8.0]);
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn as_many_are_left_out_as_the_tables_say() {
        // Tables of the sign test at 5 % on both sides have one more, since they count from 1.
        let expected = [(5, None), (6, Some(0)), (9, Some(1)), (20, Some(5)), (50, Some(17))];
        for (n, kept) in expected {
            assert_eq!(left_out(n), kept, "{n} samples");
        }
        // Where the formula takes over it agrees with the sum.
        assert!(left_out(257).unwrap().abs_diff(left_out(256).unwrap()) <= 1);
    }

    #[test]
    fn too_few_or_broken_samples_have_no_interval() {
        assert_eq!(interval(&[1.0; 5]), None);
        assert_eq!(interval(&[1.0, 1.0, 1.0, 1.0, 1.0, f64::NAN]), None);
        let all_alike = interval(&[2.0; 6]).unwrap();
        assert_eq!((all_alike.low, all_alike.high), (2.0, 2.0));
    }

    /// How often of 1000 the interval holds the true median.
    fn coverage(n: usize, truth: f64, mut draw: impl FnMut(&mut Noise) -> f64) -> usize {
        let mut noise = Noise::new(n as u64);
        let holds = |_: &usize| {
            let values: Vec<f64> = (0..n).map(|_| draw(&mut noise)).collect();
            interval(&values).is_some_and(|i| i.low <= truth && truth <= i.high)
        };
        (0..1000).filter(holds).count()
    }

    #[test]
    fn the_interval_holds_the_median_of_any_shape() {
        for n in [6, 15, 40, 300] {
            assert!(coverage(n, 0.0, Noise::normal) >= 935, "normal, {n}");
            assert!(coverage(n, 1.0, |noise| noise.normal().exp()) >= 935, "log-normal, {n}");
            let exponential = |noise: &mut Noise| -noise.uniform().ln();
            assert!(coverage(n, 2.0_f64.ln(), exponential) >= 935, "exponential, {n}");
        }
    }

    #[test]
    fn samples_that_resemble_their_predecessors_count_for_fewer() {
        let mut last = 0.0;
        let held = coverage(200, 0.0, |noise| {
            last = 0.7 * last + noise.normal();
            last
        });
        // Taken as independent, they would hold it in about six of ten cases.
        assert!(held >= 900, "{held} of 1000");
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_samples_median_and_moves_with_them(
            values in prop::collection::vec(0.1..1e6_f64, 6..200),
            factor in 0.01..100.0_f64,
        ) {
            let middle = median(&values);
            let found = interval(&values).unwrap();
            prop_assert!(found.low <= middle && middle <= found.high);
            let scaled: Vec<f64> = values.iter().map(|x| x * factor).collect();
            let moved = interval(&scaled).unwrap();
            prop_assert!((moved.low / factor / found.low - 1.0).abs() < 1e-9);
            prop_assert!((moved.high / factor / found.high - 1.0).abs() < 1e-9);
        }
    }
}
