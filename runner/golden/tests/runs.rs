//! Requests to the real program: what it writes, what it repeats, and what it refuses.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{fixtures, golden, request, tensors};
use warpforge_golden_protocol::{
    Device, Error, Event, Failure, FailureKind, Outcome, Precision, Run, Taps, Timings,
};
use warpforge_tests::{installed, root};

fn run(run: &Run) -> Result<Outcome, Failure> {
    match golden().run(run, None, &mut |_| {}) {
        Ok(outcome) => Ok(outcome),
        Err(Error::Failed(failure)) => Err(failure),
        Err(other) => panic!("{other}"),
    }
}

/// The smallest model that is not random.
fn small() -> PathBuf {
    let mut models = fixtures();
    models.sort_by_key(|model| fs::metadata(model).unwrap().len());
    let folder = tempfile::tempdir().unwrap();
    let certain = |model: &PathBuf| {
        let outcome = run(&request(model, folder.path(), 1));
        outcome.is_ok_and(|outcome| outcome.shared_random.is_empty() && outcome.ops.len() > 1)
    };
    models.into_iter().find(certain).expect("a model")
}

fn files(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[test]
fn a_run_is_repeated_tapped_timed_and_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = Run {
        taps: Taps::All,
        repeats: 3,
        time_nodes: true,
        ..request(&small(), folder.path(), 1)
    };
    let mut events = Vec::new();
    let outcome = golden().run(&wanted, None, &mut |event| events.push(event.clone())).unwrap();
    assert_eq!(outcome.reproduced, Some(true));
    let tapped: Vec<_> = outcome.timings.runs.iter().map(|run| run.tapped).collect();
    assert_eq!(tapped, [true, false, false]);
    let nodes = outcome.ops.values().sum::<u64>() as usize;
    assert_eq!(outcome.timings.nodes.len(), nodes);
    assert!(matches!(&events[0], Event::Started(started) if started.nodes == nodes));
    assert!(events.iter().any(|event| matches!(event, Event::Progress(_))));

    for file in &outcome.files {
        assert!(folder.path().join(file).is_file(), "{}", file.display());
    }
    let text = fs::read_to_string(folder.path().join("timings.json")).unwrap();
    assert_eq!(serde_json::from_str::<Timings>(&text).unwrap().runs.len(), 3);
    let taps = tensors(&folder.path().join("activations/step-0.safetensors"));
    let outputs = tensors(&folder.path().join("outputs.safetensors"));
    let common = outputs.iter().filter(|(name, _)| taps.contains_key(*name));
    assert!(common.clone().count() > 0);
    common.for_each(|(name, output)| assert_eq!(&taps[name], output, "{name}"));
    let partial = files(folder.path()).into_iter().find(|name| name.contains("partial"));
    assert_eq!(partial, None);
}

#[test]
fn a_tap_by_name_is_the_only_one() {
    let folder = tempfile::tempdir().unwrap();
    let all = Run { taps: Taps::All, ..request(&small(), folder.path(), 1) };
    run(&all).unwrap();
    let path = folder.path().join("activations/step-0.safetensors");
    let (name, tensor) = tensors(&path).pop_last().unwrap();
    run(&Run { taps: Taps::Nodes(vec![name.clone()]), ..all }).unwrap();
    assert_eq!(tensors(&path), [(name, tensor)].into());
}

#[test]
fn the_oracle_computes_in_float64() {
    let folder = tempfile::tempdir().unwrap();
    run(&Run { precision: Precision::F64, ..request(&small(), folder.path(), 1) }).unwrap();
    let outputs = tensors(&folder.path().join("outputs.safetensors"));
    assert!(outputs.values().all(|content| !content.starts_with(b"F32")));
}

/// The weights of the narrow model are the other's, rounded: so must golden's own rounding be.
#[test]
fn a_model_in_bfloat16_is_the_model_that_was_exported_so() {
    let folder = tempfile::tempdir().unwrap();
    let wide = installed::committed_fixture("tied");
    let narrow = installed::committed_fixture("mlp_bf16");
    let request = request(&wide.model, folder.path(), 1);
    run(&Run { precision: Precision::Bf16, grad: true, ..request.clone() }).unwrap();
    let outputs = tensors(&folder.path().join("outputs.safetensors"));
    let theirs = tensors(&narrow.outputs);
    assert_eq!(outputs.values().collect::<Vec<_>>(), theirs.values().collect::<Vec<_>>());
    // And float32 is what the wide model is in anyhow, and what the narrow one becomes.
    run(&Run { precision: Precision::F32, grad: true, ..request.clone() }).unwrap();
    let outputs = tensors(&folder.path().join("outputs.safetensors"));
    let theirs = tensors(&wide.outputs);
    assert_eq!(outputs.values().collect::<Vec<_>>(), theirs.values().collect::<Vec<_>>());
    run(&Run { precision: Precision::F32, model: narrow.model, ..request }).unwrap();
    let outputs = tensors(&folder.path().join("outputs.safetensors"));
    assert!(outputs.values().all(|content| content.starts_with(b"F32")));
}

/// A weight that the model itself shrinks, and an operator that is not libtorch's.
fn odd(folder: &Path) -> [PathBuf; 2] {
    let paths = ["renormalised", "foreign"].map(|name| folder.join(name).with_extension("pt2"));
    let source = "\
import sys, torch, torchvision
from safetensors.torch import save_file
def save(model, inputs, path):
    torch.export.save(torch.export.export(model, tuple(inputs.values()), strict=False), path)
    save_file(inputs, path.replace('.pt2', '.inputs.safetensors'))
class Align(torch.nn.Module):
    def forward(self, x, boxes):
        return torchvision.ops.roi_align(x, [boxes], 2)
model = torch.nn.Embedding(5, 4, max_norm=0.5)
save(model, {'input': torch.tensor([1, 3])}, sys.argv[1])
box = torch.tensor([[0., 0., 3., 3.]])
save(Align(), {'x': torch.randn(1, 2, 8, 8), 'boxes': box}, sys.argv[2])
";
    let status = installed::python().args(["-c", source]).args(&paths).status();
    assert!(status.expect("the Python of `cargo xtask setup` is there").success());
    paths
}

#[test]
fn a_weight_that_changes_is_told_and_a_foreign_operator_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [renormalised, foreign] = odd(folder.path());
    let out = folder.path().join("out");
    let outcome = run(&Run { repeats: 2, ..request(&renormalised, &out, 1) }).unwrap();
    assert_eq!(outcome.reproduced, Some(true));
    let changed = tensors(&out.join("buffers.safetensors"));
    assert_eq!(changed.keys().collect::<Vec<_>>(), ["weight"]);
    let said = "export the model with them written in plain PyTorch";
    refused(&request(&foreign, &out, 1), FailureKind::Unsupported, said);
    refused(&request(&foreign, &out, 1), FailureKind::Unsupported, "torchvision.roi_align");
}

/// Random numbers follow from the seed, and from nothing else.
/// No fixture drops elements, as their results are compared with Python's: one is exported here.
fn dropout(folder: &Path) -> PathBuf {
    let model = folder.join("dropout.pt2");
    let source = "\
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)).train()
torch.export.save(torch.export.export(model, (torch.randn(4, 8),)), sys.argv[1])
inputs = {'input': torch.randn(4, 8)}
from safetensors.torch import save_file
save_file(inputs, sys.argv[1].replace('.pt2', '.inputs.safetensors'))
";
    let python = root().join(".python/bin/python");
    let status = Command::new(python).args(["-c", source]).arg(&model).status();
    assert!(status.expect("the Python of `cargo xtask setup` is there").success());
    model
}

#[test]
fn a_seed_decides_what_is_random() {
    let folder = tempfile::tempdir().unwrap();
    let outputs = |model: &Path, seed: u64, threads: u32| {
        let request = Run { seed, ..request(model, folder.path(), threads) };
        let outcome = run(&request).ok()?;
        let random = !outcome.shared_random.is_empty() && outcome.own_random.is_empty();
        random.then(|| tensors(&folder.path().join("outputs.safetensors")))
    };
    let model = dropout(folder.path());
    let first = outputs(&model, 1, 1).expect("numbers that both passes draw");
    assert!(outputs(&model, 1, 1).is_some_and(|again| again == first));
    assert!(outputs(&model, 2, 1).is_some_and(|other| other != first));
}

#[track_caller]
fn refused(run: &Run, kind: FailureKind, part: &str) {
    let failure = self::run(run).unwrap_err();
    assert_eq!(failure.kind, kind, "{failure}");
    assert!(failure.message.contains(part), "{failure}");
}

#[test]
fn what_cannot_be_run_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let model = small();
    let good = request(&model, folder.path(), 1);
    refused(&Run { inputs: None, ..good.clone() }, FailureKind::Inputs, "inputs are missing");
    let absent = Run { model: folder.path().join("none.pt2"), ..good.clone() };
    refused(&absent, FailureKind::Model, "none.pt2");
    let cut = folder.path().join("cut.pt2");
    fs::write(&cut, &fs::read(&model).unwrap()[..100]).unwrap();
    refused(&Run { model: cut, ..good.clone() }, FailureKind::Model, "is no .pt2 archive");
    let wrong = Run { inputs: Some(model.with_extension("outputs.safetensors")), ..good.clone() };
    refused(&wrong, FailureKind::Inputs, "inputs");
    let open = Run { dims: [("no_such_size".to_owned(), 3)].into(), ..good.clone() };
    refused(&open, FailureKind::Model, "no_such_size");
    let far = Run { device: Device::Cuda(77), ..good.clone() };
    refused(&far, FailureKind::Device, "");
    let file = Run { out: model.clone(), ..good };
    refused(&file, FailureKind::Io, "");
}

#[test]
fn a_session_goes_on_after_a_refusal_and_other_versions_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let good = request(&small(), folder.path(), 1);
    let mut session = golden().start().unwrap();
    let bad = Run { inputs: None, ..good.clone() };
    assert!(session.run(&bad, None, &mut |_| {}).is_err());
    assert!(session.run(&good, None, &mut |_| {}).is_ok());
    session.finish();

    let file = folder.path().join("request.json");
    fs::write(&file, r#"{"version":99,"run":{}}"#).unwrap();
    let golden = golden();
    let mut command = std::process::Command::new(&golden.binary);
    let paths = std::env::join_paths(golden.libtorch.library_path()).unwrap();
    let output = command.arg(&file).env("LD_LIBRARY_PATH", paths).output().unwrap();
    assert!(!output.status.success());
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(line.contains("version 99 of the protocol"), "{line}");
}
