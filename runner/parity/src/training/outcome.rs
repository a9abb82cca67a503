//! Everything together: the parts are judged, summed up by quantity, and the first thing that went
//! wrong is named.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::elements::{Values, fold};
use super::side::{Folder, pair};
use super::{
    Compared, FinalWeights, ForcedStep, FreeRun, MetricAt, Quantity, Reproducibility, TensorAt,
    TrainingParity, TrainingSettings, VERSION, curve, forced, metrics, refusal,
};
use crate::bundle::{self, BundleError, Expect, LossCurve, Metrics};
use crate::compare::Number;
use crate::judge::grouped;
use crate::verdict::{Reason, Verdict};

/// One thing that went wrong, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub quantity: Quantity,
    /// Absent for the free run.
    pub step: Option<u64>,
    /// The parameter or node; absent if it is about none.
    pub tensor: Option<String>,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.step, &self.tensor) {
            (Some(step), Some(tensor)) => {
                write!(f, "{} at step {step}: {tensor}, {}", self.quantity, self.what)
            }
            (Some(step), None) => write!(f, "{} at step {step}: {}", self.quantity, self.what),
            (None, _) => f.write_str(&self.what),
        }
    }
}

/// A tensor of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    pub step: u64,
    pub name: String,
}

/// One quantity over all steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuantitySummary {
    pub quantity: Quantity,
    pub verdict: Verdict,
    pub steps: u64,
    /// Tensors compared, over all steps; of losses and metrics their number.
    pub tensors: u64,
    /// Those that do not pass.
    pub bad: u64,
    pub elements: u64,
    pub left_out: u64,
    /// The largest ‖candidate − golden‖ / ‖golden‖, where golden is not noise.
    pub relative: Option<f64>,
    /// The largest error as a multiple of what is allowed.
    pub used: Option<f64>,
    /// Where that is.
    pub worst: Option<Place>,
}

/// How far off a tensor is, for finding the worst.
pub(super) fn badness(tensor: &TensorAt) -> f64 {
    let off = tensor.used.unwrap_or(f64::INFINITY);
    if tensor.verdict == Verdict::Pass { off.min(1.0) } else { off.max(1.0) }
}

pub(super) fn judge(
    golden: &Folder,
    candidate: &Folder,
    settings: &TrainingSettings,
) -> TrainingParity {
    let mut reasons = Vec::new();
    let mut notes = Vec::new();
    let forced = kept(forced::steps(golden, candidate, settings), bundle::FORCED, &mut reasons);
    let (forced, more) = forced.unwrap_or_default();
    reasons.extend(more);
    let repeated = kept(repeated(golden), bundle::REPEAT, &mut reasons);
    let mut reproducibility = repeated.unwrap_or_default();
    reasons.extend(unstable(&mut reproducibility, &forced, settings));
    if reproducibility.tensors == 0 {
        notes.push(
            "golden was not run twice, so that it was not checked to reproduce itself".into(),
        );
    }
    if !forced.is_empty() && forced.iter().all(|step| step.loss.oracle.is_none()) {
        notes.push("golden has no float64 oracle, so that noise is not told from error".into());
    }
    let noise = kept(noise(golden), bundle::NOISE, &mut reasons).unwrap_or_default();
    let name = bundle::LOSS_CURVE;
    let read = |folder: &Folder| folder.json::<LossCurve>(name);
    let curves = read(golden).and_then(|ours| Ok(pair(name, ours, read(candidate)?)));
    let mut free_run = None;
    match kept(curves, name, &mut reasons) {
        Some(Ok((ours, theirs))) => {
            let perturbed: Vec<LossCurve> = noise.iter().map(|one| one.curve.clone()).collect();
            let (tolerance, bounds) = (settings.tolerances.loss, &settings.bounds.curve);
            let expect = settings.expect_nonfinite;
            let found = curve::free_run(&ours, &theirs, &perturbed, tolerance, bounds, expect);
            notes.extend(extrapolated(&found));
            reasons.extend(found.reasons.iter().cloned());
            free_run = Some(found);
        }
        Some(Err(reason)) => reasons.extend(reason),
        None => {}
    }
    let length = free_run.as_ref().map_or(0, |run| run.compared);
    let judged = metrics_of(golden, candidate, &noise, length, settings);
    let metrics = match kept(judged, bundle::METRICS, &mut reasons) {
        Some((metrics, more)) => {
            reasons.extend(more);
            metrics
        }
        None => Vec::new(),
    };
    reasons.extend(metrics.iter().flat_map(|metric| metric.reasons.iter().cloned()));
    let final_weights = kept(final_weights(golden, candidate), bundle::CHECKPOINT, &mut reasons);
    let mut parity = TrainingParity {
        version: VERSION,
        verdict: Verdict::Invalid,
        summary: String::new(),
        reasons,
        first: None,
        elements: 0,
        tolerances: settings.tolerances,
        bounds: settings.bounds,
        quantities: Vec::new(),
        forced,
        reproducibility,
        free_run,
        metrics,
        final_weights: final_weights.flatten(),
        notes,
    };
    parity.sum_up();
    parity
}

/// The value, or nothing and a reason.
fn kept<T>(result: Result<T, BundleError>, path: &str, reasons: &mut Vec<Reason>) -> Option<T> {
    result.map_err(|error| reasons.push(refusal(Path::new(path), &error))).ok()
}

/// A perturbed golden.
struct Perturbed {
    curve: LossCurve,
    metrics: Option<Metrics>,
}

fn noise(golden: &Folder) -> Result<Vec<Perturbed>, BundleError> {
    let mut found = Vec::new();
    // Numbers may begin at 0 or at 1.
    for number in 0..64 {
        if let Some(curve) = golden.json::<LossCurve>(&bundle::noise_curve(number))? {
            let metrics = golden.json::<Metrics>(&bundle::noise_metrics(number))?;
            found.push(Perturbed { curve, metrics });
        } else if number > 0 {
            break;
        }
    }
    Ok(found)
}

fn extrapolated(run: &FreeRun) -> Option<String> {
    let (until, last) = (run.measured_until?, *run.steps.last()?);
    (until < last).then(|| {
        format!(
            "golden\u{2019}s spread was measured up to step {until} and is extrapolated from there \
             to step {last}"
        )
    })
}

fn metrics_of(
    golden: &Folder,
    candidate: &Folder,
    noise: &[Perturbed],
    length: u64,
    settings: &TrainingSettings,
) -> Result<(Vec<MetricAt>, Vec<Reason>), BundleError> {
    let name = bundle::METRICS;
    let files = pair(name, golden.json::<Metrics>(name)?, candidate.json::<Metrics>(name)?);
    let (ours, theirs) = match files {
        Ok(both) => both,
        Err(reason) => return Ok((Vec::new(), reason.into_iter().collect())),
    };
    let expect = golden.json::<Expect>(bundle::EXPECT)?.unwrap_or_default();
    // A golden that ended early has metrics of another training.
    let whole = |one: &&Perturbed| one.curve.steps.len() as u64 >= length;
    let perturbed: Vec<Metrics> =
        noise.iter().filter(whole).filter_map(|one| one.metrics.clone()).collect();
    let tolerance = settings.tolerances.metrics;
    let judged = ours.iter().map(|(name, value)| {
        let (theirs, expect) = (theirs.get(name).copied(), expect.get(name).copied());
        metrics::metric(name, *value, theirs, &perturbed, expect, tolerance)
    });
    let extra = theirs.keys().filter(|name| !ours.contains_key(*name));
    let extra = extra.map(|name| Reason::ExtraTensor { tensor: format!("metrics/{name}") });
    // What is expected of golden and was not measured cannot have been reached.
    let unmeasured = expect.iter().filter(|(name, e)| {
        !ours.contains_key(*name) && (e.at_least.is_some() || e.at_most.is_some())
    });
    let unmeasured = unmeasured.map(|(name, e)| Reason::ExpectationMissed {
        metric: name.clone(),
        golden: Number(f64::NAN),
        wanted: metrics::wanted(e),
    });
    Ok((judged.collect(), extra.chain(unmeasured).collect()))
}

/// Files that golden computed a second time against the first.
fn repeated(golden: &Folder) -> Result<Reproducibility, BundleError> {
    let mut found = Reproducibility::default();
    for name in golden.files_below(bundle::REPEAT)? {
        let again = golden.tensors(&format!("{}/{name}", bundle::REPEAT))?;
        let (Some(again), Some(first)) = (again, golden.tensors(&name)?) else { continue };
        for tensor in first.names() {
            let bytes =
                |file: &crate::file::TensorFile| file.tensor(&tensor).map(|t| t.data.to_vec());
            found.tensors += 1;
            found.different += u64::from(bytes(&first) != bytes(&again));
        }
    }
    Ok(found)
}

/// A golden that does not reproduce itself, or whose own noise exceeds what is to be measured.
fn unstable(
    found: &mut Reproducibility,
    forced: &[ForcedStep],
    settings: &TrainingSettings,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if found.different > 0 {
        let why = format!(
            "{} of {} tensors differ when golden computes them again",
            found.different, found.tensors
        );
        reasons.push(Reason::UnstableReference { why });
    }
    let tolerance = settings.tolerances.loss;
    for step in forced {
        let (Number(golden), Some(Number(oracle))) = (step.loss.golden, step.loss.oracle) else {
            continue;
        };
        let own = (golden - oracle).abs();
        // Narrow formats have their wider allowance, which the loss was judged by.
        let allowed = tolerance.allows(golden).max(step.loss.allowed);
        let share = own / allowed;
        if share.is_finite() {
            found.loss_noise = Some(found.loss_noise.unwrap_or(0.0).max(share));
        }
        if share > 1.0 {
            let why = format!(
                "at step {} golden\u{2019}s loss is off by {} of the tolerance in float64",
                step.step,
                crate::verdict::Short(share)
            );
            reasons.push(Reason::UnstableReference { why });
        }
    }
    reasons
}

/// Parameters of both checkpoints as one long vector.
fn final_weights(golden: &Folder, candidate: &Folder) -> Result<Option<FinalWeights>, BundleError> {
    let name = bundle::CHECKPOINT;
    let (Some(ours), Some(theirs)) = (golden.tensors(name)?, candidate.tensors(name)?) else {
        return Ok(None);
    };
    let (mut error, mut size) = (0.0, 0.0);
    let mut found = FinalWeights { relative: None, max_abs: 0.0, parameters: 0, elements: 0 };
    for name in ours.names().iter().filter(|name| name.starts_with("parameter/")) {
        let sides = ours.tensor(name).zip(theirs.tensor(name));
        let Some((a, b)) = sides.filter(|(a, b)| a.shape == b.shape) else { continue };
        let (Some(a), Some(b)) = (Values::of(&a), Values::of(&b)) else { continue };
        let (square, golden, largest) = fold(
            [a, b],
            |sums: &mut (f64, f64, f64), _, [a, b]| {
                let error = (a - b).abs();
                sums.0 += error * error;
                sums.1 += a * a;
                sums.2 = sums.2.max(error);
            },
            |a, b| (a.0 + b.0, a.1 + b.1, a.2.max(b.2)),
        );
        error += square;
        size += golden;
        found.max_abs = found.max_abs.max(largest).min(f64::MAX);
        found.parameters += 1;
        found.elements += a.len() as u64;
    }
    found.relative = Some((error / size).sqrt()).filter(|share| share.is_finite());
    Ok((found.parameters > 0).then_some(found))
}

impl TrainingParity {
    /// A verdict without a comparison: a side that cannot be read.
    pub fn without_comparison(reason: Reason, settings: &TrainingSettings) -> Self {
        let mut parity = Self {
            version: VERSION,
            verdict: Verdict::Invalid,
            summary: String::new(),
            reasons: vec![reason],
            first: None,
            elements: 0,
            tolerances: settings.tolerances,
            bounds: settings.bounds,
            quantities: Vec::new(),
            forced: Vec::new(),
            reproducibility: Reproducibility::default(),
            free_run: None,
            metrics: Vec::new(),
            final_weights: None,
            notes: Vec::new(),
        };
        parity.sum_up();
        parity
    }

    fn sum_up(&mut self) {
        for step in &self.forced {
            self.reasons.extend(step.reasons.iter().cloned());
            for found in &step.quantities {
                self.reasons.extend(found.reasons.iter().cloned());
                let mut bad: Vec<&TensorAt> = found.tensors.iter().collect();
                if found.quantity != Quantity::Activations {
                    bad.sort_by(|a, b| badness(b).total_cmp(&badness(a)));
                }
                self.reasons.extend(bad.iter().flat_map(|tensor| tensor.reasons.iter().cloned()));
            }
        }
        self.quantities = Quantity::ALL.into_iter().filter_map(|q| self.summary_of(q)).collect();
        self.elements = self.quantities.iter().map(|quantity| quantity.elements).sum();
        if self.reasons.is_empty() && self.elements == 0 {
            self.reasons.push(Reason::NothingCompared);
        }
        // A loss curve alone says little: what a step computes was not compared at all.
        let steps = self.forced.iter().any(|step| !step.quantities.is_empty());
        if self.reasons.is_empty() && !steps {
            let why = "no teacher-forced step was compared".to_owned();
            self.reasons.push(Reason::Undecided { why });
        }
        self.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.verdict()));
        let verdicts = self.reasons.iter().map(Reason::verdict).chain([Verdict::Pass]);
        self.verdict = Verdict::gravest(verdicts);
        self.first = self.find();
        self.summary = self.sentence();
    }

    fn summary_of(&self, quantity: Quantity) -> Option<QuantitySummary> {
        let row = |verdict, steps, tensors, bad, used| QuantitySummary {
            quantity,
            verdict,
            steps,
            tensors,
            bad,
            elements: tensors,
            left_out: 0,
            relative: None,
            used,
            worst: None,
        };
        match quantity {
            Quantity::Loss => {
                let losses = || self.forced.iter().map(|step| &step.loss);
                let count = losses().filter(|loss| loss.candidate.is_some()).count() as u64;
                let bad = losses().filter(|loss| loss.verdict != Verdict::Pass).count() as u64;
                let verdict = Verdict::gravest(losses().map(|loss| loss.verdict));
                let used = losses().filter_map(|loss| {
                    Some((loss.candidate?.0 - loss.golden.0).abs() / loss.allowed)
                });
                let used = used.filter(|used| used.is_finite()).fold(0.0, f64::max);
                (!self.forced.is_empty())
                    .then(|| row(verdict, self.forced.len() as u64, count, bad, Some(used)))
            }
            Quantity::Settings => {
                let differ = |step: &&ForcedStep| {
                    step.reasons.iter().any(|r| matches!(r, Reason::SettingDiffers { .. }))
                };
                let bad = self.forced.iter().filter(differ).count() as u64;
                let steps = self.forced.len() as u64;
                let verdict = if bad > 0 { Verdict::Fail } else { Verdict::Pass };
                (steps > 0).then(|| row(verdict, steps, steps, bad, None))
            }
            Quantity::LossCurve => {
                let run = self.free_run.as_ref()?;
                let used = run.used.zip(run.used_smoothed).map(|(a, b)| a.max(b));
                let bad = run.reasons.len() as u64;
                Some(row(run.verdict, run.compared, run.compared, bad, used))
            }
            Quantity::Metrics => {
                let verdict = Verdict::gravest(self.metrics.iter().map(|metric| metric.verdict));
                let bad = self.metrics.iter().filter(|m| m.verdict != Verdict::Pass).count();
                let count = self.metrics.len() as u64;
                (count > 0).then(|| row(verdict, 1, count, bad as u64, None))
            }
            _ => self.tensors_of(quantity),
        }
    }

    /// A quantity at every step that has it.
    pub fn at_steps(&self, quantity: Quantity) -> impl Iterator<Item = (u64, &Compared)> {
        self.forced.iter().filter_map(move |step| {
            let found = step.quantities.iter().find(|found| found.quantity == quantity)?;
            Some((step.step, found))
        })
    }

    fn tensors_of(&self, quantity: Quantity) -> Option<QuantitySummary> {
        let all: Vec<(u64, &Compared)> = self.at_steps(quantity).collect();
        if all.is_empty() {
            return None;
        }
        let tensors =
            || all.iter().flat_map(|(step, found)| found.tensors.iter().map(|t| (*step, t)));
        // Moments of gradients that are noise are noise as well.
        let real = |tensor: &TensorAt| {
            tensor.rule != super::Rule::Noise && quantity != Quantity::OptimizerState
        };
        let relative = tensors().filter(|(_, t)| real(t)).filter_map(|(_, t)| t.relative);
        let worst = tensors().max_by(|a, b| badness(a.1).total_cmp(&badness(b.1)));
        Some(QuantitySummary {
            quantity,
            verdict: Verdict::gravest(all.iter().map(|(_, found)| found.verdict)),
            steps: all.len() as u64,
            tensors: tensors().count() as u64,
            bad: tensors().filter(|(_, t)| t.verdict != Verdict::Pass).count() as u64,
            elements: all.iter().map(|(_, found)| found.elements()).sum(),
            left_out: all.iter().map(|(_, found)| found.left_out()).sum(),
            relative: relative.reduce(f64::max),
            used: tensors().filter_map(|(_, t)| t.used).reduce(f64::max),
            worst: worst.map(|(step, t)| Place { step, name: t.name.clone() }),
        })
    }

    /// The first thing with the gravest verdict, in the order of computation.
    fn find(&self) -> Option<Finding> {
        if self.verdict == Verdict::Pass {
            return None;
        }
        let of = |quantity, step, tensor: Option<String>, reason: &Reason| Finding {
            quantity,
            step,
            what: if tensor.is_some() { without_name(reason) } else { reason.to_string() },
            tensor,
        };
        let bad = |reason: &&Reason| reason.verdict() == self.verdict;
        for step in &self.forced {
            let at = Some(step.step);
            let mut found: Vec<Finding> = Vec::new();
            for compared in &step.quantities {
                if let Some(reason) = compared.reasons.iter().find(bad) {
                    found.push(of(compared.quantity, at, None, reason));
                } else if let Some(tensor) = compared.culprit()
                    && let Some(reason) = tensor.reasons.iter().find(bad)
                {
                    let name = tensor.name.strip_prefix("parameter/").unwrap_or(&tensor.name);
                    found.push(of(compared.quantity, at, Some(name.to_owned()), reason));
                }
            }
            let own = step.reasons.iter().filter(bad);
            found.extend(own.map(|reason| of(belongs_to(reason), None, None, reason)));
            if let Some(first) = found.into_iter().min_by_key(|finding| finding.quantity) {
                return Some(first);
            }
        }
        let free = self.free_run.as_ref().and_then(|run| run.reasons.iter().find(bad));
        let free = free.map(|reason| of(Quantity::LossCurve, None, None, reason));
        let metrics = || self.metrics.iter().flat_map(|metric| &metric.reasons);
        free.or_else(|| metrics().find(bad).map(|r| of(Quantity::Metrics, None, None, r)))
    }

    fn sentence(&self) -> String {
        if self.verdict == Verdict::Pass {
            let mut parts = vec![many(self.forced.len() as u64, "teacher-forced step")];
            if let Some(run) = &self.free_run {
                parts.push(many(run.compared, "loss"));
            }
            if !self.metrics.is_empty() {
                parts.push(many(self.metrics.len() as u64, "metric"));
            }
            let last = parts.pop().unwrap_or_default();
            let list =
                if parts.is_empty() { last } else { format!("{} and {last}", parts.join(", ")) };
            let elements = grouped(self.elements);
            return format!("{list} agree; {elements} numbers compared.");
        }
        // What belongs to the whole comparison comes before what was found in one place.
        let gravest = self.reasons.first().map(ToString::to_string).unwrap_or_default();
        let whole = self.reasons.first().is_some_and(|reason| {
            matches!(
                reason,
                Reason::UnstableReference { .. }
                    | Reason::NothingCompared
                    | Reason::IncompleteBundle { .. }
                    | Reason::Undecided { .. }
            )
        });
        let first = match &self.first {
            Some(first) if !whole => first.to_string(),
            _ => gravest,
        };
        let bad: Vec<&str> = self
            .quantities
            .iter()
            .filter(|quantity| quantity.verdict == self.verdict)
            .map(|quantity| quantity.quantity.name())
            .collect();
        if bad.len() > 1 {
            format!("{first}; affected: {}.", bad.join(", "))
        } else {
            format!("{first}.")
        }
    }
}

/// The quantity of a reason that stands at a step and at no tensor.
fn belongs_to(reason: &Reason) -> Quantity {
    match reason {
        Reason::SettingDiffers { .. } => Quantity::Settings,
        _ => Quantity::Loss,
    }
}

/// "1 loss", "300 losses".
fn many(count: u64, what: &str) -> String {
    match (count, what) {
        (1, what) => format!("1 {what}"),
        (count, "loss") => format!("{} losses", grouped(count)),
        (count, what) => format!("{} {what}s", grouped(count)),
    }
}

/// A reason's text without the tensor's name, which stands before it.
fn without_name(reason: &Reason) -> String {
    let text = reason.to_string();
    match reason.tensor() {
        Some(tensor) => text.strip_prefix(&format!("{tensor}: ")).unwrap_or(&text).to_owned(),
        None => text,
    }
}
