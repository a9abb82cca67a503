//! The archive: a zip whose members are stored as they are, so that they can be used in place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::map::Mapped;

/// A mapped `.pt2` file and where its members lie in it.
#[derive(Clone, Debug)]
pub struct Archive {
    file: Arc<Mapped>,
    /// Names without the archive's own top folder.
    members: BTreeMap<Box<str>, Range<usize>>,
}

impl Archive {
    pub fn open(path: &Path) -> Result<Self> {
        let file = Arc::new(Mapped::open(path)?);
        let members = list(&file)?;
        let archive = Self { file, members };
        if archive.get("archive_format").is_none_or(|format| format.trim_ascii() != b"pt2") {
            let why = "it does not say archive_format pt2".into();
            return Err(Error::Archive { path: path.into(), why });
        }
        if archive.get("byteorder").is_some_and(|order| order.trim_ascii() != b"little") {
            let why = "it was written on a big-endian machine".into();
            return Err(Error::Archive { path: path.into(), why });
        }
        Ok(archive)
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn file(&self) -> &Arc<Mapped> {
        &self.file
    }

    /// The names of all members, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(|name| &**name)
    }

    pub(crate) fn range(&self, name: &str) -> Option<Range<usize>> {
        self.members.get(name).cloned()
    }

    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.range(name).map(|range| &self.file.bytes()[range])
    }

    /// A member that must be there.
    pub fn need(&self, name: &str) -> Result<&[u8]> {
        let missing = || Error::Missing { path: self.path().into(), member: name.into() };
        self.get(name).ok_or_else(missing)
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        serde_json::from_slice(self.need(name)?).map_err(|error| Error::Json {
            path: self.path().into(),
            member: name.into(),
            line: error.line(),
            column: error.column(),
            why: error.to_string(),
        })
    }
}

fn list(file: &Mapped) -> Result<BTreeMap<Box<str>, Range<usize>>> {
    let path = file.path();
    let bad = |why: String| Error::Archive { path: path.into(), why };
    let zip = rawzip::ZipArchive::from_slice(file.bytes()).map_err(|e| bad(e.to_string()))?;
    let mut members = BTreeMap::new();
    for header in zip.entries() {
        let header = header.map_err(|error| bad(error.to_string()))?;
        let raw = header.file_path();
        let Ok(name) = std::str::from_utf8(raw.as_ref()) else {
            return Err(bad("a member's name is no text".into()));
        };
        if escapes(name) {
            return Err(Error::Escapes { path: path.into(), member: name.into() });
        }
        if header.compression_method() != rawzip::CompressionMethod::STORE {
            return Err(Error::Compressed { path: path.into(), member: name.into() });
        }
        let entry = zip.get_entry(header.wayfinder());
        let entry = entry.map_err(|error| bad(format!("the member {name}: {error}")))?;
        let (start, end) = entry.compressed_data_range();
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let range = range.map(|(start, end)| start..end);
        let fits =
            |range: &Range<usize>| range.start <= range.end && range.end <= file.bytes().len();
        let Some(range) = range.filter(fits) else {
            return Err(bad(format!("the member {name} reaches past the end of the file")));
        };
        // Every member lies in one top folder named after the file it was first saved to.
        if let Some((_, inner)) = name.split_once('/') {
            members.insert(inner.into(), range);
        }
    }
    Ok(members)
}

fn escapes(name: &str) -> bool {
    name.starts_with('/') || name.contains('\\') || name.split('/').any(|part| part == "..")
}
