//! What a suite and a benchmark have to offer, and what a benchmark is given when it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::model::{BenchmarkMetric, BenchmarkSpec, Params, Value};
use crate::system::System;

/// A named collection of benchmarks.
pub trait Suite: Sync {
    fn name(&self) -> &'static str;

    /// One sentence for people.
    fn about(&self) -> &'static str;

    /// All its benchmarks, in the order in which they run.
    fn specs(&self) -> Vec<BenchmarkSpec>;

    /// The names of those that run when the suite alone is asked for.
    fn defaults(&self) -> Vec<String> {
        self.specs().into_iter().map(|spec| spec.id.name).collect()
    }

    /// A benchmark by its name; `None` for a name that [`specs`](Self::specs) does not have.
    fn benchmark(&self, name: &str) -> Option<Box<dyn Benchmark>>;
}

/// One that can be run, once.
pub trait Benchmark: Send {
    /// Finds what is needed, and makes buffers and files: whatever does not belong to the measuring.
    fn prepare(&mut self, cx: &Context<'_>) -> Result<(), Unable>;

    /// Measures. Each figure is put to those found as soon as it is known, so that what was
    /// measured before an interruption is kept.
    fn run(&mut self, cx: &Context<'_>, found: &mut Vec<BenchmarkMetric>) -> Result<(), Unable>;
}

/// Why there is no figure.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unable {
    /// Something needed is not there; the text names it, such as
    /// `no NVIDIA driver (libcuda.so.1 not found)`.
    #[error("{0}")]
    Missing(String),
    /// It cannot be run as it was asked for, such as with a folder that cannot be written.
    #[error("{0}")]
    Failed(String),
    /// It ran, and its results are wrong.
    #[error("{0}")]
    Wrong(String),
    #[error("interrupted")]
    Interrupted,
}

/// Something to ask now and then whether to go on.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// What a signal's handler may set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whoever looks on while a benchmark runs.
pub trait Watch: Sync {
    /// What is being done now, in a few words.
    fn doing(&self, what: &str);

    /// Whether the hardware was throttled at some time between the two, as far as is known.
    fn throttled(&self, from: Instant, to: Instant) -> bool;
}

/// Looks at nothing.
pub struct Unwatched;

impl Watch for Unwatched {
    fn doing(&self, _: &str) {}

    fn throttled(&self, _: Instant, _: Instant) -> bool {
        false
    }
}

/// What a benchmark is given.
pub struct Context<'a> {
    /// How long to measure, for all its figures together.
    pub duration: Duration,
    /// How long to run before samples count, for each figure.
    pub burn_in: Duration,
    /// All parameters of its spec, with the caller's values in place of the spec's.
    pub params: &'a Params,
    pub system: &'a System,
    pub stop: &'a Stop,
    pub watch: &'a dyn Watch,
}

impl Context<'_> {
    /// An error once it is to end.
    pub fn check(&self) -> Result<(), Unable> {
        if self.stop.is_set() { Err(Unable::Interrupted) } else { Ok(()) }
    }

    /// The time for one of so many figures.
    pub fn share(&self, figures: usize) -> Duration {
        self.duration / figures.max(1) as u32
    }

    pub fn text(&self, name: &str) -> &str {
        match self.param(name) {
            Value::Text(text) => text,
            other => unreachable!("the parameter {name} is {}, not text", other.type_name()),
        }
    }

    pub fn integer(&self, name: &str) -> i64 {
        match self.param(name) {
            Value::Integer(value) => *value,
            other => unreachable!("the parameter {name} is {}, not whole", other.type_name()),
        }
    }

    fn param(&self, name: &str) -> &Value {
        self.params.get(name).unwrap_or_else(|| unreachable!("no parameter {name} in the spec"))
    }
}
