//! `warpforge hlo stats`: what a program consists of and what it costs.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use warpforge_snakeburger::stats;

use super::load_one;
use crate::exit::Exit;
use crate::table;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  warpforge hlo stats model.mlir
  warpforge hlo stats model.mlir --json | jq .flops";

/// Count operations, FLOPs and bytes of a program
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A StableHLO text file
    file: PathBuf,

    /// Print JSON (`warpforge schema stats` describes it)
    #[arg(long)]
    json: bool,
}

/// What a program consists of and what one run of its entry function costs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Stats {
    /// Number of functions.
    functions: usize,
    /// Operations of all functions.
    operations: usize,
    /// Floating-point operations of every operation once; a multiply-add counts as two.
    flops: u64,
    /// Bytes of operands and results of every operation once, as if nothing were fused.
    bytes: u64,
    /// FLOPs per byte.
    arithmetic_intensity: f64,
    /// Bytes of constants in the text.
    constant_bytes: u64,
    /// Operations whose shapes are not all known; they are not in `flops` and `bytes`.
    dynamic: usize,
    /// By operation, the most frequent first.
    by_operation: Vec<Row>,
}

/// One operation's share.
#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    operation: String,
    count: usize,
    flops: u64,
    bytes: u64,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let (_, module) = load_one(&args.file)?;
    let counted = stats::count(&module);
    let by_operation = counted.by_op.iter().map(|(name, share)| Row {
        operation: (*name).to_owned(),
        count: share.count,
        flops: share.flops,
        bytes: share.bytes,
    });
    let mut by_operation: Vec<Row> = by_operation.collect();
    by_operation.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.operation.cmp(&b.operation)));
    let (flops, bytes) = (counted.flops(), counted.bytes());
    let stats = Stats {
        functions: module.funcs().len(),
        operations: counted.operations(),
        flops,
        bytes,
        arithmetic_intensity: if bytes == 0 { 0.0 } else { flops as f64 / bytes as f64 },
        constant_bytes: counted.constant_bytes,
        dynamic: counted.dynamic,
        by_operation,
    };
    if args.json {
        ui.json(&stats)?;
    } else {
        show(&stats, ui)?;
    }
    Ok(Exit::Pass)
}

fn show(stats: &Stats, ui: &mut Ui) -> std::io::Result<()> {
    let mut rows = vec![vec!["operation".into(), "count".into(), "FLOPs".into(), "bytes".into()]];
    for row in &stats.by_operation {
        let number = |n: u64| table::Cell::from(n.to_string());
        rows.push(vec![
            row.operation.clone().into(),
            number(row.count as u64),
            number(row.flops),
            number(row.bytes),
        ]);
    }
    table::write(ui.out(), 0, &rows)?;
    writeln!(
        ui.out(),
        "\nfunctions: {}; operations: {}; {} FLOPs, {} bytes, {:.3} FLOPs per byte, {} bytes of constants",
        stats.functions,
        stats.operations,
        stats.flops,
        stats.bytes,
        stats.arithmetic_intensity,
        stats.constant_bytes,
    )?;
    if stats.dynamic > 0 {
        writeln!(
            ui.out(),
            "{} operations have unknown shapes and are not in the sums",
            stats.dynamic
        )?;
    }
    Ok(())
}
