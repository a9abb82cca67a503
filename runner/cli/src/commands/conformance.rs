//! `warpforge conformance`: every conformance program of a folder.

mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use warpforge_parity::bundle::write_beside;
use warpforge_snakeburger::conformance::{self, FileReport, Outcome};

use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

pub use report::Summary;

const EXAMPLES: &str = "\
Examples:
  warpforge conformance stablehlo/testdata
  warpforge conformance stablehlo --filter scatter --jobs 2
  warpforge conformance stablehlo --json result.json --junit result.xml";

/// The stack of a worker: programs may nest regions and calls as deep as the limits allow.
const STACK: usize = 64 << 20;

/// Run every StableHLO program of a folder that states its expected results
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A folder of .mlir files, searched through, or one file
    path: PathBuf,

    /// How many files to run at a time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Run only files whose path contains this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// Seconds a file may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,

    /// Write the outcome of every file as JSON (`warpforge schema conformance` describes it)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the outcome of every file as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// A file and what came of it.
pub struct Done {
    name: String,
    report: FileReport,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let files = find(args)?;
    let start = Instant::now();
    let done = run_all(args, &files, ui)?;
    let summary = Summary::of(&done, start.elapsed());
    report::show(&summary, &done, ui)?;
    if let Some(path) = &args.json {
        write(path, &(serde_json::to_string_pretty(&summary)? + "\n"))?;
    }
    if let Some(path) = &args.junit {
        write(path, &report::junit(&done))?;
    }
    Ok(if summary.failed + summary.unsupported == 0 { Exit::Pass } else { Exit::Fail })
}

/// The files to run, sorted, named relative to the folder.
fn find(args: &Args) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    let mut folders = vec![args.path.clone()];
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)
                .with_context(|| format!("cannot list {}", path.display()))?
            {
                folders.push(entry?.path());
            }
        } else if path == args.path || path.extension().is_some_and(|ending| ending == "mlir") {
            let name =
                path.strip_prefix(&args.path).ok().filter(|name| !name.as_os_str().is_empty());
            let name = name.unwrap_or(&path).display().to_string();
            if args.filter.as_ref().is_none_or(|text| name.contains(text)) {
                files.push((name, path));
            }
        }
    }
    files.sort();
    if files.is_empty() {
        let message = format!("no .mlir file to run in {}", args.path.display());
        return Err(Misuse::new(
            message,
            "name a folder of StableHLO programs, or loosen --filter",
        )
        .into());
    }
    Ok(files)
}

fn run_all(args: &Args, files: &[(String, PathBuf)], ui: &Ui) -> anyhow::Result<Vec<Done>> {
    let bar = progress(files.len(), ui);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Done)>> = Mutex::new(Vec::new());
    let limit = Duration::from_secs(args.timeout);
    let jobs = args
        .jobs
        .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        for _ in 0..jobs.min(files.len()) {
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some((name, path)) = files.get(i) else { return };
                    let report = run_file(name, path, limit);
                    bar.inc(1);
                    if let Ok(mut done) = done.lock() {
                        done.push((i, Done { name: name.clone(), report }));
                    }
                }
            })?;
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, done)| done).collect())
}

fn run_file(name: &str, path: &Path, limit: Duration) -> FileReport {
    match std::fs::read_to_string(path) {
        Ok(text) => conformance::run(name, &text, limit),
        Err(error) => FileReport {
            outcome: Outcome::Failed(format!("cannot be read: {error}")),
            ops: BTreeSet::new(),
            evaluated: false,
            elapsed: Duration::ZERO,
        },
    }
}

fn progress(files: usize, ui: &Ui) -> ProgressBar {
    let bar = ProgressBar::new(files as u64);
    if !ui.shows_progress() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} files, {eta} left");
    bar.set_style(style.expect("a template checked by the tests"));
    bar
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_beside(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}
