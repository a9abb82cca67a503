//! Golden against plain PyTorch: the same models run in Python, with the same wheel that
//! libtorch was cut out of and the same number of threads, give the same bits.
//!
//! Two things PyTorch itself makes depend on more than the inputs are kept alike on both sides:
//! the number of threads, and whether gradients are recorded (a matrix product of tensors that
//! require gradients is folded otherwise, and a recurrent layer takes another kernel).

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{fixtures, golden, request, tensors};
use warpforge_golden_protocol::{Outcome, Run, Session};
use warpforge_pt2::{Model, OutputKind};
use warpforge_tests::root;

fn run(session: &mut Session, request: &Run) -> Result<Outcome, String> {
    let limit = Some(Duration::from_mins(2));
    session.run(request, limit, &mut |_| {}).map_err(|error| error.to_string())
}

/// Golden's results under the names that Python gives them: outputs by position.
fn results(model: &Path, out: &Path) -> BTreeMap<String, Vec<u8>> {
    let outputs = tensors(&out.join("outputs.safetensors"));
    let model = Model::open(model).unwrap();
    let given = model.outputs.iter();
    let given = given.filter(|output| matches!(output.kind, OutputKind::User | OutputKind::Loss));
    let mut named: BTreeMap<_, _> = given
        .enumerate()
        .filter_map(|(i, output)| {
            Some((format!("output.{i}"), outputs.get(&*output.name)?.clone()))
        })
        .collect();
    for (file, kind) in [("buffers", "buffer"), ("inputs", "input")] {
        let path = out.join(file).with_extension("safetensors");
        if path.exists() {
            let changed = tensors(&path).into_iter();
            named.extend(changed.map(|(name, tensor)| (format!("{kind}.{name}"), tensor)));
        }
    }
    named
}

/// Names under which the two differ; what only golden says is left alone.
fn differences(
    ours: &BTreeMap<String, Vec<u8>>,
    theirs: &BTreeMap<String, Vec<u8>>,
) -> Vec<String> {
    let differs = |(name, tensor): &(&String, &Vec<u8>)| ours.get(*name) != Some(*tensor);
    theirs.iter().filter(differs).map(|(name, _)| name.clone()).collect()
}

fn is_random(outcome: &Outcome) -> bool {
    !outcome.shared_random.is_empty() || !outcome.own_random.is_empty()
}

#[track_caller]
fn report(compared: usize, problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    assert!(compared > 0, "nothing was compared");
}

/// Models that PyTorch saves but cannot load again: `ExportedProgram.module()` misses a constant.
/// The results of the model itself, before export, are compared below all the same.
const NOT_IN_PYTHON: &[&str] = &["op_packed_weights"];

#[test]
fn every_fixture_gives_the_bits_that_python_gives() {
    // One thread: with more, the matrix library may share a product otherwise on a busy machine.
    let threads = 1;
    let folder = tempfile::tempdir().unwrap();
    let fixtures = fixtures();
    let status = Command::new(root().join(".python/bin/python"))
        .arg(root().join("runner/golden/tests/fidelity.py"))
        .arg(folder.path())
        .arg(threads.to_string())
        .args(&fixtures)
        .status()
        .expect("the Python of `cargo xtask setup` is there");
    assert!(status.success(), "Python: {status}");
    let mut session = golden().start().unwrap();
    let (mut compared, mut problems) = (0, Vec::new());
    for model in fixtures {
        let name = model.file_stem().unwrap().to_str().unwrap();
        let out = folder.path().join(name);
        match run(&mut session, &request(&model, &out, threads)) {
            Err(error) => problems.push(format!("{name}: {error}")),
            Ok(outcome) if is_random(&outcome) => {}
            Ok(_) => {
                let theirs = folder.path().join(format!("{name}.safetensors"));
                if !theirs.exists() && NOT_IN_PYTHON.contains(&name) {
                    continue;
                }
                if !theirs.exists() {
                    problems.push(format!("{name}: Python has no result"));
                    continue;
                }
                let theirs = tensors(&theirs);
                let different = differences(&results(&model, &out), &theirs);
                compared += theirs.len();
                problems.extend(different.iter().map(|tensor| format!("{name}: {tensor} differs")));
            }
        }
    }
    session.finish();
    report(compared, &problems);
}

/// The models themselves, before export: their results lie beside the fixtures. They were run
/// as training runs them, with gradients recorded and one thread.
#[test]
fn every_fixture_gives_the_bits_of_the_model_it_was_exported_from() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = golden().start().unwrap();
    let (mut compared, mut problems) = (0, Vec::new());
    for model in fixtures() {
        let name = model.file_stem().unwrap().to_str().unwrap();
        let out = folder.path().join(name);
        let request = Run { grad: true, ..request(&model, &out, 1) };
        match run(&mut session, &request) {
            Err(error) => problems.push(format!("{name}: {error}")),
            Ok(outcome) if is_random(&outcome) => {}
            Ok(_) => {
                let theirs = tensors(&model.with_extension("outputs.safetensors"));
                let different = differences(&results(&model, &out), &theirs);
                compared += theirs.len();
                problems.extend(different.iter().map(|tensor| format!("{name}: {tensor} differs")));
            }
        }
    }
    session.finish();
    report(compared, &problems);
}
