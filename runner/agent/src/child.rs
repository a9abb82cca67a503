//! A child process: our own program with other arguments, watched until it ends.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};
use warpforge_operator_api::Reason;
use warpforge_operator_api::contract::Termination;
use warpforge_operator_api::data::Stage;
use warpforge_operator_api::verdict::exit;

use crate::ending::{self, Failure};
use crate::event::{self, Blame, Event};
use crate::progress::Shared;

const POLL: Duration = Duration::from_millis(200);
/// How long a child may take to end by itself after a signal.
const GRACE: Duration = Duration::from_secs(8);
/// How much of a child's error stream is kept for a message.
const LOG_BYTES: usize = 1024;
/// What the passes have no use for.
const SECRETS: &[&str] =
    &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN"];

/// How children are started, and who hears of them.
pub struct Starter {
    pub program: PathBuf,
    /// Where they run, and leave what they say.
    pub folder: PathBuf,
    pub state: Shared,
    /// Where the message is written that stands should this process be killed.
    pub termination: PathBuf,
    /// The kernel's count of processes that were killed for want of memory.
    pub memory_events: PathBuf,
    pub show: Show,
    pub count: AtomicU32,
}

/// Takes what people may read of a worker's work.
pub type Show = fn(&[u8]);

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Golden's key, if it was asked for that.
    pub key: Option<String>,
    failed: Option<(Blame, String)>,
    log: String,
    pass: Stage,
    /// Whether the kernel killed something for want of memory meanwhile; unknown where it keeps no
    /// count.
    short_of_memory: Option<bool>,
}

impl Starter {
    /// Runs a child to its end. Dropping the future ends the child.
    pub async fn run(&self, arguments: &[OsString], first: Stage) -> Result<Ended, Failure> {
        let failed = |error: io::Error| {
            let program = self.program.display();
            Failure::new(Reason::InternalError, format!("{program} cannot be started: {error}"))
        };
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let events = self.folder.join(format!("events-{number}.jsonl"));
        let mut reader = Tail::create(&events).map_err(failed)?;
        let killed_before = killed_for_memory(&self.memory_events);
        self.enter(&Event::Pass { pass: first })?;
        let mut command = Command::new(&self.program);
        command.arg("--events").arg(&events).args(arguments).current_dir(&self.folder);
        for name in SECRETS {
            command.env_remove(name);
        }
        // A group of its own: what it starts ends with it.
        command.stdin(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut child = Guarded(command.spawn().map_err(failed)?);
        let log = Arc::default();
        let copying = child
            .0
            .stderr
            .take()
            .map(|stderr| tokio::spawn(copy(stderr, Arc::clone(&log), self.show)));
        let (mut key, mut fault, mut pass) = (None, None, first);
        let status = loop {
            let ended = tokio::select! {
                ended = child.0.wait() => Some(ended.map_err(failed)?),
                () = tokio::time::sleep(POLL) => None,
            };
            for event in reader.read() {
                self.take(&event, &mut pass)?;
                match event {
                    Event::Key { key: found } => key = Some(found),
                    Event::Failed { blame, message, .. } => fault = Some((blame, message)),
                    Event::Pass { .. } | Event::Step { .. } => {}
                }
            }
            if let Some(status) = ended {
                break status;
            }
        };
        if let Some(copying) = copying {
            // A grandchild may keep the pipe open; what is there by now is enough.
            let _ = tokio::time::timeout(Duration::from_secs(1), copying).await;
        }
        let killed_after = killed_for_memory(&self.memory_events);
        let short_of_memory = killed_before.zip(killed_after).map(|(before, now)| now > before);
        let log = take_log(&log);
        Ok(Ended { status, key, failed: fault, log, pass, short_of_memory })
    }

    /// The same of a child that is only there to succeed.
    pub async fn succeed(&self, arguments: &[OsString], pass: Stage) -> Result<(), Failure> {
        let ended = self.run(arguments, pass).await?;
        if ended.succeeded() { Ok(()) } else { Err(ended.failure()) }
    }

    fn take(&self, event: &Event, pass: &mut Stage) -> Result<(), Failure> {
        if let Event::Pass { pass: now } | Event::Step { pass: now, .. } = event
            && now != pass
        {
            *pass = *now;
            self.enter(event)
        } else {
            self.state.lock().take(event, Instant::now());
            Ok(())
        }
    }

    /// A pass begins: what kills this process from now on has killed that pass.
    fn enter(&self, event: &Event) -> Result<(), Failure> {
        let message = {
            let mut state = self.state.lock();
            state.take(event, Instant::now());
            let progress = state.progress();
            Termination { golden: progress.golden, ..Termination::interim(progress.pass) }
        };
        ending::write(&self.termination, &message).map_err(|error| {
            let path = self.termination.display();
            Failure::new(Reason::InternalError, format!("{path} cannot be written: {error}"))
        })
    }
}

impl Ended {
    /// It ended with 0 and told of no failure: who could not print anything any more ends so, too.
    pub fn succeeded(&self) -> bool {
        self.code() == Some(0) && !self.told_failure()
    }

    /// It said itself that it failed.
    pub fn told_failure(&self) -> bool {
        self.failed.is_some()
    }

    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Why there is no verdict.
    pub fn failure(&self) -> Failure {
        if let Some(signal) = self.status.signal() {
            return self.ended_by(signal);
        }
        if let Some((blame, message)) = &self.failed {
            return match blame {
                Blame::GoldenKilled => self.killed(Stage::Golden, message),
                Blame::Request => Failure::new(Reason::ConfigurationRejected, message),
                Blame::Data => Failure::new(Reason::DataMissing, message),
                Blame::Deadline => Failure::new(Reason::RunDeadlineExceeded, message),
                Blame::Machine => Failure::new(Reason::PreflightFailed, message),
                Blame::Peer => Failure::new(Reason::PeerLost, message),
                Blame::Disk => Failure::new(Reason::DiskTooSmall, message),
                Blame::Internal => Failure::new(Reason::InternalError, message),
            };
        }
        let code = self.code().unwrap_or(-1);
        let said = if self.log.is_empty() { String::new() } else { format!(": {}", self.log) };
        match code {
            exit::USAGE => Failure::new(Reason::ConfigurationRejected, self.log.clone()),
            4 => Failure::new(
                Reason::PreflightFailed,
                format!("{} lacks something on this machine{said}", words(self.pass)),
            ),
            _ => Failure::new(
                Reason::InternalError,
                format!("{} ended with exit code {code}{said}", words(self.pass)),
            ),
        }
    }

    fn ended_by(&self, signal: i32) -> Failure {
        let what = format!("{} was ended by signal {signal}", words(self.pass));
        if signal == Signal::KILL.as_raw() {
            self.killed(self.pass, &what)
        } else {
            Failure::new(Reason::InternalError, what)
        }
    }

    /// In a container nobody kills but the kernel, and it counts whom; without that count it is
    /// believed.
    fn killed(&self, pass: Stage, what: &str) -> Failure {
        match (self.short_of_memory, pass) {
            (Some(false), _) => {
                let message = format!("{what}, and not by the kernel for want of memory");
                Failure::new(Reason::InternalError, message)
            }
            (_, Stage::Golden) => Failure::new(Reason::GoldenOutOfMemory, what),
            (_, Stage::Warpforge | Stage::Suite) => Failure::new(Reason::OutOfMemory, what),
        }
    }
}

fn words(stage: Stage) -> String {
    match stage {
        Stage::Golden | Stage::Warpforge => format!("the {} pass", stage.name()),
        Stage::Suite => "the suite".to_owned(),
    }
}

/// A child that does not outlive its guard, nor does what it started.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // Until it has been waited for, its id is its own.
        let Some(pid) = self.0.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return };
        let _ = kill_process_group(pid, Signal::TERM);
        let start = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if start.elapsed() > GRACE {
                let _ = kill_process_group(pid, Signal::KILL);
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Reads what is appended to a file.
struct Tail {
    file: File,
    at: u64,
}

impl Tail {
    fn create(path: &Path) -> io::Result<Self> {
        File::create(path)?;
        Ok(Self { file: File::open(path)?, at: 0 })
    }

    fn read(&mut self) -> Vec<Event> {
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(self.at));
        if read.and_then(|_| self.file.read_to_end(&mut bytes)).is_err() {
            return Vec::new();
        }
        let (events, used) = event::lines(&bytes);
        self.at += used as u64;
        events
    }
}

type Log = Arc<Mutex<Vec<u8>>>;

/// Passes a child's errors on and keeps their end.
async fn copy(mut from: ChildStderr, log: Log, show: Show) {
    let mut buffer = vec![0; 8192];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        show(&buffer[..read]);
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(&buffer[..read]);
        let excess = log.len().saturating_sub(LOG_BYTES);
        log.drain(..excess);
    }
}

fn take_log(log: &Log) -> String {
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&log).trim().trim_start_matches("error: ").to_owned()
}

/// The count in a control group's `memory.events`.
fn killed_for_memory(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(raw: i32, failed: Option<Blame>, short_of_memory: Option<bool>) -> Failure {
        let status = ExitStatus::from_raw(raw);
        let failed = failed.map(|blame| (blame, "why".to_owned()));
        let (log, pass) = ("the log".to_owned(), Stage::Warpforge);
        Ended { status, key: None, failed, log, pass, short_of_memory }.failure()
    }

    #[test]
    fn every_end_has_its_reason() {
        use Reason as R;
        let code = |code: i32| code << 8;
        for (raw, blame, memory, reason) in [
            (9, None, None, R::OutOfMemory),
            (9, None, Some(true), R::OutOfMemory),
            (9, None, Some(false), R::InternalError),
            (11, None, None, R::InternalError),
            (code(70), Some(Blame::GoldenKilled), None, R::GoldenOutOfMemory),
            (code(70), Some(Blame::GoldenKilled), Some(true), R::GoldenOutOfMemory),
            (code(70), Some(Blame::GoldenKilled), Some(false), R::InternalError),
            (code(70), Some(Blame::Internal), None, R::InternalError),
            (code(2), Some(Blame::Request), None, R::ConfigurationRejected),
            (code(2), Some(Blame::Disk), None, R::DiskTooSmall),
            (code(3), Some(Blame::Deadline), None, R::RunDeadlineExceeded),
            (code(4), Some(Blame::Machine), None, R::PreflightFailed),
            (code(3), Some(Blame::Peer), None, R::PeerLost),
            (code(4), Some(Blame::Data), None, R::DataMissing),
            (code(2), None, None, R::ConfigurationRejected),
            (code(4), None, None, R::PreflightFailed),
            (code(70), None, None, R::InternalError),
            (code(0), None, None, R::InternalError),
        ] {
            let failure = ended(raw, blame, memory);
            assert_eq!(failure.reason, reason, "{raw} {blame:?} {memory:?}: {failure}");
        }
    }

    #[test]
    fn the_kernels_count_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "low 0\noom 3\noom_kill 2\noom_group_kill 0\n").unwrap();
        assert_eq!(killed_for_memory(file.path()), Some(2));
        assert_eq!(killed_for_memory(Path::new("absent")), None);
    }
}
