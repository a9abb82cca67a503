//! The file that is read and written. It has no name, so that it is gone with the process however
//! that ends, and past the page cache where the filesystem allows it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::suite::Unable;

/// What stays free besides the file.
const MARGIN: u64 = 64 << 20;
/// Filesystems that take the flag for direct access and keep everything in memory all the same.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

pub(super) struct Scratch {
    pub file: File,
    pub bytes: u64,
    /// Whether reads and writes go past the page cache.
    pub direct: bool,
}

impl Scratch {
    /// A file of so many bytes in a folder; the empty text means the current one.
    pub fn create(folder: &str, bytes: u64) -> Result<Self, Unable> {
        let folder = if folder.is_empty() { Path::new(".") } else { Path::new(folder) };
        let failed = |what: &str, error: Errno| {
            let error = io::Error::from(error);
            Unable::Failed(format!("{what} in the folder {}: {error}", folder.display()))
        };
        let space = rustix::fs::statvfs(folder).map_err(|e| failed("nothing can be done", e))?;
        room(space.f_bavail * space.f_frsize, bytes)
            .map_err(|text| Unable::Failed(format!("the folder {} {text}", folder.display())))?;
        let (descriptor, direct) =
            open(folder).map_err(|error| failed("no file can be made", error))?;
        reserve(&descriptor, bytes).map_err(|error| failed("no space can be had", error))?;
        let direct = direct && !in_memory(&descriptor);
        Ok(Self { file: descriptor.into(), bytes, direct })
    }
}

/// Whether a file of so many bytes may be made where so many are free.
fn room(free: u64, bytes: u64) -> Result<(), String> {
    let needed = bytes.saturating_add(MARGIN);
    if free >= needed {
        return Ok(());
    }
    let mib = |bytes: u64| bytes >> 20;
    Err(format!(
        "has {} MiB free, and {} MiB are needed: the file's {} and {} that stay free; \
         choose another `folder` or a smaller `size_mib`",
        mib(free),
        mib(needed),
        mib(bytes),
        mib(MARGIN)
    ))
}

/// A file without a name, and whether it is for direct access.
fn open(folder: &Path) -> Result<(OwnedFd, bool), Errno> {
    for (flags, direct) in [(OFlags::DIRECT, true), (OFlags::empty(), false)] {
        match nameless(folder, flags) {
            // What a filesystem says that has no direct access.
            Err(Errno::INVAL) if direct => {}
            opened => return opened.map(|descriptor| (descriptor, direct)),
        }
    }
    Err(Errno::INVAL)
}

fn nameless(folder: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | flags;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, flags | OFlags::TMPFILE | OFlags::EXCL, mode) {
        // Neither every filesystem nor every kernel knows files that never had a name.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => unlinked(folder, flags, mode),
        opened => opened,
    }
}

/// A file that had a name for a moment.
fn unlinked(folder: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let path = name(folder);
    let opened = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode);
    // An open that is refused for its flags may have made the file before it was.
    match rustix::fs::unlink(&path) {
        Err(error) if opened.is_ok() => Err(error),
        _ => opened,
    }
}

fn name(folder: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    folder.join(format!(".warpforge-disk-{}-{number}", process::id()))
}

/// Takes the space at once, so that it cannot run out half-way.
fn reserve(descriptor: &OwnedFd, bytes: u64) -> Result<(), Errno> {
    match rustix::fs::fallocate(descriptor, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP) => rustix::fs::ftruncate(descriptor, bytes),
        done => done,
    }
}

fn in_memory(descriptor: impl AsFd) -> bool {
    let kind = rustix::fs::fstatfs(descriptor).map(|info| info.f_type as u64 & 0xffff_ffff);
    kind.is_ok_and(|kind| IN_MEMORY.contains(&kind))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn has_no_name(file: &File) -> bool {
        file.metadata().unwrap().nlink() == 0
    }

    #[test]
    fn space_is_asked_for_before_anything_is_made() {
        let gib = 1 << 30;
        assert_eq!(room(gib + MARGIN, gib), Ok(()));
        let text = room(gib + MARGIN - 1, gib).unwrap_err();
        let wanted = "has 1087 MiB free, and 1088 MiB are needed: the file's 1024 and 64 that \
                      stay free; choose another `folder` or a smaller `size_mib`";
        assert_eq!(text, wanted);
        assert!(room(u64::MAX - 1, u64::MAX).is_err());
    }

    #[test]
    fn more_than_the_disk_has_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let error = Scratch::create(path, 1 << 60).err().unwrap();
        assert!(matches!(&error, Unable::Failed(text) if text.contains("MiB are needed")));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_file_has_no_name_and_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(folder.path().to_str().unwrap(), 1 << 20).unwrap();
        assert!(has_no_name(&scratch.file));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(scratch.file.metadata().unwrap().len(), 1 << 20);
        let link = fs::read_link(format!("/proc/self/fd/{}", scratch.file.as_raw_fd())).unwrap();
        assert!(link.to_string_lossy().ends_with(" (deleted)"), "{}", link.display());
    }

    #[test]
    fn without_nameless_files_the_name_goes_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        let file = File::from(unlinked(folder.path(), OFlags::RDWR, mode).unwrap());
        assert!(has_no_name(&file));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = Scratch::create("/nonexistent/folder", 1 << 20).err().unwrap();
        let text = error.to_string();
        assert!(text.contains("/nonexistent/folder: No such file or directory"), "{text}");
    }

    /// `/dev/shm` is a tmpfs on every Linux; newer ones take the flag for direct access there.
    #[test]
    fn memory_is_never_called_direct() {
        let scratch = Scratch::create("/dev/shm", 1 << 20).unwrap();
        assert!(!scratch.direct);
    }
}
