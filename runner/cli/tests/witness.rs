//! Golden's training of bert-squad against an independent witness: plain Python with transformers
//! and torch.optim, its own tokenisation, features, schedule and marks
//! (`runner/workloads/tests/witness.py`). Of ours it has the texts, the weights to start from, the
//! order of the samples and the numbers that key dropout's masks.

mod common;

use std::fs;
use std::path::Path;

use common::{Scratch, read_json, text};
use serde_json::json;
use warpforge_pt2::{Arg, Model};
use warpforge_snakeburger::eval::Tensor;
use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_tests::{campaign, installed, root};
use warpforge_workloads::squad::{self, Generated};
use warpforge_workloads::tensors;

const SEED: u64 = 0;
const BATCH: usize = 32;

/// The generated set as files, as a user would have a set of their own.
fn write_data(folder: &Path) -> usize {
    let Generated { train, dev, vocab } = squad::generate(SEED, squad::Size::default());
    fs::create_dir_all(folder).unwrap();
    train.write(&folder.join("train.json")).unwrap();
    dev.write(&folder.join("dev.json")).unwrap();
    fs::write(folder.join("vocab.txt"), vocab.join("\n")).unwrap();
    train.questions().count()
}

/// Golden's pass of the demo on these data: one thread, and no more than its own results.
fn golden(scratch: &Scratch, data: &Path, out: &Path, steps: usize, more: &[&str]) {
    let steps = format!("steps={steps}");
    let mut args = vec!["golden", "bert-squad", "--threads", "1", "--data", text(data)];
    args.extend(["--out", text(out), "--set", &steps, "--set", "forced=1"]);
    args.extend(["--set", "noise_runs=0"]);
    args.extend(more);
    let (code, shown) = scratch.golden(&args);
    assert_eq!(code, 0, "{shown}");
}

/// Of the calls that draw random numbers, in the order in which they run.
fn ordinals(model: &Path) -> Vec<u32> {
    let model = Model::open(model).unwrap();
    let mut found = Vec::new();
    model.graph.each_node(&mut |node| {
        let share = node.arg("dropout_p").or_else(|| node.arg("p"));
        if matches!(share, Some(Arg::Float(share)) if *share > 0.0) {
            found.push(node.ordinal);
        }
    });
    found
}

/// The order of the samples over as many epochs as it takes.
fn write_order(path: &Path, windows: usize, count: usize) {
    let epochs = count.div_ceil(windows) as u32;
    let order: Vec<u64> =
        (0..epochs).flat_map(|epoch| squad::order(SEED, epoch, windows)).take(count).collect();
    let ty = TensorTy::new([count as i64], DType::S64);
    let order = Tensor::from_ints(ty, |i| order[i] as i64);
    tensors::write(path, [("order", &order)]).unwrap();
}

/// Golden's parameters before the first step, by the names a checkpoint of PyTorch has.
fn write_weights(path: &Path, golden: &Path) {
    let state = tensors::read(&golden.join("states/step-0.safetensors")).unwrap();
    let weights =
        state.iter().filter_map(|(name, tensor)| Some((name.strip_prefix("parameter/")?, tensor)));
    tensors::write(path, weights).unwrap();
}

#[test]
fn golden_trains_as_plain_transformers_and_torch_do() {
    let steps = campaign::rounds(50, 200);
    let scratch = Scratch::new();
    let place = |name: &str| scratch.path().join(name);
    let (data, ours) = (place("data"), place("golden"));
    let windows = write_data(&data);
    golden(&scratch, &data, &ours, steps, &[]);

    write_weights(&place("weights.safetensors"), &ours);
    write_order(&place("order.safetensors"), windows, steps * BATCH);
    // The demo's recipe as docs/workloads.md has it, not as our code derives it.
    let recipe = json!({
        "optimizer": {"kind": "adamw", "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01},
        "learning_rate": 3e-3,
        "schedule": {"kind": "linear", "warmup": steps / 10, "total": steps},
        "clip_norm": 1.0,
    });
    fs::write(place("recipe.json"), recipe.to_string()).unwrap();
    let ordinals = ordinals(&root().join("runner/workloads/src/bert_squad/train.pt2"));
    // Of the embeddings, and of attention, its output and the last projection of two layers.
    assert_eq!(ordinals.len(), 7, "{ordinals:?}");
    let ordinals: Vec<String> = ordinals.iter().map(ToString::to_string).collect();
    let status = installed::python()
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(root().join("runner/workloads/tests/witness.py"))
        .arg("--data")
        .arg(&data)
        .arg("--weights")
        .arg(place("weights.safetensors"))
        .arg("--order")
        .arg(place("order.safetensors"))
        .arg("--recipe")
        .arg(place("recipe.json"))
        .arg("--out")
        .arg(place("witness.json"))
        .args(["--ordinals", &ordinals.join(","), "--steps", &steps.to_string()])
        .args(["--seed", &SEED.to_string(), "--batch", &BATCH.to_string(), "--threads", "1"])
        .status()
        .unwrap();
    assert!(status.success());

    let witness = read_json(&place("witness.json"));
    let theirs: Vec<f64> = serde_json::from_value(witness["losses"].clone()).unwrap();
    let curve = read_json(&ours.join("loss_curve.json"));
    let losses: Vec<f64> =
        curve["steps"].as_array().unwrap().iter().map(|at| at["loss"].as_f64().unwrap()).collect();
    assert_eq!((losses.len(), theirs.len()), (steps, steps));
    for (step, (ours, theirs)) in losses.iter().zip(&theirs).enumerate() {
        let apart = (ours / theirs - 1.0).abs();
        assert!(apart <= 1e-6, "step {step}: golden {ours}, witness {theirs}");
    }
    assert!(losses[steps - 1] < 0.8 * losses[0], "nothing was learnt: {losses:?}");
    let metrics = read_json(&ours.join("metrics.json"));
    for name in ["f1", "exact_match"] {
        assert_eq!(metrics[name], witness[name], "{name}");
    }
    if steps == 200 {
        assert!(metrics["f1"].as_f64().unwrap() > 85.0, "{metrics}");
    }
}

/// What the demo's model knows it has from the passage: with the passages exchanged among the
/// questions it finds little.
#[test]
fn without_the_right_passages_the_demo_answers_little() {
    let scratch = Scratch::new();
    let (data, out) = (scratch.path().join("data"), scratch.path().join("golden"));
    write_data(&data);
    golden(&scratch, &data, &out, 200, &["--set", "shuffle_contexts=true"]);
    let metrics = read_json(&out.join("metrics.json"));
    assert!(metrics["f1"].as_f64().unwrap() < 40.0, "{metrics}");
    // It did learn to answer.
    assert!(metrics["loss"].as_f64().unwrap() < 1.5, "{metrics}");
}
