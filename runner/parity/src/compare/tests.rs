//! The pass against the plainest possible code, and its promises one by one.

use proptest::prelude::*;

use super::*;

const LOOSE: Options = Options {
    tolerance: Tolerance { rtol: 1e-3, atol: 1e-5 },
    oracle_factor: 1.5,
    expect_nonfinite: false,
};

fn bytes<T: Copy, const N: usize>(values: &[T], to: fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| to(*value)).collect()
}

fn compare_f32(golden: &[f32], candidate: &[f32], options: &Options) -> Statistics {
    let (g, c) = (bytes(golden, f32::to_le_bytes), bytes(candidate, f32::to_le_bytes));
    compare_bytes(Dtype::F32, golden.len(), &g, &c, options)
}

fn compare_bytes(
    dtype: Dtype,
    count: usize,
    golden: &[u8],
    candidate: &[u8],
    options: &Options,
) -> Statistics {
    let shape = [count];
    let tensor = |data| Tensor { dtype, shape: &shape, data };
    compare(&tensor(golden), &tensor(candidate), None, options).unwrap()
}

/// Values that differ a little everywhere, from a small generator.
fn noisy(count: usize, noise: f64) -> (Vec<f32>, Vec<f32>) {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    };
    let golden: Vec<f32> = (0..count).map(|_| next() as f32).collect();
    let candidate = golden.iter().map(|g| (f64::from(*g) + noise * next()) as f32).collect();
    (golden, candidate)
}

fn naive_f32(golden: &[f32], candidate: &[f32], options: &Options) -> Statistics {
    let (rtol, atol) = (options.tolerance.rtol, options.tolerance.atol);
    let pairs: Vec<(f64, f64)> =
        golden.iter().zip(candidate).map(|(g, c)| (f64::from(*g), f64::from(*c))).collect();
    let errors: Vec<f64> = pairs.iter().map(|(g, c)| (c - g).abs()).collect();
    let n = pairs.len() as f64;
    let sum = |f: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|(g, c)| f(*g, *c)).sum::<f64>();
    let max =
        |f: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|(g, c)| f(*g, *c)).fold(0.0, f64::max);
    let mut statistics = compare_f32(golden, candidate, options);
    let (e2, g2, c2) = (sum(&|g, c| (c - g) * (c - g)), sum(&|g, _| g * g), sum(&|_, c| c * c));
    statistics.mismatches =
        pairs.iter().filter(|(g, c)| (c - g).abs() > atol + rtol * g.abs()).count() as u64;
    statistics.max_abs = max(&|g, c| (c - g).abs());
    statistics.mean_abs = errors.iter().sum::<f64>() / n;
    statistics.max_rel = max(&|g, c| if g == 0.0 { 0.0 } else { (c - g).abs() / g.abs() });
    statistics.rmse = (e2 / n).sqrt();
    statistics.norm_relative = Some((e2 / g2).sqrt());
    statistics.cosine = Some(sum(&|g, c| g * c) / (g2 * c2).sqrt());
    statistics.sqnr_db = Some(10.0 * (g2 / e2).log10());
    statistics.golden_rms = (g2 / n).sqrt();
    statistics
}

#[track_caller]
fn assert_close(found: f64, wanted: f64) {
    assert!((found - wanted).abs() <= 1e-12 * wanted.abs(), "{found} is not {wanted}");
}

#[test]
fn statistics_are_those_of_plain_code() {
    for count in [1, 7, 8, 511, 512, 513, 3000, CHUNK + 5, 3 * CHUNK] {
        let (golden, candidate) = noisy(count, 1e-3);
        let found = compare_f32(&golden, &candidate, &LOOSE);
        let wanted = naive_f32(&golden, &candidate, &LOOSE);
        assert_eq!(found.count, count as u64);
        assert_eq!(found.mismatches, wanted.mismatches);
        assert_eq!((found.max_abs, found.max_rel), (wanted.max_abs, wanted.max_rel));
        assert_close(found.mean_abs, wanted.mean_abs);
        assert_close(found.rmse, wanted.rmse);
        assert_close(found.norm_relative.unwrap(), wanted.norm_relative.unwrap());
        assert_close(found.cosine.unwrap(), wanted.cosine.unwrap());
        assert_close(found.sqnr_db.unwrap(), wanted.sqnr_db.unwrap());
        assert_close(found.golden_rms, wanted.golden_rms);
        assert_eq!(found.ulps.iter().map(|bucket| bucket.count).sum::<u64>(), count as u64);
    }
}

#[test]
fn quantiles_are_never_below_and_at_most_a_sixteenth_above() {
    let (golden, candidate) = noisy(100_000, 1e-3);
    let found = compare_f32(&golden, &candidate, &LOOSE).quantiles;
    let mut errors: Vec<f64> =
        golden.iter().zip(&candidate).map(|(g, c)| f64::from((c - g).abs())).collect();
    errors.sort_by(f64::total_cmp);
    for (share, value) in
        [(0.5, found.p50), (0.9, found.p90), (0.99, found.p99), (0.999, found.p99_9)]
    {
        let exact = errors[(share * errors.len() as f64).ceil() as usize - 1];
        assert!(value >= exact && value <= exact * 1.0625, "{share}: {value}, exactly {exact}");
    }
    let same = compare_f32(&golden, &golden, &LOOSE);
    assert_eq!(same.quantiles, Quantiles { p50: 0.0, p90: 0.0, p99: 0.0, p99_9: 0.0 });
    assert_eq!((same.worst, same.cosine, same.sqnr_db), (None, Some(1.0), None));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let (golden, candidate) = noisy(5 * CHUNK + 77, 1e-4);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| compare_f32(&golden, &candidate, &LOOSE))
    };
    let one = on(1);
    for threads in [2, 3, 8] {
        assert_eq!(on(threads), one);
    }
}

#[test]
fn the_worst_element_has_its_place_and_both_values() {
    let golden = vec![1f32; 2 * 3 * 1000];
    let mut candidate = golden.clone();
    candidate[4321] = 1.5;
    candidate[17] = 1.25;
    let data = [&golden, &candidate].map(|side| bytes(side, f32::to_le_bytes));
    let shape = [2, 3, 1000];
    let tensor = |data| Tensor { dtype: Dtype::F32, shape: &shape, data };
    let found = compare(&tensor(&data[0]), &tensor(&data[1]), None, &LOOSE).unwrap();
    assert_eq!(found.mismatches, 2);
    let worst = found.worst.unwrap();
    assert_eq!((worst.index, worst.coordinates), (4321, vec![1, 1, 321]));
    assert_eq!((worst.golden, worst.candidate), (Number(1.0), Number(1.5)));
    assert_eq!(found.max_abs, 0.5);
}

#[test]
fn the_worst_element_is_judged_by_its_own_tolerance() {
    // A larger error on a large value is nothing; a smaller one on a small value is too much.
    let found = compare_f32(&[1000.0, 0.001], &[1000.5, 0.002], &LOOSE);
    assert_eq!((found.worst.unwrap().index, found.mismatches), (1, 1));
}

#[test]
fn nan_and_infinity_are_equal_only_in_the_same_place_and_if_expected() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let golden = [1.0, nan, inf, -inf, 2.0, nan, inf];
    let candidate = [1.0, nan, inf, -inf, nan, 3.0, -inf];
    let expected = Options { expect_nonfinite: true, ..LOOSE };
    let found = compare_f32(&golden, &candidate, &expected);
    let counts = NonFiniteCounts {
        golden_nan: 2,
        golden_infinite: 3,
        candidate_nan: 2,
        candidate_infinite: 3,
        same: 3,
        different: 3,
    };
    assert_eq!((found.nonfinite, found.mismatches), (counts, 3));
    assert_eq!(found.worst.as_ref().unwrap().index, 4);
    assert_eq!((found.max_abs, found.ulps[0].count), (0.0, 1));
    assert_eq!(compare_f32(&golden, &candidate, &LOOSE).mismatches, 6);
    assert_eq!(compare_f32(&golden, &golden, &expected).mismatches, 0);
    assert_eq!(compare_f32(&golden, &golden, &LOOSE).worst.unwrap().index, 1);
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(
        (&json["worst"]["golden"], &json["worst"]["candidate"]),
        (&2.0.into(), &"NaN".into())
    );
    let back: Statistics = serde_json::from_value(json).unwrap();
    assert!(back.worst.unwrap().candidate.0.is_nan());
}

#[test]
fn integers_and_booleans_must_be_equal() {
    let big = 1i64 << 60;
    let (g, c) = (bytes(&[big, 5], i64::to_le_bytes), bytes(&[big + 1, 5], i64::to_le_bytes));
    let found = compare_bytes(Dtype::I64, 2, &g, &c, &LOOSE);
    assert_eq!((found.mismatches, found.max_abs, found.needed_atol), (1, 1.0, Some(1.0)));
    assert_eq!(found.tolerance, Tolerance::EXACT);
    let (g, c) = (bytes(&[u64::MAX], u64::to_le_bytes), bytes(&[0], u64::to_le_bytes));
    let found = compare_bytes(Dtype::U64, 1, &g, &c, &LOOSE);
    assert_eq!(found.ulps.last().unwrap().count, 1);
    assert_eq!(compare_bytes(Dtype::BOOL, 3, &[0, 1, 1], &[0, 1, 0], &LOOSE).mismatches, 1);
    let exact = [Dtype::I8, Dtype::U8, Dtype::I16, Dtype::U16, Dtype::I32, Dtype::U32];
    for dtype in exact {
        let (g, c) = ([7, 0, 0, 0, 1, 0, 0, 0], [7, 0, 0, 0, 2, 0, 0, 0]);
        let count = 64 / dtype.bitsize();
        assert_eq!(compare_bytes(dtype, count, &g, &c, &LOOSE).mismatches, 1, "{dtype:?}");
    }
}

#[test]
fn complex_numbers_differ_by_the_modulus() {
    let data = |parts: [f32; 4]| bytes(&parts, f32::to_le_bytes);
    let (g, c) = (data([3.0, 4.0, 1.0, 0.0]), data([3.0, 4.0, 1.0, 0.5]));
    let found = compare_bytes(Dtype::C64, 2, &g, &c, &LOOSE);
    assert_eq!((found.mismatches, found.max_abs, found.count), (1, 0.5, 2));
    assert_close(found.cosine.unwrap(), 26.0 / (26.0 * 26.25f64).sqrt());
    let (g, c) = (data([f32::INFINITY, 0.0, 1.0, 0.0]), data([f32::NEG_INFINITY, 0.0, 1.0, 0.0]));
    assert_eq!(compare_bytes(Dtype::C64, 2, &g, &c, &LOOSE).nonfinite.different, 1);
}

#[test]
fn narrow_floats_are_compared_by_their_values_and_their_own_ulps() {
    // One in each format, and its next neighbour.
    for (dtype, one, width) in [
        (Dtype::BF16, 0x3f80u16, 2),
        (Dtype::F16, 0x3c00, 2),
        (Dtype::F8_E4M3, 0x38, 1),
        (Dtype::F8_E5M2, 0x3c, 1),
        (Dtype::F8_E4M3FNUZ, 0x40, 1),
        (Dtype::F8_E5M2FNUZ, 0x40, 1),
        (Dtype::F8_E8M0, 127, 1),
    ] {
        let (g, c) = (one.to_le_bytes(), (one + 1).to_le_bytes());
        let found = compare_bytes(dtype, 1, &g[..width], &c[..width], &LOOSE);
        assert_eq!(found.max_abs, ulp(dtype, 1.0).unwrap(), "{dtype:?}");
        assert_eq!((found.ulps[1].count, found.golden_rms), (1, 1.0), "{dtype:?}");
        assert!(is_reduced(dtype) && !is_exact(dtype));
    }
    assert!(!is_reduced(Dtype::F32) && !is_reduced(Dtype::F64) && !is_reduced(Dtype::I32));
}

#[test]
fn the_oracle_bound_is_a_multiple_of_goldens_own_error_and_an_ulp() {
    let oracle = [1.0f64, 1.0, 1.0, 1.0];
    let golden = [1.001f32; 4];
    let data = bytes(&oracle, f64::to_le_bytes);
    let shape = [4];
    let oracle = Tensor { dtype: Dtype::F64, shape: &shape, data: &data };
    let judged = |candidate: f32| {
        let (g, c) = (bytes(&golden, f32::to_le_bytes), bytes(&[candidate; 4], f32::to_le_bytes));
        let tensor = |data| Tensor { dtype: Dtype::F32, shape: &shape, data };
        compare(&tensor(&g), &tensor(&c), Some(&oracle), &LOOSE).unwrap().oracle.unwrap()
    };
    let found = judged(1.0014);
    assert!(found.holds && found.ulp == f64::from(f32::EPSILON), "{found:?}");
    assert_close(found.golden_rmse, f64::from(1.001f32) - 1.0);
    assert_close(found.bound, 1.5 * found.golden_rmse + found.ulp);
    assert_close(found.candidate_relative.unwrap(), f64::from(1.0014f32) - 1.0);
    assert!(!judged(1.0016).holds);
    // The other side of the truth is as good.
    assert!(judged(0.999).holds);
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let data = [0u8; 16];
    let tensor = |dtype, shape| Tensor { dtype, shape, data: &data };
    let [f32s, f64s] = [tensor(Dtype::F32, &[4]), tensor(Dtype::F64, &[2])];
    let error = |a: &Tensor<'_>, b: &Tensor<'_>, o: Option<&Tensor<'_>>| {
        compare(a, b, o, &LOOSE).unwrap_err()
    };
    assert!(matches!(error(&f32s, &f64s, None), CompareError::Dtype { .. }));
    let square = tensor(Dtype::F32, &[2, 2]);
    assert!(matches!(error(&f32s, &square, None), CompareError::Shape { .. }));
    assert!(matches!(error(&f32s, &f32s, Some(&f64s)), CompareError::Shape { .. }));
    let ints = tensor(Dtype::I32, &[4]);
    assert!(matches!(error(&f32s, &f32s, Some(&ints)), CompareError::Oracle(_)));
    let short = tensor(Dtype::F32, &[5]);
    assert!(matches!(error(&short, &short, None), CompareError::Size { .. }));
    let huge = tensor(Dtype::F32, &[usize::MAX, 9]);
    assert!(matches!(error(&huge, &huge, None), CompareError::Size { .. }));
    let tiny = tensor(Dtype::F4, &[32]);
    assert!(matches!(error(&tiny, &tiny, None), CompareError::Unsupported(_)));
}

#[test]
fn empty_tensors_and_scalars_are_compared() {
    let found = compare_f32(&[], &[], &LOOSE);
    assert_eq!((found.count, found.worst, found.ulps.len()), (0, None, 0));
    let data = 1f32.to_le_bytes();
    let scalar = Tensor { dtype: Dtype::F32, shape: &[], data: &data };
    assert_eq!(compare(&scalar, &scalar, None, &LOOSE).unwrap().count, 1);
}

fn anything() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -1e3f32..1e3,
        1 => any::<f32>().prop_filter("finite", |x| x.is_finite()),
        1 => Just(0.0f32),
        1 => Just(-0.0f32),
    ]
}

proptest! {
    #[test]
    fn the_needed_tolerances_pass_and_hardly_less_does_not(
        pairs in prop::collection::vec((anything(), anything()), 1..1200),
        rtol in 0.0f64..0.1,
        atol in 0.0f64..0.1,
    ) {
        let (golden, candidate): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let with = |rtol, atol| Options {
            tolerance: Tolerance { rtol, atol },
            expect_nonfinite: true,
            ..LOOSE
        };
        let out = |rtol, atol| {
            let found = compare_f32(&golden, &candidate, &with(rtol, atol));
            found.mismatches - found.nonfinite.different
        };
        let found = compare_f32(&golden, &candidate, &with(rtol, atol));
        if found.nonfinite.different > 0 {
            prop_assert_eq!((found.needed_atol, found.needed_rtol), (None, None));
            return Ok(());
        }
        let needed = found.needed_atol.unwrap();
        prop_assert_eq!(out(rtol, needed), 0);
        if needed > 0.0 {
            prop_assert!(out(rtol, needed * (1.0 - 1e-9)) > 0);
        }
        if let Some(needed) = found.needed_rtol {
            prop_assert_eq!(out(needed, atol), 0);
            if needed > 0.0 {
                prop_assert!(out(needed * (1.0 - 1e-9), atol) > 0);
            }
        } else {
            prop_assert!(out(1e30, atol) > 0);
        }
        if let Some(used) = found.tolerance_used {
            prop_assert_eq!(used > 1.0, out(rtol, atol) > 0);
        }
    }
}
