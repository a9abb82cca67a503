//! The processors: how busy, how fast, how hot, and whether heat slowed them.

use std::collections::BTreeSet;

use super::kept::{Buffer, Kept};
use super::record::{percent, two_digits};
use crate::Sysroot;

const CPUS: &str = "sys/devices/system/cpu";
const HWMON: &str = "sys/class/hwmon";
const ZONES: &str = "sys/class/thermal";
/// Sensors inside a processor, by their drivers; the first temperature is the package's.
const SENSORS: &[&str] = &["coretemp", "k10temp", "zenpower", "cpu_thermal"];
/// Thermal zones of processors, where no such driver is there.
const ZONE_TYPES: &[&str] = &["x86_pkg_temp", "cpu-thermal", "cpu_thermal"];
/// Clocks of so many CPUs are read: on some kernels each takes an interrupt of that CPU.
const MOST_CLOCKS: usize = 16;

/// Time since the machine's start, in the kernel's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    total: u64,
}

#[derive(Debug)]
pub(super) struct Cpu {
    stat: Option<Kept>,
    before: Option<Ticks>,
    clocks: Vec<Kept>,
    temperatures: Vec<Kept>,
    throttles: Vec<Kept>,
}

impl Cpu {
    /// Finds what can be read. What cannot is named in `missing`.
    pub fn open(root: &Sysroot, missing: &mut Vec<String>) -> Self {
        let cpu = Self {
            stat: Kept::open(root, "proc/stat"),
            before: None,
            clocks: clocks(root),
            temperatures: temperatures(root),
            throttles: throttles(root),
        };
        let mut lacks = |absent: bool, what: &str| {
            if absent {
                missing.push(what.to_owned());
            }
        };
        lacks(cpu.stat.is_none(), "CPU utilisation: no /proc/stat");
        lacks(cpu.clocks.is_empty(), "CPU clock: the kernel has no cpufreq here");
        lacks(cpu.temperatures.is_empty(), "CPU temperature: no sensor of a processor");
        lacks(cpu.throttles.is_empty(), "CPU throttling: the kernel has no counts of it here");
        cpu
    }

    /// The share of time spent working since the last call; `None` on the first, and where no
    /// tick has passed.
    pub fn utilisation(&mut self, buffer: &mut Buffer) -> Option<f64> {
        let now = ticks(self.stat.as_ref()?.text(buffer)?)?;
        let before = self.before.replace(now)?;
        let total = now.total.checked_sub(before.total)?;
        // The kernel's count of idle time may go back a little.
        let idle = now.idle.saturating_sub(before.idle).min(total);
        percent((total - idle) as f64, total as f64)
    }

    pub fn clock_mhz(&self, buffer: &mut Buffer) -> Option<f64> {
        let clocks: Vec<f64> = self.clocks.iter().filter_map(|file| file.number(buffer)).collect();
        let mean = clocks.iter().sum::<f64>() / clocks.len() as f64;
        (!clocks.is_empty()).then(|| two_digits(mean / 1e3))
    }

    pub fn temperature(&self, buffer: &mut Buffer) -> Option<f64> {
        let read = self.temperatures.iter().filter_map(|file| file.number::<f64>(buffer));
        read.reduce(f64::max).map(|millidegrees| two_digits(millidegrees / 1e3))
    }

    pub fn throttle_count(&self, buffer: &mut Buffer) -> Option<u64> {
        let counts = self.throttles.iter().filter_map(|file| file.number::<u64>(buffer));
        counts.reduce(u64::saturating_add)
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. What
/// follows, guests' time, is part of the first two already.
fn ticks(stat: &str) -> Option<Ticks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let mut fields = [0_u64; 8];
    let words = line.split_whitespace();
    let mut count = 0;
    for (field, word) in fields.iter_mut().zip(words) {
        *field = word.parse().ok()?;
        count += 1;
    }
    let total = fields.iter().try_fold(0_u64, |sum, field| sum.checked_add(*field))?;
    (count >= 4).then(|| Ticks { idle: fields[3].saturating_add(fields[4]), total })
}

fn clocks(root: &Sysroot) -> Vec<Kept> {
    let all = root.numbered(CPUS, "cpu");
    let every = all.len().div_ceil(MOST_CLOCKS).max(1);
    let spread = all.iter().step_by(every);
    let file = |name: &String| Kept::open(root, format!("{CPUS}/{name}/cpufreq/scaling_cur_freq"));
    spread.filter_map(|(_, name)| file(name)).collect()
}

fn temperatures(root: &Sysroot) -> Vec<Kept> {
    let of = |folder: &str, kind: &str, kinds: &[&str], file: &str| -> Vec<Kept> {
        let names = root.names(folder).into_iter();
        let known = names.filter(|name| {
            let kind = root.text(format!("{folder}/{name}/{kind}"));
            kind.is_some_and(|kind| kinds.contains(&kind.as_str()))
        });
        known.filter_map(|name| Kept::open(root, format!("{folder}/{name}/{file}"))).collect()
    };
    let sensors = of(HWMON, "name", SENSORS, "temp1_input");
    if sensors.is_empty() { of(ZONES, "type", ZONE_TYPES, "temp") } else { sensors }
}

/// The kernel keeps these counts for every CPU; each core's and each package's is taken once.
fn throttles(root: &Sysroot) -> Vec<Kept> {
    let (mut cores, mut packages) = (BTreeSet::new(), BTreeSet::new());
    let mut files = Vec::new();
    for (_, name) in root.numbered(CPUS, "cpu") {
        let id = |file| root.number::<i64>(format!("{CPUS}/{name}/topology/{file}"));
        let count = |file| Kept::open(root, format!("{CPUS}/{name}/thermal_throttle/{file}"));
        let (package, core) = (id("physical_package_id"), id("core_id"));
        if cores.insert((package, core)) {
            files.extend(count("core_throttle_count"));
        }
        if packages.insert(package) {
            files.extend(count("package_throttle_count"));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn utilisation_is_what_was_not_idle_since_the_last_look() {
        let tree = Tree::new(&[("proc/stat", "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n")]);
        let (mut cpu, mut buffer) = (Cpu::open(&tree.root(), &mut Vec::new()), Buffer::new());
        assert_eq!(cpu.utilisation(&mut buffer), None);
        assert_eq!(cpu.utilisation(&mut buffer), None, "no tick has passed");
        // 30 worked, 60 idle, 10 waited for a disk.
        tree.put("proc/stat", "cpu  120 5 54 860 60 0 1 0 7 0\n");
        assert_eq!(cpu.utilisation(&mut buffer), Some(30.0));
        // Idle time that went back is none.
        tree.put("proc/stat", "cpu  140 5 54 850 60 0 1 0 7 0\n");
        assert_eq!(cpu.utilisation(&mut buffer), Some(100.0));
        tree.put("proc/stat", "cpu  nonsense\n");
        assert_eq!(cpu.utilisation(&mut buffer), None);
    }

    #[test]
    fn short_and_strange_lines_say_nothing() {
        assert_eq!(ticks("cpu  1 2 3\n"), None);
        assert_eq!(ticks("cpu0 1 2 3 4\n"), None);
        assert_eq!(ticks(""), None);
        assert_eq!(ticks("cpu  1 2 3 4\n"), Some(Ticks { idle: 4, total: 10 }));
        assert_eq!(ticks(&format!("cpu  {} 1 0 0\n", u64::MAX)), None);
    }

    #[test]
    fn clock_heat_and_throttling() {
        let tree = Tree::new(&[
            ("sys/class/hwmon/hwmon0/name", "nvme\n"),
            ("sys/class/hwmon/hwmon0/temp1_input", "90000\n"),
            ("sys/class/hwmon/hwmon1/name", "coretemp\n"),
            ("sys/class/hwmon/hwmon1/temp1_input", "61000\n"),
            ("sys/class/hwmon/hwmon2/name", "coretemp\n"),
            ("sys/class/hwmon/hwmon2/temp1_input", "64500\n"),
        ]);
        for cpu in 0..4 {
            let put = |file: &str, text: &str| tree.put(&format!("{CPUS}/cpu{cpu}/{file}"), text);
            put("cpufreq/scaling_cur_freq", if cpu < 2 { "3000000\n" } else { "2000000\n" });
            put("topology/physical_package_id", "0\n");
            put("topology/core_id", &format!("{}\n", cpu % 2));
            put("thermal_throttle/core_throttle_count", "3\n");
            put("thermal_throttle/package_throttle_count", "10\n");
        }
        let mut missing = Vec::new();
        let (cpu, mut buffer) = (Cpu::open(&tree.root(), &mut missing), Buffer::new());
        assert_eq!(cpu.clock_mhz(&mut buffer), Some(2500.0));
        assert_eq!(cpu.temperature(&mut buffer), Some(64.5));
        // Two cores of two threads in one package.
        assert_eq!(cpu.throttle_count(&mut buffer), Some(3 + 3 + 10));
        assert_eq!(missing, ["CPU utilisation: no /proc/stat"]);
    }

    #[test]
    fn a_thermal_zone_stands_in_for_a_sensor_and_what_is_not_there_is_named() {
        let tree = Tree::new(&[
            ("sys/class/thermal/thermal_zone0/type", "acpitz\n"),
            ("sys/class/thermal/thermal_zone0/temp", "20000\n"),
            ("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n"),
            ("sys/class/thermal/thermal_zone1/temp", "47000\n"),
        ]);
        let cpu = Cpu::open(&tree.root(), &mut Vec::new());
        assert_eq!(cpu.temperature(&mut Buffer::new()), Some(47.0));
        let mut missing = Vec::new();
        let cpu = Cpu::open(&Tree::new(&[]).root(), &mut missing);
        assert_eq!(missing.len(), 4, "{missing:?}");
        assert_eq!(cpu.clock_mhz(&mut Buffer::new()), None);
        assert_eq!(cpu.throttle_count(&mut Buffer::new()), None);
    }
}
