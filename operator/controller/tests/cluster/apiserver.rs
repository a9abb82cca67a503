//! A real API server with its store and the Job controller, without any node: what a kubelet would
//! say of pods, the tests say. One serves all tests of a process, and ends with it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client};
use warpforge_test_kubernetes::kubeconfig::{self, User};
use warpforge_test_kubernetes::part::Part;
use warpforge_test_kubernetes::{keys, part};

/// How long all of it may take to come up on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

pub struct Server {
    pub kubeconfig: PathBuf,
    /// Has the server's keys, and the logs.
    pub folder: PathBuf,
    parts: Vec<Part>,
}

/// The server of this process; `None`, and said so, where its program is not set up.
pub fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| program().map(|program| Server::start(&program)));
    if server.is_none() {
        let test = std::thread::current();
        let name = test.name().unwrap_or("a test").to_owned();
        let text = "no cluster: run `cargo xtask setup cluster`, or set WARPFORGE_CLUSTER";
        assert!(std::env::var_os("CI").is_none(), "{name}: {text}");
        // Past the capture of output, which would hide it.
        let line = format!("Skipped: {name}: {text}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    server.as_ref()
}

/// All of Kubernetes in one file, as set-up brings it.
pub fn program() -> Option<PathBuf> {
    let named = std::env::var_os("WARPFORGE_CLUSTER").map(PathBuf::from);
    let program = named.unwrap_or_else(|| warpforge_tests::root().join(".cluster/cluster"));
    program.is_file().then_some(program)
}

impl Server {
    fn start(program: &Path) -> Self {
        // What is kept for the whole process is never dropped; the programs' leashes remove it.
        let folder = tempfile::tempdir().unwrap().keep();
        let path = folder.as_path();
        keys::write(path, &[]).unwrap();
        let [store, peers, port] = ports();
        let file = |name: &str| path.join(name).display().to_string();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let users = [User::admin()];
        fs::write(path.join("tokens.csv"), kubeconfig::tokens(&users)).unwrap();
        let kubeconfig = path.join("kubeconfig");
        let address = format!("https://127.0.0.1:{port}");
        kubeconfig::write(&kubeconfig, &address, &path.join("ca.crt"), &users[0]).unwrap();

        let mut parts = vec![start(program, path, "etcd", &[file("etcd"), url(store), url(peers)])];
        let flags = [
            format!("--etcd-servers={}", url(store)),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/24".to_owned(),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("accounts.pub")),
            format!("--service-account-signing-key-file={}", file("accounts.key")),
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={}", file("tokens.csv")),
        ];
        parts.push(start(program, path, "apiserver", &flags));
        let flags = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--service-account-private-key-file={}", file("accounts.key")),
            format!("--root-ca-file={}", file("ca.crt")),
            "--controllers=job-controller,garbage-collector-controller,\
             serviceaccount-controller,namespace-controller,pod-garbage-collector-controller"
                .to_owned(),
            "--concurrent-gc-syncs=5".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        // It gives up on an API server that is not there yet.
        let mut server = Self { kubeconfig, folder: folder.clone(), parts };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(server.settle());
        let manager = start(program, &server.folder, "controller-manager", &flags);
        server.parts.push(manager);
        server
    }

    pub async fn client(&self) -> Client {
        kubeconfig::client(&self.kubeconfig).await.unwrap()
    }

    /// Waits for the API server, and installs the definitions as the operator prints them.
    async fn settle(&self) {
        let start = Instant::now();
        let client = self.client().await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        while namespaces.get("default").await.is_err() {
            let words: String = self.parts.iter().map(Part::last_words).collect();
            let hopeless = start.elapsed() > PATIENCE || words.contains("command failed");
            assert!(!hopeless, "the API server does not come up\n{words}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let printed = Command::new(super::OPERATOR).arg("crds").output().unwrap();
        assert!(printed.status.success());
        let printed = String::from_utf8(printed.stdout).unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(client);
        for text in printed.split("---\n").filter(|text| !text.trim().is_empty()) {
            let crd: CustomResourceDefinition = serde_saphyr::from_str(text).unwrap();
            definitions.create(&PostParams::default(), &crd).await.unwrap();
        }
        for crd in ["benchmarkruns.warpforge.dev", "benchmarkprofiles.warpforge.dev"] {
            while !established(&definitions.get(crd).await.unwrap()) {
                assert!(start.elapsed() < PATIENCE, "{crd} is not established");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

pub fn established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut met = conditions.filter(|condition| condition.status == "True");
    met.any(|condition| condition.type_ == "Established")
}

/// Starts one of the programs.
fn start(program: &Path, folder: &Path, name: &str, arguments: &[String]) -> Part {
    leash(Command::new(program).arg(name).args(arguments), folder, name)
}

/// Starts a program with its log in the server's folder; the last to end removes that.
pub fn leash(command: &Command, folder: &Path, name: &str) -> Part {
    Part::start_over(command, folder, name, Some(folder)).unwrap()
}

/// Ports that nobody uses, at least not now.
pub fn ports<const COUNT: usize>() -> [u16; COUNT] {
    part::ports().unwrap()
}
