//! Teacher-forced steps: the candidate began each of them from golden's own state and batch.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use rayon::prelude::*;

use super::elements::{Values, fold};
use super::rules::{self, Gradient, Pair};
use super::side::{Folder, pair};
use super::{Compared, ForcedStep, Quantity, StepLoss, TensorAt, TrainingSettings};
use crate::bundle::{self, BundleError, Forced, ForcedAt, Order};
use crate::compare::{Number, Tensor, Tolerance, ulp};
use crate::file::TensorFile;
use crate::tolerance::Kind;
use crate::verdict::{Reason, Verdict};

const PARAMETER: &str = "parameter/";
const BUFFER: &str = "buffer/";
const OPTIMIZER: &str = "optimizer/";
/// The slot that is itself a parameter: the float32 copy of a narrow one.
const MASTER: &str = "master";
/// The slot that holds squares of gradients.
const SQUARED: &str = "exp_avg_sq";
/// Learning rates come from the same recipe by the same formula in float64.
const SETTING: f64 = 1e-9;

/// Judges every step golden has.
pub(super) fn steps(
    golden: &Folder,
    candidate: &Folder,
    settings: &TrainingSettings,
) -> Result<(Vec<ForcedStep>, Vec<Reason>), BundleError> {
    let name = bundle::FORCED;
    let files = pair(name, golden.json::<Forced>(name)?, candidate.json::<Forced>(name)?);
    let (ours, theirs) = match files {
        Ok(both) => both,
        Err(reason) => return Ok((Vec::new(), reason.into_iter().collect())),
    };
    let oracle = golden.json::<Forced>(&format!("{}/{name}", bundle::ORACLE))?;
    let order = Ranks::of(&golden.json::<Order>(bundle::ORDER)?.unwrap_or_default());
    let at = |of: &Forced, step: u64| of.steps.iter().find(|at| at.step == step).copied();
    let judged = ours.steps.iter().map(|golden_at| {
        let step = golden_at.step;
        let judge = Forcing { golden, candidate, order: &order, step, settings };
        let oracle = oracle.as_ref().and_then(|oracle| at(oracle, step));
        judge.all(golden_at, at(&theirs, step), oracle)
    });
    let judged = judged.collect();
    let extra = theirs.steps.iter().filter(|theirs| at(&ours, theirs.step).is_none());
    Ok((judged, extra.map(|extra| Reason::ExtraStep { step: extra.step }).collect()))
}

struct Forcing<'a> {
    golden: &'a Folder,
    candidate: &'a Folder,
    order: &'a Ranks,
    step: u64,
    settings: &'a TrainingSettings,
}

/// The files of one step.
#[derive(Default)]
struct Files {
    gradients: Option<(TensorFile, TensorFile)>,
    oracle_gradients: Option<TensorFile>,
    weights: Option<TensorFile>,
    before: Option<TensorFile>,
}

impl Forcing<'_> {
    fn all(
        &self,
        golden: &ForcedAt,
        theirs: Option<ForcedAt>,
        oracle: Option<ForcedAt>,
    ) -> ForcedStep {
        let mut reasons = Vec::new();
        let mut quantities = Vec::new();
        let Some(theirs) = theirs else {
            let loss = self.loss(golden, None, oracle, 0.0).0;
            let step = self.step;
            reasons.push(Reason::MissingStep { step });
            let (verdict, learning_rate) = (Verdict::Fail, golden.learning_rate);
            return ForcedStep { step, verdict, learning_rate, loss, quantities, reasons };
        };
        let mut epsilon = 0.0;
        if let Err(error) = self.files(golden, &mut quantities, &mut epsilon) {
            let path = format!("step {}", self.step);
            reasons.push(Reason::Unreadable { path, why: error.to_string() });
        }
        reasons.extend(self.told(golden, &theirs, epsilon));
        let (loss, problem) = self.loss(golden, Some(theirs), oracle, epsilon);
        reasons.extend(problem);
        let own = reasons.iter().map(Reason::verdict);
        let verdict = Verdict::gravest(
            own.chain(quantities.iter().map(|q| q.verdict)).chain([Verdict::Pass]),
        );
        let learning_rate = golden.learning_rate;
        ForcedStep { step: self.step, verdict, learning_rate, loss, quantities, reasons }
    }

    /// Numbers that both passes derive from the same recipe. A norm is no surer than the format
    /// that gradients are computed in, `epsilon` is its spacing at 1.
    fn told(&self, golden: &ForcedAt, theirs: &ForcedAt, epsilon: f64) -> Vec<Reason> {
        let differs = |setting: &str, a: f64, b: f64, rtol: f64| {
            let near = (a - b).abs() <= rtol * a.abs();
            (!near).then(|| Reason::SettingDiffers {
                step: self.step,
                setting: setting.to_owned(),
                golden: Number(a),
                candidate: Number(b),
            })
        };
        let rate = differs("learning rate", golden.learning_rate, theirs.learning_rate, SETTING);
        let norms = golden.gradient_norm.zip(theirs.gradient_norm);
        let bound = self.settings.bounds.gradient_relative.max(epsilon);
        let norm = norms.and_then(|(a, b)| differs("gradient norm", a.0, b.0, bound));
        rate.into_iter().chain(norm).collect()
    }

    /// `epsilon` is that of the narrowest float format the step computes in.
    fn loss(
        &self,
        golden: &ForcedAt,
        theirs: Option<ForcedAt>,
        oracle: Option<ForcedAt>,
        epsilon: f64,
    ) -> (StepLoss, Option<Reason>) {
        let Number(a) = golden.loss;
        let oracle = oracle.map(|at| at.loss);
        let allowed = loss_allowed(self.settings.tolerances.loss, a, oracle.map(|o| o.0), epsilon);
        let same_nonfinite =
            |b: f64| self.settings.expect_nonfinite && (a == b || (a.is_nan() && b.is_nan()));
        let holds = |b: f64| (b - a).abs() <= allowed || same_nonfinite(b);
        let candidate = theirs.map(|at| at.loss);
        let good = candidate.is_some_and(|Number(b)| holds(b));
        let verdict = if good { Verdict::Pass } else { Verdict::Fail };
        let problem = candidate.filter(|_| !good).map(|candidate| Reason::LossDiffers {
            step: self.step,
            golden: golden.loss,
            candidate,
            allowed,
        });
        (StepLoss { verdict, golden: golden.loss, candidate, oracle, allowed }, problem)
    }

    fn files(
        &self,
        golden: &ForcedAt,
        quantities: &mut Vec<Compared>,
        epsilon: &mut f64,
    ) -> Result<(), BundleError> {
        let oracle = |name: &str| self.golden.tensors(&format!("{}/{name}", bundle::ORACLE));
        let name = bundle::activations(self.step);
        match pair(&name, self.golden.tensors(&name)?, self.candidate.tensors(&name)?) {
            Ok((ours, theirs)) => {
                *epsilon = epsilon.max(widest_ulp(&ours));
                let found = self.activations(&ours, &theirs, oracle(&name)?.as_ref());
                // A model may have no module whose results could be looked at.
                quantities.extend(Some(found).filter(|found| !found.tensors.is_empty()));
            }
            // Taps are a choice; what golden tapped the candidate must have.
            Err(Some(reason @ Reason::MissingFile { .. })) => {
                quantities.push(Compared::missing(Quantity::Activations, reason));
            }
            Err(_) => {}
        }

        let mut files = Files::default();
        let name = bundle::gradients(self.step);
        match pair(&name, self.golden.tensors(&name)?, self.candidate.tensors(&name)?) {
            Ok(both) => {
                *epsilon = epsilon.max(widest_ulp(&both.0));
                files.oracle_gradients = oracle(&name)?;
                files.gradients = Some(both);
                quantities.push(self.gradients(&files));
            }
            Err(reason) => quantities.push(Compared::missing(
                Quantity::Gradients,
                reason.unwrap_or(Reason::GoldenLacks { path: name }),
            )),
        }

        files.before = self.golden.tensors(&bundle::states(self.step))?;
        let name = bundle::weights(self.step);
        files.weights = self.golden.tensors(&name)?;
        let Some(after) = &files.weights else {
            quantities
                .push(Compared::missing(Quantity::Weights, Reason::GoldenLacks { path: name }));
            return Ok(());
        };
        let alone = bundle::optimizer(self.step);
        quantities.push(match self.candidate.tensors(&alone)? {
            Some(theirs) => self.optimizer(golden.learning_rate, after, &theirs, &files),
            None => Compared::missing(Quantity::Optimizer, Reason::MissingFile { path: alone }),
        });
        let Some(theirs) = self.candidate.tensors(&name)? else {
            quantities
                .push(Compared::missing(Quantity::Weights, Reason::MissingFile { path: name }));
            return Ok(());
        };
        let oracle = oracle(&name)?;
        quantities.extend(self.whole(
            golden.learning_rate,
            after,
            &theirs,
            oracle.as_ref(),
            &files,
        ));
        Ok(())
    }

    fn activations(
        &self,
        ours: &TensorFile,
        theirs: &TensorFile,
        oracle: Option<&TensorFile>,
    ) -> Compared {
        let names = self.order.sorted(union(ours, theirs, |_| true), &self.order.activations);
        let group = format!("activations/step-{}", self.step);
        let tensors = each(&group, &names, ours, theirs, oracle, |name, label, pair| {
            rules::plain(name, label, Kind::Activations, pair, self.settings)
        });
        Compared::of(Quantity::Activations, tensors, Vec::new())
    }

    fn gradients(&self, files: &Files) -> Compared {
        let Some((ours, theirs)) = &files.gradients else {
            return Compared::of(Quantity::Gradients, Vec::new(), Vec::new());
        };
        let names = self.order.sorted(union(ours, theirs, |_| true), &self.order.parameters);
        let scales = names.par_iter().filter_map(|name| ours.tensor(name)).map(|t| rms(&t));
        let scale = scales.reduce(|| 0.0, f64::max);
        let group = format!("gradients/step-{}", self.step);
        let oracle = files.oracle_gradients.as_ref();
        let tensors = each(&group, &names, ours, theirs, oracle, |name, label, pair| {
            rules::gradient(name, label, pair, scale, self.settings)
        });
        let count = tensors.iter().map(|tensor| tensor.count).sum::<u64>();
        let left_out = tensors.iter().map(|tensor| tensor.left_out).sum::<u64>();
        let most = self.settings.bounds.most_left_out;
        let too_many = (left_out as f64 > most * count as f64).then_some(Reason::TooManyLeftOut {
            quantity: group,
            left_out,
            count,
            most,
        });
        Compared::of(Quantity::Gradients, tensors, too_many.into_iter().collect())
    }

    fn optimizer(
        &self,
        rate: f64,
        after: &TensorFile,
        theirs: &TensorFile,
        files: &Files,
    ) -> Compared {
        // Adam's step is a share of the rate: rounding in its averages, which may cancel, is too.
        let averaged = |name: &str| {
            let parameter = name.strip_prefix(PARAMETER)?;
            after.tensor(&format!("{OPTIMIZER}exp_avg/{parameter}"))
        };
        let trained = |name: &str| match name.strip_prefix(PARAMETER) {
            Some(parameter) => files.gradient(parameter).is_some(),
            None => name.starts_with(OPTIMIZER),
        };
        let names = self.order.sorted(union(after, theirs, trained), &self.order.parameters);
        let group = format!("optimizer/step-{}", self.step);
        let tensors = each(&group, &names, after, theirs, None, |name, label, pair| {
            let before = files.before.as_ref().and_then(|before| before.tensor(name));
            let rate = if averaged(name).is_some() { rate } else { 0.0 };
            rules::optimizer_alone(name, label, pair, before.as_ref(), rate, self.settings)
        });
        Compared::of(Quantity::Optimizer, tensors, Vec::new())
    }

    /// Everything the whole step changes.
    fn whole(
        &self,
        rate: f64,
        ours: &TensorFile,
        theirs: &TensorFile,
        oracle: Option<&TensorFile>,
        files: &Files,
    ) -> Vec<Compared> {
        let group = format!("weights/step-{}", self.step);
        let before = |name: &str| files.before.as_ref().and_then(|before| before.tensor(name));
        let moved = |name: &str, label: &str, pair: &Pair<'_>, gradient: &Gradient<'_>| {
            let before = before(name);
            rules::parameter(name, label, pair, before.as_ref(), gradient, rate, self.settings)
        };
        let of = |quantity: Quantity, prefix: &str| {
            let names = union(ours, theirs, |name| name.starts_with(prefix));
            let names = self.order.sorted(names, &self.order.parameters);
            let tensors = each(&group, &names, ours, theirs, oracle, |name, label, pair| {
                let rest = name.strip_prefix(prefix).unwrap_or(name);
                match quantity {
                    Quantity::Weights => match files.gradient(rest) {
                        Some(gradient) => moved(name, label, pair, &gradient),
                        None => rules::frozen(name, label, pair),
                    },
                    Quantity::OptimizerState => {
                        let (slot, parameter) = rest.split_once('/').unwrap_or((rest, ""));
                        let gradient = files.gradient(parameter);
                        if let Some(gradient) = gradient.filter(|_| slot == MASTER) {
                            return moved(name, label, pair, &gradient);
                        }
                        let squared = slot == SQUARED;
                        rules::slot(name, label, pair, gradient.as_ref(), squared, self.settings)
                    }
                    _ => rules::plain(name, label, Kind::Weights, pair, self.settings),
                }
            });
            Compared::of(quantity, tensors, Vec::new())
        };
        let all = [
            of(Quantity::Weights, PARAMETER),
            of(Quantity::OptimizerState, OPTIMIZER),
            of(Quantity::Buffers, BUFFER),
        ];
        all.into_iter().filter(|found| !found.tensors.is_empty()).collect()
    }
}

impl Files {
    /// A parameter's gradient; none if it is not trained, or only on one side.
    fn gradient(&self, parameter: &str) -> Option<Gradient<'_>> {
        let (ours, theirs) = self.gradients.as_ref()?;
        Some(Pair {
            golden: ours.tensor(parameter)?,
            candidate: theirs.tensor(parameter)?,
            oracle: self.oracle_gradients.as_ref().and_then(|oracle| oracle.tensor(parameter)),
        })
    }
}

impl Compared {
    fn of(quantity: Quantity, tensors: Vec<TensorAt>, reasons: Vec<Reason>) -> Self {
        let verdicts = tensors.iter().map(|tensor| tensor.verdict);
        let verdicts = verdicts.chain(reasons.iter().map(Reason::verdict)).chain([Verdict::Pass]);
        Self { quantity, verdict: Verdict::gravest(verdicts), tensors, reasons }
    }

    fn missing(quantity: Quantity, reason: Reason) -> Self {
        Self::of(quantity, Vec::new(), vec![reason])
    }
}

/// What a loss may differ by. Formats narrower than float32 cannot hold the tolerance: theirs is
/// half an ulp of the loss, or twice golden's own distance from float64.
fn loss_allowed(tolerance: Tolerance, golden: f64, oracle: Option<f64>, epsilon: f64) -> f64 {
    let allowed = tolerance.allows(golden);
    if epsilon <= f64::from(f32::EPSILON) {
        return allowed;
    }
    let own = oracle.map_or(0.0, |oracle| 2.0 * (golden - oracle).abs());
    let allowed = allowed.max(0.5 * epsilon * golden.abs()).max(own);
    // JSON has no infinity, and nothing is near to it.
    if allowed.is_finite() { allowed } else { tolerance.atol }
}

/// Judges pairs of one name, in parallel, and tensors that only one side has.
fn each(
    group: &str,
    names: &[String],
    ours: &TensorFile,
    theirs: &TensorFile,
    oracle: Option<&TensorFile>,
    rule: impl Fn(&str, &str, &Pair<'_>) -> TensorAt + Sync,
) -> Vec<TensorAt> {
    let one = |name: &String| {
        let label = format!("{group}/{}", name.strip_prefix(PARAMETER).unwrap_or(name));
        let oracle = oracle.and_then(|oracle| oracle.tensor(name));
        Some(match (ours.tensor(name), theirs.tensor(name)) {
            (Some(golden), Some(candidate)) => {
                rule(name, &label, &Pair { golden, candidate, oracle })
            }
            (Some(golden), None) => rules::alone(name, &label, &golden, true),
            (None, candidate) => rules::alone(name, &label, &candidate?, false),
        })
    };
    names.par_iter().filter_map(one).collect()
}

fn union(
    ours: &TensorFile,
    theirs: &TensorFile,
    wanted: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    let names = ours.names().into_iter().chain(theirs.names());
    names.filter(|name| wanted(name)).collect()
}

/// One ulp at 1 of the narrowest float format in a file.
fn widest_ulp(file: &TensorFile) -> f64 {
    let names = file.names().into_iter();
    let ulps = names.filter_map(|name| ulp(file.tensor(&name)?.dtype, 1.0));
    ulps.fold(0.0, f64::max)
}

fn rms(tensor: &Tensor<'_>) -> f64 {
    let Some(values) = Values::of(tensor) else { return 0.0 };
    let squares = fold([values], |sum: &mut f64, _, [x]| *sum += x * x, |a, b| a + b);
    let rms = (squares / values.len().max(1) as f64).sqrt();
    if rms.is_finite() { rms } else { 0.0 }
}

/// Places in the graph's order, by name.
struct Ranks {
    activations: HashMap<String, usize>,
    parameters: HashMap<String, usize>,
}

impl Ranks {
    fn of(order: &Order) -> Self {
        let ranks = |names: &[String]| names.iter().cloned().zip(0..).collect();
        Self { activations: ranks(&order.activations), parameters: ranks(&order.parameters) }
    }

    /// Names in the graph's order; those it does not know come last, in natural order.
    #[expect(clippy::unused_self, reason = "it reads as the order's own")]
    fn sorted(&self, names: BTreeSet<String>, ranks: &HashMap<String, usize>) -> Vec<String> {
        let rank = |name: &str| {
            let rest = name.strip_prefix(PARAMETER).or_else(|| name.strip_prefix(BUFFER));
            let rest =
                rest.or_else(|| name.strip_prefix(OPTIMIZER)?.split_once('/').map(|(_, n)| n));
            ranks.get(rest.unwrap_or(name)).copied().unwrap_or(usize::MAX)
        };
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| natural(a, b)));
        names
    }
}

/// Numbers in names by their value: layer.2 before layer.10.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (m, n) = (digits(a), digits(b));
        if m > 0 && n > 0 {
            let strip = |text: &str, n: usize| text[..n].trim_start_matches('0').to_owned();
            let (x, y) = (strip(a, m), strip(b, n));
            match x.len().cmp(&y.len()).then(x.cmp(&y)) {
                Ordering::Equal => (a, b) = (&a[m..], &b[n..]),
                other => return other,
            }
            continue;
        }
        let (mut rest_a, mut rest_b) = (a.chars(), b.chars());
        match (rest_a.next(), rest_b.next()) {
            (Some(x), Some(y)) if x == y => (a, b) = (rest_a.as_str(), rest_b.as_str()),
            (x, y) => return x.cmp(&y),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count() {
        let mut names = ["l.10.w", "l.2.w", "l.2.b", "a", "l.02.w"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "l.2.b", "l.2.w", "l.02.w", "l.10.w"]);
    }

    #[test]
    fn narrow_formats_widen_the_loss() {
        let tolerance = Tolerance { rtol: 1e-4, atol: 1e-6 };
        let allowed = |oracle, epsilon| loss_allowed(tolerance, 2.0, oracle, epsilon);
        assert_eq!(allowed(Some(3.0), f64::from(f32::EPSILON)), 2e-4 + 1e-6);
        assert_eq!(allowed(None, 2f64.powi(-7)), 2f64.powi(-7));
        assert_eq!(allowed(Some(2.5), 2f64.powi(-7)), 1.0);
    }
}
