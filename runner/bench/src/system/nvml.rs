//! NVIDIA GPUs through NVML, the driver's own management library, loaded at run time.

use std::ffi::OsStr;

use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::PciInfo;
use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};

use super::gpu::{Gpu, GpuClocks, GpuVendor};

/// What NVML says.
pub(crate) struct NvmlFacts {
    pub driver_version: Option<String>,
    pub nvml_version: Option<String>,
    /// CUDA version that the driver supports.
    pub cuda_version: Option<String>,
    pub gpus: Vec<Gpu>,
}

pub(crate) fn read() -> Result<NvmlFacts, NvmlError> {
    // Containers are given the versioned name only.
    let nvml = Nvml::builder().lib_path(OsStr::new("libnvidia-ml.so.1")).init()?;
    let driver_version = nvml.sys_driver_version().ok();
    let count = nvml.device_count()?;
    let gpus = (0..count)
        .filter_map(|index| nvml.device_by_index(index).ok())
        .map(|device| describe(&device, driver_version.clone()))
        .collect();
    Ok(NvmlFacts {
        nvml_version: nvml.sys_nvml_version().ok(),
        cuda_version: nvml.sys_cuda_driver_version().ok().map(cuda_version),
        driver_version,
        gpus,
    })
}

/// `13000` is 13.0.
pub(crate) fn cuda_version(version: i32) -> String {
    format!("{}.{}", cuda_driver_version_major(version), cuda_driver_version_minor(version))
}

fn describe(device: &Device, driver_version: Option<String>) -> Gpu {
    let memory = device.memory_info().ok();
    let pci = device.pci_info().ok();
    Gpu {
        accessible: true,
        index: device.index().ok(),
        name: device.name().ok(),
        uuid: device.uuid().ok(),
        pci_address: pci.as_ref().map(address),
        pci_id: pci.as_ref().map(|pci| pci_id(pci.pci_device_id)),
        driver: Some("nvidia".into()),
        driver_version,
        compute_capability: device
            .cuda_compute_capability()
            .ok()
            .map(|cc| format!("{}.{}", cc.major, cc.minor)),
        memory_total_bytes: memory.as_ref().map(|memory| memory.total),
        memory_used_bytes: memory.as_ref().map(|memory| memory.used),
        power_limit_watts: device
            .enforced_power_limit()
            .ok()
            .map(|milliwatts| milliwatts as f64 / 1e3),
        ecc_enabled: device.is_ecc_enabled().ok().map(|ecc| ecc.currently_enabled),
        mig_enabled: device.mig_mode().ok().map(|mode| mode.current != 0),
        clocks: clocks(device),
        ..Gpu::new(GpuVendor::Nvidia)
    }
}

fn clocks(device: &Device) -> GpuClocks {
    GpuClocks {
        graphics_mhz: device.clock_info(Clock::Graphics).ok(),
        memory_mhz: device.clock_info(Clock::Memory).ok(),
        max_graphics_mhz: device.max_clock_info(Clock::Graphics).ok(),
        max_memory_mhz: device.max_clock_info(Clock::Memory).ok(),
    }
}

/// sysfs spells the domain with four digits, NVML's own string with eight.
fn address(pci: &PciInfo) -> String {
    format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device)
}

/// NVML packs the device above the vendor.
fn pci_id(packed: u32) -> String {
    format!("{:04x}:{:04x}", packed & 0xffff, packed >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        assert_eq!(cuda_version(13_000), "13.0");
        assert_eq!(cuda_version(12_080), "12.8");
        assert_eq!(pci_id(0x2335_10de), "10de:2335");
        let pci = PciInfo {
            bus: 0x4f,
            bus_id: "00000000:4F:00.0".into(),
            device: 0,
            domain: 0,
            pci_device_id: 0,
            pci_sub_system_id: None,
        };
        assert_eq!(address(&pci), "0000:4f:00.0");
    }
}
