//! What is written, and whether what is read is that. Noise, which no device can compress, and in
//! every page its own place and a number, so that no two pages are alike and one that comes from
//! elsewhere is seen.

use std::ops::Range;

use thiserror::Error;

use super::order::mix;

/// The unit of a file's content; every block is a number of these.
pub(super) const PAGE: usize = 4096;
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A place that does not hold what was written there.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("at byte {offset} of the file: wanted {wanted:#018x}, found {found:#018x}")]
pub(super) struct Mismatch {
    offset: u64,
    wanted: u64,
    found: u64,
}

pub(super) trait Content {
    /// Makes a block what is to be written at an offset.
    fn fill(&mut self, offset: u64, block: &mut [u8]);

    /// Holds a block that was read at an offset against what was written there.
    fn check(&mut self, offset: u64, block: &[u8]) -> Result<(), Mismatch>;
}

/// For the measuring: the buffers' noise stays as it is, a page's first two words are its place
/// and a number. Of what is read only the first word is looked at, which costs next to nothing.
#[derive(Default)]
pub(super) struct Stamped {
    written: u64,
}

impl Content for Stamped {
    fn fill(&mut self, offset: u64, block: &mut [u8]) {
        for (index, page) in block.chunks_exact_mut(PAGE).enumerate() {
            self.written += 1;
            put(page, 0, offset + (index * PAGE) as u64);
            put(page, 1, self.written);
        }
    }

    fn check(&mut self, offset: u64, block: &[u8]) -> Result<(), Mismatch> {
        held(offset, offset, get(block, 0))
    }
}

/// For the load: every word follows from its place and the round it was written in.
#[derive(Default)]
pub(super) struct Whole {
    pub round: u64,
}

impl Whole {
    fn word(&self, page: u64, index: usize) -> u64 {
        match index {
            0 => page,
            1 => self.round,
            _ => {
                let seed = mix(page ^ self.round.rotate_left(40));
                let word = seed.wrapping_add(STEP.wrapping_mul(index as u64));
                (word ^ (word >> 29)).wrapping_mul(STEP)
            }
        }
    }
}

impl Content for Whole {
    fn fill(&mut self, offset: u64, block: &mut [u8]) {
        for (place, page) in pages(offset, block.len()).zip(block.chunks_exact_mut(PAGE)) {
            for index in 0..PAGE / 8 {
                put(page, index, self.word(place, index));
            }
        }
    }

    fn check(&mut self, offset: u64, block: &[u8]) -> Result<(), Mismatch> {
        for (place, page) in pages(offset, block.len()).zip(block.chunks_exact(PAGE)) {
            for index in 0..PAGE / 8 {
                held(place + 8 * index as u64, self.word(place, index), get(page, index))?;
            }
        }
        Ok(())
    }
}

/// Noise for a buffer that keeps it.
pub(super) fn noise(bytes: &mut [u8]) {
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&mix(STEP.wrapping_mul(index as u64 + 1)).to_le_bytes());
    }
}

fn pages(offset: u64, length: usize) -> std::iter::StepBy<Range<u64>> {
    (offset..offset + length as u64).step_by(PAGE)
}

fn held(offset: u64, wanted: u64, found: u64) -> Result<(), Mismatch> {
    if wanted == found { Ok(()) } else { Err(Mismatch { offset, wanted, found }) }
}

fn put(page: &mut [u8], index: usize, word: u64) {
    page[8 * index..8 * index + 8].copy_from_slice(&word.to_le_bytes());
}

fn get(page: &[u8], index: usize) -> u64 {
    let bytes = page[8 * index..8 * index + 8].try_into();
    u64::from_le_bytes(bytes.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_what_was_written_at_its_place() {
        let mut block = vec![0; 4 * PAGE];
        let mut content = Whole { round: 3 };
        content.fill(8192, &mut block);
        assert_eq!(content.check(8192, &block), Ok(()));
        let moved = content.check(16384, &block).unwrap_err();
        assert_eq!(moved, Mismatch { offset: 16384, wanted: 16384, found: 8192 });
        content.round = 4;
        let stale = content.check(8192, &block).unwrap_err();
        assert_eq!(stale, Mismatch { offset: 8200, wanted: 4, found: 3 });
    }

    #[test]
    fn one_bit_is_found_and_its_place_told() {
        let mut block = vec![0; 2 * PAGE];
        let mut content = Whole::default();
        content.fill(0, &mut block);
        block[PAGE + 803] ^= 0x10;
        let fault = content.check(0, &block).unwrap_err();
        assert_eq!(fault.offset, (PAGE + 800) as u64);
        assert_eq!(fault.wanted ^ fault.found, 0x10 << 24);
        let text = fault.to_string();
        assert!(text.starts_with("at byte 4896 of the file: wanted 0x"), "{text}");
    }

    #[test]
    fn a_stamp_tells_pages_and_writings_apart() {
        let mut block = vec![0; 2 * PAGE];
        let mut content = Stamped::default();
        content.fill(0, &mut block);
        let first = block.clone();
        content.fill(0, &mut block);
        assert_ne!(first, block);
        assert_ne!(block[..PAGE], block[PAGE..]);
        assert_eq!(content.check(0, &block), Ok(()));
        assert!(content.check(4096, &block).is_err());
    }

    #[test]
    fn noise_has_no_two_like_words() {
        let mut bytes = vec![0; 1 << 16];
        noise(&mut bytes);
        let words: std::collections::BTreeSet<_> = bytes.chunks_exact(8).collect();
        assert_eq!(words.len(), 1 << 13);
        let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        assert!((f64::from(ones) / (8.0 * 65536.0) - 0.5).abs() < 0.01, "{ones} bits are set");
    }
}
