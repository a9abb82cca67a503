//! Storage beside fio: the same folder, size, depth and block, direct, `io_uring`. Both tell the
//! median of windows of 50 ms. The folder is `WARPFORGE_PEERS_FOLDER`, else the current one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;
use warpforge_bench::statistics::median;

use super::in_turn;
use super::ours::{measure, output, pick, row};

const ROUNDS: usize = 2;
const SECONDS: u64 = 2;
const SIZE_MIB: &str = "1024";

/// A case of ours, and what fio calls it: the access, the block, the depth.
#[rustfmt::skip]
const CASES: &[(&str, &str, &str, &str)] = &[
    ("sequential-read-1", "read", "1024k", "1"),
    ("sequential-read-32", "read", "1024k", "32"),
    ("random-read-1", "randread", "4k", "1"),
    ("random-read-32", "randread", "4k", "32"),
    ("sequential-write-1", "write", "1024k", "1"),
    ("sequential-write-32", "write", "1024k", "32"),
    ("random-write-1", "randwrite", "4k", "1"),
    ("random-write-32", "randwrite", "4k", "32"),
];

pub fn run() -> Result<(), String> {
    let folder = std::env::var("WARPFORGE_PEERS_FOLDER").unwrap_or_else(|_| ".".to_owned());
    let own = tempfile::tempdir_in(&folder).map_err(|error| format!("{folder}: {error}"))?;
    println!("{:<44} {:>10} {:>10}  ratio", "storage, ours beside fio", "ours", "theirs");
    for (case, access, block, depth) in CASES {
        let ours = || {
            let set = [("folder", folder.as_str()), ("size_mib", SIZE_MIB), ("cases", case)];
            let found = measure("disk_io", &set, Duration::from_secs(SECONDS))?;
            let rate = if access.starts_with("rand") { "iops" } else { "bandwidth" };
            Ok(vec![pick(&found, rate, &[])?, pick(&found, "latency", &[("percentile", "p50")])?])
        };
        let theirs = || fio(own.path(), access, block, depth);
        let medians = in_turn(ROUNDS, ours, theirs)?;
        let [rate, latency] = medians[..] else { return Err("a figure is missing".to_owned()) };
        let unit = if access.starts_with("rand") { "IOPS" } else { "MB/s" };
        row(&format!("{case}, {unit}"), rate, rate.0 / rate.1);
        row(&format!("{case}, p50 in us"), latency, latency.1 / latency.0);
    }
    Ok(())
}

/// The rate in our unit, and the median latency in microseconds.
fn fio(folder: &Path, access: &str, block: &str, depth: &str) -> Result<Vec<f64>, String> {
    let file = folder.join("file").display().to_string();
    let log = folder.join("log").display().to_string();
    let text = output(
        "fio",
        &[
            "--name=peer",
            "--direct=1",
            "--ioengine=io_uring",
            "--time_based",
            "--ramp_time=300ms",
            "--log_avg_msec=50",
            // From submission to completion, as ours; by default it leaves out the submission.
            "--lat_percentiles=1",
            "--output-format=json",
            &format!("--runtime={SECONDS}"),
            &format!("--size={SIZE_MIB}m"),
            &format!("--filename={file}"),
            &format!("--write_iops_log={log}"),
            &format!("--rw={access}"),
            &format!("--bs={block}"),
            &format!("--iodepth={depth}"),
        ],
    )?;
    let windows = fs::read_to_string(format!("{log}_iops.1.log")).map_err(|e| e.to_string())?;
    let window = |line: &str| line.split(',').nth(1)?.trim().parse::<f64>().ok();
    let rates: Vec<_> = windows.lines().filter_map(window).collect();
    let scale = if block == "1024k" { f64::from(1 << 20) / 1e6 } else { 1.0 };
    let report: Json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let way = access.trim_start_matches("rand");
    let latency = &report["jobs"][0][way]["lat_ns"]["percentile"]["50.000000"];
    let latency = latency.as_f64().ok_or("fio gave no latency")? / 1e3;
    Ok(vec![median(&rates) * scale, latency])
}
