//! What a page says of a training: what was compared, both loss curves, gradients by parameter,
//! the optimiser alone, metrics, speed.

mod curves;
mod gradients;

use std::fmt::Write as _;

use super::super::{Esc, Report, TrainingReport};
use super::tables::{close_table, open_table};
use super::{Path, class, mark};
use crate::compare::Number;
use crate::judge::grouped;
use crate::performance::{Performance, Throughput};
use crate::training::{Compared, MetricAt, Quantity, QuantitySummary, TensorAt, TrainingParity};
use crate::verdict::{Long, Short, Verdict};

const NONE: &str = "\u{2013}";

/// The few numbers that matter most.
pub(super) fn key_figures(page: &mut String, training: &TrainingReport) {
    let parity = &training.parity;
    page.push_str("<dl class=\"figures\">\n");
    let mut figure = |name: &str, value: String| {
        let _ = writeln!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    };
    let good = parity.forced.iter().filter(|step| step.verdict == Verdict::Pass).count();
    figure("Teacher-forced steps", format!("{good} of {} pass", parity.forced.len()));
    let gradients = parity.quantities.iter().find(|row| row.quantity == Quantity::Gradients);
    if let Some(relative) = gradients.and_then(|row| row.relative) {
        figure("Gradients differ by", Short(relative).to_string());
    }
    for metric in parity.metrics.iter().take(2) {
        let candidate = metric.candidate.map_or(NONE.to_owned(), |n| plain(n.0));
        let values = format!("{}\u{a0}/\u{a0}{candidate}", plain(metric.golden.0));
        figure(&format!("{} (golden\u{a0}/\u{a0}ours)", Esc(title(&metric.name))), values);
    }
    let ratio = training.performance.as_ref().and_then(|p| p.ratio);
    if let Some(ratio) = ratio {
        figure("Speed against golden", format!("{}\u{d7}", Short(ratio.value)));
    }
    page.push_str("</dl>\n");
}

pub(super) fn sections(page: &mut String, report: &Report, training: &TrainingReport) {
    let parity = &training.parity;
    first(page, parity);
    quantities(page, parity);
    if let Some(run) = &parity.free_run {
        curves::free_run(page, run);
    }
    metrics(page, parity);
    curves::by_step(page, parity);
    gradients::heat(page, parity);
    optimizer(page, parity);
    bad_tensors(page, parity);
    if let Some(performance) = &training.performance {
        speed(page, performance);
    }
    licences(page, report);
}

fn first(page: &mut String, parity: &TrainingParity) {
    let Some(first) = &parity.first else { return };
    page.push_str("<section>\n<h2>Where it went wrong first</h2>\n<p class=\"lead\">");
    let _ = write!(page, "{}", Esc(first.quantity));
    if let Some(step) = first.step {
        let _ = write!(page, " at step {step}");
    }
    if let Some(tensor) = &first.tensor {
        let _ = write!(page, ": {}", Path(tensor));
    }
    let _ = write!(page, "</p>\n<p>{}.", Esc(super::sentence(&first.what)));
    if first.quantity <= Quantity::Buffers {
        page.push_str(
            " This step began from golden\u{2019}s own state and batch, so that what went wrong \
             went wrong within it.",
        );
    }
    page.push_str("</p>\n</section>\n");
}

fn verdict_cell(page: &mut String, verdict: Verdict) {
    let _ = write!(
        page,
        "<td class=\"state {}\"><span aria-hidden=\"true\">{}</span> {verdict}</td>",
        class(verdict),
        mark(verdict),
    );
}

fn quantities(page: &mut String, parity: &TrainingParity) {
    if parity.quantities.is_empty() {
        return;
    }
    page.push_str(
        "<section>\n<h2>What was compared</h2>\n<p>The upper rows are teacher-forced: each step \
         began from golden\u{2019}s own state and batch. The loss curve and the metrics are of the \
         free run. 100\u{a0}% is what is allowed.</p>\n",
    );
    let columns = [
        "Quantity",
        "Verdict",
        "Compared",
        "Left out",
        "Relative error",
        "Used",
        "Nearest to its bound",
    ];
    page.push_str("<div class=\"tight\">");
    open_table(page, "What was compared", &columns);
    for row in &parity.quantities {
        let _ = write!(
            page,
            "<tr><th scope=\"row\">{}<small>{}</small></th>",
            row.quantity,
            how(row.quantity)
        );
        verdict_cell(page, row.verdict);
        let left_out = if row.left_out == 0 { NONE.to_owned() } else { grouped(row.left_out) };
        let relative = row.relative.map_or(NONE.to_owned(), |x| Short(x).to_string());
        let used = row.used.map_or(NONE.to_owned(), percent);
        let _ = write!(
            page,
            "<td>{}</td><td class=\"number\">{left_out}</td><td class=\"number\">{relative}</td>\
             <td class=\"number\">{used}</td><td class=\"wrap\">",
            counted(row),
        );
        if let Some(place) = &row.worst {
            let name = place.name.strip_prefix("parameter/").unwrap_or(&place.name);
            let _ = write!(page, "{} <small>step {}</small>", Path(name), place.step);
        }
        page.push_str("</td></tr>\n");
    }
    close_table(page);
    page.push_str("</div>\n");
    if !parity.notes.is_empty() {
        page.push_str("<p>");
        for note in &parity.notes {
            let _ = write!(page, "{}. ", Esc(super::sentence(note)));
        }
        page.push_str("</p>\n");
    }
    page.push_str("</section>\n");
}

fn counted(row: &QuantitySummary) -> String {
    let plural = |count: u64, one: &str, many: &str| {
        format!("{} {}", grouped(count), if count == 1 { one } else { many })
    };
    match row.quantity {
        Quantity::Loss | Quantity::Settings | Quantity::LossCurve => {
            plural(row.steps, "step", "steps")
        }
        Quantity::Metrics => plural(row.tensors, "metric", "metrics"),
        _ => format!(
            "{} tensors<br><small>{}</small>",
            grouped(row.tensors),
            plural(row.elements, "element", "elements")
        ),
    }
}

/// By what a quantity is judged, in a few words.
fn how(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Activations => "elementwise, or as near to float64 as golden",
        Quantity::Loss => "of one step",
        Quantity::Gradients => "elementwise and by norm; noise by its size",
        Quantity::Settings => "learning rate, gradient norm",
        Quantity::Optimizer => "fed golden\u{2019}s gradients; by ulps",
        Quantity::Weights | Quantity::OptimizerState => "after the whole step",
        Quantity::Buffers => "after the whole step; integers exactly",
        Quantity::LossCurve => "within golden\u{2019}s own spread",
        Quantity::Metrics => "by the workload\u{2019}s delta or golden\u{2019}s spread",
    }
}

fn metrics(page: &mut String, parity: &TrainingParity) {
    if parity.metrics.is_empty() {
        return;
    }
    page.push_str(
        "<section>\n<h2>Metrics</h2>\n<p>Of the free run, at its end. The passes may differ by the \
         larger of the workload\u{2019}s delta and golden\u{2019}s own spread.</p>\n",
    );
    let columns = [
        "Metric",
        "Golden",
        "Candidate",
        "Difference",
        "Delta",
        "Golden\u{2019}s spread",
        "Expected",
        "Verdict",
    ];
    open_table(page, "Metrics", &columns);
    for metric in &parity.metrics {
        metric_row(page, metric);
    }
    close_table(page);
    if let Some(found) = &parity.final_weights {
        let relative = found.relative.map_or(NONE.to_owned(), |x| Short(x).to_string());
        let _ = writeln!(
            page,
            "<p>The final weights lie {relative} of their norm apart ({} parameters, at most {}). \
             Two free trainings drift, so that this is reported and not judged.</p>",
            found.parameters,
            Short(found.max_abs),
        );
    }
    page.push_str("</section>\n");
}

fn metric_row(page: &mut String, metric: &MetricAt) {
    let difference = metric.candidate.map(|Number(b)| b - metric.golden.0);
    let kept = |keeps: bool| if metric.expectation.is_none() || keeps { "" } else { " missed" };
    let expected = metric.expectation.as_ref().map(crate::training::wanted).unwrap_or_default();
    let _ = write!(
        page,
        "<tr><th scope=\"row\">{}</th><td class=\"number{}\">{}</td><td class=\"number{}\">{}</td>\
         <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
         <td>{}</td>",
        Esc(title(&metric.name)),
        kept(metric.golden_keeps),
        plain(metric.golden.0),
        kept(metric.candidate_keeps),
        metric.candidate.map_or(NONE.to_owned(), |n| plain(n.0)),
        difference.map_or(NONE.to_owned(), signed),
        Short(metric.delta),
        metric.spread.map_or("not measured".to_owned(), |x| Short(x).to_string()),
        if expected.is_empty() { NONE.to_owned() } else { expected },
    );
    verdict_cell(page, metric.verdict);
    page.push_str("</tr>\n");
}

/// `exact_match` as "Exact match", `f1` as "F1".
fn title(name: &str) -> String {
    let spaced = name.replace('_', " ");
    let mut chars = spaced.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Four digits, without an exponent where it can be helped.
fn plain(value: f64) -> String {
    match value.abs() {
        size if (10.0..1e5).contains(&size) => format!("{value:.2}"),
        size if (1e-3..10.0).contains(&size) => format!("{value:.4}"),
        _ => Long(value).to_string(),
    }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "\u{2212}" } else { "+" };
    if value == 0.0 { "0".to_owned() } else { format!("{sign}{}", Short(value.abs())) }
}

fn percent(share: f64) -> String {
    match share {
        share if share >= 100.0 => format!("{}\u{d7}", Short(share)),
        share if share < 1e-4 => "< 0.01\u{a0}%".to_owned(),
        share => format!("{}\u{a0}%", Short(100.0 * share)),
    }
}

/// The optimiser alone: a row for each slot.
fn optimizer(page: &mut String, parity: &TrainingParity) {
    let steps: Vec<(u64, &Compared)> = parity.at_steps(Quantity::Optimizer).collect();
    if steps.is_empty() {
        return;
    }
    let bounds = &parity.bounds;
    let _ = write!(
        page,
        "<section>\n<h2>The optimiser alone</h2>\n<p>Fed golden\u{2019}s own state and gradients, \
         so that only its own arithmetic is seen: {} ulps of the larger value, and {:e} of the \
         change, are allowed.</p>\n",
        bounds.optimizer_ulps, bounds.optimizer_relative,
    );
    open_table(
        page,
        "The optimiser alone",
        &["What", "Verdict", "Tensors", "Elements off", "Largest error", "Used", "Worst"],
    );
    let slot = |name: &str| match name.split_once('/') {
        Some(("parameter", _)) => "new parameters".to_owned(),
        Some((_, rest)) => rest.split('/').next().unwrap_or(rest).to_owned(),
        None => name.to_owned(),
    };
    let all = || steps.iter().flat_map(|(step, found)| found.tensors.iter().map(|t| (*step, t)));
    let mut slots: Vec<String> = Vec::new();
    for (_, tensor) in all() {
        let slot = slot(&tensor.name);
        if !slots.contains(&slot) {
            slots.push(slot);
        }
    }
    slots.sort_by_key(|slot| slot != "new parameters");
    for name in &slots {
        let rows: Vec<(u64, &TensorAt)> = all().filter(|(_, t)| slot(&t.name) == *name).collect();
        slot_row(page, name, &rows);
    }
    close_table(page);
    page.push_str("</section>\n");
}

fn slot_row(page: &mut String, name: &str, rows: &[(u64, &TensorAt)]) {
    let used = |tensor: &TensorAt| tensor.used.unwrap_or(f64::INFINITY);
    let worst = rows.iter().max_by(|a, b| used(a.1).total_cmp(&used(b.1)));
    let largest = rows.iter().map(|(_, t)| t.max_abs).fold(0.0, f64::max);
    let off: u64 = rows.iter().map(|(_, t)| t.mismatches).sum();
    let _ = write!(page, "<tr><th scope=\"row\">{}</th>", Esc(name));
    verdict_cell(page, Verdict::gravest(rows.iter().map(|(_, t)| t.verdict)));
    let _ = write!(
        page,
        "<td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
         <td class=\"number\">{}</td><td class=\"wrap\">",
        rows.len(),
        if off == 0 { NONE.to_owned() } else { grouped(off) },
        Short(largest),
        worst.map_or(NONE.to_owned(), |(_, t)| t.used.map_or(NONE.to_owned(), percent)),
    );
    if let Some((step, tensor)) = worst {
        let name = tensor.name.rsplit('/').next().unwrap_or(&tensor.name);
        let _ = write!(page, "{} <small>step {step}</small>", Path(name));
    }
    page.push_str("</td></tr>\n");
}

/// Rows beyond this are in the JSON.
const MOST_BAD: usize = 40;

/// Tensors that do not pass, in the order in which a step computes them.
fn bad_tensors(page: &mut String, parity: &TrainingParity) {
    let each =
        |found: &'_ Compared| found.tensors.iter().filter(|t| t.verdict != Verdict::Pass).count();
    let all = parity.forced.iter().flat_map(|step| &step.quantities);
    let total: usize = all.map(each).sum();
    if total == 0 {
        return;
    }
    page.push_str("<section>\n<h2>Tensors that do not pass</h2>\n");
    open_table(
        page,
        "Tensors that do not pass",
        &["Tensor", "Verdict", "Quantity", "Step", "Elements off", "Relative error", "Used", "Why"],
    );
    let rows = parity.forced.iter().flat_map(|step| {
        let found = step.quantities.iter();
        found.flat_map(move |found| {
            found.tensors.iter().map(move |t| (step.step, found.quantity, t))
        })
    });
    for (step, quantity, tensor) in
        rows.filter(|(_, _, t)| t.verdict != Verdict::Pass).take(MOST_BAD)
    {
        let name = tensor.name.strip_prefix("parameter/").unwrap_or(&tensor.name);
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", Path(name));
        verdict_cell(page, tensor.verdict);
        let short = |x: Option<f64>| x.map_or(NONE.to_owned(), |x| Short(x).to_string());
        let _ = writeln!(
            page,
            "<td>{quantity}</td><td class=\"number\">{step}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td></tr>",
            grouped(tensor.mismatches),
            short(tensor.relative),
            tensor.used.map_or(NONE.to_owned(), percent),
            tensor.reasons.first().map_or("", |reason| reason.label()),
        );
    }
    close_table(page);
    if total > MOST_BAD {
        let _ = writeln!(page, "<p>{} more are in report.json.</p>", total - MOST_BAD);
    }
    page.push_str("</section>\n");
}

fn speed(page: &mut String, performance: &Performance) {
    page.push_str("<section>\n<h2>Speed and memory</h2>\n<p class=\"lead\">");
    match performance.verdict {
        Some(verdict) => {
            let _ = write!(
                page,
                "<span class=\"state {}\">{} {verdict}</span>: ",
                class(verdict),
                mark(verdict)
            );
        }
        None => page.push_str("Reported, not judged: "),
    }
    let _ = writeln!(page, "{}.</p>", Esc(&performance.summary));
    open_table(
        page,
        "Speed and memory",
        &["Pass", "Median", "Slowest block", "Fastest block", "Blocks", "Steps", "Peak memory"],
    );
    for (name, pass) in [("Golden", &performance.golden), ("Candidate", &performance.candidate)] {
        speed_row(page, name, pass, &performance.unit);
    }
    close_table(page);
    curves::blocks(page, performance);
    let _ = write!(page, "<dl class=\"facts\">");
    let mut fact = |name: &str, value: String| {
        let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", Esc(value));
    };
    if let Some(ratio) = performance.ratio {
        let interval = ratio.interval.map_or(String::new(), |(low, high)| {
            format!(", with 95 % confidence between {} and {}", Short(low), Short(high))
        });
        let turns = if performance.interleaved { "in turns" } else { "one after the other" };
        let value =
            format!("{}{interval} ({} pairs of blocks, {turns})", Short(ratio.value), ratio.pairs);
        fact("Candidate / golden", value);
    }
    if let Some(delta) = performance.allowed_delta {
        fact("Allowed", format!("{} % slower than golden", Short(100.0 * delta)));
    }
    fact("Hardware class", performance.hardware_class.clone());
    fact(
        "Baseline",
        match performance.baseline.as_ref().and_then(|b| b.baseline.as_ref().zip(b.change)) {
            Some((baseline, change)) => format!(
                "{}\u{d7} golden, promoted {}; this run is {} of it",
                Short(baseline.ratio.value),
                baseline.promoted,
                percent(change),
            ),
            None => "none yet".to_owned(),
        },
    );
    page.push_str("</dl>\n</section>\n");
}

fn speed_row(page: &mut String, name: &str, pass: &Throughput, unit: &str) {
    let rate = |x: f64| format!("{} {}", Short(x), Esc(unit));
    let least = pass.samples.iter().copied().reduce(f64::min);
    let most = pass.samples.iter().copied().reduce(f64::max);
    let _ = writeln!(
        page,
        "<tr><th scope=\"row\">{name}</th><td class=\"number\">{}</td><td class=\"number\">{}</td>\
         <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
         <td class=\"number\">{}</td></tr>",
        rate(pass.median),
        least.map_or(NONE.to_owned(), rate),
        most.map_or(NONE.to_owned(), rate),
        pass.samples.len(),
        grouped(pass.steps),
        pass.peak_memory_bytes.map_or(NONE.to_owned(), bytes),
    );
}

/// "1.5 GiB".
fn bytes(count: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(size, _)| count >= *size);
    unit.map_or_else(
        || format!("{count} B"),
        |(size, name)| format!("{} {name}", Short(count as f64 / *size as f64)),
    )
}

fn licences(page: &mut String, report: &Report) {
    if report.attributions.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>Data and weights</h2>\n");
    open_table(page, "Data and weights", &["Used", "Licence", "Attribution"]);
    for used in &report.attributions {
        let accepted = if used.accepted { " (accepted by the user)" } else { "" };
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{}{accepted}</td><td class=\"wrap\">{}</td></tr>",
            Path(&used.id),
            Esc(&used.licence),
            Esc(&used.attribution),
        );
    }
    close_table(page);
    page.push_str("</section>\n");
}
