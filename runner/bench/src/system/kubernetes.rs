//! The Kubernetes pod this process runs in. The service account's directory also holds its token
//! and certificate; only the namespace's name is ever read from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Surroundings;
use crate::Sysroot;

const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// A Kubernetes pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kubernetes {
    /// Namespace of the pod.
    pub namespace: Option<String>,
    /// Name of the pod.
    pub pod: Option<String>,
    /// Node the pod runs on, where the pod's specification passes it in.
    pub node: Option<String>,
}

impl Kubernetes {
    pub(super) fn read(root: &Sysroot, surroundings: &Surroundings) -> Option<Self> {
        let service = surroundings.variable("KUBERNETES_SERVICE_HOST");
        if service.is_none() && !root.exists(ACCOUNT) {
            return None;
        }
        let first = |names: &[&str]| {
            names.iter().find_map(|name| surroundings.variable(name)).map(str::to_owned)
        };
        Some(Self {
            namespace: root
                .text(format!("{ACCOUNT}/namespace"))
                .or_else(|| first(&["POD_NAMESPACE", "NAMESPACE"])),
            // Unless the pod shares the node's network, its name is the host's name.
            pod: first(&["POD_NAME", "HOSTNAME"]).or_else(|| root.text("proc/sys/kernel/hostname")),
            node: first(&["NODE_NAME", "K8S_NODE_NAME", "KUBE_NODE_NAME"]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    fn surroundings(variables: &[(&str, &str)]) -> Surroundings {
        let environment = variables.iter().map(|(k, v)| (k.into(), v.into())).collect();
        Surroundings { environment, ..Surroundings::default() }
    }

    #[test]
    fn a_pod_is_named_and_its_token_stays_unread() {
        let tree = Tree::new(&[
            ("var/run/secrets/kubernetes.io/serviceaccount/namespace", "bench"),
            ("var/run/secrets/kubernetes.io/serviceaccount/token", "SECRET"),
            ("proc/sys/kernel/hostname", "run-7-worker-0\n"),
        ]);
        let inside =
            surroundings(&[("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("NODE_NAME", "gpu-node-1")]);
        let wanted = Kubernetes {
            namespace: Some("bench".into()),
            pod: Some("run-7-worker-0".into()),
            node: Some("gpu-node-1".into()),
        };
        assert_eq!(Kubernetes::read(&tree.root(), &inside), Some(wanted));
        let json = serde_json::to_string(&super::super::System::read(&tree.root(), &inside));
        assert!(!json.expect("JSON").contains("SECRET"));
    }

    #[test]
    fn a_pod_without_a_service_account_is_known_by_its_variables() {
        let inside = surroundings(&[("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("POD_NAME", "p")]);
        let found = Kubernetes::read(&Tree::new(&[]).root(), &inside);
        let wanted = Kubernetes { namespace: None, pod: Some("p".into()), node: None };
        assert_eq!(found, Some(wanted));
        assert_eq!(Kubernetes::read(&Tree::new(&[]).root(), &surroundings(&[])), None);
    }
}
