//! Writing: every file beside its place and renamed, the mark of completeness last.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use safetensors::tensor::{TensorView, serialize_to_file};
use serde::Serialize;

use super::{BundleError, COMPLETE, Complete, INCOMPLETE, VERSION};
use crate::compare::Tensor;

/// A folder in the making: one side of a bundle, or the bundle itself. Dropped without
/// [`Writer::finish`], it stays marked as incomplete.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    files: BTreeMap<String, u64>,
}

impl Writer {
    /// Makes the folder if needed and marks it; what an earlier run left in it no longer counts.
    pub fn create(folder: &Path) -> Result<Self, BundleError> {
        let writer = Self { folder: folder.to_owned(), files: BTreeMap::new() };
        let mark = folder.join(INCOMPLETE);
        at(folder, fs::create_dir_all(folder))?;
        at(&mark, File::create(&mark).map(drop))?;
        let old = folder.join(COMPLETE);
        match fs::remove_file(&old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BundleError::Unwritable { path: old, source: error })
            }
            _ => Ok(writer),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file of tensors.
    pub fn tensors<'a, N: AsRef<str> + Ord + std::fmt::Display>(
        &mut self,
        name: &str,
        tensors: impl IntoIterator<Item = (N, Tensor<'a>)>,
    ) -> Result<(), BundleError> {
        let path = self.place(name)?;
        let failed = |source| BundleError::Tensors { path: path.clone(), source };
        let mut views = Vec::new();
        for (name, Tensor { dtype, shape, data }) in tensors {
            views.push((name, TensorView::new(dtype, shape.to_vec(), data).map_err(failed)?));
        }
        let beside = beside(&path);
        serialize_to_file(views, None, &beside).map_err(failed)?;
        at(&path, fs::rename(&beside, &path))?;
        self.adopt(name)
    }

    pub fn json(&mut self, name: &str, value: &impl Serialize) -> Result<(), BundleError> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from);
        let text = at(&self.folder.join(name), text)?;
        self.text(name, &(text + "\n"))
    }

    pub fn text(&mut self, name: &str, text: &str) -> Result<(), BundleError> {
        let path = self.place(name)?;
        at(&path, write_beside(&path, text.as_bytes()))?;
        self.adopt(name)
    }

    /// Takes note of a file that is in its place already, such as one another process wrote.
    pub fn adopt(&mut self, name: &str) -> Result<(), BundleError> {
        let path = self.folder.join(name);
        let size = at(&path, fs::metadata(&path))?.len();
        self.files.insert(name.to_owned(), size);
        Ok(())
    }

    /// Marks the folder as whole.
    pub fn finish(mut self) -> Result<(), BundleError> {
        let files = std::mem::take(&mut self.files);
        let complete = Complete { version: VERSION, files };
        let path = self.folder.join(COMPLETE);
        let written = serde_json::to_vec_pretty(&complete)
            .map_err(io::Error::from)
            .and_then(|text| write_beside(&path, &text));
        at(&path, written)?;
        let mark = self.folder.join(INCOMPLETE);
        at(&mark, fs::remove_file(&mark))
    }

    fn place(&self, name: &str) -> Result<PathBuf, BundleError> {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(&self.folder);
        at(folder, fs::create_dir_all(folder))?;
        Ok(path)
    }
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, BundleError> {
    result.map_err(|source| BundleError::Unwritable { path: path.to_owned(), source })
}

/// Writes a file so that its name never stands for half of it.
pub fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.flush()?;
    fs::rename(&beside, path)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}
