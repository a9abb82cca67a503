//! How a run was set up, with everything that was left open settled: `run.json`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use warpforge_parity::report::Report;
use warpforge_parity::tolerance::Tolerances;

use super::{INPUTS, Prepared, Request, Weights, absolute};
use crate::error::Error;

/// The form of [`Record`]; a reader that does not know it must not guess.
pub const VERSION: u32 = 1;

/// What a run was told and what it settled by itself: enough to repeat it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// The form of this file.
    pub version: u32,
    /// When it ended, in RFC 3339.
    pub created: String,
    pub model: FileInfo,
    pub weights: WeightsInfo,
    pub inputs: InputsInfo,
    /// The program that was put in Pass 2's place.
    pub program: Option<FileInfo>,
    /// Sizes that export left open, as they were settled.
    pub dims: BTreeMap<String, i64>,
    pub seed: u64,
    /// Threads of one golden operator.
    pub threads: u32,
    pub golden_device: String,
    pub candidate_device: String,
    /// Whether golden also ran in float64.
    pub oracle: bool,
    /// Timed repetitions of each pass.
    pub repeats: u32,
    pub time_limit_seconds: Option<f64>,
    pub tolerances: Tolerances,
    pub expect_nonfinite: bool,
    /// Number formats by where they are used.
    pub formats: BTreeMap<String, String>,
    /// Versions of what took part.
    pub versions: BTreeMap<String, String>,
    /// The machine, as `warpforge system --json` has it.
    pub system: Option<serde_json::Value>,
}

/// A file as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileInfo {
    pub path: PathBuf,
    pub bytes: u64,
    pub sha256: String,
}

/// Where the weights came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum WeightsInfo {
    /// The model's own.
    Archive,
    Safetensors {
        file: FileInfo,
    },
    Recipe {
        file: FileInfo,
    },
    /// The recipe that is built in, with the run's seed.
    StandardRecipe,
}

/// Where the inputs came from; either way they are in the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum InputsInfo {
    File {
        file: FileInfo,
    },
    /// Drawn with the run's seed.
    Seed {
        written_to: String,
    },
}

/// What a run was given, as it was before anything was written.
pub(super) struct Sources {
    model: FileInfo,
    weights: WeightsInfo,
    inputs: InputsInfo,
    program: Option<FileInfo>,
}

impl Sources {
    pub fn of(request: &Request) -> Result<Self, Error> {
        let weights = match &request.weights {
            Weights::Archive => WeightsInfo::Archive,
            Weights::Safetensors(path) => WeightsInfo::Safetensors { file: FileInfo::of(path)? },
            Weights::Recipe(path) => WeightsInfo::Recipe { file: FileInfo::of(path)? },
            Weights::StandardRecipe => WeightsInfo::StandardRecipe,
        };
        let inputs = match &request.inputs {
            Some(path) => InputsInfo::File { file: FileInfo::of(path)? },
            None => InputsInfo::Seed { written_to: INPUTS.to_owned() },
        };
        let program = request.program.as_deref().map(FileInfo::of).transpose()?;
        Ok(Self { model: FileInfo::of(&request.model)?, weights, inputs, program })
    }
}

impl Record {
    pub(super) fn of(
        sources: Sources,
        request: &Request,
        prepared: &Prepared,
        report: &Report,
    ) -> Self {
        let Sources { model, weights, inputs, program } = sources;
        Self {
            version: VERSION,
            created: report.created.clone().unwrap_or_default(),
            model,
            weights,
            inputs,
            program,
            dims: prepared.sizes.clone(),
            seed: request.seed,
            threads: request.threads,
            golden_device: request.device.to_string(),
            candidate_device: report.candidate.device.clone().unwrap_or_default(),
            oracle: report.oracle.is_some(),
            repeats: request.repeats,
            time_limit_seconds: request.limit.map(|limit| limit.as_secs_f64()),
            tolerances: request.settings.tolerances,
            expect_nonfinite: request.settings.expect_nonfinite,
            formats: report.formats.clone(),
            versions: report.versions.clone(),
            system: report.system.clone(),
        }
    }
}

impl FileInfo {
    /// Reads the file once, in pieces, so that a large one is not held in memory for it.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::io(path, error);
        let mut file = File::open(path).map_err(io)?;
        let (mut digest, mut bytes) = (Sha256::new(), 0);
        let mut piece = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut piece).map_err(io)?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
            digest.update(&piece[..read]);
        }
        let hex = |byte: &u8| format!("{byte:02x}");
        let sha256 = digest.finalize().iter().map(hex).collect();
        Ok(Self { path: absolute(path)?, bytes, sha256 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "abc").unwrap();
        let info = FileInfo::of(&path).unwrap();
        let wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((info.bytes, info.sha256.as_str()), (3, wanted));
        assert!(FileInfo::of(&folder.path().join("y")).is_err());
    }
}
