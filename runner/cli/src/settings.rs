//! What is in force and where each value came from: defaults, then `warpforge.toml`, then the
//! environment, then flags, each able to override the one before. The table in [`list`] is the
//! only place that enumerates settings. Credentials are never settings.

mod environment;
mod file;
mod list;
pub mod nearest;
mod problem;
mod resolve;
mod value;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

pub use environment::Environment;
pub use list::{KEYS, Settings};
pub use problem::{Problem, Problems};
pub use value::{Color, PathList};

use file::File;
use resolve::Layers;
use value::{Endpoint, Value};

/// One row of the list: everything about a setting but its value.
#[derive(Debug)]
pub struct Key {
    /// The name in the file, dotted: `store.bucket` is `bucket` under `[store]`.
    pub name: &'static str,
    /// Environment variables, the first one set wins.
    pub variables: &'static [&'static str],
    pub doc: &'static str,
}

/// A value and who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub source: Source,
}

/// Who set a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    Default,
    File { path: PathBuf, line: usize },
    Environment { variable: String },
    Flag { flag: String },
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => write!(f, "environment {variable}"),
            Self::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// A value given on the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    pub key: &'static str,
    pub name: &'static str,
    pub text: String,
}

/// All settings together with the file they were read from.
#[derive(Debug)]
pub struct Configuration {
    pub settings: Settings,
    pub file: Option<PathBuf>,
}

/// Reads every layer; all that is wrong in any of them is reported together.
pub fn load(
    named: Option<&Path>,
    flags: &[Flag],
    environment: &Environment,
) -> Result<Configuration, Problems> {
    let file = File::locate(named, environment)?;
    let settings = Settings::resolve(&Layers { flags, environment, file: file.as_ref() })?;
    Ok(Configuration { settings, file: file.map(|file| file.path) })
}

/// An object store's address that was given otherwise than as a setting; else what is wrong with
/// it, without repeating a secret.
pub fn endpoint(text: &str) -> Result<String, String> {
    Endpoint::from_text(text, Path::new("")).map(|endpoint| endpoint.0)
}

/// The settings of commands that must work whatever state the configuration is in.
pub fn from_flags(flags: &[Flag]) -> Result<Configuration, Problems> {
    let environment = &Environment::default();
    let settings = Settings::resolve(&Layers { flags, environment, file: None })?;
    Ok(Configuration { settings, file: None })
}
