//! The Service by which workers find each other, and what they may reach.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use warpforge_operator_api::contract::{HTTP_PORT, RENDEZVOUS_PORT};

use super::Build;

/// Where clouds keep a node's own credentials.
const LINK_LOCAL: [&str; 2] = ["169.254.0.0/16", "fe80::/10"];

impl Build<'_> {
    pub(super) fn service(&self) -> Service {
        Service {
            metadata: self.metadata(self.service_name(), &[]),
            spec: Some(ServiceSpec {
                cluster_ip: Some("None".to_owned()),
                selector: Some(self.selector()),
                // Workers look for each other before any of them is ready.
                publish_not_ready_addresses: Some(true),
                ports: Some(vec![
                    service_port("rendezvous", RENDEZVOUS_PORT),
                    service_port("http", HTTP_PORT),
                ]),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    pub(super) fn network_policy(&self) -> NetworkPolicy {
        let own = LabelSelector { match_labels: Some(self.selector()), ..LabelSelector::default() };
        let peers =
            NetworkPolicyPeer { pod_selector: Some(own.clone()), ..NetworkPolicyPeer::default() };
        let anyone = NetworkPolicyPeer {
            namespace_selector: Some(LabelSelector::default()),
            ..NetworkPolicyPeer::default()
        };
        let blocks = self.resolved.egress_cidrs.iter().map(|cidr| block(cidr));
        NetworkPolicy {
            metadata: self.metadata(self.network_policy_name(), &[]),
            spec: Some(NetworkPolicySpec {
                pod_selector: Some(own),
                policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
                ingress: Some(vec![
                    NetworkPolicyIngressRule { from: Some(vec![peers.clone()]), ports: None },
                    // Progress and metrics, for the operator and Prometheus in whatever namespace.
                    NetworkPolicyIngressRule {
                        from: Some(vec![anyone.clone()]),
                        ports: Some(vec![policy_port("TCP", HTTP_PORT)]),
                    },
                ]),
                egress: Some(
                    vec![
                        NetworkPolicyEgressRule { to: Some(vec![peers]), ports: None },
                        // No peers: DNS may also run on the host's own network.
                        NetworkPolicyEgressRule {
                            to: None,
                            ports: Some(vec![policy_port("UDP", 53), policy_port("TCP", 53)]),
                        },
                        NetworkPolicyEgressRule { to: Some(blocks.collect()), ports: None },
                    ]
                    .into_iter()
                    // An empty list of peers would mean everyone.
                    .filter(|rule| rule.to.as_ref().is_none_or(|to| !to.is_empty()))
                    .collect(),
                ),
            }),
        }
    }
}

fn block(cidr: &str) -> NetworkPolicyPeer {
    // An exception must lie within its block; narrower blocks are as the administrator wrote them.
    let except = LINK_LOCAL.into_iter().find(|local| is_wider(cidr, local));
    let except = except.map(|local| vec![local.to_owned()]);
    NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr: cidr.to_owned(), except }),
        ..NetworkPolicyPeer::default()
    }
}

/// Whether a block has all of another's addresses, and more.
fn is_wider(block: &str, other: &str) -> bool {
    let (Some((block, length)), Some((other, others))) = (parsed(block), parsed(other)) else {
        return false;
    };
    let in_common = match (block, other) {
        (IpAddr::V4(one), IpAddr::V4(two)) => (one.to_bits() ^ two.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(two)) => (one.to_bits() ^ two.to_bits()).leading_zeros(),
        _ => return false,
    };
    length < others && length <= in_common
}

/// The address and the length of a block's prefix.
fn parsed(block: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = block.split_once('/')?;
    Some((address.parse().ok()?, length.parse().ok()?))
}

fn service_port(name: &str, port: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: i32::from(port),
        target_port: Some(IntOrString::Int(i32::from(port))),
        ..ServicePort::default()
    }
}

fn policy_port(protocol: &str, port: u16) -> NetworkPolicyPort {
    NetworkPolicyPort {
        port: Some(IntOrString::Int(i32::from(port))),
        protocol: Some(protocol.to_owned()),
        end_port: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_left_out_of_wider_blocks() {
        let cases = [
            ("0.0.0.0/0", Some("169.254.0.0/16")),
            ("128.0.0.0/1", Some("169.254.0.0/16")),
            ("169.254.0.0/15", Some("169.254.0.0/16")),
            ("::/0", Some("fe80::/10")),
            ("fe00::/7", Some("fe80::/10")),
            // None of them, or nothing else, or an exception wider than its block.
            ("0.0.0.0/1", None),
            ("10.0.0.0/8", None),
            ("169.254.0.0/16", None),
            ("169.254.169.254/32", None),
            ("fd00::/8", None),
            // Blocks that the API server refuses.
            ("10.0.0.0/33", None),
            ("10.0.0.0", None),
        ];
        for (cidr, except) in cases {
            let found = block(cidr).ip_block.unwrap().except;
            assert_eq!(found, except.map(|one| vec![one.to_owned()]), "{cidr}");
        }
    }
}
