//! What a node's programs are told.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::{Error, Tried};
use crate::programs::Programs;
use crate::{address, cgroups, stock};

/// A node's folder, and the cluster's.
pub struct Places<'a> {
    pub number: usize,
    pub folder: &'a Path,
    pub cluster: &'a Path,
}

/// Writes all of it into the node's folder, and makes the folders the node keeps things in.
pub fn write(programs: &Programs, places: &Places) -> Result<(), Error> {
    let folder = places.folder;
    for kept in ["kubelet", "log", "cni-state", "cni"] {
        let path = folder.join(kept);
        fs::create_dir_all(&path).at("could not make", &path)?;
    }
    let files = [
        ("broken", String::new()),
        ("cni/10-bridge.conflist", pod_network(places.number).to_string()),
        ("containerd.toml", runtime(programs, folder)),
        ("init.sh", INIT.to_owned()),
        ("kubelet.yaml", kubelet(places).to_string()),
        ("proxy.yaml", proxy(places).to_string()),
        ("resolv.conf", format!("nameserver {}\n", address::HOST)),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).at("could not write", &folder.join(name))?;
    }
    Ok(())
}

/// What the node does first, in its own namespaces: `init.sh NAME FOLDER PROGRAM`. Folders with
/// fixed names get the node's own behind them, and the machine's stay as they are.
const INIT: &str = "set -e
hostname $1
mount -t tmpfs none /run
mount -t tmpfs none /var/lib
mount -t tmpfs none /var/log
mkdir -p /run/netns /var/lib/kubelet /var/lib/cni /var/log/pods
mount --bind $2/kubelet /var/lib/kubelet
mount --make-shared /var/lib/kubelet
mount --bind $2/cni-state /var/lib/cni
mount --bind $2/log /var/log/pods
exec $3 pause
";

fn pod_network(number: usize) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "ipMasq": false,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "ranges": [[{ "subnet": address::pods(number) }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    })
}

fn runtime(programs: &Programs, folder: &Path) -> String {
    let (folder, cni, pause) = (folder.display(), programs.cni(), stock::PAUSE);
    let cni = cni.display();
    format!(
        r#"version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{folder}/cni"
"#
    )
}

fn kubelet(places: &Places) -> Value {
    let folder = places.folder.display();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": places.cluster.join("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", cgroups::name(places.number)),
        "failCgroupV1": false,
        // Golden alone may run out of memory; on cgroup v2 all of the pod would be killed with it.
        "singleProcessOOMKill": true,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": format!("unix://{folder}/containerd.sock"),
        "clusterDomain": "cluster.local",
        "clusterDNS": [address::HOST],
        "resolvConf": format!("{folder}/resolv.conf"),
        // A lost node is noticed soon, a changed device too.
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 4,
        // The disk is the machine's: how full it is says nothing about the cluster.
        "evictionHard": { "memory.available": "100Mi" },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
    })
}

fn proxy(places: &Places) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": address::PODS,
        "hostnameOverride": format!("node{}", places.number),
        "clientConnection": { "kubeconfig": places.cluster.join("proxy.kubeconfig") },
        // The machine's own settings, which a namespace cannot change.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    })
}
