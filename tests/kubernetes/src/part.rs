//! A program that runs beside the test, with its log.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::error::{Error, Tried};

/// How much of a log is shown.
const LINES: usize = 25;

/// Ends with its standard input, so that nothing outlives the test however it ends.
const LEASH: &str = "\"$@\" & child=$!; read -r _; kill -9 $child; wait $child 2>/dev/null; \
                     [ -z \"$FOLDER\" ] || rm -rf \"$FOLDER\"";

/// A running program: killed when this is dropped, or when the test is no more. Killed, because
/// some take long to say goodbye, and none has anything to lose.
pub struct Part {
    child: Child,
    log: PathBuf,
}

impl Part {
    /// Starts what the command says, which keeps its environment and folder. What it writes goes
    /// to `NAME.log` in the folder, after what was there.
    pub fn start(command: &Command, folder: &Path, name: &str) -> Result<Self, Error> {
        Self::start_over(command, folder, name, None)
    }

    /// The same; the folder is removed with the program.
    pub fn start_over(
        command: &Command,
        folder: &Path,
        name: &str,
        doomed: Option<&Path>,
    ) -> Result<Self, Error> {
        let log = folder.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log);
        let out = out.at("could not open", &log)?;
        let mut leashed = Command::new("sh");
        leashed.args(["-c", LEASH, "sh"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => leashed.env(name, value),
                None => leashed.env_remove(name),
            };
        }
        leashed.env("FOLDER", doomed.map_or("".as_ref(), Path::as_os_str));
        leashed.current_dir(command.get_current_dir().unwrap_or(folder)).stdin(Stdio::piped());
        leashed.stdout(out.try_clone().at("could not open", &log)?).stderr(out);
        let child = leashed.spawn().tried(|| format!("could not start {name}"))?;
        Ok(Self { child, log })
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        last_words(&self.log)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The end of a log, under its name.
pub fn last_words(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
    format!("--- {}\n{end}\n", log.file_name().unwrap_or_default().display())
}

/// The ends of all logs of a folder.
pub fn all_last_words(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut logs: Vec<_> = entries.map(|entry| entry.path()).collect();
    logs.retain(|path| path.extension().is_some_and(|end| end == "log"));
    logs.sort();
    logs.iter().map(|log| last_words(log)).collect()
}

/// Ports of the loopback that nobody uses, at least not now.
pub fn ports<const COUNT: usize>() -> Result<[u16; COUNT], Error> {
    let mut ports = [0; COUNT];
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").tried(|| "no port is free".to_owned())?;
        *port = listener.local_addr().tried(|| "no port is free".to_owned())?.port();
        held.push(listener);
    }
    Ok(ports)
}
