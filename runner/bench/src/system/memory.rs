//! Main memory, swap, huge pages, and how memory and CPUs are spread over NUMA nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Sysroot;

const NODES: &str = "sys/devices/system/node";

/// Main memory, swap and huge pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Usable main memory.
    pub total_bytes: Option<u64>,
    /// Memory that a new program could take without swapping.
    pub available_bytes: Option<u64>,
    /// Swap space.
    pub swap_total_bytes: Option<u64>,
    /// Swap space not in use.
    pub swap_free_bytes: Option<u64>,
    /// Size of one reserved huge page.
    pub huge_page_bytes: Option<u64>,
    /// Number of reserved huge pages.
    pub huge_pages_total: Option<u64>,
    /// Number of reserved huge pages not in use.
    pub huge_pages_free: Option<u64>,
    /// When the kernel uses huge pages by itself: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NumaNode {
    /// Number of the node.
    pub id: u32,
    /// Its CPUs as a list such as `0-3,8`; null for a node without any.
    pub cpus: Option<String>,
    /// Its memory.
    pub memory_total_bytes: Option<u64>,
    /// Its memory not in use.
    pub memory_free_bytes: Option<u64>,
    /// Relative cost of access to each node, in order of their number; 10 is local.
    pub distances: Vec<u32>,
}

impl Memory {
    pub(super) fn read(root: &Sysroot) -> Self {
        let meminfo = root.text("proc/meminfo").unwrap_or_default();
        let value = |key| field(&meminfo, key);
        Self {
            total_bytes: value("MemTotal"),
            available_bytes: value("MemAvailable"),
            swap_total_bytes: value("SwapTotal"),
            swap_free_bytes: value("SwapFree"),
            huge_page_bytes: value("Hugepagesize"),
            huge_pages_total: value("HugePages_Total"),
            huge_pages_free: value("HugePages_Free"),
            transparent_huge_pages: root
                .text("sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| chosen(&text)),
        }
    }
}

impl NumaNode {
    pub(super) fn read_all(root: &Sysroot) -> Vec<Self> {
        let nodes = root.numbered(NODES, "node").into_iter();
        nodes.map(|(id, name)| Self::read(root, id, &format!("{NODES}/{name}"))).collect()
    }

    fn read(root: &Sysroot, id: u32, directory: &str) -> Self {
        let meminfo = root.text(format!("{directory}/meminfo")).unwrap_or_default();
        let distances = root.text(format!("{directory}/distance")).unwrap_or_default();
        Self {
            id,
            cpus: root.text(format!("{directory}/cpulist")),
            memory_total_bytes: field(&meminfo, "MemTotal"),
            memory_free_bytes: field(&meminfo, "MemFree"),
            distances: distances.split_whitespace().filter_map(|d| d.parse().ok()).collect(),
        }
    }
}

/// A field of `/proc/meminfo` or of a node's `meminfo`, in bytes where it has the unit kB. The
/// node's lines begin with `Node 0`.
pub(crate) fn field(meminfo: &str, key: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.split_whitespace().next_back() != Some(key) {
            return None;
        }
        let mut words = value.split_whitespace();
        let number: u64 = words.next()?.parse().ok()?;
        number.checked_mul(if words.next() == Some("kB") { 1024 } else { 1 })
    })
}

/// The bracketed word of a list such as `always [madvise] never`.
pub(super) fn chosen(choices: &str) -> Option<String> {
    let (_, rest) = choices.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn meminfo_and_huge_pages() {
        let meminfo = "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:   900 kB\n\
                       SwapTotal:      0 kB\nHugePages_Total:       4\nHugePages_Free:  3\n\
                       Hugepagesize:    2048 kB\nSwapFree: lots kB\n";
        let tree = Tree::new(&[
            ("proc/meminfo", meminfo),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ]);
        let wanted = Memory {
            total_bytes: Some(1_024_000),
            available_bytes: Some(921_600),
            swap_total_bytes: Some(0),
            swap_free_bytes: None,
            huge_page_bytes: Some(2 << 20),
            huge_pages_total: Some(4),
            huge_pages_free: Some(3),
            transparent_huge_pages: Some("madvise".into()),
        };
        assert_eq!(Memory::read(&tree.root()), wanted);
    }

    #[test]
    fn numa_nodes_one_of_them_without_cpus() {
        let tree = Tree::new(&[
            ("sys/devices/system/node/node0/cpulist", "0-47,96-143\n"),
            (
                "sys/devices/system/node/node0/meminfo",
                "Node 0 MemTotal:  2048 kB\nNode 0 MemFree: 1 kB",
            ),
            ("sys/devices/system/node/node0/distance", "10 21\n"),
            ("sys/devices/system/node/node1/cpulist", "\n"),
            ("sys/devices/system/node/node1/distance", "21 10\n"),
            ("sys/devices/system/node/online", "0-1\n"),
        ]);
        let nodes = NumaNode::read_all(&tree.root());
        assert_eq!(nodes.len(), 2);
        assert_eq!(nodes[0].cpus.as_deref(), Some("0-47,96-143"));
        assert_eq!(nodes[0].memory_total_bytes, Some(2 << 20));
        assert_eq!(nodes[0].distances, [10, 21]);
        assert_eq!((nodes[1].id, &nodes[1].cpus), (1, &None));
    }
}
