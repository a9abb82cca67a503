//! Programs out of Debian's packages, with the libraries they load. Packages are unpacked, not
//! installed: no service starts, and the machine stays as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::group::Group;

/// Fetches packages and unpacks them all into one folder.
pub fn unpack(packages: &[&str], partial: &Path) -> Result<PathBuf> {
    let (folder, files) = (partial.join("packages"), partial.join("files"));
    fs::create_dir(&folder)?;
    let download = || {
        let mut command = Command::new("apt-get");
        command.args(["--quiet=2", "download"]).args(packages).current_dir(&folder);
        run(&mut command)
    };
    // A machine that never asked, or asked long ago, has no list of packages or an old one.
    if download().is_err() {
        run(Command::new("apt-get").args(["--quiet=2", "update"]))?;
        download().context("could not fetch Debian's packages")?;
    }
    for entry in fs::read_dir(&folder)? {
        run(Command::new("dpkg").arg("-x").arg(entry?.path()).arg(&files))?;
    }
    Ok(files)
}

/// Moves every shared library of the unpacked packages to a folder; gives their names.
pub fn take_libraries(files: &Path, folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for top in ["lib", "usr/lib"] {
        for place in list(&files.join(top))? {
            for library in list(&place)? {
                let name = library.file_name().unwrap_or_default().display().to_string();
                if name.starts_with("lib") && name.contains(".so") {
                    fs::rename(&library, folder.join(&name))?;
                    names.push(name);
                }
            }
        }
    }
    Ok(names)
}

/// The entries of a folder; nothing if it is a file or is not there.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    Ok(paths)
}

/// Stops at a program that would not start: the loader finds a library neither on the machine nor
/// in the folder.
pub fn check_loads(program: &Path, libraries: &Path) -> Result<()> {
    let told = Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", libraries).output();
    let told = told.context("could not start ldd")?;
    let missing = missing(&String::from_utf8_lossy(&told.stdout));
    ensure!(missing.is_empty(), "{} lacks {}", program.display(), missing.join(", "));
    Ok(())
}

fn missing(ldd: &str) -> Vec<String> {
    let lines = ldd.lines().filter(|line| line.contains("not found"));
    lines.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

pub fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    command.stdout(std::io::stderr());
    let child = Group::spawn(command).with_context(|| format!("could not start {name}"))?;
    let status = child.wait()?;
    ensure!(status.success(), "{name} failed ({status})");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_are_not_there_are_named() {
        let text = "\tlinux-vdso.so.1 (0x00007f)\n\tlibnftables.so.1 => not found\n\
                    \tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n\tlibjansson.so.4 => not found\n";
        assert_eq!(missing(text), ["libnftables.so.1", "libjansson.so.4"]);
        assert!(missing("\tstatically linked\n").is_empty());
    }

    #[test]
    fn libraries_are_taken_with_the_links_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let (files, taken) = (folder.path().join("files"), folder.path().join("taken"));
        let place = files.join("usr/lib/x86_64-linux-gnu");
        fs::create_dir_all(place.join("tc")).unwrap();
        fs::create_dir(&taken).unwrap();
        fs::write(place.join("libmnl.so.0.2.0"), "library").unwrap();
        std::os::unix::fs::symlink("libmnl.so.0.2.0", place.join("libmnl.so.0")).unwrap();
        fs::write(place.join("other.txt"), "").unwrap();
        let mut names = take_libraries(&files, &taken).unwrap();
        names.sort();
        assert_eq!(names, ["libmnl.so.0", "libmnl.so.0.2.0"]);
        assert_eq!(fs::read_to_string(taken.join("libmnl.so.0")).unwrap(), "library");
    }
}
