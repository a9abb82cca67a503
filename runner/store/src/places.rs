//! Where things lie: the cache of the Hugging Face hub in its own layout, and a folder of ours for
//! what comes from elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::table::{Dataset, Home, Repository};

/// The folders that are looked in and written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The hub's cache, which holds `models--ORG--NAME` and the like.
    pub hub: PathBuf,
    /// The folder of what is not on the hub, a folder each.
    pub data: PathBuf,
    /// COCO's own folder, where it is not in `data`.
    pub coco: Option<PathBuf>,
    /// One folder that takes the files by their names, whatever else holds.
    pub only: Option<PathBuf>,
}

impl Places {
    /// The hub's cache folder by the variables its own programs read.
    pub fn hub_cache(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let find = |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        find("HF_HUB_CACHE")
            .or_else(|| find("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(Self::hub_home(&lookup)?.join("hub")))
    }

    /// `HF_HOME`, which also holds the file of the login.
    pub fn hub_home(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let find = |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        find("HF_HOME")
            .or_else(|| Some(find("XDG_CACHE_HOME")?.join("huggingface")))
            .or_else(|| Some(find("HOME")?.join(".cache/huggingface")))
    }

    /// The folder of a dataset: what is looked at, locked, and holds `digests.json`.
    pub fn folder(&self, dataset: &Dataset) -> PathBuf {
        if let Some(only) = &self.only {
            return only.clone();
        }
        match dataset.home {
            Home::Hub { kind, name, formerly, .. } => {
                let mut names = std::iter::once(name).chain(formerly);
                let existing = names.find_map(|name| {
                    Some(self.hub.join(repository(kind, name))).filter(|path| path.is_dir())
                });
                existing.unwrap_or_else(|| self.hub.join(repository(kind, name)))
            }
            Home::Folder("coco") if self.coco.is_some() => self.coco.clone().unwrap_or_default(),
            Home::Folder(name) => self.data.join(name),
        }
    }

    /// The folder whose files have the names of the repository; nothing where the hub's cache
    /// does not have the revision.
    pub fn snapshot(&self, dataset: &Dataset) -> Option<PathBuf> {
        let folder = self.folder(dataset);
        match dataset.home {
            Home::Hub { revision, .. } if self.only.is_none() => {
                let commit = fs::read_to_string(folder.join("refs").join(revision));
                let commit = commit.ok().map(|text| text.trim().to_owned());
                let commit = commit.filter(|name| is_plain(name));
                let snapshot = folder.join("snapshots").join(commit.as_deref().unwrap_or(revision));
                Some(snapshot).filter(|path| path.is_dir())
            }
            _ => Some(folder),
        }
    }

    /// A file that is there.
    pub fn file(&self, dataset: &Dataset, path: &str) -> Option<PathBuf> {
        Some(self.snapshot(dataset)?.join(path)).filter(|path| path.is_file())
    }

    /// Where a file that has still to come is put together.
    pub fn arriving(&self, dataset: &Dataset, path: &str) -> PathBuf {
        let folder = self.folder(dataset);
        match dataset.home {
            Home::Hub { .. } if self.only.is_none() => {
                folder.join("blobs").join(path.replace('/', "--"))
            }
            _ => folder.join(path),
        }
    }

    /// Moves a file that arrived to its place, and says where that is. `tag` is the hub's name for
    /// its content and `commit` the revision it is of.
    pub(crate) fn settle(
        &self,
        dataset: &Dataset,
        path: &str,
        arrived: &Path,
        content: &Content<'_>,
    ) -> io::Result<PathBuf> {
        let Home::Hub { revision, .. } = dataset.home else { return Ok(arrived.to_owned()) };
        if self.only.is_some() {
            return Ok(arrived.to_owned());
        }
        let folder = self.folder(dataset);
        let tag = content.tag.filter(|tag| is_plain(tag)).unwrap_or(content.sha256);
        let commit = content.commit.filter(|commit| is_plain(commit)).unwrap_or(revision);
        let blob = folder.join("blobs").join(tag);
        fs::rename(arrived, &blob)?;
        let place = folder.join("snapshots").join(commit).join(path);
        let parent = place.parent().unwrap_or(&folder);
        fs::create_dir_all(parent)?;
        // From the file's folder up to the repository's.
        let up = "../".repeat(2 + path.matches('/').count());
        link(&PathBuf::from(format!("{up}blobs/{tag}")), &place)?;
        if commit != revision {
            let refs = folder.join("refs");
            fs::create_dir_all(&refs)?;
            crate::beside::write(&refs.join(revision), commit.as_bytes())?;
        }
        Ok(place)
    }
}

/// What is known of a file that arrived from the hub.
pub(crate) struct Content<'a> {
    pub tag: Option<&'a str>,
    pub commit: Option<&'a str>,
    pub sha256: &'a str,
}

fn link(target: &Path, place: &Path) -> io::Result<()> {
    let fresh = crate::beside::name(place);
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(target, &fresh)?;
    fs::rename(&fresh, place)
}

fn repository(kind: Repository, name: &str) -> String {
    let kind = match kind {
        Repository::Models => "models",
        Repository::Datasets => "datasets",
    };
    format!("{kind}--{}", name.replace('/', "--"))
}

/// Whether a server's word can be the name of a file.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::find;

    fn cache(set: &[(&str, &str)]) -> Option<PathBuf> {
        Places::hub_cache(|name| {
            set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_hubs_cache_is_where_its_own_programs_look() {
        assert_eq!(cache(&[("HOME", "/h")]), Some("/h/.cache/huggingface/hub".into()));
        assert_eq!(
            cache(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]),
            Some("/c/huggingface/hub".into())
        );
        assert_eq!(cache(&[("HF_HOME", "/f"), ("HOME", "/h")]), Some("/f/hub".into()));
        assert_eq!(cache(&[("HF_HUB_CACHE", "/x"), ("HF_HOME", "/f")]), Some("/x".into()));
        assert_eq!(cache(&[]), None);
    }

    fn places(root: &Path) -> Places {
        Places { hub: root.join("hub"), data: root.join("data"), coco: None, only: None }
    }

    #[test]
    fn a_cache_that_the_hubs_programs_filled_is_read() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let llama = find("llama-3.1-8b").unwrap();
        assert_eq!(places.snapshot(llama), None);
        // Under the name it had before, as an older cache has it.
        let repository = root.path().join("hub/models--meta-llama--Meta-Llama-3.1-8B");
        fs::create_dir_all(repository.join("refs")).unwrap();
        fs::create_dir_all(repository.join("snapshots/abc123")).unwrap();
        fs::write(repository.join("refs/main"), "abc123\n").unwrap();
        fs::write(repository.join("snapshots/abc123/config.json"), "{}").unwrap();
        let found = places.file(llama, "config.json").unwrap();
        assert_eq!(found, repository.join("snapshots/abc123/config.json"));
        assert_eq!(places.file(llama, "tokenizer.json"), None);
    }

    #[test]
    fn a_file_is_settled_as_the_hubs_programs_expect_it() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let llama = find("llama-3.1-8b").unwrap();
        let arriving = places.arriving(llama, "sub/config.json");
        fs::create_dir_all(arriving.parent().unwrap()).unwrap();
        fs::write(&arriving, "{}").unwrap();
        let content = Content { tag: Some("e7a6"), commit: Some("abc123"), sha256: "00ff" };
        let place = places.settle(llama, "sub/config.json", &arriving, &content).unwrap();
        let repository = root.path().join("hub/models--meta-llama--Llama-3.1-8B");
        assert_eq!(place, repository.join("snapshots/abc123/sub/config.json"));
        assert_eq!(fs::read_link(&place).unwrap(), Path::new("../../../blobs/e7a6"));
        assert_eq!(fs::read_to_string(&place).unwrap(), "{}");
        assert_eq!(fs::read_to_string(repository.join("refs/main")).unwrap(), "abc123");
        assert_eq!(places.file(llama, "sub/config.json"), Some(place));
    }

    #[test]
    fn a_servers_word_never_leaves_the_folder() {
        for name in ["", "..", "a/b", "../../etc", "a b", "é"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
