//! The suites there are, and which benchmarks stand for a component. A new suite is a line in
//! [`SUITES`] and a folder of its own.

use std::fmt;

use thiserror::Error;

use crate::model::{BenchmarkId, BenchmarkSpec, Component};
use crate::suite::{Benchmark, Suite};
use crate::suites::micro::Micro;

/// Every suite.
pub const SUITES: &[&dyn Suite] = &[&Micro];

/// Suites that are planned: they have a name that is no typing error, and nothing to run.
pub const PLANNED: &[&str] = &["linpack", "pepbench", "biobench", "mlperf"];

/// What runs for a component when no suite is named.
pub const COMPONENT_DEFAULTS: &[(Component, &str, &str)] = &[
    (Component::Cpu, "micro", "cpu_flops"),
    (Component::Gpu, "micro", "gpu_flops"),
    (Component::Ram, "micro", "mem_bandwidth"),
    (Component::Storage, "micro", "disk_io"),
    (Component::Network, "micro", "net_bandwidth"),
    (Component::System, "pepbench", "end_to_end_infer"),
];

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub suite: Option<String>,
    pub benchmarks: Vec<String>,
    pub components: Vec<Component>,
}

/// A benchmark that was chosen. One of a suite that does not exist yet has no spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    pub id: BenchmarkId,
    pub spec: Option<BenchmarkSpec>,
}

/// Why nothing can be chosen. The names that exist go along, for whoever knows which is nearest.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unknown {
    #[error("there is no suite {name}")]
    Suite { name: String, exist: Vec<String> },
    #[error("the suite {name} is not available yet")]
    Planned { name: String },
    #[error("the suite {suite} has no benchmark {name}")]
    Benchmark { suite: String, name: String, exist: Vec<String> },
    #[error("--benchmark needs the suite it belongs to: --suite NAME")]
    NoSuite,
    #[error("the suite {suite} has nothing for {}", List(components))]
    Nothing { suite: String, components: Vec<Component> },
}

struct List<'a>(&'a [Component]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|component| component.name()).collect();
        f.write_str(&names.join(", "))
    }
}

/// A suite by its name.
pub fn suite(name: &str) -> Result<&'static dyn Suite, Unknown> {
    if let Some(suite) = SUITES.iter().find(|suite| suite.name() == name) {
        return Ok(*suite);
    }
    if PLANNED.contains(&name) {
        return Err(Unknown::Planned { name: name.to_owned() });
    }
    let exist = SUITES.iter().map(|suite| suite.name()).chain(PLANNED.iter().copied());
    Err(Unknown::Suite { name: name.to_owned(), exist: exist.map(str::to_owned).collect() })
}

/// The spec of one benchmark.
pub fn spec(suite: &dyn Suite, name: &str) -> Result<BenchmarkSpec, Unknown> {
    let specs = suite.specs();
    let exist = || specs.iter().map(|spec| spec.id.name.clone()).collect();
    specs.iter().find(|spec| spec.id.name == name).cloned().ok_or_else(|| Unknown::Benchmark {
        suite: suite.name().to_owned(),
        name: name.to_owned(),
        exist: exist(),
    })
}

/// Something to run for what was chosen.
pub fn benchmark(id: &BenchmarkId) -> Option<Box<dyn Benchmark>> {
    suite(&id.suite).ok()?.benchmark(&id.name)
}

/// The benchmarks that a selection means, in the order in which they run: a suite's defaults or
/// those named, of them what is for the components; without a suite, the components' defaults, and
/// without components those of all.
pub fn choose(selection: &Selection) -> Result<Vec<Chosen>, Unknown> {
    let Some(name) = &selection.suite else {
        if !selection.benchmarks.is_empty() {
            return Err(Unknown::NoSuite);
        }
        return Ok(of_components(&selection.components));
    };
    let suite = suite(name)?;
    let names = if selection.benchmarks.is_empty() {
        suite.defaults()
    } else {
        selection.benchmarks.clone()
    };
    let specs = names.iter().map(|name| spec(suite, name)).collect::<Result<Vec<_>, _>>()?;
    let wanted = |spec: &BenchmarkSpec| {
        let of = &selection.components;
        of.is_empty() || spec.components.iter().any(|component| of.contains(component))
    };
    let chosen: Vec<_> = specs
        .into_iter()
        .filter(wanted)
        .map(|spec| Chosen { id: spec.id.clone(), spec: Some(spec) })
        .collect();
    if chosen.is_empty() {
        let components = selection.components.clone();
        return Err(Unknown::Nothing { suite: name.clone(), components });
    }
    Ok(chosen)
}

fn of_components(components: &[Component]) -> Vec<Chosen> {
    let wanted =
        |row: &&(Component, &str, &str)| components.is_empty() || components.contains(&row.0);
    let chosen = COMPONENT_DEFAULTS.iter().filter(wanted).map(|(_, suite_name, name)| Chosen {
        id: BenchmarkId::new(suite_name, name),
        spec: suite(suite_name).ok().and_then(|suite| spec(suite, name).ok()),
    });
    chosen.collect()
}
