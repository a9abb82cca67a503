//! Elements that are NaN or infinite on a side: counted, and taken out of everything else.

use super::formats::Block;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NonFinite {
    /// Elements where at least one side is not finite.
    pub elements: u64,
    /// Of those, elements where both sides have the same: NaN, +∞ or −∞.
    pub same: u64,
    pub golden_nan: u64,
    pub golden_infinite: u64,
    pub candidate_nan: u64,
    pub candidate_infinite: u64,
    /// The first element where the sides do not have the same.
    pub different_at: Option<u64>,
    /// The first element where they do.
    pub same_at: Option<u64>,
}

impl NonFinite {
    /// Counts the elements of a block and blanks them; says how many there were.
    #[cold]
    #[inline(never)]
    pub fn take(&mut self, block: &mut Block, length: usize, first: u64) -> usize {
        let before = self.elements;
        for i in 0..length {
            let (golden, candidate) = (block.golden[i], block.candidate[i]);
            if golden.is_finite() && candidate.is_finite() {
                // A difference too large for f64 is still an error, and still finite.
                block.error[i] = block.error[i].min(f64::MAX);
                continue;
            }
            self.elements += 1;
            self.golden_nan += u64::from(golden.is_nan());
            self.golden_infinite += u64::from(golden.is_infinite());
            self.candidate_nan += u64::from(candidate.is_nan());
            self.candidate_infinite += u64::from(candidate.is_infinite());
            // The modulus of a complex infinity hides its direction; the distance does not.
            let equal = golden == candidate && block.bucket[i] == 0;
            let same = equal || (golden.is_nan() && candidate.is_nan());
            self.same += u64::from(same);
            let place = if same { &mut self.same_at } else { &mut self.different_at };
            place.get_or_insert(first + i as u64);
            block.blank(i);
        }
        (self.elements - before) as usize
    }

    pub fn append(&mut self, next: &Self) {
        self.elements += next.elements;
        self.same += next.same;
        self.golden_nan += next.golden_nan;
        self.golden_infinite += next.golden_infinite;
        self.candidate_nan += next.candidate_nan;
        self.candidate_infinite += next.candidate_infinite;
        self.different_at = self.different_at.or(next.different_at);
        self.same_at = self.same_at.or(next.same_at);
    }
}
