//! The snapshot and the probes on the machine at hand, held against what `/proc` and `/sys` say
//! when read here by other means. A capability that is absent must be reported absent, with its
//! cure; nothing passes merely because hardware is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use warpforge_bench::capability::{self, Finding, Status};
use warpforge_bench::system::{self, GpuVendor, System};

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn names(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn printed(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect(program);
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// Whether the PCI bus has a function of this vendor that is a GPU.
fn on_bus(vendor: &str) -> bool {
    names("/sys/bus/pci/devices").iter().any(|address| {
        let file = |file| read(&format!("/sys/bus/pci/devices/{address}/{file}"));
        let class = file("class");
        file("vendor").trim() == vendor
            && ["0x0300", "0x0302", "0x0380", "0x1200"].iter().any(|c| class.starts_with(c))
    })
}

#[test]
fn host_and_kernel_are_what_uname_prints() {
    let host = system::snapshot().host;
    assert_eq!(host.kernel.release, Some(printed("uname", &["-r"])));
    assert_eq!(host.kernel.version, Some(printed("uname", &["-v"])));
    assert_eq!(host.kernel.architecture, printed("uname", &["-m"]));
    assert_eq!(host.hostname, Some(printed("uname", &["-n"])));
    let os = host.os.expect("an operating system");
    assert!(read("/etc/os-release").contains(&os), "{os}");
}

#[test]
fn cpus_are_those_of_cpuinfo() {
    let cpu = system::snapshot().cpu;
    let cpuinfo = read("/proc/cpuinfo");
    let processors = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    assert_eq!(cpu.logical_cpus, Some(processors as u32));
    let affinity = printed("nproc", &[]).parse::<u32>().expect("a number");
    assert!(affinity <= processors as u32);
    let cores = cpu.physical_cores.expect("cores");
    assert!((1..=processors as u32).contains(&cores), "{cores} cores");
    assert!(cpu.sockets.is_some_and(|sockets| sockets >= 1 && sockets <= cores));
    let flags = cpuinfo.lines().find(|l| l.starts_with("flags") || l.starts_with("Features"));
    let flags: BTreeSet<&str> = flags.expect("flags").split_whitespace().collect();
    assert!(!cpu.isa_extensions.is_empty());
    assert!(cpu.isa_extensions.iter().all(|extension| flags.contains(extension.as_str())));
    assert_eq!(cpu.isa_extensions.contains(&"avx2".to_owned()), flags.contains("avx2"));
    let governor = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    assert_eq!(cpu.governor.is_some(), governor.is_ok());
}

#[test]
fn every_cache_of_the_first_cpu_is_listed() {
    let caches = system::snapshot().cpu.caches;
    let directory = "/sys/devices/system/cpu/cpu0/cache";
    for index in names(directory).iter().filter(|name| name.starts_with("index")) {
        let level = read(&format!("{directory}/{index}/level"));
        let kind = read(&format!("{directory}/{index}/type")).trim().to_lowercase();
        let size = read(&format!("{directory}/{index}/size"));
        let found = caches.iter().find(|cache| {
            cache.level.to_string() == level.trim()
                && format!("{:?}", cache.kind).to_lowercase() == kind
        });
        let kib = found.expect(index).size_bytes.expect("a size") >> 10;
        assert_eq!(format!("{kib}K"), size.trim(), "{index}");
    }
}

#[test]
fn memory_and_numa_are_those_of_the_kernel() {
    let system = system::snapshot();
    let meminfo = read("/proc/meminfo");
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:")).expect("MemTotal");
    let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    assert_eq!(system.memory.total_bytes, Some(kib * 1024));
    assert!(system.memory.available_bytes <= system.memory.total_bytes);
    let nodes = names("/sys/devices/system/node");
    let nodes = nodes.iter().filter(|name| name[4..].parse::<u32>().is_ok()).count();
    assert_eq!(system.numa_nodes.len(), nodes);
}

#[test]
fn interfaces_are_those_of_sysfs_and_loopback_has_its_address() {
    let interfaces = system::snapshot().network_interfaces;
    let found: BTreeSet<String> = interfaces.iter().map(|i| i.name.clone()).collect();
    let mut wanted = names("/sys/class/net");
    wanted.remove("bonding_masters");
    assert_eq!(found, wanted);
    let loopback = interfaces.iter().find(|i| i.name == "lo").expect("lo");
    assert!(loopback.addresses.contains(&"127.0.0.1/8".to_owned()), "{loopback:?}");
    assert_eq!(
        loopback.mtu_bytes.map(|mtu| mtu.to_string()).as_deref(),
        Some(read("/sys/class/net/lo/mtu").trim())
    );
}

#[test]
fn disks_and_the_filesystem_are_those_of_the_kernel() {
    let system = system::snapshot();
    for disk in &system.disks {
        let sectors: u64 =
            read(&format!("/sys/block/{}/size", disk.name)).trim().parse().expect("a number");
        assert_eq!(disk.size_bytes, Some(sectors * 512), "{}", disk.name);
        assert!(!disk.name.starts_with("loop"));
    }
    let filesystem = system.filesystem.expect("a filesystem");
    let kind = printed("stat", &["-f", "-c", "%b %S", "."]);
    let (blocks, size) = kind.split_once(' ').expect("two numbers");
    let total = blocks.parse::<u64>().expect("blocks") * size.parse::<u64>().expect("size");
    assert_eq!(filesystem.total_bytes, Some(total));
    assert!(read("/proc/mounts").contains(&format!(" {} ", filesystem.fs_type)));
}

#[test]
fn gpus_and_rdma_devices_are_those_of_the_bus() {
    let system = system::snapshot();
    let has = |vendor| system.gpus.iter().any(|gpu| gpu.vendor == vendor);
    assert_eq!(has(GpuVendor::Amd), on_bus("0x1002"));
    assert_eq!(has(GpuVendor::Nvidia), on_bus("0x10de") || Path::new("/dev/nvidiactl").exists());
    let devices: BTreeSet<String> = system.rdma_devices.iter().map(|d| d.name.clone()).collect();
    assert_eq!(devices, names("/sys/class/infiniband"));
}

#[test]
fn engines_and_libraries_are_those_installed() {
    let system = system::snapshot();
    let path = std::env::var_os("PATH").unwrap_or_default();
    for name in ["docker", "podman", "containerd", "nerdctl"] {
        let installed =
            std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
        let found = system.container_engines.iter().any(|engine| engine.name == name);
        assert_eq!(found, installed, "{name}");
    }
    if cfg!(target_env = "gnu") {
        let glibc = system.libraries.glibc.expect("glibc");
        assert!(printed("ldd", &["--version"]).lines().next().expect("a line").ends_with(&glibc));
    }
}

#[test]
fn the_snapshot_survives_json() {
    let system = system::snapshot();
    let text = serde_json::to_string_pretty(&system).expect("JSON");
    let again: System = serde_json::from_str(&text).expect("the same shape");
    assert_eq!(again, system);
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
    let schema = schemars::schema_for!(System).to_value();
    let described = schema["properties"].as_object().expect("properties");
    assert_eq!(described.len(), keys.len());
    assert!(keys.iter().all(|key| described[key.as_str()]["description"].is_string()));
}

#[test]
fn the_snapshot_is_quick() {
    system::snapshot();
    let begun = Instant::now();
    system::snapshot();
    // NVML may take seconds to wake a GPU; without one the bound is what a user notices.
    let limit = if Path::new("/dev/nvidiactl").exists() { 5_000 } else { 1_000 };
    assert!(begun.elapsed() < Duration::from_millis(limit), "{:?}", begun.elapsed());
}

#[track_caller]
fn is_missing(finding: &Finding, detail: &str, cure: &str) {
    assert_eq!(finding.status, Status::Missing, "{finding:?}");
    assert_eq!(finding.detail, detail);
    assert!(finding.cure.as_deref().is_some_and(|given| given.contains(cure)), "{finding:?}");
}

#[track_caller]
fn is_whole_or_says_why(finding: &Finding) {
    assert!(!finding.detail.is_empty() && !finding.detail.contains('\n'), "{finding:?}");
    assert_eq!(finding.cure.is_none(), finding.status == Status::Works, "{finding:?}");
}

/// Whether the dynamic loader knows a library of this name.
fn is_installed(library: &str) -> bool {
    let caches = ["ldconfig", "/sbin/ldconfig"];
    let listed = |program: &&str| Command::new(program).arg("-p").output().ok();
    let listing = caches.iter().find_map(listed).expect("ldconfig");
    String::from_utf8_lossy(&listing.stdout).contains(library)
}

#[test]
fn nvidia_is_missing_or_works_with_the_drivers_own_count() {
    let finding = capability::nvidia();
    is_whole_or_says_why(&finding);
    let is_gpu =
        |name: &String| name.strip_prefix("nvidia").is_some_and(|n| n.parse::<u32>().is_ok());
    let count = names("/dev").iter().filter(|name| is_gpu(name)).count();
    if count > 0 {
        assert!(finding.detail.starts_with(&format!("{count} GPU")), "{finding:?}");
    } else if is_installed("libcuda.so.1") {
        assert_eq!(finding.status, Status::Missing, "{finding:?}");
        assert!(finding.detail.starts_with("libcuda.so.1 is installed but sees no GPU"));
    } else if !on_bus("0x10de") {
        is_missing(
            &finding,
            "libcuda.so.1 not found: no NVIDIA driver, and no NVIDIA GPU on the PCI bus",
            "install the NVIDIA driver (580 or newer for CUDA 13)",
        );
    } else {
        assert_eq!(finding.status, Status::Missing, "{finding:?}");
        assert!(finding.detail.starts_with("libcuda.so.1 not found: "), "{finding:?}");
    }
}

#[test]
fn amd_is_missing_where_there_is_no_device() {
    let finding = capability::amd();
    is_whole_or_says_why(&finding);
    if !Path::new("/dev/kfd").exists() && !on_bus("0x1002") {
        is_missing(&finding, "no AMD GPU on the PCI bus, and no /dev/kfd", "amd.com/gpu");
    }
}

#[test]
fn rdma_is_missing_where_there_is_no_device() {
    let finding = capability::rdma();
    is_whole_or_says_why(&finding);
    if names("/sys/class/infiniband").is_empty() {
        is_missing(&finding, "no RDMA device in /sys/class/infiniband", "modprobe mlx5_ib");
    }
}
