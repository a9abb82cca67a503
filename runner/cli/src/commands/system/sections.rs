//! The snapshot as a person reads it: grouped, with sizes in the unit that fits. What is not
//! known is left out, except where its absence is news.

use warpforge_bench::system::{
    Cache, CacheType, Disk, Gpu, GpuVendor, Interface, Libraries, NumaNode, RdmaDevice, Runtime,
    System,
};

/// A title and the rows below it.
pub struct Section {
    pub title: &'static str,
    pub rows: Vec<(String, String)>,
}

/// All sections in the order in which they are shown.
pub fn of(system: &System) -> Vec<Section> {
    vec![
        Section { title: "Host", rows: host(system) },
        Section { title: "CPU", rows: cpu(system) },
        Section { title: "Memory", rows: memory(system) },
        Section { title: "GPUs", rows: or_none(system.gpus.iter().map(gpu)) },
        Section {
            title: "Network",
            rows: or_none(system.network_interfaces.iter().map(interface)),
        },
        Section { title: "RDMA", rows: or_none(system.rdma_devices.iter().map(rdma)) },
        Section { title: "Disks", rows: disks(system) },
        Section { title: "Container", rows: container(system) },
        Section { title: "Libraries", rows: libraries(&system.libraries) },
    ]
}

type Row = (String, String);

/// A row for a value that is known.
fn known(label: &str, value: Option<impl ToString>) -> Option<Row> {
    value.map(|value| (label.to_owned(), value.to_string()))
}

fn or_none(rows: impl Iterator<Item = Row>) -> Vec<Row> {
    let rows: Vec<Row> = rows.collect();
    if rows.is_empty() { vec![("none".to_owned(), String::new())] } else { rows }
}

/// The parts that are known, separated by commas.
fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// `1.5 GiB`, `512 KiB`: the largest binary unit that keeps the number at one or more.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, UNITS[0]);
    for larger in &UNITS[1..] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    let number = format!("{value:.1}");
    format!("{} {unit}", number.strip_suffix(".0").unwrap_or(&number))
}

fn yes_no(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

fn host(system: &System) -> Vec<Row> {
    let host = &system.host;
    let machine = joined([host.vendor.clone(), host.product.clone()]);
    let release = host.kernel.release.as_deref().unwrap_or("unknown");
    [
        known("name", host.hostname.as_ref()),
        known("system", host.os.as_ref()),
        known("kernel", Some(format!("{release} ({})", host.kernel.architecture))),
        known("machine", (!machine.is_empty()).then_some(machine)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn cpu(system: &System) -> Vec<Row> {
    let cpu = &system.cpu;
    let count = |number: Option<u32>, noun: &str| {
        number.map(|n| format!("{n} {noun}{}", if n == 1 { "" } else { "s" }))
    };
    let counts = joined([
        count(cpu.sockets, "socket"),
        count(cpu.physical_cores, "core"),
        count(cpu.logical_cpus, "thread"),
    ]);
    let megahertz =
        |value: Option<f64>, what: &str| value.map(|mhz| format!("{mhz:.0} MHz {what}"));
    let frequency = joined([
        megahertz(cpu.current_mhz, "now"),
        megahertz(cpu.base_mhz, "base"),
        megahertz(cpu.max_mhz, "at most"),
    ]);
    [
        known("model", Some(cpu.model.as_deref().unwrap_or("unknown"))),
        known("topology", Some(counts)),
        known("usable", cpu.allowed_cpus.as_ref().map(|list| format!("CPUs {list}"))),
        known("caches", Some(joined(cpu.caches.iter().map(|c| Some(cache(c)))))),
        known("extensions", Some(cpu.isa_extensions.join(" "))),
        known("frequency", (!frequency.is_empty()).then_some(frequency)),
        known("governor", Some(cpu.governor.as_deref().unwrap_or("not exposed"))),
        known("boost", cpu.boost_enabled.map(yes_no)),
        known("virtual", Some(yes_no(cpu.hypervisor))),
        known("microcode", cpu.microcode.as_ref()),
    ]
    .into_iter()
    .flatten()
    .filter(|(_, value)| !value.is_empty())
    .collect()
}

fn cache(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheType::Data => "d",
        CacheType::Instruction => "i",
        CacheType::Unified => "",
    };
    let size = cache.size_bytes.map_or_else(|| "size unknown".to_owned(), size);
    let times =
        if cache.instances == 1 { String::new() } else { format!(" x {}", cache.instances) };
    format!("L{}{kind} {size}{times}", cache.level)
}

fn memory(system: &System) -> Vec<Row> {
    let memory = &system.memory;
    let reserved = match (memory.huge_pages_total, memory.huge_page_bytes) {
        (Some(total), Some(each)) if total > 0 => {
            let free = memory.huge_pages_free.unwrap_or(0);
            format!("{total} of {}, {free} free", size(each))
        }
        _ => "none reserved".to_owned(),
    };
    let transparent = memory.transparent_huge_pages.as_ref();
    let transparent = transparent.map(|mode| format!("transparent ones: {mode}"));
    let fixed = [
        known("total", memory.total_bytes.map(size)),
        known("available", memory.available_bytes.map(size)),
        known(
            "swap",
            memory.swap_total_bytes.map(|n| if n == 0 { "none".into() } else { size(n) }),
        ),
        known("huge pages", Some(joined([Some(reserved), transparent]))),
    ];
    fixed.into_iter().flatten().chain(system.numa_nodes.iter().map(numa)).collect()
}

fn numa(node: &NumaNode) -> Row {
    let value = joined([
        node.cpus.as_ref().map(|list| format!("CPUs {list}")),
        node.memory_total_bytes.map(size),
    ]);
    (format!("NUMA node {}", node.id), value)
}

fn gpu(gpu: &Gpu) -> Row {
    let vendor = match gpu.vendor {
        GpuVendor::Nvidia => "NVIDIA",
        GpuVendor::Amd => "AMD",
    };
    let label = gpu.index.map_or_else(|| vendor.to_owned(), |index| format!("{vendor} {index}"));
    let pcie = gpu.pcie.as_ref();
    let value = joined([
        Some(gpu.name.clone().unwrap_or_else(|| "unknown model".to_owned())),
        gpu.memory_total_bytes.map(size),
        gpu.compute_capability.as_ref().map(|version| format!("compute capability {version}")),
        gpu.gfx_target.clone(),
        gpu.power_limit_watts.map(|watts| format!("{watts:.0} W")),
        gpu.clocks.max_graphics_mhz.map(|mhz| format!("{mhz} MHz at most")),
        pcie.map(|link| format!("PCIe {} GT/s x {}", link.speed_gt_per_s, link.width)),
        gpu.mig_enabled.filter(|on| *on).map(|_| "MIG".to_owned()),
        gpu.driver_version.as_ref().map(|version| format!("driver {version}")),
        gpu.pci_address.clone(),
        (!gpu.accessible).then(|| "not accessible from here".to_owned()),
    ]);
    (label, value)
}

fn interface(interface: &Interface) -> Row {
    let value = joined([
        interface.state.clone(),
        interface.speed_mbit_per_s.map(|speed| format!("{speed} Mbit/s")),
        interface.mtu_bytes.map(|mtu| format!("MTU {mtu}")),
        interface.driver.clone(),
        Some(interface.addresses.join(" ")),
    ]);
    (interface.name.clone(), value)
}

fn rdma(device: &RdmaDevice) -> Row {
    let ports = device.ports.iter().map(|port| {
        let parts = [&port.state, &port.link_layer, &port.rate, &port.interface];
        let known: Vec<&str> = parts.iter().filter_map(|part| part.as_deref()).collect();
        Some(format!("port {} {}", port.number, known.join(" ")))
    });
    let value = joined([device.model.clone(), device.driver.clone()].into_iter().chain(ports));
    (device.name.clone(), value)
}

fn disks(system: &System) -> Vec<Row> {
    let mut rows: Vec<Row> = system.disks.iter().map(disk).collect();
    if let Some(filesystem) = &system.filesystem {
        let value = joined([
            Some(format!("{} on {}", filesystem.fs_type, filesystem.mount_point.display())),
            filesystem.total_bytes.map(size),
            filesystem.free_bytes.map(|bytes| format!("{} free", size(bytes))),
        ]);
        rows.push(("this folder".to_owned(), value));
    }
    or_none(rows.into_iter())
}

fn disk(disk: &Disk) -> Row {
    let value = joined([
        disk.model.clone(),
        disk.size_bytes.map(size),
        disk.transport.clone(),
        disk.rotational.map(|turns| if turns { "rotating" } else { "solid state" }.to_owned()),
    ]);
    (disk.name.clone(), value)
}

fn container(system: &System) -> Vec<Row> {
    let container = &system.container;
    let runtime = match (container.runtime, &container.evidence) {
        (Runtime::None, _) => "none".to_owned(),
        (runtime, Some(evidence)) => {
            format!("{} ({evidence})", format!("{runtime:?}").to_lowercase())
        }
        (runtime, None) => format!("{runtime:?}").to_lowercase(),
    };
    let pod = system.kubernetes.as_ref().map(|pod| {
        let place = [&pod.namespace, &pod.pod, &pod.node];
        place.iter().filter_map(|part| part.as_deref()).collect::<Vec<_>>().join(" / ")
    });
    let cgroup = &system.cgroup;
    let fixed = [
        known("runtime", Some(runtime)),
        known("pod", Some(pod.unwrap_or_else(|| "none".to_owned()))),
        known("CPU limit", cgroup.cpu_limit_cpus.map(|cpus| format!("{cpus} CPUs"))),
        known("memory limit", cgroup.memory_limit_bytes.map(size)),
    ];
    let engines = system.container_engines.iter().map(|engine| {
        (engine.name.clone(), engine.version.clone().unwrap_or_else(|| "version unknown".into()))
    });
    fixed.into_iter().flatten().chain(engines).collect()
}

fn libraries(libraries: &Libraries) -> Vec<Row> {
    let rows = [
        ("glibc", &libraries.glibc),
        ("NVIDIA driver", &libraries.nvidia_driver),
        ("CUDA driver", &libraries.cuda_driver),
        ("NVML", &libraries.nvml),
        ("ROCm", &libraries.rocm),
        ("UCX", &libraries.ucx),
        ("rdma-core", &libraries.rdma_core),
    ];
    let row = |(label, version): (&str, &Option<String>)| {
        (label.to_owned(), version.clone().unwrap_or_else(|| "not found".to_owned()))
    };
    rows.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(size(512), "512 B");
        assert_eq!(size(32 * 1024), "32 KiB");
        assert_eq!(size(25_165_824_000), "23.4 GiB");
        assert_eq!(size(1 << 40), "1 TiB");
        assert_eq!(size(270_551_000_000), "252 GiB");
    }
}
