//! `warpforge submit`: a run for the cluster.

use std::path::PathBuf;

use futures::StreamExt as _;
use kube::{Api, ResourceExt as _};
use warpforge_operator_api::{BenchmarkRun, Verdict};
use warpforge_operator_client::{CreateError, Request, Seen, create, setting};

use super::Context;
use crate::cluster::{Cluster, Namespace};
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  warpforge submit --workload bert-squad --preset demo --wait
  warpforge submit --workload bert-squad --set steps=40 --profile lab --name try-1
  warpforge submit -f run.yaml --namespace benchmarks

With --wait the exit code is the verdict's; `warpforge watch RUN` does the same later.";

/// Ask the cluster's operator for a run (a `BenchmarkRun`)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A file with a BenchmarkRun
    #[arg(short, long, value_name = "FILE", required_unless_present = "workload")]
    file: Option<PathBuf>,

    /// A workload that comes with WarpForge, such as bert-squad
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    workload: Option<String>,

    /// How large
    #[arg(long, value_name = "PRESET", requires = "workload")]
    preset: Option<String>,

    /// Change a setting of the workload
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "workload", value_parser = setting)]
    settings: Vec<(String, String)>,

    /// The BenchmarkProfile that the run names
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,

    /// The run's name [default: the file's, else one is made up]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    namespace: Namespace,

    /// Wait for the verdict and end with its exit code
    #[arg(long)]
    wait: bool,
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    super::block_on(async {
        let cluster = Cluster::connect(context, &args.namespace).await?;
        let request = Request {
            file: args.file.as_ref().map(|file| context.environment.folder().join(file)),
            workload: args.workload.clone(),
            preset: args.preset.clone(),
            settings: args.settings.clone(),
            profile: args.profile.clone(),
            name: args.name.clone(),
            namespace: args.namespace.namespace.clone(),
        };
        let run = request.run(&cluster.namespace).map_err(|error| {
            Misuse::new(error.to_string(), "`kubectl explain benchmarkrun.spec` has every key")
        })?;
        let namespace = run.namespace().unwrap_or_else(|| cluster.namespace.clone());
        let api: Api<BenchmarkRun> = Api::namespaced(cluster.client.clone(), &namespace);
        let created =
            create(&api, &run, "warpforge-submit").await.map_err(|error| explain(&error))?;
        if created.adopted {
            ui.note("a run of that name asks for the same and is there already")?;
        }
        writeln!(ui.out(), "{namespace}/{}", created.run.name_any())?;
        if args.wait { follow(&cluster, &created.run, ui).await } else { Ok(Exit::Pass) }
    })
}

fn explain(error: &CreateError) -> anyhow::Error {
    let (help, exit) = match error {
        CreateError::Refused(_) => ("correct what the message names", Exit::Usage),
        CreateError::Another(_) => ("say another --name", Exit::Usage),
        CreateError::Forbidden(_) => ("ask for the right to create BenchmarkRuns", Exit::Usage),
        CreateError::Unreachable(_) => (crate::cluster::CURE, Exit::Inconclusive),
    };
    Misuse::new(error.to_string(), help).ending(exit).into()
}

/// Tells a run's states until it ends. A cluster that is away for a while is waited for.
pub async fn follow(cluster: &Cluster, run: &BenchmarkRun, ui: &mut Ui) -> anyhow::Result<Exit> {
    let name = run.name_any();
    let namespace = run.namespace().unwrap_or_else(|| cluster.namespace.clone());
    let api: Api<BenchmarkRun> = Api::namespaced(cluster.client.clone(), &namespace);
    let mut states = std::pin::pin!(warpforge_operator_client::follow(&api, run));
    let mut last = String::new();
    while let Some(seen) = states.next().await {
        let status = match seen {
            Seen::State(run) => run.status.unwrap_or_default(),
            Seen::Nothing(error) => {
                tell(ui, &format!("{name}: it cannot be seen ({error}); trying again"));
                continue;
            }
            Seen::Refused(error) => return Err(cluster.explained(&error)),
            Seen::Deleted => {
                tell(ui, &format!("{name}: deleted before it ended"));
                return Ok(Exit::Inconclusive);
            }
        };
        let line = warpforge_operator_client::line(&status);
        if line != last {
            tell(ui, &format!("{name}: {line}"));
            last = line;
        }
        if let Some((code, lines)) = warpforge_operator_client::ending(&status) {
            for line in lines {
                let _ = writeln!(ui.out(), "{name}: {line}");
            }
            return Ok(exit(code));
        }
    }
    Ok(Exit::Inconclusive)
}

/// The verdict is the exit code's to tell: a reader that has left (`submit --wait | head -1`) does
/// not make it a pass.
fn tell(ui: &mut Ui, text: &str) {
    let _ = ui.note(text);
}

/// The exit code that a run ended with, as this program's own.
pub fn exit(code: i32) -> Exit {
    match Verdict::of_exit_code(code) {
        Some(Verdict::Pass) => Exit::Pass,
        Some(Verdict::Fail) => Exit::Fail,
        Some(Verdict::Skipped) => Exit::Skipped,
        Some(Verdict::Invalid) => Exit::Invalid,
        Some(Verdict::Inconclusive) | None => Exit::Inconclusive,
    }
}
