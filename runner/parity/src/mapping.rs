//! Files in memory without reading them: the crate's only `unsafe`.

#![expect(
    unsafe_code,
    reason = "a mapped file can be changed by others, which no type can rule out"
)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

use memmap2::{Advice, Mmap};

/// The bytes of a file, brought in by the system as they are touched and dropped when memory is
/// short, so that a file may be larger than memory.
#[derive(Debug)]
pub(crate) struct Mapping(Mmap);

impl Mapping {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        // SAFETY: the mapping is only read, and only through byte slices, for which any content is
        // valid. Files of a bundle are renamed into place and never changed afterwards; a file
        // that someone shortens while it is compared ends the process, as with any mapped file.
        let map = unsafe { Mmap::map(&file)? };
        // A hint for files that are not in memory yet; nothing depends on it.
        let _ = map.advise(Advice::Sequential);
        Ok(Self(map))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
