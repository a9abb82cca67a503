//! Images that every cluster has use for.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::image::Image;

/// Holds a pod's namespaces, and does nothing.
pub const PAUSE: &str = "warpforge.test/pause:1";

/// A shell with a few programs, for pods that look around.
pub const SHELL: &str = "warpforge.test/shell:1";

pub fn pause(folder: &Path) -> Result<Image, Error> {
    let sleep = machine("sleep")?;
    Image::of_programs(folder, PAUSE, &[sleep], &["/usr/bin/sleep", "infinity"])
}

pub fn shell(folder: &Path) -> Result<Image, Error> {
    Image::of_programs(folder, SHELL, &shell_programs()?, &["/usr/bin/bash", "-c"])
}

/// `bash` (which speaks TCP by itself), `cat`, `env`, `getent`, `sleep`.
pub fn shell_programs() -> Result<Vec<PathBuf>, Error> {
    ["bash", "cat", "env", "getent", "sleep"].map(machine).into_iter().collect()
}

/// A program of this machine.
fn machine(name: &str) -> Result<PathBuf, Error> {
    let path = Path::new("/usr/bin").join(name);
    if path.is_file() { Ok(path) } else { Err(Error::Wrong(format!("there is no {name}"))) }
}
