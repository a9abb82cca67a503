//! What a run asks for, as arguments of our own commands. Nothing is left out in silence: what
//! cannot be done is refused with the field that asks for it.

mod arguments;
mod golden;
mod source;
mod suite;

use warpforge_operator_api::Resolved;
use warpforge_operator_api::contract::{RankMap, RunnerSpec, VERSION};
use warpforge_operator_api::data::{Model, S3, Stage, Training, Workload};
use warpforge_operator_api::policy::{Thresholds, Tolerance, Tolerances};
use warpforge_operator_api::workers::Vendor;

pub use arguments::{Files, Step, arguments, golden_of_rank};
pub use golden::Golden;
pub use source::Source;
pub use suite::{Suite, second_worker};

/// A request that cannot be carried out, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why}")]
pub struct Refusal {
    pub at: String,
    pub why: String,
}

pub(crate) fn refuse<T>(at: &str, why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { at: at.to_owned(), why: why.into() })
}

/// A request that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A model's passes, and what they come to.
    Passes(Passes),
    /// Benchmarks.
    Suite(Suite),
}

/// The model that is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Workload { name: String },
    Model { source: Source, inputs: Vec<Source>, training: bool },
}

/// What is to be computed and compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passes {
    pub subject: Subject,
    /// Arguments of `warpforge run` that name no file of the worker's.
    pub options: Vec<String>,
    /// Those of them that are about judging, which golden alone does not take.
    pub judging: Vec<String>,
    /// A program in Pass 2's place.
    pub program: Option<Source>,
    pub golden: Golden,
    /// Seconds that the request itself allows.
    pub limit: Option<u64>,
}

impl Request {
    pub fn first_stage(&self) -> Stage {
        match self {
            Self::Passes(passes) => passes.first_stage(),
            Self::Suite(_) => Stage::Suite,
        }
    }

    /// Whether it comes to a bundle of its own, beside a golden.
    pub fn stores_bundle(&self) -> bool {
        match self {
            Self::Passes(passes) => passes.golden.second_pass,
            Self::Suite(_) => true,
        }
    }

    /// Seconds that the request itself allows.
    pub fn limit(&self) -> Option<u64> {
        match self {
            Self::Passes(passes) => passes.limit,
            Self::Suite(_) => None,
        }
    }

    pub fn passes(&self) -> Option<&Passes> {
        match self {
            Self::Passes(passes) => Some(passes),
            Self::Suite(_) => None,
        }
    }

    /// Files that it names.
    pub fn sources(&self) -> Vec<&Source> {
        self.passes().map(Passes::sources).unwrap_or_default()
    }
}

impl Passes {
    /// The pass that comes first.
    pub fn first_stage(&self) -> Stage {
        if self.golden.may_make { Stage::Golden } else { Stage::Warpforge }
    }

    /// Whether its golden has a key, by which it can be stored and found again. A forward run's is
    /// made in seconds, together with the other pass, and is not kept apart.
    pub fn keeps_golden(&self) -> bool {
        !matches!(self.subject, Subject::Model { training: false, .. })
    }

    /// Whether it may come to store a golden.
    pub fn stores_golden(&self) -> bool {
        self.keeps_golden() && self.golden.may_make
    }

    /// Whether that takes the place of whatever is there.
    pub fn replaces_golden(&self) -> bool {
        self.stores_golden() && !self.golden.may_reuse
    }

    fn sources(&self) -> Vec<&Source> {
        let own = match &self.subject {
            Subject::Workload { .. } => Vec::new(),
            Subject::Model { source, inputs, .. } => {
                std::iter::once(source).chain(inputs).collect()
            }
        };
        own.into_iter().chain(&self.program).collect()
    }
}

/// Understands what the two files say, or refuses it.
pub fn request(spec: &RunnerSpec, ranks: &RankMap) -> Result<Request, Refusal> {
    for (file, version) in [("spec.json", spec.version), ("ranks.json", ranks.version)] {
        if version != VERSION {
            let why = format!("it has version {version}, and this runner reads version {VERSION}");
            return refuse(file, why);
        }
    }
    let run = &spec.spec;
    let store = run.artifacts.as_ref().map(|artifacts| &artifacts.s3);
    if run.data.hugging_face_token_secret.is_some() {
        let why = "workers fetch nothing from the hub yet; bring the data in data.volumeClaims";
        return refuse("data.huggingFaceTokenSecret", why);
    }
    if run.workload.is_none() && !run.data.accept_licenses.is_empty() {
        let why = "a workload's data have licences to accept; models and suites bring none";
        return refuse("data.acceptLicenses", why);
    }
    let (subject, mut options, limit) = match (&run.workload, &run.model, &run.suite) {
        (Some(workload), None, None) => of_workload(workload, run)?,
        (None, Some(model), None) => of_model(model, run, store)?,
        (None, None, Some(suite)) => return suite::of(suite, run, ranks).map(Request::Suite),
        _ => return refuse("spec.json", "exactly one of workload, model and suite"),
    };
    let program = run.program_uri.as_ref();
    let program = program.map(|uri| Source::parse("programUri", uri, &run.data, store));
    let program = program.transpose()?;
    let training = !matches!(subject, Subject::Model { training: false, .. });
    let is_workload = matches!(subject, Subject::Workload { .. });
    if is_workload {
        let licences = run.data.accept_licenses.iter();
        options.extend(licences.flat_map(|id| ["--accept-license".to_owned(), id.clone()]));
    }
    let mut judging = tolerances(&run.tolerances, is_workload)?;
    judging.extend(thresholds(&run.thresholds, training)?);
    let golden = golden::of(run, training)?;
    if program.is_some() && !golden.second_pass {
        return refuse("programUri", "it takes Pass 2's place, and a golden alone has none");
    }
    if ranks.ranks.len() > 1 {
        several(ranks.ranks.len(), golden, is_workload)?;
    }
    Ok(Request::Passes(Passes { subject, options, judging, program, golden, limit }))
}

fn several(workers: usize, golden: Golden, is_workload: bool) -> Result<(), Refusal> {
    if golden.second_pass {
        let why = format!(
            "{workers} workers: Pass 2 across workers is not there yet; one worker can run it, \
             and several can run golden (goldenPolicy: Only)"
        );
        return refuse("workers", why);
    }
    if !is_workload {
        return refuse("workers", "several workers run the golden of a workload, not of a model");
    }
    Ok(())
}

/// What the worker's own devices cannot do yet.
pub fn supported(request: &Request, vendor: Vendor) -> Result<(), Refusal> {
    if vendor != Vendor::Cpu && request.passes().is_some_and(|passes| passes.golden.second_pass) {
        let why = format!("{vendor:?}: Pass 2 runs on Cpu workers only so far");
        return refuse("workers.vendor", why);
    }
    Ok(())
}

type Understood = (Subject, Vec<String>, Option<u64>);

const LIMIT: &str = "wall_limit_seconds";

fn of_workload(workload: &Workload, run: &Resolved) -> Result<Understood, Refusal> {
    let mut options = Vec::new();
    if let Some(preset) = &workload.preset {
        options.extend(["--preset".to_owned(), preset.clone()]);
    }
    let mut limit = None;
    for (name, value) in &workload.parameters {
        let at = format!("workload.parameters.{name}");
        match name.as_str() {
            LIMIT => {
                let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
                let Some(seconds) = seconds else {
                    return refuse(&at, format!("{value:?} is no number of seconds"));
                };
                limit = Some(seconds);
            }
            _ if name.contains('=') => return refuse(&at, "a name has no `=`"),
            _ if value.starts_with("data://") => {
                let path = Source::parse(&at, value, &run.data, None)?.place();
                options.extend(["--set".to_owned(), format!("{name}={path}")]);
            }
            _ => options.extend(["--set".to_owned(), format!("{name}={value}")]),
        }
    }
    Ok((Subject::Workload { name: workload.name.clone() }, options, limit))
}

fn of_model(model: &Model, run: &Resolved, store: Option<&S3>) -> Result<Understood, Refusal> {
    let source = Source::parse("model.uri", &model.uri, &run.data, store)?;
    let given = model.inputs.as_ref();
    let uris = given.map(|inputs| inputs.uris.as_slice()).unwrap_or_default();
    let inputs = uris.iter().map(|uri| Source::parse("model.inputs.uris", uri, &run.data, store));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let mut options = Vec::new();
    if let Some(seed) = given.and_then(|inputs| inputs.seed) {
        options.extend(["--seed".to_owned(), seed.to_string()]);
    }
    if let Some(training) = &model.training {
        trained(training, &mut options)?;
    } else if inputs.len() > 1 {
        return refuse("model.inputs.uris", "a forward run takes one file; a training several");
    }
    let training = model.training.is_some();
    Ok((Subject::Model { source, inputs, training }, options, None))
}

/// Options of `warpforge run --train` that take a value, and those that are only said. Others are
/// not a run's to set: they name files and devices of the worker.
const VALUES: &[&str] = &[
    "optimizer",
    "lr",
    "weight-decay",
    "betas",
    "eps",
    "momentum",
    "dampening",
    "clip-norm",
    "accumulate",
    "schedule",
    "warmup",
    "every",
    "gamma",
    "forced",
    "noise",
    "remat",
    "threads",
    "dim",
];
const FLAGS: &[&str] =
    &["no-norm-decay", "nesterov", "scale-loss", "master-weights", "no-oracle", "expect-nonfinite"];

fn trained(training: &Training, options: &mut Vec<String>) -> Result<(), Refusal> {
    let steps = training.steps.to_string();
    options.extend(["--train".to_owned(), "--steps".to_owned(), steps]);
    if let Some(loss) = &training.loss {
        options.push(format!("--loss={loss}"));
    }
    for (name, value) in &training.settings {
        let at = format!("model.training.settings.{name}");
        match name.as_str() {
            known if VALUES.contains(&known) => options.push(format!("--{known}={value}")),
            flag if FLAGS.contains(&flag) && value == "true" => options.push(format!("--{flag}")),
            flag if FLAGS.contains(&flag) && value == "false" => {}
            flag if FLAGS.contains(&flag) => return refuse(&at, "say true or false"),
            _ => {
                let known = [VALUES, FLAGS].concat().join(", ");
                return refuse(&at, format!("there is no such setting; there are {known}"));
            }
        }
    }
    Ok(())
}

fn tolerances(all: &Tolerances, is_workload: bool) -> Result<Vec<String>, Refusal> {
    let Tolerances { weights, activations, gradients, loss, metrics } = all;
    if is_workload && metrics.is_some() {
        let why = "a workload says for each metric what may differ; set the parameter \
                   expect.METRIC.absolute or expect.METRIC.relative";
        return refuse("tolerances.metrics", why);
    }
    // A model's outputs are results of its nodes, too.
    let kinds = [
        ("weights", weights),
        ("activations", activations),
        ("outputs", activations),
        ("gradients", gradients),
        ("loss", loss),
        ("metrics", metrics),
    ];
    let of_kind = |(kind, tolerance): (&str, &Option<Tolerance>)| {
        let Tolerance { relative, absolute } = tolerance.clone().unwrap_or_default();
        let parts = [("rtol", relative), ("atol", absolute)];
        let parts = parts.into_iter().filter_map(|(part, value)| Some((part, value?)));
        parts.map(|(part, value)| format!("--tolerance={kind}.{part}={}", value.0)).collect()
    };
    Ok(kinds.into_iter().map(of_kind).collect::<Vec<Vec<_>>>().concat())
}

fn thresholds(all: &Thresholds, training: bool) -> Result<Vec<String>, Refusal> {
    let Thresholds { minimum_ratio, maximum_regression, fail_on_performance } = all;
    if maximum_regression.is_some() {
        let why = "workers have no baselines that a run could be held against";
        return refuse("thresholds.maximumRegression", why);
    }
    let fails = fail_on_performance == &Some(true);
    let asked = [("minimumRatio", minimum_ratio.is_some()), ("failOnPerformance", fails)];
    if let Some((name, _)) = asked.into_iter().find(|(_, asked)| *asked && !training) {
        let at = format!("thresholds.{name}");
        return refuse(&at, "the speed of a forward run is not judged");
    }
    let ratio = minimum_ratio.iter().map(|ratio| format!("--minimum-ratio={}", ratio.0));
    Ok(ratio.chain(fails.then(|| "--fail-on-performance".to_owned())).collect())
}

#[cfg(test)]
pub(crate) mod tests;
