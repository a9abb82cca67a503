//! A worker beside the leader: its part of the golden, and then the leader's word that it is over.

use warpforge_operator_api::Reason;
use warpforge_operator_api::contract::Termination;
use warpforge_operator_api::data::Stage;

use crate::agent::Worker;
use crate::beside::beside;
use crate::ending::Failure;
use crate::rendezvous::Follower;
use crate::request::{Passes, Step};

pub(crate) async fn follow(worker: &Worker, passes: &Passes) -> Result<Termination, Failure> {
    let joined = Follower::join(&worker.ranks, worker.hello(), worker.patience()).await?;
    let over = finished();
    let Some(mut leader) = joined else { return Ok(over) };
    let folder = worker.options.work.join("golden");
    let arguments = worker.golden_arguments(passes, &folder, Step::Golden)?;
    let making = worker.starter.succeed(&arguments, Stage::Golden);
    match beside(making, leader.lost()).await {
        Ok(()) => {
            leader.done().await?;
            Ok(over)
        }
        Err(failure) => {
            leader.failed(&failure.to_string()).await;
            Err(failure)
        }
    }
}

/// The end of a worker beside the leader, whose part is done.
pub fn finished() -> Termination {
    Termination::failure(0, Reason::Finished, "the leader has the result")
}
