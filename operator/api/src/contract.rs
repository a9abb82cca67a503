//! What the operator and a run's pods agree on. The operator mounts two files into each pod,
//! [`RunnerSpec`] and [`RankMap`]; the pod answers `/progress` with [`Progress`], and ends with an
//! exit code and a [`Termination`] message that must agree.

mod progress;
mod ranks;
mod results;
mod termination;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Resolved, Time, bounds};

pub use progress::Progress;
pub use ranks::{Rank, RankMap};
pub use results::{BenchmarkFigure, Figure, PassResults, Results};
pub use termination::{LONGEST, Termination, Unreadable};

/// The version of all that is here. A pod that finds another one ends with
/// `ConfigurationRejected`.
pub const VERSION: u32 = 1;

/// The folder that the ConfigMap is mounted as.
pub const FOLDER: &str = "/etc/warpforge/run";
/// [`RunnerSpec`] as JSON, in [`FOLDER`].
pub const SPEC_FILE: &str = "spec.json";
/// [`RankMap`] as JSON, in [`FOLDER`].
pub const RANKS_FILE: &str = "ranks.json";
/// Where the termination message is written.
pub const TERMINATION_FILE: &str = "/dev/termination-log";
/// The port of `/progress` and `/metrics` in every pod.
pub const HTTP_PORT: u16 = 9464;
/// The port at which the leader waits for the others.
pub const RENDEZVOUS_PORT: u16 = 29500;

/// Environment variables of a worker. Names that begin so are not a run's to set.
pub mod env {
    pub const PREFIX: &str = "WARPFORGE_";
    /// The worker group's name.
    pub const GROUP: &str = "WARPFORGE_WORKER_GROUP";
    /// The worker's index in its group.
    pub const INDEX: &str = "WARPFORGE_WORKER_INDEX";
    /// The folder with the two files.
    pub const RUN_FOLDER: &str = "WARPFORGE_RUN_FOLDER";
}

/// All that a worker needs to know of its run, in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunnerSpec {
    pub version: u32,
    pub run: RunRef,
    /// Counted from 1.
    pub attempt: i32,
    /// When the run's deadline is over, by the operator's clock. Left out while Kueue has not let
    /// the run begin: its deadline then counts from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    pub spec: Resolved,
}

/// Which run it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// The report in the object store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Its address.
    #[schemars(length(max = 1024))]
    pub uri: String,
    /// The SHA-256 of its bytes.
    #[schemars(length(max = 64), regex(pattern = bounds::SHA256))]
    pub sha256: String,
}

impl Report {
    /// Whether a status may hold it.
    pub fn is_valid(&self) -> bool {
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        self.uri.chars().count() <= 1024 && self.sha256.len() == 64 && self.sha256.chars().all(hex)
    }
}

/// What became of the golden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GoldenUse {
    /// A stored one of the same key is used.
    Reused,
    /// It was computed.
    Made,
    /// The run does without.
    Skipped,
}
