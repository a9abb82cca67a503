//! Products of matrices on GPUs for as long as is asked, each of them compared with the first one
//! bit for bit.

use std::time::Duration;

use super::device::{Difference, GpuText};
use super::product::{Precision, Product, repeats};
use super::{DEVICES, Device, Kernels, Memory, find};
use crate::load::{Load, Round};
use crate::suite::{Context, Unable};

/// Sizes to try, from the greatest: some GPU may have little memory left.
const SIZES: [usize; 3] = [8192, 4096, 2048];
/// What computes most, of what the GPU has.
const PRECISIONS: [Precision; 2] = [Precision::Bf16, Precision::Fp16];
const ROUND: Duration = Duration::from_millis(500);

/// GPUs under load.
#[derive(Default)]
pub(crate) struct Gpus {
    gpus: Vec<Gpu>,
}

struct Gpu {
    device: Device,
    product: Product,
    first: Memory,
    found: Memory,
    count: u64,
}

pub(crate) fn make() -> Box<dyn Load> {
    Box::<Gpus>::default()
}

impl Load for Gpus {
    fn unit(&self) -> &'static str {
        "FLOP"
    }

    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        let devices = find(cx.text(DEVICES), cx.system, Kernels::Compiled)?;
        self.gpus = devices.iter().map(|device| Gpu::new(cx, device)).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Queues on all GPUs before it waits for any.
    fn round(&mut self, cx: &Context<'_>) -> Result<Round, Unable> {
        cx.check()?;
        self.gpus.iter().try_for_each(Gpu::queue)?;
        self.gpus.iter().try_for_each(Gpu::check)?;
        let amount = self.gpus.iter().map(|gpu| gpu.product.operations() * gpu.count as f64).sum();
        let elements = |gpu: &Gpu| (gpu.product.shape().size as u64).pow(2) * gpu.count;
        Ok(Round { amount, checks: self.gpus.iter().map(elements).sum() })
    }
}

impl Gpu {
    fn new(cx: &Context<'_>, device: &Device) -> Result<Self, Unable> {
        let precision = PRECISIONS
            .into_iter()
            .find(|precision| precision.shape(SIZES[0], device.about()).is_some())
            .unwrap_or(Precision::Fp32);
        let mut made = Err(Unable::Failed("no size to try".into()));
        for size in SIZES {
            made = Self::with(cx, device, precision, size);
            if !matches!(made, Err(Unable::Failed(_))) {
                break;
            }
        }
        made
    }

    fn with(
        cx: &Context<'_>,
        device: &Device,
        precision: Precision,
        size: usize,
    ) -> Result<Self, Unable> {
        let product = Product::new(cx, device, precision, size)?;
        let first = device.memory(product.c.len())?;
        device.copy(&first, &product.c)?;
        let count = repeats(ROUND, product.each);
        Ok(Self { device: device.clone(), found: device.nothing_found()?, product, first, count })
    }

    fn queue(&self) -> Result<(), Unable> {
        (0..self.count).try_for_each(|_| {
            self.product.multiply()?;
            self.device.differ(&self.found, &self.product.c, &self.first)
        })
    }

    fn check(&self) -> Result<(), Unable> {
        match Device::found(&self.found)? {
            None => Ok(()),
            Some(difference) => Err(self.wrong(difference)?),
        }
    }

    /// Where the products differ. A single one that was wrong may have been overwritten since.
    fn wrong(&self, difference: Difference) -> Result<Unable, Unable> {
        let (format, size) = (self.product.shape().product, self.product.shape().size);
        let place = difference.first as usize * 4 / format.bytes();
        let elements = |memory: &Memory| {
            let word = memory.read(difference.first as usize * 4, 4)?;
            Ok::<_, Unable>(format.decode_all(&word).collect::<Vec<_>>())
        };
        let (was, is) = (elements(&self.first)?, elements(&self.product.c)?);
        // The word's first element that differs, unless the product is right again.
        let within = was.iter().zip(&is).position(|(was, is)| was != is).unwrap_or(0);
        let (place, was, is) = (place + within, was[within], is[within]);
        let GpuText(gpu) = GpuText::of(self.device.about());
        Ok(Unable::Wrong(format!(
            "{gpu}: {} words of products differ from the first one's, first at row {}, column {} \
             (there it was {was:e}, and is {is:e} now)",
            difference.words,
            place / size,
            place % size
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::ALL;
    use crate::gpu::trial::{unless_missing, with};
    use crate::model::{Params, Value};

    #[test]
    fn a_product_that_differs_is_found_and_named() {
        let devices = [(DEVICES.to_owned(), Value::Text(ALL.to_owned()))];
        with(&Params::from(devices), |cx| {
            let mut load = Gpus::default();
            if unless_missing(load.prepare(cx)).is_none() {
                return;
            }
            let round = load.round(cx).expect("a sound GPU");
            assert!(round.amount > 0.0 && round.checks > 0, "{round:?}");
            let gpu = &load.gpus[0];
            let mut bytes = gpu.first.read(0, 4).expect("memory");
            bytes[2] ^= 1;
            gpu.first.write(&bytes).expect("memory");
            let Err(Unable::Wrong(reason)) = load.round(cx) else { panic!("not found") };
            let GpuText(name) = GpuText::of(load.gpus[0].device.about());
            assert!(reason.starts_with(&name), "{reason}");
            assert!(reason.contains("first at row 0, column 1 "), "{reason}");
        });
    }
}
