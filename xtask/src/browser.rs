//! The browser that tests look at reports with: the machine's own, or Debian's.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::group::Group;

/// Names a browser to use instead of those on the PATH.
const VARIABLE: &str = "WARPFORGE_CHROMIUM";

/// What Chromium and its relatives are called, the likeliest first.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const PACKAGE: &str = "chromium";

/// Makes sure that there is a browser, and says where.
pub fn ensure() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(found) = find(env::var_os(VARIABLE), &path) {
        return Ok(found);
    }
    let apt = on_path("apt-get", &path);
    let Some(apt) = apt.filter(|_| rustix::process::geteuid().is_root()) else {
        bail!(
            "no browser: none of {} is on the PATH, and only root can install one with apt-get; \
             install Chromium (Debian and Ubuntu: sudo apt-get install {PACKAGE}; Fedora: sudo \
             dnf install {PACKAGE}) or name one with {VARIABLE}, and run this again",
            NAMES.join(", ")
        );
    };
    eprintln!("installing {PACKAGE} with apt-get ...");
    run(&apt, &["update"])?;
    run(&apt, &["install", "--yes", "--no-install-recommends", PACKAGE])?;
    find(None, &path).context("apt-get installed no browser that is on the PATH")
}

fn run(apt: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(apt);
    command.arg("--quiet=2").args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    let status = Group::spawn(&mut command).context("could not start apt-get")?.wait()?;
    ensure!(
        status.success(),
        "no browser: `apt-get {}` failed ({status}); check the network and apt's sources, or \
         install Chromium in another way and name it with {VARIABLE}",
        arguments.join(" ")
    );
    Ok(())
}

fn find(named: Option<OsString>, path: &OsStr) -> Option<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named)).filter(|named| named.is_file());
    }
    NAMES.iter().find_map(|name| on_path(name, path))
}

fn on_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_browser_wins_over_the_path() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["google-chrome", "chromium", "mine"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let path = folder.path().as_os_str();
        assert_eq!(find(None, path), Some(folder.path().join("chromium")));
        let mine = folder.path().join("mine");
        assert_eq!(find(Some(mine.clone().into()), path), Some(mine));
        assert_eq!(find(Some("/nowhere".into()), path), None);
        assert_eq!(find(None, OsStr::new("")), None);
    }
}
