//! One layer: a folder as an uncompressed archive, the same bytes whenever the folder is the same.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::error::{Error, Tried};

#[derive(Debug, Clone)]
pub struct Layer {
    archive: Option<PathBuf>,
    digest: String,
    size: u64,
}

impl Layer {
    /// Writes what is in a folder to an archive. Everything belongs to root, and has no age.
    pub fn of_folder(root: &Path, archive: &Path) -> Result<Self, Error> {
        let written = || -> io::Result<Self> {
            let file = BufWriter::with_capacity(1 << 20, File::create(archive)?);
            let mut tar = Builder::new(Hashing { file, hasher: Sha256::new(), size: 0 });
            append(&mut tar, root, Path::new(""))?;
            let Hashing { mut file, hasher, size } = tar.into_inner()?;
            file.flush()?;
            Ok(Self { archive: Some(archive.to_owned()), digest: digest(hasher), size })
        };
        written().at("could not make a layer of", root)
    }

    /// One that every node holds already: images are made without it.
    pub fn held(digest: &str, size: u64) -> Self {
        Self { archive: None, digest: digest.to_owned(), size }
    }

    /// Where it is, if nodes do not hold it.
    pub fn archive(&self) -> Option<&Path> {
        self.archive.as_deref()
    }

    /// `sha256:…`
    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub fn size(&self) -> u64 {
        self.size
    }
}

/// What a digest is called in an image.
pub fn digest(hasher: Sha256) -> String {
    hasher.finalize().iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn append<W: Write>(tar: &mut Builder<W>, root: &Path, inner: &Path) -> io::Result<()> {
    let entries = fs::read_dir(root.join(inner))?;
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    for name in names {
        let (inner, path) = (inner.join(&name), root.join(inner).join(&name));
        let meta = fs::symlink_metadata(&path)?;
        let mut header = Header::new_gnu();
        header.set_mode(meta.permissions().mode() & 0o7777);
        header.set_size(0);
        if meta.is_symlink() {
            header.set_entry_type(EntryType::Symlink);
            tar.append_link(&mut header, &inner, fs::read_link(&path)?)?;
        } else if meta.is_dir() {
            header.set_entry_type(EntryType::Directory);
            tar.append_data(&mut header, &inner, io::empty())?;
            append(tar, root, &inner)?;
        } else {
            header.set_size(meta.len());
            tar.append_data(&mut header, &inner, File::open(&path)?)?;
        }
    }
    Ok(())
}

/// Hashes what it passes on.
struct Hashing<W> {
    file: W,
    hasher: Sha256,
    size: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_folder_is_the_same_layer() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("tmp")).unwrap();
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::write(root.join("a"), "one").unwrap();
        std::os::unix::fs::symlink("a", root.join("b")).unwrap();
        let first = Layer::of_folder(&root, &folder.path().join("1.tar")).unwrap();
        fs::remove_file(root.join("a")).unwrap();
        fs::write(root.join("a"), "one").unwrap();
        let again = Layer::of_folder(&root, &folder.path().join("2.tar")).unwrap();
        assert_eq!(first.digest(), again.digest());
        assert_eq!(first.size(), fs::metadata(first.archive().unwrap()).unwrap().len());
        fs::write(root.join("a"), "two").unwrap();
        let other = Layer::of_folder(&root, &folder.path().join("3.tar")).unwrap();
        assert_ne!(first.digest(), other.digest());
        let mut tar = tar::Archive::new(File::open(first.archive().unwrap()).unwrap());
        let modes = tar.entries().unwrap().map(|entry| entry.unwrap().header().mode().unwrap());
        assert!(modes.collect::<Vec<_>>().contains(&0o1777));
    }
}
