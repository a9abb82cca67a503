//! Changes that keep a text close to a program: whole tokens instead of single bytes.

/// Gives the target a mutator: tokens are changed mostly, bytes now and then.
macro_rules! tokens {
    () => {
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            let mut state = u64::from(seed);
            // `SplitMix64`.
            let mut below = |bound: u64| {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mix = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mix = (mix ^ (mix >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (mix ^ (mix >> 31)) % bound
            };
            match std::str::from_utf8(&data[..size]) {
                Ok(text) if below(8) != 0 => {
                    let mut text = text.to_owned();
                    for _ in 0..=below(3) {
                        text = support::mutate(&mut below, &text);
                    }
                    let size = text.len().min(max_size);
                    data[..size].copy_from_slice(&text.as_bytes()[..size]);
                    size
                }
                _ => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
            }
        });
    };
}

pub(crate) use tokens;
