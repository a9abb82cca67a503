//! A suite of benchmarks: the first worker runs it, and a second one is the other end of its
//! network.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use warpforge_bench::drive::HARDWARE;
use warpforge_bench::model::{BenchmarkRunResult, BenchmarkSuiteRun, RESULTS, VERSION};
use warpforge_operator_api::contract::{Rank, Results, Termination};
use warpforge_operator_api::data::Stage;
use warpforge_operator_api::{Reason, Verdict};
use warpforge_parity::bundle::TIMELINE;

use crate::agent::Worker;
use crate::beside::beside;
use crate::ending::Failure;
use crate::follow::finished;
use crate::outcome;
use crate::rendezvous::{Follower, Leader};
use crate::request::{Suite, second_worker};

/// How long the other end may take until it listens.
const LISTENING: Duration = Duration::from_secs(30);
const ATTEMPT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of a machine's class, as a status has them.
const CLASS: usize = 63;

/// The first worker's part.
pub(crate) async fn measure(worker: &Worker, suite: &Suite) -> Result<Termination, Failure> {
    let Some(second) = second_worker(&worker.ranks) else {
        let code = run(worker, suite, None).await?;
        return conclude(worker, code).await;
    };
    let mut peers = Leader::gather(&worker.ranks, worker.hello(), worker.patience()).await?;
    peers.go();
    let port = worker.shared_port()?;
    let work = async {
        reach(second, port).await?;
        run(worker, suite, Some(&format!("{}:{port}", second.host))).await
    };
    let code = beside(Box::pin(work), peers.lost()).await?;
    // The other end is not needed for the rest, and its loss no reason to lose what was measured.
    peers.end().await;
    conclude(worker, code).await
}

/// The other end's part: to serve until the leader says that it is over.
pub(crate) async fn serve(worker: &Worker) -> Result<Termination, Failure> {
    let joined = Follower::join(&worker.ranks, worker.hello(), worker.patience()).await?;
    let Some(mut leader) = joined else { return Ok(finished()) };
    let address = SocketAddr::new(any(&worker.own.host), worker.shared_port()?);
    let serving = async {
        let arguments = Suite::server_arguments(address);
        // A server that ends by itself has failed, whatever it says.
        Err(worker.starter.run(&arguments, Stage::Suite).await?.failure())
    };
    let ended = tokio::select! {
        ended = serving => ended,
        ended = leader.over() => ended.map(|()| finished()),
    };
    if let Err(failure) = &ended
        && failure.reason != Reason::PeerLost
    {
        leader.failed(&failure.to_string()).await;
    }
    ended
}

/// The own address where it is known as such, else all, of the kind that this machine has.
fn any(host: &str) -> IpAddr {
    let both = || {
        // Bound and not listened on: nobody is to take it for the server.
        let bound =
            TcpSocket::new_v6().and_then(|socket| socket.bind((Ipv6Addr::UNSPECIFIED, 0).into()));
        if bound.is_ok() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
    };
    host.parse().unwrap_or_else(|_| both())
}

/// Waits until the other end listens.
async fn reach(second: &Rank, port: u16) -> Result<(), Failure> {
    let until = Instant::now() + LISTENING;
    loop {
        let why = match timeout(ATTEMPT, TcpStream::connect((second.host.as_str(), port))).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not answer".to_owned(),
        };
        if Instant::now() >= until {
            let message = format!("no network benchmark's end at {}:{port}: {why}", second.host);
            return Err(Failure::new(Reason::PeerLost, message));
        }
        sleep(PAUSE).await;
    }
}

/// Has the child measure, and returns the exit code of its verdict.
async fn run(worker: &Worker, suite: &Suite, peer: Option<&str>) -> Result<i32, Failure> {
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
    judged.filter(|_| !ended.told_failure()).ok_or_else(|| ended.failure())
}

/// Stores what the child left, and makes the last message of it.
async fn conclude(worker: &Worker, code: i32) -> Result<Termination, Failure> {
    let mut message = message(&read(&worker.bundle_folder().join(RESULTS))?, code);
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
    let unsteady = run.benchmarks.iter().any(is_unsteady);
    Termination {
        exit_code: Some(code),
        performance: Some(if unsteady { Verdict::Inconclusive } else { Verdict::Pass }),
        results: Some(results(run)),
        ..Termination::verdict(correctness, reason, &summary(run))
    }
}

/// Whether a benchmark ran and its results are right.
fn correctness(result: &BenchmarkRunResult) -> Verdict {
    if is_unsteady(result) { Verdict::Pass } else { outcome::verdict(result.verdict) }
}

/// Whether it ran to its end, and its samples say too little: a matter of performance.
fn is_unsteady(result: &BenchmarkRunResult) -> bool {
    outcome::verdict(result.verdict) == Verdict::Inconclusive && result.error_message.is_none()
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
    // What was cut off or is wrong is no figure of this machine.
    let right = |result: &&BenchmarkRunResult| correctness(result) == Verdict::Pass;
    for result in run.benchmarks.iter().filter(right) {
        if let Some((metric, figure)) = result.headline() {
            results.benchmark(&result.spec.id.name, &metric, figure.value, &figure.unit);
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use Verdict as V;
    use serde_json::json;

    use super::*;

    /// A run of benchmarks that ended so: verdict, reason, and whether that is an error's.
    fn ran(benchmarks: &[(&str, &str, bool)]) -> BenchmarkSuiteRun {
        let one = |(number, (verdict, reason, error)): (usize, &(&str, &str, bool))| {
            let metric = json!({
                "name": "rate", "value": 2.5, "unit": "GB/s", "higher_is_better": true,
                "samples": 9, "median": 2.5,
            });
            json!({
                "spec": {
                    "id": { "suite": "micro", "name": format!("b{number}") }, "components": ["cpu"],
                    "kind": "synthetic",
                },
                "metrics": [metric], "success": *verdict == "pass", "verdict": verdict,
                "reason": (*verdict != "pass").then_some(reason),
                "error_message": error.then_some(reason),
                "start_time": "", "end_time": "",
            })
        };
        let all: Vec<_> = benchmarks.iter().enumerate().map(one).collect();
        let text = json!({
            "version": VERSION, "suite": "micro", "components": [], "benchmarks": all,
            "metadata": { HARDWARE: "xeon" }, "complete": true, "verdict": "pass",
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn what_is_wrong_and_what_is_unsteady_are_two_verdicts() {
        let unsteady = ("inconclusive", "tells it to 20 % only", false);
        let (wrong, pass) = (("fail", "off by one", true), ("pass", "", false));
        let skipped = ("skipped", "no GPU", true);
        let cut = ("inconclusive", "interrupted", true);
        for (benchmarks, code, correctness, performance, reason, told) in [
            (vec![pass], 0, V::Pass, V::Pass, "Measured", 1),
            (vec![pass, unsteady], 3, V::Pass, V::Inconclusive, "Measured", 2),
            (vec![pass, wrong], 1, V::Fail, V::Pass, "BenchmarkFailed", 1),
            (vec![wrong, unsteady], 1, V::Fail, V::Inconclusive, "BenchmarkFailed", 1),
            (vec![pass, skipped], 4, V::Skipped, V::Pass, "HardwareMissing", 1),
            (vec![pass, cut], 3, V::Inconclusive, V::Pass, "Incomplete", 1),
            (vec![], 5, V::Invalid, V::Pass, "NothingMeasured", 0),
        ] {
            let message = message(&ran(&benchmarks), code);
            let found = (message.correctness, message.performance, message.reason.as_str());
            assert_eq!(found, (Some(correctness), Some(performance), reason), "{benchmarks:?}");
            let results = message.results.clone().unwrap();
            assert_eq!((results.benchmarks.len(), results.hardware.as_str()), (told, "xeon"));
            // The operator can read it.
            let read = Termination::of_exit(&message.to_json(), code);
            assert_eq!(read.as_ref().map(|read| read.correctness), Ok(Some(correctness)));
        }
    }

    #[test]
    fn benchmarks_that_ended_alike_share_a_sentence() {
        let (skipped, pass) = (("skipped", "no GPU", true), ("pass", "", false));
        assert_eq!(
            summary(&ran(&[pass, skipped, skipped])),
            "1 of 3 benchmarks passed; b1, b2 Skipped: no GPU"
        );
    }
}
