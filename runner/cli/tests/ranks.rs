//! `warpforge golden` by several processes on the loopback: what they make, what Pass 2 makes of
//! it, and how it ends when one of them is lost.

mod common;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Scratch, closed_port, read_json, text};
use warpforge_tests::root;

/// Settings that make the demo quick.
const SMALL: [&str; 8] = [
    "steps=4",
    "forced=2",
    "noise_runs=1",
    "batch_size=4",
    "evaluation_questions=20",
    "evaluation_batch_size=20",
    "expect={}",
    "checkpoint_every=2",
];

fn settings(more: &[&str]) -> Vec<String> {
    let all = SMALL.iter().chain(more);
    all.flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]).collect()
}

/// Golden by one process.
fn alone(scratch: &Scratch, out: &Path, more: &[&str]) {
    let settings = settings(more);
    let mut args = vec!["golden", "bert-squad", "--threads", "1", "--out", text(out)];
    args.extend(settings.iter().map(String::as_str));
    let (code, shown) = scratch.golden(&args);
    assert_eq!(code, 0, "{shown}");
}

/// Starts one of several processes.
fn start(
    scratch: &Scratch,
    (rank, ranks): (u32, u32),
    port: u16,
    out: &Path,
    more: &[&str],
) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("warpforge"));
    command.args(["golden", "bert-squad", "--threads", "1", "--out", text(out)]);
    command.args(["--ranks", &ranks.to_string(), "--rank", &rank.to_string()]);
    command.args(["--rendezvous", &format!("127.0.0.1:{port}"), "--peer-timeout", "60"]);
    command.args(settings(more)).current_dir(scratch.path()).env_clear();
    command.env("HOME", scratch.path().join("home"));
    command.env("LIBTORCH", root().join(".libtorch/torch"));
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Exit code and what was said.
fn end(mut child: Child) -> (i32, String) {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code().unwrap_or(-1), said)
}

/// Golden by so many processes, each with a folder that only rank 0 makes.
fn together(scratch: &Scratch, ranks: u32, out: &Path, more: &[&str]) {
    let port = closed_port();
    let folder = |rank: u32| match rank {
        0 => out.to_owned(),
        _ => scratch.path().join(format!("of-{rank}")),
    };
    // Rank 0 comes last: the others wait for it.
    let children: Vec<(u32, Child)> = (0..ranks)
        .rev()
        .map(|rank| (rank, start(scratch, (rank, ranks), port, &folder(rank), more)))
        .collect();
    for (rank, child) in children {
        let (code, said) = end(child);
        assert_eq!(code, 0, "rank {rank} of {ranks}: {said}");
        assert!(rank == 0 || !folder(rank).exists(), "rank {rank} wrote to its folder");
    }
}

fn losses(folder: &Path) -> Vec<f64> {
    let curve = read_json(&folder.join("loss_curve.json"));
    let steps = curve["steps"].as_array().unwrap().clone();
    steps.iter().map(|at| at["loss"].as_f64().unwrap()).collect()
}

/// All files of a folder but those that say who made it, with what is in them.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(inner) = open.pop() {
        for entry in fs::read_dir(&inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                found.push((name, fs::read(&path).unwrap()));
            }
        }
    }
    found.retain(|(name, _)| !["run.json", "complete.json"].contains(&text(name)));
    found.sort();
    found
}

#[test]
fn ranks_make_the_golden_of_one_process_with_the_same_global_batch() {
    let scratch = Scratch::new();
    let place = |name: &str| scratch.path().join(name);
    let (one, two) = (place("one"), place("two"));
    alone(&scratch, &one, &["accumulation=2"]);
    together(&scratch, 2, &two, &[]);
    // Halving is exact and two numbers have one sum: not a bit differs, in the free run, the
    // forced steps, the float64 of them, golden's own spread or the marks.
    let (a, b) = (contents(&one), contents(&two));
    let names = |all: &[(PathBuf, Vec<u8>)]| -> Vec<String> {
        all.iter().map(|(name, _)| text(name).to_owned()).collect()
    };
    assert_eq!(names(&a), names(&b));
    for name in ["checkpoint.safetensors", "gradients/step-2.safetensors", "metrics.json"] {
        assert!(names(&a).contains(&name.to_owned()), "{name}: {:?}", names(&a));
    }
    for ((name, one), (_, two)) in a.iter().zip(&b) {
        assert!(one == two, "{} differs", name.display());
    }
    let (of_one, of_two) = (read_json(&one.join("run.json")), read_json(&two.join("run.json")));
    assert_ne!(of_one["key"], of_two["key"]);
    assert_eq!(of_two["configuration"]["bert-squad"]["ranks"], 2);

    // Made once, it is not made again, and all ranks are told.
    let before = fs::metadata(two.join("checkpoint.safetensors")).unwrap().modified().unwrap();
    together(&scratch, 2, &two, &[]);
    let after = fs::metadata(two.join("checkpoint.safetensors")).unwrap().modified().unwrap();
    assert_eq!(before, after);

    // Four numbers have several sums, which differ by rounding.
    let (one, four) = (place("one-of-four"), place("four"));
    let brief = ["forced=1", "noise_runs=0", "evaluation_questions=0"];
    alone(&scratch, &one, &[&brief[..], &["accumulation=4"]].concat());
    together(&scratch, 4, &four, &brief);
    let (one, four) = (losses(&one), losses(&four));
    assert_eq!(one.len(), 4);
    for (a, b) in one.iter().zip(&four) {
        assert!((a / b - 1.0).abs() < 1e-5, "{one:?} {four:?}");
    }
}

#[test]
fn pass_2_of_one_process_passes_beside_the_golden_of_two() {
    let scratch = Scratch::new();
    let (golden, ours) = (scratch.path().join("golden"), scratch.path().join("ours"));
    together(&scratch, 2, &golden, &["steps=6"]);
    let args = ["execute", "bert-squad", "--golden", text(&golden), "--out", text(&ours)];
    let (code, shown) = scratch.golden(&args);
    assert_eq!(code, 0, "{shown}");
    let args = ["validate", "--golden", text(&golden), "--candidate", text(&ours)];
    let (code, shown) = scratch.golden(&[&args[..], &["--fail-on-mismatch"]].concat());
    assert_eq!(code, 0, "{shown}");
    assert!(shown.to_lowercase().contains("pass"), "{shown}");
}

#[test]
fn a_rank_that_is_killed_ends_the_other_and_both_go_on_to_the_same_bits() {
    let scratch = Scratch::new();
    let place = |name: &str| scratch.path().join(name);
    let (whole, cut) = (place("whole"), place("cut"));
    let more = ["steps=12", "evaluation_questions=0"];
    together(&scratch, 2, &whole, &more);

    let port = closed_port();
    let mut lost = start(&scratch, (1, 2), port, &place("of-1"), &more);
    let first = start(&scratch, (0, 2), port, &cut, &more);
    let begun = Instant::now();
    let steps = || {
        let text = fs::read(cut.join("work/progress.json")).unwrap_or_default();
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        json["steps"].as_u64().unwrap_or(0)
    };
    while steps() < 2 {
        assert!(begun.elapsed() < Duration::from_mins(2), "no checkpoint was made");
        thread::sleep(Duration::from_millis(5));
    }
    lost.kill().unwrap();
    lost.wait().unwrap();
    let killed = Instant::now();
    let (code, said) = end(first);
    assert!(killed.elapsed() < Duration::from_secs(30), "{:?}", killed.elapsed());
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("rank 0 of 2, ") && said.contains("lost another rank"), "{said}");
    assert!(said.contains("see what the other ranks say"), "{said}");

    together(&scratch, 2, &cut, &more);
    for name in ["loss_curve.json", "checkpoint.safetensors", "gradients/step-6.safetensors"] {
        let (a, b) = (fs::read(whole.join(name)).unwrap(), fs::read(cut.join(name)).unwrap());
        assert!(a == b, "{name} differs");
    }
}

#[test]
fn a_rank_that_never_comes_or_has_other_settings_is_named() {
    let scratch = Scratch::new();
    let out = scratch.path().join("out");
    let place = format!("127.0.0.1:{}", closed_port());
    let settings = settings(&[]);
    let mut args = vec!["golden", "bert-squad", "--out", text(&out), "--ranks", "2", "--rank", "0"];
    args.extend(["--rendezvous", &place, "--peer-timeout", "2"]);
    args.extend(settings.iter().map(String::as_str));
    let begun = Instant::now();
    let (code, shown) = scratch.golden(&args);
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    assert_eq!(code, 3, "{shown}");
    assert!(shown.contains("for rank 1 of 2, at most 2.0 s"), "{shown}");

    let port = closed_port();
    let second = start(&scratch, (1, 2), port, &scratch.path().join("of-1"), &["batch_size=2"]);
    let (code, said) = end(start(&scratch, (0, 2), port, &out, &[]));
    let (theirs, _) = end(second);
    // One of them may find the other gone already, which is no verdict on its settings.
    assert!([code, theirs].contains(&2) && [code, theirs].iter().all(|code| [2, 3].contains(code)));
    assert!(code == 3 || said.contains("rank 1 and rank 0 differ in their settings"), "{said}");
}

#[test]
fn what_ranks_cannot_do_is_refused_with_a_cure() {
    let scratch = Scratch::new();
    let out = scratch.path().join("out");
    let at = ["--rendezvous", "127.0.0.1:1"];
    let cases: [(&[&str], &str); 6] = [
        (&["--ranks", "2"], "add --rank R and --rendezvous HOST:PORT"),
        (&["--ranks", "2", "--rank", "2", at[0], at[1]], "there is no rank 2 among 2"),
        (&["--ranks", "2", "--rank", "0", at[0], at[1], "--device", "cuda"], "not on cuda:0"),
        (&["--ranks", "2", "--rank", "0", "--rendezvous", "here"], "say it as HOST:PORT"),
        (&["--ranks", "0"], "0 is not in"),
        (&["--set", "ranks=2"], "there is no setting ranks"),
    ];
    for (more, said) in cases {
        let args = [&["golden", "bert-squad", "--out", text(&out)], more].concat();
        let (code, shown) = scratch.golden(&args);
        assert_eq!(code, 2, "{args:?}\n{shown}");
        assert!(shown.contains(said), "{args:?}\n{shown}");
    }
}
