//! Bundles of finished runs in a folder or in a bucket. A bundle is its files and `bundle.json`,
//! which names every one with its size and digest and is written last: without it there is no
//! bundle, so what was cut off is absent and never half.

mod bucket;
mod folder;
mod location;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, digests};
use bucket::Bucket;
use folder::Folder;
pub use location::Location;

/// The list of a bundle's files, and the mark that all of them are there.
pub const MANIFEST: &str = "bundle.json";
/// The marks that a run's own folders have.
const COMPLETE: &str = "complete.json";
const INCOMPLETE: &str = "incomplete";
const VERSION: u32 = 1;

/// What a bundle holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    version: u32,
    /// By their paths, with `/` between folders.
    pub files: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub size: u64,
    pub sha256: String,
}

/// Why a bundle cannot be stored or had.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("{0}")]
    Store(#[from] Error),
    #[error("{} cannot be used: {source}", path.display())]
    Disk { path: PathBuf, source: io::Error },
    #[error("there is no bundle {name} in {place}")]
    Absent { name: String, place: String },
    #[error("there is another bundle {name} in {place}")]
    Exists { name: String, place: String },
    #[error("{} is there already", .0.display())]
    InTheWay(PathBuf),
    #[error("{} is incomplete: the run that wrote it did not finish", .0.display())]
    Incomplete(PathBuf),
    #[error("{} holds no file", .0.display())]
    Empty(PathBuf),
    #[error("{file} of bundle {name} is not what it should be: {why}")]
    Wrong { name: String, file: String, why: String },
    #[error("{name:?} cannot be a bundle's name")]
    Name { name: String },
    #[error("{0:?} is neither a folder nor s3://BUCKET/PREFIX")]
    Location(String),
}

impl BundleError {
    /// What a person can do about it.
    pub fn cure(&self) -> String {
        match self {
            Self::Store(error) => error.cure(),
            Self::Disk { .. } => "check the folder's permissions and the space left".into(),
            Self::Absent { .. } => "check the name, or store the bundle again".into(),
            Self::Exists { .. } | Self::InTheWay(_) => {
                "choose another name, or remove what is there".into()
            }
            Self::Incomplete(_) => "run it again, or let it go on from its checkpoint".into(),
            Self::Empty(_) => "name the folder that the run wrote".into(),
            Self::Wrong { .. } => "store the bundle again; do not use this one".into(),
            Self::Name { .. } => "use letters, digits, `.`, `_`, `-` and single `/`".into(),
            Self::Location(_) => "correct the location".into(),
        }
    }

    pub(crate) fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Disk { path: path.to_owned(), source }
    }
}

/// Where bundles are kept.
#[derive(Clone, Debug)]
pub enum ArtifactStore {
    Folder(Folder),
    Bucket(Bucket),
}

/// How far a transfer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub file: String,
    pub at: u64,
    pub total: u64,
}

type Watch<'a> = &'a mut dyn FnMut(Progress);

impl ArtifactStore {
    /// Opens a place; making it sends nothing.
    pub fn open(location: Location) -> Self {
        match location {
            Location::Folder(path) => Self::Folder(Folder { path }),
            Location::Bucket { settings, credentials, prefix } => {
                Self::Bucket(Bucket::connect(settings, credentials, prefix))
            }
        }
    }

    /// Stores the files of a folder. The same bundle may be stored twice; another one of the same
    /// name is refused.
    pub async fn put(
        &self,
        name: &str,
        from: &Path,
        watch: Watch<'_>,
    ) -> Result<Manifest, BundleError> {
        check_name(name)?;
        let manifest = Manifest::of(from)?;
        match self.manifest(name).await {
            Ok(existing) if existing == manifest => return Ok(manifest),
            Ok(_) => return Err(BundleError::Exists { name: name.into(), place: self.place() }),
            Err(BundleError::Absent { .. }) => {}
            Err(error) => return Err(error),
        }
        match self {
            Self::Folder(folder) => folder.put(name, from, &manifest, watch)?,
            Self::Bucket(bucket) => bucket.put(name, from, &manifest, true, watch).await?,
        }
        Ok(manifest)
    }

    /// Stores the files of a folder in the place of whatever has the name. In between there is no
    /// bundle; one who reads the old one meanwhile finds files that are not those it was told of.
    pub async fn replace(
        &self,
        name: &str,
        from: &Path,
        watch: Watch<'_>,
    ) -> Result<Manifest, BundleError> {
        check_name(name)?;
        let manifest = Manifest::of(from)?;
        match self {
            Self::Folder(folder) => {
                folder.remove(name)?;
                folder.put(name, from, &manifest, watch)?;
            }
            Self::Bucket(bucket) => {
                bucket.disown(name).await?;
                bucket.put(name, from, &manifest, false, watch).await?;
            }
        }
        Ok(manifest)
    }

    /// Brings a bundle into a folder that is not there yet; every file is held against its digest.
    pub async fn get(
        &self,
        name: &str,
        to: &Path,
        watch: Watch<'_>,
    ) -> Result<Manifest, BundleError> {
        let manifest = self.manifest(name).await?;
        if to.exists() {
            return Err(BundleError::InTheWay(to.to_owned()));
        }
        // What an earlier attempt left is begun anew: it is ours by its name.
        let arriving = crate::beside::name(to);
        if arriving.exists() {
            fs::remove_dir_all(&arriving).map_err(BundleError::disk(&arriving))?;
        }
        for (file, entry) in &manifest.files {
            let place = arriving.join(file);
            let folder = place.parent().unwrap_or(&arriving);
            fs::create_dir_all(folder).map_err(BundleError::disk(folder))?;
            match self {
                Self::Folder(store) => store.fetch(name, file, entry, &place, watch)?,
                Self::Bucket(bucket) => bucket.fetch(name, file, entry, &place, watch).await?,
            }
        }
        fs::rename(&arriving, to).map_err(BundleError::disk(to))?;
        Ok(manifest)
    }

    /// Reads every file of a stored bundle and holds it against its digest.
    pub async fn verify(&self, name: &str, watch: Watch<'_>) -> Result<Manifest, BundleError> {
        let manifest = self.manifest(name).await?;
        for (file, entry) in &manifest.files {
            match self {
                Self::Folder(store) => store.check(name, file, entry, watch)?,
                Self::Bucket(bucket) => bucket.check(name, file, entry, watch).await?,
            }
        }
        Ok(manifest)
    }

    /// The names of all bundles, in order.
    pub async fn list(&self) -> Result<Vec<String>, BundleError> {
        let mut names = match self {
            Self::Folder(folder) => folder.list()?,
            Self::Bucket(bucket) => bucket.list().await?,
        };
        names.sort();
        Ok(names)
    }

    /// What a bundle holds.
    pub async fn manifest(&self, name: &str) -> Result<Manifest, BundleError> {
        check_name(name)?;
        let text = match self {
            Self::Folder(folder) => folder.manifest(name)?,
            Self::Bucket(bucket) => bucket.manifest(name).await?,
        };
        let text =
            text.ok_or_else(|| BundleError::Absent { name: name.into(), place: self.place() })?;
        Manifest::read(&text).map_err(|why| BundleError::Wrong {
            name: name.to_owned(),
            file: MANIFEST.to_owned(),
            why,
        })
    }

    /// Where it is, for messages.
    pub fn place(&self) -> String {
        match self {
            Self::Folder(folder) => folder.path.display().to_string(),
            Self::Bucket(bucket) => bucket.place(),
        }
    }
}

impl Manifest {
    /// Lists a folder's files with their digests.
    pub fn of(folder: &Path) -> Result<Self, BundleError> {
        let mut files = BTreeMap::new();
        let mut folders = vec![(folder.to_owned(), String::new())];
        while let Some((next, prefix)) = folders.pop() {
            for entry in fs::read_dir(&next).map_err(BundleError::disk(&next))? {
                let entry = entry.map_err(BundleError::disk(&next))?;
                let path = entry.path();
                let name = entry.file_name().into_string().map_err(|name| BundleError::Name {
                    name: name.to_string_lossy().into_owned(),
                })?;
                if name == INCOMPLETE {
                    return Err(BundleError::Incomplete(next));
                }
                // Links are followed to files, as those are what is meant, and never to folders.
                let meta = fs::metadata(&path).map_err(BundleError::disk(&path))?;
                let link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                if meta.is_dir() {
                    if !link {
                        folders.push((path, format!("{prefix}{name}/")));
                    }
                } else if !(prefix.is_empty() && name == MANIFEST) {
                    let digest = digests::digest(&path, |_| {});
                    let (sha256, size) = digest.map_err(BundleError::disk(&path))?;
                    files.insert(format!("{prefix}{name}"), Entry { size, sha256 });
                }
            }
        }
        if files.is_empty() {
            return Err(BundleError::Empty(folder.to_owned()));
        }
        Ok(Self { version: VERSION, files })
    }

    fn read(text: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if manifest.version != VERSION {
            let found = manifest.version;
            return Err(format!("it has version {found}, and this program knows {VERSION}"));
        }
        match manifest.files.keys().find(|name| !stays_inside(name)) {
            Some(name) => Err(format!("{name:?} is no path in it")),
            None => Ok(manifest),
        }
    }

    fn text(&self) -> Vec<u8> {
        // Plain data with text for keys always has a JSON form.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// The files, with the marks that a run sets last behind all others.
    fn in_order(&self) -> impl Iterator<Item = (&String, &Entry)> {
        let is_mark = |name: &str| name == COMPLETE || name.ends_with("/complete.json");
        let others = self.files.iter().filter(move |(name, _)| !is_mark(name));
        others.chain(self.files.iter().filter(move |(name, _)| is_mark(name)))
    }
}

impl Entry {
    pub(crate) fn compare(
        &self,
        name: &str,
        file: &str,
        sha256: &str,
        size: u64,
    ) -> Result<(), BundleError> {
        let why = if size != self.size {
            format!("it has {size} bytes and not {}", self.size)
        } else if sha256 != self.sha256 {
            format!("its SHA-256 is {sha256} and not {}", self.sha256)
        } else {
            return Ok(());
        };
        Err(BundleError::Wrong { name: name.to_owned(), file: file.to_owned(), why })
    }
}

fn check_name(name: &str) -> Result<(), BundleError> {
    let usual = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    if stays_inside(name) && name.bytes().all(usual) {
        Ok(())
    } else {
        Err(BundleError::Name { name: name.to_owned() })
    }
}

/// Whether a path has no way out of the folder it is in.
fn stays_inside(path: &str) -> bool {
    path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
        && !path.contains(['\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        for good in ["a", "nightly/2026-11-15", "a.b_c-d"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", "..", "a/../b", "a b", "a\\b", "ü"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_manifest_that_leads_astray_is_refused() {
        let text = br#"{"version": 1, "files": {"../x": {"size": 1, "sha256": "00"}}}"#;
        assert!(Manifest::read(text).is_err());
        assert!(Manifest::read(br#"{"version": 2, "files": {}}"#).is_err());
    }

    #[test]
    fn marks_come_last() {
        let entry = Entry { size: 0, sha256: String::new() };
        let names = ["complete.json", "golden/complete.json", "golden/outputs", "report.json"];
        let files = names.map(|name| (name.to_owned(), entry.clone())).into();
        let manifest = Manifest { version: VERSION, files };
        let order: Vec<_> = manifest.in_order().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            order,
            ["golden/outputs", "report.json", "complete.json", "golden/complete.json"]
        );
    }
}
