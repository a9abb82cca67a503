//! Ratios, verdicts and baselines on tables of numbers.

use super::*;

fn blocks(golden: &[f64], candidate: &[f64]) -> Blocks {
    of(golden, candidate, rules())
}

fn of(golden: &[f64], candidate: &[f64], rules: Rules) -> Blocks {
    let block = |pass, seconds| Block { pass, steps: 10, seconds };
    // ABBA.
    let pairs = golden.iter().zip(candidate).enumerate();
    let blocks = pairs.flat_map(|(i, (g, c))| {
        let (g, c) = (block(Pass::Golden, *g), block(Pass::Warpforge, *c));
        if i % 2 == 0 { [g, c] } else { [c, g] }
    });
    Blocks {
        version: VERSION,
        blocks: blocks.collect(),
        items_per_step: 8.0,
        unit: "samples/s".into(),
        peak_memory_bytes: PeakMemory { golden: Some(1 << 30), warpforge: Some(2 << 30) },
        rules,
    }
}

fn rules() -> Rules {
    Rules {
        judged: true,
        allowed_delta: Some(0.15),
        baseline_delta: 0.15,
        workload: "bert-squad/demo".into(),
        hardware_class: "x86_64, 2 cores".into(),
        ..Rules::default()
    }
}

fn with_baseline(ratio: f64) -> Baselines {
    let mut baselines = Baselines::default();
    let steady = [1.0, 1.0, 1.0];
    let measured = judge(&blocks(&steady, &steady.map(|x| x / ratio)), &baselines);
    let measured = Performance { verdict: None, ..measured };
    baselines.promote(&measured, "2031-01-01T00:00:00Z".into(), "run".into()).unwrap();
    baselines
}

#[test]
fn the_interval_decides_against_golden_and_against_the_baseline() {
    let even = [1.0, 1.02, 0.98, 1.01, 1.0, 0.99];
    let shaky = [1.0, 3.0, 0.4, 2.0, 0.5, 1.4];
    let times = |values: [f64; 6], by: f64| values.map(|x| x * by);
    for (candidate, baseline, wanted) in [
        (times(even, 1.0), 1.0, Verdict::Pass),
        (times(even, 1.1), 1.0, Verdict::Pass),
        (times(even, 1.3), 1.0, Verdict::Fail),
        (times(even, 1.0), 1.5, Verdict::Fail),
        (times(shaky, 1.0), 1.0, Verdict::Inconclusive),
    ] {
        let found = judge(&blocks(&even, &candidate), &with_baseline(baseline));
        assert_eq!(found.verdict, Some(wanted), "{candidate:?} {}", found.summary);
    }
}

#[test]
fn no_baseline_is_inconclusive_and_the_interpreter_is_not_judged() {
    let even = [1.0; 4];
    let found = judge(&blocks(&even, &even), &Baselines::default());
    assert_eq!(found.verdict, Some(Verdict::Inconclusive));
    assert!(found.summary.contains("no baseline of bert-squad/demo"), "{}", found.summary);
    let why_not = Some("the reference interpreter is not meant to be fast".to_owned());
    let rules = Rules { judged: false, why_not, ..rules() };
    let slow = of(&even, &even.map(|x| 40.0 * x), rules);
    let found = judge(&slow, &Baselines::default());
    assert_eq!(found.verdict, None);
    assert_eq!(
        found.summary,
        "golden 80.0 samples/s, candidate 2.00 samples/s: 0.0250\u{d7} golden (0.0250 to 0.0250); \
         reported, not judged: the reference interpreter is not meant to be fast"
    );
}

#[test]
fn passes_that_did_not_take_turns_are_inconclusive() {
    let mut made = blocks(&[1.0; 4], &[1.0; 4]);
    made.blocks.sort_by_key(|block| block.pass == Pass::Warpforge);
    let found = judge(&made, &with_baseline(1.0));
    assert_eq!((found.verdict, found.interleaved), (Some(Verdict::Inconclusive), false));
    made.blocks.retain(|block| block.pass == Pass::Golden);
    assert_eq!(judge(&made, &Baselines::default()).verdict, Some(Verdict::Invalid));
    let mut baselines = Baselines::default();
    assert!(matches!(
        baselines.promote(&found, String::new(), String::new()),
        Err(BaselineError::NothingMeasured)
    ));
}

#[test]
fn an_a_a_measurement_says_same() {
    // The interval of two equal passes holds 1 in about 95 of 100 runs.
    let mut state = 1u64;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + 0.05 * ((state >> 33) as f64 / f64::from(1u32 << 31) - 0.5)
    };
    let mut holds = 0;
    for _ in 0..1000 {
        let golden: Vec<f64> = (0..6).map(|_| next()).collect();
        let candidate: Vec<f64> = (0..6).map(|_| next()).collect();
        let (low, high) = ratio(&golden, &candidate).unwrap().interval.unwrap();
        holds += u32::from(low <= 1.0 && 1.0 <= high);
    }
    assert!((920..=980).contains(&holds), "{holds}");
}

#[test]
fn baselines_survive_the_disk_and_are_replaced_only_by_promotion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baselines.json");
    assert_eq!(Baselines::load(&path).unwrap(), Baselines::default());
    let mut baselines = with_baseline(1.0);
    baselines.save(&path).unwrap();
    assert_eq!(Baselines::load(&path).unwrap(), baselines);
    let even = [1.0; 4];
    let measured = judge(&blocks(&even, &even), &baselines);
    let before = baselines.promote(&measured, "later".into(), "run".into()).unwrap();
    assert_eq!(before.unwrap().promoted, "2031-01-01T00:00:00Z");
    let slow = judge(&blocks(&even, &even.map(|x| 2.0 * x)), &baselines);
    assert!(matches!(
        baselines.promote(&slow, String::new(), String::new()),
        Err(BaselineError::NotGood(Verdict::Fail))
    ));
    std::fs::write(&path, "{\"version\": 9, \"baselines\": {}}").unwrap();
    assert!(matches!(Baselines::load(&path), Err(BaselineError::Malformed { .. })));
}

#[test]
fn files_of_both_sides_are_joined() {
    let both = blocks(&[1.0; 2], &[2.0; 2]);
    let only = |pass| {
        let mut one = both.clone();
        one.blocks.retain(|block| block.pass == pass);
        one
    };
    assert_eq!(merge(None, Some(both.clone())).unwrap(), both);
    let joined = merge(Some(only(Pass::Golden)), Some(only(Pass::Warpforge))).unwrap();
    assert_eq!(joined.blocks.len(), 4);
    assert!(!interleaved(&joined.blocks));
    assert!(merge(None, None).is_none());
}
