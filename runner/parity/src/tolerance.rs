//! How far two runs may lie apart, by what is compared. The defaults are the project's; any of
//! them can be set by `key=value`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::Tolerance;

/// What a tensor is, which decides its tolerance.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Outputs,
    Weights,
    Activations,
    Gradients,
    Loss,
    Metrics,
}

impl Kind {
    pub const ALL: [Self; 6] = [
        Self::Outputs,
        Self::Weights,
        Self::Activations,
        Self::Gradients,
        Self::Loss,
        Self::Metrics,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Outputs => "outputs",
            Self::Weights => "weights",
            Self::Activations => "activations",
            Self::Gradients => "gradients",
            Self::Loss => "loss",
            Self::Metrics => "metrics",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Every tolerance of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tolerances {
    pub outputs: Tolerance,
    pub weights: Tolerance,
    pub activations: Tolerance,
    pub gradients: Tolerance,
    pub loss: Tolerance,
    pub metrics: Tolerance,
    pub oracle: OracleTolerance,
}

/// The candidate's RMSE to the oracle may be `factor` times golden's, and one ulp.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OracleTolerance {
    pub factor: f64,
}

impl Default for Tolerances {
    fn default() -> Self {
        let of = |rtol, atol| Tolerance { rtol, atol };
        Self {
            outputs: of(1e-3, 1e-5),
            weights: of(1e-4, 1e-6),
            activations: of(1e-3, 1e-5),
            gradients: of(1e-3, 1e-5),
            loss: of(1e-4, 1e-6),
            metrics: of(5e-3, 0.0),
            oracle: OracleTolerance { factor: 1.5 },
        }
    }
}

/// Why a `key=value` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToleranceError {
    #[error("{0:?} is no tolerance: write it as key=value, such as rtol=1e-4")]
    NoValue(String),
    #[error("there is no tolerance {key:?}{}", hint(.nearest.as_deref()))]
    UnknownKey { key: String, nearest: Option<String> },
    #[error("{value:?} is no value for {key}: give a number that is zero or more, such as 1e-4")]
    WrongValue { key: String, value: String },
}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean {name:?}?"),
        None => "; there are rtol, atol, KIND.rtol and KIND.atol for the kinds outputs, weights, \
                 activations, gradients, loss and metrics, and oracle.factor"
            .to_owned(),
    }
}

impl Tolerances {
    pub fn of(&self, kind: Kind) -> Tolerance {
        let mut copy = *self;
        *copy.of_mut(kind)
    }

    fn of_mut(&mut self, kind: Kind) -> &mut Tolerance {
        match kind {
            Kind::Outputs => &mut self.outputs,
            Kind::Weights => &mut self.weights,
            Kind::Activations => &mut self.activations,
            Kind::Gradients => &mut self.gradients,
            Kind::Loss => &mut self.loss,
            Kind::Metrics => &mut self.metrics,
        }
    }

    /// Sets one tolerance: `rtol=1e-4` for every kind, `activations.rtol=1e-4` for one,
    /// `oracle.factor=2`. Later ones win.
    pub fn set(&mut self, assignment: &str) -> Result<(), ToleranceError> {
        let (key, text) = assignment
            .split_once('=')
            .ok_or_else(|| ToleranceError::NoValue(assignment.to_owned()))?;
        let (key, text) = (key.trim(), text.trim());
        let places = self.places(key);
        if places.is_empty() {
            let nearest = nearest(key);
            return Err(ToleranceError::UnknownKey { key: key.to_owned(), nearest });
        }
        let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        let value = value.ok_or_else(|| ToleranceError::WrongValue {
            key: key.to_owned(),
            value: text.to_owned(),
        })?;
        for place in self.places(key) {
            *place = value;
        }
        Ok(())
    }

    /// The numbers a key stands for; none if there is no such key.
    fn places(&mut self, key: &str) -> Vec<&mut f64> {
        if key == "oracle.factor" {
            return vec![&mut self.oracle.factor];
        }
        let Self { outputs, weights, activations, gradients, loss, metrics, oracle: _ } = self;
        let all = [outputs, weights, activations, gradients, loss, metrics];
        let (kind, field) = key.rsplit_once('.').map_or((None, key), |(k, f)| (Some(k), f));
        let chosen = all.into_iter().zip(Kind::ALL);
        let chosen = chosen.filter(|(_, of)| kind.is_none_or(|kind| kind == of.name()));
        chosen
            .filter_map(|(tolerance, _)| match field {
                "rtol" => Some(&mut tolerance.rtol),
                "atol" => Some(&mut tolerance.atol),
                _ => None,
            })
            .collect()
    }
}

/// Every key there is.
pub fn keys() -> Vec<String> {
    let mut keys = vec!["rtol".to_owned(), "atol".to_owned(), "oracle.factor".to_owned()];
    for kind in Kind::ALL {
        keys.extend(["rtol", "atol"].map(|field| format!("{kind}.{field}")));
    }
    keys
}

/// Below this likeness a suggestion confuses more than it helps.
const ALIKE: f64 = 0.8;

fn nearest(key: &str) -> Option<String> {
    let scored = keys().into_iter().map(|name| (strsim::jaro_winkler(key, &name), name));
    let alike = scored.filter(|(likeness, _)| *likeness >= ALIKE);
    alike.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(assignments: &[&str]) -> Result<Tolerances, ToleranceError> {
        let mut tolerances = Tolerances::default();
        assignments.iter().try_for_each(|assignment| tolerances.set(assignment))?;
        Ok(tolerances)
    }

    #[test]
    fn a_bare_key_sets_every_kind_and_a_later_one_wins() {
        let found = set(&["rtol=0.5", "weights.rtol=0.25", "oracle.factor=3"]).unwrap();
        assert_eq!((found.loss.rtol, found.weights.rtol), (0.5, 0.25));
        assert_eq!((found.loss.atol, found.oracle.factor), (1e-6, 3.0));
        for kind in Kind::ALL {
            let found = set(&[&format!("{kind}.atol=7")]).unwrap();
            assert_eq!(found.of(kind).atol, 7.0);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_the_nearest_right_word() {
        let message = |assignment: &str| set(&[assignment]).unwrap_err().to_string();
        assert!(message("activation.rtol=1").contains("did you mean \"activations.rtol\"?"));
        assert!(message("rtl=1").contains("did you mean \"rtol\"?"));
        assert!(message("speed=1").contains("oracle.factor"));
        assert!(message("rtol").contains("key=value"));
        for value in ["", "x", "-1", "NaN", "inf"] {
            assert!(message(&format!("rtol={value}")).contains("zero or more"), "{value}");
        }
    }

    #[test]
    fn every_key_can_be_set() {
        for key in keys() {
            set(&[&format!("{key}=0")]).unwrap();
        }
    }
}
