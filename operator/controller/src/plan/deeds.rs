//! What the stored status calls for.

use std::collections::BTreeSet;

use warpforge_operator_api::status::{Attempt, AttemptState};
use warpforge_operator_api::{BenchmarkRunSpec, BenchmarkRunStatus, Resolved, Time, Verdict};

use super::Action;
use super::admit::queue_deadline;
use super::follow::{self, GRACE_SECONDS, HANDOVER_SECONDS, PROGRESS_SECONDS};
use crate::children::Gate;
use crate::observed::{ChildId, ChildKind, Observed};
use crate::outcome;
use crate::resolve::profile_deadline;

pub(super) fn deeds(spec: &BenchmarkRunSpec, seen: &Observed, now: Time) -> Vec<Action> {
    let status = &seen.run.status;
    if status.is_complete() {
        return finished(spec, seen, now);
    }
    match (&status.resolved, &status.attempt) {
        (Some(resolved), Some(attempt)) => attempted(resolved, attempt, seen, now),
        (resolved, _) => {
            let deadline = match resolved {
                None => Some(profile_deadline(spec, seen.run.created)),
                Some(resolved) => queue_deadline(resolved, status.queued_at),
            };
            // Held back while it ran: what it left behind goes, but for what the next attempt uses.
            let mut actions =
                clear(seen, |child| matches!(child.kind, ChildKind::Job | ChildKind::ConfigMap));
            actions.extend(deadline.map(Action::Wake));
            actions
        }
    }
}

/// Deletes all children.
pub(super) fn stop(seen: &Observed) -> Vec<Action> {
    clear(seen, |_| true)
}

/// Deletes children that are not being deleted yet, Jobs first: they hold the devices.
fn clear(seen: &Observed, which: impl Fn(&ChildId) -> bool) -> Vec<Action> {
    let jobs = seen.jobs.iter().filter(|job| !job.deleting);
    let jobs = jobs.map(|job| ChildId::new(ChildKind::Job, job.name.clone()));
    let all = jobs.chain(seen.others.iter().cloned());
    all.filter(|child| which(child)).map(Action::Delete).collect()
}

/// Once the verdict is stored, children go, and later the run itself.
fn finished(spec: &BenchmarkRunSpec, seen: &Observed, now: Time) -> Vec<Action> {
    let mut actions = stop(seen);
    match expiry(spec, &seen.run.status) {
        Some(end) if now >= end => actions.push(Action::DeleteRun),
        Some(end) => actions.push(Action::Wake(end)),
        None => {}
    }
    actions
}

fn expiry(spec: &BenchmarkRunSpec, status: &BenchmarkRunStatus) -> Option<Time> {
    let own = spec.ttl_seconds_after_finished.clone().unwrap_or_default();
    let ttl = match &status.resolved {
        Some(resolved) => own.or(&resolved.ttl_seconds_after_finished),
        None => own,
    };
    let passed = status.correctness == Some(Verdict::Pass);
    let seconds = if passed { ttl.passed } else { ttl.failed };
    Some(status.completed_at?.plus(seconds?))
}

fn attempted(resolved: &Resolved, attempt: &Attempt, seen: &Observed, now: Time) -> Vec<Action> {
    let build = follow::build(resolved, attempt, seen);
    let own: BTreeSet<_> = build.ids().into_iter().collect();
    // Earlier attempts' children go; the Service and the NetworkPolicy are every attempt's.
    let mut actions = clear(seen, |child| !own.contains(child));
    let paused = attempt.not_before.filter(|start| now < *start);
    if paused.is_none() {
        let jobs = seen.jobs.iter().map(|job| ChildId::new(ChildKind::Job, job.name.clone()));
        let there: BTreeSet<_> = jobs.chain(seen.others.iter().cloned()).collect();
        // A Job that is missing once workers were let go has been deleted, and is not made again.
        let creating = attempt.state == AttemptState::Creating;
        let missing = own.iter().filter(|child| !there.contains(child));
        let missing: Vec<_> =
            missing.filter(|child| creating || child.kind != ChildKind::Job).collect();
        if !missing.is_empty() {
            let all = build.all().into_iter();
            actions.extend(all.filter(|child| missing.contains(&&child.id())).map(Action::Create));
        }
    }
    match attempt.state {
        AttemptState::Creating => {}
        AttemptState::Released | AttemptState::Running => {
            let jobs: Vec<_> =
                seen.jobs.iter().filter(|job| job.attempt == attempt.number).collect();
            let held = jobs.iter().filter(|job| job.suspended && !job.deleting);
            let held = held.filter(|job| job.end.is_none());
            if Gate::seen(resolved, &jobs) == Gate::Operator {
                actions.extend(held.map(|job| Action::Release { job: job.name.clone() }));
            }
        }
    }
    if attempt.state == AttemptState::Running {
        actions.extend(poll(resolved, attempt, seen, now));
    }
    actions.extend(wake(resolved, attempt, seen, now).map(Action::Wake));
    actions
}

fn poll(resolved: &Resolved, attempt: &Attempt, seen: &Observed, now: Time) -> Option<Action> {
    let answer = seen.progress.as_ref().filter(|answer| answer.attempt == attempt.number);
    let fresh = answer.is_some_and(|answer| now < answer.at.plus(PROGRESS_SECONDS));
    let pods: Vec<_> = seen.pods.iter().filter(|pod| pod.attempt == attempt.number).collect();
    let leader = outcome::leader(resolved, &pods)?;
    let ip = leader.ip.clone()?;
    (!fresh && leader.end.is_none()).then(|| Action::Poll {
        attempt: attempt.number,
        pod: leader.name.clone(),
        ip,
    })
}

/// The next time at which something is due though nothing happens.
fn wake(resolved: &Resolved, attempt: &Attempt, seen: &Observed, now: Time) -> Option<Time> {
    let pods: Vec<_> = seen.pods.iter().filter(|pod| pod.attempt == attempt.number).collect();
    let starting = attempt.state != AttemptState::Running;
    let times = [
        seen.run.status.started_at.map(|start| start.plus(resolved.run_deadline_seconds)),
        follow::start_deadline(resolved, attempt, seen).filter(|_| starting),
        outcome::stuck_at(&pods).filter(|_| starting),
        attempt.not_before,
        attempt.ending_at.map(|since| since.plus(GRACE_SECONDS)),
        Some(attempt.started_at.plus(HANDOVER_SECONDS))
            .filter(|_| attempt.state == AttemptState::Creating),
        Some(now.plus(PROGRESS_SECONDS)).filter(|_| !starting),
    ];
    times.into_iter().flatten().filter(|time| *time > now).min()
}
