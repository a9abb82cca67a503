//! Where libtorch is.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::LIBTORCH_VERSION;

const LIBRARY: &str = "lib/libtorch_cpu.so";

/// Where to look, in this order; the first place that is set or has one decides.
#[derive(Clone, Debug)]
pub struct Search {
    /// Named by the user, who wants this one or none.
    pub named: Option<PathBuf>,
    /// Where set-up puts things.
    pub cache: Option<PathBuf>,
    /// A folder; it and those above it may link to libtorch as `.libtorch`.
    pub folder: PathBuf,
    /// The Python to ask for its torch.
    pub python: PathBuf,
    /// How long it may take to answer.
    pub limit: Duration,
}

impl Search {
    /// What the environment says: `LIBTORCH`, the set-up's cache, the current folder, `python3`.
    pub fn from_environment() -> Self {
        let path = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let cache = path("WARPFORGE_CACHE_DIR")
            .or_else(|| path("XDG_CACHE_HOME").map(|dir| dir.join("warpforge")))
            .or_else(|| path("HOME").map(|dir| dir.join(".cache/warpforge")));
        Self {
            named: path("LIBTORCH"),
            cache,
            folder: std::env::current_dir().unwrap_or_default(),
            python: "python3".into(),
            limit: Duration::from_secs(10),
        }
    }

    pub fn find(&self) -> Result<Libtorch, Unavailable> {
        if let Some(folder) = &self.named {
            return Libtorch::at(folder).ok_or_else(|| Unavailable {
                looked: format!("{} holds no {LIBRARY}", folder.display()),
            });
        }
        let installed = format!("libtorch-{LIBTORCH_VERSION}/torch");
        let cached = self.cache.iter().map(|cache| cache.join(&installed));
        let linked = self.folder.ancestors().map(|folder| folder.join(".libtorch/torch"));
        let found = cached.chain(linked).find_map(|folder| Libtorch::at(&folder));
        found.map_or_else(|| self.ask_python(), Ok)
    }

    fn ask_python(&self) -> Result<Libtorch, Unavailable> {
        let python = match installed_torch(&self.python, self.limit) {
            Torch::Installed { version, folder } if version == LIBTORCH_VERSION => {
                match Libtorch::at(&folder) {
                    Some(libtorch) => return Ok(libtorch),
                    None => format!("Python's torch in {} has no {LIBRARY}", folder.display()),
                }
            }
            Torch::Installed { version, .. } => {
                format!("Python's torch is {version} instead of {LIBTORCH_VERSION}")
            }
            Torch::Absent => "Python has no torch".to_owned(),
            Torch::NoPython => "there is no python3".to_owned(),
            Torch::Silent => "python3 did not answer".to_owned(),
        };
        let cache = self.cache.as_ref().map_or_else(
            || "there is no cache folder".to_owned(),
            |cache| format!("not in {}", cache.display()),
        );
        Err(Unavailable { looked: format!("{cache}, not linked as .libtorch, and {python}") })
    }
}

/// There is no libtorch to run with: a reason to skip the golden pass, not a failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("golden needs libtorch (cargo xtask setup golden): {looked}")]
pub struct Unavailable {
    /// What was looked at, and why it was not taken.
    pub looked: String,
}

/// A folder that holds libtorch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Libtorch {
    /// The folder called `torch`, with `lib` inside.
    pub folder: PathBuf,
}

impl Libtorch {
    /// The libtorch in a folder, if one is there.
    pub fn at(folder: &Path) -> Option<Self> {
        // Anything but a folder: whether it is a library is for the loader to say.
        let library = folder.join(LIBRARY);
        let there = library.exists() && !library.is_dir();
        there.then(|| Self { folder: folder.to_owned() })
    }

    /// What `LD_LIBRARY_PATH` must begin with for the child: libtorch's own folder, and those
    /// of NVIDIA's wheels beside it, for libraries that are opened by name at run time.
    pub fn library_path(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.folder.join("lib")];
        let wheels = self.folder.parent().map(|packages| packages.join("nvidia"));
        let wheels = wheels.and_then(|nvidia| fs::read_dir(nvidia).ok()).into_iter().flatten();
        let mut wheels: Vec<_> = wheels
            .filter_map(|wheel| Some(wheel.ok()?.path().join("lib")))
            .filter(|lib| lib.is_dir())
            .collect();
        wheels.sort();
        folders.extend(wheels);
        folders
    }
}

impl fmt::Display for Libtorch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.folder.display().fmt(f)
    }
}

/// What Python says about its torch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Torch {
    Installed { version: String, folder: PathBuf },
    Absent,
    NoPython,
    Silent,
}

/// Asks Python where torch is without importing it, which would take seconds.
pub fn installed_torch(python: &Path, limit: Duration) -> Torch {
    const SCRIPT: &str = "import importlib.metadata as m, importlib.util as u\n\
        print(m.version('torch').split('+')[0])\n\
        print(list(u.find_spec('torch').submodule_search_locations)[0])";
    let mut command = Command::new(python);
    command.args(["-I", "-c", SCRIPT]).stdin(Stdio::null()).stderr(Stdio::null());
    match output_within(&mut command, limit) {
        Ok(Some(text)) => match text.lines().collect::<Vec<_>>()[..] {
            [version, folder] => {
                Torch::Installed { version: version.into(), folder: folder.into() }
            }
            _ => Torch::Absent,
        },
        Ok(None) => Torch::Silent,
        Err(_) => Torch::NoPython,
    }
}

/// Standard output of a command that writes a few lines; `None` if it takes longer than `limit`.
fn output_within(command: &mut Command, limit: Duration) -> std::io::Result<Option<String>> {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    while child.try_wait()?.is_none() {
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(Some(String::from_utf8_lossy(&child.wait_with_output()?.stdout).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    fn search(root: &Path) -> Search {
        Search {
            named: None,
            cache: Some(root.join("cache")),
            folder: root.join("project/sub"),
            python: root.join("python3"),
            limit: Duration::from_secs(5),
        }
    }

    /// One test at a time: a Python that another test starts may hold this test's script open
    /// for writing at the moment it is to be run.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_libtorch(folder: &Path) {
        fs::create_dir_all(folder.join("lib")).unwrap();
        fs::write(folder.join(LIBRARY), "").unwrap();
    }

    fn put_python(root: &Path, script: &str) {
        let python = root.join("python3");
        fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn nothing_anywhere_names_the_cure_and_the_places() {
        let root = tempfile::tempdir().unwrap();
        let missing = search(root.path()).find().unwrap_err().to_string();
        let place = root.path().display().to_string();
        assert_eq!(
            missing.replace(&place, "ROOT"),
            "golden needs libtorch (cargo xtask setup golden): not in ROOT/cache, \
             not linked as .libtorch, and there is no python3"
        );
    }

    #[test]
    fn each_place_is_found_and_an_earlier_one_wins() {
        let _alone = alone();
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let packages = root.join("site-packages");
        put_libtorch(&packages.join("torch"));
        fs::create_dir_all(packages.join("nvidia/cudnn/lib")).unwrap();
        put_python(root, &format!("echo {LIBTORCH_VERSION}; echo {}/torch", packages.display()));
        let found = search(root).find().unwrap();
        assert_eq!(found.folder, packages.join("torch"));
        let path = [packages.join("torch/lib"), packages.join("nvidia/cudnn/lib")];
        assert_eq!(found.library_path(), path);

        let linked = root.join("project/.libtorch/torch");
        put_libtorch(&linked);
        assert_eq!(search(root).find().unwrap().folder, linked);

        let cached = root.join(format!("cache/libtorch-{LIBTORCH_VERSION}/torch"));
        put_libtorch(&cached);
        assert_eq!(search(root).find().unwrap().folder, cached);

        let named = Search { named: Some(root.join("mine")), ..search(root) };
        let none = named.find().unwrap_err().to_string();
        assert!(none.ends_with("mine holds no lib/libtorch_cpu.so"), "{none}");
        put_libtorch(&root.join("mine"));
        assert_eq!(named.find().unwrap().folder, root.join("mine"));
    }

    #[test]
    fn another_version_of_torch_is_not_taken() {
        let _alone = alone();
        let root = tempfile::tempdir().unwrap();
        put_python(root.path(), "echo 2.9.1; echo /nowhere");
        let missing = search(root.path()).find().unwrap_err().to_string();
        assert!(missing.ends_with("Python's torch is 2.9.1 instead of 2.11.0"), "{missing}");
    }

    #[test]
    fn a_python_without_torch_or_without_an_end() {
        let _alone = alone();
        let root = tempfile::tempdir().unwrap();
        put_python(root.path(), "exit 1");
        assert!(search(root.path()).find().unwrap_err().looked.ends_with("Python has no torch"));
        put_python(root.path(), "exec sleep 60");
        let hasty = Search { limit: Duration::from_millis(50), ..search(root.path()) };
        assert!(hasty.find().unwrap_err().looked.ends_with("python3 did not answer"));
    }
}
