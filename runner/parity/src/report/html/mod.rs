//! The report as one page that needs nothing else: no network, no script, no font of its own.
//! Every text from outside goes through [`Esc`], and a policy in the page forbids whatever could
//! slip through.

mod chart;
mod figures;
mod layers;
mod scale;
mod tables;
mod timeline;
mod training;

use std::fmt::Write as _;

use super::{Esc, Report};
use crate::judge::grouped;
use crate::verdict::{Short, Verdict};

const STYLE: &str = include_str!("style.css");

/// Nothing may be loaded and nothing may run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The whole page.
pub fn html(report: &Report) -> String {
    let mut page = String::with_capacity(64 << 10);
    let verdict = report.verdicts.correctness;
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>{verdict}: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        Esc(&report.title),
    );
    header(&mut page, report);
    page.push_str("<main>\n");
    if let Some(training) = &report.training {
        training::key_figures(&mut page, training);
        training::sections(&mut page, report, training);
    } else {
        figures::key_figures(&mut page, report);
    }
    divergence(&mut page, report);
    layers::plot(&mut page, report);
    figures::ulps(&mut page, report);
    tables::tensors(&mut page, report);
    tables::timings(&mut page, report);
    timeline::plot(&mut page, report);
    tables::executed(&mut page, report);
    tables::method(&mut page, report);
    tables::system(&mut page, report);
    page.push_str("</main>\n");
    footer(&mut page, report);
    page.push_str("</body>\n</html>\n");
    page
}

fn header(page: &mut String, report: &Report) {
    let verdict = report.verdicts.correctness;
    let _ = write!(
        page,
        "<header>\n<p class=\"eyebrow\">WarpForge parity report</p>\n<h1>{}</h1>\n\
         <div class=\"verdict {}\"><span class=\"mark\" aria-hidden=\"true\">{}</span>\
         <p><strong>{verdict}</strong> <span>{}</span></p></div>\n",
        Esc(&report.title),
        class(verdict),
        mark(verdict),
        Esc(sentence(&report.summary)),
    );
    if report.reasons.len() > 1 {
        let total = report.reasons.len();
        let _ = write!(page, "<details><summary>All {total} reasons</summary>\n<ul>");
        for reason in report.reasons.iter().take(200) {
            let _ = write!(page, "<li>{}</li>", Esc(reason));
        }
        if total > 200 {
            let _ = write!(page, "<li>and {} more, in report.json</li>", total - 200);
        }
        page.push_str("</ul></details>\n");
    }
    page.push_str("</header>\n");
}

/// Sentences begin with a capital, unless they begin with a tensor's name.
fn sentence(text: &str) -> String {
    let named = text.split_whitespace().next().is_some_and(|word| word.ends_with(':'));
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if !named => first.to_uppercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Skipped => "skipped",
        Verdict::Invalid => "invalid",
    }
}

/// Told apart without colour.
fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "\u{2713}",
        Verdict::Fail => "\u{2715}",
        Verdict::Inconclusive => "?",
        Verdict::Skipped => "\u{2013}",
        Verdict::Invalid => "!",
    }
}

/// Where it first diverged, in words.
fn divergence(page: &mut String, report: &Report) {
    let Some(first) = &report.first_divergence else { return };
    let Some(layer) = report.layers.get(first.layer) else { return };
    page.push_str("<section>\n<h2>Where it first diverged</h2>\n");
    let _ = write!(
        page,
        "<p class=\"lead\">{}</p>\n<p>The operation <code>{}</code> \
         (<code>{}</code>), number {} of {}, is the first whose error is more than rounding: \
         what comes in is off by {}, what comes out by {}.",
        Path(&first.module_path),
        Esc(&first.op),
        Esc(&first.name),
        first.layer + 1,
        report.layers.len(),
        Short(layer.error_in.0),
        layer.error_out.map_or_else(|| "an unknown amount".to_owned(), |e| Short(e.0).to_string()),
    );
    if let Some(isolated) = layer.isolated_error {
        let _ = write!(page, " On golden\u{2019}s inputs it is off by {}.", Short(isolated.0));
    }
    page.push_str("</p>\n");
    if let Some(repro) = &first.repro {
        let _ = writeln!(page, "<p>It can be replayed alone: <code>{}</code></p>", Esc(repro));
    }
    page.push_str("</section>\n");
}

fn footer(page: &mut String, report: &Report) {
    page.push_str("<footer><p>");
    let elements = grouped(report.elements);
    let _ = write!(page, "{elements} elements compared");
    if let Some(created) = &report.created {
        let _ = write!(page, " on {}", Esc(created));
    }
    for (name, version) in &report.versions {
        let _ = write!(page, " \u{b7} {} {}", Esc(name), Esc(version));
    }
    page.push_str("</p></footer>\n");
}

/// A dotted name that may break after its parts.
pub(super) struct Path<'a>(pub &'a str);

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<code>")?;
        for part in self.0.split_inclusive(['.', '/', '_', ':']) {
            write!(f, "{}<wbr>", Esc(part))?;
        }
        f.write_str("</code>")
    }
}

/// "12.3 µs"
fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "\u{b5}s"),
        ns => (ns, "ns"),
    };
    format!("{}\u{a0}{unit}", Short(value))
}
