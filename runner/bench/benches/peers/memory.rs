//! `mem_bandwidth`'s triad beside STREAM's in C, of arrays of the same size, with the pages that
//! the C library gets and with huge ones, as ours are.

use std::time::Duration;

use warpforge_bench::system::{CacheType, snapshot};

use super::compiled::{Program, cores};
use super::in_turn;
use super::ours::{measure, pick, row};

const ROUNDS: usize = 3;
const PASSES: &str = "15";

/// How ours stores; on which pages theirs lies, and how it is told so.
const CASES: &[(&str, &str, &str)] =
    &[("streaming", "plain", "0"), ("streaming", "huge", "1"), ("cached", "huge", "1")];

pub fn run() -> Result<(), String> {
    let program = Program::compile("stream.c", &[])?;
    println!("{:<44} {:>10} {:>10}  ratio", "triad in GB/s, ours beside gcc", "ours", "theirs");
    for (scope, threads) in [("1", 1), ("all", cores())] {
        let elements = elements(threads).to_string();
        for (stores, pages, huge) in CASES {
            let ours = || {
                let set = [("kernels", "triad"), ("cores", scope), ("stores", stores)];
                let found = measure("mem_bandwidth", &set, Duration::from_secs(1))?;
                Ok(vec![pick(&found, "bandwidth", &[])?])
            };
            let theirs = || Ok(vec![program.median(threads, &[&elements, PASSES, huge])?]);
            let medians = in_turn(ROUNDS, ours, theirs)?;
            let name = format!("{threads} cores, {stores}; C on {pages} pages");
            row(&name, medians[0], medians[0].0 / medians[0].1);
        }
    }
    Ok(())
}

/// Of an array, four times the last-level caches that so many cores fill.
fn elements(threads: usize) -> u64 {
    let caches = snapshot().cpu.caches;
    let last = caches
        .iter()
        .filter(|cache| cache.kind != CacheType::Instruction)
        .max_by_key(|cache| cache.level);
    let bytes = last
        .and_then(|cache| Some(cache.size_bytes? * u64::from(cache.instances).min(threads as u64)));
    bytes.map_or(128 << 20, |bytes| 4 * bytes) / 8
}
