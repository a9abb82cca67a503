//! The recipe of a training run.

use serde::{Deserialize, Serialize};

/// How parameters are updated. Steps are counted from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub optimizer: Optimizer,
    /// Of the first parameter update, before the schedule's factor.
    pub learning_rate: f64,
    #[serde(default)]
    pub schedule: Schedule,
    /// Parameters without weight decay, by name.
    #[serde(default)]
    pub no_decay: Vec<String>,
    /// The largest Euclidean norm of all gradients together; larger ones are scaled down to it.
    #[serde(default)]
    pub clip_norm: Option<f64>,
    /// How many micro-batches make a step: their losses are divided by it and gradients added.
    #[serde(default = "one")]
    pub accumulation: u32,
    /// The loss is multiplied before gradients are taken, and they are divided after.
    #[serde(default)]
    pub loss_scale: Option<LossScale>,
    /// Whether parameters narrower than float32 have a float32 copy that the optimiser updates
    /// and from which they are rounded again after each step.
    #[serde(default)]
    pub master_weights: bool,
}

fn one() -> u32 {
    1
}

/// The update rule, with PyTorch's parameters and meaning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Optimizer {
    /// Weight decay is apart from the gradient.
    AdamW(Adam),
    /// Weight decay is added to the gradient.
    Adam(Adam),
    Sgd(Sgd),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adam {
    pub betas: [f64; 2],
    pub eps: f64,
    pub weight_decay: f64,
}

impl Default for Adam {
    fn default() -> Self {
        Self { betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sgd {
    pub momentum: f64,
    pub dampening: f64,
    pub nesterov: bool,
    pub weight_decay: f64,
}

/// What the learning rate is multiplied by at a step, after a warm-up of `warmup` steps in which
/// it grows as `step / warmup` from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// 1 after the warm-up.
    #[default]
    Constant,
    Warmup {
        warmup: u32,
    },
    /// Falls in a line to 0 at step `total`.
    Linear {
        warmup: u32,
        total: u32,
    },
    /// Falls as half a cosine wave to 0 at step `total`.
    Cosine {
        warmup: u32,
        total: u32,
    },
    /// `gamma` to the power of the number of whole periods of `every` steps after the warm-up.
    Step {
        warmup: u32,
        every: u32,
        gamma: f64,
    },
}

/// A scale that shrinks when a gradient overflows, and then the step is left out, and grows
/// after `interval` steps in a row without.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossScale {
    pub initial: f64,
    pub growth: f64,
    pub backoff: f64,
    pub interval: u32,
}

impl Default for LossScale {
    fn default() -> Self {
        Self { initial: 65536.0, growth: 2.0, backoff: 0.5, interval: 2000 }
    }
}

/// Why a recipe cannot be followed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}; it must be {wanted}")]
pub struct Invalid {
    pub name: &'static str,
    pub value: String,
    pub wanted: &'static str,
}

impl Recipe {
    /// Plain descent by an optimiser.
    pub fn new(optimizer: Optimizer, learning_rate: f64) -> Self {
        Self {
            optimizer,
            learning_rate,
            schedule: Schedule::Constant,
            no_decay: Vec::new(),
            clip_norm: None,
            accumulation: 1,
            loss_scale: None,
            master_weights: false,
        }
    }

    /// Refuses what `torch.optim` refuses, and schedules without steps.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut rules: Vec<(&'static str, f64, bool, &'static str)> = Vec::new();
        let mut at_least_zero = |name, value: f64| {
            rules.push((name, value, value >= 0.0 && value.is_finite(), "0 or more"));
        };
        at_least_zero("the learning rate", self.learning_rate);
        match self.optimizer {
            Optimizer::Adam(adam) | Optimizer::AdamW(adam) => {
                at_least_zero("eps", adam.eps);
                at_least_zero("weight decay", adam.weight_decay);
                for beta in adam.betas {
                    rules.push(("beta", beta, (0.0..1.0).contains(&beta), "from 0 to below 1"));
                }
            }
            Optimizer::Sgd(sgd) => {
                at_least_zero("momentum", sgd.momentum);
                at_least_zero("weight decay", sgd.weight_decay);
                let possible = !sgd.nesterov || (sgd.momentum > 0.0 && sgd.dampening == 0.0);
                let wanted = "0 for Nesterov's method, which also needs a momentum";
                rules.push(("dampening", sgd.dampening, possible, wanted));
            }
        }
        if let Some(norm) = self.clip_norm {
            rules.push(("the clipping norm", norm, norm > 0.0, "above 0"));
        }
        let accumulation = self.accumulation;
        rules.push(("accumulation", accumulation.into(), accumulation > 0, "1 or more"));
        match self.schedule {
            Schedule::Linear { warmup, total } | Schedule::Cosine { warmup, total } => {
                rules.push(("the schedule's total", total.into(), total > warmup, "past warm-up"));
            }
            Schedule::Step { every, .. } => {
                rules.push(("the schedule's period", every.into(), every > 0, "1 or more"));
            }
            Schedule::Constant | Schedule::Warmup { .. } => {}
        }
        if let Some(scale) = self.loss_scale {
            let LossScale { initial, growth, backoff, interval } = scale;
            rules.push(("the loss scale", initial, initial > 0.0, "above 0"));
            rules.push(("the loss scale's growth", growth, growth > 1.0, "above 1"));
            let shrinks = backoff > 0.0 && backoff < 1.0;
            rules.push(("the loss scale's backoff", backoff, shrinks, "between 0 and 1"));
            rules.push(("the loss scale's interval", interval.into(), interval > 0, "1 or more"));
        }
        match rules.into_iter().find(|(_, _, good, _)| !good) {
            Some((name, value, _, wanted)) => {
                Err(Invalid { name, value: value.to_string(), wanted })
            }
            None => Ok(()),
        }
    }
}

/// Whether weight decay is usual for a parameter of this name: not for biases, nor for the
/// weights of normalisations.
pub fn decays(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let norm = |part: &str| {
        let stem = part.trim_end_matches(|c: char| c.is_ascii_digit());
        stem == "norm" || stem.ends_with("_norm") || stem == "ln" || stem.starts_with("ln_")
    };
    !(name.contains("bias")
        || name.contains("layernorm")
        || name.contains("rmsnorm")
        || name.split('.').any(norm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_recipe_takes_pytorchs_defaults() {
        let text = r#"{"optimizer":{"kind":"adamw","weight_decay":0.01},"learning_rate":3e-5}"#;
        let recipe: Recipe = serde_json::from_str(text).unwrap();
        let adam = Adam { weight_decay: 0.01, ..Adam::default() };
        assert_eq!(recipe, Recipe::new(Optimizer::AdamW(adam), 3e-5));
        assert_eq!((adam.betas, adam.eps), ([0.9, 0.999], 1e-8));
        let again: Recipe = serde_json::from_str(&serde_json::to_string(&recipe).unwrap()).unwrap();
        assert_eq!(again, recipe);
    }

    #[test]
    fn impossible_recipes_are_refused() {
        let adam = |betas| Recipe::new(Optimizer::Adam(Adam { betas, ..Adam::default() }), 0.1);
        let sgd = |sgd| Recipe::new(Optimizer::Sgd(sgd), 0.1);
        let mut late = sgd(Sgd::default());
        late.schedule = Schedule::Linear { warmup: 10, total: 10 };
        let nesterov = Sgd { nesterov: true, ..Sgd::default() };
        for (recipe, said) in [
            (Recipe::new(Optimizer::Sgd(Sgd::default()), -1.0), "the learning rate is -1"),
            (adam([1.0, 0.9]), "beta is 1"),
            (sgd(nesterov), "Nesterov"),
            (late, "the schedule's total is 10; it must be past warm-up"),
        ] {
            let error = recipe.check().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(adam([0.9, 0.999]).check(), Ok(()));
    }

    #[test]
    fn decay_leaves_biases_and_norms_alone() {
        for name in [
            "bert.encoder.layer.0.attention.self.query.bias",
            "bert.embeddings.LayerNorm.weight",
            "model.layers.3.input_layernorm.weight",
            "model.norm.weight",
            "transformer.h.0.ln_1.weight",
            "blocks.1.norm2.weight",
            "layers.0.q_norm.weight",
        ] {
            assert!(!decays(name), "{name}");
        }
        for name in ["bert.embeddings.word_embeddings.weight", "normal.weight", "lm_head.weight"] {
            assert!(decays(name), "{name}");
        }
    }
}
