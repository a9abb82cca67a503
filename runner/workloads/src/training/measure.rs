//! How fast both passes take steps: blocks of steps in turn, so that whatever else the machine
//! does meets both alike. Golden's process waits without working while Pass 2 runs, and the other
//! way round.

use std::path::PathBuf;

use warpforge_golden_protocol::Precision;
use warpforge_golden_protocol::training::Step;

use super::golden::{Trainer, write_batches};
use super::stepper::{Programs, Stepper, Wanted};
use super::{Pass, Plan, Stage, Task};
use crate::error::Error;
use crate::tensors::Named;

/// Some steps of one pass in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    pub pass: Pass,
    pub steps: u32,
    pub seconds: f64,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub blocks: Vec<Block>,
    pub golden_peak_bytes: Option<u64>,
    pub own_peak_bytes: Option<u64>,
}

/// Runs `rounds` times golden, Pass 2, Pass 2, golden, each `steps` steps, from the start of the
/// training. A first step of each is not counted.
pub fn measure(
    plan: &Plan,
    task: &dyn Task,
    programs: &Programs,
    rounds: u32,
    steps: u32,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<Measured, Error> {
    on_stage(Stage::Measuring { pass: None });
    let folder = tempfile::tempdir().map_err(|error| Error::io(&std::env::temp_dir(), error))?;
    let mut files: Vec<Vec<PathBuf>> = Vec::new();
    let mut batches: Vec<Vec<Named>> = Vec::new();
    for step in 0..steps {
        let all = task.batches(step)?;
        let place = |i: usize| Ok(folder.path().join(format!("{step}.{i}.safetensors")));
        files.push(write_batches(&all, &place)?);
        batches.push(all);
    }
    let mut trainer = Trainer::new(plan, "")?;
    trainer.open(Precision::AsExported)?;
    let mut stepper = Stepper::new(programs, plan.seed)?;
    let mut golden = |step: u32| -> Result<f64, Error> {
        let batches = files[step as usize].clone();
        Ok(trainer.step(&Step { step, batches, ..Step::default() })?.seconds)
    };
    let mut own = |step: u32| -> Result<f64, Error> {
        Ok(stepper.step(step, &batches[step as usize], &Wanted::default())?.seconds)
    };
    golden(0)?;
    own(0)?;
    let mut measured = Measured::default();
    for _ in 0..rounds {
        for pass in [Pass::Golden, Pass::WarpForge, Pass::WarpForge, Pass::Golden] {
            plan.check_time(|| "the timing of both passes".to_owned())?;
            on_stage(Stage::Measuring { pass: Some(pass) });
            let mut seconds = 0.0;
            for step in 0..steps {
                seconds += if pass == Pass::Golden { golden(step)? } else { own(step)? };
            }
            measured.blocks.push(Block { pass, steps, seconds });
        }
    }
    measured.golden_peak_bytes = trainer.peak_bytes;
    measured.own_peak_bytes = own_peak();
    trainer.finish()?;
    Ok(measured)
}

/// The most memory this process ever had.
pub fn own_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
