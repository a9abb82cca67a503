//! `cargo xtask generate`: the committed files that a program writes, written
//! anew, or compared with what it would write.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::cache;
use crate::group::Group;
use crate::workspace;

#[derive(clap::Args)]
pub struct Args {
    /// Change nothing; fail if a file is stale
    #[arg(long)]
    check: bool,
}

/// A folder whose whole content is written by `warpforge ARGUMENTS FOLDER`.
struct Generated {
    folder: &'static str,
    arguments: &'static [&'static str],
}

const GENERATED: &[Generated] =
    &[Generated { folder: "docs/schema", arguments: &["schema", "--out"] }];

pub fn run(args: &Args) -> Result<ExitCode> {
    let root = workspace::root()?;
    let warpforge = workspace::build_warpforge(&root)?;
    if !args.check {
        bless(&root)?;
    }
    let mut stale = Vec::new();
    for generated in GENERATED {
        let fresh = tempfile::tempdir()?;
        write(&warpforge, generated, fresh.path())?;
        let folder = root.join(generated.folder);
        for name in differences(fresh.path(), &folder)? {
            if !args.check {
                replace(&fresh.path().join(&name), &folder.join(&name))?;
            }
            stale.push(Path::new(generated.folder).join(name));
        }
    }
    Ok(report(&stale, args.check))
}

/// Pages that a test prints and compares: it writes them instead. The check is the test itself.
fn bless(root: &Path) -> Result<()> {
    let mut command = workspace::cargo();
    command.args("test --workspace --release --locked --quiet".split(' '));
    command.args("--test chart --test coverage --test crds".split(' '));
    command.current_dir(root).env("WARPFORGE_TEST_BLESS", "1");
    let status = Group::spawn(&mut command).context("could not start cargo")?.wait()?;
    ensure!(status.success(), "the pages that tests print could not be written");
    Ok(())
}

fn report(stale: &[PathBuf], check: bool) -> ExitCode {
    let verb = if check { "stale" } else { "written" };
    for path in stale {
        println!("{verb}: {}", path.display());
    }
    if stale.is_empty() {
        println!("generated files are up to date");
    } else if check {
        println!("`cargo xtask generate` brings them up to date");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn write(warpforge: &Path, generated: &Generated, into: &Path) -> Result<()> {
    let mut command = Command::new(warpforge);
    command.args(generated.arguments).arg(into);
    // What it says of the temporary folder would only confuse.
    command.stdout(std::process::Stdio::null());
    let status = Group::spawn(&mut command).context("could not start warpforge")?.wait()?;
    ensure!(status.success(), "warpforge could not write what belongs in {}", generated.folder);
    Ok(())
}

/// Files that one folder lacks or that differ, by their names below both.
fn differences(fresh: &Path, committed: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut names = files(fresh)?;
    names.extend(files(committed)?);
    names.retain(|name| fs::read(fresh.join(name)).ok() != fs::read(committed.join(name)).ok());
    Ok(names)
}

fn files(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop().filter(|next| next.exists()) {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder)?.to_path_buf());
            }
        }
    }
    Ok(found)
}

fn replace(fresh: &Path, committed: &Path) -> Result<()> {
    if !fresh.exists() {
        return Ok(cache::remove(committed)?);
    }
    fs::create_dir_all(committed.parent().context("a file without a folder")?)?;
    fs::copy(fresh, committed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_changed_and_obsolete_files_are_stale() {
        let (fresh, committed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let put = |folder: &Path, name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (name, new, old) in [
            ("same", Some("a"), Some("a")),
            ("changed", Some("a"), Some("b")),
            ("sub/new", Some("a"), None),
            ("obsolete", None, Some("a")),
        ] {
            new.inspect(|text| put(fresh.path(), name, text));
            old.inspect(|text| put(committed.path(), name, text));
        }
        let stale = differences(fresh.path(), committed.path()).unwrap();
        assert_eq!(stale, ["changed", "obsolete", "sub/new"].map(PathBuf::from).into());

        for name in &stale {
            replace(&fresh.path().join(name), &committed.path().join(name)).unwrap();
        }
        assert!(differences(fresh.path(), committed.path()).unwrap().is_empty());
    }
}
