//! `warpforge data`: datasets and weights, where they are, whose they are, and how to get them.

mod fetch;
mod list;
mod verify;

use std::path::PathBuf;

use clap::Subcommand;
use warpforge_store::licence::Accepted;
use warpforge_store::table::{self, DATASETS, Dataset};
use warpforge_store::{DataError, Library, Options, Places, Token, Url};

pub use list::Listed;

use super::Context;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::settings::nearest::nearest;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  What there is, under which licence, and what is on this machine:
    warpforge data list

  Fetch; a download that was cut off is gone on with:
    warpforge data fetch squad-v1.1 bert-large-uncased

  From a mirror in the house, into a folder of one's own:
    warpforge data fetch squad-v1.1 --mirror https://mirror.example/squad --to data/squad

  Hold files that came another way against their digests:
    warpforge data verify squad-v1.1

  Where a file is, for a script:
    warpforge data path squad-v1.1 dev-v1.1.json";

const ABOUT: &str = "\
Datasets and weights: list, fetch, verify, find

What comes from the Hugging Face hub lies in its cache, in the hub's own layout (HF_HOME and \
HF_HUB_CACHE are honoured), everything else below data.dir. A token is taken from HF_TOKEN or \
from the file of `hf auth login`; it is sent to the hub and to nobody else. Data whose licence \
forbids commercial use is refused until it is accepted by name.";

/// Datasets and weights: list, fetch, verify, find
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show what there is, its licence, and whether it is here
    List {
        /// Print JSON (`warpforge schema data` describes it)
        #[arg(long)]
        json: bool,
    },
    /// Bring datasets or weights to this machine
    ///
    /// Files are asked for at every source in turn, gone on with where they were cut off, and put
    /// in their place only if their digest is right. Where the publisher's digest is not known,
    /// the one of the first fetch is recorded in `digests.json` and held to ever after.
    Fetch {
        /// What to fetch (`warpforge data list`)
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,

        /// Accept the licence of this dataset, which forbids commercial use
        #[arg(long, value_name = "ID")]
        accept_license: Vec<String>,

        /// Ask for URL/FILE before the publisher's own address; may be given several times
        #[arg(long, value_name = "URL")]
        mirror: Vec<Url>,

        /// Put the files into DIR, by their names
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Hold the files on this machine against their digests
    Verify {
        /// What to verify
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,

        /// Look in DIR, by the files' names
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Print where a dataset, or one of its files, is
    Path {
        #[arg(value_name = "ID")]
        id: String,

        #[arg(value_name = "FILE")]
        file: Option<String>,

        /// Accept the licence of this dataset, which forbids commercial use
        #[arg(long, value_name = "ID")]
        accept_license: Vec<String>,

        /// Look in DIR, by the files' names
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    match &args.verb {
        Verb::List { json } => list::run(*json, &library(context, |_| {})?, ui),
        Verb::Fetch { ids, accept_license, mirror, to } => {
            let datasets = find_all(ids)?;
            find_all(accept_license)?;
            let library = library(context, |options| {
                options.accepted = Accepted(accept_license.clone());
                options.mirrors.clone_from(mirror);
                options.places.only.clone_from(to);
            })?;
            fetch::run(&datasets, &library, ui)
        }
        Verb::Verify { ids, to } => {
            let datasets = find_all(ids)?;
            let library = library(context, |options| options.places.only.clone_from(to))?;
            verify::run(&datasets, &library, ui)
        }
        Verb::Path { id, file, accept_license, to } => {
            let dataset = find(id)?;
            find_all(accept_license)?;
            let library = library(context, |options| {
                options.accepted = Accepted(accept_license.clone());
                options.places.only.clone_from(to);
            })?;
            let path = library.path(dataset, file.as_deref()).map_err(|error| explain(&error))?;
            writeln!(ui.out(), "{}", path.display())?;
            Ok(Exit::Pass)
        }
    }
}

/// The datasets of this machine by settings and environment. Also what runs use.
pub fn library(
    context: &Context<'_>,
    change: impl FnOnce(&mut Options),
) -> anyhow::Result<Library> {
    let settings = context.settings();
    let lookup = |name: &str| context.environment.get(name);
    let data = settings.data_dir.value.clone();
    let data = data.unwrap_or_else(|| settings.cache_dir.value.join("data"));
    let hub = Places::hub_cache(lookup).unwrap_or_else(|| settings.cache_dir.value.join("hub"));
    let places = Places { hub, data, coco: settings.data_coco.value.clone(), only: None };
    let mut options = Options::at(places);
    options.token = Token::find(lookup);
    if let Some(endpoint) = lookup("HF_ENDPOINT") {
        let hub = endpoint.parse().map_err(|_| {
            Misuse::new("HF_ENDPOINT is no address", "write it like https://huggingface.co")
        })?;
        options.hub = Some(hub);
    }
    change(&mut options);
    // Relative to where the command was typed, whatever the library makes of it.
    options.places.only = options.places.only.map(|to| context.environment.folder().join(to));
    Ok(Library::new(options).map_err(|error| explain(&error))?)
}

/// The row of the table with this id, or the nearest one's name.
pub fn find(id: &str) -> Result<&'static Dataset, Misuse> {
    table::find(id).ok_or_else(|| {
        let near = nearest(id, DATASETS.iter().map(|dataset| dataset.id));
        let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
        Misuse::new(
            format!("there is no dataset {id:?}"),
            format!("{near}`warpforge data list` names them all"),
        )
    })
}

fn find_all(ids: &[String]) -> Result<Vec<&'static Dataset>, Misuse> {
    ids.iter().map(|id| find(id)).collect()
}

/// An error as a person is told it, with the exit code it has.
pub fn explain(error: &DataError) -> Misuse {
    let exit = match &error {
        error if error.is_network() => Exit::Inconclusive,
        DataError::Unfetched { .. } | DataError::Wrong { .. } => Exit::Fail,
        DataError::Absent { .. } => Exit::Skipped,
        _ => Exit::Usage,
    };
    Misuse::new(error.to_string(), error.cure()).ending(exit)
}
