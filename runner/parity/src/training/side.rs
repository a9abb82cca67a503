//! One side's folder: files are opened as they are asked for, and what is missing is told apart
//! from what is damaged.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::bundle::{self, BundleError};
use crate::file::TensorFile;
use crate::verdict::Reason;

pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A side's folder, or a bundle, of which the side's own folder is taken.
    pub fn open(path: &Path, side: &str) -> Result<Self, BundleError> {
        let inner = path.join(side);
        let path = if inner.is_dir() { inner } else { path.to_owned() };
        if !path.is_dir() {
            return Err(BundleError::Absent(path));
        }
        bundle::check_complete(&path)?;
        Ok(Self { path })
    }

    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, BundleError> {
        let path = self.path.join(name);
        if path.is_file() { bundle::read_json(&path).map(Some) } else { Ok(None) }
    }

    pub fn tensors(&self, name: &str) -> Result<Option<TensorFile>, BundleError> {
        let path = self.path.join(name);
        if path.is_file() { Ok(Some(TensorFile::open(&path)?)) } else { Ok(None) }
    }

    /// Every file of tensors below a folder of this side, by its name in that folder.
    pub fn files_below(&self, folder: &str) -> Result<Vec<String>, BundleError> {
        let root = self.path.join(folder);
        if !root.is_dir() {
            return Ok(Vec::new());
        }
        let inside = |path: &PathBuf| {
            let relative = path.strip_prefix(&root).unwrap_or(path);
            relative.to_string_lossy().into_owned()
        };
        Ok(bundle::tensor_files(&root)?.iter().map(inside).collect())
    }
}

/// A file that both sides should have.
pub(super) fn pair<T>(
    name: &str,
    golden: Option<T>,
    candidate: Option<T>,
) -> Result<(T, T), Option<Reason>> {
    match (golden, candidate) {
        (Some(golden), Some(candidate)) => Ok((golden, candidate)),
        (Some(_), None) => Err(Some(Reason::MissingFile { path: name.to_owned() })),
        (None, Some(_)) => Err(Some(Reason::GoldenLacks { path: name.to_owned() })),
        (None, None) => Err(None),
    }
}
