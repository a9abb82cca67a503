//! JUnit XML: one test case per tensor, of a training one per quantity and step, and one for what
//! belongs to none of them.

use std::fmt::Write as _;

use super::{Esc, Report};
use crate::judge::TensorReport;
use crate::training::TrainingParity;
use crate::verdict::{Reason, Verdict};

/// What a continuous-integration server reads.
pub fn junit(report: &Report) -> String {
    let mut cases: Vec<Case<'_>> = report.tensors.iter().map(of_tensor).collect();
    if let Some(training) = &report.training {
        cases.extend(of_training(&training.parity));
    }
    let told: Vec<&Reason> = cases.iter().flat_map(|case| case.reasons.iter().copied()).collect();
    let whole: Vec<&Reason> =
        report.reasons.iter().filter(|reason| !told.contains(reason)).collect();
    // Without a case the file would read as a success.
    if !whole.is_empty() || cases.is_empty() {
        cases.insert(0, Case { name: "comparison".into(), group: "run".into(), reasons: whole });
    }
    let count =
        |wanted: Outcome| cases.iter().filter(|case| outcome(&case.reasons) == wanted).count();
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
    for Case { name, group, reasons } in &cases {
        let _ =
            write!(xml, "  <testcase name=\"{}\" classname=\"parity.{}\">", Esc(name), Esc(group));
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

/// What a server shows as one test.
struct Case<'a> {
    name: String,
    group: String,
    reasons: Vec<&'a Reason>,
}

fn of_tensor(tensor: &TensorReport) -> Case<'_> {
    let (name, group) = (tensor.name.clone(), tensor.kind.name().to_owned());
    Case { name, group, reasons: tensor.reasons.iter().collect() }
}

/// A case for each quantity of each step, for the loss curve, and for each metric.
fn of_training(parity: &TrainingParity) -> Vec<Case<'_>> {
    let group = |what: &str| format!("training.{}", what.replace(' ', "_"));
    let mut all = Vec::new();
    for step in &parity.forced {
        let name = |what: &str| format!("{what} at step {}", step.step);
        let reasons = step.reasons.iter().collect();
        all.push(Case { name: name("loss"), group: group("loss"), reasons });
        for found in &step.quantities {
            let what = found.quantity.name();
            let tensors = found.tensors.iter().flat_map(|tensor| &tensor.reasons);
            let reasons = found.reasons.iter().chain(tensors).collect();
            all.push(Case { name: name(what), group: group(what), reasons });
        }
    }
    if let Some(run) = &parity.free_run {
        let reasons = run.reasons.iter().collect();
        all.push(Case { name: "loss curve".into(), group: "training.loss_curve".into(), reasons });
    }
    all.extend(parity.metrics.iter().map(|metric| Case {
        name: metric.name.clone(),
        group: "training.metrics".into(),
        reasons: metric.reasons.iter().collect(),
    }));
    all
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
