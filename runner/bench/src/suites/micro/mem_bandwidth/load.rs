//! Memory as a load: half of what is free, in windows larger than the caches. Each is filled with
//! one pattern after another, and a pattern is read back when the whole window has been written.

use std::time::{Duration, Instant};

use crate::load::{Load, Round};
use crate::suite::{Context, Unable};
use crate::suites::micro::buffer::{Buffer, budget, last_level};
use crate::suites::micro::threads::{of, together};

const ROUND: Duration = Duration::from_millis(500);
/// Words that are handled between two looks at the time.
const CHUNK: usize = 1 << 18;
/// All windows together are so many times the last-level caches.
const TIMES: usize = 4;
/// In words.
const SMALLEST_WINDOW: usize = 8 << 20;

pub fn load() -> Box<dyn Load> {
    Box::new(RamLoad::default())
}

#[derive(Default)]
struct RamLoad {
    cpus: Vec<usize>,
    parts: Vec<Part>,
}

/// One thread's memory. The words of the window before `at` hold the pattern of this pass, those
/// after it that of the pass before.
struct Part {
    buffer: Buffer,
    words: usize,
    /// The window's length, and where it begins.
    window: usize,
    start: usize,
    pass: u64,
    at: usize,
}

/// How many words were read back and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    read: u64,
    written: u64,
}

/// A word that is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    offset: u64,
    wanted: u64,
    found: u64,
}

/// What words hold in a pass: (seed rotated by what `turn` leaves of index and pass, plus the
/// index times `step`) exclusive-or `flip`.
struct Pattern {
    seed: u64,
    turn: u64,
    step: u64,
    flip: u64,
}

const HALVES: u64 = 0x5555_5555_5555_5555;
/// Odd, so that no two indices give the same.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// In one pass or another each bit is one and zero, and differs from its neighbours and from its
/// past; the last two tell every address from every other.
const PATTERNS: [Pattern; 6] = [
    Pattern { seed: HALVES, turn: 0, step: 0, flip: 0 },
    Pattern { seed: HALVES, turn: 0, step: 0, flip: u64::MAX },
    Pattern { seed: 1, turn: 63, step: 0, flip: 0 },
    Pattern { seed: 1, turn: 63, step: 0, flip: u64::MAX },
    Pattern { seed: 0, turn: 0, step: STRIDE, flip: 0 },
    Pattern { seed: 0, turn: 0, step: STRIDE, flip: u64::MAX },
];

impl Pattern {
    /// None for the pass after the last.
    fn of(pass: u64) -> Option<&'static Self> {
        PATTERNS.get(pass as usize)
    }

    fn word(&self, index: u64, pass: u64) -> u64 {
        let turned = self.seed.rotate_left(((index + pass) & self.turn) as u32);
        turned.wrapping_add(index.wrapping_mul(self.step)) ^ self.flip
    }
}

impl Part {
    fn new(words: usize, window: usize) -> Result<Self, Unable> {
        let buffer = Buffer::new(words * size_of::<u64>())?;
        Ok(Self { buffer, words, window, start: 0, pass: 0, at: 0 })
    }

    /// Goes on for about `time`.
    fn work(&mut self, time: Duration) -> Result<Done, Fault> {
        let begun = Instant::now();
        let mut done = Done::default();
        while begun.elapsed() < time {
            let chunk = self.chunk()?;
            done.read += chunk.read;
            done.written += chunk.written;
        }
        Ok(done)
    }

    /// Reads what the last pass wrote, if this is not the first, and writes this one's, if there
    /// is one.
    fn chunk(&mut self) -> Result<Done, Fault> {
        let pass = self.pass;
        let limit = (self.start + self.window).min(self.words);
        let end = (self.at + CHUNK).min(limit);
        let chunk = &mut self.buffer.words()[self.at..end];
        let first = self.at as u64;
        let mut done = Done::default();
        if let Some(last) = pass.checked_sub(1) {
            compare(chunk, first, last)?;
            done.read = chunk.len() as u64;
        }
        if let Some(new) = Pattern::of(pass) {
            done.written = chunk.len() as u64;
            for (index, word) in (first..).zip(chunk) {
                *word = new.word(index, pass);
            }
        }
        self.advance(end, limit);
        Ok(done)
    }

    fn advance(&mut self, end: usize, limit: usize) {
        self.at = end;
        if end < limit {
            return;
        }
        self.pass += 1;
        if self.pass > PATTERNS.len() as u64 {
            self.pass = 0;
            self.start = if limit == self.words { 0 } else { limit };
        }
        self.at = self.start;
    }
}

fn compare(words: &[u64], first: u64, pass: u64) -> Result<(), Fault> {
    let Some(pattern) = Pattern::of(pass) else { return Ok(()) };
    let wrong = (first..).zip(words).find(|&(index, &found)| found != pattern.word(index, pass));
    wrong.map_or(Ok(()), |(index, &found)| {
        Err(Fault { offset: index * 8, wanted: pattern.word(index, pass), found })
    })
}

impl Load for RamLoad {
    fn unit(&self) -> &'static str {
        "B"
    }

    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        self.cpus = of(cx);
        let cores = self.cpus.len();
        let cache = last_level(&cx.system.cpu.caches).map_or(0, |(size, count)| size * count);
        let words = budget(cx.system) as usize / 8 / cores;
        let window = (TIMES * cache as usize / 8 / cores).max(SMALLEST_WINDOW);
        // Untouched: each page lands near the thread that fills it in its first pass.
        self.parts =
            self.cpus.iter().map(|_| Part::new(words, window)).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn round(&mut self, cx: &Context<'_>) -> Result<Round, Unable> {
        cx.check()?;
        let done = together(&self.cpus, &mut self.parts, |part| part.work(ROUND))?.results;
        let mut round = Round { amount: 0.0, checks: 0 };
        for (cpu, done) in self.cpus.iter().zip(done) {
            let done = done.map_err(|Fault { offset, wanted, found }| {
                Unable::Wrong(format!(
                    "memory of the thread on CPU {cpu}, offset {offset:#x}: wanted {wanted:#018x}, \
                     found {found:#018x}"
                ))
            })?;
            round.checks += done.read;
            round.amount += ((done.read + done.written) * 8) as f64;
        }
        Ok(round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many chunks' reads and writes.
    fn done(part: &mut Part, chunks: usize) -> Vec<(u64, u64)> {
        let done = |_| part.chunk().map(|done| (done.read, done.written)).unwrap();
        (0..chunks).map(done).collect()
    }

    #[test]
    fn a_window_holds_every_pattern_and_then_the_next_one_does() {
        let mut part = Part::new(1500, 1000).unwrap();
        let through = |words| {
            let mut passes = vec![(words, words); PATTERNS.len() + 1];
            passes[0].0 = 0;
            passes[PATTERNS.len()].1 = 0;
            passes
        };
        for words in [1000, 500, 1000, 500] {
            assert_eq!(done(&mut part, PATTERNS.len() + 1), through(words));
        }
        assert_eq!((part.start, part.pass, part.at), (0, 0, 0));
    }

    #[test]
    fn a_window_is_gone_through_chunk_by_chunk() {
        let chunk = CHUNK as u64;
        let mut part = Part::new(CHUNK + 5, CHUNK + 5).unwrap();
        assert_eq!(done(&mut part, 3), [(0, chunk), (0, 5), (chunk, chunk)]);
    }

    #[test]
    fn a_flipped_bit_is_found_where_it_is() {
        let mut part = Part::new(1000, 1000).unwrap();
        for (pass, pattern) in (0..).zip(&PATTERNS) {
            part.chunk().unwrap();
            part.buffer.words()[617] ^= 1 << 40;
            let wanted = pattern.word(617, pass);
            let fault = Fault { offset: 617 * 8, wanted, found: wanted ^ (1 << 40) };
            assert_eq!(part.chunk(), Err(fault));
            part.buffer.words()[617] ^= 1 << 40;
        }
    }

    #[test]
    fn every_bit_is_both_and_every_address_differs() {
        let words = |pass: u64| (0..256).map(move |i| PATTERNS[pass as usize].word(i, pass));
        let passes = 0..PATTERNS.len() as u64;
        let ones = passes.clone().flat_map(words).fold(0, |all, word| all | word);
        let zeros = passes.clone().flat_map(words).fold(0, |all, word| all | !word);
        assert_eq!((ones, zeros), (u64::MAX, u64::MAX));
        let distinct = |pass| words(pass).collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(passes.map(distinct).max(), Some(256));
    }
}
