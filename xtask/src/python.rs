//! The Python that tests use, around an interpreter of this machine: what the
//! installed packages need to be a virtual environment.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::artifact::Artifact;
use crate::cache::{self, Cache};
use crate::{group, install};

/// Names an interpreter to use instead of those on the PATH.
const VARIABLE: &str = "WARPFORGE_PYTHON";

/// Prints what it is and where it really lies: not a launcher, nor the link of
/// another virtual environment.
const ASK: &str = "import sys, sysconfig; \
                   print(sys.implementation.name, sysconfig.get_python_version(), \
                   sys._base_executable, sep='\\n')";

/// Makes sure that the environment is whole, and says where it is.
pub fn ensure(cache: &Cache, artifact: &Artifact) -> Result<PathBuf> {
    let home = cache.path(&artifact.folder());
    let linked = is_linked(&home);
    // Asked for before anything is fetched: without one, the rest is of no use.
    let interpreter = if linked { None } else { Some(find(&artifact.tags.python)?) };
    install::ensure_whole(cache, artifact)?;
    match interpreter {
        Some(interpreter) => link(&home, &artifact.tags.python, &interpreter)?,
        // It was made anew, and the link went with the old one.
        None if !is_linked(&home) => {
            link(&home, &artifact.tags.python, &find(&artifact.tags.python)?)?;
        }
        None => {}
    }
    Ok(home)
}

/// The environment's own `python`.
pub fn program(home: &Path) -> PathBuf {
    home.join("bin/python")
}

/// Whether the interpreter is still where it was.
fn is_linked(home: &Path) -> bool {
    home.join("pyvenv.cfg").is_file() && program(home).is_file()
}

/// Python takes the folder for a virtual environment because of `pyvenv.cfg`, and
/// then looks for packages in it and nowhere else.
fn link(home: &Path, version: &str, interpreter: &Path) -> Result<()> {
    let folder = interpreter.parent().context("the interpreter has no folder")?;
    let text = format!(
        "home = {}\ninclude-system-site-packages = false\nversion = {version}\n",
        folder.display()
    );
    fs::write(home.join("pyvenv.cfg"), text)?;
    let program = program(home);
    fs::create_dir_all(home.join("bin"))?;
    cache::remove(&program)?;
    match symlink(interpreter, &program) {
        // Another set-up was faster.
        Err(_) if program.is_file() => Ok(()),
        made => made.with_context(|| format!("could not link {}", program.display())),
    }
}

/// An interpreter of this machine that the pinned wheels are built for.
fn find(version: &str) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        let named = named.to_string_lossy().into_owned();
        return match ask(&named) {
            Some((found, path)) if is_right(&found, version) => Ok(path),
            Some((found, _)) => {
                bail!("{VARIABLE}={named} is {found}, and CPython {version} is needed")
            }
            None => bail!("{VARIABLE}={named} is no Python that runs"),
        };
    }
    let names = [format!("python{version}"), "python3".to_owned()];
    let mut seen = Vec::new();
    for name in &names {
        match ask(name) {
            Some((found, path)) if is_right(&found, version) => return Ok(path),
            Some((found, _)) => seen.push(format!("{name} is {found}")),
            None => seen.push(format!("{name} does not run")),
        }
    }
    bail!(
        "python is not set up: CPython {version} is needed, which the pinned wheels are built for \
         ({}); install it (Debian 12: apt install python3; Fedora: dnf install python{version}; \
         anywhere: pyenv or uv) or name one with {VARIABLE}, and run this again",
        seen.join("; ")
    )
}

fn is_right(found: &str, version: &str) -> bool {
    found == format!("cpython {version}")
}

/// What an interpreter says it is, and where it lies.
fn ask(name: &str) -> Option<(String, PathBuf)> {
    let output = group::output(Command::new(name).args(["-I", "-c", ASK])).ok()?;
    let said = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let mut lines = said.lines();
    let (kind, version, path) = (lines.next()?, lines.next()?, lines.next()?);
    Some((format!("{kind} {version}"), path.into()))
}
