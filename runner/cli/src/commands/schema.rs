//! `warpforge schema`: the promised form of every `--json` output.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use warpforge_bench::model::BenchmarkSuiteRun;
use warpforge_bench::monitor::Record as MonitorRecord;
use warpforge_bench::stress::StressRun;
use warpforge_bench::system::System;
use warpforge_parity::performance::Baselines;
use warpforge_parity::report::Report;
use warpforge_parity::training::TrainingParity;
use warpforge_workloads::forward::record::Record;

use super::{benchmark, config, conformance, data, hlo, man, model};
use crate::doctor;
use crate::exit::Exit;
use crate::table;
use crate::ui::{DIM, Ui};

const EXAMPLES: &str = "\
Examples:
  warpforge schema                        list the schemas
  warpforge schema doctor                 print one
  warpforge schema --out docs/schema      write all, one file each";

/// Print the JSON schemas of the --json outputs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The schema to print or write; without it, --out writes all
    #[arg(value_parser = PossibleValuesParser::new(SCHEMAS.iter().map(|row| row.name)))]
    name: Option<String>,

    /// Write NAME.json into DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

struct Row {
    name: &'static str,
    doc: &'static str,
    schema: fn() -> Schema,
}

/// Every output a program may read.
const SCHEMAS: &[Row] = &[
    Row {
        name: "baselines",
        doc: "warpforge baseline show --json, warpforge-baselines.json",
        schema: of::<Baselines>,
    },
    Row {
        name: "benchmark",
        doc: "warpforge benchmark run --export, --json",
        schema: of::<BenchmarkSuiteRun>,
    },
    Row {
        name: "benchmark-comparison",
        doc: "warpforge benchmark compare --json",
        schema: of::<benchmark::Compared>,
    },
    Row {
        name: "benchmarks",
        doc: "warpforge benchmark list --json",
        schema: of::<benchmark::Listed>,
    },
    Row { name: "config", doc: "warpforge config show --json", schema: of::<config::Shown> },
    Row {
        name: "conformance",
        doc: "warpforge conformance --json FILE",
        schema: of::<conformance::Summary>,
    },
    Row { name: "data", doc: "warpforge data list --json", schema: of::<data::Listed> },
    Row { name: "doctor", doc: "warpforge doctor --json", schema: of::<doctor::Report> },
    Row { name: "model", doc: "warpforge model inspect --json", schema: of::<model::Inspection> },
    Row {
        name: "monitor",
        doc: "--monitor-output of warpforge benchmark run and stress, timeline.json of a bundle",
        schema: of::<Vec<MonitorRecord>>,
    },
    Row { name: "report", doc: "warpforge validate --json, report.json", schema: of::<Report> },
    Row { name: "run", doc: "run.json of a bundle", schema: of::<Record> },
    Row { name: "stats", doc: "warpforge hlo stats --json", schema: of::<hlo::Stats> },
    Row { name: "stress", doc: "warpforge stress --json", schema: of::<StressRun> },
    Row { name: "system", doc: "warpforge system --json", schema: of::<System> },
    Row { name: "training-parity", doc: "parity.json of a training", schema: of::<TrainingParity> },
];

fn of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

impl Row {
    fn text(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(&(self.schema)())? + "\n")
    }
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let wanted = |row: &&Row| args.name.as_ref().is_none_or(|name| row.name == name);
    let rows: Vec<&Row> = SCHEMAS.iter().filter(wanted).collect();
    match (&args.out, &args.name) {
        (Some(folder), _) => write_all(&rows, folder, ui)?,
        (None, Some(_)) => {
            for row in rows {
                ui.out().write_all(row.text()?.as_bytes())?;
            }
        }
        (None, None) => {
            let cell = |row: &&Row| vec![row.name.into(), table::Cell::styled(row.doc, DIM)];
            table::write(ui.out(), 0, &rows.iter().map(cell).collect::<Vec<_>>())?;
        }
    }
    Ok(Exit::Pass)
}

fn write_all(rows: &[&Row], folder: &PathBuf, ui: &mut Ui) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| man::unwritable(folder, "the schemas"))?;
    for row in rows {
        std::fs::write(folder.join(format!("{}.json", row.name)), row.text()?)
            .with_context(|| man::unwritable(folder, "the schemas"))?;
    }
    ui.note(&format!("{} schemas written to {}", rows.len(), folder.display()))?;
    Ok(())
}
