//! `warpforge netserver` as another machine's benchmarks meet it: the built program on the
//! loopback.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use common::{Scratch, outcome};
use rustix::process::{Pid, Signal, kill_process};

/// A server under way, and where it listens.
struct Server {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Server {
    fn start(scratch: &Scratch, more: &[&str]) -> Self {
        let program = scratch.warpforge(&[]).get_program().to_owned();
        let mut child = Command::new(program)
            .args(["netserver", "--listen", "127.0.0.1:0"])
            .args(more)
            .current_dir(scratch.path())
            .env_clear()
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        let address = address.to_owned();
        Self { child, out, address }
    }

    fn signal(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// The exit code, and what else it said.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_benchmark_runs_against_it_and_it_ends_after_one() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch, &["--once"]);
    let (code, out, err) = scratch.run(&[
        "benchmark",
        "run",
        "--suite",
        "micro",
        "--benchmark",
        "net_latency",
        "--peer",
        &server.address,
        "--duration",
        "0.3",
        "--burnin-seconds",
        "0",
    ]);
    // On a busy machine the figures may be too uncertain for a pass; they are there all the same.
    assert!([0, 3].contains(&code), "{out}{err}");
    assert!(out.contains("peer=remote"), "{out}{err}");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    let mut lines = said.lines();
    let first = lines.next().unwrap_or_default();
    assert_eq!(first, "only this machine reaches it; --listen 0.0.0.0:PORT opens it to others");
    assert!(lines.next().unwrap_or_default().ends_with(": began"), "{said}");
    let last = lines.next().unwrap_or_default();
    assert!(last.contains(": ended after ") && last.ends_with(" GB out"), "{said}");
}

#[test]
fn a_stranger_is_refused_and_an_interruption_ends_it() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch, &[]);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("warpforge netserver: this port speaks with"), "{said}");
    // Neither does one that is connected and says nothing hold it up.
    let _silent = TcpStream::connect(&server.address).unwrap();
    server.signal();
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(": refused, speaks another protocol\n"), "{said}");
}

#[test]
fn where_it_cannot_listen_it_says_so() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let scratch = Scratch::new();
    let (code, _, err) = outcome(&mut scratch.warpforge(&["netserver", "--listen", &address]));
    assert_eq!(code, 2);
    let wanted = format!("error: cannot listen on {address}\n  because: Address already in use");
    assert!(err.starts_with(&wanted), "{err}");
    let (code, _, err) = scratch.run(&["netserver", "--listen", "somewhere"]);
    assert_eq!(code, 2);
    assert!(err.contains("invalid value 'somewhere' for '--listen <ADDRESS:PORT>'"), "{err}");
}
