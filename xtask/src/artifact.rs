//! What set-up fetches, as data: a file in `artifacts/` describes one folder of
//! the cache by the wheels it is cut out of and what is kept of each.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// One folder of the cache, fetched once and never changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    pub name: String,
    pub version: String,
    /// Where the checkout links to it.
    pub link: String,
    os: String,
    arch: String,
    pub tags: Tags,
    pub wheels: Vec<Wheel>,
    // What follows came later. It is left out of the recipe where it is not used,
    // so that installs made before it stay valid.
    /// Where in the install the wheels go; at its root when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub into: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub borrow: Vec<Borrow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stubs: Option<Stubs>,
}

/// Files that another install has, out of the same wheels.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Borrow {
    pub install: String,
    pub files: Vec<String>,
}

/// Libraries that have to be there to be loaded, and are never called.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stubs {
    /// What is looked through for the symbols they must have.
    pub users: Vec<String>,
    pub folder: String,
    pub libraries: Vec<Stub>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stub {
    pub file: String,
    /// The version its symbols are asked for in.
    #[serde(default)]
    pub version: Option<String>,
    /// How symbols begin that are asked for in no version.
    #[serde(default)]
    pub prefix: Option<String>,
}

/// Which builds of the wheels to ask for, whatever Python does the asking.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tags {
    pub python: String,
    pub implementation: String,
    pub abis: Vec<String>,
    pub platforms: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    pub package: String,
    pub version: String,
    pub file: String,
    pub size: u64,
    pub sha256: String,
    /// Members to keep; a name that ends in `/` keeps everything below it. None
    /// means all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// Members to leave out all the same, named in the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leave: Vec<String>,
}

impl Artifact {
    pub fn parse(text: &str) -> Result<Self> {
        Ok(toml_edit::de::from_str(text)?)
    }

    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("could not read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} describes no artifact", path.display()))
    }

    /// What people and folders call it: `libtorch-2.11.0`.
    pub fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// Changes whenever the description does, so that an old install is recognised.
    pub fn recipe(&self) -> String {
        let text = serde_json::to_vec(self).expect("plain data always serialises");
        hex(&Sha256::digest(text))
    }

    pub fn check_platform(&self) -> Result<()> {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        ensure!(
            os == self.os && arch == self.arch,
            "{} {} is only pinned for {} {}, and this machine is {os} {arch}",
            self.name,
            self.version,
            self.os,
            self.arch,
        );
        Ok(())
    }
}

/// Stands for the contents of some files and what else they depend on.
pub fn digest(mut files: Vec<PathBuf>, more: &str) -> Result<String> {
    files.sort();
    let mut hasher = Sha256::new_with_prefix(more);
    for file in files {
        let text = fs::read(&file).with_context(|| format!("could not read {}", file.display()))?;
        // Lengths too, so that text moved from one file to the next counts.
        hasher.update(text.len().to_le_bytes());
        hasher.update(text);
    }
    Ok(hex(&hasher.finalize()))
}

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
