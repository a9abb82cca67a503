//! What `cargo xtask setup cluster` brought, and how it is started.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Tried};

/// The folder with Kubernetes' and a node's programs.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// `.cluster` of the checkout, or the folder that holds the program `WARPFORGE_CLUSTER` names.
    pub fn find() -> Result<Self, String> {
        let named = env::var_os("WARPFORGE_CLUSTER").map(PathBuf::from);
        let program = named.unwrap_or_else(|| warpforge_tests::root().join(".cluster/cluster"));
        let folder = program.parent().unwrap_or(Path::new("/")).to_owned();
        let found = Self { folder };
        let parts = ["cluster", "bin/containerd", "bin/runc", "bin/nft", "bin/ip", "cni/loopback"];
        match parts.iter().find(|part| !found.folder.join(part).is_file()) {
            Some(part) => Err(format!("no {part}: run `cargo xtask setup cluster`")),
            None => Ok(found),
        }
    }

    /// All of Kubernetes in one file: the first argument chooses.
    pub fn kubernetes(&self) -> PathBuf {
        self.folder.join("cluster")
    }

    pub fn bin(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// The plugins that give pods their addresses.
    pub fn cni(&self) -> PathBuf {
        self.folder.join("cni")
    }

    /// Where set-up keeps large things: beside these.
    pub fn cache(&self) -> Result<PathBuf, Error> {
        let folder = self.folder.canonicalize().at("could not find", &self.folder)?;
        Ok(folder.parent().unwrap_or(&folder).to_owned())
    }

    /// A command that finds these programs, and their libraries, before the machine's.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("PATH", self.path()).env("LD_LIBRARY_PATH", self.folder.join("lib"));
        command
    }

    fn path(&self) -> OsString {
        let mut path = self.folder.join("bin").into_os_string();
        // Debian's own users have no sbin on their path; a node's programs look there.
        path.push(":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        path
    }
}
