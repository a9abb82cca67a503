//! What a conformance run says: a table by operation, every failure, JSON and JUnit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use warpforge_snakeburger::conformance::Outcome;
use warpforge_snakeburger::ops;

use super::Done;
use crate::table::{self, Cell};
use crate::ui::{BOLD, GREEN, RED, Ui, YELLOW};

/// The whole run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Summary {
    pub passed: usize,
    pub failed: usize,
    /// Files that need something that is not implemented.
    pub unsupported: usize,
    /// Files that say of themselves that they are not to be run.
    pub disabled: usize,
    /// Files of which something was evaluated, not only parsed, verified and printed.
    pub evaluated: usize,
    pub seconds: f64,
    /// Operations of the specification that occur in a file that passed, in percent.
    pub spec_covered_percent: f64,
    /// Operations of the specification that occur in no file that passed.
    pub spec_missing: Vec<String>,
    pub operations: BTreeMap<String, Counts>,
    pub files: Vec<File>,
}

/// Files an operation occurs in, by their outcome.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Counts {
    passed: usize,
    failed: usize,
    unsupported: usize,
}

/// One file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct File {
    name: String,
    /// `passed`, `failed`, `unsupported` or `disabled`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    evaluated: bool,
    seconds: f64,
}

impl Summary {
    pub fn of(done: &[Done], elapsed: Duration) -> Self {
        let count = |word: &str| done.iter().filter(|d| outcome(d).0 == word).count();
        let mut operations: BTreeMap<String, Counts> = BTreeMap::new();
        for file in done {
            for op in &file.report.ops {
                let counts = operations.entry((*op).to_owned()).or_default();
                match file.report.outcome {
                    Outcome::Passed => counts.passed += 1,
                    Outcome::Failed(_) => counts.failed += 1,
                    Outcome::Unsupported(_) => counts.unsupported += 1,
                    Outcome::Disabled(_) => {}
                }
            }
        }
        let covered = |name: &&str| operations.get(*name).is_some_and(|counts| counts.passed > 0);
        let missing: Vec<String> =
            ops::SPEC.iter().filter(|name| !covered(name)).map(ToString::to_string).collect();
        let share = (ops::SPEC.len() - missing.len()) as f64 / ops::SPEC.len() as f64;
        Self {
            passed: count("passed"),
            failed: count("failed"),
            unsupported: count("unsupported"),
            disabled: count("disabled"),
            evaluated: done.iter().filter(|d| d.report.evaluated).count(),
            seconds: elapsed.as_secs_f64(),
            spec_covered_percent: share * 100.0,
            spec_missing: missing,
            operations,
            files: done.iter().map(file).collect(),
        }
    }
}

fn outcome(done: &Done) -> (&'static str, Option<&str>) {
    match &done.report.outcome {
        Outcome::Passed => ("passed", None),
        Outcome::Failed(why) => ("failed", Some(why)),
        Outcome::Unsupported(why) => ("unsupported", Some(why)),
        Outcome::Disabled(why) => ("disabled", Some(why)),
    }
}

fn file(done: &Done) -> File {
    let (outcome, reason) = outcome(done);
    File {
        name: done.name.clone(),
        outcome,
        reason: reason.map(ToOwned::to_owned),
        evaluated: done.report.evaluated,
        seconds: done.report.elapsed.as_secs_f64(),
    }
}

/// The table by operation, the reason of each failure, the sums.
pub fn show(summary: &Summary, done: &[Done], ui: &mut Ui) -> std::io::Result<()> {
    let head = ["operation", "passed", "failed", "unsupported"];
    let mut rows = vec![head.map(|text| Cell::styled(text, BOLD)).to_vec()];
    for (name, counts) in &summary.operations {
        let bad = counts.failed + counts.unsupported > 0;
        let number = |n: usize, style| match n {
            0 => Cell::from("-"),
            n => Cell::styled(n.to_string(), style),
        };
        rows.push(vec![
            if bad { Cell::styled(name, RED) } else { Cell::from(name.as_str()) },
            number(counts.passed, GREEN),
            number(counts.failed, RED),
            number(counts.unsupported, YELLOW),
        ]);
    }
    table::write(ui.out(), 0, &rows)?;
    for file in done {
        if let (word @ ("failed" | "unsupported"), Some(why)) = outcome(file) {
            writeln!(ui.out(), "\n{RED}{word}{RED:#} {}\n{why}", file.name)?;
        }
    }
    writeln!(
        ui.out(),
        "\n{} passed, {} failed, {} unsupported, {} disabled; {} evaluated; {:.1} % of the \
         specification's operations; {:.1} s",
        summary.passed,
        summary.failed,
        summary.unsupported,
        summary.disabled,
        summary.evaluated,
        summary.spec_covered_percent,
        summary.seconds,
    )
}

pub fn junit(done: &[Done]) -> String {
    let count = |word: &str| done.iter().filter(|d| outcome(d).0 == word).count();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuite name=\"conformance\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
        done.len(),
        count("failed") + count("unsupported"),
        count("disabled"),
    );
    for file in done {
        let (word, why) = outcome(file);
        let (name, why) = (escape(&file.name), escape(why.unwrap_or_default()));
        let seconds = file.report.elapsed.as_secs_f64();
        let _ = write!(xml, "  <testcase name=\"{name}\" time=\"{seconds:.3}\">");
        let _ = match word {
            "passed" => Ok(()),
            "disabled" => write!(xml, "<skipped message=\"{why}\"/>"),
            _ => write!(xml, "<failure message=\"{word}\">{why}</failure>"),
        };
        xml.push_str("</testcase>\n");
    }
    xml.push_str("</testsuite>\n");
    xml
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
