//! `warpforge benchmark list`.

use schemars::JsonSchema;
use serde::Serialize;
use warpforge_bench::model::{BenchmarkSpec, Component};
use warpforge_bench::registry::{COMPONENT_DEFAULTS, PLANNED, SUITES, suite};

use super::{component, unknown};
use crate::exit::Exit;
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, Ui};

/// Show the suites and their benchmarks
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only of this suite
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,

    /// Only for these components: cpu, gpu, ram, storage, network, system
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = component)]
    component: Vec<Component>,

    /// Print JSON (`warpforge schema benchmarks` describes it)
    #[arg(long)]
    json: bool,
}

/// The benchmarks there are.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Benchmarks")]
pub struct Listed {
    suites: Vec<Suite>,
    /// What runs for a component when no suite is named.
    component_defaults: Vec<Default>,
}

/// One suite.
#[derive(Debug, Serialize, JsonSchema)]
struct Suite {
    name: &'static str,
    /// False for a suite that is planned and has nothing to run yet.
    available: bool,
    description: Option<&'static str>,
    benchmarks: Vec<BenchmarkSpec>,
}

/// What runs for one component.
#[derive(Debug, Serialize, JsonSchema)]
struct Default {
    component: Component,
    suite: &'static str,
    benchmark: &'static str,
    available: bool,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let listed = listed(args)?;
    if args.json {
        ui.json(&listed)?;
        return Ok(Exit::Pass);
    }
    for suite in &listed.suites {
        show(suite, ui)?;
    }
    writeln!(ui.out(), "{BOLD}component defaults{BOLD:#}")?;
    let rows: Vec<_> = listed.component_defaults.iter().map(row_of_default).collect();
    table::write(ui.out(), 2, &rows)?;
    Ok(Exit::Pass)
}

fn listed(args: &Args) -> anyhow::Result<Listed> {
    let name = args.suite.as_deref();
    if let Some(name) = name.filter(|name| !PLANNED.contains(name)) {
        suite(name).map_err(|error| unknown(&error))?;
    }
    let wanted =
        |component: &Component| args.component.is_empty() || args.component.contains(component);
    let of_suite = |suite: &&str| name.is_none_or(|name| name == *suite);
    let available = SUITES.iter().filter(|suite| of_suite(&suite.name())).map(|suite| Suite {
        name: suite.name(),
        available: true,
        description: Some(suite.about()),
        benchmarks: suite
            .specs()
            .into_iter()
            .filter(|spec| spec.components.iter().any(wanted))
            .collect(),
    });
    let planned = PLANNED.iter().copied().filter(of_suite).map(|name| Suite {
        name,
        available: false,
        description: None,
        benchmarks: Vec::new(),
    });
    let defaults = COMPONENT_DEFAULTS.iter().filter(|row| wanted(&row.0) && of_suite(&row.1));
    Ok(Listed {
        suites: available.chain(planned).collect(),
        component_defaults: defaults
            .map(|&(component, name, benchmark)| Default {
                component,
                suite: name,
                benchmark,
                available: suite(name).is_ok(),
            })
            .collect(),
    })
}

fn show(suite: &Suite, ui: &mut Ui) -> std::io::Result<()> {
    let about = suite.description.unwrap_or("not available yet");
    writeln!(ui.out(), "{BOLD}{}{BOLD:#}  {DIM}{about}{DIM:#}", suite.name)?;
    let names = suite.benchmarks.iter().map(|spec| spec.id.name.len());
    let room = Ui::width().saturating_sub(2 + names.max().unwrap_or(0) + 2 + 7 + 2);
    let rows: Vec<_> = suite.benchmarks.iter().flat_map(|spec| rows_of(spec, room)).collect();
    table::write(ui.out(), 2, &rows)?;
    writeln!(ui.out())
}

fn rows_of(spec: &BenchmarkSpec, room: usize) -> Vec<Vec<Cell>> {
    let components: Vec<_> = spec.components.iter().map(|component| component.name()).collect();
    let about = spec.description.as_deref().unwrap_or_default();
    // The first sentence; `describe` has the rest.
    let about = about.split_inclusive(". ").next().unwrap_or(about).trim_end_matches(['.', ' ']);
    let lines = table::wrap(about, room);
    let mut rows = vec![vec![
        Cell::from(&spec.id.name),
        Cell::styled(components.join(","), DIM),
        Cell::from(lines.first().cloned().unwrap_or_default()),
    ]];
    rows.extend(lines.iter().skip(1).map(|line| vec!["".into(), "".into(), line.as_str().into()]));
    rows
}

fn row_of_default(default: &Default) -> Vec<Cell> {
    let benchmark = format!("{}/{}", default.suite, default.benchmark);
    let mut row = vec![Cell::from(default.component.name()), Cell::from(benchmark)];
    if !default.available {
        row.push(Cell::styled("not available yet", DIM));
    }
    row
}
