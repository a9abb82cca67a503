//! Set-up from outside: the built command, the machine's own pip, and a small
//! artifact whose wheels lie in a folder that pip is pointed at.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use warpforge_tests::campaign;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Packages of the artifact, and how many bytes of payload each wheel has: enough
/// for the unpacking to last some milliseconds.
const PACKAGES: [(&str, usize); 2] = [("alpha", 40_000), ("beta", 12_000_000)];

/// A checkout, a cache, and a folder of wheels, all of this test's own.
struct Ground {
    folder: TempDir,
}

impl Ground {
    fn new() -> Self {
        let ground = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["checkout", "cache", "wheels"] {
            fs::create_dir(ground.path(folder)).unwrap();
        }
        fs::write(ground.path("checkout/Cargo.lock"), "").unwrap();
        let wheels: String = PACKAGES
            .iter()
            .map(|(name, size)| ground.make_wheel(name, &payload(*size), &[]))
            .collect();
        ground.describe(&wheels);
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn install(&self) -> PathBuf {
        self.path("cache/tiny-1.0")
    }

    /// Writes the artifact's description around the tables of its wheels.
    fn describe(&self, wheels: &str) {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        let text = format!(
            "name = 'tiny'\nversion = '1.0'\nlink = '.tiny'\nos = '{os}'\narch = '{arch}'\n\
             [tags]\npython = '3.11'\nimplementation = 'cp'\nabis = ['cp311', 'none']\n\
             platforms = ['manylinux_2_28_x86_64']\n{wheels}"
        );
        fs::write(self.path("tiny.toml"), text).unwrap();
    }

    /// Makes a wheel that pip accepts, and gives its table of the description.
    fn make_wheel(&self, package: &str, payload: &[u8], more: &[&str]) -> String {
        let file = format!("{package}-1.0-py3-none-any.whl");
        let info = format!("{package}-1.0.dist-info");
        let metadata = format!("Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n");
        let wheel = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
        let mut zip = ZipWriter::new(File::create(self.path("wheels").join(&file)).unwrap());
        let mut put = |name: &str, bytes: &[u8]| {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        };
        put(&format!("{package}/lib/payload.bin"), payload);
        put(&format!("{package}/include/a/header.h"), b"#pragma once\n");
        put(&format!("{package}/left-out.py"), b"raise SystemExit\n");
        for name in more {
            put(name, b"more");
        }
        put(&format!("{info}/METADATA"), metadata.as_bytes());
        put(&format!("{info}/WHEEL"), wheel.as_bytes());
        put(&format!("{info}/RECORD"), b"");
        zip.finish().unwrap();
        let bytes = fs::read(self.path("wheels").join(&file)).unwrap();
        format!(
            "[[wheels]]\npackage = '{package}'\nversion = '1.0'\nfile = '{file}'\nsize = {}\n\
             sha256 = '{}'\nkeep = ['{package}/lib/payload.bin', '{package}/include/']\n",
            bytes.len(),
            sha256(&bytes),
        )
    }

    /// The set-up, which finds wheels in the folder and nowhere else.
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .args(["setup", "--artifact"])
            .arg(self.path("tiny.toml"))
            .current_dir(self.path("checkout"))
            .env("WARPFORGE_CACHE_DIR", self.path("cache"))
            .env("PIP_CONFIG_FILE", "/dev/null")
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", self.path("wheels"));
        command
    }

    fn set_up(&self) -> Output {
        self.command().output().unwrap()
    }

    /// A set-up that must fail, and what it said.
    fn failure(&self, change: impl Fn(&mut Command)) -> String {
        let mut command = self.command();
        change(&mut command);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("error: ") || said.contains("\nerror: "), "{said}");
        said
    }

    fn start(&self) -> Child {
        self.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Whether a pip is at work for this cache: its arguments name the folder.
    fn has_pip(&self) -> bool {
        let cache = self.path("cache").display().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
            .any(|line| String::from_utf8_lossy(&line).contains(&cache))
    }

    /// Everything is in place, and nothing else is left in the cache.
    #[track_caller]
    fn assert_whole(&self) {
        for (package, size) in PACKAGES {
            let through_link = self.path("checkout/.tiny").join(package);
            assert_eq!(fs::read(through_link.join("lib/payload.bin")).unwrap(), payload(size));
            assert!(through_link.join("include/a/header.h").is_file());
            assert!(!through_link.join("left-out.py").exists());
        }
        assert_eq!(names(&self.path("cache")), ["downloads", "lock", "tiny-1.0"]);
        assert!(names(&self.path("cache/downloads")).is_empty());
        assert_eq!(names(&self.path("checkout")), [".tiny", "Cargo.lock"]);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// Bytes that do not compress away.
fn payload(size: usize) -> Vec<u8> {
    let mut state = size as u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..size).map(|_| next()).collect()
}

#[track_caller]
fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_second_run_finds_everything_and_needs_nothing() {
    let ground = Ground::new();
    succeeded(&ground.set_up());
    ground.assert_whole();

    // With no python3 to be found, only the cache can answer.
    let again = ground.command().env("PATH", "").output().unwrap();
    succeeded(&again);
    let said = String::from_utf8(again.stdout).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("tiny 1.0 is ready in "), "{said}");
    assert!(again.stderr.is_empty());
}

#[test]
fn a_second_checkout_shares_the_cache() {
    let ground = Ground::new();
    succeeded(&ground.set_up());
    let other = ground.path("other");
    fs::create_dir_all(other.join("sub/folder")).unwrap();
    fs::write(other.join("Cargo.lock"), "").unwrap();
    let output =
        ground.command().env("PATH", "").current_dir(other.join("sub/folder")).output().unwrap();
    succeeded(&output);
    assert_eq!(
        fs::read_link(other.join(".tiny")).unwrap(),
        fs::canonicalize(ground.install()).unwrap()
    );
}

#[test]
fn a_wrong_digest_names_both_and_deletes_the_file() {
    let ground = Ground::new();
    let wheel = fs::read(ground.path("wheels/alpha-1.0-py3-none-any.whl")).unwrap();
    let expected = sha256(&wheel);
    ground.make_wheel("alpha", b"somebody else's bytes", &[]);
    let found = sha256(&fs::read(ground.path("wheels/alpha-1.0-py3-none-any.whl")).unwrap());

    let said = ground.failure(|_| {});
    assert!(said.contains(&expected) && said.contains(&found), "{said}");
    assert!(said.contains("alpha-1.0-py3-none-any.whl"), "{said}");
    assert_eq!(names(&ground.path("cache")), ["downloads", "lock"]);
    assert!(names(&ground.path("cache/downloads")).is_empty());

    fs::write(ground.path("wheels/alpha-1.0-py3-none-any.whl"), wheel).unwrap();
    succeeded(&ground.set_up());
    ground.assert_whole();
}

#[test]
fn leftovers_of_a_killed_run_are_removed() {
    let ground = Ground::new();
    let leave = || {
        let partial = ground.path("cache/.partial-abc/wheels");
        fs::create_dir_all(&partial).unwrap();
        fs::write(partial.join("beta-1.0-py3-none-any.whl"), b"half").unwrap();
    };
    leave();
    succeeded(&ground.set_up());
    ground.assert_whole();
    // Also when nothing else is to be done.
    leave();
    succeeded(&ground.set_up());
    ground.assert_whole();
}

#[test]
fn a_verified_wheel_is_not_fetched_again() {
    let ground = Ground::new();
    let wheel = "alpha-1.0-py3-none-any.whl";
    fs::create_dir(ground.path("cache/downloads")).unwrap();
    fs::rename(ground.path("wheels").join(wheel), ground.path("cache/downloads").join(wheel))
        .unwrap();
    succeeded(&ground.set_up());
    ground.assert_whole();
}

#[test]
fn a_spoilt_download_is_fetched_again() {
    let ground = Ground::new();
    fs::create_dir(ground.path("cache/downloads")).unwrap();
    fs::write(ground.path("cache/downloads/alpha-1.0-py3-none-any.whl"), b"cut sh").unwrap();
    succeeded(&ground.set_up());
    ground.assert_whole();
}

#[test]
fn a_damaged_install_is_made_anew() {
    let ground = Ground::new();
    succeeded(&ground.set_up());
    let payload = ground.install().join("beta/lib/payload.bin");
    let manifest = ground.install().join(".manifest.json");
    let damages: [(&dyn Fn(), &str); 4] = [
        (&|| fs::remove_file(&payload).unwrap(), "beta/lib/payload.bin is missing"),
        (&|| fs::write(&payload, b"short").unwrap(), "has 5 bytes instead of 12000000"),
        (&|| fs::write(&manifest, b"{\"recipe\":").unwrap(), "its manifest cannot be read"),
        (&|| fs::remove_dir_all(ground.install().join("alpha")).unwrap(), "is missing"),
    ];
    for (damage, reason) in damages {
        damage();
        let output = ground.set_up();
        succeeded(&output);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(reason), "{said}");
        ground.assert_whole();
    }
}

#[test]
fn another_description_makes_the_install_anew() {
    let ground = Ground::new();
    succeeded(&ground.set_up());
    let only = ground.make_wheel("alpha", b"newer", &[]);
    ground.describe(&only);
    succeeded(&ground.set_up());
    assert_eq!(fs::read(ground.install().join("alpha/lib/payload.bin")).unwrap(), b"newer");
    assert!(!ground.install().join("beta").exists());
}

#[test]
fn a_description_may_leave_out_place_and_borrow() {
    let ground = Ground::new();
    succeeded(&ground.set_up());
    // Another artifact, out of one of the same wheels.
    let first = fs::read_to_string(ground.path("tiny.toml")).unwrap();
    let keep = "keep = ['alpha/lib/payload.bin', 'alpha/include/']";
    let (head, tables) = first.split_once("[tags]").unwrap();
    let alpha = tables.split("[[wheels]]\npackage = 'beta'").next().unwrap();
    let second = format!(
        "{}into = 'lib/inner'\n[tags]{}[[borrow]]\ninstall = 'tiny-1.0'\n\
         files = ['beta/lib/payload.bin']\n",
        head.replace("tiny", "other"),
        alpha.replace(keep, "leave = ['alpha/include/']"),
    );
    fs::write(ground.path("tiny.toml"), second).unwrap();
    succeeded(&ground.set_up());

    let inner = ground.path("checkout/.other/lib/inner");
    assert!(inner.join("alpha/left-out.py").is_file(), "without `keep`, all is kept");
    assert!(!inner.join("alpha/include").exists());
    let borrowed = inner.join("beta/lib/payload.bin");
    assert_eq!(fs::read(&borrowed).unwrap(), payload(PACKAGES[1].1));

    // What is borrowed belongs to the install as much as the rest.
    fs::remove_file(&borrowed).unwrap();
    let again = ground.set_up();
    succeeded(&again);
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(said.contains("lib/inner/beta/lib/payload.bin is missing"), "{said}");
    assert!(borrowed.is_file());
}

#[test]
fn without_a_network_the_message_names_the_package() {
    let ground = Ground::new();
    let said = ground.failure(|command| {
        command
            .env_remove("PIP_NO_INDEX")
            .env("PIP_FIND_LINKS", "")
            .env("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
            .env("PIP_RETRIES", "1");
    });
    assert!(said.contains("could not fetch alpha 1.0 (40."), "{said}");
    assert!(said.contains("no package index could be reached"), "{said}");
    assert!(said.contains("pip's last line: ERROR: No matching distribution"), "{said}");
    assert!(said.contains("check the network"), "{said}");
}

#[test]
fn an_unknown_package_is_no_network_failure() {
    let ground = Ground::new();
    fs::remove_file(ground.path("wheels/beta-1.0-py3-none-any.whl")).unwrap();
    let said = ground.failure(|_| {});
    assert!(said.contains("could not fetch beta 1.0 (12."), "{said}");
    assert!(said.contains("pip failed"), "{said}");
    // What was fetched before is there for the next time.
    assert_eq!(names(&ground.path("cache/downloads")), ["alpha-1.0-py3-none-any.whl"]);
}

#[test]
fn a_missing_python_is_named_with_its_cure() {
    let said = Ground::new().failure(|command| {
        command.env("PATH", "");
    });
    assert!(said.contains("python3 is missing"), "{said}");
    assert!(said.contains("apt install python3 python3-pip"), "{said}");
}

#[test]
fn a_missing_pip_is_named_with_its_cure() {
    let ground = Ground::new();
    // An interpreter that sees no installed packages has no pip either.
    let script = format!("#!/bin/sh\nexec {} -I -S \"$@\"\n", python().display());
    let bin = ground.path("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("python3"), script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bin.join("python3"), mode).unwrap();
    let said = ground.failure(|command| {
        command.env("PATH", &bin);
    });
    assert!(said.contains("python3 has no pip"), "{said}");
    assert!(said.contains("apt install python3-pip"), "{said}");
}

/// The interpreter itself, not a launcher that needs a whole PATH.
fn python() -> PathBuf {
    let ask = "import sys; print(sys.executable)";
    let output = Command::new("python3").args(["-c", ask]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().into()
}

#[test]
fn a_wheel_that_climbs_out_is_refused() {
    let ground = Ground::new();
    ground.describe(&ground.make_wheel("alpha", b"fine", &["alpha/include/../../../outside"]));
    let said = ground.failure(|_| {});
    assert!(said.contains("unsafe name \"alpha/include/../../../outside\""), "{said}");
    assert!(!ground.path("outside").exists() && !ground.path("cache/outside").exists());
    assert!(!ground.install().exists());
}

#[test]
fn a_wheel_without_a_kept_member_is_a_mistake() {
    let ground = Ground::new();
    let table = ground.make_wheel("alpha", b"fine", &[]);
    ground.describe(&table.replace("payload.bin", "paylod.bin"));
    let said = ground.failure(|_| {});
    assert!(said.contains("it holds no alpha/lib/paylod.bin"), "{said}");
}

#[test]
fn a_mistake_in_a_description_is_named() {
    let ground = Ground::new();
    ground.describe("[[wheels]]\npackge = 'alpha'\n");
    let said = ground.failure(|_| {});
    assert!(said.contains("tiny.toml") && said.contains("packge"), "{said}");
}

#[test]
fn a_folder_in_the_links_place_is_left_alone() {
    let ground = Ground::new();
    fs::create_dir(ground.path("checkout/.tiny")).unwrap();
    fs::write(ground.path("checkout/.tiny/mine"), "").unwrap();
    let said = ground.failure(|_| {});
    assert!(said.contains("is in the way of a link"), "{said}");
    assert!(ground.path("checkout/.tiny/mine").exists());
}

#[test]
fn a_link_to_elsewhere_is_turned() {
    let ground = Ground::new();
    symlink("/nowhere", ground.path("checkout/.tiny")).unwrap();
    succeeded(&ground.set_up());
    ground.assert_whole();
}

#[test]
fn two_set_ups_wait_for_each_other() {
    let ground = Ground::new();
    let lock = File::create(ground.path("cache/lock")).unwrap();
    lock.lock().unwrap();
    let waiting: Vec<_> = (0..2)
        .map(|_| ground.command().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    sleep(Duration::from_millis(300));
    assert!(!ground.install().exists());
    drop(lock);
    let mut fetched = 0;
    for child in waiting {
        let output = child.wait_with_output().unwrap();
        succeeded(&output);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("waiting for another set-up"), "{said}");
        fetched += usize::from(said.contains("fetching"));
    }
    assert_eq!(fetched, 1, "the second to come finds it done");
    ground.assert_whole();
}

#[test]
fn an_interrupt_ends_pip_too() {
    let ground = Ground::new();
    let mut child = ground.start();
    wait_until(|| names(&ground.path("cache")).iter().any(|name| name.starts_with(".partial-")));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_until(|| !ground.has_pip());
    succeeded(&ground.set_up());
    ground.assert_whole();
}

/// Waits until something is so, or fails after some seconds.
#[track_caller]
fn wait_until(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(30), "it never came");
        sleep(Duration::from_micros(200));
    }
}

/// Killed again and again, each time further on from where the last kill left
/// it, set-up gets to a whole install. Every other kill aims at the unpacking,
/// which is too short to be hit by chance.
#[test]
fn it_recovers_from_being_killed_at_any_moment() {
    let mut numbers = campaign::numbers("set-up kills");
    let started = Instant::now();
    succeeded(&Ground::new().set_up());
    let usual = started.elapsed().as_micros() as u64;

    for round in 0..campaign::rounds(3, 30) {
        let ground = Ground::new();
        for _ in 0..=numbers.below(3) {
            let mut child = ground.start();
            let delay = if numbers.below(2) == 0 {
                numbers.below(usual)
            } else {
                let downloads = ground.path("cache/downloads");
                wait_until(|| {
                    let fetched = downloads.exists() && names(&downloads).len() == PACKAGES.len();
                    fetched || child.try_wait().unwrap().is_some()
                });
                numbers.below(60_000)
            };
            sleep(Duration::from_micros(delay));
            child.kill().unwrap();
            child.wait().unwrap();
            wait_until(|| !ground.has_pip());
        }
        let output = ground.set_up();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {}, round {round}: {said}", campaign::seed());
        ground.assert_whole();
    }
}
