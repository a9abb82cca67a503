//! From any state and through any sequence of faults: a run always ends, nothing is made twice or
//! after the end, a transition is written once, and nothing is written when nothing changes.

mod common;

use common::world::World;
use common::{profile, request, rules, say, slots};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpforge_operator_api::BenchmarkRunSpec;
use warpforge_operator_api::policy::Ttl;
use warpforge_operator_api::status::Phase;
use warpforge_operator_controller::observed::{ChildId, ChildKind, ProfileSeen};
use warpforge_operator_controller::plan::Action;
use warpforge_tests::campaign;

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    /// The operator looks at a run and does so many of its actions before it stops.
    Reconcile {
        run: usize,
        most: usize,
    },
    /// The operator's cache catches up.
    Refresh,
    /// The rest of the cluster goes on.
    Tick,
    /// Time passes.
    Pass {
        seconds: i64,
    },
    /// Something happens to a pod.
    Pod {
        run: usize,
        pod: usize,
        words: &'static str,
    },
    /// Someone deletes a Job, or another child.
    Delete {
        run: usize,
        child: usize,
    },
    Suspend {
        run: usize,
        suspend: bool,
    },
    /// The administrator edits or deletes the profile, or makes it again.
    Profile {
        deadline: Option<i64>,
    },
}

const PODS: &[&str] = &[
    "running",
    "oom",
    "oom golden",
    "starterror",
    "evicted",
    "preempted",
    "nodelost",
    "devicelost",
    "deleted",
    "image",
    "image hopeless",
    "notstarted",
    "unschedulable",
    "killed 137",
    "killed 0",
    "cut 70",
    "exit 0 Pass Agrees",
    "exit 0 -",
    "exit 1 Fail ValueMismatch",
    "exit 2 - ConfigurationRejected",
    "exit 3 Inconclusive UploadFailed",
    "exit 3 - PeerLost",
    "exit 4 Skipped DataMissing",
    "exit 5 Invalid NothingCompared",
    "exit 70 - InternalError",
    "exit 3 - PreflightFailed/RdmaMissing",
];

fn step(runs: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..runs, prop_oneof![4 => Just(99), 1 => 0..4_usize])
            .prop_map(|(run, most)| Step::Reconcile { run, most }),
        6 => Just(Step::Refresh),
        6 => Just(Step::Tick),
        3 => prop_oneof![1..40_i64, 100..900_i64, Just(4000)]
            .prop_map(|seconds| Step::Pass { seconds }),
        4 => (0..runs, 0..4_usize, 0..PODS.len())
            .prop_map(|(run, pod, words)| Step::Pod { run, pod, words: PODS[words] }),
        1 => (0..runs, 0..6_usize).prop_map(|(run, child)| Step::Delete { run, child }),
        1 => (0..runs, any::<bool>()).prop_map(|(run, suspend)| Step::Suspend { run, suspend }),
        1 => proptest::option::of(60..600_i64).prop_map(|deadline| Step::Profile { deadline }),
    ]
}

fn apply(world: &mut World, step: &Step) {
    match *step {
        Step::Reconcile { run, most } => {
            world.reconcile(run, most);
        }
        Step::Refresh => world.refresh(),
        Step::Tick => world.tick(),
        Step::Pass { seconds } => world.now = world.now.plus(seconds),
        Step::Pod { run, pod, words } => {
            let pods = &mut world.runs[run].there.pods;
            let count = pods.len();
            // What has ended stays as it ended.
            if let Some(pod) = pods.get_mut(pod % count.max(1)).filter(|pod| pod.end.is_none()) {
                say(pod, words);
            }
        }
        Step::Delete { run, child } => {
            let run = &mut world.runs[run];
            let jobs = run.there.jobs.keys().map(|name| ChildId::new(ChildKind::Job, name.clone()));
            let all: Vec<_> = jobs.chain(run.there.others.iter().cloned()).collect();
            if let Some(child) = all.get(child) {
                run.delete(child);
            }
        }
        Step::Suspend { run, suspend } => world.edit(run, |spec| spec.suspend = suspend),
        Step::Profile { deadline } => {
            let concurrency = world.profile.as_ref().and_then(|p| p.spec.concurrency.clone());
            world.profile = deadline.map(|deadline| {
                let mut other = profile();
                other.spec.defaults.pending_deadline_seconds = deadline;
                other.spec.concurrency = concurrency.or(Some(slots(1)));
                other
            });
        }
    }
}

/// Lets the operator work until it has nothing more to do at this time, and checks that this comes
/// soon and that doing it again does nothing.
fn settle(world: &mut World) {
    for _ in 0..60 {
        world.refresh();
        world.tick();
        world.refresh();
        let before: usize = world.runs.iter().map(|run| run.writes).sum();
        let busy = (0..world.runs.len()).any(|run| {
            let plan = world.reconcile(run, 99);
            plan.iter().any(|action| !matches!(action, Action::Wake(_)))
        });
        let after: usize = world.runs.iter().map(|run| run.writes).sum();
        if !busy && after == before {
            return;
        }
    }
    panic!("never settles: {:?}", world.plan(0));
}

/// Nothing more goes wrong and nobody helps: deadlines alone must end every run.
fn drain(world: &mut World) {
    let mut missing = profile();
    missing.spec.concurrency = Some(slots(1));
    world.profile.get_or_insert(missing);
    for run in 0..world.runs.len() {
        world.edit(run, |spec| spec.suspend = false);
    }
    for _ in 0..4000 {
        settle(world);
        let waiting: Vec<_> = (0..world.runs.len())
            .filter(|run| !world.runs[*run].gone && !world.status(*run).is_complete())
            .collect();
        if waiting.is_empty() {
            return;
        }
        let wakes = waiting.iter().map(|run| {
            let plan = world.plan(*run);
            let wake = plan.iter().find_map(|action| match action {
                Action::Wake(at) => Some(*at),
                _ => None,
            });
            wake.unwrap_or_else(|| panic!("waits for ever: {:#?}", world.status(*run)))
        });
        world.now = wakes.min().unwrap();
    }
    panic!("never ends: {:#?}", world.status(0));
}

fn finished(world: &mut World) {
    // The rest of the cluster takes away what was deleted.
    (0..3).for_each(|_| world.tick());
    for run in 0..world.runs.len() {
        let (there, gone) = (&world.runs[run].there, world.runs[run].gone);
        let lost = there.pods.iter().filter(|pod| pod.disruption.is_some()).count();
        assert!(there.others.is_empty(), "children are left: {:?}", there.others);
        assert!(there.jobs.values().all(|(job, _)| job.deleting) && there.pods.len() == lost);
        let status = world.status(run).clone();
        assert!(gone || status.is_complete());
    }
    // For ever after, until its time has come.
    let before: Vec<_> = world.runs.iter().map(|run| run.writes).collect();
    for _ in 0..5 {
        world.now = world.now.plus(1_000_000);
        settle(world);
    }
    let after: Vec<_> = world.runs.iter().map(|run| run.writes).collect();
    assert_eq!(before, after, "a finished run is written again");
    assert!(world.runs.iter().all(|run| run.gone == run.spec.ttl_seconds_after_finished.is_some()));
}

fn specs(runs: usize, rule: &str, restarts: i32, ttl: bool) -> Vec<BenchmarkRunSpec> {
    let mut spec = request();
    spec.failure_policy = Some(rules(rule, restarts));
    let day = Some(86_400);
    spec.ttl_seconds_after_finished = ttl.then_some(Ttl { passed: day, failed: day });
    vec![spec; runs]
}

const RULES: &[&str] = &[
    "",
    "Retry on OutOfMemory,RunnerLost,Evicted,ChildrenDeleted",
    "RetryExcludingNode on NodeLost,DeviceLost,PreflightFailed; Retry on 3,70,137",
    "Ignore on Evicted,Preempted,ChildrenDeleted,PendingDeadlineExceeded; FailRun on OutOfMemory",
    "FailRun on RunDeadlineExceeded,QueueDeadlineExceeded; Inconclusive on 137; Retry on 4",
];

fn config(sample: usize, whole: usize) -> ProptestConfig {
    ProptestConfig {
        cases: campaign::rounds(sample, whole) as u32,
        rng_seed: RngSeed::Fixed(campaign::seed()),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// With a short deadline, since the way there is walked in steps of progress.
fn brief() -> ProfileSeen {
    let mut brief = profile();
    brief.spec.defaults.run_deadline_seconds = 700;
    brief
}

proptest! {
    #![proptest_config(config(400, 20_000))]

    #[test]
    fn one_run_through_anything(
        steps in proptest::collection::vec(step(1), 0..80),
        rule in 0..RULES.len(),
        restarts in 0..3_i32,
        ttl in any::<bool>(),
        luck in any::<u64>(),
    ) {
        let mut world = World::new(brief(), specs(1, RULES[rule], restarts, ttl));
        world.luck = luck;
        for step in &steps {
            apply(&mut world, step);
        }
        drain(&mut world);
        finished(&mut world);
    }

}

proptest! {
    #![proptest_config(config(60, 3_000))]

    #[test]
    fn several_runs_share_slots(
        steps in proptest::collection::vec(step(5), 0..120),
        max in 1..3_i32,
        rule in 0..RULES.len(),
        luck in any::<u64>(),
    ) {
        let mut shared = brief();
        shared.spec.concurrency = Some(slots(max));
        let mut world = World::new(shared, specs(5, RULES[rule], 1, false));
        world.luck = luck;
        for step in &steps {
            // An edit of `max` is an administrator's; the promise is about each run's own.
            if !matches!(step, Step::Profile { .. }) {
                apply(&mut world, step);
            }
        }
        drain(&mut world);
        finished(&mut world);
    }
}

#[test]
fn a_run_that_goes_well_is_written_five_times() {
    let mut world = World::new(profile(), specs(1, "", 0, false));
    world.luck = 1;
    settle(&mut world);
    while world.status(0).phase != Phase::Running {
        settle(&mut world);
    }
    // Admitted, released, running, and the first progress.
    assert_eq!(world.runs[0].writes, 4);
    for pod in &mut world.runs[0].there.pods {
        say(pod, if pod.group == "a" { "exit 0 Pass Agrees" } else { "exit 0 -" });
    }
    settle(&mut world);
    assert!(world.status(0).is_complete());
    assert_eq!(world.runs[0].writes, 5);
    finished(&mut world);
}
