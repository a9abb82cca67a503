//! Downloads from servers on the loopback that cut, corrupt, redirect, forget and lie.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Reply, Seen, Server, block_on, content, sha256};
use tempfile::TempDir;
use warpforge_store::{
    Arrived, DownloadError, Event, Fault, Http, Limits, Login, Order, Patience, Token, download,
};
use warpforge_tests::campaign;

const QUICK: Patience = Patience {
    attempts: 4,
    first_wait: Duration::from_millis(1),
    longest_wait: Duration::from_secs(2),
};

struct Ground {
    folder: TempDir,
    login: Login,
    events: Vec<Event>,
}

impl Ground {
    fn new() -> Self {
        let login = Login { hub: "https://huggingface.co".parse().unwrap(), token: None };
        Self { folder: TempDir::new().unwrap(), login, events: Vec::new() }
    }

    fn to(&self) -> PathBuf {
        self.folder.path().join("file.bin")
    }

    fn part(&self) -> PathBuf {
        self.folder.path().join("file.bin.part")
    }

    fn order(&self, sources: &[String], expected: Option<&[u8]>) -> Order {
        Order {
            sources: sources.iter().map(|source| source.parse().unwrap()).collect(),
            to: self.to(),
            size: None,
            sha256: expected.map(sha256),
        }
    }

    fn get(
        &mut self,
        sources: &[String],
        expected: Option<&[u8]>,
    ) -> Result<Arrived, DownloadError> {
        let order = self.order(sources, expected);
        self.fetch(&order)
    }

    fn fetch(&mut self, order: &Order) -> Result<Arrived, DownloadError> {
        let limits =
            Limits { connect: Duration::from_secs(5), silence: Duration::from_millis(1500) };
        let http = Http::new(limits);
        let (login, events) = (&self.login, &mut self.events);
        block_on(download(&http, login, QUICK, order, &mut |event| events.push(event)))
    }

    fn assert_only_the_file(&self, content: &[u8]) {
        assert_eq!(fs::read(self.to()).unwrap(), content);
        assert_eq!(names(self.folder.path()), ["file.bin"]);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn faults(error: DownloadError) -> Vec<Fault> {
    match error {
        DownloadError::Sources(faults) => faults.into_iter().map(|(_, fault)| fault).collect(),
        other @ DownloadError::Write { .. } => panic!("{other:?}"),
    }
}

/// Answers the first requests one after another, and all later ones with the last.
/// How one request is answered.
type Answer = Box<dyn Fn(&Seen) -> Reply + Send>;

fn in_turn(answers: Vec<Answer>) -> Server {
    let mut turn = 0;
    Server::start(move |seen| {
        let reply = answers[turn.min(answers.len() - 1)](seen);
        turn += 1;
        reply
    })
}

#[test]
fn a_file_comes_whole_and_leaves_nothing_beside() {
    let body = content(1, 300_000);
    let served = body.clone();
    let server = Server::start(move |seen| Reply::file(seen, &served, "a"));
    let mut ground = Ground::new();
    let arrived = ground.get(&[server.url("x")], Some(&body)).unwrap();
    assert_eq!((arrived.size, arrived.sha256), (300_000, sha256(&body)));
    ground.assert_only_the_file(&body);
    assert_eq!(ground.events.last(), Some(&Event::Bytes { at: 300_000, total: Some(300_000) }));
    assert_eq!(server.seen()[0].header("accept-encoding"), Some("identity"));
}

#[test]
fn what_was_cut_off_is_gone_on_with() {
    let body = content(2, 200_000);
    let (first, rest) = (body.clone(), body.clone());
    let server = in_turn(vec![
        Box::new(move |seen| Reply { cut: Some(120_000), ..Reply::file(seen, &first, "a") }),
        Box::new(move |seen| Reply::file(seen, &rest, "a")),
    ]);
    let mut ground = Ground::new();
    // Not even a digest is known: the tag alone vouches for the rest being of the same file.
    ground.get(&[server.url("x")], None).unwrap();
    ground.assert_only_the_file(&body);
    let asked = &server.seen()[1];
    assert!(asked.from().unwrap() > 100_000, "{asked:?}");
    assert_eq!(asked.header("if-range"), Some("\"a\""));
}

#[test]
fn another_process_goes_on_where_one_was_killed() {
    let body = content(3, 200_000);
    let served = body.clone();
    let broken = in_turn(vec![
        Box::new(move |seen| Reply { cut: Some(90_000), ..Reply::file(seen, &served, "a") }),
        Box::new(|_| Reply::status(404)),
    ]);
    let mut ground = Ground::new();
    let url = broken.url("x");
    let order = Order { size: Some(200_000), ..ground.order(&[url], Some(&body)) };
    ground.fetch(&order).unwrap_err();
    assert!(!ground.to().exists() && fs::metadata(ground.part()).unwrap().len() > 50_000);
    let served = body.clone();
    // From elsewhere, even: the digest is known.
    let good = Server::start(move |seen| Reply::file(seen, &served, "b"));
    let order = Order { sources: vec![good.url("x").parse().unwrap()], ..order };
    ground.fetch(&order).unwrap();
    ground.assert_only_the_file(&body);
}

#[test]
fn without_a_digest_nothing_of_another_source_or_of_a_changed_file_is_kept() {
    let (old, new) = (content(4, 100_000), content(5, 100_000));
    let (first, second) = (old.clone(), new.clone());
    let server = in_turn(vec![
        Box::new(move |seen| Reply { cut: Some(60_000), ..Reply::file(seen, &first, "old") }),
        Box::new(move |seen| Reply::file(seen, &second, "new")),
    ]);
    let mut ground = Ground::new();
    ground.get(&[server.url("x")], None).unwrap();
    ground.assert_only_the_file(&new);
}

#[test]
fn a_server_that_resumes_a_changed_file_all_the_same_is_found_out() {
    let (old, new) = (content(6, 100_000), content(7, 100_000));
    let (first, second) = (old.clone(), new.clone());
    let server = in_turn(vec![
        Box::new(move |seen| Reply { cut: Some(60_000), ..Reply::file(seen, &first, "old") }),
        Box::new(move |seen| {
            let from = seen.from().unwrap_or(0);
            let mut reply = Reply::status(206)
                .with("Content-Range", format!("bytes {from}-99999/100000"))
                .with("ETag", "\"new\"");
            reply.body = second[from..].to_vec();
            reply
        }),
    ]);
    let mut ground = Ground::new();
    ground.get(&[server.url("x")], None).unwrap();
    ground.assert_only_the_file(&new);
}

#[test]
fn a_weak_tag_is_nothing_to_resume_by() {
    let body = content(8, 100_000);
    let served = body.clone();
    let turn = AtomicUsize::new(0);
    let server = Server::start(move |seen| {
        assert_eq!(seen.from(), None);
        let cut = (turn.fetch_add(1, Ordering::SeqCst) == 0).then_some(60_000);
        let mut reply = Reply { cut, ..Reply::status(200).with("ETag", "W/\"a\"") };
        reply.body.clone_from(&served);
        reply
    });
    let mut ground = Ground::new();
    ground.get(&[server.url("x")], None).unwrap();
    ground.assert_only_the_file(&body);
}

#[test]
fn corrupted_bytes_are_asked_for_again_and_then_elsewhere() {
    let body = content(9, 50_000);
    let mut bad = body.clone();
    bad[33_333] ^= 4;
    let corrupt = Server::start(move |seen| Reply::file(seen, &bad, "a"));
    let served = body.clone();
    let good = Server::start(move |seen| Reply::file(seen, &served, "a"));
    let mut ground = Ground::new();
    ground.get(&[corrupt.url("x"), good.url("x")], Some(&body)).unwrap();
    ground.assert_only_the_file(&body);
    assert_eq!((corrupt.seen().len(), good.seen().len()), (2, 1));

    let mut ground = Ground::new();
    let faults = faults(ground.get(&[corrupt.url("x")], Some(&body)).unwrap_err());
    assert!(matches!(&faults[..], [Fault::Wrong { .. }]), "{faults:?}");
    assert!(names(ground.folder.path()).is_empty());
}

#[test]
fn the_hubs_digest_counts_where_none_is_pinned() {
    let body = content(10, 50_000);
    let digest = sha256(&body);
    let mut bad = body.clone();
    bad[7] ^= 1;
    let server = Server::start(move |seen| {
        let reply = Reply::file(seen, &bad, "a");
        reply.with("X-Repo-Commit", "c0ffee").with("X-Linked-Etag", format!("\"{digest}\""))
    });
    let mut ground = Ground::new();
    ground.login.hub = server.url("").parse().unwrap();
    let faults = faults(ground.get(&[server.url("x")], None).unwrap_err());
    assert!(matches!(&faults[..], [Fault::Wrong { .. }]), "{faults:?}");
    assert!(!ground.to().exists());
}

#[test]
fn the_token_goes_to_the_hub_and_nowhere_else() {
    let body = content(11, 10_000);
    let served = body.clone();
    let cdn = Server::start(move |seen| Reply::file(seen, &served, "a"));
    let away = cdn.url("signed?key=1");
    let hub = Server::start(move |seen| match seen.path.as_str() {
        "/x" => Reply::redirect("/y"),
        _ => Reply::redirect(away.clone()).with("X-Repo-Commit", "c0ffee"),
    });
    let mut ground = Ground::new();
    ground.login = Login { hub: hub.url("").parse().unwrap(), token: Token::new("hf_secret") };
    let arrived = ground.get(&[hub.url("x")], Some(&body)).unwrap();
    assert_eq!(arrived.hub.commit.as_deref(), Some("c0ffee"));
    for asked in hub.seen() {
        assert_eq!(asked.header("authorization"), Some("Bearer hf_secret"));
    }
    assert_eq!(cdn.seen()[0].header("authorization"), None);
    assert!(!format!("{:?}", ground.events).contains("hf_secret"));

    // The same machine under another name or port is another host.
    let named = hub.url("x").replace("127.0.0.1", "localhost");
    ground.get(&[named], Some(&body)).unwrap();
    assert_eq!(hub.seen().last().unwrap().header("authorization"), None);

    // And having left, it does not come back with the token.
    let back = hub.url("y");
    let detour = Server::start(move |_| Reply::redirect(back.clone()));
    ground.get(&[detour.url("x")], Some(&body)).unwrap();
    assert_eq!(hub.seen().last().unwrap().header("authorization"), None);
}

#[test]
fn a_server_that_asks_for_patience_is_given_it() {
    let body = content(12, 10_000);
    for status in [429, 503] {
        let served = body.clone();
        let server = in_turn(vec![
            Box::new(move |_| Reply::status(status).with("Retry-After", "1")),
            Box::new(move |seen| Reply::file(seen, &served, "a")),
        ]);
        let mut ground = Ground::new();
        ground.get(&[server.url("x")], Some(&body)).unwrap();
        let waited = Event::Again {
            why: format!(
                "127.0.0.1:{} answered HTTP {status} ({})",
                server.port,
                if status == 429 { "Too Many Requests" } else { "Service Unavailable" }
            ),
            wait: Duration::from_secs(1),
        };
        assert!(ground.events.contains(&waited), "{:?}", ground.events);
    }
    let server = Server::start(|_| Reply::status(503).with("Retry-After", "3600"));
    let faults = faults(Ground::new().get(&[server.url("x")], None).unwrap_err());
    assert_eq!(faults[0].status(), Some(503));
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_refusal_is_not_repeated_and_the_next_source_is_asked() {
    let body = content(13, 10_000);
    for status in [401, 403, 404] {
        let no = Server::start(move |_| Reply::status(status));
        let served = body.clone();
        let yes = Server::start(move |seen| Reply::file(seen, &served, "a"));
        let mut ground = Ground::new();
        let arrived = ground.get(&[no.url("x"), yes.url("x")], None).unwrap();
        assert_eq!(arrived.source.port(), Some(yes.port));
        assert_eq!(no.seen().len(), 1);
        let faults = faults(Ground::new().get(&[no.url("x")], None).unwrap_err());
        assert_eq!(faults[0].status(), Some(status));
    }
}

#[test]
fn circles_and_dead_ends_of_redirects_end() {
    let circle = Server::start(|seen| Reply::redirect(seen.path.clone()));
    let astray = Server::start(|_| Reply::redirect("ftp://127.0.0.1/x"));
    for server in [circle, astray] {
        let faults = faults(Ground::new().get(&[server.url("x")], None).unwrap_err());
        assert!(matches!(&faults[..], [Fault::Redirect { .. }]), "{faults:?}");
    }
}

#[test]
fn silence_ends() {
    let body = content(14, 10_000);
    let served = body.clone();
    let server = in_turn(vec![
        Box::new({
            let served = served.clone();
            move |seen| Reply { cut: Some(5_000), stall: true, ..Reply::file(seen, &served, "a") }
        }),
        Box::new(move |seen| Reply::file(seen, &served, "a")),
    ]);
    // The first answer holds the server's script, so a second server has the file.
    let fallback = body.clone();
    let good = Server::start(move |seen| Reply::file(seen, &fallback, "a"));
    let mut ground = Ground::new();
    ground.get(&[server.url("x"), good.url("x")], Some(&body)).unwrap();
    ground.assert_only_the_file(&body);
    let silent =
        |event: &Event| matches!(event, Event::Again { why, .. } if why.contains("silent"));
    assert!(ground.events.iter().any(silent), "{:?}", ground.events);
}

#[test]
fn a_body_whose_end_cannot_be_told_is_taken_only_with_a_digest() {
    let body = content(15, 40_000);
    let served = body.clone();
    let server = Server::start(move |seen| {
        let reply = Reply::file(seen, &served, "a");
        Reply { unsized_body: true, ..reply }
    });
    let faults = faults(Ground::new().get(&[server.url("x")], None).unwrap_err());
    assert!(matches!(&faults[..], [Fault::Nonsense { .. }]), "{faults:?}");
    let mut ground = Ground::new();
    ground.get(&[server.url("x")], Some(&body)).unwrap();
    ground.assert_only_the_file(&body);
}

#[test]
fn a_closed_port_is_out_of_reach_and_leaves_nothing() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut ground = Ground::new();
    let faults = faults(ground.get(&[format!("http://127.0.0.1:{port}/x")], None).unwrap_err());
    assert!(matches!(&faults[..], [Fault::Unreachable { .. }]), "{faults:?}");
    assert!(names(ground.folder.path()).is_empty());
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let ground = Ground::new();
    fs::write(ground.folder.path().join("in-the-way"), "").unwrap();
    let server = Server::start(|_| Reply::status(404));
    let to = ground.folder.path().join("in-the-way/file");
    let order = Order { to, ..ground.order(&[server.url("x")], None) };
    let mut ground = ground;
    assert!(matches!(ground.fetch(&order), Err(DownloadError::Write { .. })));
    assert!(server.seen().is_empty());
}

/// Every fault at once, at random places: the file is right in the end, or there is none.
#[test]
fn whatever_happens_the_file_is_right_or_absent() {
    let seed = campaign::seed();
    let mut numbers = campaign::numbers("downloads");
    let mut arrived = 0;
    let rounds = campaign::rounds(120, 3_000);
    for round in 0..rounds {
        let length = 1 + numbers.below(60_000) as usize;
        let versions =
            [content(1_000 + round as u64, length), content(9_000 + round as u64, length)];
        let pinned = numbers.below(2) == 0;
        // Without a digest nothing can tell a flipped bit, so none is flipped then.
        let faults = if pinned { 12 } else { 10 };
        let state = Arc::new(Mutex::new((campaign::numbers(&format!("download {round}")), 0)));
        let served = versions.clone();
        let server = Server::start(move |seen| {
            let (numbers, version) = &mut *state.lock().unwrap();
            let mut below = |bound: usize| numbers.below(bound as u64) as usize;
            let whole = Reply::file(seen, &served[*version], &format!("v{version}"));
            match below(faults) {
                0 => Reply { cut: Some(below(length + 300)), ..whole },
                1 => Reply::status([408, 429, 500, 503][below(4)]).with("Retry-After", "0"),
                2 => {
                    // Forgets that only a part was asked for.
                    let mut reply = Reply::status(200).with("ETag", format!("\"v{version}\""));
                    reply.body.clone_from(&served[*version]);
                    Reply { cut: Some(below(2 * length + 300)), ..reply }
                }
                3 => Reply { cut: Some(0), ..whole },
                4 if !pinned => {
                    *version = 1 - *version;
                    Reply::file(seen, &served[*version], &format!("v{version}"))
                }
                5 => {
                    let from = below(length);
                    let mut reply = Reply::status(206)
                        .with("Content-Range", format!("bytes {from}-{}/{length}", length - 1))
                        .with("ETag", format!("\"v{version}\""));
                    reply.body = served[*version][from..].to_vec();
                    reply
                }
                6 => Reply::status(416).with("Content-Range", format!("bytes */{}", below(length))),
                7 => Reply { body: vec![0; 20], ..Reply::status(200) }
                    .with("Content-Encoding", "gzip"),
                10 => {
                    let mut reply = whole;
                    if !reply.body.is_empty() {
                        let at = below(reply.body.len());
                        reply.body[at] ^= 1 << below(8);
                    }
                    reply
                }
                11 => {
                    let mut reply = whole;
                    reply.body.extend_from_slice(b"more");
                    reply
                }
                _ => whole,
            }
        });
        let mut ground = Ground::new();
        let expected = pinned.then_some(versions[0].as_slice());
        // As often as a patient person would start it again.
        for _ in 0..3 {
            let result = ground.get(&[server.url("x")], expected);
            let shown = format!("round {round} of seed {seed}: {result:?}\n{:?}", ground.events);
            match result {
                Ok(_) => {
                    let found = fs::read(ground.to()).unwrap();
                    let right = if pinned { &versions[..1] } else { &versions[..] };
                    assert!(right.contains(&found), "{shown}");
                    assert_eq!(names(ground.folder.path()), ["file.bin"], "{shown}");
                    arrived += 1;
                    break;
                }
                Err(_) => assert!(!ground.to().exists(), "{shown}"),
            }
        }
    }
    // It is no use to be right by giving up.
    assert!(arrived * 10 >= rounds * 6, "{arrived} of {rounds} arrived, seed {seed}");
}
