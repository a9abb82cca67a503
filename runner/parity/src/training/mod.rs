//! Whether two trainings computed the same.
//!
//! Two free trainings drift apart chaotically, so most is judged at teacher-forced steps: the
//! candidate starts from golden's own state and batch, and that one step's activations, loss,
//! gradients and new state are compared, as is the optimiser alone, fed golden's gradients. The
//! free run is held to golden's own spread: the loss curves and metrics of goldens whose rounding
//! was perturbed. `docs/validation.md` says why each rule is what it is.

mod curve;
mod elements;
mod forced;
mod metrics;
mod outcome;
mod rules;
mod side;
#[cfg(test)]
mod tests;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bundle::{self, BundleError};
use crate::compare::{Number, Worst};
use crate::judge::Settings;
use crate::tolerance::Tolerances;
use crate::verdict::{Reason, Verdict};
pub use curve::{CurveBounds, FreeRun};
pub use metrics::MetricAt;
pub(crate) use metrics::wanted;
pub use outcome::{Finding, Place, QuantitySummary};
use side::Folder;

/// The form of [`TrainingParity`]; a reader that does not know it must not guess.
pub const VERSION: u32 = 1;

/// What two trainings are held to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrainingSettings {
    pub tolerances: Tolerances,
    pub bounds: Bounds,
    /// Golden is expected to hold NaN or infinity.
    pub expect_nonfinite: bool,
}

/// Bounds that are no elementwise tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// ‖candidate − golden‖ / ‖golden‖ of a gradient.
    pub gradient_relative: f64,
    /// A gradient may lie this many times as far from golden as golden lies from the float64
    /// oracle; one that is zero but for rounding may be this many times golden's own noise.
    pub noise_multiple: f64,
    /// The largest share of gradient elements that may be left out as noise.
    pub most_left_out: f64,
    /// ‖candidate − golden‖ / ‖golden − before‖ of a parameter over one step.
    pub update_relative: f64,
    /// The optimiser alone: ulps at the larger of the values before and after the step …
    pub optimizer_ulps: f64,
    /// … plus this share of the change.
    pub optimizer_relative: f64,
    pub curve: CurveBounds,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            gradient_relative: 1e-3,
            noise_multiple: 3.0,
            most_left_out: 0.01,
            update_relative: 1e-2,
            optimizer_ulps: 4.0,
            optimizer_relative: 1e-5,
            curve: CurveBounds::default(),
        }
    }
}

/// What is compared, in the order in which a step computes it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Results of the graph's nodes.
    Activations,
    Loss,
    Gradients,
    /// Learning rates and gradient norms.
    Settings,
    /// The state after a step of the optimiser alone, fed golden's gradients.
    Optimizer,
    /// Parameters after the whole step.
    Weights,
    /// The optimiser's state after the whole step.
    OptimizerState,
    /// Buffers that the step changes, such as batch-norm statistics.
    Buffers,
    /// The losses of the free run.
    LossCurve,
    /// Final metrics of the free run.
    Metrics,
}

impl Quantity {
    pub const ALL: [Self; 10] = [
        Self::Activations,
        Self::Loss,
        Self::Gradients,
        Self::Settings,
        Self::Optimizer,
        Self::Weights,
        Self::OptimizerState,
        Self::Buffers,
        Self::LossCurve,
        Self::Metrics,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Activations => "activations",
            Self::Loss => "loss",
            Self::Gradients => "gradients",
            Self::Settings => "settings",
            Self::Optimizer => "optimiser alone",
            Self::Weights => "weights",
            Self::OptimizerState => "optimiser state",
            Self::Buffers => "buffers",
            Self::LossCurve => "loss curve",
            Self::Metrics => "metrics",
        }
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// By what a tensor was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Every element by the tolerance.
    Elementwise,
    /// As near to the float64 oracle as golden is, though elements miss the tolerance.
    FormatError,
    /// Zero but for rounding in golden: by its size.
    Noise,
    /// By ulps of the optimiser's own arithmetic.
    Ulps,
    /// Must be equal: integers, and what is not trained.
    Exact,
}

/// One tensor of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TensorAt {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<usize>,
    pub verdict: Verdict,
    pub rule: Rule,
    /// Why it is not a pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// Elements compared.
    pub count: u64,
    /// Elements that miss the bound, those that were left out not counted.
    pub mismatches: u64,
    /// Elements that miss the tolerance because golden's gradient there is rounding noise.
    pub left_out: u64,
    pub max_abs: f64,
    /// ‖candidate − golden‖ / ‖golden‖; none if golden is zero and the candidate is not.
    pub relative: Option<f64>,
    /// The same of both sides to the float64 oracle.
    pub golden_to_oracle: Option<f64>,
    pub candidate_to_oracle: Option<f64>,
    /// The largest error as a multiple of what is allowed; none if that is nothing, or an element
    /// is not finite.
    pub used: Option<f64>,
    pub worst: Option<Worst>,
}

/// One quantity at one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    pub quantity: Quantity,
    pub verdict: Verdict,
    /// In the graph's order, as far as it is known.
    pub tensors: Vec<TensorAt>,
    /// What belongs to no tensor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

impl Compared {
    pub fn elements(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.count).sum()
    }

    pub fn left_out(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.left_out).sum()
    }

    /// The first tensor with the gravest verdict in a quantity that is computed in order, else
    /// the one that is furthest off; none if all pass.
    pub fn culprit(&self) -> Option<&TensorAt> {
        let mut bad = self.tensors.iter().filter(|t| t.verdict == self.verdict);
        if self.verdict == Verdict::Pass {
            None
        } else if self.quantity == Quantity::Activations {
            bad.next()
        } else {
            bad.max_by(|a, b| outcome::badness(a).total_cmp(&outcome::badness(b)))
        }
    }
}

/// Losses of one teacher-forced step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepLoss {
    pub verdict: Verdict,
    pub golden: Number,
    /// Absent if the candidate lacks the step.
    pub candidate: Option<Number>,
    /// Golden's in float64.
    pub oracle: Option<Number>,
    pub allowed: f64,
}

/// One teacher-forced step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForcedStep {
    pub step: u64,
    pub verdict: Verdict,
    pub learning_rate: f64,
    pub loss: StepLoss,
    pub quantities: Vec<Compared>,
    /// What belongs to none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

/// Whether golden reproduces itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reproducibility {
    /// Tensors that golden computed twice; none means that it was not checked.
    pub tensors: u64,
    /// Those that differ.
    pub different: u64,
    /// The largest distance of golden's teacher-forced losses from float64, as a multiple of the
    /// tolerance; absent without an oracle.
    pub loss_noise: Option<f64>,
}

/// How far apart the weights lie after the free run: reported, not judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FinalWeights {
    /// ‖candidate − golden‖ / ‖golden‖ over all parameters together.
    pub relative: Option<f64>,
    pub max_abs: f64,
    pub parameters: u64,
    pub elements: u64,
}

/// The outcome of comparing two trainings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrainingParity {
    /// The form of this file.
    pub version: u32,
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub summary: String,
    /// Everything that speaks against a pass, the gravest first.
    pub reasons: Vec<Reason>,
    /// Where it first went wrong, in the order of computation.
    pub first: Option<Finding>,
    /// Numbers compared in all.
    pub elements: u64,
    pub tolerances: Tolerances,
    pub bounds: Bounds,
    /// A row for each quantity that was compared.
    pub quantities: Vec<QuantitySummary>,
    pub forced: Vec<ForcedStep>,
    pub reproducibility: Reproducibility,
    pub free_run: Option<FreeRun>,
    pub metrics: Vec<MetricAt>,
    pub final_weights: Option<FinalWeights>,
    /// What a reader should know though it changes nothing.
    pub notes: Vec<String>,
}

/// Whether a folder holds a training run: teacher-forced steps, or a loss curve and no outputs of
/// a forward run.
pub fn is_training(folder: &Path) -> bool {
    let here = |folder: &Path| {
        folder.join(bundle::FORCED).is_file()
            || (folder.join(bundle::LOSS_CURVE).is_file()
                && !folder.join(bundle::OUTPUTS).is_file())
    };
    here(folder) || here(&folder.join(bundle::GOLDEN)) || here(&folder.join(bundle::WARPFORGE))
}

/// Compares two trainings, each a side's folder or the bundle that holds both.
///
/// A folder that is not there is an error; one that is damaged or cut off is a verdict.
pub fn judge(
    golden: &Path,
    candidate: &Path,
    settings: &TrainingSettings,
) -> Result<TrainingParity, BundleError> {
    let open = |path: &Path, side| match Folder::open(path, side) {
        Err(error @ BundleError::Absent(_)) => Err(error),
        opened => Ok(opened.map_err(|error| refusal(path, &error))),
    };
    let sides = (open(golden, bundle::GOLDEN)?, open(candidate, bundle::WARPFORGE)?);
    Ok(match sides {
        (Ok(golden), Ok(candidate)) => outcome::judge(&golden, &candidate, settings),
        (Err(reason), _) | (_, Err(reason)) => TrainingParity::without_comparison(reason, settings),
    })
}

/// Why a folder or file cannot be used.
fn refusal(path: &Path, error: &BundleError) -> Reason {
    let path = path.display().to_string();
    match error {
        BundleError::Incomplete { why, .. } => Reason::IncompleteBundle { path, why: why.clone() },
        error => Reason::Unreadable { path, why: error.to_string() },
    }
}

impl TrainingSettings {
    fn of_tensors(&self) -> Settings {
        Settings { tolerances: self.tolerances, expect_nonfinite: self.expect_nonfinite }
    }
}
