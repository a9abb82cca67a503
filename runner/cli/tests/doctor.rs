//! `warpforge doctor` on this machine, and with every capability made to fail for real.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use common::{Scratch, capability, closed_port, http_server, json, outcome, silent_server};
use serde_json::Value as Json;

/// Generous, for machines that are busy with other tests; the real limit is the program's own.
const PATIENCE: Duration = Duration::from_secs(20);

const LIMIT: &str = "WARPFORGE_DOCTOR_TIMEOUT_SECONDS";

/// The report; unless a test is about the limit, it is long enough for a busy machine.
fn examine(scratch: &Scratch, variables: &[(&str, &str)]) -> Json {
    let mut command = scratch.warpforge(&["doctor", "--json"]);
    json(command.env(LIMIT, "30").envs(variables.iter().copied()))
}

#[track_caller]
fn assert_finding(entry: &Json, status: &str, detail: &str, cure: &str) {
    assert_eq!(entry["status"], status, "{entry:#}");
    assert!(entry["detail"].as_str().unwrap().contains(detail), "{entry:#}");
    assert!(entry["cure"].as_str().unwrap_or_default().contains(cure), "{entry:#}");
}

/// The libtorch that set-up fetched, which the tests of the workspace require.
fn libtorch() -> PathBuf {
    let folder = common::repository().join(".libtorch/torch");
    folder.canonicalize().expect("libtorch is not set up: run `cargo xtask setup golden`")
}

#[test]
fn the_cpu_path_is_whole_with_libtorch() {
    let libtorch = libtorch();
    let scratch = Scratch::new();
    let mut command = scratch.warpforge(&["doctor", "--json"]);
    command.env("LIBTORCH", &libtorch).env(LIMIT, "30");
    let (code, out, _) = outcome(&mut command);
    let report: Json = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["cpu_path_whole"]), (0, &Json::Bool(true)), "{report:#}");
    assert_finding(capability(&report, "golden"), "works", "libtorch 2.11.0", "");
}

#[test]
fn libtorch_is_found_in_the_cache_and_beside_the_checkout() {
    let libtorch = libtorch();
    let link = |place: &str| {
        let scratch = Scratch::new();
        let link = scratch.path().join(place);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&libtorch, link).unwrap();
        assert_finding(capability(&examine(&scratch, &[]), "golden"), "works", place, "");
    };
    link("home/.cache/warpforge/libtorch-2.11.0/torch");
    link(".libtorch/torch");
}

#[test]
fn without_libtorch_golden_is_missing_and_the_cure_is_set_up() {
    let scratch = Scratch::new();
    let (code, out, err) = scratch.run(&["doctor"]);
    assert_eq!((code, err.as_str()), (1, ""));
    let golden: String = lines_of(&out, "golden");
    insta::with_settings!({filters => vec![(r" +\d+ ms", " [TIME]")]}, {
        insta::assert_snapshot!("golden-missing", scratch.plain(&unwrapped(&golden)));
    });
    assert!(out.ends_with("The CPU path is not whole: see golden above.\n"), "{out}");
}

/// The lines of one capability: its own and those indented below it.
fn lines_of(out: &str, name: &str) -> String {
    let starts = |line: &&str| line.split_whitespace().nth(1) == Some(name);
    let mut lines = out.lines().skip_while(|line| !starts(line));
    let first = lines.next().unwrap_or_else(|| panic!("no line for {name}:\n{out}"));
    let rest = lines.take_while(|line| line.starts_with("   "));
    std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n")
}

/// Undoes the breaking of lines, which depends on how long a path is.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" cure:", "\ncure:")
}

#[test]
fn a_setting_that_names_no_libtorch_is_not_replaced_by_another() {
    let scratch = Scratch::new();
    let report = examine(&scratch, &[("LIBTORCH", "/nowhere")]);
    let detail = "golden.libtorch (environment LIBTORCH) names /nowhere";
    assert_finding(capability(&report, "golden"), "missing", detail, "cargo xtask setup golden");
}

fn with_library(scratch: &Scratch) -> PathBuf {
    scratch.write("torch/lib/libtorch_cpu.so", "this is no library")
}

#[test]
fn a_damaged_libtorch_is_broken() {
    let scratch = Scratch::new();
    with_library(&scratch);
    let report = examine(&scratch, &[("LIBTORCH", "torch")]);
    let golden = capability(&report, "golden");
    assert_finding(golden, "broken", "cannot be loaded", "cargo xtask setup golden");
}

#[test]
fn a_libtorch_that_crashes_is_broken_and_the_rest_goes_on() {
    let scratch = Scratch::new();
    let library = with_library(&scratch);
    let source = scratch.write(
        "crash.c",
        "__attribute__((constructor)) static void crash(void) { *(volatile int *)0 = 1; }",
    );
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(compiled.expect("a C compiler, which linking Rust needs too").success());
    let report = examine(&scratch, &[("LIBTORCH", "torch")]);
    assert_finding(capability(&report, "golden"), "broken", "SIGSEGV", "doctor --probe golden");
    assert_eq!(capability(&report, "cpu")["status"], "works");
}

#[test]
fn a_libtorch_that_hangs_is_ended_at_the_limit() {
    let scratch = Scratch::new();
    let library = with_library(&scratch);
    std::fs::remove_file(&library).unwrap();
    // Opening a pipe without a writer blocks for ever, as a dead network file system does.
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &library, kind, mode, 0).unwrap();
    let start = Instant::now();
    let report = examine(&scratch, &[("LIBTORCH", "torch"), (LIMIT, "3")]);
    assert!(start.elapsed() < PATIENCE);
    let golden = capability(&report, "golden");
    assert_finding(golden, "broken", "did not answer within 2.5 s", "doctor.timeout_seconds");
    assert_eq!(capability(&report, "cpu")["status"], "works");
    assert!(!is_held_open(&library), "the probe outlived its limit");
}

/// Whether any process has the file open or is still waiting to open it: a writer that does not
/// wait can open a pipe only if it has a reader.
fn is_held_open(fifo: &Path) -> bool {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    let deadline = Instant::now() + PATIENCE;
    // The killed process needs a moment to go.
    while Instant::now() < deadline {
        if rustix::fs::open(fifo, flags, rustix::fs::Mode::empty()).is_err() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// A `python3` that does what the script says.
fn with_python(scratch: &Scratch, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = scratch.write("no-programs/python3", &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn pythons_torch_counts_only_in_the_right_version() {
    let scratch = Scratch::new();
    with_python(&scratch, "echo 2.9.1; echo /opt/torch");
    let report = examine(&scratch, &[]);
    let golden = capability(&report, "golden");
    assert_finding(golden, "missing", "Python's torch is 2.9.1", "cargo xtask setup golden");

    let libtorch = libtorch();
    with_python(&scratch, &format!("echo 2.11.0; echo {}", libtorch.display()));
    let report = examine(&scratch, &[]);
    assert_finding(capability(&report, "golden"), "works", "2.11.0", "");
}

#[test]
fn a_python_that_hangs_does_not_hang_the_probe() {
    let scratch = Scratch::new();
    with_python(&scratch, "exec /bin/sleep 1000");
    let report = examine(&scratch, &[(LIMIT, "1")]);
    let golden = capability(&report, "golden");
    assert_finding(golden, "missing", "python3 did not answer", "cargo xtask setup golden");
}

fn kubeconfig(scratch: &Scratch, port: u16) -> PathBuf {
    scratch.write(
        "kubeconfig",
        &format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
             clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{port}\"}}}}]\n\
             users: [{{name: u, user: {{token: hunter2}}}}]\n\
             contexts: [{{name: here, context: {{cluster: c, user: u, namespace: bench}}}}]\n"
        ),
    )
}

fn cluster(scratch: &Scratch, variables: &[(&str, &str)]) -> Json {
    capability(&examine(scratch, variables), "cluster").clone()
}

#[test]
fn a_cluster_that_answers_works() {
    let scratch = Scratch::new();
    let version = r#"{"major":"1","minor":"33","gitVersion":"v1.33.4","gitCommit":"x",
        "gitTreeState":"clean","buildDate":"2026-01-01T00:00:00Z","goVersion":"go1.24",
        "compiler":"gc","platform":"linux/amd64"}"#;
    let port = http_server("200 OK", version);
    let path = kubeconfig(&scratch, port);
    let entry = cluster(&scratch, &[("KUBECONFIG", path.to_str().unwrap())]);
    let detail = format!("Kubernetes v1.33.4 at http://127.0.0.1:{port}, namespace \"bench\"");
    assert_finding(&entry, "works", &detail, "");
}

#[test]
fn a_cluster_that_is_not_there_is_missing_or_broken() {
    let scratch = Scratch::new();
    assert_finding(&cluster(&scratch, &[]), "missing", "no kubeconfig", "point KUBECONFIG");

    let absent = cluster(&scratch, &[("KUBECONFIG", "absent")]);
    assert_finding(&absent, "missing", "(environment KUBECONFIG)", "correct the path");

    let path = kubeconfig(&scratch, closed_port());
    let path = path.to_str().unwrap();
    let refused = cluster(&scratch, &[("KUBECONFIG", path)]);
    assert_finding(&refused, "broken", "refused the connection", "check that the cluster runs");

    let context = ("WARPFORGE_CLUSTER_CONTEXT", "there");
    let unknown = cluster(&scratch, &[("KUBECONFIG", path), context]);
    assert_finding(&unknown, "broken", "no context \"there\"", "one of: here");

    let in_pod = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "1")];
    let entry = cluster(&scratch, &in_pod);
    if Path::new("/var/run/secrets/kubernetes.io/serviceaccount/token").exists() {
        assert_finding(&entry, "broken", "refused the connection", "check that the cluster runs");
    } else {
        assert_finding(&entry, "broken", "the pod's own account", "token");
    }
}

#[test]
fn a_cluster_that_answers_wrongly_is_broken() {
    let scratch = Scratch::new();
    let denied = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":401,
        "message":"Unauthorized","reason":"Unauthorized"}"#;
    let path = kubeconfig(&scratch, http_server("401 Unauthorized", denied));
    let entry = cluster(&scratch, &[("KUBECONFIG", path.to_str().unwrap())]);
    assert_finding(&entry, "broken", "HTTP 401", "renew the credentials");

    let path = kubeconfig(&scratch, http_server("200 OK", "hello"));
    let entry = cluster(&scratch, &[("KUBECONFIG", path.to_str().unwrap())]);
    assert_finding(&entry, "broken", "not as Kubernetes does", "check that the cluster runs");
}

const KEYS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "id"),
    ("AWS_SECRET_ACCESS_KEY", "secret"),
    ("WARPFORGE_STORE_BUCKET", "nightly"),
];

fn store(scratch: &Scratch, port: u16, variables: &[(&str, &str)]) -> Json {
    let endpoint = format!("http://127.0.0.1:{port}");
    let mut all = vec![("WARPFORGE_STORE_ENDPOINT", endpoint.as_str())];
    all.extend(variables);
    capability(&examine(scratch, &all), "store").clone()
}

#[test]
fn the_object_store_is_asked() {
    let scratch = Scratch::new();
    let found = store(&scratch, http_server("200 OK", ""), &KEYS);
    assert_finding(&found, "works", "bucket \"nightly\" at http://127.0.0.1:", "");
    let absent = store(&scratch, http_server("404 Not Found", ""), &KEYS);
    assert_finding(&absent, "broken", "no bucket \"nightly\"", "create bucket");
    let refused = store(&scratch, closed_port(), &KEYS);
    assert_finding(&refused, "broken", "refused the connection", "store.endpoint");
    let no_keys = store(&scratch, closed_port(), &KEYS[2..]);
    assert_finding(&no_keys, "broken", "AWS_ACCESS_KEY_ID is not set", "AWS_ACCESS_KEY_ID");
    let unset = store(&scratch, closed_port(), &KEYS[..2]);
    assert_finding(&unset, "missing", "no bucket is configured", "set store.bucket");
}

#[test]
fn silent_servers_do_not_hold_up_the_whole() {
    let scratch = Scratch::new();
    let path = kubeconfig(&scratch, silent_server());
    let endpoint = format!("http://127.0.0.1:{}", silent_server());
    let mut variables = KEYS.to_vec();
    variables.push((LIMIT, "3"));
    variables.push(("KUBECONFIG", path.to_str().unwrap()));
    variables.push(("WARPFORGE_STORE_ENDPOINT", &endpoint));
    let start = Instant::now();
    let report = examine(&scratch, &variables);
    assert!(start.elapsed() < PATIENCE);
    for name in ["cluster", "store"] {
        assert_finding(capability(&report, name), "broken", "did not answer within", "check that");
    }
}

#[test]
fn this_machines_processor_is_described() {
    let report = examine(&Scratch::new(), &[]);
    let cpu = capability(&report, "cpu");
    let detail = cpu["detail"].as_str().unwrap();
    assert_eq!((&cpu["status"], cpu.get("cure")), (&"works".into(), None));
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let line = |name: &str| info.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    if let Some((_, model)) = line("model name").split_once(": ") {
        assert!(detail.contains(model), "{detail} lacks {model}");
    }
    let flags: BTreeSet<_> = line("flags").split_whitespace().collect();
    for extension in ["avx2", "avx512f", "amx_bf16"] {
        assert_eq!(detail.contains(extension), flags.contains(extension), "{extension}: {detail}");
    }
}

/// Whether the PCI bus has a display or accelerator device of this vendor.
fn pci_has(vendor: &str) -> bool {
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    devices.map(|device| device.path()).any(|device| {
        let class = read(device.join("class"));
        read(device.join("vendor")).trim() == vendor
            && (class.starts_with("0x03") || class.starts_with("0x12"))
    })
}

#[test]
fn this_machines_devices_are_found_or_missing_with_a_cure() {
    let report = examine(&Scratch::new(), &[]);
    let rdma = Path::new("/sys/class/infiniband").read_dir().is_ok_and(|mut d| d.next().is_some());
    for (name, present, reason, cure) in [
        ("nvidia", pci_has("0x10de"), "no NVIDIA driver", "install the NVIDIA driver"),
        ("amd", pci_has("0x1002"), "no AMD GPU", "install the amdgpu driver"),
        ("rdma", rdma, "no RDMA device", "load its driver"),
    ] {
        let entry = capability(&report, name);
        if present {
            assert_ne!(entry["status"], "missing", "{entry:#}");
        } else {
            assert_finding(entry, "missing", reason, cure);
        }
        assert_eq!(entry["never_run_on_its_hardware"], name != "nvidia");
    }
    let (_, out, _) = Scratch::new().run(&["doctor"]);
    for name in ["amd", "rdma"] {
        assert!(unwrapped(&lines_of(&out, name)).contains("not yet run on such hardware"), "{out}");
    }
}

#[test]
fn marks_follow_the_locale_and_colours_the_wish() {
    let scratch = Scratch::new();
    let with = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command: Command = scratch.warpforge(args);
        outcome(command.envs(variables.iter().copied())).1
    };
    assert!(with(&["doctor"], &[("LANG", "C.UTF-8")]).contains("✓  cpu"));
    let plain = with(&["doctor"], &[]);
    assert!(plain.is_ascii() && plain.contains("+  cpu"), "{plain}");
    assert!(with(&["doctor", "--color", "always"], &[]).contains("\x1b[32m"));
    assert!(!with(&["doctor", "--quiet"], &[]).contains("The CPU path"));
}

#[test]
fn json_follows_its_schema_and_says_what_the_exit_code_says() {
    let scratch = Scratch::new();
    let (code, out, _) = scratch.run(&["doctor", "--json"]);
    let report: Json = serde_json::from_str(&out).unwrap();
    let schema = std::fs::read(common::repository().join("docs/schema/doctor.json")).unwrap();
    jsonschema::validate(&serde_json::from_slice(&schema).unwrap(), &report).unwrap();
    assert_eq!((code, &report["cpu_path_whole"]), (1, &Json::Bool(false)));
    for entry in report["capabilities"].as_array().unwrap() {
        assert_eq!(entry["status"] == "works", entry.get("cure").is_none(), "{entry:#}");
    }
}
