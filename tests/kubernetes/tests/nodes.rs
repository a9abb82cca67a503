//! The harness itself: what tests of the operator take for granted about the cluster they run on.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::{LogParams, PostParams};
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use warpforge_test_kubernetes::{Cluster, Error, Image, Options, Prometheus, S3, address, stock};

/// How long a pod may take from its making to its end on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

struct World {
    runtime: Runtime,
    cluster: Cluster,
}

/// One cluster serves all trials, in their order: the later ones take nodes down.
fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let start = Instant::now();
        let runtime = Runtime::new().unwrap();
        let options = Options { libtorch: true, ..Options::default() };
        let cluster = runtime.block_on(Cluster::start(options)).unwrap();
        let mut out = std::io::stderr();
        writeln!(out, "the cluster is ready after {:.1?}", start.elapsed()).unwrap();
        let shell = stock::shell(cluster.folder()).unwrap();
        cluster.import(&shell).unwrap();
        World { runtime, cluster }
    })
}

fn trial<F>(name: &str, test: impl Fn(&'static Cluster) -> F + Send + Sync + 'static) -> Trial
where
    F: Future<Output = Result<(), Error>>,
{
    Trial::test(name, move || {
        let world = world();
        let ended = world.runtime.block_on(test(&world.cluster));
        ended.map_err(Failed::from)
    })
}

fn main() -> ExitCode {
    warpforge_test_kubernetes::run(vec![
        trial("nodes_are_ready_and_offer_their_devices", devices),
        trial("a_pod_is_given_devices_and_its_log_can_be_read", allocation),
        trial("pods_of_a_job_find_each_other_across_nodes", peers),
        trial("a_pod_reaches_the_object_store", object_store),
        trial("a_pod_reaches_the_api_server_by_its_service", api_service),
        trial("an_image_over_libtorch_takes_no_time_to_bring", libtorch),
        trial("prometheus_reads_what_it_is_pointed_at", metrics),
        trial("a_broken_device_is_not_offered", broken_device),
        trial("the_api_server_comes_back_with_all_it_had", api_server),
        trial("a_node_without_power_is_lost_until_it_is_back", power),
        trial("a_node_cut_off_and_one_that_hangs_are_lost_until_they_are_back", cable),
        trial("a_node_runs_pods_again_once_its_container_runtime_is_back", container_runtime),
    ])
}

async fn devices(cluster: &Cluster) -> Result<(), Error> {
    for node in cluster.nodes() {
        cluster.offers(node, "nvidia.com/gpu", 8).await?;
        cluster.offers(node, "rdma/hca_shared_devices_a", 64).await?;
    }
    Ok(())
}

async fn allocation(cluster: &Cluster) -> Result<(), Error> {
    let limits = json!({ "nvidia.com/gpu": 2, "rdma/hca_shared_devices_a": 1 });
    let script = "echo $NVIDIA_VISIBLE_DEVICES; [ -c /dev/infiniband/uverbs0 ] && echo rdma";
    let text = run_pod(cluster, "allocation", script, &json!({ "limits": limits })).await?;
    let (gpus, rest) = text.split_once('\n').unwrap_or_default();
    assert_eq!(gpus.split(',').filter(|gpu| gpu.starts_with("gpu-")).count(), 2, "{text}");
    assert_eq!(rest.trim(), "rdma");
    Ok(())
}

async fn peers(cluster: &Cluster) -> Result<(), Error> {
    let services: Api<Service> = Api::default_namespaced(cluster.client());
    let service = json!({
        "metadata": { "name": "peers" },
        "spec": { "clusterIP": "None", "publishNotReadyAddresses": true,
                  "selector": { "job-name": "gang" }, "ports": [{ "port": 7000 }] },
    });
    services.create(&PostParams::default(), &object(service)).await?;
    // Each waits for both names, and says where it is and what they stand for.
    let script = "for peer in gang-0.peers gang-1.peers; do \
                  until getent hosts $peer; do sleep 0.2; done; done; echo on $NODE";
    let apart = json!([{ "topologyKey": "kubernetes.io/hostname",
                         "labelSelector": { "matchLabels": { "job-name": "gang" } } }]);
    let mut pod = pod_spec(script, &json!({}));
    pod["subdomain"] = "peers".into();
    pod["affinity"] = json!({
        "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": apart },
    });
    pod["containers"][0]["env"] = json!([{
        "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } },
    }]);
    let job = json!({
        "metadata": { "name": "gang" },
        "spec": { "completions": 2, "parallelism": 2, "completionMode": "Indexed",
                  "backoffLimit": 0, "template": { "spec": pod } },
    });
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    jobs.create(&PostParams::default(), &object(job)).await?;
    cluster
        .until("the gang's end", PATIENCE, async || {
            let job = jobs.get("gang").await.map_err(|error| error.to_string())?;
            let status = job.status.unwrap_or_default();
            if status.succeeded == Some(2) { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let mut nodes = Vec::new();
    for pod in pods.list(&kube::api::ListParams::default().labels("job-name=gang")).await? {
        let name = pod.metadata.name.unwrap_or_default();
        let text = pods.logs(&name, &LogParams::default()).await?;
        let addresses = text.lines().filter(|line| line.starts_with("10.244.")).count();
        assert_eq!(addresses, 2, "{text}");
        nodes.extend(text.lines().last().map(str::to_owned));
    }
    nodes.sort();
    assert_eq!(nodes, ["on node1", "on node2"]);
    Ok(())
}

async fn object_store(cluster: &Cluster) -> Result<(), Error> {
    let s3 = S3::start(cluster).await?;
    assert_eq!(s3.keys("ready", "").await?, ["ready"]);
    let script = http(address::HOST, 8333, "/ready/ready");
    let text = run_pod(cluster, "object-store", &script, &json!({})).await?;
    // Somebody without a key is refused, by the server itself.
    assert!(text.contains(" 403 Forbidden") && text.contains("<Code>AccessDenied"), "{text}");
    s3.stop();
    let script = format!("{script} 2>&1 || true");
    let text = run_pod(cluster, "object-store-down", &script, &json!({})).await?;
    assert!(text.contains("refused"), "{text}");
    s3.restart()?;
    s3.make_bucket("after").await?;
    assert_eq!(s3.keys("ready", "").await?, ["ready"]);
    Ok(())
}

async fn api_service(cluster: &Cluster) -> Result<(), Error> {
    // TLS is spoken there: a plain request is told so, which takes the way through the Service.
    let script = http("kubernetes.default", 443, "/version");
    // Right after the first endpoint is known, connections may still be refused.
    let script = format!("until {script}; do sleep 0.5; done");
    let text = run_pod(cluster, "api-service", &script, &json!({})).await?;
    assert!(text.contains("HTTP request to an HTTPS server"), "{text}");
    Ok(())
}

async fn libtorch(cluster: &Cluster) -> Result<(), Error> {
    let store = cluster.libtorch().unwrap();
    let (name, programs) = ("warpforge.test/over-libtorch:1", stock::shell_programs()?);
    let entry = ["/usr/bin/bash", "-c"];
    let image = Image::over_libtorch(cluster.folder(), store, name, &programs, &entry)?;
    let size = std::fs::metadata(image.archive()).unwrap().len();
    assert!(size < store.layer().size() / 10, "the archive has the layer in it: {size}");
    cluster.import(&image)?;
    // All of it is there, on each node.
    let script = "[ -s $LIBTORCH/lib/libtorch_cpu.so ] && cat $LIBTORCH/lib/*.so > /dev/null";
    for node in cluster.nodes() {
        let mut spec = pod_spec(script, &json!({}));
        spec["containers"][0]["image"] = image.name().into();
        spec["nodeName"] = node.name().into();
        finish_pod(cluster, &format!("libtorch-{}", node.name()), spec).await?;
    }
    Ok(())
}

async fn metrics(cluster: &Cluster) -> Result<(), Error> {
    let prometheus = Prometheus::start(cluster, "").await?;
    let target = prometheus.url().trim_start_matches("http://").to_owned();
    prometheus.follow(&[(target, json!({ "who": "itself" }))])?;
    cluster
        .until("a sample", PATIENCE, async || {
            let series = prometheus.query("up{who=\"itself\"} == 1").await;
            let series = series.map_err(|error| error.to_string())?;
            if series.len() == 1 { Ok(()) } else { Err(format!("{series:?}")) }
        })
        .await
}

async fn broken_device(cluster: &Cluster) -> Result<(), Error> {
    let node = cluster.node(2);
    node.unhealthy("nvidia.com/gpu", "gpu-3")?;
    cluster.offers(node, "nvidia.com/gpu", 7).await?;
    node.repair()?;
    cluster.ready(node).await
}

async fn api_server(cluster: &Cluster) -> Result<(), Error> {
    cluster.api_server().stop();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    assert!(pods.get("allocation").await.is_err());
    cluster.api_server().start()?;
    cluster.api_server().answers(&cluster.client()).await?;
    for node in cluster.nodes() {
        cluster.ready(node).await?;
    }
    run_pod(cluster, "after-api-server", "true", &json!({})).await.map(drop)
}

async fn power(cluster: &Cluster) -> Result<(), Error> {
    let node = cluster.node(2);
    node.crash()?;
    cluster.lost(node).await?;
    node.start()?;
    cluster.ready(node).await?;
    // It has the images it had, and runs pods again.
    let mut spec = pod_spec("true", &json!({}));
    spec["nodeName"] = node.name().into();
    finish_pod(cluster, "after-power", spec).await.map(drop)
}

async fn cable(cluster: &Cluster) -> Result<(), Error> {
    let (cut, hung) = (cluster.node(1), cluster.node(2));
    for node in [cut, hung] {
        cluster.ready(node).await?;
    }
    cut.cut()?;
    hung.freeze()?;
    for node in [cut, hung] {
        cluster.lost(node).await?;
    }
    cut.join()?;
    hung.thaw()?;
    for node in [cut, hung] {
        cluster.ready(node).await?;
    }
    Ok(())
}

async fn container_runtime(cluster: &Cluster) -> Result<(), Error> {
    let node = cluster.node(2);
    node.stop_container_runtime()?;
    assert!(node.ctr().arg("version").output().is_ok_and(|output| !output.status.success()));
    node.start_container_runtime()?;
    let mut spec = pod_spec("true", &json!({}));
    spec["nodeName"] = node.name().into();
    finish_pod(cluster, "after-runtime", spec).await.map(drop)
}

/// A line of shell that asks for a page and prints all of the answer.
fn http(host: &str, port: u16, path: &str) -> String {
    format!(
        "{{ exec 3<>/dev/tcp/{host}/{port} && \
         printf 'GET {path} HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n' >&3 && cat <&3; }}"
    )
}

fn pod_spec(script: &str, resources: &Value) -> Value {
    json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "main", "image": stock::SHELL, "args": [script], "resources": resources,
        }],
    })
}

/// Runs a script in a pod of its own to its end; gives its log.
async fn run_pod(
    cluster: &Cluster,
    name: &str,
    script: &str,
    resources: &Value,
) -> Result<String, Error> {
    finish_pod(cluster, name, pod_spec(script, resources)).await
}

async fn finish_pod(cluster: &Cluster, name: &str, spec: Value) -> Result<String, Error> {
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let pod = object(json!({ "metadata": { "name": name }, "spec": spec }));
    // A new namespace has its account a moment later.
    cluster
        .until(&format!("the pod {name}"), PATIENCE, async || {
            let made = pods.create(&PostParams::default(), &pod).await;
            made.map(drop).map_err(|error| error.to_string())
        })
        .await?;
    cluster
        .until(&format!("the end of {name}"), PATIENCE, async || {
            let pod = pods.get(name).await.map_err(|error| error.to_string())?;
            let status = pod.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Succeeded") => Ok(()),
                _ => Err(format!("{status:?}")),
            }
        })
        .await?;
    Ok(pods.logs(name, &LogParams::default()).await?)
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
