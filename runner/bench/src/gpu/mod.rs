//! GPUs to be measured: found, opened, and given work. [`api`] is what CUDA and HIP have in common,
//! `cuda` and `hip` are the two of them, and [`device`] makes something safe of either.

mod api;
mod cublas;
mod cuda;
pub(crate) mod device;
pub(crate) mod format;
mod hip;
mod hipblas;
pub(crate) mod load;
pub(crate) mod peaks;
pub(crate) mod product;

use std::path::Path;

pub(crate) use api::About;
pub(crate) use device::{Device, GRAIN, Host, Memory};

use crate::dynlib::{self, Driver, Fault};
use crate::measure::Figure;
use crate::suite::Unable;
use crate::system::{GpuVendor, System};
use api::Api;

/// The parameter that says which GPUs, and its value for all that are visible.
pub(crate) const DEVICES: &str = "devices";
pub(crate) const ALL: &str = "all";

/// Whether the kernels of `kernels.cu` are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernels {
    Compiled,
    Without,
}

/// Opens the visible GPUs that are asked for.
pub(crate) fn find(
    devices: &str,
    system: &System,
    kernels: Kernels,
) -> Result<Vec<Device>, Unable> {
    let visible = here()?;
    let chosen = choose(devices, visible.len())?;
    chosen.into_iter().map(|place| open(visible[place], system, kernels)).collect()
}

/// The GPUs of this machine. HIP is left alone where the kernel has no AMD GPU to compute with.
fn here() -> Result<Vec<(GpuVendor, u32)>, Unable> {
    let hip = match Path::new("/dev/kfd").exists() {
        true => dynlib::hip(),
        false => Err(Fault::Absent("/dev/kfd".into())),
    };
    visible(dynlib::cuda(), hip)
}

fn open(
    (vendor, index): (GpuVendor, u32),
    system: &System,
    kernels: Kernels,
) -> Result<Device, Unable> {
    fn device(mut api: impl Api + 'static, kernels: Kernels) -> Result<Device, Unable> {
        if kernels == Kernels::Compiled {
            api.compile()?;
        }
        Ok(Device::new(api))
    }
    match vendor {
        GpuVendor::Nvidia => device(cuda::Cuda::open(index)?, kernels),
        GpuVendor::Amd => device(hip::Hip::open(index, system)?, kernels),
    }
}

/// The GPUs that the drivers list, NVIDIA's first; why there are none, if there are none.
fn visible(
    cuda: Result<Driver, Fault>,
    hip: Result<Driver, Fault>,
) -> Result<Vec<(GpuVendor, u32)>, Unable> {
    let listed = |vendor, driver: &Result<Driver, Fault>| {
        let count = driver.as_ref().map_or(0, |driver| driver.devices.len() as u32);
        (0..count).map(move |index| (vendor, index)).collect::<Vec<_>>()
    };
    let gpus = [listed(GpuVendor::Nvidia, &cuda), listed(GpuVendor::Amd, &hip)].concat();
    if gpus.is_empty() { Err(why_none(cuda, hip)) } else { Ok(gpus) }
}

fn why_none(cuda: Result<Driver, Fault>, hip: Result<Driver, Fault>) -> Unable {
    let missing = |text: String| Unable::Missing(text);
    match (cuda, hip) {
        // 100 is CUDA_ERROR_NO_DEVICE.
        (Err(Fault::Failed { reason, .. }), _) if reason.ends_with("(100)") => {
            missing(format!("no NVIDIA GPU is visible ({reason})"))
        }
        (Ok(_), _) => missing("no NVIDIA GPU is visible (the driver lists none)".into()),
        (Err(fault @ (Fault::Failed { .. } | Fault::Unloadable { .. })), _) => {
            Unable::Failed(fault.to_string())
        }
        (_, Ok(_)) => missing("no AMD GPU is visible (HIP lists none)".into()),
        (Err(fault @ Fault::Absent(_)), Err(Fault::Absent(name))) if name == "/dev/kfd" => {
            missing(format!("no NVIDIA driver ({fault})"))
        }
        (_, Err(fault @ Fault::Absent(_))) => missing(format!("no ROCm runtime ({fault})")),
        (_, Err(fault)) => Unable::Failed(fault.to_string()),
    }
}

/// The places that `all` or a list such as `0,2` names.
fn choose(devices: &str, count: usize) -> Result<Vec<usize>, Unable> {
    if devices == ALL {
        return Ok((0..count).collect());
    }
    let place = |text: &str| {
        let place = text.trim().parse().ok().filter(|place| *place < count);
        place.ok_or_else(|| {
            Unable::Failed(format!(
                "{DEVICES}: there is no GPU {:?}; it is {ALL:?}, or numbers below {count} with \
                 commas between them",
                text.trim()
            ))
        })
    };
    devices.split(',').map(place).collect()
}

/// A figure of a GPU. Its UUID stands in the snapshot of the machine: as a tag it would keep
/// figures of two machines from being compared.
pub(crate) fn figure(name: &str, unit: &str, about: &About) -> Figure {
    Figure::higher(name, unit).tag("gpu", about.index.to_string())
}

/// As NVML and `nvidia-smi` spell it.
fn uuid(bytes: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*bytes));
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("GPU-{}", parts.join("-"))
}

/// What a buffer holds before its first NUL.
fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

/// What tests on a GPU share.
#[cfg(test)]
pub(crate) mod trial {
    use std::time::Duration;

    use super::here;
    use crate::model::{BenchmarkMetric, BenchmarkSpec, Params, Value};
    use crate::suite::{Benchmark, Context, Stop, Unable, Unwatched};
    use crate::system::snapshot;

    /// Does something as briefly as can be.
    pub(crate) fn with<T>(params: &Params, work: impl FnOnce(&Context<'_>) -> T) -> T {
        let (system, stop) = (snapshot(), Stop::default());
        let (duration, burn_in) = (Duration::from_millis(100), Duration::ZERO);
        let watch = &Unwatched;
        work(&Context { duration, burn_in, params, system: &system, stop: &stop, watch })
    }

    /// A machine without a GPU has to say so, for the reason that its drivers give. `None` there.
    pub(crate) fn unless_missing<T>(result: Result<T, Unable>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                assert!(matches!(error, Unable::Missing(_)), "{error}");
                match here() {
                    Err(none) => assert_eq!(error, none),
                    // One is there, and a library that computes with it is not.
                    Ok(_) => assert!(error.to_string().contains("cannot be used"), "{error}"),
                }
                None
            }
        }
    }

    /// The figures of a benchmark with some parameters set, if there is a GPU.
    pub(crate) fn figures(
        spec: BenchmarkSpec,
        mut benchmark: Box<dyn Benchmark>,
        set: &[(&str, i64)],
    ) -> Option<Vec<BenchmarkMetric>> {
        let mut params = spec.params;
        for (name, value) in set {
            let old = params.insert((*name).to_owned(), Value::Integer(*value));
            assert!(matches!(old, Some(Value::Integer(_))), "{name} is no such parameter");
        }
        with(&params, |cx| {
            unless_missing(benchmark.prepare(cx))?;
            let mut found = Vec::new();
            benchmark.run(cx, &mut found).expect("a benchmark on a GPU that is there");
            for metric in &found {
                assert!(metric.value > 0.0 && metric.samples > 0, "{metric:?}");
                assert!(metric.tags.contains_key("gpu"), "{metric:?}");
            }
            Some(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent(name: &str) -> Result<Driver, Fault> {
        Err(Fault::Absent(name.into()))
    }

    fn driver(names: &[&str]) -> Driver {
        let devices = names.iter().map(|name| (*name).to_owned()).collect();
        Driver { version: 13_000, devices }
    }

    fn missing(text: &str) -> Result<Vec<(GpuVendor, u32)>, Unable> {
        Err(Unable::Missing(text.into()))
    }

    #[test]
    fn without_any_driver_the_library_is_named() {
        let found = visible(absent("libcuda.so.1"), absent("/dev/kfd"));
        assert_eq!(found, missing("no NVIDIA driver (libcuda.so.1 not found)"));
    }

    #[test]
    fn drivers_without_a_gpu_say_so() {
        let reason = "CUDA_ERROR_NO_DEVICE (100)".to_owned();
        let none = Err(Fault::Failed { call: "cuInit", reason });
        let found = visible(none, absent("/dev/kfd"));
        assert_eq!(found, missing("no NVIDIA GPU is visible (CUDA_ERROR_NO_DEVICE (100))"));
        let found = visible(Ok(driver(&[])), absent("/dev/kfd"));
        assert_eq!(found, missing("no NVIDIA GPU is visible (the driver lists none)"));
        let found = visible(absent("libcuda.so.1"), Ok(driver(&[])));
        assert_eq!(found, missing("no AMD GPU is visible (HIP lists none)"));
        let found = visible(absent("libcuda.so.1"), absent("libamdhip64.so"));
        assert_eq!(found, missing("no ROCm runtime (libamdhip64.so not found)"));
    }

    #[test]
    fn a_broken_driver_is_no_missing_one() {
        let reason = "CUDA_ERROR_SYSTEM_NOT_READY (802)".to_owned();
        let broken = Err(Fault::Failed { call: "cuInit", reason });
        let expected = "cuInit failed: CUDA_ERROR_SYSTEM_NOT_READY (802)";
        let found = visible(broken, absent("/dev/kfd"));
        assert_eq!(found, Err(Unable::Failed(expected.into())));
    }

    #[test]
    fn gpus_of_both_makers_are_counted_on() {
        let found = visible(Ok(driver(&["a", "b"])), Ok(driver(&["c"])));
        let (nvidia, amd) = (GpuVendor::Nvidia, GpuVendor::Amd);
        assert_eq!(found, Ok(vec![(nvidia, 0), (nvidia, 1), (amd, 0)]));
    }

    #[test]
    fn some_gpus_can_be_chosen() {
        assert_eq!(choose("all", 2), Ok(vec![0, 1]));
        assert_eq!(choose("1, 0", 2), Ok(vec![1, 0]));
        for wrong in ["2", "-1", "", "first", "0,,1"] {
            assert!(matches!(choose(wrong, 2), Err(Unable::Failed(_))), "{wrong:?}");
        }
    }

    #[test]
    fn identifiers_are_spelt_as_nvml_does() {
        let bytes = std::array::from_fn(|place| place as u8);
        assert_eq!(uuid(&bytes), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(text(b"NVIDIA H200\0\0"), "NVIDIA H200");
    }
}
