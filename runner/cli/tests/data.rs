//! `warpforge data`: what is listed, refused, fetched, verified and found.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use assert_cmd::Command;
use common::{Scratch, assert_valid, closed_port, json, outcome};

const LARGE: &str = "bert-large-uncased";
const COMMIT: &str = "6da4b6a26a1877e173fca3225479512db81a5e5b";
const TOKEN: &str = "hf_a_token_nobody_should_see";

/// A hub on the loopback: any file of any repository, its path for content; `gated` ones only
/// to those who have the token. Returns its address and what it was asked.
fn hub(gated: bool) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let path = head[0].split(' ').nth(1).unwrap().to_owned();
            let known = head.iter().any(|line| line.ends_with(TOKEN));
            let body = if gated && !known { "sign in" } else { &path };
            let status = if gated && !known { "401 Unauthorized" } else { "200 OK" };
            // The client may be gone already; the test judges what it made of the answer.
            let _ = write!(
                &stream,
                "HTTP/1.1 {status}\r\nX-Repo-Commit: {COMMIT}\r\nETag: \"{}\"\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                path.replace('/', "-").trim_matches('-').replace(['.', '_'], ""),
                body.len(),
            );
            log.lock().unwrap().push(path);
        }
    });
    (address, asked)
}

fn snapshot(scratch: &Scratch, name: &str, command: &mut Command) {
    let (code, out, err) = outcome(command);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"127\.0\.0\.1:\d+", "127.0.0.1:[PORT]");
    settings.bind(|| {
        insta::assert_snapshot!(name, format!("exit {code}\n{}", scratch.plain(&(out + &err))));
    });
}

#[test]
fn the_list_names_licences_and_what_is_here() {
    let scratch = Scratch::new();
    snapshot(&scratch, "list", &mut scratch.warpforge(&["data", "list"]));
    let listed = json(&mut scratch.warpforge(&["data", "list", "--json"]));
    assert_valid("data", &listed);
    let squad = listed["datasets"].as_array().unwrap().iter();
    let squad = squad.clone().find(|dataset| dataset["id"] == "squad-v1.1").unwrap();
    assert_eq!(squad["files"][0]["size"], 30_288_272);
    let folder = squad["folder"].as_str().unwrap();
    assert!(folder.ends_with("home/.cache/warpforge/data/squad-v1.1"), "{folder}");
}

#[test]
fn a_wrong_id_is_answered_with_the_nearest_right_one() {
    let scratch = Scratch::new();
    snapshot(&scratch, "unknown", &mut scratch.warpforge(&["data", "fetch", "squad"]));
}

#[test]
fn what_forbids_commercial_use_is_refused_until_it_is_accepted() {
    let scratch = Scratch::new();
    snapshot(&scratch, "licence", &mut scratch.warpforge(&["data", "fetch", "alpaca"]));
    assert_eq!(scratch.run(&["data", "path", "alpaca"]).0, 2);
    // Accepted for another is not accepted for this one.
    let args = ["data", "fetch", "alpaca", "--accept-license", "squad-v1.1"];
    assert_eq!(scratch.run(&args).0, 2);
    // Accepted, it is asked for; and this mirror's file is not the published one.
    let (address, _) = hub(false);
    let args =
        ["data", "fetch", "alpaca", "--accept-license", "alpaca", "--mirror", address.as_str()];
    let blocked = format!("http://127.0.0.1:{}", closed_port());
    let (code, _, err) =
        outcome(scratch.warpforge(&args).env("HTTPS_PROXY", &blocked).env("https_proxy", &blocked));
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("its SHA-256 is"), "{err}");
}

#[test]
fn without_a_network_the_files_their_place_and_the_owner_are_named() {
    let scratch = Scratch::new();
    let nowhere = format!("http://127.0.0.1:{}", closed_port());
    let mut command = scratch.warpforge(&["data", "fetch", LARGE]);
    snapshot(&scratch, "offline", command.env("HF_ENDPOINT", &nowhere));
    let mut command = scratch.warpforge(&["data", "fetch", "llama-3.1-8b"]);
    snapshot(&scratch, "offline-gated", command.env("HF_ENDPOINT", &nowhere));
}

#[test]
fn access_is_asked_of_its_owner_and_the_token_is_never_shown() {
    let scratch = Scratch::new();
    let (address, asked) = hub(true);
    let args = ["data", "fetch", "llama-3.1-8b", "--to", "llama"];
    let mut command = scratch.warpforge(&args);
    snapshot(&scratch, "gated", command.env("HF_ENDPOINT", &address));
    let mut command = scratch.warpforge(&args);
    snapshot(&scratch, "gated-token", command.env("HF_ENDPOINT", &address).env("HF_TOKEN", "no"));
    scratch.write("home/.cache/huggingface/token", &format!("{TOKEN}\n"));
    let (code, out, err) = outcome(scratch.warpforge(&args).env("HF_ENDPOINT", &address));
    assert_eq!(code, 0, "{out}{err}");
    assert!(!(out + &err).contains(TOKEN));
    let written = fs::read_to_string(scratch.path().join("llama/digests.json")).unwrap();
    assert!(!written.contains(TOKEN));
    // All of one commit, once the first file has told which.
    let paths = asked.lock().unwrap();
    assert!(paths.last().unwrap().contains(COMMIT), "{paths:?}");
}

#[test]
fn weights_are_fetched_into_the_hubs_cache_verified_and_found() {
    let scratch = Scratch::new();
    let (address, asked) = hub(false);
    let fetch =
        || scratch.warpforge(&["data", "fetch", LARGE]).env("HF_ENDPOINT", &address).output();
    let (code, out, err) =
        outcome(scratch.warpforge(&["data", "fetch", LARGE]).env("HF_ENDPOINT", &address));
    assert_eq!(code, 0, "{out}{err}");
    let shown = scratch.plain(&out);
    assert!(shown.contains("the publisher's digest is unknown; recorded"), "{shown}");
    assert!(shown.contains("Devlin"), "{shown}");
    let requests = asked.lock().unwrap().len();
    assert_eq!(requests, 5);
    let folder =
        scratch.path().join("home/.cache/huggingface/hub/models--google-bert--bert-large-uncased");
    let vocab = folder.join("snapshots").join(COMMIT).join("vocab.txt");
    let found = scratch.run(&["data", "path", LARGE, "vocab.txt"]);
    assert_eq!(found, (0, format!("{}\n", vocab.display()), String::new()));
    assert!(fs::read_link(&vocab).unwrap().starts_with("../../blobs"));
    snapshot(&scratch, "verified", &mut scratch.warpforge(&["data", "verify", LARGE]));

    // What is there is not asked for again.
    assert!(fetch().unwrap().status.success());
    assert_eq!(asked.lock().unwrap().len(), requests);

    fs::write(fs::canonicalize(&vocab).unwrap(), "changed").unwrap();
    snapshot(&scratch, "wrong", &mut scratch.warpforge(&["data", "verify", LARGE]));
    assert_eq!(fetch().unwrap().status.code(), Some(1));
    // Fetched anew, it has to be what it was.
    fs::remove_file(fs::canonicalize(&vocab).unwrap()).unwrap();
    assert_eq!(scratch.run(&["data", "verify", LARGE]).0, 4);
    assert!(fetch().unwrap().status.success());
    assert_eq!(scratch.run(&["data", "verify", LARGE]).0, 0);
}

#[test]
fn what_is_not_here_is_skipped_with_its_name() {
    let scratch = Scratch::new();
    let mut command = scratch.warpforge(&["data", "path", "squad-v1.1", "dev-v1.1.json"]);
    snapshot(&scratch, "absent", &mut command);
    assert_eq!(scratch.run(&["data", "path", "squad-v1.1", "nonsense"]).0, 2);
    assert_eq!(scratch.run(&["data", "verify", "squad-v1.1"]).0, 4);
}

#[test]
fn settings_say_where_data_is() {
    let scratch = Scratch::new();
    scratch.write("warpforge.toml", "[data]\ndir = \"sets\"\ncoco = \"my-coco\"\n");
    let listed = json(&mut scratch.warpforge(&["data", "list", "--json"]));
    let folder = |id: &str| {
        let datasets = listed["datasets"].as_array().unwrap();
        datasets.iter().find(|dataset| dataset["id"] == id).unwrap()["folder"].clone()
    };
    let at = |name: &str| scratch.path().join(name).display().to_string();
    assert_eq!(folder("squad-v1.1"), at("sets/squad-v1.1"));
    assert_eq!(folder("coco-2017"), at("my-coco"));
}
