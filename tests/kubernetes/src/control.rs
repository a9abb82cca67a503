//! The control plane: the store, the API server, the controllers, the scheduler, and DNS.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

use crate::address;
use crate::error::{Error, Tried};
use crate::part::Part;
use crate::programs::Programs;
use crate::wait::until;

const STORE: &str = "http://127.0.0.1:2379";
const STORE_PEERS: &str = "http://127.0.0.1:2380";

/// How long it may take to come up on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// The API server, which can be stopped and started.
pub struct ApiServer {
    programs: Programs,
    folder: PathBuf,
    flags: Vec<String>,
    part: Mutex<Option<Part>>,
}

impl ApiServer {
    pub(crate) fn start_new(programs: &Programs, folder: &Path) -> Result<Self, Error> {
        let server = Self {
            programs: programs.clone(),
            folder: folder.to_owned(),
            flags: api_flags(folder),
            part: Mutex::new(None),
        };
        server.start()?;
        Ok(server)
    }

    /// Ends it at once, as a kill would; what it has stored stays.
    pub fn stop(&self) {
        drop(self.part.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Starts it again; it answers some seconds later.
    pub fn start(&self) -> Result<(), Error> {
        let part = kubernetes(&self.programs, &self.folder, "apiserver", &self.flags)?;
        *self.part.lock().unwrap_or_else(PoisonError::into_inner) = Some(part);
        Ok(())
    }

    /// Until it answers.
    pub async fn answers(&self, client: &Client) -> Result<(), Error> {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        until("the API server", PATIENCE, &self.folder, async || {
            namespaces.get("default").await.map(drop).map_err(|error| error.to_string())
        })
        .await
    }
}

/// What the API server takes besides.
pub(crate) fn store(programs: &Programs, folder: &Path) -> Result<Part, Error> {
    let data = folder.join("etcd").display().to_string();
    kubernetes(programs, folder, "etcd", &[data, STORE.to_owned(), STORE_PEERS.to_owned()])
}

/// Controllers, scheduler and DNS: they give up on an API server that is not there yet.
pub(crate) fn rest(programs: &Programs, folder: &Path) -> Result<Vec<Part>, Error> {
    let file = |name: &str| folder.join(name).display().to_string();
    let kubeconfig = format!("--kubeconfig={}", file("kubeconfig"));
    let manager = [
        kubeconfig.clone(),
        "--leader-elect=false".to_owned(),
        format!("--service-account-private-key-file={}", file("accounts.key")),
        format!("--root-ca-file={}", file("ca.crt")),
        // A node that is lost is seen to be within ten seconds, not forty.
        "--node-monitor-period=1s".to_owned(),
        "--node-monitor-grace-period=8s".to_owned(),
        "--concurrent-gc-syncs=5".to_owned(),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
    ];
    let scheduler = [kubeconfig, "--leader-elect=false".to_owned()];
    let corefile = folder.join("Corefile");
    fs::write(&corefile, dns_config(folder)).at("could not write", &corefile)?;
    let dns = ["-conf".to_owned(), file("Corefile")];
    Ok(vec![
        kubernetes(programs, folder, "controller-manager", &manager)?,
        kubernetes(programs, folder, "scheduler", &scheduler)?,
        kubernetes(programs, folder, "dns", &dns)?,
    ])
}

fn kubernetes(
    programs: &Programs,
    folder: &Path,
    name: &str,
    arguments: &[String],
) -> Result<Part, Error> {
    let mut command = programs.command(programs.kubernetes());
    command.arg(name).args(arguments);
    Part::start(&command, folder, name)
}

fn api_flags(folder: &Path) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let (host, port, services) = (address::HOST, address::API_PORT, address::SERVICES);
    vec![
        format!("--etcd-servers={STORE}"),
        format!("--secure-port={port}"),
        "--bind-address=0.0.0.0".to_owned(),
        // Becomes the endpoint of the Service `kubernetes`, so pods must reach it.
        format!("--advertise-address={host}"),
        format!("--service-cluster-ip-range={services}"),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", file("accounts.pub")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        "--authorization-mode=Node,RBAC".to_owned(),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--allow-privileged=true".to_owned(),
        // For logs and exec.
        format!("--kubelet-client-certificate={}", file("kubelets.crt")),
        format!("--kubelet-client-key={}", file("kubelets.key")),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        // No proxy runs where the API server does.
        "--enable-aggregator-routing=true".to_owned(),
        // Pods leave a lost node after five seconds, not five minutes.
        "--default-not-ready-toleration-seconds=5".to_owned(),
        "--default-unreachable-toleration-seconds=5".to_owned(),
    ]
}

/// Names of Services and pods, and of nothing else.
fn dns_config(folder: &Path) -> String {
    let (host, kubeconfig) = (address::HOST, folder.join("kubeconfig").display().to_string());
    format!(
        ".:53 {{\n  bind {host}\n  errors\n  ready {host}:8181\n  \
         kubernetes cluster.local in-addr.arpa {{\n    kubeconfig {kubeconfig} x\n    \
         pods insecure\n    ttl 1\n  }}\n}}\n"
    )
}
