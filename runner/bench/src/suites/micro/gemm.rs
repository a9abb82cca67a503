//! Products of square matrices, on one core and on all.

#![expect(unsafe_code, reason = "the matrix kernel takes pointers and strides")]

use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::measure::{Figure, collect, repetitions};
use crate::model::{BenchmarkMetric, BenchmarkSpec, Component, Value};
use crate::suite::{Benchmark, Context, Unable};

use super::threads::{self, Scope};
use super::{buffer, cpu_flops, listed};

const BLOCK: Duration = Duration::from_millis(40);
const CALIBRATION: Duration = Duration::from_millis(100);
const LARGEST: usize = 32_768;
/// Elements of each product that are computed anew.
const SPOTS: usize = 32;

pub fn spec() -> BenchmarkSpec {
    super::spec(
        "gemm",
        Component::Cpu,
        "Products of square matrices in f64 and f32, each of 2n³ operations, by the kernels of \
         the gemm crate, which is what the reference interpreter computes with; held against \
         what cpu_flops reaches on the same cores just before. Some elements of every product \
         are checked",
        20,
        &[
            ("sizes", Value::Text("512,1024,2048".to_owned())),
            ("precisions", Value::Text("f64,f32".to_owned())),
            ("cores", Value::Text("1,all".to_owned())),
        ],
    )
}

pub fn make() -> Box<dyn Benchmark> {
    Box::new(Gemm::default())
}

#[derive(Default)]
struct Gemm {
    sizes: Vec<usize>,
    precisions: Vec<&'static str>,
    scopes: Vec<Scope>,
}

impl Benchmark for Gemm {
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        self.sizes = listed::numbers(cx, "sizes", 1..=LARGEST)?;
        self.precisions = listed::choose(cx, "precisions", &["f64", "f32"])?;
        self.scopes = threads::scopes(cx)?;
        let most = buffer::budget(cx.system);
        match self.sizes.iter().find(|&&n| 3 * 8 * (n as u64).pow(2) > most) {
            Some(n) => Err(Unable::Missing(format!(
                "three matrices of {n} × {n} need more than {most} bytes, half of what is free"
            ))),
            None => Ok(()),
        }
    }

    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
        let time = cx.share(self.sizes.len() * self.precisions.len() * self.scopes.len());
        for scope in &self.scopes {
            let pool = pool(scope)?;
            for &precision in &self.precisions {
                cx.watch.doing(&format!("what {} reach in {precision}", scope.words()));
                let reached = cpu_flops::reached(precision, scope, CALIBRATION)? / 1e9;
                for &n in &self.sizes {
                    cx.watch.doing(&format!("{n} × {n} in {precision} on {}", scope.words()));
                    let of = format!("what cpu_flops reached in {precision} on {}", scope.words());
                    let figure = Figure::higher("gflops", "GFLOP/s")
                        .tag("precision", precision)
                        .tag("size", n.to_string())
                        .tag("cores", scope.name);
                    let metric = match precision {
                        "f32" => measure::<f32>(cx, &pool, n, time, figure)?,
                        _ => measure::<f64>(cx, &pool, n, time, figure)?,
                    };
                    found.push(metric.against(of, reached));
                }
            }
        }
        Ok(())
    }
}

fn pool(scope: &Scope) -> Result<ThreadPool, Unable> {
    let cpus = scope.cpus.clone();
    ThreadPoolBuilder::new()
        .num_threads(cpus.len())
        // Where this fails, `cpu_flops::reached` fails on the same CPUs before anything is timed.
        .start_handler(move |thread| drop(threads::pin(cpus[thread])))
        .build()
        .map_err(|error| Unable::Failed(format!("no threads for {}: {error}", scope.words())))
}

fn measure<T: Float>(
    cx: &Context<'_>,
    pool: &ThreadPool,
    n: usize,
    time: Duration,
    figure: Figure,
) -> Result<BenchmarkMetric, Unable> {
    let mut product = Product::<T>::new(n);
    let mut timed = |count: u64| {
        pool.install(|| {
            let from = Instant::now();
            for _ in 0..count {
                product.compute(pool.current_num_threads());
            }
            from.elapsed()
        })
    };
    let count = repetitions(BLOCK, &mut timed);
    let operations = 2.0 * (n as f64).powi(3) * count as f64;
    let [samples] = collect(cx, time, || Ok([operations / timed(count).as_secs_f64() / 1e9]))?;
    product.check()?;
    Ok(figure.of(&samples))
}

/// The formats that the matrix kernel knows.
trait Float: Copy + Send + Sync + 'static + Into<f64> {
    const ZERO: Self;
    const ONE: Self;
    /// The greatest relative error of one rounding.
    const ROUNDING: f64;

    fn of(x: f64) -> Self;
}

impl Float for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;

    fn of(x: f64) -> Self {
        x as f32
    }
}

impl Float for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const ROUNDING: f64 = f64::EPSILON / 2.0;

    fn of(x: f64) -> Self {
        x
    }
}

/// c = a · b, all n × n, row after row.
struct Product<T> {
    n: usize,
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
}

impl<T: Float> Product<T> {
    fn new(n: usize) -> Self {
        let matrix = |step: u64| {
            // The fractional part of multiples of a number without pattern, from −1 to 1.
            let value = |i: u64| (i.wrapping_mul(step) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            (0..(n * n) as u64).map(|i| T::of(value(i))).collect::<Vec<_>>()
        };
        let (a, b) = (matrix(0x9e37_79b9_7f4a_7c15), matrix(0xd1b5_4a32_d192_ed03));
        Self { n, a, b, c: vec![T::ZERO; n * n] }
    }

    fn compute(&mut self, threads: usize) {
        let parallelism =
            if threads > 1 { gemm::Parallelism::Rayon(threads) } else { gemm::Parallelism::None };
        let n = self.n;
        let row = n as isize;
        // SAFETY: the three matrices have n × n elements and are read and written as rows of n;
        // the one that is written is borrowed mutably; T is f32 or f64, which the kernel knows.
        unsafe {
            gemm::gemm(
                n,
                n,
                n,
                self.c.as_mut_ptr(),
                1,
                row,
                false,
                self.a.as_ptr(),
                1,
                row,
                self.b.as_ptr(),
                1,
                row,
                T::ZERO,
                T::ONE,
                false,
                false,
                false,
                parallelism,
            );
        }
    }

    /// Some elements, spread over all rows and columns, against sums in f64. Any order of adding
    /// errs by no more than n roundings of what the terms amount to.
    fn check(&self) -> Result<(), Unable> {
        let n = self.n;
        for spot in 0..SPOTS {
            let (row, column) = (spot * (n - 1) / (SPOTS - 1), spot * 7919 % n);
            let terms = (0..n).map(|k| self.a[row * n + k].into() * self.b[k * n + column].into());
            let (wanted, amount) = terms
                .fold((0.0, 0.0), |(sum, amount), term: f64| (sum + term, amount + term.abs()));
            let found: f64 = self.c[row * n + column].into();
            let allowed = (n + 2) as f64 * 2.0 * T::ROUNDING * amount;
            let error = (found - wanted).abs();
            if error.is_nan() || error > allowed {
                return Err(Unable::Wrong(format!(
                    "{n} × {n}: row {row}, column {column} is {found}, wanted {wanted} ± {allowed:e}"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked<T: Float>(n: usize) {
        let mut product = Product::<T>::new(n);
        assert!(n == 1 || matches!(product.check(), Err(Unable::Wrong(_))), "zeros are no product");
        product.compute(1);
        assert_eq!(product.check(), Ok(()));
        product.compute(2);
        assert_eq!(product.check(), Ok(()));
        product.c[0] = T::of(f64::NAN);
        assert!(matches!(product.check(), Err(Unable::Wrong(text)) if text.contains("row 0")));
    }

    #[test]
    fn products_are_right_and_wrong_ones_are_found() {
        for n in [1, 2, 7, 33, 96] {
            checked::<f32>(n);
            checked::<f64>(n);
        }
    }
}
