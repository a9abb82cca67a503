//! A suite of benchmarks, as arguments of `warpforge benchmark run`.

use std::ffi::OsString;
use std::path::Path;

use warpforge_operator_api::Resolved;
use warpforge_operator_api::contract::{Rank, RankMap};
use warpforge_operator_api::data::{self, Component};
use warpforge_operator_api::policy::{GoldenPolicy, Thresholds, Tolerances};
use warpforge_operator_api::workers::Vendor;

use super::{Refusal, Source, refuse};

/// The parameter that names the other end of the network.
const PEER: &str = "peer";

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
                let path = Source::parse(&at, value, &run.data, None)?.place();
                options.push(format!("--param={name}={path}"));
            }
            _ => options.push(format!("--param={name}={value}")),
        }
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
    pub fn other_end(listen: &str) -> Vec<OsString> {
        ["netserver", "--listen", listen].map(Into::into).into()
    }
}

/// Who the other end is, if there is one.
pub fn other_end(ranks: &RankMap) -> Option<&Rank> {
    ranks.ranks.iter().find(|rank| rank.rank == 1)
}
