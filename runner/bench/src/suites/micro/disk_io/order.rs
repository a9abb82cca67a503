//! Which block comes next. Random order is a permutation of all blocks, so that every pass over
//! the file touches each of them once and nothing is served twice from some cache.

/// A fixed seed: every run asks for the same blocks in the same order.
const SEED: u64 = 0x5741_5250_4449_534B;
const ROUNDS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Sequential,
    Random,
}

impl Order {
    /// The block of the operation with this number, of a file of `blocks` blocks.
    pub fn block(self, number: u64, blocks: u64) -> u64 {
        let (pass, index) = (number / blocks, number % blocks);
        match self {
            Self::Sequential => index,
            Self::Random => permuted(index, blocks, mix(SEED ^ pass)),
        }
    }
}

/// Scatters the bits of a number over all of its 64.
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Where a permutation of `0..count` puts `index`: a Feistel network over the next even number of
/// bits, repeated while it leads outside.
fn permuted(index: u64, count: u64, key: u64) -> u64 {
    let bits = u64::BITS - (count - 1).leading_zeros();
    let half = bits.div_ceil(2).max(1);
    let mut place = index;
    loop {
        place = scrambled(place, half, key);
        if place < count {
            return place;
        }
    }
}

fn scrambled(number: u64, half: u32, key: u64) -> u64 {
    let mask = (1 << half) - 1;
    let (mut left, mut right) = (number >> half, number & mask);
    for round in 0..ROUNDS {
        (left, right) = (right, left ^ (mix(right ^ key.rotate_left(round as u32 * 16)) & mask));
    }
    left << half | right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_touches_every_block_once() {
        for blocks in [1, 2, 3, 255, 256, 257, 4096, 5000] {
            for pass in [0, 1, 77] {
                let numbers = pass * blocks..(pass + 1) * blocks;
                let mut seen: Vec<_> = numbers.map(|n| Order::Random.block(n, blocks)).collect();
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..blocks), "{blocks} blocks, pass {pass}");
            }
        }
    }

    #[test]
    fn passes_differ_and_runs_do_not() {
        let pass = |pass: u64| -> Vec<_> {
            (0..1000).map(|n| Order::Random.block(pass * 1000 + n, 1000)).collect()
        };
        assert_ne!(pass(0), pass(1));
        assert_eq!(pass(0), pass(0));
        let neighbours = pass(0).windows(2).filter(|w| w[0].abs_diff(w[1]) == 1).count();
        assert!(neighbours < 20, "{neighbours} of 1000 blocks follow a neighbour");
    }

    #[test]
    fn in_order_means_in_order_and_round_again() {
        let blocks: Vec<_> = (0..7).map(|n| Order::Sequential.block(n, 3)).collect();
        assert_eq!(blocks, [0, 1, 2, 0, 1, 2, 0]);
    }
}
