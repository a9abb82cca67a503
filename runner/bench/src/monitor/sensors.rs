//! Everything that is looked at, and what was seen of throttling.

use std::collections::BTreeSet;
use std::time::Instant;

use jiff::{Timestamp, Unit};

use super::cpu::Cpu;
use super::gpu::{self, Sensor};
use super::kept::Buffer;
use super::memory::Memory;
use super::record::Record;
use super::summary::Taken;
use super::{amd, nvidia};
use crate::Sysroot;

struct Gpu {
    sensor: Box<dyn Sensor>,
    /// Reasons that were seen since the last record; `None` while none could be told.
    reasons: Option<BTreeSet<&'static str>>,
}

impl Gpu {
    fn new(sensor: impl Sensor + 'static) -> Self {
        Self { sensor: Box::new(sensor), reasons: None }
    }
}

/// The sensors of a machine.
pub(super) struct Sensors {
    cpu: Cpu,
    memory: Memory,
    gpus: Vec<Gpu>,
    buffer: Buffer,
    looked: Instant,
    throttle_count: Option<u64>,
    /// From which look to which the hardware was slower than it is meant to be.
    throttled: Vec<(Instant, Instant)>,
}

impl Sensors {
    /// Opens what lies in files, and takes the counts that the first record is the difference to.
    pub fn open(root: &Sysroot, missing: &mut Vec<String>) -> Self {
        let cpu = Cpu::open(root, missing);
        let memory = Memory::open(root, missing);
        let gpus = amd::open(root).unwrap_or_else(|reason| {
            missing.push(format!("AMD: {reason}"));
            Vec::new()
        });
        let mut sensors = Self {
            cpu,
            memory,
            gpus: gpus.into_iter().map(Gpu::new).collect(),
            buffer: Buffer::new(),
            looked: Instant::now(),
            throttle_count: None,
            throttled: Vec::new(),
        };
        sensors.cpu.utilisation(&mut sensors.buffer);
        sensors.look();
        sensors
    }

    /// Adds NVIDIA's GPUs, whose library may take seconds to open.
    pub fn add_nvidia(&mut self, gpus: Vec<nvidia::Gpu>) {
        self.gpus.splice(0..0, gpus.into_iter().map(Gpu::new));
    }

    /// Looks whether something throttles. A count that rose did so since the last look, and a GPU
    /// that is slow now is held to have been so since then.
    fn look(&mut self) {
        let now = Instant::now();
        let count = self.cpu.throttle_count(&mut self.buffer);
        let mut slow = self.throttle_count.zip(count).is_some_and(|(before, now)| now > before);
        self.throttle_count = count.or(self.throttle_count);
        for gpu in &mut self.gpus {
            let Some(reasons) = gpu.sensor.reasons(&mut self.buffer) else { continue };
            slow |= gpu::slowed(&reasons);
            gpu.reasons.get_or_insert_default().extend(reasons);
        }
        if slow {
            match self.throttled.last_mut() {
                Some((_, until)) if *until == self.looked => *until = now,
                _ => self.throttled.push((self.looked, now)),
            }
        }
        self.looked = now;
    }

    /// Whether something throttled between the two moments, the second of which is hardly past.
    pub fn throttled(&mut self, from: Instant, to: Instant) -> bool {
        if self.looked < to {
            self.look();
        }
        self.throttled.iter().rev().any(|(begun, until)| *begun < to && *until > from)
    }

    pub fn record(&mut self) -> Taken {
        self.look();
        let (buffer, at) = (&mut self.buffer, self.looked);
        let memory = self.memory.usage(buffer);
        let gpu_usage = self.gpus.iter_mut().map(|gpu| {
            let mut usage = gpu.sensor.usage(buffer);
            let reasons = gpu.reasons.take();
            usage.throttle_reasons =
                reasons.map(|names| names.into_iter().map(str::to_owned).collect());
            usage
        });
        let record = Record {
            timestamp: now(),
            gpu_usage: gpu_usage.collect(),
            cpu_utilization_percent: self.cpu.utilisation(buffer),
            total_memory_bytes: memory.total,
            memory_utilization_percent: memory.percent,
            memory_of: memory.of,
            cpu_temperature_celsius: self.cpu.temperature(buffer),
            cpu_clock_mhz: self.cpu.clock_mhz(buffer),
            cpu_throttle_count: self.throttle_count,
        };
        Taken { at, record }
    }
}

fn now() -> String {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fixture::Tree;

    const COUNT: &str = "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count";

    #[test]
    fn a_count_that_rises_throttles_what_ran_beside_it() {
        let tree = Tree::new(&[(COUNT, "7\n")]);
        let mut sensors = Sensors::open(&tree.root(), &mut Vec::new());
        let moment = || {
            std::thread::sleep(Duration::from_millis(2));
            Instant::now()
        };
        let first = (moment(), moment());
        assert!(!sensors.throttled(first.0, first.1), "what was counted before does not count");
        tree.put(COUNT, "8\n");
        let second = (moment(), moment());
        assert!(sensors.throttled(second.0, second.1));
        let third = (moment(), moment());
        assert!(!sensors.throttled(third.0, third.1));
        assert!(sensors.throttled(second.0, second.1), "it stays known");
        assert!(!sensors.throttled(first.0, first.1));
        assert!(sensors.throttled(first.0, third.1));
        assert_eq!(sensors.record().record.cpu_throttle_count, Some(8));
    }

    #[test]
    fn looks_in_between_do_not_hide_a_reason_from_the_record() {
        struct Hot(u32);
        impl Sensor for Hot {
            fn usage(&mut self, _: &mut Buffer) -> super::super::record::GpuUsage {
                super::super::record::GpuUsage::default()
            }
            fn reasons(&mut self, _: &mut Buffer) -> Option<gpu::Reasons> {
                self.0 += 1;
                Some(if self.0 == 1 { vec!["hw_thermal_slowdown"] } else { vec![] })
            }
        }
        let mut sensors = Sensors::open(&Tree::new(&[]).root(), &mut Vec::new());
        sensors.gpus.push(Gpu::new(Hot(0)));
        let from = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(sensors.throttled(from, Instant::now()));
        let mut reasons = || sensors.record().record.gpu_usage[0].throttle_reasons.clone();
        assert_eq!(reasons(), Some(vec!["hw_thermal_slowdown".to_owned()]));
        assert_eq!(reasons(), Some(vec![]));
    }
}
