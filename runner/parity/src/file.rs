//! Safetensors files, mapped: opening reads the header, comparing streams the rest.

use std::path::{Path, PathBuf};

use safetensors::SafeTensorError;
use safetensors::tensor::{Metadata, SafeTensors};

use crate::compare::Tensor;
use crate::mapping::Mapping;

/// The length of the header's length, with which every file begins.
const PREFIX: usize = 8;

/// Why a file cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} is cut off: it has {found} bytes and its header describes {wanted}", path.display())]
    CutOff { path: PathBuf, found: u64, wanted: u64 },
    #[error("{} is no safetensors file: {source}", path.display())]
    NotSafetensors { path: PathBuf, source: SafeTensorError },
}

/// An open file of named tensors.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    map: Mapping,
    metadata: Metadata,
    /// Where the tensors' bytes begin.
    data: usize,
}

impl TensorFile {
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let map = Mapping::open(path)
            .map_err(|source| FileError::Unreadable { path: path.into(), source })?;
        match SafeTensors::read_metadata(&map) {
            Ok((header, metadata)) => {
                Ok(Self { path: path.into(), map, metadata, data: PREFIX + header })
            }
            Err(source) => Err(explain(path, &map, source)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        let mut names = self.metadata.offset_keys();
        names.sort_unstable();
        names
    }

    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let info = self.metadata.info(name)?;
        let (start, end) = info.data_offsets;
        let data = self.map.get(self.data + start..self.data + end)?;
        Some(Tensor { dtype: info.dtype, shape: &info.shape, data })
    }
}

/// Of the many ways to be no safetensors file, one is common and worth its own words: a copy or
/// a download that stopped half-way.
fn explain(path: &Path, bytes: &[u8], source: SafeTensorError) -> FileError {
    let path = path.to_owned();
    let cut_off = |wanted: u64| wanted > bytes.len() as u64;
    match described_length(bytes) {
        Some(wanted) if cut_off(wanted) => {
            FileError::CutOff { path, found: bytes.len() as u64, wanted }
        }
        _ => FileError::NotSafetensors { path, source },
    }
}

/// The whole file's length as its own header has it.
fn described_length(bytes: &[u8]) -> Option<u64> {
    let header = u64::from_le_bytes(bytes.get(..PREFIX)?.try_into().ok()?);
    let start = header.checked_add(PREFIX as u64)?;
    let Some(text) = bytes.get(PREFIX..usize::try_from(start).ok()?) else {
        // Garbage gives absurd lengths; a header that is cut off itself still begins as JSON.
        let plausible = bytes.get(PREFIX) == Some(&b'{') && header < 100_000_000;
        return plausible.then_some(start);
    };
    let header: serde_json::Value = serde_json::from_slice(text).ok()?;
    let end = |tensor: &serde_json::Value| tensor.get("data_offsets")?.get(1)?.as_u64();
    let last = header.as_object()?.values().filter_map(end).max().unwrap_or(0);
    start.checked_add(last)
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::{Dtype, TensorView, serialize};

    use super::*;

    fn bytes() -> Vec<u8> {
        let data = [1u8, 2, 3, 4, 5, 6, 7, 8];
        let view = TensorView::new(Dtype::F32, vec![2], &data).unwrap();
        serialize([("b", view.clone()), ("a", view)], None).unwrap()
    }

    fn open(bytes: &[u8]) -> Result<TensorFile, FileError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        std::fs::write(&path, bytes).unwrap();
        TensorFile::open(&path)
    }

    #[test]
    fn tensors_are_found_by_name() {
        let file = open(&bytes()).unwrap();
        assert_eq!(file.names(), ["a", "b"]);
        let tensor = file.tensor("a").unwrap();
        assert_eq!((tensor.dtype, tensor.shape, tensor.data.len()), (Dtype::F32, &[2][..], 8));
        assert!(file.tensor("c").is_none());
    }

    #[test]
    fn every_prefix_and_every_garbage_is_refused() {
        let whole = bytes();
        for end in 0..whole.len() {
            let error = open(&whole[..end]).unwrap_err();
            assert!(end < 9 || matches!(error, FileError::CutOff { .. }), "{end}: {error}");
        }
        let mut longer = whole.clone();
        longer.push(0);
        let garbage = [&b"hello, world, this is no tensor"[..], &[0xff; 100], &[0; 64], &longer];
        for bytes in garbage {
            assert!(matches!(open(bytes), Err(FileError::NotSafetensors { .. })), "{bytes:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(TensorFile::open(folder.path()), Err(FileError::Unreadable { .. })));
    }
}
