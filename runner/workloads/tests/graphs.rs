//! The demo's graphs that lie in the repository are what the exporter writes today.

use std::path::Path;

use warpforge_pt2::Model;
use warpforge_snakeburger::text::{PrintOptions, print};
use warpforge_tests::{installed, root};

/// The program a graph stands for, for eight questions at once.
fn lowered(path: &Path) -> String {
    let mut model = Model::open(path).unwrap();
    let dims = model.dims_of([("input_ids", &[8, 44][..])]);
    model.specialise(&dims).unwrap();
    let program = warpforge_snakegrinder::lower(&model).unwrap();
    let options = PrintOptions { locations: false, ..PrintOptions::default() };
    print(program.module.module(), options)
}

#[test]
fn the_committed_graphs_are_the_exporters() {
    let folder = tempfile::tempdir().unwrap();
    let script = root().join("runner/snakegrinder/export/bert_qa.py");
    for name in ["train", "eval"] {
        let fresh = folder.path().join(format!("{name}.pt2"));
        let mut python = installed::python();
        python.env("PYTHONDONTWRITEBYTECODE", "1").arg(&script).arg(&fresh);
        let status = python.args(["--size", "demo", "--workload", name]).status().unwrap();
        assert!(status.success());
        let committed = root().join(format!("runner/workloads/src/bert_squad/{name}.pt2"));
        let told = format!(
            "{name}.pt2 is stale; run: .python/bin/python runner/snakegrinder/export/bert_qa.py \
             runner/workloads/src/bert_squad/{name}.pt2 --size demo --workload {name}"
        );
        // The texts are long: which line differs is told, not both of them.
        let (fresh, committed) = (lowered(&fresh), lowered(&committed));
        let differs = fresh.lines().zip(committed.lines()).find(|(a, b)| a != b);
        assert!(fresh == committed, "{told}\n{differs:?}");
    }
}
