//! What a workload is told beside its recipe: data and whose they are, a limit of time, what is
//! computed again, and what its speed is held to.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Scratch, read_json, text};
use warpforge_tests::{installed, root};
use warpforge_workloads::squad::{self, Generated};

/// Settings that make the demo quick, as options.
fn small(more: &[&str]) -> Vec<String> {
    const SMALL: [&str; 6] = [
        "steps=4",
        "forced=2",
        "noise_runs=1",
        "batch_size=8",
        "evaluation_questions=0",
        "expect={}",
    ];
    let all = SMALL.iter().chain(more);
    all.flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]).collect()
}

fn with<'a>(args: &[&'a str], settings: &'a [String]) -> Vec<&'a str> {
    args.iter().copied().chain(settings.iter().map(String::as_str)).collect()
}

/// The generated set in a folder, as a user's own.
fn own_data(scratch: &Scratch) -> PathBuf {
    let Generated { train, dev, vocab } =
        squad::generate(3, squad::Size { paragraphs: 60, questions: 40 });
    scratch.write("own/vocab.txt", &vocab.join("\n"));
    let folder = scratch.path().join("own");
    train.write(&folder.join("train.json")).unwrap();
    dev.write(&folder.join("dev.json")).unwrap();
    folder
}

#[test]
fn published_data_are_found_or_named_and_held_to_their_digests() {
    let scratch = Scratch::new();
    // Not here: which files, where they go, and who gives them.
    let (code, shown) = scratch.golden(&["run", "bert-squad", "--preset", "full"]);
    assert_eq!(code, 4, "{shown}");
    for word in ["train-v1.1.json", "dev-v1.1.json", "data/squad-v1.1", "anyone may have them"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    // Here, by a name that promises more than the file holds.
    own_data(&scratch);
    for name in ["train", "dev"] {
        let text = fs::read_to_string(scratch.path().join(format!("own/{name}.json"))).unwrap();
        scratch.write(&format!("squad/{name}-v1.1.json"), &text);
        scratch.write(&format!("home/.cache/warpforge/data/squad-v1.1/{name}-v1.1.json"), &text);
    }
    let given: [&[&str]; 3] = [
        &["run", "bert-squad", "--data", "squad"],
        &["golden", "bert-squad", "--data", "squad", "--out", "g"],
        &["run", "bert-squad", "--preset", "base"],
    ];
    for args in given {
        let (code, shown) = scratch.golden(args);
        assert_eq!(code, 2, "{args:?} {shown}");
        assert!(shown.contains("train-v1.1.json is not the published file"), "{shown}");
        assert!(shown.contains("is called train.json and dev.json"), "{shown}");
    }
    let (code, shown) = scratch.golden(&["run", "bert-squad", "--data", "home"]);
    assert!(code == 2 && shown.contains("it has no train.json"), "{code} {shown}");
    let args = ["run", "bert-squad", "--accept-license", "squad"];
    let (code, shown) = scratch.golden(&args);
    assert!(code == 2 && shown.contains("did you mean squad-v1.1?"), "{code} {shown}");
}

/// A BERT as the hub has it, with a commit for a folder; the words are those of the generated set.
const HUB_MODEL: &str = r"
import pathlib, sys, torch
from transformers import BertConfig, BertForPreTraining
folder = pathlib.Path(sys.argv[1])
torch.manual_seed(5)
config = BertConfig(vocab_size=448, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=64, max_position_embeddings=64)
BertForPreTraining(config).save_pretrained(folder)
";

#[test]
fn a_model_of_the_hub_is_exported_and_run_on_data_of_ones_own() {
    let scratch = Scratch::new();
    let data = own_data(&scratch);
    let hub = scratch.path().join("models--someone--tiny-bert/snapshots/0123abcd");
    let python = |args: &[&str]| {
        let mut python = installed::python();
        python.env("PYTHONDONTWRITEBYTECODE", "1").args(args).output().unwrap()
    };
    let made = python(&["-c", HUB_MODEL, text(&hub)]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let script = root().join("runner/workloads/export/bert_squad.py");
    let model = scratch.path().join("tiny");
    let export = |more: &[&str]| {
        let output = python(&[&[text(&script), text(&hub), text(&model)], more].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = export(&["--length", "44"]);
    assert!(code == Some(2) && said.contains("neither tokenizer.json nor vocab.txt"), "{said}");
    fs::copy(data.join("vocab.txt"), hub.join("vocab.txt")).unwrap();
    let (code, said) = export(&["--length", "65"]);
    assert!(code == Some(2) && said.contains("rows of 8 to 64 tokens"), "{said}");
    let (code, said) = export(&["--length", "44"]);
    assert_eq!(code, Some(0), "{said}");

    let settings = small(&["evaluation_questions=20", "evaluation_batch_size=10"]);
    let args = ["run", "bert-squad", "--model", "tiny", "--data", "own", "--threads", "1"];
    let (code, shown) = scratch.golden(&with(&[&args[..], &["--out", "out"]].concat(), &settings));
    assert_eq!(code, 0, "{shown}");
    let report = read_json(&scratch.path().join("out/report.json"));
    common::assert_valid("report", &report);
    let said = report["attributions"].to_string();
    for word in ["own data", "not held against a published set", "someone/tiny-bert"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // Weights are the snapshot's: golden starts from them.
    let state = warpforge_workloads::tensors::read(
        &scratch.path().join("out/golden/states/step-0.safetensors"),
    );
    let hubs = warpforge_workloads::tensors::read(&hub.join("model.safetensors")).unwrap();
    let name = "bert.encoder.layer.1.output.dense.weight";
    assert_eq!(state.unwrap()[&format!("parameter/{name}")], hubs[name]);

    let settings = small(&["max_length=40"]);
    let (code, shown) = scratch.golden(&with(&args, &settings));
    assert!(code == 2 && shown.contains("takes rows of 44 tokens"), "{code} {shown}");
    let (code, shown) = scratch.golden(&["run", "bert-squad", "--model", "own"]);
    assert!(code == 2 && shown.contains("has no train.pt2"), "{code} {shown}");
}

#[test]
fn a_run_ends_at_its_limit_and_goes_on_to_the_same_bits() {
    let scratch = Scratch::new();
    let folder = |name: &str| scratch.path().join(name);
    // At once: a verdict with its reason, and a report.
    let settings = small(&[]);
    let args = ["run", "bert-squad", "--threads", "1", "--timeout", "0", "--out", "none"];
    let (code, shown) = scratch.golden(&with(&args, &settings));
    assert!(code == 3 && shown.contains("the time allowed (0 s) was up"), "{code} {shown}");
    let report = read_json(&folder("none/report.json"));
    common::assert_valid("report", &report);
    assert_eq!(report["verdicts"]["correctness"], "inconclusive");
    assert_eq!(report["reasons"][0]["kind"], "deadline");

    // In the middle of it, again and again with a little more time.
    let settings = small(&["steps=120", "noise_runs=0", "checkpoint_every=1000"]);
    let golden = |out: &str, more: &[String]| {
        let args = ["golden", "bert-squad", "--threads", "1", "--out", out];
        let all: Vec<String> = settings.iter().chain(more).cloned().collect();
        scratch.golden(&with(&args, &all))
    };
    let (code, shown) = golden("whole", &[]);
    assert_eq!(code, 0, "{shown}");
    let (mut ended, mut went_on, mut seconds) = (0, 0, 1);
    loop {
        let limit = ["--set".to_owned(), format!("wall_limit_seconds={seconds}")];
        let (code, shown) = golden("cut", &limit);
        if code == 0 {
            break;
        }
        assert!(code == 3 && shown.contains("the same command goes on from there"), "{shown}");
        ended += 1;
        let progress = read_json(&folder("cut/work/progress.json"))["steps"].as_u64().unwrap();
        went_on += u64::from(progress > 0 && progress < 120);
        seconds += 1;
        assert!(seconds < 60, "it does not get on: {shown}");
    }
    assert!(ended > 0 && went_on > 0, "{ended} {went_on}");
    for file in ["loss_curve.json", "checkpoint.safetensors", "gradients/step-60.safetensors"] {
        let read = |out: &str| fs::read(folder(out).join(file)).unwrap();
        assert!(read("whole") == read("cut"), "{file} differs");
    }
}

#[test]
fn what_is_computed_again_has_the_same_bits() {
    let scratch = Scratch::new();
    let settings = small(&[]);
    let args = ["golden", "bert-squad", "--threads", "1", "--out", "golden"];
    let (code, shown) = scratch.golden(&with(&args, &settings));
    assert_eq!(code, 0, "{shown}");
    let kinds = ["keep", "modules", "bert.encoder.layer.1,bert.embeddings", "20MB"];
    let mut programs = Vec::new();
    for (i, kind) in kinds.iter().enumerate() {
        let out = format!("ours-{i}");
        let args = ["execute", "bert-squad", "--golden", "golden", "--out", &out];
        let (code, shown) = scratch.golden(&[&args[..], &["--remat", kind]].concat());
        assert_eq!(code, 0, "{kind} {shown}");
        let read = |out: &str, file: &str| fs::read(scratch.path().join(out).join(file)).unwrap();
        for file in [
            "loss_curve.json",
            "checkpoint.safetensors",
            "gradients/step-2.safetensors",
            "weights/step-0.safetensors",
        ] {
            assert!(read("ours-0", file) == read(&out, file), "{kind}: {file} differs");
        }
        programs.push(read(&out, "step.mlir"));
    }
    assert!(programs[1] != programs[0] && programs[2] != programs[0], "nothing is computed again");
    let args = ["execute", "bert-squad", "--golden", "golden", "--out", "x", "--remat"];
    let (code, shown) = scratch.golden(&[&args[..], &["bert.decoder"]].concat());
    assert!(code == 2 && shown.contains("no module bert.decoder"), "{code} {shown}");

    // Any model alike.
    let fixture = installed::fixture("bert_qa_train");
    let mut checkpoints = Vec::new();
    for kind in ["keep", "modules"] {
        let args = ["run", "--model", text(&fixture.model), "--inputs", text(&fixture.inputs)];
        let more = ["--train", "--steps", "2", "--noise", "1", "--threads", "1", "--out", kind];
        let (code, shown) = scratch.golden(&[&args[..], &more, &["--remat", kind]].concat());
        assert_eq!(code, 0, "{kind} {shown}");
        let file = scratch.path().join(kind).join("warpforge/checkpoint.safetensors");
        checkpoints.push(fs::read(file).unwrap());
    }
    assert!(checkpoints[0] == checkpoints[1]);
    let args = ["run", "--model", text(&fixture.model), "--train", "--remat", "12 parrots"];
    let (code, shown) = scratch.golden(&args);
    assert!(code == 2 && shown.contains("no number of bytes"), "{code} {shown}");
}

#[test]
fn speed_is_held_against_the_baseline() {
    let scratch = Scratch::new();
    let fixture = installed::fixture("bert_qa_train");
    let args = ["run", "--model", text(&fixture.model), "--inputs", text(&fixture.inputs)];
    let more = ["--train", "--steps", "2", "--noise", "1", "--threads", "1", "--out", "out"];
    let args = [&args[..], &more].concat();
    let baseline = |args: &[&str]| {
        let (code, shown) = scratch.golden(args);
        assert_eq!(code, 0, "{shown}");
        let report = read_json(&scratch.path().join("out/report.json"));
        let speed = &report["training"]["performance"];
        (speed["ratio"]["value"].clone(), speed["baseline"].clone())
    };
    let (ratio, none) = baseline(&args);
    assert_eq!(none["verdict"], "inconclusive", "{none}");
    let (code, shown) = scratch.golden(&["baseline", "promote", "out"]);
    assert_eq!(code, 0, "{shown}");
    let (_, held) = baseline(&args);
    assert_eq!(held["baseline"]["ratio"]["value"], ratio, "{held}");
    assert!(held["change"].as_f64().is_some_and(|change| change > 0.0), "{held}");
    let (_, other) = baseline(&[&args[..], &["--baselines", "none.json"]].concat());
    assert!(other["baseline"].is_null(), "{other}");
    scratch.write("bad.json", "{}");
    let (code, shown) = scratch.golden(&[&args[..], &["--baselines", "bad.json"]].concat());
    assert!(code == 2 && shown.contains("bad.json"), "{code} {shown}");
}
