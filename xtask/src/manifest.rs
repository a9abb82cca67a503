//! The list of files that makes an install whole. It is written last and read on
//! every start, so it holds sizes, which cost microseconds to check, not digests:
//! those were checked on the wheels.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

const FILE: &str = ".manifest.json";

#[derive(Serialize, Deserialize)]
pub struct Manifest {
    recipe: String,
    files: BTreeMap<String, u64>,
}

/// What lies where an install should be.
#[derive(Debug, PartialEq)]
pub enum State {
    Whole,
    Absent,
    /// Something does, but it cannot be used, for this reason.
    Damaged(String),
}

impl Manifest {
    pub fn new(recipe: String) -> Self {
        Self { recipe, files: BTreeMap::new() }
    }

    pub fn add(&mut self, name: String, size: u64) {
        self.files.insert(name, size);
    }

    pub fn write(&self, home: &Path) -> Result<()> {
        let file = BufWriter::new(File::create(home.join(FILE))?);
        Ok(serde_json::to_writer(file, self)?)
    }

    fn read(home: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(home.join(FILE)).ok()?).ok()
    }
}

pub fn check(home: &Path, recipe: &str) -> State {
    if fs::symlink_metadata(home).is_err() {
        return State::Absent;
    }
    let Some(manifest) = Manifest::read(home) else {
        return State::Damaged("its manifest cannot be read".into());
    };
    if manifest.recipe != recipe {
        return State::Damaged("it was made by another description".into());
    }
    for (name, size) in &manifest.files {
        match fs::metadata(home.join(name)) {
            Err(_) => return State::Damaged(format!("{name} is missing")),
            Ok(found) if found.len() != *size => {
                let found = found.len();
                return State::Damaged(format!("{name} has {found} bytes instead of {size}"));
            }
            Ok(_) => {}
        }
    }
    State::Whole
}
