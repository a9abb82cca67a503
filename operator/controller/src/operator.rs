//! The operator as a whole: waits for its turn, reads what the cluster holds, sees to runs, and
//! stops at once when its turn is over.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinSet;

use crate::cache::{self, Cache, Scope};
use crate::election::{self, Candidate, Election};
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::reconcile::Context;
use crate::serve::{self, Face};
use crate::tell::Teller;

/// How long what is under way may take once the operator is told to stop.
const FAREWELL: Duration = Duration::from_secs(10);

pub struct Settings {
    pub candidate: Candidate,
    pub scope: Scope,
    pub address: SocketAddr,
    /// How many runs are seen to at once.
    pub workers: usize,
}

/// Why the operator ended though nobody told it to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the port {address} cannot be opened: {source}")]
    Port { address: SocketAddr, source: io::Error },
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("no longer the replica at work: {0}")]
    Lease(#[from] election::Error),
}

/// Runs until `stop`, or until the Lease is lost.
pub async fn operate(
    client: Client,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let metrics = Arc::new(Metrics::new()?);
    let queue = Arc::new(Queue::default());
    let face = Arc::new(Face::new(metrics.clone(), queue.clone()));
    let address = settings.address;
    let (address, serving) = serve::listen(address, face.clone())
        .await
        .map_err(|source| Error::Port { address, source })?;
    tracing::info!(%address, "serving metrics");
    let mut server = JoinSet::new();
    server.spawn(serving);

    let election = Election::new(client.clone(), settings.candidate.clone());
    let mut stop = std::pin::pin!(stop);
    let hold = tokio::select! {
        hold = election.acquire() => Arc::new(hold),
        () = &mut stop => return Ok(()),
    };
    tracing::info!(identity = settings.candidate.identity, "at work");

    // Only now: what is listed includes all that the replica before has written.
    let cache = Arc::new(Cache::new(queue.clone()));
    face.leads(cache.clone());
    let mut watches = cache::watch(&client, &settings.scope, &cache, &metrics);
    let (teller, telling) = Teller::new(client.clone());
    let mut telling = tokio::spawn(telling);
    let context = Arc::new(Context::new(
        client,
        cache.clone(),
        queue.clone(),
        metrics.clone(),
        hold.clone(),
        teller,
    ));
    let mut workers = JoinSet::new();
    for _ in 0..settings.workers.max(1) {
        let (context, cache) = (context.clone(), cache.clone());
        workers.spawn(async move {
            cache.ready().await;
            context.work().await;
        });
    }
    let lost = tokio::select! {
        lost = election.keep(&hold) => Some(lost),
        () = &mut stop => None,
    };
    if let Some(lost) = lost {
        // Dropping the workers ends them in the middle of whatever they do.
        return Err(lost.into());
    }
    queue.close();
    watches.abort_all();
    let ended = async {
        while workers.join_next().await.is_some() {}
        // The last to hold the teller: what was handed in is sent.
        drop(context);
        let _ = (&mut telling).await;
    };
    // The Lease is kept meanwhile: nobody else begins before the last write is done.
    tokio::select! {
        ended = tokio::time::timeout(FAREWELL, ended) => {
            if ended.is_err() {
                tracing::warn!("some runs were left in the middle; the next replica goes on");
            }
        }
        lost = election.keep(&hold) => return Err(lost.into()),
    }
    workers.shutdown().await;
    telling.abort();
    metrics.leads(false);
    election.release().await;
    Ok(())
}
