//! `warpforge benchmark describe`.

use warpforge_bench::model::BenchmarkSpec;
use warpforge_bench::registry::{spec, suite};

use super::unknown;
use crate::exit::Exit;
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, Ui};

/// Show what one benchmark does and takes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The suite it belongs to
    #[arg(long, value_name = "NAME")]
    suite: String,

    /// Its name
    #[arg(long, value_name = "NAME")]
    benchmark: String,

    /// Print JSON, as `benchmark list --json` has it
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let suite = suite(&args.suite).map_err(|error| unknown(&error))?;
    let spec = spec(suite, &args.benchmark).map_err(|error| unknown(&error))?;
    if args.json {
        ui.json(&spec)?;
    } else {
        show(&spec, ui)?;
    }
    Ok(Exit::Pass)
}

fn show(spec: &BenchmarkSpec, ui: &mut Ui) -> std::io::Result<()> {
    writeln!(ui.out(), "{BOLD}{}{BOLD:#}", spec.id)?;
    for line in table::wrap(spec.description.as_deref().unwrap_or_default(), Ui::width() - 2) {
        writeln!(ui.out(), "  {line}")?;
    }
    let components: Vec<_> = spec.components.iter().map(|component| component.name()).collect();
    let mut rows =
        vec![("components", components.join(", ")), ("kind", spec.kind.name().to_owned())];
    rows.extend(spec.default_duration_seconds.map(|s| ("measures for", format!("{s} s"))));
    rows.extend(spec.external_tool.clone().map(|tool| ("needs", tool)));
    let rows: Vec<_> =
        rows.into_iter().map(|(l, value)| vec![Cell::styled(l, DIM), Cell::from(value)]).collect();
    writeln!(ui.out())?;
    table::write(ui.out(), 2, &rows)?;
    if spec.params.is_empty() {
        return Ok(());
    }
    writeln!(ui.out(), "\n  parameters (--param NAME=VALUE)")?;
    let row = |(name, value): (&String, &warpforge_bench::model::Value)| {
        let value_text = value.to_string();
        let shown = if value_text.is_empty() { "\"\"".to_owned() } else { value_text };
        vec![Cell::from(name), Cell::from(shown), Cell::styled(value.type_name(), DIM)]
    };
    table::write(ui.out(), 4, &spec.params.iter().map(row).collect::<Vec<_>>())
}
