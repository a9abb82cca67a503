//! A suite of benchmarks, as arguments of `warpforge benchmark run`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;

use warpforge_bench::model::{BenchmarkSpec, PEER};
use warpforge_bench::registry::{Selection, choose};
use warpforge_operator_api::Resolved;
use warpforge_operator_api::contract::{Rank, RankMap};
use warpforge_operator_api::data::{self, Component};
use warpforge_operator_api::policy::{GoldenPolicy, Thresholds, Tolerances};
use warpforge_operator_api::workers::Vendor;

use super::{Refusal, refuse};

/// Benchmarks that the first worker runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    pub name: String,
    options: Vec<String>,
    /// Whether it says itself which benchmarks it means.
    chosen: bool,
}

pub(super) fn of(suite: &data::Suite, run: &Resolved, ranks: &RankMap) -> Result<Suite, Refusal> {
    let compares = [
        ("passes", !run.passes.is_empty()),
        ("goldenPolicy", run.golden_policy != GoldenPolicy::default()),
        ("tolerances", run.tolerances != Tolerances::default()),
        ("thresholds", run.thresholds != Thresholds::default()),
        ("programUri", run.program_uri.is_some()),
    ];
    if let Some((at, _)) = compares.into_iter().find(|(_, asked)| *asked) {
        return refuse(at, "a suite compares nothing");
    }
    if ranks.ranks.len() > 2 {
        let why = format!(
            "{} workers: the first runs the suite, a second is the other end of its network, and \
             there is nothing for more",
            ranks.ranks.len()
        );
        return refuse("workers", why);
    }
    let mut options = Vec::new();
    for benchmark in &suite.benchmarks {
        options.push(format!("--benchmark={benchmark}"));
    }
    for component in &suite.components {
        options.push(format!("--component={}", component.argument()));
    }
    if let Some(seconds) = suite.duration_seconds {
        options.push(format!("--duration={seconds}"));
    }
    for (name, value) in &suite.parameters {
        let at = format!("suite.parameters.{name}");
        match name.as_str() {
            // Another address would be one that no profile has allowed.
            PEER => return refuse(&at, "the other end is a second worker: have two of them"),
            _ if name.contains('=') => return refuse(&at, "a name has no `=`"),
            _ if value.starts_with("data://") => {
                return refuse(&at, "volumes are read-only, and benchmarks read no data");
            }
            _ => options.push(format!("--param={name}={value}")),
        }
    }
    if ranks.ranks.len() == 2 && !uses_network(suite) {
        let why = "the second is the other end of network benchmarks, and none of them is chosen";
        return refuse("workers", why);
    }
    let chosen = !suite.benchmarks.is_empty() || !suite.components.is_empty();
    Ok(Suite { name: suite.name.clone(), options, chosen })
}

impl Suite {
    /// Arguments of `warpforge` for a worker of a vendor. `results` is written as they come, and
    /// `timeline` at the end; `peer` is the network's other end.
    pub fn arguments(
        &self,
        (results, timeline): (&Path, &Path),
        limit: u64,
        vendor: Vendor,
        peer: Option<&str>,
    ) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["benchmark".into(), "run".into()];
        all.push(format!("--suite={}", self.name).into());
        all.extend(self.options.iter().map(Into::into));
        if !self.chosen && vendor == Vendor::Cpu {
            let there = Component::ALL.into_iter().filter(|part| *part != Component::Gpu);
            all.extend(there.map(|part| format!("--component={}", part.argument()).into()));
        }
        all.extend(peer.map(|peer| format!("--peer={peer}").into()));
        all.extend([format!("--timeout={limit}").into(), "--monitor".into()]);
        all.extend(["--export-file".into(), results.into()]);
        all.extend(["--monitor-output".into(), timeline.into()]);
        all
    }

    /// Arguments of `warpforge` for the worker that is the other end.
    pub fn server_arguments(listen: SocketAddr) -> Vec<OsString> {
        vec!["netserver".into(), "--listen".into(), listen.to_string().into()]
    }
}

/// Whether a benchmark has another end. What does not exist is for the command to explain.
fn uses_network(suite: &data::Suite) -> bool {
    let components = suite.components.iter().filter_map(|part| part.argument().parse().ok());
    let selection = Selection {
        suite: Some(suite.name.clone()),
        benchmarks: suite.benchmarks.clone(),
        components: components.collect(),
    };
    let has_peer = |spec: &BenchmarkSpec| spec.params.contains_key(PEER);
    choose(&selection)
        .map_or(true, |all| all.iter().filter_map(|one| one.spec.as_ref()).any(has_peer))
}

/// The other end of the first worker's network, if there is one.
pub fn second_worker(ranks: &RankMap) -> Option<&Rank> {
    ranks.ranks.iter().find(|rank| rank.rank == 1)
}
