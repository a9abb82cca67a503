//! NVIDIA GPUs, asked through NVML.

use std::error::Error;
use std::ffi::OsStr;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::gpu::{Reasons, Sensor};
use super::kept::Buffer;
use super::record::{GpuUsage, percent};

/// The driver's own library, under the name that containers are given too.
pub(super) const LIBRARY: &str = "libnvidia-ml.so.1";

/// NVML's names for why clocks are low.
const REASONS: &[(ThrottleReasons, &str)] = &[
    (ThrottleReasons::GPU_IDLE, "gpu_idle"),
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "applications_clocks_setting"),
    (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync_boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake_slowdown"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display_clock_setting"),
];

/// One GPU, and what of it does not change.
pub(super) struct Gpu {
    device: Device<'static>,
    index: u32,
    model: Option<String>,
    guid: Option<String>,
}

/// Loads the library and finds its GPUs, or says why there are none. The library stays loaded
/// until the process ends, as every vendor's does here: its threads outlive a call.
pub(super) fn open(library: &str) -> Result<Vec<Gpu>, String> {
    let nvml = Nvml::builder().lib_path(OsStr::new(library)).init();
    let nvml: &'static Nvml = Box::leak(Box::new(nvml.map_err(|error| explain(library, &error))?));
    let count = nvml.device_count().map_err(|error| explain(library, &error))?;
    let gpus: Vec<_> = (0..count)
        .filter_map(|index| {
            let device = nvml.device_by_index(index).ok()?;
            Some(Gpu { index, model: device.name().ok(), guid: device.uuid().ok(), device })
        })
        .collect();
    if gpus.is_empty() { Err("NVML lists no GPU".to_owned()) } else { Ok(gpus) }
}

/// The innermost cause in one line; a library that is not there is the usual one.
fn explain(library: &str, error: &NvmlError) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    if text.contains("No such file or directory") {
        return format!("{library} not found");
    }
    format!("{library}: {text}")
}

impl Sensor for Gpu {
    fn usage(&mut self, _: &mut Buffer) -> GpuUsage {
        let device = &self.device;
        let memory = device.memory_info().ok();
        let clock = |clock| device.clock_info(clock).ok().map(f64::from);
        GpuUsage {
            index: self.index,
            model: self.model.clone(),
            guid: self.guid.clone(),
            utilization_percent: device.utilization_rates().ok().map(|rates| rates.gpu.into()),
            memory_utilization_percent: memory
                .and_then(|memory| percent(memory.used as f64, memory.total as f64)),
            power_watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            temperature_celsius: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            sm_clock_mhz: clock(Clock::SM),
            memory_clock_mhz: clock(Clock::Memory),
            throttle_reasons: None,
        }
    }

    fn reasons(&mut self, _: &mut Buffer) -> Option<Reasons> {
        self.device.current_throttle_reasons().ok().map(names)
    }
}

fn names(reasons: ThrottleReasons) -> Reasons {
    let held = REASONS.iter().filter(|(reason, _)| reasons.contains(*reason));
    held.map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_names() {
        let both = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(names(both), ["sw_power_cap", "hw_thermal_slowdown"]);
        assert!(names(ThrottleReasons::NONE).is_empty());
        let all: ThrottleReasons = REASONS.iter().map(|(reason, _)| *reason).collect();
        assert_eq!(all, ThrottleReasons::all(), "a reason has no name");
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let absent = open("libno-such-nvml.so.1").err();
        assert_eq!(absent.as_deref(), Some("libno-such-nvml.so.1 not found"));
    }
}
