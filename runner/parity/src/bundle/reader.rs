//! Reading one side: every tensor it has, by name, whatever files they are in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{
    BundleError, GOLDEN, LOSS_CURVE, LossCurve, METRICS, Metrics, ORACLE, WARPFORGE,
    check_complete, kind_of,
};
use crate::compare::{Dtype, Number, Tensor};
use crate::file::TensorFile;
use crate::tolerance::Kind;

/// Which side of a bundle is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Golden,
    Candidate,
    Oracle,
}

impl Role {
    fn folder(self) -> &'static str {
        match self {
            Self::Golden => GOLDEN,
            Self::Candidate => WARPFORGE,
            Self::Oracle => ORACLE,
        }
    }
}

/// One tensor of a side.
#[derive(Debug)]
pub struct Entry {
    pub kind: Kind,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Tensor {
        file: usize,
        name: String,
    },
    /// From a JSON file, as float64.
    Scalars {
        shape: Vec<usize>,
        data: Vec<u8>,
    },
}

/// Everything one side has to compare.
#[derive(Debug, Default)]
pub struct Side {
    files: Vec<TensorFile>,
    entries: BTreeMap<String, Entry>,
}

impl Side {
    /// Opens a safetensors file, a folder of them, one side of a bundle, or a bundle, of which
    /// the role says the side.
    pub fn open(path: &Path, role: Role) -> Result<Self, BundleError> {
        let mut side = Self::default();
        if path.is_dir() {
            let inner = path.join(role.folder());
            let folder = if inner.is_dir() { inner } else { path.to_owned() };
            check_complete(&folder)?;
            side.add_folder(&folder)?;
        } else if path.exists() {
            side.add_file(path, kind_of(path), "")?;
        } else {
            return Err(BundleError::Absent(path.to_owned()));
        }
        Ok(side)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entry(&self, name: &str) -> Option<(&Entry, Tensor<'_>)> {
        let entry = self.entries.get(name)?;
        let tensor = match &entry.source {
            Source::Tensor { file, name } => self.files.get(*file)?.tensor(name)?,
            Source::Scalars { shape, data } => Tensor { dtype: Dtype::F64, shape, data },
        };
        Some((entry, tensor))
    }

    fn add_folder(&mut self, folder: &Path) -> Result<(), BundleError> {
        for path in tensor_files(folder)? {
            let relative = path.strip_prefix(folder).unwrap_or(&path);
            self.add_file(&path, kind_of(relative), &group(relative))?;
        }
        let loss = folder.join(LOSS_CURVE);
        if loss.exists() {
            let curve: LossCurve = read_json(&loss)?;
            let values: Vec<Number> = curve.steps.iter().map(|at| at.loss).collect();
            let shape = vec![values.len()];
            self.add_scalars("loss_curve".to_owned(), Kind::Loss, shape, &values);
        }
        let metrics = folder.join(METRICS);
        if metrics.exists() {
            for (name, value) in read_json::<Metrics>(&metrics)? {
                self.add_scalars(format!("metrics/{name}"), Kind::Metrics, Vec::new(), &[value]);
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path, kind: Kind, group: &str) -> Result<(), BundleError> {
        let file = TensorFile::open(path)?;
        let number = self.files.len();
        for name in file.names() {
            let label = if group.is_empty() { name.clone() } else { format!("{group}/{name}") };
            let source = Source::Tensor { file: number, name };
            let before = self.entries.insert(label.clone(), Entry { kind, source });
            if let Some(Entry { source: Source::Tensor { file, .. }, .. }) = before {
                let first = self.files[file].path().to_owned();
                return Err(BundleError::Duplicate { name: label, first, second: path.to_owned() });
            }
        }
        self.files.push(file);
        Ok(())
    }

    fn add_scalars(&mut self, label: String, kind: Kind, shape: Vec<usize>, values: &[Number]) {
        let data = values.iter().flat_map(|number| number.0.to_le_bytes()).collect();
        self.entries.insert(label, Entry { kind, source: Source::Scalars { shape, data } });
    }
}

/// The name tensors of a file have in common: its path without ending and without the number of
/// its part, so that two runs may split their checkpoints differently.
fn group(relative: &Path) -> String {
    let name = relative.with_extension("").display().to_string();
    let shard = |name: &str| {
        let (rest, total) = name.rsplit_once("-of-")?;
        let (rest, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        (digits(total) && digits(number)).then(|| rest.to_owned())
    };
    shard(&name).unwrap_or(name)
}

/// Every safetensors file below a folder, in a stable order. Links to folders are not followed,
/// so that a loop cannot catch us.
pub(crate) fn tensor_files(folder: &Path) -> Result<Vec<PathBuf>, BundleError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let failed = |source| BundleError::Unreadable { path: next.clone(), source };
        for entry in std::fs::read_dir(&next).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "safetensors") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a JSON file as what it should be.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, BundleError> {
    let text = std::fs::read(path)
        .map_err(|source| BundleError::Unreadable { path: path.to_owned(), source })?;
    serde_json::from_slice(&text)
        .map_err(|error| BundleError::Malformed { path: path.into(), why: error.to_string() })
}
