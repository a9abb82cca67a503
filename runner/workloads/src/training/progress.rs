//! A pass's folder while it is being made: where it stands, so that a run that was killed goes
//! on from its last checkpoint.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warpforge_parity::bundle::{self, LossAt, LossCurve, Writer, write_beside};
use warpforge_parity::compare::Number;

use crate::error::Error;

/// Holds what is only needed until the folder is whole.
const WORK: &str = "work";
const PROGRESS: &str = "work/progress.json";

/// Where a free run stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Progress {
    /// Digest of everything that determines the run.
    key: String,
    /// How many steps are done.
    steps: u32,
    /// Their losses; `None` where one is not finite.
    losses: Vec<Option<f64>>,
}

/// A folder in the making.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    progress: Progress,
    writer: Writer,
}

impl Folder {
    /// Goes on where an earlier run with the same key stopped, else starts anew: what another run
    /// left in the folder is removed.
    pub fn open(root: &Path, key: &str) -> Result<Self, Error> {
        let text = fs::read(root.join(PROGRESS)).unwrap_or_default();
        let known = serde_json::from_slice::<Progress>(&text).ok();
        let unfinished = root.join(bundle::INCOMPLETE).exists();
        let resumed = known.filter(|known| {
            let state = root.join(WORK).join(state_name(known.steps));
            unfinished && known.key == key && (known.steps == 0 || state.is_file())
        });
        let progress = if let Some(progress) = resumed {
            progress
        } else {
            clear(root)?;
            Progress { key: key.to_owned(), ..Progress::default() }
        };
        let writer = Writer::create(root)?;
        let work = root.join(WORK);
        fs::create_dir_all(&work).map_err(|error| Error::io(&work, error))?;
        let folder = Self { root: root.to_owned(), progress, writer };
        folder.note()?;
        Ok(folder)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The place of a file, its folder made.
    pub fn place(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.root.join(name);
        let parent = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent).map_err(|error| Error::io(parent, error))?;
        Ok(path)
    }

    /// A place for what is thrown away in the end.
    pub fn work(&self, name: &str) -> PathBuf {
        self.root.join(WORK).join(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.root.join(name).is_file()
    }

    pub fn json(&mut self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        Ok(self.writer.json(name, value)?)
    }

    /// How many steps are done.
    pub fn steps(&self) -> u32 {
        self.progress.steps
    }

    /// The state after those steps.
    pub fn state(&self) -> Option<PathBuf> {
        let steps = self.progress.steps;
        (steps > 0).then(|| self.work(&state_name(steps)))
    }

    /// Takes note of a step's loss; it counts once a checkpoint is made.
    pub fn loss(&mut self, loss: Option<f64>) {
        self.progress.losses.push(loss);
    }

    pub fn losses(&self) -> &[Option<f64>] {
        &self.progress.losses
    }

    /// Makes a checkpoint after this many steps: `save` writes the state first, then it counts.
    pub fn checkpoint(
        &mut self,
        steps: u32,
        save: &mut dyn FnMut(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let old = self.state();
        save(&self.work(&state_name(steps)))?;
        self.progress.steps = steps;
        self.note()?;
        if let Some(old) = old.filter(|old| Some(old) != self.state().as_ref()) {
            // A leftover file does no harm.
            let _ = fs::remove_file(old);
        }
        Ok(())
    }

    fn note(&self) -> Result<(), Error> {
        let path = self.root.join(PROGRESS);
        let text = serde_json::to_vec(&self.progress).map_err(io::Error::from);
        text.and_then(|text| write_beside(&path, &text)).map_err(|error| Error::io(&path, error))
    }

    /// Writes the losses, drops what is no longer needed and marks the folder as whole.
    pub fn finish(mut self) -> Result<(), Error> {
        let curve = curve(&self.progress.losses);
        self.json(bundle::LOSS_CURVE, &curve)?;
        let work = self.root.join(WORK);
        fs::remove_dir_all(&work).map_err(|error| Error::io(&work, error))?;
        for name in files(&self.root)? {
            self.writer.adopt(&name)?;
        }
        Ok(self.writer.finish()?)
    }
}

fn state_name(steps: u32) -> String {
    format!("state-{steps}.safetensors")
}

/// Losses as they are written down.
pub fn curve(losses: &[Option<f64>]) -> LossCurve {
    let steps = losses
        .iter()
        .zip(0u64..)
        .map(|(loss, step)| LossAt { step, loss: Number(loss.unwrap_or(f64::NAN)) });
    LossCurve { version: 1, steps: steps.collect() }
}

/// All files of a folder, by their names in it, but its marks.
fn files(root: &Path) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        let io = |error| Error::io(&folder, error);
        for entry in fs::read_dir(&folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            if path.is_dir() {
                open.push(path);
            } else if let Ok(name) = path.strip_prefix(root) {
                found.push(name.to_string_lossy().into_owned());
            }
        }
    }
    found.retain(|name| name != bundle::INCOMPLETE && name != bundle::COMPLETE);
    found.sort();
    Ok(found)
}

/// Removes what a pass writes, and nothing else: the folder may be a user's.
fn clear(root: &Path) -> Result<(), Error> {
    const FOLDERS: &[&str] = &[
        WORK,
        "activations",
        "batches",
        "gradients",
        "noise",
        "optimizer",
        "oracle",
        "repeat",
        "states",
        "weights",
    ];
    const FILES: &[&str] = &[
        bundle::CHECKPOINT,
        bundle::LOSS_CURVE,
        bundle::METRICS,
        bundle::TIMINGS,
        bundle::RUN,
        bundle::FORCED,
        bundle::EXPECT,
        bundle::ORDER,
        "step.mlir",
    ];
    let absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    for name in FOLDERS {
        let path = root.join(name);
        match fs::remove_dir_all(&path) {
            Err(error) if !absent(&error) => return Err(Error::io(&path, error)),
            _ => {}
        }
    }
    for name in FILES {
        let path = root.join(name);
        match fs::remove_file(&path) {
            Err(error) if !absent(&error) => return Err(Error::io(&path, error)),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn save(path: &Path) -> Result<(), Error> {
        fs::write(path, b"state").map_err(|error| Error::io(path, error))
    }

    #[test]
    fn a_run_goes_on_from_its_last_checkpoint() {
        let root = tempfile::tempdir().unwrap();
        let mut first = Folder::open(root.path(), "k").unwrap();
        assert_eq!((first.steps(), first.state()), (0, None));
        for step in 0..5 {
            first.loss(Some(f64::from(step)));
            if step == 2 {
                first.checkpoint(3, &mut save).unwrap();
            }
        }
        drop(first);
        let second = Folder::open(root.path(), "k").unwrap();
        assert_eq!(second.steps(), 3);
        assert_eq!(second.losses(), [Some(0.0), Some(1.0), Some(2.0)]);
        assert!(second.state().unwrap().is_file());
        second.finish().unwrap();
        assert!(!root.path().join(WORK).exists());
        // A whole folder is not gone on with, and another key starts anew.
        assert_eq!(Folder::open(root.path(), "k").unwrap().steps(), 0);
        let mut third = Folder::open(root.path(), "k").unwrap();
        third.loss(Some(1.0));
        third.checkpoint(1, &mut save).unwrap();
        drop(third);
        assert_eq!(Folder::open(root.path(), "other").unwrap().steps(), 0);
    }

    #[test]
    fn only_files_of_a_pass_are_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("notes.txt"), "mine").unwrap();
        fs::create_dir(root.path().join("gradients")).unwrap();
        drop(Folder::open(root.path(), "k").unwrap());
        assert!(root.path().join("notes.txt").exists());
        assert!(!root.path().join("gradients").exists());
    }
}
