//! What the API server itself accepts, refuses and fills in.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use warpforge_operator_api::{BenchmarkProfile, BenchmarkRun};

use super::apiserver::established;
use super::scene::{Scene, scene};

async fn create(scene: &Scene, name: &str, spec: Value) -> Result<DynamicObject, String> {
    let kind = ApiResource::erase::<BenchmarkRun>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(scene.client.clone(), &scene.namespace, &kind);
    let run = DynamicObject::new(name, &kind).data(json!({ "spec": spec }));
    let created = api.create(&PostParams::default(), &run).await;
    created.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => panic!("{other}"),
    })
}

#[test]
fn the_definitions_are_accepted() {
    scene(async |scene| {
        let api: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
        for name in ["benchmarkruns.warpforge.dev", "benchmarkprofiles.warpforge.dev"] {
            let crd = api.get(name).await.unwrap();
            assert!(established(&crd), "{name}");
            let conditions =
                crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let complaints: Vec<_> = conditions
                .filter(|condition| {
                    condition.type_ == "NonStructuralSchema" && condition.status == "True"
                })
                .collect();
            assert!(complaints.is_empty(), "{complaints:?}");
        }
    });
}

#[test]
fn what_is_left_out_is_filled_in() {
    scene(async |scene| {
        let run = create(&scene, "least", json!({ "workload": { "name": "bert-squad" } }));
        let run = run.await.unwrap();
        let expected = json!({
            "workload": { "name": "bert-squad" },
            "profile": "default",
            "passes": ["Golden", "Warpforge"],
            "workers": [{ "name": "cpu", "replicas": 1, "vendor": "Cpu" }],
            "suspend": false,
        });
        let mut spec = run.data["spec"].clone();
        // Empty maps that a default brings say nothing.
        prune(&mut spec);
        assert_eq!(spec, expected);
        // And the types read it as the API server has it.
        let typed: BenchmarkRun = scene.runs().get("least").await.unwrap();
        assert_eq!(typed.spec.profile, "default");
        assert_eq!(typed.spec.workers.len(), 1);
    });
}

fn prune(value: &mut Value) {
    let empty = |value: &Value| {
        value.as_object().is_some_and(serde_json::Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|_, value| !empty(value));
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[test]
fn wrong_requests_are_refused_with_the_reason() {
    let workload = json!({ "name": "bert-squad" });
    let with = |key: &str, value: Value| {
        let mut spec = json!({ "workload": workload });
        spec[key] = value;
        spec
    };
    let cases = [
        (json!({}), "exactly one of workload, model and suite"),
        (with("suite", json!({ "name": "ops" })), "exactly one of workload, model and suite"),
        (
            json!({ "suite": { "name": "micro" }, "thresholds": { "minimumRatio": "1" } }),
            "a suite has no passes",
        ),
        (json!({ "suite": { "name": "micro" }, "goldenPolicy": "Reuse" }), "a suite has no passes"),
        (json!({ "suite": { "name": "micro" }, "passes": ["Golden"] }), "a suite has no passes"),
        (json!({ "suite": { "name": "micro", "components": ["cpu"] } }), "Unsupported value"),
        (json!({ "suite": { "name": "micro", "durationSeconds": 0 } }), "greater than or equal"),
        (with("passes", json!(["Golden", "Golden"])), "Duplicate value"),
        (with("passes", json!([])), "spec.passes"),
        (with("goldenPolicy", json!("Sometimes")), "Unsupported value: \"Sometimes\""),
        (
            json!({ "workload": workload, "goldenPolicy": "Only", "passes": ["Warpforge"] }),
            "goldenPolicy Only needs the pass Golden",
        ),
        (
            json!({ "workload": workload, "goldenPolicy": "Skip", "passes": ["Golden"] }),
            "goldenPolicy Skip needs the pass Warpforge",
        ),
        (
            with("workers", json!([{ "name": "a", "vendor": "Cpu", "gpusPerWorker": 1 }])),
            "a Cpu worker has no GPUs",
        ),
        (
            with(
                "workers",
                json!([{ "name": "a", "vendor": "Cpu" }, { "name": "a", "vendor": "Amd" }]),
            ),
            "Duplicate value",
        ),
        (with("workers", json!([{ "name": "A", "vendor": "Cpu" }])), "should match"),
        (
            with("workers", json!([{ "name": "a", "vendor": "Cpu", "replicas": 0 }])),
            "greater than or equal to 1",
        ),
        (
            with(
                "failurePolicy",
                json!({ "rules": [{ "when": { "exitCodes": [3], "reasons": ["Evicted"] },
                                    "action": "Retry" }] }),
            ),
            "exactly one of exitCodes and reasons",
        ),
        (
            with(
                "failurePolicy",
                json!({ "rules": [{ "when": { "exitCodes": [1] }, "action": "Retry" }] }),
            ),
            "greater than or equal to 2",
        ),
        (with("pendingDeadlineSeconds", json!(5)), "greater than or equal to 10"),
        (with("profile", json!("Not A Name")), "should match"),
        (json!({ "model": { "uri": "s3://user:password@bucket/m.pt2" } }), "should match"),
        (
            with("artifacts", json!({ "s3": { "bucket": "results", "endpoint": "ftp://x" } })),
            "should match",
        ),
        (with("tolerances", json!({ "loss": { "relative": "a lot" } })), "should match"),
    ];
    scene(async |scene| {
        for (index, (spec, reason)) in cases.into_iter().enumerate() {
            let refused = create(&scene, &format!("wrong-{index}"), spec.clone()).await;
            let message = refused.expect_err(&spec.to_string());
            assert!(message.contains(reason), "{spec}\n{message}");
        }
    });
}

#[test]
fn a_request_cannot_be_changed_but_for_two_fields() {
    scene(async |scene| {
        let spec = json!({ "workload": { "name": "bert-squad" }, "runDeadlineSeconds": 100 });
        create(&scene, "fixed", spec).await.unwrap();
        let api = scene.runs();
        let change = async |spec: Value| {
            let patch = Patch::Merge(json!({ "spec": spec }));
            api.patch("fixed", &PatchParams::default(), &patch).await.map_err(|e| e.to_string())
        };
        for (spec, field) in [
            (json!({ "workload": { "name": "llama-qlora" } }), "workload"),
            (json!({ "profile": "another" }), "profile"),
            (json!({ "passes": ["Golden"] }), "passes"),
            (json!({ "runDeadlineSeconds": 200 }), "runDeadlineSeconds"),
            (json!({ "runDeadlineSeconds": null }), "runDeadlineSeconds"),
            (json!({ "queueName": "fast" }), "queueName"),
            (json!({ "workers": [{ "name": "cpu", "vendor": "Cpu", "replicas": 2 }] }), "workers"),
        ] {
            let message = change(spec).await.unwrap_err();
            let expected = format!("{field} cannot be changed; make another run");
            assert!(message.contains(&expected), "{message}");
        }
        change(json!({ "suspend": true })).await.unwrap();
        let changed = change(json!({ "ttlSecondsAfterFinished": { "passed": 60 } })).await.unwrap();
        assert_eq!(changed.meta().generation, Some(3));
    });
}

#[test]
fn a_profiles_defaults_are_those_of_the_types() {
    scene(async |scene| {
        let api: Api<BenchmarkProfile> = Api::all(scene.client.clone());
        let kind = ApiResource::erase::<BenchmarkProfile>(&());
        let dynamic: Api<DynamicObject> = Api::all_with(scene.client.clone(), &kind);
        let empty = DynamicObject::new(&scene.namespace, &kind).data(json!({ "spec": {} }));
        dynamic.create(&PostParams::default(), &empty).await.unwrap();
        let stored = api.get(&scene.namespace).await.unwrap();
        assert_eq!(stored.name_any(), scene.namespace);
        assert_eq!(stored.spec, warpforge_operator_api::BenchmarkProfileSpec::default());
    });
}
