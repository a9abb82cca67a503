//! `warpforge model`: what an exported PyTorch model consists of.

mod inspect;

use std::path::PathBuf;

use warpforge_pt2::{DimSpec, Model, Recipe, WeightSource};

use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

pub use inspect::Inspection;

const EXAMPLES: &str = "\
Examples:
  warpforge model inspect bert.pt2
  warpforge model inspect bert.pt2 --json | jq .unsupported";

/// Look into exported PyTorch models
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Inspect(inspect::Args),
}

pub fn run(args: &Args, ui: &mut Ui) -> anyhow::Result<Exit> {
    match &args.verb {
        Verb::Inspect(args) => inspect::run(args, ui),
    }
}

/// How a model's open sizes and its weights are given, wherever a command takes a model.
#[derive(Debug, clap::Args)]
pub struct Given {
    /// Fix a size that was left open at export: its symbol, or an input and axis (x.0=8)
    #[arg(long = "dim", value_name = "NAME=SIZE")]
    pub dims: Vec<DimSpec>,

    /// Take the weights from a safetensors file instead of the archive
    #[arg(long, value_name = "FILE", conflicts_with = "recipe")]
    pub weights_from: Option<PathBuf>,

    /// Make the weights by the rules of FILE, or by the usual rules for `standard`
    #[arg(long, value_name = "FILE|standard")]
    pub recipe: Option<String>,
}

impl Given {
    pub fn source(&self, seed: u64) -> anyhow::Result<WeightSource> {
        Ok(match (&self.weights_from, self.recipe.as_deref()) {
            (Some(path), _) => WeightSource::Safetensors(path.clone()),
            (None, Some("standard")) => WeightSource::Recipe(Recipe::standard(seed)),
            (None, Some(path)) => {
                WeightSource::Recipe(Recipe::read(path.as_ref()).map_err(|error| misuse(&error))?)
            }
            (None, None) => WeightSource::Archive,
        })
    }
}

/// Reads a model; whatever is wrong with it is the user's to cure.
pub fn open(path: &std::path::Path) -> anyhow::Result<Model> {
    Model::open(path).map_err(|error| misuse(&error).into())
}

pub fn misuse(error: &warpforge_pt2::Error) -> Misuse {
    Misuse::new(error.to_string(), "docs/exporting.md shows how a model is exported")
}
