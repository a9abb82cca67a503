//! One tensor of one step: by which rule it is judged, and what comes of it.

use super::elements::{Values, fold};
use super::{Bounds, Rule, TensorAt, TrainingSettings};
use crate::compare::{
    Dtype, Number, Statistics, Tensor, Tolerance, Worst, is_exact, is_reduced, ulp,
};
use crate::judge::{Settings, TensorReport, judge_pair};
use crate::tolerance::{Kind, Tolerances};
use crate::verdict::{Reason, Verdict};

/// An element of noise may be this many times golden's own error before it counts again.
const NOISE_ELEMENT: f64 = 10.0;
/// Rounding of a sum, in units of the format's epsilon at the largest gradient's size.
const NOISE_FLOOR: f64 = 8.0;

/// A pair of tensors with what else is known of them.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub golden: Tensor<'a>,
    pub candidate: Tensor<'a>,
    pub oracle: Option<Tensor<'a>>,
}

/// The gradient of a parameter on both sides, which says how sure its update is.
pub(super) type Gradient<'a> = Pair<'a>;

/// A tensor that only one side has.
pub(super) fn alone(name: &str, label: &str, tensor: &Tensor<'_>, in_golden: bool) -> TensorAt {
    let tensor_name = label.to_owned();
    let reason = if in_golden {
        Reason::MissingTensor { tensor: tensor_name }
    } else {
        Reason::ExtraTensor { tensor: tensor_name }
    };
    TensorAt::bare(name, tensor, vec![reason])
}

/// Activations and buffers: the tolerance, or golden's own distance from the oracle. Either proof
/// is enough, as in a forward run; formats narrower than float32 are the oracle's alone.
pub(super) fn plain(
    name: &str,
    label: &str,
    kind: Kind,
    pair: &Pair<'_>,
    settings: &TrainingSettings,
) -> TensorAt {
    let mut report = judged(label, kind, pair, &settings.of_tensors());
    let mut rule = exact_or(Rule::Elementwise, pair.golden.dtype);
    if let Some(found) = &report.statistics {
        let holds = found.oracle.is_some_and(|oracle| oracle.holds);
        let close = found.mismatches == 0 && !is_reduced(pair.golden.dtype);
        if holds && found.mismatches > 0 {
            rule = Rule::FormatError;
        }
        report.reasons.retain(|reason| match reason {
            Reason::ValueMismatch { .. } => !holds,
            Reason::OracleBound { .. } => !close,
            _ => true,
        });
    }
    TensorAt::of(name, report, rule)
}

/// Must be equal: what is not trained.
pub(super) fn frozen(name: &str, label: &str, pair: &Pair<'_>) -> TensorAt {
    let tolerances = Tolerances { weights: Tolerance::EXACT, ..Tolerances::default() };
    let settings = Settings { tolerances, expect_nonfinite: true };
    let pair = Pair { oracle: None, ..*pair };
    TensorAt::of(name, judged(label, Kind::Weights, &pair, &settings), Rule::Exact)
}

/// Gradients: the tolerance, and the distance as a share of golden's norm; noise by its size.
/// `scale` is the largest root mean square among golden's gradients of the step.
pub(super) fn gradient(
    name: &str,
    label: &str,
    pair: &Pair<'_>,
    scale: f64,
    settings: &TrainingSettings,
) -> TensorAt {
    let report = judged(label, Kind::Gradients, pair, &settings.of_tensors());
    let Some(found) = report.statistics.clone() else {
        return TensorAt::of(name, report, Rule::Elementwise);
    };
    let bounds = &settings.bounds;
    let epsilon = ulp(pair.golden.dtype, 1.0).unwrap_or(0.0);
    let floor = NOISE_FLOOR * epsilon * scale;
    if let Some(bound) = noise_bound(&found, floor, bounds) {
        return noise(name, label, report, &found, bound);
    }
    let oracle = found.oracle;
    let holds = oracle.is_some_and(|oracle| oracle.holds);
    let mut at = TensorAt::of(name, report, Rule::Elementwise);
    at.reasons.retain(|reason| !matches!(reason, Reason::OracleBound { .. }));
    let reduced = is_reduced(pair.golden.dtype);
    if let Some(oracle) = oracle.filter(|oracle| reduced && !oracle.holds) {
        at.reasons.push(Reason::OracleBound {
            tensor: label.to_owned(),
            candidate_rmse: oracle.candidate_rmse,
            bound: oracle.bound,
        });
    }
    let mismatch = at.reasons.iter().position(|r| matches!(r, Reason::ValueMismatch { .. }));
    if let Some(place) = mismatch {
        let left_out = excused(pair, &found);
        at.left_out = left_out;
        at.mismatches = at.mismatches.saturating_sub(left_out);
        if holds {
            at.rule = Rule::FormatError;
        }
        if holds || at.mismatches == 0 {
            at.reasons.remove(place);
        } else if let Some(Reason::ValueMismatch { mismatches, .. }) = at.reasons.get_mut(place) {
            *mismatches = mismatches.saturating_sub(left_out);
        }
    }
    let own = oracle.and_then(|oracle| oracle.golden_relative).unwrap_or(0.0);
    let bound = bounds.gradient_relative.max(bounds.noise_multiple * own);
    if let Some(relative) = found.norm_relative
        && relative > bound
        && !holds
        && found.rmse > floor
    {
        let reason = Reason::RelativeDistance { tensor: label.to_owned(), relative, bound };
        at.reasons.insert(0, reason);
    }
    at.used = at.used.map(|used| used.max(found.norm_relative.unwrap_or(0.0) / bound));
    at.settle();
    at
}

/// How large the candidate's noise may be, if golden's gradient is nothing else.
fn noise_bound(found: &Statistics, floor: f64, bounds: &Bounds) -> Option<f64> {
    let oracle = found.oracle?;
    let is_noise = found.golden_rms > 0.0 && oracle.golden_rmse >= 0.5 * found.golden_rms;
    // Few elements say little about the size of the noise they were drawn from.
    let few = 1.0 + 10.0 / found.count as f64;
    let scale = oracle.golden_rmse.max(found.golden_rms).max(floor);
    is_noise.then_some(bounds.noise_multiple * few * scale)
}

fn noise(
    name: &str,
    label: &str,
    report: TensorReport,
    found: &Statistics,
    bound: f64,
) -> TensorAt {
    let mut at = TensorAt::of(name, report, Rule::Noise);
    at.reasons.retain(|reason| matches!(reason, Reason::NonFinite { .. }));
    // The oracle is zero but for its own, much smaller, rounding.
    let rms = found.oracle.map_or(f64::NAN, |oracle| oracle.candidate_rmse);
    if rms.is_nan() || rms > bound {
        let rms = if rms.is_nan() { f64::MAX } else { rms };
        at.reasons.push(Reason::NoiseTooLarge { tensor: label.to_owned(), rms, bound });
    } else {
        at.mismatches = 0;
    }
    at.used = Some(rms / bound).filter(|used| used.is_finite());
    at.settle();
    at
}

/// Elements outside the tolerance whose golden value is smaller than golden's own error.
fn excused(pair: &Pair<'_>, found: &Statistics) -> u64 {
    let (Some(oracle), Some(own)) = (pair.oracle, found.oracle) else { return 0 };
    let sides = [pair.golden, pair.candidate, oracle].map(|side| Values::of(&side));
    let [Some(golden), Some(candidate), Some(oracle)] = sides else { return 0 };
    let tolerance = found.tolerance;
    fold(
        [golden, candidate, oracle],
        |count: &mut u64, _, [golden, candidate, oracle]| {
            let (error, own_error) = ((candidate - golden).abs(), (golden - oracle).abs());
            let outside = error > tolerance.atol + tolerance.rtol * golden.abs();
            let limit = NOISE_ELEMENT * own_error.max(own.golden_rmse);
            *count += u64::from(outside && golden.abs() < own_error && error <= limit);
        },
        |a, b| a + b,
    )
}

/// What a walk over the elements of a parameter or slot found.
#[derive(Clone, Copy, Default)]
struct Walk {
    mismatches: u64,
    left_out: u64,
    max_abs: f64,
    used: f64,
    worst: Option<(u64, f64, f64)>,
    error_squared: f64,
    golden_squared: f64,
    update_squared: f64,
    allowed_squared: f64,
    not_finite: u64,
}

impl Walk {
    fn join(self, next: Self) -> Self {
        let first = self.used >= next.used;
        Self {
            mismatches: self.mismatches + next.mismatches,
            left_out: self.left_out + next.left_out,
            max_abs: self.max_abs.max(next.max_abs),
            used: self.used.max(next.used),
            worst: if first { self.worst.or(next.worst) } else { next.worst.or(self.worst) },
            error_squared: self.error_squared + next.error_squared,
            golden_squared: self.golden_squared + next.golden_squared,
            update_squared: self.update_squared + next.update_squared,
            allowed_squared: self.allowed_squared + next.allowed_squared,
            not_finite: self.not_finite + next.not_finite,
        }
    }

    /// Takes one element; `base` is what the tolerance allows and `more` what noise adds to it.
    fn take(&mut self, at: u64, [golden, candidate, before]: [f64; 3], base: f64, more: f64) {
        if !golden.is_finite() || !candidate.is_finite() {
            self.not_finite += 1;
            return;
        }
        let error = (candidate - golden).abs();
        let allowed = base + more;
        let used = if error == 0.0 { 0.0 } else { error / allowed };
        if used > self.used {
            (self.used, self.worst) = (used, Some((at, golden, candidate)));
        }
        self.mismatches += u64::from(error > allowed);
        self.left_out += u64::from(error > base && error <= allowed);
        self.max_abs = self.max_abs.max(error);
        let update = golden - before;
        self.error_squared += error * error;
        self.golden_squared += golden * golden;
        self.update_squared += update * update;
        self.allowed_squared += more * more;
    }

    fn tensor(&self, name: &str, label: &str, golden: &Tensor<'_>, rule: Rule) -> TensorAt {
        let count = Values::of(golden).map_or(0, |values| values.len() as u64);
        let worst = self.worst.map(|(index, golden_value, candidate)| {
            Worst::at(index, golden.shape, Number(golden_value), Number(candidate))
        });
        let mut at = TensorAt::bare(name, golden, Vec::new());
        at.rule = rule;
        at.count = count;
        at.mismatches = self.mismatches;
        at.left_out = self.left_out;
        at.max_abs = self.max_abs;
        at.relative = match (self.error_squared, self.golden_squared) {
            (0.0, 0.0) => Some(0.0),
            (error, golden) => Some((error / golden).sqrt()).filter(|share| share.is_finite()),
        };
        at.used = Some(self.used).filter(|used| used.is_finite());
        at.worst.clone_from(&worst);
        if self.mismatches > 0 {
            at.reasons.push(Reason::ValueMismatch {
                tensor: label.to_owned(),
                mismatches: self.mismatches,
                count,
                max_abs: self.max_abs,
                worst,
            });
        }
        at.settle();
        at
    }
}

/// A parameter, or one of the optimiser's slots, after a step of the optimiser alone. Both sides
/// were fed the same numbers, so only the optimiser's own rounding may differ.
pub(super) fn optimizer_alone(
    name: &str,
    label: &str,
    pair: &Pair<'_>,
    before: Option<&Tensor<'_>>,
    rate: f64,
    settings: &TrainingSettings,
) -> TensorAt {
    let (bounds, expect_nonfinite) = (&settings.bounds, settings.expect_nonfinite);
    if is_exact(pair.golden.dtype) {
        return frozen(name, label, pair);
    }
    let plainly = || {
        let settings = Settings { expect_nonfinite, ..Settings::default() };
        TensorAt::of(name, judged(label, Kind::Weights, pair, &settings), Rule::Ulps)
    };
    let Some([golden, candidate]) = same(pair) else { return plainly() };
    let dtype = pair.golden.dtype;
    let before = before.and_then(|before| like(&pair.golden, before));
    let started = before.is_some();
    let walk = fold(
        [golden, candidate, before.unwrap_or(golden)],
        |walk: &mut Walk, at, [golden, candidate, before]| {
            // A slot that did not exist before began at zero.
            let before = if started { before } else { 0.0 };
            let size = golden.abs().max(before.abs());
            let ulps = bounds.optimizer_ulps * ulp(dtype, size).unwrap_or(0.0);
            let rounding = bounds.optimizer_ulps * ulp(dtype, 1.0).unwrap_or(0.0) * rate;
            let base = ulps + bounds.optimizer_relative * (golden - before).abs() + rounding;
            walk.take(at, [golden, candidate, before], base, 0.0);
        },
        Walk::join,
    );
    // NaN and infinity have rules of their own.
    if walk.not_finite > 0 { plainly() } else { walk.tensor(name, label, &pair.golden, Rule::Ulps) }
}

/// A parameter after the whole step: the tolerance, and the update as a share of golden's. Where
/// the gradient is noise, Adam turns it into whole steps; what the difference of the gradients
/// explains there is left out.
pub(super) fn parameter(
    name: &str,
    label: &str,
    pair: &Pair<'_>,
    before: Option<&Tensor<'_>>,
    gradient: &Gradient<'_>,
    learning_rate: f64,
    settings: &TrainingSettings,
) -> TensorAt {
    let plainly = || plain(name, label, Kind::Weights, pair, settings);
    // Narrow formats cannot hold the tolerance: one ulp, or the oracle, decides.
    if is_reduced(pair.golden.dtype) && pair.oracle.is_some() {
        return plainly();
    }
    let (Some([golden, candidate]), Some([g, c])) = (same(pair), same(gradient)) else {
        return plainly();
    };
    if golden.len() != g.len() {
        return plainly();
    }
    let before = before.and_then(|before| like(&pair.golden, before));
    let started = before.is_some();
    let own = GoldenNoise::of(gradient);
    let oracle = gradient.oracle.and_then(|oracle| like(&gradient.golden, &oracle));
    let (dtype, tolerance) = (pair.golden.dtype, settings.tolerances.weights);
    let least = if is_reduced(dtype) { 1.0 } else { 0.0 };
    let walk = fold(
        [golden, candidate, before.unwrap_or(golden), g, c, oracle.unwrap_or(g)],
        |walk: &mut Walk, at, [golden, candidate, before, g, c, oracle]| {
            let base = tolerance.atol
                + (tolerance.rtol * golden.abs()).max(least * ulp(dtype, golden).unwrap_or(0.0));
            let unsure = own.unsure(g, c, oracle);
            walk.take(at, [golden, candidate, before], base, explained(learning_rate, unsure, g));
        },
        Walk::join,
    );
    if walk.not_finite > 0 {
        return plainly();
    }
    let mut at = walk.tensor(name, label, &pair.golden, Rule::Elementwise);
    if walk.update_squared > 0.0 && started && !is_reduced(dtype) {
        let rounding = rounding(&walk, dtype, at.count);
        let update = walk.update_squared.sqrt();
        let bound =
            settings.bounds.update_relative + (walk.allowed_squared.sqrt() + rounding) / update;
        let relative = walk.error_squared.sqrt() / update;
        if relative > bound {
            let tensor = format!("{label} (its update)");
            at.reasons.push(Reason::RelativeDistance { tensor, relative, bound });
            at.settle();
        }
    }
    at
}

/// Rounding of a tensor's elements, as a norm.
fn rounding(walk: &Walk, dtype: Dtype, count: u64) -> f64 {
    let rms = (walk.golden_squared / count.max(1) as f64).sqrt();
    4.0 * ulp(dtype, rms).unwrap_or(0.0) * (count as f64).sqrt()
}

/// What a difference of gradients can do to a parameter in one step: Adam divides by the
/// gradient's own size, so that a gradient that is half noise gives an update that is; plain
/// descent takes it as it is.
fn explained(learning_rate: f64, unsure: f64, gradient: f64) -> f64 {
    let share = if unsure == 0.0 { 0.0 } else { (unsure / gradient.abs()).min(1.0) };
    4.0 * learning_rate.abs() * (share + unsure)
}

/// Golden's own error of a gradient, which bounds what may be called noise.
#[derive(Clone, Copy)]
struct GoldenNoise {
    rmse: Option<f64>,
}

impl GoldenNoise {
    fn of(gradient: &Gradient<'_>) -> Self {
        let sides = gradient.oracle.and_then(|oracle| {
            Some([Values::of(&gradient.golden)?, like(&gradient.golden, &oracle)?])
        });
        let rmse = sides.map(|sides| {
            let count = sides[0].len().max(1) as f64;
            let squares =
                fold(sides, |sum: &mut f64, _, [g, o]| *sum += (g - o) * (g - o), |a, b| a + b);
            (squares / count).sqrt()
        });
        Self { rmse }
    }

    /// By how much the two gradients differ, as far as golden's own noise explains it.
    fn unsure(self, golden: f64, candidate: f64, oracle: f64) -> f64 {
        let difference = (candidate - golden).abs();
        let limit = self
            .rmse
            .map_or(f64::INFINITY, |rmse| NOISE_ELEMENT * rmse.max((golden - oracle).abs()));
        if difference.is_finite() { difference.min(limit) } else { 0.0 }
    }
}

/// A slot of the optimiser after the whole step: what the difference of the gradients explains,
/// and rounding. `squared` slots hold squares of gradients.
pub(super) fn slot(
    name: &str,
    label: &str,
    pair: &Pair<'_>,
    gradient: Option<&Gradient<'_>>,
    squared: bool,
    settings: &TrainingSettings,
) -> TensorAt {
    if is_exact(pair.golden.dtype) {
        return frozen(name, label, pair);
    }
    let grads = gradient.and_then(|gradient| same(gradient));
    let sides = same(pair).zip(grads).filter(|(pair, gradient)| pair[0].len() == gradient[0].len());
    let plainly = || plain(name, label, Kind::Weights, pair, settings);
    let Some(([golden, candidate], [g, c])) = sides else { return plainly() };
    let (dtype, rtol) = (pair.golden.dtype, settings.tolerances.weights.rtol);
    let walk = fold(
        [golden, candidate, g, c],
        |walk: &mut Walk, at, [golden, candidate, g, c]| {
            let by = if squared { g.abs() + c.abs() } else { 1.0 };
            let moved = ((c - g).abs() + 0.1 * rtol * g.abs()) * by;
            let rounding = 4.0 * ulp(dtype, golden).unwrap_or(0.0);
            let base = rtol * golden.abs() + rounding;
            let moved = if moved.is_finite() { moved } else { 0.0 };
            walk.take(at, [golden, candidate, 0.0], base + moved, 0.0);
        },
        Walk::join,
    );
    if walk.not_finite > 0 {
        return plainly();
    }
    walk.tensor(name, label, &pair.golden, Rule::Elementwise)
}

/// Both sides as values, if they can be held against each other.
fn same<'a>(pair: &Pair<'a>) -> Option<[Values<'a>; 2]> {
    let fits =
        pair.golden.dtype == pair.candidate.dtype && pair.golden.shape == pair.candidate.shape;
    let sides = fits.then_some([Values::of(&pair.golden)?, Values::of(&pair.candidate)?])?;
    (sides[0].len() == sides[1].len()).then_some(sides)
}

/// Another tensor of the same shape, as values.
fn like<'a>(tensor: &Tensor<'_>, other: &Tensor<'a>) -> Option<Values<'a>> {
    (tensor.shape == other.shape).then(|| Values::of(other)).flatten()
}

fn judged(label: &str, kind: Kind, pair: &Pair<'_>, settings: &Settings) -> TensorReport {
    judge_pair(label, kind, &pair.golden, &pair.candidate, pair.oracle.as_ref(), settings)
}

fn exact_or(rule: Rule, dtype: Dtype) -> Rule {
    if is_exact(dtype) { Rule::Exact } else { rule }
}

impl TensorAt {
    fn bare(name: &str, tensor: &Tensor<'_>, reasons: Vec<Reason>) -> Self {
        let mut at = Self {
            name: name.to_owned(),
            dtype: format!("{:?}", tensor.dtype),
            shape: tensor.shape.to_vec(),
            verdict: Verdict::Pass,
            rule: Rule::Elementwise,
            reasons,
            count: 0,
            mismatches: 0,
            left_out: 0,
            max_abs: 0.0,
            relative: None,
            golden_to_oracle: None,
            candidate_to_oracle: None,
            used: None,
            worst: None,
        };
        at.settle();
        at
    }

    fn of(name: &str, report: TensorReport, rule: Rule) -> Self {
        let found = report.statistics;
        let number = |of: fn(&Statistics) -> Option<f64>| found.as_ref().and_then(of);
        let mut at = Self {
            name: name.to_owned(),
            dtype: report.dtype,
            shape: report.shape,
            verdict: Verdict::Pass,
            rule,
            reasons: report.reasons,
            count: found.as_ref().map_or(0, |s| s.count),
            mismatches: found.as_ref().map_or(0, |s| s.mismatches),
            left_out: 0,
            max_abs: found.as_ref().map_or(0.0, |s| s.max_abs),
            relative: number(|s| s.norm_relative),
            golden_to_oracle: number(|s| s.oracle?.golden_relative),
            candidate_to_oracle: number(|s| s.oracle?.candidate_relative),
            used: number(|s| s.tolerance_used),
            worst: found.as_ref().and_then(|s| s.worst.clone()),
        };
        if at.rule == Rule::FormatError {
            at.mismatches = 0;
        }
        at.settle();
        at
    }

    /// The verdict follows from the reasons.
    fn settle(&mut self) {
        let verdicts = self.reasons.iter().map(Reason::verdict).chain([Verdict::Pass]);
        self.verdict = Verdict::gravest(verdicts);
    }
}
