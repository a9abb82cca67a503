//! One resource at a time, driven to its limit by code of our own.

mod buffer;
pub(crate) mod cpu_flops;
pub(crate) mod disk_io;
mod frequency;
mod gemm;
mod gpu_flops;
mod gpu_mem_bandwidth;
mod gpu_pcie;
mod latency;
mod listed;
pub(crate) mod mem_bandwidth;
mod mem_latency;
mod net_bandwidth;
mod net_latency;
mod threads;
#[cfg(test)]
mod trial;

use crate::model::{
    BenchmarkId, BenchmarkSpec, Component, Headline, Kind, PERCENTILE, Params, Value,
};
use crate::suite::{Benchmark, Suite};

pub const NAME: &str = "micro";

/// The suite.
pub struct Micro;

struct Row {
    spec: fn() -> BenchmarkSpec,
    make: fn() -> Box<dyn Benchmark>,
    /// The figure that stands for it: its name, and tags.
    headline: (&'static str, &'static [(&'static str, &'static str)]),
}

impl Row {
    fn spec(&self) -> BenchmarkSpec {
        let (metric, tags) = self.headline;
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let headline = Headline { metric: metric.to_owned(), tags: tags.collect() };
        BenchmarkSpec { headline: Some(headline), ..(self.spec)() }
    }
}

/// Its benchmarks, in the order in which they run.
const ROWS: &[Row] = &[
    Row {
        spec: cpu_flops::spec,
        make: cpu_flops::make,
        headline: ("gflops", &[("precision", "f32"), ("cores", "all")]),
    },
    Row {
        spec: gemm::spec,
        make: gemm::make,
        headline: ("gflops", &[("precision", "f32"), ("cores", "all")]),
    },
    Row {
        spec: mem_bandwidth::spec,
        make: mem_bandwidth::make,
        headline: ("bandwidth", &[("kernel", "triad"), ("cores", "all")]),
    },
    // The last is that of the largest size: memory itself.
    Row { spec: mem_latency::spec, make: mem_latency::make, headline: ("latency", &[]) },
    Row {
        spec: disk_io::spec,
        make: disk_io::make,
        headline: ("iops", &[("operation", "read"), ("depth", "32")]),
    },
    Row {
        spec: net_bandwidth::spec,
        make: net_bandwidth::make,
        headline: ("bandwidth", &[("direction", "send")]),
    },
    Row {
        spec: net_latency::spec,
        make: net_latency::make,
        headline: ("latency", &[(PERCENTILE, "p50")]),
    },
    Row {
        spec: gpu_flops::spec,
        make: gpu_flops::make,
        headline: ("gpu_flops", &[("precision", "bf16")]),
    },
    Row {
        spec: gpu_mem_bandwidth::spec,
        make: gpu_mem_bandwidth::make,
        headline: ("gpu_mem_bandwidth", &[("operation", "triad")]),
    },
    Row {
        spec: gpu_pcie::spec,
        make: gpu_pcie::make,
        headline: ("gpu_pcie", &[("direction", "host_to_device"), ("memory", "pinned")]),
    },
];

impl Suite for Micro {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "One resource at a time, driven to its limit"
    }

    fn specs(&self) -> Vec<BenchmarkSpec> {
        ROWS.iter().map(Row::spec).collect()
    }

    fn benchmark(&self, name: &str) -> Option<Box<dyn Benchmark>> {
        ROWS.iter().find(|row| (row.spec)().id.name == name).map(|row| (row.make)())
    }
}

/// What the specs of this suite have in common.
fn spec(
    name: &str,
    component: Component,
    description: &str,
    seconds: u32,
    params: &[(&str, Value)],
) -> BenchmarkSpec {
    BenchmarkSpec {
        id: BenchmarkId::new(NAME, name),
        components: vec![component],
        kind: Kind::Synthetic,
        description: Some(description.to_owned()),
        default_duration_seconds: Some(seconds),
        external_tool: None,
        params: params
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect::<Params>(),
        headline: None,
    }
}
