//! Whether the machine has what the run needs, before anything is computed. What is there is read
//! first; a pure function holds it against what was asked.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::net::lookup_host;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};
use warpforge_bench::Sysroot;
use warpforge_bench::system::{GpuVendor, System};
use warpforge_operator_api::Reason;
use warpforge_operator_api::contract::{Rank, RankMap};
use warpforge_operator_api::workers::Vendor;

use crate::ending::Failure;

/// Bundles of the smallest runs take tens of megabytes; with less than this even those fail.
const LEAST_DISK: u64 = 1 << 30;
/// Buffers for transfers between workers are of this order.
const LEAST_MEMLOCK: u64 = 1 << 30;
/// The bit of `CAP_IPC_LOCK`, with which the limit does not hold.
const IPC_LOCK: u32 = 14;
/// How long the look at the machine may take; a driver may hang.
const LOOK: Duration = Duration::from_mins(1);

/// What is asked of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    pub vendor: Vendor,
    pub gpus: u32,
    pub rdma: bool,
}

/// What the machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// GPUs of the vendor that can be reached; absent if looking for them failed.
    pub gpus: Option<u32>,
    pub rdma_devices: usize,
    /// Device files through which a process reaches them.
    pub rdma_files: usize,
    /// Bytes; absent for no limit.
    pub memlock: Option<u64>,
    pub free_disk: u64,
}

/// Holds what is there against what is needed.
pub fn judge(needs: Needs, facts: &Facts) -> Result<(), Failure> {
    let fail = |reason, message: String| Err(Failure::new(reason, message));
    if needs.vendor != Vendor::Cpu && needs.gpus > 0 {
        match facts.gpus {
            None | Some(0) => {
                let message = format!("no {:?} GPU can be reached", needs.vendor);
                return fail(Reason::DriverMissing, message);
            }
            Some(found) if found != needs.gpus => {
                let message = format!("{found} GPUs can be reached, and not {}", needs.gpus);
                return fail(Reason::GpuCountDiffers, message);
            }
            Some(_) => {}
        }
    }
    if needs.rdma && (facts.rdma_devices == 0 || facts.rdma_files == 0) {
        let (devices, files) = (facts.rdma_devices, facts.rdma_files);
        let message = format!("{devices} RDMA devices, {files} of their files in /dev/infiniband");
        return fail(Reason::RdmaMissing, message);
    }
    if let Some(limit) = facts.memlock.filter(|limit| needs.rdma && *limit < LEAST_MEMLOCK) {
        let message = format!("{limit} bytes may be locked, and RDMA needs {LEAST_MEMLOCK}");
        return fail(Reason::MemlockTooLow, message);
    }
    if facts.free_disk < LEAST_DISK {
        let message = format!("{} bytes are free, and {LEAST_DISK} are needed", facts.free_disk);
        return fail(Reason::DiskTooSmall, message);
    }
    Ok(())
}

/// Reads what the machine has. GPUs are looked for in a child, as a driver may hang or crash.
pub async fn look(program: &Path, folder: &Path, needs: Needs) -> io::Result<Facts> {
    let root = Sysroot::host();
    let disk = rustix::fs::statvfs(folder)?;
    let gpus = if needs.vendor == Vendor::Cpu { Some(0) } else { gpus(program, needs).await };
    let files = root.names("/dev/infiniband");
    Ok(Facts {
        gpus,
        rdma_devices: root.names("/sys/class/infiniband").len(),
        rdma_files: files.iter().filter(|name| name.starts_with("uverbs")).count(),
        memlock: memlock(&root),
        free_disk: disk.f_bavail.saturating_mul(disk.f_frsize),
    })
}

async fn gpus(program: &Path, needs: Needs) -> Option<u32> {
    let mut command = Command::new(program);
    command.args(["system", "--json"]).kill_on_drop(true);
    let output = timeout(LOOK, command.output()).await.ok()?.ok()?;
    let system: System = serde_json::from_slice(&output.stdout).ok()?;
    let vendor = match needs.vendor {
        Vendor::Nvidia => GpuVendor::Nvidia,
        Vendor::Amd => GpuVendor::Amd,
        Vendor::Cpu => return Some(0),
    };
    let ours = system.gpus.iter().filter(|gpu| gpu.vendor == vendor && gpu.accessible);
    Some(ours.count() as u32)
}

fn memlock(root: &Sysroot) -> Option<u64> {
    let status = root.text("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    if effective.is_some_and(|bits| bits & (1 << IPC_LOCK) != 0) {
        return None;
    }
    getrlimit(Resource::Memlock).current
}

/// Waits until every peer has an address. Names appear as pods are started, so they may be late.
pub async fn find_peers(ranks: &RankMap, own: &Rank, limit: Duration) -> Result<(), Failure> {
    let until = Instant::now() + limit;
    for peer in ranks.ranks.iter().filter(|peer| peer.rank != own.rank) {
        loop {
            let found = lookup_host((peer.host.as_str(), ranks.port)).await;
            if found.is_ok_and(|mut addresses| addresses.next().is_some()) {
                break;
            }
            if Instant::now() >= until {
                let message = format!("{} has no address", peer.host);
                return Err(Failure::new(Reason::PeersNotFound, message));
            }
            sleep(Duration::from_millis(500)).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Facts = Facts {
        gpus: Some(2),
        rdma_devices: 1,
        rdma_files: 1,
        memlock: None,
        free_disk: LEAST_DISK,
    };
    const ALL: Needs = Needs { vendor: Vendor::Nvidia, gpus: 2, rdma: true };

    fn reason(needs: Needs, facts: &Facts) -> Option<Reason> {
        judge(needs, facts).err().map(|failure| failure.reason)
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(reason(ALL, &GOOD), None);
        for (facts, named) in [
            (Facts { gpus: None, ..GOOD }, Reason::DriverMissing),
            (Facts { gpus: Some(0), ..GOOD }, Reason::DriverMissing),
            (Facts { gpus: Some(1), ..GOOD }, Reason::GpuCountDiffers),
            (Facts { rdma_devices: 0, ..GOOD }, Reason::RdmaMissing),
            (Facts { rdma_files: 0, ..GOOD }, Reason::RdmaMissing),
            (Facts { memlock: Some(65536), ..GOOD }, Reason::MemlockTooLow),
            (Facts { free_disk: LEAST_DISK - 1, ..GOOD }, Reason::DiskTooSmall),
        ] {
            assert_eq!(reason(ALL, &facts), Some(named), "{facts:?}");
        }
    }

    #[test]
    fn what_is_not_asked_for_may_be_missing() {
        let needs = Needs { vendor: Vendor::Cpu, gpus: 0, rdma: false };
        let bare = Facts { gpus: None, rdma_devices: 0, rdma_files: 0, memlock: Some(0), ..GOOD };
        assert_eq!(reason(needs, &bare), None);
    }
}
