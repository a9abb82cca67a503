//! One worker from its files to its last message.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::signal::unix::{Signal, SignalKind, signal};
use warpforge_operator_api::Reason;
use warpforge_operator_api::contract::{
    RANKS_FILE, Rank, RankMap, RunnerSpec, SPEC_FILE, Termination, VERSION,
};
use warpforge_operator_api::resolved::label;
use warpforge_store::BundleError;

use crate::artifacts::Artifacts;
use crate::child::{Show, Starter};
use crate::ending::{self, Failure};
use crate::preflight::{self, Needs};
use crate::progress::Shared;
use crate::rendezvous::Hello;
use crate::request::{self, Passes, Request, Source, Step};
use crate::serve::{self, Face};
use crate::{deadline, follow, lead, places, suite};

/// Seconds at the end of a run that passes leave alone.
const RESERVE: u64 = 120;

/// What a worker is told beside its files.
#[derive(Clone, Debug)]
pub struct Options {
    /// Our own program, for children.
    pub program: PathBuf,
    /// The folder with the two files.
    pub run_folder: PathBuf,
    pub group: String,
    /// Absent if it cannot be read.
    pub index: Option<u32>,
    /// Where `/progress` and `/metrics` are served.
    pub http: SocketAddr,
    /// Where the last message is written.
    pub termination: PathBuf,
    /// A folder for everything that is made.
    pub work: PathBuf,
    /// Where the run's volumes are.
    pub data: PathBuf,
    /// How long the store may do nothing.
    pub store_patience: Duration,
    /// How long peers may take to come; at most the run's own deadline.
    pub peers_patience: Duration,
    pub memory_events: PathBuf,
    pub show: Show,
}

/// Everything that is known of this worker.
pub(crate) struct Worker {
    pub options: Options,
    pub spec: RunnerSpec,
    pub ranks: RankMap,
    pub own: Rank,
    pub request: Request,
    pub starter: Starter,
    pub started: Instant,
    /// From there until the run's deadline.
    pub allowed: Duration,
    pub artifacts: Option<Artifacts>,
}

/// Runs the worker to its end, whatever that is, and leaves its message, which is returned with
/// the exit code. `lookup` finds credentials.
pub fn run(options: &Options, lookup: impl Fn(&str) -> Option<String>) -> (i32, Termination) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let message = match runtime {
        Ok(runtime) => {
            let message = runtime.block_on(guarded(options, &lookup));
            // What still waits for a peer or a client has nothing more to say.
            runtime.shutdown_background();
            message
        }
        Err(error) => Failure::new(Reason::InternalError, error.to_string()).message(),
    };
    let code = message.exit_code.unwrap_or_default();
    match ending::write(&options.termination, &message) {
        Ok(()) => (code, message),
        // Without a message the operator sees the code alone; it must not be one of a verdict.
        Err(error) => {
            let why = format!("{} cannot be written: {error}", options.termination.display());
            let failure = Failure::new(Reason::InternalError, why);
            (failure.exit_code(), failure.message())
        }
    }
}

async fn guarded(options: &Options, lookup: &dyn Fn(&str) -> Option<String>) -> Termination {
    let work = async {
        let mut signals = Signals::new()?;
        tokio::select! {
            // Dropping the work ends its children.
            ended = work(options, lookup) => ended,
            number = signals.next() => {
                let message = format!("the worker was told to stop (signal {number})");
                Err(Failure::new(Reason::Interrupted, message))
            }
        }
    };
    Box::pin(work).await.unwrap_or_else(|failure| failure.message())
}

struct Signals(Signal, Signal);

impl Signals {
    fn new() -> Result<Self, Failure> {
        let on = |kind| {
            signal(kind).map_err(|error| Failure::new(Reason::InternalError, error.to_string()))
        };
        Ok(Self(on(SignalKind::terminate())?, on(SignalKind::interrupt())?))
    }

    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.0.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.1.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}

async fn work(
    options: &Options,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Termination, Failure> {
    let spec: RunnerSpec = read(&options.run_folder, SPEC_FILE)?;
    let ranks: RankMap = read(&options.run_folder, RANKS_FILE)?;
    let request = request::request(&spec, &ranks)?;
    let own = options.index.and_then(|index| ranks.find(&options.group, index).cloned());
    let own = own.ok_or_else(|| {
        let (group, index) = (&options.group, options.index.map(|index| index.to_string()));
        let index = index.as_deref().unwrap_or("?");
        let message = format!("{RANKS_FILE} has no worker {group}-{index}");
        Failure::new(Reason::ConfigurationRejected, message)
    })?;
    let state = Shared::new(request.first_stage());
    let face = Face {
        state: state.clone(),
        workload: label(spec.spec.workload.as_ref(), spec.spec.suite.as_ref()),
        worker: format!("{}-{}", own.group, own.index),
    };
    let serving = serve::listen(options.http, face).await.map_err(|error| {
        let message = format!("{} cannot be served: {error}", options.http);
        Failure::new(Reason::InternalError, message)
    })?;
    fs::create_dir_all(&options.work).map_err(|error| {
        let message = format!("{} cannot be made: {error}", options.work.display());
        Failure::new(Reason::DiskTooSmall, message)
    })?;
    let starter = Starter {
        program: options.program.clone(),
        folder: options.work.clone(),
        state,
        termination: options.termination.clone(),
        memory_events: options.memory_events.clone(),
        show: options.show,
        count: AtomicU32::default(),
    };
    let mut worker = Worker {
        options: options.clone(),
        artifacts: None,
        started: Instant::now(),
        allowed: deadline::allowed(&spec, deadline::now()),
        spec,
        ranks,
        own,
        request,
        starter,
    };
    worker.preflight(lookup).await?;
    let leads = worker.own.rank == 0;
    let ended = match &worker.request {
        Request::Passes(passes) if leads => lead::lead(&worker, passes).await,
        Request::Passes(passes) => follow::follow(&worker, passes).await,
        Request::Suite(suite) if leads => suite::measure(&worker, suite).await,
        Request::Suite(_) => suite::serve(&worker).await,
    };
    serving.abort();
    ended
}

/// One of the two files; its version is looked at before the rest, which another version may have
/// otherwise.
fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<T, Failure> {
    let reject = |why: String| {
        Failure::new(Reason::ConfigurationRejected, format!("{name} cannot be used: {why}"))
    };
    let text = fs::read(folder.join(name)).map_err(|error| reject(error.to_string()))?;
    let json: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| reject(error.to_string()))?;
    if json["version"] != VERSION {
        let found = &json["version"];
        return Err(reject(format!(
            "it has version {found}, and this runner reads version {VERSION}"
        )));
    }
    serde_json::from_value(json).map_err(|error| reject(error.to_string()))
}

impl Worker {
    async fn preflight(&mut self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<(), Failure> {
        let group = self.spec.spec.workers.iter().find(|group| group.name == self.own.group);
        let needs = Needs {
            vendor: self.own.vendor,
            gpus: self.own.gpus,
            rdma: group.is_some_and(|group| group.rdma.is_some()),
        };
        let facts = preflight::look(&self.options.program, &self.options.work, needs).await;
        let facts = facts.map_err(|error| {
            Failure::new(Reason::PreflightFailed, format!("the machine cannot be read: {error}"))
        })?;
        preflight::judge(needs, &facts)?;
        request::supported(&self.request, self.own.vendor)?;
        for source in self.request.sources() {
            if let Source::Volume(path) = source
                && !self.options.data.join(path).exists()
            {
                let message = format!("{} is not there", source.place());
                return Err(Failure::new(Reason::DataMissing, message));
            }
        }
        self.open_store(lookup).await?;
        preflight::find_peers(&self.ranks, &self.own, self.patience()).await
    }

    /// Opens the store; who leads finds out whether it takes what will be stored.
    async fn open_store(&mut self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<(), Failure> {
        let Some(artifacts) = &self.spec.spec.artifacts else { return Ok(()) };
        let not_writable = |what: &str, error: &BundleError| {
            let message = format!("{what}: {error}; {}", error.cure());
            Failure::new(Reason::StoreNotWritable, message)
        };
        let opened = Artifacts::open(&artifacts.s3, lookup, self.options.store_patience);
        let opened = opened.map_err(|error| not_writable("results", &error.into()))?;
        if self.own.rank == 0 {
            if self.request.stores_bundle() {
                let checked = opened.check(&places::bundle(&self.spec), false).await;
                checked.map_err(|error| not_writable("the bundle", &error))?;
            }
            if let Some(passes) = self.request.passes().filter(|passes| passes.stores_golden()) {
                let (place, instead) = (&self.spec.spec.goldens.write, passes.replaces_golden());
                let what = if instead { "a golden in a stored one's place" } else { "the golden" };
                let checked = opened.check(place, instead).await;
                checked.map_err(|error| not_writable(what, &error))?;
            }
        }
        self.artifacts = Some(opened);
        Ok(())
    }

    pub fn hello(&self) -> Hello {
        Hello::of(&self.spec, self.own.rank)
    }

    /// How long peers are waited for.
    pub fn patience(&self) -> Duration {
        self.options.peers_patience.min(Duration::from_secs(self.time_left()))
    }

    /// Seconds until the run's deadline, as far as this worker knows, and the request's own.
    pub fn time_left(&self) -> u64 {
        let used = self.started.elapsed().as_secs();
        let left = self.allowed.as_secs().saturating_sub(used);
        // What a pass has come to by then has to be stored yet.
        let left = left - (left / 10).min(RESERVE);
        let own = self.request.limit().map_or(u64::MAX, |limit| limit.saturating_sub(used));
        left.min(own).max(1)
    }

    /// The port for what workers do together, beside the agents' own.
    pub fn shared_port(&self) -> Result<u16, Failure> {
        self.ranks.port.checked_add(1).ok_or_else(|| {
            Failure::new(Reason::ConfigurationRejected, "ranks.json has no port beside its own")
        })
    }

    /// Where ranks of a golden meet.
    fn golden_rendezvous(&self) -> Result<String, Failure> {
        let Some(leader) = self.ranks.ranks.iter().find(|rank| rank.rank == 0) else {
            return Err(Failure::new(Reason::ConfigurationRejected, "ranks.json has no rank 0"));
        };
        Ok(format!("{}:{}", leader.host, self.shared_port()?))
    }

    /// Arguments of the golden that all ranks make together.
    pub fn golden_arguments(
        &self,
        passes: &Passes,
        out: &Path,
        step: Step,
    ) -> Result<Vec<OsString>, Failure> {
        let place = (self.own.rank, self.ranks.ranks.len());
        let meet = self.golden_rendezvous()?;
        let limit = self.time_left();
        let vendor = self.own.vendor;
        Ok(request::golden_of_rank(passes, out, place, &meet, limit, vendor, step))
    }
}
