//! Kueue beside the API server, with its own definitions and webhooks.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use warpforge_test_kubernetes::part::Part;

use super::apiserver::{Server, established, leash, ports, program};
use super::queue;
use super::scene::{Scene, scene, until};

/// What Kueue answers for in these tests. Its other webhooks are of kinds that are not there.
const ANSWERED: [&str; 3] = ["-batch-v1-job", "--v1-pod", "-kueue-x-k8s-io-"];

/// Plays a test, if there is a cluster to play it on, with Kueue at work.
pub fn kueue<F: Future<Output = ()>>(play: impl FnOnce(Scene) -> F) {
    static KUEUE: OnceLock<Part> = OnceLock::new();
    let Some(server) = super::apiserver::server() else { return };
    KUEUE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(begin(server))
    });
    scene(play);
}

async fn begin(server: &Server) -> Part {
    let program = program().unwrap().with_file_name("kueue");
    assert!(program.is_file(), "no Kueue: run `cargo xtask setup cluster`");
    let manifests = program.with_file_name("kueue-manifests");
    let client = server.client().await;
    definitions(&client, &manifests).await;
    let [port] = ports();
    let config = server.folder.join("kueue.json");
    fs::write(&config, configuration(&server.folder, port).to_string()).unwrap();
    // The names that its server looks for.
    for (from, to) in [("server.crt", "tls.crt"), ("server.key", "tls.key")] {
        fs::copy(server.folder.join(from), server.folder.join(to)).unwrap();
    }
    let mut command = Command::new(&program);
    command.arg("--kubeconfig").arg(&server.kubeconfig).arg("--config").arg(&config);
    // It gives up on an API server that does not serve its kinds yet.
    until("Kueue's kinds", async || queue::are_served(&client).await.then_some(())).await;
    let part = leash(&command, &server.folder, "kueue");
    webhooks(&client, &manifests, &server.folder, port).await;
    until(&format!("Kueue\n{}", part.last_words()), async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        queue::flavor(&client).await.ok()
    })
    .await;
    part
}

/// As an administrator writes it. Its certificate is the tests' own.
fn configuration(folder: &Path, port: u16) -> serde_json::Value {
    json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta1",
        "kind": "Configuration",
        "integrations": { "frameworks": ["batch/job", "pod"] },
        "internalCertManagement": { "enable": false },
        "webhook": { "host": "127.0.0.1", "port": port, "certDir": folder },
        "leaderElection": { "leaderElect": false },
        "health": { "healthProbeBindAddress": "0" },
        "metrics": { "bindAddress": "0" },
        "clientConnection": { "qps": 200, "burst": 400 },
    })
}

async fn definitions(client: &Client, manifests: &Path) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut names = Vec::new();
    for entry in fs::read_dir(manifests.join("crds")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let crd: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        names.extend(crd.metadata.name.clone());
        api.create(&PostParams::default(), &crd).await.unwrap();
    }
    for name in names {
        until(&name, async || established(&api.get(&name).await.unwrap()).then_some(())).await;
    }
}

/// Installs Kueue's own list, with its address in the place of a Service's.
async fn webhooks(client: &Client, manifests: &Path, folder: &Path, port: u16) {
    let text = fs::read_to_string(manifests.join("webhooks.yaml")).unwrap();
    let authority = ByteString(fs::read(folder.join("ca.crt")).unwrap());
    let answered = |config: &WebhookClientConfig| {
        let path = config.service.as_ref().and_then(|service| service.path.clone()).unwrap();
        ANSWERED.iter().any(|part| path.contains(part))
    };
    let here = |config: &WebhookClientConfig| {
        let path = config.service.as_ref().and_then(|service| service.path.as_ref()).unwrap();
        let url = Some(format!("https://127.0.0.1:{port}{path}"));
        WebhookClientConfig { url, ca_bundle: Some(authority.clone()), service: None }
    };
    let mut documents = text.split("---\n").filter(|text| !text.trim().is_empty());
    let mut mutating: MutatingWebhookConfiguration = parse(documents.next());
    let all = mutating.webhooks.as_mut().unwrap();
    all.retain(|webhook| answered(&webhook.client_config));
    for webhook in &mut *all {
        webhook.client_config = here(&webhook.client_config);
    }
    assert!(!all.is_empty());
    let mut validating: ValidatingWebhookConfiguration = parse(documents.next());
    let all = validating.webhooks.as_mut().unwrap();
    all.retain(|webhook| answered(&webhook.client_config));
    for webhook in &mut *all {
        webhook.client_config = here(&webhook.client_config);
    }
    assert!(!all.is_empty());
    create(client, &mutating).await;
    create(client, &validating).await;
}

fn parse<T: DeserializeOwned>(text: Option<&str>) -> T {
    serde_saphyr::from_str(text.unwrap()).unwrap()
}

async fn create<K>(client: &Client, object: &K)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>,
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    Api::all(client.clone()).create(&PostParams::default(), object).await.unwrap();
}
