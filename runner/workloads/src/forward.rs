//! The forward computation of a model in both passes, compared.
//!
//! Golden runs the exported graph twice, as exported and in float64, and Pass 2 runs the lowered
//! program; all three write down every node's result. The verdict is of the outputs, of what the
//! model changed in place, and of every intermediate that both sides have. A tensor that misses
//! its tolerance but lies as near to the float64 result as golden's own does not count against a
//! run: that is what arithmetic of the format looks like.

mod compare;
pub mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use warpforge_golden_protocol as protocol;
use warpforge_parity::bundle::{self, Writer};
use warpforge_parity::judge::{Parity, Settings};
use warpforge_parity::performance::Pass;
use warpforge_parity::report::{Report, Timing};
use warpforge_parity::verdict::Reason;
use warpforge_pt2::{DimSpec, Model, Symbol, TensorMeta, WeightSource};
use warpforge_snakeburger::ir::{Graph, Module};
use warpforge_snakeburger::text::{self, PrintOptions};
use warpforge_snakeburger::verify;
use warpforge_snakegrinder as snakegrinder;

use crate::error::Error;
use crate::given;
use crate::pass::{self, Options as PassOptions};
use crate::program::Signature;
use crate::repro;
use crate::tensors::{self, Named};
use crate::timeline::{Part, Recorder};

/// The file of buffers that the model changed, by their names.
pub const BUFFERS: &str = "buffers.safetensors";
/// The program that Pass 2 ran.
pub const PROGRAM: &str = "program.mlir";
/// What both passes started from.
pub const INPUTS: &str = "inputs.safetensors";

/// What to run.
#[derive(Clone, Debug)]
pub struct Request {
    pub model: PathBuf,
    pub inputs: Option<PathBuf>,
    pub dims: Vec<DimSpec>,
    pub weights: Weights,
    /// A program in Pass 2's place.
    pub program: Option<PathBuf>,
    pub out: PathBuf,
    pub seed: u64,
    pub threads: u32,
    pub device: protocol::Device,
    /// Whether golden also runs in float64.
    pub oracle: bool,
    /// Untapped repetitions of each pass, for timings.
    pub repeats: u32,
    pub settings: Settings,
    pub limit: Option<Duration>,
    /// Where golden's libtorch may be.
    pub libtorch: protocol::Search,
    /// How often to look at what the machine does; never if there is nothing.
    pub monitor: Option<Duration>,
}

/// Where the weights come from, as both passes are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weights {
    Archive,
    Safetensors(PathBuf),
    Recipe(PathBuf),
    StandardRecipe,
}

impl Weights {
    pub(crate) fn source(&self, seed: u64) -> Result<WeightSource, Error> {
        Ok(match self {
            Weights::Archive => WeightSource::Archive,
            Weights::Safetensors(path) => WeightSource::Safetensors(path.clone()),
            Weights::Recipe(path) => WeightSource::Recipe(warpforge_pt2::Recipe::read(path)?),
            Weights::StandardRecipe => Model::standard_recipe(seed),
        })
    }

    pub(crate) fn message(&self, seed: u64) -> protocol::Weights {
        match self {
            Weights::Archive => protocol::Weights::Archive,
            Weights::Safetensors(path) => protocol::Weights::Safetensors(path.clone()),
            Weights::Recipe(path) => protocol::Weights::Recipe(path.clone()),
            Weights::StandardRecipe => protocol::Weights::StandardRecipe(seed),
        }
    }
}

/// How far a run has come.
#[derive(Clone, Debug)]
pub enum Stage {
    Loading,
    Golden { oracle: bool, node: usize, nodes: usize },
    Program,
    Comparing,
}

impl Part for Stage {
    fn part(&self) -> (&'static str, Option<Pass>) {
        match self {
            Stage::Loading => ("loading", None),
            Stage::Golden { oracle: false, .. } => ("golden", Some(Pass::Golden)),
            Stage::Golden { oracle: true, .. } => ("golden in float64", Some(Pass::Golden)),
            Stage::Program => ("warpforge", Some(Pass::Warpforge)),
            Stage::Comparing => ("comparing", None),
        }
    }
}

/// Runs both passes and writes the bundle; the report says what came of it.
pub fn run(
    request: &Request,
    system: Option<serde_json::Value>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<Report, Error> {
    let mut recorder = Recorder::start(request.monitor);
    let on_stage = &mut |stage: Stage| {
        recorder.enter(&stage);
        on_stage(stage);
    };
    on_stage(Stage::Loading);
    let prepared = Prepared::new(request)?;
    // What was given may lie in the folder that is written to.
    let sources = record::Sources::of(request)?;
    clear(&request.out)?;
    let mut whole = Writer::create(&request.out)?;
    tensors::write(
        &request.out.join(INPUTS),
        prepared.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)),
    )?;
    whole.adopt(INPUTS)?;
    let locations = PrintOptions { locations: true, ..PrintOptions::default() };
    whole.text(PROGRAM, &text::print(&prepared.module, locations))?;
    // Without libtorch Pass 2 still runs; any other failure of golden ends the run at once.
    let golden = match golden_passes(request, &prepared, on_stage) {
        Ok(golden) => Some(golden),
        Err(Error::Golden(error)) if error.is_missing() => None,
        Err(error) => return Err(error),
    };
    on_stage(Stage::Program);
    let candidate = second_pass(request, &prepared)?;
    on_stage(Stage::Comparing);
    let mut report = match &golden {
        Some(golden) => compare::compare(request, &prepared, golden)?,
        None => skipped(request),
    };
    describe(&mut report, request, &prepared, golden.as_ref(), &candidate);
    report.created = Some(jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    report.system = system;
    recorder.finish(&mut whole, &mut report)?;
    whole.json(bundle::RUN, &record::Record::of(sources, request, &prepared, &report))?;
    finish(whole, &report)?;
    Ok(report)
}

/// Takes away what an earlier run left in the folder, of which this one may write less. A folder
/// without a run's mark is somebody else's, and stays as it is.
fn clear(out: &Path) -> Result<(), Error> {
    if ![bundle::COMPLETE, bundle::INCOMPLETE].iter().any(|mark| out.join(mark).exists()) {
        return Ok(());
    }
    for name in [bundle::GOLDEN, bundle::WARPFORGE, bundle::ORACLE, repro::FOLDER] {
        let folder = out.join(name);
        if folder.is_dir() {
            fs::remove_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        }
    }
    Ok(())
}

fn skipped(request: &Request) -> Report {
    let reason = Reason::Absent {
        what: "golden needs libtorch".into(),
        cure: "cargo xtask setup golden".into(),
    };
    let parity = Parity::without_comparison(reason, request.settings.tolerances);
    Report::new(title(request), parity)
}

fn title(request: &Request) -> String {
    request.model.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Everything that is settled before either pass runs.
struct Prepared {
    model: Model,
    inputs: Named,
    module: Module,
    signature: Signature,
    /// The sizes that export left open, as they were settled.
    sizes: BTreeMap<String, i64>,
}

impl Prepared {
    fn new(request: &Request) -> Result<Self, Error> {
        let mut model = Model::open(&request.model)?;
        let given = request.inputs.as_deref().map(tensors::read).transpose()?;
        let mut dims = request.dims.clone();
        if let Some(given) = &given {
            let names: Vec<String> =
                model.user_inputs().map(|input| input.name.to_string()).collect();
            let shapes = names.iter().enumerate().filter_map(|(i, name)| {
                let tensor = given.get(name).or_else(|| given.get(&format!("input.{i}")))?;
                Some((name.as_str(), tensor.dims()))
            });
            let known: Vec<DimSpec> = model.dims_of(shapes.collect::<Vec<_>>());
            dims.extend(known);
        }
        let open = model.symbols.clone();
        model.specialise(&dims)?;
        let sizes = sizes(&model, &open);
        model.set_weights(&request.weights.source(request.seed)?)?;
        let inputs = match &given {
            Some(given) => given::from_file(&model, given)?,
            None => given::drawn(&model, request.seed)?,
        };
        let module = if let Some(path) = &request.program {
            read_program(path)?
        } else {
            snakegrinder::lower(&model)?.module.into_module()
        };
        let func = module.entry().ok_or_else(|| Error::Program("it has no function".into()))?;
        let signature = Signature::of(&module, func);
        Ok(Self { model, inputs, module, signature, sizes })
    }

    fn graph(&self) -> Option<&Graph> {
        self.module.entry()?.body.as_ref()
    }
}

pub(crate) fn read_program(path: &Path) -> Result<Module, Error> {
    let source = fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
    let name = path.display().to_string();
    let shown = warpforge_snakeburger::diag::Source::new(&name, &source);
    let module = text::parse(&source, text::Options::default())
        .map_err(|problem| Error::Program(shown.render(&problem)))?;
    let problems = verify::problems(&module);
    if problems.is_empty() {
        return Ok(module);
    }
    let all: Vec<String> = problems.iter().map(|problem| shown.render(problem)).collect();
    Err(Error::Program(all.join("\n")))
}

/// What golden left behind.
struct Golden {
    outcome: protocol::Outcome,
    hello: protocol::Hello,
    has_oracle: bool,
}

fn golden_passes(
    request: &Request,
    prepared: &Prepared,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<Golden, Error> {
    let found = protocol::Golden::find(&request.libtorch)?;
    let mut session = found.start()?;
    let hello = session.hello().clone();
    let mut pass = |oracle: bool| -> Result<protocol::Outcome, Error> {
        let folder = request.out.join(if oracle { bundle::ORACLE } else { bundle::GOLDEN });
        let mut writer = Writer::create(&folder)?;
        let run = protocol::Run {
            model: absolute(&request.model)?,
            weights: request.weights.message(request.seed),
            inputs: Some(absolute(&request.out.join(INPUTS))?),
            precision: if oracle {
                protocol::Precision::F64
            } else {
                protocol::Precision::AsExported
            },
            device: if oracle { protocol::Device::Cpu } else { request.device },
            threads: request.threads,
            seed: request.seed,
            step: 0,
            taps: protocol::Taps::All,
            out: absolute(&folder)?,
            dims: prepared.sizes.clone(),
            // The first run is tapped, so it takes one more to see whether golden repeats itself.
            repeats: if oracle { 1 } else { 1 + request.repeats.max(1) },
            time_nodes: false,
            grad: false,
            tf32: false,
        };
        let outcome = session.run(&run, request.limit, &mut |event| {
            if let protocol::Event::Progress(progress) = event {
                let (node, nodes) = (progress.node, progress.nodes);
                on_stage(Stage::Golden { oracle, node, nodes });
            }
        })?;
        for file in &outcome.files {
            if let Ok(name) = file.strip_prefix(&run.out) {
                writer.adopt(&name.to_string_lossy())?;
            }
        }
        writer.finish()?;
        Ok(outcome)
    };
    let outcome = pass(false)?;
    let has_oracle = request.oracle && prepared.model.widened().is_ok();
    if has_oracle {
        pass(true)?;
    }
    session.finish();
    Ok(Golden { outcome, hello, has_oracle })
}

/// The values that open sizes were given, read off the inputs that have them.
fn sizes(model: &Model, open: &[Symbol]) -> BTreeMap<String, i64> {
    let mut sizes = BTreeMap::new();
    for symbol in open {
        for (input, axis) in &symbol.places {
            let input = model.inputs.iter().find(|known| known.name == *input);
            let dims = input.and_then(|input| input.meta.as_ref()).and_then(TensorMeta::dims);
            if let Some(size) = dims.and_then(|dims| dims.get(*axis).copied()) {
                sizes.insert(symbol.name.to_string(), size);
            }
        }
    }
    sizes
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|error| Error::io(path, error))
}

struct Candidate {
    seconds: Vec<f64>,
    ops: BTreeMap<String, u64>,
}

fn second_pass(request: &Request, prepared: &Prepared) -> Result<Candidate, Error> {
    let folder = request.out.join(bundle::WARPFORGE);
    let mut writer = Writer::create(&folder)?;
    let activations = bundle::activations(0);
    let taps = folder.join(&activations);
    if let Some(parent) = taps.parent() {
        fs::create_dir_all(parent).map_err(|error| Error::io(parent, error))?;
    }
    let options = |taps| PassOptions { seed: request.seed, step: 0, taps };
    let run = |taps| pass::run(&prepared.module, &prepared.model, &prepared.inputs, &options(taps));
    let outcome = run(Some(&taps))?;
    writer.adopt(&activations)?;
    let (buffers, inputs) = changed(prepared, &outcome.mutated)?;
    let files = [(bundle::OUTPUTS, &outcome.outputs), (BUFFERS, &buffers), (INPUTS, &inputs)];
    for (name, named) in files {
        if !named.is_empty() || name == bundle::OUTPUTS {
            let tensors = named.iter().map(|(name, tensor)| (name.as_str(), tensor));
            tensors::write(&folder.join(name), tensors)?;
            writer.adopt(name)?;
        }
    }
    let mut seconds = Vec::new();
    for _ in 0..request.repeats {
        seconds.push(run(None)?.seconds);
    }
    let ops = outcome.ops.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    writer.json(bundle::TIMINGS, &serde_json::json!({ "run_seconds": seconds }))?;
    writer.finish()?;
    Ok(Candidate { seconds, ops })
}

/// What the program changed in place and really became different, as golden counts it: buffers,
/// and inputs. Weights that a model renormalises are the workload's business, not a result.
fn changed(prepared: &Prepared, mutated: &Named) -> Result<(Named, Named), Error> {
    let (mut buffers, mut inputs) = (Named::new(), Named::new());
    for slot in &prepared.signature.arguments {
        let name = &slot.names[0];
        let Some(new) = mutated.get(name) else { continue };
        let to = match slot.kind.as_str() {
            "input" => &mut inputs,
            "buffer" | "constant" => &mut buffers,
            _ => continue,
        };
        let options = PassOptions { seed: 0, step: 0, taps: None };
        let old = pass::argument(slot, &new.ty, &prepared.model, &prepared.inputs, &options)?;
        if old.data != new.data {
            to.extend(slot.names.iter().map(|name| (name.clone(), new.clone())));
        }
    }
    Ok((buffers, inputs))
}

fn describe(
    report: &mut Report,
    request: &Request,
    prepared: &Prepared,
    golden: Option<&Golden>,
    candidate: &Candidate,
) {
    report.seeds = BTreeMap::from([("seed".to_owned(), request.seed)]);
    let formats = prepared.signature.taps.iter().filter_map(|tap| {
        let ty = prepared.module.value_ty(prepared.graph()?, tap.value).as_tensor()?;
        Some(ty.elem.storage().name())
    });
    let formats: BTreeSet<&str> = formats.collect();
    let formats: Vec<&str> = formats.into_iter().collect();
    report.formats = BTreeMap::from([("values".to_owned(), formats.join(", "))]);
    report.candidate.source = "StableHLO on the reference interpreter".into();
    report.candidate.device = Some("cpu".into());
    report.timings.candidate = timing(&candidate.seconds, None);
    report.executed.operations.insert("reference interpreter".into(), candidate.ops.clone());
    report.versions.insert("warpforge".into(), env!("CARGO_PKG_VERSION").into());
    report.versions.insert("exported by torch".into(), prepared.model.torch_version.clone());
    if let Some(golden) = golden {
        report.golden.source = format!("libtorch {}", golden.hello.libtorch);
        report.golden.device = Some(format!("{}, {} threads", request.device, request.threads));
        let runs = golden.outcome.timings.runs.iter();
        let seconds: Vec<f64> = runs.filter(|run| !run.tapped).map(|run| run.seconds).collect();
        report.timings.golden = timing(&seconds, Some(golden.outcome.timings.load_seconds));
        report.executed.operations.insert("libtorch".into(), golden.outcome.ops.clone());
        report.versions.insert("libtorch".into(), golden.hello.libtorch.clone());
    }
}

fn timing(seconds: &[f64], prepare: Option<f64>) -> Option<Timing> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = *sorted.get(sorted.len() / 2)?;
    Some(Timing {
        samples: sorted.len() as u64,
        median_ns: median * 1e9,
        min_ns: sorted.first().map(|s| s * 1e9),
        max_ns: sorted.last().map(|s| s * 1e9),
        prepare_ns: prepare.map(|s| s * 1e9),
    })
}

/// Writes the comparison, and the report in its three forms, and closes the bundle.
fn finish(mut whole: Writer, report: &Report) -> Result<(), Error> {
    whole.text(bundle::PARITY, &warpforge_parity::report::parity_json(report))?;
    whole.text(bundle::REPORT_JSON, &warpforge_parity::report::json(report))?;
    whole.text(bundle::JUNIT, &warpforge_parity::report::junit(report))?;
    whole.text(bundle::REPORT_HTML, &warpforge_parity::report::html(report))?;
    Ok(whole.finish()?)
}
