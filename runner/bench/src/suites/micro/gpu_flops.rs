//! Products of large square matrices on a GPU, by the vendor's library with its fastest algorithm:
//! what its arithmetic yields, precision by precision.

use std::time::Duration;

use crate::gpu::product::{Precision, Product, repeats, size};
use crate::gpu::{ALL, DEVICES, Device, Kernels, figure, find, peaks};
use crate::measure::collect;
use crate::model::{BenchmarkMetric, BenchmarkSpec, Component, Value};
use crate::suite::{Benchmark, Context, Unable};

const PRECISION: &str = "precision";
const SIZE: &str = "size";
/// A sample's length.
const BLOCK: Duration = Duration::from_millis(50);

pub fn spec() -> BenchmarkSpec {
    super::spec(
        "gpu_flops",
        Component::Gpu,
        "Matrix products on every GPU in fp32, tf32, bf16, fp16 and fp8, whichever it has units \
         for: cuBLASLt on NVIDIA, hipBLASLt on AMD (compiled, not yet run on such hardware); \
         percent of the data sheet's dense peak",
        20,
        &[
            (DEVICES, Value::Text(ALL.into())),
            (PRECISION, Value::Text(ALL.into())),
            (SIZE, Value::Integer(8192)),
        ],
    )
}

pub fn make() -> Box<dyn Benchmark> {
    Box::<GpuFlops>::default()
}

#[derive(Default)]
struct GpuFlops {
    size: usize,
    figures: Vec<(Device, Precision)>,
}

impl Benchmark for GpuFlops {
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        self.size = size(cx.integer(SIZE))?;
        let asked = precisions(cx.text(PRECISION))?;
        for device in find(cx.text(DEVICES), cx.system, Kernels::Compiled)? {
            for precision in of(&device, asked.as_deref(), self.size)? {
                self.figures.push((device.clone(), precision));
            }
        }
        Ok(())
    }

    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
        let time = cx.share(self.figures.len());
        for (device, precision) in &self.figures {
            found.push(self.measure(cx, time, device, *precision)?);
        }
        Ok(())
    }
}

impl GpuFlops {
    fn measure(
        &self,
        cx: &Context<'_>,
        time: Duration,
        device: &Device,
        precision: Precision,
    ) -> Result<BenchmarkMetric, Unable> {
        let about = device.about();
        cx.watch.doing(&format!("{} products on GPU {}", precision.name(), about.index));
        let product = Product::new(cx, device, precision, self.size)?;
        let count = repeats(BLOCK, product.each);
        let teraflops = product.operations() * count as f64 / 1e12;
        let [samples] =
            collect(cx, time, || Ok([teraflops / product.timed(count)?.as_secs_f64()]))?;
        product.check()?;
        let metric = figure("gpu_flops", "TFLOP/s", about)
            .tag("precision", precision.name())
            .tag("size", self.size.to_string())
            .of(&samples);
        Ok(match peaks::flops(&about.name, precision) {
            Some(peak) => metric.against(peaks::SOURCE, peak),
            None => metric,
        })
    }
}

/// The precisions that are asked for; `None` for whatever a GPU has.
fn precisions(text: &str) -> Result<Option<Vec<Precision>>, Unable> {
    if text == ALL {
        return Ok(None);
    }
    let named = |name: &str| {
        let found = Precision::ALL.into_iter().find(|precision| precision.name() == name.trim());
        found.ok_or_else(|| {
            let known = Precision::ALL.map(Precision::name).join(", ");
            Unable::Failed(format!("{PRECISION}: {:?} is none of {ALL}, {known}", name.trim()))
        })
    };
    text.split(',').map(named).collect::<Result<_, _>>().map(Some)
}

/// What is measured on a GPU. One that was asked for and that it lacks is an error.
fn of(device: &Device, asked: Option<&[Precision]>, size: usize) -> Result<Vec<Precision>, Unable> {
    let about = device.about();
    let has = |precision: &Precision| precision.shape(size, about).is_some();
    let Some(asked) = asked else {
        return Ok(Precision::ALL.into_iter().filter(has).collect());
    };
    match asked.iter().find(|precision| !has(precision)) {
        Some(lacking) => {
            Err(Unable::Missing(format!("{} has no {} units", about.name, lacking.name())))
        }
        None => Ok(asked.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_by_name() {
        assert_eq!(precisions("all"), Ok(None));
        let two = Some(vec![Precision::Bf16, Precision::Fp8]);
        assert_eq!(precisions("bf16, fp8"), Ok(two));
        let wrong = Unable::Failed(
            "precision: \"int4\" is none of all, fp32, tf32, bf16, fp16, fp8".into(),
        );
        assert_eq!(precisions("bf16,int4"), Err(wrong));
    }

    #[test]
    fn small_products_are_right_or_the_gpu_is_missing() {
        if let Some(found) = crate::gpu::trial::figures(spec(), make(), &[(SIZE, 512)]) {
            let named = |name: &str| found.iter().any(|metric| metric.tags["precision"] == name);
            assert!(named("fp32") && named("fp16"), "{found:?}");
        }
    }
}
