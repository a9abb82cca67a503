//! Main memory: the machine's, or the control group's where that allows less.

use super::kept::{Buffer, Kept};
use super::record::{MemoryOf, percent};
use crate::Sysroot;
use crate::system::{self, MemoryGroup, meminfo_field};

/// Of a control group, what it takes and how much of that are caches that can be dropped.
#[derive(Debug)]
struct Group {
    usage: Kept,
    stat: Option<Kept>,
    inactive: &'static str,
    limit: u64,
}

#[derive(Debug)]
pub(super) struct Memory {
    meminfo: Option<Kept>,
    group: Option<Group>,
}

/// What there is, what is taken of it in percent, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usage {
    pub total: Option<u64>,
    pub percent: Option<f64>,
    pub of: MemoryOf,
}

impl Memory {
    pub fn open(root: &Sysroot, missing: &mut Vec<String>) -> Self {
        let meminfo = Kept::open(root, "proc/meminfo");
        if meminfo.is_none() {
            missing.push("memory: no /proc/meminfo".to_owned());
        }
        let total = meminfo
            .as_ref()
            .and_then(|file| meminfo_field(file.text(&mut Buffer::new())?, "MemTotal"));
        let binds = |group: &MemoryGroup| total.is_none_or(|total| group.limit < total);
        let group = system::memory_group(root).filter(binds);
        Self { meminfo, group: group.and_then(|group| Group::open(root, &group)) }
    }

    pub fn usage(&self, buffer: &mut Buffer) -> Usage {
        if let Some(group) = &self.group {
            let taken = group.taken(buffer).map(|taken| taken as f64);
            let percent = taken.and_then(|taken| percent(taken, group.limit as f64));
            return Usage { total: Some(group.limit), percent, of: MemoryOf::ControlGroup };
        }
        let text = self.meminfo.as_ref().and_then(|file| file.text(buffer));
        let field = |key| meminfo_field(text?, key);
        let (total, available) = (field("MemTotal"), field("MemAvailable"));
        let percent = total.zip(available).and_then(|(total, available)| {
            percent(total.saturating_sub(available) as f64, total as f64)
        });
        Usage { total, percent, of: MemoryOf::Machine }
    }
}

impl Group {
    fn open(root: &Sysroot, group: &MemoryGroup) -> Option<Self> {
        Some(Self {
            usage: Kept::open(root, group.directory.join(group.usage_file()))?,
            stat: Kept::open(root, group.directory.join("memory.stat")),
            inactive: group.inactive_key(),
            limit: group.limit,
        })
    }

    fn taken(&self, buffer: &mut Buffer) -> Option<u64> {
        let usage: u64 = self.usage.number(buffer)?;
        let stat = self.stat.as_ref().and_then(|stat| stat.text(buffer)).unwrap_or_default();
        let inactive = stat.lines().find_map(|line| {
            line.strip_prefix(self.inactive)?.strip_prefix(' ')?.trim().parse::<u64>().ok()
        });
        Some(usage.saturating_sub(inactive.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    const MEMINFO: &str = "MemTotal:       1000 kB\nMemAvailable:   750 kB\n";
    const MOUNT: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    fn usage(files: &[(&str, &str)]) -> (Usage, Vec<String>) {
        let (tree, mut missing) = (Tree::new(files), Vec::new());
        (Memory::open(&tree.root(), &mut missing).usage(&mut Buffer::new()), missing)
    }

    #[test]
    fn of_a_machine() {
        let (found, missing) = usage(&[("proc/meminfo", MEMINFO)]);
        let wanted = Usage { total: Some(1_024_000), percent: Some(25.0), of: MemoryOf::Machine };
        assert_eq!((found, missing.len()), (wanted, 0));
        let (found, missing) = usage(&[]);
        assert_eq!((found.total, found.percent), (None, None));
        assert_eq!(missing, ["memory: no /proc/meminfo"]);
    }

    #[test]
    fn of_a_control_group_that_allows_less() {
        let (found, _) = usage(&[
            ("proc/meminfo", MEMINFO),
            ("proc/self/mountinfo", MOUNT),
            ("proc/self/cgroup", "0::/pod/main\n"),
            ("sys/fs/cgroup/pod/main/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/memory.max", "500000\n"),
            ("sys/fs/cgroup/pod/memory.current", "300000\n"),
            ("sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 50000\n"),
        ]);
        let wanted =
            Usage { total: Some(500_000), percent: Some(50.0), of: MemoryOf::ControlGroup };
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_control_group_that_allows_more_is_no_limit() {
        let (found, _) = usage(&[
            ("proc/meminfo", MEMINFO),
            ("proc/self/mountinfo", MOUNT),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "99000000\n"),
            ("sys/fs/cgroup/memory.current", "1\n"),
        ]);
        assert_eq!(found.of, MemoryOf::Machine);
    }

    #[test]
    fn version_1_counts_the_groups_below() {
        let (found, _) = usage(&[
            ("proc/meminfo", MEMINFO),
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n\
                 35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n",
            ),
            ("proc/self/cgroup", "4:memory:/a\n1:cpu:/\n"),
            ("cg/memory/a/memory.limit_in_bytes", "400000\n"),
            ("cg/memory/a/memory.usage_in_bytes", "250000\n"),
            ("cg/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 150000\n"),
        ]);
        assert_eq!((found.percent, found.of), (Some(25.0), MemoryOf::ControlGroup));
    }
}
