//! The processors: model, topology, caches, instruction-set extensions and frequency policy.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cpuinfo::CpuInfo;
use crate::Sysroot;

const CPUS: &str = "sys/devices/system/cpu";

/// The processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Maker, as the CPU states it, such as `GenuineIntel` or `ARM`.
    pub vendor: Option<String>,
    /// Model name.
    pub model: Option<String>,
    /// Microcode revision.
    pub microcode: Option<String>,
    /// Number of processor packages.
    pub sockets: Option<u32>,
    /// Number of physical cores.
    pub physical_cores: Option<u32>,
    /// Number of logical CPUs that are online.
    pub logical_cpus: Option<u32>,
    /// CPUs that this process may use, as a list such as `0-3,8`.
    pub allowed_cpus: Option<String>,
    /// Whether cores run more than one thread at present.
    pub smt_active: Option<bool>,
    /// Whether a hypervisor runs below this system.
    pub hypervisor: bool,
    /// Caches, one entry for all alike.
    pub caches: Vec<Cache>,
    /// Instruction-set extensions that matter for numeric kernels, in the kernel's spelling.
    pub isa_extensions: Vec<String>,
    /// Guaranteed frequency.
    pub base_mhz: Option<f64>,
    /// Highest frequency of any CPU at this moment.
    pub current_mhz: Option<f64>,
    /// Highest frequency that any CPU can reach.
    pub max_mhz: Option<f64>,
    /// Frequency governor; several, separated by commas, where CPUs differ.
    pub governor: Option<String>,
    /// Driver that sets the frequency, such as `intel_pstate`.
    pub frequency_driver: Option<String>,
    /// Whether frequencies above the base are allowed.
    pub boost_enabled: Option<bool>,
}

/// Caches of one level, type, size and sharing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// Level; 1 is the nearest to the core.
    pub level: u32,
    /// What it holds.
    #[serde(rename = "type")]
    pub kind: CacheType,
    /// Size of one such cache.
    pub size_bytes: Option<u64>,
    /// Number of logical CPUs that share one such cache.
    pub shared_by_cpus: u32,
    /// Number of such caches in the machine.
    pub instances: u32,
}

/// What a cache holds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CacheType {
    Data,
    Instruction,
    Unified,
}

impl Cpu {
    pub(super) fn read(root: &Sysroot) -> Self {
        let info = CpuInfo::parse(&root.text("proc/cpuinfo").unwrap_or_default());
        let cpus: Vec<String> =
            root.numbered(CPUS, "cpu").into_iter().map(|(_, name)| name).collect();
        let khz = |file| frequencies_mhz(root, &cpus, file);
        Self {
            sockets: distinct(root, &cpus, &["topology/physical_package_id"]),
            physical_cores: distinct(
                root,
                &cpus,
                &["topology/core_cpus_list", "topology/thread_siblings_list"],
            ),
            logical_cpus: (info.processors > 0).then_some(info.processors),
            allowed_cpus: root.text("proc/self/status").and_then(|text| allowed_cpus(&text)),
            smt_active: root.flag(format!("{CPUS}/smt/active")),
            hypervisor: info.has("hypervisor") || root.exists("sys/hypervisor/type"),
            caches: caches(root, &cpus),
            isa_extensions: info.isa_extensions(),
            base_mhz: khz("base_frequency"),
            current_mhz: info.mhz.or_else(|| khz("scaling_cur_freq")),
            max_mhz: khz("cpuinfo_max_freq"),
            governor: joined(root, &cpus, "cpufreq/scaling_governor"),
            frequency_driver: joined(root, &cpus, "cpufreq/scaling_driver"),
            boost_enabled: boost(root),
            vendor: info.vendor,
            model: info.model_name,
            microcode: info.microcode,
        }
    }
}

/// How many different values the first of `files` that exists has over the CPUs.
fn distinct(root: &Sysroot, cpus: &[String], files: &[&str]) -> Option<u32> {
    files.iter().find_map(|file| {
        let values = values(root, cpus, file);
        (!values.is_empty()).then_some(values.len() as u32)
    })
}

fn values(root: &Sysroot, cpus: &[String], file: &str) -> BTreeSet<String> {
    cpus.iter().filter_map(|cpu| root.text(format!("{CPUS}/{cpu}/{file}"))).collect()
}

fn joined(root: &Sysroot, cpus: &[String], file: &str) -> Option<String> {
    let values: Vec<String> = values(root, cpus, file).into_iter().collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// The highest of a cpufreq attribute, which is in kHz.
fn frequencies_mhz(root: &Sysroot, cpus: &[String], file: &str) -> Option<f64> {
    let khz = |cpu: &String| root.number::<f64>(format!("{CPUS}/{cpu}/cpufreq/{file}"));
    cpus.iter().filter_map(khz).reduce(f64::max).map(|khz| khz / 1e3)
}

fn boost(root: &Sysroot) -> Option<bool> {
    let intel = root.flag(format!("{CPUS}/intel_pstate/no_turbo")).map(|off| !off);
    intel.or_else(|| root.flag(format!("{CPUS}/cpufreq/boost")))
}

fn allowed_cpus(status: &str) -> Option<String> {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

fn caches(root: &Sysroot, cpus: &[String]) -> Vec<Cache> {
    // A cache appears once below each CPU that shares it; the sharing list identifies it.
    let mut seen = BTreeSet::new();
    let mut kinds: BTreeMap<Cache, u32> = BTreeMap::new();
    for cpu in cpus {
        let directory = format!("{CPUS}/{cpu}/cache");
        for (_, index) in root.numbered(&directory, "index") {
            let directory = format!("{directory}/{index}");
            let shared = root.text(format!("{directory}/shared_cpu_list")).unwrap_or(cpu.clone());
            let Some(cache) = cache(root, &directory, &shared) else { continue };
            if seen.insert((cache.level, cache.kind, shared)) {
                *kinds.entry(cache).or_default() += 1;
            }
        }
    }
    kinds.into_iter().map(|(cache, instances)| Cache { instances, ..cache }).collect()
}

fn cache(root: &Sysroot, directory: &str, shared: &str) -> Option<Cache> {
    let kind = match root.text(format!("{directory}/type"))?.as_str() {
        "Data" => CacheType::Data,
        "Instruction" => CacheType::Instruction,
        "Unified" => CacheType::Unified,
        _ => return None,
    };
    Some(Cache {
        level: root.number(format!("{directory}/level"))?,
        kind,
        size_bytes: root.text(format!("{directory}/size")).and_then(|text| size_bytes(&text)),
        shared_by_cpus: count_list(shared).unwrap_or(1),
        instances: 0,
    })
}

/// A size such as `48K`.
fn size_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

/// How many numbers a list such as `0-3,8` holds.
fn count_list(list: &str) -> Option<u32> {
    list.split(',').try_fold(0_u32, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    fn put_cpu(tree: &Tree, cpu: u32, siblings: &str, governor: &str, max_khz: &str) {
        let put = |file: &str, text: &str| tree.put(&format!("{CPUS}/cpu{cpu}/{file}"), text);
        put("topology/physical_package_id", "0\n");
        put("topology/core_cpus_list", siblings);
        put("cpufreq/scaling_governor", governor);
        put("cpufreq/cpuinfo_max_freq", max_khz);
        put("cpufreq/base_frequency", "2100000\n");
        for (index, level, kind, size, shared) in [
            (0, "1", "Data", "48K", siblings),
            (1, "1", "Instruction", "32K", siblings),
            (2, "3", "Unified", "105M", "0-3"),
        ] {
            put(&format!("cache/index{index}/level"), level);
            put(&format!("cache/index{index}/type"), kind);
            put(&format!("cache/index{index}/size"), size);
            put(&format!("cache/index{index}/shared_cpu_list"), shared);
        }
    }

    #[test]
    fn topology_caches_and_governor_of_two_hyperthreaded_cores() {
        let tree = Tree::new(&[("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-2\n")]);
        put_cpu(&tree, 0, "0,2", "performance", "3800000");
        put_cpu(&tree, 1, "1,3", "performance", "3800000");
        put_cpu(&tree, 2, "0,2", "performance", "3800000");
        put_cpu(&tree, 3, "1,3", "powersave", "3900000");
        tree.put(&format!("{CPUS}/intel_pstate/no_turbo"), "1");
        let cpu = Cpu::read(&tree.root());
        assert_eq!((cpu.sockets, cpu.physical_cores), (Some(1), Some(2)));
        assert_eq!(cpu.governor.as_deref(), Some("performance, powersave"));
        assert_eq!((cpu.base_mhz, cpu.max_mhz), (Some(2100.0), Some(3900.0)));
        assert_eq!(cpu.boost_enabled, Some(false));
        assert_eq!(cpu.allowed_cpus.as_deref(), Some("0-2"));
        let cache = |level, kind, kib: u64, shared_by_cpus, instances| Cache {
            level,
            kind,
            size_bytes: Some(kib << 10),
            shared_by_cpus,
            instances,
        };
        let wanted = [
            cache(1, CacheType::Data, 48, 2, 2),
            cache(1, CacheType::Instruction, 32, 2, 2),
            cache(3, CacheType::Unified, 105 << 10, 4, 1),
        ];
        assert_eq!(cpu.caches, wanted);
    }

    #[test]
    fn lists_and_sizes() {
        let lists = [("0", Some(1)), ("0-3,8", Some(5)), ("", None), ("3-1", None), ("a", None)];
        for (list, count) in lists {
            assert_eq!(count_list(list), count, "{list}");
        }
        let sizes =
            [("48K", Some(49_152)), ("2M", Some(2 << 20)), ("512", Some(512)), ("1X", None)];
        for (text, bytes) in sizes {
            assert_eq!(size_bytes(text), bytes, "{text}");
        }
    }
}
