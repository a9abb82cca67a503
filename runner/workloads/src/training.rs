//! A model trained in both passes.
//!
//! A [`Plan`] says what is trained and how; a [`Task`] has the data and says how good the result
//! is. [`golden`] makes golden's folder: the free run, the state before some steps and what those
//! steps give, the same in float64, and a few slightly disturbed runs that show how far two right
//! trainings drift apart. [`execute`] makes the other folder from it: the same steps from golden's
//! own state, the optimiser alone on golden's gradients, and a free run. [`stepper`] is Pass 2.

pub mod both;
pub mod execute;
pub mod given;
pub mod golden;
pub mod measure;
pub mod progress;
pub mod ranks;
pub mod remat;
pub mod stepper;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use warpforge_compiler::Remat;
use warpforge_golden_protocol as protocol;
use warpforge_parity::bundle::Metrics;
use warpforge_parity::performance;
use warpforge_pt2::DimSpec;
use warpforge_training::Recipe;

use crate::error::Error;
use crate::forward::Weights;
use crate::tensors::Named;
use crate::timeline::Part;

/// What is trained, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The model as it is trained: one of its outputs is the loss.
    pub model: PathBuf,
    /// The same model for use.
    pub evaluation: Option<PathBuf>,
    pub weights: Weights,
    pub dims: Vec<DimSpec>,
    pub evaluation_dims: Vec<DimSpec>,
    /// The name of the loss where it is not clear.
    pub loss: Option<String>,
    pub recipe: Recipe,
    pub steps: u32,
    /// Steps that are also run from golden's state.
    pub forced: Vec<u32>,
    pub noise: Noise,
    pub seed: u64,
    pub threads: u32,
    pub device: protocol::Device,
    /// Whether golden also runs the forced steps in float64.
    pub oracle: bool,
    /// How many steps lie between two checkpoints.
    pub checkpoint_every: u32,
    /// When it has to end, done or not.
    pub deadline: Option<Deadline>,
    /// What Pass 2 computes again on the way back instead of keeping it.
    pub remat: Remat,
    pub libtorch: protocol::Search,
    /// Which part of golden's pass this process has, where several share it.
    pub rank: Option<ranks::Rank>,
}

/// What a request to golden may take after the run's time is up: a step that has begun is
/// finished, so that it counts, and golden is ended only where it hangs.
const GRACE: Duration = Duration::from_mins(1);

/// When a run has to end, done or not.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    started: Instant,
    limit: Duration,
}

impl Deadline {
    /// The time runs from now on.
    pub fn after(limit: Duration) -> Self {
        Self { started: Instant::now(), limit }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed())
    }
}

impl Plan {
    /// Ends the run here if its time is up.
    fn check_time(&self, at: impl FnOnce() -> String) -> Result<(), Error> {
        match &self.deadline {
            Some(deadline) if deadline.left().is_zero() => {
                Err(Error::Deadline { limit: deadline.limit, at: at() })
            }
            _ => Ok(()),
        }
    }

    /// What a request to golden may still take.
    fn request_limit(&self) -> Option<Duration> {
        self.deadline.as_ref().map(|deadline| deadline.left() + GRACE)
    }

    /// A request that was cut off because the run's time was up is no failure of golden's.
    fn golden_error(&self, error: protocol::Error, at: &str) -> Error {
        match (&error, self.check_time(|| at.to_owned())) {
            (protocol::Error::TimedOut { .. }, Err(deadline)) => deadline,
            _ => error.into(),
        }
    }
}

/// Golden's own spread: runs from weights that differ in their last bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    pub runs: u32,
    /// How long each is; those as long as the run itself also give metrics.
    pub steps: u32,
}

/// The data of a training, and how its result is judged.
pub trait Task: Sync {
    /// The micro-batches of a step, by the names of the model's inputs.
    fn batches(&self, step: u32) -> Result<Vec<Named>, Error>;

    /// What the data are known by: it differs if they do.
    fn digest(&self) -> String;

    /// The inputs of the evaluation model, batch by batch; empty if nothing is evaluated.
    fn evaluation(&self) -> Result<Vec<Named>, Error>;

    /// What the evaluation model's outputs are worth, in the order of [`Task::evaluation`].
    fn score(&self, outputs: &[Named]) -> Result<Metrics, Error>;
}

/// How far a training has come.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    Loading,
    /// The free run of a pass.
    Training {
        pass: Pass,
        step: u32,
        steps: u32,
        loss: f64,
    },
    /// A step from golden's state.
    Forced {
        pass: Pass,
        step: u32,
    },
    Evaluating {
        pass: Pass,
        batch: usize,
        batches: usize,
    },
    Noise {
        run: u32,
        runs: u32,
        step: u32,
        steps: u32,
    },
    /// Timing both passes in turn: which of them, once it has begun.
    Measuring {
        pass: Option<Pass>,
    },
    Comparing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Golden,
    Oracle,
    WarpForge,
}

impl Pass {
    pub fn name(self) -> &'static str {
        match self {
            Pass::Golden => "golden",
            Pass::Oracle => "golden in float64",
            Pass::WarpForge => "warpforge",
        }
    }
}

impl Part for Stage {
    fn part(&self) -> (&'static str, Option<performance::Pass>) {
        let of = |pass: Pass| {
            let side = match pass {
                Pass::Golden | Pass::Oracle => performance::Pass::Golden,
                Pass::WarpForge => performance::Pass::Warpforge,
            };
            (pass.name(), Some(side))
        };
        match self {
            Stage::Loading => ("loading", None),
            Stage::Training { pass, .. }
            | Stage::Forced { pass, .. }
            | Stage::Evaluating { pass, .. }
            | Stage::Measuring { pass: Some(pass) } => of(*pass),
            Stage::Noise { .. } => ("golden's own spread", Some(performance::Pass::Golden)),
            Stage::Measuring { pass: None } => ("preparing the timing", None),
            Stage::Comparing => ("comparing", None),
        }
    }
}

/// The mean of the last losses, a twentieth of them: what a run ended with.
fn last_loss(losses: &[Option<f64>]) -> f64 {
    let count = losses.len().div_ceil(20).max(1).min(losses.len());
    let last = &losses[losses.len() - count..];
    last.iter().map(|loss| loss.unwrap_or(f64::NAN)).sum::<f64>() / count as f64
}

/// `count` steps spread over a run, the first among them.
pub fn spread(steps: u32, count: u32) -> Vec<u32> {
    let count = count.min(steps).max(1);
    (0..count).map(|i| (u64::from(i) * u64::from(steps) / u64::from(count)) as u32).collect()
}

fn sizes(dims: &[DimSpec]) -> BTreeMap<String, i64> {
    dims.iter().map(|dim| (dim.name.clone(), dim.size)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forced_steps_are_spread_over_the_run() {
        assert_eq!(spread(100, 5), [0, 20, 40, 60, 80]);
        assert_eq!(spread(3, 5), [0, 1, 2]);
        assert_eq!(spread(1, 5), [0]);
        assert_eq!(spread(7, 2), [0, 3]);
    }
}
