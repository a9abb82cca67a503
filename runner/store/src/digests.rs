//! `digests.json`: what was fetched, and the digests of files whose publisher states none. Those
//! are recorded when they are first seen, and held to ever after.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub const FILE: &str = "digests.json";
const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    version: u32,
    /// Datasets whose licence forbids commercial use and was accepted when they were fetched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    pub files: BTreeMap<String, Record>,
}

impl Default for Digests {
    fn default() -> Self {
        Self { version: VERSION, accepted: Vec::new(), files: BTreeMap::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub sha256: String,
    pub size: u64,
    /// Where it came from; nothing if it was found in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Digests {
    /// What is recorded in a folder; nothing yet if there is no file.
    pub fn read(folder: &Path) -> io::Result<Self> {
        match fs::read(folder.join(FILE)) {
            Ok(text) => {
                let digests: Self = serde_json::from_slice(&text)?;
                if digests.version == VERSION {
                    Ok(digests)
                } else {
                    let found = digests.version;
                    Err(io::Error::other(format!("it has version {found}, not {VERSION}")))
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        crate::beside::write(&folder.join(FILE), &text)
    }
}

/// The digest of a whole file and its size.
pub fn digest(path: &Path, mut seen: impl FnMut(u64)) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let size = feed(&mut hasher, &mut file, &mut seen)?;
    Ok((hex(&hasher.finalize()), size))
}

pub fn feed(
    hasher: &mut Sha256,
    from: &mut impl Read,
    seen: &mut impl FnMut(u64),
) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(size),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                size += read as u64;
                seen(size);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
