//! A report with everything in it, made by the same calls a run makes.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::collections::BTreeMap;

use warpforge_parity::compare::{Dtype, Tensor};
use warpforge_parity::judge::{Parity, Settings, TensorReport, judge_pair};
use warpforge_parity::localise::{Bounds, Localised, Measured, Node, ToOracle, localise};
use warpforge_parity::performance::Pass;
use warpforge_parity::report::{
    Executed, Fallback, OracleInfo, OracleScope, Report, Series, SideInfo, Span, Timeline, Timing,
};
use warpforge_parity::tolerance::Kind;

/// What someone might name a tensor to get into the page.
pub const HOSTILE: &str = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\u{202e}\u{1}";

/// Numbers from a small generator, the same everywhere.
pub fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    }
}

/// A tensor of which both sides differ by about `error` of its size.
pub fn pair(name: &str, kind: Kind, shape: &[usize], error: f64) -> TensorReport {
    let count: usize = shape.iter().product();
    let mut next = noise(count as u64 + name.len() as u64);
    let golden: Vec<f32> = (0..count).map(|_| (next() + next()) as f32).collect();
    let moved = |g: &f32, by: f64| (f64::from(*g) * (1.0 + error * by)) as f32;
    let candidate: Vec<f32> = golden.iter().map(|g| moved(g, next())).collect();
    let bytes = |side: &[f32]| side.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let (golden, candidate) = (bytes(&golden), bytes(&candidate));
    let tensor = |data| Tensor { dtype: Dtype::F32, shape, data };
    judge_pair(name, kind, &tensor(&golden), &tensor(&candidate), None, &Settings::default())
}

const PARTS: [(&str, &str); 8] = [
    ("attention.self.query", "linear"),
    ("attention.self.key", "linear"),
    ("attention.self", "scaled_dot_product_attention"),
    ("attention.output.dense", "linear"),
    ("attention.output.LayerNorm", "layer_norm"),
    ("intermediate.dense", "linear"),
    ("intermediate.act", "gelu"),
    ("output.LayerNorm", "layer_norm"),
];

/// A transformer whose GELU of one layer is another function.
pub fn layers(blocks: usize, broken: Option<usize>) -> Localised {
    let mut nodes = vec![Node {
        name: "embedding".into(),
        module_path: "bert.embeddings.word".into(),
        op: "embedding".into(),
        inputs: vec!["input_ids".into()],
    }];
    for block in 0..blocks {
        for (part, op) in PARTS {
            let inputs = vec![nodes.last().map_or_else(String::new, |node| node.name.clone())];
            nodes.push(Node {
                name: format!("{op}_{}", nodes.len()),
                module_path: format!("bert.encoder.layer.{block}.{part}"),
                op: op.into(),
                inputs,
            });
        }
    }
    let mut next = noise(7);
    let broken_at = broken.map(|block| 1 + block * PARTS.len() + 6);
    let measured: Vec<Measured> = (0..nodes.len())
        .map(|number| {
            let rounding = 1e-7 * (1.0 + number as f64 / 6.0) * (1.0 + 0.4 * next());
            let wrong = broken_at.is_some_and(|at| number >= at);
            let extra = if wrong { 4e-3 * (1.0 + 0.3 * next()) } else { 0.0 };
            let candidate = rounding * (1.0 + 0.2 * next()) + extra;
            Measured {
                to_golden: Some(candidate * 1.1),
                to_oracle: Some(ToOracle { golden: rounding, candidate }),
            }
        })
        .collect();
    let mut alone = |node: usize| Some(if Some(node) == broken_at { 4e-3 } else { 2e-8 });
    localise(&nodes, &measured, &Bounds::default(), &mut alone)
}

/// A run that fails at one operation.
pub fn failing() -> Report {
    let tensors = vec![
        pair("outputs/start_logits", Kind::Outputs, &[8, 384], 8e-3),
        pair("outputs/end_logits", Kind::Outputs, &[8, 384], 6e-3),
        pair("outputs/pooler", Kind::Outputs, &[8, 1024], 3e-7),
        pair("checkpoint/bert.embeddings.word_embeddings.weight", Kind::Weights, &[64, 512], 2e-7),
        pair("loss_curve", Kind::Loss, &[100], 1e-8),
    ];
    let parity = Parity::of(tensors, Vec::new(), Settings::default().tolerances);
    let mut report = Report::new("bert-base-squad", parity).with_layers(layers(4, Some(2)));
    if let Some(first) = &mut report.first_divergence {
        first.repro = Some("warpforge hlo run run-17/repro/gelu_23.mlir".into());
    }
    fill(&mut report);
    report
}

/// A run that passes.
pub fn passing() -> Report {
    let tensors = vec![
        pair("outputs/logits", Kind::Outputs, &[4, 1000], 2e-7),
        pair("outputs/hidden", Kind::Outputs, &[4, 64, 32], 1e-7),
    ];
    let parity = Parity::of(tensors, Vec::new(), Settings::default().tolerances);
    let mut report = Report::new("resnet50", parity).with_layers(layers(2, None));
    fill(&mut report);
    report
}

/// Every text from outside is an attack.
pub fn hostile() -> Report {
    let mut report = failing();
    let attack = || HOSTILE.to_owned();
    report.title = attack();
    report.created = Some(attack());
    report.summary = attack();
    for tensor in &mut report.tensors {
        tensor.name = attack();
        tensor.dtype = attack();
    }
    let shapes = warpforge_parity::verdict::Reason::ExtraTensor { tensor: attack() };
    report.reasons = vec![shapes.clone(), shapes];
    for layer in &mut report.layers {
        layer.name = attack();
        layer.module_path = attack();
        layer.op = attack();
    }
    if let Some(first) = &mut report.first_divergence {
        first.name = attack();
        first.module_path = attack();
        first.op = attack();
        first.repro = Some(attack());
    }
    report.golden = SideInfo { source: attack(), program: Some(attack()), device: Some(attack()) };
    report.executed.operations = BTreeMap::from([(attack(), BTreeMap::from([(attack(), 1)]))]);
    report.executed.fallbacks[0].why = attack();
    if let Some(timeline) = &mut report.timeline {
        timeline.missing = vec![attack()];
        timeline.series[0].name = attack();
        timeline.series[2].unit = attack();
        timeline.spans[0].name = attack();
    }
    report.versions = BTreeMap::from([(attack(), attack())]);
    report.formats = BTreeMap::from([(attack(), attack())]);
    report.system = Some(serde_json::json!({ HOSTILE: [HOSTILE, { HOSTILE: HOSTILE }] }));
    report
}

/// A minute of a machine with one GPU, which golden keeps busy and the candidate does not.
pub fn timeline() -> Timeline {
    let seconds: Vec<f64> = (1..=60).map(f64::from).collect();
    let series = |name: &str, unit: &str, golden: f64, candidate: f64| {
        let wave = |s: &f64| if *s <= 24.0 { golden } else { candidate } * (1.0 + 0.06 * s.sin());
        let value = |s: &f64| (*s > 2.0).then(|| wave(s));
        Series { name: name.into(), unit: unit.into(), values: seconds.iter().map(value).collect() }
    };
    let span = |name: &str, pass, from_seconds, to_seconds| Span {
        name: name.into(),
        pass,
        from_seconds,
        to_seconds,
    };
    Timeline {
        interval_seconds: 1.0,
        series: vec![
            series("CPU", "%", 30.0, 93.0),
            series("memory", "%", 20.0, 41.0),
            series("GPU 0", "W", 610.0, 70.0),
        ],
        seconds,
        spans: vec![
            span("golden", Some(Pass::Golden), 1.5, 16.0),
            span("golden in float64", Some(Pass::Golden), 16.0, 24.0),
            span("warpforge", Some(Pass::Warpforge), 24.0, 52.0),
            span("comparing", None, 52.0, 60.4),
        ],
        missing: vec!["CPU temperature: no sensor of a processor".into()],
        overhead_percent: 0.04,
    }
}

fn fill(report: &mut Report) {
    report.timeline = Some(Box::new(timeline()));
    report.created = Some("2031-04-05T06:07:08Z".into());
    report.golden = SideInfo {
        source: "libtorch 2.11.0, op by op".into(),
        program: Some("sha256:5f1c2b7a9d3e".into()),
        device: Some("cpu, 2 threads".into()),
    };
    report.candidate = SideInfo {
        source: "WarpForge, tier correctness".into(),
        program: Some("sha256:0a44e1d0c6b2".into()),
        device: Some("cpu, 2 threads".into()),
    };
    report.oracle =
        Some(OracleInfo { source: "libtorch in float64".into(), scope: OracleScope::Whole });
    let timing = |median: f64| Timing {
        samples: 25,
        median_ns: median,
        min_ns: Some(median * 0.96),
        max_ns: Some(median * 1.2),
        prepare_ns: Some(median * 9.0),
    };
    report.timings.golden = Some(timing(41_300_000.0));
    report.timings.candidate = Some(timing(187_000_000.0));
    let counts = [("dot_general", 98), ("add", 211), ("gelu", 24), ("reduce", 96)];
    let counts = counts.map(|(op, count)| (op.to_owned(), count));
    report.executed = Executed {
        operations: BTreeMap::from([("reference".to_owned(), BTreeMap::from(counts))]),
        fallbacks: vec![Fallback {
            op: "sort".into(),
            count: 2,
            from: "cpu".into(),
            to: "reference".into(),
            why: "no kernel for it yet".into(),
        }],
    };
    report.seeds = BTreeMap::from([("weights".to_owned(), 17), ("inputs".to_owned(), 4)]);
    report.formats = BTreeMap::from([("compute".to_owned(), "f32".to_owned())]);
    report.versions = BTreeMap::from([("warpforge".to_owned(), "0.1.0".to_owned())]);
    report.system = Some(serde_json::json!({
        "cpu": { "model": "Example 9000", "cores": 16, "features": ["avx2", "fma"] },
        "memory": { "total_bytes": 137_438_953_472u64 },
        "gpus": [],
    }));
}
