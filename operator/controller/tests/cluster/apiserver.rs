//! A real API server with its store and the Job controller, without any node: what a kubelet would
//! say of pods, the tests say. One serves all tests of a process, and ends with it.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::json;

/// How long all of it may take to come up on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
const TOKEN: &str = "a-token-of-the-tests";

/// Ends with its standard input, so that nothing outlives the test however it ends.
const LEASH: &str = "folder=$1; shift; \"$@\" & child=$!; \
                     read -r _; kill -9 $child; wait $child 2>/dev/null; rm -rf \"$folder\"";

pub struct Server {
    pub kubeconfig: PathBuf,
    folder: PathBuf,
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
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("WARPFORGE_CLUSTER").map(PathBuf::from);
    let program = named.unwrap_or_else(|| warpforge_tests::root().join(".cluster/cluster"));
    program.is_file().then_some(program)
}

/// A running program.
struct Part {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Part {
    fn start(program: &Path, folder: &Path, name: &'static str, arguments: &[String]) -> Self {
        let log = folder.join(format!("{name}.log"));
        let out = File::create(&log).unwrap();
        let child = Command::new("sh")
            .args(["-c", LEASH, "sh"])
            .arg(folder)
            .arg(program)
            .arg(name)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        Self { name, child, log }
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        format!("{}:\n{}\n", self.name, lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(program: &Path) -> Self {
        // What is kept for the whole process is never dropped; the programs' leashes remove it.
        let folder = tempfile::tempdir().unwrap().keep();
        let path = folder.as_path();
        keys(path);
        let [store, peers, port] = ports();
        let file = |name: &str| path.join(name).display().to_string();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        fs::write(path.join("tokens.csv"), format!("{TOKEN},admin,admin,\"system:masters\"\n"))
            .unwrap();
        let kubeconfig = path.join("kubeconfig");
        fs::write(&kubeconfig, kubeconfig_text(port, &file("ca.crt"))).unwrap();

        let mut parts =
            vec![Part::start(program, path, "etcd", &[file("etcd"), url(store), url(peers)])];
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
        parts.push(Part::start(program, path, "apiserver", &flags));
        let flags = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--service-account-private-key-file={}", file("accounts.key")),
            format!("--root-ca-file={}", file("ca.crt")),
            "--controllers=job-controller,garbage-collector-controller,\
             serviceaccount-controller,namespace-controller"
                .to_owned(),
            "--concurrent-gc-syncs=5".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        // It gives up on an API server that is not there yet.
        let mut server = Self { kubeconfig, folder: folder.clone(), parts };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(server.settle());
        let manager = Part::start(program, &server.folder, "controller-manager", &flags);
        server.parts.push(manager);
        server
    }

    pub async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        Client::try_from(config).unwrap()
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

/// An authority, the server's certificate of it, and a key that tokens are signed with.
fn keys(folder: &Path) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "tests");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&authority_key).unwrap();
    fs::write(folder.join("ca.crt"), certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let names = ["127.0.0.1", "localhost", "10.96.0.1", "kubernetes.default.svc"];
    let mut leaf = CertificateParams::new(names.map(str::to_owned)).unwrap();
    leaf.distinguished_name.push(DnType::CommonName, "apiserver");
    let key = KeyPair::generate().unwrap();
    let certificate = leaf.signed_by(&key, &issuer).unwrap();
    fs::write(folder.join("server.crt"), certificate.pem()).unwrap();
    fs::write(folder.join("server.key"), key.serialize_pem()).unwrap();
    let accounts = KeyPair::generate().unwrap();
    fs::write(folder.join("accounts.key"), accounts.serialize_pem()).unwrap();
    fs::write(folder.join("accounts.pub"), accounts.public_key_pem()).unwrap();
}

fn kubeconfig_text(port: u16, authority: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "c", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority": authority,
        }}],
        "users": [{ "name": "u", "user": { "token": TOKEN } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    })
    .to_string()
}

/// Ports that nobody uses, at least not now.
pub fn ports<const COUNT: usize>() -> [u16; COUNT] {
    let listeners = [(); COUNT].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
