//! A file as bytes, without reading it: pages come in when they are touched.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A file mapped into memory, read only.
#[derive(Debug)]
pub struct Mapped {
    path: PathBuf,
    map: memmap2::Mmap,
}

impl Mapped {
    pub fn open(path: &Path) -> Result<Self> {
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(io)?;
        #[expect(
            unsafe_code,
            reason = "mapping is unsafe because another process could shorten the file under us; \
                      models are written beside and renamed, never changed in place"
        )]
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
        Ok(Self { path: path.to_path_buf(), map })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}
