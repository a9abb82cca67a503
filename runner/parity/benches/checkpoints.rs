//! Two checkpoints compared by this crate and by a NumPy script that computes the same
//! statistics, side by side: `cargo bench -p warpforge-parity --bench checkpoints`.
//!
//! `WARPFORGE_BENCH_MB` sets the size of one checkpoint (128; 1300 is BERT-large), and
//! `WARPFORGE_BENCH_ROUNDS` how often each side runs (4). NumPy comes from `$WARPFORGE_PYTHON`,
//! else from `python3`. Rounds are interleaved as ABBA and the medians' ratio is printed, with the
//! time that reading the same bytes alone takes, which is as fast as it could be.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rayon::prelude::*;
use warpforge_parity::compare::{Options, Tolerance, compare};
use warpforge_parity::file::TensorFile;

const OPTIONS: Options = Options {
    tolerance: Tolerance { rtol: 1e-4, atol: 1e-6 },
    oracle_factor: 1.5,
    expect_nonfinite: false,
};

/// Shapes of one transformer layer of BERT-large.
const LAYER: &[(&str, [usize; 2])] = &[
    ("attention.query", [1024, 1024]),
    ("attention.key", [1024, 1024]),
    ("attention.value", [1024, 1024]),
    ("attention.output", [1024, 1024]),
    ("attention.norm", [2, 1024]),
    ("intermediate", [4096, 1024]),
    ("intermediate.bias", [1, 4096]),
    ("output", [1024, 4096]),
    ("output.norm", [2, 1024]),
];

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let megabytes = number("WARPFORGE_BENCH_MB", 128);
    let rounds = number("WARPFORGE_BENCH_ROUNDS", 4);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = ["golden", "candidate"].map(|name| folder.path().join(name));
    let elements = write_checkpoints(&paths, megabytes << 20).expect("room for two checkpoints");
    println!("two checkpoints of {} MB, {elements} elements each", (elements * 4) >> 20);

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/checkpoints.py");
    let python = std::env::var("WARPFORGE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let (mut ours, mut numpy, mut read) = (Vec::new(), Vec::new(), Vec::new());
    // The first of each is a warm-up.
    for round in 0..=rounds {
        let mut sides: [&mut dyn FnMut(); 3] = [
            &mut || ours.push(by_us(&paths)),
            &mut || numpy.push(by_numpy(&python, &script, &paths)),
            &mut || read.push(by_reading(&paths)),
        ];
        if round % 2 == 1 {
            sides.reverse();
        }
        for side in &mut sides {
            side();
        }
    }
    let mut checked = ours[0].clone();
    checked.seconds = numpy[0].seconds;
    assert_eq!(numpy[0], checked, "both sides must find the same");
    let [ours, numpy] = [ours, numpy].map(|runs| runs.iter().map(|run| run.seconds).collect());
    let [ours, numpy, read] = [ours, numpy, read].map(median);
    let gigabytes = 2.0 * elements as f64 * 4.0 / 1e9;
    let row = |name: &str, seconds: f64| {
        println!("{name:<10} {seconds:8.3} s  {:6.2} GB/s", gigabytes / seconds);
    };
    row("warpforge", ours);
    row("numpy", numpy);
    row("reading", read);
    println!("warpforge is {:.1} times as fast as numpy", numpy / ours);
}

#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
struct Run {
    seconds: f64,
    count: u64,
    mismatches: u64,
    max_abs: f64,
}

fn by_us(paths: &[PathBuf; 2]) -> Run {
    let start = Instant::now();
    let [golden, candidate] =
        paths.each_ref().map(|path| TensorFile::open(path).expect("a checkpoint"));
    let names = golden.names();
    let found: Vec<_> = names
        .par_iter()
        .map(|name| {
            let tensor = |file: &TensorFile| file.tensor(name).is_some();
            assert!(tensor(&golden) && tensor(&candidate));
            let sides = golden.tensor(name).zip(candidate.tensor(name)).expect("both have it");
            compare(&sides.0, &sides.1, None, &OPTIONS).expect("comparable")
        })
        .collect();
    Run {
        seconds: start.elapsed().as_secs_f64(),
        count: found.iter().map(|tensor| tensor.count).sum(),
        mismatches: found.iter().map(|tensor| tensor.mismatches).sum(),
        max_abs: found.iter().map(|tensor| tensor.max_abs).fold(0.0, f64::max),
    }
}

fn by_numpy(python: &str, script: &Path, paths: &[PathBuf; 2]) -> Run {
    let output = Command::new(python).arg(script).args(paths).output().expect("python3");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{python} with numpy is needed:\n{errors}");
    serde_json::from_slice(&output.stdout).expect("the script prints JSON")
}

/// Every byte of both files once, by all threads, with next to no arithmetic.
fn by_reading(paths: &[PathBuf; 2]) -> f64 {
    let start = Instant::now();
    let files = paths.each_ref().map(|path| TensorFile::open(path).expect("a checkpoint"));
    for file in &files {
        let sum = |name: &String| {
            let data = file.tensor(name).expect("it is there").data;
            let words = data.as_chunks::<8>().0.par_chunks(1 << 16);
            words.map(|part| part.iter().fold(0, |x, word| x ^ u64::from_le_bytes(*word))).sum()
        };
        let sums: Vec<u64> = file.names().iter().map(sum).collect();
        std::hint::black_box(sums);
    }
    start.elapsed().as_secs_f64()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.remove(0);
    seconds.sort_by(f64::total_cmp);
    let middle = seconds.len() / 2;
    if seconds.len() % 2 == 1 {
        seconds[middle]
    } else {
        f64::midpoint(seconds[middle - 1], seconds[middle])
    }
}

/// Layers until the size is reached; the candidate differs from golden as another machine's
/// arithmetic would have it.
fn write_checkpoints(paths: &[PathBuf; 2], bytes: usize) -> std::io::Result<usize> {
    let mut tensors = Vec::new();
    let mut elements = 0;
    for layer in 0.. {
        if elements * 4 >= bytes {
            break;
        }
        for (name, shape) in LAYER {
            tensors.push((format!("layer.{layer:03}.{name}"), shape, elements));
            elements += shape[0] * shape[1];
        }
    }
    let header: serde_json::Map<String, serde_json::Value> = tensors
        .iter()
        .map(|(name, shape, start)| {
            let end = (start + shape[0] * shape[1]) * 4;
            let info = serde_json::json!({
                "dtype": "F32", "shape": shape, "data_offsets": [start * 4, end],
            });
            (name.clone(), info)
        })
        .collect();
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut files = Vec::new();
    for path in paths {
        let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        files.push(file);
    }
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as f32 / (1u32 << 30) as f32 - 1.0
    };
    for _ in 0..elements {
        let golden = (uniform() + uniform() + uniform()) * 0.02;
        let candidate = golden + golden * uniform() * 3e-7 + uniform() * 1e-9;
        files[0].write_all(&golden.to_le_bytes())?;
        files[1].write_all(&candidate.to_le_bytes())?;
    }
    files.iter_mut().try_for_each(Write::flush)?;
    Ok(elements)
}
