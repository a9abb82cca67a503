//! A worker as the operator starts it, on this machine: its two files, its environment, and what it
//! leaves behind.
#![allow(dead_code, reason = "each test file uses its own part of this")]

pub mod proxy;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use warpforge_operator_api::contract::Termination;
use warpforge_tests::root;

/// Long enough for a busy machine; nothing is measured by it.
const PATIENCE: Duration = Duration::from_mins(5);

/// Where all results go. The server keeps volumes for each bucket, and has few.
pub const BUCKET: &str = "runs";

/// Settings that make the workload quick.
pub fn workload() -> Value {
    json!({ "name": "bert-squad", "preset": "demo", "parameters": {
        "steps": "4", "forced": "2", "noise_runs": "1", "batch_size": "8",
        "evaluation_questions": "0", "expect": "{}",
    }})
}

/// A training that takes a second or two.
pub fn training(settings: &Value) -> Value {
    let mut all = json!({
        "optimizer": "sgd", "lr": "0.1", "momentum": "0.9", "forced": "2", "noise": "1",
        "threads": "1",
    });
    for (name, value) in settings.as_object().unwrap() {
        all[name] = value.clone();
    }
    let inputs = (0..4).map(|i| format!("data://fixtures/small.{i}.safetensors"));
    json!({
        "uri": "data://fixtures/small.pt2",
        "inputs": { "uris": inputs.collect::<Vec<_>>() },
        "training": { "steps": 4, "settings": all },
    })
}

/// A run, whose workers can be started.
pub struct Run {
    pub folder: TempDir,
    pub spec: Value,
    pub ranks: Value,
    pub keys: (String, String),
    pub libtorch: PathBuf,
    /// Further arguments of every worker.
    pub arguments: Vec<String>,
}

impl Run {
    /// One worker of its own group; `uid` tells runs apart.
    pub fn new(uid: &str, subject: (&str, Value)) -> Self {
        let mut spec = json!({
            "version": 1,
            "run": { "namespace": "team-a", "name": "nightly", "uid": uid },
            "attempt": 1,
            "spec": {
                "profile": { "name": "default", "uid": "p", "generation": 1 },
                "passes": ["Golden", "Warpforge"],
                "goldenPolicy": "Reuse",
                "goldens": { "write": "goldens/team-a", "read": ["goldens/team-a"] },
                "workers": [{ "name": "cpu", "replicas": 1, "vendor": "Cpu", "image": "i" }],
                "data": { "volumeClaims": [{ "name": "fixtures", "claimName": "c" }] },
                "pendingDeadlineSeconds": 60,
                "runDeadlineSeconds": 600,
                "serviceAccountName": "default",
                "sharedMemory": "64Mi",
            },
        });
        spec["spec"][subject.0] = subject.1;
        let ranks = json!({ "version": 1, "port": free_port(), "ranks": [rank(0)] });
        Self {
            folder: TempDir::new().unwrap(),
            spec,
            ranks,
            keys: ("nobody".into(), "nothing".into()),
            libtorch: root().join(".libtorch/torch"),
            arguments: Vec::new(),
        }
    }

    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.spec["spec"][name] = value;
        self
    }

    /// Results go below a prefix of the bucket.
    pub fn stored(mut self, endpoint: &str, prefix: &str, (id, secret): (&str, &str)) -> Self {
        self.keys = (id.to_owned(), secret.to_owned());
        self.with(
            "artifacts",
            json!({ "s3": { "endpoint": endpoint, "bucket": BUCKET, "prefix": prefix } }),
        )
    }

    /// So many workers, all on this machine.
    pub fn ranks(mut self, count: u32) -> Self {
        let port = free_pair();
        let all: Vec<_> = (0..count).map(rank).collect();
        self.ranks = json!({ "version": 1, "port": port, "ranks": all });
        self
    }

    pub fn start(&self, index: u32) -> Worker {
        let files = self.folder.path().join(format!("files-{index}"));
        fs::create_dir_all(&files).unwrap();
        fs::write(files.join("spec.json"), self.spec.to_string()).unwrap();
        fs::write(files.join("ranks.json"), self.ranks.to_string()).unwrap();
        let own = self.folder.path().join(format!("worker-{index}"));
        fs::create_dir_all(&own).unwrap();
        let (termination, memory) = (own.join("termination-log"), own.join("memory.events"));
        fs::write(&termination, "").unwrap();
        fs::write(&memory, "oom_kill 0\n").unwrap();
        let http = free_port();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("warpforge"));
        command
            .arg("agent")
            .args(["--http", &format!("127.0.0.1:{http}")])
            .arg("--termination")
            .arg(&termination)
            .arg("--memory-events")
            .arg(&memory)
            .arg("--work")
            .arg(own.join("work"))
            .arg("--data")
            .arg(root().join("runner/workloads/tests"))
            .args(&self.arguments)
            .env_clear()
            .env("HOME", &own)
            .env("TMPDIR", &own)
            .env("PATH", own.join("no-programs"))
            .env("LIBTORCH", &self.libtorch)
            .env("WARPFORGE_RUN_FOLDER", &files)
            .env("WARPFORGE_WORKER_GROUP", "cpu")
            .env("WARPFORGE_WORKER_INDEX", index.to_string())
            .env("AWS_ACCESS_KEY_ID", &self.keys.0)
            .env("AWS_SECRET_ACCESS_KEY", &self.keys.1)
            .env("HF_TOKEN", "hf_secret")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = Some(command.spawn().unwrap());
        Worker { child, http, folder: own, secret: self.keys.1.clone() }
    }

    /// One worker to its end.
    pub fn end(&self) -> Ended {
        self.start(0).end()
    }
}

fn rank(rank: u32) -> Value {
    json!({
        "rank": rank, "group": "cpu", "index": rank, "host": "127.0.0.1", "vendor": "Cpu",
        "gpus": 0,
    })
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A port that is free with the one after it.
fn free_pair() -> u16 {
    loop {
        let port = free_port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

pub struct Worker {
    child: Option<Child>,
    http: u16,
    pub folder: PathBuf,
    secret: String,
}

/// How a worker ended.
pub struct Ended {
    pub code: i32,
    pub message: Termination,
    pub log: String,
    /// What the children said, child by child.
    pub events: Vec<String>,
}

impl Worker {
    pub fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Whether it runs still.
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    /// What `/progress` or `/metrics` answers, if somebody does.
    pub fn ask(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text.split_once("\r\n\r\n")?.1.to_owned())
    }

    /// Waits until something holds; the worker must not end meanwhile.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            if !self.runs() || start.elapsed() > PATIENCE {
                let ended = self.finish();
                panic!("no {what}: {}\n{}", ended.message.to_json(), ended.log);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a pass is under way.
    pub fn until_pass(&mut self, pass: &str) {
        self.until(pass, |worker| {
            let progress = worker.ask("/progress").unwrap_or_default();
            progress.contains(&format!("\"pass\":\"{pass}\""))
        });
    }

    /// Processes below this one, the nearest first.
    pub fn descendants(&self) -> Vec<(u32, String)> {
        let mut found: Vec<(u32, String)> = Vec::new();
        let mut parents = vec![self.id()];
        while let Some(parent) = parents.pop() {
            for (id, of, name) in processes() {
                if of == parent {
                    found.push((id, name));
                    parents.push(id);
                }
            }
        }
        found
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn end(mut self) -> Ended {
        self.finish()
    }

    fn finish(&mut self) -> Ended {
        let Output { status, stdout, stderr } =
            self.child.take().unwrap().wait_with_output().unwrap();
        let log = [stdout, stderr].concat();
        let log = String::from_utf8(log).unwrap();
        let text = fs::read_to_string(self.folder.join("termination-log")).unwrap();
        let code = status.code().unwrap_or_else(|| panic!("{status}\n{log}"));
        for place in [&log, &text] {
            assert!(!place.contains(&self.secret) && !place.contains("hf_secret"), "{place}");
        }
        let message = Termination::of_exit(&text, code)
            .unwrap_or_else(|error| panic!("exit {code}: {error}: {text}\n{log}"));
        // The folder may go before this is looked at.
        let file = |number: usize| self.folder.join(format!("work/events-{number}.jsonl"));
        let events = (0..).map_while(|number| fs::read_to_string(file(number)).ok()).collect();
        Ended { code, message, log, events }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Every process: its id, its parent's, and its name.
pub fn processes() -> Vec<(u32, u32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let status = |id: u32| {
        let text = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        Some((id, field("PPid:")?.parse().ok()?, field("Name:")?))
    };
    ids.filter_map(status).collect()
}

impl Ended {
    #[track_caller]
    pub fn assert(&self, code: i32, reason: &str) {
        let said = self.message.to_json();
        assert_eq!(
            (self.code, self.message.reason.as_str()),
            (code, reason),
            "{said}\n{}",
            self.log
        );
    }
}
