//! Child processes that do not outlive us: each gets a process group of its own,
//! and the whole group is ended when it takes too long or when we are told to
//! stop. A terminal's Ctrl-C reaches only our own group, so it is passed on.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long a group may take to clean up between the polite signal and the last one.
const GRACE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(20);

static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On an interrupt, ends every group and then this process.
///
/// Exiting at any point is safe: whatever is half done lies in a partial folder
/// that the next run removes.
pub fn end_all_on_signal() -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Held until the exit, so that no new child can start and the main
            // thread cannot report the death of one as a failure.
            let running = running();
            for group in running.iter() {
                end(*group);
            }
            #[expect(clippy::exit, reason = "the main thread may be blocked on a lock or a child")]
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Runs a child to its end and gives what it wrote; it ends when we are told to stop.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let mut group = Group::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let mut errors = group.leader.stderr.take().expect("it is piped");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        errors.read_to_end(&mut bytes).map(|_| bytes)
    });
    let mut stdout = Vec::new();
    group.leader.stdout.take().expect("it is piped").read_to_end(&mut stdout)?;
    let stderr = reader.join().expect("reading does not panic")?;
    Ok(Output { status: group.wait()?, stdout, stderr })
}

/// A running child and everything it starts.
pub struct Group {
    leader: Child,
    id: Pid,
}

impl Group {
    /// Starts a child with nothing to read: a background group that reads the
    /// terminal would be stopped by it.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        Self::spawn_reading(command, Stdio::null())
    }

    /// Starts a child whose input ends when we do, even if we are killed.
    pub fn spawn_tied(command: &mut Command) -> io::Result<Self> {
        Self::spawn_reading(command, Stdio::piped())
    }

    fn spawn_reading(command: &mut Command, input: Stdio) -> io::Result<Self> {
        let mut running = running();
        let leader = command.process_group(0).stdin(input).spawn()?;
        let id = Pid::from_child(&leader);
        running.push(id);
        Ok(Self { leader, id })
    }

    /// Waits for the leader to end, however long it takes.
    pub fn wait(self) -> io::Result<ExitStatus> {
        self.wait_with(|| {})
    }

    /// Waits for the leader to end, calling `tick` now and then.
    pub fn wait_with(mut self, mut tick: impl FnMut()) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.leader.try_wait()? {
                return Ok(status);
            }
            tick();
            sleep(POLL);
        }
    }

    /// Waits until `ceiling` has passed; `None` means that it did and the group was ended.
    pub fn wait_at_most(mut self, ceiling: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + ceiling;
        while Instant::now() < deadline {
            if let Some(status) = self.leader.try_wait()? {
                return Ok(Some(status));
            }
            sleep(POLL);
        }
        end(self.id);
        self.leader.wait()?;
        Ok(None)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        running().retain(|id| *id != self.id);
    }
}

/// Ends a group; errors mean that it is gone already.
fn end(group: Pid) {
    let _ = kill_process_group(group, Signal::TERM);
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline {
        if test_kill_process_group(group).is_err() {
            return;
        }
        sleep(POLL);
    }
    let _ = kill_process_group(group, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Group {
        Group::spawn(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn a_child_within_its_ceiling_gives_its_status() {
        let status = shell("exit 7").wait_at_most(Duration::from_secs(20)).unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(7));
    }

    #[test]
    fn past_the_ceiling_the_grandchildren_end_too() {
        let started = Instant::now();
        let group = shell("trap '' TERM; sleep 300 & sleep 300");
        let id = group.id;
        assert!(group.wait_at_most(Duration::from_millis(200)).unwrap().is_none());
        // The orphans are reaped by whoever adopts them, a moment later.
        while test_kill_process_group(id).is_ok() {
            assert!(started.elapsed() < Duration::from_secs(20), "the group lives on");
            sleep(POLL);
        }
    }
}
