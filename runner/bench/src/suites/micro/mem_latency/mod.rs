//! How long a load takes, by how much memory it may go to.

use std::time::{Duration, Instant};

mod chase;

use crate::Sysroot;
use crate::measure::{Figure, collect, repetitions};
use crate::model::{BenchmarkMetric, BenchmarkSpec, Component, Value};
use crate::suite::{Benchmark, Context, Unable};
use crate::system::{Cache, CacheType};

use super::buffer::{self, Buffer};
use super::threads;

use chase::{Circle, UNROLLED};

const BLOCK: Duration = Duration::from_millis(20);
const SMALLEST: u64 = 4 << 10;
/// The largest where no cache is known.
const UNKNOWN: u64 = 256 << 20;
/// The largest is at least so many times the last-level cache.
const TIMES: u64 = 4;

pub fn spec() -> BenchmarkSpec {
    super::spec(
        "mem_latency",
        Component::Ram,
        "Loads of which each waits for the one before, over lines in random order, in sizes from \
         4 KiB to beyond the last-level cache: the time of one load by size, and the level of \
         the cache that such a size fits (tag level). On huge pages where the kernel grants them \
         (tag pages); on others, what the walk through page tables costs is part of it",
        10,
        // Zero: four times the last-level cache, as far as memory allows.
        &[("largest_bytes", Value::Integer(0))],
    )
}

pub fn make() -> Box<dyn Benchmark> {
    Box::new(MemLatency::default())
}

#[derive(Default)]
struct MemLatency {
    sizes: Vec<u64>,
}

impl Benchmark for MemLatency {
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        let cache = buffer::last_level(&cx.system.cpu.caches).map(|(size, _)| size);
        self.sizes = sizes(cx.integer("largest_bytes"), cache, buffer::budget(cx.system))?;
        Ok(())
    }

    /// All on one thread that is held to one CPU, so that caches stay its own.
    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
        let cpu = threads::of(cx)[0];
        let done = threads::together(&[cpu], &mut [found], |found| curve(cx, &self.sizes, found))?;
        done.results.into_iter().next().expect("one thread, one result")
    }
}

fn sizes(asked: i64, cache: Option<u64>, most: u64) -> Result<Vec<u64>, Unable> {
    let largest = match u64::try_from(asked) {
        Ok(0) => cache.map_or(UNKNOWN, |size| size * TIMES).next_power_of_two().min(most),
        Ok(bytes) if (SMALLEST..=most).contains(&bytes) => bytes,
        _ => {
            let range = format!("from {SMALLEST} to {most}, which is half of what is free");
            return Err(Unable::Failed(format!("largest_bytes: {asked} does not lie {range}")));
        }
    };
    let doubled = |size: &u64| size.checked_mul(2).filter(|size| *size <= largest);
    Ok(std::iter::successors(Some(SMALLEST), doubled).collect())
}

/// The name of the cache that holds so many bytes.
fn level(caches: &[Cache], bytes: u64) -> String {
    let fits = |cache: &&Cache| {
        cache.kind != CacheType::Instruction && cache.size_bytes.is_some_and(|size| bytes <= size)
    };
    let nearest = caches.iter().filter(fits).map(|cache| cache.level).min();
    nearest.map_or_else(|| "memory".to_owned(), |level| format!("L{level}"))
}

fn curve(cx: &Context<'_>, sizes: &[u64], found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
    let time = cx.share(sizes.len());
    let largest = sizes.last().copied().unwrap_or(SMALLEST);
    let mut buffer = Buffer::new(largest as usize)?;
    buffer.bytes().fill(1);
    let pages = buffer::pages(&Sysroot::host(), largest);
    for &bytes in sizes {
        cx.check()?;
        cx.watch.doing(&format!("loads from {} KiB", bytes >> 10));
        let figure = Figure::lower("latency", "ns")
            .tag("bytes", bytes.to_string())
            .tag("level", level(&cx.system.cpu.caches, bytes))
            .tag("pages", pages);
        found.push(point(cx, &mut buffer, bytes as usize, time, figure)?);
    }
    Ok(())
}

fn point(
    cx: &Context<'_>,
    buffer: &mut Buffer,
    bytes: usize,
    time: Duration,
    figure: Figure,
) -> Result<BenchmarkMetric, Unable> {
    let mut circle = Circle::new(buffer, bytes);
    // This also brings the lines in, as far as they fit.
    if !circle.is_whole() {
        let message = format!("{bytes} bytes: {} steps do not lead back", circle.lines());
        return Err(Unable::Wrong(message));
    }
    let mut timed = |steps: u64| {
        let from = Instant::now();
        std::hint::black_box(circle.walk(steps));
        from.elapsed()
    };
    let steps = repetitions(BLOCK, &mut timed).next_multiple_of(UNROLLED);
    let [samples] = collect(cx, time, || Ok([timed(steps).as_secs_f64() * 1e9 / steps as f64]))?;
    Ok(figure.of(&samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double_to_beyond_the_cache() {
        let automatic = sizes(0, Some(3 << 20), 1 << 40).unwrap();
        assert_eq!(automatic.first(), Some(&4096));
        assert_eq!(automatic.last(), Some(&(16 << 20)));
        assert!(automatic.windows(2).all(|pair| pair[1] == 2 * pair[0]));
        assert_eq!(sizes(0, Some(3 << 20), 9 << 20).unwrap().last(), Some(&(8 << 20)));
        assert_eq!(sizes(0, None, 1 << 40).unwrap().last(), Some(&UNKNOWN));
        assert_eq!(sizes(10_000, None, 1 << 40), Ok(vec![4096, 8192]));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for asked in [-1, 1, 4095, 1 << 30] {
            let error = sizes(asked, None, 1 << 20).unwrap_err().to_string();
            assert!(error.contains(&asked.to_string()), "{error}");
        }
    }

    #[test]
    fn levels_by_size() {
        let cache = |level, kind, size| Cache {
            level,
            kind,
            size_bytes: Some(size),
            shared_by_cpus: 1,
            instances: 1,
        };
        let caches = [
            cache(1, CacheType::Data, 48 << 10),
            cache(1, CacheType::Instruction, 64 << 10),
            cache(2, CacheType::Unified, 2 << 20),
        ];
        let levels = [32 << 10, 64 << 10, 2 << 20, 4 << 20].map(|bytes| level(&caches, bytes));
        assert_eq!(levels, ["L1", "L2", "L2", "memory"]);
    }
}
