//! The program of a training step in float64 against libtorch's own training in float64: what is
//! left then is rounding of the sixteenth digit, so that a wrong formula anywhere in the step shows.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use warpforge_golden_protocol as protocol;
use warpforge_golden_protocol::training::{Open, Step};
use warpforge_training::{Adam, Optimizer, Recipe, Schedule};
use warpforge_workloads::bert_squad::{Config, Machine, Preset, Workload};
use warpforge_workloads::forward::Weights;
use warpforge_workloads::tensors::{self, Named};
use warpforge_workloads::training::stepper::{self, Programs, Stepper, Wanted};
use warpforge_workloads::training::{Plan, Task};

const STEPS: u32 = 10;
/// How far apart the two may be, relative to a tensor's largest element.
const TOLERANCE: f64 = 1e-9;
/// An average of gradients that are zero but for rounding, such as an attention key's bias has,
/// has no size of its own: it is some 1e-17 of the others'.
const ROUNDING: f64 = 1e-15;

fn search() -> protocol::Search {
    protocol::Search::from_environment()
}

fn golden() -> protocol::Golden {
    let libtorch = search().find().expect("cargo xtask setup golden");
    let tests = std::env::current_exe().unwrap();
    let binary = tests.parent().and_then(Path::parent).unwrap().join(protocol::BINARY);
    assert!(binary.is_file(), "{} is not built", binary.display());
    protocol::Golden { binary, libtorch }
}

fn weights(plan: &Plan) -> protocol::Weights {
    match &plan.weights {
        Weights::Archive => protocol::Weights::Archive,
        Weights::Recipe(path) => protocol::Weights::Recipe(path.clone()),
        other => panic!("{other:?}"),
    }
}

/// The state before and after training, as golden's files have it.
fn theirs(plan: &Plan, task: &dyn Task) -> (Named, Named) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    let mut session = golden().start().unwrap();
    let limit = Some(Duration::from_mins(5));
    let open = Open {
        model: plan.model.clone(),
        evaluation: None,
        weights: weights(plan),
        precision: protocol::Precision::F64,
        device: protocol::Device::Cpu,
        threads: 1,
        seed: plan.seed,
        dims: plan.dims.iter().map(|dim| (dim.name.clone(), dim.size)).collect(),
        evaluation_dims: BTreeMap::new(),
        loss: None,
        recipe: plan.recipe.clone(),
        tf32: false,
    };
    session.open(&open, limit, &mut |_| {}).unwrap();
    session.save(&at("before")).unwrap();
    for step in 0..STEPS {
        let mut batches = Vec::new();
        for (i, batch) in task.batches(step).unwrap().iter().enumerate() {
            let path = at(&format!("batch-{i}"));
            let named = batch.iter().map(|(name, tensor)| (name.as_str(), tensor));
            tensors::write(&path, named).unwrap();
            batches.push(path);
        }
        session.step(&Step { step, batches, ..Step::default() }, limit, &mut |_| {}).unwrap();
    }
    session.save(&at("after")).unwrap();
    session.finish();
    (tensors::read(&at("before")).unwrap(), tensors::read(&at("after")).unwrap())
}

fn ours(plan: &Plan, task: &dyn Task) -> (Named, Named) {
    let model = stepper::open(plan, &plan.model, &plan.dims).unwrap();
    let programs = Programs::of(plan, model.widened().unwrap(), None).unwrap();
    let mut stepper = Stepper::new(&programs, plan.seed).unwrap();
    let before = stepper.state.clone();
    for step in 0..STEPS {
        let batches = task.batches(step).unwrap();
        stepper.step(step, &batches, &Wanted::default()).unwrap();
    }
    (before, stepper.state)
}

/// `parameter`, `buffer`, or which of the optimiser's averages.
fn group(name: &str) -> &str {
    name.strip_prefix("optimizer/").unwrap_or(name).split('/').next().unwrap_or_default()
}

fn largest(named: &Named, of: impl Fn(&str) -> bool) -> f64 {
    let tensors = named.iter().filter(|(name, _)| of(name));
    let numbers = tensors.flat_map(|(_, t)| (0..t.count()).map(|i| t.get(i).float().abs()));
    numbers.fold(0.0, f64::max)
}

/// The largest difference between two states as a share of what is allowed, and where it is. A
/// parameter that begins at zero and gets rounding for its gradient has no size either: `travel`
/// is how far the steps can move any.
fn compare(what: &str, ours: &Named, theirs: &Named, travel: f64) -> (f64, String) {
    let names = |named: &Named| named.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(ours), names(theirs), "{what}");
    let mut worst = (0.0, String::new());
    for (name, theirs_here) in theirs {
        let ours_here = &ours[name];
        assert_eq!(ours_here.ty, theirs_here.ty, "{what}: {name}");
        let own = largest(theirs, |other| other == name);
        let all = largest(theirs, |other| group(other) == group(name));
        let allowed = match group(name) {
            "parameter" | "buffer" => TOLERANCE * own.max(travel),
            _ => TOLERANCE * own + ROUNDING * all,
        };
        for i in 0..theirs_here.count() {
            let (a, b) = (ours_here.get(i).float(), theirs_here.get(i).float());
            let used = if a == b { 0.0 } else { (a - b).abs() / allowed };
            if used > worst.0 || used.is_nan() {
                worst = (used, format!("{what}: {name}[{i}] is {a} and not {b}"));
            }
        }
    }
    worst
}

fn check(what: &str, plan: &Plan, task: &dyn Task) {
    let (ours_before, ours) = ours(plan, task);
    let (theirs_before, theirs) = theirs(plan, task);
    let travel = plan.recipe.learning_rate * f64::from(STEPS);
    let compare = |ours: &Named, theirs: &Named| compare(what, ours, theirs, travel);
    let (apart, place) = compare(&ours_before, &theirs_before);
    assert!(apart == 0.0, "before the first step, {place}");
    let moved = compare(&ours_before, &theirs).0;
    assert!(moved > 1e3, "{what}: nothing was trained");
    let (used, place) = compare(&ours, &theirs);
    assert!(used <= 1.0, "{used} times what is allowed; {place}");
}

#[test]
fn ten_steps_of_a_small_model_agree_to_nine_digits() {
    let adam = Adam { weight_decay: 0.1, ..Adam::default() };
    let recipe = Recipe {
        schedule: Schedule::Linear { warmup: 3, total: 2 * STEPS },
        no_decay: vec!["mix.bias".into(), "layer_norm.weight".into()],
        clip_norm: Some(0.5),
        accumulation: 2,
        ..Recipe::new(Optimizer::AdamW(adam), 0.01)
    };
    let (plan, task) = common::small("small", recipe, STEPS);
    check("small", &plan, &task);
}

#[test]
fn ten_steps_of_bert_on_questions_agree_to_nine_digits() {
    let changes = ["batch_size=4", "evaluation_questions=0", "steps=20"].map(str::to_owned);
    let config = Config::preset(Preset::Demo).with(&changes).unwrap();
    let machine = Machine { device: protocol::Device::Cpu, threads: 1, libtorch: search() };
    let folder = tempfile::tempdir().unwrap();
    let workload = Workload::new(&config, machine, folder.path()).unwrap();
    check("bert-squad", &workload.plan, &workload.task);
}
