//! The processor: which instructions it has and how many threads may run.

use std::env::consts::ARCH;
use std::thread;

use warpforge_bench::Sysroot;
use warpforge_bench::capability::Finding;
use warpforge_bench::system::{Surroundings, System};

/// Extensions that decide how fast the kernels are, the strongest first.
const WORTH_NAMING: [&str; 9] = [
    "amx_bf16",
    "amx_int8",
    "avx512_bf16",
    "avx512_vnni",
    "avx512f",
    "avx2",
    "sve2",
    "sve",
    "asimd",
];

pub fn probe() -> Finding {
    if !matches!(ARCH, "x86_64" | "aarch64") {
        let cure = "use an x86-64 or 64-bit ARM machine";
        return Finding::missing(format!("there are no kernels for {ARCH}"), cure);
    }
    let cpu = System::read(&Sysroot::host(), &Surroundings::default()).cpu;
    let has = |name: &&&str| cpu.isa_extensions.iter().any(|extension| extension == **name);
    let extensions: Vec<_> = WORTH_NAMING.iter().filter(has).copied().collect();
    let model = cpu.model.unwrap_or_else(|| ARCH.to_owned());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let plural = if threads == 1 { "" } else { "s" };
    let listed = if extensions.is_empty() {
        "no vector extensions".to_owned()
    } else {
        extensions.join(" ")
    };
    Finding::works(format!("{model}, {threads} thread{plural}, {listed}"))
}
