//! Before a run's workers: the profile, suspension, and a slot.

use warpforge_operator_api::resolved::Resolved;
use warpforge_operator_api::status::{ConditionType, Phase};
use warpforge_operator_api::{Reason, Time, Verdict};

use super::change::Change;
use crate::children::Gate;
use crate::observed::{Observed, holds_slot};
use crate::outcome::{Cause, Decision, decide};
use crate::resolve::{profile_deadline, resolve};

/// How long a run may wait where its profile says nothing: the group's own default.
const WAIT_SECONDS: i64 = 604_800;

/// Whether the run has its snapshot; takes it if the profile is there.
pub(super) fn resolved(change: &mut Change<'_>) -> bool {
    if change.status.resolved.is_some() {
        return true;
    }
    let run = &change.seen.run;
    let name = &change.spec.profile;
    let Some(profile) = &change.seen.profile else {
        let late = change.now >= profile_deadline(change.spec, run.created);
        let reason = if late { Reason::ProfileNotFound } else { Reason::WaitingForProfile };
        let message = format!("{} (Profile {name}.)", reason.sentence());
        change.set(ConditionType::Resolved, false, reason, &message);
        if late {
            change.fail(Verdict::Invalid, &Cause::of_run(reason, message));
        } else {
            change.because(Phase::Pending, reason, &message);
        }
        return false;
    };
    match resolve(&run.namespace, change.spec, profile) {
        Ok(resolved) => {
            change.status.resolved = Some(resolved);
            let reason = Reason::Accepted;
            change.set(ConditionType::Resolved, true, reason, reason.sentence());
            true
        }
        Err(refusals) => {
            let all: Vec<_> = refusals.iter().map(ToString::to_string).collect();
            let message = format!("{} {}", Reason::Refused.sentence(), all.join("; "));
            change.set(ConditionType::Resolved, false, Reason::Refused, &message);
            change.fail(Verdict::Invalid, &Cause::of_run(Reason::Refused, message));
            false
        }
    }
}

/// Whether the run is held back. It gives back its slot, and its deadlines begin anew with the
/// next attempt.
pub(super) fn suspended(change: &mut Change<'_>) -> bool {
    if !change.spec.suspend {
        return false;
    }
    let message = Reason::Suspended.sentence();
    if change.status.attempt.is_some() {
        change.end_attempt(&Cause::of_run(Reason::Suspended, message));
        change.set(ConditionType::Running, false, Reason::Suspended, message);
    }
    change.status.queued_at = None;
    change.status.started_at = None;
    change.status.progress = None;
    change.because(Phase::Suspended, Reason::Suspended, message);
    change.set(ConditionType::Admitted, false, Reason::Suspended, message);
    true
}

/// Whether the run may go on; takes a slot if one is free for it.
pub(super) fn admitted(change: &mut Change<'_>) -> bool {
    if holds_slot(&change.status) {
        return true;
    }
    let Some(resolved) = change.resolved() else { return false };
    if slot_is_free(&resolved, change.seen) {
        let reason = Reason::SlotGranted;
        change.status.queued_at = None;
        // With a queue, Kueue has the last word.
        if Gate::of(&resolved) == Gate::Operator {
            change.set(ConditionType::Admitted, true, reason, reason.sentence());
        }
        change.begin(false);
        return true;
    }
    let (group, max) = resolved
        .concurrency
        .as_ref()
        .map_or(("", 0), |concurrency| (concurrency.group.as_str(), concurrency.max));
    let reason = Reason::WaitingForSlot;
    let message = format!("{} (Group {group}, {max} at once.)", reason.sentence());
    change.status.queued_at.get_or_insert(change.now);
    if queue_deadline(&resolved, change.status.queued_at).is_some_and(|end| change.now >= end) {
        let reason = Reason::QueueDeadlineExceeded;
        let cause = Cause::of_run(reason, format!("{} (Group {group}.)", reason.sentence()));
        let decision = decide(&resolved.failure_policy, &cause, change.status.restarts);
        let verdict = if decision == Decision::Fail { Verdict::Fail } else { reason.verdict() };
        change.set(ConditionType::Admitted, false, reason, &cause.message);
        change.fail(verdict, &cause);
        return false;
    }
    change.because(Phase::Queued, reason, &message);
    change.set(ConditionType::Admitted, false, reason, &message);
    false
}

/// First come, first served: a slot is free if holders and those that came before leave one.
fn slot_is_free(resolved: &Resolved, seen: &Observed) -> bool {
    let Some(concurrency) = &resolved.concurrency else { return true };
    let own = (seen.run.created, &seen.run.uid);
    let before =
        seen.claims.iter().filter(|claim| claim.holds || (claim.created, &claim.uid) < own);
    (before.count() as i64) < i64::from(concurrency.max)
}

/// Until when a run waits for a slot, or for Kueue.
pub(super) fn queue_deadline(resolved: &Resolved, since: Option<Time>) -> Option<Time> {
    let seconds = resolved.concurrency.as_ref().map(|group| group.wait_deadline_seconds);
    since.map(|since| since.plus(seconds.unwrap_or(WAIT_SECONDS)))
}
