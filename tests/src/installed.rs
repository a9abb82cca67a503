//! What `cargo xtask setup` brought: a Python with PyTorch, exported models with
//! their inputs and PyTorch's results, an S3 server, and a browser. Each is found through the
//! checkout's link; a test that needs one stops with the command that brings it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

/// One exported model and what belongs to it.
#[derive(Debug, Clone)]
pub struct Fixture {
    pub name: String,
    pub model: PathBuf,
    /// By the graph's input names.
    pub inputs: PathBuf,
    /// What PyTorch computed with one thread: `output.N` by position, and
    /// `buffer.NAME` for each buffer that the run changed.
    pub outputs: PathBuf,
    /// The weights, where the model holds only their names.
    pub weights: Option<PathBuf>,
}

/// The Python of set-up, whose PyTorch is the wheel that libtorch is cut out of.
pub fn python() -> Command {
    let mut python = Command::new(link(".python", "python").join("bin/python"));
    // Nothing of the caller's may get in.
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PYTHON") {
            python.env_remove(&name);
        }
    }
    python
}

/// The models that set-up made: `bert_qa`, `llama`, …, and those that begin with
/// `op_` for single families of ops.
pub fn fixtures() -> Vec<Fixture> {
    list(&link(".fixtures", "fixtures"))
}

/// One of them by its name.
pub fn fixture(name: &str) -> Fixture {
    one(&link(".fixtures", "fixtures"), name)
}

/// The small models that lie in the repository.
pub fn committed_fixtures() -> Vec<Fixture> {
    list(&committed())
}

/// One of them by its name.
pub fn committed_fixture(name: &str) -> Fixture {
    one(&committed(), name)
}

/// The S3 server's program (`weed`, of `SeaweedFS`).
pub fn s3_server() -> PathBuf {
    let folder = link(".s3", "s3");
    let entries = fs::read_dir(&folder).expect("the link leads to a folder");
    let data = entries.map(|entry| entry.unwrap().path().join("scripts/weed"));
    let mut found = data.filter(|path| path.is_file());
    found.next().unwrap_or_else(|| panic!("there is no weed in {}", folder.display()))
}

/// Chromium or a relative of it: `WARPFORGE_CHROMIUM`, else the first on the PATH.
pub fn chromium() -> Option<PathBuf> {
    if let Some(named) = env::var_os("WARPFORGE_CHROMIUM").filter(|name| !name.is_empty()) {
        return Some(named.into());
    }
    let path = env::var_os("PATH")?;
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"].iter().find_map(
        |name| env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()),
    )
}

fn committed() -> PathBuf {
    root().join("runner/snakegrinder/tests/fixtures")
}

fn link(name: &str, what: &str) -> PathBuf {
    let path = root().join(name);
    assert!(path.is_dir(), "{what} is not set up: run `cargo xtask setup {what}`");
    path
}

fn list(folder: &Path) -> Vec<Fixture> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files = entries.map(|entry| entry.unwrap().path());
    let models = files.filter(|file| file.extension().is_some_and(|extension| extension == "pt2"));
    let mut names: Vec<_> =
        models.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names.iter().map(|name| one(folder, name)).collect()
}

fn one(folder: &Path, name: &str) -> Fixture {
    let file = |ending: &str| folder.join(format!("{name}.{ending}"));
    let fixture = Fixture {
        name: name.to_owned(),
        model: file("pt2"),
        inputs: file("inputs.safetensors"),
        outputs: file("outputs.safetensors"),
        weights: Some(file("weights.safetensors")).filter(|path| path.is_file()),
    };
    for path in [&fixture.model, &fixture.inputs, &fixture.outputs] {
        assert!(path.is_file(), "there is no {}", path.display());
    }
    fixture
}
