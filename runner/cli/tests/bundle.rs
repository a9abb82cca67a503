//! `warpforge bundle` with a folder and with a real S3 server.

mod common;
#[path = "../../store/tests/common/mod.rs"]
mod servers;

use std::fs;

use assert_cmd::Command;
use common::{Scratch, closed_port, outcome};
use servers::s3::{READER, S3, WRITER};

/// A run's folder with what a bundle has to keep.
fn finished_run(scratch: &Scratch) {
    scratch.write("run/complete.json", "{}");
    scratch.write("run/report.json", "{\"verdict\": \"pass\"}");
    scratch.write("run/golden/loss_curve.json", "[1, 2]");
}

fn same(scratch: &Scratch, folder: &str) {
    for name in ["complete.json", "report.json", "golden/loss_curve.json"] {
        let read = |folder: &str| fs::read(scratch.path().join(folder).join(name)).unwrap();
        assert_eq!(read("run"), read(folder), "{name}");
    }
}

#[test]
fn a_run_goes_to_a_folder_and_back() {
    let scratch = Scratch::new();
    finished_run(&scratch);
    let (code, out, err) = scratch.run(&["bundle", "push", "run", "--store", "kept"]);
    assert!(code == 0 && out.contains("3 files"), "{out}{err}");
    assert_eq!(scratch.run(&["bundle", "list", "--store", "kept"]).1, "run\n");
    assert_eq!(scratch.run(&["bundle", "pull", "run", "back", "--store", "kept"]).0, 0);
    same(&scratch, "back");
    let (code, _, err) = scratch.run(&["bundle", "pull", "other", "back", "--store", "kept"]);
    assert!(code == 4 && err.contains("there is no bundle other"), "{code} {err}");
    let (code, _, err) = scratch.run(&["bundle", "pull", "run", "back", "--store", "kept"]);
    assert!(code == 2 && err.contains("is there already"), "{code} {err}");
    // Damage is found, and told apart from absence.
    scratch.write("kept/run/report.json", "{\"verdict\": \"fail\"}");
    let (code, _, err) = scratch.run(&["bundle", "verify", "run", "--store", "kept"]);
    assert!(code == 1 && err.contains("report.json"), "{code} {err}");
    // A run that was cut off is no bundle.
    scratch.write("run/golden/incomplete", "");
    let (code, _, err) = scratch.run(&["bundle", "push", "run", "--name", "b", "--store", "kept"]);
    assert!(code == 2 && err.contains("did not finish"), "{code} {err}");
    let (code, _, err) = scratch.run(&["bundle", "list"]);
    assert!(code == 2 && err.contains("--store"), "{code} {err}");
}

#[test]
fn a_run_goes_to_a_bucket_and_back_and_no_secret_is_shown() {
    let s3 = S3::start();
    s3.make_bucket("nightly").unwrap();
    let scratch = Scratch::new();
    finished_run(&scratch);
    let with = |command: &mut Command, (id, secret): (&str, &str)| {
        command.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", secret);
        let (code, out, err) = outcome(command);
        assert!(!out.contains(secret) && !err.contains(secret), "{out}{err}");
        (code, out + &err)
    };
    let store = ["--store", "s3://nightly/runs", "--endpoint", &s3.endpoint];
    let command = |args: &[&str]| scratch.warpforge(&[args, &store].concat());
    let push = ["bundle", "push", "run", "--name", "2026/a"];
    let (code, shown) = with(&mut command(&push), READER);
    assert!(code == 2 && shown.contains("denied access"), "{code} {shown}");
    let (code, shown) = with(&mut command(&push), WRITER);
    assert!(code == 0 && shown.contains("stored 2026/a"), "{code} {shown}");
    assert_eq!(with(&mut command(&["bundle", "list"]), READER), (0, "2026/a\n".to_owned()));
    let (code, shown) = with(&mut command(&["bundle", "verify", "2026/a"]), READER);
    assert!(code == 0 && shown.contains("is whole: 3 files"), "{code} {shown}");
    assert_eq!(with(&mut command(&["bundle", "pull", "2026/a", "back"]), READER).0, 0);
    same(&scratch, "back");

    // The same place by settings, and the ways in which it can be missing.
    scratch.write(
        "warpforge.toml",
        &format!(
            "[store]\nendpoint = \"{}\"\nbucket = \"nightly\"\nprefix = \"runs\"\n",
            s3.endpoint
        ),
    );
    let listed = with(&mut scratch.warpforge(&["bundle", "list"]), READER);
    assert_eq!(listed, (0, "2026/a\n".to_owned()));
    let (code, _, err) = scratch.run(&["bundle", "list"]);
    assert!(code == 2 && err.contains("AWS_ACCESS_KEY_ID is not set"), "{code} {err}");
    let nobody = format!("http://127.0.0.1:{}", closed_port());
    let args = ["bundle", "list", "--endpoint", nobody.as_str()];
    let (code, shown) = with(&mut scratch.warpforge(&args), READER);
    assert!(code == 3 && shown.contains("refused the connection"), "{code} {shown}");
    let args = ["bundle", "list", "--endpoint", "http://id:hunter2@store:9000"];
    let (code, shown) = with(&mut scratch.warpforge(&args), READER);
    assert!(code == 2 && !shown.contains("hunter2"), "{code} {shown}");
}
