//! A comparison on the terminal: a table with the worst tensor first, the verdict, what to do.

use std::io;
use std::path::Path;

use anstyle::Style;
use warpforge_parity::bundle::REPORT_HTML;
use warpforge_parity::judge::TensorReport;
use warpforge_parity::report::Report;
use warpforge_parity::verdict::{Short, Verdict};

use super::hints;
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, GREEN, RED, Ui, YELLOW};

/// What fits a screen; the report has all.
const MOST_ROWS: usize = 24;
const MOST_REASONS: usize = 8;

pub fn show(report: &Report, folder: Option<&Path>, ui: &mut Ui) -> io::Result<()> {
    tensors(report, ui)?;
    let verdict = report.verdicts.correctness;
    let style = style(verdict).bold();
    writeln!(ui.out(), "{style}{verdict}{style:#}: {}", plain(&report.summary))?;
    // The summary has said the first already.
    for reason in report.reasons.iter().skip(1).take(MOST_REASONS) {
        writeln!(ui.out(), "  {reason}")?;
    }
    let more = report.reasons.len().saturating_sub(MOST_REASONS + 1);
    if more > 0 {
        writeln!(ui.out(), "  and {more} more")?;
    }
    for hint in hints::of(report) {
        ui.note(&format!("{DIM}hint:{DIM:#} {hint}"))?;
    }
    if let Some(folder) = folder {
        ui.note(&format!("report: {}", folder.join(REPORT_HTML).display()))?;
    }
    Ok(())
}

fn tensors(report: &Report, ui: &mut Ui) -> io::Result<()> {
    if report.tensors.is_empty() {
        return Ok(());
    }
    let head = [
        "tensor",
        "type",
        "shape",
        "mismatches",
        "max error",
        "rel. error",
        "needed rtol",
        "needed atol",
        "used",
        "verdict",
    ];
    let mut rows = vec![head.map(|text| Cell::styled(text, BOLD)).to_vec()];
    let sorted = report.worst_first();
    rows.extend(sorted.iter().take(MOST_ROWS).map(|tensor| row(tensor)));
    table::write(ui.out(), 0, &rows)?;
    if sorted.len() > MOST_ROWS {
        let more = sorted.len() - MOST_ROWS;
        writeln!(ui.out(), "{DIM}and {more} more, none of them worse{DIM:#}")?;
    }
    writeln!(ui.out())
}

fn row(tensor: &TensorReport) -> Vec<Cell> {
    let shape = tensor.shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
    let none = || "-".to_owned();
    let short = |value: Option<f64>| value.map_or_else(none, |value| Short(value).to_string());
    let found = tensor.statistics.as_ref();
    let number = |of: fn(&warpforge_parity::compare::Statistics) -> Option<f64>| {
        Cell::from(short(found.and_then(of)))
    };
    let used =
        found.and_then(|s| s.tolerance_used).map(|used| format!("{} %", Short(used * 100.0)));
    let mismatches = found.map_or_else(none, |s| s.mismatches.to_string());
    let bad = found.is_some_and(|s| s.mismatches > 0);
    vec![
        tensor.name.clone().into(),
        tensor.dtype.to_lowercase().into(),
        if shape.is_empty() { "scalar".into() } else { shape.into() },
        if bad { Cell::styled(mismatches, RED) } else { mismatches.into() },
        number(|s| Some(s.max_abs)),
        number(|s| s.norm_relative),
        number(|s| s.needed_rtol),
        number(|s| s.needed_atol),
        used.unwrap_or_else(none).into(),
        Cell::styled(outcome(tensor), style(tensor.verdict)),
    ]
}

/// The verdict, or what stood in the way of one.
fn outcome(tensor: &TensorReport) -> String {
    match tensor.reasons.first() {
        None => tensor.verdict.name().to_lowercase(),
        Some(reason) => format!("{}: {}", tensor.verdict.name().to_lowercase(), reason.label()),
    }
}

pub(super) fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Pass => GREEN,
        Verdict::Fail | Verdict::Invalid => RED,
        Verdict::Inconclusive | Verdict::Skipped => YELLOW,
    }
}

/// Thin spaces are for pages.
pub(super) fn plain(text: &str) -> String {
    text.replace('\u{202f}', " ")
}
