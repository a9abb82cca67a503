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
use crate::{install, workspace};

#[derive(clap::Args)]
pub struct Args {
    /// What to set up [default: all of it]
    what: Vec<What>,
    /// Set up what this description says instead (a file like those in xtask/artifacts)
    #[arg(long, value_name = "FILE", conflicts_with = "what")]
    artifact: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum What {
    /// libtorch, for the golden pass
    Golden,
}

impl What {
    fn artifact(self) -> Artifact {
        let text = match self {
            Self::Golden => include_str!("../artifacts/golden.toml"),
        };
        Artifact::parse(text).expect("a description checked by the tests")
    }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.artifact {
        Some(file) => bring(&Artifact::read(file)?)?,
        None if args.what.is_empty() => ensure(What::value_variants())?,
        None => ensure(&args.what)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Sets up what another verb needs.
pub fn ensure(what: &[What]) -> Result<()> {
    what.iter().try_for_each(|what| bring(&what.artifact()))
}

fn bring(artifact: &Artifact) -> Result<()> {
    let root = workspace::root()?;
    let home = install::ensure_whole(&Cache::open()?, artifact)?;
    link(&root.join(&artifact.link), &home)?;
    println!("{} {} is ready in {}", artifact.name, artifact.version, home.display());
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
        for what in What::value_variants() {
            let artifact = what.artifact();
            assert!(!artifact.wheels.is_empty());
            for wheel in &artifact.wheels {
                let digest = &wheel.sha256;
                assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()));
                assert!(wheel.size > 0 && !wheel.keep.is_empty(), "{}", wheel.package);
            }
        }
    }
}
