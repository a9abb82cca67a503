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
    BenchmarkId, BenchmarkSpec, Component, Headline, Kind, PEER, PERCENTILE, Params, Value,
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
    /// Tags of it whose values are told.
    told: &'static [&'static str],
}

impl Row {
    fn spec(&self) -> BenchmarkSpec {
        let (metric, tags) = self.headline;
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let told = self.told.iter().map(|name| (*name).to_owned()).collect();
        let headline = Headline { metric: metric.to_owned(), tags: tags.collect(), told };
        BenchmarkSpec { headline: Some(headline), ..(self.spec)() }
    }
}

/// Its benchmarks, in the order in which they run.
const ROWS: &[Row] = &[
    Row {
        spec: cpu_flops::spec,
        make: cpu_flops::make,
        headline: ("gflops", &[("precision", "f32")]),
        told: &["cores"],
    },
    Row {
        spec: gemm::spec,
        make: gemm::make,
        headline: ("gflops", &[("precision", "f32")]),
        told: &["cores", "size"],
    },
    Row {
        spec: mem_bandwidth::spec,
        make: mem_bandwidth::make,
        headline: ("bandwidth", &[("kernel", "triad")]),
        told: &["cores", "stores"],
    },
    // The last is that of the largest size: memory itself.
    Row { spec: mem_latency::spec, make: mem_latency::make, headline: ("latency", &[]), told: &[] },
    Row {
        spec: disk_io::spec,
        make: disk_io::make,
        headline: ("iops", &[("operation", "read"), ("depth", "32")]),
        told: &["engine"],
    },
    Row {
        spec: net_bandwidth::spec,
        make: net_bandwidth::make,
        headline: ("bandwidth", &[("direction", "send")]),
        told: &[PEER],
    },
    Row {
        spec: net_latency::spec,
        make: net_latency::make,
        headline: ("latency", &[(PERCENTILE, "p50")]),
        told: &[PEER],
    },
    Row {
        spec: gpu_flops::spec,
        make: gpu_flops::make,
        headline: ("gpu_flops", &[("precision", "bf16")]),
        told: &[],
    },
    Row {
        spec: gpu_mem_bandwidth::spec,
        make: gpu_mem_bandwidth::make,
        headline: ("gpu_mem_bandwidth", &[("operation", "triad")]),
        told: &[],
    },
    Row {
        spec: gpu_pcie::spec,
        make: gpu_pcie::make,
        headline: ("gpu_pcie", &[("direction", "host_to_device"), ("memory", "pinned")]),
        told: &[],
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BenchmarkRunResult;
    use crate::suite::Stop;
    use warpforge_parity::verdict::Verdict;

    /// What stands for a benchmark that was run so.
    fn headline(name: &str, set: &[(&str, &str)]) -> String {
        let spec = Micro.specs().into_iter().find(|spec| spec.id.name == name).unwrap();
        let params = trial::params(&spec, set);
        let benchmark = Micro.benchmark(name).unwrap();
        let metrics = trial::measure(benchmark, &params, &Stop::default(), 20).unwrap();
        let result = BenchmarkRunResult {
            spec,
            metrics,
            success: true,
            error_message: None,
            start_time: String::new(),
            end_time: String::new(),
            system: None,
            verdict: Verdict::Pass,
            reason: None,
            monitor: None,
        };
        result.headline().unwrap().0
    }

    #[test]
    fn every_benchmark_has_a_figure_that_stands_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        for (name, set, expected) in [
            // On no machine in particular there is one core.
            ("cpu_flops", &[("precisions", "f64,f32")][..], "gflops[cores=1,precision=f32]"),
            ("cpu_flops", &[("precisions", "f64")], "gflops[cores=1,isa="),
            ("gemm", &[("sizes", "32,64")], "gflops[cores=1,precision=f32,size=64]"),
            ("mem_bandwidth", &[("kernels", "triad")], "bandwidth[cores=1,kernel=triad,stores="),
            ("mem_latency", &[], "latency"),
            (
                "disk_io",
                &[("folder", folder), ("size_mib", "16"), ("cases", "random-read-32")],
                "iops[depth=32,engine=",
            ),
            ("net_bandwidth", &[], "bandwidth[direction=send,peer=loopback]"),
            ("net_latency", &[], "latency[peer=loopback,percentile=p50]"),
        ] {
            let found = headline(name, set);
            assert!(found.starts_with(expected) && found.len() <= 63, "{name}: {found}");
        }
    }
}
