//! `warpforge system` against what the kernel says, read here independently.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{Scratch, json};
use serde_json::Value as Json;

fn snapshot() -> Json {
    json(&mut Scratch::new().warpforge(&["system", "--json"]))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}")).trim().to_owned()
}

fn names_in(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn names_of(list: &Json) -> BTreeSet<String> {
    let rows = list.as_array().unwrap();
    rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

/// The number of CPUs in a list such as `0-3,8`.
fn count(list: &str) -> u64 {
    let bounds = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        last.parse::<u64>().unwrap() - first.parse::<u64>().unwrap() + 1
    };
    list.split(',').map(bounds).sum()
}

#[test]
fn host_and_processor_are_the_kernels() {
    let system = snapshot();
    assert_eq!(system["host"]["hostname"], read("/proc/sys/kernel/hostname"));
    assert_eq!(system["host"]["kernel"]["release"], read("/proc/sys/kernel/osrelease"));
    assert_eq!(system["host"]["kernel"]["architecture"], std::env::consts::ARCH);
    assert_eq!(system["cpu"]["logical_cpus"], count(&read("/sys/devices/system/cpu/online")));
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    if let Some((_, model)) = model {
        assert_eq!(system["cpu"]["model"], model);
    }
}

#[test]
fn memory_is_the_kernels() {
    let system = snapshot();
    let meminfo = read("/proc/meminfo");
    let kibibytes = |name: &str| -> u64 {
        let line = meminfo.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    assert_eq!(system["memory"]["total_bytes"], kibibytes("MemTotal:") * 1024);
    assert_eq!(system["memory"]["swap_total_bytes"], kibibytes("SwapTotal:") * 1024);
    let nodes = names_in("/sys/devices/system/node");
    let nodes = nodes.iter().filter(|name| name.trim_start_matches("node").parse::<u32>().is_ok());
    assert_eq!(system["numa_nodes"].as_array().unwrap().len(), nodes.count());
}

#[test]
fn devices_are_the_kernels() {
    let system = snapshot();
    let interfaces = names_in("/sys/class/net").into_iter();
    // What is not a link is no interface but a control file of the bonding driver.
    let interfaces = interfaces.filter(|name| Path::new("/sys/class/net").join(name).is_dir());
    assert_eq!(names_of(&system["network_interfaces"]), interfaces.collect());
    assert_eq!(names_of(&system["rdma_devices"]), names_in("/sys/class/infiniband"));
    let disks = names_of(&system["disks"]);
    assert!(disks.is_subset(&names_in("/sys/block")), "{disks:?}");
    for disk in system["disks"].as_array().unwrap() {
        let sectors: u64 =
            read(&format!("/sys/block/{}/size", disk["name"].as_str().unwrap())).parse().unwrap();
        assert_eq!(disk["size_bytes"], sectors * 512);
    }
}

#[test]
fn the_table_says_what_the_json_says() {
    let (code, out, err) = Scratch::new().run(&["system"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let titles: Vec<_> = out.lines().filter(|line| line.starts_with(char::is_alphabetic)).collect();
    let expected =
        ["Host", "CPU", "Memory", "GPUs", "Network", "RDMA", "Disks", "Container", "Libraries"];
    assert_eq!(titles, expected);
    let system = snapshot();
    for text in [&system["host"]["hostname"], &system["host"]["kernel"]["release"]] {
        assert!(out.contains(text.as_str().unwrap()), "{out}");
    }
    let bytes = system["memory"]["total_bytes"].as_u64().unwrap();
    let total = format!("{:.1}", bytes as f64 / f64::from(1 << 30));
    let shown = total.strip_suffix(".0").unwrap_or(&total);
    assert!(out.contains(&format!("{shown} GiB")), "{out}");
    let absent = names_in("/sys/class/infiniband").is_empty();
    assert_eq!(out.contains("RDMA\n  none\n"), absent, "{out}");
    assert!(out.lines().all(|line| line.trim_end() == line), "a line ends in a space:\n{out}");
}

#[test]
fn json_follows_its_schema() {
    let schema = fs::read(common::repository().join("docs/schema/system.json")).unwrap();
    jsonschema::validate(&serde_json::from_slice(&schema).unwrap(), &snapshot()).unwrap();
}
