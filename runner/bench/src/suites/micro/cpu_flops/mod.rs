//! Arithmetic at full rate: loops of one instruction on registers, on one core and on all.

use std::time::Duration;

mod kernel;
mod load;
mod rate;
mod state;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::measure::{Figure, collect};
use crate::model::{BenchmarkMetric, BenchmarkSpec, Component, Value};
use crate::statistics::median;
use crate::suite::{Benchmark, Context, Unable};

use super::listed;
use super::threads::{self, Scope};

pub use load::load;
use rate::Tuned;

const BLOCK: Duration = Duration::from_millis(40);
const PRECISIONS: &[&str] = &["f64", "f32", "bf16", "int8"];

pub fn spec() -> BenchmarkSpec {
    super::spec(
        "cpu_flops",
        Component::Cpu,
        "Fused multiply-adds on registers, in f64 and f32, and products of bf16 and int8 where \
         the processor has instructions for them (AMX, AVX512-BF16, VNNI). A fused multiply-add \
         counts as two operations. The peak it is held against is the instructions a cycle that \
         were reached at the best, as the nearest power of two, at the core's frequency, which is \
         measured between stretches of the kernel by a chain of dependent additions. One thread \
         to a core",
        12,
        &[
            ("precisions", Value::Text(PRECISIONS.join(","))),
            ("cores", Value::Text("1,all".to_owned())),
        ],
    )
}

pub fn make() -> Box<dyn Benchmark> {
    Box::new(CpuFlops::default())
}

#[derive(Default)]
struct CpuFlops {
    kernels: Vec<Tuned>,
    scopes: Vec<Scope>,
}

impl Benchmark for CpuFlops {
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        self.scopes = threads::scopes(cx)?;
        let asked = listed::choose(cx, "precisions", PRECISIONS)?;
        let cpu = self.scopes[0].cpus[0];
        for kernel in kernel::best() {
            if asked.contains(&kernel.family.precision()) {
                cx.check()?;
                self.kernels.push(Tuned::new(kernel, cpu)?);
            }
        }
        if self.kernels.is_empty() {
            let asked = asked.join(" or ");
            return Err(Unable::Missing(format!("the processor has no instructions for {asked}")));
        }
        Ok(())
    }

    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
        let time = cx.share(self.kernels.len() * self.scopes.len());
        for tuned in &self.kernels {
            for scope in &self.scopes {
                found.extend(measure(cx, tuned, scope, time)?);
            }
        }
        Ok(())
    }
}

fn measure(
    cx: &Context<'_>,
    tuned: &Tuned,
    scope: &Scope,
    time: Duration,
) -> Result<[BenchmarkMetric; 2], Unable> {
    let kernel = tuned.kernel;
    let precision = kernel.family.precision();
    cx.watch.doing(&format!("{precision} with {} on {}", kernel.isa, scope.words()));
    let [rates, frequencies] = collect(cx, time, || {
        let rate = tuned.rate(scope, BLOCK)?;
        Ok([rate.operations / 1e9, rate.hertz / 1e9])
    })?;
    let hertz = median(&frequencies.values) * 1e9;
    let (name, unit) = if precision == "int8" { ("gops", "GOP/s") } else { ("gflops", "GFLOP/s") };
    let tagged = |figure: Figure| {
        figure.tag("precision", precision).tag("isa", kernel.isa).tag("cores", scope.name)
    };
    Ok([
        tagged(Figure::higher(name, unit))
            .of(&rates)
            .against(tuned.peak_words(hertz, scope), tuned.peak(hertz, scope.cpus.len()) / 1e9),
        tagged(Figure::higher("frequency", "GHz")).of(&frequencies),
    ])
}

/// What cores reach in f32 or f64 within about `time`, in operations a second: what other
/// benchmarks of the processor are held against.
pub fn reached(precision: &str, scope: &Scope, time: Duration) -> Result<f64, Unable> {
    let all = kernel::best();
    let kernel = all.into_iter().find(|kernel| kernel.family.precision() == precision);
    let kernel = kernel.unwrap_or_else(|| unreachable!("no kernel for {precision}"));
    let tuned = Tuned::new(kernel, scope.cpus[0])?;
    let best = (0..5).map(|_| tuned.rate(scope, time / 5));
    best.map(|rate| rate.map(|rate| rate.operations))
        .try_fold(0.0, |best, rate| Ok(f64::max(best, rate?)))
}
