//! The process environment, taken once so that everything after it is a pure function.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::nearest::nearest;
use super::value::PathList;
use super::{KEYS, Problem};

/// Names the settings file; not itself a setting.
pub const CONFIG_VARIABLE: &str = "WARPFORGE_CONFIG";

const PREFIX: &str = "WARPFORGE_";
/// Read by the test harness, not by the command.
const FOREIGN: [&str; 2] = ["WARPFORGE_TEST_SEED", "WARPFORGE_TEST_FULL"];

/// Variables and current folder.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    folder: PathBuf,
}

/// A `WARPFORGE_…` variable that names no setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    pub variable: String,
    pub nearest: Option<&'static str>,
}

impl Environment {
    pub fn of_process() -> Self {
        // A value that is no text can name nothing we could use or show; its replacement
        // characters make the later message about it point at the right variable.
        let variables =
            std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect();
        let folder = std::env::current_dir().unwrap_or_default();
        Self { variables, folder }
    }

    /// A variable's value; an empty one counts as unset.
    pub fn get(&self, name: &str) -> Option<String> {
        self.variables.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// The current folder, against which relative paths are read.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// `$XDG_CACHE_HOME/warpforge`, `~/.cache/warpforge`, or a folder here if there is no home.
    pub fn cache_dir(&self) -> PathBuf {
        let base = self.path("XDG_CACHE_HOME").or_else(|| Some(self.path("HOME")?.join(".cache")));
        base.map_or_else(|| self.folder.join(".warpforge-cache"), |base| base.join("warpforge"))
    }

    /// `$XDG_CONFIG_HOME/warpforge/warpforge.toml`, or the same under `~/.config`.
    pub fn user_file(&self) -> Option<PathBuf> {
        let home = || Some(self.path("HOME")?.join(".config"));
        Some(self.path("XDG_CONFIG_HOME").or_else(home)?.join("warpforge/warpforge.toml"))
    }

    /// `/data/coco` where it exists, as it does on machines made for this.
    #[allow(clippy::unused_self, reason = "a default may look at the environment")]
    pub fn coco(&self) -> Option<PathBuf> {
        Some(PathBuf::from("/data/coco")).filter(|path| path.is_dir())
    }

    /// `~/.kube/config` where it exists; in a pod it does not, and the pod's own account is used.
    pub fn kubeconfig(&self) -> Option<PathList> {
        let path = self.path("HOME")?.join(".kube/config");
        path.is_file().then(|| PathList(vec![path]))
    }

    /// Variables with our prefix that mean nothing to us. No error: Kubernetes puts variables
    /// such as `WARPFORGE_SERVICE_HOST` into every pod beside a service of our name.
    pub fn strays(&self) -> Vec<Stray> {
        let known: Vec<&'static str> = KEYS
            .iter()
            .flat_map(|key| key.variables)
            .copied()
            .filter(|name| name.starts_with(PREFIX))
            .chain([CONFIG_VARIABLE])
            .collect();
        let is_stray = |name: &&String| {
            name.starts_with(PREFIX)
                && !known.contains(&name.as_str())
                && !FOREIGN.contains(&name.as_str())
        };
        let suffixes = || known.iter().map(|name| &name[PREFIX.len()..]);
        self.variables
            .keys()
            .filter(is_stray)
            .map(|name| {
                let close = nearest(&name[PREFIX.len()..], suffixes());
                let nearest = known.iter().copied().find(|k| Some(&k[PREFIX.len()..]) == close);
                Stray { variable: name.clone(), nearest }
            })
            .collect()
    }

    /// The file that `WARPFORGE_CONFIG` names.
    pub fn named_file(&self) -> Option<PathBuf> {
        self.path(CONFIG_VARIABLE).map(|path| self.folder.join(path))
    }
}

fn lossy(text: std::ffi::OsString) -> String {
    text.into_string().unwrap_or_else(|text| text.to_string_lossy().into_owned())
}

impl Problem {
    /// The wording for a file that was named and is not there.
    pub(super) fn unreadable(path: &Path, named_by: &str, reason: &std::io::Error) -> Self {
        Self::plain(format!("cannot read {}: {reason}", path.display()))
            .with_help(format!("{named_by} names this file; correct the path"))
    }
}

#[cfg(test)]
impl Environment {
    pub fn of(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let variables =
            variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Self { variables, folder: folder.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strays_are_found_with_their_nearest_setting() {
        let environment = Environment::of(
            Path::new("/"),
            &[
                ("WARPFORGE_STORE_BUKET", "x"),
                ("WARPFORGE_SERVICE_HOST", "10.0.0.1"),
                ("WARPFORGE_TEST_SEED", "1"),
                ("WARPFORGE_COLOR", "auto"),
                ("OTHER", "x"),
            ],
        );
        let strays = environment.strays();
        let names: Vec<_> = strays.iter().map(|s| (s.variable.as_str(), s.nearest)).collect();
        assert_eq!(
            names,
            [
                ("WARPFORGE_SERVICE_HOST", None),
                ("WARPFORGE_STORE_BUKET", Some("WARPFORGE_STORE_BUCKET")),
            ]
        );
    }

    #[test]
    fn cache_folder_follows_the_xdg_rules() {
        let at =
            |variables: &[(&str, &str)]| Environment::of(Path::new("/here"), variables).cache_dir();
        assert_eq!(at(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]), Path::new("/c/warpforge"));
        assert_eq!(at(&[("XDG_CACHE_HOME", ""), ("HOME", "/h")]), Path::new("/h/.cache/warpforge"));
        assert_eq!(at(&[]), Path::new("/here/.warpforge-cache"));
    }
}
