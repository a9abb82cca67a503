//! The cluster's types, as plain data that both sides use: the custom resources `BenchmarkRun` and
//! `BenchmarkProfile` of the group `warpforge.dev`, and the contract between the operator and the
//! runner's pods (the resolved spec and rank map a pod reads, its progress, and the termination
//! message and exit code it ends with). Nothing here does I/O or decides anything.

pub mod bounds;
pub mod contract;
pub mod crds;
pub mod data;
pub mod policy;
pub mod profile;
pub mod quantity;
pub mod reason;
pub mod resolved;
pub mod run;
pub mod status;
pub mod time;
pub mod verdict;
pub mod workers;

pub use profile::{BenchmarkProfile, BenchmarkProfileSpec};
pub use reason::Reason;
pub use resolved::Resolved;
pub use run::{BenchmarkRun, BenchmarkRunSpec};
pub use status::BenchmarkRunStatus;
pub use time::Time;
pub use verdict::Verdict;

/// The API group of both resources.
pub const GROUP: &str = "warpforge.dev";
/// The version of the API that this crate describes.
pub const VERSION: &str = "v1alpha1";

/// Labels and annotations that the operator puts on what it creates.
pub mod labels {
    /// Names the software; the value is always [`MANAGED_BY_VALUE`].
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    pub const MANAGED_BY_VALUE: &str = "warpforge-operator";
    /// The `BenchmarkRun`'s UID: names may be longer than a label's value.
    pub const RUN_UID: &str = "warpforge.dev/run-uid";
    /// The worker group.
    pub const GROUP: &str = "warpforge.dev/group";
    /// The attempt, counted from 1.
    pub const ATTEMPT: &str = "warpforge.dev/attempt";
    /// The `BenchmarkRun`'s name, as an annotation.
    pub const RUN_NAME: &str = "warpforge.dev/run-name";
}
