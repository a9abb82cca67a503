//! A worker beside the leader: its part of the golden, and then the leader's word that it is over.

use warpforge_operator_api::Reason;
use warpforge_operator_api::contract::Termination;
use warpforge_operator_api::data::Pass;

use crate::agent::Worker;
use crate::ending::Failure;
use crate::rendezvous::Follower;
use crate::request::Step;

pub(crate) async fn follow(worker: &Worker) -> Result<Termination, Failure> {
    let joined = Follower::join(&worker.ranks, worker.hello(), worker.patience()).await?;
    let over = Termination::failure(0, Reason::Finished, "the leader has the result");
    let Some(mut leader) = joined else { return Ok(over) };
    let arguments = worker.golden_arguments(&worker.options.work.join("golden"), Step::Golden)?;
    let ended = tokio::select! {
        ended = worker.starter.run(&arguments, Pass::Golden) => ended,
        failure = leader.lost() => return Err(failure),
    };
    let failure = match ended {
        Ok(ended) if ended.succeeded() => {
            leader.done().await?;
            return Ok(over);
        }
        Ok(ended) => ended.failure(),
        Err(failure) => failure,
    };
    leader.failed(&failure.to_string()).await;
    Err(failure)
}
