//! Who holds or wants the slots of a concurrency group.

use warpforge_operator_api::profile::Concurrency;
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunStatus, Time};

/// Another run's claim to a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Of several that wait, the oldest comes first; UIDs decide between those of one second.
    pub created: Time,
    pub uid: String,
    /// It has its slot; otherwise it waits.
    pub holds: bool,
}

/// Whether a run has its slot: from its first attempt on, also while that waits for Kueue.
pub fn holds_slot(status: &BenchmarkRunStatus) -> bool {
    status.attempt.is_some()
}

/// The claims of all runs but one to a group's slots. A run's group is that of its snapshot: it
/// does not change with the profile.
pub fn claims<'a>(
    runs: impl IntoIterator<Item = &'a BenchmarkRun>,
    group: &str,
    but: &str,
) -> Vec<Claim> {
    let of_group = runs.into_iter().filter_map(claim).filter(|(slots, _)| slots.group == group);
    of_group.map(|(_, claim)| claim).filter(|claim| claim.uid != but).collect()
}

/// A run's claim, with the slots that it is about.
pub fn claim(run: &BenchmarkRun) -> Option<(&Concurrency, Claim)> {
    let status = run.status.as_ref()?;
    let concurrency = status.resolved.as_ref()?.concurrency.as_ref()?;
    let holds = holds_slot(status);
    let waits = !run.spec.suspend && run.metadata.deletion_timestamp.is_none();
    if status.is_complete() || !(holds || waits) {
        return None;
    }
    let created = super::time(run.metadata.creation_timestamp.as_ref())?;
    Some((concurrency, Claim { created, uid: run.metadata.uid.clone()?, holds }))
}
