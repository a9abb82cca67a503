//! JUnit XML: one test case per tensor, and one for what belongs to no tensor.

use std::fmt::Write as _;

use super::{Esc, Report};
use crate::verdict::{Reason, Verdict};

/// What a continuous-integration server reads.
pub fn junit(report: &Report) -> String {
    let whole: Vec<&Reason> = report.reasons.iter().filter(|r| r.tensor().is_none()).collect();
    let cases = report.tensors.iter().map(|tensor| {
        (tensor.name.as_str(), tensor.kind.name(), tensor.reasons.iter().collect::<Vec<_>>())
    });
    // Without a tensor there must still be a case, or the file would read as a success.
    let all =
        (!whole.is_empty() || report.tensors.is_empty()).then_some(("comparison", "run", whole));
    let cases: Vec<(&str, &str, Vec<&Reason>)> = all.into_iter().chain(cases).collect();
    let count = |wanted: Outcome| cases.iter().filter(|case| outcome(&case.2) == wanted).count();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuite name=\"parity: {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" \
         skipped=\"{}\">",
        Esc(&report.title),
        cases.len(),
        count(Outcome::Failure),
        count(Outcome::Error),
        count(Outcome::Skipped),
    );
    for (name, kind, reasons) in &cases {
        let _ = write!(xml, "  <testcase name=\"{}\" classname=\"parity.{kind}\">", Esc(name));
        if let Some(first) = reasons.iter().max_by_key(|reason| reason.verdict()) {
            let element = outcome(reasons).element();
            let _ =
                write!(xml, "<{element} type=\"{}\" message=\"{}\">", first.label(), Esc(first));
            for reason in reasons {
                let _ = writeln!(xml, "{}", Esc(reason));
            }
            let _ = write!(xml, "</{element}>");
        }
        xml.push_str("</testcase>\n");
    }
    xml.push_str("</testsuite>\n");
    xml
}

#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Success,
    Failure,
    Error,
    Skipped,
}

impl Outcome {
    fn element(self) -> &'static str {
        match self {
            Self::Failure | Self::Success => "failure",
            Self::Error => "error",
            Self::Skipped => "skipped",
        }
    }
}

fn outcome(reasons: &[&Reason]) -> Outcome {
    match reasons.iter().map(|reason| reason.verdict()).max() {
        None | Some(Verdict::Pass) => Outcome::Success,
        Some(Verdict::Fail) => Outcome::Failure,
        Some(Verdict::Skipped) => Outcome::Skipped,
        Some(Verdict::Invalid | Verdict::Inconclusive) => Outcome::Error,
    }
}
