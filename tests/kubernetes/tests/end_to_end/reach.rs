//! Who reaches whom: policies of the network as the operator and the chart write them, tried from
//! pods in the clothes of those that they are about.

use std::fs;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use warpforge_operator_api::contract::{HTTP_PORT, RENDEZVOUS_PORT};
use warpforge_operator_api::labels;
use warpforge_test_kubernetes::{Error, address, s3, stock};

use crate::world::{PATIENCE, RELEASE, RUNS, World, object};

/// The run that probes claim to be of.
const CLAIMED: &str = "claimed";

/// Tells of each place in turn whether anything comes back from it. Rules know a pod a moment after
/// it is there, so each is asked until it is as it should be. What answers comes first: it answers
/// those alone that the rules know, and what is silent then is so by them.
const SCRIPT: &str = r#"
comes_back() {
    (exec 3<>/dev/tcp/$1/$2) 2> /dev/null &
    for _ in {1..15}; do
        sleep 0.1
        kill -0 $! 2> /dev/null || return 0
    done
    kill -9 $!
    wait $! 2> /dev/null
    return 1
}
for place in $ANSWERING; do
    until comes_back ${place/:/ } || ((SECONDS > 60)); do :; done
    comes_back ${place/:/ } && echo "$place answers" || echo "$place is silent"
done
for place in $SILENT; do
    while comes_back ${place/:/ } && ((SECONDS < 120)); do :; done
    comes_back ${place/:/ } && echo "$place answers" || echo "$place is silent"
done
getent hosts kubernetes.default.svc.cluster.local > /dev/null && echo "names are found"
"#;

struct Probe<'a> {
    namespace: &'a str,
    name: &'a str,
    node: &'a str,
    labels: Value,
    silent: Vec<String>,
    answering: Vec<String>,
}

pub async fn reach(world: &'static World) -> Result<(), Error> {
    world.cluster.import(&stock::shell(world.cluster.folder())?)?;
    let claimed = claim(world).await?;
    // Nothing listens there: a packet that comes through is answered with a refusal.
    let asleep = pod("asleep", "node1", &claimed, "sleep infinity", &json!([]));
    let pods: Api<Pod> = Api::namespaced(world.cluster.client(), RUNS);
    pods.create(&PostParams::default(), &object(asleep)).await?;
    let worker = world
        .cluster
        .until("the address of a worker", PATIENCE, async || {
            let pod = pods.get("asleep").await.map_err(|error| error.to_string())?;
            pod.status.and_then(|status| status.pod_ip).ok_or_else(|| "none".to_owned())
        })
        .await?;
    let (rendezvous, http) =
        (format!("{worker}:{RENDEZVOUS_PORT}"), format!("{worker}:{HTTP_PORT}"));
    let store = format!("{}:{}", address::HOST, s3::PORT);
    let api = format!("{}:{}", address::HOST, address::API_PORT);
    let operator = world.operators().await?.remove(0);
    let stranger = |name, node| Probe {
        namespace: RUNS,
        name,
        node,
        labels: json!({}),
        silent: vec![rendezvous.clone()],
        answering: vec![http.clone(), operator.clone(), store.clone(), api.clone()],
    };
    let sibling = |name, node| Probe {
        namespace: RUNS,
        name,
        node,
        labels: claimed.clone(),
        silent: vec![operator.clone()],
        answering: vec![rendezvous.clone(), http.clone(), store.clone()],
    };
    let probes = [
        // Between pods of one node, and between nodes.
        stranger("stranger-near", "node1"),
        stranger("stranger-far", "node2"),
        sibling("sibling-near", "node1"),
        sibling("sibling-far", "node2"),
        // The run's name alone does not make one of it.
        Probe { namespace: "default", labels: claimed.clone(), ..stranger("namesake", "node2") },
        Probe {
            namespace: RELEASE,
            name: "operator-like",
            node: "node2",
            labels: operator_labels(world).await?,
            silent: vec![store.clone(), rendezvous.clone()],
            answering: vec![http.clone(), api.clone()],
        },
    ];
    for probe in &probes {
        let environment = json!([
            { "name": "SILENT", "value": probe.silent.join(" ") },
            { "name": "ANSWERING", "value": probe.answering.join(" ") },
        ]);
        let pod = pod(probe.name, probe.node, &probe.labels, SCRIPT, &environment);
        let pods: Api<Pod> = Api::namespaced(world.cluster.client(), probe.namespace);
        pods.create(&PostParams::default(), &object(pod)).await?;
    }
    let mut told = Vec::new();
    for probe in &probes {
        told.push(last_words(world, probe).await?);
    }
    pods.delete("asleep", &DeleteParams::default()).await?;
    let policies: Api<NetworkPolicy> = Api::namespaced(world.cluster.client(), RUNS);
    policies.delete(CLAIMED, &DeleteParams::default()).await?;
    for (probe, told) in probes.iter().zip(told) {
        let answering = probe.answering.iter().map(|place| format!("{place} answers"));
        let silent = probe.silent.iter().map(|place| format!("{place} is silent"));
        let names = std::iter::once("names are found".to_owned());
        let expected: Vec<_> = answering.chain(silent).chain(names).collect();
        assert_eq!(told.lines().collect::<Vec<_>>(), expected, "{}", probe.name);
    }
    let faults = fs::read_to_string(world.cluster.folder().join("policies.log"));
    assert!(faults.is_err(), "policies that were not enforced: {}", faults.unwrap_or_default());
    Ok(())
}

/// A policy as a run has it, for a run that nobody submitted; what its pods are labelled with.
async fn claim(world: &World) -> Result<Value, Error> {
    world.submit(RUNS, "reaching", json!({})).await?;
    let run = world.runs(RUNS).get("reaching").await?;
    let uid = run.uid().unwrap();
    let policies: Api<NetworkPolicy> = Api::namespaced(world.cluster.client(), RUNS);
    let chosen = ListParams::default().labels(&format!("{}={uid}", labels::RUN_UID));
    let policy = world
        .cluster
        .until("the run's policy", PATIENCE, async || {
            let found = policies.list(&chosen).await.map_err(|error| error.to_string())?;
            found.items.into_iter().next().ok_or_else(|| "none".to_owned())
        })
        .await?;
    let spec = serde_json::to_string(&policy.spec).unwrap();
    assert!(spec.contains(&uid), "{spec}");
    let spec: Value = serde_json::from_str(&spec.replace(&uid, CLAIMED)).unwrap();
    let copy = json!({ "metadata": { "name": CLAIMED }, "spec": spec });
    policies.create(&PostParams::default(), &object(copy)).await?;
    world.complete(RUNS, "reaching").await?;
    Ok(json!({ labels::RUN_UID: CLAIMED, labels::MANAGED_BY: labels::MANAGED_BY_VALUE }))
}

async fn operator_labels(world: &World) -> Result<Value, Error> {
    let pods: Api<Pod> = Api::namespaced(world.cluster.client(), RELEASE);
    let chosen = ListParams::default().labels("app.kubernetes.io/component=operator");
    let mut labels = pods.list(&chosen).await?.items.remove(0).labels().clone();
    // By which its ReplicaSet knows it as its own.
    labels.remove("pod-template-hash").expect("a Deployment's pod");
    Ok(json!(labels))
}

fn pod(name: &str, node: &str, labels: &Value, script: &str, environment: &Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "securityContext": { "runAsNonRoot": true, "runAsUser": 65532,
                                 "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{ "name": "main", "image": stock::SHELL, "args": [script],
                             "env": environment,
                             "securityContext": { "allowPrivilegeEscalation": false,
                                                  "capabilities": { "drop": ["ALL"] } } }],
        },
    })
}

/// What a probe said when it had asked everywhere; it is removed.
async fn last_words(world: &World, probe: &Probe<'_>) -> Result<String, Error> {
    let pods: Api<Pod> = Api::namespaced(world.cluster.client(), probe.namespace);
    world
        .cluster
        .until(&format!("the end of {}", probe.name), PATIENCE, async || {
            let pod = pods.get(probe.name).await.map_err(|error| error.to_string())?;
            let status = pod.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Succeeded" | "Failed") => Ok(()),
                _ => Err(format!("{status:?}")),
            }
        })
        .await?;
    let text = pods.logs(probe.name, &LogParams::default()).await?;
    pods.delete(probe.name, &DeleteParams::default()).await?;
    Ok(text)
}
