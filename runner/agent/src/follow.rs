//! A worker beside the leader: its part of the golden, and then the leader's word that it is over.

use warpforge_operator_api::Reason;
use warpforge_operator_api::contract::Termination;
use warpforge_operator_api::data::Pass;

use crate::agent::Worker;
use crate::beside::beside;
use crate::ending::Failure;
use crate::rendezvous::Follower;
use crate::request::Step;

pub(crate) async fn follow(worker: &Worker) -> Result<Termination, Failure> {
    let joined = Follower::join(&worker.ranks, worker.hello(), worker.patience()).await?;
    let over = Termination::failure(0, Reason::Finished, "the leader has the result");
    let Some(mut leader) = joined else { return Ok(over) };
    let arguments = worker.golden_arguments(&worker.options.work.join("golden"), Step::Golden)?;
    let making = worker.starter.succeed(&arguments, Pass::Golden);
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
