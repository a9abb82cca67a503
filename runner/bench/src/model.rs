//! What benchmarks are and what came of them: plain data, in the form that is exported and that
//! `warpforge schema benchmark` describes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpforge_parity::verdict::Verdict;

use crate::monitor::Summary;
use crate::score::Score;
use crate::statistics::Interval;
use crate::system::System;

/// The form of [`BenchmarkSuiteRun`].
pub const VERSION: u32 = 1;

/// What [`BenchmarkSuiteRun`] is called in a bundle.
pub const RESULTS: &str = "benchmark.json";

/// The parameter that names the other end of a network, and the tag that says of which kind it was.
pub const PEER: &str = "peer";

/// The tag of a figure that is a percentile: `p50`, `p99`, `p999`.
pub const PERCENTILE: &str = "percentile";

/// A part of the machine.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    Cpu,
    Gpu,
    Ram,
    Storage,
    Network,
    /// The machine as a whole.
    System,
}

impl Component {
    pub const ALL: [Self; 6] =
        [Self::Cpu, Self::Gpu, Self::Ram, Self::Storage, Self::Network, Self::System];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Ram => "ram",
            Self::Storage => "storage",
            Self::Network => "network",
            Self::System => "system",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Component {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|component| component.name() == text).ok_or(())
    }
}

/// How near a benchmark is to what people run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One resource, driven to its limit.
    Synthetic,
    /// A program as people run it.
    Application,
    /// A program of one field, such as biology.
    Domain,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::Application => "application",
            Self::Domain => "domain",
        }
    }
}

/// A benchmark's name within its suite.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkId {
    pub suite: String,
    pub name: String,
}

impl BenchmarkId {
    pub fn new(suite: &str, name: &str) -> Self {
        Self { suite: suite.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for BenchmarkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.suite, self.name)
    }
}

/// A parameter of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

impl Value {
    /// Text as a value of the same type as this one.
    pub fn parse_like(&self, text: &str) -> Option<Self> {
        match self {
            Self::Flag(_) => text.parse().ok().map(Self::Flag),
            Self::Integer(_) => text.parse().ok().map(Self::Integer),
            Self::Number(_) => text.parse().ok().filter(|x: &f64| x.is_finite()).map(Self::Number),
            Self::Text(_) => Some(Self::Text(text.to_owned())),
        }
    }

    /// What a person calls its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Flag(_) => "true or false",
            Self::Integer(_) => "a whole number",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
        }
    }
}

/// Parameters by name.
pub type Params = BTreeMap<String, Value>;

/// A benchmark that can be run, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkSpec {
    pub id: BenchmarkId,
    /// What it exercises.
    pub components: Vec<Component>,
    pub kind: Kind,
    pub description: Option<String>,
    /// How long it measures unless told otherwise, warm-up left out.
    pub default_duration_seconds: Option<u32>,
    /// A program it needs that is not part of WarpForge.
    pub external_tool: Option<String>,
    /// Its parameters and their values.
    #[serde(default)]
    pub params: Params,
    /// Which of its figures stands for it where there is room for one.
    #[serde(default)]
    pub headline: Option<Headline>,
}

/// Points at a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Headline {
    /// The metric's name.
    pub metric: String,
    /// Tags that it has, beside others. Of several such figures the last is meant.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Tags whose values are told with it: figures that differ in them are not to be mixed up.
    #[serde(default)]
    pub told: Vec<String>,
}

impl Headline {
    fn means(&self, metric: &BenchmarkMetric) -> bool {
        metric.name == self.metric
            && self.tags.iter().all(|(name, value)| metric.tags.get(name) == Some(value))
    }
}

/// What a figure is held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// What it is, such as "peak of 2 FMA units at the measured 3.5 GHz".
    pub of: String,
    /// In the metric's unit.
    pub value: f64,
    /// The metric as a share of it.
    pub percent: f64,
}

/// A stretch of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Span {
    pub from: String,
    pub to: String,
}

/// One figure of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkMetric {
    pub name: String,
    /// The figure: the median of the samples.
    pub value: f64,
    pub unit: String,
    pub higher_is_better: bool,
    /// What tells apart figures of one name, such as `precision: f32`.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// How many samples count.
    pub samples: u64,
    /// The samples' median.
    pub median: f64,
    /// What holds the median with the stated confidence; null with too few samples to say.
    pub interval: Option<Interval>,
    /// How many samples were left out because the hardware was throttled beside them.
    #[serde(default)]
    pub dropped: u64,
    /// When its samples were taken: what a timeline has between the two was seen beside them.
    #[serde(default)]
    pub span: Option<Span>,
    /// What it is held against, where something is known.
    pub expectation: Option<Expectation>,
}

impl BenchmarkMetric {
    /// Its name and tags, by which it is found in another file.
    pub fn key(&self) -> String {
        key(&self.name, &self.tags)
    }
}

fn key(name: &str, tags: &BTreeMap<String, String>) -> String {
    let tags: Vec<_> = tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if tags.is_empty() { name.to_owned() } else { format!("{name}[{}]", tags.join(",")) }
}

/// What came of one benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkRunResult {
    pub spec: BenchmarkSpec,
    pub metrics: Vec<BenchmarkMetric>,
    /// Whether it ran to its end and its results are right.
    pub success: bool,
    pub error_message: Option<String>,
    /// RFC 3339, UTC.
    pub start_time: String,
    /// RFC 3339, UTC.
    pub end_time: String,
    /// The machine it ran on.
    pub system: Option<System>,
    pub verdict: Verdict,
    /// Why the verdict is not a pass.
    pub reason: Option<String>,
    /// What the monitor saw while it ran.
    pub monitor: Option<Summary>,
}

impl BenchmarkRunResult {
    /// The figure that stands for the benchmark, and its name with only those tags that say which
    /// one it is. Where parameters left it out, the first there is, with all its tags.
    pub fn headline(&self) -> Option<(String, &BenchmarkMetric)> {
        let meant = self.spec.headline.as_ref().and_then(|headline| {
            let metric = self.metrics.iter().rfind(|metric| headline.means(metric))?;
            let mut tags = headline.tags.clone();
            let of_metric = |name: &String| Some((name.clone(), metric.tags.get(name)?.clone()));
            tags.extend(headline.told.iter().filter_map(of_metric));
            Some((key(&headline.metric, &tags), metric))
        });
        meant.or_else(|| self.metrics.first().map(|metric| (metric.key(), metric)))
    }
}

/// What came of a suite, or of the defaults of some components.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkSuiteRun {
    /// The form of this file.
    pub version: u32,
    /// The suite, or the components joined by `-`.
    pub suite: String,
    pub components: Vec<Component>,
    pub benchmarks: Vec<BenchmarkRunResult>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Whether all benchmarks that were asked for have been run. A run that was interrupted, or
    /// goes on still, has not.
    pub complete: bool,
    pub verdict: Verdict,
    /// The geometric mean against a reference machine, where it was asked for.
    pub score: Option<Score>,
}
