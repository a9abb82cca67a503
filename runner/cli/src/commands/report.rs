//! `warpforge report`: a finished run's report, brought from the object store.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use warpforge_bench::model::RESULTS;
use warpforge_operator_api::BenchmarkRunStatus;
use warpforge_operator_api::data::S3;
use warpforge_parity::bundle::{REPORT_HTML, REPORT_JSON};
use warpforge_parity::report::{Report, html};
use warpforge_store::{Credentials, ObjectStore, Settings};

use super::Context;
use super::bundle::{address, explain};
use crate::cluster::{Cluster, Namespace};
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  warpforge report nightly-28711 --open
  warpforge report nightly-28711 --out reports/ --endpoint http://localhost:9000

Credentials are taken from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. The
report is held against the digest in the run's status, and the page drawn from it; a suite's is
benchmark.json, and its figures are printed. The whole bundle comes with `warpforge bundle pull`.
The exit code is the run's verdict.";

/// Bring a finished run's report from the object store
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[arg(value_name = "RUN")]
    run: String,

    /// The folder for what is brought [default: one named after the run]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Open the page
    #[arg(long)]
    open: bool,

    /// The object store's address as it is reached from here [default: the run's own]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,

    #[command(flatten)]
    namespace: Namespace,
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    super::block_on(async {
        let cluster = Cluster::connect(context, &args.namespace).await?;
        let run = cluster.run(&args.run).await?;
        let status = run.status.unwrap_or_default();
        let Some((code, lines)) = warpforge_operator_client::ending(&status) else {
            let help = format!("wait for it with: warpforge watch {}", args.run);
            return Err(Misuse::new("the run has not ended yet", help)
                .ending(Exit::Skipped)
                .into());
        };
        let report = stored(&status)?;
        if report.of_suite && args.open {
            let help = "leave out --open: its figures are printed";
            return Err(Misuse::new("a suite's results have no page to open", help).into());
        }
        let endpoint = args.endpoint.as_deref().map(address).transpose()?;
        let settings = Settings {
            endpoint: endpoint.or_else(|| report.store.endpoint.clone()),
            region: Some(report.store.region.clone()),
            bucket: report.store.bucket.clone(),
        };
        let lookup = |name: &str| context.environment.get(name);
        let credentials =
            Credentials::from_lookup(lookup).map_err(|error| explain(&error.into()))?;
        let store = ObjectStore::patient(settings, credentials);
        let folder = args.out.clone().unwrap_or_else(|| PathBuf::from(&args.run));
        let folder = context.environment.folder().join(folder);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let to = folder.join(if report.of_suite { RESULTS } else { REPORT_JSON });
        let brought = store.fetch(&report.key, &to, &mut |_| ()).await;
        if brought.map_err(|error| explain(&error))?.sha256 != report.sha256 {
            std::fs::remove_file(&to)?;
            let message = format!("{} is not the report that the run stored", report.key);
            let help = "look into who writes to the bucket";
            return Err(Misuse::new(message, help).ending(Exit::Inconclusive).into());
        }
        for line in lines {
            ui.note(&format!("{}: {line}", args.run))?;
        }
        if report.of_suite {
            super::benchmark::show_file(&to, ui)?;
            writeln!(ui.out(), "{}", to.display())?;
        } else {
            let page = draw(&to, &folder)?;
            writeln!(ui.out(), "{}", page.display())?;
            if args.open {
                open(&page)?;
            }
        }
        Ok(super::submit::exit(code))
    })
}

/// Where a run's report is.
struct Stored<'a> {
    store: &'a S3,
    key: String,
    sha256: &'a str,
    /// What a suite's benchmarks measured, and no comparison of passes.
    of_suite: bool,
}

fn stored(status: &BenchmarkRunStatus) -> Result<Stored<'_>, Misuse> {
    let resolved = status.resolved.as_ref();
    let artifacts = resolved.and_then(|resolved| resolved.artifacts.as_ref());
    let of_suite = resolved.is_some_and(|resolved| resolved.suite.is_some());
    let (Some(report), Some(artifacts)) = (&status.report, artifacts) else {
        let help = "say where with artifacts.s3 in the run or its profile";
        return Err(Misuse::new("the run stored no report", help).ending(Exit::Skipped));
    };
    let start = format!("s3://{}/", artifacts.s3.bucket);
    let key = report.uri.strip_prefix(&start).map(str::to_owned).ok_or_else(|| {
        let help = "bring it with a client of the object store";
        Misuse::new(format!("the report is elsewhere: {}", report.uri), help)
    })?;
    Ok(Stored { store: &artifacts.s3, key, sha256: &report.sha256, of_suite })
}

/// Draws the page from what was checked: a stored one nobody vouches for.
fn draw(report: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let text = std::fs::read(report)?;
    let read: Report = serde_json::from_slice(&text)
        .with_context(|| format!("{} is of another version", report.display()))?;
    let page = folder.join(REPORT_HTML);
    std::fs::write(&page, html(&read))
        .with_context(|| format!("{} cannot be written", page.display()))?;
    Ok(page)
}

fn open(page: &Path) -> anyhow::Result<()> {
    let browser = std::env::var_os("BROWSER").filter(|name| !name.is_empty());
    let program = browser.unwrap_or_else(|| {
        if cfg!(target_os = "macos") { "open".into() } else { "xdg-open".into() }
    });
    let started = Command::new(&program)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match started {
        Ok(status) if status.success() => Ok(()),
        _ => {
            let message = format!("{} could not open the page", program.display());
            Err(Misuse::new(message, format!("open it yourself: {}", page.display())).into())
        }
    }
}
