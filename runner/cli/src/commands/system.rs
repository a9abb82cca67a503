//! `warpforge system`: a snapshot of the machine.

mod sections;

use warpforge_bench::system::{System, snapshot};

use crate::exit::Exit;
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, Ui};

const EXAMPLES: &str = "\
Examples:
  warpforge system
  warpforge system --json > system.json
  warpforge system --json | jq '.gpus[].name'";

/// Show the machine: processors, memory, GPUs, network, disks, software
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print JSON (`warpforge schema system` describes it)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let system = snapshot();
    if args.json {
        ui.json(&system)?;
    } else {
        show(&system, ui)?;
    }
    Ok(Exit::Pass)
}

fn show(system: &System, ui: &mut Ui) -> std::io::Result<()> {
    let sections = sections::of(system);
    // One width for all sections, so that the values stand in one column.
    let labels = sections.iter().flat_map(|section| &section.rows).map(|(label, _)| label.len());
    let width = labels.max().unwrap_or(0);
    let room = Ui::width().saturating_sub(2 + width + 2);
    for (index, section) in sections.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        writeln!(ui.out(), "{gap}{BOLD}{}{BOLD:#}", section.title)?;
        let rows: Vec<_> = section.rows.iter().flat_map(|row| rows_of(row, width, room)).collect();
        table::write(ui.out(), 2, &rows)?;
    }
    Ok(())
}

/// A label and its value, which may need several lines.
fn rows_of((label, value): &(String, String), width: usize, room: usize) -> Vec<Vec<Cell>> {
    if value.is_empty() {
        return vec![vec![Cell::styled(label, DIM)]];
    }
    let labels = std::iter::once(label.as_str()).chain(std::iter::repeat(""));
    let pair = |(label, line): (&str, String)| {
        vec![Cell::styled(format!("{label:width$}"), DIM), Cell::from(line)]
    };
    labels.zip(table::wrap(value, room)).map(pair).collect()
}
