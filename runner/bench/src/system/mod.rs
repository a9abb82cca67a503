//! A snapshot of the machine: what a reader of a benchmark needs in order to know what it ran
//! on, and what a rerun must match. Reading never fails; what cannot be read is absent (`null` or
//! an empty list), and no credential is ever read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Sysroot, limit};

pub(crate) mod amdgpu;
mod cgroup;
mod container;
mod cpu;
mod cpuinfo;
mod engine;
mod gpu;
mod host;
mod kubernetes;
mod libraries;
mod memory;
mod mounts;
mod netlink;
mod network;
pub(crate) mod nvml;
pub(crate) mod pci;
pub(crate) mod rdma;
mod storage;

pub use cgroup::{Cgroup, CgroupVersion};
pub(crate) use cgroup::{MemoryGroup, memory_group};
pub use container::{Container, Runtime};
pub use cpu::{Cache, CacheType, Cpu};
pub use engine::Engine;
pub use gpu::{Gpu, GpuClocks, GpuVendor, PcieLink};
pub use host::{Host, Kernel};
pub use kubernetes::Kubernetes;
pub use libraries::Libraries;
pub(crate) use memory::field as meminfo_field;
pub use memory::{Memory, NumaNode};
pub use network::Interface;
pub use rdma::{RdmaDevice, RdmaPort};
pub use storage::{Disk, Filesystem};

/// NVML wakes GPUs that have gone to sleep, which takes seconds on a machine with many.
const NVML_LIMIT: Duration = Duration::from_secs(5);
const LIBRARIES_LIMIT: Duration = Duration::from_secs(2);
const FILESYSTEM_LIMIT: Duration = Duration::from_secs(1);

/// Everything known about the machine at one moment. What could not be read is null or empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct System {
    /// The machine's name, its kernel and its operating system.
    pub host: Host,
    /// The processors.
    pub cpu: Cpu,
    /// Main memory, swap and huge pages.
    pub memory: Memory,
    /// NUMA nodes in order of their number.
    pub numa_nodes: Vec<NumaNode>,
    /// NVIDIA and AMD GPUs in order of their PCI address.
    pub gpus: Vec<Gpu>,
    /// Network interfaces in order of their name.
    pub network_interfaces: Vec<Interface>,
    /// InfiniBand and RoCE devices in order of their name.
    pub rdma_devices: Vec<RdmaDevice>,
    /// Disks in order of their name, without loop devices and other purely virtual ones.
    pub disks: Vec<Disk>,
    /// The filesystem that holds the current directory.
    pub filesystem: Option<Filesystem>,
    /// The container this process runs in.
    pub container: Container,
    /// The control group this process is held to.
    pub cgroup: Cgroup,
    /// The Kubernetes pod this process runs in; null outside a cluster.
    pub kubernetes: Option<Kubernetes>,
    /// Container engines found on `PATH`.
    pub container_engines: Vec<Engine>,
    /// Versions of the libraries that measurements depend on.
    pub libraries: Libraries,
}

/// What a snapshot takes from the process rather than from files.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub environment: BTreeMap<OsString, OsString>,
    pub current_directory: Option<PathBuf>,
}

impl Surroundings {
    pub fn of_this_process() -> Self {
        Self {
            environment: std::env::vars_os().collect(),
            current_directory: std::env::current_dir().ok(),
        }
    }

    /// A variable that is set, is text, and is not empty.
    fn variable(&self, name: &str) -> Option<&str> {
        let value = self.environment.get(&OsString::from(name))?.to_str()?;
        (!value.is_empty()).then_some(value)
    }
}

impl System {
    /// What the files below `root` say. Starts no program and loads no library.
    pub fn read(root: &Sysroot, surroundings: &Surroundings) -> Self {
        let mounts = mounts::read(root);
        Self {
            host: Host::read(root),
            cpu: Cpu::read(root),
            memory: Memory::read(root),
            numa_nodes: NumaNode::read_all(root),
            gpus: gpu::read_all(root),
            network_interfaces: Interface::read_all(root),
            rdma_devices: RdmaDevice::read_all(root),
            disks: Disk::read_all(root),
            filesystem: Filesystem::of(&mounts, surroundings.current_directory.as_deref()),
            container: Container::read(root, surroundings, &mounts),
            cgroup: Cgroup::read(root, &mounts),
            kubernetes: Kubernetes::read(root, surroundings),
            container_engines: Engine::find_all(root, surroundings),
            libraries: Libraries::read(root, surroundings),
        }
    }
}

impl System {
    /// Machines of one class are expected to be equally fast: processor and number of CPUs this
    /// process may use, and the GPUs.
    pub fn hardware_class(&self) -> String {
        let cpu = self.cpu.model.as_deref().unwrap_or(std::env::consts::ARCH);
        let cpu = cpu.split_whitespace().collect::<Vec<_>>().join(" ");
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut class = format!("{cpu}, {cores} CPUs");
        for gpu in &self.gpus {
            class.push_str(", ");
            class.push_str(gpu.name.as_deref().unwrap_or("GPU"));
        }
        class
    }
}

/// Takes the snapshot of the machine this process runs on. Never fails: what cannot be read, or
/// does not answer in time, is absent.
pub fn snapshot() -> System {
    let surroundings = Surroundings::of_this_process();
    let nvml = limit::start(nvml::read);
    let loaded = limit::start(libraries::load);
    let directory = surroundings.current_directory.clone();
    let space = limit::start(move || storage::space(&directory?));

    let mut system = System::read(&Sysroot::host(), &surroundings);
    engine::ask_versions(&mut system.container_engines);
    network::attach(&mut system.network_interfaces, &netlink::addresses());
    if let (Some(filesystem), Some(Some(space))) =
        (&mut system.filesystem, space.within(FILESYSTEM_LIMIT))
    {
        filesystem.set_space(&space);
    }
    if let Some(loaded) = loaded.within(LIBRARIES_LIMIT) {
        system.libraries.add_loaded(loaded);
    }
    if let Some(Ok(nvml)) = nvml.within(NVML_LIMIT) {
        system.libraries.add_nvml(&nvml);
        gpu::merge(&mut system.gpus, nvml.gpus);
    }
    system
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn an_empty_tree_gives_an_empty_snapshot_and_no_failure() {
        let system = System::read(&Tree::new(&[]).root(), &Surroundings::default());
        assert_eq!(system.cpu.logical_cpus, None);
        assert_eq!(system.memory.total_bytes, None);
        assert!(system.gpus.is_empty() && system.disks.is_empty());
        assert!(system.rdma_devices.is_empty() && system.network_interfaces.is_empty());
        assert_eq!(system.container.runtime, Runtime::None);
        assert_eq!(system.kubernetes, None);
    }

    #[test]
    fn only_text_that_says_something_is_a_variable() {
        let set = [("A", "x"), ("B", "")].map(|(k, v)| (k.into(), v.into()));
        let surroundings =
            Surroundings { environment: BTreeMap::from(set), ..Surroundings::default() };
        assert_eq!(surroundings.variable("A"), Some("x"));
        assert_eq!(surroundings.variable("B"), None);
        assert_eq!(surroundings.variable("C"), None);
    }
}
