//! Two trainings: judged by steps, curves and metrics, and shown by quantity.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use warpforge_parity::bundle::{BundleError, REPORT_HTML};
use warpforge_parity::judge::grouped;
use warpforge_parity::performance::{self, Baselines};
use warpforge_parity::report::Report;
use warpforge_parity::training::{
    MetricAt, Quantity, QuantitySummary, TrainingParity, TrainingSettings, judge,
};
use warpforge_parity::verdict::{Short, Verdict};

use super::{Args, absent, finish, show};
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, Ui};

const MOST_REASONS: usize = 8;

pub fn run(args: &Args, settings: &TrainingSettings, ui: &mut Ui) -> anyhow::Result<Exit> {
    let parity = match judge(&args.golden, &args.candidate, settings) {
        Ok(parity) => parity,
        Err(BundleError::Absent(path)) => return Err(absent(&path, "--golden and --candidate")),
        Err(error) => return Err(error.into()),
    };
    let parity_json = serde_json::to_string_pretty(&parity)? + "\n";
    let title = format!("{} against {}", args.candidate.display(), args.golden.display());
    let mut report = Report::of_training(title, parity);
    if let Some(blocks) = performance::read(&args.golden, &args.candidate) {
        report = report.with_performance(performance::judge(&blocks, &baselines(&args.baselines)?));
    }
    finish(args, report, &parity_json, ui)
}

/// The file of baselines; one that does not exist holds none.
pub fn baselines(path: &Path) -> anyhow::Result<Baselines> {
    Baselines::load(path).map_err(|error| {
        let help = "name a file of baselines, or one that does not exist yet";
        Misuse::new(error.to_string(), help).into()
    })
}

/// The training on the terminal: a row for each quantity, metrics, speed, verdict, reasons.
pub fn show(report: &Report, folder: Option<&Path>, ui: &mut Ui) -> anyhow::Result<()> {
    let training = report.training.as_deref().context("the report is of a training")?;
    let parity = &training.parity;
    quantities(parity, ui)?;
    metrics(parity, ui)?;
    if let Some(found) = &parity.final_weights {
        let relative = found.relative.map_or("-".to_owned(), |x| Short(x).to_string());
        ui.note(&format!("final weights: {relative} apart (reported, not judged)"))?;
    }
    if let Some(performance) = &training.performance {
        let verdict = performance.verdict.map_or(String::new(), |v| format!("{v}: "));
        ui.note(&format!("speed: {verdict}{}", performance.summary))?;
    }
    for note in &parity.notes {
        ui.note(&format!("note: {note}"))?;
    }
    writeln!(ui.out())?;
    let verdict = report.verdicts.correctness;
    let style = show::style(verdict).bold();
    writeln!(ui.out(), "{style}{verdict}{style:#}: {}", show::plain(&report.summary))?;
    for reason in report.reasons.iter().take(MOST_REASONS).filter(|_| report.reasons.len() > 1) {
        writeln!(ui.out(), "  {reason}")?;
    }
    let more = report.reasons.len().saturating_sub(MOST_REASONS);
    if more > 0 {
        writeln!(ui.out(), "  and {more} more")?;
    }
    if let Some(folder) = folder {
        ui.note(&format!("report: {}", folder.join(REPORT_HTML).display()))?;
    }
    Ok(())
}

fn quantities(parity: &TrainingParity, ui: &mut Ui) -> io::Result<()> {
    if parity.quantities.is_empty() {
        return Ok(());
    }
    let head = ["quantity", "compared", "left out", "rel. error", "used", "worst at", "verdict"];
    let mut rows = vec![head.map(|text| Cell::styled(text, BOLD)).to_vec()];
    rows.extend(parity.quantities.iter().map(quantity));
    table::write(ui.out(), 0, &rows)?;
    let steps: Vec<String> = parity.forced.iter().map(|step| step.step.to_string()).collect();
    if !steps.is_empty() {
        writeln!(ui.out(), "{DIM}teacher-forced steps: {}{DIM:#}", steps.join(", "))?;
    }
    writeln!(ui.out())
}

fn quantity(row: &QuantitySummary) -> Vec<Cell> {
    let none = || "-".to_owned();
    let compared = match row.quantity {
        Quantity::Loss | Quantity::Settings | Quantity::LossCurve => format!("{} steps", row.steps),
        Quantity::Metrics => format!("{} metrics", row.tensors),
        _ => format!("{} tensors, {} elements", row.tensors, grouped(row.elements)),
    };
    let used = row.used.map_or_else(none, |used| format!("{} %", Short(100.0 * used)));
    let place = row.worst.as_ref().map_or_else(none, |place| {
        let name = place.name.strip_prefix("parameter/").unwrap_or(&place.name);
        format!("step {}: {name}", place.step)
    });
    let bad = if row.bad > 0 && row.tensors > 0 {
        format!("{}: {} of {}", row.verdict.name().to_lowercase(), row.bad, row.tensors)
    } else {
        row.verdict.name().to_lowercase()
    };
    vec![
        row.quantity.name().into(),
        show::plain(&compared).into(),
        if row.left_out == 0 { none().into() } else { row.left_out.to_string().into() },
        row.relative.map_or_else(none, |x| Short(x).to_string()).into(),
        used.into(),
        place.into(),
        Cell::styled(bad, show::style(row.verdict)),
    ]
}

fn metrics(parity: &TrainingParity, ui: &mut Ui) -> io::Result<()> {
    if parity.metrics.is_empty() {
        return Ok(());
    }
    let head =
        ["metric", "golden", "candidate", "allowed", "golden's spread", "expected", "verdict"];
    let mut rows = vec![head.map(|text| Cell::styled(text, BOLD)).to_vec()];
    rows.extend(parity.metrics.iter().map(metric));
    table::write(ui.out(), 0, &rows)
}

fn metric(metric: &MetricAt) -> Vec<Cell> {
    let none = || "-".to_owned();
    let value = |x: f64| if x.abs() >= 10.0 { format!("{x:.2}") } else { format!("{x:.4}") };
    let expected = metric.expectation.map_or_else(none, |expectation| {
        let least = expectation.at_least.map(|x| format!(">= {x}"));
        let most = expectation.at_most.map(|x| format!("<= {x}"));
        let both: Vec<String> = least.into_iter().chain(most).collect();
        if both.is_empty() { none() } else { both.join(", ") }
    });
    let missed = if metric.golden_keeps { Verdict::Pass } else { Verdict::Inconclusive };
    vec![
        metric.name.clone().into(),
        Cell::styled(
            value(metric.golden.0),
            if missed == Verdict::Pass { anstyle::Style::new() } else { show::style(missed) },
        ),
        metric.candidate.map_or_else(none, |n| value(n.0)).into(),
        Short(metric.allowed).to_string().into(),
        metric.spread.map_or_else(|| "not measured".to_owned(), |x| Short(x).to_string()).into(),
        expected.into(),
        Cell::styled(metric.verdict.name().to_lowercase(), show::style(metric.verdict)),
    ]
}
