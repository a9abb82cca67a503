//! Bundles in a folder: made beside and renamed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{BundleError, Entry, MANIFEST, Manifest, Progress, Watch};
use crate::beside;
use crate::digests::hex;

/// What is not finished is named so, and is no bundle.
const PARTIAL: &str = ".partial";

#[derive(Clone, Debug)]
pub struct Folder {
    pub path: PathBuf,
}

impl Folder {
    pub fn put(
        &self,
        name: &str,
        from: &Path,
        manifest: &Manifest,
        watch: Watch<'_>,
    ) -> Result<(), BundleError> {
        let place = self.path.join(name);
        let arriving = beside::with_ending(&place, PARTIAL);
        if arriving.exists() {
            fs::remove_dir_all(&arriving).map_err(BundleError::disk(&arriving))?;
        }
        for (file, entry) in manifest.in_order() {
            copy(name, file, entry, &from.join(file), Some(&arriving.join(file)), watch)?;
        }
        let list = arriving.join(MANIFEST);
        beside::write(&list, &manifest.text()).map_err(BundleError::disk(&list))?;
        if place.exists() {
            return Err(BundleError::InTheWay(place));
        }
        fs::rename(&arriving, &place).map_err(BundleError::disk(&place))
    }

    pub fn remove(&self, name: &str) -> Result<(), BundleError> {
        let place = self.path.join(name);
        match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BundleError::Disk { path: place, source: error })
            }
            _ => Ok(()),
        }
    }

    pub fn fetch(
        &self,
        name: &str,
        file: &str,
        entry: &Entry,
        to: &Path,
        watch: Watch<'_>,
    ) -> Result<(), BundleError> {
        copy(name, file, entry, &self.path.join(name).join(file), Some(to), watch)
    }

    pub fn check(
        &self,
        name: &str,
        file: &str,
        entry: &Entry,
        watch: Watch<'_>,
    ) -> Result<(), BundleError> {
        copy(name, file, entry, &self.path.join(name).join(file), None, watch)
    }

    pub fn manifest(&self, name: &str) -> Result<Option<Vec<u8>>, BundleError> {
        let path = self.path.join(name).join(MANIFEST);
        match fs::read(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(BundleError::Disk { path, source }),
        }
    }

    pub fn list(&self) -> Result<Vec<String>, BundleError> {
        let mut found = Vec::new();
        let mut folders = vec![(self.path.clone(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(BundleError::Disk { path: folder, source }),
            };
            for entry in entries {
                let entry = entry.map_err(BundleError::disk(&folder))?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if !is_folder || name.ends_with(PARTIAL) {
                    continue;
                }
                let (path, name) = (entry.path(), format!("{prefix}{name}"));
                if path.join(MANIFEST).is_file() {
                    found.push(name);
                } else {
                    folders.push((path, format!("{name}/")));
                }
            }
        }
        Ok(found)
    }
}

/// Reads a file, held against its entry, and writes it where that is wanted.
fn copy(
    name: &str,
    file: &str,
    entry: &Entry,
    from: &Path,
    to: Option<&Path>,
    watch: Watch<'_>,
) -> Result<(), BundleError> {
    let mut source = match File::open(from) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (name, file, why) = (name.to_owned(), file.to_owned(), "it is missing".into());
            return Err(BundleError::Wrong { name, file, why });
        }
        Err(source) => return Err(BundleError::Disk { path: from.to_owned(), source }),
    };
    let mut target = match to {
        None => None,
        Some(to) => {
            let folder = to.parent().unwrap_or(to);
            fs::create_dir_all(folder).map_err(BundleError::disk(folder))?;
            Some(File::create(to).map_err(BundleError::disk(to))?)
        }
    };
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let read = source.read(&mut buffer).map_err(BundleError::disk(from))?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        if let (Some(target), Some(to)) = (&mut target, to) {
            target.write_all(&buffer[..read]).map_err(BundleError::disk(to))?;
        }
        at += read as u64;
        watch(Progress { file: file.to_owned(), at, total: entry.size });
    }
    if let (Some(target), Some(to)) = (target, to) {
        target.sync_all().map_err(BundleError::disk(to))?;
    }
    entry.compare(name, file, &hex(&hasher.finalize()), at)
}
