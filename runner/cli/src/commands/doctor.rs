//! `warpforge doctor`: what works here, what is missing, and how to get it.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use warpforge_bench::capability::Status;

use super::Context;
use crate::doctor::{self, CAPABILITIES, Entry, Limits, Report};
use crate::exit::Exit;
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, GREEN, RED, Ui, YELLOW};

const EXAMPLES: &str = "\
Examples:
  warpforge doctor
  warpforge doctor --json | jq -r '.capabilities[] | select(.status != \"works\").cure'

Exit codes: 0 if the CPU path (cpu and golden) is whole, 1 if it is not.";

/// Say what works on this machine, what is missing, and how to get it
///
/// Every capability is really tried: libraries are loaded, devices opened, the cluster and the
/// object store asked. Each probe runs in a process of its own with a time limit, so one that
/// hangs or crashes is a finding and not the end. `doctor.timeout_seconds` sets the time for all.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print JSON (`warpforge schema doctor` describes it)
    #[arg(long)]
    json: bool,

    /// Run one probe in this process and print its finding as JSON
    #[arg(
        long,
        value_name = "NAME",
        hide = true,
        value_parser = PossibleValuesParser::new(CAPABILITIES.iter().map(|row| row.name)),
    )]
    probe: Option<String>,
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    if let Some(name) = &args.probe {
        let finding = doctor::probe_here(name, context);
        writeln!(ui.out(), "{}", serde_json::to_string(&finding)?)?;
        return Ok(Exit::Pass);
    }
    let report = examine(args, context, ui)?;
    if args.json {
        ui.json(&report)?;
    } else {
        show(&report, ui)?;
    }
    Ok(if report.cpu_path_whole { Exit::Pass } else { Exit::Fail })
}

fn examine(args: &Args, context: &Context<'_>, ui: &Ui) -> anyhow::Result<Report> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let shared = probe_arguments(context);
    let spawn = |name: &str| {
        let mut command = Command::new(&program);
        command.args(&shared).args(["doctor", "--probe", name]);
        command
    };
    let spinner = (ui.shows_progress() && !args.json).then(spinner);
    let report = doctor::examine(&spawn, Limits::of(context.settings()), &mut |waiting| {
        if let Some(spinner) = &spinner {
            spinner.set_message(format!("asking {}", waiting.join(", ")));
            spinner.tick();
        }
    });
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    Ok(report)
}

/// A probe resolves its settings itself, from the same file, environment and current folder.
fn probe_arguments(context: &Context<'_>) -> Vec<OsString> {
    let named = context.global.config.as_ref();
    named.map_or_else(Vec::new, |path| vec!["--config".into(), path.clone().into()])
}

fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}");
    ProgressBar::new_spinner().with_style(style.expect("the template is a constant and valid"))
}

fn show(report: &Report, ui: &mut Ui) -> std::io::Result<()> {
    let names = report.capabilities.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    // Mark, name, status and time stand before the text, each followed by two spaces.
    let room = Ui::width().saturating_sub(1 + names + "missing".len() + "0000 ms".len() + 4 * 2);
    let rows: Vec<_> =
        report.capabilities.iter().flat_map(|entry| rows_of(entry, room, ui)).collect();
    table::write(ui.out(), 0, &rows)?;
    ui.note(&format!("\n{}", conclusion(report)))
}

/// The finding, and below it what to do and what to know about it.
fn rows_of(entry: &Entry, room: usize, ui: &Ui) -> Vec<Vec<Cell>> {
    let (mark, word, style) = match entry.finding.status {
        Status::Works => (ui.glyph("✓", "+"), "works", GREEN),
        Status::Missing => (ui.glyph("–", "-"), "missing", YELLOW),
        Status::Broken => (ui.glyph("✗", "x"), "broken", RED),
    };
    let cure = entry.finding.cure.as_ref().map(|cure| format!("cure: {cure}"));
    let note = entry
        .never_run_on_its_hardware
        .then(|| "note: compiled, but not yet run on such hardware".to_owned());
    let mut lines: Vec<Cell> =
        table::wrap(&entry.finding.detail, room).into_iter().map(Cell::from).collect();
    for advice in cure.into_iter().chain(note) {
        lines.extend(table::wrap(&advice, room).into_iter().map(|line| Cell::styled(line, DIM)));
    }
    let time = format!("{:>7}", format!("{:.0} ms", entry.seconds * 1000.0));
    let head = [
        Cell::styled(mark, style),
        Cell::styled(entry.name, BOLD),
        Cell::styled(word, style),
        Cell::styled(time, DIM),
    ];
    let blank = || [(); 4].map(|()| Cell::from(""));
    let starts = std::iter::once(head).chain(std::iter::repeat_with(blank));
    starts.zip(lines).map(|(start, line)| start.into_iter().chain([line]).collect()).collect()
}

fn conclusion(report: &Report) -> String {
    if report.cpu_path_whole {
        return "The CPU path is whole: models can be run and checked on this machine.".to_owned();
    }
    let lacking: Vec<_> = report.capabilities.iter().filter(|entry| entry.is_lacking()).collect();
    let names: Vec<_> = lacking.iter().map(|entry| entry.name).collect();
    format!("The CPU path is not whole: see {} above.", names.join(" and "))
}
