//! What the command says about itself: help, wrong words, completions, manual pages, schemas.

mod common;

use std::process::Stdio;

use common::{Scratch, outcome};

const VERBS: [&str; 26] = [
    "doctor",
    "system",
    "run",
    "golden",
    "execute",
    "model",
    "compile",
    "hlo",
    "conformance",
    "validate",
    "data",
    "baseline",
    "benchmark",
    "stress",
    "netserver",
    "bundle",
    "submit",
    "get",
    "logs",
    "watch",
    "report",
    "agent",
    "config",
    "completions",
    "man",
    "schema",
];
const HLO_VERBS: [&str; 4] = ["check", "fmt", "run", "stats"];

fn snapshot(name: &str, args: &[&str]) {
    let (code, out, err) = Scratch::new().run(args);
    let shown = format!("$ warpforge {}\nexit {code}\n{out}{err}", args.join(" "));
    insta::assert_snapshot!(name, shown);
}

#[test]
fn help_of_the_whole() {
    snapshot("help", &["--help"]);
    snapshot("help-short", &["-h"]);
    snapshot("help-none", &[]);
}

#[test]
fn help_of_every_verb() {
    for verb in VERBS {
        snapshot(&format!("help-{verb}"), &[verb, "--help"]);
    }
    snapshot("help-config-show", &["config", "show", "--help"]);
    for verb in ["show", "promote"] {
        snapshot(&format!("help-baseline-{verb}"), &["baseline", verb, "--help"]);
    }
    for verb in ["push", "pull", "list", "verify"] {
        snapshot(&format!("help-bundle-{verb}"), &["bundle", verb, "--help"]);
    }
    snapshot("help-model-inspect", &["model", "inspect", "--help"]);
    for verb in ["list", "fetch", "verify", "path"] {
        snapshot(&format!("help-data-{verb}"), &["data", verb, "--help"]);
    }
    for verb in HLO_VERBS {
        snapshot(&format!("help-hlo-{verb}"), &["hlo", verb, "--help"]);
    }
}

#[test]
fn wrong_words_are_answered_with_the_nearest_right_ones() {
    snapshot("wrong-verb", &["docter"]);
    snapshot("wrong-inner-verb", &["config", "sho"]);
    snapshot("wrong-option", &["doctor", "--jsn"]);
    snapshot("wrong-value", &["--color", "alwys", "system"]);
    snapshot("wrong-shell", &["completions", "bsh"]);
    snapshot("wrong-schema", &["schema", "docter"]);
    snapshot("missing-value", &["completions"]);
}

#[test]
fn help_is_coloured_only_when_asked_for() {
    let scratch = Scratch::new();
    let (_, plain, _) = scratch.run(&["--help"]);
    assert!(!plain.contains('\x1b'));
    let (_, coloured, _) = scratch.run(&["--color", "always", "--help"]);
    assert!(coloured.contains('\x1b'));
}

#[test]
fn version_is_the_packages() {
    let (code, out, _) = Scratch::new().run(&["--version"]);
    assert_eq!((code, out), (0, format!("warpforge {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn completions_know_every_verb() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, out, err) = Scratch::new().run(&["completions", shell]);
        assert_eq!((code, err.as_str()), (0, ""), "{shell}");
        for verb in VERBS {
            assert!(out.contains(verb), "{shell} completions lack {verb}");
        }
    }
}

#[test]
fn completions_need_no_valid_configuration() {
    let scratch = Scratch::new();
    scratch.write("warpforge.toml", "nonsense = 1");
    assert_eq!(scratch.run(&["completions", "bash"]).0, 0);
    assert_eq!(scratch.run(&["config", "show"]).0, 2);
}

#[test]
fn manual_pages_exist_for_every_verb() {
    let scratch = Scratch::new();
    let (code, page, _) = scratch.run(&["man"]);
    assert_eq!(code, 0);
    assert!(page.starts_with(".ie") && VERBS.iter().all(|verb| page.contains(verb)), "{page}");

    let (code, out, _) = scratch.run(&["man", "--out", "pages"]);
    assert_eq!((code, out.as_str()), (0, "47 pages written to pages\n"));
    for verb in
        VERBS.iter().copied().chain(["config-show", "hlo-check", "hlo-fmt", "hlo-run", "hlo-stats"])
    {
        let page =
            std::fs::read_to_string(scratch.path().join(format!("pages/warpforge-{verb}.1")));
        let page = page.unwrap_or_else(|error| panic!("page of {verb}: {error}"));
        assert!(
            page.contains(".SH NAME") && !page.contains(r"\-\-probe"),
            "page of {verb}:\n{page}"
        );
    }
    assert_eq!(std::fs::read_dir(scratch.path().join("pages")).unwrap().count(), 47);
}

#[test]
fn a_folder_that_cannot_be_written_is_the_users_to_cure() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    let (code, _, err) = scratch.run(&["man", "--out", "file/pages"]);
    assert_eq!(code, 2);
    insta::assert_snapshot!("unwritable", err);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let scratch = Scratch::new();
    let program = scratch.warpforge(&[]).get_program().to_owned();
    for args in [&["system"][..], &["completions", "bash"], &["--help"]] {
        let mut child = std::process::Command::new(&program)
            .args(args)
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn committed_schemas_are_current() {
    let scratch = Scratch::new();
    scratch.run(&["schema", "--out", "fresh", "--quiet"]);
    let committed = common::repository().join("docs/schema");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(scratch.path().join("fresh")).unwrap() {
        let entry = entry.unwrap();
        let fresh = std::fs::read_to_string(entry.path()).unwrap();
        let stored = std::fs::read_to_string(committed.join(entry.file_name())).unwrap_or_default();
        let name = entry.file_name().into_string().unwrap();
        assert!(fresh == stored, "docs/schema/{name} is stale: run `cargo xtask generate`");
        let (_, printed, _) =
            outcome(&mut scratch.warpforge(&["schema", &name.replace(".json", "")]));
        assert_eq!(printed, fresh);
        names.push(name);
    }
    names.sort();
    assert_eq!(
        names,
        [
            "baselines.json",
            "benchmark-comparison.json",
            "benchmark.json",
            "benchmarks.json",
            "config.json",
            "conformance.json",
            "data.json",
            "doctor.json",
            "model.json",
            "monitor.json",
            "report.json",
            "run.json",
            "stats.json",
            "stress.json",
            "system.json",
            "training-parity.json",
        ]
    );
}
