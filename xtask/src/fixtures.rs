//! Exported models for the tests, made by the project's own exporters: too large
//! to commit, and the same for the same scripts and packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::artifact::digest;
use crate::cache::Cache;
use crate::group::Group;
use crate::install::put_in_place;
use crate::manifest::{Manifest, State, check};

/// Where the exporters are in a checkout, and the one that makes fixtures.
const SCRIPTS: &str = "runner/snakegrinder/export";
const SCRIPT: &str = "fixtures.py";

/// Runs a script until its input ends, which happens when set-up is killed.
const TIED: &str = "
import os, runpy, sys, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name='__main__')
";

/// Makes sure that the fixtures are whole, and says where they are. `packages`
/// stands for everything the scripts import.
pub fn ensure(cache: &Cache, root: &Path, python: &Path, packages: &str) -> Result<PathBuf> {
    let recipe = recipe(&root.join(SCRIPTS), packages)?;
    // Checkouts with other scripts keep theirs beside.
    let home = cache.path(&format!("fixtures-{}", &recipe[..12]));
    if check(&home, &recipe) == State::Whole {
        return Ok(home);
    }
    let _lock = cache.lock()?;
    match check(&home, &recipe) {
        State::Whole => return Ok(home),
        State::Absent => {}
        State::Damaged(why) => {
            eprintln!("{} cannot be used ({why}); making it anew", home.display());
        }
    }
    let partial = cache.partial()?;
    let stage = partial.path().join("fixtures");
    fs::create_dir(&stage)?;
    make(&root.join(SCRIPTS).join(SCRIPT), python, &stage)?;
    let mut manifest = Manifest::new(recipe);
    for entry in fs::read_dir(&stage)? {
        let entry = entry?;
        manifest.add(entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len());
    }
    manifest.write(&stage)?;
    put_in_place(&stage, &home, partial.path())?;
    Ok(home)
}

fn make(script: &Path, python: &Path, stage: &Path) -> Result<()> {
    eprintln!("making the fixtures ...");
    let mut command = Command::new(python);
    command.args(["-c", TIED]).arg(script).arg(stage);
    // Nothing of the caller's may get in. Being the first to import the packages,
    // this also leaves them compiled for everyone after it.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PYTHON") {
            command.env_remove(&name);
        }
    }
    // Its table goes where all progress does.
    command.stdout(std::io::stderr());
    let status = Group::spawn_tied(&mut command)
        .with_context(|| format!("could not start {}", python.display()))?
        .wait()?;
    ensure!(status.success(), "the fixtures are not set up: {SCRIPT} failed ({status})");
    Ok(())
}

/// Changes whenever a script or what it imports does.
fn recipe(scripts: &Path, packages: &str) -> Result<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(scripts).context("could not list the exporters")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            files.push(path);
        }
    }
    digest(files, packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_follows_scripts_and_packages() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("a.py", "one");
        write("b.py", "two");
        let first = recipe(folder.path(), "p").unwrap();
        write("notes.txt", "no script");
        assert_eq!(recipe(folder.path(), "p").unwrap(), first);
        assert_ne!(recipe(folder.path(), "q").unwrap(), first);
        write("a.py", "onet");
        write("b.py", "wo");
        assert_ne!(recipe(folder.path(), "p").unwrap(), first);
    }
}
