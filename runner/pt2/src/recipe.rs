//! Initial weights by rule instead of by file, so that a large model travels as its graph alone.

use std::path::Path;

use serde::Deserialize;

use crate::dtype::ScalarType;
use crate::error::{Error, Result};
use crate::random::Stream;

/// How one tensor is filled.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Init {
    Zeros,
    Ones,
    Constant(f64),
    Normal {
        mean: f64,
        std: f64,
    },
    Uniform {
        low: f64,
        high: f64,
    },
    /// Normal with Glorot's deviation, sqrt(2 / (fan in + fan out)).
    Xavier,
}

/// The first rule whose pattern matches a tensor's name fills it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A name; `*` stands for any characters.
    pub name: String,
    pub init: Init,
}

/// A seed and rules.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub seed: u64,
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
}

impl Recipe {
    pub fn read(path: &Path) -> Result<Self> {
        let io = |source| Error::Io { path: path.into(), source };
        let text = std::fs::read_to_string(path).map_err(io)?;
        Self::parse(&text).map_err(|why| Error::Recipe { path: path.into(), why })
    }

    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        toml_edit::de::from_str(text).map_err(|error| error.to_string())
    }

    /// The rules most transformers and convolutional nets are started with: norms' weights one,
    /// biases zero, running statistics as PyTorch starts them, all else normal(0, 0.02).
    pub fn standard(seed: u64) -> Self {
        let rule = |name: &str, init| Rule { name: name.into(), init };
        Self {
            seed,
            rules: vec![
                rule("*bias", Init::Zeros),
                rule("*running_mean", Init::Zeros),
                rule("*running_var", Init::Ones),
                rule("*num_batches_tracked", Init::Zeros),
                rule("*norm*weight", Init::Ones),
                rule("*Norm*weight", Init::Ones),
                rule("*bn*weight", Init::Ones),
                rule("*", Init::Normal { mean: 0.0, std: 0.02 }),
            ],
        }
    }

    pub fn rule(&self, name: &str) -> Option<Init> {
        self.rules.iter().find(|rule| matches(&rule.name, name)).map(|rule| rule.init)
    }

    /// The bytes of one tensor. The numbers depend on the seed and the tensor's name alone.
    pub fn fill(&self, name: &str, dtype: ScalarType, dims: &[i64]) -> Result<Vec<u8>> {
        let no_rule = || Error::NoWeight { name: name.into(), from: "the recipe's rules".into() };
        let init = self.rule(name).ok_or_else(no_rule)?;
        let count =
            dims.iter().try_fold(1usize, |n, dim| n.checked_mul(usize::try_from(*dim).ok()?));
        let too_large = || Error::Weight { name: name.into(), why: "it is too large".into() };
        let count = count.ok_or_else(too_large)?;
        let stream = Stream { seed: self.seed ^ name_key(name), step: 0, ordinal: 0 };
        let value = |i: usize| match init {
            Init::Zeros => 0.0,
            Init::Ones => 1.0,
            Init::Constant(value) => value,
            Init::Normal { mean, std } => mean + std * stream.normal(i as u64),
            Init::Uniform { low, high } => low + (high - low) * stream.uniform(i as u64),
            Init::Xavier => glorot(dims) * stream.normal(i as u64),
        };
        encode(dtype, count, value).ok_or_else(|| Error::Weight {
            name: name.into(),
            why: format!("{dtype} has no recipe"),
        })
    }
}

/// Writes numbers in an element type; floats are rounded to nearest, integers towards zero.
pub(crate) fn encode(
    dtype: ScalarType,
    count: usize,
    value: impl Fn(usize) -> f64,
) -> Option<Vec<u8>> {
    use ScalarType as S;
    let mut bytes = Vec::with_capacity(count * dtype.bytes());
    macro_rules! each {
        ($convert:expr) => {
            (0..count).for_each(|i| bytes.extend_from_slice(&$convert(value(i)).to_le_bytes()))
        };
    }
    match dtype {
        S::F64 => each!(|x: f64| x),
        S::F32 => each!(|x: f64| x as f32),
        S::F16 => each!(half::f16::from_f64),
        S::BF16 => each!(half::bf16::from_f64),
        S::I64 => each!(|x: f64| x as i64),
        S::I32 => each!(|x: f64| x as i32),
        S::I16 => each!(|x: f64| x as i16),
        S::I8 => each!(|x: f64| x as i8),
        S::U8 => each!(|x: f64| x as u8),
        S::Bool => each!(|x: f64| u8::from(x != 0.0)),
        _ => return None,
    }
    Some(bytes)
}

fn glorot(dims: &[i64]) -> f64 {
    let receptive: i64 = dims.iter().skip(2).product();
    let (out, input) = (dims.first().unwrap_or(&1), dims.get(1).unwrap_or(&1));
    (2.0 / ((out + input) * receptive).max(1) as f64).sqrt()
}

/// FNV-1a: spreads names over the seeds.
fn name_key(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Whether a pattern with `*` for any characters covers a whole name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("*", "a.b", true),
            ("*bias", "a.bias", true),
            ("*bias", "bias.a", false),
            ("a.*.w", "a.0.w", true),
            ("a.*.w", "a.w", false),
            ("a", "a", true),
            ("a", "ab", false),
            ("*norm*weight", "x.layer_norm.weight", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_recipe_is_read_and_unknown_keys_are_refused() {
        let text =
            "seed = 3\n[[rule]]\nname = \"*\"\ninit = { normal = { mean = 0.0, std = 0.02 } }\n";
        let recipe = Recipe::parse(text).unwrap();
        assert_eq!(recipe.rules[0].init, Init::Normal { mean: 0.0, std: 0.02 });
        assert!(Recipe::parse("seed = 3\nsede = 4").unwrap_err().contains("sede"));
        assert!(Recipe::parse("seed = 3\n[[rule]]\nname = \"*\"\ninit = \"normla\"").is_err());
    }

    #[test]
    fn the_numbers_depend_on_seed_and_name_only() {
        let fill =
            |seed, name| Recipe::standard(seed).fill(name, ScalarType::F32, &[3, 5]).unwrap();
        assert_eq!(fill(1, "w"), fill(1, "w"));
        assert_ne!(fill(1, "w"), fill(2, "w"));
        assert_ne!(fill(1, "w"), fill(1, "v"));
    }
}
