//! What is known of a part of two tensors, and how parts add up.

use super::formats::BLOCK;
use super::nonfinite::NonFinite;
use super::records::Records;

/// Parts of an octave in the histogram of errors: quantiles are exact to a sixteenth.
const PARTS_LOG2: u32 = 4;
/// The histogram's first slot for formats whose errors have the range of f32.
const NARROW_FIRST: u32 = (1023 - 150) << PARTS_LOG2;
/// From the smallest f32 error to the largest, with room for the modulus of complex ones.
const NARROW_SLOTS: usize = (150 + 132) << PARTS_LOG2;
const WIDE_SLOTS: usize = 2048 << PARTS_LOG2;
/// A distance of 64 bits has this many buckets.
pub(super) const BUCKETS: usize = 66;

/// Sums of squares of both sides' errors against the third side, and of the third side itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OracleSums {
    pub golden: f64,
    pub candidate: f64,
    pub oracle: f64,
    /// Elements where all three sides are finite.
    pub count: u64,
}

/// What is known of some elements; two of them add up to that of both.
#[derive(Clone, Debug)]
pub(super) struct Partial {
    pub count: u64,
    pub mismatches: u64,
    pub error: f64,
    pub error_squared: f64,
    pub golden_squared: f64,
    pub candidate_squared: f64,
    pub dot: f64,
    pub records: Records,
    pub nonfinite: NonFinite,
    pub oracle: OracleSums,
    pub buckets: [u64; BUCKETS],
    pub errors: Histogram,
}

/// Counts of errors by their size; slot 0 is for no error.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    first: u32,
    counts: Vec<u64>,
}

impl Histogram {
    fn new(wide: bool) -> Self {
        let (first, slots) = if wide { (0, WIDE_SLOTS) } else { (NARROW_FIRST, NARROW_SLOTS) };
        Self { first, counts: vec![0; slots] }
    }

    /// The slot of an error.
    #[inline(always)]
    pub fn slot(error: f64, wide: bool) -> u16 {
        let part = (error.to_bits() >> (52 - PARTS_LOG2)) as u32;
        part.saturating_sub(if wide { 0 } else { NARROW_FIRST }) as u16
    }

    /// The upper edge of a slot.
    fn edge(&self, slot: usize) -> f64 {
        let top = u64::from(self.first) + slot as u64 + 1;
        f64::from_bits(top << (52 - PARTS_LOG2)).min(f64::MAX)
    }
}

/// Counts of a chunk, before they are added up.
pub(super) struct Counters {
    /// Increased in turn, because a processor that increases the same counter twice in a row has
    /// to wait for the first to be stored. Their length is a power of two.
    slots: [Vec<u32>; TURNS],
    buckets: [u64; BUCKETS],
}

const TURNS: usize = 4;
/// Bytes that are counted at once.
const WIDTH: usize = 64;

impl Counters {
    pub fn new(wide: bool) -> Self {
        let slots = if wide { WIDE_SLOTS } else { NARROW_SLOTS };
        let slots = [(); TURNS].map(|()| vec![0; slots.next_power_of_two()]);
        Self { slots, buckets: [0; BUCKETS] }
    }

    #[inline(always)]
    pub fn count(&mut self, slots: &[u16; BLOCK], buckets: &[u8; BLOCK]) {
        let mask = self.slots[0].len() - 1;
        let [s0, s1, s2, s3] = &mut self.slots;
        // With these bounds no access needs a check.
        let (s0, s1) = (&mut s0[..=mask], &mut s1[..=mask]);
        let (s2, s3) = (&mut s2[..=mask], &mut s3[..=mask]);
        for [a, b, c, d] in slots.as_chunks::<TURNS>().0 {
            s0[usize::from(*a) & mask] += 1;
            s1[usize::from(*b) & mask] += 1;
            s2[usize::from(*c) & mask] += 1;
            s3[usize::from(*d) & mask] += 1;
        }
        self.count_buckets(buckets);
    }

    /// Few buckets occur in a block, so that comparing whole vectors with each of them is quicker
    /// than a counter per element.
    #[inline(always)]
    fn count_buckets(&mut self, buckets: &[u8; BLOCK]) {
        let rows = buckets.as_chunks::<WIDTH>().0;
        let mut last = [0u8; WIDTH];
        for row in rows {
            for l in 0..WIDTH {
                last[l] = last[l].max(row[l]);
            }
        }
        let last = last.into_iter().max().unwrap_or(0);
        for bucket in 0..=last {
            let mut equal = [0u8; WIDTH];
            for row in rows {
                for l in 0..WIDTH {
                    equal[l] += u8::from(row[l] == bucket);
                }
            }
            let equal: u32 = equal.iter().map(|count| u32::from(*count)).sum();
            self.buckets[usize::from(bucket)] += u64::from(equal);
        }
    }

    /// Adds up the turns; `blanks` elements were counted as equal and are not there.
    pub fn store(&self, partial: &mut Partial, blanks: u64) {
        for slots in &self.slots {
            for (sum, count) in partial.errors.counts.iter_mut().zip(slots) {
                *sum += u64::from(*count);
            }
        }
        partial.buckets = self.buckets;
        partial.errors.counts[0] -= blanks;
        partial.buckets[0] -= blanks;
    }
}

impl Partial {
    pub fn new(wide: bool) -> Self {
        Self {
            count: 0,
            mismatches: 0,
            error: 0.0,
            error_squared: 0.0,
            golden_squared: 0.0,
            candidate_squared: 0.0,
            dot: 0.0,
            records: Records::default(),
            nonfinite: NonFinite::default(),
            oracle: OracleSums::default(),
            buckets: [0; BUCKETS],
            errors: Histogram::new(wide),
        }
    }

    /// Adds the elements that follow these.
    pub fn append(&mut self, next: &Self) {
        self.count += next.count;
        self.mismatches += next.mismatches;
        self.error += next.error;
        self.error_squared += next.error_squared;
        self.golden_squared += next.golden_squared;
        self.candidate_squared += next.candidate_squared;
        self.dot += next.dot;
        self.records.append(&next.records);
        self.nonfinite.append(&next.nonfinite);
        self.oracle.golden += next.oracle.golden;
        self.oracle.candidate += next.oracle.candidate;
        self.oracle.oracle += next.oracle.oracle;
        self.oracle.count += next.oracle.count;
        for (sum, count) in self.buckets.iter_mut().zip(next.buckets) {
            *sum += count;
        }
        for (sum, count) in self.errors.counts.iter_mut().zip(&next.errors.counts) {
            *sum += count;
        }
    }

    /// Elements where both sides are finite.
    pub fn finite(&self) -> u64 {
        self.count - self.nonfinite.elements
    }

    /// The error that this share of the finite elements does not exceed, at most a sixteenth too
    /// large.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = (share * self.finite() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (slot, count) in self.errors.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let edge = if slot == 0 { 0.0 } else { self.errors.edge(slot) };
                return edge.min(self.records.error);
            }
        }
        self.records.error
    }
}
