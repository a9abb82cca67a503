//! `warpforge-operator submit`: what a schedule's Job runs.

use std::io::Write as _;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use futures::StreamExt as _;
use kube::{Api, Client, Config, ResourceExt as _};
use warpforge_operator_api::{BenchmarkRun, Verdict};
use warpforge_operator_client::{
    CreateError, Created, Request, RequestError, Seen, create, setting,
};

#[derive(Args)]
pub struct Arguments {
    /// The BenchmarkProfile that the run names.
    #[arg(long)]
    profile: Option<String>,
    /// A workload that comes with WarpForge, such as `bert-squad`.
    #[arg(long, required_unless_present = "file", conflicts_with = "file")]
    workload: Option<String>,
    /// The workload's preset.
    #[arg(long, requires = "workload")]
    preset: Option<String>,
    /// A setting of the workload, as NAME=VALUE.
    #[arg(long = "set", requires = "workload", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// A file with a BenchmarkRun.
    #[arg(long, short)]
    file: Option<PathBuf>,
    /// The run's name. Given the name of the Job that this runs in, a second try of that Job follows
    /// the run of the first. Left out: the file's, else one is made up.
    #[arg(long, env = "WARPFORGE_JOB_NAME")]
    name: Option<String>,
    /// The run's namespace. Left out: the file's, else the one this runs in.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Wait for the verdict and end with its exit code.
    #[arg(long)]
    wait: bool,
}

/// Names this program to the API server.
const MANAGER: &str = "warpforge-operator-submit";

pub async fn submit(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::infer().await.context("no cluster is known")?;
    let fallback = config.default_namespace.clone();
    let client = Client::try_from(config).context("the cluster cannot be talked to")?;
    let wait = arguments.wait;
    let run = Request::from(arguments).run(&fallback)?;
    let namespace = run.namespace().unwrap_or(fallback);
    let api: Api<BenchmarkRun> = Api::namespaced(client, &namespace);
    let run = create_or_adopt(&api, &run).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{namespace}/{}", run.name_any())?;
    if !wait {
        return Ok(ExitCode::SUCCESS);
    }
    let code = follow(&api, &run).await?;
    Ok(ExitCode::from(code as u8))
}

/// Whether the user did something wrong, not the program or the cluster.
pub fn is_usage(error: &anyhow::Error) -> bool {
    let refused = error
        .downcast_ref::<CreateError>()
        .is_some_and(|error| matches!(error, CreateError::Refused(_) | CreateError::Another(_)));
    refused || error.downcast_ref::<RequestError>().is_some()
}

impl From<Arguments> for Request {
    fn from(arguments: Arguments) -> Self {
        let Arguments { profile, workload, preset, settings, file, name, namespace, wait: _ } =
            arguments;
        Self { file, workload, preset, settings, profile, name, namespace }
    }
}

/// A schedule waits for a cluster that is away: its Job has a deadline of its own.
async fn create_or_adopt(
    api: &Api<BenchmarkRun>,
    run: &BenchmarkRun,
) -> Result<BenchmarkRun, CreateError> {
    loop {
        match create(api, run, MANAGER).await {
            Ok(Created { run, adopted }) => {
                if adopted {
                    tracing::info!(name = run.name_any(), "the run is there already; following it");
                }
                return Ok(run);
            }
            Err(error @ CreateError::Unreachable(_)) => {
                tracing::warn!(%error, "trying again");
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Follows the run to its end. Returns its exit code.
async fn follow(api: &Api<BenchmarkRun>, run: &BenchmarkRun) -> anyhow::Result<i32> {
    let name = run.name_any();
    let mut out = std::io::stdout();
    let mut last = String::new();
    let mut states = pin!(warpforge_operator_client::follow(api, run));
    while let Some(seen) = states.next().await {
        let status = match seen {
            Seen::State(run) => run.status.unwrap_or_default(),
            Seen::Nothing(error) => {
                tracing::warn!(error, "the run cannot be seen; trying again");
                continue;
            }
            Seen::Refused(error) => return Err(error).context("the run may not be seen"),
            Seen::Deleted => {
                writeln!(out, "{name}: deleted before it ended")?;
                return Ok(Verdict::Inconclusive.exit_code());
            }
        };
        let line = warpforge_operator_client::line(&status);
        if line != last {
            writeln!(out, "{name}: {line}")?;
            last = line;
        }
        if let Some((code, lines)) = warpforge_operator_client::ending(&status) {
            for line in lines {
                writeln!(out, "{name}: {line}")?;
            }
            return Ok(code);
        }
    }
    anyhow::bail!("the watch ended")
}
