//! The files of a training run beside those of every run. Steps are counted from 0.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::Number;

/// Losses and settings of the teacher-forced steps, [`Forced`].
pub const FORCED: &str = "forced.json";
/// What a workload expects of golden, [`Expect`].
pub const EXPECT: &str = "expect.json";
/// The order of a graph's nodes and parameters, [`Order`].
pub const ORDER: &str = "order.json";
/// Perturbed goldens.
pub const NOISE: &str = "noise";
/// Files that golden computed a second time; they must be equal bit for bit.
pub const REPEAT: &str = "repeat";

/// The file of golden's state before a step.
pub fn states(step: u64) -> String {
    format!("states/step-{step}.safetensors")
}

/// The file of the state after a whole step that began at golden's.
pub fn weights(step: u64) -> String {
    format!("weights/step-{step}.safetensors")
}

/// The file of the state after a step of the optimiser alone, fed golden's gradients.
pub fn optimizer(step: u64) -> String {
    format!("optimizer/step-{step}.safetensors")
}

/// The file of one micro-batch of a step.
pub fn batch(step: u64, micro: u64) -> String {
    format!("batches/step-{step}.{micro}.safetensors")
}

/// The losses of one perturbed golden.
pub fn noise_curve(number: usize) -> String {
    format!("{NOISE}/loss_curve-{number}.json")
}

/// The metrics of one perturbed golden.
pub fn noise_metrics(number: usize) -> String {
    format!("{NOISE}/metrics-{number}.json")
}

/// The teacher-forced steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forced {
    pub version: u32,
    pub steps: Vec<ForcedAt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForcedAt {
    pub step: u64,
    pub loss: Number,
    pub learning_rate: f64,
    /// Of all gradients together, before clipping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_norm: Option<Number>,
}

/// What is expected of golden, and how far the two passes may lie apart, by metric.
pub type Expect = BTreeMap<String, Expectation>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Golden's value is at least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Golden's value is at most this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The passes may differ by this much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute: Option<f64>,
    /// The passes may differ by this share of golden's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative: Option<f64>,
}

/// Names in the order of the graph, since files of tensors do not keep it. Without it names are
/// taken in natural order (2 before 10).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Order {
    pub activations: Vec<String>,
    pub parameters: Vec<String>,
    /// Where nodes stand in the model, by node.
    pub modules: BTreeMap<String, String>,
}
