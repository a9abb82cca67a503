//! A run on its way to the verdict.

use futures::{Stream, StreamExt as _};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, ResourceExt as _};
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunStatus, Verdict};

/// What a look at a run shows.
#[derive(Debug)]
pub enum Seen {
    /// It has changed.
    State(Box<BenchmarkRun>),
    /// It cannot be seen now; the next look is on its way.
    Nothing(String),
    /// It may not be seen, and trying again will not help.
    Refused(kube::Error),
    /// It is gone, or another one has its name.
    Deleted,
}

/// All states of a run from now on. It goes on over failures, and ends with the run's deletion.
pub fn follow(api: &Api<BenchmarkRun>, run: &BenchmarkRun) -> impl Stream<Item = Seen> + use<> {
    let uid = run.metadata.uid.clone();
    let states = watch_object(api.clone(), &run.name_any()).default_backoff();
    states.map(move |state| match state {
        Err(error) => match refused(error) {
            Ok(refused) => Seen::Refused(refused),
            Err(error) => Seen::Nothing(error.to_string()),
        },
        Ok(now) => match now.filter(|now| now.metadata.uid == uid) {
            Some(now) => Seen::State(Box::new(now)),
            None => Seen::Deleted,
        },
    })
}

/// An answer of the API server that will stay the same: who asks is unknown or may not.
fn refused(error: watcher::Error) -> Result<kube::Error, watcher::Error> {
    match error {
        watcher::Error::InitialListFailed(inner) | watcher::Error::WatchStartFailed(inner) => {
            match inner {
                kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
                    Ok(kube::Error::Api(status))
                }
                inner => Err(watcher::Error::WatchStartFailed(inner)),
            }
        }
        other => Err(other),
    }
}

/// Where a run is, in a line.
pub fn line(status: &BenchmarkRunStatus) -> String {
    let progress = status.progress.as_ref().filter(|_| !status.is_complete());
    let progress = progress.map_or("", |progress| &progress.summary);
    format!("{} {} {progress}", status.phase.name(), status.reason).trim_end().to_owned()
}

/// How a finished run ended: its exit code, and the lines that tell it.
pub fn ending(status: &BenchmarkRunStatus) -> Option<(i32, Vec<String>)> {
    if !status.is_complete() {
        return None;
    }
    let correctness = status.correctness.unwrap_or(Verdict::Inconclusive);
    let speed = status.performance.map_or("not judged", Verdict::name);
    let mut lines = vec![format!("Correctness {correctness}, Performance {speed}")];
    lines.push(status.message.clone());
    lines.extend(status.report.iter().map(|report| report.uri.clone()));
    Some((status.exit_code.unwrap_or(correctness.exit_code()), lines))
}
