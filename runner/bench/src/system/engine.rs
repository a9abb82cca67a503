//! Container engines on `PATH` and their versions.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Surroundings;
use crate::{Sysroot, limit};

const ENGINES: &[&str] = &["docker", "podman", "containerd", "nerdctl"];
const LIMIT: Duration = Duration::from_secs(1);

/// A container engine's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Engine {
    /// Name of the program.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Version that it states; null if it did not within a second.
    pub version: Option<String>,
}

impl Engine {
    pub(super) fn find_all(root: &Sysroot, surroundings: &Surroundings) -> Vec<Self> {
        let path = surroundings.variable("PATH").unwrap_or_default();
        let directories: Vec<PathBuf> = std::env::split_paths(path).collect();
        let find = |name: &&str| {
            let path = directories.iter().map(|d| d.join(name)).find(|p| root.path(p).is_file())?;
            Some(Self { name: (*name).to_owned(), path, version: None })
        };
        ENGINES.iter().filter_map(find).collect()
    }
}

/// Asks all engines at once; asking a client for its own version needs no daemon.
pub(super) fn ask_versions(engines: &mut [Engine]) {
    thread::scope(|scope| {
        for engine in engines {
            scope.spawn(|| {
                let text = limit::output(&engine.path, &["--version"], LIMIT);
                engine.version = text.as_deref().and_then(version);
            });
        }
    });
}

/// The first word that looks like a version.
fn version(text: &str) -> Option<String> {
    let words = text.split_whitespace().map(|word| {
        let word = word.trim_end_matches(',');
        word.strip_prefix('v').unwrap_or(word)
    });
    let is_version =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    words.into_iter().find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn versions() {
        let table = [
            ("Docker version 28.2.2, build e6534b4\n", Some("28.2.2")),
            ("podman version 4.3.1", Some("4.3.1")),
            ("containerd github.com/containerd/containerd v1.7.24 88bf19b", Some("1.7.24")),
            ("nerdctl version 2.0.0", Some("2.0.0")),
            ("error", None),
        ];
        for (text, wanted) in table {
            assert_eq!(version(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn the_first_on_path_is_found() {
        let tree =
            Tree::new(&[("opt/b/podman", ""), ("usr/bin/podman", ""), ("usr/bin/docker", "")]);
        let environment = [("PATH".into(), "/nowhere:/opt/b:/usr/bin".into())].into();
        let surroundings = Surroundings { environment, ..Surroundings::default() };
        let found = Engine::find_all(&tree.root(), &surroundings);
        let engine =
            |name: &str, path: &str| Engine { name: name.into(), path: path.into(), version: None };
        assert_eq!(found, [engine("docker", "/usr/bin/docker"), engine("podman", "/opt/b/podman")]);
    }
}
