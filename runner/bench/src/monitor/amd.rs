//! AMD GPUs, read from what the amdgpu driver publishes in sysfs.

use super::gpu::{Reasons, Sensor};
use super::kept::{Buffer, Kept};
use super::record::{GpuUsage, percent};
use crate::Sysroot;
use crate::system::pci::PciGpu;
use crate::system::{GpuVendor, amdgpu};

/// Temperatures by the label of their sensor: the hottest place of the chip before its edge.
const PLACES: &[&str] = &["junction", "edge"];

/// Bits of the throttle status that all chips share, from and to, and what they are about.
const BITS: &[(u32, u32, &str)] = &[
    (0, 7, "power_limit"),
    (16, 23, "current_limit"),
    (32, 45, "thermal_limit"),
    (46, 47, "prochot"),
    (56, 57, "reliability_limit"),
];
/// Where that status is in version 1.3 of the metrics.
const STATUS: usize = 112;

/// Counts of time spent throttled, in their order from version 1.6 on.
const COUNTS: &[&str] =
    &["prochot", "power_limit", "thermal_limit", "thermal_limit", "thermal_limit"];

/// One GPU's files.
pub(super) struct Gpu {
    index: u32,
    model: Option<String>,
    guid: Option<String>,
    busy: Option<Kept>,
    memory_used: Option<Kept>,
    memory_total: Option<Kept>,
    power: Option<Kept>,
    temperature: Option<Kept>,
    clock: Option<Kept>,
    memory_clock: Option<Kept>,
    metrics: Option<Kept>,
    counts: Option<[u32; COUNTS.len()]>,
}

/// The GPUs that amdgpu holds, or why there are none.
pub(super) fn open(root: &Sysroot) -> Result<Vec<Gpu>, String> {
    let held = PciGpu::read_all(root, Some(GpuVendor::Amd)).into_iter();
    let held = held.filter(|pci| pci.driver.as_deref() == Some("amdgpu"));
    let gpus: Vec<_> =
        held.enumerate().map(|(index, pci)| Gpu::open(root, &pci, index as u32)).collect();
    if gpus.is_empty() { Err("no GPU that the amdgpu driver holds".to_owned()) } else { Ok(gpus) }
}

impl Gpu {
    fn open(root: &Sysroot, pci: &PciGpu, index: u32) -> Self {
        let file = |name: &str| Kept::open(root, pci.file(name));
        let hwmon = root.names(pci.file("hwmon")).into_iter().next();
        let hwmon = |name: &str| file(&format!("hwmon/{}/{name}", hwmon.as_deref()?));
        Self {
            index,
            model: amdgpu::name(root, pci),
            guid: root.text(pci.file("unique_id")),
            busy: file("gpu_busy_percent"),
            memory_used: file("mem_info_vram_used"),
            memory_total: file("mem_info_vram_total"),
            power: hwmon("power1_average").or_else(|| hwmon("power1_input")),
            temperature: temperature(&hwmon),
            clock: hwmon("freq1_input"),
            memory_clock: hwmon("freq2_input"),
            metrics: file("gpu_metrics"),
            counts: None,
        }
    }
}

fn temperature(hwmon: &impl Fn(&str) -> Option<Kept>) -> Option<Kept> {
    let mut buffer = Buffer::new();
    let mut at = |place: &str| {
        let label = |n: &u32| {
            let file = hwmon(&format!("temp{n}_label"));
            file.is_some_and(|file| file.text(&mut buffer).map(str::trim) == Some(place))
        };
        let found = (1..=4).find(label)?;
        hwmon(&format!("temp{found}_input"))
    };
    PLACES.iter().find_map(|place| at(place)).or_else(|| hwmon("temp1_input"))
}

impl Sensor for Gpu {
    fn usage(&mut self, buffer: &mut Buffer) -> GpuUsage {
        let mut number = |file: &Option<Kept>| file.as_ref()?.number::<f64>(buffer);
        let (used, total) = (number(&self.memory_used), number(&self.memory_total));
        GpuUsage {
            index: self.index,
            model: self.model.clone(),
            guid: self.guid.clone(),
            utilization_percent: number(&self.busy),
            memory_utilization_percent: used.zip(total).and_then(|(u, t)| percent(u, t)),
            power_watts: number(&self.power).map(|microwatts| microwatts / 1e6),
            temperature_celsius: number(&self.temperature).map(|millidegrees| millidegrees / 1e3),
            sm_clock_mhz: number(&self.clock).map(|hertz| hertz / 1e6),
            memory_clock_mhz: number(&self.memory_clock).map(|hertz| hertz / 1e6),
            throttle_reasons: None,
        }
    }

    fn reasons(&mut self, buffer: &mut Buffer) -> Option<Reasons> {
        let metrics = self.metrics.as_ref()?.bytes(buffer)?;
        // Its length, then the versions of the form.
        let (&major, &minor) = (metrics.get(2)?, metrics.get(3)?);
        match (major, minor) {
            (1, 3) => Some(of_status(u64::from_le_bytes(bytes(metrics, STATUS)?))),
            // From 1.7 on, the memory's bandwidth stands before the counts.
            (1, 6..=8) => {
                let first = if minor == 6 { 36 } else { 44 };
                let now = counts(metrics, first)?;
                let before = self.counts.replace(now);
                Some(before.map(|before| risen(&before, &now)).unwrap_or_default())
            }
            _ => None,
        }
    }
}

fn bytes<const N: usize>(metrics: &[u8], at: usize) -> Option<[u8; N]> {
    metrics.get(at..at + N)?.try_into().ok()
}

fn of_status(status: u64) -> Reasons {
    // All bits set is the driver's way to say that a field is not filled.
    let status = if status == u64::MAX { 0 } else { status };
    let held = |from: u32, to: u32| (from..=to).any(|bit| status >> bit & 1 == 1);
    BITS.iter().filter(|(from, to, _)| held(*from, *to)).map(|(_, _, name)| *name).collect()
}

fn counts(metrics: &[u8], first: usize) -> Option<[u32; COUNTS.len()]> {
    let mut found = [0; COUNTS.len()];
    for (i, count) in found.iter_mut().enumerate() {
        *count = u32::from_le_bytes(bytes(metrics, first + 4 * i)?);
    }
    Some(found)
}

fn risen(before: &[u32], now: &[u32]) -> Reasons {
    let pairs = before.iter().zip(now).zip(COUNTS);
    let mut names: Reasons =
        pairs.filter(|((before, now), _)| before != now).map(|(_, name)| *name).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    const DEVICE: &str = "sys/bus/pci/devices/0000:c1:00.0";

    fn tree() -> Tree {
        let tree = Tree::new(&[]);
        let put = |file: &str, text: &str| tree.put(&format!("{DEVICE}/{file}"), text);
        put("vendor", "0x1002\n");
        put("device", "0x74a1\n");
        put("class", "0x120000\n");
        put("driver", "-> ../../../../bus/pci/drivers/amdgpu");
        put("product_name", "AMD Instinct MI300X OAM\n");
        put("unique_id", "2f0c8d1d2b3a4e5f\n");
        put("gpu_busy_percent", "97\n");
        put("mem_info_vram_used", "50000000000\n");
        put("mem_info_vram_total", "200000000000\n");
        put("hwmon/hwmon4/power1_input", "612500000\n");
        put("hwmon/hwmon4/temp1_label", "edge\n");
        put("hwmon/hwmon4/temp1_input", "50000\n");
        put("hwmon/hwmon4/temp2_label", "junction\n");
        put("hwmon/hwmon4/temp2_input", "71000\n");
        put("hwmon/hwmon4/freq1_input", "2100000000\n");
        put("hwmon/hwmon4/freq2_input", "1300000000\n");
        tree
    }

    fn put_metrics(tree: &Tree, minor: u8, length: usize, values: &[(usize, &[u8])]) {
        let mut metrics = vec![0_u8; length];
        metrics[2] = 1;
        metrics[3] = minor;
        for (at, value) in values {
            metrics[*at..*at + value.len()].copy_from_slice(value);
        }
        std::fs::write(tree.root().path(format!("{DEVICE}/gpu_metrics")), metrics).unwrap();
    }

    #[test]
    fn a_data_centre_gpu() {
        let tree = tree();
        let mut gpus = open(&tree.root()).unwrap();
        let found = gpus[0].usage(&mut Buffer::new());
        let wanted = GpuUsage {
            index: 0,
            model: Some("AMD Instinct MI300X OAM".into()),
            utilization_percent: Some(97.0),
            memory_utilization_percent: Some(25.0),
            power_watts: Some(612.5),
            guid: Some("2f0c8d1d2b3a4e5f".into()),
            temperature_celsius: Some(71.0),
            sm_clock_mhz: Some(2100.0),
            memory_clock_mhz: Some(1300.0),
            throttle_reasons: None,
        };
        assert_eq!(found, wanted);
        assert_eq!(gpus[0].reasons(&mut Buffer::new()), None, "no metrics");
    }

    #[test]
    fn reasons_from_a_status() {
        let tree = tree();
        let status = (1_u64 << 1 | 1 << 36 | 1 << 47).to_le_bytes();
        put_metrics(&tree, 3, 120, &[(STATUS, &status)]);
        let mut gpus = open(&tree.root()).unwrap();
        let reasons = gpus[0].reasons(&mut Buffer::new());
        assert_eq!(reasons.unwrap(), ["power_limit", "thermal_limit", "prochot"]);
        put_metrics(&tree, 3, 120, &[(STATUS, &[0xff; 8])]);
        assert_eq!(gpus[0].reasons(&mut Buffer::new()), Some(vec![]), "not filled");
        put_metrics(&tree, 3, 60, &[]);
        assert_eq!(gpus[0].reasons(&mut Buffer::new()), None, "cut off");
        put_metrics(&tree, 1, 120, &[]);
        assert_eq!(gpus[0].reasons(&mut Buffer::new()), None, "an older form");
    }

    #[test]
    fn reasons_from_counts_that_rise() {
        for (minor, first) in [(6, 36), (7, 44), (8, 44)] {
            let tree = tree();
            let put = |prochot: u32, hbm: u32| {
                let values: [(usize, &[u8]); 2] =
                    [(first, &prochot.to_le_bytes()), (first + 16, &hbm.to_le_bytes())];
                put_metrics(&tree, minor, 200, &values);
            };
            put(5, 9);
            let mut gpus = open(&tree.root()).unwrap();
            let mut reasons = || gpus[0].reasons(&mut Buffer::new()).unwrap();
            assert!(reasons().is_empty(), "what was before does not count");
            put(5, 10);
            assert_eq!(reasons(), ["thermal_limit"]);
            put(6, 10);
            assert_eq!(reasons(), ["prochot"]);
            assert!(reasons().is_empty());
        }
    }

    #[test]
    fn a_gpu_without_the_driver_is_not_read() {
        let tree = Tree::new(&[]);
        let reason = open(&tree.root()).err();
        assert_eq!(reason.as_deref(), Some("no GPU that the amdgpu driver holds"));
    }
}
