//! What is to be done about a run, from what is seen of it and the time. A plan is either one
//! write of the status or the deeds that the stored status calls for, never both: whatever stops
//! the operator in between, the next plan goes on from what is stored.

mod admit;
mod change;
mod deeds;
mod follow;

use warpforge_operator_api::{BenchmarkRunSpec, BenchmarkRunStatus, Time};

use crate::children::Child;
use crate::observed::{ChildId, Observed};

pub use follow::{GRACE_SECONDS, HANDOVER_SECONDS, PROGRESS_SECONDS};

/// Something to do, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Store this status; the first and only action of its plan. If it was stored, send the Events
    /// of the change; if not, plan anew from what is seen then.
    WriteStatus(Box<BenchmarkRunStatus>),
    /// Create this; if one of that name exists and is the run's own, it is already done.
    Create(Child),
    /// Let this Job's pods go.
    Release { job: String },
    /// Delete this, and its pods with it.
    Delete(ChildId),
    /// Ask this attempt's leader for its progress.
    Poll { attempt: i32, pod: String, ip: String },
    /// Delete the run itself, if it is still the one that was seen.
    DeleteRun,
    /// Plan again at this time, whatever happens until then.
    Wake(Time),
}

/// What is to be done next.
pub fn plan(spec: &BenchmarkRunSpec, seen: &Observed, now: Time) -> Vec<Action> {
    if seen.run.deleting {
        return deeds::stop(seen);
    }
    let status = next_status(spec, seen, now);
    if status != seen.run.status {
        return vec![Action::WriteStatus(Box::new(status))];
    }
    deeds::deeds(spec, seen, now)
}

/// The status that follows from what is seen; the stored one, if nothing is new.
fn next_status(spec: &BenchmarkRunSpec, seen: &Observed, now: Time) -> BenchmarkRunStatus {
    let mut change = change::Change::new(spec, seen, now);
    if change.status.is_complete() || !admit::resolved(&mut change) {
        return change.status;
    }
    if follow::verdict(&mut change)
        || admit::suspended(&mut change)
        || !admit::admitted(&mut change)
    {
        return change.status;
    }
    follow::follow(&mut change);
    change.status
}
