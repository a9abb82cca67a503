//! A test that runs itself again in namespaces of its own: network, mounts, processes. Whatever it
//! starts there is gone with it, however it ends; the machine's own are never touched.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::cgroups;
use crate::error::{Error, Tried};
use crate::programs::Programs;

/// Names the cluster's folder; set inside the namespaces, and nowhere else.
const INSIDE: &str = "WARPFORGE_TEST_CLUSTER_FOLDER";
const FOLDER: &str = "warpforge-cluster.";

/// The first process in there: takes in orphans, and ends when it is told to, as the first process
/// of a namespace does not by itself.
const FIRST: &str = "trap 'exit 130' INT TERM; \"$@\" & wait $!";

/// Runs trials as cargo's own tests are run: in the namespaces, or not at all where there can be
/// none; each then says so, and fails where `CI` is set.
pub fn run(trials: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They share a cluster, and some of them harm it.
    arguments.test_threads.get_or_insert(1);
    if arguments.list || folder().is_some() {
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    let why = match missing() {
        Some(why) => why,
        // It comes back only if it could not.
        None => match enter() {
            Ok(never) => match never {},
            Err(error) => error.to_string(),
        },
    };
    let skip = |trial: Trial| {
        let (name, why) = (trial.name().to_owned(), why.clone());
        Trial::test(name.clone(), move || skipped(&name, &why))
    };
    libtest_mimic::run(&arguments, trials.into_iter().map(skip).collect()).exit_code()
}

/// The cluster's folder, for whoever is inside.
pub fn folder() -> Option<PathBuf> {
    env::var_os(INSIDE).map(PathBuf::from)
}

fn skipped(name: &str, why: &str) -> Result<(), Failed> {
    if env::var_os("CI").is_some() {
        return Err(why.into());
    }
    let _ = writeln!(std::io::stderr(), "Skipped: {name}: {why}");
    Ok(())
}

/// Why there can be no cluster here.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("a cluster with nodes takes root".to_owned());
    }
    let tried = unshare().arg("true").output();
    match tried {
        Ok(output) if output.status.success() => Programs::find().err(),
        Ok(output) => {
            Some(format!("no namespaces: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Err(error) => Some(format!("no namespaces: unshare: {error}")),
    }
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--uts", "--ipc"]);
    command.args(["--fork", "--kill-child", "--mount-proc", "--"]);
    command
}

enum Never {}

/// Becomes the same program in the namespaces. `unshare` takes the place of this process, so that
/// whoever ends this one ends it, and with it all that is inside.
fn enter() -> Result<Never, Error> {
    let lock = lock()?;
    let folder = tempfile::Builder::new().prefix(FOLDER).tempdir();
    let folder = folder.tried(|| "no folder for the cluster".to_owned())?.keep();
    let program = env::current_exe().tried(|| "this program is nowhere".to_owned())?;
    // Sweeps when the last of them is gone and its input ends with them; who waits for the
    // lock waits for it too.
    let mut sweeper = Command::new("sh")
        .args(["-c", &format!("read -r _; {}; {}; rm -rf \"$0\"", cgroups::REMOVE, tunables())])
        .arg(&folder)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .tried(|| "could not start sh".to_owned())?;
    let held = sweeper.stdin.take();
    for end in held.iter().map(AsFd::as_fd).chain([lock.as_fd()]) {
        fcntl_setfd(end, FdFlags::empty()).tried(|| "a file cannot be handed on".to_owned())?;
    }
    let error = unshare()
        .args(["sh", "-c", FIRST, "sh"])
        .arg(program)
        .args(env::args_os().skip(1))
        .env(INSIDE, &folder)
        .exec();
    Err(Error::Io { what: "could not start unshare".to_owned(), source: error })
}

/// Settings of the kernel that a kubelet changes and that no namespace has of its own, as commands
/// that put back what is there now.
fn tunables() -> String {
    let names = [
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys",
        "kernel/keys/root_maxbytes",
    ];
    let back = names.iter().filter_map(|name| {
        let path = format!("/proc/sys/{name}");
        let value: i64 = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
        Some(format!("echo {value} > {path}"))
    });
    // Never empty: it stands between two semicolons.
    std::iter::once("true".to_owned()).chain(back).collect::<Vec<_>>().join("; ")
}

/// One cluster to a machine: nodes have names in its cgroups. Removes what a killed one left.
fn lock() -> Result<File, Error> {
    // Not by `TMPDIR`: it must be the same for all.
    let path = Path::new("/tmp/warpforge-cluster.lock");
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.at("could not open", path)?;
    // The sweeper has it from the start.
    fcntl_setfd(&file, FdFlags::empty()).tried(|| "a file cannot be handed on".to_owned())?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let _ = writeln!(std::io::stderr(), "waiting for another cluster on this machine");
            file.lock().at("could not lock", path)?;
        }
        Err(TryLockError::Error(source)) => {
            return Err(Error::Io { what: "could not lock".to_owned(), source });
        }
    }
    let _ = Command::new("sh").args(["-c", cgroups::REMOVE]).output();
    for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(FOLDER) && entry.path().is_dir() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(file)
}
