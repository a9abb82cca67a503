//! `warpforge benchmark run`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::ProgressBar;
use warpforge_bench::drive::{self, BURN_IN, BadParam, HARDWARE, Observer, Options, suite_run};
use warpforge_bench::model::{BenchmarkId, BenchmarkRunResult, BenchmarkSuiteRun, Component, PEER};
use warpforge_bench::monitor::{Handle, Summary};
use warpforge_bench::registry::{Chosen, Selection, choose};
use warpforge_bench::score::{MACHINE, score};
use warpforge_bench::suite::Watch;
use warpforge_bench::system::snapshot;
use warpforge_parity::bundle::write_beside;
use warpforge_parity::verdict::Short;

use super::super::Context;
use super::super::monitor::{self, Watching};
use super::{component, read, show, suggestion, unknown};
use crate::events::Events;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::interrupt;
use crate::table;
use crate::ui::{DIM, Ui};

const ABOUT: &str = "\
Run benchmarks and keep what they measured

With --suite, the suite's defaults run, or the --benchmark that are named; --component leaves the \
others out. Without a suite, the defaults of the components run (`benchmark list` shows them). \
Figures are medians of samples that are taken until their interval is narrow or the time is up. \
One that fails or lacks its hardware stops no other. Ctrl-C ends what runs and keeps what was \
measured.";

/// Run benchmarks and keep what they measured
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Args {
    /// The suite
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,

    /// A benchmark of the suite; may be given several times
    #[arg(long, value_name = "NAME")]
    benchmark: Vec<String>,

    /// Components: cpu, gpu, ram, storage, network, system; several with commas, or several times
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = component)]
    component: Vec<Component>,

    /// How long each benchmark measures, in place of its own default
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,

    /// How long all of it may take: what runs then ends, as with Ctrl-C, and nothing more begins
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// How long each figure is warmed up before samples count [default: 0.5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_or_none)]
    burnin_seconds: Option<Duration>,

    /// Set a parameter of the benchmarks that have it (`benchmark describe` shows them)
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = param)]
    params: Vec<(String, String)>,

    /// Measure the network to a `warpforge netserver` on another host
    #[arg(long, value_name = "HOST:PORT")]
    peer: Option<String>,

    /// Write JSON to `warpforge_benchmark_SUITE_TIME_RANDOM.json` in the current folder
    #[arg(long, conflicts_with = "export_file")]
    export: bool,

    /// Write JSON to PATH (`warpforge schema benchmark` describes it)
    #[arg(long, value_name = "PATH")]
    export_file: Option<PathBuf>,

    /// Print the same JSON in place of tables
    #[arg(long)]
    json: bool,

    /// Say what would run, and run nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    monitor: monitor::Args,

    /// Run all at once, not one after another: they disturb each other, which may be the point
    #[arg(long)]
    parallel: bool,

    /// Give a score against a reference machine: the geometric mean over a file of its own run
    #[arg(long, value_name = "FILE")]
    score: Option<PathBuf>,

    /// The name under which this machine is a reference
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    let found = seconds_or_none(text)?;
    if found.is_zero() { Err("must be more than 0".to_owned()) } else { Ok(found) }
}

fn seconds_or_none(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    // A week: beyond that it is a typing error.
    if !(0.0..=604_800.0).contains(&value) {
        return Err("not from 0 to 604800 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(value))
}

pub fn param(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not of the form NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    let selection = Selection {
        suite: args.suite.clone(),
        benchmarks: args.benchmark.clone(),
        components: args.component.clone(),
    };
    let mut chosen = choose(&selection).map_err(|error| unknown(&error))?;
    let options = options(args);
    drive::configure(&mut chosen, &options.params).map_err(|error| bad_param(&error))?;
    let reference = args.score.as_deref().map(read).transpose()?;
    if args.dry_run {
        announce(&chosen, &options, ui)?;
        return Ok(Exit::Pass);
    }
    let wanted = chosen.iter().map(|chosen| chosen.id.clone()).collect();
    let mut session = Session::open(args, selection, wanted)?;
    session.measure(&chosen, &options, args.timeout, context.events, ui)?;
    let mut done = session.so_far();
    if let Some(reference) = reference {
        done.score = score(&done, &reference);
    }
    session.save(&done)?;
    finish(args, &session, &done, ui)?;
    Ok(done.verdict.into())
}

fn options(args: &Args) -> Options {
    let peer = args.peer.iter().map(|peer| (PEER.to_owned(), peer.clone()));
    Options {
        duration: args.duration,
        burn_in: args.burnin_seconds.unwrap_or(BURN_IN),
        params: args.params.iter().cloned().chain(peer).collect(),
        parallel: args.parallel,
    }
}

pub fn bad_param(error: &BadParam) -> Misuse {
    let help = match error {
        BadParam::Unknown { name, exist } => suggestion(name, exist),
        BadParam::Value { .. } => "`warpforge benchmark describe` shows the parameters".to_owned(),
    };
    Misuse::new(error.to_string(), help)
}

fn announce(chosen: &[Chosen], options: &Options, ui: &mut Ui) -> std::io::Result<()> {
    let row = |chosen: &Chosen| {
        let Some(spec) = &chosen.spec else {
            return vec![chosen.id.to_string().into(), "not available yet".into()];
        };
        let own = spec.default_duration_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let time = options.duration.or(own).map_or_else(String::new, |time| format!("{time:?}"));
        let params = table::Cell::styled(drive::shown(&spec.params), DIM);
        vec![chosen.id.to_string().into(), time.into(), params]
    };
    table::write(ui.out(), 0, &chosen.iter().map(row).collect::<Vec<_>>())
}

/// A run under way: what came of it so far, and where it is kept.
struct Session {
    selection: Selection,
    wanted: Vec<BenchmarkId>,
    results: Vec<BenchmarkRunResult>,
    metadata: BTreeMap<String, String>,
    export: Option<PathBuf>,
    watching: Option<Watching>,
    seen: Option<Summary>,
    json: bool,
}

impl Session {
    fn open(args: &Args, selection: Selection, wanted: Vec<BenchmarkId>) -> anyhow::Result<Self> {
        let export = args
            .export_file
            .clone()
            .or_else(|| args.export.then(|| file_name(&drive::subject(&selection)).into()));
        let session = Self {
            metadata: metadata(args),
            selection,
            wanted,
            results: Vec::new(),
            export,
            watching: None,
            seen: None,
            json: args.json,
        };
        // A file that cannot be written is found before anything is measured.
        session.save(&session.so_far())?;
        Ok(Self { watching: args.monitor.start()?, ..session })
    }

    fn so_far(&self) -> BenchmarkSuiteRun {
        let mut results = self.results.clone();
        // Side by side they end in any order.
        let place = |id: &BenchmarkId| self.wanted.iter().position(|wanted| wanted == id);
        results.sort_by_key(|result| place(&result.spec.id));
        suite_run(&self.selection, results, self.wanted.len(), self.metadata.clone())
    }

    fn save(&self, run: &BenchmarkSuiteRun) -> anyhow::Result<()> {
        let Some(path) = &self.export else { return Ok(()) };
        let text = serde_json::to_string_pretty(run)? + "\n";
        write_beside(path, text.as_bytes()).with_context(|| {
            Misuse::new(format!("cannot write {}", path.display()), "choose it with --export-file")
        })
    }

    /// Runs everything; results are shown and kept as they come.
    fn measure(
        &mut self,
        chosen: &[Chosen],
        options: &Options,
        timeout: Option<Duration>,
        events: &Events,
        ui: &mut Ui,
    ) -> anyhow::Result<()> {
        let stop = interrupt::stop()?;
        if let Some(timeout) = timeout {
            let stop = stop.clone();
            // Nobody waits for it: if all is done before, the process ends.
            thread::spawn(move || {
                thread::sleep(timeout);
                stop.set();
            });
        }
        let system = snapshot();
        self.metadata.insert(HARDWARE.to_owned(), system.hardware_class());
        let (sender, told) = mpsc::channel();
        let handle = self.watching.as_ref().map(|watching| watching.monitor.handle());
        let teller = Teller { sender, handle };
        let shown = thread::scope(|scope| {
            // The teller goes with it: when it is done, there is nothing more to receive.
            let work = scope.spawn(|| {
                let teller = teller;
                drive::run(chosen, options, &system, &stop, &teller);
            });
            let shown = self.follow(&told, events, ui);
            if shown.is_err() {
                stop.set();
            }
            work.join().map_err(|_| anyhow::anyhow!("the benchmarks' thread ended"))?;
            shown
        });
        self.seen = self.watching.take().map(Watching::finish).transpose()?;
        shown
    }

    fn follow(
        &mut self,
        told: &Receiver<Event>,
        events: &Events,
        ui: &mut Ui,
    ) -> anyhow::Result<()> {
        let bar =
            if ui.shows_progress() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.enable_steady_tick(Duration::from_millis(120));
        let mut running = String::new();
        for event in told {
            match event {
                Event::Began(id) => {
                    events.suite(self.results.len(), self.wanted.len());
                    running = id.to_string();
                    bar.set_message(running.clone());
                }
                Event::Doing(what) => bar.set_message(format!("{running}: {what}")),
                Event::Ended(result) => {
                    if !self.json {
                        bar.suspend(|| show::result(&result, ui))?;
                    }
                    self.results.push(*result);
                    self.save(&self.so_far())?;
                }
            }
        }
        bar.finish_and_clear();
        Ok(())
    }
}

fn metadata(args: &Args) -> BTreeMap<String, String> {
    let mut metadata: BTreeMap<_, _> = [
        ("program", format!("warpforge {}", env!("CARGO_PKG_VERSION"))),
        ("parallel", args.parallel.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    metadata.extend(args.machine.clone().map(|name| (MACHINE.to_owned(), name)));
    metadata
}

/// The name of a new file, which no other run has.
fn file_name(subject: &str) -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let random = RandomState::new().hash_one(std::process::id()) as u32;
    format!("warpforge_benchmark_{subject}_{now}_{random:08x}.json")
}

fn finish(
    args: &Args,
    session: &Session,
    done: &BenchmarkSuiteRun,
    ui: &mut Ui,
) -> anyhow::Result<()> {
    if args.json {
        ui.json(done)?;
        return Ok(());
    }
    if let Some(seen) = &session.seen {
        ui.note(&format!("{DIM}monitor{DIM:#}  {}", show::seen(seen)))?;
    }
    match (&done.score, &args.score) {
        (Some(score), _) => {
            let (value, metrics) = (Short(score.value), score.metrics);
            let reference = &score.reference;
            writeln!(ui.out(), "score {value} \u{d7} {reference} (over {metrics} figures)")?;
        }
        (None, Some(path)) => {
            writeln!(ui.out(), "no score: {} has no figure of this run", path.display())?;
        }
        (None, None) => {}
    }
    if !done.complete {
        writeln!(
            ui.out(),
            "interrupted: {} of {} ran",
            done.benchmarks.len(),
            session.wanted.len()
        )?;
    }
    if let Some(path) = &session.export {
        ui.note(&format!("kept in {}", path.display()))?;
    }
    Ok(())
}

enum Event {
    Began(BenchmarkId),
    Doing(String),
    Ended(Box<BenchmarkRunResult>),
}

/// Tells the thread that has the terminal.
struct Teller {
    sender: Sender<Event>,
    handle: Option<Handle>,
}

impl Teller {
    fn tell(&self, event: Event) {
        // Whoever listened has gone because of an error of its own, which will be told.
        let _ = self.sender.send(event);
    }
}

impl Watch for Teller {
    fn doing(&self, what: &str) {
        self.tell(Event::Doing(what.to_owned()));
    }

    fn throttled(&self, from: Instant, to: Instant) -> bool {
        self.handle.as_ref().is_some_and(|handle| handle.throttled(from, to))
    }
}

impl Observer for Teller {
    fn began(&self, id: &BenchmarkId) {
        self.tell(Event::Began(id.clone()));
    }

    fn ended(&self, result: &BenchmarkRunResult) {
        self.tell(Event::Ended(Box::new(result.clone())));
    }

    fn beside(&self, from: Instant, to: Instant) -> Option<Summary> {
        self.handle.as_ref().map(|handle| handle.summary(from, to))
    }
}
