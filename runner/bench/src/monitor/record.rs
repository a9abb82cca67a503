//! What one look at the machine says, in the documented form. Whatever could not be read is null.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When, in RFC 3339, UTC.
    pub timestamp: String,
    /// The share of all CPUs' time since the record before in which they worked: the whole
    /// machine's, also in a container.
    pub cpu_utilization_percent: Option<f64>,
    /// The memory that there is, or that the control group allows where that is less.
    pub total_memory_bytes: Option<u64>,
    /// The share of it that is taken; caches that can be dropped are not.
    pub memory_utilization_percent: Option<f64>,
    /// Whose memory the two figures are of.
    pub memory_of: MemoryOf,
    /// The hottest processor's.
    pub cpu_temperature_celsius: Option<f64>,
    /// The mean of a few CPUs spread over the machine.
    pub cpu_clock_mhz: Option<f64>,
    /// How many times since its start the machine lowered clocks because cores or packages were
    /// too hot.
    pub cpu_throttle_count: Option<u64>,
    /// The GPUs, NVIDIA's first.
    pub gpu_usage: Vec<GpuUsage>,
}

/// What memory is counted of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryOf {
    Machine,
    /// The control group this process is held to, which allows less than the machine has.
    ControlGroup,
}

/// One GPU at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuUsage {
    /// The number that the vendor's tools give it.
    pub index: u32,
    pub model: Option<String>,
    /// The share of time in which it worked, as its driver counts it.
    pub utilization_percent: Option<f64>,
    /// The share of its memory that is taken.
    pub memory_utilization_percent: Option<f64>,
    pub power_watts: Option<f64>,
    /// Its UUID, which stays the same across reboots.
    pub guid: Option<String>,
    pub temperature_celsius: Option<f64>,
    /// The clock of the cores.
    pub sm_clock_mhz: Option<f64>,
    pub memory_clock_mhz: Option<f64>,
    /// Why clocks were lower than they could be, since the record before; empty if they were not.
    pub throttle_reasons: Option<Vec<String>>,
}

/// A share in percent, to two digits behind the point: files stay short, and nothing that is
/// counted in ticks and pages is better known.
pub(super) fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| two_digits((100.0 * part / whole).clamp(0.0, 100.0)))
}

pub(super) fn two_digits(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
