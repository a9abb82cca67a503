//! GPUs as the PCI bus shows them, which needs no driver: this is how a GPU whose driver is
//! missing is told from a machine without one.

use super::gpu::{GpuVendor, PcieLink};
use crate::Sysroot;

const DEVICES: &str = "sys/bus/pci/devices";

/// One PCI function that is a GPU.
#[derive(Debug)]
pub(crate) struct PciGpu {
    /// Address such as `0000:01:00.0`, which is also its directory's name.
    pub address: String,
    pub vendor: GpuVendor,
    pub device_id: u32,
    pub driver: Option<String>,
    pub numa_node: Option<u32>,
    pub link: Option<PcieLink>,
}

impl PciGpu {
    pub(crate) fn read_all(root: &Sysroot, vendor: Option<GpuVendor>) -> Vec<Self> {
        let gpus = root.names(DEVICES).into_iter().filter_map(|address| Self::read(root, address));
        gpus.filter(|gpu| vendor.is_none_or(|vendor| vendor == gpu.vendor)).collect()
    }

    fn read(root: &Sysroot, address: String) -> Option<Self> {
        let directory = format!("{DEVICES}/{address}");
        let vendor = match root.hex(format!("{directory}/vendor"))? {
            0x10de => GpuVendor::Nvidia,
            0x1002 => GpuVendor::Amd,
            _ => return None,
        };
        is_gpu_class(root.hex(format!("{directory}/class"))?).then(|| Self {
            vendor,
            device_id: root.hex(format!("{directory}/device")).unwrap_or(0),
            driver: root.link_name(format!("{directory}/driver")),
            numa_node: root.number(format!("{directory}/numa_node")),
            link: link(root, &directory),
            address,
        })
    }

    /// A file of the device's directory.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{DEVICES}/{}/{name}", self.address)
    }
}

/// Display controllers, and the processing accelerators that data-centre AMD GPUs are.
fn is_gpu_class(class: u32) -> bool {
    matches!(class >> 8, 0x0300 | 0x0302 | 0x0380 | 0x1200)
}

fn link(root: &Sysroot, directory: &str) -> Option<PcieLink> {
    let speed = |file: &str| {
        let text = root.text(format!("{directory}/{file}"))?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    Some(PcieLink {
        speed_gt_per_s: speed("current_link_speed")?,
        width: root.number(format!("{directory}/current_link_width"))?,
        max_speed_gt_per_s: speed("max_link_speed"),
        max_width: root.number(format!("{directory}/max_link_width")),
    })
}
