//! An attempt from its first Job to its end.

use warpforge_operator_api::contract::Termination;
use warpforge_operator_api::resolved::Resolved;
use warpforge_operator_api::status::{Attempt, AttemptState, ConditionType, Phase};
use warpforge_operator_api::{Reason, Time, Verdict};

use super::admit::queue_deadline;
use super::change::Change;
use crate::children::{Build, Gate};
use crate::observed::{ChildKind, Disruption, Observed, PodPhase, PodSeen};
use crate::outcome::{self, Cause, Decision};

/// How often the leader is asked for its progress, and the least time between two writes of it.
pub const PROGRESS_SECONDS: i64 = 30;
/// How long other workers have to show what a failure follows from.
pub const GRACE_SECONDS: i64 = 15;
/// How long a new attempt waits for the last one's pods to give back their devices, should they
/// never end.
pub const HANDOVER_SECONDS: i64 = 90;

/// Ends the run if its leader has a verdict, unless a rule has it tried again.
pub(super) fn verdict(change: &mut Change<'_>) -> bool {
    let Some(resolved) = change.resolved() else { return false };
    let Some(message) = outcome::verdict(&resolved, &change.pods()) else { return false };
    let Some(correctness) = message.correctness else { return false };
    // Suspension beats another attempt, and comes to the same.
    if correctness.is_final() || change.spec.suspend {
        change.conclude(&message, correctness);
        return true;
    }
    let cause = said(&resolved, change, &message, correctness);
    match outcome::decide(&resolved.failure_policy, &cause, change.status.restarts) {
        Decision::End => change.conclude(&message, correctness),
        Decision::Fail => {
            change.evidence(&message);
            change.fail(Verdict::Fail, &cause);
        }
        Decision::Again { counts, exclude_node } => {
            if run_deadline(&resolved, change).is_some_and(|end| change.now >= end) {
                change.conclude(&message, correctness);
            } else {
                change.again(&cause, counts, exclude_node);
            }
        }
    }
    true
}

fn said(
    resolved: &Resolved,
    change: &Change<'_>,
    message: &Termination,
    correctness: Verdict,
) -> Cause {
    let code = message.exit_code.unwrap_or(correctness.exit_code());
    let leader = outcome::leader(resolved, &change.pods());
    Cause {
        reason: outcome::said(message, code),
        message: message.message.clone(),
        worker: leader.map(|pod| format!("{}-{}", pod.group, pod.index)),
        node: leader.and_then(|pod| pod.node.clone()),
        exit_code: Some(code),
        at: None,
    }
}

/// Takes the attempt under way one step on.
pub(super) fn follow(change: &mut Change<'_>) {
    let (Some(resolved), Some(attempt)) = (change.resolved(), change.status.attempt.clone()) else {
        // Admitted, and no attempt: the last one ended by suspension.
        if change.status.resolved.is_some() {
            change.begin(false);
        }
        return;
    };
    if let Some(cause) = failure(change, &resolved, &attempt) {
        end(change, &resolved, &cause);
        return;
    }
    match attempt.state {
        AttemptState::Creating if may_go(change, &resolved, &attempt) => {
            let now = change.now;
            step(change, |attempt| {
                attempt.state = AttemptState::Released;
                attempt.released_at = Some(now);
            });
            change.started();
            change.because(Phase::Starting, Reason::Starting, Reason::Starting.sentence());
            let reason = Reason::SlotGranted;
            change.set(ConditionType::Admitted, true, reason, reason.sentence());
        }
        AttemptState::Creating => wait_for_queue(change, &resolved),
        AttemptState::Released if all_running(&resolved, &change.pods()) => running(change),
        AttemptState::Released => show_obstacle(change),
        AttemptState::Running => progress(change),
    }
}

fn step(change: &mut Change<'_>, edit: impl FnOnce(&mut Attempt)) {
    if let Some(attempt) = &mut change.status.attempt {
        edit(attempt);
    }
}

fn end(change: &mut Change<'_>, resolved: &Resolved, cause: &Cause) {
    match outcome::decide(&resolved.failure_policy, cause, change.status.restarts) {
        Decision::End => change.fail(cause.reason.verdict(), cause),
        Decision::Fail => change.fail(Verdict::Fail, cause),
        Decision::Again { counts, exclude_node } => change.again(cause, counts, exclude_node),
    }
}

/// What ends the attempt, if something does. A failure that may follow from another one is first
/// noted, and named when the time for the other to show has passed.
fn failure(change: &mut Change<'_>, resolved: &Resolved, attempt: &Attempt) -> Option<Cause> {
    let (jobs, pods) = (change.jobs(), change.pods());
    let released = attempt.state != AttemptState::Creating;
    if let Some(cause) = outcome::failure(resolved, released, &jobs, &pods) {
        let since = attempt.ending_at.unwrap_or(change.now);
        let waited = change.now >= since.plus(GRACE_SECONDS);
        if !cause.reason.may_be_consequence() || waited {
            return Some(cause);
        }
        step(change, |attempt| attempt.ending_at = Some(since));
    }
    if run_deadline(resolved, change).is_some_and(|end| change.now >= end) {
        let reason = Reason::RunDeadlineExceeded;
        let seconds = resolved.run_deadline_seconds;
        return Some(Cause::of_run(reason, format!("{} ({seconds} s.)", reason.sentence())));
    }
    if attempt.state == AttemptState::Running {
        return None;
    }
    if outcome::stuck_at(&pods).is_some_and(|stuck| change.now >= stuck) {
        return outcome::obstacle(&pods);
    }
    let deadline = start_deadline(resolved, attempt, change.seen)?;
    (change.now >= deadline).then(|| too_late(resolved, attempt, change, &pods))
}

/// Why the workers did not all start in time: the most telling of what is seen.
fn too_late(
    resolved: &Resolved,
    attempt: &Attempt,
    change: &Change<'_>,
    pods: &[&PodSeen],
) -> Cause {
    outcome::obstacle(pods).unwrap_or_else(|| {
        let queued = queues(resolved, attempt, change.seen);
        let reason =
            if queued { Reason::QueueDeadlineExceeded } else { Reason::PendingDeadlineExceeded };
        let running = pods.iter().filter(|pod| pod.phase == PodPhase::Running).count();
        let all = resolved.worker_count();
        Cause::of_run(reason, format!("{} ({running} of {all} ran.)", reason.sentence()))
    })
}

pub(super) fn run_deadline(resolved: &Resolved, change: &Change<'_>) -> Option<Time> {
    change.status.started_at.map(|start| start.plus(resolved.run_deadline_seconds))
}

/// Until when all workers must run. While Kueue has not let them go, its queue's time counts.
pub(super) fn start_deadline(
    resolved: &Resolved,
    attempt: &Attempt,
    seen: &Observed,
) -> Option<Time> {
    if queues(resolved, attempt, seen) {
        return queue_deadline(resolved, Some(attempt.started_at));
    }
    // Kueue may let them go late; the time then runs from there.
    let start = match (gate(resolved, attempt, seen), attempt.released_at) {
        (Gate::KueueJob | Gate::KueuePods, Some(released)) => released,
        _ => attempt.not_before.unwrap_or(attempt.started_at),
    };
    Some(start.plus(resolved.pending_deadline_seconds))
}

/// Whether the attempt waits for Kueue.
fn queues(resolved: &Resolved, attempt: &Attempt, seen: &Observed) -> bool {
    let there = seen.jobs.iter().any(|job| job.attempt == attempt.number);
    let creating = attempt.state == AttemptState::Creating;
    creating && there && gate(resolved, attempt, seen) != Gate::Operator
}

fn gate(resolved: &Resolved, attempt: &Attempt, seen: &Observed) -> Gate {
    let jobs = seen.jobs.iter().filter(|job| job.attempt == attempt.number);
    Gate::seen(resolved, &jobs.collect::<Vec<_>>())
}

fn wait_for_queue(change: &mut Change<'_>, resolved: &Resolved) {
    let attempt = change.status.attempt.clone();
    if attempt.is_some_and(|attempt| queues(resolved, &attempt, change.seen)) {
        let reason = Reason::WaitingForQueue;
        // Kueue may have taken in what was to start at once.
        if change.status.attempts.is_empty() {
            change.status.started_at = None;
        }
        change.because(Phase::Queued, reason, reason.sentence());
        for condition in [ConditionType::Admitted, ConditionType::Running] {
            change.set(condition, false, reason, reason.sentence());
        }
    }
}

/// Whether all that the attempt needs is there and its workers may go, or have been let go.
fn may_go(change: &Change<'_>, resolved: &Resolved, attempt: &Attempt) -> bool {
    let seen = change.seen;
    let build = build(resolved, attempt, seen);
    let jobs = change.jobs();
    let there = build.ids().iter().all(|id| match id.kind {
        ChildKind::Job => jobs.iter().any(|job| job.name == id.name && !job.deleting),
        _ => seen.others.contains(id),
    });
    there
        && match Gate::seen(resolved, &jobs) {
            Gate::Apart => false,
            Gate::Operator => handed_over(change, attempt),
            Gate::KueueJob => jobs.iter().all(|job| !job.suspended),
            Gate::KueuePods => {
                let pods = change.pods();
                pods.len() as i64 >= i64::from(resolved.worker_count())
                    && pods.iter().all(|pod| !pod.gated)
            }
        }
}

/// Whether earlier attempts' pods have given back what the new ones need.
fn handed_over(change: &Change<'_>, attempt: &Attempt) -> bool {
    let waited = change.now >= attempt.started_at.plus(HANDOVER_SECONDS);
    let lost = |pod: &PodSeen| pod.disruption == Some(Disruption::NodeLost);
    let busy = |pod: &PodSeen| pod.attempt != attempt.number && pod.end.is_none() && !lost(pod);
    waited || !change.seen.pods.iter().any(busy)
}

pub(super) fn build<'a>(
    resolved: &'a Resolved,
    attempt: &Attempt,
    seen: &'a Observed,
) -> Build<'a> {
    Build {
        run: &seen.run,
        resolved,
        attempt: attempt.number,
        excluded_nodes: &seen.run.status.excluded_nodes,
    }
}

/// Whether every worker runs, or has run and ended well.
fn all_running(resolved: &Resolved, pods: &[&PodSeen]) -> bool {
    resolved.workers.iter().all(|group| {
        (0..group.replicas.unsigned_abs()).all(|index| {
            pods.iter().any(|pod| {
                pod.group == group.name
                    && pod.index == index
                    && matches!(pod.phase, PodPhase::Running | PodPhase::Succeeded)
            })
        })
    })
}

fn running(change: &mut Change<'_>) {
    let (now, reason) = (change.now, Reason::WorkersRunning);
    step(change, |attempt| {
        attempt.state = AttemptState::Running;
        attempt.running_at = Some(now);
    });
    change.because(Phase::Running, reason, reason.sentence());
    change.set(ConditionType::Running, true, reason, reason.sentence());
}

fn show_obstacle(change: &mut Change<'_>) {
    if let Some(cause) = outcome::obstacle(&change.pods()) {
        change.because(Phase::Starting, cause.reason, &cause.message);
        change.set(ConditionType::Running, false, cause.reason, &cause.message);
    }
}

/// Notes what the leader answered, at most every [`PROGRESS_SECONDS`].
fn progress(change: &mut Change<'_>) {
    let attempt = change.status.attempt.as_ref().map(|attempt| attempt.number);
    let answer = change.seen.progress.as_ref();
    let Some(answer) = answer.filter(|answer| Some(answer.attempt) == attempt) else { return };
    let progress = &answer.progress;
    let last = change.status.progress.as_ref();
    if last.is_some_and(|last| change.now < last.updated_at.plus(PROGRESS_SECONDS)) {
        return;
    }
    let mut seen = progress.seen(change.now);
    let golden = progress.golden;
    // The same again is no news, whenever it was said. The time is that of the write: by it the
    // next one is held back, also when the answer lay unread for a while.
    if let Some(last) = last {
        seen.updated_at = last.updated_at;
        if seen != *last {
            seen.updated_at = change.now;
        }
    }
    change.status.progress = Some(seen);
    if let Some(golden) = golden {
        change.golden(golden);
    }
}
