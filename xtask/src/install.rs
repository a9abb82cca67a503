//! Brings one artifact into the cache: fetch, unpack beside, rename into place.
//! Killed at any moment, it leaves either a whole install or none, and never has
//! to fetch a verified wheel again.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use zip::ZipArchive;

use crate::artifact::{Artifact, Wheel};
use crate::cache::{self, Cache};
use crate::fetch;
use crate::manifest::{Manifest, State, check};
use crate::progress::Step;

type Zip = ZipArchive<BufReader<File>>;

/// One file of a wheel that is kept.
struct Member {
    index: usize,
    name: String,
    size: u64,
}

/// Makes sure that the artifact is whole, and says where it is.
pub fn ensure_whole(cache: &Cache, artifact: &Artifact) -> Result<PathBuf> {
    let home = cache.path(&artifact.folder());
    let recipe = artifact.recipe();
    if check(&home, &recipe) == State::Whole {
        forget_downloads(cache, artifact)?;
        cache.tidy()?;
        return Ok(home);
    }
    artifact.check_platform()?;
    let _lock = cache.lock()?;
    match check(&home, &recipe) {
        State::Whole => return Ok(home),
        State::Absent => {}
        State::Damaged(why) => {
            eprintln!("{} cannot be used ({why}); making it anew", home.display());
        }
    }
    build(cache, artifact, recipe, &home)
        .with_context(|| format!("{} {} is not set up", artifact.name, artifact.version))?;
    forget_downloads(cache, artifact)?;
    Ok(home)
}

fn build(cache: &Cache, artifact: &Artifact, recipe: String, home: &Path) -> Result<()> {
    // All are fetched before any is unpacked: the network is what fails most.
    let mut wheels = Vec::new();
    for wheel in &artifact.wheels {
        wheels.push(fetch::wheel(cache, &artifact.tags, wheel)?);
    }
    let partial = cache.partial()?;
    let stage = partial.path().join("install");
    fs::create_dir(&stage)?;
    let mut manifest = Manifest::new(recipe);
    unpack(artifact, &wheels, &stage, &mut manifest)?;
    manifest.write(&stage)?;
    if home.exists() {
        fs::rename(home, partial.path().join("replaced"))?;
    }
    fs::rename(&stage, home)?;
    Ok(())
}

/// Wheels are needed until the install is in place; a kill in between leaves them.
fn forget_downloads(cache: &Cache, artifact: &Artifact) -> io::Result<()> {
    artifact.wheels.iter().try_for_each(|wheel| cache::remove(&cache.download(&wheel.file)))
}

fn unpack(
    artifact: &Artifact,
    wheels: &[PathBuf],
    stage: &Path,
    manifest: &mut Manifest,
) -> Result<()> {
    let mut opened = Vec::new();
    for (wheel, path) in artifact.wheels.iter().zip(wheels) {
        opened.push(open(wheel, path).with_context(|| format!("{} is of no use", wheel.file))?);
    }
    let bytes = opened.iter().flat_map(|(_, members)| members).map(|member| member.size).sum();
    let step = Step::start(format!("unpacking {} {}", artifact.name, artifact.version), bytes);
    for (mut zip, members) in opened {
        for member in members {
            write(&mut zip, &member, stage, &step)
                .with_context(|| format!("could not unpack {}", member.name))?;
            manifest.add(member.name, member.size);
        }
    }
    step.done();
    Ok(())
}

fn write(zip: &mut Zip, member: &Member, stage: &Path, step: &Step) -> Result<()> {
    let target = stage.join(&member.name);
    fs::create_dir_all(target.parent().context("it has no folder")?)?;
    copy(&mut zip.by_index(member.index)?, &mut File::create(&target)?, step)?;
    Ok(())
}

/// A wheel and the members to keep of it. A pinned wheel that lacks one is a
/// mistake in the description.
fn open(wheel: &Wheel, path: &Path) -> Result<(Zip, Vec<Member>)> {
    let mut zip = ZipArchive::new(BufReader::new(File::open(path)?))?;
    let mut members = Vec::new();
    for index in 0..zip.len() {
        let member = zip.by_index(index)?;
        let name = member.name()?.into_owned();
        if member.is_dir() || !wheel.keep.iter().any(|keep| keeps(keep, &name)) {
            continue;
        }
        ensure!(!member.is_symlink() && stays_inside(&name), "it holds the unsafe name {name:?}");
        members.push(Member { index, name, size: member.size() });
    }
    for keep in &wheel.keep {
        let found = members.iter().any(|member| keeps(keep, &member.name));
        ensure!(found, "it holds no {keep}");
    }
    Ok((zip, members))
}

fn keeps(keep: &str, name: &str) -> bool {
    name == keep || (keep.ends_with('/') && name.starts_with(keep))
}

fn stays_inside(name: &str) -> bool {
    Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

fn copy(from: &mut impl Read, to: &mut impl Write, step: &Step) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            read => {
                to.write_all(&buffer[..read])?;
                step.advance(read as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_what_is_below_it_and_a_file_only_itself() {
        assert!(keeps("torch/include/", "torch/include/ATen/ATen.h"));
        assert!(!keeps("torch/include/", "torch/includes.txt"));
        assert!(keeps("torch/lib/libc10.so", "torch/lib/libc10.so"));
        assert!(!keeps("torch/lib/libc10.so", "torch/lib/libc10.so.1"));
    }

    #[test]
    fn names_that_climb_out_are_recognised() {
        assert!(stays_inside("torch/lib/libc10.so"));
        assert!(!stays_inside("torch/include/../../../outside"));
        assert!(!stays_inside("/outside"));
    }
}
