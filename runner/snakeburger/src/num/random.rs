//! Counter-based random bits: Philox 4x32 and Threefry 2x32 (Salmon et al., "Parallel random
//! numbers: as easy as 1, 2, 3", SC 2011), with the rounds that XLA uses.

/// Ten rounds of Philox 4x32.
pub fn philox(counter: u128, key: u64) -> [u32; 4] {
    const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let mut x = [counter, counter >> 32, counter >> 64, counter >> 96].map(|word| word as u32);
    let mut key = [key as u32, (key >> 32) as u32];
    for _ in 0..10 {
        let [a, b] = [u64::from(x[0]) * MULTIPLIERS[0], u64::from(x[2]) * MULTIPLIERS[1]];
        let high = |product: u64| (product >> 32) as u32;
        x = [high(b) ^ x[1] ^ key[0], b as u32, high(a) ^ x[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    x
}

/// Twenty rounds of Threefry 2x32.
pub fn threefry(counter: u64, key: u64) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    const PARITY: u32 = 0x1BD1_1BDA;
    let key = [key as u32, (key >> 32) as u32];
    let schedule = [key[0], key[1], PARITY ^ key[0] ^ key[1]];
    let mut x = [counter as u32, (counter >> 32) as u32];
    x = [x[0].wrapping_add(schedule[0]), x[1].wrapping_add(schedule[1])];
    for group in 0..5usize {
        for rotation in ROTATIONS[group % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        let next = group as u32 + 1;
        x[0] = x[0].wrapping_add(schedule[(group + 1) % 3]);
        x[1] = x[1].wrapping_add(schedule[(group + 2) % 3]).wrapping_add(next);
    }
    x
}

/// Two 32-bit words as one of 64 bits, the first the low one.
pub fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with their implementation.
    #[test]
    fn known_answers() {
        assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox(u128::MAX, u64::MAX),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(threefry(0, 0), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry(u64::MAX, u64::MAX), [0x1cb9_96fc, 0xbb00_2be7]);
    }
}
