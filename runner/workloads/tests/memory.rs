//! Pass 2 gives back what it takes: a thousand steps in one process, and nothing grows. The only
//! test in its file, since memory belongs to the whole process.

mod common;

use std::fs;

use warpforge_training::{Adam, Optimizer, Recipe};
use warpforge_workloads::training::Task as _;
use warpforge_workloads::training::stepper::{Programs, Stepper, Wanted};

/// Bytes of this process in memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u64 = line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap();
    kilobytes * 1024
}

#[test]
fn a_thousand_steps_leave_nothing_behind() {
    let adam = Adam { weight_decay: 0.01, ..Adam::default() };
    let recipe = Recipe { clip_norm: Some(1.0), ..Recipe::new(Optimizer::AdamW(adam), 1e-3) };
    let (plan, task) = common::small("small", recipe, 1000);
    let programs = Programs::new(&plan, None).unwrap();
    let mut stepper = Stepper::new(&programs, plan.seed).unwrap();
    let (mut warm, mut first, mut last) = (0, f64::NAN, f64::NAN);
    for step in 0..1000 {
        let batches = task.batches(step).unwrap();
        last = stepper.step(step, &batches, &Wanted::default()).unwrap().loss;
        match step {
            0 => first = last,
            100 => warm = resident(),
            _ => {}
        }
    }
    let end = resident();
    assert!(last < first, "nothing was trained: the loss went from {first} to {last}");
    // The state alone takes 8 kilobytes: one copy left in each step would be seven times this.
    assert!(end < warm + 1_000_000, "{warm} bytes after 100 steps, {end} after 1000");
}
