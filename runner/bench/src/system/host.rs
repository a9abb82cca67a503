//! The machine as a whole: its name, what it was sold as, kernel and operating system.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Sysroot;

/// The machine's name, its kernel and its operating system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Network name of the machine, or of the container.
    pub hostname: Option<String>,
    /// Name of the operating system release, such as `Debian GNU/Linux 12 (bookworm)`.
    pub os: Option<String>,
    /// The running kernel.
    pub kernel: Kernel,
    /// Maker of the machine, or of the hypervisor that plays one.
    pub vendor: Option<String>,
    /// Product name of the machine.
    pub product: Option<String>,
}

/// The running kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// Release, as `uname -r` prints it.
    pub release: Option<String>,
    /// Build version, as `uname -v` prints it.
    pub version: Option<String>,
    /// Machine architecture, such as `x86_64` or `aarch64`.
    pub architecture: String,
}

impl Host {
    pub(super) fn read(root: &Sysroot) -> Self {
        let os_release = root.text("etc/os-release").or_else(|| root.text("usr/lib/os-release"));
        Self {
            hostname: root.text("proc/sys/kernel/hostname"),
            os: os_release.and_then(|text| os_name(&text)),
            kernel: Kernel::read(root),
            vendor: root.text("sys/class/dmi/id/sys_vendor"),
            product: root.text("sys/class/dmi/id/product_name"),
        }
    }
}

impl Kernel {
    fn read(root: &Sysroot) -> Self {
        Self {
            release: root.text("proc/sys/kernel/osrelease"),
            version: root.text("proc/sys/kernel/version"),
            // The file exists since Linux 6.1; before that the build's own target is the answer.
            architecture: root
                .text("proc/sys/kernel/arch")
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        }
    }
}

/// `PRETTY_NAME` of an os-release file, or `NAME` where there is none.
fn os_name(os_release: &str) -> Option<String> {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned())
    };
    value("PRETTY_NAME").or_else(|| value("NAME"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn os_names() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\n";
        assert_eq!(os_name(debian).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(os_name("ID=x\nNAME=Thing\n").as_deref(), Some("Thing"));
        assert_eq!(os_name("ID=x"), None);
    }

    #[test]
    fn kernel_and_machine() {
        let tree = Tree::new(&[
            ("proc/sys/kernel/hostname", "node-7\n"),
            ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
            ("proc/sys/kernel/arch", "aarch64\n"),
            ("sys/class/dmi/id/sys_vendor", "Supermicro\n"),
        ]);
        let host = Host::read(&tree.root());
        assert_eq!(host.hostname.as_deref(), Some("node-7"));
        assert_eq!(host.kernel.release.as_deref(), Some("6.8.0-45-generic"));
        assert_eq!(host.kernel.architecture, "aarch64");
        assert_eq!(host.vendor.as_deref(), Some("Supermicro"));
        assert_eq!(host.product, None);
    }
}
