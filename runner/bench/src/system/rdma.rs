//! RDMA devices (InfiniBand, RoCE, iWARP) and the state of their ports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Sysroot;

const DEVICES: &str = "sys/class/infiniband";

/// One RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaDevice {
    /// Name, such as `mlx5_0`.
    pub name: String,
    /// Model that the maker states, such as `MT4129`.
    pub model: Option<String>,
    /// Kernel driver, such as `mlx5_core`.
    pub driver: Option<String>,
    /// Version of the firmware.
    pub firmware: Option<String>,
    /// NUMA node it is attached to.
    pub numa_node: Option<u32>,
    /// Ports in order of their number.
    pub ports: Vec<RdmaPort>,
}

/// One port of an RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaPort {
    /// Number of the port.
    pub number: u32,
    /// State, such as `ACTIVE` or `DOWN`.
    pub state: Option<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
    /// Rate, as the driver states it, such as `400 Gb/sec (4X NDR)`.
    pub rate: Option<String>,
    /// Network interface of the same port.
    pub interface: Option<String>,
}

impl RdmaDevice {
    pub(crate) fn read_all(root: &Sysroot) -> Vec<Self> {
        root.names(DEVICES).into_iter().map(|name| Self::read(root, name)).collect()
    }

    fn read(root: &Sysroot, name: String) -> Self {
        let file = |file: &str| format!("{DEVICES}/{name}/{file}");
        Self {
            model: root.text(file("hca_type")),
            driver: root.link_name(file("device/driver")),
            firmware: root.text(file("fw_ver")),
            numa_node: root.number(file("device/numa_node")),
            ports: RdmaPort::read_all(root, &file("ports"), &file("device/net")),
            name,
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.ports.iter().any(|port| port.state.as_deref() == Some("ACTIVE"))
    }
}

impl RdmaPort {
    fn read_all(root: &Sysroot, ports: &str, interfaces: &str) -> Vec<Self> {
        let numbers = root.numbered(ports, "").into_iter();
        numbers
            .map(|(number, name)| {
                let directory = format!("{ports}/{name}");
                let file = |file: &str| root.text(format!("{directory}/{file}"));
                // Drivers that do not fill in the table of addresses still share the device.
                let only_interface = || root.names(interfaces).into_iter().next();
                Self {
                    number,
                    state: file("state").map(|text| state_name(&text)),
                    link_layer: file("link_layer"),
                    rate: file("rate"),
                    interface: file("gid_attrs/ndevs/0").or_else(only_interface),
                }
            })
            .collect()
    }
}

/// The name in `4: ACTIVE`.
fn state_name(text: &str) -> String {
    text.split_once(':').map_or(text, |(_, name)| name).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn a_device_with_one_active_port() {
        let tree = Tree::new(&[
            ("sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002\n"),
            ("sys/class/infiniband/mlx5_0/hca_type", "MT4129\n"),
            ("sys/class/infiniband/mlx5_0/device/numa_node", "1\n"),
            ("sys/class/infiniband/mlx5_0/device/driver", "-> ../../drivers/mlx5_core"),
            ("sys/class/infiniband/mlx5_0/device/net/ibp1s0/mtu", "4092\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n"),
        ]);
        let wanted = RdmaDevice {
            name: "mlx5_0".into(),
            model: Some("MT4129".into()),
            driver: Some("mlx5_core".into()),
            firmware: Some("28.39.1002".into()),
            numa_node: Some(1),
            ports: vec![RdmaPort {
                number: 1,
                state: Some("ACTIVE".into()),
                link_layer: Some("InfiniBand".into()),
                rate: Some("400 Gb/sec (4X NDR)".into()),
                interface: Some("ibp1s0".into()),
            }],
        };
        assert!(wanted.is_active());
        assert_eq!(RdmaDevice::read_all(&tree.root()), [wanted]);
    }
}
