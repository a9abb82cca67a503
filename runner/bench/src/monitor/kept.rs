//! Files that are read again and again: kept open, and read into one buffer, so that a look costs
//! little more than what the kernel does for it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::str::FromStr;

use crate::Sysroot;

/// Longer than any file that is read; of `/proc/stat` the first line is enough.
const LENGTH: usize = 16 << 10;

/// What files are read into.
#[derive(Debug)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub fn new() -> Self {
        Self(vec![0; LENGTH])
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct Kept(File);

impl Kept {
    pub fn open(root: &Sysroot, path: impl AsRef<Path>) -> Option<Self> {
        File::open(root.path(path)).ok().map(Self)
    }

    /// What it holds now; `None` where the driver behind it has nothing to say.
    pub fn bytes<'a>(&self, buffer: &'a mut Buffer) -> Option<&'a [u8]> {
        let length = self.0.read_at(&mut buffer.0, 0).ok()?;
        Some(&buffer.0[..length])
    }

    pub fn text<'a>(&self, buffer: &'a mut Buffer) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(buffer)?).ok()
    }

    pub fn number<T: FromStr>(&self, buffer: &mut Buffer) -> Option<T> {
        self.text(buffer)?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn a_kept_file_is_read_anew() {
        let tree = Tree::new(&[("count", "1\n")]);
        let (kept, mut buffer) = (Kept::open(&tree.root(), "count").unwrap(), Buffer::new());
        assert_eq!(kept.number::<u64>(&mut buffer), Some(1));
        tree.put("count", "23\n");
        assert_eq!(kept.number::<u64>(&mut buffer), Some(23));
        tree.put("count", "none\n");
        assert_eq!(kept.number::<u64>(&mut buffer), None);
        assert!(Kept::open(&tree.root(), "absent").is_none());
    }
}
