//! What a profile gives, and what it refuses.

mod common;

use std::collections::BTreeMap;

use common::{profile, request, rules};
use warpforge_operator_api::BenchmarkRunSpec;
use warpforge_operator_api::data::{
    Artifacts, Component, Data, Model, ModelInputs, Pass, S3, SecretKey, Suite, VolumeClaim,
};
use warpforge_operator_api::policy::{GoldenPolicy, Thresholds, Tolerance, Tolerances};
use warpforge_operator_api::profile::NodeLabel;
use warpforge_operator_api::quantity::{Decimal, Quantity};
use warpforge_operator_api::workers::{Rdma, Toleration, TolerationOperator, Variable};
use warpforge_operator_controller::observed::ProfileSeen;
use warpforge_operator_controller::resolve::resolve;

fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|one| (*one).to_owned()).collect()
}

fn amount(text: &str) -> Quantity {
    Quantity::new(text).unwrap()
}

fn store(endpoint: Option<&str>, bucket: &str, prefix: &str, secret: Option<&str>) -> Artifacts {
    Artifacts {
        s3: S3 {
            endpoint: endpoint.map(str::to_owned),
            region: "us-east-1".into(),
            bucket: bucket.into(),
            prefix: prefix.into(),
            credentials_secret: secret.map(str::to_owned),
        },
    }
}

fn model(uri: &str) -> BenchmarkRunSpec {
    let model = Model { uri: uri.into(), inputs: None, training: None };
    BenchmarkRunSpec { workload: None, model: Some(model), ..request() }
}

/// What is refused, as text; `ok` if nothing is.
fn outcome(spec: &BenchmarkRunSpec, profile: &ProfileSeen) -> String {
    match resolve("team", spec, profile) {
        Ok(_) => "ok".into(),
        Err(refusals) => refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

/// An administrator who allows something of everything.
fn generous() -> ProfileSeen {
    let mut profile = profile();
    let defaults = &mut profile.spec.defaults;
    defaults.artifacts = Some(store(Some("https://s3.lab"), "results", "lab", Some("s3-lab")));
    defaults.node_selector = [("pool".to_owned(), "bench".to_owned())].into();
    defaults.resources.requests = [("memory".to_owned(), amount("8Gi"))].into();
    let allowed = &mut profile.spec.allowed;
    allowed.images = strings(&["registry.example.org/team/*"]);
    allowed.endpoints = strings(&["https://other.lab:9000"]);
    allowed.uri_prefixes = strings(&["s3://models/team/", "s3://scratch"]);
    allowed.secrets = strings(&["team-*"]);
    allowed.volume_claims = strings(&["squad"]);
    allowed.resources =
        strings(&["nvidia.com/gpu", "rdma/*", "nvidia.com/mig-1g.5gb", "hugepages-2Mi"]);
    allowed.node_selectors =
        vec![NodeLabel { key: "gpu".into(), values: strings(&["rtx4080", "a*"]) }];
    allowed.tolerations = strings(&["dedicated"]);
    allowed.queues = strings(&["lab"]);
    allowed.priority_classes = strings(&["low"]);
    allowed.licenses = strings(&["cc-by-4.0"]);
    let most = [("memory", "64Gi"), ("cpu", "16"), ("rdma/hca", "2")];
    profile.spec.limits.resources =
        most.into_iter().map(|(name, most)| (name.to_owned(), amount(most))).collect();
    profile
}

type Edit = fn(&mut BenchmarkRunSpec);

/// Rows: an edit of a request that is allowed as it stands, and what is refused of it.
const ROWS: &[(Edit, &str)] = &[
    (|_| {}, "ok"),
    // Images.
    (|s| s.workers[0].image = Some("registry.example.org/team/mine:2".into()), "ok"),
    (|s| s.workers[0].image = Some("registry.example.org/runner-cpu:1".into()), "ok"),
    (
        |s| s.workers[0].image = Some("registry.example.org/teams/x".into()),
        "workers[a].image: registry.example.org/teams/x is not on the profile's list allowed.images",
    ),
    // Devices.
    (|s| s.workers[1].gpus_per_worker = Some(16), "ok"),
    (
        |s| s.workers[1].gpus_per_worker = Some(17),
        "workers[b].gpusPerWorker: 17 is more than the profile's limit of 16",
    ),
    (|s| s.workers[0].gpus_per_worker = Some(0), "ok"),
    (|s| s.workers[1].gpu_resource_name = Some("nvidia.com/mig-1g.5gb".into()), "ok"),
    (
        |s| s.workers[1].gpu_resource_name = Some("nvidia.com/mig-7g.80gb".into()),
        "workers[b].gpuResourceName: nvidia.com/mig-7g.80gb is not on the profile's list \
         allowed.resources",
    ),
    (|s| s.workers[1].rdma = Some(Rdma { resource_name: "rdma/hca".into(), count: 2 }), "ok"),
    (
        |s| s.workers[1].rdma = Some(Rdma { resource_name: "rdma/hca".into(), count: 3 }),
        "workers[b].rdma.resourceName: 3 is more than the profile's limit of 2",
    ),
    (
        |s| s.workers[1].rdma = Some(Rdma { resource_name: "vendor/x".into(), count: 1 }),
        "workers[b].rdma.resourceName: vendor/x is not on the profile's list allowed.resources",
    ),
    // Amounts.
    (|s| limit(s, "memory", "64Gi"), "ok"),
    (|s| limit(s, "hugepages-2Mi", "1Gi"), "ok"),
    (
        |s| limit(s, "memory", "65Gi"),
        "workers[a].resources.limits: 65Gi is more than the profile's limit of 64Gi",
    ),
    (
        |s| limit(s, "example.com/fpga", "1"),
        "workers[a].resources.limits: example.com/fpga is not on the profile's list allowed.resources",
    ),
    (
        |s| {
            s.workers[1].resources.limits.insert("nvidia.com/gpu".into(), amount("8"));
        },
        "workers[b].resources.limits: nvidia.com/gpu is asked for by gpusPerWorker and rdma",
    ),
    (
        |s| {
            limit(s, "cpu", "2");
            s.workers[0].resources.requests.insert("cpu".into(), amount("3"));
        },
        "workers[a].resources.requests: 3 of cpu is more than its limit of 2",
    ),
    (|s| s.workers[0].replicas = 16, "workers: 17 is more than the profile's limit of 16"),
    // Nodes.
    (|s| select(s, "gpu", "a100"), "ok"),
    (|s| select(s, "pool", "bench"), "ok"),
    (
        |s| select(s, "pool", "other"),
        "workers[a].nodeSelector: the profile asks for nodes with pool=bench",
    ),
    (
        |s| select(s, "gpu", "h100"),
        "workers[a].nodeSelector: gpu=h100 is not on the profile's list allowed.nodeSelectors",
    ),
    (
        |s| select(s, "kubernetes.io/hostname", "master"),
        "workers[a].nodeSelector: kubernetes.io/hostname=master is not on the profile's list \
         allowed.nodeSelectors",
    ),
    (|s| tolerate(s, Some("dedicated")), "ok"),
    (
        |s| tolerate(s, None),
        "workers[a].tolerations: * is not on the profile's list allowed.tolerations",
    ),
    (
        |s| tolerate(s, Some("node-role.kubernetes.io/control-plane")),
        "workers[a].tolerations: node-role.kubernetes.io/control-plane is not on the profile's \
         list allowed.tolerations",
    ),
    // Variables that lead elsewhere.
    (|s| set(s, "OMP_NUM_THREADS"), "ok"),
    (|s| set(s, "AWS_ENDPOINT_URL"), "workers[a].env: AWS_ENDPOINT_URL is the operator's to set"),
    (|s| set(s, "LD_PRELOAD"), "workers[a].env: LD_PRELOAD is the operator's to set"),
    // Object stores.
    (
        |s| {
            s.artifacts = Some(store(Some("https://s3.lab"), "results", "lab/mine", Some("s3-lab")))
        },
        "ok",
    ),
    (
        |s| {
            s.artifacts = Some(store(Some("https://other.lab:9000"), "scratch", "", Some("team-a")))
        },
        "ok",
    ),
    (
        |s| s.artifacts = Some(store(Some("https://s3.lab"), "results", "labs", None)),
        "artifacts.s3.bucket: s3://results/labs is not on the profile's list allowed.uriPrefixes",
    ),
    (
        |s| s.artifacts = Some(store(Some("https://s3.lab"), "results", "lab/../x", None)),
        "artifacts.s3.prefix: it has a part `.` or `..`, or hides one",
    ),
    (
        |s| s.artifacts = Some(store(None, "scratch", "x", None)),
        "artifacts.s3.endpoint: aws is not on the profile's list allowed.endpoints",
    ),
    (
        // The profile's own secret would be sent to another store.
        |s| {
            s.artifacts = Some(store(Some("https://other.lab:9000"), "scratch", "", Some("s3-lab")))
        },
        "artifacts.s3.credentialsSecret: s3-lab is not on the profile's list allowed.secrets",
    ),
    // Models and data.
    (|s| *s = model("s3://models/team/bert.pt2"), "ok"),
    (
        |s| *s = model("s3://models/other/bert.pt2"),
        "model.uri: s3://models/other/bert.pt2 is not on the profile's list allowed.uriPrefixes",
    ),
    (
        |s| *s = model("s3://models/team/%2e%2E/other/x.pt2"),
        "model.uri: s3://models/team/%2e%2E/other/x.pt2 has a part `.` or `..`, or hides one",
    ),
    (
        |s| *s = model("data://squad/x.pt2"),
        "model.uri: data://squad/x.pt2 names no volume of data.volumeClaims",
    ),
    (
        |s| {
            *s = model("data://files/x.pt2");
            let claim = VolumeClaim { name: "files".into(), claim_name: "squad".into() };
            s.data = Some(Data { volume_claims: vec![claim], ..Data::default() });
        },
        "ok",
    ),
    (
        |s| {
            *s = model("s3://scratch/x.pt2");
            let inputs = ModelInputs { uris: strings(&["s3://elsewhere/y"]), seed: None };
            s.model.as_mut().unwrap().inputs = Some(inputs);
        },
        "model.inputs.uris: s3://elsewhere/y is not on the profile's list allowed.uriPrefixes",
    ),
    (|s| s.program_uri = Some("s3://scratch/step.mlir".into()), "ok"),
    (
        |s| {
            s.program_uri = Some("s3://scratch/step.mlir".into());
            s.golden_policy = Some(GoldenPolicy::Only);
        },
        "programUri: it runs in the pass Warpforge, which passes or goldenPolicy leave out",
    ),
    (
        |s| s.program_uri = Some("s3://elsewhere/step.mlir".into()),
        "programUri: s3://elsewhere/step.mlir is not on the profile's list allowed.uriPrefixes",
    ),
    (
        |s| {
            let secret = SecretKey { name: "root".into(), key: "token".into() };
            let claim = VolumeClaim { name: "x".into(), claim_name: "other".into() };
            s.data = Some(Data {
                volume_claims: vec![claim],
                hugging_face_token_secret: Some(secret),
                accept_licenses: strings(&["cc-by-4.0", "cc-by-nc-4.0"]),
            });
        },
        "data.volumeClaims[x].claimName: other is not on the profile's list allowed.volumeClaims; \
         data.huggingFaceTokenSecret.name: root is not on the profile's list allowed.secrets; \
         data.acceptLicenses: cc-by-nc-4.0 is not on the profile's list allowed.licenses",
    ),
    // Time, restarts, queues.
    (|s| s.run_deadline_seconds = Some(604_800), "ok"),
    (
        |s| s.run_deadline_seconds = Some(604_801),
        "runDeadlineSeconds: 604801 is more than the profile's limit of 604800",
    ),
    (
        |s| s.pending_deadline_seconds = Some(86_401),
        "pendingDeadlineSeconds: 86401 is more than the profile's limit of 86400",
    ),
    (
        |s| s.failure_policy = Some(rules("", 11)),
        "failurePolicy.maxRestarts: 11 is more than the profile's limit of 10",
    ),
    (|s| s.queue_name = Some("lab".into()), "ok"),
    (
        |s| s.queue_name = Some("production".into()),
        "queueName: production is not on the profile's list allowed.queues",
    ),
    (
        |s| s.priority_class_name = Some("system-node-critical".into()),
        "priorityClassName: system-node-critical is not on the profile's list \
         allowed.priorityClasses",
    ),
    // What workers cannot do yet.
    (
        |s| s.golden_policy = Some(GoldenPolicy::Skip),
        "goldenPolicy: Skip: Pass 2 starts from golden's state, and cannot do without yet",
    ),
    (
        |s| s.thresholds = Some(regression("0.05")),
        "thresholds.maximumRegression: workers have no baselines that a run could be held against",
    ),
    // What the API server's rules also refuse.
    (|s| s.workload = None, "spec: exactly one of workload, model and suite"),
    (
        |s| {
            s.passes = vec![Pass::Warpforge];
            s.golden_policy = Some(GoldenPolicy::Only);
        },
        "passes: goldenPolicy Only leaves no pass to compute",
    ),
    (|s| s.workers[1].name = "a".into(), "workers: two groups have the same name"),
];

fn regression(most: &str) -> Thresholds {
    Thresholds { maximum_regression: Some(Decimal(most.into())), ..Thresholds::default() }
}

fn limit(spec: &mut BenchmarkRunSpec, name: &str, most: &str) {
    spec.workers[0].resources.limits.insert(name.into(), amount(most));
}

fn select(spec: &mut BenchmarkRunSpec, key: &str, value: &str) {
    spec.workers[0].node_selector.insert(key.into(), value.into());
}

fn tolerate(spec: &mut BenchmarkRunSpec, key: Option<&str>) {
    let key = key.map(str::to_owned);
    let operator = TolerationOperator::Exists;
    spec.workers[0].tolerations = vec![Toleration { key, operator, ..Toleration::default() }];
}

fn set(spec: &mut BenchmarkRunSpec, name: &str) {
    spec.workers[0].env = vec![Variable { name: name.into(), value: "1".into() }];
}

#[test]
fn what_is_allowed_and_what_is_refused() {
    let profile = generous();
    for (edit, expected) in ROWS {
        let mut spec = request();
        edit(&mut spec);
        assert_eq!(outcome(&spec, &profile), *expected);
    }
}

/// Rows: what a profile lists, its most of `nvidia.com/gpu`, and the name and number of GPUs that a
/// worker of Nvidia's asks for.
#[test]
fn a_vendors_own_gpus_are_bound_by_list_and_limit() {
    const GPU: &str = "nvidia.com/gpu";
    const MIG: &str = "nvidia.com/mig-1g.5gb";
    let unlisted = |field: &str, name: &str| {
        format!("workers[b].{field}: {name} is not on the profile's list allowed.resources")
    };
    let too_many =
        |field: &str| format!("workers[b].{field}: 3 is more than the profile's limit of 2");
    let ok = || "ok".to_owned();
    for (listed, most, name, count, expected) in [
        // A profile that lists no resources leaves a vendor its own, and no other.
        (None, None, None, 2, ok()),
        (None, None, Some(GPU), 2, ok()),
        (None, None, Some(MIG), 1, unlisted("gpuResourceName", MIG)),
        // A list binds it.
        (Some(GPU), None, None, 2, ok()),
        (Some("nvidia.com/*"), None, None, 2, ok()),
        (Some("rdma/*"), None, None, 2, unlisted("gpusPerWorker", GPU)),
        (Some(MIG), None, Some(GPU), 2, unlisted("gpuResourceName", GPU)),
        (Some("rdma/*"), None, None, 0, ok()),
        // So does a limit, whatever is listed.
        (None, Some("2"), None, 2, ok()),
        (None, Some("2"), None, 3, too_many("gpusPerWorker")),
        (Some(GPU), Some("2"), Some(GPU), 3, too_many("gpuResourceName")),
    ] {
        let mut profile = profile();
        profile.spec.allowed.resources = listed.into_iter().map(str::to_owned).collect();
        profile.spec.limits.resources =
            most.into_iter().map(|most| (GPU.to_owned(), amount(most))).collect();
        let mut spec = request();
        spec.workers[1].gpu_resource_name = name.map(str::to_owned);
        spec.workers[1].gpus_per_worker = Some(count);
        assert_eq!(outcome(&spec, &profile), expected, "{listed:?} {most:?} {name:?} {count}");
    }
}

#[test]
fn what_is_left_out_is_the_profiles() {
    let mut profile = generous();
    profile.spec.goldens.trusted_writer = Some("nightly".into());
    let loose = |text: &str| Some(Decimal(text.into()));
    profile.spec.defaults.tolerances = Some(Tolerances {
        weights: Some(Tolerance { relative: loose("1e-3"), absolute: loose("1e-5") }),
        ..Tolerances::default()
    });
    let mut spec = request();
    spec.tolerances = Some(Tolerances {
        weights: Some(Tolerance { relative: loose("1e-2"), absolute: None }),
        loss: Some(Tolerance { relative: loose("1"), absolute: None }),
        ..Tolerances::default()
    });
    spec.workers[0].resources.limits.insert("memory".into(), amount("4Gi"));
    let resolved = resolve("team", &spec, &profile).unwrap();
    assert_eq!(resolved.workers[0].image, "registry.example.org/runner-cpu:1");
    assert_eq!(resolved.workers[1].gpus.as_ref().unwrap().count, 1);
    assert_eq!(resolved.workers[1].gpus.as_ref().unwrap().resource_name, "nvidia.com/gpu");
    assert!(resolved.workers[0].gpus.is_none());
    assert_eq!(resolved.workers[0].node_selector["pool"], "bench");
    // A lower limit brings the default request down; where the profile has a limit, all have one.
    assert_eq!(resolved.workers[0].resources.requests["memory"].as_str(), "4Gi");
    assert_eq!(resolved.workers[1].resources.requests["memory"].as_str(), "8Gi");
    assert_eq!(resolved.workers[1].resources.limits["memory"].as_str(), "64Gi");
    assert!(!resolved.workers[1].resources.limits.contains_key("rdma/hca"));
    assert_eq!(resolved.artifacts, profile.spec.defaults.artifacts);
    let weights = resolved.tolerances.weights.unwrap();
    assert_eq!((weights.relative, weights.absolute), (loose("1e-2"), loose("1e-5")));
    assert_eq!(resolved.tolerances.loss.unwrap().absolute, None);
    assert_eq!((resolved.pending_deadline_seconds, resolved.run_deadline_seconds), (600, 3600));
    assert_eq!(resolved.goldens.write, "goldens/team");
    assert_eq!(resolved.goldens.read, ["goldens/team", "goldens/nightly"]);
}

#[test]
fn the_golden_policy_decides_which_passes_run() {
    let both = vec![Pass::Golden, Pass::Warpforge];
    for (asked, policy, expected) in [
        (both.clone(), GoldenPolicy::Reuse, both.clone()),
        (both.clone(), GoldenPolicy::Only, vec![Pass::Golden]),
        (vec![Pass::Warpforge], GoldenPolicy::Reuse, vec![Pass::Warpforge]),
        (vec![Pass::Warpforge, Pass::Golden], GoldenPolicy::Refresh, both),
    ] {
        let spec = BenchmarkRunSpec { passes: asked, golden_policy: Some(policy), ..request() };
        assert_eq!(resolve("team", &spec, &profile()).unwrap().passes, expected);
    }
}

#[test]
fn a_suite_takes_nothing_from_a_profile_that_is_about_passes() {
    let mut strict = profile();
    let defaults = &mut strict.spec.defaults;
    defaults.golden_policy = GoldenPolicy::Skip;
    defaults.thresholds = Some(regression("0.05"));
    assert_eq!(
        outcome(&request(), &strict),
        "goldenPolicy: Skip: Pass 2 starts from golden's state, and cannot do without yet; \
         thresholds.maximumRegression: workers have no baselines that a run could be held against"
    );
    let suite = Suite {
        name: "micro".into(),
        benchmarks: Vec::new(),
        components: vec![Component::Cpu],
        duration_seconds: None,
        parameters: BTreeMap::new(),
    };
    let spec = BenchmarkRunSpec { workload: None, suite: Some(suite.clone()), ..request() };
    let spec = BenchmarkRunSpec { tolerances: None, thresholds: None, golden_policy: None, ..spec };
    let resolved = resolve("team", &spec, &strict).unwrap();
    assert_eq!(resolved.suite, Some(suite));
    assert!(resolved.passes.is_empty());
    assert_eq!(resolved.golden_policy, GoldenPolicy::Reuse);
    assert_eq!(resolved.thresholds, Thresholds::default());
    assert_eq!(resolved.tolerances, Tolerances::default());
    assert_eq!(resolved.subject(), "suite micro");
}

#[test]
fn an_image_that_nobody_names_is_missed() {
    let mut bare = profile();
    bare.spec.defaults.images.nvidia = None;
    assert_eq!(
        outcome(&request(), &bare),
        "workers[b].image: neither the run nor its profile names an image for Nvidia"
    );
}
