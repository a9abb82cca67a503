//! `cpu_flops` in f32 beside the same loop in C, in vectors of the width that the compiler
//! prefers for this processor and of the widest.

use std::time::Duration;

use warpforge_bench::model::BenchmarkMetric;

use super::compiled::{Program, cores};
use super::in_turn;
use super::ours::{measure, row};

const ROUNDS: usize = 3;
const SAMPLES: &str = "25";

/// Bytes of a vector, and the tag `isa` of ours that uses such; theirs is measured with these and
/// with the next.
const WIDTHS: &[(&str, &str)] = &[("64", "avx512"), ("32", "avx2"), ("16", "neon")];

pub fn run() -> Result<(), String> {
    println!("{:<44} {:>10} {:>10}  ratio", "f32 in GFLOP/s, ours beside gcc", "ours", "theirs");
    for (scope, threads) in [("1", 1), ("all", cores())] {
        let found = ours(scope)?;
        let isa = found.tags.get("isa").cloned().unwrap_or_default();
        // Wider vectors than the processor has would be taken apart by the compiler.
        let widths = WIDTHS.iter().skip_while(|(_, of)| *of != isa).take(2);
        for (bytes, _) in widths {
            let program = Program::compile("fma.c", &[&format!("-DBYTES={bytes}")])?;
            let medians = in_turn(
                ROUNDS,
                || ours(scope).map(|metric| vec![metric.value]),
                || program.median(threads, &[SAMPLES]).map(|rate| vec![rate]),
            )?;
            let name = format!("{threads} cores; C in vectors of {bytes} bytes");
            row(&name, medians[0], medians[0].0 / medians[0].1);
        }
        if let Some(expectation) = found.expectation {
            println!("    ours reaches {:.1} % of the {}", expectation.percent, expectation.of);
        }
    }
    Ok(())
}

fn ours(scope: &str) -> Result<BenchmarkMetric, String> {
    let set = [("precisions", "f32"), ("cores", scope)];
    let found = measure("cpu_flops", &set, Duration::from_secs(1))?;
    found.into_iter().find(|metric| metric.name == "gflops").ok_or("no figure".to_owned())
}
