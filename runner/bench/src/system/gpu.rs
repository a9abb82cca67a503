//! GPUs of both vendors in one shape: found on the PCI bus, then described by NVML (NVIDIA) or by
//! the amdgpu driver's files (AMD).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amdgpu;
use super::pci::PciGpu;
use crate::Sysroot;

/// One GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// Maker of the GPU.
    pub vendor: GpuVendor,
    /// Whether this process can reach it: NVML lists it, or its render node is in `/dev/dri`.
    /// False for one that is only seen on the PCI bus (no driver, or not given to the container).
    pub accessible: bool,
    /// Number that the vendor's tools give it.
    pub index: Option<u32>,
    /// Product name.
    pub name: Option<String>,
    /// Identifier that stays the same across reboots.
    pub uuid: Option<String>,
    /// PCI address, such as `0000:01:00.0`.
    pub pci_address: Option<String>,
    /// PCI vendor and device, such as `10de:2335`.
    pub pci_id: Option<String>,
    /// Kernel driver that holds it, such as `nvidia`, `amdgpu` or `vfio-pci`; null for none.
    pub driver: Option<String>,
    /// Version of that driver; null for one that comes with the kernel.
    pub driver_version: Option<String>,
    /// CUDA compute capability, such as `9.0`.
    pub compute_capability: Option<String>,
    /// AMD instruction-set target, such as `gfx942`.
    pub gfx_target: Option<String>,
    /// Device memory.
    pub memory_total_bytes: Option<u64>,
    /// Device memory in use.
    pub memory_used_bytes: Option<u64>,
    /// Power that the GPU may draw.
    pub power_limit_watts: Option<f64>,
    /// Whether memory errors are corrected.
    pub ecc_enabled: Option<bool>,
    /// Whether the GPU is split into instances (MIG).
    pub mig_enabled: Option<bool>,
    /// Clocks now and at most.
    pub clocks: GpuClocks,
    /// The link to the host.
    pub pcie: Option<PcieLink>,
    /// NUMA node it is attached to.
    pub numa_node: Option<u32>,
}

/// Maker of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GpuVendor {
    Nvidia,
    Amd,
}

/// Clocks of a GPU at this moment (idle GPUs run slowly) and at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuClocks {
    /// Clock of the shader cores.
    pub graphics_mhz: Option<u32>,
    /// Clock of the device memory.
    pub memory_mhz: Option<u32>,
    /// Highest clock of the shader cores.
    pub max_graphics_mhz: Option<u32>,
    /// Highest clock of the device memory.
    pub max_memory_mhz: Option<u32>,
}

/// A PCI Express link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PcieLink {
    /// Speed of one lane now; idle GPUs lower it.
    pub speed_gt_per_s: f64,
    /// Number of lanes in use.
    pub width: u32,
    /// Highest speed of one lane that the device supports.
    pub max_speed_gt_per_s: Option<f64>,
    /// Highest number of lanes that the device supports.
    pub max_width: Option<u32>,
}

impl Gpu {
    pub(super) fn new(vendor: GpuVendor) -> Self {
        Self {
            vendor,
            accessible: false,
            index: None,
            name: None,
            uuid: None,
            pci_address: None,
            pci_id: None,
            driver: None,
            driver_version: None,
            compute_capability: None,
            gfx_target: None,
            memory_total_bytes: None,
            memory_used_bytes: None,
            power_limit_watts: None,
            ecc_enabled: None,
            mig_enabled: None,
            clocks: GpuClocks::default(),
            pcie: None,
            numa_node: None,
        }
    }

    fn on_bus(pci: &PciGpu) -> Self {
        let vendor_id = match pci.vendor {
            GpuVendor::Nvidia => "10de",
            GpuVendor::Amd => "1002",
        };
        Self {
            pci_address: Some(pci.address.clone()),
            pci_id: Some(format!("{vendor_id}:{:04x}", pci.device_id)),
            driver: pci.driver.clone(),
            pcie: pci.link.clone(),
            numa_node: pci.numa_node,
            ..Self::new(pci.vendor)
        }
    }

    /// Adds what only the bus knows to what the driver's library said.
    fn fill_from_bus(&mut self, bus: Self) {
        self.pci_id = bus.pci_id.or(self.pci_id.take());
        self.driver = bus.driver.or(self.driver.take());
        self.pcie = bus.pcie;
        self.numa_node = bus.numa_node;
    }
}

pub(super) fn read_all(root: &Sysroot) -> Vec<Gpu> {
    let mut amd_count = 0;
    let mut read = |pci: &PciGpu| {
        let mut gpu = Gpu::on_bus(pci);
        if pci.vendor == GpuVendor::Amd {
            gpu.index = Some(amd_count);
            amd_count += 1;
            amdgpu::describe(root, pci, &mut gpu);
        }
        gpu
    };
    PciGpu::read_all(root, None).iter().map(&mut read).collect()
}

/// Puts NVML's descriptions in the place of those that the bus alone gave. GPUs that are not on
/// the bus (it can be hidden by a sandbox) are added.
pub(super) fn merge(gpus: &mut Vec<Gpu>, described: Vec<Gpu>) {
    for mut gpu in described {
        match gpus.iter().position(|g| g.pci_address == gpu.pci_address) {
            Some(place) => {
                gpu.fill_from_bus(gpus[place].clone());
                gpus[place] = gpu;
            }
            None => gpus.push(gpu),
        }
    }
    gpus.sort_by(|a, b| a.pci_address.cmp(&b.pci_address));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    const BUS: &str = "sys/bus/pci/devices";

    fn nvidia_tree() -> Tree {
        let tree = Tree::new(&[]);
        let put = |file: &str, text: &str| tree.put(&format!("{BUS}/0000:01:00.0/{file}"), text);
        put("vendor", "0x10de\n");
        put("device", "0x2335\n");
        put("class", "0x030200\n");
        put("numa_node", "-1\n");
        put("current_link_speed", "32.0 GT/s PCIe\n");
        put("current_link_width", "16\n");
        // Its audio function and a network card are no GPUs.
        tree.put(&format!("{BUS}/0000:01:00.1/vendor"), "0x10de\n");
        tree.put(&format!("{BUS}/0000:01:00.1/class"), "0x040300\n");
        tree.put(&format!("{BUS}/0000:02:00.0/vendor"), "0x15b3\n");
        tree.put(&format!("{BUS}/0000:02:00.0/class"), "0x020000\n");
        tree
    }

    #[test]
    fn a_gpu_without_a_driver_is_seen_on_the_bus() {
        let gpus = read_all(&nvidia_tree().root());
        assert_eq!(gpus.len(), 1);
        let gpu = &gpus[0];
        assert_eq!((gpu.vendor, gpu.accessible), (GpuVendor::Nvidia, false));
        assert_eq!(gpu.pci_address.as_deref(), Some("0000:01:00.0"));
        assert_eq!(gpu.pci_id.as_deref(), Some("10de:2335"));
        assert_eq!((&gpu.driver, gpu.numa_node), (&None, None));
        let link = gpu.pcie.as_ref().expect("a link");
        assert_eq!((link.speed_gt_per_s, link.width, link.max_width), (32.0, 16, None));
    }

    #[test]
    fn what_nvml_says_is_joined_by_address() {
        let tree = nvidia_tree();
        tree.put(&format!("{BUS}/0000:01:00.0/driver"), "-> ../../../bus/pci/drivers/nvidia");
        let mut gpus = read_all(&tree.root());
        let nvml = |address: &str| Gpu {
            accessible: true,
            pci_address: Some(address.into()),
            name: Some("NVIDIA H200".into()),
            ..Gpu::new(GpuVendor::Nvidia)
        };
        merge(&mut gpus, vec![nvml("0000:05:00.0"), nvml("0000:01:00.0")]);
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].driver.as_deref(), Some("nvidia"));
        assert_eq!(gpus[0].pci_id.as_deref(), Some("10de:2335"));
        assert_eq!(gpus[0].name.as_deref(), Some("NVIDIA H200"));
        assert_eq!(gpus[1].pci_address.as_deref(), Some("0000:05:00.0"));
    }
}
