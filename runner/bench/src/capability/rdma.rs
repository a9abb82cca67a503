//! The RDMA probe: device nodes are opened, then every device through libibverbs, and UCX loaded.

use std::fs::OpenOptions;

use super::{Finding, counted};
use crate::Sysroot;
use crate::dynlib::{self, Fault};
use crate::system::RdmaDevice;

const NODES: &str = "dev/infiniband";
const PASS_IN: &str = "in a container pass --device=/dev/infiniband --ulimit memlock=-1, in \
                       Kubernetes request the RDMA device plugin's resource (such as rdma/hca)";

/// What the two libraries answer.
struct Ask<V, U> {
    /// Names of the devices that libibverbs could open.
    verbs: V,
    /// UCX's version.
    ucx: U,
}

/// Whether collectives can go over RDMA here.
pub fn rdma() -> Finding {
    judge(&Sysroot::host(), Ask { verbs: dynlib::verbs, ucx: dynlib::ucx_version })
}

fn judge<V, U>(root: &Sysroot, ask: Ask<V, U>) -> Finding
where
    V: FnOnce() -> Result<Vec<String>, Fault>,
    U: FnOnce() -> Result<String, Fault>,
{
    let devices = RdmaDevice::read_all(root);
    let found = devices_usable(root, &devices)
        .and_then(|()| opened_by_verbs((ask.verbs)()))
        .and_then(|opened| Ok((opened, loaded_ucx((ask.ucx)())?)));
    match found {
        Ok((opened, ucx)) => Finding::works(format!(
            "{}; UCX {ucx}; WarpForge's RDMA path is compiled, but has never run on such hardware \
             so far",
            counted("RDMA device", &opened)
        )),
        Err(finding) => finding,
    }
}

fn devices_usable(root: &Sysroot, devices: &[RdmaDevice]) -> Result<(), Finding> {
    let Some(device) = devices.first() else {
        return Err(Finding::missing(
            "no RDMA device in /sys/class/infiniband",
            format!(
                "on a machine with an InfiniBand or RoCE adapter load its driver (such as \
                 `modprobe mlx5_ib`); {PASS_IN}"
            ),
        ));
    };
    node_opens(root, &device.name)?;
    if devices.iter().any(RdmaDevice::is_active) {
        return Ok(());
    }
    Err(Finding::broken(
        format!("RDMA device {} has no active port", device.name),
        "connect the cable and bring the link up; InfiniBand also needs a subnet manager \
         (`systemctl start opensm` on one host); see `rdma link`",
    ))
}

fn node_opens(root: &Sysroot, device: &str) -> Result<(), Finding> {
    let nodes = root.numbered(NODES, "uverbs");
    if nodes.is_empty() {
        return Err(Finding::missing(
            format!("RDMA device {device} is present, but /dev/infiniband/uverbs* is absent"),
            format!("`modprobe ib_uverbs` on the host; {PASS_IN}"),
        ));
    }
    let open = |name: &String| {
        let path = root.path(format!("{NODES}/{name}"));
        OpenOptions::new().read(true).write(true).open(path).map(drop)
    };
    // A container may have been given one device of several.
    let mut outcomes = nodes.iter().map(|(_, name)| (name, open(name)));
    let Some((name, Err(error))) = outcomes.next() else { return Ok(()) };
    if outcomes.any(|(_, outcome)| outcome.is_ok()) {
        return Ok(());
    }
    Err(Finding::broken(
        format!("/dev/infiniband/{name} cannot be opened: {error}"),
        format!("give the user access (`sudo chmod a+rw /dev/infiniband/uverbs*`); {PASS_IN}"),
    ))
}

fn opened_by_verbs(answer: Result<Vec<String>, Fault>) -> Result<Vec<String>, Finding> {
    match answer {
        Ok(opened) if opened.is_empty() => Err(Finding::broken(
            "libibverbs could open none of the RDMA devices",
            "install the adapter's provider (`apt install ibverbs-providers`), then see `ibv_devinfo`",
        )),
        Ok(opened) => Ok(opened),
        Err(fault @ Fault::Absent(_)) => Err(Finding::missing(
            fault.to_string(),
            "install rdma-core's libraries: `apt install libibverbs1 ibverbs-providers`",
        )),
        Err(fault) => Err(Finding::broken(
            fault.to_string(),
            "see `ibv_devinfo`; reinstall rdma-core: `apt install --reinstall libibverbs1`",
        )),
    }
}

fn loaded_ucx(answer: Result<String, Fault>) -> Result<String, Finding> {
    answer.map_err(|fault| match fault {
        Fault::Absent(_) => Finding::missing(
            format!("RDMA devices open, but {fault}: no UCX"),
            "install UCX: `apt install libucx0`",
        ),
        _ => Finding::broken(fault.to_string(), "reinstall UCX: `apt install --reinstall libucx0`"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{Status, check};
    use crate::fixture::Tree;

    const DEVICE: &str = "sys/class/infiniband/mlx5_0";

    fn tree(state: &str, node: bool) -> Tree {
        let tree = Tree::new(&[]);
        tree.put(&format!("{DEVICE}/ports/1/state"), state);
        if node {
            tree.put("dev/infiniband/uverbs0", "");
        }
        tree
    }

    fn absent<T>(library: &'static str) -> impl FnOnce() -> Result<T, Fault> {
        move || Err(Fault::Absent(library.into()))
    }

    fn opened() -> impl FnOnce() -> Result<Vec<String>, Fault> {
        || Ok(vec!["mlx5_0".into()])
    }

    fn version() -> impl FnOnce() -> Result<String, Fault> {
        || Ok("1.18.0".into())
    }

    #[test]
    fn no_device() {
        check(
            &judge(&Tree::new(&[]).root(), Ask { verbs: opened(), ucx: version() }),
            Status::Missing,
            "no RDMA device in /sys/class/infiniband",
            "`modprobe mlx5_ib`",
        );
    }

    #[test]
    fn a_device_without_its_node() {
        check(
            &judge(&tree("4: ACTIVE", false).root(), Ask { verbs: opened(), ucx: version() }),
            Status::Missing,
            "RDMA device mlx5_0 is present, but /dev/infiniband/uverbs* is absent",
            "--device=/dev/infiniband --ulimit memlock=-1",
        );
    }

    #[test]
    fn a_device_whose_link_is_down() {
        check(
            &judge(&tree("1: DOWN", true).root(), Ask { verbs: opened(), ucx: version() }),
            Status::Broken,
            "RDMA device mlx5_0 has no active port",
            "`systemctl start opensm`",
        );
    }

    #[test]
    fn a_node_that_does_not_open() {
        let tree = tree("4: ACTIVE", false);
        // Opening a directory for writing fails for every user, root included.
        tree.put("dev/infiniband/uverbs0/x", "");
        let finding = judge(&tree.root(), Ask { verbs: opened(), ucx: version() });
        check(
            &finding,
            Status::Broken,
            "/dev/infiniband/uverbs0 cannot be opened: Is a directory (os error 21)",
            "sudo chmod a+rw /dev/infiniband/uverbs*",
        );
        tree.put("dev/infiniband/uverbs1", "");
        let finding = judge(&tree.root(), Ask { verbs: opened(), ucx: version() });
        assert_eq!(finding.status, Status::Works, "one node that opens is enough: {finding:?}");
    }

    #[test]
    fn libraries() {
        let root = tree("4: ACTIVE", true);
        let root = root.root();
        check(
            &judge(&root, Ask { verbs: absent("libibverbs.so.1"), ucx: version() }),
            Status::Missing,
            "libibverbs.so.1 not found",
            "apt install libibverbs1 ibverbs-providers",
        );
        check(
            &judge(&root, Ask { verbs: || Ok(Vec::new()), ucx: version() }),
            Status::Broken,
            "libibverbs could open none of the RDMA devices",
            "apt install ibverbs-providers",
        );
        check(
            &judge(&root, Ask { verbs: opened(), ucx: absent("libucp.so.0") }),
            Status::Missing,
            "RDMA devices open, but libucp.so.0 not found: no UCX",
            "apt install libucx0",
        );
        assert_eq!(
            judge(&root, Ask { verbs: opened(), ucx: version() }),
            Finding::works(
                "1 RDMA device: mlx5_0; UCX 1.18.0; WarpForge's RDMA path is compiled, but has \
                 never run on such hardware so far"
            )
        );
    }
}
