//! Policies of the network. Kubernetes leaves them to the network, and the plugin that joins pods
//! here knows none: this turns those of the API server into rules that the nodes' kernels enforce.
//! A pod is free until the API server knows its address, a second or two after its start: to have
//! it wait would cost the first name it looks up five seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{SelectAll, StreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::{Selector, SelectorExt as _};
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::HOST;
use crate::error::{Error, Tried};
use crate::node::Node;

/// How long a burst of changes is gathered.
const BURST: Duration = Duration::from_millis(50);

/// When nodes are looked at though nothing has changed: one may be on again.
const TICK: Duration = Duration::from_secs(1);

/// Shows the rules what crosses a bridge, then replaces them.
const APPLY: &str = "echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables && nft -f \"$1\"";

type Labels = BTreeMap<String, String>;

/// Enforces until it is dropped.
pub(crate) struct Policies {
    task: JoinHandle<()>,
}

impl Policies {
    pub fn enforce(client: Client, nodes: Vec<Arc<Node>>, folder: &Path) -> Self {
        let file = folder.join("policies.nft");
        Self { task: tokio::spawn(follow(client, nodes, file)) }
    }
}

impl Drop for Policies {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(client: Client, nodes: Vec<Arc<Node>>, file: PathBuf) {
    let mut changes = SelectAll::new();
    let policies = watch(Api::<NetworkPolicy>::all(client.clone()), &mut changes);
    let namespaces = watch(Api::<Namespace>::all(client.clone()), &mut changes);
    let pods = watch(Api::<Pod>::all(client), &mut changes);
    // With the start of its node: one that was switched off has lost its rules.
    let mut applied = vec![None; nodes.len()];
    loop {
        if timeout(TICK, changes.next()).await.is_ok() {
            let end = Instant::now() + BURST;
            while timeout_at(end, changes.next()).await.is_ok() {}
        }
        let text = match rules(&policies.state(), &pods.state(), &namespaces.state()) {
            Ok(text) => text,
            Err(error) => {
                report(&error, &file);
                continue;
            }
        };
        for (node, applied) in nodes.iter().zip(&mut applied) {
            let wanted = node.started().map(|start| (start, text.clone()));
            if wanted.is_some() && *applied != wanted {
                let told = apply(node, &file, &text);
                *applied = told.is_ok().then_some(wanted).flatten();
                // Whatever fails on one that is going down is no fault.
                if let (Err(error), Some(_)) = (told, node.started()) {
                    report(&error, &file);
                }
            }
        }
    }
}

fn apply(node: &Node, file: &Path, text: &str) -> Result<(), Error> {
    fs::write(file, text).at("could not write", file)?;
    node.exec(&["sh", "-c", APPLY, "sh", &file.display().to_string()]).map(drop)
}

/// An error goes, once, to a log beside the others, which is shown with them.
fn report(error: &Error, file: &Path) {
    let (log, line) = (file.with_extension("log"), format!("{error}\n"));
    let before = fs::read_to_string(&log).unwrap_or_default();
    if !before.contains(&line) {
        let _ = fs::write(log, before + &line);
    }
}

type Changes = SelectAll<futures::stream::BoxStream<'static, ()>>;

/// Keeps what there is of a kind, and says when it changes.
fn watch<K>(api: Api<K>, changes: &mut Changes) -> Store<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
    K: serde::de::DeserializeOwned,
{
    let (store, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
    changes.push(events.map(drop).boxed());
    store
}

/// A pod that sends and is sent to.
struct Place<'a> {
    address: &'a str,
    namespace: String,
    labels: &'a Labels,
    namespace_labels: &'a Labels,
}

#[derive(Clone, Copy)]
enum Direction {
    Egress,
    Ingress,
}

impl Direction {
    /// The side of a packet that the policy is about, and the other.
    fn sides(self) -> (&'static str, &'static str) {
        match self {
            Self::Egress => ("saddr", "daddr"),
            Self::Ingress => ("daddr", "saddr"),
        }
    }

    fn chain(self) -> &'static str {
        match self {
            Self::Egress => "egress",
            Self::Ingress => "ingress",
        }
    }

    fn is_of(self, spec: &NetworkPolicySpec) -> bool {
        match (self, &spec.policy_types) {
            (Self::Egress, Some(types)) => types.iter().any(|one| one == "Egress"),
            (Self::Ingress, Some(types)) => types.iter().any(|one| one == "Ingress"),
            (Self::Egress, None) => spec.egress.is_some(),
            (Self::Ingress, None) => true,
        }
    }

    /// Who may be reached, or may reach, and at which ports; nothing said is everyone.
    fn rules(self, spec: &NetworkPolicySpec) -> Vec<(&[NetworkPolicyPeer], &[NetworkPolicyPort])> {
        match self {
            Self::Egress => {
                let rules = spec.egress.iter().flatten();
                let parts = rules.map(|rule| (rule.to.as_deref(), rule.ports.as_deref()));
                parts.map(|(to, ports)| (to.unwrap_or(&[]), ports.unwrap_or(&[]))).collect()
            }
            Self::Ingress => {
                let rules = spec.ingress.iter().flatten();
                let parts = rules.map(|rule| (rule.from.as_deref(), rule.ports.as_deref()));
                parts.map(|(from, ports)| (from.unwrap_or(&[]), ports.unwrap_or(&[]))).collect()
            }
        }
    }
}

/// The text for `nft`: the same for all nodes, in the place of what they had. Packets between pods
/// of one node pass the rules too: kernels show them what crosses a bridge.
fn rules(
    policies: &[Arc<NetworkPolicy>],
    pods: &[Arc<Pod>],
    namespaces: &[Arc<Namespace>],
) -> Result<String, Error> {
    let labels: BTreeMap<_, _> =
        namespaces.iter().map(|one| (one.name_any(), one.labels())).collect();
    let places: Vec<_> = pods.iter().filter_map(|pod| place(pod, &labels)).collect();
    let (egress, sends) = chain(Direction::Egress, policies, &places)?;
    let (ingress, receives) = chain(Direction::Ingress, policies, &places)?;
    Ok(format!(
        "table inet policies\ndelete table inet policies\ntable inet policies {{\n\
         {egress}{ingress}\
         chain forward {{\ntype filter hook forward priority filter;\n\
         ct state established,related accept\n\
         {sends}\
         # Prometheus and the test, which would be pods elsewhere.\nip saddr {HOST} accept\n\
         {receives}}}\n}}\n"
    ))
}

/// The chain of one direction, and the line that sends packets there.
fn chain(
    direction: Direction,
    policies: &[Arc<NetworkPolicy>],
    places: &[Place],
) -> Result<(String, String), Error> {
    let (own, other) = direction.sides();
    let mut isolated = BTreeSet::new();
    let mut lines = BTreeSet::new();
    for policy in policies {
        let Some(spec) = policy.spec.as_ref().filter(|spec| direction.is_of(spec)) else {
            continue;
        };
        let namespace = policy.namespace().unwrap_or_default();
        let selector = selector(spec.pod_selector.as_ref())?;
        let about = places.iter().filter(|place| place.namespace == namespace);
        let about: Vec<_> = about.filter(|place| selector.matches(place.labels)).collect();
        let Some(about) = set(about.iter().map(|place| place.address)) else { continue };
        for (peers, ports) in direction.rules(spec) {
            let mut whom = Vec::new();
            for peer in peers {
                let addresses = matching(peer, &namespace, places)?;
                whom.extend(addresses.map(|(is, not)| {
                    let not = not.map(|not| format!("ip {other} != {not} "));
                    format!("ip {other} {is} {}", not.unwrap_or_default())
                }));
            }
            if peers.is_empty() {
                whom.push(String::new());
            }
            let ports = match ports {
                [] => vec![String::new()],
                _ => ports.iter().map(port).collect::<Result<_, _>>()?,
            };
            for whom in &whom {
                let line = |port: &String| format!("ip {own} {about} {whom}{port}return\n");
                lines.extend(ports.iter().map(line));
            }
        }
        isolated.insert(about);
    }
    let name = direction.chain();
    let sending = isolated.iter().map(|about| format!("ip {own} {about} jump {name}\n"));
    let lines: String = lines.into_iter().collect();
    Ok((format!("chain {name} {{\n{lines}drop\n}}\n"), sending.collect()))
}

/// A pod with an address of its own, while it has it.
fn place<'a>(pod: &'a Pod, namespaces: &BTreeMap<String, &'a Labels>) -> Option<Place<'a>> {
    let status = pod.status.as_ref()?;
    let gone = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let on_host = pod.spec.as_ref()?.host_network.unwrap_or_default();
    let address = status.pod_ip.as_deref().filter(|_| !gone && !on_host)?;
    let namespace = pod.namespace()?;
    let namespace_labels = *namespaces.get(&namespace)?;
    Some(Place { address, namespace, labels: pod.labels(), namespace_labels })
}

/// Addresses that are a peer's, and those among them that are not; nothing, where nobody is.
fn matching(
    peer: &NetworkPolicyPeer,
    namespace: &str,
    places: &[Place],
) -> Result<Option<(String, Option<String>)>, Error> {
    if let Some(block) = &peer.ip_block {
        let except = set(block.except.iter().flatten().map(String::as_str));
        // Pods have addresses of the fourth version alone.
        return Ok((!block.cidr.contains(':')).then(|| (block.cidr.clone(), except)));
    }
    let pods = selector(peer.pod_selector.as_ref())?;
    let namespaces = peer.namespace_selector.as_ref();
    let namespaces = namespaces.map(|one| selector(Some(one))).transpose()?;
    let named = |place: &&Place| match &namespaces {
        Some(namespaces) => namespaces.matches(place.namespace_labels),
        None => place.namespace == namespace,
    };
    let found = places.iter().filter(named).filter(|place| pods.matches(place.labels));
    Ok(set(found.map(|place| place.address)).map(|addresses| (addresses, None)))
}

fn port(port: &NetworkPolicyPort) -> Result<String, Error> {
    let protocol = port.protocol.as_deref().unwrap_or("TCP").to_lowercase();
    match (&port.port, port.end_port) {
        (None, _) => Ok(format!("meta l4proto {protocol} ")),
        (Some(IntOrString::Int(first)), None) => Ok(format!("{protocol} dport {first} ")),
        (Some(IntOrString::Int(first)), Some(last)) => {
            Ok(format!("{protocol} dport {first}-{last} "))
        }
        (Some(IntOrString::String(name)), _) => {
            Err(Error::Wrong(format!("a policy's port by name ({name}) is not known here")))
        }
    }
}

/// Nothing said selects everything.
fn selector(labels: Option<&LabelSelector>) -> Result<Selector, Error> {
    let labels = labels.cloned().unwrap_or_default();
    Selector::try_from(labels).map_err(|error| Error::Wrong(error.to_string()))
}

/// As `nft` writes a set; it knows no empty ones.
fn set<'a>(members: impl Iterator<Item = &'a str>) -> Option<String> {
    let members: BTreeSet<_> = members.collect();
    let text: Vec<_> = members.into_iter().collect();
    (!text.is_empty()).then(|| format!("{{ {} }}", text.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn pod(namespace: &str, kind: &str, address: &str) -> Arc<Pod> {
        of(json!({
            "metadata": { "name": kind, "namespace": namespace, "labels": { "kind": kind } },
            "spec": { "containers": [] },
            "status": { "podIP": address, "phase": "Running" },
        }))
    }

    fn of_policy(spec: &Value) -> String {
        let policy = of(json!({ "metadata": { "name": "p", "namespace": "a" }, "spec": spec }));
        let gone = of(json!({
            "metadata": { "name": "gone", "namespace": "a", "labels": { "kind": "worker" } },
            "spec": { "containers": [] },
            "status": { "podIP": "10.0.0.9", "phase": "Succeeded" },
        }));
        let pods = [
            pod("a", "worker", "10.0.0.1"),
            pod("a", "other", "10.0.0.2"),
            pod("b", "worker", "10.0.0.3"),
            gone,
        ];
        let namespaces = ["a", "b"]
            .map(|name| of(json!({ "metadata": { "name": name, "labels": { "name": name } } })));
        rules(&[policy], &pods, &namespaces).unwrap()
    }

    /// A policy in namespace `a`, and the lines that come of it.
    #[test]
    fn policies_become_rules() {
        let own = json!({ "matchLabels": { "kind": "worker" } });
        let cases = [
            (
                json!({ "policyTypes": ["Ingress"], "podSelector": own }),
                vec!["chain ingress {\ndrop", "ip daddr { 10.0.0.1 } jump ingress"],
            ),
            (
                json!({ "policyTypes": ["Ingress"], "podSelector": {}, "ingress": [{}] }),
                vec!["ip daddr { 10.0.0.1, 10.0.0.2 } return"],
            ),
            (
                json!({ "policyTypes": ["Ingress"], "podSelector": own,
                        "ingress": [{ "from": [{ "podSelector": own }] }] }),
                vec!["ip daddr { 10.0.0.1 } ip saddr { 10.0.0.1 } return"],
            ),
            (
                json!({ "policyTypes": ["Ingress"], "podSelector": own, "ingress": [{
                    "from": [{ "namespaceSelector": {} }],
                    "ports": [{ "protocol": "TCP", "port": 80 }, { "port": 5, "endPort": 7 }],
                }]}),
                vec![
                    "ip saddr { 10.0.0.1, 10.0.0.2, 10.0.0.3 } tcp dport 80 return",
                    "ip saddr { 10.0.0.1, 10.0.0.2, 10.0.0.3 } tcp dport 5-7 return",
                ],
            ),
            (
                json!({ "policyTypes": ["Ingress"], "podSelector": own, "ingress": [{
                    "from": [{ "namespaceSelector": { "matchLabels": { "name": "b" } },
                               "podSelector": own }],
                }]}),
                vec!["ip daddr { 10.0.0.1 } ip saddr { 10.0.0.3 } return"],
            ),
            (
                json!({ "podSelector": own, "egress": [
                    { "ports": [{ "protocol": "UDP", "port": 53 }] },
                    { "to": [{ "ipBlock": { "cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"] } },
                             { "ipBlock": { "cidr": "::/0" } }] },
                    { "to": [{ "podSelector": { "matchLabels": { "kind": "nobody" } } }] },
                ]}),
                vec![
                    "ip saddr { 10.0.0.1 } udp dport 53 return",
                    "ip daddr 0.0.0.0/0 ip daddr != { 169.254.0.0/16 } return",
                    "ip saddr { 10.0.0.1 } jump egress",
                    // With no types named, ingress is meant as well.
                    "ip daddr { 10.0.0.1 } jump ingress",
                ],
            ),
        ];
        for (spec, lines) in cases {
            let text = of_policy(&spec);
            for line in &lines {
                assert!(text.contains(*line), "{spec}: {line} is not in\n{text}");
            }
            let allowed = text.lines().filter(|line| line.ends_with("return")).count();
            assert_eq!(
                allowed,
                lines.iter().filter(|line| line.ends_with("return")).count(),
                "{text}"
            );
        }
    }
}
