//! All runs of a namespace or of the whole cluster, as they change.

use futures::{Stream, StreamExt as _, stream};
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use warpforge_operator_api::BenchmarkRun;

/// What has changed.
#[derive(Debug)]
pub enum Change {
    /// A run is there, or has become another.
    Here(Box<BenchmarkRun>),
    /// A run is gone.
    Gone(Box<BenchmarkRun>),
    /// All that were there at the beginning have been told.
    Listed,
    /// Nothing can be seen now; the next look is on its way.
    Nothing(String),
}

/// Every run that is there, and then every change. It goes on over failures.
pub fn watch(api: Api<BenchmarkRun>) -> impl Stream<Item = Change> {
    watcher(api, Config::default()).default_backoff().flat_map(|event| {
        stream::iter(match event {
            Ok(Event::Apply(run) | Event::InitApply(run)) => Some(Change::Here(Box::new(run))),
            Ok(Event::Delete(run)) => Some(Change::Gone(Box::new(run))),
            Ok(Event::InitDone) => Some(Change::Listed),
            Ok(Event::Init) => None,
            Err(error) => Some(Change::Nothing(error.to_string())),
        })
    })
}
