//! Several ranks against PyTorch's `DistributedDataParallel`, against one rank with the same
//! global batch, and what becomes of them when one is lost, late or different. Every rank is a
//! process of its own on the loopback.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use common::{golden, tensors};
use serde_json::json;
use warpforge_golden_protocol::ranks::{Join, Order};
use warpforge_golden_protocol::training::{Open, Step};
use warpforge_golden_protocol::{Device, Error, FailureKind, Precision, Session};
use warpforge_tests::{installed, root};
use warpforge_training::{Adam, Optimizer, Recipe, Sgd};

const LIMIT: Option<Duration> = Some(Duration::from_mins(3));
const BATCHES: u32 = 48;
const STEPS: u32 = 12;

/// How far trainings may be apart that add up the same few gradients in another order, in
/// float32: a rounding is 6e-8 of a sum, each of the steps makes some, and momentum keeps ten
/// steps' worth.
const MOST: f64 = 5e-6;

type State = BTreeMap<String, Vec<u8>>;

struct Case {
    name: &'static str,
    model: &'static str,
    ranks: u32,
    recipe: Recipe,
}

fn adamw() -> Recipe {
    let adam = Adam { weight_decay: 0.1, ..Adam::default() };
    Recipe { clip_norm: Some(0.2), ..Recipe::new(Optimizer::AdamW(adam), 0.01) }
}

fn momentum() -> Recipe {
    Recipe::new(Optimizer::Sgd(Sgd { momentum: 0.9, ..Sgd::default() }), 0.05)
}

fn cases() -> [Case; 4] {
    let of = |accumulation, recipe| Recipe { accumulation, ..recipe };
    [
        Case { name: "adamw", model: "norm", ranks: 2, recipe: of(4, adamw()) },
        Case { name: "momentum", model: "norm", ranks: 2, recipe: of(2, momentum()) },
        Case { name: "narrow", model: "bf16", ranks: 2, recipe: of(4, adamw()) },
        Case { name: "three", model: "norm", ranks: 3, recipe: of(3, momentum()) },
    ]
}

/// Models and batches that Python made.
static REFERENCE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let cases = cases().map(|case| {
        let Case { name, model, ranks, recipe } = case;
        (name, json!({"model": model, "ranks": ranks, "recipe": recipe, "steps": STEPS}))
    });
    let cases = BTreeMap::from(cases);
    fs::write(folder.path().join("cases.json"), serde_json::to_vec(&cases).unwrap()).unwrap();
    let status = python(folder.path(), &["export"]).status().unwrap();
    assert!(status.success(), "Python: {status}");
    folder
});

fn python(folder: &Path, words: &[&str]) -> std::process::Command {
    let mut command = installed::python();
    command.arg(root().join("runner/golden/tests/ranks.py")).arg(words[0]).arg(folder);
    // Gloo would choose the interface by the machine's name.
    command.args(&words[1..]).env("GLOO_SOCKET_IFNAME", "lo");
    command
}

fn reference() -> &'static Path {
    REFERENCE.path()
}

fn open(model: &str, recipe: Recipe) -> Open {
    common::open(reference(), model, recipe)
}

/// A meeting place on the loopback that nobody uses.
fn meeting(ranks: u32) -> Join {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (host, key) = ("127.0.0.1".to_owned(), "the same".to_owned());
    Join { rank: 0, ranks, host, port, key, timeout_seconds: 60.0 }
}

/// The micro-batches of a step that are a rank's own.
fn own(step: u32, accumulation: u32, join: &Join) -> Vec<PathBuf> {
    let share = accumulation / join.ranks;
    let first = step * accumulation + join.rank * share;
    let file = |number: u32| reference().join(format!("{}.safetensors", number % BATCHES));
    (first..first + share).map(file).collect()
}

fn joined(join: &Join) -> Result<Session, Error> {
    let mut session = golden().start().unwrap();
    session.join(join, LIMIT)?;
    Ok(session)
}

/// Does what rank 0 does, until the end; the state then.
fn follow(session: &mut Session, join: &Join, open: &Open) -> Result<State, Error> {
    loop {
        match session.follow(LIMIT)? {
            Order::Open { precision } => {
                session.open(&Open { precision, ..open.clone() }, LIMIT, &mut |_| {})?;
            }
            Order::Step { step, dry } => {
                let batches = own(step, open.recipe.accumulation, join);
                let step = Step { step, batches, dry, ..Step::default() };
                session.step(&step, LIMIT, &mut |_| {})?;
            }
            Order::End => return Ok(state(session)),
        }
    }
}

fn state(session: &mut Session) -> State {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    session.save(&path).unwrap();
    tensors(&path)
}

/// What came of a training: the losses, and every rank's state.
struct Trained {
    losses: Vec<f64>,
    states: Vec<State>,
}

/// Trains with so many ranks; `lead` is what rank 0 does between opening and leaving.
fn together(ranks: u32, open: &Open, lead: impl FnOnce(&mut Session, &Join)) -> Vec<State> {
    let meeting = meeting(ranks);
    thread::scope(|scope| {
        let followers: Vec<_> = (1..ranks)
            .map(|rank| {
                let join = Join { rank, ..meeting.clone() };
                scope.spawn(move || follow(&mut joined(&join).unwrap(), &join, open).unwrap())
            })
            .collect();
        let mut session = joined(&meeting).unwrap();
        session.open(open, LIMIT, &mut |_| {}).unwrap();
        lead(&mut session, &meeting);
        let mut states = vec![state(&mut session)];
        session.leave(LIMIT).unwrap();
        states.extend(followers.into_iter().map(|follower| follower.join().unwrap()));
        states
    })
}

fn train(ranks: u32, open: &Open) -> Trained {
    let mut losses = Vec::new();
    let states = together(ranks, open, |session, join| {
        for step in 0..STEPS {
            let batches = own(step, open.recipe.accumulation, join);
            let step = Step { step, batches, ..Step::default() };
            losses.push(session.step(&step, LIMIT, &mut |_| {}).unwrap().loss.unwrap());
        }
    });
    Trained { losses, states }
}

/// The numbers of a tensor, in float64.
fn numbers(content: &[u8]) -> Vec<f64> {
    let data = &content[content.iter().position(|byte| *byte == b']').unwrap() + 1..];
    match &content[..3] {
        b"F64" => data.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
        b"F32" => {
            data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into()).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// How far two states are apart, as a share of the largest number of the same kind: of all
/// parameters, of all momentum. Some gradients are zero but for rounding, such as those of a bias
/// before batch statistics, and have no size of their own.
fn furthest(a: &State, b: &State) -> f64 {
    let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (name, content) in a.iter().filter(|(_, content)| content.starts_with(b"F")) {
        let (apart, largest) = kinds.entry(name.rsplit_once('/').unwrap().0).or_default();
        let (ours, theirs) = (numbers(content), numbers(&b[name]));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (x, y) in ours.iter().zip(&theirs) {
            *apart = apart.max((x - y).abs());
            *largest = largest.max(x.abs());
        }
    }
    kinds.values().map(|(apart, largest)| apart / largest).fold(0.0, f64::max)
}

fn without_buffers(state: &State) -> State {
    let kept = state.iter().filter(|(name, _)| !name.starts_with("buffer/"));
    kept.map(|(name, content)| (name.clone(), content.clone())).collect()
}

#[test]
fn ranks_train_as_distributed_data_parallel_does() {
    for case in cases() {
        let Case { name, model, ranks, recipe } = case;
        let processes: Vec<_> = (0..ranks)
            .map(|rank| python(reference(), &["train", name, &rank.to_string()]).spawn().unwrap())
            .collect();
        let count = f64::from(recipe.accumulation);
        let ours = train(ranks, &open(model, recipe));
        for mut process in processes {
            assert!(process.wait().unwrap().success(), "{name}");
        }
        let theirs: Vec<State> = (0..ranks)
            .map(|rank| tensors(&reference().join(format!("{name}.{rank}.safetensors"))))
            .collect();
        let sums: Vec<Vec<f64>> = theirs.iter().map(|rank| numbers(&rank["losses"])).collect();
        let losses = |step: usize| sums.iter().map(|sums| sums[step]).sum::<f64>() / count;
        // Two numbers have one sum. Three have several, and PyTorch packs gradients into
        // buckets, in which their places decide on the order: there it is rounding.
        let exact = ranks == 2;
        for (step, loss) in ours.losses.iter().enumerate() {
            let apart = (loss / losses(step) - 1.0).abs();
            assert!(if exact { *loss == losses(step) } else { apart < MOST }, "{name}, {step}");
        }
        for (rank, (ours, theirs)) in ours.states.iter().zip(&theirs).enumerate() {
            let theirs: State = theirs
                .iter()
                .filter_map(|(key, content)| Some((key.strip_prefix("state/")?, content)))
                .map(|(key, content)| (key.to_owned(), content.clone()))
                .collect();
            assert!(theirs.keys().any(|tensor| tensor.starts_with("optimizer/")), "{name}");
            for (tensor, content) in &theirs {
                let same = ours.get(tensor) == Some(content);
                assert!(same || (!exact && content.starts_with(b"F")), "{name} {rank}: {tensor}");
            }
            if !exact {
                let furthest = furthest(&theirs, ours);
                assert!(furthest < MOST, "{name}, rank {rank}: {furthest:e}");
            }
        }
        let first = without_buffers(&ours.states[0]);
        assert!(ours.states.iter().all(|state| without_buffers(state) == first), "{name}");
    }
}

/// The same global batch, shared or not, with dropout: random numbers are those of the
/// micro-batch, whoever has it.
#[test]
fn any_number_of_ranks_trains_as_one_does() {
    for (precision, most) in [(Precision::AsExported, MOST), (Precision::F64, 1e-12)] {
        let recipe = Recipe { accumulation: 4, clip_norm: Some(0.2), ..momentum() };
        let open = Open { precision, ..open("dropout", recipe) };
        let alone = {
            let mut session = golden().start().unwrap();
            session.open(&open, LIMIT, &mut |_| {}).unwrap();
            let mut losses = Vec::new();
            let single = Join { ranks: 1, ..meeting(1) };
            for step in 0..STEPS {
                let batches = own(step, 4, &single);
                let step = Step { step, batches, ..Step::default() };
                losses.push(session.step(&step, LIMIT, &mut |_| {}).unwrap().loss.unwrap());
            }
            Trained { losses, states: vec![state(&mut session)] }
        };
        for ranks in [2, 4] {
            let shared = train(ranks, &open);
            for (a, b) in alone.losses.iter().zip(&shared.losses) {
                assert!((a / b - 1.0).abs() <= most, "{precision:?}, {ranks}: {a} {b}");
            }
            let first = without_buffers(&shared.states[0]);
            for state in &shared.states {
                assert!(without_buffers(state) == first, "the ranks hold other bits");
            }
            let alone = without_buffers(&alone.states[0]);
            assert_eq!(alone.len(), first.len());
            let furthest = furthest(&alone, &first);
            assert!(furthest <= most, "{precision:?}, {ranks} ranks: {furthest:e}");
        }
        assert!(alone.losses[STEPS as usize - 1] < alone.losses[0], "{:?}", alone.losses);
    }
}

#[test]
fn ranks_go_on_from_a_saved_state_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let open = open("norm", Recipe { accumulation: 2, ..momentum() });
    let run = |steps: std::ops::Range<u32>, from: Option<&Path>, to: Option<(u32, &Path)>| {
        together(2, &open, |session, join| {
            if let Some(path) = from {
                session.restore(path).unwrap();
            }
            for step in steps {
                if let Some((_, path)) = to.filter(|(at, _)| *at == step) {
                    session.save(path).unwrap();
                }
                let batches = own(step, 2, join);
                // Once for nothing: it leaves no trace on any rank.
                let dry = Step { step, batches: batches.clone(), dry: true, ..Step::default() };
                session.step(&dry, LIMIT, &mut |_| {}).unwrap();
                let step = Step { step, batches, ..Step::default() };
                session.step(&step, LIMIT, &mut |_| {}).unwrap();
            }
        })
    };
    let whole = run(0..6, None, Some((3, &path)));
    let rest = run(3..6, Some(&path), None);
    assert!(whole == rest);
}

fn failure(error: Error) -> (FailureKind, String) {
    match error {
        Error::Failed(failure) => (failure.kind, failure.message),
        other => panic!("{other}"),
    }
}

/// Both ranks of two, each with its own view of where and what they meet for.
fn meet(first: &Join, second: &Join) -> [Result<Session, Error>; 2] {
    thread::scope(|scope| {
        let second = scope.spawn(|| joined(second));
        [joined(first), second.join().unwrap()]
    })
}

#[test]
fn ranks_that_differ_do_not_train_together() {
    let meeting = meeting(2);
    let other = Join { rank: 1, key: "another".to_owned(), ..meeting.clone() };
    for (rank, result) in meet(&meeting, &other).into_iter().enumerate() {
        let (kind, said) = failure(result.err().unwrap());
        // Whoever is second to look may find the first one gone.
        let lost = kind == FailureKind::Peer;
        assert!(lost || said.contains("differ in their settings"), "{rank}: {said}");
        assert!(lost || kind == FailureKind::Ranks, "{kind:?}");
    }
    let three = Join { timeout_seconds: 20.0, ..self::meeting(3) };
    let ends = thread::scope(|scope| {
        let started = [0, 1, 1].map(|rank| {
            let join = Join { rank, ..three.clone() };
            scope.spawn(move || joined(&join))
        });
        started.map(|rank| failure(rank.join().unwrap().err().unwrap()))
    });
    let said = |(kind, said): &(FailureKind, String)| {
        *kind == FailureKind::Ranks && said.starts_with("another process is rank 1 at")
    };
    assert_eq!(ends[1..].iter().filter(|end| said(end)).count(), 1, "{ends:?}");
    assert!(ends[0].1.contains("for rank 2 of 3"), "{ends:?}");
    let absent = Join { rank: 2, ..meeting };
    let (kind, said) = failure(joined(&absent).err().unwrap());
    assert_eq!((kind, &*said), (FailureKind::Ranks, "there is no rank 2 among 2"));
}

#[test]
fn a_rank_with_other_weights_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let open = open("norm", Recipe { accumulation: 2, ..momentum() });
    let meeting = meeting(2);
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let join = Join { rank: 1, ..meeting.clone() };
            let mut session = joined(&join).unwrap();
            assert!(matches!(session.follow(LIMIT).unwrap(), Order::Open { .. }));
            session.open(&open, LIMIT, &mut |_| {}).unwrap();
            let Order::Step { step, .. } = session.follow(LIMIT).unwrap() else { panic!() };
            let step = Step { step, batches: own(step, 2, &join), ..Step::default() };
            session.step(&step, LIMIT, &mut |_| {}).unwrap();
            // It goes back to where the step began, all by itself.
            session.restore(&path).unwrap();
            session.follow(LIMIT).unwrap_err()
        });
        let mut session = joined(&meeting).unwrap();
        session.open(&open, LIMIT, &mut |_| {}).unwrap();
        // The other comes to the comparison once it waits for what comes next.
        session.save(&path).unwrap();
        let step = Step { batches: own(0, 2, &meeting), ..Step::default() };
        session.step(&step, LIMIT, &mut |_| {}).unwrap();
        let here = session.save(&folder.path().join("later.safetensors")).unwrap_err();
        for error in [here, second.join().unwrap()] {
            assert_eq!(failure(error).1, "rank 1 holds other weights than rank 0");
        }
    });
}

#[test]
fn a_rank_that_never_comes_is_named_in_time() {
    let brief = Join { timeout_seconds: 2.0, ..meeting(2) };
    let expected = [
        (0, format!("rank 0 waited at 127.0.0.1:{} for rank 1 of 2, at most 2.0 s", brief.port)),
        (1, format!("rank 1 waited at 127.0.0.1:{} for rank 0, at most 2.0 s", brief.port)),
    ];
    for (rank, begins) in expected {
        let start = Instant::now();
        let (kind, said) = failure(joined(&Join { rank, ..brief.clone() }).err().unwrap());
        assert!(kind == FailureKind::Peer && said.starts_with(&begins), "{said}");
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }
    // Somebody else is at the meeting place, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let start = Instant::now();
    let join = Join { rank: 1, port, ..brief.clone() };
    let (kind, said) = failure(joined(&join).err().unwrap());
    assert!(kind == FailureKind::Peer && said.ends_with("there is no answer"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let (kind, said) = failure(joined(&Join { port, ..brief }).err().unwrap());
    assert!(kind == FailureKind::Ranks && said.contains("rank 0 cannot listen at"), "{said}");
}

/// Rank 0 of two that were trained for a step, after which the other is `lost`.
fn left_alone(timeout_seconds: f64, lost: fn(Session) -> Option<Session>) -> (String, Duration) {
    let open = open("norm", Recipe { accumulation: 2, ..momentum() });
    let meeting = Join { timeout_seconds, ..meeting(2) };
    let step = |step, join: &Join| Step { step, batches: own(step, 2, join), ..Step::default() };
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let join = Join { rank: 1, ..meeting.clone() };
            let mut session = joined(&join).unwrap();
            session.follow(LIMIT).unwrap();
            session.open(&open, LIMIT, &mut |_| {}).unwrap();
            session.follow(LIMIT).unwrap();
            session.step(&step(0, &join), LIMIT, &mut |_| {}).unwrap();
            lost(session)
        });
        let mut session = joined(&meeting).unwrap();
        session.open(&open, LIMIT, &mut |_| {}).unwrap();
        session.step(&step(0, &meeting), LIMIT, &mut |_| {}).unwrap();
        let _held = second.join().unwrap();
        let start = Instant::now();
        let error = session.step(&step(1, &meeting), LIMIT, &mut |_| {}).unwrap_err();
        let (kind, said) = failure(error);
        assert_eq!(kind, FailureKind::Peer, "{said}");
        (said, start.elapsed())
    })
}

#[test]
fn a_rank_that_dies_is_noticed_at_once() {
    // Dropping a session kills its process.
    let (said, after) = left_alone(60.0, |session| {
        drop(session);
        None
    });
    assert!(said.contains("rank 0 of 2, ") && said.contains("lost another rank"), "{said}");
    assert!(after < Duration::from_secs(20), "{after:?}: {said}");
}

#[test]
fn a_rank_that_does_nothing_any_more_is_given_up() {
    let (said, after) = left_alone(3.0, Some);
    assert!(said.contains("waited 3.0 s for it"), "{said}");
    assert!(after < Duration::from_secs(40), "{after:?}: {said}");
}

#[test]
fn what_ranks_cannot_share_is_refused() {
    for (open, said) in [
        (open("norm", Recipe { accumulation: 3, ..adamw() }), "3 micro-batches cannot be shared"),
        (
            open("renormalised", Recipe { accumulation: 2, ..adamw() }),
            "writes to the parameter embedding.weight",
        ),
        (
            Open { device: Device::Cuda(0), ..open("norm", Recipe { accumulation: 2, ..adamw() }) },
            "several ranks train on cpu, not on cuda:0",
        ),
    ] {
        let meeting = meeting(2);
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let join = Join { rank: 1, ..meeting.clone() };
                follow(&mut joined(&join).unwrap(), &join, &open).unwrap_err()
            });
            let mut session = joined(&meeting).unwrap();
            let here = session.open(&open, LIMIT, &mut |_| {}).unwrap_err();
            drop(session);
            for error in [here, second.join().unwrap()] {
                let (_, message) = failure(error);
                assert!(message.contains(said), "{message}");
            }
        });
    }
}
