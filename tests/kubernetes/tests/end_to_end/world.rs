//! A cluster with the product installed in it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunStatus};
use warpforge_test_kubernetes::{Cluster, Error, Image, Options, Prometheus, S3, address, s3};
use warpforge_tests::root;

/// How long a run may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(8);
/// Where the release is, and where runs are.
pub const RELEASE: &str = "warpforge";
pub const RUNS: &str = "bench";
pub const BUCKET: &str = "results";

const OPERATOR: &str = "warpforge.test/operator:1";
const RUNNER: &str = "warpforge.test/runner-cpu:1";

/// Parameters of a demo that takes seconds: all that is judged, on a few steps.
pub fn small() -> Value {
    json!({ "steps": "4", "forced": "2", "noise_runs": "1", "batch_size": "8",
            "evaluation_questions": "20", "expect": "{}" })
}

pub struct World {
    pub runtime: Runtime,
    pub cluster: Cluster,
    pub s3: S3,
    pub prometheus: Prometheus,
}

/// One serves all trials, in their order.
pub fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = Runtime::new().unwrap();
        let options = Options { libtorch: true, policies: true, ..Options::default() };
        let parts = runtime.block_on(async {
            let cluster = Cluster::start(options).await?;
            let s3 = S3::start(&cluster).await?;
            s3.make_bucket(BUCKET).await?;
            let prometheus = Prometheus::start(&cluster, "").await?;
            cluster.import(&operator_image(cluster.folder())?)?;
            cluster.import(&runner_image(&cluster)?)?;
            Ok::<_, Error>((cluster, s3, prometheus))
        });
        let (cluster, s3, prometheus) = parts.unwrap();
        let world = World { runtime, cluster, s3, prometheus };
        world.runtime.block_on(world.install()).unwrap();
        world
    })
}

/// A program of the workspace, as the build before the tests made it.
pub fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let folder = tests.parent().and_then(Path::parent).unwrap();
    let path = folder.join(name);
    assert!(path.is_file(), "there is no {}: cargo build --release --workspace", path.display());
    path
}

fn operator_image(folder: &Path) -> Result<Image, Error> {
    let entrypoint = ["/usr/bin/warpforge-operator"];
    let image =
        Image::of_programs(folder, OPERATOR, &[program("warpforge-operator")], &entrypoint)?;
    let size = fs::metadata(image.archive()).unwrap().len();
    assert!(size < 40_000_000, "the operator's image has {size} bytes");
    Ok(image)
}

/// As `images/runner-cpu.Containerfile` lays it out, without a base.
fn runner_image(cluster: &Cluster) -> Result<Image, Error> {
    let programs = [program("warpforge"), program("warpforge-golden")];
    let libtorch = cluster.libtorch().unwrap();
    Image::over_libtorch(cluster.folder(), libtorch, RUNNER, &programs, &["/usr/bin/warpforge"])
}

impl World {
    /// An older version first, then this one over it: definitions are reached by an upgrade.
    async fn install(&self) -> Result<(), Error> {
        let folder = self.cluster.folder();
        let values = folder.join("values.json");
        fs::write(&values, self.values().to_string()).unwrap();
        let (older, chart) = (folder.join("older"), root().join("charts/warpforge"));
        ended(Command::new("cp").arg("-a").arg(&chart).arg(&older), 0);
        edit(&older.join("Chart.yaml"), "\nversion: ", "\nversion: 0.0.1-before.");
        edit(&older.join("files/crds/benchmarkruns.yaml"), "programUri", "onceUri");
        let options = ["--values", values.to_str().unwrap(), "--wait", "--timeout=3m"];
        self.namespace(RELEASE).await?;
        for (verb, chart) in [("install", older), ("upgrade", chart)] {
            let words = [verb, RELEASE, chart.to_str().unwrap()];
            self.helm(&[&words[..], &options].concat());
            let fields = self.fields().await?;
            assert_eq!(fields.contains("programUri"), verb == "upgrade", "after {verb}");
        }
        self.namespace(RUNS).await
    }

    /// The definition of runs, as the API server has it.
    async fn fields(&self) -> Result<String, Error> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.cluster.client());
        let definition = definitions.get("benchmarkruns.warpforge.dev").await?;
        Ok(serde_json::to_string(&definition.spec).unwrap())
    }

    fn values(&self) -> Value {
        let image = |name: &str| {
            let (repository, tag) = name.rsplit_once(':').unwrap();
            json!({ "repository": repository, "tag": tag })
        };
        let store = json!({ "endpoint": self.s3.endpoint(), "bucket": BUCKET, "prefix": "runs",
                            "credentialsSecret": "s3" });
        json!({
            "operator": { "image": image(OPERATOR), "replicas": 2, "leaseSeconds": 4 },
            "runner": { "images": { "cpu": image(RUNNER) } },
            "profiles": { "default": {
                "defaults": {
                    "artifacts": { "s3": store },
                    "pendingDeadlineSeconds": 120,
                    "resources": { "requests": { "cpu": "100m", "memory": "256Mi" },
                                   "limits": { "memory": "4Gi" } },
                },
                "allowed": { "uriPrefixes": [format!("s3://{BUCKET}/programs")] },
                // The object store's.
                "network": { "egressCidrs": [format!("{}/32", address::HOST)] },
            }},
            "schedules": { "small": {
                "schedule": "0 0 1 1 *", "suspend": true, "profile": "default",
                "workload": "bert-squad", "preset": "demo", "parameters": small(), "spec": {},
                "startingDeadlineSeconds": 60, "activeDeadlineSeconds": 600,
            }},
            "test": { "parameters": small(), "timeoutSeconds": 600 },
        })
    }

    /// Helm in the release's namespace; what it prints.
    pub fn helm(&self, arguments: &[&str]) -> String {
        let programs = self.cluster.programs();
        let home = self.cluster.folder().join("helm");
        let mut command = programs.command(programs.bin("helm"));
        command.args(arguments).args(["--namespace", RELEASE]);
        command.env("KUBECONFIG", self.cluster.kubeconfig()).env("HOME", home);
        ended(&mut command, 0)
    }

    /// `warpforge` as one types it who uses the namespace of runs; what it prints.
    pub fn warpforge(&self, arguments: &[&str], code: i32) -> String {
        let mut command = Command::new(program("warpforge"));
        command.args(arguments).env("WARPFORGE_CLUSTER_NAMESPACE", RUNS);
        command.current_dir(self.cluster.folder());
        command.env("KUBECONFIG", self.cluster.kubeconfig());
        command.env("BROWSER", self.cluster.folder().join("browser"));
        command.env("AWS_ACCESS_KEY_ID", s3::READER.0).env("AWS_SECRET_ACCESS_KEY", s3::READER.1);
        ended(&mut command, code)
    }

    /// A namespace that takes no pods but restricted ones, with the secret that the profile names.
    pub async fn namespace(&self, name: &str) -> Result<(), Error> {
        let namespaces: Api<Namespace> = Api::all(self.cluster.client());
        let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
        let namespace = object(json!({ "metadata": { "name": name, "labels": labels } }));
        namespaces.create(&PostParams::default(), &namespace).await?;
        let secrets: Api<Secret> = Api::namespaced(self.cluster.client(), name);
        let secret = object(json!({
            "metadata": { "name": "s3" },
            "stringData": { "AWS_ACCESS_KEY_ID": s3::WRITER.0,
                            "AWS_SECRET_ACCESS_KEY": s3::WRITER.1 },
        }));
        secrets.create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    pub fn runs(&self, namespace: &str) -> Api<BenchmarkRun> {
        Api::namespaced(self.cluster.client(), namespace)
    }

    /// Applies a run as `kubectl apply --server-side` does.
    pub async fn apply(&self, namespace: &str, run: &Value) -> Result<(), Error> {
        let name = run["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("kubectl");
        self.runs(namespace).patch(name, &params, &Patch::Apply(run)).await?;
        Ok(())
    }

    /// A run of the small demo, with parts of its spec replaced.
    pub async fn submit(&self, namespace: &str, name: &str, change: Value) -> Result<(), Error> {
        let mut spec = json!({ "workload": {
            "name": "bert-squad", "preset": "demo", "parameters": small() } });
        merge(&mut spec, change);
        let run = json!({
            "apiVersion": "warpforge.dev/v1alpha1", "kind": "BenchmarkRun",
            "metadata": { "name": name }, "spec": spec,
        });
        self.apply(namespace, &run).await
    }

    /// Waits for a run's verdict.
    pub async fn complete(&self, namespace: &str, name: &str) -> Result<BenchmarkRunStatus, Error> {
        let runs = self.runs(namespace);
        self.cluster
            .until(&format!("the verdict of {name}"), PATIENCE, async || {
                let run = runs.get(name).await.map_err(|error| error.to_string())?;
                let status = run.status.unwrap_or_default();
                match status.is_complete() {
                    true => Ok(status),
                    false => Err(serde_json::to_string_pretty(&status).unwrap_or_default()),
                }
            })
            .await
    }

    /// The addresses of the operator's metrics.
    pub async fn operators(&self) -> Result<Vec<String>, Error> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client(), RELEASE);
        let chosen = ListParams::default().labels("app.kubernetes.io/component=operator");
        let pods = pods.list(&chosen).await?;
        let addresses = pods.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
        Ok(addresses.map(|address| format!("{address}:8080")).collect())
    }

    /// An error with what the operators said last: they alone know why.
    pub fn told(&self, error: &Error) -> String {
        let logs = self.runtime.block_on(async {
            let pods: Api<Pod> = Api::namespaced(self.cluster.client(), RELEASE);
            let mut text = String::new();
            for pod in pods.list(&ListParams::default()).await.into_iter().flatten() {
                let params = kube::api::LogParams { tail_lines: Some(20), ..Default::default() };
                let log = pods.logs(&pod.name_any(), &params).await.unwrap_or_default();
                text.extend(["\n", &pod.name_any(), ":\n", &log]);
            }
            text
        });
        format!("{error}\n{logs}")
    }
}

/// A remark in the output of the tests, past their capture.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{}: {from}", file.display());
    fs::write(file, text.replace(from, to)).unwrap();
}

fn ended(command: &mut Command, code: i32) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(code), "{command:?}\n{out}{err}");
    out.into_owned()
}

/// A run on one worker, of which more is asked.
pub fn worker(more: Value) -> Value {
    let mut worker = json!({ "name": "cpu", "vendor": "Cpu" });
    merge(&mut worker, more);
    json!({ "workers": [worker] })
}

/// Puts parts into an object, deep.
pub fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change,
    }
}

pub fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
