//! Tables: every tensor, times, what ran where, how it was judged, the machine.

use std::fmt::Write as _;

use super::super::{Esc, OracleScope, Report, Timing};
use super::{Path, class, duration, figures, mark};
use crate::compare::{Number, Statistics};
use crate::judge::TensorReport;
use crate::tolerance::Kind;
use crate::verdict::Short;

/// More rows make a page that nobody reads and no phone can show; the rest is in the JSON.
const MOST_TENSORS: usize = 400;
const MOST_FACTS: usize = 600;

pub(super) fn open_table(page: &mut String, label: &str, columns: &[&str]) {
    let _ = write!(
        page,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n<table>\n\
         <thead><tr>"
    );
    for column in columns {
        let _ = write!(page, "<th scope=\"col\">{column}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
}

pub(super) fn close_table(page: &mut String) {
    page.push_str("</tbody>\n</table>\n</div>\n");
}

pub(super) fn tensors(page: &mut String, report: &Report) {
    if report.tensors.is_empty() {
        return;
    }
    page.push_str(
        "<section>\n<h2>Tensors</h2>\n<p>The worst first. \u{201c}Needed\u{201d} is the smallest \
         tolerance that would have passed with the other one as it was.</p>\n",
    );
    open_table(
        page,
        "Tensors",
        &[
            "Tensor",
            "Verdict",
            "Mismatches",
            "Largest error",
            "Relative error",
            "Needed rtol",
            "Needed atol",
            "Tolerance used",
            "Cosine",
            "SQNR",
            "Worst element",
        ],
    );
    let sorted = report.worst_first();
    for tensor in sorted.iter().take(MOST_TENSORS) {
        row(page, tensor);
    }
    close_table(page);
    if sorted.len() > MOST_TENSORS {
        let more = sorted.len() - MOST_TENSORS;
        let _ = writeln!(page, "<p>{more} more, none of them worse, are in report.json.</p>");
    }
    page.push_str("</section>\n");
}

fn row(page: &mut String, tensor: &TensorReport) {
    let shape = tensor.shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("\u{d7}");
    let shape = if shape.is_empty() { "scalar".to_owned() } else { shape };
    let _ = write!(
        page,
        "<tr><th scope=\"row\">{}<small>{} \u{b7} {} \u{b7} {shape}</small></th>\
         <td class=\"state {}\"><span aria-hidden=\"true\">{}</span> {}</td>",
        Path(&tensor.name),
        tensor.kind,
        Esc(&tensor.dtype),
        class(tensor.verdict),
        mark(tensor.verdict),
        tensor.verdict,
    );
    if let Some(statistics) = &tensor.statistics {
        numbers(page, statistics);
    } else {
        let reasons: Vec<String> = tensor.reasons.iter().map(ToString::to_string).collect();
        let _ = write!(page, "<td colspan=\"9\">{}</td>", Esc(reasons.join("; ")));
    }
    page.push_str("</tr>\n");
}

fn numbers(page: &mut String, found: &Statistics) {
    let none = || "\u{2013}".to_owned();
    let short = |value: Option<f64>| value.map_or_else(none, |value| Short(value).to_string());
    let used = found.tolerance_used.map_or_else(none, |used| format!("{} %", Short(used * 100.0)));
    let cells = [
        if found.mismatches == 0 { "0".to_owned() } else { share(found) },
        Short(found.max_abs).to_string(),
        short(found.norm_relative),
        short(found.needed_rtol),
        short(found.needed_atol),
        used,
        found.cosine.map_or_else(none, cosine),
        found.sqnr_db.map_or_else(|| "exact".to_owned(), |db| format!("{db:.0} dB")),
    ];
    for cell in cells {
        let _ = write!(page, "<td class=\"number\">{}</td>", Esc(cell));
    }
    match &found.worst {
        Some(worst) => {
            let (Number(golden), Number(candidate)) = (worst.golden, worst.candidate);
            let _ = write!(
                page,
                "<td>{:?}: {} instead of {}</td>",
                worst.coordinates,
                Short(candidate),
                Short(golden)
            );
        }
        None => page.push_str("<td>all equal</td>"),
    }
}

fn share(found: &Statistics) -> String {
    let percent = Short(100.0 * found.mismatches as f64 / found.count as f64);
    format!("{} ({percent} %)", crate::judge::grouped(found.mismatches))
}

/// Nines are what matters: 1 − 3·10⁻⁹ says more than 1.000.
fn cosine(value: f64) -> String {
    let off = 1.0 - value;
    if off <= 0.0 {
        "1".to_owned()
    } else if off < 1e-3 {
        format!("1\u{2212}{off:.0e}")
    } else {
        format!("{value:.4}")
    }
}

pub(super) fn timings(page: &mut String, report: &Report) {
    let rows: Vec<(&str, &Timing)> =
        [("Golden", &report.timings.golden), ("Candidate", &report.timings.candidate)]
            .into_iter()
            .filter_map(|(name, timing)| Some((name, timing.as_ref()?)))
            .collect();
    if rows.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>Timings</h2>\n");
    if let Some(sentence) = figures::speed_sentence(report) {
        let _ = writeln!(page, "<p>{}</p>", Esc(sentence));
    }
    open_table(
        page,
        "Timings",
        &["Pass", "Median", "Fastest", "Slowest", "Once before", "Samples"],
    );
    for (name, timing) in rows {
        let time = |ns: Option<f64>| ns.map_or_else(|| "\u{2013}".to_owned(), duration);
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{name}</th><td class=\"number\">{}</td><td \
             class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td \
             class=\"number\">{}</td></tr>",
            duration(timing.median_ns),
            time(timing.min_ns),
            time(timing.max_ns),
            time(timing.prepare_ns),
            timing.samples,
        );
    }
    close_table(page);
    page.push_str("</section>\n");
}

pub(super) fn executed(page: &mut String, report: &Report) {
    let executed = &report.executed;
    if executed.operations.is_empty() && executed.fallbacks.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>What ran where</h2>\n");
    for (backend, operations) in &executed.operations {
        let total: u64 = operations.values().sum();
        let _ = write!(
            page,
            "<details><summary>{}: {total} operations of {} kinds</summary>\n<p \
             class=\"words\">",
            Esc(backend),
            operations.len(),
        );
        for (op, count) in operations {
            let _ = write!(page, "<span><code>{}</code> {count}</span> ", Esc(op));
        }
        page.push_str("</p></details>\n");
    }
    if executed.fallbacks.is_empty() {
        page.push_str("<p>Nothing fell back.</p>\n");
    } else {
        open_table(page, "Fallbacks", &["Operation", "Times", "Meant for", "Ran on", "Why"]);
        for fallback in &executed.fallbacks {
            let _ = writeln!(
                page,
                "<tr><th scope=\"row\"><code>{}</code></th><td class=\"number\">{}</td>\
                 <td>{}</td><td>{}</td><td>{}</td></tr>",
                Esc(&fallback.op),
                fallback.count,
                Esc(&fallback.from),
                Esc(&fallback.to),
                Esc(&fallback.why),
            );
        }
        close_table(page);
    }
    page.push_str("</section>\n");
}

/// Tolerances, sides, oracle, seeds and number formats: what the verdict stands on.
pub(super) fn method(page: &mut String, report: &Report) {
    page.push_str("<section>\n<h2>How it was judged</h2>\n");
    page.push_str(
        "<p>An element passes if |candidate \u{2212} golden| \u{2264} atol + rtol\u{b7}|golden|; \
         integers and booleans must be equal.</p>\n<div class=\"columns\">\n",
    );
    open_table(page, "Tolerances", &["Kind", "rtol", "atol"]);
    let training = report.training.as_deref();
    let present = |kind: &Kind| match training {
        Some(_) => *kind != Kind::Outputs,
        None => report.tensors.iter().any(|tensor| tensor.kind == *kind),
    };
    for kind in Kind::ALL.into_iter().filter(present) {
        let tolerance = report.tolerances.of(kind);
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{kind}</th><td class=\"number\">{:e}</td><td \
             class=\"number\">{:e}</td></tr>",
            tolerance.rtol, tolerance.atol
        );
    }
    close_table(page);
    page.push_str("<dl class=\"facts\">\n");
    let mut fact = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", Esc(name), Esc(value));
        }
    };
    for (name, side) in [("Golden", &report.golden), ("Candidate", &report.candidate)] {
        fact(name, &side.source);
        fact(&format!("{name} ran on"), side.device.as_deref().unwrap_or_default());
        fact(&format!("{name} program"), side.program.as_deref().unwrap_or_default());
    }
    if let Some(oracle) = &report.oracle {
        let scope = match oracle.scope {
            OracleScope::Whole => "the whole program",
            OracleScope::Layers => "layer by layer on golden\u{2019}s inputs",
            OracleScope::Sampled => "a sample",
        };
        fact("Oracle", &format!("{} ({scope})", oracle.source));
        let factor = report.tolerances.oracle.factor;
        fact("Oracle bound", &format!("{factor} \u{d7} golden\u{2019}s RMSE + 1 ulp"));
    }
    if let Some(training) = training {
        let bounds = &training.parity.bounds;
        let multiple = bounds.noise_multiple;
        fact("Gradients by norm", &format!("{:e}", bounds.gradient_relative));
        fact("Gradients that are noise", &format!("{multiple} \u{d7} golden\u{2019}s own"));
        fact(
            "Left out at most",
            &format!("{} % of gradient elements", 100.0 * bounds.most_left_out),
        );
        fact("Updates by norm", &format!("{:e}", bounds.update_relative));
        let curve = &bounds.curve;
        fact("Loss curve", &format!("{} \u{d7} golden\u{2019}s own spread", curve.factor));
    }
    for (name, seed) in &report.seeds {
        fact(&format!("Seed: {name}"), &seed.to_string());
    }
    for (name, format) in &report.formats {
        fact(&format!("Format: {name}"), format);
    }
    page.push_str("</dl>\n</div>\n</section>\n");
}

pub(super) fn system(page: &mut String, report: &Report) {
    let Some(system) = &report.system else { return };
    let mut facts = Vec::new();
    flatten(system, &mut String::new(), &mut facts);
    page.push_str(
        "<section>\n<h2>System</h2>\n<details><summary>The machine this ran on</summary>\n<dl \
         class=\"facts\">\n",
    );
    for (name, value) in facts.iter().take(MOST_FACTS) {
        let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", Esc(name), Esc(value));
    }
    page.push_str("</dl></details>\n</section>\n");
}

/// A snapshot's leaves with their paths.
fn flatten(value: &serde_json::Value, path: &mut String, facts: &mut Vec<(String, String)>) {
    let mut inside = |part: &str, value: &serde_json::Value, path: &mut String| {
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(part);
        flatten(value, path, facts);
        path.truncate(length);
    };
    match value {
        serde_json::Value::Null => {}
        serde_json::Value::Object(map) => {
            for (name, value) in map {
                inside(name, value, path);
            }
        }
        serde_json::Value::Array(items) if items.iter().any(serde_json::Value::is_object) => {
            for (i, item) in items.iter().enumerate() {
                inside(&i.to_string(), item, path);
            }
        }
        serde_json::Value::Array(items) => {
            let text = |item: &serde_json::Value| match item {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let joined = items.iter().map(text).collect::<Vec<_>>().join(", ");
            facts.push((path.clone(), joined));
        }
        serde_json::Value::String(text) => facts.push((path.clone(), text.clone())),
        other => facts.push((path.clone(), other.to_string())),
    }
}
