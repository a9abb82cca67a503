//! What a test on the API server begins with: a namespace and a profile of its own, operators that
//! see to that namespace alone, and words for what a kubelet would do.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use warpforge_operator_api::contract::Termination;
use warpforge_operator_api::data::Workload;
use warpforge_operator_api::profile::{
    BenchmarkProfile, BenchmarkProfileSpec, Concurrency, Images,
};
use warpforge_operator_api::status::Phase;
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunSpec, BenchmarkRunStatus, Verdict, labels};
use warpforge_operator_controller::observed::INDEX;

use super::OPERATOR;
use super::apiserver::{Server, ports, server};

/// How long a test waits for anything, on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Plays a test, if there is a cluster to play it on.
pub fn scene<F: Future<Output = ()>>(play: impl FnOnce(Scene) -> F) {
    let Some(server) = server() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { play(Scene::new(server).await).await });
}

pub struct Scene {
    pub client: Client,
    pub namespace: String,
    pub kubeconfig: PathBuf,
    folder: tempfile::TempDir,
}

impl Scene {
    async fn new(server: &'static Server) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let namespace = format!("scene-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let client = server.client().await;
        let object = Namespace {
            metadata: kube::core::ObjectMeta {
                name: Some(namespace.clone()),
                ..kube::core::ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        let kubeconfig = server.kubeconfig.clone();
        let scene = Self { client, namespace, kubeconfig, folder: tempfile::tempdir().unwrap() };
        // Without it no pod can be made.
        let accounts: Api<ServiceAccount> = scene.api();
        until("the namespace's account", async || accounts.get_opt("default").await.ok().flatten())
            .await;
        scene
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn runs(&self) -> Api<BenchmarkRun> {
        self.api()
    }

    /// A profile that only this test's runs name, with so many slots, or without a limit.
    pub async fn profile(&self, slots: Option<i32>, edit: impl FnOnce(&mut BenchmarkProfileSpec)) {
        let mut spec = BenchmarkProfileSpec::default();
        spec.defaults.images = Images { cpu: Some("runner:1".into()), ..Images::default() };
        spec.concurrency = slots.map(|max| Concurrency {
            group: self.namespace.clone(),
            max,
            wait_deadline_seconds: 600,
        });
        edit(&mut spec);
        let profile = BenchmarkProfile::new(&self.namespace, spec);
        let api: Api<BenchmarkProfile> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &profile).await.unwrap();
    }

    pub fn spec(&self) -> BenchmarkRunSpec {
        let name = "bert-squad".to_owned();
        BenchmarkRunSpec {
            workload: Some(Workload { name, preset: Some("tiny".into()), parameters: [].into() }),
            profile: self.namespace.clone(),
            ..BenchmarkRunSpec::empty()
        }
    }

    pub async fn submit(&self, name: &str, spec: BenchmarkRunSpec) -> BenchmarkRun {
        let run = BenchmarkRun::new(name, spec);
        self.runs().create(&PostParams::default(), &run).await.unwrap()
    }

    pub async fn status(&self, run: &str) -> BenchmarkRunStatus {
        self.runs().get(run).await.unwrap().status.unwrap_or_default()
    }

    pub async fn until_phase(&self, run: &str, phase: Phase) -> BenchmarkRunStatus {
        let what = format!("{run} to be {}", phase.name());
        until(&what, async || {
            let status = self.runs().get_opt(run).await.ok()??.status?;
            (status.phase == phase).then_some(status)
        })
        .await
    }

    pub async fn patch(&self, run: &str, patch: Value) {
        let params = PatchParams::default();
        self.runs().patch(run, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// The run's pods that are not about to go, by group and index.
    pub async fn pods(&self, run: &BenchmarkRun) -> Vec<Pod> {
        let uid = run.uid().unwrap();
        let params = ListParams::default().labels(&format!("{}={uid}", labels::RUN_UID));
        let mut pods = self.api::<Pod>().list(&params).await.unwrap().items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(|pod| {
            (pod.labels()[labels::GROUP].clone(), pod.annotations()[INDEX].clone())
        });
        pods
    }

    pub async fn until_pods(&self, run: &BenchmarkRun, count: usize) -> Vec<Pod> {
        let what = format!("{count} pods of {}", run.name_any());
        until(&what, async || Some(self.pods(run).await).filter(|pods| pods.len() == count)).await
    }

    pub async fn jobs(&self) -> Vec<Job> {
        self.api::<Job>().list(&ListParams::default()).await.unwrap().items
    }

    /// Says of a pod what a kubelet would once its container runs.
    pub async fn starts(&self, pod: &Pod, ip: &str) {
        self.say(
            pod,
            "Running",
            ip,
            &json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } }),
        )
        .await;
    }

    /// Says of a pod that its container ended.
    pub async fn ends(&self, pod: &Pod, code: i32, message: &str) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let state = json!({ "terminated": {
            "exitCode": code,
            "reason": if code == 0 { "Completed" } else { "Error" },
            "message": message,
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:01Z",
        }});
        self.say(pod, phase, "127.0.0.1", &state).await;
    }

    /// Ends with a verdict, as a leader does.
    pub async fn concludes(&self, pod: &Pod, verdict: Verdict) {
        let message = Termination::verdict(verdict, "Judged", "in the runner's own words");
        self.ends(pod, verdict.exit_code(), &message.to_json()).await;
    }

    async fn say(&self, pod: &Pod, phase: &str, ip: &str, state: &Value) {
        let patch = json!({ "status": {
            "phase": phase,
            "podIP": ip,
            "podIPs": [{ "ip": ip }],
            "containerStatuses": [{
                "name": "runner", "image": "runner:1", "imageID": "", "ready": false,
                "restartCount": 0, "state": state,
            }],
        }});
        let name = pod.name_any();
        let params = PatchParams::default();
        // Strategic, as a kubelet's; it may be gone by now.
        let done = self.api::<Pod>().patch_status(&name, &params, &Patch::Strategic(patch)).await;
        if let Err(error) = done {
            assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error}");
        }
    }

    /// Takes a run all the way to a verdict.
    pub async fn plays(&self, run: &BenchmarkRun, workers: usize, verdict: Verdict) {
        let pods = self.until_pods(run, workers).await;
        for pod in &pods {
            self.starts(pod, "127.0.0.1").await;
        }
        self.until_phase(&run.name_any(), Phase::Running).await;
        self.concludes(&pods[0], verdict).await;
    }

    pub async fn delete(&self, run: &str) {
        self.runs().delete(run, &DeleteParams::default()).await.unwrap();
    }

    /// Starts an operator for this scene.
    pub fn operator(&self) -> Operator {
        self.operator_with(&["--lease-seconds", "3"])
    }

    pub fn operator_with(&self, more: &[&str]) -> Operator {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let [port] = ports();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = self.folder.path().join(format!("operator-{number}.log"));
        let child = Command::new(OPERATOR)
            .args(["--log-format", "json", "run", "--namespace", &self.namespace])
            .args(["--watch-namespace", &self.namespace, "--identity", &format!("r{number}")])
            .args(["--metrics-address", &format!("127.0.0.1:{port}")])
            .args(more)
            .env("KUBECONFIG", &self.kubeconfig)
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Operator { child, port, log }
    }
}

/// An operator's process.
pub struct Operator {
    pub child: Child,
    pub port: u16,
    log: PathBuf,
}

impl Operator {
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks it to stop, and returns its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }

    /// What it serves at a path, with the status.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let port = self.port;
        let asking = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
            stream.write_all(request.as_bytes()).ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            Some(text)
        });
        let text = asking.await.unwrap()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    pub async fn metrics(&self) -> String {
        self.get("/metrics").await.map(|(_, text)| text).unwrap_or_default()
    }

    pub async fn leads(&self) -> bool {
        self.metrics().await.contains("warpforge_leader 1")
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(40)..].join("\n");
            let _ = writeln!(std::io::stderr(), "{last}");
        }
    }
}

/// Asks again and again until there is an answer.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
