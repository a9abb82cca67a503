//! Both passes of a training, compared: what `run` does in one go, and its parts one by one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warpforge_golden_protocol as protocol;
use warpforge_parity::bundle::{self, Expect, Writer, write_beside};
use warpforge_parity::performance::{self, Baselines, Block, Blocks, PeakMemory, Rules};
use warpforge_parity::report::{self, Attribution, Report};
use warpforge_parity::training::{self as parity, TrainingParity, TrainingSettings};
use warpforge_parity::verdict::Reason;
use warpforge_snakeburger::ir::Module;
use warpforge_snakeburger::text;

use super::measure::{self, Measured};
use super::stepper::{Programs, Stepper};
use super::{Pass, Plan, Stage, Task, execute, golden, ranks};
use crate::error::Error;
use crate::forward::read_program;
use crate::timeline::Recorder;

/// What is trained and compared.
pub struct Request<'a> {
    pub title: String,
    pub plan: &'a Plan,
    pub task: &'a dyn Task,
    /// Everything that was set, for `run.json`.
    pub configuration: serde_json::Value,
    /// The part of it that golden's folder depends on: a limit may change without a new golden.
    pub determining: serde_json::Value,
    /// The workload and its preset, if it is one of ours.
    pub workload: Option<(String, String)>,
    /// A program in the place of the step's own.
    pub program: Option<PathBuf>,
    pub expect: Expect,
    pub attributions: Vec<Attribution>,
    pub settings: TrainingSettings,
    /// Makes golden's folder again though it is there.
    pub refresh: bool,
    /// What a step processes.
    pub items_per_step: f64,
    pub hardware_class: String,
    pub allowed_delta: Option<f64>,
    /// What either pass may take at most.
    pub memory_limit_bytes: Option<u64>,
    pub baselines: Baselines,
    /// Rounds of timed blocks, and the steps of each; none leaves speed out.
    pub timing: (u32, u32),
    /// How often to look at what the machine does; never if there is nothing.
    pub monitor: Option<Duration>,
}

/// The content of a pass's `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    pub version: u32,
    pub warpforge: String,
    /// Of golden's folder: everything that determines it.
    pub key: String,
    pub title: String,
    pub configuration: serde_json::Value,
    #[serde(default)]
    pub libtorch: Option<String>,
    #[serde(default)]
    pub system: Option<serde_json::Value>,
}

impl RunFile {
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(bundle::RUN);
        let text = fs::read(&path).map_err(|error| Error::io(&path, error))?;
        serde_json::from_slice(&text).map_err(|error| Error::File { path, why: error.to_string() })
    }
}

/// Pass 1 alone; one of several ranks does its part of it.
pub fn make_golden(
    request: &Request<'_>,
    out: &Path,
    system: Option<&serde_json::Value>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    let plan = request.plan;
    if plan.rank.as_ref().is_some_and(|rank| !rank.leads()) {
        let key = golden::key(plan, request.task, &request.determining)?;
        return ranks::follow(plan, request.task, &key, on_stage);
    }
    let programs = Programs::new(plan, None)?;
    golden_folder(request, &programs, out, system, on_stage)
}

fn golden_folder(
    request: &Request<'_>,
    programs: &Programs,
    out: &Path,
    system: Option<&serde_json::Value>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    let key = golden::key(request.plan, request.task, &request.determining)?;
    let whole = out.join(bundle::COMPLETE).is_file() && !out.join(bundle::INCOMPLETE).exists();
    if whole && !request.refresh && RunFile::read(out).is_ok_and(|known| known.key == key) {
        return ranks::dismiss(request.plan, &key);
    }
    let order = Stepper::new(programs, request.plan.seed)?.order();
    let run = RunFile {
        version: 1,
        warpforge: env!("CARGO_PKG_VERSION").into(),
        key: key.clone(),
        title: request.title.clone(),
        configuration: request.configuration.clone(),
        libtorch: Some(protocol::LIBTORCH_VERSION.into()),
        system: system.cloned(),
    };
    golden::make(request.plan, request.task, &order, &request.expect, out, &run, on_stage)
}

/// Pass 2 alone, beside golden's folder.
pub fn make_candidate(
    request: &Request<'_>,
    golden: &Path,
    out: &Path,
    system: Option<&serde_json::Value>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    let programs = Programs::new(request.plan, program(request)?)?;
    candidate_folder(request, &programs, golden, out, system, None, on_stage)
}

/// The program that is to run in the step's place, if there is one.
fn program(request: &Request<'_>) -> Result<Option<Module>, Error> {
    request.program.as_deref().map(read_program).transpose()
}

fn candidate_folder(
    request: &Request<'_>,
    programs: &Programs,
    golden: &Path,
    out: &Path,
    system: Option<&serde_json::Value>,
    blocks: Option<&Blocks>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    let of_golden = RunFile::read(golden)?;
    let program = golden::text_digest(&text::print(&programs.step, text::PrintOptions::default()));
    let run = RunFile {
        version: 1,
        warpforge: env!("CARGO_PKG_VERSION").into(),
        key: golden::text_digest(&format!("{} {program}", of_golden.key)),
        title: request.title.clone(),
        configuration: request.configuration.clone(),
        libtorch: None,
        system: system.cloned(),
    };
    execute::make(request.plan, request.task, programs, golden, out, &run, blocks, on_stage)
}

/// Both passes, speed, comparison, report: the whole bundle.
pub fn run(
    request: &Request<'_>,
    out: &Path,
    system: Option<serde_json::Value>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<Report, Error> {
    let mut recorder = Recorder::start(request.monitor);
    let on_stage = &mut |stage: Stage| {
        recorder.enter(&stage);
        on_stage(stage);
    };
    let without = |reason| (TrainingParity::without_comparison(reason, &request.settings), None);
    let (parity, blocks) = match passes(request, out, system.as_ref(), on_stage) {
        Err(Error::Golden(error)) if error.is_missing() => without(Reason::Absent {
            what: "golden needs libtorch".into(),
            cure: "cargo xtask setup golden".into(),
        }),
        Err(Error::Deadline { limit, at }) => {
            without(Reason::Deadline { limit_seconds: limit.as_secs_f64(), at })
        }
        other => other?,
    };
    finish(request, out, &parity, blocks.as_ref(), system, recorder)
}

/// Both folders, and what they say.
fn passes(
    request: &Request<'_>,
    out: &Path,
    system: Option<&serde_json::Value>,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(TrainingParity, Option<Blocks>), Error> {
    on_stage(Stage::Loading);
    let programs = Programs::new(request.plan, program(request)?)?;
    let (golden, candidate) = (out.join(bundle::GOLDEN), out.join(bundle::WARPFORGE));
    golden_folder(request, &programs, &golden, system, on_stage)?;
    let (rounds, steps) = request.timing;
    let blocks = if rounds > 0 && steps > 0 {
        let (plan, steps) = (request.plan, steps.min(request.plan.steps));
        let measured = measure::measure(plan, request.task, &programs, rounds, steps, on_stage)?;
        Some(blocks(request, &measured))
    } else {
        None
    };
    candidate_folder(request, &programs, &golden, &candidate, system, blocks.as_ref(), on_stage)?;
    on_stage(Stage::Comparing);
    let parity = parity::judge(&golden, &candidate, &request.settings)?;
    Ok((parity, blocks))
}

fn blocks(request: &Request<'_>, measured: &Measured) -> Blocks {
    let pass = |pass| match pass {
        Pass::WarpForge => performance::Pass::Warpforge,
        Pass::Golden | Pass::Oracle => performance::Pass::Golden,
    };
    Blocks {
        version: performance::VERSION,
        blocks: measured
            .blocks
            .iter()
            .map(|block| Block {
                pass: pass(block.pass),
                steps: block.steps.into(),
                seconds: block.seconds,
            })
            .collect(),
        items_per_step: request.items_per_step,
        unit: "samples/s".into(),
        rules: rules(request),
        peak_memory_bytes: PeakMemory {
            golden: measured.golden_peak_bytes,
            warpforge: measured.own_peak_bytes,
        },
    }
}

/// Speed is judged apart from correctness, and not at all on the reference interpreter.
fn rules(request: &Request<'_>) -> Rules {
    Rules {
        judged: false,
        why_not: Some(
            "Pass 2 ran on the reference interpreter, which is not meant to be fast".into(),
        ),
        allowed_delta: request.allowed_delta,
        baseline_delta: request.allowed_delta.unwrap_or(0.15),
        workload: match &request.workload {
            Some((name, preset)) => format!("{name}/{preset}"),
            None => request.title.clone(),
        },
        hardware_class: request.hardware_class.clone(),
    }
}

/// Passes that took more memory than they may.
fn too_large(request: &Request<'_>, peak: PeakMemory) -> impl Iterator<Item = String> {
    let limit = request.memory_limit_bytes.unwrap_or(u64::MAX);
    let passes = [("golden", peak.golden), ("warpforge", peak.warpforge)];
    passes.into_iter().filter_map(move |(pass, bytes)| {
        let bytes = bytes.filter(|bytes| *bytes > limit)?;
        Some(format!(
            "{pass} took {bytes} bytes of memory at its peak, more than the {limit} allowed"
        ))
    })
}

fn finish(
    request: &Request<'_>,
    out: &Path,
    parity: &TrainingParity,
    blocks: Option<&Blocks>,
    system: Option<serde_json::Value>,
    recorder: Recorder,
) -> Result<Report, Error> {
    let mut report = Report::of_training(&request.title, parity.clone());
    if let Some(blocks) = blocks {
        let mut speed = performance::judge(blocks, &request.baselines);
        speed.reasons.extend(too_large(request, blocks.peak_memory_bytes));
        report = report.with_performance(speed);
    }
    if let (Some(training), Some((name, preset))) = (&mut report.training, &request.workload) {
        training.workload = Some(name.clone());
        training.preset = Some(preset.clone());
    }
    let plan = request.plan;
    report.golden.source = format!("libtorch {}", protocol::LIBTORCH_VERSION);
    report.golden.device = Some(format!("{}, {} threads", plan.device, plan.threads));
    report.candidate.source = "StableHLO on the reference interpreter".into();
    report.candidate.device = Some("cpu".into());
    report.seeds = BTreeMap::from([("seed".to_owned(), plan.seed)]);
    report.versions = BTreeMap::from([
        ("warpforge".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("libtorch".to_owned(), protocol::LIBTORCH_VERSION.to_owned()),
    ]);
    report.attributions.clone_from(&request.attributions);
    report.system = system;
    let mut whole = Writer::create(out)?;
    recorder.finish(&mut whole, &mut report)?;
    let golden = out.join(bundle::GOLDEN).join(bundle::RUN);
    if let Ok(text) = fs::read(&golden) {
        let path = out.join(bundle::RUN);
        write_beside(&path, &text).map_err(|error| Error::io(&path, error))?;
        whole.adopt(bundle::RUN)?;
    }
    whole.json(bundle::PARITY, parity)?;
    whole.text(bundle::REPORT_JSON, &report::json(&report))?;
    whole.text(bundle::JUNIT, &report::junit(&report))?;
    whole.text(bundle::REPORT_HTML, &report::html(&report))?;
    whole.finish()?;
    Ok(report)
}
