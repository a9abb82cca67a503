//! What the tests of the built command share: a clean environment, a scratch folder, servers on
//! the loopback that really answer.
#![allow(dead_code, reason = "each test file uses its own part of this")]

pub mod edit;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use assert_cmd::Command;
use serde_json::Value as Json;
use tempfile::TempDir;

/// A folder to run in, with a home of its own.
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The command in this folder, with nothing in its environment but an empty home and a
    /// `PATH` that holds no programs.
    pub fn warpforge(&self, args: &[&str]) -> Command {
        let mut command = Command::cargo_bin("warpforge").unwrap();
        command
            .current_dir(self.path())
            .env_clear()
            .env("HOME", self.path().join("home"))
            .env("PATH", self.path().join("no-programs"))
            .args(args);
        command
    }

    /// Runs the command for its exit code, standard output and standard error.
    pub fn run(&self, args: &[&str]) -> (i32, String, String) {
        outcome(&mut self.warpforge(args))
    }

    /// The same with libtorch: exit code and everything that was printed.
    pub fn golden(&self, args: &[&str]) -> (i32, String) {
        let mut command = self.warpforge(args);
        command.env("LIBTORCH", repository().join(".libtorch/torch"));
        let (code, shown, errors) = outcome(&mut command);
        (code, shown + &errors)
    }

    /// Text with this folder's path, and what differs between machines, taken out.
    pub fn plain(&self, text: &str) -> String {
        text.replace(&self.path().display().to_string(), "[DIR]")
    }
}

/// Exit code, standard output and standard error.
pub fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

pub fn json(command: &mut Command) -> Json {
    let (_, out, err) = outcome(command);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}\n{out}\n{err}"))
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of this test's own")
}

/// The content of a file of JSON.
pub fn read_json(path: &Path) -> Json {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One capability's entry in `doctor --json`.
pub fn capability<'r>(report: &'r Json, name: &str) -> &'r Json {
    let entries = report["capabilities"].as_array().unwrap();
    entries.iter().find(|entry| entry["name"] == name).unwrap()
}

/// A port on the loopback that nobody listens on.
pub fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server that accepts connections and never says a word.
pub fn silent_server() -> u16 {
    serve(|_| thread::park())
}

/// A server that answers every request with `status` and `body`.
pub fn http_server(status: &'static str, body: &'static str) -> u16 {
    serve(move |mut stream| {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let length = body.len();
        // The client may be gone already; the test judges what it made of the answer.
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
    })
}

/// Serves on a thread that lives as long as the test's process.
fn serve(answer: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || answer(stream));
        }
    });
    port
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Holds a `--json` output against its committed schema.
#[track_caller]
pub fn assert_valid(schema: &str, output: &Json) {
    let path = repository().join(format!("docs/schema/{schema}.json"));
    let schema = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    if let Err(error) = jsonschema::validate(&schema, output) {
        panic!("{error}\n{output:#}");
    }
}
