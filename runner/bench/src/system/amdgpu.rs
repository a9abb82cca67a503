//! What the amdgpu driver and its compute half (KFD) publish about an AMD GPU in sysfs.

use super::gpu::{Gpu, GpuClocks};
use super::pci::PciGpu;
use crate::Sysroot;

const NODES: &str = "sys/class/kfd/kfd/topology/nodes";
const NAMES: &[&str] = &["usr/share/libdrm/amdgpu.ids", "opt/amdgpu/share/libdrm/amdgpu.ids"];

pub(super) fn describe(root: &Sysroot, pci: &PciGpu, gpu: &mut Gpu) {
    let number = |file| root.number::<u64>(pci.file(file));
    gpu.accessible = has_render_node(root, pci);
    gpu.name = name(root, pci);
    gpu.uuid = root.text(pci.file("unique_id"));
    gpu.driver_version = root.text("sys/module/amdgpu/version");
    gpu.gfx_target = gfx_target(root, &pci.address);
    gpu.memory_total_bytes = number("mem_info_vram_total");
    gpu.memory_used_bytes = number("mem_info_vram_used");
    gpu.power_limit_watts = power_limit(root, pci);
    gpu.clocks = clocks(root, pci);
}

/// A container sees the whole host in sysfs; only the device node says what it was given.
fn has_render_node(root: &Sysroot, pci: &PciGpu) -> bool {
    let nodes = root.numbered(pci.file("drm"), "renderD");
    nodes.iter().any(|(_, name)| root.exists(format!("dev/dri/{name}")))
}

/// Data-centre boards carry their name; for others libdrm has a table.
pub(crate) fn name(root: &Sysroot, pci: &PciGpu) -> Option<String> {
    let board = root.text(pci.file("product_name"));
    board.or_else(|| {
        let revision = root.hex(pci.file("revision"))?;
        let tables = NAMES.iter().find_map(|table| root.text(table))?;
        name_in(&tables, pci.device_id, revision)
    })
}

/// Looks a board up in libdrm's table of `device, revision, name` lines.
fn name_in(table: &str, device: u32, revision: u32) -> Option<String> {
    let hex = |text: &str| u32::from_str_radix(text.trim(), 16).ok();
    table.lines().find_map(|line| {
        let mut columns = line.splitn(3, ',');
        let (d, r, name) = (columns.next()?, columns.next()?, columns.next()?);
        (hex(d)? == device && hex(r)? == revision).then(|| name.trim().to_owned())
    })
}

fn power_limit(root: &Sysroot, pci: &PciGpu) -> Option<f64> {
    let hwmon = root.names(pci.file("hwmon")).into_iter().next()?;
    let microwatts: f64 = root.number(pci.file(&format!("hwmon/{hwmon}/power1_cap")))?;
    Some(microwatts / 1e6)
}

fn clocks(root: &Sysroot, pci: &PciGpu) -> GpuClocks {
    let states = |file| dpm_states(&root.text(pci.file(file)).unwrap_or_default());
    let (graphics_mhz, max_graphics_mhz) = states("pp_dpm_sclk");
    let (memory_mhz, max_memory_mhz) = states("pp_dpm_mclk");
    GpuClocks { graphics_mhz, memory_mhz, max_graphics_mhz, max_memory_mhz }
}

/// The marked and the highest of lines such as `1: 2100Mhz *`.
fn dpm_states(text: &str) -> (Option<u32>, Option<u32>) {
    let mhz = |line: &str| {
        let value = line.split_whitespace().nth(1)?.to_ascii_lowercase();
        value.strip_suffix("mhz")?.parse().ok()
    };
    let current = text.lines().find(|line| line.trim_end().ends_with('*')).and_then(mhz);
    (current, text.lines().filter_map(mhz).max())
}

fn gfx_target(root: &Sysroot, address: &str) -> Option<String> {
    root.names(NODES).iter().find_map(|node| {
        let text = root.text(format!("{NODES}/{node}/properties"))?;
        let property = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
            line.trim().parse::<u32>().ok()
        };
        let place = (property("domain").unwrap_or(0), property("location_id")?);
        (place == kfd_place(address)?).then(|| gfx_name(property("gfx_target_version")?)).flatten()
    })
}

/// KFD's spelling of a PCI address: the domain, and bus, device and function packed in one number.
fn kfd_place(address: &str) -> Option<(u32, u32)> {
    let hex = |text| u32::from_str_radix(text, 16).ok();
    let (domain, rest) = address.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    Some((hex(domain)?, (hex(bus)? << 8) | (hex(device)? << 3) | hex(function)?))
}

/// `90402` is `gfx942`, `90010` is `gfx90a`: major in decimal, minor and stepping in hex.
fn gfx_name(version: u32) -> Option<String> {
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    (major > 0).then(|| format!("gfx{major}{minor:x}{stepping:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;
    use crate::system::gpu::{GpuVendor, read_all};

    const DEVICE: &str = "sys/bus/pci/devices/0000:c1:00.0";

    fn instinct() -> Tree {
        let tree = Tree::new(&[
            ("sys/module/amdgpu/version", "6.12.12\n"),
            (
                "sys/class/kfd/kfd/topology/nodes/0/properties",
                "cpu_cores_count 96\ngfx_target_version 0\nlocation_id 0\n",
            ),
            (
                "sys/class/kfd/kfd/topology/nodes/1/properties",
                "simd_count 1216\ngfx_target_version 90402\nlocation_id 49408\ndomain 0\n",
            ),
        ]);
        let put = |file: &str, text: &str| tree.put(&format!("{DEVICE}/{file}"), text);
        put("vendor", "0x1002\n");
        put("device", "0x74a1\n");
        put("class", "0x120000\n");
        put("driver", "-> ../../../../bus/pci/drivers/amdgpu");
        put("product_name", "AMD Instinct MI300X OAM\n");
        put("unique_id", "2f0c8d1d2b3a4e5f\n");
        put("mem_info_vram_total", "206141652992\n");
        put("pp_dpm_sclk", "0: 132Mhz *\n1: 2100Mhz\n");
        put("hwmon/hwmon4/power1_cap", "750000000\n");
        put("drm/renderD128/dev", "226:128\n");
        tree
    }

    #[test]
    fn a_data_centre_gpu() {
        let tree = instinct();
        tree.put("dev/dri/renderD128", "");
        let gpus = read_all(&tree.root());
        assert_eq!(gpus.len(), 1);
        let gpu = &gpus[0];
        assert_eq!((gpu.vendor, gpu.accessible, gpu.index), (GpuVendor::Amd, true, Some(0)));
        assert_eq!(gpu.name.as_deref(), Some("AMD Instinct MI300X OAM"));
        assert_eq!(gpu.uuid.as_deref(), Some("2f0c8d1d2b3a4e5f"));
        assert_eq!(gpu.pci_id.as_deref(), Some("1002:74a1"));
        assert_eq!(gpu.driver.as_deref(), Some("amdgpu"));
        assert_eq!(gpu.driver_version.as_deref(), Some("6.12.12"));
        assert_eq!(gpu.gfx_target.as_deref(), Some("gfx942"));
        assert_eq!(gpu.memory_total_bytes, Some(206_141_652_992));
        assert_eq!(gpu.power_limit_watts, Some(750.0));
        assert_eq!(gpu.clocks.graphics_mhz, Some(132));
        assert_eq!(gpu.clocks.max_graphics_mhz, Some(2100));
    }

    #[test]
    fn a_gpu_whose_render_node_was_not_passed_in_is_not_accessible() {
        assert!(!read_all(&instinct().root())[0].accessible);
    }

    #[test]
    fn names_from_libdrm() {
        let table = "# comment\n1.0.0\n73BF,\tC0,\tAMD Radeon RX 6900 XT\n73BF,\tC1,\tAMD Radeon RX 6800 XT\n";
        assert_eq!(name_in(table, 0x73bf, 0xc1).as_deref(), Some("AMD Radeon RX 6800 XT"));
        assert_eq!(name_in(table, 0x73bf, 0x00), None);
    }

    #[test]
    fn gfx_names() {
        let table =
            [(90_402, "gfx942"), (90_010, "gfx90a"), (110_000, "gfx1100"), (120_001, "gfx1201")];
        for (version, name) in table {
            assert_eq!(gfx_name(version).as_deref(), Some(name));
        }
        assert_eq!(gfx_name(0), None);
        assert_eq!(kfd_place("0001:c1:02.3"), Some((1, 0xc113)));
    }
}
