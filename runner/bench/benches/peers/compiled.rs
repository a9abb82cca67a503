//! C programs that are compiled there and then.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use warpforge_bench::statistics::median;

use super::ours::{absent, output};

/// A program in a folder of its own, which goes with it.
pub struct Program {
    folder: TempDir,
}

impl Program {
    /// By `gcc -O3 -march=native -fopenmp` and some flags more.
    pub fn compile(source: &str, flags: &[&str]) -> Result<Self, String> {
        let folder = TempDir::new().map_err(|error| error.to_string())?;
        let program = Self { folder };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers").join(source);
        let to = program.path().display().to_string();
        let common = ["-O3", "-march=native", "-fopenmp", "-o", &to];
        let args: Vec<_> = common.iter().chain(flags).copied().collect();
        output("gcc", &[&args[..], &[&source.display().to_string()]].concat())?;
        Ok(program)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// The median of the numbers that it prints, with so many threads, each held to a core.
    pub fn median(&self, threads: usize, args: &[&str]) -> Result<f64, String> {
        let path = self.path();
        let ran = Command::new(&path)
            .args(args)
            .env("OMP_NUM_THREADS", threads.to_string())
            .env("OMP_PROC_BIND", "close")
            .env("OMP_PLACES", "cores")
            .output();
        let ran = ran.map_err(|error| absent(&path.display().to_string(), &error))?;
        if !ran.status.success() {
            return Err(format!("the C program failed ({})", ran.status));
        }
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let numbers: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        if numbers.is_empty() {
            Err("the C program said nothing".to_owned())
        } else {
            Ok(median(&numbers))
        }
    }
}

/// How many cores there are for both.
pub fn cores() -> usize {
    let physical = warpforge_bench::system::snapshot().cpu.physical_cores;
    let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    physical.map_or(allowed, |cores| allowed.min(cores as usize))
}
