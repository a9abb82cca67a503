//! `warpforge compile`: an exported model becomes StableHLO text.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use safetensors::tensor::TensorView;
use warpforge_parity::bundle::write_beside;
use warpforge_pt2::Model;
use warpforge_snakeburger::text::{PrintOptions, print};
use warpforge_snakegrinder::{ArgumentKind, Program, lower};

use super::model::{Given, misuse, open};
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  warpforge compile bert.pt2 -o bert.mlir
  warpforge compile bert.pt2 -o bert.mlir --weights weights.safetensors
  warpforge compile bert.pt2 -o bert.mlir --dim input_ids.0=8 --precision f64

The program's arguments say in their attributes which weight or input each is.";

/// Turn an exported PyTorch model into StableHLO
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A model saved by torch.export.save
    file: PathBuf,

    /// Where to write the program
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Where to write the weights, by their names
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,

    /// Use this float format in place of every other
    #[arg(long, value_enum)]
    precision: Option<Precision>,

    /// Leave out the operations' locations: node, module path and line of source
    #[arg(long)]
    no_locations: bool,

    /// The seed of a recipe's weights
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    given: Given,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Precision {
    F64,
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    let mut model = open(&args.file)?;
    model.specialise(&args.given.dims).map_err(|error| misuse(&error))?;
    model.set_weights(&args.given.source(args.seed)?).map_err(|error| misuse(&error))?;
    if let Some(Precision::F64) = args.precision {
        model = model.widened().map_err(|error| misuse(&error))?;
    }
    let program = lower_or_explain(&model)?;
    let options = PrintOptions { locations: !args.no_locations, ..PrintOptions::default() };
    write(&args.output, print(program.module.module(), options).as_bytes())?;
    if let Some(path) = &args.weights {
        write_weights(path, &model, &program)?;
    }
    let (functions, results) = (program.module.module().funcs().len(), program.results.len());
    ui.note(&format!(
        "{}: {functions} functions, {} arguments, {results} results",
        args.output.display(),
        program.arguments.len(),
    ))?;
    Ok(Exit::Pass)
}

/// Lowers a model; operators it cannot lower are the user's to know about.
pub fn lower_or_explain(model: &Model) -> anyhow::Result<Program> {
    lower(model).map_err(|error| match error {
        warpforge_snakegrinder::Error::Wrong(_) => anyhow::Error::new(error),
        _ => Misuse::new(
            error.to_string(),
            "docs/aten-coverage.md lists the operators that can be lowered",
        )
        .into(),
    })
}

fn write_weights(path: &Path, model: &Model, program: &Program) -> anyhow::Result<()> {
    let mut tensors: Vec<(&str, _)> = Vec::new();
    for argument in &program.arguments {
        if matches!(argument.kind, ArgumentKind::Input | ArgumentKind::Random) {
            continue;
        }
        let tensor = model.weights.get(&argument.names[0]).map_err(|error| misuse(&error))?;
        tensors.push((argument.names[0].as_ref(), tensor));
    }
    let elements: Vec<_> = tensors.iter().map(|(_, tensor)| tensor.elements()).collect();
    let mut views = Vec::new();
    for ((name, tensor), bytes) in tensors.iter().zip(&elements) {
        let dtype = tensor.dtype.in_file().with_context(|| {
            format!("{name} is of type {}, which safetensors lacks", tensor.dtype)
        })?;
        let shape = tensor.dims.iter().map(|dim| *dim as usize).collect();
        views.push((*name, TensorView::new(dtype, shape, bytes)?));
    }
    write(path, &safetensors::tensor::serialize(views, None)?)
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write_beside(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
