//! The AMD probe: the compute device node is opened, and HIP loaded and initialised.

use std::fs::OpenOptions;
use std::io;

use super::{Finding, counted};
use crate::Sysroot;
use crate::dynlib::{self, Driver, Fault};
use crate::system::GpuVendor;
use crate::system::pci::PciGpu;

const PASS_IN: &str = "in a container pass --device=/dev/kfd --device=/dev/dri, in Kubernetes \
                       request amd.com/gpu";

/// Whether HIP programs can run here.
pub fn amd() -> Finding {
    judge(&Sysroot::host(), dynlib::hip)
}

fn judge(root: &Sysroot, hip: impl FnOnce() -> Result<Driver, Fault>) -> Finding {
    let opened = OpenOptions::new().read(true).write(true).open(root.path("dev/kfd"));
    if let Err(error) = opened {
        return without_device(&PciGpu::read_all(root, Some(GpuVendor::Amd)), &error);
    }
    match hip() {
        Ok(driver) if driver.devices.is_empty() => Finding::missing(
            "/dev/kfd opens, but HIP sees no GPU",
            format!("unset HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES if set; {PASS_IN}"),
        ),
        Ok(driver) => works(&driver),
        Err(fault @ Fault::Absent(_)) => Finding::missing(
            format!("/dev/kfd opens, but {fault}: no ROCm runtime"),
            "install ROCm's HIP runtime (`apt install hip-runtime-amd` from AMD's repository), or \
             use an image that has it",
        ),
        Err(fault) => Finding::broken(
            fault.to_string(),
            "see `rocminfo` and `dmesg | grep -i amdgpu`; the ROCm version must suit the kernel driver",
        ),
    }
}

fn works(driver: &Driver) -> Finding {
    let (major, minor) = (driver.version / 10_000_000, driver.version / 100_000 % 100);
    let gpus = counted("GPU", &driver.devices);
    Finding::works(format!(
        "{gpus}; HIP {major}.{minor}; WarpForge's AMD code is compiled, but has never run on such \
         hardware so far"
    ))
}

fn without_device(gpus: &[PciGpu], error: &io::Error) -> Finding {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Finding::broken(
            "/dev/kfd cannot be opened: permission denied",
            "add the user to its groups (`sudo usermod -aG render,video $USER`) and log in again",
        );
    }
    if error.kind() != io::ErrorKind::NotFound {
        return Finding::broken(
            format!("/dev/kfd cannot be opened: {error}"),
            "see `dmesg | grep -i -e amdgpu -e kfd` for the driver's reason",
        );
    }
    let Some(gpu) = gpus.first() else {
        return Finding::missing(
            "no AMD GPU on the PCI bus, and no /dev/kfd",
            format!("on a machine with an AMD GPU, install the amdgpu driver and ROCm; {PASS_IN}"),
        );
    };
    let address = &gpu.address;
    match gpu.driver.as_deref() {
        Some("amdgpu") => Finding::missing(
            format!("AMD GPU {address} has its driver, but /dev/kfd is absent"),
            format!("{PASS_IN}; on the host use a kernel with CONFIG_HSA_AMD"),
        ),
        Some(other) => Finding::missing(
            format!("AMD GPU {address} is present but bound to {other}"),
            format!("give it to the amdgpu driver in place of {other}, then `modprobe amdgpu`"),
        ),
        None => Finding::missing(
            format!("AMD GPU {address} is present without a driver"),
            "install the amdgpu driver (`apt install amdgpu-dkms` from AMD's repository), then \
             `modprobe amdgpu`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{Status, check};
    use crate::fixture::Tree;

    const GPU: &str = "sys/bus/pci/devices/0000:c1:00.0";

    fn gpu_tree(driver: Option<&str>) -> Tree {
        let tree = Tree::new(&[]);
        tree.put(&format!("{GPU}/vendor"), "0x1002\n");
        tree.put(&format!("{GPU}/class"), "0x120000\n");
        if let Some(driver) = driver {
            tree.put(&format!("{GPU}/driver"), &format!("-> ../../../bus/pci/drivers/{driver}"));
        }
        tree
    }

    fn not_reached() -> Result<Driver, Fault> {
        panic!("HIP must not be loaded when its device cannot be opened")
    }

    #[test]
    fn no_device() {
        check(
            &judge(&Tree::new(&[]).root(), not_reached),
            Status::Missing,
            "no AMD GPU on the PCI bus, and no /dev/kfd",
            "install the amdgpu driver and ROCm; in a container pass --device=/dev/kfd",
        );
    }

    #[test]
    fn a_device_without_kfd() {
        check(
            &judge(&gpu_tree(Some("amdgpu")).root(), not_reached),
            Status::Missing,
            "AMD GPU 0000:c1:00.0 has its driver, but /dev/kfd is absent",
            "--device=/dev/kfd --device=/dev/dri",
        );
        check(
            &judge(&gpu_tree(Some("vfio-pci")).root(), not_reached),
            Status::Missing,
            "AMD GPU 0000:c1:00.0 is present but bound to vfio-pci",
            "modprobe amdgpu",
        );
        check(
            &judge(&gpu_tree(None).root(), not_reached),
            Status::Missing,
            "AMD GPU 0000:c1:00.0 is present without a driver",
            "apt install amdgpu-dkms",
        );
    }

    #[test]
    fn a_device_that_may_not_be_opened() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        check(
            &without_device(&[], &denied),
            Status::Broken,
            "/dev/kfd cannot be opened: permission denied",
            "sudo usermod -aG render,video $USER",
        );
    }

    #[test]
    fn what_hip_says() {
        let tree = gpu_tree(Some("amdgpu"));
        tree.put("dev/kfd", "");
        let root = tree.root();
        check(
            &judge(&root, || Err(Fault::Absent("libamdhip64.so".into()))),
            Status::Missing,
            "/dev/kfd opens, but libamdhip64.so not found: no ROCm runtime",
            "apt install hip-runtime-amd",
        );
        let reason = "no ROCm-capable device is detected (100)".into();
        check(
            &judge(&root, || Err(Fault::Failed { call: "hipInit", reason })),
            Status::Broken,
            "hipInit failed: no ROCm-capable device is detected (100)",
            "rocminfo",
        );
        let devices = vec!["AMD Instinct MI300X".into(), "AMD Instinct MI300X".into()];
        let whole = judge(&root, || Ok(Driver { version: 60_342_134, devices }));
        assert_eq!(
            whole,
            Finding::works(
                "2 GPUs: AMD Instinct MI300X, AMD Instinct MI300X; HIP 6.3; WarpForge's AMD code is \
                 compiled, but has never run on such hardware so far"
            )
        );
    }
}
