//! The workload `bert-squad`: BERT learns to answer questions about passages, in both passes.
//!
//! [`Config`] is everything that can be set, with presets; [`Workload`] makes of it what
//! [`crate::training`] runs: a plan, and the data as a task.

mod config;
mod data;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use config::{Config, Preset};
use sha2::{Digest as _, Sha256};
use warpforge_golden_protocol as protocol;
use warpforge_parity::bundle::{Metrics, write_beside};
use warpforge_parity::compare::Number;
use warpforge_parity::report::Attribution;
use warpforge_pt2::{Model, OutputKind};
use warpforge_training::{Adam, Optimizer, Recipe, Schedule, decays};

pub use data::{OWN, PUBLISHED, is_published};

use crate::error::Error;
use crate::forward::Weights;
use crate::squad::{self, Dataset, Feature, Lengths, Limits, Mode};
use crate::tensors::Named;
use crate::training::golden::hex;
use crate::training::{Deadline, Noise, Plan, Task, given, remat, spread};
use data::Data;

/// The name on the command line.
pub const NAME: &str = "bert-squad";

/// Files of a model's folder.
pub const TRAIN: &str = "train.pt2";
pub const EVAL: &str = "eval.pt2";
pub const VOCAB: &str = "vocab.txt";
pub const TOKENIZER: &str = "tokenizer.json";
pub const WEIGHTS: &str = "weights.safetensors";

/// The demo's model: two layers, 128 wide, without weights.
const DEMO_TRAIN: &[u8] = include_bytes!("bert_squad/train.pt2");
const DEMO_EVAL: &[u8] = include_bytes!("bert_squad/eval.pt2");

/// How its weights begin: as usual, but wider, from which so small a model learns in fewer steps.
const DEMO_RECIPE: &str = r#"
[[rule]]
name = "*bias"
init = "zeros"

[[rule]]
name = "*Norm*weight"
init = "ones"

[[rule]]
name = "*"
init = { normal = { mean = 0.0, std = 0.06 } }
"#;
const RECIPE: &str = "recipe.toml";

/// Where and how golden runs.
#[derive(Clone, Debug)]
pub struct Machine {
    pub device: protocol::Device,
    pub threads: u32,
    pub libtorch: protocol::Search,
}

/// Everything that is run.
pub struct Workload {
    pub config: Config,
    pub plan: Plan,
    pub task: Squad,
    pub attributions: Vec<Attribution>,
}

impl Workload {
    /// Reads or makes the data and the model; `folder` takes what is made.
    pub fn new(config: &Config, machine: Machine, folder: &Path) -> Result<Self, Error> {
        let deadline = Deadline::after(Duration::from_secs(config.wall_limit_seconds));
        config.check().map_err(Error::Inputs)?;
        let remat = remat::parse(&config.remat).map_err(Error::Inputs)?;
        recipe_of(config, 1, &[]).check().map_err(|error| Error::Inputs(error.to_string()))?;
        let data = Data::new(config)?;
        let (model, evaluation, weights) = models(config, folder)?;
        for graph in [&model, &evaluation] {
            fits(graph, config.max_length)?;
        }
        let task = Squad::new(config, data, &evaluation)?;
        let steps = config.steps.unwrap_or_else(|| task.steps(config));
        let train_sizes = given::sizes(&model, &task.batches(0)?[0])?;
        let batches = task.evaluation()?;
        let eval_sizes = match batches.first() {
            Some(batch) => given::sizes(&evaluation, batch)?,
            None => Vec::new(),
        };
        let opened = Model::open(&model)?;
        let parameters: Vec<String> =
            opened.inputs.iter().map(|input| input.name.to_string()).collect();
        let plan = Plan {
            model,
            evaluation: (!batches.is_empty()).then_some(evaluation),
            weights,
            dims: train_sizes,
            evaluation_dims: eval_sizes,
            loss: None,
            recipe: recipe_of(config, steps, &parameters),
            steps,
            forced: spread(steps, config.forced),
            noise: Noise {
                runs: config.noise_runs,
                steps: config.noise_steps.unwrap_or(steps).min(steps),
            },
            seed: config.seed,
            threads: machine.threads,
            device: machine.device,
            oracle: true,
            checkpoint_every: config.checkpoint_every,
            deadline: Some(deadline),
            remat,
            libtorch: machine.libtorch,
            rank: None,
        };
        let attributions = data::attributions(config);
        Ok(Self { config: config.clone(), plan, task, attributions })
    }
}

fn recipe_of(config: &Config, steps: u32, parameters: &[String]) -> Recipe {
    let adam = Adam {
        betas: [config.beta1, config.beta2],
        eps: config.eps,
        weight_decay: config.weight_decay,
    };
    let warmup = (config.warmup * f64::from(steps)).round() as u32;
    Recipe {
        schedule: Schedule::Linear { warmup, total: steps.max(warmup + 1) },
        no_decay: parameters.iter().filter(|name| !decays(name)).cloned().collect(),
        clip_norm: config.clip_norm,
        accumulation: config.micro_batches(),
        ..Recipe::new(Optimizer::AdamW(adam), config.learning_rate)
    }
}

/// The model's files, the demo's own written where golden can read them.
fn models(config: &Config, folder: &Path) -> Result<(PathBuf, PathBuf, Weights), Error> {
    if let Some(model) = &config.model {
        let weights = model.join(WEIGHTS);
        let weights =
            if weights.is_file() { Weights::Safetensors(weights) } else { Weights::StandardRecipe };
        for name in [TRAIN, EVAL] {
            if !model.join(name).is_file() {
                return Err(Error::Inputs(format!(
                    "{} has no {name}; runner/workloads/export/bert_squad.py makes it",
                    model.display()
                )));
            }
        }
        return Ok((model.join(TRAIN), model.join(EVAL), weights));
    }
    if config.preset != Preset::Demo {
        return Err(Error::Inputs(format!(
            "the preset {} needs a model: --model DIR with {TRAIN}, {EVAL}, {VOCAB} and {WEIGHTS}, \
             as runner/workloads/export/bert_squad.py makes it (docs/workloads.md)",
            config.preset.name()
        )));
    }
    fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
    let write = |name: &str, bytes: &[u8]| -> Result<PathBuf, Error> {
        let path = folder.join(name);
        if fs::read(&path).ok().as_deref() != Some(bytes) {
            write_beside(&path, bytes).map_err(|error| Error::io(&path, error))?;
        }
        Ok(path)
    };
    let recipe = format!("seed = {}\n{DEMO_RECIPE}", config.seed);
    let weights = Weights::Recipe(write(RECIPE, recipe.as_bytes())?);
    Ok((write(TRAIN, DEMO_TRAIN)?, write(EVAL, DEMO_EVAL)?, weights))
}

/// A graph is exported for rows of one length.
fn fits(graph: &Path, max_length: u32) -> Result<(), Error> {
    let model = Model::open(graph)?;
    let input = model.user_inputs().find(|input| &*input.name == "input_ids");
    let sizes = input.and_then(|input| input.meta.as_ref()).map(|meta| &meta.sizes);
    let length = sizes.and_then(|sizes| sizes.get(1)?.known());
    match length {
        Some(length) if length != i64::from(max_length) => Err(Error::Inputs(format!(
            "{} takes rows of {length} tokens, and max_length is {max_length}; say \
             --set max_length={length}, or export it with --length {max_length}",
            graph.display()
        ))),
        _ => Ok(()),
    }
}

/// SQuAD as a task.
pub struct Squad {
    train: Arc<Vec<Feature>>,
    dev: Dataset,
    dev_features: Vec<Feature>,
    length: usize,
    seed: u64,
    batch_size: usize,
    accumulation: u32,
    evaluation_batch_size: usize,
    /// What the evaluation model takes, and its two outputs.
    inputs: BTreeSet<String>,
    logits: [String; 2],
    /// Batches that are made ahead, and the number of the next.
    ahead: Mutex<Option<(u64, squad::Batches)>>,
}

impl Squad {
    fn new(config: &Config, data: Data, evaluation: &Path) -> Result<Self, Error> {
        let lengths = Lengths {
            max_length: config.max_length as usize,
            doc_stride: config.doc_stride as usize,
            max_question: config.max_question as usize,
        };
        let train = squad::features(&data.train, &data.tokenizer, &lengths, Mode::Train)?;
        let dev = match config.evaluation_questions {
            Some(most) => first(&data.dev, most as usize),
            None => data.dev,
        };
        let dev = if config.shuffle_contexts { dev.shuffled_contexts(config.seed) } else { dev };
        let dev_features = squad::features(&dev, &data.tokenizer, &lengths, Mode::Evaluate)?;
        let model = Model::open(evaluation)?;
        let inputs = model.user_inputs().map(|input| input.name.to_string()).collect();
        let outputs: Vec<String> = model
            .outputs
            .iter()
            .filter(|output| matches!(output.kind, OutputKind::User))
            .map(|output| output.name.to_string())
            .collect();
        let [start, end] = &outputs[..] else {
            return Err(Error::Inputs(format!(
                "{} has {} outputs; a question-answering model has two, the logits of an answer's first and last token",
                evaluation.display(),
                outputs.len()
            )));
        };
        Ok(Self {
            train: Arc::new(train),
            dev,
            dev_features,
            length: lengths.max_length,
            seed: config.seed,
            batch_size: config.batch_size as usize,
            accumulation: config.micro_batches(),
            evaluation_batch_size: config.evaluation_batch_size as usize,
            inputs,
            logits: [start.clone(), end.clone()],
            ahead: Mutex::new(None),
        })
    }

    /// How many steps the epochs take, the last one whole.
    fn steps(&self, config: &Config) -> u32 {
        let samples = self.train.len() as f64 * config.epochs;
        let size = f64::from(config.batch_size) * f64::from(config.micro_batches());
        (samples / size).ceil().max(1.0) as u32
    }

    /// Windows to train on.
    pub fn windows(&self) -> usize {
        self.train.len()
    }

    pub fn questions(&self) -> usize {
        self.dev.questions().count()
    }
}

/// The first questions of a set, whole paragraphs.
fn first(dataset: &Dataset, most: usize) -> Dataset {
    let mut left = most;
    let mut kept = dataset.clone();
    for article in &mut kept.data {
        for paragraph in &mut article.paragraphs {
            paragraph.qas.truncate(left);
            left -= paragraph.qas.len();
        }
        article.paragraphs.retain(|paragraph| !paragraph.qas.is_empty());
    }
    kept.data.retain(|article| !article.paragraphs.is_empty());
    kept
}

impl Task for Squad {
    fn batches(&self, step: u32) -> Result<Vec<Named>, Error> {
        let from = u64::from(step) * u64::from(self.accumulation);
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        for number in from..from + u64::from(self.accumulation) {
            if ahead.as_ref().is_none_or(|(next, _)| *next != number) {
                let features = Arc::clone(&self.train);
                let made = squad::batches(
                    move || Ok(features),
                    (self.length, 0),
                    self.seed,
                    self.batch_size,
                    number..u64::MAX,
                );
                *ahead = Some((number, made));
            }
            let Some((next, batches)) = ahead.as_mut() else { continue };
            let batch = batches
                .next()
                .ok_or_else(|| Error::Inputs("there are no samples to train on".into()))??;
            *next += 1;
            found.push(batch.inputs);
        }
        Ok(found)
    }

    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for feature in self.train.iter().chain(&self.dev_features) {
            hash.update(format!("{feature:?}\0"));
        }
        hash.update(format!("{:?}", self.dev));
        hex(&hash.finalize())
    }

    fn evaluation(&self) -> Result<Vec<Named>, Error> {
        let batches = self.dev_features.chunks(self.evaluation_batch_size).map(|chunk| {
            // All batches are of one size: the last is filled up with its last window.
            let rows = (0..self.evaluation_batch_size).map(|i| &chunk[i.min(chunk.len() - 1)]);
            let mut batch = squad::batch(rows, self.length, 0);
            batch.retain(|name, _| self.inputs.contains(name));
            batch
        });
        Ok(batches.collect())
    }

    fn score(&self, outputs: &[Named]) -> Result<Metrics, Error> {
        let mut logits = [Vec::new(), Vec::new()];
        for (name, logits) in self.logits.iter().zip(&mut logits) {
            for batch in outputs {
                let tensor = batch
                    .get(name)
                    .ok_or_else(|| Error::Inputs(format!("there are no logits {name}")))?;
                let count = tensor.ty.count().unwrap_or(0);
                logits.extend((0..count).map(|i| tensor.get(i).float() as f32));
            }
            logits.truncate(self.dev_features.len() * self.length);
        }
        let [start, end] = &logits;
        let limits = Limits::default();
        let answers =
            squad::predict(&self.dev, &self.dev_features, start, end, self.length, limits)?;
        let score = squad::score(&self.dev, &answers);
        Ok(Metrics::from([
            ("f1".to_owned(), Number(score.f1)),
            ("exact_match".to_owned(), Number(score.exact_match)),
        ]))
    }
}
