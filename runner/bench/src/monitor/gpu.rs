//! What a GPU of either vendor is asked.

use super::kept::Buffer;
use super::record::GpuUsage;

/// Why clocks are lower than they could be, as the vendor names it.
pub(super) type Reasons = Vec<&'static str>;

/// One GPU that can be asked again and again.
pub(super) trait Sensor: Send {
    /// All but the reasons.
    fn usage(&mut self, buffer: &mut Buffer) -> GpuUsage;

    /// Why clocks are lower, now or since the last call; `None` where it cannot be told.
    fn reasons(&mut self, buffer: &mut Buffer) -> Option<Reasons>;
}

/// The reasons that make a measurement worthless: heat, and a power supply that calls for help.
/// The limit of power is not among them: at full load a GPU is meant to run at that limit, and
/// its clock there is the speed that it has. Nor is an idle GPU, or a clock that someone set.
const SLOWED: &[&str] = &[
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
    "thermal_limit",
    "prochot",
];

/// Whether a GPU with these reasons is slower than it is meant to be under load.
pub(super) fn slowed(reasons: &[&str]) -> bool {
    reasons.iter().any(|reason| SLOWED.contains(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_slows_and_the_limit_of_power_does_not() {
        assert!(!slowed(&[]));
        assert!(!slowed(&["sw_power_cap", "gpu_idle", "power_limit"]));
        assert!(slowed(&["sw_power_cap", "hw_thermal_slowdown"]));
        assert!(slowed(&["prochot"]));
    }
}
