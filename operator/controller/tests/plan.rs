//! The plan, row by row: what is seen of a run, and what is done about it.

mod common;

use common::{epoch, pod, profile, request, rules, seen, slots, words};
use warpforge_operator_api::contract::{GoldenUse, Progress};
use warpforge_operator_api::data::Stage;
use warpforge_operator_api::policy::Ttl;
use warpforge_operator_api::status::{BenchmarkRunStatus, ConditionStatus, ConditionType, Phase};
use warpforge_operator_api::{BenchmarkRunSpec, Time};
use warpforge_operator_controller::children::Build;
use warpforge_operator_controller::observed::{
    Answer, ChildKind, Claim, JobEnd, JobSeen, Observed, PodSeen, Waiting, holds_slot,
};
use warpforge_operator_controller::plan::{Action, plan};

fn written(actions: &[Action]) -> BenchmarkRunStatus {
    match actions {
        [Action::WriteStatus(status)] => (**status).clone(),
        other => panic!("no status is written: {other:?}"),
    }
}

/// Writes statuses until there are deeds, and gives back what is seen then.
fn settled(spec: &BenchmarkRunSpec, mut seen: Observed, now: Time) -> Observed {
    for _ in 0..5 {
        match plan(spec, &seen, now).as_slice() {
            [Action::WriteStatus(status)] => seen.run.status = (**status).clone(),
            _ => return seen,
        }
    }
    panic!("never settles");
}

/// All children of the attempt under way, as they are once created.
fn create_all(seen: &mut Observed, suspended: bool) {
    let resolved = seen.run.status.resolved.clone().unwrap();
    let attempt = seen.run.status.attempt.as_ref().unwrap().number;
    let build = Build { run: &seen.run.clone(), resolved: &resolved, attempt, excluded_nodes: &[] };
    let mut groups = resolved.workers.iter();
    for id in build.ids() {
        if id.kind == ChildKind::Job {
            seen.jobs.push(JobSeen {
                name: id.name,
                group: groups.next().unwrap().name.clone(),
                attempt,
                suspended,
                queue: None,
                deleting: false,
                end: None,
            });
        } else {
            seen.others.insert(id);
        }
    }
}

/// A run whose two workers, `a` and `b`, have been let go at the epoch.
fn released(spec: &BenchmarkRunSpec) -> Observed {
    let mut seen = settled(spec, seen(BenchmarkRunStatus::default()), epoch());
    create_all(&mut seen, false);
    settled(spec, seen, epoch())
}

/// The same, with pods in these words; `running` is what the status then says.
fn with_pods(spec: &BenchmarkRunSpec, ran: bool, a: &str, b: &str) -> Observed {
    let mut seen = released(spec);
    if ran {
        seen.pods = vec![pod("a", 0, 1, "running", epoch()), pod("b", 0, 1, "running", epoch())];
        seen = settled(spec, seen, epoch());
        assert_eq!(seen.run.status.phase, Phase::Running);
    }
    let pods = [("a", a), ("b", b)].into_iter().filter(|(_, words)| *words != "none");
    seen.pods = pods.map(|(group, words)| pod(group, 0, 1, words, epoch())).collect();
    seen
}

#[test]
fn the_way_of_a_run_that_goes_well() {
    let spec = request();
    let mut seen = seen(BenchmarkRunStatus::default());
    let now = epoch();
    let step = |seen: &mut Observed, now: Time, expected: &str| {
        let actions = plan(&spec, seen, now);
        assert_eq!(words(&actions, now), expected);
        if let [Action::WriteStatus(status)] = actions.as_slice() {
            seen.run.status = (**status).clone();
        }
    };
    step(&mut seen, now, "Starting Starting #1 creating");
    step(
        &mut seen,
        now,
        "create ConfigMap, create Service, create NetworkPolicy, create Job, create Job, wake +90",
    );
    create_all(&mut seen, true);
    step(&mut seen, now.plus(1), "Starting Starting #1 released");
    step(&mut seen, now.plus(1), "release, release, wake +599");
    seen.jobs.iter_mut().for_each(|job| job.suspended = false);
    step(&mut seen, now.plus(1), "wake +599");
    seen.pods = vec![pod("a", 0, 1, "running", now)];
    step(&mut seen, now.plus(2), "wake +598");
    seen.pods.push(pod("b", 0, 1, "running", now));
    step(&mut seen, now.plus(3), "Running WorkersRunning #1 running");
    step(&mut seen, now.plus(3), "poll a-0-1, wake +30");
    let answer =
        |progress: Progress, after: i64| Some(Answer { attempt: 1, at: now.plus(after), progress });
    let progress = Progress {
        version: 1,
        pass: Stage::Golden,
        step: 12,
        steps: 100,
        loss: Some(2.5),
        eta_seconds: Some(88),
        golden: Some(GoldenUse::Made),
    };
    seen.progress = answer(progress.clone(), 4);
    step(&mut seen, now.plus(4), "Running WorkersRunning #1 running");
    assert_eq!(seen.run.status.progress.as_ref().unwrap().summary, "Golden 12/100");
    assert!(seen.run.status.is(ConditionType::GoldenReady));
    // Other numbers within thirty seconds are not written; the same ones never.
    seen.progress = answer(Progress { step: 13, ..progress.clone() }, 33);
    step(&mut seen, now.plus(33), "wake +30");
    step(&mut seen, now.plus(34), "Running WorkersRunning #1 running");
    seen.progress = answer(Progress { step: 13, ..progress }, 80);
    step(&mut seen, now.plus(80), "wake +30");
    common::say(&mut seen.pods[0], "exit 0 Pass Agrees");
    step(&mut seen, now.plus(90), "Complete Agrees Pass exit 0");
    let deleted = "delete Job, delete Job, delete ConfigMap, delete Service, delete NetworkPolicy";
    step(&mut seen, now.plus(90), deleted);
    seen.jobs.iter_mut().for_each(|job| job.deleting = true);
    seen.others.clear();
    step(&mut seen, now.plus(90), "");
    seen.jobs.clear();
    seen.pods.clear();
    step(&mut seen, now.plus(9_000_000), "");
    let status = &seen.run.status;
    let conditions = status.conditions.iter().map(|condition| {
        let holds = condition.status == ConditionStatus::True;
        format!("{:?}={holds} {}", condition.type_, condition.reason)
    });
    assert_eq!(
        conditions.collect::<Vec<_>>(),
        [
            "Resolved=true Accepted",
            "Admitted=true SlotGranted",
            "GoldenReady=true GoldenMade",
            "Running=false Finished",
            "Validated=true Compared",
            "Complete=true Finished",
        ]
    );
    assert_eq!(status.subject, "bert-squad/tiny");
}

/// Rows: whether all workers had run, seconds since the start, the pods of `a` (which leads) and
/// `b`, the failure rules (with one restart), and the status that is written (`-` if none is).
type Row = (bool, i64, &'static str, &'static str, &'static str, &'static str);

const ENDINGS: &[Row] = &[
    // The leader's verdict stands, whatever the others do, and no rule overrules it.
    (true, 60, "exit 0 Pass Agrees", "running", "", "Complete Agrees Pass exit 0"),
    (true, 60, "exit 0 Pass Agrees", "oom", "", "Complete Agrees Pass exit 0"),
    (true, 60, "exit 1 Fail Diverged", "exit 0 -", "", "Complete Diverged Fail exit 1"),
    (true, 60, "exit 1 Fail Diverged", "running", "Retry on 3", "Complete Diverged Fail exit 1"),
    (true, 60, "exit 5 Invalid Empty", "running", "Retry on 5", "Complete Empty Invalid exit 5"),
    (true, 60, "exit 4 Skipped NoGpu", "running", "", "Complete NoGpu Skipped exit 4"),
    (true, 60, "exit 3 Inconclusive Noise", "running", "", "Complete Noise Inconclusive exit 3"),
    (true, 60, "exit 1 Pass Slow", "running", "", "Running WorkersRunning #1 running ending"),
    (false, 5, "exit 0 Pass Agrees", "none", "", "Complete Agrees Pass exit 0"),
    (true, 9999, "exit 0 Pass Agrees", "running", "", "Complete Agrees Pass exit 0"),
    // Rules about verdicts that are not final.
    (
        true,
        60,
        "exit 3 Inconclusive Noise",
        "running",
        "Retry on 3",
        "Starting Retrying #2 creating",
    ),
    (
        true,
        60,
        "exit 4 Skipped NoGpu",
        "running",
        "FailRun on 4",
        "Complete WorkerFailed Fail exit 1",
    ),
    (
        true,
        60,
        "exit 3 Inconclusive UploadFailed",
        "running",
        "Ignore on UploadFailed",
        "Starting Retrying #2 creating",
    ),
    // What needs no message: named at once.
    (true, 60, "oom", "running", "", "Complete OutOfMemory Inconclusive exit 3"),
    (true, 60, "oom golden", "running", "", "Complete GoldenOutOfMemory Inconclusive exit 3"),
    (true, 60, "oom told", "running", "", "Complete GoldenOutOfMemory Inconclusive exit 3"),
    (true, 60, "running", "oom", "", "Complete OutOfMemory Inconclusive exit 3"),
    (true, 60, "running", "evicted", "", "Complete Evicted Inconclusive exit 3"),
    (true, 60, "running", "preempted", "", "Complete Preempted Inconclusive exit 3"),
    (true, 60, "nodelost", "running", "", "Complete NodeLost Inconclusive exit 3"),
    (false, 60, "running", "devicelost", "", "Complete DeviceLost Inconclusive exit 3"),
    (false, 60, "running", "starterror", "", "Complete ContainerNotStarted Inconclusive exit 3"),
    (
        true,
        60,
        "exit 3 - PreflightFailed/RdmaMissing",
        "running",
        "",
        "Complete PreflightFailed/RdmaMissing Inconclusive exit 3",
    ),
    (
        true,
        60,
        "exit 3 - GoldenOutOfMemory",
        "running",
        "",
        "Complete GoldenOutOfMemory Inconclusive exit 3",
    ),
    (
        true,
        60,
        "exit 2 - ConfigurationRejected",
        "running",
        "Retry on 2",
        "Complete ConfigurationRejected Invalid exit 5",
    ),
    // What may follow from another worker's end: first noted, then named.
    (true, 60, "killed 137", "running", "", "Running WorkersRunning #1 running ending"),
    (true, 60, "killed 0", "running", "", "Running WorkersRunning #1 running ending"),
    (true, 60, "cut 70", "running", "", "Running WorkersRunning #1 running ending"),
    (true, 60, "running", "exit 3 - PeerLost", "", "Running WorkersRunning #1 running ending"),
    (true, 60, "running", "exit 1 Fail Diverged", "", "Running WorkersRunning #1 running ending"),
    (true, 60, "running", "deleted", "", "Running WorkersRunning #1 running ending"),
    (true, 60, "running", "exit 0 -", "", "-"),
    // With both, the one that follows is not the one to name.
    (true, 60, "exit 3 - PeerLost", "oom", "", "Complete OutOfMemory Inconclusive exit 3"),
    (true, 60, "exit 3 - PeerLost", "nodelost", "", "Complete NodeLost Inconclusive exit 3"),
    (true, 60, "deleted", "evicted", "", "Complete Evicted Inconclusive exit 3"),
    // Rules about failures.
    (true, 60, "oom", "running", "Retry on OutOfMemory", "Starting Retrying #2 creating"),
    (true, 60, "oom", "running", "Retry on 137", "Starting Retrying #2 creating"),
    (true, 60, "oom", "running", "FailRun on OutOfMemory", "Complete OutOfMemory Fail exit 1"),
    (true, 60, "oom", "running", "Retry on NodeLost", "Complete OutOfMemory Inconclusive exit 3"),
    (
        true,
        60,
        "oom",
        "running",
        "Inconclusive on 137; Retry on OutOfMemory",
        "Complete OutOfMemory Inconclusive exit 3",
    ),
    (
        true,
        60,
        "running",
        "nodelost",
        "RetryExcludingNode on NodeLost",
        "Starting Retrying #2 creating not on node-b",
    ),
    (
        true,
        60,
        "exit 3 - PreflightFailed/RdmaMissing",
        "running",
        "RetryExcludingNode on PreflightFailed",
        "Starting Retrying #2 creating not on node-a",
    ),
    (true, 60, "running", "evicted", "Ignore on Evicted", "Starting Retrying #2 creating"),
    // On the way up.
    (false, 60, "running", "pending", "", "-"),
    (false, 60, "running", "image", "", "Starting ImagePullFailed #1 released"),
    (false, 60, "running", "notstarted", "", "Starting ContainerNotStarted #1 released"),
    (false, 60, "unschedulable", "running", "", "Starting Unschedulable #1 released"),
    (false, 60, "image", "unschedulable", "", "Starting ImagePullFailed #1 released"),
    (false, 60, "running", "image hopeless", "", "Complete ImagePullFailed Inconclusive exit 3"),
    (false, 300, "running", "image", "", "Complete ImagePullFailed Inconclusive exit 3"),
    (false, 300, "running", "notstarted", "", "Complete ContainerNotStarted Inconclusive exit 3"),
    (false, 599, "unschedulable", "running", "", "Starting Unschedulable #1 released"),
    (false, 600, "unschedulable", "running", "", "Complete Unschedulable Inconclusive exit 3"),
    (false, 600, "running", "pending", "", "Complete PendingDeadlineExceeded Inconclusive exit 3"),
    (false, 600, "running", "none", "", "Complete PendingDeadlineExceeded Inconclusive exit 3"),
    (
        false,
        600,
        "running",
        "pending",
        "Retry on PendingDeadlineExceeded",
        "Starting Retrying #2 creating",
    ),
    (false, 600, "running", "running", "", "Complete PendingDeadlineExceeded Inconclusive exit 3"),
    (false, 599, "running", "running", "", "Running WorkersRunning #1 running"),
    // Too long.
    (true, 3599, "running", "running", "", "-"),
    (true, 3600, "running", "running", "", "Complete RunDeadlineExceeded Inconclusive exit 3"),
    (
        true,
        3600,
        "running",
        "running",
        "Retry on RunDeadlineExceeded",
        "Complete RunDeadlineExceeded Inconclusive exit 3",
    ),
    (
        true,
        3600,
        "running",
        "running",
        "FailRun on RunDeadlineExceeded",
        "Complete RunDeadlineExceeded Fail exit 1",
    ),
];

#[test]
fn endings() {
    for &(ran, after, a, b, rule, expected) in ENDINGS {
        let mut spec = request();
        spec.failure_policy = Some(rules(rule, 1));
        let seen = with_pods(&spec, ran, a, b);
        let now = epoch().plus(after);
        let actions = plan(&spec, &seen, now);
        let row = format!("ran {ran}, +{after}, a: {a}, b: {b}, rules: {rule:?}");
        match actions.as_slice() {
            [Action::WriteStatus(_)] => assert_eq!(words(&actions, now), expected, "{row}"),
            _ => assert_eq!("-", expected, "{row}: {}", words(&actions, now)),
        }
    }
}

/// The scheduler's words change with every node; they are written when the reason is.
#[test]
fn a_reason_that_lasts_is_written_once() {
    let spec = request();
    let mut seen = with_pods(&spec, false, "unschedulable", "running");
    let now = epoch().plus(60);
    seen.run.status = written(&plan(&spec, &seen, now));
    assert!(seen.run.status.message.contains("0/2 nodes"), "{}", seen.run.status.message);
    seen.pods[0].waiting = Some(Waiting::Unschedulable { message: "0/3 nodes".into() });
    assert_eq!(words(&plan(&spec, &seen, now), now), "wake +540");
}

/// What follows from another end is named once the others have had their time.
#[test]
fn consequences_are_named_after_a_moment() {
    for (a, b, expected) in [
        ("killed 137", "running", "Complete RunnerLost Inconclusive exit 3"),
        ("killed 0", "running", "Complete RunnerLost Inconclusive exit 3"),
        ("cut 70", "running", "Complete RunnerLost Inconclusive exit 3"),
        ("running", "exit 3 - PeerLost", "Complete PeerLost Inconclusive exit 3"),
        ("running", "exit 70 - InternalError", "Complete InternalError Inconclusive exit 3"),
        ("exit 1 Pass Slow", "running", "Complete ResultContradicts Inconclusive exit 3"),
        ("running", "exit 1 Fail Diverged", "Complete WorkerFailed Inconclusive exit 3"),
        ("running", "deleted", "Complete ChildrenDeleted Inconclusive exit 3"),
        ("running", "exit 3 - Interrupted", "Complete Interrupted Inconclusive exit 3"),
    ] {
        let spec = request();
        let mut seen = with_pods(&spec, true, a, b);
        let now = epoch().plus(60);
        seen.run.status = written(&plan(&spec, &seen, now));
        let actions = plan(&spec, &seen, now.plus(14));
        assert!(words(&actions, now.plus(14)).ends_with("wake +1"), "{a} {b}");
        let actions = plan(&spec, &seen, now.plus(15));
        assert_eq!(words(&actions, now), expected, "{a} {b}");
        // In the meantime the cause may show.
        common::say(&mut seen.pods[1], "oom");
        let actions = plan(&spec, &seen, now.plus(3));
        assert_eq!(words(&actions, now), "Complete OutOfMemory Inconclusive exit 3", "{a} {b}");
    }
}

/// A worker only knows that it was told to stop; the pod shows by whom.
#[test]
fn what_stopped_a_worker_is_named_where_it_is_known() {
    for (also, expected) in [("deleted", "ChildrenDeleted"), ("evicted", "Evicted")] {
        let spec = request();
        let mut seen = with_pods(&spec, true, "running", also);
        common::say(&mut seen.pods[1], "exit 3 - Interrupted");
        let now = epoch().plus(60);
        seen.run.status = written(&plan(&spec, &seen, now));
        if !seen.run.status.is_complete() {
            seen.run.status = written(&plan(&spec, &seen, now.plus(15)));
        }
        assert_eq!(seen.run.status.reason, expected);
    }
}

type Edit = fn(&mut Observed, Option<JobEnd>);

#[test]
fn jobs_that_end_or_vanish_without_a_word() {
    let spec = request();
    let failed = |reason: &str| JobEnd::Failed { reason: reason.into(), message: "m".into() };
    let end: Edit = |seen, end| seen.jobs[0].end = end;
    let rows: [(Edit, Option<JobEnd>, &str); 5] = [
        (|seen, _| seen.jobs.truncate(1), None, "ChildrenDeleted"),
        (|seen, _| seen.jobs[1].deleting = true, None, "ChildrenDeleted"),
        (end, Some(failed("BackoffLimitExceeded")), "RunnerLost"),
        (end, Some(failed("DeadlineExceeded")), "RunDeadlineExceeded"),
        (end, Some(JobEnd::Complete), "RunnerLost"),
    ];
    for (edit, end, reason) in rows {
        let mut seen = with_pods(&spec, true, "none", "running");
        edit(&mut seen, end);
        let now = epoch().plus(60);
        seen.run.status = written(&plan(&spec, &seen, now));
        if !seen.run.status.is_complete() {
            seen.run.status = written(&plan(&spec, &seen, now.plus(15)));
        }
        assert_eq!(seen.run.status.reason, reason);
    }
}

#[test]
fn another_attempt_has_new_names_a_pause_and_an_end() {
    let mut spec = request();
    spec.failure_policy = Some(rules("RetryExcludingNode on NodeLost; Retry on Evicted", 2));
    let mut seen = with_pods(&spec, true, "running", "nodelost");
    let now = epoch().plus(60);
    seen.run.status = written(&plan(&spec, &seen, now));
    let old: Vec<_> = seen.jobs.iter().map(|job| job.name.clone()).collect();
    assert_eq!(
        words(&plan(&spec, &seen, now), now),
        "delete Job, delete Job, delete ConfigMap, wake +10"
    );
    seen.jobs.clear();
    seen.others.retain(|child| child.kind != ChildKind::ConfigMap);
    seen.pods.retain(|pod| pod.disruption.is_some());
    let now = now.plus(10);
    let actions = plan(&spec, &seen, now);
    assert_eq!(words(&actions, now), "create ConfigMap, create Job, create Job, wake +80");
    for action in &actions {
        if let Action::Create(warpforge_operator_controller::children::Child::Job(job)) = action {
            assert!(!old.contains(job.metadata.name.as_ref().unwrap()));
            let affinity = serde_json::to_string(&job.spec).unwrap();
            assert!(affinity.contains(r#""operator":"NotIn","values":["node-b"]"#), "{affinity}");
        }
    }
    // The lost node's pod stays, and does not hold up the others.
    create_all(&mut seen, true);
    seen.run.status = written(&plan(&spec, &seen, now));
    assert_eq!(words(&plan(&spec, &seen, now), now), "release, release, wake +600");
    // Twice more, and that was the last.
    for (number, expected) in
        [(2, "Starting Retrying #3 creating"), (3, "Complete Evicted Inconclusive exit 3")]
    {
        seen.pods = vec![pod("a", 0, number, "evicted", now)];
        let actions = plan(&spec, &seen, now);
        assert!(words(&actions, now).starts_with(expected), "{}", words(&actions, now));
        seen.run.status = written(&actions);
        if !seen.run.status.is_complete() {
            seen.jobs.clear();
            let later = now.plus(600);
            create_all(&mut seen, true);
            seen.run.status = written(&plan(&spec, &seen, later));
        }
    }
    assert!(seen.run.status.message.contains("After 2 restarts"), "{}", seen.run.status.message);
    let numbers: Vec<_> = seen.run.status.attempts.iter().map(|ended| ended.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn pods_that_hold_devices_are_waited_for_and_not_for_ever() {
    let mut spec = request();
    spec.failure_policy = Some(rules("Retry on OutOfMemory", 1));
    let mut seen = with_pods(&spec, true, "oom", "running");
    seen.run.status = written(&plan(&spec, &seen, epoch()));
    seen.jobs.clear();
    create_all(&mut seen, true);
    let (early, late) = (epoch().plus(89), epoch().plus(90));
    assert!(!matches!(plan(&spec, &seen, early)[0], Action::WriteStatus(_)));
    assert_eq!(words(&plan(&spec, &seen, late), late), "Starting Starting #2 released");
    common::say(&mut seen.pods[1], "killed 143");
    assert_eq!(words(&plan(&spec, &seen, early), early), "Starting Starting #2 released");
}

#[test]
fn waiting_for_a_profile_and_being_refused() {
    let spec = request();
    let mut seen = seen(BenchmarkRunStatus::default());
    seen.profile = None;
    let now = epoch().plus(5);
    seen.run.status = written(&plan(&spec, &seen, now));
    assert_eq!(seen.run.status.reason, "WaitingForProfile");
    assert_eq!(words(&plan(&spec, &seen, now), now), "wake +1795");
    let late = epoch().plus(1800);
    let end = words(&plan(&spec, &seen, late), late);
    assert_eq!(end, "Complete ProfileNotFound Invalid exit 5");
    // It comes in time.
    seen.profile = Some(profile());
    assert_eq!(words(&plan(&spec, &seen, now), now), "Starting Starting #1 creating");
    // It allows less than is asked for.
    let mut spec = spec;
    spec.workers[0].image = Some("elsewhere.example.net/x".into());
    spec.workers[1].gpus_per_worker = Some(64);
    let status = written(&plan(&spec, &seen, now));
    assert_eq!((status.reason.as_str(), status.exit_code), ("Refused", Some(5)));
    for part in ["workers[a].image", "allowed.images", "workers[b].gpusPerWorker", "limit of 16"] {
        assert!(status.message.contains(part), "{}", status.message);
    }
}

#[test]
fn a_snapshot_outlives_its_profile() {
    let spec = request();
    let mut seen = with_pods(&spec, true, "running", "running");
    let resolved = seen.run.status.resolved.clone();
    for other in [None, Some(profile())] {
        seen.profile = other.map(|mut profile| {
            profile.spec.defaults.run_deadline_seconds = 10;
            profile
        });
        let now = epoch().plus(60);
        assert_eq!(words(&plan(&spec, &seen, now), now), "poll a-0-1, wake +30");
        assert_eq!(seen.run.status.resolved, resolved);
    }
}

#[test]
fn slots_are_given_by_age() {
    let claim = |created: i64, uid: &str, holds| Claim {
        created: epoch().plus(created),
        uid: uid.into(),
        holds,
    };
    // Rows: slots, other claims (our own is of second 0, its UID begins with 8), whether it is let in.
    let rows: &[(i32, &[Claim], bool)] = &[
        (1, &[], true),
        (1, &[claim(5, "x", true)], false),
        (1, &[claim(-5, "x", false)], false),
        (1, &[claim(5, "x", false)], true),
        (1, &[claim(0, "7", false)], false),
        (1, &[claim(0, "9", false)], true),
        (2, &[claim(5, "x", true)], true),
        (2, &[claim(5, "x", true), claim(-5, "y", false)], false),
        (2, &[claim(5, "x", true), claim(6, "y", true)], false),
        (2, &[claim(-5, "x", false), claim(6, "y", false)], true),
        (3, &[claim(-5, "x", false), claim(6, "y", true)], true),
    ];
    let spec = request();
    for (max, claims, admitted) in rows {
        let mut seen = seen(BenchmarkRunStatus::default());
        let mut shared = profile();
        shared.spec.concurrency = Some(slots(*max));
        seen.profile = Some(shared);
        seen.claims = claims.to_vec();
        let expected =
            if *admitted { "Starting Starting #1 creating" } else { "Queued WaitingForSlot" };
        let actions = plan(&spec, &seen, epoch());
        assert_eq!(words(&actions, epoch()), expected, "{max} {claims:?}");
        if !admitted {
            seen.run.status = written(&actions);
            assert_eq!(words(&plan(&spec, &seen, epoch()), epoch()), "wake +7200");
            let late = epoch().plus(7200);
            let end = "Complete QueueDeadlineExceeded Inconclusive exit 3";
            assert_eq!(words(&plan(&spec, &seen, late), late), end);
            seen.claims.clear();
            let let_in = words(&plan(&spec, &seen, epoch()), epoch());
            assert_eq!(let_in, "Starting Starting #1 creating");
        }
    }
}

#[test]
fn suspension_stops_workers_and_a_new_attempt_follows() {
    let mut spec = request();
    let mut seen = with_pods(&spec, true, "running", "running");
    let now = epoch().plus(60);
    spec.suspend = true;
    seen.run.generation = 2;
    seen.run.status = written(&plan(&spec, &seen, now));
    let status = &seen.run.status;
    assert_eq!((status.phase, status.observed_generation), (Phase::Suspended, 2));
    assert!(!status.is(ConditionType::Admitted) && status.started_at.is_none());
    // The Service and the NetworkPolicy stay for the next attempt.
    assert_eq!(words(&plan(&spec, &seen, now), now), "delete Job, delete Job, delete ConfigMap");
    seen.jobs.clear();
    seen.pods.clear();
    seen.others.retain(|child| child.kind != ChildKind::ConfigMap);
    assert_eq!(words(&plan(&spec, &seen, now.plus(9_000_000)), now), "");
    spec.suspend = false;
    seen.run.generation = 3;
    let now = now.plus(9_000_000);
    seen.run.status = written(&plan(&spec, &seen, now));
    assert_eq!(seen.run.status.restarts, 0);
    assert_eq!(
        words(&plan(&spec, &seen, now), now),
        "create ConfigMap, create Job, create Job, wake +90"
    );
    // A verdict that was already there counts all the same.
    let mut ended = with_pods(&request(), true, "exit 1 Fail Diverged", "running");
    ended.run.generation = 2;
    spec.suspend = true;
    let end = words(&plan(&spec, &ended, now), now);
    assert_eq!(end, "Complete Diverged Fail exit 1");
    // From the beginning, it is only held back.
    let early = plan(&spec, &common::seen(BenchmarkRunStatus::default()), now);
    assert_eq!(words(&early, now), "Suspended Suspended");
}

#[test]
fn finished_runs_go_by_their_verdict() {
    let mut spec = request();
    let ttl = |passed, failed| Some(Ttl { passed, failed });
    // Rows: how the leader ends, the run's TTL, the profile's, and seconds until it is deleted.
    let rows = [
        ("exit 0 Pass Agrees", ttl(Some(10), Some(20)), None, Some(10)),
        ("exit 1 Fail Diverged", ttl(Some(10), Some(20)), None, Some(20)),
        ("exit 3 Inconclusive Noise", ttl(Some(10), None), ttl(None, Some(30)), Some(30)),
        ("exit 0 Pass Agrees", None, ttl(Some(5), None), Some(5)),
        ("exit 1 Fail Diverged", None, ttl(Some(5), None), None),
        ("exit 0 Pass Agrees", ttl(Some(0), None), None, Some(0)),
        ("oom", None, None, None),
    ];
    for (how, own, default, expected) in rows {
        spec.ttl_seconds_after_finished = own;
        let mut seen = seen(BenchmarkRunStatus::default());
        seen.profile.as_mut().unwrap().spec.defaults.ttl_seconds_after_finished = default;
        seen = settled(&spec, seen, epoch());
        seen.pods = vec![pod("a", 0, 1, how, epoch())];
        let now = epoch().plus(60);
        seen.run.status = written(&plan(&spec, &seen, now));
        seen.pods.clear();
        let expected_words = match expected {
            None => String::new(),
            Some(0) => "delete run".to_owned(),
            Some(seconds) => format!("wake +{seconds}"),
        };
        assert_eq!(words(&plan(&spec, &seen, now), now), expected_words, "{how}");
        let later = now.plus(expected.unwrap_or(9_000_000));
        let expected_words = if expected.is_some() { "delete run" } else { "" };
        assert_eq!(words(&plan(&spec, &seen, later), later), expected_words, "{how}");
        // It may still be changed, and that is noted once.
        seen.run.generation = 2;
        spec.ttl_seconds_after_finished = ttl(Some(500), Some(500));
        seen.run.status = written(&plan(&spec, &seen, now));
        assert_eq!(words(&plan(&spec, &seen, now), now), "wake +500");
    }
}

#[test]
fn deletion_stops_the_workers_and_writes_nothing() {
    let spec = request();
    for (ran, a, b) in
        [(true, "running", "running"), (false, "pending", "none"), (true, "oom", "oom")]
    {
        let mut seen = with_pods(&spec, ran, a, b);
        seen.run.deleting = true;
        assert_eq!(
            words(&plan(&spec, &seen, epoch()), epoch()),
            "delete Job, delete Job, delete ConfigMap, delete Service, delete NetworkPolicy"
        );
    }
}

#[test]
fn what_pods_need_is_made_again_and_workers_are_not() {
    let spec = request();
    let mut seen = with_pods(&spec, true, "running", "running");
    seen.others.clear();
    let now = epoch().plus(60);
    let expected = "create ConfigMap, create Service, create NetworkPolicy, poll a-0-1, wake +30";
    assert_eq!(words(&plan(&spec, &seen, now), now), expected);
    seen.jobs.clear();
    let actions = plan(&spec, &seen, now);
    assert_eq!(words(&actions, now), "Running WorkersRunning #1 running ending");
}

/// In a namespace with a queue named `default`, Kueue takes in Jobs that name none.
#[test]
fn kueue_may_take_in_what_names_no_queue() {
    let taken = |spec: &BenchmarkRunSpec| {
        let mut seen = settled(spec, seen(BenchmarkRunStatus::default()), epoch());
        create_all(&mut seen, true);
        seen.jobs.iter_mut().for_each(|job| job.queue = Some("default".into()));
        seen
    };
    let mut spec = request();
    let two = taken(&spec);
    let expected = "Complete QueuedApart Inconclusive exit 3";
    assert_eq!(words(&plan(&spec, &two, epoch()), epoch()), expected);
    spec.workers.truncate(1);
    let mut one = settled(&spec, taken(&spec), epoch());
    assert_eq!(one.run.status.reason, "WaitingForQueue");
    assert_eq!(one.run.status.started_at, None, "time in the queue does not count");
    assert!(!one.run.status.is(ConditionType::Admitted) && holds_slot(&one.run.status));
    one.jobs[0].suspended = false;
    let late = epoch().plus(9999);
    one.run.status = written(&plan(&spec, &one, late));
    assert_eq!(one.run.status.started_at, Some(late));
    assert!(one.run.status.is(ConditionType::Admitted));
    one.jobs[0].suspended = true;
    let expected = "Complete Preempted Inconclusive exit 3";
    assert_eq!(words(&plan(&spec, &one, late), late), expected);
}

/// With a queue, Kueue lets the workers go: all of them or none.
#[test]
fn kueue_lets_workers_go() {
    let mut spec = request();
    spec.queue_name = Some("lab".into());
    let mut allowing = profile();
    allowing.spec.allowed.queues = vec!["lab".into()];
    let begin = |spec: &BenchmarkRunSpec| {
        let mut seen = seen(BenchmarkRunStatus::default());
        seen.profile = Some(allowing.clone());
        let mut seen = settled(spec, seen, epoch());
        create_all(&mut seen, spec.workers.len() == 1);
        settled(spec, seen, epoch())
    };
    let pods = |words: [&str; 2]| -> Vec<PodSeen> {
        vec![pod("a", 0, 1, words[0], epoch()), pod("b", 0, 1, words[1], epoch())]
    };
    // Two groups: the gates of their pods.
    let mut two = begin(&spec);
    assert_eq!(two.run.status.reason, "WaitingForQueue");
    assert_eq!(two.run.status.phase, Phase::Queued);
    assert!(!two.run.status.is(ConditionType::Admitted));
    let late = epoch().plus(604_799);
    two.pods = pods(["gated", "gated"]);
    assert_eq!(words(&plan(&spec, &two, late), late), "wake +1");
    two.pods = pods(["running", "gated"]);
    assert_eq!(words(&plan(&spec, &two, late), late), "wake +1");
    two.pods = pods(["running", "pending"]);
    two.run.status = written(&plan(&spec, &two, late));
    assert_eq!(two.run.status.started_at, Some(late), "time in the queue does not count");
    assert!(two.run.status.is(ConditionType::Admitted));
    assert_eq!(words(&plan(&spec, &two, late), late), "wake +600");
    // One group: its Job.
    spec.workers.truncate(1);
    let mut one = begin(&spec);
    assert_eq!(words(&plan(&spec, &one, epoch()), epoch()), "wake +90", "not ours to release");
    let end = epoch().plus(604_800);
    let expected = "Complete QueueDeadlineExceeded Inconclusive exit 3";
    assert_eq!(words(&plan(&spec, &one, end), end), expected);
    one.jobs[0].suspended = false;
    one.run.status = written(&plan(&spec, &one, late));
    assert_eq!(one.run.status.attempt.as_ref().unwrap().released_at, Some(late));
    one.jobs[0].suspended = true;
    let expected = "Complete Preempted Inconclusive exit 3";
    assert_eq!(words(&plan(&spec, &one, late), late), expected);
}
