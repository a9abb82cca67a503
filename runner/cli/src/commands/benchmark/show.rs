//! How figures look to people.

use warpforge_bench::model::{BenchmarkMetric, BenchmarkRunResult};
use warpforge_bench::monitor::Summary;
use warpforge_parity::verdict::{Short, Verdict};

use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, GREEN, RED, Ui, YELLOW};

/// A figure with its unit.
pub fn figure(value: f64, unit: &str) -> String {
    format!("{} {unit}", Short(value))
}

/// One benchmark's results.
pub fn result(result: &BenchmarkRunResult, ui: &mut Ui) -> std::io::Result<()> {
    let style = match result.verdict {
        Verdict::Pass => GREEN,
        Verdict::Skipped | Verdict::Inconclusive => YELLOW,
        Verdict::Fail | Verdict::Invalid => RED,
    };
    let reason = result.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    writeln!(
        ui.out(),
        "{BOLD}{}{BOLD:#}  {style}{}{style:#}{reason}",
        result.spec.id,
        result.verdict
    )?;
    let rows: Vec<_> = result.metrics.iter().map(row).collect();
    table::write(ui.out(), 2, &rows)
}

fn row(metric: &BenchmarkMetric) -> Vec<Cell> {
    let reach = match metric.interval {
        Some(interval) => {
            format!("\u{b1}{:.1} %", 100.0 * interval.relative(metric.median))
        }
        None => "no interval".to_owned(),
    };
    let dropped = match metric.dropped {
        0 => String::new(),
        n => format!(", {n} throttled"),
    };
    let expectation = metric.expectation.as_ref().map_or_else(String::new, |expectation| {
        format!("{:.1} % of {}", expectation.percent, expectation.of)
    });
    vec![
        Cell::from(metric.key()),
        Cell::from(figure(metric.value, &metric.unit)),
        Cell::styled(reach, DIM),
        Cell::styled(format!("n={}{dropped}", metric.samples), DIM),
        Cell::styled(expectation, DIM),
    ]
}

/// What the monitor saw, in a line.
pub fn seen(summary: &Summary) -> String {
    let mut parts = vec![format!("{} looks", summary.records)];
    parts.extend(summary.cpu_mean_percent.map(|percent| format!("CPU {percent:.0} %")));
    parts.extend(summary.memory_max_percent.map(|percent| format!("memory {percent:.0} %")));
    for gpu in &summary.gpus {
        let power = gpu.mean_power_watts.map_or_else(String::new, |watts| format!(" {watts:.0} W"));
        parts.push(format!("GPU {}{power}", gpu.index));
    }
    parts.push(format!("own load {:.2} % of a core", summary.overhead_percent));
    let line = parts.join(", ");
    // Why is in the JSON; here only what.
    let missing: Vec<_> =
        summary.missing.iter().map(|text| text.split(": ").next().unwrap_or(text)).collect();
    match missing.as_slice() {
        [] => line,
        missing => format!("{line}; not watched: {}", missing.join(", ")),
    }
}
