//! The exporters, run as a user runs them, by the Python of set-up; and that
//! Python itself, which must be what it is taken for.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;
use warpforge_tests::installed::{committed_fixtures, fixtures, python};
use warpforge_tests::root;

fn script(name: &str) -> std::path::PathBuf {
    root().join("runner/snakegrinder/export").join(name)
}

/// Runs an exporter in a folder of its own.
fn export(folder: &Path, name: &str, arguments: &[&str]) -> Output {
    let mut command = python();
    command.arg(script(name)).args(arguments).current_dir(folder).output().unwrap()
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn failed(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.lines().last().unwrap().starts_with("error: "), "{said}");
    said
}

/// The names of the members of an archive, without its own name in front.
fn members(file: &Path) -> Vec<String> {
    let list = "import sys, zipfile; print(*zipfile.ZipFile(sys.argv[1]).namelist(), sep='\\n')";
    let said = succeeded(&python().args(["-S", "-c", list]).arg(file).output().unwrap());
    said.lines().map(|name| name.split_once('/').unwrap().1.to_owned()).collect()
}

/// What is fenced as a language in the page on exporting.
fn fenced(language: &str) -> String {
    let page = fs::read_to_string(root().join("docs/exporting.md")).unwrap();
    let blocks = page.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix(language)).collect()
}

/// Every command of the page runs as it is written there. The last exports a
/// model of eight billion parameters, on whatever machine this is.
#[test]
fn the_pages_examples_run() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("my_model.py"), fenced("python")).unwrap();
    let console = fenced("console");
    let commands: Vec<_> =
        console.lines().filter_map(|line| line.strip_prefix("$ python export/")).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let words: Vec<_> = command.split(' ').collect();
        let said = succeeded(&export(folder.path(), words[0], &words[1..]));
        let is_model = |word: &&&str| Path::new(word).extension().is_some_and(|e| e == "pt2");
        let output = words.iter().find(is_model).unwrap();
        assert!(said.starts_with(&format!("{output}: ")), "{said}");
        let names = members(&folder.path().join(output));
        assert!(names.contains(&"models/model.json".into()), "{names:?}");
        let config = "data/weights/model_weights_config.json";
        assert!(names.iter().any(|name| name == config), "{names:?}");
        let weights = names.iter().any(|name| name == "data/weights/weight_0");
        assert_eq!(weights, !words.contains(&"--no-weights"), "{names:?}");
    }
    let hollow = folder.path().join("llama-8b.pt2");
    assert!(hollow.metadata().unwrap().len() < 8_000_000);
    // The constants, which are no weights, are there.
    assert!(members(&hollow).contains(&"data/constants/tensor_0".into()));
}

#[test]
fn files_are_written_whole_or_not_at_all() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("mine.py"), fenced("python") + "def wrong(): return make()[0]\n")
        .unwrap();
    let arguments = ["mine.py:make", "out/mine.pt2", "--weights", "out/w.st"];
    succeeded(&export(folder.path(), "any.py", &arguments));
    assert_eq!(files(&folder.path().join("out")), ["mine.pt2", "w.st"]);

    let said = failed(&export(folder.path(), "any.py", &["mine.py:wrong", "x.pt2"]));
    assert!(said.contains("should return (model, args[, kwargs[, dynamic_shapes]])"), "{said}");
    let said = failed(&export(folder.path(), "any.py", &["mine:absent", "x.pt2"]));
    assert!(said.contains("mine has no absent"), "{said}");
    let said = failed(&export(folder.path(), "any.py", &["mine.py:make", "x.zip"]));
    assert!(said.contains("does not end in .pt2"), "{said}");
    let mut left = files(folder.path());
    left.retain(|name| name != "__pycache__");
    assert_eq!(left, ["mine.py", "out"]);
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn another_torch_is_refused() {
    let folder = TempDir::new().unwrap();
    let torch = folder.path().join("torch");
    fs::create_dir(&torch).unwrap();
    fs::write(torch.join("__init__.py"), "__version__ = '2.9.1+cu130'\n").unwrap();
    let run = |path: &Path| {
        let mut command = Command::new("python3");
        command.args(["-S"]).arg(script("bert_qa.py")).arg("x.pt2").current_dir(&folder);
        command.env("PYTHONPATH", path).output().unwrap()
    };
    let said = failed(&run(folder.path()));
    assert!(said.contains("torch 2.9.1+cu130 is installed; run: pip install -r"), "{said}");
    let said = failed(&run(&torch));
    assert!(said.contains("torch cannot be imported"), "{said}");
}

#[test]
fn every_exporter_explains_itself() {
    for name in ["any.py", "bert_qa.py", "llama.py", "resnet50_fpn.py", "fixtures.py"] {
        let said = succeeded(&export(&root(), name, &["--help"]));
        assert!(said.contains("    python ") && said.contains("usage:"), "{name}: {said}");
    }
}

/// Python loads the file that golden links to: not a copy that could differ.
#[test]
fn python_runs_the_libtorch_of_golden() {
    let ask = "import os, torch; print(os.path.dirname(torch.__file__))";
    let folder = succeeded(&python().args(["-W", "ignore", "-c", ask]).output().unwrap());
    let theirs = fs::metadata(Path::new(folder.trim()).join("lib/libtorch_cpu.so")).unwrap();
    let ours = fs::metadata(root().join(".libtorch/torch/lib/libtorch_cpu.so")).unwrap();
    assert_eq!(theirs.len(), ours.len());
}

#[test]
fn the_fixtures_are_all_there() {
    let names: Vec<_> = fixtures().into_iter().map(|fixture| fixture.name).collect();
    for name in ["bert_qa", "llama", "resnet50", "resnet50_train", "gpt2", "vit", "llama_bf16"] {
        assert!(names.iter().any(|found| found == name), "{name} is missing of {names:?}");
    }
    assert!(names.iter().filter(|name| name.starts_with("op_")).count() >= 40);
    let committed = committed_fixtures();
    assert!(committed.iter().any(|fixture| fixture.weights.is_some()));
    let size = |fixture: &Path| fixture.metadata().unwrap().len();
    assert!(committed.iter().map(|fixture| size(&fixture.model)).sum::<u64>() < 300_000);
}
