//! The user's cache folder: finished artifacts by name and version, verified
//! downloads, and partial folders that only the holder of the lock may have.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Marks what is not finished; anything so named is left over from a killed run
/// unless the lock is held.
const PARTIAL: &str = ".partial-";

pub struct Cache {
    folder: PathBuf,
}

/// Held while the cache is changed; the system lets go of it if we are killed.
pub struct Lock {
    _file: File,
}

impl Cache {
    /// The cache folder by the environment, made if it is not there yet.
    pub fn open() -> Result<Self> {
        let folder = folder_by(|name| std::env::var_os(name).map(PathBuf::from))
            .context("no cache folder: set HOME or WARPFORGE_CACHE_DIR")?;
        fs::create_dir_all(folder.join("downloads")).with_context(|| {
            format!(
                "could not make the cache folder {} (WARPFORGE_CACHE_DIR names another)",
                folder.display()
            )
        })?;
        Ok(Self { folder: fs::canonicalize(folder)? })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where a wheel lies from its verification until its artifact is installed.
    pub fn download(&self, file: &str) -> PathBuf {
        self.folder.join("downloads").join(file)
    }

    /// Waits for its turn, then removes what killed runs left behind.
    pub fn lock(&self) -> Result<Lock> {
        let file = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!("waiting for another set-up to finish with {}", self.folder.display());
                file.lock()?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).context("could not lock the cache");
            }
        }
        self.remove_leftovers()?;
        Ok(Lock { _file: file })
    }

    /// Removes leftovers, unless a set-up is at work: then they may be its own.
    pub fn tidy(&self) -> Result<()> {
        if self.leftovers()?.is_empty() {
            return Ok(());
        }
        let file = self.lock_file()?;
        if file.try_lock().is_ok() { self.remove_leftovers() } else { Ok(()) }
    }

    /// Removes downloads that are not needed any more, unless a set-up is at work:
    /// then it may be about to use them.
    pub fn forget<'a>(&self, files: impl Iterator<Item = &'a str>) -> Result<()> {
        let there: Vec<_> =
            files.map(|file| self.download(file)).filter(|path| path.exists()).collect();
        if there.is_empty() {
            return Ok(());
        }
        let file = self.lock_file()?;
        if file.try_lock().is_ok() {
            for path in there {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// A new partial folder on the cache's own file system, so that a rename finishes it.
    pub fn partial(&self) -> Result<TempDir> {
        let made = tempfile::Builder::new().prefix(PARTIAL).tempdir_in(&self.folder);
        made.with_context(|| format!("could not write to {}", self.folder.display()))
    }

    fn lock_file(&self) -> Result<File> {
        let path = self.path("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        file.with_context(|| format!("could not open {}", path.display()))
    }

    fn leftovers(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    fn remove_leftovers(&self) -> Result<()> {
        for path in self.leftovers()? {
            // Not worth failing for: the next run tries again.
            if let Err(error) = remove(&path) {
                eprintln!("could not remove the leftover {}: {error}", path.display());
            }
        }
        Ok(())
    }
}

/// Removes a file or a folder that may already be gone.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn folder_by(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
    set("WARPFORGE_CACHE_DIR")
        // The XDG rule: a relative path there counts as unset.
        .or_else(|| Some(set("XDG_CACHE_HOME").filter(|p| p.is_absolute())?.join("warpforge")))
        .or_else(|| Some(set("HOME")?.join(".cache/warpforge")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(set: &[(&str, &str)]) -> Option<PathBuf> {
        folder_by(|name| set.iter().find(|(key, _)| *key == name).map(|(_, path)| path.into()))
    }

    #[test]
    fn the_nearest_variable_names_the_folder() {
        let (own, xdg, home) =
            (("WARPFORGE_CACHE_DIR", "/own"), ("XDG_CACHE_HOME", "/xdg"), ("HOME", "/home/a"));
        assert_eq!(folder(&[own, xdg, home]), Some("/own".into()));
        assert_eq!(folder(&[xdg, home]), Some("/xdg/warpforge".into()));
        assert_eq!(folder(&[home]), Some("/home/a/.cache/warpforge".into()));
        assert_eq!(folder(&[("XDG_CACHE_HOME", "relative"), home]), folder(&[home]));
        assert_eq!(folder(&[("WARPFORGE_CACHE_DIR", ""), home]), folder(&[home]));
        assert_eq!(folder(&[]), None);
    }
}
