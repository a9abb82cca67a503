//! What unit tests share: trees that stand for `/`, noise, and runs.

use std::fs;
use std::os::unix::fs::symlink;

use warpforge_parity::verdict::Verdict;

use crate::Sysroot;
use crate::drive::HARDWARE;
use crate::model::{
    BenchmarkId, BenchmarkMetric, BenchmarkRunResult, BenchmarkSpec, BenchmarkSuiteRun, Component,
    Kind, VERSION, Value,
};

pub(crate) struct Tree(tempfile::TempDir);

impl Tree {
    /// A tree with these files; a content of the form `-> target` makes a symbolic link.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().expect("a temporary directory"));
        for (path, content) in files {
            tree.put(path, content);
        }
        tree
    }

    pub(crate) fn put(&self, path: &str, content: &str) {
        let path = self.root().path(path);
        fs::create_dir_all(path.parent().expect("a file has a parent")).expect("mkdir");
        match content.strip_prefix("-> ") {
            Some(target) => symlink(target, path).expect("symlink"),
            None => fs::write(path, content).expect("write"),
        }
    }

    pub(crate) fn root(&self) -> Sysroot {
        Sysroot::at(self.0.path())
    }
}

/// Random numbers that are the same in every run.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1))
    }

    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between 0 and 1, neither of them.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// A run of one benchmark that passed.
pub(crate) fn run_of(name: &str, metrics: Vec<BenchmarkMetric>) -> BenchmarkSuiteRun {
    let spec = BenchmarkSpec {
        id: BenchmarkId::new("micro", name),
        components: vec![Component::Cpu],
        kind: Kind::Synthetic,
        description: None,
        default_duration_seconds: Some(1),
        external_tool: None,
        headline: None,
        params: [("size".to_owned(), Value::Integer(1))].into(),
    };
    let result = BenchmarkRunResult {
        spec,
        metrics,
        success: true,
        error_message: None,
        start_time: "2026-01-01T00:00:00Z".to_owned(),
        end_time: "2026-01-01T00:00:01Z".to_owned(),
        system: None,
        verdict: Verdict::Pass,
        reason: None,
        monitor: None,
    };
    BenchmarkSuiteRun {
        version: VERSION,
        suite: "micro".to_owned(),
        components: vec![Component::Cpu],
        benchmarks: vec![result],
        metadata: [(HARDWARE.to_owned(), "a machine".to_owned())].into(),
        complete: true,
        verdict: Verdict::Pass,
        score: None,
    }
}
