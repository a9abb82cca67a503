//! Long campaigns (kills, faults, fuzzing) run a sample of themselves in a plain
//! test run, another one for every commit, and all of themselves in a full one.
//! `cargo xtask test` sets the two variables; without them the seed is zero.

use std::env;

/// How much to do: `sample` in a plain run, `whole` with `--full`.
pub fn rounds(sample: usize, whole: usize) -> usize {
    if full() { whole } else { sample }
}

/// Whether this is a `--full` run.
pub fn full() -> bool {
    env::var_os("WARPFORGE_TEST_FULL").is_some_and(|full| full == "1")
}

/// Numbers for one campaign, the same for the same seed and name.
///
/// A failing test should print the seed, so that its moment can be found again.
pub fn numbers(campaign: &str) -> Numbers {
    Numbers { state: campaign.bytes().fold(seed(), |state, byte| mix(state ^ u64::from(byte))) }
}

/// The seed in force.
pub fn seed() -> u64 {
    let text = env::var("WARPFORGE_TEST_SEED").unwrap_or_else(|_| "0".into());
    text.parse().unwrap_or_else(|_| panic!("WARPFORGE_TEST_SEED={text:?} is not a whole number"))
}

/// A small generator (`SplitMix64`): enough to choose moments, not for statistics.
pub struct Numbers {
    state: u64,
}

impl Numbers {
    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state) % bound
    }
}

fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn campaigns_repeat_themselves_and_differ_from_each_other() {
        let draw = |name| {
            let mut numbers = numbers(name);
            [(); 8].map(|()| numbers.below(1 << 40))
        };
        assert_eq!(draw("kills"), draw("kills"));
        assert_ne!(draw("kills"), draw("faults"));
    }
}
