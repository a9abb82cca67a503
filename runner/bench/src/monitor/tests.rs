use std::thread::sleep;

use super::*;
use crate::fixture::Tree;

const GPU: &str = "sys/bus/pci/devices/0000:c1:00.0";
const COUNT: &str = "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count";

/// A machine with one AMD GPU, whose processors were busy for a quarter of the time so far.
fn machine() -> Tree {
    let tree = Tree::new(&[
        ("proc/stat", "cpu  25 0 0 75 0 0 0 0 0 0\n"),
        ("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n"),
        (COUNT, "0\n"),
    ]);
    let put = |file: &str, text: &str| tree.put(&format!("{GPU}/{file}"), text);
    put("vendor", "0x1002\n");
    put("device", "0x74a1\n");
    put("class", "0x120000\n");
    put("driver", "-> ../../../../bus/pci/drivers/amdgpu");
    put("unique_id", "2f0c8d1d2b3a4e5f\n");
    put("gpu_busy_percent", "50\n");
    put("hwmon/hwmon4/power1_average", "300000000\n");
    tree
}

fn options(tree: &Tree, milliseconds: u64) -> Options {
    let interval = Duration::from_millis(milliseconds);
    Options { interval, sysroot: tree.root(), nvml: "libno-such-nvml.so.1" }
}

/// Waits until the monitor has made so many records.
fn until(handle: &Handle, records: usize) {
    while lock(&handle.0.taken).len() < records {
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_timeline_has_the_documented_form() {
    let tree = machine();
    let monitor = Monitor::start(options(&tree, 20));
    tree.put("proc/stat", "cpu  75 0 0 125 0 0 0 0 0 0\n");
    until(&monitor.handle(), 2);
    let timeline = monitor.stop();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("timeline.json");
    timeline.write(&path).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    let text = std::fs::read_to_string(&path).unwrap();
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    let records = read.as_array().unwrap();
    assert!(records.len() >= 2, "{text}");
    let first = &records[0];
    assert_eq!(first["cpu_utilization_percent"], 50.0);
    assert_eq!(first["total_memory_bytes"], 1_024_000);
    assert_eq!(first["memory_utilization_percent"], 40.0);
    assert_eq!(first["memory_of"], "machine");
    let gpu = &first["gpu_usage"][0];
    assert_eq!((&gpu["index"], &gpu["utilization_percent"]), (&0.into(), &50.0.into()));
    assert_eq!((&gpu["power_watts"], &gpu["model"]), (&300.0.into(), &serde_json::Value::Null));
    assert_eq!(gpu["guid"], "2f0c8d1d2b3a4e5f");
    let stamp = first["timestamp"].as_str().unwrap();
    assert!(stamp.ends_with('Z') && stamp.parse::<jiff::Timestamp>().is_ok(), "{stamp}");
    let back: Vec<Record> = serde_json::from_str(&text).unwrap();
    assert!(back.iter().eq(timeline.taken.iter().map(|taken| &taken.record)));
}

#[test]
fn what_is_missing_is_said_once_and_stops_nothing() {
    let monitor = Monitor::start(options(&Tree::new(&[]), 10));
    let handle = monitor.handle();
    let answered = || !lock(&handle.0.missing).iter().any(|missing| missing == PENDING);
    while !answered() {
        sleep(Duration::from_millis(1));
    }
    let timeline = monitor.stop();
    let missing = &timeline.summary.missing;
    assert_eq!(missing[0], "NVIDIA: libno-such-nvml.so.1 not found");
    assert!(
        missing.contains(&"AMD: no GPU that the amdgpu driver holds".to_owned()),
        "{missing:?}"
    );
    assert!(missing.contains(&"memory: no /proc/meminfo".to_owned()), "{missing:?}");
    let record = &timeline.taken[0].record;
    assert_eq!((record.cpu_utilization_percent, record.total_memory_bytes), (None, None));
    assert!(record.gpu_usage.is_empty());
}

#[test]
fn a_summary_holds_what_ran_between_two_moments() {
    let tree = machine();
    let monitor = Monitor::start(options(&tree, 60_000));
    let handle = monitor.handle();
    sleep(Duration::from_millis(20));
    // Shorter than the interval by far, and looked at all the same.
    let from = Instant::now();
    tree.put("proc/stat", "cpu  125 0 0 75 0 0 0 0 0 0\n");
    tree.put(&format!("{GPU}/hwmon/hwmon4/power1_average"), "500000000\n");
    sleep(Duration::from_millis(20));
    let first = handle.summary(from, Instant::now());
    assert_eq!((first.records, first.cpu_mean_percent), (1, Some(100.0)));
    assert_eq!(first.gpus[0].max_power_watts, Some(500.0));

    let from = Instant::now();
    tree.put("proc/stat", "cpu  125 0 0 175 0 0 0 0 0 0\n");
    sleep(Duration::from_millis(20));
    let second = handle.summary(from, Instant::now());
    assert_eq!((second.records, second.cpu_mean_percent), (1, Some(0.0)));
    sleep(Duration::from_millis(20));
    let all = monitor.stop().summary;
    assert_eq!((all.records, all.cpu_max_percent), (3, Some(100.0)), "the last at the end");
}

#[test]
fn a_sample_beside_heat_is_throttled() {
    let tree = machine();
    let monitor = Monitor::start(options(&tree, 60_000));
    let handle = monitor.handle();
    let block = |hot: &str| {
        let from = Instant::now();
        tree.put(COUNT, hot);
        sleep(Duration::from_millis(3));
        let to = Instant::now();
        (handle.throttled(from, to), from, to)
    };
    let (cool, from, to) = block("0\n");
    assert!(!cool);
    assert!(block("1\n").0);
    assert!(!block("1\n").0);
    assert!(!handle.throttled(from, to), "the first one stays cool");
    assert_eq!(monitor.stop().summary.cpu_throttle_events, Some(0), "one record has no difference");
}

#[test]
fn the_real_machine_is_watched_at_a_small_and_stated_cost() {
    let monitor = Monitor::start(Options::every(Duration::from_millis(50)));
    until(&monitor.handle(), 10);
    let timeline = monitor.stop();
    let summary = &timeline.summary;
    assert!(summary.records >= 10 && summary.seconds >= 0.5, "{summary:?}");
    // Twenty looks a second: at one a second the same cost is below 1 %.
    assert!(summary.overhead_percent > 0.0 && summary.overhead_percent < 20.0, "{summary:?}");
    assert_eq!(summary.interval_seconds, 0.05);
    let record = &timeline.taken[5].record;
    assert!(record.total_memory_bytes.unwrap() > 1 << 20);
    assert!((0.0..=100.0).contains(&record.memory_utilization_percent.unwrap()));
    let in_order = timeline.taken.is_sorted_by(|a, b| a.at < b.at);
    assert!(in_order);
}

#[test]
fn a_monitor_that_is_dropped_ends() {
    let tree = machine();
    let monitor = Monitor::start(options(&tree, 60_000));
    let shared = Arc::downgrade(&monitor.handle().0);
    drop(monitor);
    let begun = Instant::now();
    while shared.strong_count() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "its thread goes on");
        sleep(Duration::from_millis(1));
    }
}
