//! The client against children that misbehave: small shell scripts in the place of
//! `warpforge-golden`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use warpforge_golden_protocol::{
    Device, Error, Event, Golden, Libtorch, Precision, Run, Search, Taps, Weights,
};

const HELLO: &str = r#"echo '{"event":"hello","version":3,"libtorch":"2.11.0"}'"#;

/// One test at a time: a child that another test starts may hold this test's script open for
/// writing at the moment it is to be run.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn golden(folder: &Path, script: &str) -> Golden {
    let binary = folder.join("warpforge-golden");
    fs::write(&binary, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    Golden { binary, libtorch: Libtorch { folder: folder.join("torch") } }
}

fn request() -> Run {
    Run {
        model: "m.pt2".into(),
        weights: Weights::Archive,
        inputs: None,
        precision: Precision::AsExported,
        device: Device::Cpu,
        threads: 1,
        seed: 0,
        step: 0,
        taps: Taps::None,
        out: "out".into(),
        dims: [].into(),
        repeats: 1,
        time_nodes: false,
        grad: false,
        tf32: false,
    }
}

fn run(script: &str, limit: Option<Duration>) -> (Result<String, Error>, Vec<String>) {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut events = Vec::new();
    let mut on_event = |event: &Event| {
        let line = serde_json::to_value(event).unwrap();
        events.push(line["event"].as_str().unwrap().to_owned());
    };
    let outcome = golden(folder.path(), script).run(&request(), limit, &mut on_event);
    (outcome.map(|outcome| outcome.files[0].display().to_string()), events)
}

#[track_caller]
fn check(script: &str, expected: &str) {
    let (outcome, _) = run(script, Some(Duration::from_secs(30)));
    assert_eq!(outcome.unwrap_err().to_string(), expected);
}

#[test]
fn events_are_shown_in_order_and_the_result_comes_back() {
    let script = format!(
        r#"{HELLO}
read -r line
case "$line" in *'"version":3'*'"model":"m.pt2"'*) ;; *) exit 9;; esac
echo '{{"event":"started","device":"cpu","threads":1,"tf32":false,"nodes":2}}'
echo '{{"event":"progress","run":0,"node":0,"nodes":2,"name":"linear"}}'
echo '{{"event":"log","message":"note"}}'
echo '{{"event":"result","files":["outputs.safetensors"],"timings":{{"load_seconds":1,"runs":[]}},"ops":{{}},"shared_random":{{}},"own_random":{{}},"reproduced":null}}'"#
    );
    let (outcome, events) = run(&script, None);
    assert_eq!(outcome.unwrap(), "outputs.safetensors");
    assert_eq!(events, ["started", "progress", "log", "result"]);
}

#[test]
fn a_failure_of_the_childs_is_its_own_words() {
    check(
        &format!(
            r#"{HELLO}
read -r line
echo '{{"event":"error","kind":"op","message":"aten.mm: no","node":"mm","module":"a.b","source_line":"m.py:3"}}'"#
        ),
        "mm in a.b (m.py:3): aten.mm: no",
    );
}

#[test]
fn a_crash_is_reported_with_the_end_of_the_log() {
    let script = format!("{HELLO}\nread -r line\necho one >&2; echo two >&2\nkill -SEGV $$");
    let crash = "warpforge-golden crashed with SIGSEGV (invalid memory access); \
                 the end of its log:\none\ntwo";
    check(&script, crash);
    let ended = "warpforge-golden ended with exit code 7 without an answer";
    check(&format!("{HELLO}\nread -r line\nexit 7"), ended);
    check("exit 7", ended);
    let loader = "echo 'error while loading shared libraries: libx.so' >&2; exit 127";
    let told = "warpforge-golden ended with exit code 127 without an answer; \
                the end of its log:\nerror while loading shared libraries: libx.so";
    check(loader, told);
}

#[test]
fn a_long_log_is_cut_at_its_beginning() {
    let script = format!("{HELLO}\nread -r line\nseq 1 100000 >&2\nkill -ABRT $$");
    let (outcome, _) = run(&script, None);
    let message = outcome.unwrap_err().to_string();
    assert!(message.len() < 10_000 && message.ends_with("99999\n100000"), "{}", message.len());
}

#[test]
fn other_versions_and_other_words_are_refused() {
    check(
        r#"echo '{"event":"hello","version":4,"libtorch":"2.11.0"}'; read -r line"#,
        "warpforge-golden speaks version 4 of the protocol, and this program version 3: \
         install both from the same build",
    );
    check(
        r#"echo '{"event":"hello","version":3,"libtorch":"2.9.1"}'; read -r line"#,
        "warpforge-golden loaded libtorch 2.9.1, and 2.11.0 is needed",
    );
    let garbled = "warpforge-golden wrote a line that is no message: hello there";
    check("echo hello there; read -r line", garbled);
    check(&format!("{HELLO}\nread -r line\necho hello there; sleep 60"), garbled);
    let done =
        "warpforge-golden wrote a line that is no message: Done is no answer to what was asked";
    check(&format!("{HELLO}\nread -r line\necho '{{\"event\":\"done\"}}'; sleep 60"), done);
}

#[test]
fn a_time_limit_ends_the_child_and_names_the_node() {
    let script = format!(
        "{HELLO}\nread -r line\n\
         echo '{{\"event\":\"progress\",\"run\":0,\"node\":3,\"nodes\":9,\"name\":\"conv2d\"}}'\n\
         sleep 60"
    );
    let start = Instant::now();
    let (outcome, _) = run(&script, Some(Duration::from_millis(300)));
    let message = outcome.unwrap_err().to_string();
    assert_eq!(message, "warpforge-golden was ended after 0.3 s, at conv2d");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn the_child_and_what_it_started_end_with_the_session() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pid");
    let script = format!("{HELLO}\nsleep 600 &\necho $! > {}\nwait", note.display());
    let session = golden(folder.path(), &script).start().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !fs::read_to_string(&note).is_ok_and(|text| text.ends_with('\n')) {
        assert!(Instant::now() < until);
    }
    let sleeper = fs::read_to_string(&note).unwrap().trim().to_owned();
    drop(session);
    let gone = || {
        // A zombie that nobody waits for is gone as well.
        let state = fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    };
    while !gone() {
        assert!(Instant::now() < until, "{sleeper} still runs");
    }
}

/// In a process of its own: the signal is for all of it.
#[test]
fn a_signal_is_passed_on() {
    const ASKED: &str = "WARPFORGE_TEST_SIGNALLED";
    let _alone = alone();
    if std::env::var_os(ASKED).is_none() {
        let test = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(test);
        command.args(["--exact", "a_signal_is_passed_on"]).env(ASKED, "1");
        assert!(command.output().unwrap().status.success());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("note");
    let script = format!(
        "trap 'echo interrupted > {}; exit 0' INT\n{HELLO}\nread -r line\nsleep 60 & wait",
        note.display()
    );
    let mut session = golden(folder.path(), &script).start().unwrap();
    let own = Pid::from_raw(std::process::id().cast_signed()).unwrap();
    kill_process(own, Signal::INT).unwrap();
    let error = session.run(&request(), None, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "warpforge-golden was interrupted by signal 2");
    assert_eq!(fs::read_to_string(&note).unwrap(), "interrupted\n");
}

#[test]
fn a_missing_program_says_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let torch = folder.path().join("torch");
    fs::create_dir_all(torch.join("lib")).unwrap();
    fs::write(torch.join("lib/libtorch_cpu.so"), "").unwrap();
    let search = Search {
        named: Some(torch),
        cache: None,
        folder: folder.path().to_owned(),
        python: "python3".into(),
        limit: Duration::from_secs(1),
    };
    // This test's own folder holds no such program.
    let missing = Golden::find(&search).unwrap_err();
    assert!(missing.is_missing());
    let message = missing.to_string();
    assert!(message.contains("cargo build --release -p warpforge-golden"), "{message}");
    let nowhere = Search { named: Some("/nowhere".into()), ..search };
    let none = Golden::find(&nowhere).unwrap_err();
    assert!(none.is_missing());
    let message = none.to_string();
    assert!(message.starts_with("golden needs libtorch (cargo xtask setup golden)"), "{message}");
}
