//! `warpforge bundle`: finished runs to and from a folder or an object store.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use warpforge_store::bundle::{Manifest, Progress};
use warpforge_store::{ArtifactStore, BundleError, Error, Location};

use super::Context;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  A finished run into a bucket, and back on another machine:
    warpforge bundle push run/ --name nightly/2026-11-15 --store s3://benchmarks/warpforge
    warpforge bundle pull nightly/2026-11-15 run/ --store s3://benchmarks/warpforge

  The same with a server in the house, or with a folder:
    warpforge bundle list --store s3://benchmarks --endpoint http://minio:9000
    warpforge bundle push run/ --store /mnt/runs

  Is what is stored still what was stored?
    warpforge bundle verify nightly/2026-11-15

Without --store, the bucket and prefix of the settings are meant (store.bucket, store.prefix;
`warpforge config show`). Credentials are taken from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
AWS_SESSION_TOKEN, and never shown.

Exit codes: 0 done; 1 what is stored is damaged; 2 refused or wrong usage; 3 the store could not be
reached; 4 there is no such bundle.";

/// Store finished runs in a folder or a bucket, and bring them back
///
/// A bundle is stored with a list of its files and their digests, written last: what was cut off
/// is absent, and what comes back is what was stored. An upload that was cut off goes on file by
/// file.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Store the files of a finished run
    Push {
        /// The folder that the run wrote
        #[arg(value_name = "DIR")]
        folder: PathBuf,

        /// What it is called in the store [default: the folder's own name]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,

        #[command(flatten)]
        place: Place,
    },
    /// Bring a stored run into a new folder, every file held against its digest
    Pull {
        #[arg(value_name = "NAME")]
        name: String,

        /// The folder to make
        #[arg(value_name = "DIR")]
        folder: PathBuf,

        #[command(flatten)]
        place: Place,
    },
    /// Print the names of what is stored
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Read a stored run and hold every file against its digest
    Verify {
        #[arg(value_name = "NAME")]
        name: String,

        #[command(flatten)]
        place: Place,
    },
}

/// Where bundles are kept.
#[derive(Debug, clap::Args)]
struct Place {
    /// A folder, or `s3://BUCKET/PREFIX` [default: the bucket of the settings]
    #[arg(long, value_name = "PLACE")]
    store: Option<String>,

    /// The object store's address, if it is not Amazon's own
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,

    /// The bucket's region
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
}

impl Place {
    fn open(&self, context: &Context<'_>) -> anyhow::Result<ArtifactStore> {
        let settings = context.settings();
        let text = match (&self.store, &settings.bucket.value) {
            (Some(store), _) => store.clone(),
            (None, Some(bucket)) => {
                let prefix = settings.prefix.value.as_deref().unwrap_or_default();
                format!("s3://{bucket}/{prefix}")
            }
            (None, None) => {
                let help = "say --store DIR or --store s3://BUCKET/PREFIX, or set store.bucket";
                return Err(Misuse::new("it is not said where bundles are kept", help).into());
            }
        };
        let known = settings.endpoint.value.as_ref().map(|endpoint| endpoint.0.clone());
        let endpoint = match &self.endpoint {
            Some(text) => Some(address(text)?),
            None => known,
        };
        let region = self.region.clone().or_else(|| settings.region.value.clone());
        let lookup = |name: &str| context.environment.get(name);
        let location = Location::parse(&text, endpoint, region, lookup);
        Ok(ArtifactStore::open(match location.map_err(|error| explain(&error))? {
            // Relative to where the command was typed.
            Location::Folder(path) => Location::Folder(context.environment.folder().join(path)),
            bucket @ Location::Bucket { .. } => bucket,
        }))
    }
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bar = Bar::new(ui.shows_progress());
    let mut watch = |progress: Progress| bar.show(&progress);
    match &args.verb {
        Verb::Push { folder, name, place } => {
            let store = place.open(context)?;
            let name = name.clone().map_or_else(|| own_name(folder), Ok)?;
            let stored = runtime.block_on(store.put(&name, folder, &mut watch));
            bar.end();
            let (count, bytes) = size(&stored.map_err(|error| explain(&error))?);
            let place = store.place();
            ui.note(&format!("stored {name} in {place}: {count} files, {bytes} bytes"))?;
        }
        Verb::Pull { name, folder, place } => {
            let store = place.open(context)?;
            let brought = runtime.block_on(store.get(name, folder, &mut watch));
            bar.end();
            let (count, bytes) = size(&brought.map_err(|error| explain(&error))?);
            let folder = folder.display();
            ui.note(&format!("{name} is in {folder}: {count} files, {bytes} bytes, checked"))?;
        }
        Verb::List { place } => {
            let names = runtime.block_on(place.open(context)?.list());
            for name in names.map_err(|error| explain(&error))? {
                writeln!(ui.out(), "{name}")?;
            }
        }
        Verb::Verify { name, place } => {
            let checked = runtime.block_on(place.open(context)?.verify(name, &mut watch));
            bar.end();
            let (count, bytes) = size(&checked.map_err(|error| explain(&error))?);
            writeln!(ui.out(), "{name} is whole: {count} files, {bytes} bytes")?;
        }
    }
    Ok(Exit::Pass)
}

/// The address, unless it is none or holds what should not be shown.
pub(super) fn address(text: &str) -> anyhow::Result<String> {
    crate::settings::endpoint(text).map_err(|found| {
        let help = "give an address such as https://s3.example.com:9000";
        Misuse::new(format!("--endpoint is {found}"), help).into()
    })
}

fn size(manifest: &Manifest) -> (usize, u64) {
    (manifest.files.len(), manifest.files.values().map(|entry| entry.size).sum())
}

/// The last part of a folder's path, whichever way it is written.
fn own_name(folder: &Path) -> anyhow::Result<String> {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = whole.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    name.ok_or_else(|| {
        let message = format!("{} gives no name", folder.display());
        Misuse::new(message, "say one with --name").into()
    })
}

/// An error as a person is told it, with the exit code it has.
pub(super) fn explain(error: &BundleError) -> Misuse {
    let exit = match error {
        BundleError::Wrong { .. } | BundleError::Store(Error::Damaged { .. }) => Exit::Fail,
        BundleError::Absent { .. } => Exit::Skipped,
        BundleError::Store(
            Error::Refused { .. }
            | Error::UnknownHost { .. }
            | Error::Tls { .. }
            | Error::TimedOut { .. }
            | Error::Connection { .. }
            | Error::Unexpected { .. },
        ) => Exit::Inconclusive,
        _ => Exit::Usage,
    };
    Misuse::new(error.to_string(), error.cure()).ending(exit)
}

/// The file that is under way.
struct Bar(Option<ProgressBar>);

impl Bar {
    fn new(shown: bool) -> Self {
        Self(shown.then(|| {
            let style = ProgressStyle::with_template(
                "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}",
            );
            let bar = ProgressBar::new(0);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        }))
    }

    fn show(&self, progress: &Progress) {
        if let Some(bar) = &self.0 {
            bar.set_message(progress.file.clone());
            bar.set_length(progress.total);
            bar.set_position(progress.at);
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_by_its_last_part() {
        assert_eq!(own_name(Path::new("runs/a/")).unwrap(), "a");
        assert!(own_name(Path::new("/")).is_err());
    }
}
