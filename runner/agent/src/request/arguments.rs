//! The command lines of children.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use warpforge_operator_api::workers::Vendor;

use super::{Passes, Subject};

/// The request's files, where they are on this worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    pub model: Option<PathBuf>,
    pub inputs: Vec<PathBuf>,
    pub program: Option<PathBuf>,
}

/// What a child is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Says golden's key.
    Key,
    /// Makes golden's folder.
    Golden,
    /// Everything; a golden that is there is used.
    Whole,
}

/// Arguments of `warpforge` for one step. All steps are told the same, so that they agree on
/// golden's key.
pub fn arguments(
    request: &Passes,
    files: &Files,
    step: Step,
    out: &Path,
    limit: u64,
    vendor: Vendor,
) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["run".into()];
    let mut pair = |name: &str, value: &Path| all.extend([name.into(), value.into()]);
    if let Some(model) = &files.model {
        pair("--model", model);
    }
    for inputs in &files.inputs {
        pair("--inputs", inputs);
    }
    if let Some(program) = files.program.as_ref().filter(|_| step == Step::Whole) {
        pair("--program", program);
    }
    pair("--out", out);
    pair("--timeout", Path::new(&limit.to_string()));
    if let Subject::Workload { name } = &request.subject {
        all.insert(1, name.into());
    }
    all.extend(request.options.iter().chain(&request.judging).map(Into::into));
    // A libtorch for ROCm calls its devices so, too.
    if vendor != Vendor::Cpu {
        all.extend(["--golden-device".into(), "cuda:0".into()]);
    }
    all.extend(match step {
        Step::Key => Some("--golden-key".into()),
        Step::Golden => Some("--golden-only".into()),
        Step::Whole => None,
    });
    all
}

/// Arguments of `warpforge` for one of several ranks that make a golden together. `rendezvous` is
/// where they meet.
pub fn golden_of_rank(
    request: &Passes,
    out: &Path,
    (rank, ranks): (u32, usize),
    rendezvous: &str,
    limit: u64,
    vendor: Vendor,
    step: Step,
) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["golden".into()];
    if let Subject::Workload { name } = &request.subject {
        all.push(name.into());
    }
    all.extend(["--out".into(), out.into()]);
    all.extend(request.options.iter().map(Into::into));
    // A libtorch for ROCm calls its devices so, too.
    if vendor != Vendor::Cpu {
        all.extend(["--device".into(), "cuda:0".into()]);
    }
    for (name, value) in [
        ("--set", format!("wall_limit_seconds={limit}")),
        ("--rank", rank.to_string()),
        ("--ranks", ranks.to_string()),
        ("--rendezvous", rendezvous.to_owned()),
    ] {
        all.extend([name.into(), value.into()]);
    }
    all.extend((step == Step::Key).then(|| "--golden-key".into()));
    all
}
