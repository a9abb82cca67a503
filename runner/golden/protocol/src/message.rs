//! The messages.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ranks::{Join, Order};
use crate::training::{Evaluate, Evaluated, Open, Opened, Step, Stepped};

/// What the client asks for: one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub version: u32,
    pub task: Task,
}

/// All but `run` belong to a training session, which `open` begins; one of several ranks begins
/// with `join`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    Run(Run),
    Open(Open),
    Step(Step),
    Evaluate(Evaluate),
    /// Write the whole state down.
    Save {
        path: PathBuf,
    },
    /// Go on from a state that was written down.
    Restore {
        path: PathBuf,
    },
    /// End the session and free what it holds.
    Close,
    Join(Join),
    /// Wait for what rank 0 does next; for the other ranks.
    Follow,
    /// End the time together. What rank 0 was asked for before is done on all ranks.
    Leave,
}

/// Run a model's forward computation and write down what it gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub model: PathBuf,
    #[serde(default)]
    pub weights: Weights,
    /// A safetensors file; tensors by the graph's input names, or `input.N` by position.
    #[serde(default)]
    pub inputs: Option<PathBuf>,
    #[serde(default)]
    pub precision: Precision,
    #[serde(default)]
    pub device: Device,
    /// For one operator; operators run one after another.
    pub threads: u32,
    pub seed: u64,
    /// Which step of a longer run this is: part of what random numbers depend on.
    #[serde(default)]
    pub step: u32,
    #[serde(default)]
    pub taps: Taps,
    /// The folder that the results go to.
    pub out: PathBuf,
    /// Sizes that the model leaves open, by symbol or by input and axis. What is not given
    /// follows from the inputs.
    #[serde(default)]
    pub dims: BTreeMap<String, i64>,
    /// How often to run. Every run starts from the same state, and all must agree bit for bit.
    #[serde(default = "once")]
    pub repeats: u32,
    /// Whether to time every node, which makes a GPU wait after each.
    #[serde(default)]
    pub time_nodes: bool,
    /// Whether to record what a backward pass needs.
    #[serde(default)]
    pub grad: bool,
    /// Whether float32 products on a GPU may be computed with 10 bits of mantissa.
    #[serde(default)]
    pub tf32: bool,
}

fn once() -> u32 {
    1
}

/// Where the weights come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// They were saved with the graph.
    #[default]
    Archive,
    /// A safetensors file.
    Safetensors(PathBuf),
    /// A file of rules.
    Recipe(PathBuf),
    /// The usual rules for the layers' kinds, with this seed.
    StandardRecipe(u64),
}

/// What floats are computed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    #[default]
    AsExported,
    F32,
    /// Everything is widened, also what the graph converts to a smaller type on its way.
    F64,
    Bf16,
}

/// `cpu` or `cuda:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    #[default]
    Cpu,
    Cuda(u32),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let index = |digits: &str| digits.parse().ok().map(Self::Cuda);
        let device = match text {
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(0)),
            _ => text.strip_prefix("cuda:").and_then(index),
        };
        device.ok_or_else(|| format!("{text:?} is no device; say cpu, cuda or cuda:N"))
    }
}

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

/// Which nodes' results to write down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taps {
    #[default]
    None,
    All,
    Nodes(Vec<String>),
}

/// What the child says: one line each. The first is `hello`; a request is answered by any
/// number of `progress` and `log`, a run by `started` before them, and then by its result
/// (`result`, `opened`, `stepped`, `evaluated`, `ordered`, `done`) or `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    Hello(Hello),
    Started(Started),
    Progress(Progress),
    Log(Log),
    Result(Outcome),
    Opened(Opened),
    Stepped(Stepped),
    Evaluated(Evaluated),
    Ordered(Order),
    /// Of what has no other result: save, restore, close, join, leave.
    Done,
    Error(Failure),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Of the protocol.
    pub version: u32,
    /// Of the library that was loaded.
    pub libtorch: String,
}

/// The set-up is done; what it came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub device: Device,
    pub threads: u32,
    pub tf32: bool,
    pub nodes: usize,
}

/// A node is about to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Counts the runs of this request.
    pub run: u32,
    pub node: usize,
    pub nodes: usize,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    pub message: String,
}

/// What came of a request. Files are relative to its `out`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub files: Vec<PathBuf>,
    pub timings: Timings,
    /// How often each operator ran in one run.
    pub ops: BTreeMap<String, u64>,
    /// Operators whose random numbers came from the shared generator, by count.
    pub shared_random: BTreeMap<String, u64>,
    /// Operators that drew from libtorch's own generator: the other pass cannot repeat them.
    pub own_random: BTreeMap<String, u64>,
    /// Whether every further run gave the same bits as the first; `None` after one run.
    pub reproduced: Option<bool>,
}

/// Also the content of `timings.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// Reading the model, its weights and its inputs.
    pub load_seconds: f64,
    pub runs: Vec<RunTime>,
    /// Of the last run, where it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeTime>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTime {
    pub seconds: f64,
    /// Whether intermediate results were written meanwhile: then the time says little.
    pub tapped: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeTime {
    pub name: String,
    pub op: String,
    pub seconds: f64,
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    /// The node that failed, its module's path, and its line in the model's source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_line: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "{node}")?;
            if let Some(module) = self.module.as_ref().filter(|module| !module.is_empty()) {
                write!(f, " in {module}")?;
            }
            if let Some(line) = &self.source_line {
                write!(f, " ({line})")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The request is not one this version can read.
    Protocol,
    /// The model, its weights, or sizes it leaves open.
    Model,
    Inputs,
    /// A device that is not there.
    Device,
    /// An operator that libtorch does not have.
    Unsupported,
    /// An operator that failed.
    Op,
    /// Another rank is lost or late.
    Peer,
    /// Ranks that do not belong together.
    Ranks,
    /// Files that cannot be read or written.
    Io,
    /// A mistake of ours.
    Internal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_request_takes_the_defaults() {
        let text =
            r#"{"version":3,"task":{"run":{"model":"m.pt2","threads":2,"seed":0,"out":"o"}}}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        let Task::Run(run) = request.task else { panic!("{request:?}") };
        assert_eq!((run.repeats, run.taps, run.device), (1, Taps::None, Device::Cpu));
        assert_eq!((run.precision, run.weights), (Precision::AsExported, Weights::Archive));
    }

    #[test]
    fn unknown_keys_are_refused() {
        let text =
            r#"{"version":3,"task":{"run":{"model":"m","threads":2,"seed":0,"out":"o","sed":1}}}"#;
        let error = serde_json::from_str::<Request>(text).unwrap_err().to_string();
        assert!(error.contains("unknown field `sed`"), "{error}");
    }

    #[test]
    fn devices_are_read_as_they_are_written() {
        for device in [Device::Cpu, Device::Cuda(0), Device::Cuda(7)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        assert!("tpu:0".parse::<Device>().unwrap_err().contains("is no device"));
        assert!("cuda:-1".parse::<Device>().is_err());
    }

    #[test]
    fn events_are_one_object_each() {
        let log = Event::Log(Log { message: "a\nb".into() });
        let line = serde_json::to_string(&log).unwrap();
        assert_eq!(line, r#"{"event":"log","message":"a\nb"}"#);
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), log);
        assert_eq!(serde_json::to_string(&Event::Done).unwrap(), r#"{"event":"done"}"#);
    }

    #[test]
    fn tasks_are_named_by_their_keys() {
        let close = Request { version: 3, task: Task::Close };
        let save = Request { version: 3, task: Task::Save { path: "s".into() } };
        for (request, text) in [
            (close, r#"{"version":3,"task":"close"}"#),
            (save, r#"{"version":3,"task":{"save":{"path":"s"}}}"#),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
        }
    }

    #[test]
    fn a_failure_says_where() {
        let mut failure = Failure {
            kind: FailureKind::Op,
            message: "shapes differ".into(),
            node: Some("linear_3".into()),
            module: Some("encoder.layer.0".into()),
            source_line: Some("model.py:12".into()),
        };
        assert_eq!(failure.to_string(), "linear_3 in encoder.layer.0 (model.py:12): shapes differ");
        failure.node = None;
        assert_eq!(failure.to_string(), "shapes differ");
    }
}
