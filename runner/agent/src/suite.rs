//! A suite of benchmarks: the first worker runs it, and a second one is the other end of its
//! network.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use warpforge_bench::drive::HARDWARE;
use warpforge_bench::model::{BenchmarkRunResult, BenchmarkSuiteRun, RESULTS, VERSION};
use warpforge_operator_api::contract::{Rank, Results, Termination};
use warpforge_operator_api::data::Stage;
use warpforge_operator_api::{Reason, Verdict};
use warpforge_parity::bundle::TIMELINE;

use crate::agent::Worker;
use crate::beside::beside;
use crate::ending::Failure;
use crate::follow::over;
use crate::outcome;
use crate::rendezvous::{Follower, Leader, listen};
use crate::request::{Suite, other_end};

/// How long the other end may take until it listens.
const LISTENING: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of a machine's class, as a status has them.
const CLASS: usize = 63;

/// The first worker's part.
pub(crate) async fn measure(worker: &Worker, suite: &Suite) -> Result<Termination, Failure> {
    let Some(other) = other_end(&worker.ranks) else {
        return run(worker, suite, None).await;
    };
    let mut peers = Leader::gather(&worker.ranks, worker.hello(), worker.patience()).await?;
    peers.go();
    let port = worker.shared_port()?;
    let work = async {
        reach(other, port).await?;
        run(worker, suite, Some(&format!("{}:{port}", other.host))).await
    };
    let ended = beside(Box::pin(work), peers.lost()).await?;
    peers.end().await;
    Ok(ended)
}

/// The other end's part: to serve until the leader says that it is over.
pub(crate) async fn serve(worker: &Worker) -> Result<Termination, Failure> {
    let joined = Follower::join(&worker.ranks, worker.hello(), worker.patience()).await?;
    let Some(mut leader) = joined else { return Ok(over()) };
    let host = &worker.own.host;
    let free = listen(host, worker.shared_port()?).await;
    let address = free.and_then(|free| free.local_addr()).map_err(|error| {
        let message = format!("{host} cannot be listened on: {error}");
        Failure::new(Reason::InternalError, message)
    });
    let serving = async {
        let arguments = Suite::other_end(&address?.to_string());
        // A server that ends by itself has failed, whatever it says.
        Err(worker.starter.run(&arguments, Stage::Suite).await?.failure())
    };
    let ended = tokio::select! {
        ended = serving => ended,
        ended = leader.over() => ended.map(|()| over()),
    };
    if let Err(failure) = &ended
        && failure.reason != Reason::PeerLost
    {
        leader.failed(&failure.to_string()).await;
    }
    ended
}

/// Waits until the other end listens.
async fn reach(other: &Rank, port: u16) -> Result<(), Failure> {
    let until = Instant::now() + LISTENING;
    while let Err(error) = TcpStream::connect((other.host.as_str(), port)).await {
        if Instant::now() >= until {
            let message = format!("no network benchmark's end at {}:{port}: {error}", other.host);
            return Err(Failure::new(Reason::PeerLost, message));
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn run(worker: &Worker, suite: &Suite, peer: Option<&str>) -> Result<Termination, Failure> {
    let folder = worker.bundle_folder();
    fs::create_dir_all(&folder).map_err(|error| {
        let message = format!("{} cannot be made: {error}", folder.display());
        Failure::new(Reason::DiskTooSmall, message)
    })?;
    let files = (folder.join(RESULTS), folder.join(TIMELINE));
    let (limit, vendor) = (worker.time_left(), worker.own.vendor);
    let arguments = suite.arguments((&files.0, &files.1), limit, vendor, peer);
    let ended = worker.starter.run(&arguments, Stage::Suite).await?;
    let judged = ended.code().filter(|code| Verdict::of_exit_code(*code).is_some());
    let Some(code) = judged.filter(|_| !ended.told_failure()) else { return Err(ended.failure()) };
    let mut message = message(&read(&files.0)?, code);
    message.report = worker.store_bundle(RESULTS).await?;
    Ok(message)
}

fn read(path: &Path) -> Result<BenchmarkSuiteRun, Failure> {
    let wrong = |why: String| {
        Failure::new(Reason::InternalError, format!("{RESULTS} cannot be used: {why}"))
    };
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let run: BenchmarkSuiteRun =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if run.version == VERSION { Ok(run) } else { Err(wrong(format!("version {}", run.version))) }
}

/// The last message. `code` is the one that the child ended with.
fn message(run: &BenchmarkSuiteRun, code: i32) -> Termination {
    let right = run.benchmarks.iter().map(correctness).max();
    let mut correctness = right.unwrap_or(Verdict::Invalid);
    if !run.complete {
        correctness = correctness.max(Verdict::Inconclusive);
    }
    let reason = match correctness {
        Verdict::Pass => Reason::Measured.name(),
        Verdict::Skipped => "HardwareMissing",
        Verdict::Inconclusive => "Incomplete",
        Verdict::Fail => "BenchmarkFailed",
        Verdict::Invalid => "NothingMeasured",
    };
    Termination {
        exit_code: Some(code),
        performance: Some(outcome::verdict(run.verdict)),
        results: Some(results(run)),
        ..Termination::verdict(correctness, reason, &summary(run))
    }
}

/// Whether a benchmark ran and its results are right. Figures that are not steady are a matter of
/// performance.
fn correctness(result: &BenchmarkRunResult) -> Verdict {
    match outcome::verdict(result.verdict) {
        Verdict::Inconclusive if result.error_message.is_none() => Verdict::Pass,
        verdict => verdict,
    }
}

/// `6 of 7 benchmarks passed; disk_io Inconclusive: …`.
fn summary(run: &BenchmarkSuiteRun) -> String {
    let verdict = |result: &BenchmarkRunResult| outcome::verdict(result.verdict);
    let passed = run.benchmarks.iter().filter(|result| verdict(result) == Verdict::Pass).count();
    let mut text = format!("{passed} of {} benchmarks passed", run.benchmarks.len());
    if !run.complete {
        text += ", and the time was up before all had run";
    }
    // One sentence for all that failed alike, such as every benchmark of a GPU that is not there.
    let mut others: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for result in run.benchmarks.iter().filter(|result| verdict(result) != Verdict::Pass) {
        let why = result.reason.as_deref().unwrap_or("no reason");
        let what = format!("{}: {why}", verdict(result));
        others.entry(what).or_default().push(&result.spec.id.name);
    }
    for (what, names) in others {
        text += "; ";
        text += &names.join(", ");
        text += " ";
        text += &what;
    }
    text
}

fn results(run: &BenchmarkSuiteRun) -> Results {
    let class = run.metadata.get(HARDWARE).map_or("", String::as_str);
    let mut results =
        Results { hardware: class.chars().take(CLASS).collect(), ..Results::default() };
    for result in &run.benchmarks {
        if let Some((metric, figure)) = result.headline() {
            results.benchmark(&result.spec.id.name, &metric, figure.value, &figure.unit);
        }
    }
    results
}
