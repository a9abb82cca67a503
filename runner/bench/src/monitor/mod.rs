//! What the machine does while something runs on it: a thread that looks every now and then, and
//! keeps what it saw. [`Monitor`] is started and stopped; a [`Handle`] of it answers, while it
//! goes on, what was seen beside a sample or a benchmark. Whatever cannot be read is left out and
//! named once; nothing that is missing stops it.

mod amd;
mod cpu;
mod gpu;
mod kept;
mod memory;
mod nvidia;
mod record;
mod sensors;
mod summary;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use warpforge_parity::bundle::write_beside;

pub use record::{GpuUsage, MemoryOf, Record};
pub use summary::{GpuSummary, Summary, Taken};

use crate::Sysroot;
use crate::limit::{self, Pending};
use crate::suite::Watch;
use sensors::Sensors;
use summary::{Itself, summarise};

/// The time between two looks, unless told otherwise.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Looks that follow each other faster than the kernel's ticks say nothing.
const SHORTEST: Duration = Duration::from_millis(10);
/// How long the last look may take: a driver that hangs must not hold up what was watched.
const PATIENCE: Duration = Duration::from_secs(2);

/// What to look at, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    pub interval: Duration,
    pub sysroot: Sysroot,
    nvml: &'static str,
}

impl Options {
    /// This machine.
    pub fn every(interval: Duration) -> Self {
        Self { interval, sysroot: Sysroot::host(), nvml: nvidia::LIBRARY }
    }
}

/// A thread that looks at the machine until it is stopped.
pub struct Monitor {
    handle: Handle,
    thread: Option<Pending<()>>,
}

/// Asks a monitor while it goes on.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

/// All that was seen, in the order of time.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub taken: Vec<Taken>,
    pub summary: Summary,
}

struct Shared {
    options: Options,
    started: Instant,
    stopping: Mutex<bool>,
    wake: Condvar,
    sensors: Mutex<Sensors>,
    taken: Mutex<Vec<Taken>>,
    missing: Mutex<Vec<String>>,
    /// CPU time in nanoseconds: of the thread, of answers in their callers' threads, and of
    /// opening NVML.
    watching: AtomicU64,
    answering: AtomicU64,
    opening: AtomicU64,
}

impl Monitor {
    pub fn start(options: Options) -> Self {
        let interval = options.interval.max(SHORTEST);
        let mut missing = Vec::new();
        let sensors = Sensors::open(&options.sysroot, &mut missing);
        // Until it answers; it may take seconds, and may never do.
        missing.insert(0, PENDING.to_owned());
        let shared = Arc::new(Shared {
            options: Options { interval, ..options },
            started: Instant::now(),
            stopping: Mutex::new(false),
            wake: Condvar::new(),
            sensors: Mutex::new(sensors),
            taken: Mutex::default(),
            missing: Mutex::new(missing),
            watching: AtomicU64::new(0),
            answering: AtomicU64::new(0),
            opening: AtomicU64::new(0),
        });
        let handle = Handle(Arc::clone(&shared));
        Self { handle, thread: Some(limit::start(move || shared.watch())) }
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Looks a last time, and hands over all that was seen.
    pub fn stop(mut self) -> Timeline {
        self.handle.0.end();
        if let Some(thread) = self.thread.take() {
            // One that hangs in a driver is left behind; what it has seen is there.
            let _ = thread.within(PATIENCE);
        }
        let shared = &self.handle.0;
        let taken = lock(&shared.taken).clone();
        let now = Instant::now();
        let summary = summarise(&taken, shared.started, now, shared.itself(now));
        Timeline { taken, summary }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.handle.0.end();
    }
}

const PENDING: &str = "NVIDIA: NVML has not answered yet";

impl Shared {
    /// What the thread does.
    fn watch(&self) {
        let name = self.options.nvml;
        let mut opening = Some(limit::start(move || (nvidia::open(name), thread_time())));
        let mut due = self.started;
        loop {
            let now = Instant::now();
            // After a machine's sleep, or with a driver that is slow, looks are not made up for.
            due = (due + self.options.interval).max(now);
            let stopping = self.sleep_until(due);
            if let Some((found, took)) = opening.as_ref().and_then(Pending::ready) {
                self.add_nvidia(found);
                self.opening.store(nanoseconds(took), Ordering::Relaxed);
                opening = None;
            }
            if !stopping || self.is_stale(Instant::now()) {
                self.take(&mut lock(&self.sensors));
            }
            self.watching.store(nanoseconds(thread_time()), Ordering::Relaxed);
            if stopping {
                return;
            }
        }
    }

    /// Whether the newest record, if there is any, tells nothing of the moment.
    fn is_stale(&self, moment: Instant) -> bool {
        let taken = lock(&self.taken);
        taken.last().is_none_or(|last| moment.saturating_duration_since(last.at) >= SHORTEST)
    }

    /// Adds a record. The sensors are held from reading to adding, so that records are in order.
    fn take(&self, sensors: &mut Sensors) {
        let taken = sensors.record();
        lock(&self.taken).push(taken);
    }

    fn add_nvidia(&self, found: Result<Vec<nvidia::Gpu>, String>) {
        let mut missing = lock(&self.missing);
        missing.retain(|missing| missing != PENDING);
        match found {
            Ok(gpus) => lock(&self.sensors).add_nvidia(gpus),
            Err(reason) => missing.insert(0, format!("NVIDIA: {reason}")),
        }
    }

    /// Whether it is to end.
    fn sleep_until(&self, due: Instant) -> bool {
        let left = due.saturating_duration_since(Instant::now());
        let stopping = lock(&self.stopping);
        let waited = self.wake.wait_timeout_while(stopping, left, |stopping| !*stopping);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn end(&self) {
        *lock(&self.stopping) = true;
        self.wake.notify_all();
    }

    fn itself(&self, now: Instant) -> Itself {
        let of = |time: &AtomicU64| Duration::from_nanos(time.load(Ordering::Relaxed));
        let spent = of(&self.watching) + of(&self.answering);
        let seconds = now.saturating_duration_since(self.started).as_secs_f64().max(1e-9);
        Itself {
            interval: self.options.interval,
            overhead_percent: 100.0 * spent.as_secs_f64() / seconds,
            opening: of(&self.opening),
            missing: lock(&self.missing).clone(),
        }
    }

    /// Has an answer made in the caller's thread, and counts what it takes. Where a driver keeps
    /// the sensors busy there is none, rather than a benchmark that hangs with it.
    fn answer<T>(&self, make: impl FnOnce(&mut Sensors) -> T) -> Option<T> {
        let mut sensors = self.sensors.try_lock().ok()?;
        let begun = thread_time();
        let made = make(&mut sensors);
        let took = thread_time().saturating_sub(begun);
        self.answering.fetch_add(nanoseconds(took), Ordering::Relaxed);
        Some(made)
    }
}

impl Handle {
    /// What was seen between two moments. A last look is taken at the second where it is now, so
    /// that also what is shorter than the interval was looked at.
    pub fn summary(&self, from: Instant, to: Instant) -> Summary {
        let shared = &self.0;
        let recent = shared.options.interval.min(Duration::from_millis(100));
        if shared.is_stale(to) && to.elapsed() < recent {
            shared.answer(|sensors| shared.take(sensors));
        }
        let now = Instant::now();
        // The look that was just taken tells of the time up to `to`.
        let to_look = if to.elapsed() < recent { now } else { to };
        let mut summary = summarise(&lock(&shared.taken), from, to_look, shared.itself(now));
        summary.seconds = to.saturating_duration_since(from).as_secs_f64();
        summary
    }
}

impl Watch for Handle {
    fn doing(&self, _: &str) {}

    fn throttled(&self, from: Instant, to: Instant) -> bool {
        self.0.answer(|sensors| sensors.throttled(from, to)).unwrap_or(false)
    }
}

impl Timeline {
    /// The records, in the documented form.
    pub fn json(&self) -> String {
        let records: Vec<&Record> = self.taken.iter().map(|taken| &taken.record).collect();
        // Only maps with keys that are no text, and types that refuse, can fail; there are none.
        serde_json::to_string_pretty(&records).unwrap_or_default() + "\n"
    }

    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_beside(path, self.json().as_bytes())
    }
}

/// A thread that panicked has left what it saw in order: records are pushed whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The CPU time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
