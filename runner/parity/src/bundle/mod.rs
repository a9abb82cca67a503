//! The folder a run leaves behind: `golden/` and `warpforge/` with the same files, and beside them
//! what was made of the two.
//!
//! A folder that is being written holds the file [`INCOMPLETE`]. When everything is there,
//! [`COMPLETE`] lists every file with its size and the first mark goes away. So a folder that was
//! cut off is recognised, whatever the moment, and a folder with neither mark is one that another
//! program wrote, which is read as it is.

mod reader;
mod training;
mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::compare::Number;
use crate::file::FileError;
use crate::tolerance::Kind;
pub use reader::{Entry, Role, Side};
pub(crate) use reader::{read_json, tensor_files};
pub use training::*;
pub use writer::{Writer, write_beside};

/// Resolved configuration, versions, seeds, system snapshot.
pub const RUN: &str = "run.json";
pub const GOLDEN: &str = "golden";
pub const WARPFORGE: &str = "warpforge";
/// A float64 evaluation of the same graph.
pub const ORACLE: &str = "oracle";
pub const OUTPUTS: &str = "outputs.safetensors";
pub const CHECKPOINT: &str = "checkpoint.safetensors";
pub const LOSS_CURVE: &str = "loss_curve.json";
pub const METRICS: &str = "metrics.json";
pub const TIMINGS: &str = "timings.json";
pub const PARITY: &str = "parity.json";
pub const REPORT_JSON: &str = "report.json";
pub const REPORT_HTML: &str = "report.html";
pub const JUNIT: &str = "junit.xml";
/// What the machine did meanwhile, record by record.
pub const TIMELINE: &str = "timeline.json";

/// The mark of a folder that is being written.
pub const INCOMPLETE: &str = "incomplete";
/// The mark of one that is whole.
pub const COMPLETE: &str = "complete.json";

/// The file of one step's activations.
pub fn activations(step: u64) -> String {
    format!("activations/step-{step}.safetensors")
}

/// The file of one step's gradients.
pub fn gradients(step: u64) -> String {
    format!("gradients/step-{step}.safetensors")
}

/// The loss of every step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossCurve {
    pub version: u32,
    pub steps: Vec<LossAt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossAt {
    pub step: u64,
    pub loss: Number,
}

/// Final metrics by name.
pub type Metrics = BTreeMap<String, Number>;

/// What [`COMPLETE`] holds: sizes by file name.
#[derive(Debug, Serialize, Deserialize)]
struct Complete {
    version: u32,
    files: BTreeMap<String, u64>,
}

const VERSION: u32 = 1;

/// Why a folder cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("there is no file or folder {}", .0.display())]
    Absent(PathBuf),
    #[error("{} cannot be written: {source}", path.display())]
    Unwritable { path: PathBuf, source: std::io::Error },
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} is incomplete: {why}", path.display())]
    Incomplete { path: PathBuf, why: String },
    #[error("{} is not what it should be: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
    #[error("{name} occurs twice: in {} and in {}", first.display(), second.display())]
    Duplicate { name: String, first: PathBuf, second: PathBuf },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the tensors of {} cannot be written: {source}", path.display())]
    Tensors { path: PathBuf, source: safetensors::SafeTensorError },
}

/// What a file of tensors holds, by its place and name.
pub fn kind_of(path: &Path) -> Kind {
    let name = |path: Option<&std::ffi::OsStr>| {
        path.and_then(|part| part.to_str()).unwrap_or_default().to_ascii_lowercase()
    };
    let folder = name(path.parent().and_then(Path::file_name));
    let file = name(path.file_stem());
    match folder.as_str() {
        "activations" => return Kind::Activations,
        "gradients" => return Kind::Gradients,
        _ => {}
    }
    if file.starts_with("activations") {
        Kind::Activations
    } else if file.starts_with("gradients") {
        Kind::Gradients
    } else if ["checkpoint", "model", "weights"].iter().any(|word| file.contains(word)) {
        Kind::Weights
    } else {
        Kind::Outputs
    }
}

/// A side's folder is whole, or was written by another program and has no mark.
pub(crate) fn check_complete(folder: &Path) -> Result<(), BundleError> {
    let incomplete = |why: String| BundleError::Incomplete { path: folder.to_owned(), why };
    if folder.join(INCOMPLETE).exists() {
        return Err(incomplete("the run that wrote it did not finish; run it again".to_owned()));
    }
    let path = folder.join(COMPLETE);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(BundleError::Unreadable { path, source }),
    };
    let complete: Complete = serde_json::from_slice(&text)
        .map_err(|error| BundleError::Malformed { path: path.clone(), why: error.to_string() })?;
    if complete.version != VERSION {
        let why = format!("it has version {}, this program knows {VERSION}", complete.version);
        return Err(BundleError::Malformed { path, why });
    }
    for (name, wanted) in &complete.files {
        match std::fs::metadata(folder.join(name)) {
            Ok(found) if found.len() == *wanted => {}
            Ok(found) => {
                let found = found.len();
                return Err(incomplete(format!("{name} has {found} bytes and not {wanted}")));
            }
            Err(_) => return Err(incomplete(format!("{name} is missing"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
