//! Servers on the loopback: a real S3 server, and a web server that does to every request what
//! the test tells it to.
#![allow(dead_code, reason = "each test file uses its own part of this")]

pub mod s3;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What was asked.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub path: String,
    headers: Vec<(String, String)>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The first byte of a `Range`.
    pub fn from(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// What is answered.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Say nothing of the length; the connection's end is the body's.
    pub unsized_body: bool,
    /// Close after so many bytes of head and body.
    pub cut: Option<usize>,
    /// Say no more after that, but stay.
    pub stall: bool,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn redirect(to: impl Into<String>) -> Self {
        Self::status(302).with("Location", to)
    }

    /// What a well-behaved server answers.
    pub fn file(seen: &Seen, content: &[u8], tag: &str) -> Self {
        let quoted = format!("\"{tag}\"");
        let unchanged = seen.header("if-range").is_none_or(|asked| asked == quoted);
        let total = content.len();
        match seen.from().filter(|_| unchanged) {
            Some(from) if from >= total => Self::status(416)
                .with("Content-Range", format!("bytes */{total}"))
                .with("ETag", quoted),
            Some(from) => {
                let mut reply = Self::status(206)
                    .with("Content-Range", format!("bytes {from}-{}/{total}", total - 1))
                    .with("ETag", quoted);
                reply.body = content[from..].to_vec();
                reply
            }
            None => {
                let mut reply = Self::status(200).with("ETag", quoted);
                reply.body = content.to_vec();
                reply
            }
        }
    }

    fn send(&self, mut stream: &TcpStream) {
        let mut bytes = format!("HTTP/1.1 {} Said\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            let _ = write!(bytes, "{name}: {value}\r\n");
        }
        if !self.unsized_body && !self.headers.iter().any(|(name, _)| name == "Content-Length") {
            let _ = write!(bytes, "Content-Length: {}\r\n", self.body.len());
        }
        bytes += "\r\n";
        let mut bytes = bytes.into_bytes();
        bytes.extend_from_slice(&self.body);
        let end = self.cut.map_or(bytes.len(), |cut| cut.min(bytes.len()));
        // The client may be gone already; the test judges what it made of the answer.
        let _ = stream.write_all(&bytes[..end]);
        let _ = stream.flush();
        if self.stall {
            thread::sleep(Duration::from_mins(10));
        }
    }
}

/// A server that lives as long as the test's process.
#[derive(Clone)]
pub struct Server {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub fn start(answer: impl FnMut(&Seen) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(Mutex::new(answer));
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                thread::spawn(move || {
                    let Some(asked) = read(&stream) else { return };
                    log.lock().unwrap().push(asked.clone());
                    let reply = (*answer.lock().unwrap())(&asked);
                    reply.send(&stream);
                });
            }
        });
        Self { port, seen }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Seen> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let split = |line: String| {
        line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(split).collect();
    Some(Seen { method, path, headers })
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Bytes that repeat nowhere near.
pub fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
