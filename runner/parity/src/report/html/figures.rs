//! The few numbers that matter most, and how far the elements lie apart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::Report;
use super::duration;
use crate::compare::Statistics;
use crate::judge::grouped;
use crate::verdict::{Short, Verdict};

pub(super) fn key_figures(page: &mut String, report: &Report) {
    let statistics = || report.tensors.iter().filter_map(|tensor| tensor.statistics.as_ref());
    let largest =
        |f: fn(&Statistics) -> Option<f64>| statistics().filter_map(f).max_by(f64::total_cmp);
    let passed = report.tensors.iter().filter(|tensor| tensor.verdict == Verdict::Pass).count();
    page.push_str("<dl class=\"figures\">\n");
    let mut figure = |name: &str, value: String| {
        let _ = writeln!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    };
    figure("Tensors that pass", format!("{passed} of {}", report.tensors.len()));
    figure("Elements compared", grouped(report.elements));
    if let Some(error) = largest(|s| Some(s.max_abs)) {
        figure("Largest error", Short(error).to_string());
    }
    if let Some(error) = largest(|s| s.norm_relative) {
        figure("Relative error", Short(error).to_string());
    }
    if let Some(used) = largest(|s| s.tolerance_used) {
        figure("Tolerance used", percent(used));
    }
    if let Some(ratio) = speed(report) {
        figure("Speed against golden", format!("{}\u{d7}", Short(ratio)));
    }
    page.push_str("</dl>\n");
}

fn percent(share: f64) -> String {
    if share >= 100.0 {
        format!("{}\u{d7} over", Short(share))
    } else {
        format!("{}\u{a0}%", Short(share * 100.0))
    }
}

fn speed(report: &Report) -> Option<f64> {
    let (golden, candidate) = (report.timings.golden.as_ref()?, report.timings.candidate.as_ref()?);
    Some(golden.median_ns / candidate.median_ns).filter(|ratio| ratio.is_finite())
}

/// "Golden took 12 ms, the candidate 6 ms: …".
pub(super) fn speed_sentence(report: &Report) -> Option<String> {
    let ratio = speed(report)?;
    let (golden, candidate) = (report.timings.golden.as_ref()?, report.timings.candidate.as_ref()?);
    let (golden, candidate) = (duration(golden.median_ns), duration(candidate.median_ns));
    let compared = if ratio >= 1.0 {
        format!("{} times as fast", Short(ratio))
    } else {
        format!("{} times as long", Short(1.0 / ratio))
    };
    Some(format!("Golden took {golden}, the candidate {candidate}: {compared}."))
}

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 14.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;

/// The histogram of distances, of all tensors together.
pub(super) fn ulps(page: &mut String, report: &Report) {
    let mut buckets: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for bucket in report.tensors.iter().filter_map(|t| t.statistics.as_ref()).flat_map(|s| &s.ulps)
    {
        *buckets.entry((bucket.from, bucket.to)).or_default() += bucket.count;
    }
    let total: u64 = buckets.values().sum();
    if total == 0 {
        return;
    }
    page.push_str(
        "<section>\n<h2>How far apart</h2>\n<p>Elements by their distance from golden, in \
         representable values of their own type (ulps). The height is logarithmic, so that a few \
         far ones are seen beside many near ones.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Histogram of \
         distances\">\n",
    );
    let equal = buckets.get(&(0, 0)).copied().unwrap_or(0);
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} % of the elements \
         are equal; the largest distance is {} ulps.\">",
        Short(100.0 * equal as f64 / total as f64),
        buckets.keys().last().map_or(0, |(_, to)| *to),
    );
    // Few buckets would make bars like walls.
    let slots = buckets.len().max(10) as f64;
    let width = (WIDTH - 2.0 * LEFT) / slots;
    let highest = (total as f64).ln_1p();
    let base = HEIGHT - BOTTOM;
    let _ = writeln!(
        page,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{base}\" y2=\"{base}\"/>",
        WIDTH - LEFT
    );
    for (i, ((from, to), count)) in buckets.iter().enumerate() {
        let x = LEFT + i as f64 * width;
        let height = (base - TOP) * (*count as f64).ln_1p() / highest;
        let label = tick(*from, *to);
        let share = 100.0 * *count as f64 / total as f64;
        let middle = x + width / 2.0;
        let _ = write!(
            page,
            "<g><title>{} elements ({} %) lie {} apart</title><rect class=\"bar\" x=\"{:.1}\" \
             y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>",
            grouped(*count),
            Short(share),
            if from == to { format!("{from} ulps") } else { format!("{from} to {to} ulps") },
            x + width * 0.12,
            base - height,
            width * 0.76,
            height,
        );
        if *count > 0 {
            let _ = write!(
                page,
                "<text class=\"value\" x=\"{middle:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\">{}</text>",
                base - height - 7.0,
                short(*count),
            );
        }
        let _ = writeln!(
            page,
            "<text class=\"tick\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}\
             </text></g>",
            base + 20.0,
        );
    }
    let _ = writeln!(
        page,
        "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">distance in ulps</text>",
        WIDTH / 2.0,
        HEIGHT - 6.0,
    );
    page.push_str("</svg>\n</div>\n</section>\n");
}

/// A bucket's upper end, as a power of two where it is long.
fn tick(from: u64, to: u64) -> String {
    match to.checked_ilog2() {
        _ if from == to => from.to_string(),
        Some(power) if power >= 10 => {
            format!("\u{2264}2<tspan class=\"power\" dy=\"-5\">{power}</tspan>")
        }
        _ => format!("\u{2264}{to}"),
    }
}

/// 1234567 as "1.23M".
fn short(number: u64) -> String {
    const UNITS: [(f64, &str); 6] =
        [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    if number < 10_000 {
        return number.to_string();
    }
    let number = number as f64;
    let unit = UNITS.iter().find(|(size, _)| number >= *size);
    unit.map_or_else(
        || number.to_string(),
        |(size, name)| format!("{}{name}", Short(number / size)),
    )
}
