//! A GPU's memory: the driver's copy, and kernels of our own that copy, add and read.

use std::time::Duration;

use crate::gpu::format::{F32, noise_bits};
use crate::gpu::product::repeats;
use crate::gpu::{ALL, DEVICES, Device, GRAIN, Kernels, Memory, figure, find, peaks};
use crate::measure::collect;
use crate::model::{BenchmarkMetric, BenchmarkSpec, Component, Value};
use crate::suite::{Benchmark, Context, Unable};

const SIZE: &str = "size_mib";
/// A sample's length.
const BLOCK: Duration = Duration::from_millis(50);
/// Buffers larger than this cannot be counted by the kernels' blocks.
const LARGEST: i64 = 1 << 16;

pub fn spec() -> BenchmarkSpec {
    super::spec(
        "gpu_mem_bandwidth",
        Component::Gpu,
        "Bytes read and written in the memory of every GPU: the driver's copy (memcpy) and kernels \
         that copy, add (triad) and read; AMD through HIP (compiled, not yet run on such \
         hardware); percent of the data sheet's bandwidth",
        10,
        &[(DEVICES, Value::Text(ALL.into())), (SIZE, Value::Integer(1024))],
    )
}

pub fn make() -> Box<dyn Benchmark> {
    Box::<GpuMemory>::default()
}

#[derive(Default)]
struct GpuMemory {
    gpus: Vec<Gpu>,
}

struct Gpu {
    device: Device,
    a: Memory,
    b: Memory,
    c: Memory,
    word: Memory,
    bytes: usize,
}

/// One thing to do with the buffers.
struct Row {
    name: &'static str,
    /// How many times a buffer's length is read and written.
    passes: f64,
    work: fn(&Gpu) -> Result<(), Unable>,
    check: fn(&Gpu) -> Result<(), Unable>,
}

const ROWS: &[Row] = &[
    Row {
        name: "memcpy",
        passes: 2.0,
        work: |gpu| gpu.device.copy(&gpu.a, &gpu.b),
        check: |gpu| gpu.is_copied("memcpy"),
    },
    Row {
        name: "copy",
        passes: 2.0,
        work: |gpu| gpu.device.copy_by_kernel(&gpu.a, &gpu.b),
        check: |gpu| gpu.is_copied("copy"),
    },
    Row {
        name: "triad",
        passes: 3.0,
        work: |gpu| gpu.device.triad(&gpu.a, &gpu.b, &gpu.c),
        check: Gpu::is_added,
    },
    Row {
        name: "read",
        passes: 1.0,
        work: |gpu| gpu.device.gather(&gpu.word, &gpu.b),
        check: Gpu::is_read,
    },
];

const SEEDS: [u64; 3] = [3, 4, 5];

impl Benchmark for GpuMemory {
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable> {
        let bytes = length(cx.integer(SIZE))?;
        let devices = find(cx.text(DEVICES), cx.system, Kernels::Compiled)?;
        self.gpus =
            devices.iter().map(|device| Gpu::new(device, bytes)).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable> {
        let time = cx.share(self.gpus.len() * ROWS.len());
        for gpu in &self.gpus {
            for row in ROWS {
                found.push(gpu.measure(cx, time, row)?);
            }
        }
        Ok(())
    }
}

/// Kernels take whole blocks, and a mebibyte is many of them.
fn length(mebibytes: i64) -> Result<usize, Unable> {
    if !(1..=LARGEST).contains(&mebibytes) {
        let message = format!("{SIZE}: {mebibytes} is not between 1 and {LARGEST}");
        return Err(Unable::Failed(message));
    }
    let bytes = (mebibytes as usize) << 20;
    debug_assert_eq!(bytes % GRAIN, 0);
    Ok(bytes)
}

impl Gpu {
    fn new(device: &Device, bytes: usize) -> Result<Self, Unable> {
        let memory = || device.memory(bytes);
        let new = Self {
            b: memory()?,
            a: memory()?,
            c: memory()?,
            word: device.memory(4)?,
            device: device.clone(),
            bytes,
        };
        for (memory, seed) in [&new.a, &new.b, &new.c].into_iter().zip(SEEDS) {
            device.fill(memory, F32, seed)?;
        }
        device.wait().map(|()| new)
    }

    fn measure(
        &self,
        cx: &Context<'_>,
        time: Duration,
        row: &Row,
    ) -> Result<BenchmarkMetric, Unable> {
        let about = self.device.about();
        cx.watch.doing(&format!("{} in the memory of GPU {}", row.name, about.index));
        self.verify(row)?;
        let timed = |count| self.device.timed(|| (0..count).try_for_each(|_| (row.work)(self)));
        let count = repeats(BLOCK, timed(4)? / 4);
        let gigabytes = row.passes * self.bytes as f64 * count as f64 / 1e9;
        let [samples] = collect(cx, time, || Ok([gigabytes / timed(count)?.as_secs_f64()]))?;
        self.verify(row)?;
        let metric =
            figure("gpu_mem_bandwidth", "GB/s", about).tag("operation", row.name).of(&samples);
        Ok(match peaks::bandwidth(&about.name) {
            Some(peak) => metric.against("data sheet", peak),
            None => metric,
        })
    }

    /// Does it once, over something else, and looks at what came of it.
    fn verify(&self, row: &Row) -> Result<(), Unable> {
        self.device.fill(&self.a, F32, SEEDS[0])?;
        self.word.write(&[0; 4])?;
        (row.work)(self)?;
        (row.check)(self)
    }

    fn is_copied(&self, name: &str) -> Result<(), Unable> {
        let found = self.device.nothing_found()?;
        self.device.differ(&found, &self.a, &self.b)?;
        match Device::found(&found)? {
            None => Ok(()),
            Some(difference) => Err(self.wrong(name, difference.first)),
        }
    }

    /// At the beginning, in the middle and at the end, since all of it would take the host long.
    fn is_added(&self) -> Result<(), Unable> {
        let words = self.bytes as u64 / 4;
        for first in [0, words / 2, words - WINDOW] {
            let read = self.a.read(first as usize * 4, WINDOW as usize * 4)?;
            let found = read.chunks_exact(4).map(word);
            let wrong = found.zip(first..).find(|(bits, index)| *bits != sum(*index));
            if let Some((_, index)) = wrong {
                return Err(self.wrong("triad", index));
            }
        }
        Ok(())
    }

    fn is_read(&self) -> Result<(), Unable> {
        let all = (0..self.bytes as u64 / 4).fold(0, |all, index| all ^ bits(SEEDS[1], index));
        if word(&self.word.read(0, 4)?) == all { Ok(()) } else { Err(self.wrong("read", 0)) }
    }

    fn wrong(&self, name: &str, index: u64) -> Unable {
        let about = self.device.about();
        Unable::Wrong(format!(
            "GPU {} ({}): {name} gives another result than on the CPU, at word {index}",
            about.index, about.uuid
        ))
    }
}

const WINDOW: u64 = 1 << 14;

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte))
}

fn bits(seed: u64, index: u64) -> u32 {
    noise_bits(F32, seed, index)
}

/// What the kernel `triad` leaves at a place.
fn sum(index: u64) -> u32 {
    let [b, c] = [SEEDS[1], SEEDS[2]].map(|seed| f32::from_bits(bits(seed, index)));
    0.75_f32.mul_add(c, b).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_whole_mebibytes() {
        assert_eq!(length(1), Ok(1 << 20));
        for wrong in [0, -1, LARGEST + 1, i64::MIN] {
            assert!(matches!(length(wrong), Err(Unable::Failed(_))), "{wrong}");
        }
    }

    #[test]
    fn words_are_little_endian() {
        assert_eq!(word(&[1, 2, 0, 0x80]), 0x8000_0201);
    }

    #[test]
    fn small_buffers_are_right_or_the_gpu_is_missing() {
        if let Some(found) = crate::gpu::trial::figures(spec(), make(), &[(SIZE, 1)]) {
            assert_eq!(found.len() % ROWS.len(), 0);
        }
    }
}
