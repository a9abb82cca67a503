//! The side that starts the child, talks to it, and watches over it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::message::{Event, Failure, FailureKind, Hello, Outcome, Request, Run, Task};
use crate::ranks::{Join, Order};
use crate::signals::Listener;
use crate::training::{Evaluate, Evaluated, Open, Opened, Step, Stepped};
use crate::{BINARY, BINARY_VARIABLE, LIBTORCH_VERSION, Libtorch, Search, Unavailable, VERSION};

const POLL: Duration = Duration::from_millis(20);
/// Loading libtorch from a slow disk takes its time.
const GREETING: Duration = Duration::from_mins(2);
/// How long a child may take to end by itself after a signal, or after its last answer.
const GRACE: Duration = Duration::from_secs(3);
const KILLED: &str = "SIGKILL (killed, perhaps for lack of memory)";
/// How much of the child's error stream is kept for a report.
const LOG_BYTES: usize = 8 * 1024;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("{BINARY} is not at {}; build it (cargo build --release -p {BINARY}) or say where it is ({BINARY_VARIABLE})", .0.display())]
    NoBinary(PathBuf),
    #[error("{} cannot be started: {source}", path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error(
        "{BINARY} speaks version {theirs} of the protocol, and this program version {VERSION}: install both from the same build"
    )]
    Version { theirs: u32 },
    #[error("{BINARY} loaded libtorch {found}, and {LIBTORCH_VERSION} is needed")]
    Libtorch { found: String },
    #[error("{0}")]
    Failed(Failure),
    #[error("{BINARY} {ending}{}", quoted(log))]
    Crashed { ending: String, log: String },
    #[error("{BINARY} was ended after {:.1} s{}{}", limit.as_secs_f64(), at_node(node.as_deref()), quoted(log))]
    TimedOut { limit: Duration, node: Option<String>, log: String },
    #[error("{BINARY} was interrupted by signal {signal}")]
    Interrupted { signal: i32 },
    #[error("{BINARY} wrote a line that is no message: {line}{}", quoted(log))]
    Garbled { line: String, log: String },
}

impl Error {
    /// Whether something is not installed: a reason to skip, not to fail.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::NoBinary(_))
    }

    /// Whether the child was killed, as the kernel does where memory is short.
    pub fn was_killed(&self) -> bool {
        matches!(self, Self::Crashed { ending, .. } if ending.contains(KILLED))
    }
}

fn quoted(log: &str) -> String {
    match log.trim_end() {
        "" => String::new(),
        log => format!("; the end of its log:\n{log}"),
    }
}

fn at_node(node: Option<&str>) -> String {
    node.map(|node| format!(", at {node}")).unwrap_or_default()
}

/// A program and a libtorch to run it with.
#[derive(Clone, Debug)]
pub struct Golden {
    pub binary: PathBuf,
    pub libtorch: Libtorch,
}

impl Golden {
    pub fn find(search: &Search) -> Result<Self, Error> {
        let libtorch = search.find()?;
        let binary = match std::env::var_os(BINARY_VARIABLE).filter(|value| !value.is_empty()) {
            Some(named) => named.into(),
            None => std::env::current_exe().unwrap_or_default().with_file_name(BINARY),
        };
        if binary.is_file() { Ok(Self { binary, libtorch }) } else { Err(Error::NoBinary(binary)) }
    }

    /// Starts the child and waits for its greeting.
    pub fn start(&self) -> Result<Session, Error> {
        let mut command = Command::new(&self.binary);
        command.env("LD_LIBRARY_PATH", self.library_path());
        // A busy machine must not change how many threads share a sum, and so its rounding.
        for name in ["MKL_DYNAMIC", "OMP_DYNAMIC"] {
            command.env(name, "FALSE");
        }
        // A session that waits must leave the processors to others: its threads look for work
        // for some microseconds only and then sleep.
        command.env_remove("OMP_WAIT_POLICY").env("GOMP_SPINCOUNT", "1000");
        command.env("KMP_BLOCKTIME", "0");
        if std::env::var_os("CUBLAS_WORKSPACE_CONFIG").is_none() {
            // Without it cuBLAS may sum in another order each time.
            command.env("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
        }
        Session::start(command, &self.binary)
    }

    /// One request from start to end.
    pub fn run(
        &self,
        run: &Run,
        limit: Option<Duration>,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Outcome, Error> {
        let mut session = self.start()?;
        let outcome = session.run(run, limit, on_event)?;
        session.finish();
        Ok(outcome)
    }

    fn library_path(&self) -> OsString {
        let before = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let before = std::env::split_paths(&before).filter(|path| !path.as_os_str().is_empty());
        let folders = self.libtorch.library_path().into_iter().chain(before);
        // A folder with a colon in its name cannot be said; the loader's message will tell.
        std::env::join_paths(folders).unwrap_or_default()
    }
}

/// What the thread that reads the child's output passes on.
enum Heard {
    Event(Box<Event>),
    Garbled(String),
}

/// A running child. Dropping it ends it.
pub struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Heard>,
    log: Arc<Mutex<VecDeque<u8>>>,
    signals: Listener,
    hello: Hello,
    /// The node that was last said to run.
    node: Option<String>,
}

impl Session {
    fn start(mut command: Command, path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Start { path: path.to_owned(), source };
        let signals = Listener::new().map_err(failed)?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: a key pressed in the terminal reaches it through us alone, and
            // what it starts ends with it.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (sender, heard) = channel();
        let log = Arc::default();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || listen(stdout, &sender));
        }
        if let Some(stderr) = child.stderr.take() {
            let log = Arc::clone(&log);
            thread::spawn(move || keep_end(stderr, &log));
        }
        let stdin = child.stdin.take();
        let hello = Hello { version: 0, libtorch: String::new() };
        let mut session = Self { child, stdin, heard, log, signals, hello, node: None };
        match session.next(GREETING, Instant::now())? {
            Event::Hello(hello) if hello.version != VERSION => {
                Err(Error::Version { theirs: hello.version })
            }
            Event::Hello(hello) if hello.libtorch != LIBTORCH_VERSION => {
                Err(Error::Libtorch { found: hello.libtorch })
            }
            Event::Hello(hello) => {
                session.hello = hello;
                Ok(session)
            }
            other => Err(session.garbled(format!("{other:?} before its greeting"))),
        }
    }

    /// What the child said of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends one request and waits for its outcome. Every event is shown to `on_event` as it
    /// comes, the last one included. After an error of the child's the session goes on; after
    /// any other error it is over. The same holds for the requests below.
    pub fn run(
        &mut self,
        run: &Run,
        limit: Option<Duration>,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Outcome, Error> {
        self.ask(Task::Run(run.clone()), limit, on_event, |event| match event {
            Event::Result(outcome) => Ok(outcome),
            other => Err(Box::new(other)),
        })
    }

    /// Loads a model for training; one that was open before is closed.
    pub fn open(
        &mut self,
        open: &Open,
        limit: Option<Duration>,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Opened, Error> {
        self.ask(Task::Open(open.clone()), limit, on_event, |event| match event {
            Event::Opened(opened) => Ok(opened),
            other => Err(Box::new(other)),
        })
    }

    /// One update of the open model's parameters.
    pub fn step(
        &mut self,
        step: &Step,
        limit: Option<Duration>,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Stepped, Error> {
        self.ask(Task::Step(step.clone()), limit, on_event, |event| match event {
            Event::Stepped(stepped) => Ok(stepped),
            other => Err(Box::new(other)),
        })
    }

    /// Runs the open model in use, with its present weights.
    pub fn evaluate(
        &mut self,
        evaluate: &Evaluate,
        limit: Option<Duration>,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Evaluated, Error> {
        self.ask(Task::Evaluate(evaluate.clone()), limit, on_event, |event| match event {
            Event::Evaluated(evaluated) => Ok(evaluated),
            other => Err(Box::new(other)),
        })
    }

    /// Writes the open model's whole state to a file.
    pub fn save(&mut self, path: &Path) -> Result<(), Error> {
        self.order(Task::Save { path: path.to_owned() }, None)
    }

    /// Sets the open model's state to what a file holds.
    pub fn restore(&mut self, path: &Path) -> Result<(), Error> {
        self.order(Task::Restore { path: path.to_owned() }, None)
    }

    /// Frees the open model; the child stays.
    pub fn close(&mut self) -> Result<(), Error> {
        self.order(Task::Close, None)
    }

    /// Meets the other ranks.
    pub fn join(&mut self, join: &Join, limit: Option<Duration>) -> Result<(), Error> {
        self.order(Task::Join(join.clone()), limit)
    }

    /// Waits for what rank 0 does next.
    pub fn follow(&mut self, limit: Option<Duration>) -> Result<Order, Error> {
        self.ask(Task::Follow, limit, &mut |_| {}, |event| match event {
            Event::Ordered(order) => Ok(order),
            other => Err(Box::new(other)),
        })
    }

    /// Parts from the other ranks; when rank 0 does, all are told.
    pub fn leave(&mut self, limit: Option<Duration>) -> Result<(), Error> {
        self.order(Task::Leave, limit)
    }

    fn order(&mut self, task: Task, limit: Option<Duration>) -> Result<(), Error> {
        self.ask(task, limit, &mut |_| {}, |event| match event {
            Event::Done => Ok(()),
            other => Err(Box::new(other)),
        })
    }

    /// `take` tells the answer from other words.
    fn ask<T>(
        &mut self,
        task: Task,
        limit: Option<Duration>,
        on_event: &mut dyn FnMut(&Event),
        take: fn(Event) -> Result<T, Box<Event>>,
    ) -> Result<T, Error> {
        let request = Request { version: VERSION, task };
        self.node = None;
        if let Err(failure) = self.send(&request) {
            // It may just have died; then how it died says more.
            return Err(self.ending().unwrap_or(Error::Failed(failure)));
        }
        let start = Instant::now();
        loop {
            let event = self.next(limit.unwrap_or(Duration::MAX), start)?;
            on_event(&event);
            match event {
                Event::Progress(progress) => self.node = Some(progress.name),
                Event::Error(failure) => return Err(Error::Failed(failure)),
                Event::Hello(_) | Event::Started(_) | Event::Log(_) => {}
                answer => {
                    return take(answer).map_err(|other| {
                        self.garbled(format!("{other:?} is no answer to what was asked"))
                    });
                }
            }
        }
    }

    /// Lets the child end by itself.
    pub fn finish(mut self) {
        self.stdin = None;
        self.wait(GRACE);
    }

    fn send(&mut self, request: &Request) -> Result<(), Failure> {
        let failure = |message: String| Failure {
            kind: FailureKind::Protocol,
            message,
            node: None,
            module: None,
            source_line: None,
        };
        let mut line = serde_json::to_string(request).map_err(|e| failure(e.to_string()))?;
        line.push('\n');
        let Some(stdin) = &mut self.stdin else { return Err(failure("it is over".into())) };
        stdin.write_all(line.as_bytes()).map_err(|error| failure(error.to_string()))
    }

    /// The next event; a signal, the end of the time or of the child is an error instead.
    fn next(&mut self, limit: Duration, start: Instant) -> Result<Event, Error> {
        loop {
            if let Some(signal) = self.signals.received() {
                self.pass_on(signal);
                return Err(Error::Interrupted { signal });
            }
            match self.heard.recv_timeout(POLL) {
                Ok(Heard::Event(event)) => return Ok(*event),
                Ok(Heard::Garbled(line)) => return Err(self.garbled(line)),
                Err(RecvTimeoutError::Disconnected) => {
                    let lost = || Error::Crashed {
                        ending: "closed its output and went on".to_owned(),
                        log: String::new(),
                    };
                    return Err(self.ending().unwrap_or_else(lost));
                }
                Err(RecvTimeoutError::Timeout) if start.elapsed() > limit => {
                    self.kill();
                    let node = self.node.take();
                    return Err(Error::TimedOut { limit, node, log: self.end_of_log() });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn garbled(&mut self, line: String) -> Error {
        self.kill();
        Error::Garbled { line, log: self.end_of_log() }
    }

    /// How the child ended, if it did.
    fn ending(&mut self) -> Option<Error> {
        let status = self.wait(GRACE)?;
        Some(Error::Crashed { ending: describe(status), log: self.end_of_log() })
    }

    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if start.elapsed() < limit => thread::sleep(POLL / 10),
                _ => return None,
            }
        }
    }

    fn pass_on(&mut self, signal: i32) {
        let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
        if self.wait(GRACE).is_none() {
            self.kill();
        }
    }

    /// Ends the child and what it started. Until it has been waited for, its id is its own.
    fn kill(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            // One that is stuck in a driver dies when the driver lets go.
            self.wait(GRACE);
        }
    }

    fn end_of_log(&self) -> String {
        // What was written just before the end may still be on its way.
        thread::sleep(POLL);
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = log.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.kill();
    }
}

fn listen(stdout: impl Read, sender: &Sender<Heard>) {
    for line in BufReader::new(stdout).split(b'\n') {
        let Ok(line) = line else { return };
        let heard = if let Ok(event) = serde_json::from_slice(&line) {
            Heard::Event(Box::new(event))
        } else {
            Heard::Garbled(String::from_utf8_lossy(&line).chars().take(200).collect())
        };
        if sender.send(heard).is_err() {
            return;
        }
    }
}

fn keep_end(mut stderr: impl Read, log: &Mutex<VecDeque<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer) {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend(&buffer[..count]);
        let surplus = log.len().saturating_sub(LOG_BYTES);
        log.drain(..surplus);
    }
}

fn describe(status: ExitStatus) -> String {
    const NAMES: &[(i32, &str)] = &[
        (4, "SIGILL (illegal instruction)"),
        (6, "SIGABRT (abort)"),
        (7, "SIGBUS (bus error)"),
        (8, "SIGFPE (arithmetic error)"),
        (9, KILLED),
        (11, "SIGSEGV (invalid memory access)"),
        (15, "SIGTERM"),
    ];
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = NAMES.iter().find(|(number, _)| *number == signal);
            format!(
                "crashed with {}",
                name.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
            )
        }
        (None, code) => format!("ended with exit code {} without an answer", code.unwrap_or(-1)),
    }
}
