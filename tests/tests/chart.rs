//! The chart and the manifests, without a cluster: what Helm makes of the values, what the schema
//! refuses, what Prometheus makes of alerts and dashboard, and that samples keep to the definitions.
//! Files that are copied or rendered are written anew with `WARPFORGE_TEST_BLESS=1`.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Map, Value, json};
use warpforge_tests::root;

/// What the operator and the runners tell Prometheus.
const METRICS: &[&str] = &[
    "warpforge_golden_total",
    "warpforge_last_success_timestamp_seconds",
    "warpforge_leader",
    "warpforge_queue_depth",
    "warpforge_reasons_total",
    "warpforge_reconcile_errors_total",
    "warpforge_reconcile_seconds",
    "warpforge_result_fallbacks",
    "warpforge_result_loss",
    "warpforge_result_metric",
    "warpforge_result_power_watts",
    "warpforge_result_ratio",
    "warpforge_result_throughput",
    "warpforge_result_benchmark",
    "warpforge_result_worst_error",
    "warpforge_runs",
    "warpforge_verdicts_total",
    "warpforge_waiting",
];

/// Definitions are long, and held to be copies by a test of their own.
const NO_CRDS: &str = "--set=crds.install=false";

// ---------------------------------------------------------------------------------------------
// Tools

/// A program of the cluster's set-up. Without it the test is skipped by name, but not in CI.
fn tool(name: &str) -> Option<PathBuf> {
    let folder = env::var_os("WARPFORGE_CLUSTER_BIN").filter(|folder| !folder.is_empty());
    let path = folder.map_or_else(|| root().join(".cluster/bin"), PathBuf::from).join(name);
    if path.is_file() {
        return Some(path);
    }
    let missing =
        format!("there is no {} (WARPFORGE_CLUSTER_BIN names its folder)", path.display());
    assert!(env::var_os("CI").is_none(), "{missing}");
    skipped(&missing);
    None
}

fn skipped(why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // Past the capture of output, which would hide it.
    let _ = writeln!(std::io::stderr(), "Skipped: {name}: {why}");
}

fn chart() -> PathBuf {
    root().join("charts/warpforge")
}

fn everything() -> String {
    format!("--values={}", root().join("tests/tests/chart/everything.yaml").display())
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

#[track_caller]
fn stdout(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

struct Helm(PathBuf);

impl Helm {
    fn find() -> Option<Self> {
        tool("helm").map(Self)
    }

    /// The release that everything is rendered for.
    fn render(&self, more: &[&str]) -> Output {
        let mut command = Command::new(&self.0);
        command.args(["template", "warpforge"]).arg(chart()).args(["--namespace", "warpforge"]);
        run(command.args(more))
    }

    #[track_caller]
    fn text(&self, more: &[&str]) -> String {
        stdout(self.render(more))
    }

    #[track_caller]
    fn objects(&self, more: &[&str]) -> Vec<Value> {
        parse(&self.text(more))
    }
}

/// All documents of a YAML text.
#[track_caller]
fn parse(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}"))
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Holds a committed file to what a program makes, or writes it anew.
#[track_caller]
fn committed(path: &Path, fresh: &str) {
    if env::var_os("WARPFORGE_TEST_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, fresh).unwrap();
    }
    let there = fs::read_to_string(path).unwrap_or_default();
    assert!(there == fresh, "{} is stale: run `cargo xtask generate`", path.display());
}

// ---------------------------------------------------------------------------------------------
// What Helm makes of it

#[test]
fn the_chart_lints() {
    let Some(helm) = Helm::find() else { return };
    for values in [vec![], vec![everything()]] {
        let mut command = Command::new(&helm.0);
        stdout(run(command.args(["lint", "--strict"]).arg(chart()).args(values)));
    }
}

#[test]
fn the_default_values_render_as_ever() {
    let Some(helm) = Helm::find() else { return };
    insta::assert_snapshot!("default", helm.text(&[NO_CRDS]));
}

#[test]
fn everything_renders_as_ever() {
    let Some(helm) = Helm::find() else { return };
    // The dashboard is a file of its own.
    let text = helm.text(&[NO_CRDS, &everything(), "--set=dashboard.enabled=false"]);
    insta::assert_snapshot!("everything", text);
}

#[test]
fn the_chart_and_the_workspace_have_one_version() {
    let chart: Value = parse(&fs::read_to_string(chart().join("Chart.yaml")).unwrap()).remove(0);
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    let profile = fs::read_to_string(root().join("manifests/samples/profile-lab.yaml")).unwrap();
    for (name, image) in parse(&profile)[0]["spec"]["defaults"]["images"].as_object().unwrap() {
        let tag = image.as_str().and_then(|image| image.rsplit_once(':')).map(|(_, tag)| tag);
        assert_eq!(tag, Some(env!("CARGO_PKG_VERSION")), "{name}");
    }
}

#[test]
fn wrong_values_are_refused_with_their_place() {
    let Some(helm) = Helm::find() else { return };
    for (setting, place) in [
        ("colour=red", "colour"),
        ("operator.colour=red", "operator"),
        ("operator.replicas=two", "operator.replicas"),
        ("operator.replicas=9", "operator.replicas"),
        ("operator.image.pullPolicy=Sometimes", "operator.image.pullPolicy"),
        ("operator.image.digest=latest", "operator.image.digest"),
        ("operator.resources.request.cpu=1", "operator.resources"),
        ("rbac.create=maybe", "rbac.create"),
        ("runner.images.tpu.repository=x", "runner.images"),
        ("profiles.default.limits.wrkers=2", "profiles.default"),
        ("profiles.default.limits.workers=0", "profiles.default"),
        ("profiles.Default.limits.workers=1", "profiles"),
        ("schedules.nightly.schedule=at seven", "schedules.nightly"),
        ("schedules.nightly.timeZone=New York", "schedules.nightly"),
        ("schedules.nightly.spec.wrkers=1", "schedules.nightly"),
        ("schedules.nightly.spec.profile=other", "schedules.nightly"),
        ("schedules.nightly.missed[0].days[0]=7", "schedules.nightly"),
        ("schedules.a-name-of-twenty-char.schedule=@daily", "schedules"),
        ("schedules.other.schedule=@daily", "schedules.other"),
        ("submitter.backoffLimit=-1", "submitter.backoffLimit"),
        ("metrics.serviceMonitor.interval=often", "metrics.serviceMonitor.interval"),
        ("prometheusRule.regression=1", "prometheusRule.regression"),
        ("networkPolicy.apiServer.cidrs[0]=everywhere", "networkPolicy.apiServer"),
        ("test.preset=", "test.preset"),
    ] {
        let output = helm.render(&["--set", setting]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{setting} is taken");
        assert!(errors.contains("don't meet the specifications"), "{setting}: {errors}");
        let named = errors.lines().any(|line| line.starts_with("- ") && line.contains(place));
        assert!(named, "{setting}: {errors}");
    }
}

#[test]
fn profiles_come_after_their_definition() {
    let Some(helm) = Helm::find() else { return };
    let objects = helm.objects(&[]);
    let profiles = of_kind(&objects, "BenchmarkProfile");
    assert_eq!(profiles.len(), 1);
    let annotations = &profiles[0]["metadata"]["annotations"];
    assert_eq!(annotations["helm.sh/hook"], "post-install,post-upgrade,post-rollback");
    assert_eq!(annotations["helm.sh/hook-delete-policy"], "before-hook-creation");
}

#[test]
fn names_stay_short_enough() {
    let Some(helm) = Helm::find() else { return };
    let schedule = ["schedule=@daily", "profile=default", "workload=x"]
        .map(|setting| format!("--set=schedules.nineteen-characters.{setting}"));
    let mut command = Command::new(&helm.0);
    command.args(["template", &"r".repeat(53)]).arg(chart()).args(schedule);
    let objects = parse(&stdout(run(&mut command)));
    assert_eq!(of_kind(&objects, "CronJob").len(), 4);
    for object in &objects {
        let most = if object["kind"] == "CronJob" { 52 } else { 63 };
        let name = object["metadata"]["name"].as_str().unwrap();
        assert!(name.len() <= most && !name.ends_with('-'), "{}: {name}", object["kind"]);
    }
}

#[test]
fn a_schedule_can_be_taken_out() {
    let Some(helm) = Helm::find() else { return };
    let objects = helm.objects(&["--set=schedules.nightly=null,profiles.default=null"]);
    assert_eq!(of_kind(&objects, "CronJob").len(), 2);
    assert!(of_kind(&objects, "BenchmarkProfile").is_empty());
}

#[test]
fn a_disruption_budget_needs_two_replicas() {
    let Some(helm) = Helm::find() else { return };
    let budgets = |more: &[&str]| of_kind(&helm.objects(more), "PodDisruptionBudget").len();
    assert_eq!(budgets(&[]), 0);
    assert_eq!(budgets(&["--set=operator.replicas=2"]), 1);
}

// ---------------------------------------------------------------------------------------------
// Security

/// The pods of all objects that have any, by the object's kind and name.
fn pods(objects: &[Value]) -> Vec<(String, &Value)> {
    let places = [
        ("Deployment", "/spec/template/spec"),
        ("CronJob", "/spec/jobTemplate/spec/template/spec"),
        ("Pod", "/spec"),
    ];
    let pods = places.iter().flat_map(|(kind, place)| {
        of_kind(objects, kind).into_iter().map(move |object| {
            (format!("{kind} {}", object["metadata"]["name"]), object.pointer(place).unwrap())
        })
    });
    pods.collect()
}

#[test]
fn every_pod_is_restricted() {
    let Some(helm) = Helm::find() else { return };
    let objects = helm.objects(&[&everything()]);
    let pods = pods(&objects);
    assert_eq!(pods.len(), 1 + 4 + 1);
    for (name, pod) in pods {
        let security = &pod["securityContext"];
        assert_eq!(security["runAsNonRoot"], true, "{name}");
        assert_eq!(security["runAsUser"], 65532, "{name}");
        assert_eq!(security["runAsGroup"], 65532, "{name}");
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault", "{name}");
        for field in ["hostNetwork", "hostPID", "hostIPC", "initContainers"] {
            assert_eq!(pod[field], Value::Null, "{name}: {field}");
        }
        for container in pod["containers"].as_array().unwrap() {
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }), "{name}");
            assert_ne!(container["resources"]["limits"]["memory"], Value::Null, "{name}");
        }
    }
}

#[test]
fn no_role_has_a_wildcard_or_reads_secrets() {
    let Some(helm) = Helm::find() else { return };
    let objects = helm.objects(&[&everything()]);
    let roles = objects
        .iter()
        .filter(|object| ["Role", "ClusterRole"].iter().any(|kind| object["kind"] == *kind));
    let mut seen = 0;
    for role in roles {
        for rule in role["rules"].as_array().unwrap() {
            seen += 1;
            for part in ["apiGroups", "resources", "verbs"] {
                let words = texts(&rule[part]);
                assert!(!words.is_empty(), "{rule}");
                for word in words {
                    assert!(!word.contains('*'), "{rule}");
                    let dangerous = [
                        "secrets",
                        "pods/exec",
                        "pods/attach",
                        "serviceaccounts/token",
                        "nodes",
                        "escalate",
                        "bind",
                        "impersonate",
                        "deletecollection",
                    ];
                    assert!(!dangerous.contains(&word), "{rule}");
                }
            }
        }
    }
    assert!(seen > 10);
}

#[test]
fn an_operator_of_one_namespace_has_rights_in_no_other() {
    let Some(helm) = Helm::find() else { return };
    let objects = helm.objects(&["--set=operator.watchNamespace=lab"]);
    let wide = of_kind(&objects, "ClusterRoleBinding");
    let wide: Vec<_> = wide.iter().map(|binding| &binding["roleRef"]["name"]).collect();
    assert_eq!(wide, ["warpforge-profiles"]);
    let narrow = of_kind(&objects, "RoleBinding");
    let of_lab = |binding: &&&Value| binding["metadata"]["namespace"] == "lab";
    let narrow: Vec<_> = narrow.iter().filter(of_lab).map(|one| &one["roleRef"]["name"]).collect();
    assert_eq!(narrow, ["warpforge-operator"]);
}

#[test]
fn every_binding_names_an_account_and_a_role_of_the_chart() {
    let Some(helm) = Helm::find() else { return };
    let objects = helm.objects(&[]);
    let there = |kind: &Value, name: &Value| {
        objects.iter().any(|object| object["kind"] == *kind && object["metadata"]["name"] == *name)
    };
    let bindings =
        objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Binding"));
    for binding in bindings {
        assert!(there(&binding["roleRef"]["kind"], &binding["roleRef"]["name"]), "{binding}");
        for subject in binding["subjects"].as_array().unwrap() {
            assert!(there(&subject["kind"], &subject["name"]), "{binding}");
        }
    }
    let account = json!("ServiceAccount");
    for (name, pod) in pods(&objects) {
        assert!(there(&account, &pod["serviceAccountName"]), "{name}");
    }
}

// ---------------------------------------------------------------------------------------------
// Schedules

#[test]
fn schedules_are_those_of_the_plan_and_never_hide_a_verdict() {
    let Some(helm) = Helm::find() else { return };
    let objects = helm.objects(&[]);
    let jobs = of_kind(&objects, "CronJob");
    let seen: BTreeSet<_> = jobs
        .iter()
        .map(|job| {
            let name = job["metadata"]["name"].as_str().unwrap();
            (name, job["spec"]["schedule"].as_str().unwrap())
        })
        .collect();
    let planned = [
        ("warpforge-nightly", "0 7 * * 1-5"),
        ("warpforge-saturday", "0 23 * * 6"),
        ("warpforge-sunday", "0 17 * * 0"),
    ];
    assert_eq!(seen, planned.into());
    for job in jobs {
        let spec = &job["spec"];
        assert_eq!(spec["concurrencyPolicy"], "Forbid");
        assert_eq!(spec["timeZone"], "Etc/UTC");
        assert!(spec["startingDeadlineSeconds"].as_u64().is_some_and(|seconds| seconds > 0));
        let job = &spec["jobTemplate"]["spec"];
        assert_eq!(job["template"]["spec"]["restartPolicy"], "Never");
        let rules = job["podFailurePolicy"]["rules"].as_array().unwrap();
        // The first that matches decides, so disruptions come first.
        assert_eq!(rules[0]["action"], "Ignore");
        assert_eq!(rules[0]["onPodConditions"][0]["type"], "DisruptionTarget");
        assert_eq!(rules[1]["action"], "FailJob");
        let codes = rules[1]["onExitCodes"]["values"].as_array().unwrap();
        for verdict in [1, 3, 4, 5] {
            assert!(codes.contains(&json!(verdict)), "{verdict} would be tried again");
        }
        assert!(!codes.contains(&json!(70)), "a fault of the submitter's own is tried again");
    }
}

#[test]
fn what_a_schedule_submits_keeps_to_the_definition() {
    let Some(helm) = Helm::find() else { return };
    let objects = helm.objects(&[&everything()]);
    let files = of_kind(&objects, "ConfigMap").into_iter();
    let mut seen = 0;
    for file in files.filter_map(|object| object["data"]["run.yaml"].as_str()) {
        let run = parse(file).remove(0);
        assert_eq!(run["spec"]["workload"]["preset"], "full");
        check(&run);
        seen += 1;
    }
    assert_eq!(seen, 3);
    of_kind(&objects, "BenchmarkProfile").into_iter().for_each(check);
}

// ---------------------------------------------------------------------------------------------
// Definitions and samples

fn definition(plural: &str) -> Value {
    let path = root().join(format!("operator/api/crds/{plural}.yaml"));
    parse(&fs::read_to_string(path).unwrap()).remove(0)
}

fn schema(plural: &str) -> Value {
    definition(plural)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// What of a definition's schema is JSON Schema, without prose, and with unknown keys refused: the
/// API server would drop them in silence.
fn strict(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut fresh = Map::new();
    for (key, value) in fields {
        if key.starts_with("x-kubernetes-")
            || ["description", "default", "format"].contains(&&**key)
        {
            continue;
        }
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => Value::Object(
                properties.iter().map(|(name, value)| (name.clone(), strict(value))).collect(),
            ),
            (_, Value::Array(parts)) => parts.iter().map(strict).collect(),
            _ => strict(value),
        };
        fresh.insert(key.clone(), value);
    }
    if fresh.contains_key("properties") && !fresh.contains_key("additionalProperties") {
        fresh.insert("additionalProperties".to_owned(), json!(false));
    }
    Value::Object(fresh)
}

/// Holds an object to its definition's schema. Rules in CEL are the API server's to try.
#[track_caller]
fn check(object: &Value) {
    let kind = object["kind"].as_str().unwrap_or_default();
    assert_eq!(object["apiVersion"], "warpforge.dev/v1alpha1", "{kind}");
    let mut whole = strict(&schema(&format!("{}s", kind.to_lowercase())));
    for field in ["apiVersion", "kind", "metadata"] {
        whole["properties"][field] = json!({});
    }
    let validator = jsonschema::validator_for(&whole).unwrap();
    let errors = validator.iter_errors(object);
    let errors: Vec<_> = errors.map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{kind}:\n{}", errors.join("\n"));
}

fn samples() -> Vec<(String, Vec<Value>)> {
    let files = fs::read_dir(root().join("manifests/samples")).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, parse(&fs::read_to_string(path).unwrap()))
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn samples_keep_to_the_definitions() {
    let samples = samples();
    assert!(samples.len() >= 6);
    for object in samples.iter().flat_map(|(_, objects)| objects) {
        check(object);
    }
}

#[test]
#[should_panic(expected = "wrkers")]
fn an_unknown_key_of_a_sample_is_seen() {
    let (_, mut objects) = samples().remove(0);
    objects[0]["spec"]["wrkers"] = json!(1);
    check(&objects[0]);
}

#[test]
fn the_readme_of_the_manifests_names_every_sample() {
    let readme = fs::read_to_string(root().join("manifests/README.md")).unwrap();
    for (name, _) in samples() {
        assert!(readme.contains(&format!("(samples/{name})")), "{name}");
    }
}

#[test]
fn the_chart_has_the_definitions() {
    for plural in ["benchmarkprofiles", "benchmarkruns"] {
        let original = root().join(format!("operator/api/crds/{plural}.yaml"));
        let text = fs::read_to_string(original).unwrap();
        committed(&chart().join(format!("files/crds/{plural}.yaml")), &text);
    }
}

#[test]
fn definitions_stay_when_the_release_goes() {
    let Some(helm) = Helm::find() else { return };
    let objects = helm.objects(&[]);
    let definitions = of_kind(&objects, "CustomResourceDefinition");
    assert_eq!(definitions.len(), 2);
    for rendered in definitions {
        let annotations = &rendered["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/resource-policy"], "keep");
        let plural = rendered["spec"]["names"]["plural"].as_str().unwrap();
        // Too long to be shown.
        let same = numbers(&rendered["spec"]) == numbers(&definition(plural)["spec"]);
        assert!(same, "{plural} is not what operator/api/crds has");
    }
}

/// The same with every number as a float: Helm writes 10.0 as 10.
fn numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), numbers(value))).collect()
        }
        Value::Array(parts) => parts.iter().map(numbers).collect(),
        plain => plain.clone(),
    }
}

#[test]
fn the_schema_of_the_values_has_the_definitions() {
    let path = chart().join("values.schema.json");
    let mut whole: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let before = whole.clone();
    let profile = strict(&schema("benchmarkprofiles")["properties"]["spec"]);
    let mut run = strict(&schema("benchmarkruns")["properties"]["spec"]);
    // What a schedule says by keys of its own.
    let properties = run["properties"].as_object_mut().unwrap();
    for given in ["workload", "model", "suite", "profile"] {
        assert!(properties.remove(given).is_some());
    }
    whole["definitions"]["benchmarkProfileSpec"] = profile;
    whole["definitions"]["scheduledRun"] = run;
    if whole != before {
        committed(&path, &format!("{:#}\n", sorted(&whole)));
    }
}

/// The same in the order of keys, whatever order maps have in this build.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort();
            keys.into_iter().map(|key| (key.clone(), sorted(&fields[key]))).collect()
        }
        Value::Array(parts) => parts.iter().map(sorted).collect(),
        plain => plain.clone(),
    }
}

#[test]
fn the_manifests_are_what_the_chart_renders() {
    let Some(helm) = Helm::find() else { return };
    let monitoring = [
        "--show-only=templates/monitors.yaml",
        "--show-only=templates/prometheusrule.yaml",
        "--show-only=templates/dashboard.yaml",
        "--set=metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true",
        "--set=prometheusRule.enabled=true,dashboard.enabled=true",
    ];
    let files: &[(&str, &[&str])] = &[
        ("crds.yaml", &["--show-only=templates/crds.yaml"]),
        ("operator.yaml", &[NO_CRDS, "--skip-tests", "--set=profiles.default=null"]),
        ("profiles.yaml", &["--show-only=templates/profiles.yaml"]),
        ("monitoring.yaml", &monitoring),
    ];
    for (name, arguments) in files {
        committed(&root().join("manifests").join(name), &helm.text(arguments));
    }
}

// ---------------------------------------------------------------------------------------------
// Alerts and the dashboard

/// The alerts with everything enabled, as a file of rules.
fn rules(helm: &Helm) -> Value {
    let objects = helm.objects(&[&everything()]);
    of_kind(&objects, "PrometheusRule")[0]["spec"].clone()
}

/// All values of a key, wherever it stands.
fn all<'a>(value: &'a Value, wanted: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str() {
                    Some(text) if key == wanted => found.push(text),
                    _ => all(value, wanted, found),
                }
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| all(part, wanted, found)),
        _ => {}
    }
}

fn queries(value: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    all(value, "expr", &mut found);
    found
}

/// The metrics that a query names.
fn metrics(query: &str) -> BTreeSet<&str> {
    let word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let words = query.split(|character| !word(character));
    let ours = words.filter(|word| word.starts_with("warpforge_"));
    let parts = ["_bucket", "_sum", "_count"];
    // A histogram's parts have names of their own.
    ours.map(|name| parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name)).collect()
}

fn dashboard() -> Value {
    let text = fs::read_to_string(chart().join("files/dashboard.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn promtool(promtool: &Path, folder: &Path, arguments: &[&str]) {
    stdout(run(Command::new(promtool).args(arguments).current_dir(folder)));
}

#[test]
fn alerts_go_off_when_they_should() {
    let (Some(helm), Some(program)) = (Helm::find(), tool("promtool")) else { return };
    let folder = tempfile::tempdir().unwrap();
    // JSON is YAML.
    fs::write(folder.path().join("rules.json"), rules(&helm).to_string()).unwrap();
    promtool(&program, folder.path(), &["check", "rules", "rules.json"]);
    for name in ["rules.yaml", "rules-days.yaml"] {
        fs::copy(root().join("tests/tests/chart").join(name), folder.path().join(name)).unwrap();
        promtool(&program, folder.path(), &["test", "rules", name]);
    }
}

#[test]
fn every_alert_is_tested() {
    let Some(helm) = Helm::find() else { return };
    let rules = rules(&helm);
    let mut alerts = Vec::new();
    all(&rules, "alert", &mut alerts);
    let tests = ["rules.yaml", "rules-days.yaml"]
        .map(|name| fs::read_to_string(root().join("tests/tests/chart").join(name)).unwrap());
    let tests: Vec<_> = tests.iter().flat_map(|text| parse(text)).collect();
    let mut fired = BTreeSet::new();
    for case in tests.iter().flat_map(|file| file["tests"].as_array().unwrap()) {
        for expected in case["alert_rule_test"].as_array().unwrap() {
            if expected["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty()) {
                fired.insert(expected["alertname"].as_str().unwrap());
            }
        }
    }
    assert_eq!(alerts.into_iter().collect::<BTreeSet<_>>(), fired);
}

#[test]
fn every_query_of_the_dashboard_parses() {
    let Some(program) = tool("promtool") else { return };
    let dashboard = dashboard();
    let queries = queries(&dashboard);
    assert!(queries.len() > 15);
    // What Grafana puts in.
    let rules = queries.iter().enumerate().map(|(number, query)| {
        let query = query.replace("$__rate_interval", "5m").replace("$workload", ".*");
        assert!(!query.contains('$'), "{query}");
        json!({ "record": format!("panel:{number}"), "expr": query })
    });
    let rules = json!({ "groups": [{ "name": "panels", "rules": rules.collect::<Vec<_>>() }] });
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("panels.json"), rules.to_string()).unwrap();
    promtool(&program, folder.path(), &["check", "rules", "panels.json"]);
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let dashboard = dashboard();
    let shown: BTreeSet<_> = queries(&dashboard).into_iter().flat_map(metrics).collect();
    assert_eq!(shown, METRICS.iter().copied().collect());
}

#[test]
fn alerts_ask_for_metrics_that_exist() {
    let Some(helm) = Helm::find() else { return };
    let rules = rules(&helm);
    let known: BTreeSet<_> = METRICS.iter().copied().collect();
    for query in queries(&rules) {
        let unknown: Vec<_> = metrics(query).difference(&known).copied().collect();
        assert!(unknown.is_empty(), "{unknown:?} in {query}");
    }
}

#[test]
fn panels_have_room_and_names_of_their_own() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let place = &panel["gridPos"];
        let at = |side: &str| place[side].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for row in at("y")..at("y") + at("h") {
            for column in at("x")..at("x") + at("w") {
                assert!(taken.insert((row, column)), "{} lies over another", panel["title"]);
            }
        }
    }
}

// The checks themselves, on what they should find.

#[test]
fn metrics_are_found_in_queries() {
    let query = r#"rate(warpforge_a_bucket{x="warpforge"}[5m]) / warpforge_b_total"#;
    assert_eq!(metrics(query), ["warpforge_a", "warpforge_b_total"].into());
}
