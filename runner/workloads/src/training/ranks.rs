//! Golden's pass by several processes, the ranks, on one machine or many. Of a step's
//! micro-batches rank 0 takes the first share, rank 1 the next, and so on; shares are of one
//! size. Rank 0 has golden's folder and decides what is done next ([`super::golden`]); the others
//! write nothing and [`follow`].

use std::path::PathBuf;
use std::time::Duration;

use warpforge_golden_protocol as protocol;
use warpforge_golden_protocol::ranks::{Join, Order};
use warpforge_golden_protocol::training::Step;

use super::golden::{Trainer, write_batches};
use super::{Pass, Plan, Stage, Task};
use crate::error::Error;

/// Which of several processes this is, and where they meet.
#[derive(Clone, Debug, PartialEq)]
pub struct Rank {
    pub rank: u32,
    pub ranks: u32,
    /// An address of rank 0 that all of them reach.
    pub host: String,
    pub port: u16,
    /// How long one waits for another.
    pub timeout: Duration,
}

impl Rank {
    pub fn leads(&self) -> bool {
        self.rank == 0
    }

    pub(super) fn join(&self, key: &str) -> Join {
        Join {
            rank: self.rank,
            ranks: self.ranks,
            host: self.host.clone(),
            port: self.port,
            key: key.to_owned(),
            timeout_seconds: self.timeout.as_secs_f64(),
        }
    }
}

impl Plan {
    /// Of a step's micro-batches, those of this rank.
    pub(super) fn share<T>(&self, batches: Vec<T>) -> Vec<T> {
        let Some(Rank { rank, ranks, .. }) = self.rank else { return batches };
        let each = batches.len() / ranks.max(1) as usize;
        batches.into_iter().skip(each * rank as usize).take(each).collect()
    }
}

/// Does its part of what rank 0 does, until that is done.
pub fn follow(
    plan: &Plan,
    task: &dyn Task,
    key: &str,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    on_stage(Stage::Loading);
    let work = tempfile::tempdir().map_err(|error| Error::io(&std::env::temp_dir(), error))?;
    let mut trainer = Trainer::new(plan, key)?;
    let mut held: Option<(u32, Vec<PathBuf>)> = None;
    loop {
        match trainer.follow()? {
            Order::End => break,
            Order::Open { precision } => trainer.open(precision)?,
            Order::Step { step, dry } => {
                // A step that is repeated has the same batches.
                let known = held.take().filter(|(known, _)| *known == step);
                let batches = if let Some((_, paths)) = known {
                    paths
                } else {
                    let own = plan.share(task.batches(step)?);
                    let place = |i| Ok(work.path().join(format!("batch-{i}.safetensors")));
                    write_batches(&own, &place)?
                };
                held = Some((step, batches.clone()));
                let stepped = trainer.step(&Step { step, batches, dry, ..Step::default() })?;
                let (step, steps) = (step + 1, plan.steps);
                let loss = stepped.loss.unwrap_or(f64::NAN);
                on_stage(Stage::Training { pass: Pass::Golden, step, steps, loss });
            }
        }
    }
    trainer.finish()
}

/// Tells the other ranks that there is nothing to do.
pub fn dismiss(plan: &Plan, key: &str) -> Result<(), Error> {
    match plan.rank {
        Some(_) => Trainer::new(plan, key)?.finish(),
        None => Ok(()),
    }
}

impl Trainer<'_> {
    fn follow(&mut self) -> Result<Order, Error> {
        let order = self.session.follow(self.plan.request_limit());
        order.map_err(|error| self.plan.golden_error(error, "the wait for rank 0"))
    }
}

/// Meets the other ranks, if there are any.
pub(super) fn meet(plan: &Plan, session: &mut protocol::Session, key: &str) -> Result<(), Error> {
    let Some(rank) = &plan.rank else { return Ok(()) };
    plan.check_time(|| "the meeting of the ranks".to_owned())?;
    let met = session.join(&rank.join(key), plan.request_limit());
    met.map_err(|error| plan.golden_error(error, "the meeting of the ranks"))
}
