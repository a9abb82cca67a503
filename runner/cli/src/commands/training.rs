//! The options that say how a model is trained.

use clap::ValueEnum;
use warpforge_training::{Adam, LossScale, Optimizer, Recipe, Schedule, Sgd};

use crate::failure::Misuse;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rule {
    Adamw,
    Adam,
    Sgd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    Constant,
    Linear,
    Cosine,
    Step,
}

/// How to train.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Training (with --train)")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Training {
    /// Train the model in both passes and compare the two trainings
    #[arg(long)]
    pub train: bool,

    /// The output to train on, if the model has several scalar ones
    #[arg(long, value_name = "NAME", requires = "train")]
    pub loss: Option<String>,

    /// How many updates of the parameters
    #[arg(long, value_name = "N", default_value_t = 10, requires = "train")]
    pub steps: u32,

    /// The update rule, as torch.optim has it
    #[arg(long, value_enum, default_value_t = Rule::Adamw, requires = "train")]
    pub optimizer: Rule,

    /// The learning rate
    #[arg(long, value_name = "RATE", default_value_t = 1e-3, requires = "train")]
    pub lr: f64,

    /// Weight decay
    #[arg(long, value_name = "X", default_value_t = 0.0, requires = "train")]
    pub weight_decay: f64,

    /// No weight decay for biases and the weights of normalisations
    #[arg(long, requires = "train")]
    pub no_norm_decay: bool,

    /// The two decay rates of Adam's averages
    #[arg(long, value_name = "B1,B2", value_delimiter = ',', num_args = 1..=2, requires = "train")]
    pub betas: Option<Vec<f64>>,

    /// What keeps Adam from dividing by zero
    #[arg(long, value_name = "X", default_value_t = 1e-8, requires = "train")]
    pub eps: f64,

    /// SGD's momentum
    #[arg(long, value_name = "X", default_value_t = 0.0, requires = "train")]
    pub momentum: f64,

    /// SGD's dampening of the momentum
    #[arg(long, value_name = "X", default_value_t = 0.0, requires = "train")]
    pub dampening: f64,

    /// Nesterov's momentum
    #[arg(long, requires = "train")]
    pub nesterov: bool,

    /// The largest norm of all gradients together
    #[arg(long, value_name = "NORM", requires = "train")]
    pub clip_norm: Option<f64>,

    /// Micro-batches to a step
    #[arg(long, value_name = "N", default_value_t = 1, requires = "train")]
    pub accumulate: u32,

    /// How the learning rate goes on after the warm-up
    #[arg(long, value_enum, default_value_t = Shape::Constant, requires = "train")]
    pub schedule: Shape,

    /// Steps in which the learning rate rises from zero
    #[arg(long, value_name = "N", default_value_t = 0, requires = "train")]
    pub warmup: u32,

    /// The period of --schedule step, and the factor at its end
    #[arg(long, value_name = "N", default_value_t = 1, requires = "train")]
    pub every: u32,

    #[arg(long, value_name = "X", default_value_t = 0.1, requires = "train")]
    pub gamma: f64,

    /// Scale the loss, as float16 gradients need it
    #[arg(long, requires = "train")]
    pub scale_loss: bool,

    /// Keep a float32 copy of narrower parameters and update that
    #[arg(long, requires = "train")]
    pub master_weights: bool,

    /// How many steps are also run from golden's own state
    #[arg(long, value_name = "N", default_value_t = 5, requires = "train")]
    pub forced: u32,

    /// How many slightly disturbed runs show golden's own spread
    #[arg(long, value_name = "N", default_value_t = 3, requires = "train")]
    pub noise: u32,
}

impl Training {
    /// The recipe, with the names of parameters that do not decay.
    pub fn recipe(&self, parameters: &[String]) -> Result<Recipe, Misuse> {
        let betas = match self.betas.as_deref() {
            None => Adam::default().betas,
            Some([first, second]) => [*first, *second],
            Some(_) => {
                return Err(Misuse::new(
                    "--betas takes two numbers".to_owned(),
                    "for example --betas 0.9,0.999",
                ));
            }
        };
        let adam = Adam { betas, eps: self.eps, weight_decay: self.weight_decay };
        let optimizer = match self.optimizer {
            Rule::Adamw => Optimizer::AdamW(adam),
            Rule::Adam => Optimizer::Adam(adam),
            Rule::Sgd => Optimizer::Sgd(Sgd {
                momentum: self.momentum,
                dampening: self.dampening,
                nesterov: self.nesterov,
                weight_decay: self.weight_decay,
            }),
        };
        let (warmup, total) = (self.warmup, self.steps);
        let schedule = match self.schedule {
            Shape::Constant if warmup == 0 => Schedule::Constant,
            Shape::Constant => Schedule::Warmup { warmup },
            Shape::Linear => Schedule::Linear { warmup, total },
            Shape::Cosine => Schedule::Cosine { warmup, total },
            Shape::Step => Schedule::Step { warmup, every: self.every, gamma: self.gamma },
        };
        let no_decay = if self.no_norm_decay {
            let plain = |name: &&String| !warpforge_training::decays(name);
            parameters.iter().filter(plain).cloned().collect()
        } else {
            Vec::new()
        };
        let recipe = Recipe {
            optimizer,
            learning_rate: self.lr,
            schedule,
            no_decay,
            clip_norm: self.clip_norm,
            accumulation: self.accumulate,
            loss_scale: self.scale_loss.then(LossScale::default),
            master_weights: self.master_weights,
        };
        let checked = recipe.check();
        checked.map_err(|error| Misuse::new(error.to_string(), "see `warpforge run --help`"))?;
        Ok(recipe)
    }
}
