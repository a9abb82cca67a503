//! GPU products and copies beside PyTorch's on the same GPU. Needs a `python3` with PyTorch, and
//! CUDA's libraries where the loader finds them. `WARPFORGE_PEERS_ONLY` picks some of what PyTorch
//! is asked for, such as `tf32` or `pageable`, and more rounds of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use warpforge_bench::model::{BenchmarkId, BenchmarkMetric, Value};
use warpforge_bench::registry;
use warpforge_bench::suite::{Context, Stop, Unwatched};
use warpforge_bench::system::{System, snapshot};

use super::in_turn;

const SCRIPT: &str = include_str!("gpu.py");
const SECONDS: f64 = 1.0;
const ROUNDS: usize = 3;

type Pairs = &'static [(&'static str, &'static str)];

/// Figures that one run of ours yields, each by its tags, and what PyTorch is asked for beside it.
struct Group {
    benchmark: &'static str,
    params: Pairs,
    figures: &'static [(Pairs, &'static str)],
}

const fn product(params: Pairs, figures: &'static [(Pairs, &'static str)]) -> Group {
    Group { benchmark: "gpu_flops", params, figures }
}

#[rustfmt::skip]
const GROUPS: &[Group] = &[
    product(&[("precision", "fp32")], &[(&[("precision", "fp32")], "gemm fp32 8192")]),
    product(&[("precision", "tf32")], &[(&[("precision", "tf32")], "gemm tf32 8192")]),
    product(&[("precision", "bf16")], &[(&[("precision", "bf16")], "gemm bf16 8192")]),
    product(&[("precision", "fp16")], &[(&[("precision", "fp16")], "gemm fp16 8192")]),
    product(&[("precision", "fp8")], &[(&[("precision", "fp8")], "gemm fp8 8192")]),
    Group {
        benchmark: "gpu_mem_bandwidth",
        params: &[],
        figures: &[
            (&[("operation", "memcpy")], "copy 1024"),
            (&[("operation", "copy")], "copy 1024"),
        ],
    },
    Group {
        benchmark: "gpu_pcie",
        params: &[],
        figures: &[
            (&[("direction", "host_to_device"), ("memory", "pinned")], "h2d pinned 256"),
            (&[("direction", "device_to_host"), ("memory", "pinned")], "d2h pinned 256"),
            (&[("direction", "host_to_device"), ("memory", "pageable")], "h2d pageable 256"),
            (&[("direction", "device_to_host"), ("memory", "pageable")], "d2h pageable 256"),
        ],
    },
];

pub fn run() -> Result<(), String> {
    let system = snapshot();
    let mut torch = Torch::start()?;
    println!("{:<44} {:>10} {:>10}  ratio", "GPU, ours beside PyTorch", "ours", "theirs");
    let only = std::env::var("WARPFORGE_PEERS_ONLY").ok();
    let rounds = if only.is_some() { 2 * ROUNDS } else { ROUNDS };
    let wanted = |group: &&Group| {
        let asks = |part: &String| group.figures.iter().any(|(_, what)| what.contains(part));
        only.as_ref().is_none_or(asks)
    };
    for group in GROUPS.iter().filter(wanted) {
        // A cool GPU is a few percent faster for some seconds: neither is to have them.
        for (_, what) in group.figures {
            torch.ask(what)?;
            torch.ask(what)?;
        }
        let ours = || group.pick(&measure(&system, group.benchmark, group.params)?);
        let theirs = || group.figures.iter().map(|(_, what)| torch.ask(what)).collect();
        let medians = in_turn(rounds, ours, theirs)?;
        for ((tags, _), (ours, theirs)) in group.figures.iter().zip(medians) {
            let tags: Vec<_> = tags.iter().map(|(_, value)| *value).collect();
            let name = format!("{} {}", group.benchmark, tags.join(" "));
            println!("{name:<44} {ours:>10.1} {theirs:>10.1}  {:.3}×", ours / theirs);
        }
    }
    drop(torch);
    if only.is_some() { Ok(()) } else { whole(&system) }
}

/// Each benchmark as it runs by itself.
fn whole(system: &System) -> Result<(), String> {
    for benchmark in ["gpu_flops", "gpu_mem_bandwidth", "gpu_pcie"] {
        for metric in measure(system, benchmark, &[])? {
            let expected = metric.expectation.as_ref();
            let expected = expected.map(|e| format!("{:.1} % of {}", e.percent, e.of));
            println!(
                "{} {:.1} {} ({} samples) {}",
                metric.key(),
                metric.value,
                metric.unit,
                metric.samples,
                expected.unwrap_or_default()
            );
        }
    }
    Ok(())
}

/// Our figures, with some parameters set.
fn measure(system: &System, name: &str, set: Pairs) -> Result<Vec<BenchmarkMetric>, String> {
    let id = BenchmarkId::new("micro", name);
    let suite = registry::suite(&id.suite).map_err(|error| error.to_string())?;
    let mut params = registry::spec(suite, name).map_err(|error| error.to_string())?.params;
    for (name, value) in set {
        params.insert((*name).to_owned(), Value::Text((*value).to_owned()));
    }
    let mut benchmark = registry::benchmark(&id).ok_or("no such benchmark")?;
    // As long for each figure as PyTorch has for one.
    let figures = if set.is_empty() { 5 } else { 1 };
    let cx = Context {
        duration: Duration::from_secs_f64(SECONDS) * figures,
        burn_in: Duration::from_millis(300),
        params: &params,
        system,
        stop: &Stop::default(),
        watch: &Unwatched,
    };
    let mut found = Vec::new();
    let ran = benchmark.prepare(&cx).and_then(|()| benchmark.run(&cx, &mut found));
    ran.map(|()| found).map_err(|error| error.to_string())
}

impl Group {
    /// The group's figures in their order.
    fn pick(&self, found: &[BenchmarkMetric]) -> Result<Vec<f64>, String> {
        let pick = |tags: Pairs| {
            let tagged = |metric: &&BenchmarkMetric| {
                tags.iter().all(|(name, value)| metric.tags.get(*name).is_some_and(|v| v == value))
            };
            found.iter().find(tagged).map(|metric| metric.value)
        };
        let missing = |tags: Pairs| format!("no figure for {tags:?}");
        self.figures.iter().map(|(tags, _)| pick(tags).ok_or_else(|| missing(tags))).collect()
    }
}

/// PyTorch, which answers line by line.
struct Torch {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Torch {
    fn start() -> Result<Self, String> {
        let spawned = Command::new("python3")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = spawned.map_err(|error| format!("python3 cannot be started: {error}"))?;
        let ask = child.stdin.take().ok_or("no pipe to PyTorch")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe from PyTorch")?);
        Ok(Self { child, ask, answers })
    }

    fn ask(&mut self, what: &str) -> Result<f64, String> {
        let written = writeln!(self.ask, "{what} {SECONDS}").and_then(|()| self.ask.flush());
        written.map_err(|error| format!("PyTorch has gone: {error}"))?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| error.to_string())?;
        line.trim().parse().map_err(|_| format!("PyTorch gave no figure for {what}"))
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        // Its input ends with us; a process that has ended already is no matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
