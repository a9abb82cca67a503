//! The rules of single tensors, on numbers drawn at random.

use proptest::prelude::*;

use super::rules::{self, Pair};
use super::{Rule, TensorAt, TrainingSettings};
use crate::compare::{Dtype, Tensor};
use crate::verdict::Verdict;

/// Numbers that outlive the tensors made of them.
struct Numbers {
    shape: [usize; 1],
    single: Vec<u8>,
    double: Vec<u8>,
}

impl Numbers {
    fn of(values: &[f64]) -> Self {
        Self {
            shape: [values.len()],
            single: values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
            double: values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    fn single(&self) -> Tensor<'_> {
        Tensor { dtype: Dtype::F32, shape: &self.shape, data: &self.single }
    }

    fn double(&self) -> Tensor<'_> {
        Tensor { dtype: Dtype::F64, shape: &self.shape, data: &self.double }
    }
}

fn gradient(golden: &[f64], candidate: &[f64], oracle: &[f64], scale: f64) -> TensorAt {
    let [g, c, o] = [golden, candidate, oracle].map(Numbers::of);
    let pair = Pair { golden: g.single(), candidate: c.single(), oracle: Some(o.double()) };
    rules::gradient("w", "gradients/step-0/w", &pair, scale, &TrainingSettings::default())
}

/// Of at least 16 elements between −1 and 1, not all of them tiny.
fn values() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1.0..1.0f64, 16..80)
        .prop_filter("all are tiny", |v| v.iter().map(|x| x * x).sum::<f64>() > 1.0)
}

/// Rounding noise of some size, another for each seed.
fn noisy(values: &[f64], size: f64, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99_991);
        (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    };
    values.iter().map(|x| x + size * next()).collect()
}

proptest! {
    #[test]
    fn rounding_passes_and_factors_do_not(exact in values(), off in 3e-3..1.0f64, seed: u64) {
        let golden = noisy(&exact, 3e-7, seed);
        let clean = gradient(&golden, &noisy(&exact, 3e-7, seed ^ 1), &exact, 1.0);
        prop_assert_eq!(clean.verdict, Verdict::Pass);
        let scaled: Vec<f64> = exact.iter().map(|x| x * (1.0 + off)).collect();
        let wrong = gradient(&golden, &scaled, &exact, 1.0);
        prop_assert_eq!(wrong.verdict, Verdict::Fail);
        prop_assert_eq!(wrong.reasons[0].label(), "RelativeDistance");
    }

    #[test]
    fn gradients_that_are_noise_are_judged_by_size(size in 1e-12..1e-7f64, seed: u64) {
        let zero = vec![0.0; 64];
        let golden = noisy(&zero, size, seed);
        let scale = size;
        let alike = gradient(&golden, &noisy(&zero, size, seed ^ 1), &zero, scale);
        prop_assert_eq!((alike.verdict, alike.rule), (Verdict::Pass, Rule::Noise));
        let large = gradient(&golden, &noisy(&zero, 20.0 * size, seed ^ 1), &zero, scale);
        prop_assert_eq!(large.reasons[0].label(), "NoiseTooLarge");
    }

    #[test]
    fn the_optimiser_may_round_and_nothing_else(before in values(), seed: u64) {
        let settings = TrainingSettings::default();
        let after = noisy(&before, 1e-3, seed);
        let judged = |candidate: Vec<f64>| {
            let [b, g, c] = [&before, &after, &candidate].map(|side| Numbers::of(side));
            let pair = Pair { golden: g.single(), candidate: c.single(), oracle: None };
            rules::optimizer_alone("parameter/w", "w", &pair, Some(&b.single()), 0.0, &settings)
        };
        // An ulp of float32 either way.
        let near = after.iter().map(|x| x * (1.0 + 1.0e-7)).collect();
        prop_assert_eq!(judged(near).verdict, Verdict::Pass);
        // One per cent more of an update of a thousandth.
        let further = after.iter().zip(&before).map(|(a, b)| a + 0.01 * (a - b)).collect();
        prop_assert_eq!(judged(further).verdict, Verdict::Fail);
        prop_assert_eq!(judged(before.clone()).verdict, Verdict::Fail);
    }

    #[test]
    fn weights_follow_unsure_gradients_only(before in values(), seed: u64) {
        let settings = TrainingSettings::default();
        let rate = 1e-3;
        // Adam's first step: the sign of each gradient.
        let step = |gradient: &[f64]| -> Vec<f64> {
            before.iter().zip(gradient).map(|(w, g)| w - rate * g.signum()).collect()
        };
        let judged = |exact: &[f64], size: f64| {
            let (golden, candidate) = (noisy(exact, size, seed), noisy(exact, size, seed ^ 5));
            let sides = [&before, &step(&golden), &step(&candidate), &golden, &candidate];
            let [b, w, v, g, c] = sides.map(|side| Numbers::of(side));
            let o = Numbers::of(exact);
            let pair = Pair { golden: w.single(), candidate: v.single(), oracle: None };
            let grads = Pair { golden: g.single(), candidate: c.single(), oracle: Some(o.double()) };
            rules::parameter("w", "w", &pair, Some(&b.single()), &grads, rate, &settings)
        };
        let noise = judged(&vec![0.0; before.len()], 1e-9);
        prop_assert_eq!(noise.verdict, Verdict::Pass);
        let sure: Vec<f64> = before.iter().map(|w| if *w < 0.0 { -1.0 } else { 1.0 }).collect();
        let clean = judged(&sure, 1e-7);
        prop_assert_eq!((clean.verdict, clean.left_out), (Verdict::Pass, 0));
    }
}

#[test]
fn a_weight_that_no_gradient_explains_fails() {
    let settings = TrainingSettings::default();
    let before = Numbers::of(&[0.5; 32]);
    let moved = Numbers::of(&[0.499; 32]);
    let gradients = Numbers::of(&[0.3; 32]);
    let pair = Pair { golden: moved.single(), candidate: before.single(), oracle: None };
    let same = gradients.single();
    let grads = Pair { golden: same, candidate: same, oracle: None };
    let found = rules::parameter("w", "w", &pair, Some(&before.single()), &grads, 1e-3, &settings);
    assert_eq!(found.verdict, Verdict::Fail);
    // Below the tolerance of weights, and still no update at all.
    let little = Numbers::of(&[0.499_99; 32]);
    let pair = Pair { golden: little.single(), candidate: before.single(), oracle: None };
    let found = rules::parameter("w", "w", &pair, Some(&before.single()), &grads, 1e-5, &settings);
    assert_eq!(found.reasons[0].label(), "RelativeDistance");
}

#[test]
fn elements_of_noise_are_left_out_and_counted() {
    // One element is golden's own error, far beyond the tolerance, and so is the candidate's.
    let mut exact = vec![10.0; 4000];
    exact[7] = 1e-9;
    let mut golden = noisy(&exact, 1e-6, 3);
    (golden[7], exact[9]) = (-4e-5, 10.0);
    let mut candidate = noisy(&exact, 4e-6, 4);
    candidate[7] = 3e-5;
    let found = gradient(&golden, &candidate, &exact, 10.0);
    assert_eq!((found.verdict, found.mismatches), (Verdict::Pass, 0), "{found:?}");
    // Where golden is sure of a value, the same distance counts.
    let found = gradient(&exact, &candidate, &exact, 10.0);
    assert_eq!(found.verdict, Verdict::Fail, "{found:?}");
}
