//! Disks, and the filesystem that holds the current directory.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::memory::chosen;
use super::mounts::{Mount, holding};
use crate::Sysroot;

const BLOCK: &str = "sys/block";
/// The kernel counts a disk's size in these, whatever the disk's own sector is.
const SECTOR_BYTES: u64 = 512;

/// One disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Name, such as `nvme0n1`.
    pub name: String,
    /// Model that the maker states.
    pub model: Option<String>,
    /// Size of the disk.
    pub size_bytes: Option<u64>,
    /// Whether it turns; a solid-state disk does not.
    pub rotational: Option<bool>,
    /// How it is attached: `nvme`, `virtio`, `sata`, `sas`, `usb`, `iscsi`, `mmc` or `xen`.
    pub transport: Option<String>,
    /// The kernel's scheduler of its requests.
    pub scheduler: Option<String>,
}

/// A mounted filesystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Filesystem {
    /// Type, such as `ext4`, `overlay` or `nfs4`.
    #[serde(rename = "type")]
    pub fs_type: String,
    /// What is mounted: a device, a server's export, or a name.
    pub source: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Its size.
    pub total_bytes: Option<u64>,
    /// What a program without privileges may still write.
    pub free_bytes: Option<u64>,
}

/// Size of a filesystem, and what of it an ordinary user may still write.
pub(super) struct Space {
    total_bytes: u64,
    free_bytes: u64,
}

impl Disk {
    pub(super) fn read_all(root: &Sysroot) -> Vec<Self> {
        let names = root.names(BLOCK).into_iter();
        // Loop, RAM and mapped devices have no hardware behind them.
        let disks = names.filter(|name| root.exists(format!("{BLOCK}/{name}/device")));
        disks.map(|name| Self::read(root, name)).collect()
    }

    fn read(root: &Sysroot, name: String) -> Self {
        let file = |file: &str| format!("{BLOCK}/{name}/{file}");
        let sectors = root.number::<u64>(file("size"));
        let place = fs::canonicalize(root.path(format!("{BLOCK}/{name}"))).unwrap_or_default();
        Self {
            model: root.text(file("device/model")),
            size_bytes: sectors.and_then(|sectors| sectors.checked_mul(SECTOR_BYTES)),
            rotational: root.flag(file("queue/rotational")),
            transport: transport(&name, &place.to_string_lossy()).map(str::to_owned),
            scheduler: root.text(file("queue/scheduler")).map(|text| chosen(&text).unwrap_or(text)),
            name,
        }
    }
}

/// SCSI disks are all called `sd`; the way to them through sysfs tells the bus.
fn transport(name: &str, place: &str) -> Option<&'static str> {
    let by_name = [("nvme", "nvme"), ("vd", "virtio"), ("mmcblk", "mmc"), ("xvd", "xen")];
    let by_place = [
        ("/usb", "usb"),
        ("/ata", "sata"),
        ("/session", "iscsi"),
        ("/end_device-", "sas"),
        ("/virtio", "virtio"),
    ];
    let named = by_name.iter().find(|(prefix, _)| name.starts_with(prefix));
    named.or_else(|| by_place.iter().find(|(part, _)| place.contains(part))).map(|(_, bus)| *bus)
}

impl Filesystem {
    pub(super) fn of(mounts: &[Mount], directory: Option<&Path>) -> Option<Self> {
        let mount = holding(mounts, directory?)?;
        Some(Self {
            fs_type: mount.fs_type.clone(),
            source: mount.source.clone(),
            mount_point: mount.point.clone(),
            total_bytes: None,
            free_bytes: None,
        })
    }

    pub(super) fn set_space(&mut self, space: &Space) {
        self.total_bytes = Some(space.total_bytes);
        self.free_bytes = Some(space.free_bytes);
    }
}

pub(super) fn space(directory: &Path) -> Option<Space> {
    let stat = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some(Space { total_bytes: bytes(stat.f_blocks), free_bytes: bytes(stat.f_bavail) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn a_disk_among_virtual_devices() {
        let tree = Tree::new(&[
            ("sys/block/loop0/size", "8\n"),
            ("sys/block/nvme0n1/size", "1875385008\n"),
            ("sys/block/nvme0n1/device/model", "SAMSUNG MZQL2960  \n"),
            ("sys/block/nvme0n1/queue/rotational", "0\n"),
            ("sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline\n"),
        ]);
        let wanted = Disk {
            name: "nvme0n1".into(),
            model: Some("SAMSUNG MZQL2960".into()),
            size_bytes: Some(960_197_124_096),
            rotational: Some(false),
            transport: Some("nvme".into()),
            scheduler: Some("none".into()),
        };
        assert_eq!(Disk::read_all(&tree.root()), [wanted]);
    }

    #[test]
    fn transports() {
        let table = [
            ("nvme1n1", "", Some("nvme")),
            ("vda", "", Some("virtio")),
            (
                "sda",
                "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/block/sda",
                Some("sata"),
            ),
            ("sdb", "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/host6/block/sdb", Some("usb")),
            ("sdc", "/sys/devices/platform/host3/session1/target3:0:0/block/sdc", Some("iscsi")),
            ("sdd", "/sys/devices/pci0000:00/host1/port-1:0/end_device-1:0/block/sdd", Some("sas")),
            ("sde", "/sys/devices/vmbus/host2/block/sde", None),
        ];
        for (name, place, wanted) in table {
            assert_eq!(transport(name, place), wanted, "{name}");
        }
    }
}
