//! Where two runs parted: the first operation that puts an error in, told from those that only
//! pass it on or make it larger.
//!
//! The caller knows the program and the values. It gives the nodes in topological order and what
//! it measured at each, and may be asked to run one operation of the candidate on golden's inputs,
//! which is the surest way to tell.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::Number;

/// One operation of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique, such as the exported graph's node name.
    pub name: String,
    /// Where it stands in the model, such as `bert.encoder.layer.3.attention.self`.
    pub module_path: String,
    pub op: String,
    /// Names of the nodes whose results it takes. Names that are no node (parameters, inputs of
    /// the program) are equal on both sides and carry no error.
    pub inputs: Vec<String>,
}

/// What was measured of a node's result, as norm-relative errors ‖a − b‖ / ‖b‖.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Candidate against golden; none if the result was not recorded on both sides.
    pub to_golden: Option<f64>,
    /// Both sides against a float64 evaluation.
    pub to_oracle: Option<ToOracle>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToOracle {
    pub golden: f64,
    pub candidate: f64,
}

/// From where on an error is more than rounding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Without an oracle: a norm-relative error above this is a divergence.
    pub relative: f64,
    /// With one: candidate's error may be this multiple of golden's own …
    pub factor: f64,
    /// … plus this, about one ulp of the number format (2⁻²³ for f32, 2⁻⁷ for bf16).
    pub epsilon: f64,
    /// An error this many times larger than that of the inputs is amplified.
    pub amplification: f64,
    /// At most so many operations are run alone, since each may be expensive.
    pub isolations: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            relative: 1e-3,
            factor: 1.5,
            epsilon: f64::from(f32::EPSILON),
            amplification: 10.0,
            isolations: 64,
        }
    }
}

/// Runs one operation of the candidate on golden's inputs.
pub trait Isolate {
    /// The norm-relative error of its result against golden's; none if it cannot be run alone.
    fn isolated_error(&mut self, node: usize) -> Option<f64>;
}

/// For callers that cannot run a single operation.
pub struct CannotIsolate;

impl Isolate for CannotIsolate {
    fn isolated_error(&mut self, _: usize) -> Option<f64> {
        None
    }
}

impl<F: FnMut(usize) -> Option<f64>> Isolate for F {
    fn isolated_error(&mut self, node: usize) -> Option<f64> {
        self(node)
    }
}

/// What a node does to the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The error of its result is rounding.
    Agrees,
    /// It puts an error in that its inputs do not have.
    Originates,
    /// Its inputs have an error, and it makes it much larger.
    Amplifies,
    /// Its inputs have the error already.
    Inherits,
    /// Its result was not recorded.
    Unmeasured,
}

impl Effect {
    pub fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Originates => "originates",
            Self::Amplifies => "amplifies",
            Self::Inherits => "inherits",
            Self::Unmeasured => "unmeasured",
        }
    }
}

/// One node's part in the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    pub name: String,
    pub module_path: String,
    pub op: String,
    pub effect: Effect,
    /// The largest error among its inputs, on the same scale as `error_out`.
    pub error_in: Number,
    /// Candidate against the oracle where there is one, else against golden.
    pub error_out: Option<Number>,
    /// Above this it would be a divergence.
    pub bound: Option<Number>,
    /// Candidate against golden.
    pub error_to_golden: Option<Number>,
    /// Candidate against the oracle.
    pub error_to_oracle: Option<Number>,
    /// Golden against the oracle: the noise of the arithmetic itself.
    pub golden_to_oracle: Option<Number>,
    /// The candidate's operation on golden's inputs against golden's result.
    pub isolated_error: Option<Number>,
}

/// All nodes, and the one it began at.
#[derive(Clone, Debug, PartialEq)]
pub struct Localised {
    pub layers: Vec<Layer>,
    /// Index of the first node that originates an error; if none does for sure, of the first whose
    /// error is more than rounding.
    pub first: Option<usize>,
}

/// Follows the error through the program. `measured` has an entry per node.
pub fn localise(
    nodes: &[Node],
    measured: &[Measured],
    bounds: &Bounds,
    isolate: &mut dyn Isolate,
) -> Localised {
    let mut places: HashMap<&str, usize> = HashMap::new();
    // The error that reaches what uses a node: its own, or what comes in if it was not recorded.
    let mut carried: Vec<Carried> = Vec::with_capacity(nodes.len());
    let mut layers = Vec::with_capacity(nodes.len());
    let mut isolations = bounds.isolations;
    for (number, node) in nodes.iter().enumerate() {
        let inputs = node.inputs.iter().filter_map(|name| places.get(name.as_str()));
        let incoming = inputs.map(|at| carried[*at]).fold(Carried::default(), Carried::worse);
        let found = Found::of(measured.get(number).copied().unwrap_or_default(), bounds);
        let isolated = if found.diverges() && isolations > 0 {
            isolations -= 1;
            isolate.isolated_error(number)
        } else {
            None
        };
        let effect = effect(&found, incoming, isolated, bounds);
        layers.push(Layer {
            name: node.name.clone(),
            module_path: node.module_path.clone(),
            op: node.op.clone(),
            effect,
            error_in: Number(incoming.error),
            error_out: found.error.map(Number),
            bound: found.error.map(|_| Number(found.bound)),
            error_to_golden: found.to_golden.map(Number),
            error_to_oracle: found.to_oracle.map(|to| Number(to.candidate)),
            golden_to_oracle: found.to_oracle.map(|to| Number(to.golden)),
            isolated_error: isolated.map(Number),
        });
        carried.push(match found.error {
            Some(error) => Carried { error, diverges: found.diverges() },
            None => incoming,
        });
        places.insert(&node.name, number);
    }
    let first_that = |wanted: &dyn Fn(Effect) -> bool| layers.iter().position(|l| wanted(l.effect));
    let first = first_that(&|effect| effect == Effect::Originates)
        .or_else(|| first_that(&|effect| matches!(effect, Effect::Amplifies | Effect::Inherits)));
    Localised { layers, first }
}

#[derive(Clone, Copy, Default)]
struct Carried {
    error: f64,
    diverges: bool,
}

impl Carried {
    fn worse(self, other: Self) -> Self {
        Self {
            error: if other.error > self.error || other.error.is_nan() {
                other.error
            } else {
                self.error
            },
            diverges: self.diverges || other.diverges,
        }
    }
}

/// A node's own error and what it may be.
struct Found {
    error: Option<f64>,
    bound: f64,
    to_golden: Option<f64>,
    to_oracle: Option<ToOracle>,
}

impl Found {
    fn of(measured: Measured, bounds: &Bounds) -> Self {
        let Measured { to_golden, to_oracle } = measured;
        let (error, bound) = match to_oracle {
            Some(to) => (Some(to.candidate), bounds.factor * to.golden + bounds.epsilon),
            None => (to_golden, bounds.relative),
        };
        Self { error, bound, to_golden, to_oracle }
    }

    fn diverges(&self) -> bool {
        self.error.is_some_and(|error| exceeds(error, self.bound))
    }
}

/// NaN is never within a bound.
fn exceeds(error: f64, bound: f64) -> bool {
    error.is_nan() || error > bound
}

fn effect(found: &Found, incoming: Carried, isolated: Option<f64>, bounds: &Bounds) -> Effect {
    let Some(error) = found.error else { return Effect::Unmeasured };
    if !found.diverges() {
        return Effect::Agrees;
    }
    // Against golden the operation alone may be off by the bound and by golden's own rounding.
    let alone = isolated.map(|isolated| exceeds(isolated, found.bound));
    let amplified = exceeds(error, bounds.amplification * incoming.error);
    match (alone, incoming.diverges) {
        (Some(true), _) | (None, false) => Effect::Originates,
        // Fine on golden's inputs, so the error came with its own, however small it was there.
        (_, _) if amplified => Effect::Amplifies,
        _ => Effect::Inherits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, inputs: &[&str]) -> Node {
        Node {
            name: name.to_owned(),
            module_path: format!("model.{name}"),
            op: "add".to_owned(),
            inputs: inputs.iter().map(ToString::to_string).collect(),
        }
    }

    fn golden(error: f64) -> Measured {
        Measured { to_golden: Some(error), to_oracle: None }
    }

    fn effects(found: &Localised) -> Vec<&'static str> {
        found.layers.iter().map(|layer| layer.effect.name()).collect()
    }

    fn chain() -> Vec<Node> {
        vec![node("a", &["weight"]), node("b", &["a"]), node("c", &["b"]), node("d", &["c"])]
    }

    #[test]
    fn the_first_node_that_diverges_from_good_inputs_originates() {
        let measured = [1e-7, 2e-2, 3e-2, 0.9].map(golden);
        let found = localise(&chain(), &measured, &Bounds::default(), &mut CannotIsolate);
        assert_eq!(effects(&found), ["agrees", "originates", "inherits", "amplifies"]);
        assert_eq!(found.first, Some(1));
        assert_eq!(found.layers[2].error_in, Number(2e-2));
    }

    #[test]
    fn an_operation_that_is_right_on_goldens_inputs_is_not_to_blame() {
        // A subtraction that cancels makes a small error large: isolated, it is fine.
        let measured = [1e-4, 5e-1, 5e-1, 5e-1].map(golden);
        let mut alone = |node: usize| Some(if node == 2 { 0.3 } else { 1e-7 });
        let found = localise(&chain(), &measured, &Bounds::default(), &mut alone);
        assert_eq!(effects(&found), ["agrees", "amplifies", "originates", "inherits"]);
        assert_eq!(found.first, Some(2));
        assert_eq!(found.layers[1].isolated_error, Some(Number(1e-7)));
        assert_eq!(found.layers[0].isolated_error, None);
    }

    #[test]
    fn without_an_origin_the_first_divergence_is_named() {
        let measured = [1e-4, 5e-1, 5e-1, 5e-1].map(golden);
        let mut fine = |_| Some(0.0);
        let found = localise(&chain(), &measured, &Bounds::default(), &mut fine);
        assert_eq!(found.first, Some(1));
    }

    #[test]
    fn results_that_were_not_recorded_pass_the_error_on() {
        let mut measured = [1e-7, 0.0, 5e-2, 5e-2].map(golden);
        measured[1] = Measured::default();
        let found = localise(&chain(), &measured, &Bounds::default(), &mut CannotIsolate);
        assert_eq!(effects(&found), ["agrees", "unmeasured", "originates", "inherits"]);
        assert_eq!(found.layers[2].error_in, Number(1e-7));
    }

    #[test]
    fn the_oracle_sets_the_bound_by_goldens_own_error() {
        // bf16: golden itself is off by 4e-3, so that 5e-3 is no news, and 5e-2 is.
        let oracle = |candidate| Measured {
            to_golden: Some(0.1),
            to_oracle: Some(ToOracle { golden: 4e-3, candidate }),
        };
        let measured = [5e-3, 5e-3, 5e-2, 5e-2].map(oracle);
        let found = localise(&chain(), &measured, &Bounds::default(), &mut CannotIsolate);
        assert_eq!(effects(&found), ["agrees", "agrees", "originates", "inherits"]);
        assert_eq!(found.layers[3].error_to_golden, Some(Number(0.1)));
    }

    #[test]
    fn branches_take_the_worse_of_their_inputs() {
        let nodes = [node("a", &[]), node("b", &[]), node("c", &["a", "b"]), node("d", &["a"])];
        let measured = [1e-7, 2e-2, 2e-2, 1e-7].map(golden);
        let found = localise(&nodes, &measured, &Bounds::default(), &mut CannotIsolate);
        assert_eq!(effects(&found), ["agrees", "originates", "inherits", "agrees"]);
    }

    #[test]
    fn nan_diverges_and_originates_once() {
        let measured = [1e-7, f64::NAN, f64::NAN, f64::NAN].map(golden);
        let found = localise(&chain(), &measured, &Bounds::default(), &mut CannotIsolate);
        assert_eq!(found.first, Some(1));
        assert_eq!(found.layers[1].effect, Effect::Originates);
        assert_ne!(found.layers[2].effect, Effect::Originates);
    }

    #[test]
    fn agreement_has_no_first_divergence_and_expensive_runs_are_limited() {
        let found = localise(&chain(), &[golden(1e-6); 4], &Bounds::default(), &mut CannotIsolate);
        assert_eq!(found.first, None);
        let mut asked = 0;
        let mut count = |_| {
            asked += 1;
            Some(0.0)
        };
        let bounds = Bounds { isolations: 2, ..Bounds::default() };
        localise(&chain(), &[golden(1.0); 4], &bounds, &mut count);
        assert_eq!(asked, 2);
        assert_eq!(localise(&[], &[], &Bounds::default(), &mut CannotIsolate).first, None);
        // Fewer measurements than nodes are unmeasured, not a panic.
        let short = localise(&chain(), &[], &Bounds::default(), &mut CannotIsolate);
        assert_eq!(effects(&short), ["unmeasured"; 4]);
    }
}
