//! `warpforge stress`: a part of the machine under load, its results checked all the while.

use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use indicatif::ProgressBar;
use warpforge_bench::drive;
use warpforge_bench::load::LOADS;
use warpforge_bench::model::{Component, Params};
use warpforge_bench::monitor::Handle;
use warpforge_bench::registry::{Selection, choose};
use warpforge_bench::stress::{StressRun, Tally, drive as put_under_load};
use warpforge_bench::suite::{self, Stop, Unwatched, Watch};
use warpforge_bench::system::snapshot;
use warpforge_parity::judge::grouped;
use warpforge_parity::verdict::{Short, Verdict};

use super::benchmark::{bad_param, param, seconds, seen};
use super::monitor::{self, Watching};
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::interrupt;
use crate::ui::{BOLD, DIM, GREEN, RED, Ui, YELLOW};

const EXAMPLES: &str = "\
Examples:
  warpforge stress cpu --duration 600
  warpforge stress gpu --duration 3600 --monitor --monitor-interval 0.5 --monitor-output gpu.json
  warpforge stress storage --param folder=/mnt/scratch --json

Results are held against what they have to be in every round; one that is wrong does not end it, and
makes the exit code 1. Ctrl-C ends it and shows what was done (exit code 3). Hardware that is not
there is skipped (exit code 4).";

/// The components that can be put under load.
const COMPONENTS: [&str; 4] = ["cpu", "gpu", "ram", "storage"];

/// Put a part of the machine under load, and check its results
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[arg(value_name = "COMPONENT", value_parser = PossibleValuesParser::new(COMPONENTS)
        .try_map(|name| name.parse::<Component>().map_err(|()| "no component")))]
    component: Component,

    /// How long
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    duration: Duration,

    /// Set a parameter: `devices` of gpu; `folder` and `size_mib` of storage
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = param)]
    params: Vec<(String, String)>,

    #[command(flatten)]
    monitor: monitor::Args,

    /// Print JSON (`warpforge schema stress` describes it)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let params = params(args)?;
    let stop = interrupt::stop()?;
    let watching = args.monitor.start()?;
    let handle = watching.as_ref().map(|watching| watching.monitor.handle());
    let ran = drive(args, &params, &stop, handle, ui);
    // Whatever came of it, what was seen is kept.
    watching.map(Watching::finish).transpose()?;
    let ran = ran?;
    if args.json {
        ui.json(&ran)?
    } else {
        show(&ran, ui)?
    }
    Ok(ran.verdict.into())
}

/// Those of the benchmark that stands for the component, whose kernels are the load; a parameter
/// that would change nothing is refused.
fn params(args: &Args) -> anyhow::Result<Params> {
    let load = LOADS.iter().find(|(component, ..)| *component == args.component);
    let taken = load.map_or(&[][..], |(.., taken)| *taken);
    if let Some((name, _)) = args.params.iter().find(|(name, _)| !taken.contains(&name.as_str())) {
        let help = match taken {
            [] => "it has none: all of the component is put under load".to_owned(),
            _ => format!("there are {}", taken.join(", ")),
        };
        let message = format!("`stress {}` has no parameter {name}", args.component);
        return Err(Misuse::new(message, help).into());
    }
    let selection = Selection { components: vec![args.component], ..Selection::default() };
    let mut chosen = choose(&selection)?;
    drive::configure(&mut chosen, &args.params).map_err(|error| bad_param(&error))?;
    let spec = chosen.into_iter().find_map(|chosen| chosen.spec);
    Ok(spec.map(|spec| spec.params).unwrap_or_default())
}

fn drive(
    args: &Args,
    params: &Params,
    stop: &Stop,
    handle: Option<Handle>,
    ui: &mut Ui,
) -> anyhow::Result<StressRun> {
    let load = LOADS.iter().find(|(component, ..)| *component == args.component);
    let Some((_, make, _)) = load else {
        let message = format!("{} cannot be put under load yet", args.component);
        return Err(Misuse::new(message, "see `warpforge stress --help`")
            .ending(Exit::Skipped)
            .into());
    };
    let watch: &dyn Watch = handle.as_ref().map_or(&Unwatched, |handle| handle);
    let system = snapshot();
    let cx = suite::Context {
        duration: args.duration,
        burn_in: Duration::ZERO,
        params,
        system: &system,
        stop,
        watch,
    };
    let bar = if ui.shows_progress() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(120));
    let begun = Instant::now();
    let mut tell = |tally: &Tally| bar.set_message(progress(args, tally));
    let ran = put_under_load(args.component, make().as_mut(), &cx, &mut tell);
    bar.finish_and_clear();
    let mut ran = ran.map_err(|unready| {
        Misuse::new(unready.to_string(), "`warpforge benchmark describe` shows the parameters")
    })?;
    ran.monitor = handle.map(|handle| handle.summary(begun, Instant::now()));
    Ok(ran)
}

fn progress(args: &Args, tally: &Tally) -> String {
    let (done, all) = (tally.seconds.round(), args.duration.as_secs_f64());
    let rate = rate(tally.rate, &tally.unit);
    let (checks, errors) = (tally.checks, tally.errors);
    format!("{}: {done} of {all} s, {rate}, {checks} checks, {errors} errors", args.component)
}

fn show(ran: &StressRun, ui: &mut Ui) -> std::io::Result<()> {
    let style = match ran.verdict {
        Verdict::Pass => GREEN,
        Verdict::Fail | Verdict::Invalid => RED,
        Verdict::Inconclusive | Verdict::Skipped => YELLOW,
    };
    let reason = ran.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    let verdict = ran.verdict;
    writeln!(ui.out(), "{BOLD}{}{BOLD:#}  {style}{verdict}{style:#}{reason}", ran.component)?;
    let tally = &ran.tally;
    if tally.rounds > 0 {
        let of = |value: Option<f64>| rate(value.unwrap_or(0.0), &tally.unit);
        writeln!(
            ui.out(),
            "  {}, of a round from {} to {}",
            of(Some(tally.rate)),
            of(tally.slowest_rate),
            of(tally.fastest_rate)
        )?;
        writeln!(
            ui.out(),
            "  rounds {} in {} s, checks {}, errors {}",
            tally.rounds,
            Short(tally.seconds),
            grouped(tally.checks),
            tally.errors
        )?;
    }
    if let Some(summary) = &ran.monitor {
        ui.note(&format!("  {DIM}monitor{DIM:#}  {}", seen(summary)))?;
    }
    Ok(())
}

/// `1.23 TFLOP/s`.
fn rate(per_second: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 5] =
        [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (size, prefix) =
        PREFIXES.into_iter().find(|(size, _)| per_second >= *size).unwrap_or((1.0, ""));
    format!("{} {prefix}{unit}/s", Short(per_second / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_prefixes() {
        assert_eq!(rate(1.234e12, "FLOP"), "1.23 TFLOP/s");
        assert_eq!(rate(999.0, "B"), "999 B/s");
        assert_eq!(rate(0.0, "B"), "0 B/s");
        assert_eq!(rate(2.5e9, "B"), "2.50 GB/s");
    }
}
