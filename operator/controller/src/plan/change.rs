//! A status on its way to the next one.

use warpforge_operator_api::contract::{GoldenUse, Termination};
use warpforge_operator_api::resolved::subject;
use warpforge_operator_api::status::{
    Attempt, AttemptState, BenchmarkRunStatus, Condition, ConditionStatus, ConditionType,
    EndedAttempt, Phase, cut,
};
use warpforge_operator_api::{BenchmarkRunSpec, Reason, Resolved, Time, Verdict};

use crate::children::Gate;
use crate::observed::{JobSeen, Observed, PodSeen};
use crate::outcome::Cause;

/// How many ended attempts are kept.
const KEPT: usize = 16;
/// How many nodes are kept away from.
const EXCLUDED: usize = 32;
/// The first pause before another attempt; it doubles with each, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: i64 = 10;
const LONGEST_PAUSE: i64 = 300;

/// What is seen, and the status that it leads to.
pub(super) struct Change<'a> {
    pub spec: &'a BenchmarkRunSpec,
    pub seen: &'a Observed,
    pub now: Time,
    pub status: BenchmarkRunStatus,
}

impl<'a> Change<'a> {
    pub fn new(spec: &'a BenchmarkRunSpec, seen: &'a Observed, now: Time) -> Self {
        let mut status = seen.run.status.clone();
        let generation = seen.run.generation;
        if status.observed_generation != generation {
            status.observed_generation = generation;
            for condition in &mut status.conditions {
                condition.observed_generation = generation;
            }
        }
        status.subject = subject(spec.workload.as_ref(), spec.model.as_ref(), spec.suite.as_ref());
        Self { spec, seen, now, status }
    }

    pub fn resolved(&self) -> Option<Resolved> {
        self.status.resolved.clone()
    }

    /// The Jobs of the attempt under way.
    pub fn jobs(&self) -> Vec<&'a JobSeen> {
        let number = self.status.attempt.as_ref().map(|attempt| attempt.number);
        self.seen.jobs.iter().filter(|job| Some(job.attempt) == number).collect()
    }

    /// The pods of the attempt under way.
    pub fn pods(&self) -> Vec<&'a PodSeen> {
        let number = self.status.attempt.as_ref().map(|attempt| attempt.number);
        self.seen.pods.iter().filter(|pod| Some(pod.attempt) == number).collect()
    }

    /// Why the run is where it is, in a word and for a person. The words of a reason that lasts
    /// are those it began with: what changes in them from second to second is not worth a write.
    pub fn because(&mut self, phase: Phase, reason: Reason, message: &str) {
        if self.status.phase != phase || self.status.reason != reason.name() {
            self.state(phase, reason, message);
        }
    }

    fn state(&mut self, phase: Phase, reason: Reason, message: &str) {
        self.status.phase = phase;
        reason.name().clone_into(&mut self.status.reason);
        self.status.message = cut(message, 1024);
    }

    pub fn set(&mut self, type_: ConditionType, holds: bool, reason: Reason, message: &str) {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        let old = self.status.conditions.iter_mut().find(|condition| condition.type_ == type_);
        let same =
            old.as_ref().is_some_and(|old| old.status == status && old.reason == reason.family());
        if same {
            return;
        }
        let since = old.as_ref().filter(|old| old.status == status);
        let condition = Condition {
            type_,
            status,
            reason: reason.family().to_owned(),
            message: cut(message, 1024),
            last_transition_time: since.map_or(self.now, |old| old.last_transition_time),
            observed_generation: self.seen.run.generation,
        };
        if let Some(old) = old {
            *old = condition;
            return;
        }
        self.status.conditions.push(condition);
        self.status.conditions.sort_by_key(|condition| condition.type_);
    }

    /// Begins the next attempt, after a pause if one has failed before.
    pub fn begin(&mut self, after_failure: bool) {
        let last = self.status.attempts.last().map_or(0, |ended| ended.number);
        let failed = self.status.attempts.len().min(16) as u32;
        let pause = (FIRST_PAUSE << failed.saturating_sub(1).min(5)).min(LONGEST_PAUSE);
        self.status.attempt = Some(Attempt {
            number: last.saturating_add(1),
            state: AttemptState::Creating,
            started_at: self.now,
            not_before: after_failure.then(|| self.now.plus(pause)),
            released_at: None,
            running_at: None,
            ending_at: None,
            golden: None,
        });
        let resolved = self.status.resolved.as_ref();
        if resolved.is_some_and(|resolved| Gate::of(resolved) == Gate::Operator) {
            self.started();
        }
        self.status.progress = None;
        if after_failure {
            let last = self.status.attempts.last();
            let message = last.map(|ended| ended.message.clone()).unwrap_or_default();
            self.state(Phase::Starting, Reason::Retrying, &message);
            self.set(ConditionType::Running, false, Reason::Retrying, &message);
        } else {
            let message = Reason::Starting.sentence();
            self.state(Phase::Starting, Reason::Starting, message);
            self.set(ConditionType::Running, false, Reason::Starting, message);
        }
    }

    /// The run's deadline begins. Time in Kueue's queue does not count.
    pub fn started(&mut self) {
        self.status.started_at.get_or_insert(self.now);
    }

    /// Moves the attempt under way to those that ended.
    pub fn end_attempt(&mut self, cause: &Cause) {
        self.archive(EndedAttempt {
            number: 0,
            started_at: self.now,
            ended_at: self.now,
            reason: cut(cause.reason.name(), 64),
            message: cut(&cause.message, 512),
            worker: cause.worker.clone(),
            node: cause.node.clone(),
            exit_code: cause.exit_code,
        });
    }

    fn archive(&mut self, ended: EndedAttempt) {
        let Some(attempt) = self.status.attempt.take() else { return };
        let (number, started_at) = (attempt.number, attempt.started_at);
        self.status.attempts.push(EndedAttempt { number, started_at, ..ended });
        let surplus = self.status.attempts.len().saturating_sub(KEPT);
        self.status.attempts.drain(..surplus);
    }

    /// Ends the attempt and begins another.
    pub fn again(&mut self, cause: &Cause, counts: bool, exclude_node: bool) {
        self.end_attempt(cause);
        self.status.restarts += i32::from(counts);
        if let Some(node) = cause.node.as_ref().filter(|_| exclude_node)
            && !self.status.excluded_nodes.contains(node)
            && self.status.excluded_nodes.len() < EXCLUDED
        {
            self.status.excluded_nodes.push(node.clone());
        }
        self.begin(true);
    }

    pub fn golden(&mut self, golden: GoldenUse) {
        if let Some(attempt) = &mut self.status.attempt {
            attempt.golden = Some(golden);
        }
        let reason = match golden {
            GoldenUse::Reused => Reason::GoldenReused,
            GoldenUse::Made => Reason::GoldenMade,
            GoldenUse::Skipped => Reason::GoldenSkipped,
        };
        let ready = golden != GoldenUse::Skipped;
        self.set(ConditionType::GoldenReady, ready, reason, reason.sentence());
    }

    /// Ends the run by a failure.
    pub fn fail(&mut self, verdict: Verdict, cause: &Cause) {
        let restarts = self.status.restarts;
        let message = match restarts {
            0 => cause.message.clone(),
            _ => format!("{} (After {restarts} restarts.)", cause.message),
        };
        self.end_attempt(cause);
        self.finish(verdict, verdict.exit_code(), cause.reason.name(), &message);
        self.set(ConditionType::Validated, false, cause.reason, &message);
        self.set(ConditionType::Complete, true, cause.reason, &message);
    }

    /// Ends the run by the leader's verdict.
    pub fn conclude(&mut self, message: &Termination, correctness: Verdict) {
        let code = message.exit_code.unwrap_or(correctness.exit_code());
        if let Some(golden) = message.golden {
            self.golden(golden);
        }
        self.archive(EndedAttempt {
            number: 0,
            started_at: self.now,
            ended_at: self.now,
            reason: cut(&message.reason, 64),
            message: cut(&message.message, 512),
            worker: None,
            node: None,
            exit_code: Some(code),
        });
        self.evidence(message);
        self.finish(correctness, code, &message.reason, &message.message);
        let decided = matches!(correctness, Verdict::Pass | Verdict::Fail);
        let suite = self.spec.suite.is_some();
        let reason = match decided {
            true if suite => Reason::Measured,
            true => Reason::Compared,
            false => Reason::Finished,
        };
        self.set(ConditionType::Validated, decided, reason, &message.message);
        self.set(ConditionType::Complete, true, Reason::Finished, &message.message);
    }

    /// What the leader left beside its verdict.
    pub fn evidence(&mut self, message: &Termination) {
        self.status.performance = message.performance;
        self.status.report.clone_from(&message.report);
        self.status.results.clone_from(&message.results);
    }

    fn finish(&mut self, correctness: Verdict, exit_code: i32, reason: &str, message: &str) {
        self.status.phase = Phase::Complete;
        self.status.correctness = Some(correctness);
        self.status.exit_code = Some(exit_code);
        self.status.reason = cut(reason, 64);
        self.status.message = cut(message, 1024);
        self.status.completed_at = Some(self.now);
        self.status.queued_at = None;
        if self.status.condition(ConditionType::Running).is_some() {
            let finished = Reason::Finished;
            self.set(ConditionType::Running, false, finished, finished.sentence());
        }
    }
}
