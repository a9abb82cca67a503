//! The parser of `/proc/cpuinfo`, whose keys differ between x86 and ARM.

/// The facts of `/proc/cpuinfo` that are kept; those of the first processor stand for all.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CpuInfo {
    pub processors: u32,
    pub vendor: Option<String>,
    pub model_name: Option<String>,
    pub microcode: Option<String>,
    pub features: Vec<String>,
    /// Highest among the processors: an idle core says nothing about the frequency under load.
    pub mhz: Option<f64>,
}

impl CpuInfo {
    pub(super) fn parse(text: &str) -> Self {
        let mut info = Self::default();
        let mut part = None;
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match key.trim() {
                "processor" => info.processors += 1,
                "vendor_id" => keep(&mut info.vendor, value),
                "CPU implementer" => keep(&mut info.vendor, arm_vendor(value)),
                "CPU part" => keep(&mut part, value),
                "model name" => keep(&mut info.model_name, value),
                "microcode" => keep(&mut info.microcode, value),
                "flags" | "Features" if info.features.is_empty() => {
                    info.features = value.split_whitespace().map(str::to_owned).collect();
                }
                "cpu MHz" => info.mhz = info.mhz.into_iter().chain(value.parse()).reduce(f64::max),
                _ => {}
            }
        }
        info.model_name = info.model_name.or_else(|| part.map(|part| arm_core(&part)));
        info
    }

    pub(super) fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|f| f == feature)
    }

    /// The extensions that decide which kernels can run and how fast, out of a hundred flags.
    pub(super) fn isa_extensions(&self) -> Vec<String> {
        // x86 spells AMD's memory encryption `sme` too, ARM its matrix extension.
        let arm = self.has("asimd");
        let matters =
            |f: &&String| matters(f) || (arm && (f.starts_with("sve") || f.starts_with("sme")));
        self.features.iter().filter(matters).cloned().collect()
    }
}

fn keep(slot: &mut Option<String>, value: &str) {
    if slot.is_none() && !value.is_empty() {
        *slot = Some(value.to_owned());
    }
}

fn matters(feature: &str) -> bool {
    const EXACT: &[&str] = &[
        "sse4_1", "sse4_2", "popcnt", "bmi2", "f16c", "fma", "avx", "avx2", // x86
        "asimd", "asimdhp", "asimddp", "asimdfhm", "neon", "fphp", "bf16", "i8mm", // ARM
    ];
    const PREFIX: &[&str] = &["avx512", "avx10", "avx_", "amx_"];
    EXACT.contains(&feature) || PREFIX.iter().any(|prefix| feature.starts_with(prefix))
}

/// ARM's register of implementers.
fn arm_vendor(implementer: &str) -> &str {
    match implementer {
        "0x41" => "ARM",
        "0x42" => "Broadcom",
        "0x43" => "Cavium",
        "0x46" => "Fujitsu",
        "0x48" => "HiSilicon",
        "0x4e" => "NVIDIA",
        "0x51" => "Qualcomm",
        "0x61" => "Apple",
        "0xc0" => "Ampere",
        other => other,
    }
}

/// Names of common server cores; others keep their part number.
fn arm_core(part: &str) -> String {
    match part {
        "0xd08" => "Cortex-A72",
        "0xd0c" => "Neoverse-N1",
        "0xd40" => "Neoverse-V1",
        "0xd49" => "Neoverse-N2",
        "0xd4f" => "Neoverse-V2",
        "0xd84" => "Neoverse-V3",
        "0xd8e" => "Neoverse-N3",
        "0xac3" => "Ampere-1",
        "0xac4" => "Ampere-1a",
        other => return format!("part {other}"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "\
processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9654 96-Core Processor
microcode\t: 0xa101148
cpu MHz\t\t: 1500.000
flags\t\t: fpu sse4_2 fma avx f16c hypervisor avx2 avx512f avx512_bf16 avx512_vnni sme sme_coherent aes

processor\t: 1
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9654 96-Core Processor
cpu MHz\t\t: 3707.812
flags\t\t: fpu other
";

    const ARM: &str = "\
processor\t: 0
BogoMIPS\t: 2000.00
Features\t: fp asimd evtstrm aes fphp asimdhp asimddp sve i8mm bf16 sve2
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd4f

processor\t: 1
CPU implementer\t: 0x41
CPU part\t: 0xd4f
";

    #[test]
    fn x86() {
        let info = CpuInfo::parse(X86);
        assert_eq!(info.processors, 2);
        assert_eq!(info.vendor.as_deref(), Some("AuthenticAMD"));
        assert_eq!(info.model_name.as_deref(), Some("AMD EPYC 9654 96-Core Processor"));
        assert_eq!(info.microcode.as_deref(), Some("0xa101148"));
        assert_eq!(info.mhz, Some(3707.812));
        assert!(info.has("hypervisor"));
        let wanted =
            ["sse4_2", "fma", "avx", "f16c", "avx2", "avx512f", "avx512_bf16", "avx512_vnni"];
        assert_eq!(info.isa_extensions(), wanted);
    }

    #[test]
    fn arm() {
        let info = CpuInfo::parse(ARM);
        assert_eq!(info.processors, 2);
        assert_eq!(info.vendor.as_deref(), Some("ARM"));
        assert_eq!(info.model_name.as_deref(), Some("Neoverse-V2"));
        assert_eq!(info.mhz, None);
        let wanted = ["asimd", "fphp", "asimdhp", "asimddp", "sve", "i8mm", "bf16", "sve2"];
        assert_eq!(info.isa_extensions(), wanted);
    }

    #[test]
    fn an_unknown_arm_core_keeps_its_numbers() {
        let info = CpuInfo::parse("processor: 0\nCPU implementer: 0x99\nCPU part: 0x123\n");
        assert_eq!(info.vendor.as_deref(), Some("0x99"));
        assert_eq!(info.model_name.as_deref(), Some("part 0x123"));
    }

    #[test]
    fn text_that_is_no_cpuinfo_says_nothing() {
        assert_eq!(CpuInfo::parse("no colon here\n:::\ncpu MHz: fast\n"), CpuInfo::default());
    }
}
