//! Training against plain PyTorch: the same exported modules trained in Python by `torch.optim`
//! for twenty steps give the same bits. And what a session promises beside: that it continues
//! from a saved state, that a dry step leaves nothing behind, that memory does not grow.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use common::{golden, tensors};
use serde_json::json;
use warpforge_golden_protocol::training::{Evaluate, Open, Opened, Step, Stepped};
use warpforge_golden_protocol::{Precision, Session, Taps};
use warpforge_tests::{installed, root};
use warpforge_training::{Adam, LossScale, Optimizer, Recipe, Schedule, Sgd};

const STEPS: u32 = 20;

struct Case {
    name: &'static str,
    model: &'static str,
    recipe: Recipe,
}

/// HF's rule: neither biases nor norms decay.
const SPARED: &[&str] =
    &["mix.bias", "norm.weight", "norm.bias", "layer_norm.weight", "layer_norm.bias", "head.bias"];

fn cases() -> Vec<Case> {
    let adam = Adam { weight_decay: 0.1, ..Adam::default() };
    let sgd = Sgd { momentum: 0.9, ..Sgd::default() };
    let no_decay: Vec<String> = SPARED.iter().map(|name| (*name).to_owned()).collect();
    let groups = Recipe { no_decay, ..Recipe::new(Optimizer::AdamW(adam), 0.01) };
    let linear = Schedule::Linear { warmup: 4, total: 18 };
    let scale = LossScale { initial: 4.0e6, interval: 3, ..LossScale::default() };
    let case = |name, model, recipe| Case { name, model, recipe };
    vec![
        case("adamw", "small", groups.clone()),
        case(
            "adamw_all",
            "small",
            Recipe { clip_norm: Some(0.2), accumulation: 2, schedule: linear, ..groups.clone() },
        ),
        case(
            "adam",
            "small",
            Recipe {
                schedule: Schedule::Cosine { warmup: 3, total: 24 },
                clip_norm: Some(1e6),
                ..Recipe::new(Optimizer::Adam(adam), 0.01)
            },
        ),
        case("renormalised", "renormalised", Recipe::new(Optimizer::AdamW(adam), 0.1)),
        case("sgd", "small", Recipe::new(Optimizer::Sgd(Sgd::default()), 0.1)),
        case(
            "momentum",
            "small",
            Recipe::new(Optimizer::Sgd(Sgd { dampening: 0.3, weight_decay: 0.01, ..sgd }), 0.05),
        ),
        case(
            "nesterov",
            "small",
            Recipe {
                accumulation: 2,
                clip_norm: Some(0.5),
                ..Recipe::new(
                    Optimizer::Sgd(Sgd { nesterov: true, weight_decay: 0.01, ..sgd }),
                    0.05,
                )
            },
        ),
        case(
            "narrow",
            "bf16",
            Recipe { accumulation: 2, ..Recipe::new(Optimizer::AdamW(adam), 0.01) },
        ),
        case(
            "master",
            "bf16",
            Recipe { master_weights: true, ..Recipe::new(Optimizer::AdamW(adam), 0.01) },
        ),
        case(
            "scaled",
            "f16",
            Recipe {
                master_weights: true,
                loss_scale: Some(scale),
                clip_norm: Some(0.5),
                ..Recipe::new(Optimizer::Sgd(sgd), 0.05)
            },
        ),
        // Bias corrections count updates, not steps.
        case(
            "scaled_adamw",
            "f16",
            Recipe {
                master_weights: true,
                loss_scale: Some(scale),
                ..Recipe::new(Optimizer::AdamW(adam), 0.01)
            },
        ),
        case(
            "scaled_f32",
            "plain",
            Recipe {
                loss_scale: Some(LossScale::default()),
                ..Recipe::new(Optimizer::Sgd(sgd), 0.05)
            },
        ),
    ]
}

/// What Python made: the models, their batches, and its own training of every case.
static REFERENCE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let cases: BTreeMap<_, _> = cases()
        .into_iter()
        .map(|case| {
            (case.name, json!({"model": case.model, "recipe": case.recipe, "steps": STEPS}))
        })
        .collect();
    fs::write(folder.path().join("cases.json"), serde_json::to_vec(&cases).unwrap()).unwrap();
    let script = root().join("runner/golden/tests/training.py");
    let status = installed::python().arg(script).arg(folder.path()).status().unwrap();
    assert!(status.success(), "Python: {status}");
    folder
});

fn reference() -> &'static Path {
    REFERENCE.path()
}

fn open(model: &str, recipe: Recipe) -> Open {
    common::open(reference(), model, recipe)
}

/// A session with one model open.
struct Run {
    session: Session,
    model: String,
    accumulation: u32,
    opened: Opened,
}

impl Run {
    fn new(model: &str, recipe: &Recipe) -> Self {
        Self::open(model, &open(model, recipe.clone()))
    }

    fn open(model: &str, open: &Open) -> Self {
        let mut session = golden().start().unwrap();
        let opened = session.open(open, LIMIT, &mut |_| {}).unwrap();
        let accumulation = open.recipe.accumulation;
        Self { session, model: model.to_owned(), accumulation, opened }
    }

    fn has(&self, parameter: &str) -> bool {
        self.opened.trained.iter().any(|name| name == parameter)
    }

    fn batches(&self, step: u32) -> Vec<PathBuf> {
        let first = step * self.accumulation;
        let file = |number: u32| format!("{}.{}.safetensors", self.model, number % 40);
        (first..first + self.accumulation).map(|number| reference().join(file(number))).collect()
    }

    fn step(&mut self, step: u32, more: Step) -> Stepped {
        let step = Step { step, batches: self.batches(step), ..more };
        self.session.step(&step, LIMIT, &mut |_| {}).unwrap()
    }

    fn state(&mut self) -> BTreeMap<String, Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.safetensors");
        self.session.save(&path).unwrap();
        tensors(&path)
    }
}

const LIMIT: Option<Duration> = Some(Duration::from_mins(5));

fn numbers(content: &[u8]) -> Vec<f64> {
    let data = &content[content.iter().position(|byte| *byte == b']').unwrap() + 1..];
    data.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// As long as a step lasts.
fn at(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

/// Names of one side under which the other has something else or nothing.
fn differences(
    ours: &BTreeMap<String, Vec<u8>>,
    theirs: &BTreeMap<String, Vec<u8>>,
) -> Vec<String> {
    let differs = |(name, tensor): &(&String, &Vec<u8>)| ours.get(*name) != Some(*tensor);
    theirs.iter().filter(differs).map(|(name, _)| name.clone()).collect()
}

#[test]
fn twenty_steps_are_torch_optims_bit_for_bit() {
    let mut problems = Vec::new();
    for Case { name, model, recipe } in cases() {
        let theirs = tensors(&reference().join(format!("{name}.safetensors")));
        let folder = tempfile::tempdir().unwrap();
        let mut run = Run::new(model, &recipe);
        let (mut losses, mut rates, mut norms) = (Vec::new(), Vec::new(), Vec::new());
        let (mut gradients, mut skipped) = (BTreeMap::new(), 0);
        for step in 0..STEPS {
            let path = folder.path().join("gradients.safetensors");
            let stepped = run.step(step, Step { gradients: Some(path.clone()), ..Step::default() });
            losses.extend(stepped.loss);
            skipped += u32::from(stepped.skipped);
            assert_eq!(stepped.without_gradient == ["unused"], run.has("unused"), "{name}");
            rates.push(stepped.learning_rate);
            norms.extend(stepped.gradient_norm);
            let named = tensors(&path).into_iter();
            gradients
                .extend(named.map(|(name, tensor)| (format!("gradient/{step}/{name}"), tensor)));
        }
        let scaled = matches!(name, "scaled" | "scaled_adamw");
        assert_eq!(skipped > 0, scaled, "{name}: {skipped} steps are left out");
        for (what, ours) in [("losses", &losses), ("learning_rates", &rates), ("norms", &norms)] {
            let finite =
                |all: Vec<f64>| all.into_iter().filter(|x| x.is_finite()).collect::<Vec<_>>();
            if *ours != finite(numbers(&theirs[what])) {
                problems
                    .push(format!("{name}: {what}: {ours:?}, not {:?}", numbers(&theirs[what])));
            }
        }
        let ours: BTreeMap<_, _> = run
            .state()
            .into_iter()
            .map(|(name, tensor)| (format!("state/{name}"), tensor))
            .collect();
        let ours: BTreeMap<_, _> = ours.into_iter().chain(gradients).collect();
        let told = |name: &String| !["losses", "learning_rates", "norms"].contains(&&**name);
        let theirs: BTreeMap<_, _> = theirs.into_iter().filter(|(name, _)| told(name)).collect();
        let mut missing = differences(&ours, &theirs);
        missing.extend(ours.keys().filter(|name| !theirs.contains_key(*name)).cloned());
        // What the loss does not depend on has state here, which nothing ever changes.
        missing.retain(|name| !name.ends_with("/unused"));
        problems.extend(missing.iter().map(|tensor| format!("{name}: {tensor} differs")));
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Everything at once: two groups, clipping, accumulation, schedule.
fn whole() -> Recipe {
    cases().into_iter().find(|case| case.name == "adamw_all").unwrap().recipe
}

#[test]
fn a_model_says_what_is_trained_and_what_is_not() {
    let run = Run::new("small", &whole());
    assert_eq!(run.opened.frozen, ["frozen.weight", "frozen.bias"]);
    assert_eq!(run.opened.trained[..3], ["unused", "embedding.weight", "mix.weight"]);
    assert!(!run.has("head.weight"), "tied to the embedding");
    assert!(run.opened.loss.contains("cross_entropy"), "{}", run.opened.loss);
    let memory = run.opened.memory;
    assert!(memory.peak_bytes >= memory.resident_bytes && memory.resident_bytes > Some(10_000_000));
}

/// The state after some steps, in one go or continued by another process on the way.
#[test]
fn a_saved_state_is_continued_to_the_same_bits() {
    let nesterov = cases().into_iter().find(|case| case.name == "nesterov").unwrap().recipe;
    let scaled = cases().into_iter().find(|case| case.name == "scaled").unwrap().recipe;
    for (model, recipe) in [("small", whole()), ("small", nesterov), ("f16", scaled)] {
        let folder = tempfile::tempdir().unwrap();
        let saved = at(&folder, "state.safetensors");
        let mut run = Run::new(model, &recipe);
        for step in 0..8 {
            let state = (step == 4).then(|| saved.clone());
            run.step(step, Step { state, ..Step::default() });
        }
        let mut again = Run::new(model, &recipe);
        // What was done before must not matter.
        again.step(11, Step::default());
        again.session.restore(&saved).unwrap();
        for step in 5..8 {
            again.step(step, Step::default());
        }
        assert_eq!(differences(&again.state(), &run.state()), [""; 0], "{model}");
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left beside the file");
    }
}

#[test]
fn a_dry_step_repeats_itself_and_leaves_everything_as_it_was() {
    for model in ["small", "renormalised"] {
        let recipe = Recipe::new(Optimizer::AdamW(Adam::default()), 0.1);
        let folder = tempfile::tempdir().unwrap();
        let mut run = Run::new(model, &recipe);
        run.step(0, Step::default());
        let before = run.state();
        let dry = |name: &str| Step {
            gradients: Some(at(&folder, name)),
            activations: Some(at(&folder, "activations")),
            outputs: Some(at(&folder, "outputs")),
            taps: Taps::All,
            dry: true,
            ..Step::default()
        };
        let first = run.step(1, dry("first"));
        let second = run.step(1, dry("second"));
        assert_eq!(differences(&run.state(), &before), [""; 0], "{model}");
        assert_eq!(first.loss, second.loss);
        let gradients = tensors(&at(&folder, "first"));
        assert_eq!(gradients, tensors(&at(&folder, "second")));
        assert!(gradients.contains_key("mix.weight") && !gradients.contains_key("frozen.weight"));
        let activations = tensors(&at(&folder, "activations"));
        let outputs = tensors(&at(&folder, "outputs"));
        let common: Vec<_> =
            outputs.keys().filter(|name| activations.contains_key(*name)).collect();
        assert_eq!(common.len(), 2, "{outputs:?}");
        assert!(common.into_iter().all(|name| activations[name] == outputs[name]));
        // A real step then changes what it should.
        run.step(1, Step::default());
        let changed = differences(&run.state(), &before);
        assert!(changed.contains(&"parameter/mix.weight".to_owned()), "{changed:?}");
        assert!(changed.contains(&"buffer/norm.running_mean".to_owned()), "{changed:?}");
        assert!(!changed.contains(&"parameter/frozen.weight".to_owned()), "{changed:?}");
    }
}

#[test]
fn the_model_in_use_has_the_trained_weights_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let evaluation = Some(reference().join("small.eval.pt2"));
    let mut run = Run::open("small", &Open { evaluation, ..open("small", whole()) });
    let show = |run: &mut Run, name: &str| {
        let inputs = reference().join("small.0.safetensors");
        let evaluate = Evaluate { inputs, outputs: at(&folder, name) };
        run.session.evaluate(&evaluate, LIMIT, &mut |_| {}).unwrap();
        tensors(&at(&folder, name))
    };
    let untrained = show(&mut run, "untrained");
    (0..3).for_each(|step| drop(run.step(step, Step::default())));
    let before = run.state();
    let trained = show(&mut run, "trained");
    assert_ne!(trained, untrained);
    assert_eq!(trained, show(&mut run, "again"));
    assert_eq!(differences(&run.state(), &before), [""; 0]);
    // Without a model of its own for use, the trained one is run, and its statistics stay.
    let mut alone = Run::new("small", &whole());
    (0..3).for_each(|step| drop(alone.step(step, Step::default())));
    show(&mut alone, "alone");
    assert_eq!(differences(&alone.state(), &before), [""; 0]);
}

#[test]
fn the_oracle_trains_in_float64_from_a_narrower_state() {
    let folder = tempfile::tempdir().unwrap();
    for (model, recipe) in
        [("small", whole()), ("bf16", Recipe { master_weights: true, ..whole() })]
    {
        let recipe = if model == "bf16" { Recipe { no_decay: vec![], ..recipe } } else { recipe };
        let mut run = Run::new(model, &recipe);
        run.step(5, Step { state: Some(at(&folder, "state")), ..Step::default() });
        let mut oracle =
            Run::open(model, &Open { precision: Precision::F64, ..open(model, recipe.clone()) });
        oracle.session.restore(&at(&folder, "state")).unwrap();
        let (ours, theirs) = (run.step(6, Step::default()), oracle.step(6, Step::default()));
        let (a, b) = (ours.loss.unwrap(), theirs.loss.unwrap());
        assert!(a != b && (a - b).abs() < 0.02, "{a} {b}");
        let wide = |(name, content): (&String, &Vec<u8>)| {
            assert!(content.starts_with(b"F64") || content.starts_with(b"I64"), "{name}");
        };
        oracle.state().iter().for_each(wide);
    }
}

#[test]
fn memory_does_not_grow_from_step_to_step() {
    let mut run = Run::new("small", &whole());
    let resident = |stepped: Stepped| stepped.memory.resident_bytes.unwrap();
    let mut warm = 0;
    for step in 0..100 {
        warm = resident(run.step(step, Step::default()));
    }
    let mut last = 0;
    for step in 100..300 {
        last = resident(run.step(step, Step::default()));
    }
    // The parameters alone take some kilobytes: a leak of one in each step would show.
    assert!(last < warm + 1_000_000, "{warm} bytes after 100 steps, {last} after 300");
}

/// The ticks of processor time that a process took.
fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_session_that_waits_takes_no_time() {
    let open = Open { threads: 4, ..open("small", whole()) };
    let mut run = Run::open("small", &open);
    run.step(0, Step::default());
    let before = ticks(run.session.id());
    std::thread::sleep(Duration::from_millis(500));
    assert!(ticks(run.session.id()) <= before + 5, "of 50 for each thread");
}

#[test]
fn what_cannot_be_trained_is_refused_in_words() {
    let mut session = golden().start().unwrap();
    let mut refused = |open: &Open, said: &str| {
        let error = session.open(open, LIMIT, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    };
    let good = open("small", whole());
    let recipe = |recipe: Recipe| Open { recipe, ..good.clone() };
    refused(&recipe(Recipe { learning_rate: -1.0, ..whole() }), "the learning rate is -1");
    let unknown = Recipe { no_decay: vec!["mix.wait".into()], ..whole() };
    refused(&recipe(unknown), "mix.wait is to have no weight decay, but is no parameter");
    let loss = |name: &str| Open { loss: Some(name.to_owned()), ..good.clone() };
    refused(&loss("lost"), "no output lost; it has");
    refused(&loss("output.1"), "is no loss: it is no single float");

    let save = session.save(Path::new("/nowhere")).unwrap_err().to_string();
    assert_eq!(save, "no model is open for training");
    session.open(&good, LIMIT, &mut |_| {}).unwrap();
    let few = session.step(&Step::default(), LIMIT, &mut |_| {}).unwrap_err().to_string();
    assert_eq!(few, "0 batches for a step of 2 micro-batches");
    let folder = tempfile::tempdir().unwrap();
    session.save(&at(&folder, "state")).unwrap();
    let narrow = Open { evaluation: Some(reference().join("bf16.eval.pt2")), ..good.clone() };
    let error = session.open(&narrow, LIMIT, &mut |_| {}).unwrap_err().to_string();
    assert!(
        error.contains("embedding.weight is bfloat16 [17, 12], and float32 [17, 12] in"),
        "{error}"
    );
    let other = open("small", Recipe::new(Optimizer::Sgd(Sgd::default()), 0.1));
    session.open(&other, LIMIT, &mut |_| {}).unwrap();
    let error = session.restore(&at(&folder, "state")).unwrap_err().to_string();
    assert!(error.contains("is not of this model and its optimiser"), "{error}");
    session.close().unwrap();
    assert!(session.save(&at(&folder, "state")).is_err());
}
