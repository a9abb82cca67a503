//! Settings: which layer wins, what is refused, and what is never shown.

mod common;

use common::{Scratch, json, outcome};
use serde_json::{Value as Json, json};

fn setting(shown: &Json, key: &str) -> (Json, Json) {
    let rows = shown["settings"].as_array().unwrap();
    let row = rows.iter().find(|row| row["key"] == key).unwrap();
    (row["value"].clone(), row["source"].clone())
}

fn show(scratch: &Scratch, variables: &[(&str, &str)], flags: &[&str]) -> Json {
    let args: Vec<_> = flags.iter().chain(&["config", "show", "--json"]).copied().collect();
    json(scratch.warpforge(&args).envs(variables.iter().copied()))
}

/// Text of the problems with the given settings file.
fn problems(text: &str) -> String {
    let scratch = Scratch::new();
    scratch.write("warpforge.toml", text);
    let (code, out, err) = scratch.run(&["config", "show"]);
    assert_eq!((code, out.as_str()), (2, ""));
    scratch.plain(&err)
}

#[test]
fn each_layer_overrides_the_one_before() {
    let scratch = Scratch::new();
    let color = |shown: &Json| setting(shown, "color");
    assert_eq!(color(&show(&scratch, &[], &[])), (json!("auto"), json!({"kind": "default"})));

    scratch.write("warpforge.toml", "# colours\n\ncolor = \"always\"\n");
    let from_file = json!({"kind": "file", "path": "warpforge.toml", "line": 3});
    assert_eq!(color(&show(&scratch, &[], &[])), (json!("always"), from_file));

    let variables = [("WARPFORGE_COLOR", "never")];
    let from_variable = json!({"kind": "environment", "variable": "WARPFORGE_COLOR"});
    assert_eq!(color(&show(&scratch, &variables, &[])), (json!("never"), from_variable));

    let from_flag = json!({"kind": "flag", "flag": "--color"});
    let shown = show(&scratch, &variables, &["--color", "auto"]);
    assert_eq!(color(&shown), (json!("auto"), from_flag));
}

#[test]
fn every_setting_is_read_from_file_and_environment() {
    let values = [
        ("color", "never", json!("never")),
        ("quiet", "true", json!(true)),
        ("cache.dir", "/c", json!("/c")),
        ("data.dir", "/d", json!("/d")),
        ("data.coco", "/o", json!("/o")),
        ("golden.libtorch", "/t", json!("/t")),
        ("cluster.kubeconfig", "/a:/b", json!("/a:/b")),
        ("cluster.context", "kind", json!("kind")),
        ("cluster.namespace", "bench", json!("bench")),
        ("store.endpoint", "http://127.0.0.1:9", json!("http://127.0.0.1:9")),
        ("store.region", "eu-1", json!("eu-1")),
        ("store.bucket", "nightly", json!("nightly")),
        ("store.prefix", "runs/", json!("runs/")),
        ("doctor.timeout_seconds", "4.5", json!(4.5)),
    ];
    let scratch = Scratch::new();
    let rows = show(&scratch, &[], &[])["settings"].clone();
    let rows = rows.as_array().unwrap();
    let keys: Vec<_> = rows.iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys, values.each_ref().map(|row| row.0), "a setting is not covered here");

    for ((key, text, expected), row) in values.iter().zip(rows) {
        let variable = row["variables"][0].as_str().unwrap();
        assert_eq!(variable, format!("WARPFORGE_{}", key.to_uppercase().replace('.', "_")));
        let (value, source) = setting(&show(&scratch, &[(variable, text)], &[]), key);
        assert_eq!((&value, &source["variable"]), (expected, &json!(variable)));

        let bare = matches!(expected, Json::Bool(_) | Json::Number(_));
        let toml = if bare { format!("{key} = {text}") } else { format!("{key} = {text:?}") };
        scratch.write("warpforge.toml", &toml);
        let (value, source) = setting(&show(&scratch, &[], &[]), key);
        assert_eq!((&value, &source["kind"]), (expected, &json!("file")));
        std::fs::remove_file(scratch.path().join("warpforge.toml")).unwrap();
    }
}

#[test]
fn the_usual_variables_are_understood_and_ours_come_first() {
    let scratch = Scratch::new();
    let shown =
        show(&scratch, &[("LIBTORCH", "t"), ("KUBECONFIG", "/k"), ("AWS_REGION", "r")], &[]);
    let expected = scratch.path().canonicalize().unwrap().join("t");
    assert_eq!(setting(&shown, "golden.libtorch").0, json!(expected));
    assert_eq!(setting(&shown, "cluster.kubeconfig").0, json!("/k"));
    assert_eq!(setting(&shown, "store.region").0, json!("r"));
    let both = [("LIBTORCH", "/usual"), ("WARPFORGE_GOLDEN_LIBTORCH", "/ours")];
    assert_eq!(setting(&show(&scratch, &both, &[]), "golden.libtorch").0, json!("/ours"));
}

#[test]
fn the_nearest_file_wins_and_its_paths_are_its_own() {
    let scratch = Scratch::new();
    scratch.write("home/.config/warpforge/warpforge.toml", "store.bucket = \"user\"");
    let bucket = |shown: &Json| setting(shown, "store.bucket").0;
    assert_eq!(bucket(&show(&scratch, &[], &[])), "user");

    scratch.write("warpforge.toml", "store.bucket = \"project\"\ncache.dir = \"cache\"");
    std::fs::create_dir_all(scratch.path().join("a/b")).unwrap();
    let below = |variables: &[(&str, &str)], flags: &[&str]| {
        let args: Vec<_> = flags.iter().chain(&["config", "show", "--json"]).copied().collect();
        let mut command = scratch.warpforge(&args);
        json(command.current_dir(scratch.path().join("a/b")).envs(variables.iter().copied()))
    };
    let shown = below(&[], &[]);
    assert_eq!(bucket(&shown), "project");
    let cache = scratch.path().canonicalize().unwrap().join("cache");
    assert_eq!(setting(&shown, "cache.dir").0, json!(cache));

    scratch.write("a/b/other.toml", "store.bucket = \"other\"");
    assert_eq!(bucket(&below(&[("WARPFORGE_CONFIG", "other.toml")], &[])), "other");
    scratch.write("a/b/flag.toml", "store.bucket = \"flag\"");
    let both = below(&[("WARPFORGE_CONFIG", "other.toml")], &["--config", "flag.toml"]);
    assert_eq!(bucket(&both), "flag");
}

#[test]
fn a_named_file_must_exist() {
    let scratch = Scratch::new();
    let (code, _, err) = scratch.run(&["--config", "absent.toml", "config", "show"]);
    assert_eq!(code, 2);
    insta::assert_snapshot!("absent-file", scratch.plain(&err));
    let mut command = scratch.warpforge(&["system"]);
    let (code, _, err) = outcome(command.env("WARPFORGE_CONFIG", "absent.toml"));
    assert_eq!(code, 2);
    assert!(err.contains("WARPFORGE_CONFIG names this file"), "{err}");
}

#[test]
fn unknown_keys_are_refused_all_at_once() {
    insta::assert_snapshot!(
        "unknown-keys",
        problems(
            "colour = \"auto\"\n\n[stoer]\nbucket = \"x\"\n\n[store]\nbuckett = \"x\"\n\
             retries = 3\n\n[cluster]\nbucket = \"x\"\n"
        )
    );
}

#[test]
fn wrong_types_are_refused_at_their_place() {
    insta::assert_snapshot!(
        "wrong-types",
        problems(
            "color = \"pink\"\nquiet = \"yes\"\nstore = \"bucket\"\n[doctor]\n\
             timeout_seconds = 600\n[cache]\ndir = [\"a\"]\n[cluster]\ncontext = \"\"\n\
             [golden.libtorch]\npath = \"x\"\n"
        )
    );
}

#[test]
fn broken_toml_is_shown_at_its_place() {
    insta::assert_snapshot!("broken-toml", problems("[store\nbucket = \"x\"\n"));
    insta::assert_snapshot!("duplicate-key", problems("quiet = true\nquiet = false\n"));
}

#[test]
fn wrong_variables_are_named_beside_wrong_keys() {
    let scratch = Scratch::new();
    scratch.write("warpforge.toml", "colr = \"auto\"");
    let mut command = scratch.warpforge(&["config", "show"]);
    command.env("WARPFORGE_QUIET", "perhaps").env("WARPFORGE_DOCTOR_TIMEOUT_SECONDS", "0");
    let (code, _, err) = outcome(&mut command);
    assert_eq!(code, 2);
    insta::assert_snapshot!("wrong-variables", err);
}

#[test]
fn foreign_variables_are_listed_and_no_error() {
    let scratch = Scratch::new();
    let mut command = scratch.warpforge(&["config", "show"]);
    command
        .env("WARPFORGE_SERVICE_HOST", "10.0.0.7")
        .env("WARPFORGE_STORE_BUKET", "x")
        .env("WARPFORGE_TEST_SEED", "7")
        .env("WARPFORGE_TEST_FULL", "1");
    let (code, out, err) = outcome(&mut command);
    assert_eq!((code, err.as_str()), (0, ""));
    // How wide the column is depends on where the scratch folder is.
    insta::with_settings!({filters => vec![(" {2,}", "  ")]}, {
        insta::assert_snapshot!("foreign-variables", scratch.plain(&out));
    });
}

#[test]
fn credentials_are_shown_nowhere() {
    let secrets = ["AKIAHUNTERKEYID", "hunter2-secret", "hunter2-session"];
    let scratch = Scratch::new();
    let kubeconfig =
        scratch.write("kube", "users: [{name: u, user: {token: hunter2-secret}}]\n: [");
    for args in [
        &["config", "show"][..],
        &["config", "show", "--json"],
        &["doctor"],
        &["system", "--json"],
        &["system"],
    ] {
        let mut command = scratch.warpforge(args);
        command
            .env("AWS_ACCESS_KEY_ID", secrets[0])
            .env("AWS_SECRET_ACCESS_KEY", secrets[1])
            .env("AWS_SESSION_TOKEN", secrets[2])
            .env("WARPFORGE_STORE_BUCKET", "b")
            .env("KUBECONFIG", &kubeconfig)
            .env("WARPFORGE_STORE_ENDPOINT", format!("http://127.0.0.1:{}", common::closed_port()));
        let (_, out, err) = outcome(&mut command);
        assert!(!out.is_empty());
        for secret in secrets {
            assert!(!out.contains(secret) && !err.contains(secret), "{args:?}:\n{out}\n{err}");
        }
    }
    let address = "store.endpoint = \"https://me:hunter2-secret@s3.example.com\"";
    assert!(!problems(address).contains("hunter2"));
}

#[test]
fn json_follows_its_schema() {
    let scratch = Scratch::new();
    scratch.write("warpforge.toml", "quiet = true");
    let shown = show(
        &scratch,
        &[("WARPFORGE_STRAY", "x"), ("WARPFORGE_STORE_BUCKET", "b")],
        &["--color", "never"],
    );
    let schema = std::fs::read(common::repository().join("docs/schema/config.json")).unwrap();
    jsonschema::validate(&serde_json::from_slice(&schema).unwrap(), &shown).unwrap();
}
