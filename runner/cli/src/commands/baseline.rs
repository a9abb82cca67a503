//! `warpforge baseline`: what a workload reached on a class of machines, and what should count from
//! now on.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Subcommand;
use warpforge_parity::bundle::REPORT_JSON;
use warpforge_parity::performance::{Baseline, Baselines};
use warpforge_parity::report::Report;
use warpforge_parity::verdict::Short;

use super::validate::training::baselines;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, Ui};

/// Where baselines are kept unless another file is named.
pub const FILE: &str = "warpforge-baselines.json";

const EXAMPLES: &str = "\
Examples:
  What is the speed of each workload held to?
    warpforge baseline show

  This run's speed is what later ones are held to:
    warpforge baseline promote run/

Speed is the candidate's throughput as a multiple of golden's, measured in turns in one run, and
is kept by workload and class of hardware. Nothing becomes a baseline by itself.";

/// Show or set what a workload's speed is held to
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the baselines
    Show {
        /// The file they are kept in
        #[arg(long, value_name = "FILE", default_value = FILE)]
        file: PathBuf,

        /// Print JSON (`warpforge schema baselines` describes it)
        #[arg(long)]
        json: bool,
    },
    /// Make a run's speed the baseline of its workload and hardware
    Promote {
        /// A report.json, or the folder that holds one
        #[arg(value_name = "REPORT|DIR")]
        report: PathBuf,

        /// The file baselines are kept in
        #[arg(long, value_name = "FILE", default_value = FILE)]
        file: PathBuf,
    },
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    match &args.verb {
        Verb::Show { file, json } => show(&baselines(file)?, file, *json, ui)?,
        Verb::Promote { report, file } => promote(report, file, ui)?,
    }
    Ok(Exit::Pass)
}

fn show(found: &Baselines, file: &Path, json: bool, ui: &mut Ui) -> anyhow::Result<()> {
    if json {
        return Ok(ui.json(found)?);
    }
    if found.baselines.is_empty() {
        let words = "`warpforge baseline promote` makes one";
        ui.note(&format!("{} holds no baseline: {words}", file.display()))?;
        return Ok(());
    }
    let head = ["workload", "hardware", "against golden", "throughput", "promoted", "from"];
    let mut rows = vec![head.map(|text| Cell::styled(text, BOLD)).to_vec()];
    for (workload, classes) in &found.baselines {
        for (class, baseline) in classes {
            let mut row: Vec<Cell> = vec![workload.clone().into(), class.clone().into()];
            row.extend(described(baseline));
            rows.push(row);
        }
    }
    Ok(table::write(ui.out(), 0, &rows)?)
}

fn described(baseline: &Baseline) -> [Cell; 4] {
    let interval = baseline
        .ratio
        .interval
        .map_or(String::new(), |(low, high)| format!(" ({} to {})", Short(low), Short(high)));
    [
        format!("{}x{interval}", Short(baseline.ratio.value)).into(),
        format!("{} {}", Short(baseline.throughput), baseline.unit).into(),
        baseline.promoted.clone().into(),
        Cell::styled(baseline.source.clone(), DIM),
    ]
}

fn promote(path: &Path, file: &Path, ui: &mut Ui) -> anyhow::Result<()> {
    let path = if path.is_dir() { path.join(REPORT_JSON) } else { path.to_owned() };
    let wrong = |why: String| {
        let help = "name a report.json that `warpforge run` or `warpforge validate --report` wrote";
        Misuse::new(format!("{} cannot be used: {why}", path.display()), help)
    };
    let text = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
    let report: Report = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let measured = report.training.as_ref().and_then(|training| training.performance.as_ref());
    let measured = measured.ok_or_else(|| wrong("it has no measured speed".to_owned()))?;
    let mut found = baselines(file)?;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let before =
        found.promote(measured, now, report.title.clone()).map_err(|e| wrong(e.to_string()))?;
    found.save(file).with_context(|| {
        let message = format!("cannot write {}", file.display());
        Misuse::new(message, "name a file that can be written with --file")
    })?;
    let ratio = measured.ratio.map_or(f64::NAN, |ratio| ratio.value);
    let place = format!("{} on {}", measured.workload, measured.hardware_class);
    let was = before.map_or("the first of its kind".to_owned(), |before| {
        format!("before, it was {}x", Short(before.ratio.value))
    });
    ui.note(&format!("{place}: the baseline is {}x golden ({was})", Short(ratio)))?;
    Ok(())
}
