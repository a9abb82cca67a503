//! Benchmarks as unit tests run them: shortly, and on no machine in particular.

use std::time::Duration;

use crate::Sysroot;
use crate::load::{Load, Round};
use crate::model::{BenchmarkMetric, BenchmarkSpec, Params};
use crate::suite::{Benchmark, Context, Stop, Unable, Unwatched};
use crate::system::{Surroundings, System};

/// The spec's parameters with some others in their place.
pub(super) fn params(spec: &BenchmarkSpec, others: &[(&str, &str)]) -> Params {
    let mut params = spec.params.clone();
    for (name, text) in others {
        let value = params.get_mut(*name).expect("the spec has it");
        *value = value.parse_like(text).expect("it is of the parameter's type");
    }
    params
}

fn within<T>(
    params: &Params,
    stop: &Stop,
    milliseconds: u64,
    work: impl FnOnce(&Context<'_>) -> T,
) -> T {
    let system = System::read(&Sysroot::at("/nowhere"), &Surroundings::default());
    work(&Context {
        duration: Duration::from_millis(milliseconds),
        burn_in: Duration::ZERO,
        params,
        system: &system,
        stop,
        watch: &Unwatched,
    })
}

/// What a benchmark finds in so many milliseconds.
pub(super) fn measure(
    mut benchmark: Box<dyn Benchmark>,
    params: &Params,
    stop: &Stop,
    milliseconds: u64,
) -> Result<Vec<BenchmarkMetric>, Unable> {
    within(params, stop, milliseconds, |cx| {
        benchmark.prepare(cx)?;
        let mut found = Vec::new();
        benchmark.run(cx, &mut found).map(|()| found)
    })
}

/// Some rounds of a load.
pub(super) fn rounds(
    load: &mut dyn Load,
    params: &Params,
    count: usize,
) -> Result<Vec<Round>, Unable> {
    within(params, &Stop::default(), 0, |cx| {
        load.prepare(cx)?;
        (0..count).map(|_| load.round(cx)).collect()
    })
}
