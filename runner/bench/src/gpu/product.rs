//! A product of two matrices on a GPU: random operands, the fastest of the library's algorithms, and
//! samples of the result held against sums on the CPU.

use std::collections::BTreeMap;
use std::time::Duration;

use super::api::{About, Arithmetic, Shape};
use super::device::{Device, GpuText, Memory, Multiplication};
use super::format::{BF16, F16, F32, Format, noise, noise_bits};
use crate::suite::{Context, Unable};

/// How precisely a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    Fp32,
    Tf32,
    Bf16,
    Fp16,
    Fp8,
}

impl Precision {
    pub const ALL: [Self; 5] = [Self::Fp32, Self::Tf32, Self::Bf16, Self::Fp16, Self::Fp8];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::Fp8 => "fp8",
        }
    }

    /// What is computed on a GPU that can do so.
    pub fn shape(self, size: usize, about: &About) -> Option<Shape> {
        let across = [false; 2];
        let with =
            |operand, product, arithmetic| Shape { size, across, operand, product, arithmetic };
        match self {
            Self::Fp32 => Some(with(F32, F32, Arithmetic::Full)),
            Self::Tf32 => about.tf32.then(|| with(F32, F32, Arithmetic::Tf32)),
            Self::Bf16 => about.bf16.then(|| with(BF16, BF16, Arithmetic::Full)),
            Self::Fp16 => Some(with(F16, F16, Arithmetic::Full)),
            Self::Fp8 => about.fp8.map(|operand| with(operand, BF16, Arithmetic::Full)),
        }
    }

    /// How the operands may lie: units for eight bits take sums along memory alone.
    fn layouts(self) -> &'static [[bool; 2]] {
        match self {
            Self::Fp8 => &LAYOUTS[..1],
            _ => &LAYOUTS,
        }
    }

    /// How far a product may be off, as a share of the products' own size: by how its operands are
    /// cut, how its sums are kept (those of fp8 with few bits) and how it is rounded.
    fn tolerance(self) -> f64 {
        match self {
            Self::Fp32 => 1e-5,
            Self::Tf32 | Self::Fp16 => 2e-3,
            Self::Bf16 => 8e-3,
            Self::Fp8 => 2e-2,
        }
    }
}

const LAYOUTS: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

/// Sizes that every library and format can do.
const GRAIN: usize = 16;
const LARGEST: usize = 1 << 16;

/// A number of rows and columns that can be asked for.
pub(crate) fn size(asked: i64) -> Result<usize, Unable> {
    let size = usize::try_from(asked).ok();
    size.filter(|size| (GRAIN..=LARGEST).contains(size) && size % GRAIN == 0).ok_or_else(|| {
        Unable::Failed(format!(
            "size: {asked} is not a multiple of {GRAIN} between {GRAIN} and {LARGEST}"
        ))
    })
}

const SEEDS: [u64; 2] = [1, 2];
/// Samples are taken where so many rows and columns meet.
const SAMPLED: usize = 24;
/// How long all algorithms are tried, each of two times, and then the best of them.
const HEATS: Duration = Duration::from_millis(10);
const FINALS: Duration = Duration::from_millis(100);
const FINALISTS: usize = 4;
/// What precedes the trials: a cool GPU is faster for a while than it stays.
const WARM_UP: Duration = Duration::from_millis(300);

pub(crate) struct Product {
    device: Device,
    precision: Precision,
    multiplication: Multiplication,
    a: Memory,
    b: Memory,
    pub c: Memory,
    algorithm: usize,
    /// What one product takes with that algorithm.
    pub each: Duration,
}

impl Product {
    /// Two random matrices, a product that is right, and the fastest way to it.
    pub fn new(
        cx: &Context<'_>,
        device: &Device,
        precision: Precision,
        size: usize,
    ) -> Result<Self, Unable> {
        let about = device.about();
        let shape = precision.shape(size, about).ok_or_else(|| {
            Unable::Missing(format!("{} has no {} units", about.name, precision.name()))
        })?;
        let matrix = |format: Format| device.memory(size * size * format.bytes());
        let (a, b, c) = (matrix(shape.operand)?, matrix(shape.operand)?, matrix(shape.product)?);
        device.fill(&a, shape.operand, SEEDS[0])?;
        device.fill(&b, shape.operand, SEEDS[1])?;
        let plans = plans(device, &shape, precision.layouts())?;
        let trials = Trials { cx, device, plans: &plans, a: &a, b: &b, c: &c };
        let (plan, algorithm, each) = trials.fastest()?;
        let multiplication = plans.into_iter().nth(plan).unwrap_or_else(|| unreachable!());
        let device = device.clone();
        let new = Self { device, precision, multiplication, a, b, c, algorithm, each };
        // What is there before must not pass for a product.
        new.device.fill(&new.c, shape.product, 3)?;
        new.multiply()?;
        new.check()?;
        Ok(new)
    }

    pub fn operations(&self) -> f64 {
        2.0 * (self.multiplication.shape.size as f64).powi(3)
    }

    /// Queues one product.
    pub fn multiply(&self) -> Result<(), Unable> {
        self.multiplication.multiply(self.algorithm, &self.a, &self.b, &self.c)
    }

    /// How long so many products take.
    pub fn timed(&self, count: u64) -> Result<Duration, Unable> {
        self.device.timed(|| (0..count).try_for_each(|_| self.multiply()))
    }

    /// Holds samples of the product against sums in double precision.
    pub fn check(&self) -> Result<(), Unable> {
        let shape = self.multiplication.shape;
        let places = |seed| sampled(seed, shape.size);
        let right = places(12).map(|row| line(&shape, 1, row)).collect::<Vec<_>>();
        let (mut wrong, mut all) = (0.0, 0.0);
        for row in places(11) {
            let left = line(&shape, 0, row);
            let width = shape.size * shape.product.bytes();
            let found: Vec<_> =
                shape.product.decode_all(&self.c.read(row * width, width)?).collect();
            for (column, right) in places(12).zip(&right) {
                let sum: f64 = left.iter().zip(right).map(|(x, y)| x * y).sum();
                wrong += (found[column] - sum).powi(2);
                all += sum.powi(2);
            }
        }
        self.judge((wrong / all).sqrt())
    }

    fn judge(&self, error: f64) -> Result<(), Unable> {
        let allowed = self.precision.tolerance();
        // A NaN is not within anything.
        if error <= allowed {
            return Ok(());
        }
        let GpuText(gpu) = GpuText::of(self.device.about());
        let name = self.precision.name();
        Err(Unable::Wrong(format!(
            "{gpu}: {name} products are off by {error:.1e} of their size, and {allowed:.0e} are \
             allowed"
        )))
    }

    pub fn shape(&self) -> &Shape {
        &self.multiplication.shape
    }
}

/// How many runs that take `each` last about `target`.
pub(crate) fn repeats(target: Duration, each: Duration) -> u64 {
    let each = each.as_secs_f64().max(1e-7);
    (target.as_secs_f64() / each).round().clamp(1.0, 1e6) as u64
}

fn sampled(seed: u64, size: usize) -> impl Iterator<Item = usize> {
    (0..SAMPLED as u64).map(move |place| noise(seed, place) as usize % size)
}

/// What the sums of a row or column of the product take of an operand.
fn line(shape: &Shape, operand: usize, row: usize) -> Vec<f64> {
    let place = |k: usize| match shape.across[operand] {
        false => row * shape.size + k,
        true => k * shape.size + row,
    };
    let bits = |k| noise_bits(shape.operand, SEEDS[operand], place(k) as u64);
    (0..shape.size).map(|k| shape.operand.decode(bits(k))).collect()
}

/// The layouts that the library can do, or why it can do none.
fn plans(
    device: &Device,
    shape: &Shape,
    layouts: &[[bool; 2]],
) -> Result<Vec<Multiplication>, Unable> {
    let (mut plans, mut fault) = (Vec::new(), None);
    for across in layouts {
        match device.plan(Shape { across: *across, ..*shape }) {
            Ok(plan) => plans.push(plan),
            Err(error) => fault = Some(error),
        }
    }
    match fault {
        Some(fault) if plans.is_empty() => Err(fault),
        _ => Ok(plans),
    }
}

/// The search for the fastest of some plans' algorithms.
struct Trials<'a> {
    cx: &'a Context<'a>,
    device: &'a Device,
    plans: &'a [Multiplication],
    a: &'a Memory,
    b: &'a Memory,
    c: &'a Memory,
}

impl Trials<'_> {
    /// A plan, its algorithm, and what a product takes by it.
    fn fastest(&self) -> Result<(usize, usize, Duration), Unable> {
        let mut all: Vec<_> = (0..self.plans.len())
            .flat_map(|plan| (0..self.plans[plan].algorithms()).map(move |it| (plan, it)))
            .collect();
        if let Some(first) = all.first() {
            self.try_out(*first, WARM_UP)?;
        }
        self.rank(&mut all, HEATS)?;
        all.truncate(FINALISTS);
        let took = self.rank(&mut all, FINALS)?;
        let (plan, algorithm) = *all.first().ok_or_else(|| {
            let GpuText(gpu) = GpuText::of(self.device.about());
            Unable::Failed(format!("{gpu}: its library has no algorithm for the product"))
        })?;
        Ok((plan, algorithm, took))
    }

    /// Puts the fastest first, and says what it took. All are tried there and back, so that none
    /// has a cooler GPU than others.
    fn rank(&self, which: &mut [(usize, usize)], time: Duration) -> Result<Duration, Unable> {
        let mut took = BTreeMap::<_, Duration>::new();
        for one in which.iter().chain(which.iter().rev()) {
            *took.entry(*one).or_default() += self.try_out(*one, time)?;
        }
        which.sort_by_key(|one| took[one]);
        Ok(which.first().map_or(Duration::ZERO, |one| took[one] / 2))
    }

    /// What one product takes. As much goes before: it loads the code, and clocks that are bound by
    /// power follow what draws it with some delay.
    fn try_out(&self, which: (usize, usize), time: Duration) -> Result<Duration, Unable> {
        self.cx.check()?;
        self.timed(which, 1)?;
        let count = repeats(time, self.timed(which, 1)?);
        self.timed(which, count)?;
        Ok(self.timed(which, count)? / count as u32)
    }

    fn timed(&self, (plan, algorithm): (usize, usize), count: u64) -> Result<Duration, Unable> {
        let multiply = |_| self.plans[plan].multiply(algorithm, self.a, self.b, self.c);
        self.device.timed(|| (0..count).try_for_each(multiply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::format::E4M3;
    use crate::system::GpuVendor;

    fn about(tf32: bool, fp8: Option<Format>) -> About {
        let (index, text) = (0, String::new);
        let vendor = GpuVendor::Nvidia;
        About { vendor, index, name: text(), uuid: text(), pci: text(), tf32, bf16: tf32, fp8 }
    }

    fn offered(about: &About) -> Vec<&'static str> {
        let offered = |precision: &Precision| precision.shape(64, about).is_some();
        Precision::ALL.into_iter().filter(offered).map(Precision::name).collect()
    }

    #[test]
    fn a_gpu_computes_what_it_has_units_for() {
        assert_eq!(offered(&about(true, Some(E4M3))), ["fp32", "tf32", "bf16", "fp16", "fp8"]);
        assert_eq!(offered(&about(true, None)), ["fp32", "tf32", "bf16", "fp16"]);
        assert_eq!(offered(&about(false, None)), ["fp32", "fp16"]);
    }

    #[test]
    fn eight_bit_products_are_written_wider() {
        let shape = Precision::Fp8.shape(64, &about(true, Some(E4M3))).expect("a shape");
        assert_eq!((shape.operand, shape.product), (E4M3, BF16));
    }

    #[test]
    fn sizes_that_no_library_computes_are_refused() {
        assert_eq!(size(8192), Ok(8192));
        for wrong in [0, -16, 8, 100, 1 << 17, i64::MAX] {
            assert!(matches!(size(wrong), Err(Unable::Failed(_))), "{wrong}");
        }
    }

    #[test]
    fn repeats_fill_the_time() {
        let ms = Duration::from_millis;
        assert_eq!(repeats(ms(50), ms(5)), 10);
        assert_eq!(repeats(ms(50), ms(500)), 1);
        assert_eq!(repeats(ms(50), Duration::ZERO), 500_000);
    }
}
