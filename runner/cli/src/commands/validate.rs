//! `warpforge validate`: whether two runs, or two files, hold the same numbers.

mod hints;
pub mod show;
pub mod training;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use warpforge_parity::bundle::{
    self, BundleError, JUNIT, PARITY, REPORT_HTML, REPORT_JSON, Role, Side,
};
use warpforge_parity::judge::{Parity, Settings, judge};
use warpforge_parity::report::{self, OracleInfo, OracleScope, Report, SideInfo};
use warpforge_parity::tolerance::Tolerances;
use warpforge_parity::training::{TrainingSettings, is_training};
use warpforge_parity::verdict::{Reason, Verdict};

use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  warpforge validate --golden golden.safetensors --candidate ours.safetensors
  warpforge validate --golden run/golden --candidate run/warpforge --report run/parity
  warpforge validate --golden a --candidate b --tolerance rtol=1e-4 --tolerance loss.atol=1e-7
  warpforge validate --golden a --candidate b --oracle float64.safetensors --json
  warpforge validate --golden train/golden --candidate train/warpforge --fail-on-mismatch

An element passes if |candidate - golden| <= atol + rtol * |golden|, as torch.allclose has it;
integers and booleans must be equal. The defaults (rtol/atol) go by what is compared: weights
1e-4/1e-6; outputs, activations and gradients 1e-3/1e-5; loss 1e-4/1e-6; metrics 5e-3/0; the
error against an oracle may be 1.5 times golden's (oracle.factor) plus one ulp.

Two trainings (folders with forced.json) are held to more than that: gradients also by norm, the
optimiser alone by ulps, the loss curve to golden's own spread; docs/validation.md has the rules.

The exit code is the verdict: 0 pass, 1 fail, 3 inconclusive, 4 skipped, 5 invalid (nothing was
compared, or a side is damaged or incomplete); 2 is wrong usage.";

/// Compare the numbers of two runs, of two folders of tensors, or of two files
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Args {
    /// The reference: a safetensors file, a folder of them, or a run's folder
    #[arg(long, value_name = "PATH")]
    golden: PathBuf,

    /// What is held against it
    #[arg(long, value_name = "PATH")]
    candidate: PathBuf,

    /// A float64 evaluation of the same: both sides' errors against it are reported, and the
    /// candidate's is bounded by golden's
    #[arg(long, value_name = "PATH")]
    oracle: Option<PathBuf>,

    /// Set a tolerance: rtol, atol, KIND.rtol, KIND.atol or oracle.factor
    #[arg(long, value_name = "KEY=VALUE")]
    tolerance: Vec<String>,

    /// Golden is expected to hold NaN or infinity; the candidate must have the same in the same
    /// places
    #[arg(long, alias = "expect-nan")]
    expect_nonfinite: bool,

    /// End with exit code 1 if the two differ. This is the default and need not be said;
    /// --fail-on-mismatch=false ends with 0 instead and leaves the judgement to the report
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        hide_default_value = true
    )]
    fail_on_mismatch: bool,

    /// Let the verdict on speed count for the exit code, too
    #[arg(long)]
    fail_on_performance: bool,

    /// The file of baselines that a training's speed is held against
    #[arg(long, value_name = "FILE", default_value = super::baseline::FILE)]
    baselines: PathBuf,

    /// Write report.json, report.html, junit.xml and parity.json into DIR
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,

    /// Print the report as JSON (`warpforge schema report` describes it)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let tolerances = tolerances(&args.tolerance)?;
    if args.oracle.is_none() && (is_training(&args.golden) || is_training(&args.candidate)) {
        let expect_nonfinite = args.expect_nonfinite;
        let settings =
            TrainingSettings { tolerances, expect_nonfinite, ..TrainingSettings::default() };
        return training::run(args, &settings, ui);
    }
    let settings = Settings { tolerances, expect_nonfinite: args.expect_nonfinite };
    let opened = open_all(args)?;
    let parity = match &opened {
        Ok(sides) => judge(&sides.golden, &sides.candidate, sides.oracle.as_ref(), &settings),
        Err(reason) => Parity::without_comparison(reason.clone(), settings.tolerances),
    };
    let parity_json = serde_json::to_string_pretty(&parity)? + "\n";
    let title = format!("{} against {}", args.candidate.display(), args.golden.display());
    finish(args, Report::new(title, parity), &parity_json, ui)
}

/// Fills in who and when, writes the files, shows the outcome and says how to exit.
fn finish(args: &Args, report: Report, parity: &str, ui: &mut Ui) -> anyhow::Result<Exit> {
    let report = describe(args, report)?;
    if let Some(folder) = &args.report {
        write_all(folder, &report, parity)?;
    }
    if args.json {
        ui.json(&report)?;
    } else if report.training.is_some() {
        training::show(&report, args.report.as_deref(), ui)?;
    } else {
        show::show(&report, args.report.as_deref(), ui)?;
    }
    let performance = report.verdicts.performance.filter(|_| args.fail_on_performance);
    let correctness = exit(report.verdicts.correctness, args.fail_on_mismatch);
    Ok(match performance {
        Some(speed) if correctness == Exit::Pass => speed.into(),
        Some(speed) => Verdict::gravest([report.verdicts.correctness, speed]).into(),
        None => correctness,
    })
}

/// A path that is not there is the user's to cure.
fn absent(path: &Path, flag: &str) -> anyhow::Error {
    let message = format!("there is no file or folder {}", path.display());
    Misuse::new(message, format!("name a safetensors file or a folder of them with {flag}")).into()
}

fn exit(verdict: Verdict, fail_on_mismatch: bool) -> Exit {
    match verdict {
        Verdict::Fail if !fail_on_mismatch => Exit::Pass,
        verdict => verdict.into(),
    }
}

/// The default tolerances with these changes.
pub fn tolerances(assignments: &[String]) -> anyhow::Result<Tolerances> {
    let mut tolerances = Tolerances::default();
    for assignment in assignments {
        tolerances.set(assignment).map_err(|error| {
            Misuse::new(
                format!("--tolerance {assignment}: {error}"),
                "see `warpforge help validate`",
            )
        })?;
    }
    Ok(tolerances)
}

struct Sides {
    golden: Side,
    candidate: Side,
    oracle: Option<Side>,
}

/// The sides, or why they cannot be compared; a path that is not there is the user's to cure.
fn open_all(args: &Args) -> anyhow::Result<Result<Sides, Reason>> {
    let (golden, candidate) = (&args.golden, &args.candidate);
    let kinds = [golden, candidate].map(|path| (path.is_file(), path.is_dir()));
    if kinds == [(true, false), (false, true)] || kinds == [(false, true), (true, false)] {
        let message =
            format!("{} and {} are a file and a folder", golden.display(), candidate.display());
        return Err(Misuse::new(message, "name two files or two folders").into());
    }
    let mut opened = Vec::new();
    let oracle = args.oracle.as_ref().map(|path| ("--oracle", path, Role::Oracle));
    let sides = [("--golden", golden, Role::Golden), ("--candidate", candidate, Role::Candidate)];
    for (flag, path, role) in sides.into_iter().chain(oracle) {
        match Side::open(path, role) {
            Ok(side) => opened.push(side),
            Err(BundleError::Absent(path)) => return Err(absent(&path, flag)),
            Err(error) => return Ok(Err(reason(path, &error))),
        }
    }
    let mut opened = opened.into_iter();
    let (golden, candidate) = opened.next().zip(opened.next()).context("both sides were opened")?;
    Ok(Ok(Sides { golden, candidate, oracle: opened.next() }))
}

fn reason(path: &Path, error: &BundleError) -> Reason {
    let path = path.display().to_string();
    match error {
        BundleError::Incomplete { why, .. } => Reason::IncompleteBundle { path, why: why.clone() },
        error => Reason::Unreadable { path, why: error.to_string() },
    }
}

fn describe(args: &Args, mut report: Report) -> anyhow::Result<Report> {
    let side = |path: &Path| SideInfo { source: path.display().to_string(), ..SideInfo::default() };
    report.created = Some(jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    report.golden = side(&args.golden);
    report.candidate = side(&args.candidate);
    report.oracle = args
        .oracle
        .as_ref()
        .map(|path| OracleInfo { source: path.display().to_string(), scope: OracleScope::Whole });
    report.versions.insert("warpforge".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    if args.report.is_some() || args.json {
        report.system = Some(serde_json::to_value(warpforge_bench::system::snapshot())?);
    }
    Ok(report)
}

fn write_all(folder: &Path, report: &Report, parity: &str) -> anyhow::Result<()> {
    let unwritable = || {
        let message = format!("cannot write the report to {}", folder.display());
        Misuse::new(message, "name a folder that can be written with --report")
    };
    std::fs::create_dir_all(folder).with_context(unwritable)?;
    for (name, text) in [
        (PARITY, parity),
        (REPORT_HTML, report::html(report).as_str()),
        (JUNIT, report::junit(report).as_str()),
        // Last, so that whoever waits for it finds the others.
        (REPORT_JSON, report::json(report).as_str()),
    ] {
        bundle::write_beside(&folder.join(name), text.as_bytes()).with_context(unwritable)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_the_verdicts() {
        for verdict in Verdict::ALL {
            assert_eq!(exit(verdict, true) as u8, verdict.exit_code(), "{verdict}");
        }
        // Only a mismatch can be waved through: what is invalid stays invalid.
        assert_eq!(exit(Verdict::Fail, false), Exit::Pass);
        assert_eq!(exit(Verdict::Invalid, false), Exit::Invalid);
    }
}
