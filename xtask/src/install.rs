//! Brings one artifact into the cache: fetch, unpack beside, rename into place.
//! Killed at any moment, it leaves either a whole install or none, and never has
//! to fetch a verified wheel again.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use zip::ZipArchive;

use crate::artifact::{Artifact, Borrow, Wheel};
use crate::cache::Cache;
use crate::manifest::{Manifest, State, check};
use crate::progress::Step;
use crate::{fetch, stubs};

type Zip = ZipArchive<BufReader<File>>;

/// One file of a wheel that is kept.
struct Member {
    index: usize,
    name: String,
    size: u64,
}

/// Makes sure that the artifact is whole, and says where it is. Its wheels stay in
/// the downloads, as the next artifact may be cut out of the same ones.
pub fn ensure_whole(cache: &Cache, artifact: &Artifact) -> Result<PathBuf> {
    let home = cache.path(&artifact.folder());
    let recipe = artifact.recipe();
    if check(&home, &recipe) == State::Whole {
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
    Ok(home)
}

fn build(cache: &Cache, artifact: &Artifact, recipe: String, home: &Path) -> Result<()> {
    // All are fetched before any is unpacked: the network is what fails most.
    let wheels = fetch::wheels(cache, &artifact.tags, &artifact.wheels)?;
    let partial = cache.partial()?;
    let stage = partial.path().join("install");
    let root = stage.join(&artifact.into);
    fs::create_dir_all(&root)?;
    let mut manifest = Manifest::new(recipe);
    unpack(artifact, &wheels, &stage, &mut manifest)?;
    let mut added = Vec::new();
    for borrow in &artifact.borrow {
        added.extend_from_slice(take(cache, borrow, &root)?);
    }
    if let Some(stubs) = &artifact.stubs {
        added.extend(stubs::write(stubs, &root)?);
    }
    for path in added {
        let size = fs::metadata(root.join(&path))?.len();
        manifest.add(placed(artifact, &path), size);
    }
    manifest.write(&stage)?;
    put_in_place(&stage, home, partial.path())
}

/// Renames a finished folder to its place, and what is there into the partial
/// folder, which goes.
pub fn put_in_place(stage: &Path, home: &Path, partial: &Path) -> Result<()> {
    if home.exists() {
        fs::rename(home, partial.join("replaced"))?;
    }
    fs::rename(stage, home)?;
    Ok(())
}

/// A file's place in the install.
fn placed(artifact: &Artifact, name: &str) -> String {
    if artifact.into.is_empty() { name.to_owned() } else { format!("{}/{name}", artifact.into) }
}

/// Files of another install, as links to the same bytes where the file system can.
fn take<'a>(cache: &Cache, borrow: &'a Borrow, root: &Path) -> Result<&'a [String]> {
    for name in &borrow.files {
        let (from, to) = (cache.path(&borrow.install).join(name), root.join(name));
        fs::create_dir_all(to.parent().context("it has no folder")?)?;
        let taken = fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(|_| ()));
        taken.with_context(|| format!("could not take over {}", from.display()))?;
    }
    Ok(&borrow.files)
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
            let name = placed(artifact, &member.name);
            write(&mut zip, &member, &stage.join(&name), &step)
                .with_context(|| format!("could not unpack {}", member.name))?;
            manifest.add(name, member.size);
        }
    }
    step.done();
    Ok(())
}

fn write(zip: &mut Zip, member: &Member, target: &Path, step: &Step) -> Result<()> {
    fs::create_dir_all(target.parent().context("it has no folder")?)?;
    let mut from = zip.by_index(member.index)?;
    let mut to = File::create(target)?;
    copy(&mut from, &mut to, step)?;
    // Of all that a wheel says of its files, only whether they are programs matters.
    if from.unix_mode().is_some_and(|mode| mode & 0o111 != 0) {
        to.set_permissions(fs::Permissions::from_mode(0o755))?;
    }
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
        if member.is_dir() || !is_kept(wheel, &name) {
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

fn is_kept(wheel: &Wheel, name: &str) -> bool {
    let listed = |list: &[String]| list.iter().any(|entry| keeps(entry, name));
    (wheel.keep.is_empty() || listed(&wheel.keep)) && !listed(&wheel.leave)
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
