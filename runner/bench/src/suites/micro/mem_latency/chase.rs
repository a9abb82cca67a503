//! A walk through memory in which every step waits for the one before.

#![expect(unsafe_code, reason = "the addresses in the buffer are followed without a check")]

use crate::suites::micro::buffer::Buffer;

/// Bytes of a line; each holds one address.
pub const LINE: usize = 64;
const WORDS: usize = LINE / size_of::<u64>();
/// Steps that are written out; walks are of a multiple of them.
pub const UNROLLED: u64 = 16;

/// Lines of which each holds the address of another, all of them in one circle in random order.
pub struct Circle<'a> {
    buffer: &'a mut Buffer,
    lines: usize,
}

impl<'a> Circle<'a> {
    /// Over the first `bytes` of the buffer.
    pub fn new(buffer: &'a mut Buffer, bytes: usize) -> Self {
        let lines = bytes / LINE;
        let start = buffer.words().as_ptr().addr() as u64;
        let words = &mut buffer.words()[..lines * WORDS];
        for line in 0..lines {
            words[line * WORDS] = line as u64;
        }
        // Sattolo's shuffle: swapping only with earlier ones leaves a single circle.
        let mut random = Random(0x5eed);
        for line in (1..lines).rev() {
            words.swap(line * WORDS, random.below(line as u64) as usize * WORDS);
        }
        for line in 0..lines {
            words[line * WORDS] = start + words[line * WORDS] * LINE as u64;
        }
        Self { buffer, lines }
    }

    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Whether as many steps as there are lines lead back, and not half as many.
    pub fn is_whole(&mut self) -> bool {
        let half = self.lines / 2;
        let start = self.start();
        let middle = follow(start, half);
        middle != start && follow(middle, self.lines - half) == start
    }

    /// So many steps, rounded up to a multiple of [`UNROLLED`], from the first line.
    pub fn walk(&mut self, steps: u64) -> usize {
        let start = self.start();
        walk(start, steps.div_ceil(UNROLLED)).addr()
    }

    fn start(&mut self) -> *const u64 {
        let words = self.buffer.words();
        // The addresses in the lines were made from this pointer and are turned back into it.
        std::ptr::with_exposed_provenance(words.as_mut_ptr().expose_provenance())
    }
}

fn follow(start: *const u64, steps: usize) -> *const u64 {
    (0..steps).fold(start, |at, _| next(at))
}

fn walk(start: *const u64, turns: u64) -> *const u64 {
    let mut at = start;
    for _ in 0..turns {
        at = next(next(next(next(at))));
        at = next(next(next(next(at))));
        at = next(next(next(next(at))));
        at = next(next(next(next(at))));
    }
    at
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "a call would be a part of what is timed")]
fn next(at: *const u64) -> *const u64 {
    // SAFETY: `at` is the start of a line of a circle that is borrowed mutably, and a line holds
    // the address of another one of the same buffer, whose provenance was exposed by `start`.
    std::ptr::with_exposed_provenance(unsafe { at.read() } as usize)
}

/// Numbers without a pattern (`SplitMix64`); the circle is the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_circle_through_all_lines() {
        for bytes in [2 * LINE, 4096, 100 * LINE] {
            let mut buffer = Buffer::new(8192).unwrap();
            let mut circle = Circle::new(&mut buffer, bytes);
            assert_eq!(circle.lines(), bytes / LINE);
            assert!(circle.is_whole());
            let start = circle.start();
            let visited: std::collections::BTreeSet<_> =
                (0..circle.lines()).map(|steps| follow(start, steps).addr()).collect();
            assert_eq!(visited.len(), circle.lines());
            assert_eq!(circle.walk(33), follow(start, 48).addr());
        }
    }

    #[test]
    fn two_circles_are_not_one() {
        let mut buffer = Buffer::new(4096).unwrap();
        let mut circle = Circle::new(&mut buffer, 4096);
        let start = circle.start().addr() as u64;
        for line in 0..64 {
            circle.buffer.words()[line * WORDS] = start + ((line as u64 + 2) % 64) * LINE as u64;
        }
        assert!(!circle.is_whole());
    }
}
