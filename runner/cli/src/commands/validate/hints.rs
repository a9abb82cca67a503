//! What to do about a comparison that did not pass.

use warpforge_parity::report::Report;
use warpforge_parity::tolerance::Kind;
use warpforge_parity::verdict::{Reason, Short};

use crate::settings::nearest::nearest;

pub fn of(report: &Report) -> Vec<String> {
    let hints = [names(report), narrow_types(report), nonfinite(report), tolerance(report)];
    hints.into_iter().flatten().collect()
}

/// A tensor that is missing may be there under another name.
fn names(report: &Report) -> Option<String> {
    let tensor = |reason: &Reason, missing: bool| match reason {
        Reason::MissingTensor { tensor } if missing => Some(tensor.clone()),
        Reason::ExtraTensor { tensor } if !missing => Some(tensor.clone()),
        _ => None,
    };
    let of = |missing| report.reasons.iter().filter_map(move |reason| tensor(reason, missing));
    let extra: Vec<String> = of(false).collect();
    // A prefix that one side adds (`module.`) is more common than a typing error.
    let prefixed = |a: &str, b: &str| a.ends_with(b) || b.ends_with(a);
    let (missing, like) = of(true).find_map(|missing| {
        let same = extra.iter().find(|extra| prefixed(extra, &missing)).map(String::as_str);
        let like = same.or_else(|| nearest(&missing, extra.iter().map(String::as_str)))?;
        Some((missing.clone(), like.to_owned()))
    })?;
    Some(format!("golden's {missing} may be the candidate's {like}: tensors are paired by name"))
}

/// Half the bits cannot keep a tolerance made for float32.
fn narrow_types(report: &Report) -> Option<String> {
    let failed = |reason: &Reason| matches!(reason, Reason::ValueMismatch { .. });
    let narrow = |dtype: &str| dtype == "BF16" || dtype == "F16" || dtype.starts_with("F8");
    let mut tensors = report.tensors.iter().filter(|tensor| narrow(&tensor.dtype));
    let tensor = tensors.find(|tensor| tensor.reasons.iter().any(failed))?;
    Some(format!(
        "{} cannot keep an rtol of {:e}; give a float64 evaluation with --oracle, or a tolerance \
         of its own with --tolerance",
        tensor.dtype.to_lowercase(),
        report.tolerances.of(tensor.kind).rtol
    ))
}

fn nonfinite(report: &Report) -> Option<String> {
    let both = |reason: &Reason| match reason {
        Reason::NonFinite { counts, .. } => counts.different == 0 && counts.same > 0,
        _ => false,
    };
    report.reasons.iter().any(both).then(|| {
        "both sides have the same NaN and infinity in the same places; if golden is meant to, say \
         --expect-nonfinite"
            .to_owned()
    })
}

/// The smallest tolerance that would have passed, for those who decide that it should.
fn tolerance(report: &Report) -> Option<String> {
    let failed = |reason: &Reason| matches!(reason, Reason::ValueMismatch { .. });
    let only = report.reasons.iter().all(failed);
    if report.reasons.is_empty() || !only {
        return None;
    }
    let needed = |kind: Kind| {
        let bad = report.tensors.iter().filter(|t| t.kind == kind && !t.reasons.is_empty());
        let needed: Option<Vec<f64>> =
            bad.map(|tensor| tensor.statistics.as_ref()?.needed_rtol).collect();
        needed?.into_iter().reduce(f64::max).map(|rtol| format!("{kind}.rtol={}", up(rtol)))
    };
    let wanted: Vec<String> = Kind::ALL.into_iter().filter_map(needed).collect();
    let flags: Vec<String> = wanted.iter().map(|w| format!("--tolerance {w}")).collect();
    (!flags.is_empty()).then(|| format!("it would pass with {}", flags.join(" ")))
}

/// Rounded up, so that the number shown does pass.
fn up(value: f64) -> String {
    Short(value * 1.01).to_string()
}
