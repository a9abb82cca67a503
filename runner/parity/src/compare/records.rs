//! Extremes of a comparison and where they lie. They are updated seldom (a new record among
//! many elements is rare), so this is plain code: the hot loop only asks whether to come here.

use super::formats::Block;
use super::kernel::Limits;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Records {
    /// The largest |candidate − golden|, and its place.
    pub error: f64,
    pub error_at: u64,
    /// The largest error as a multiple of what the tolerance allows there, and its place.
    pub used: f64,
    pub used_at: u64,
    /// The largest error as a multiple of |golden|, where golden is not zero.
    pub relative: f64,
    /// The smallest rtol that passes with the given atol; infinite if none does.
    pub rtol: f64,
    /// The smallest atol that passes with the given rtol.
    pub atol: f64,
}

/// Records as the hot loop asks for them: an element beats one if its error is larger than the
/// smallest bound. A record that nothing can beat has no bound.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    error: f64,
    used: (f64, f64),
    relative: f64,
    rtol: (f64, f64),
    atol: f64,
}

impl Bounds {
    #[inline(always)]
    pub fn beaten(self, error: f64, size: f64, limit: f64, limits: Limits) -> bool {
        // If the first is NaN (0 · ∞), the second counts.
        let least = |a: f64, b: f64| if a < b { a } else { b };
        let of_nonzero = if size > 0.0 { size } else { f64::INFINITY };
        let bound = least(self.used.0 + self.used.1 * limit, self.error);
        let bound = least(self.relative * of_nonzero, bound);
        let bound = least(self.rtol.0 + self.rtol.1 * size, bound);
        let bound = least(self.atol + limits.rtol * size, bound);
        error > bound
    }
}

impl Records {
    /// The bounds are the very expressions of [`Records::take`], so that nothing slips between.
    pub fn bounds(&self, limits: Limits) -> Bounds {
        let unbeatable = (f64::INFINITY, 0.0);
        let used = if self.used.is_finite() { (0.0, self.used) } else { unbeatable };
        let rtol = if self.rtol.is_finite() { (limits.atol, self.rtol) } else { unbeatable };
        Bounds { error: self.error, used, relative: self.relative, rtol, atol: self.atol }
    }

    /// Looks at every element of the block, whose first one has the number `first`.
    #[cold]
    #[inline(never)]
    pub fn take(&mut self, block: &Block, first: u64, limits: Limits) {
        let Limits { rtol, atol } = limits;
        for (i, (error, golden)) in block.error.iter().zip(&block.golden).enumerate() {
            let (error, size) = (*error, golden.abs());
            let share = rtol * size;
            let limit = atol + share;
            if error > self.error {
                (self.error, self.error_at) = (error, first + i as u64);
            }
            if error > self.used * limit {
                (self.used, self.used_at) = (error / limit, first + i as u64);
            }
            if error > self.relative * size && size > 0.0 {
                self.relative = error / size;
            }
            if error > atol + self.rtol * size {
                let start = (error - atol) / size;
                self.rtol = raise(start, |least| error > atol + least * size);
            }
            if error > self.atol + share {
                self.atol = raise(error - share, |least| error > least + share);
            }
        }
    }

    /// Adds the records of elements that follow; of equal ones the first counts.
    pub fn append(&mut self, next: &Self) {
        if next.error > self.error {
            (self.error, self.error_at) = (next.error, next.error_at);
        }
        if next.used > self.used {
            (self.used, self.used_at) = (next.used, next.used_at);
        }
        self.relative = self.relative.max(next.relative);
        self.rtol = self.rtol.max(next.rtol);
        self.atol = self.atol.max(next.atol);
    }
}

/// The quotient or difference is rounded, so that the test it was made for may still fail by a
/// bit; a few steps up cure that, and the answer passes as promised.
fn raise(start: f64, fails: impl Fn(f64) -> bool) -> f64 {
    let mut least = start;
    for _ in 0..16 {
        if !fails(least) {
            break;
        }
        least = least.next_up();
    }
    least
}
