//! Our figures, as a benchmark of the micro suite gives them.

use std::process::Command;
use std::time::Duration;

use warpforge_bench::model::{BenchmarkId, BenchmarkMetric};
use warpforge_bench::registry;
use warpforge_bench::suite::{Context, Stop, Unwatched};
use warpforge_bench::system::snapshot;

/// Runs a benchmark for so long, with some parameters set.
pub fn measure(
    name: &str,
    set: &[(&str, &str)],
    duration: Duration,
) -> Result<Vec<BenchmarkMetric>, String> {
    let suite = registry::suite("micro").map_err(|error| error.to_string())?;
    let mut params = registry::spec(suite, name).map_err(|error| error.to_string())?.params;
    for (name, text) in set {
        let value = params.get_mut(*name).ok_or_else(|| format!("no parameter {name}"))?;
        *value = value.parse_like(text).ok_or_else(|| format!("{name}={text} is wrong"))?;
    }
    let id = BenchmarkId::new("micro", name);
    let mut benchmark = registry::benchmark(&id).ok_or("no such benchmark")?;
    let cx = Context {
        duration,
        burn_in: Duration::from_millis(300),
        params: &params,
        system: &snapshot(),
        stop: &Stop::default(),
        watch: &Unwatched,
    };
    let mut found = Vec::new();
    let ran = benchmark.prepare(&cx).and_then(|()| benchmark.run(&cx, &mut found));
    ran.map(|()| found).map_err(|error| error.to_string())
}

/// The figure of a name, among those with all of some tags.
pub fn pick(found: &[BenchmarkMetric], name: &str, tags: &[(&str, &str)]) -> Result<f64, String> {
    let tagged = |metric: &&BenchmarkMetric| {
        metric.name == name
            && tags.iter().all(|(name, value)| metric.tags.get(*name).is_some_and(|v| v == value))
    };
    let metric = found.iter().find(tagged);
    metric.map(|metric| metric.value).ok_or_else(|| format!("no figure {name} {tags:?}"))
}

/// What a program prints.
pub fn output(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| absent(program, &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} failed ({}): {said}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Why a program cannot be started, and where to get it.
pub fn absent(program: &str, error: &std::io::Error) -> String {
    format!("{program} cannot be started: {error} (Debian: apt-get install {program})")
}

/// A line of the table. `better` is how many times as good ours is.
pub fn row(name: &str, (ours, theirs): (f64, f64), better: f64) {
    println!("{name:<44} {ours:>10.1} {theirs:>10.1}  {better:.3}×");
}
