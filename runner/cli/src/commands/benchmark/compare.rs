//! `warpforge benchmark compare`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use warpforge_bench::compare::{
    Change, Compared, Comparison, Refused, THRESHOLD, compare, same_machine,
};
use warpforge_parity::verdict::Verdict;

use super::{read, show};
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, GREEN, RED, Ui, YELLOW};

const ABOUT: &str = "\
Say of every figure whether the second run is faster, slower or the same

A figure is faster or slower if it differs by more than the threshold and the interval of the \
ratio (99 %) leaves out 1; the same if the whole interval lies within the threshold; else it is \
ambiguous, and more samples (--duration) tell. Intervals hold what varies within a run; what \
varies from one boot to the next they cannot know.";

/// Say of every figure whether the second run is faster, slower or the same
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT)]
pub struct Args {
    /// The run before: a file of `benchmark run --export`
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// The run after
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// Exit with 1 if anything is slower, or no longer works
    #[arg(long)]
    fail_on_regression: bool,

    /// Differences up to this many per cent do not matter
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0 * THRESHOLD, value_parser = percent)]
    threshold: f64,

    /// Compare runs of different machines all the same
    #[arg(long)]
    different_machines: bool,

    /// Print JSON (`warpforge schema benchmark-comparison` describes it)
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Comparison of benchmarks")]
pub struct Shown {
    verdict: Verdict,
    #[serde(flatten)]
    comparison: Comparison,
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1000.0).contains(&value) { Ok(value) } else { Err("not from 0 to 1000".to_owned()) }
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    if !args.different_machines {
        same_machine(&before, &after).map_err(|refused| {
            let help = match refused {
                Refused::Machines { .. } => {
                    "with --different-machines they are compared all the same"
                }
                Refused::NoMachine { .. } => {
                    "measure it again with this version, or say with --different-machines that it \
                     does not matter"
                }
            };
            Misuse::new(refused.to_string(), help)
        })?;
    }
    let comparison = compare(&before, &after, args.threshold / 100.0);
    let verdict = comparison.verdict(args.fail_on_regression);
    if args.json {
        ui.json(&Shown { verdict, comparison })?;
    } else {
        show_all(&comparison, ui)?;
    }
    Ok(verdict.into())
}

fn show_all(comparison: &Comparison, ui: &mut Ui) -> std::io::Result<()> {
    let mut last = "";
    let mut rows = Vec::new();
    for row in &comparison.metrics {
        if row.benchmark != last {
            rows.push(vec![Cell::styled(&row.benchmark, BOLD)]);
            last = &row.benchmark;
        }
        rows.push(row_of(row));
    }
    table::write(ui.out(), 0, &rows)?;
    for (title, lines) in [("broken", &comparison.broken), ("left out", &comparison.left_out)] {
        for line in lines {
            writeln!(ui.out(), "{YELLOW}{title}{YELLOW:#}  {line}")?;
        }
    }
    let count = |change: Change| format!("{} {}", comparison.count(change), change.name());
    let counts = [Change::Faster, Change::Slower, Change::Same, Change::Ambiguous].map(count);
    let said = counts.join(", ");
    let percent = 100.0 * comparison.threshold;
    writeln!(ui.out(), "\n{said} (beyond {percent} %)")
}

fn row_of(row: &Compared) -> Vec<Cell> {
    let style = match row.change {
        Change::Faster => GREEN,
        Change::Slower => RED,
        Change::Same => DIM,
        Change::Ambiguous => YELLOW,
    };
    let interval = row.interval.map_or_else(String::new, |interval| {
        format!("{:.3} to {:.3}", interval.low, interval.high)
    });
    vec![
        Cell::from(format!("  {}", row.metric)),
        Cell::from(show::figure(row.before, &row.unit)),
        Cell::from(show::figure(row.after, &row.unit)),
        Cell::from(format!("{:.3}\u{d7}", row.ratio)),
        Cell::styled(interval, DIM),
        Cell::styled(row.change.name(), style),
    ]
}
