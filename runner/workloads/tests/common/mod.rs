//! What the tests of trainings share: the small models beside them.

use std::path::PathBuf;

use warpforge_compiler::Remat;
use warpforge_golden_protocol as protocol;
use warpforge_tests::root;
use warpforge_training::Recipe;
use warpforge_workloads::forward::Weights;
use warpforge_workloads::training::{Noise, Plan, given};

/// A plan for a small model, and its batches.
pub fn small(name: &str, recipe: Recipe, steps: u32) -> (Plan, given::Batches) {
    let fixture = |name: &str| root().join("runner/workloads/tests/fixtures").join(name);
    let model = fixture(&format!("{name}.pt2"));
    let batch = |i: u32| fixture(&format!("{name}.{i}.safetensors"));
    let inputs: Vec<PathBuf> = (0..4).map(batch).collect();
    let (batches, dims) = given::read(&model, &inputs, &[], 0).unwrap();
    let task = given::Batches::new(batches, recipe.accumulation);
    let plan = Plan {
        model,
        evaluation: None,
        weights: Weights::Archive,
        dims,
        evaluation_dims: Vec::new(),
        loss: None,
        recipe,
        steps,
        forced: Vec::new(),
        noise: Noise { runs: 0, steps: 0 },
        seed: 7,
        threads: 1,
        device: protocol::Device::Cpu,
        oracle: false,
        checkpoint_every: steps,
        deadline: None,
        remat: Remat::default(),
        libtorch: protocol::Search::from_environment(),
        rank: None,
    };
    (plan, task)
}
