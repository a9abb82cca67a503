//! Messages of a training session: a model is opened once, keeps its parameters, buffers and
//! optimiser state, and is then driven step by step. Tensors travel as safetensors files.
//!
//! In files of state, names are `parameter/NAME`, `buffer/NAME` and `optimizer/SLOT/NAME`, where
//! a slot is `exp_avg`, `exp_avg_sq`, `momentum_buffer` or `master`; `optimizer/scale`,
//! `optimizer/good_steps` and `optimizer/updates` (steps that were not left out, which bias
//! corrections count) are there where the loss is scaled. Tied parameters stand under their first
//! name. There is no `momentum_buffer` before the first update, as in PyTorch. Buffers are those
//! that are saved with the model, and those that the graph writes to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use warpforge_training::Recipe;

use crate::message::{Device, Precision, Taps, Weights};

/// Load a model for training. A second `open` ends the session before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    pub model: PathBuf,
    /// The same model for use: its parameters and buffers are those of `model`, by name.
    #[serde(default)]
    pub evaluation: Option<PathBuf>,
    #[serde(default)]
    pub weights: Weights,
    #[serde(default)]
    pub precision: Precision,
    #[serde(default)]
    pub device: Device,
    pub threads: u32,
    pub seed: u64,
    /// Sizes that the models leave open. Where none is given they follow from each batch.
    #[serde(default)]
    pub dims: BTreeMap<String, i64>,
    #[serde(default)]
    pub evaluation_dims: BTreeMap<String, i64>,
    /// The output to descend, by its name or as `output.N` by position; without it the one
    /// marked as loss, or the only scalar float output.
    #[serde(default)]
    pub loss: Option<String>,
    pub recipe: Recipe,
    #[serde(default)]
    pub tf32: bool,
}

/// What a model came to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    pub device: Device,
    pub threads: u32,
    /// Parameters that are trained, in the graph's order, the first name of tied ones.
    pub trained: Vec<String>,
    /// Parameters that are not.
    pub frozen: Vec<String>,
    pub loss: String,
    pub load_seconds: f64,
    #[serde(default)]
    pub memory: Memory,
}

/// The child's memory, where the system tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What is in memory now, mapped files included.
    pub resident_bytes: Option<u64>,
    /// The most that ever was.
    pub peak_bytes: Option<u64>,
}

/// One update of the parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Counted from 0; it is what schedules, random numbers and, unless the loss is scaled, bias
    /// corrections depend on.
    pub step: u32,
    /// The inputs: one file for each micro-batch. Micro-batch `i` draws its random numbers at
    /// step `step * accumulation + i`. Of several ranks each is given its own share, as long as
    /// any other's: rank 0 the first, and so on; `i` counts through all of them.
    pub batches: Vec<PathBuf>,
    /// Where the gradients go, by parameter's name: of the loss itself, summed over the
    /// micro-batches of all ranks, unscaled, before clipping.
    #[serde(default)]
    pub gradients: Option<PathBuf>,
    /// Where nodes' results of the first micro-batch go.
    #[serde(default)]
    pub activations: Option<PathBuf>,
    #[serde(default)]
    pub taps: Taps,
    /// Where the state after the step goes.
    #[serde(default)]
    pub state: Option<PathBuf>,
    /// Where the outputs go, of the first micro-batch, by name.
    #[serde(default)]
    pub outputs: Option<PathBuf>,
    /// Whether everything stays as it was: only gradients and losses are wanted.
    #[serde(default)]
    pub dry: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stepped {
    /// The mean of the losses of all ranks' micro-batches; `None` where it is not finite, which JSON lacks.
    pub loss: Option<f64>,
    pub learning_rate: f64,
    /// Of all gradients together, before clipping; only where clipping wants it.
    #[serde(default)]
    pub gradient_norm: Option<f64>,
    /// Whether the step was left out because a scaled gradient overflowed.
    #[serde(default)]
    pub skipped: bool,
    /// Computing alone: no files, unless nodes' results were written.
    pub seconds: f64,
    /// Trained parameters that the loss does not depend on: as in PyTorch they have no gradient
    /// and are not updated, nor do they decay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_gradient: Vec<String>,
    /// Operators that drew from libtorch's own generator: the other pass cannot repeat them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_random: BTreeMap<String, u64>,
    #[serde(default)]
    pub memory: Memory,
}

/// Run the evaluation model, or the trained one where there is none, with the present weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    /// The inputs of one batch.
    pub inputs: PathBuf,
    /// Where its outputs go, by name.
    pub outputs: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// Computing alone: no files.
    pub seconds: f64,
}
