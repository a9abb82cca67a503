//! Work that must not hang its caller: a vendor library or a program on `PATH` may block for
//! ever, and a snapshot without its answer is better than no snapshot.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Work under way on a thread of its own.
pub(crate) struct Pending<T>(mpsc::Receiver<T>);

/// Starts `work`; a thread that cannot be started counts as work that never answers.
pub(crate) fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
    let (sender, receiver) = mpsc::channel();
    let body = move || {
        // The receiver is gone when the caller stopped waiting.
        let _ = sender.send(work());
    };
    drop(thread::Builder::new().spawn(body));
    Pending(receiver)
}

impl<T> Pending<T> {
    /// The answer, if it came within `limit`; otherwise the thread is left behind.
    pub(crate) fn within(self, limit: Duration) -> Option<T> {
        self.0.recv_timeout(limit).ok()
    }

    /// The answer, once it is there.
    pub(crate) fn ready(&self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

/// What a program prints on standard output, if it ends (or closes it) within `limit`.
pub(crate) fn output(program: &Path, args: &[&str], limit: Duration) -> Option<String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    let text = start(move || {
        let mut text = String::new();
        stdout.take(64 << 10).read_to_string(&mut text).map(|_| text)
    });
    let text = text.within(limit);
    // Also right after a good answer: nothing more is wanted of it, and `wait` must not block.
    let _ = child.kill();
    let _ = child.wait();
    text?.ok()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_program_that_hangs_is_given_up() {
        let begun = Instant::now();
        let args = ["-c", "echo early; exec sleep 60"];
        assert_eq!(output(Path::new("/bin/sh"), &args, Duration::from_millis(50)), None);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_program_that_answers_is_read_whole() {
        let text = output(Path::new("/bin/sh"), &["-c", "echo 1.2.3"], Duration::from_secs(10));
        assert_eq!(text.as_deref(), Some("1.2.3\n"));
    }
}
