//! Probes as child processes: started together, watched by one loop, each killed by its own
//! process id when its time is up.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use warpforge_bench::capability::Finding;

use super::{Capability, Limits};

const POLL: Duration = Duration::from_millis(2);
/// A finding is one line; whatever else a library writes is not worth more memory than this.
const MOST_OUTPUT: usize = 64 * 1024;
const CURE_OF_CRASH: &str = "run the probe alone to see what it prints: warpforge doctor --probe";

/// What became of one probe.
pub struct Outcome {
    pub finding: Finding,
    pub elapsed: Duration,
}

/// Makes the kernel end this process when the one that watches over it dies.
pub fn end_with_parent() {
    // Only an additional safety: the probe has its own limit too.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Runs every probe; returns when the last has answered or had its time, whatever they do.
pub fn run(
    capabilities: &'static [Capability],
    spawn: &dyn Fn(&str) -> Command,
    limits: Limits,
    progress: &mut dyn FnMut(&[&str]),
) -> Vec<Outcome> {
    let mut probes: Vec<_> =
        capabilities.iter().map(|row| Probe::start(row, spawn(row.name))).collect();
    loop {
        for probe in &mut probes {
            probe.poll(limits.probe);
        }
        let waiting: Vec<_> =
            probes.iter().filter(|probe| probe.outcome.is_none()).map(|p| p.row.name).collect();
        if waiting.is_empty() {
            return probes.into_iter().filter_map(|probe| probe.outcome).collect();
        }
        progress(&waiting);
        thread::sleep(POLL);
    }
}

struct Probe {
    row: &'static Capability,
    start: Instant,
    running: Option<Running>,
    outcome: Option<Outcome>,
}

struct Running {
    child: Child,
    // Files in memory and not pipes: a grandchild that keeps one open, or a child that cannot be
    // ended, must not keep us waiting for an end of file.
    stdout: File,
    stderr: File,
}

impl Probe {
    fn start(row: &'static Capability, command: Command) -> Self {
        let start = Instant::now();
        match Running::start(command) {
            Ok(running) => Self { row, start, running: Some(running), outcome: None },
            Err(error) => {
                let cure = "free some memory or processes, then try again";
                let finding = Finding::broken(format!("the probe cannot start: {error}"), cure);
                let outcome = Some(Outcome { finding, elapsed: start.elapsed() });
                Self { row, start, running: None, outcome }
            }
        }
    }

    fn poll(&mut self, limit: Duration) {
        let Some(running) = &mut self.running else { return };
        let elapsed = self.start.elapsed();
        let finding = match running.child.try_wait() {
            Ok(Some(status)) => running.finding(status, self.row.name),
            Ok(None) if elapsed < limit => return,
            Ok(None) => {
                running.kill();
                let detail = format!("did not answer within {:.1} s", limit.as_secs_f64());
                Finding::broken(detail, self.row.cure_of_silence)
            }
            Err(error) => Finding::broken(
                format!("the probe was lost: {error}"),
                format!("{CURE_OF_CRASH} {}", self.row.name),
            ),
        };
        self.outcome = Some(Outcome { finding, elapsed });
        self.running = None;
    }
}

impl Running {
    fn start(mut command: Command) -> io::Result<Self> {
        let stdout = File::from(memfd_create("stdout", MemfdFlags::CLOEXEC)?);
        let stderr = File::from(memfd_create("stderr", MemfdFlags::CLOEXEC)?);
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            // A group of its own, so that what the probe starts ends with it.
            .process_group(0)
            .spawn()?;
        Ok(Self { child, stdout, stderr })
    }

    /// Ends the probe and what it started. It has not been waited for, so its id is still its own.
    /// A process stuck in a driver dies when the driver lets go; it is not waited for.
    fn kill(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.try_wait();
    }

    fn finding(&self, status: ExitStatus, name: &str) -> Finding {
        // Libraries may write to standard output as well: the finding is the last line.
        let output = read(&self.stdout);
        let last = output.lines().next_back().unwrap_or_default();
        match serde_json::from_str(last) {
            Ok(finding) if status.success() => finding,
            _ => Finding::broken(
                format!("the probe {}{}", ending(status), quoted(&read(&self.stderr))),
                format!("{CURE_OF_CRASH} {name}"),
            ),
        }
    }
}

fn read(file: &File) -> String {
    let mut bytes = vec![0; MOST_OUTPUT];
    let count = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

/// The first line a crashed probe wrote to standard error.
fn quoted(stderr: &str) -> String {
    let line = stderr.lines().map(str::trim).find(|line| !line.is_empty());
    line.map(|line| format!(": {line}")).unwrap_or_default()
}

fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("crashed with {}", signal_name(signal)),
        (None, Some(0)) => "ended without an answer".to_owned(),
        (None, code) => format!("ended with exit code {}", code.unwrap_or(-1)),
    }
}

fn signal_name(signal: i32) -> String {
    let named = [
        (Signal::ILL, "SIGILL (illegal instruction)"),
        (Signal::ABORT, "SIGABRT (abort)"),
        (Signal::BUS, "SIGBUS (bus error)"),
        (Signal::FPE, "SIGFPE (arithmetic error)"),
        (Signal::KILL, "SIGKILL (killed, perhaps for lack of memory)"),
        (Signal::SEGV, "SIGSEGV (invalid memory access)"),
    ];
    let found = named.iter().find(|(known, _)| known.as_raw() == signal);
    found.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}
