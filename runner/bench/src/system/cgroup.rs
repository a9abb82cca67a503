//! The control group that limits this process, of either version. A limit set on any group above
//! binds too, so the smallest one on the way up counts.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mounts::{self, Mount};
use crate::Sysroot;

/// Version 1 says "no limit" with the largest multiple of a page that fits a signed number.
const UNLIMITED: u64 = 1 << 62;

/// The control group this process is held to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cgroup {
    /// Which hierarchy the CPU and memory limits come from; null without control groups.
    pub version: Option<CgroupVersion>,
    /// How many CPUs' time this process may use; null for no limit.
    pub cpu_limit_cpus: Option<f64>,
    /// How much memory this process may use; null for no limit.
    pub memory_limit_bytes: Option<u64>,
}

/// Version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CgroupVersion {
    V1,
    V2,
}

impl Cgroup {
    pub(super) fn read(root: &Sysroot, mounts: &[Mount]) -> Self {
        let membership = root.text("proc/self/cgroup").unwrap_or_default();
        let v1 = |controller| directories_v1(mounts, &membership, controller);
        // A hybrid machine mounts an empty version 2 beside the version 1 that has the limits.
        if let (Some(cpu), Some(memory)) = (v1("cpu"), v1("memory")) {
            return Self {
                version: Some(CgroupVersion::V1),
                cpu_limit_cpus: smallest(&cpu, |group| cpu_v1(root, group)),
                memory_limit_bytes: smallest(&memory, |group| memory_v1(root, group)),
            };
        }
        let Some(groups) = directories_v2(mounts, &membership) else {
            return Self { version: None, cpu_limit_cpus: None, memory_limit_bytes: None };
        };
        Self {
            version: Some(CgroupVersion::V2),
            cpu_limit_cpus: smallest(&groups, |group| cpu_v2(&root.text(group.join("cpu.max"))?)),
            memory_limit_bytes: smallest(&groups, |group| root.number(group.join("memory.max"))),
        }
    }
}

/// The control group whose limit of memory binds this process.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    pub directory: PathBuf,
    pub limit: u64,
    version: CgroupVersion,
}

impl MemoryGroup {
    /// The file that says how much the group takes, caches included.
    pub(crate) fn usage_file(&self) -> &'static str {
        match self.version {
            CgroupVersion::V1 => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        }
    }

    /// The line of `memory.stat` with the caches that can be dropped, of the groups below as well.
    pub(crate) fn inactive_key(&self) -> &'static str {
        match self.version {
            CgroupVersion::V1 => "total_inactive_file",
            CgroupVersion::V2 => "inactive_file",
        }
    }
}

/// The group with the smallest limit of memory on the way up, if any has one.
pub(crate) fn memory_group(root: &Sysroot) -> Option<MemoryGroup> {
    let (mounts, membership) = (mounts::read(root), root.text("proc/self/cgroup"));
    let membership = membership.unwrap_or_default();
    let v1 = directories_v1(&mounts, &membership, "memory");
    let version = if v1.is_some() { CgroupVersion::V1 } else { CgroupVersion::V2 };
    let limit = |group: &Path| match version {
        CgroupVersion::V1 => memory_v1(root, group),
        CgroupVersion::V2 => root.number(group.join("memory.max")),
    };
    let groups = v1.or_else(|| directories_v2(&mounts, &membership))?;
    let limited = groups.into_iter().filter_map(|directory| Some((limit(&directory)?, directory)));
    let (limit, directory) = limited.min_by_key(|(limit, _)| *limit)?;
    Some(MemoryGroup { directory, limit, version })
}

fn smallest<T: PartialOrd>(groups: &[PathBuf], limit: impl Fn(&Path) -> Option<T>) -> Option<T> {
    let limits = groups.iter().filter_map(|group| limit(group));
    limits.reduce(|a, b| if b < a { b } else { a })
}

/// `150000 100000` is the time and the period in microseconds; `max` is no limit.
fn cpu_v2(cpu_max: &str) -> Option<f64> {
    let (quota, period) = cpu_max.split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

fn cpu_v1(root: &Sysroot, group: &Path) -> Option<f64> {
    let quota = root.number::<f64>(group.join("cpu.cfs_quota_us"))?;
    ratio(quota, root.number(group.join("cpu.cfs_period_us"))?)
}

fn ratio(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn memory_v1(root: &Sysroot, group: &Path) -> Option<u64> {
    root.number(group.join("memory.limit_in_bytes")).filter(|limit| *limit < UNLIMITED)
}

fn directories_v1(mounts: &[Mount], membership: &str, controller: &str) -> Option<Vec<PathBuf>> {
    let has = |list: &str| list.split(',').any(|word| word == controller);
    let mount = mounts.iter().find(|m| m.fs_type == "cgroup" && has(&m.super_options))?;
    let group = membership.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        has(controllers).then_some(path)
    });
    Some(way_up(mount, group))
}

fn directories_v2(mounts: &[Mount], membership: &str) -> Option<Vec<PathBuf>> {
    let mount = mounts.iter().find(|mount| mount.fs_type == "cgroup2")?;
    Some(way_up(mount, membership.lines().find_map(|line| line.strip_prefix("0::"))))
}

/// The group's directory and all above it up to the mount. The mount may show only a part of the
/// hierarchy, and names below it are relative to that part.
fn way_up(mount: &Mount, group: Option<&str>) -> Vec<PathBuf> {
    let group = Path::new(group.unwrap_or("/"));
    let below = group.strip_prefix(&mount.root).or_else(|_| group.strip_prefix("/"));
    let directory = mount.point.join(below.unwrap_or(Path::new("")));
    let inside = directory.ancestors().take_while(|path| path.starts_with(&mount.point));
    inside.map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    fn read(files: &[(&str, &str)]) -> Cgroup {
        let root = Tree::new(files);
        Cgroup::read(&root.root(), &mounts::read(&root.root()))
    }

    const V2_MOUNT: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    const V1_MOUNTS: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn version_2_takes_the_smallest_limit_on_the_way_up() {
        let cgroup = read(&[
            ("proc/self/mountinfo", V2_MOUNT),
            ("proc/self/cgroup", "0::/kubepods.slice/pod1/main\n"),
            ("sys/fs/cgroup/kubepods.slice/pod1/main/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/kubepods.slice/pod1/main/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/kubepods.slice/pod1/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/kubepods.slice/pod1/memory.max", "2147483648\n"),
            ("sys/fs/cgroup/kubepods.slice/memory.max", "max\n"),
        ]);
        assert_eq!(cgroup.version, Some(CgroupVersion::V2));
        assert_eq!(cgroup.cpu_limit_cpus, Some(1.5));
        assert_eq!(cgroup.memory_limit_bytes, Some(2 << 30));
    }

    #[test]
    fn version_1_and_a_mount_that_shows_a_part() {
        let cgroup = read(&[
            ("proc/self/mountinfo", V1_MOUNTS),
            ("proc/self/cgroup", "4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "200000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ]);
        assert_eq!(cgroup.version, Some(CgroupVersion::V1));
        assert_eq!(cgroup.cpu_limit_cpus, Some(2.0));
        assert_eq!(cgroup.memory_limit_bytes, Some(512 << 20));
    }

    #[test]
    fn no_limit_and_no_control_groups() {
        let unlimited = read(&[
            ("proc/self/mountinfo", V1_MOUNTS),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(unlimited.version, Some(CgroupVersion::V1));
        assert_eq!((unlimited.cpu_limit_cpus, unlimited.memory_limit_bytes), (None, None));
        assert_eq!(read(&[]).version, None);
    }
}
