//! Our benchmarks beside other people's, measured in turn in one run. `cargo bench -p
//! warpforge-bench --bench peers -- NAME` runs those of a name, without one all of them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program for people")]

mod compiled;
mod gpu;
mod memory;
mod network;
mod ours;
mod processor;
mod storage;

use std::process::ExitCode;

type Peer = fn() -> Result<(), String>;

/// Each prints its own lines.
const PEERS: &[(&str, Peer)] = &[
    ("gpu", gpu::run),
    ("memory", memory::run),
    ("network", network::run),
    ("processor", processor::run),
    ("storage", storage::run),
];

fn main() -> ExitCode {
    // Cargo passes `--bench`.
    let names: Vec<_> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let known = |name: &String| PEERS.iter().any(|(peer, _)| peer == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let exist: Vec<_> = PEERS.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no {unknown}; there are {}", exist.join(", "));
        return ExitCode::from(2);
    }
    let asked = |name: &str| names.is_empty() || names.iter().any(|asked| asked == name);
    let mut code = ExitCode::SUCCESS;
    for (name, run) in PEERS.iter().filter(|(name, _)| asked(name)) {
        if let Err(reason) = run() {
            println!("{name}: {reason}");
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Measures some figures of both in turn, there and back, so many times over; each one's medians.
fn in_turn(
    rounds: usize,
    mut ours: impl FnMut() -> Result<Vec<f64>, String>,
    mut theirs: impl FnMut() -> Result<Vec<f64>, String>,
) -> Result<Vec<(f64, f64)>, String> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        left.push(ours()?);
        right.push(theirs()?);
        right.push(theirs()?);
        left.push(ours()?);
    }
    let medians = |runs: &[Vec<f64>]| {
        let figures = runs.iter().map(Vec::len).min().unwrap_or(0);
        let median = |place: usize| {
            let values: Vec<_> = runs.iter().map(|run| run[place]).collect();
            warpforge_bench::statistics::median(&values)
        };
        (0..figures).map(median).collect::<Vec<_>>()
    };
    Ok(medians(&left).into_iter().zip(medians(&right)).collect())
}
