//! Randomness that both passes draw alike: Philox 4x32-10, a generator without state.
//!
//! A number is a function of the seed, the step, the call's ordinal and the element's index, so
//! it does not depend on how many threads or workers there are, nor on what was drawn before.
//! Elements `4k` to `4k + 3` of a call are the four words of one block.
//!
//! Dropout between the layers of a recurrent network is one draw for all of them, of the shape
//! `[layers - 1, time, batch, features]`.

/// The 128 random bits of one counter value.
pub fn block(key: u64, counter: [u32; 4]) -> [u32; 4] {
    const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let mut key = [key as u32, (key >> 32) as u32];
    let mut state = counter;
    for _ in 0..10 {
        let product = |i: usize, word: u32| u64::from(MULTIPLIERS[i]) * u64::from(word);
        let (a, b) = (product(0, state[0]), product(1, state[2]));
        state = [
            (b >> 32) as u32 ^ state[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ state[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(STEPS[0]), key[1].wrapping_add(STEPS[1])];
    }
    state
}

/// Where a call's random numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    pub seed: u64,
    pub step: u32,
    pub ordinal: u32,
}

impl Stream {
    /// The upper half of the counter: what tells this call's numbers from another's.
    pub fn high(self) -> u64 {
        u64::from(self.step) << 32 | u64::from(self.ordinal)
    }

    /// Thirty-two random bits for one element.
    pub fn bits(self, index: u64) -> u32 {
        self.block(index / 4)[(index % 4) as usize]
    }

    fn block(self, low: u64) -> [u32; 4] {
        let high = self.high();
        block(self.seed, [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32])
    }

    /// A number from 0 to below 1, a multiple of 2^-24: exact in float32.
    pub fn uniform(self, index: u64) -> f64 {
        f64::from(self.bits(index) >> 8) * (1.0 / 16_777_216.0)
    }

    /// A number of the standard normal distribution, by Box and Muller's method from the two
    /// elements of a pair.
    pub fn normal(self, index: u64) -> f64 {
        let (even, odd) = (index & !1, index | 1);
        // Shifted into (0, 1], where the logarithm is finite.
        let u = self.uniform(even) + 1.0 / 16_777_216.0;
        let angle = std::f64::consts::TAU * self.uniform(odd);
        let radius = (-2.0 * u.ln()).sqrt();
        if index.is_multiple_of(2) { radius * angle.cos() } else { radius * angle.sin() }
    }

    /// An integer from `low` to below `high`; the range is at most 32 bits wide.
    pub fn integer(self, index: u64, low: i64, high: i64) -> i64 {
        low + i64::from(self.bits(index)) % high.saturating_sub(low).max(1)
    }

    /// A number of the exponential distribution with rate 1.
    pub fn exponential(self, index: u64) -> f64 {
        // Shifted into (0, 1], where the logarithm is finite.
        -(self.uniform(index) + 1.0 / 16_777_216.0).ln()
    }

    /// The numbers below `n` in random order: sorted by their bits, of equal ones the first first.
    pub fn permutation(self, n: u64) -> Vec<u64> {
        let mut order: Vec<u64> = (0..n).collect();
        order.sort_by_key(|index| self.bits(*index));
        order
    }

    /// Whether dropout with probability `p` keeps an element.
    pub fn keeps(self, index: u64, p: f64) -> bool {
        self.uniform(index) >= p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published known answers of Philox 4x32-10.
    #[test]
    fn known_answers() {
        assert_eq!(block(0, [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        let ones = u32::MAX;
        assert_eq!(
            block(u64::MAX, [ones; 4]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            block(0x299f_31d0_a409_3822, [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn moments_of_the_normal_numbers() {
        let stream = Stream { seed: 7, step: 1, ordinal: 3 };
        let n = 100_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for i in 0..n {
            let x = stream.normal(i);
            sum += x;
            squares += x * x;
        }
        let n = n as f64;
        assert!((sum / n).abs() < 0.02, "mean {}", sum / n);
        assert!((squares / n - 1.0).abs() < 0.02, "variance {}", squares / n);
    }
    #[test]
    fn integers_stay_in_range_and_orders_hold_every_number() {
        let stream = Stream { seed: 7, step: 1, ordinal: 3 };
        assert!((0..1000).all(|i| (-3..4).contains(&stream.integer(i, -3, 4))));
        assert!((0..1000).all(|i| stream.exponential(i) >= 0.0));
        let mut order = stream.permutation(100);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
