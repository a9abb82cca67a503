//! The NVIDIA probe: the CUDA driver is loaded and initialised, and NVML asked.

use super::{Finding, counted};
use crate::Sysroot;
use crate::dynlib::{self, Driver, Fault};
use crate::system::GpuVendor;
use crate::system::nvml::{self, cuda_version};
use crate::system::pci::PciGpu;

const GET_DRIVER: &str = "install the NVIDIA driver (580 or newer for CUDA 13)";
const PASS_IN: &str = "in a container use the NVIDIA container toolkit (`docker run --gpus all`), \
                       in Kubernetes request nvidia.com/gpu";

/// Whether CUDA programs can run here.
pub fn nvidia() -> Finding {
    let nvml = || match nvml::read() {
        Ok(facts) => Ok(facts.driver_version.unwrap_or_else(|| "unknown".into())),
        Err(error) => Err(error.to_string()),
    };
    judge(&Sysroot::host(), dynlib::cuda(), nvml)
}

/// `nvml` gives the driver's version.
fn judge(
    root: &Sysroot,
    cuda: Result<Driver, Fault>,
    nvml: impl FnOnce() -> Result<String, String>,
) -> Finding {
    let gpus = PciGpu::read_all(root, Some(GpuVendor::Nvidia));
    match cuda {
        Ok(driver) if driver.devices.is_empty() => none_visible("the driver lists none"),
        Ok(driver) => with_nvml(&driver, nvml()),
        Err(fault @ Fault::Absent(_)) => without_library(&fault, &gpus),
        // 100 is CUDA_ERROR_NO_DEVICE.
        Err(Fault::Failed { reason, .. }) if reason.ends_with("(100)") => none_visible(&reason),
        Err(fault) => Finding::broken(fault.to_string(), cure_for(&fault)),
    }
}

fn with_nvml(cuda: &Driver, nvml: Result<String, String>) -> Finding {
    let gpus = counted("GPU", &cuda.devices);
    let version = cuda_version(cuda.version);
    match nvml {
        Ok(driver) => Finding::works(format!("{gpus}; driver {driver}, CUDA {version}")),
        // Without it neither throttling nor clocks can be seen, and no measurement is sound.
        Err(reason) => Finding::broken(
            format!("CUDA {version} works ({gpus}), but NVML does not: {reason}"),
            "provide libnvidia-ml.so.1 of the driver's version; in a container set \
             NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ),
    }
}

fn without_library(fault: &Fault, gpus: &[PciGpu]) -> Finding {
    let Some(gpu) = gpus.first() else {
        return Finding::missing(
            format!("{fault}: no NVIDIA driver, and no NVIDIA GPU on the PCI bus"),
            format!("on a machine with an NVIDIA GPU, {GET_DRIVER}; {PASS_IN}"),
        );
    };
    let address = &gpu.address;
    match gpu.driver.as_deref() {
        Some("nvidia") => Finding::missing(
            format!("{fault}: the nvidia kernel driver holds GPU {address}, but not its library"),
            format!("{PASS_IN}; otherwise reinstall the driver's user-space part (libcuda1)"),
        ),
        Some(other) => Finding::missing(
            format!("{fault}: NVIDIA GPU {address} is present but bound to {other}"),
            format!("{GET_DRIVER} and reboot, so that it takes the GPU from {other}"),
        ),
        None => Finding::missing(
            format!("{fault}: NVIDIA GPU {address} is present without a driver"),
            format!("{GET_DRIVER}; {PASS_IN}"),
        ),
    }
}

fn none_visible(reason: &str) -> Finding {
    Finding::missing(
        format!("libcuda.so.1 is installed but sees no GPU: {reason}"),
        format!(
            "unset CUDA_VISIBLE_DEVICES if it hides the GPU, see what `nvidia-smi -L` lists; {PASS_IN}"
        ),
    )
}

fn cure_for(fault: &Fault) -> String {
    match fault {
        Fault::Failed { reason, .. } if reason.ends_with("(803)") => {
            "the library and the kernel driver differ in version: reboot, or rebuild the container \
             on the host's driver"
                .into()
        }
        Fault::Failed { reason, .. } if reason.ends_with("(802)") => {
            "start the fabric manager: `systemctl start nvidia-fabricmanager`".into()
        }
        Fault::Failed { .. } => {
            "see `dmesg | grep -i nvrm` for the driver's reason, then reload or update the driver"
                .into()
        }
        _ => format!("{GET_DRIVER}, of the architecture of this machine"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{Status, check};
    use crate::fixture::Tree;

    const GPU: &str = "sys/bus/pci/devices/0000:01:00.0";

    fn gpu_tree(driver: Option<&str>) -> Tree {
        let tree = Tree::new(&[]);
        tree.put(&format!("{GPU}/vendor"), "0x10de\n");
        tree.put(&format!("{GPU}/class"), "0x030200\n");
        if let Some(driver) = driver {
            tree.put(&format!("{GPU}/driver"), &format!("-> ../../../bus/pci/drivers/{driver}"));
        }
        tree
    }

    fn absent() -> Result<Driver, Fault> {
        Err(Fault::Absent("libcuda.so.1".into()))
    }

    fn failed(reason: &str) -> Result<Driver, Fault> {
        Err(Fault::Failed { call: "cuInit", reason: reason.into() })
    }

    fn no_nvml() -> Result<String, String> {
        Err("not asked for".into())
    }

    #[test]
    fn no_device_and_no_driver() {
        check(
            &judge(&Tree::new(&[]).root(), absent(), no_nvml),
            Status::Missing,
            "libcuda.so.1 not found: no NVIDIA driver, and no NVIDIA GPU on the PCI bus",
            "install the NVIDIA driver (580 or newer for CUDA 13); in a container use the NVIDIA \
             container toolkit (`docker run --gpus all`), in Kubernetes request nvidia.com/gpu",
        );
    }

    #[test]
    fn a_device_without_its_driver() {
        check(
            &judge(&gpu_tree(None).root(), absent(), no_nvml),
            Status::Missing,
            "libcuda.so.1 not found: NVIDIA GPU 0000:01:00.0 is present without a driver",
            "install the NVIDIA driver (580 or newer for CUDA 13)",
        );
        check(
            &judge(&gpu_tree(Some("nouveau")).root(), absent(), no_nvml),
            Status::Missing,
            "libcuda.so.1 not found: NVIDIA GPU 0000:01:00.0 is present but bound to nouveau",
            "reboot",
        );
    }

    #[test]
    fn a_driver_that_the_container_was_not_given() {
        check(
            &judge(&gpu_tree(Some("nvidia")).root(), absent(), no_nvml),
            Status::Missing,
            "libcuda.so.1 not found: the nvidia kernel driver holds GPU 0000:01:00.0, but not its library",
            "request nvidia.com/gpu",
        );
        check(
            &judge(&gpu_tree(Some("nvidia")).root(), failed("CUDA_ERROR_NO_DEVICE (100)"), no_nvml),
            Status::Missing,
            "libcuda.so.1 is installed but sees no GPU: CUDA_ERROR_NO_DEVICE (100)",
            "CUDA_VISIBLE_DEVICES",
        );
    }

    #[test]
    fn a_driver_that_fails() {
        check(
            &judge(
                &gpu_tree(Some("nvidia")).root(),
                failed("CUDA_ERROR_SYSTEM_NOT_READY (802)"),
                no_nvml,
            ),
            Status::Broken,
            "cuInit failed: CUDA_ERROR_SYSTEM_NOT_READY (802)",
            "nvidia-fabricmanager",
        );
    }

    #[test]
    fn a_driver_that_works_with_and_without_nvml() {
        let cuda = || Ok(Driver { version: 13_000, devices: vec!["NVIDIA H200".into()] });
        let root = gpu_tree(Some("nvidia")).root();
        let whole = judge(&root, cuda(), || Ok("580.82.07".into()));
        assert_eq!(whole, Finding::works("1 GPU: NVIDIA H200; driver 580.82.07, CUDA 13.0"));
        check(
            &judge(&root, cuda(), || Err("no library".into())),
            Status::Broken,
            "CUDA 13.0 works (1 GPU: NVIDIA H200), but NVML does not: no library",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        );
    }
}
