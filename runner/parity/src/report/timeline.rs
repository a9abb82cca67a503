//! What the machine did while a run went on, in the few points that a page can show. The whole of
//! it is in the bundle's `timeline.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::performance::Pass;

/// Figures over time, and what ran when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// The time between two looks at the machine.
    pub interval_seconds: f64,
    /// When each point is, in seconds from the run's start.
    pub seconds: Vec<f64>,
    /// Each has a value for every point.
    pub series: Vec<Series>,
    /// What ran when, in order.
    pub spans: Vec<Span>,
    /// What could not be watched, and why.
    pub missing: Vec<String>,
    /// What looking cost, as a share of one core.
    pub overhead_percent: f64,
}

/// The unit of power.
pub const WATTS: &str = "W";

/// One figure over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Such as `CPU` or `GPU 0`.
    pub name: String,
    /// Such as `%` or `W`; figures of one unit are drawn together.
    pub unit: String,
    /// Null where it could not be read.
    pub values: Vec<Option<f64>>,
}

/// A part of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    pub name: String,
    /// The pass that ran; absent if neither did.
    pub pass: Option<Pass>,
    pub from_seconds: f64,
    pub to_seconds: f64,
}
