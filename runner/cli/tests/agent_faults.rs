//! Workers that are stopped, killed or left alone, and several that make a golden together.

mod common;
#[path = "../../store/tests/common/mod.rs"]
mod servers;
mod worker;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use servers::block_on;
use servers::s3::{S3, WRITER};
use warpforge_operator_api::Verdict;
use warpforge_operator_api::contract::GoldenUse;
use worker::{BUCKET, Run, Worker, processes, workload};

/// Long enough to be met in the middle.
fn long() -> Run {
    let mut workload = workload();
    workload["parameters"]["steps"] = json!("400");
    Run::new("u", ("workload", workload))
}

fn golden_process(worker: &Worker) -> Option<u32> {
    let all = worker.descendants();
    all.into_iter().find(|(_, name)| name.starts_with("warpforge-gold")).map(|(id, _)| id)
}

fn kill(id: u32) {
    signal(id, Signal::KILL);
}

fn signal(id: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(id.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn a_worker_that_is_told_to_stop_ends_its_children_and_says_so() {
    let run = long();
    let mut worker = run.start(0);
    worker.until("golden", |worker| golden_process(worker).is_some());
    let below = worker.descendants();
    assert!(below.len() >= 2, "{below:?}");
    worker.signal(Signal::TERM);
    let ended = worker.end();
    ended.assert(3, "Interrupted");
    assert!(ended.message.message.contains("signal 15"), "{}", ended.message.message);
    // Ids may be used again, but not with the same name at once.
    let left = |(id, name): &&(u32, String)| {
        processes().iter().any(|(other, _, called)| other == id && called == name)
    };
    let left: Vec<_> = below.iter().filter(left).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_pass_that_is_killed_leaves_a_worker_that_says_whose_memory_it_was() {
    // The kernel counts what it kills; somebody else's kill it does not.
    for (count, reason, code) in [("1", "GoldenOutOfMemory", 3), ("0", "InternalError", 70)] {
        let run = long();
        let mut worker = run.start(0);
        worker.until("step of golden", |worker| {
            worker.ask("/progress").is_some_and(|text| text.contains("\"loss\":"))
        });
        let golden = golden_process(&worker).unwrap();
        fs::write(worker.folder.join("memory.events"), format!("oom_kill {count}\n")).unwrap();
        kill(golden);
        let ended = worker.end();
        ended.assert(code, reason);
        assert!(ended.message.message.contains("SIGKILL"), "{}", ended.message.message);
    }
    // The pass's own process, during golden.
    let run = long();
    let mut worker = run.start(0);
    worker.until("golden", |worker| golden_process(worker).is_some());
    fs::write(worker.folder.join("memory.events"), "oom_kill 1\n").unwrap();
    kill(worker.descendants()[0].0);
    worker.end().assert(3, "GoldenOutOfMemory");
}

#[test]
fn a_run_that_takes_too_long_ends_by_its_deadline() {
    let ended = long().with("runDeadlineSeconds", json!(1)).end();
    ended.assert(3, "RunDeadlineExceeded");
    // The operator's moment may come before all of that has passed from this worker's start.
    let mut run = long();
    run.spec["spec"]["workload"]["parameters"]["steps"] = json!("100000");
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(15);
    run.spec["deadline"] = json!(soon.to_string());
    run.end().assert(3, "RunDeadlineExceeded");
}

/// Two workers that make a golden.
fn pair(s3: &S3, uid: &str) -> Run {
    let run = Run::new(uid, ("workload", workload())).stored(&s3.endpoint, "pair", WRITER);
    run.with("goldenPolicy", json!("Only")).with("passes", json!(["Golden"])).ranks(2)
}

#[test]
fn two_workers_make_one_golden_and_the_next_two_find_it() {
    let s3 = S3::start();
    s3.make_bucket(BUCKET).unwrap();
    let run = pair(&s3, "uid-1");
    let (follower, leader) = (run.start(1), run.start(0));
    let (leader, follower) = (leader.end(), follower.end());
    leader.assert(4, "GoldenMade");
    follower.assert(0, "Finished");
    assert_eq!(leader.message.correctness, Some(Verdict::Skipped));
    let store = warpforge_store::ArtifactStore::open(s3.location(BUCKET, "pair", WRITER));
    let names = block_on(store.list()).unwrap();
    let [golden] = &names[..] else { panic!("{names:?}") };
    block_on(store.verify(golden, &mut |_| {})).unwrap();

    let run = pair(&s3, "uid-2").with("goldenPolicy", json!("Reuse"));
    let (follower, leader) = (run.start(1), run.start(0));
    let (leader, follower) = (leader.end(), follower.end());
    leader.assert(4, "GoldenReused");
    assert_eq!(leader.message.golden, Some(GoldenUse::Reused));
    follower.assert(0, "Finished");
    assert!(follower.events.is_empty());
}

#[test]
fn pass_2_across_workers_is_refused() {
    let ended = Run::new("u", ("workload", workload())).ranks(2).end();
    ended.assert(2, "ConfigurationRejected");
    let said = &ended.message.message;
    assert!(said.contains("Pass 2 across workers is not there yet"), "{said}");
}

#[test]
fn strangers_are_refused_and_a_lost_peer_is_noticed() {
    let s3 = S3::start();
    s3.make_bucket(BUCKET).unwrap();
    let mut run = pair(&s3, "uid-1");
    run.spec["spec"]["workload"]["parameters"]["steps"] = json!("400");
    let port = run.ranks["port"].as_u64().unwrap() as u16;
    let mut leader = run.start(0);
    leader.until("rendezvous", |_| TcpStream::connect(("127.0.0.1", port)).is_ok());
    for (hello, said) in [
        (json!({ "version": 1, "uid": "other", "attempt": 1, "rank": 1 }), "run other"),
        (json!({ "version": 1, "uid": "uid-1", "attempt": 0, "rank": 1 }), "attempt 0"),
        (json!({ "version": 1, "uid": "uid-1", "attempt": 1, "rank": 7 }), "rank 7"),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        writeln!(stream, "{}", json!({ "hello": hello })).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(answer.contains("refused") && answer.contains(said), "{answer}");
    }
    // Noise is no reason to give up either.
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&[0xff; 9000]).unwrap();
    assert!(leader.runs());
    // The right one is let in; then it dies in the middle of its part.
    let follower = run.start(1);
    leader.until("loss of golden", |leader| {
        leader.ask("/progress").is_some_and(|text| text.contains("\"loss\":"))
    });
    follower.signal(Signal::KILL);
    let ended = leader.end();
    ended.assert(3, "PeerLost");
    assert!(ended.message.message.contains("cpu-1"), "{}", ended.message.message);
}

#[test]
fn a_leader_whose_own_golden_dies_says_so_though_its_peer_tells_first() {
    let s3 = S3::start();
    s3.make_bucket(BUCKET).unwrap();
    let mut run = pair(&s3, "uid-1");
    run.spec["spec"]["workload"]["parameters"]["steps"] = json!("400");
    let (follower, mut leader) = (run.start(1), run.start(0));
    leader.until("loss of golden", |leader| {
        leader.ask("/progress").is_some_and(|text| text.contains("\"loss\":"))
    });
    // The pass's own process is held, so that it cannot tell before the peer has.
    let (pass, _) = leader.descendants()[0].clone();
    signal(pass, Signal::STOP);
    fs::write(leader.folder.join("memory.events"), "oom_kill 1\n").unwrap();
    kill(golden_process(&leader).unwrap());
    follower.end().assert(3, "PeerLost");
    signal(pass, Signal::CONT);
    leader.end().assert(3, "GoldenOutOfMemory");
}

#[test]
fn peers_that_never_come_are_named() {
    let s3 = S3::start();
    s3.make_bucket(BUCKET).unwrap();
    let mut run = pair(&s3, "uid-1");
    run.arguments = vec!["--peers-patience".into(), "1".into()];
    let ended = run.start(0).end();
    ended.assert(3, "PreflightFailed/PeersNotFound");
    assert!(ended.message.message.contains("cpu-1"), "{}", ended.message.message);
    let ended = run.start(1).end();
    ended.assert(3, "PreflightFailed/PeersNotFound");
}
