//! Copies between the host and a GPU: pinned and pageable memory, each way and both at once.

use std::time::Duration;

use crate::gpu::format::noise;
use crate::gpu::product::repeats;
use crate::gpu::{ALL, About, DEVICES, Device, Host, Kernels, Memory, figure, find};
use crate::measure::collect;
use crate::model::{BenchmarkMetric, BenchmarkSpec, Component, Value};
use crate::suite::{Benchmark, Context, Unable};
use crate::system::{PcieLink, System};

const SIZE: &str = "size_mib";
const LARGEST: i64 = 1 << 14;
/// A sample's length.
const BLOCK: Duration = Duration::from_millis(50);

pub fn spec() -> BenchmarkSpec {
    super::spec(
        "gpu_pcie",
        Component::Gpu,
        "Copies between the host and every GPU: to it, from it, and both at once, from pinned and \
         pageable memory; AMD through HIP (compiled, not yet run on such hardware); percent of \
         what the PCIe link carries",
        10,
        &[(DEVICES, Value::Text(ALL.into())), (SIZE, Value::Integer(256))],
    )
}

pub fn make() -> Box<dyn Benchmark> {
    Box::<GpuPcie>::default()
}

#[derive(Default)]
struct GpuPcie {
    gpus: Vec<Gpu>,
}

struct Gpu {
    device: Device,
    /// Gigabytes per second that the link carries one way.
    link: Option<(String, f64)>,
    up: Memory,
    down: Memory,
    pinned: Pair,
    pageable: Pair,
    bytes: usize,
}

/// What is copied to the device, and what is copied back.
struct Pair {
    from: Host,
    to: Host,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToDevice,
    ToHost,
    Both,
}

struct Row {
    direction: Direction,
    name: &'static str,
    pinned: bool,
}

const ROWS: &[Row] = &[
    Row { direction: Direction::ToDevice, name: "host_to_device", pinned: true },
    Row { direction: Direction::ToHost, name: "device_to_host", pinned: true },
    Row { direction: Direction::Both, name: "both", pinned: true },
    Row { direction: Direction::ToDevice, name: "host_to_device", pinned: false },
    Row { direction: Direction::ToHost, name: "device_to_host", pinned: false },
];

impl Benchmark for GpuPcie {
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        let bytes = length(cx.integer(SIZE))?;
        let devices = find(cx.text(DEVICES), cx.system, Kernels::Without)?;
        let gpus = devices.into_iter().map(|device| Gpu::new(device, bytes, cx.system));
        self.gpus = gpus.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
        let time = cx.share(self.gpus.len() * ROWS.len());
        for gpu in &mut self.gpus {
            for row in ROWS {
                found.push(gpu.measure(cx, time, row)?);
            }
        }
        Ok(())
    }
}

fn length(mebibytes: i64) -> Result<usize, Unable> {
    let whole = usize::try_from(mebibytes).ok().filter(|_| (1..=LARGEST).contains(&mebibytes));
    let message = || format!("{SIZE}: {mebibytes} is not between 1 and {LARGEST}");
    whole.map(|mebibytes| mebibytes << 20).ok_or_else(|| Unable::Failed(message()))
}

/// What a link of so many lanes carries one way, headers and all. An idle GPU's link is slow, so it
/// is the fastest one that counts.
fn carried(link: &PcieLink) -> (String, f64) {
    let speed = link.max_speed_gt_per_s.unwrap_or(link.speed_gt_per_s);
    let lanes = link.width;
    // From the third generation on 128 of 130 bits are data, before that 8 of 10.
    let share = if speed > 5.0 { 128.0 / 130.0 } else { 0.8 };
    (format!("PCIe link of {lanes} lanes at {speed} GT/s"), speed * f64::from(lanes) / 8.0 * share)
}

fn link_of(about: &About, system: &System) -> Option<(String, f64)> {
    let gpu = system.gpus.iter().find(|gpu| gpu.pci_address.as_deref() == Some(&about.pci))?;
    gpu.pcie.as_ref().map(carried)
}

impl Gpu {
    fn new(device: Device, bytes: usize, system: &System) -> Result<Self, Unable> {
        let pinned = Pair { from: device.pinned(bytes)?, to: device.pinned(bytes)? };
        let pageable = Pair { from: device.pageable(bytes)?, to: device.pageable(bytes)? };
        let mut new = Self {
            link: link_of(device.about(), system),
            up: device.memory(bytes)?,
            down: device.memory(bytes)?,
            pinned,
            pageable,
            device,
            bytes,
        };
        for (pair, seed) in [(&mut new.pinned, 6), (&mut new.pageable, 7)] {
            for (place, bytes) in (0..).zip(pair.from.bytes()?.chunks_mut(4)) {
                bytes.copy_from_slice(&noise(seed, place).to_le_bytes()[..bytes.len()]);
            }
        }
        Ok(new)
    }

    fn measure(
        &mut self,
        cx: &Context<'_>,
        time: Duration,
        row: &Row,
    ) -> Result<BenchmarkMetric, Unable> {
        let index = self.device.about().index;
        let memory = if row.pinned { "pinned" } else { "pageable" };
        cx.watch.doing(&format!("{} of GPU {index}, {memory} memory", row.name));
        self.verify(row)?;
        let count = repeats(BLOCK, self.timed(row, 2)? / 2);
        let ways = if row.direction == Direction::Both { 2.0 } else { 1.0 };
        let gigabytes = ways * self.bytes as f64 * count as f64 / 1e9;
        let [samples] =
            collect(cx, time, || Ok([gigabytes / self.timed(row, count)?.as_secs_f64()]))?;
        self.verify(row)?;
        let metric = figure("gpu_pcie", "GB/s", self.device.about())
            .tag("direction", row.name)
            .tag("memory", memory)
            .of(&samples);
        Ok(match &self.link {
            Some((link, carried)) => metric.against(link.clone(), ways * carried),
            None => metric,
        })
    }

    fn timed(&mut self, row: &Row, count: u64) -> Result<Duration, Unable> {
        let Self { device, up, down, pinned, pageable, .. } = self;
        let Pair { from, to } = if row.pinned { pinned } else { pageable };
        device.timed(|| {
            (0..count).try_for_each(|_| {
                if row.direction != Direction::ToHost {
                    device.upload(0, up, from)?;
                }
                if row.direction != Direction::ToDevice {
                    device.download(1, to, down)?;
                }
                Ok(())
            })
        })
    }

    /// Sends the data there and back, and looks whether it is the same.
    fn verify(&mut self, row: &Row) -> Result<(), Unable> {
        let Self { device, up, down, pinned, pageable, .. } = self;
        let Pair { from, to } = if row.pinned { pinned } else { pageable };
        to.bytes()?.fill(0);
        device.upload(0, up, from)?;
        device.copy(down, up)?;
        device.download(0, to, down)?;
        let (from, to) = (from.bytes()?, to.bytes()?);
        let Some(place) = from.iter().zip(to.iter()).position(|(from, to)| from != to) else {
            return Ok(());
        };
        let about = device.about();
        Err(Unable::Wrong(format!(
            "GPU {} ({}): byte {place} was sent as {:#04x} and came back as {:#04x}",
            about.index, about.uuid, from[place], to[place]
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(speed: f64, max: Option<f64>) -> PcieLink {
        PcieLink { speed_gt_per_s: speed, width: 16, max_speed_gt_per_s: max, max_width: Some(16) }
    }

    #[test]
    fn a_link_carries_what_its_generation_codes() {
        let (text, carried_by) = carried(&link(2.5, Some(32.0)));
        assert_eq!(text, "PCIe link of 16 lanes at 32 GT/s");
        assert!((carried_by - 63.015).abs() < 0.001, "{carried_by}");
        assert_eq!(carried(&link(5.0, None)).1, 8.0);
    }

    #[test]
    fn lengths_are_whole_mebibytes() {
        assert_eq!(length(256), Ok(256 << 20));
        for wrong in [0, -1, LARGEST + 1, i64::MIN] {
            assert!(matches!(length(wrong), Err(Unable::Failed(_))), "{wrong}");
        }
    }

    #[test]
    fn small_copies_are_right_or_the_gpu_is_missing() {
        if let Some(found) = crate::gpu::trial::figures(spec(), make(), &[(SIZE, 1)]) {
            assert_eq!(found.len() % ROWS.len(), 0);
        }
    }
}
