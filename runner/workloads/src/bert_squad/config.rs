//! The settings of the workload: presets, and single ones changed by `key=value`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpforge_parity::bundle::Expectation;

/// A size of the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Two layers on generated passages: minutes on a laptop.
    #[default]
    Demo,
    /// BERT-base-uncased, SQuAD v1.1.
    Base,
    /// BERT-large-uncased, SQuAD v1.1: the nightly job.
    Full,
}

impl Preset {
    pub const ALL: [Self; 3] = [Self::Demo, Self::Base, Self::Full];

    pub fn name(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::Base => "base",
            Self::Full => "full",
        }
    }
}

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub preset: Preset,
    /// A folder with `train.pt2`, `eval.pt2` and `vocab.txt`, and `weights.safetensors` if the
    /// model is pretrained. Without it the demo's own model, whose weights come from the seed.
    pub model: Option<PathBuf>,
    /// A folder with `train-v1.1.json` and `dev-v1.1.json`, or with `train.json` and `dev.json`;
    /// without it generated passages.
    pub data: Option<PathBuf>,
    /// Exchanges the passages of evaluation among its questions: what is still answered does not
    /// come from the passage.
    pub shuffle_contexts: bool,
    /// Of the weights, the order of samples, dropout and generated passages.
    pub seed: u64,
    pub epochs: f64,
    /// The number of steps, in the place of epochs.
    pub steps: Option<u32>,
    pub batch_size: u32,
    /// Micro-batches to a step, of each rank; each has `batch_size` samples.
    pub accumulation: u32,
    /// Processes that share golden's pass; `--ranks` sets it. One is left out when settings are
    /// written, so that the golden of one process is known by what it was known by before.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ranks: u32,
    pub evaluation_batch_size: u32,
    /// How many questions are evaluated at most; 0 leaves evaluation out.
    pub evaluation_questions: Option<u32>,
    pub max_length: u32,
    pub max_question: u32,
    pub doc_stride: u32,
    pub learning_rate: f64,
    /// The share of steps in which the learning rate rises.
    pub warmup: f64,
    pub weight_decay: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    pub clip_norm: Option<f64>,
    /// Steps that are also run from golden's state.
    pub forced: u32,
    pub noise_runs: u32,
    /// How long those are; as long as the run itself if it is not said.
    pub noise_steps: Option<u32>,
    pub checkpoint_every: u32,
    /// What Pass 2 computes again on the way back: `keep`, `modules`, paths of modules, or bytes.
    pub remat: String,
    /// What is expected of golden and allowed between the passes, by metric.
    pub expect: BTreeMap<String, Expectation>,
    /// How much slower than golden Pass 2 may be, as a share.
    pub throughput_delta: f64,
    /// When the run ends, done or not; started again, it goes on and has as long once more.
    pub wall_limit_seconds: u64,
    pub memory_limit_bytes: u64,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
fn is_one(ranks: &u32) -> bool {
    *ranks == 1
}

const GIB: u64 = 1 << 30;

/// Settings that change no number of golden's.
const OPERATIONAL: &[&str] =
    &["checkpoint_every", "remat", "throughput_delta", "wall_limit_seconds", "memory_limit_bytes"];

impl Config {
    pub fn preset(preset: Preset) -> Self {
        let published = |expect| Self {
            preset,
            model: None,
            data: None,
            shuffle_contexts: false,
            seed: 0,
            epochs: 2.0,
            steps: None,
            batch_size: 8,
            accumulation: 1,
            ranks: 1,
            evaluation_batch_size: 8,
            evaluation_questions: None,
            max_length: 384,
            max_question: 64,
            doc_stride: 128,
            learning_rate: 3e-5,
            warmup: 0.0,
            weight_decay: 0.0,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-6,
            clip_norm: Some(1.0),
            forced: 5,
            noise_runs: 3,
            noise_steps: Some(20),
            checkpoint_every: 500,
            remat: "keep".to_owned(),
            expect,
            throughput_delta: 0.15,
            wall_limit_seconds: 4 * 3600,
            memory_limit_bytes: 16 * GIB,
        };
        let metric = |at_least, at_most, absolute, relative| Expectation {
            at_least,
            at_most,
            absolute,
            relative,
        };
        let expect = |f1, exact_match, loss| {
            BTreeMap::from([
                ("f1".to_owned(), metric(Some(f1), None, Some(0.5), None)),
                ("exact_match".to_owned(), metric(Some(exact_match), None, Some(0.5), None)),
                ("loss".to_owned(), metric(None, Some(loss), None, Some(0.01))),
            ])
        };
        match preset {
            Preset::Full => published(expect(90.0, 84.0, 0.5)),
            Preset::Base => published(expect(87.0, 79.0, 1.0)),
            Preset::Demo => Self {
                steps: Some(200),
                batch_size: 32,
                evaluation_batch_size: 100,
                max_length: 44,
                max_question: 20,
                doc_stride: 16,
                learning_rate: 3e-3,
                warmup: 0.1,
                weight_decay: 0.01,
                eps: 1e-8,
                noise_runs: 2,
                noise_steps: None,
                checkpoint_every: 50,
                ..published(expect(85.0, 75.0, 1.5))
            },
        }
    }

    /// The settings with some changed: `KEY=VALUE`, keys with dots for what is inside others.
    pub fn with(&self, changes: &[String]) -> Result<Self, String> {
        let mut value = serde_json::to_value(self).map_err(|error| error.to_string())?;
        for change in changes {
            let (key, text) = change
                .split_once('=')
                .ok_or_else(|| format!("{change:?} is not of the form key=value"))?;
            let mut place = &mut value;
            let mut parts = key.trim().split('.').peekable();
            while let Some(part) = parts.next() {
                let known: Vec<String> =
                    place.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
                let map = place.as_object_mut().ok_or_else(|| unknown(key, &known))?;
                let inside = parts.peek().is_some();
                // Bounds that a preset does not have may be set all the same.
                if !map.contains_key(part) && (inside || !key.starts_with("expect.")) {
                    return Err(unknown(key, &known));
                }
                place = map.entry(part).or_insert(serde_json::Value::Null);
            }
            // Numbers, booleans and null as they are, all else as text; what is text stays text.
            let text = text.trim();
            let parsed = serde_json::from_str(text).ok().filter(|_| !place.is_string());
            *place = parsed.unwrap_or_else(|| serde_json::Value::String(text.to_owned()));
        }
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    /// The settings that golden's results depend on, for its key: a run may go on with more
    /// time, or be compared with a Pass 2 that keeps less, without a new golden.
    pub fn determining(&self) -> serde_json::Value {
        // Plain data with text for keys always has a JSON form.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            for name in OPERATIONAL {
                map.remove(*name);
            }
        }
        value
    }

    /// Micro-batches to a step, of all ranks together.
    pub fn micro_batches(&self) -> u32 {
        self.accumulation.saturating_mul(self.ranks)
    }

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), String> {
        let positive = [
            ("batch_size", self.batch_size),
            ("accumulation", self.accumulation),
            ("ranks", self.ranks),
            ("evaluation_batch_size", self.evaluation_batch_size),
            ("doc_stride", self.doc_stride),
            ("max_question", self.max_question),
            ("checkpoint_every", self.checkpoint_every),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{name} is 0; it must be 1 or more"));
        }
        if self.max_length < self.max_question + 4 {
            return Err(format!(
                "max_length is {}, which leaves no room for a passage after a question of {}",
                self.max_length, self.max_question
            ));
        }
        if self.epochs.is_nan() || self.epochs <= 0.0 || self.steps == Some(0) {
            return Err("there is nothing to train: epochs and steps must be above 0".into());
        }
        if !(0.0..1.0).contains(&self.warmup) {
            return Err(format!("warmup is {}; it must be from 0 to below 1", self.warmup));
        }
        Ok(())
    }
}

fn unknown(key: &str, known: &[String]) -> String {
    format!("there is no setting {key}; there are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_changed_by_name() {
        let config = Config::preset(Preset::Full);
        let changed = config
            .with(&["batch_size=4".into(), "expect.f1.at_least=1.5".into(), "data=/squad".into()])
            .unwrap();
        assert_eq!(changed.batch_size, 4);
        assert_eq!(config.with(&["remat=1000".into()]).unwrap().remat, "1000");
        assert_eq!(changed.expect["f1"].at_least, Some(1.5));
        assert_eq!(changed.data, Some(PathBuf::from("/squad")));
        for (change, said) in [
            ("batch=4", "there is no setting batch; there are preset, model"),
            ("batch_size", "not of the form key=value"),
            ("batch_size=many", "invalid type"),
            ("preset=huge", "unknown variant"),
        ] {
            let error = config.with(&[change.to_owned()]).unwrap_err();
            assert!(error.contains(said), "{change}: {error}");
        }
    }

    #[test]
    fn a_limit_is_no_reason_for_a_new_golden() {
        let config = Config::preset(Preset::Demo);
        let all = serde_json::to_value(&config).unwrap();
        assert!(OPERATIONAL.iter().all(|name| all.get(name).is_some()));
        let longer = config.with(&["wall_limit_seconds=9".into(), "remat=modules".into()]).unwrap();
        assert_eq!(longer.determining(), config.determining());
        let other = config.with(&["learning_rate=1e-3".into()]).unwrap();
        assert_ne!(other.determining(), config.determining());
    }

    #[test]
    fn ranks_are_a_reason_for_a_new_golden_and_one_is_not_written_down() {
        let one = Config::preset(Preset::Demo);
        let two = Config { ranks: 2, ..one.clone() };
        assert_ne!(two.determining(), one.determining());
        assert!(one.determining().get("ranks").is_none());
        let again: Config = serde_json::from_value(serde_json::to_value(&two).unwrap()).unwrap();
        assert_eq!((again.ranks, again.micro_batches()), (2, 2));
        let error = one.with(&["ranks=2".into()]).unwrap_err();
        assert!(error.contains("there is no setting ranks"), "{error}");
    }

    #[test]
    fn every_preset_makes_sense() {
        for preset in Preset::ALL {
            Config::preset(preset).check().unwrap();
        }
        let full = Config::preset(Preset::Full);
        assert_eq!((full.batch_size, full.learning_rate, full.eps), (8, 3e-5, 1e-6));
        let mut long = full.clone();
        long.max_question = 384;
        assert!(long.check().unwrap_err().contains("no room"));
    }
}
