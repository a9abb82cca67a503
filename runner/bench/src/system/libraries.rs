//! Versions of the libraries that measurements depend on. Some are written in files, some only
//! the loaded library knows.

use std::fs;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Surroundings;
use super::nvml::NvmlFacts;
use crate::{Sysroot, dynlib};

/// Versions of libraries; null for one that is not installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Libraries {
    /// The GNU C library.
    pub glibc: Option<String>,
    /// The NVIDIA driver.
    pub nvidia_driver: Option<String>,
    /// The highest CUDA version that the NVIDIA driver supports.
    pub cuda_driver: Option<String>,
    /// NVIDIA's management library.
    pub nvml: Option<String>,
    /// AMD's compute stack, `ROCm`.
    pub rocm: Option<String>,
    /// UCX, the transport library.
    pub ucx: Option<String>,
    /// rdma-core, which holds libibverbs.
    pub rdma_core: Option<String>,
}

/// What only loaded libraries say.
pub(super) struct Loaded {
    glibc: Option<String>,
    ucx: Option<String>,
}

pub(super) fn load() -> Loaded {
    Loaded { glibc: dynlib::glibc_version(), ucx: dynlib::ucx_version().ok() }
}

impl Libraries {
    pub(super) fn read(root: &Sysroot, surroundings: &Surroundings) -> Self {
        Self {
            glibc: None,
            nvidia_driver: root.text("sys/module/nvidia/version"),
            cuda_driver: None,
            nvml: None,
            rocm: root.text("opt/rocm/.info/version"),
            ucx: None,
            rdma_core: rdma_core(root, surroundings),
        }
    }

    pub(super) fn add_loaded(&mut self, loaded: Loaded) {
        self.glibc = loaded.glibc;
        self.ucx = loaded.ucx;
    }

    pub(super) fn add_nvml(&mut self, nvml: &NvmlFacts) {
        self.nvidia_driver = nvml.driver_version.clone().or(self.nvidia_driver.take());
        self.cuda_driver.clone_from(&nvml.cuda_version);
        self.nvml.clone_from(&nvml.nvml_version);
    }
}

/// libibverbs is installed as `libibverbs.so.1.14.50.0`, where 50.0 is rdma-core's version.
fn rdma_core(root: &Sysroot, surroundings: &Surroundings) -> Option<String> {
    let directories = library_directories(surroundings).into_iter();
    let found = directories.map(|directory| root.path(directory.join("libibverbs.so.1")));
    let file = fs::canonicalize(found.into_iter().find(|path| path.exists())?).ok()?;
    let version = file.file_name()?.to_str()?.strip_prefix("libibverbs.so.")?;
    Some(version.splitn(3, '.').nth(2)?.to_owned())
}

fn library_directories(surroundings: &Surroundings) -> Vec<PathBuf> {
    let chosen = surroundings.variable("LD_LIBRARY_PATH").unwrap_or_default();
    let triplet = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let usual = ["/usr/local/lib", &triplet, "/usr/lib64", "/usr/lib", "/lib64", "/lib"];
    std::env::split_paths(chosen).chain(usual.map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn versions_in_files_and_in_names_of_files() {
        let tree = Tree::new(&[
            ("opt/rocm/.info/version", "6.3.1-48\n"),
            ("sys/module/nvidia/version", "580.82.07\n"),
            ("usr/lib64/libibverbs.so.1.14.50.0", ""),
            ("usr/lib64/libibverbs.so.1", "-> libibverbs.so.1.14.50.0"),
        ]);
        let found = Libraries::read(&tree.root(), &Surroundings::default());
        assert_eq!(found.rocm.as_deref(), Some("6.3.1-48"));
        assert_eq!(found.nvidia_driver.as_deref(), Some("580.82.07"));
        assert_eq!(found.rdma_core.as_deref(), Some("50.0"));
        let nothing = Libraries::read(&Tree::new(&[]).root(), &Surroundings::default());
        assert_eq!((nothing.rdma_core, nothing.rocm), (None, None));
    }
}
