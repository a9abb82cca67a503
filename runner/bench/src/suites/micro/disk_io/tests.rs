use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::thread;

use super::content::{Content as _, Whole};
use super::*;
use crate::suite::Stop;
use crate::suites::micro::trial::{measure, params, rounds};

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

fn failure(others: &[(&str, &str)]) -> String {
    let error = measure(make(), &params(&spec(), others), &Stop::default(), 1).unwrap_err();
    assert!(matches!(error, Unable::Failed(_)), "{error:?}");
    error.to_string()
}

#[test]
fn every_case_has_a_rate_and_latencies() {
    let (kept, path) = folder();
    let given = params(&spec(), &[("folder", &path), ("size_mib", "16")]);
    let found = measure(make(), &given, &Stop::default(), 80).unwrap();
    let tag = |metric: &BenchmarkMetric, name: &str| metric.tags[name].clone();
    let cases: BTreeSet<_> = found
        .iter()
        .map(|metric| ["access", "operation", "depth"].map(|name| tag(metric, name)).join("-"))
        .collect();
    assert!(cases.iter().map(String::as_str).eq(CASES_IN_ORDER), "{cases:?}");
    for metric in &found {
        assert!(metric.value > 0.0 && metric.value.is_finite(), "{metric:?}");
        let access = tag(metric, "access");
        match metric.name.as_str() {
            "bandwidth" => {
                assert_eq!((access.as_str(), metric.unit.as_str()), ("sequential", "MB/s"))
            }
            "iops" => assert_eq!((access.as_str(), metric.unit.as_str()), ("random", "IOPS")),
            latency => assert!(latency == "latency" && !metric.higher_is_better),
        }
    }
    assert!(
        found
            .iter()
            .filter(|metric| metric.tags.get("percentile").is_some_and(|p| p == "p50"))
            .count()
            == 8
    );
    assert_eq!(fs::read_dir(kept.path()).unwrap().count(), 0);
}

const CASES_IN_ORDER: [&str; 8] = [
    "random-read-1",
    "random-read-32",
    "random-write-1",
    "random-write-32",
    "sequential-read-1",
    "sequential-read-32",
    "sequential-write-1",
    "sequential-write-32",
];

#[test]
fn only_the_cases_that_are_asked_for_run() {
    let (_kept, path) = folder();
    let some = "random-read-1, sequential-write-32";
    let given = params(&spec(), &[("folder", &path), ("size_mib", "16"), ("cases", some)]);
    let found = measure(make(), &given, &Stop::default(), 20).unwrap();
    let rates = found.iter().filter(|metric| metric.higher_is_better);
    assert!(rates.map(|metric| metric.name.as_str()).eq(["iops", "bandwidth"]));
    let text = failure(&[("cases", "random-read-2")]);
    assert!(text.starts_with("there is no case \"random-read-2\": all, or some of "), "{text}");
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    assert_eq!(failure(&[("block_kib", "6")]), "block_kib is 6: a multiple of 4 up to 16384");
    assert_eq!(failure(&[("size_mib", "-1")]), "size_mib is -1: it has to be 16 or more");
    let text = failure(&[("folder", "/nonexistent")]);
    assert!(text.contains("/nonexistent"), "{text}");
    let (kept, path) = folder();
    let text = failure(&[("folder", &path), ("size_mib", "1000000000000")]);
    assert!(text.contains("MiB free, and 1000000000064 MiB are needed"), "{text}");
    assert_eq!(fs::read_dir(kept.path()).unwrap().count(), 0);
}

#[test]
fn while_it_runs_the_folder_is_empty_and_the_file_open() {
    let (kept, path) = folder();
    let given =
        params(&spec(), &[("folder", &path), ("size_mib", "16"), ("cases", "random-read-1")]);
    let stop = Stop::default();
    thread::scope(|scope| {
        let run = scope.spawn(|| measure(make(), &given, &stop, 60_000));
        let open = || {
            let files = fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
            let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
            links.any(|link| {
                let link = link.to_string_lossy();
                link.starts_with(&path) && link.ends_with(" (deleted)")
            })
        };
        while !open() {
            assert!(!run.is_finished(), "{:?}", run.join());
            thread::yield_now();
        }
        assert_eq!(fs::read_dir(kept.path()).unwrap().count(), 0);
        stop.set();
        assert_eq!(run.join().unwrap(), Err(Unable::Interrupted));
        assert!(!open());
    });
}

#[test]
fn what_comes_from_elsewhere_is_a_wrong_result() {
    let (_kept, path) = folder();
    let scratch = Scratch::create(&path, 16 * MIB).unwrap();
    let plan = Plan { order: Order::Sequential, write: true, depth: 4, block: FILL, blocks: 16 };
    let mut content = Whole { round: 1 };
    let all = |plan: Plan, content: &mut Whole| {
        let mut drive = Drive::begin(&scratch.file, plan, content, (0, 16))?;
        let mut operations = 0;
        while let done @ 1.. = drive.block(SAMPLE)?.operations {
            operations += done;
        }
        Ok::<_, Unable>(operations)
    };
    assert_eq!(all(plan, &mut content), Ok(16));
    let read = Plan { write: false, ..plan };
    assert_eq!(all(read, &mut content), Ok(16));
    // A device that lost a write: one page is still what another round wrote there.
    let mut page = memory::Memory::new(PAGE).unwrap();
    Whole { round: 0 }.fill(5 * MIB, &mut page);
    scratch.file.write_all_at(&page, 5 * MIB).unwrap();
    let text = "what was read is not what was written, at byte 5242888 of the file: \
                wanted 0x0000000000000001, found 0x0000000000000000";
    assert_eq!(all(read, &mut content), Err(Unable::Wrong(text.to_owned())));
}

#[test]
fn the_load_checks_every_byte_it_wrote() {
    let (kept, path) = folder();
    let given = params(&spec(), &[("folder", &path), ("size_mib", "16")]);
    let mut storage = load();
    let done = rounds(&mut *storage, &given, 3).unwrap();
    for round in done {
        assert!(round.checks >= MIB && round.amount == 2.0 * round.checks as f64, "{round:?}");
        assert!(round.checks <= 16 * MIB, "a round goes over the file once: {round:?}");
    }
    assert_eq!(storage.unit(), "B");
    assert_eq!(fs::read_dir(kept.path()).unwrap().count(), 0);
}
