//! A fuzzing campaign over real programs: tokens of the programs in `tests/ops` are changed one
//! by one, and whatever comes out is parsed, verified and, if it passes, evaluated. Nothing may
//! panic, overflow the stack or run away. Sampled by the commit's seed; `--full` runs it long.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use warpforge_snakeburger::text;
use warpforge_tests::campaign;

fn seeds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ops");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|path| std::fs::read_to_string(path).unwrap());
    texts
        .flat_map(|text| {
            text::split(&text).into_iter().map(|(_, part)| part.to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn changed_programs_never_panic() {
    let seeds = seeds();
    let mut numbers = campaign::numbers("snakeburger-fuzz");
    let mut reached = [0usize; 3];
    for round in 0..campaign::rounds(100_000, 20_000_000) {
        let mut below = |bound| numbers.below(bound);
        let mut text = seeds[below(seeds.len() as u64) as usize].clone();
        for _ in 0..=below(3) {
            text = support::mutate(&mut below, &text);
        }
        let start = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| support::run(&text)));
        let place = format!("round {round} of seed {}:\n{text}", campaign::seed());
        reached[ran.unwrap_or_else(|_| panic!("panicked in {place}"))] += 1;
        assert!(start.elapsed() < Duration::from_mins(1), "ran away in {place}");
    }
    // A campaign that never gets past the parser would prove nothing.
    assert!(reached.iter().all(|count| *count > 0), "{reached:?}");
}
