//! Network interfaces.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Sysroot;

const INTERFACES: &str = "sys/class/net";

/// One network interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Name, such as `eth0`.
    pub name: String,
    /// Number that the kernel gives it.
    pub index: Option<u32>,
    /// Hardware address.
    pub mac: Option<String>,
    /// Largest packet.
    pub mtu_bytes: Option<u32>,
    /// Operational state, such as `up`, `down` or `unknown`.
    pub state: Option<String>,
    /// Link speed in megabits per second; null for a link that is down or has none.
    pub speed_mbit_per_s: Option<u32>,
    /// Kernel driver; null for an interface that no device stands behind.
    pub driver: Option<String>,
    /// NUMA node its device is attached to.
    pub numa_node: Option<u32>,
    /// IP addresses with the length of their network's prefix, such as `10.0.0.5/24`.
    pub addresses: Vec<String>,
}

/// An IP address and the interface that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub interface: u32,
    pub ip: IpAddr,
    pub prefix: u8,
}

impl Interface {
    pub(super) fn read_all(root: &Sysroot) -> Vec<Self> {
        let names = root.names(INTERFACES).into_iter();
        // The bonding driver puts a plain file among the interfaces.
        let interfaces = names.filter(|name| root.path(INTERFACES).join(name).is_dir());
        interfaces.map(|name| Self::read(root, name)).collect()
    }

    fn read(root: &Sysroot, name: String) -> Self {
        let file = |file: &str| format!("{INTERFACES}/{name}/{file}");
        Self {
            index: root.number(file("ifindex")),
            mac: root.text(file("address")),
            mtu_bytes: root.number(file("mtu")),
            state: root.text(file("operstate")),
            speed_mbit_per_s: root.number(file("speed")),
            driver: root.link_name(file("device/driver")),
            numa_node: root.number(file("device/numa_node")),
            addresses: Vec::new(),
            name,
        }
    }
}

pub(super) fn attach(interfaces: &mut [Interface], addresses: &[Address]) {
    for interface in interfaces {
        let own = addresses.iter().filter(|address| Some(address.interface) == interface.index);
        interface.addresses = own.map(|a| format!("{}/{}", a.ip, a.prefix)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn a_card_a_downed_card_and_the_bonding_file() {
        let tree = Tree::new(&[
            ("sys/class/net/bonding_masters", "bond0\n"),
            ("sys/class/net/eth0/ifindex", "2\n"),
            ("sys/class/net/eth0/address", "aa:fc:00:00:00:01\n"),
            ("sys/class/net/eth0/mtu", "9000\n"),
            ("sys/class/net/eth0/operstate", "up\n"),
            ("sys/class/net/eth0/speed", "100000\n"),
            ("sys/class/net/eth0/device/driver", "-> ../../bus/pci/drivers/mlx5_core"),
            ("sys/class/net/eth1/ifindex", "3\n"),
            ("sys/class/net/eth1/operstate", "down\n"),
            ("sys/class/net/eth1/speed", "-1\n"),
        ]);
        let mut interfaces = Interface::read_all(&tree.root());
        let ip = |ip: &str| ip.parse().expect("an address");
        let address = |interface, text, prefix| Address { interface, ip: ip(text), prefix };
        attach(&mut interfaces, &[address(2, "10.0.0.5", 24), address(2, "fe80::1", 64)]);
        let [eth0, eth1] = interfaces.as_slice() else { panic!("{interfaces:?}") };
        assert_eq!(eth0.driver.as_deref(), Some("mlx5_core"));
        assert_eq!((eth0.mtu_bytes, eth0.speed_mbit_per_s), (Some(9000), Some(100_000)));
        assert_eq!(eth0.addresses, ["10.0.0.5/24", "fe80::1/64"]);
        assert_eq!((eth1.state.as_deref(), eth1.speed_mbit_per_s), (Some("down"), None));
        assert!(eth1.addresses.is_empty());
    }
}
