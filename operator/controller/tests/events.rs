//! What is told about a run, over its whole way.

mod common;

use common::world::World;
use common::{profile, request, rules, say, slots};
use warpforge_operator_controller::events::events;
use warpforge_operator_controller::plan::Action;

#[test]
fn a_run_that_waits_is_retried_and_fails_is_told_in_order() {
    let mut shared = profile();
    shared.spec.concurrency = Some(slots(1));
    let mut spec = request();
    spec.failure_policy = Some(rules("Retry on Evicted", 1));
    let mut world = World::new(shared, vec![spec.clone(), spec]);
    let mut told = Vec::new();
    let work = |world: &mut World, told: &mut Vec<String>| {
        for _ in 0..30 {
            world.refresh();
            for run in 0..2 {
                let before = world.status(run).clone();
                let plan = world.reconcile(run, 99);
                if let (1, [Action::WriteStatus(after)]) = (run, plan.as_slice()) {
                    told.extend(events(&before, after).into_iter().map(|note| {
                        assert!(!note.text.trim().is_empty());
                        format!(
                            "{} {}",
                            if note.warning { "Warning" } else { "Normal" },
                            note.reason
                        )
                    }));
                }
            }
            world.tick();
        }
    };
    world.reconcile(0, 99);
    work(&mut world, &mut told);
    world.runs[0].there.pods.iter_mut().for_each(|pod| say(pod, "exit 0 Pass Agrees"));
    work(&mut world, &mut told);
    say(&mut world.runs[1].there.pods[1], "evicted");
    work(&mut world, &mut told);
    world.now = world.now.plus(100);
    work(&mut world, &mut told);
    let leader = world.runs[1].there.pods.iter_mut().find(|pod| pod.group == "a").unwrap();
    say(leader, "exit 1 Fail ValueMismatch");
    work(&mut world, &mut told);
    assert_eq!(
        told,
        [
            "Normal Resolved",
            "Normal WaitingForSlot",
            "Normal Admitted",
            "Normal Running",
            "Warning Retrying",
            "Normal Running",
            "Warning Complete",
        ]
    );
}
