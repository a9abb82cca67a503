//! Whether this process runs in a container, and what says so. There is no certain sign, so the
//! evidence is named with the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Surroundings;
use super::mounts::Mount;
use crate::Sysroot;

/// The container this process runs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Container {
    /// What runs the container; `none` outside one.
    pub runtime: Runtime,
    /// What says so; null outside a container.
    pub evidence: Option<String>,
}

/// What runs a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// Not in a container.
    None,
    Docker,
    Podman,
    Containerd,
    Crio,
    Lxc,
    SystemdNspawn,
    /// In a container of an unknown kind.
    Other,
}

/// Directory names in control groups and in mount sources that give a runtime away.
const TRACES: &[(&str, Runtime)] = &[
    ("libpod", Runtime::Podman),
    ("crio", Runtime::Crio),
    ("containers/storage", Runtime::Podman),
    ("containerd", Runtime::Containerd),
    ("docker", Runtime::Docker),
    ("lxc", Runtime::Lxc),
    ("kubepods", Runtime::Other),
];

impl Container {
    pub(super) fn read(root: &Sysroot, surroundings: &Surroundings, mounts: &[Mount]) -> Self {
        let found = by_marker(root)
            .or_else(|| by_variable(root, surroundings))
            .or_else(|| by_cgroup(root))
            .or_else(|| by_mounts(mounts));
        match found {
            Some((runtime, evidence)) => Self { runtime, evidence: Some(evidence) },
            None => Self { runtime: Runtime::None, evidence: None },
        }
    }
}

type Sign = Option<(Runtime, String)>;

fn by_marker(root: &Sysroot) -> Sign {
    let markers = [("/run/.containerenv", Runtime::Podman), ("/.dockerenv", Runtime::Docker)];
    let (file, runtime) = markers.into_iter().find(|(file, _)| root.exists(file))?;
    Some((runtime, format!("{file} exists")))
}

/// systemd's convention: the variable `container`, or a file with its value.
fn by_variable(root: &Sysroot, surroundings: &Surroundings) -> Sign {
    let variable = surroundings.variable("container").map(str::to_owned);
    let from_variable = variable.map(|kind| (kind, "the variable `container`"));
    let (kind, place) = from_variable
        .or_else(|| root.text("run/systemd/container").map(|k| (k, "/run/systemd/container")))?;
    let runtime = match kind.as_str() {
        "docker" => Runtime::Docker,
        "podman" => Runtime::Podman,
        "lxc" | "lxc-libvirt" => Runtime::Lxc,
        "systemd-nspawn" => Runtime::SystemdNspawn,
        _ => Runtime::Other,
    };
    Some((runtime, format!("{place} says {kind}")))
}

fn by_cgroup(root: &Sysroot) -> Sign {
    let text = root.text("proc/self/cgroup")?;
    // The engines' own services (`/system.slice/docker.service`) are not containers.
    let groups = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let groups = groups.filter(|path| !path.ends_with(".service"));
    groups.into_iter().find_map(|path| {
        let (_, runtime) = TRACES.iter().find(|(trace, _)| path.contains(trace))?;
        Some((*runtime, format!("control group {path}")))
    })
}

/// In a namespace of its own a control group shows nothing, but the root filesystem's layers do.
fn by_mounts(mounts: &[Mount]) -> Sign {
    let top = mounts.iter().rfind(|mount| mount.point.as_os_str() == "/")?;
    if top.fs_type != "overlay" {
        return None;
    }
    // Live systems boot from overlays too; only a runtime's own directory is a sign.
    let (trace, runtime) = TRACES.iter().find(|(trace, _)| top.super_options.contains(trace))?;
    Some((*runtime, format!("the root filesystem is an overlay of {trace}'s")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;
    use crate::system::mounts;

    fn check(files: &[(&str, &str)], variable: Option<&str>, runtime: Runtime, evidence: &str) {
        let tree = Tree::new(files);
        let mut surroundings = Surroundings::default();
        if let Some(value) = variable {
            surroundings.environment.insert("container".into(), value.into());
        }
        let found = Container::read(&tree.root(), &surroundings, &mounts::read(&tree.root()));
        let wanted = (!evidence.is_empty()).then(|| evidence.to_owned());
        assert_eq!(found, Container { runtime, evidence: wanted });
    }

    #[test]
    fn signs() {
        check(&[("etc/hostname", "x")], None, Runtime::None, "");
        check(&[(".dockerenv", "")], None, Runtime::Docker, "/.dockerenv exists");
        check(&[("run/.containerenv", "")], None, Runtime::Podman, "/run/.containerenv exists");
        check(&[], Some("lxc"), Runtime::Lxc, "the variable `container` says lxc");
        check(
            &[("run/systemd/container", "systemd-nspawn\n")],
            None,
            Runtime::SystemdNspawn,
            "/run/systemd/container says systemd-nspawn",
        );
        check(
            &[("proc/self/cgroup", "0::/system.slice/docker-0a1b.scope\n")],
            None,
            Runtime::Docker,
            "control group /system.slice/docker-0a1b.scope",
        );
        check(
            &[("proc/self/cgroup", "0::/system.slice/docker.service\n")],
            None,
            Runtime::None,
            "",
        );
        check(
            &[("proc/self/cgroup", "4:memory:/kubepods/pod1/cri-containerd-0a1b.scope\n")],
            None,
            Runtime::Containerd,
            "control group /kubepods/pod1/cri-containerd-0a1b.scope",
        );
    }

    #[test]
    fn layers_of_the_root_filesystem() {
        let overlay = "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/var/lib/containerd/snap/1/fs";
        let evidence = "the root filesystem is an overlay of containerd's";
        check(&[("proc/self/mountinfo", overlay)], None, Runtime::Containerd, evidence);
        let live = "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/run/live/rootfs";
        check(&[("proc/self/mountinfo", live)], None, Runtime::None, "");
        let disk = "1 0 254:0 / / rw - ext4 /dev/vda rw";
        check(&[("proc/self/mountinfo", disk)], None, Runtime::None, "");
    }
}
