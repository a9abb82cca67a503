//! How an attempt ended, from what is seen of its Jobs and pods: the leader's verdict, or the
//! failure that broke the gang; and what the run's failure rules make of it.

use warpforge_operator_api::contract::{Termination, Unreadable};
use warpforge_operator_api::data::Stage;
use warpforge_operator_api::policy::{FailureAction, FailurePolicy};
use warpforge_operator_api::reason::Kind;
use warpforge_operator_api::verdict::exit;
use warpforge_operator_api::{Reason, Resolved, Time};

use crate::children::Gate;
use crate::observed::{Disruption, JobEnd, JobSeen, PodEnd, PodPhase, PodSeen, Waiting};

/// How long an image or a container may fail to start before that counts as a failure: registries
/// and secrets that are only late come within this.
pub const STUCK_SECONDS: i64 = 300;

/// A failure, with the worker it happened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: Reason,
    pub message: String,
    /// Such as `cpu-0`.
    pub worker: Option<String>,
    pub node: Option<String>,
    pub exit_code: Option<i32>,
    pub at: Option<Time>,
}

impl Cause {
    /// A failure of the whole run.
    pub fn of_run(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message, worker: None, node: None, exit_code: None, at: None }
    }

    fn of_pod(pod: &PodSeen, reason: Reason, detail: &str) -> Self {
        let worker = format!("{}-{}", pod.group, pod.index);
        let node = pod.node.as_ref().map(|node| format!(" on node {node}")).unwrap_or_default();
        let detail = if detail.is_empty() { String::new() } else { format!(" {detail}") };
        Self {
            reason,
            message: format!("{} (Worker {worker}{node}.){detail}", reason.sentence()),
            worker: Some(worker),
            node: pod.node.clone(),
            exit_code: pod.end.as_ref().and_then(|end| end.exit_code),
            at: pod.end.as_ref().and_then(|end| end.at),
        }
    }
}

/// The leader's verdict, if it has ended with one.
pub fn verdict(resolved: &Resolved, pods: &[&PodSeen]) -> Option<Termination> {
    pods.iter().filter(|pod| leads(resolved, pod)).find_map(|pod| {
        let end = pod.end.as_ref()?;
        let message = Termination::of_exit(&end.text, end.exit_code?).ok()?;
        message.correctness.is_some().then_some(message)
    })
}

fn leads(resolved: &Resolved, pod: &PodSeen) -> bool {
    pod.index == 0 && resolved.workers.first().is_some_and(|group| group.name == pod.group)
}

/// The leader's pod.
pub fn leader<'a>(resolved: &Resolved, pods: &[&'a PodSeen]) -> Option<&'a PodSeen> {
    pods.iter().find(|pod| leads(resolved, pod)).copied()
}

/// The failure to name, of all that are seen: one that cannot follow from another comes first,
/// then the earliest.
pub fn failure(
    resolved: &Resolved,
    released: bool,
    jobs: &[&JobSeen],
    pods: &[&PodSeen],
) -> Option<Cause> {
    let of_pods = pods.iter().filter_map(|pod| pod_failure(pod, leads(resolved, pod)));
    let mut causes: Vec<_> = of_pods.collect();
    causes.extend(queued_apart(resolved, jobs));
    if released {
        causes.extend(job_failures(resolved, jobs, pods, !causes.is_empty()));
    }
    causes.into_iter().min_by_key(|cause| {
        (cause.reason.may_be_consequence(), cause.at.is_none(), cause.at, cause.worker.clone())
    })
}

fn pod_failure(pod: &PodSeen, leads: bool) -> Option<Cause> {
    let cause = |reason: Reason, detail: &str| Some(Cause::of_pod(pod, reason, detail));
    if let Some(end) = &pod.end {
        if let Some(reason) = killed(end) {
            return cause(reason, "");
        }
        if end.exit_code == Some(0) && !leads {
            return None;
        }
    }
    let gone = pod.deleting || pod.end.is_some() || pod.phase == PodPhase::Unknown;
    if let Some(disruption) = pod.disruption.as_ref().filter(|_| gone) {
        let (reason, detail) = of_disruption(disruption);
        return cause(reason, &detail);
    }
    match &pod.end {
        Some(end) => {
            let failure = ended(pod, end, leads)?;
            // Who deletes a pod has its worker told to stop.
            let deleted = pod.deleting && failure.reason == Reason::Interrupted;
            if deleted { cause(Reason::ChildrenDeleted, "") } else { Some(failure) }
        }
        None if pod.deleting => cause(Reason::ChildrenDeleted, ""),
        None => None,
    }
}

/// What needs no message to be known.
fn killed(end: &PodEnd) -> Option<Reason> {
    if end.not_started {
        return Some(Reason::ContainerNotStarted);
    }
    if !end.out_of_memory {
        return None;
    }
    let message = Termination::parse(&end.text).ok();
    // A worker that outlived its pass knows which one was killed.
    let said = message.as_ref().and_then(|message| Reason::parse(&message.reason));
    let golden = said == Some(Reason::GoldenOutOfMemory)
        || message.is_some_and(|message| message.pass == Some(Stage::Golden));
    Some(if golden { Reason::GoldenOutOfMemory } else { Reason::OutOfMemory })
}

fn of_disruption(disruption: &Disruption) -> (Reason, String) {
    let reason = match disruption {
        Disruption::Evicted => Reason::Evicted,
        Disruption::Preempted => Reason::Preempted,
        Disruption::Dequeued { message } => {
            return (Reason::Preempted, format!("Kueue says: {message}"));
        }
        Disruption::NodeLost => Reason::NodeLost,
        Disruption::DeviceLost => Reason::DeviceLost,
    };
    (reason, String::new())
}

fn ended(pod: &PodSeen, end: &PodEnd, leads: bool) -> Option<Cause> {
    let cause = |reason: Reason, detail: &str| Some(Cause::of_pod(pod, reason, detail));
    let Some(code) = end.exit_code else {
        return cause(Reason::RunnerLost, "");
    };
    match Termination::of_exit(&end.text, code) {
        // The leader's verdict is no failure.
        Ok(message) if leads && message.correctness.is_some() => None,
        Ok(message) => cause(said(&message, code), &message.message),
        Err(error @ (Unreadable::ExitCode { .. } | Unreadable::Verdict { .. })) => {
            cause(Reason::ResultContradicts, &sentence(&error.to_string()))
        }
        Err(error) => {
            let detail = format!("It ended with exit code {code}, and {error}.");
            cause(Reason::RunnerLost, &detail)
        }
    }
}

/// The reason that a worker gives, else what its exit code says.
pub fn said(message: &Termination, code: i32) -> Reason {
    let known = Reason::parse(&message.reason).filter(|reason| reason.kind() != Kind::Way);
    known.unwrap_or(match code {
        exit::USAGE => Reason::ConfigurationRejected,
        exit::INTERNAL => Reason::InternalError,
        // Only a leader comes here with 0, and it must have a verdict.
        0 => Reason::ResultContradicts,
        _ => Reason::WorkerFailed,
    })
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), characters.as_str())
}

/// Workers that are not let go together wait for each other, or for nothing.
fn queued_apart(resolved: &Resolved, jobs: &[&JobSeen]) -> Option<Cause> {
    let queue = jobs.iter().find_map(|job| job.queue.as_ref())?;
    let reason = Reason::QueuedApart;
    let message = format!("{} (Queue {queue}.)", reason.sentence());
    (Gate::seen(resolved, jobs) == Gate::Apart).then(|| Cause::of_run(reason, message))
}

/// What Jobs say that no pod does any more.
fn job_failures(
    resolved: &Resolved,
    jobs: &[&JobSeen],
    pods: &[&PodSeen],
    known: bool,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    for group in &resolved.workers {
        let job = jobs.iter().find(|job| job.group == group.name);
        let Some(job) = job.filter(|job| !job.deleting) else {
            let message = format!("{} (Group {}.)", Reason::ChildrenDeleted.sentence(), group.name);
            causes.push(Cause::of_run(Reason::ChildrenDeleted, message));
            continue;
        };
        if job.suspended && job.end.is_none() && Gate::seen(resolved, jobs) == Gate::KueueJob {
            let reason = Reason::Preempted;
            causes.push(Cause::of_run(reason, format!("{} (By Kueue.)", reason.sentence())));
            continue;
        }
        match &job.end {
            Some(JobEnd::Failed { reason, .. }) if reason == "DeadlineExceeded" => {
                let reason = Reason::RunDeadlineExceeded;
                causes.push(Cause::of_run(reason, reason.sentence()));
            }
            Some(JobEnd::Failed { message, .. }) if !known => {
                let text = format!("{} The Job says: {message}", Reason::RunnerLost.sentence());
                causes.push(Cause::of_run(Reason::RunnerLost, text));
            }
            Some(JobEnd::Complete) => {
                let first = resolved.workers.first().is_some_and(|first| first.name == group.name);
                if first && leader(resolved, pods).is_none() {
                    let text =
                        format!("{} The leader's pod is gone.", Reason::RunnerLost.sentence());
                    causes.push(Cause::of_run(Reason::RunnerLost, text));
                }
            }
            _ => {}
        }
    }
    causes
}

/// What keeps a pod from starting, the most telling of all first.
pub fn obstacle(pods: &[&PodSeen]) -> Option<Cause> {
    let obstacles = pods.iter().filter_map(|pod| Some((pod, pod.waiting.as_ref()?)));
    let order = |waiting: &Waiting| match waiting {
        Waiting::ImagePull { .. } => 0,
        Waiting::NotStarted { .. } => 1,
        Waiting::Unschedulable { .. } => 2,
    };
    let (pod, waiting) = obstacles.min_by_key(|(_, waiting)| order(waiting))?;
    Some(match waiting {
        Waiting::ImagePull { image, .. } => {
            Cause::of_pod(pod, Reason::ImagePullFailed, &format!("The image is {image}."))
        }
        Waiting::NotStarted { reason, message } => {
            Cause::of_pod(pod, Reason::ContainerNotStarted, &format!("{reason}: {message}"))
        }
        Waiting::Unschedulable { message } => Cause::of_pod(pod, Reason::Unschedulable, message),
    })
}

/// When an obstacle becomes a failure before the pending deadline; never, for want of room.
pub fn stuck_at(pods: &[&PodSeen]) -> Option<Time> {
    let since = |pod: &&&PodSeen| match pod.waiting.as_ref()? {
        Waiting::ImagePull { hopeless: true, .. } => Some(pod.created),
        Waiting::ImagePull { .. } | Waiting::NotStarted { .. } => {
            Some(pod.created.plus(STUCK_SECONDS))
        }
        Waiting::Unschedulable { .. } => None,
    };
    pods.iter().filter_map(|pod| since(&pod)).min()
}

/// What is done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The run ends as without a rule.
    End,
    /// The run ends with Correctness Fail.
    Fail,
    /// All workers start again.
    Again { counts: bool, exclude_node: bool },
}

/// The first rule that matches decides. What cannot be done again ends the run.
pub fn decide(policy: &FailurePolicy, cause: &Cause, restarts: i32) -> Decision {
    let matches = |rule: &&warpforge_operator_api::policy::FailureRule| {
        let code = cause.exit_code.is_some_and(|code| rule.when.exit_codes.contains(&code));
        code || rule.when.reasons.iter().any(|reason| reason.covers(cause.reason))
    };
    let Some(rule) = policy.rules.iter().find(matches) else { return Decision::End };
    // More of the same time is no cure for a lack of it, nor another try for a wrong request.
    let over = matches!(cause.reason, Reason::RunDeadlineExceeded | Reason::QueueDeadlineExceeded)
        || cause.reason.kind() == Kind::Request;
    let again = !over && restarts < policy.max_restarts;
    match rule.action {
        FailureAction::FailRun => Decision::Fail,
        FailureAction::Retry if again => Decision::Again { counts: true, exclude_node: false },
        FailureAction::RetryExcludingNode if again => {
            Decision::Again { counts: true, exclude_node: true }
        }
        FailureAction::Ignore if !over => Decision::Again { counts: false, exclude_node: false },
        _ => Decision::End,
    }
}
