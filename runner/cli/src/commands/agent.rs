//! `warpforge agent`: what the operator starts in every worker's pod.

use std::io::Write as _;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use warpforge_agent::Options;
use warpforge_operator_api::contract::{FOLDER, HTTP_PORT, TERMINATION_FILE, env};

use super::Context;
use crate::exit::Exit;
use crate::ui::Ui;

const ABOUT: &str = "\
The operator starts it; there is nothing to type. It reads spec.json and ranks.json from the folder
that WARPFORGE_RUN_FOLDER names, and its own place from WARPFORGE_WORKER_GROUP and
WARPFORGE_WORKER_INDEX. While it works, /progress and /metrics are served on port 9464. How it
ended is written to /dev/termination-log, and the exit code says the same.";

/// Be a worker of a run on a cluster: passes, verdict, upload
#[derive(Debug, clap::Args)]
#[command(after_help = ABOUT)]
pub struct Args {
    /// Where progress and metrics are served
    #[arg(long, value_name = "ADDRESS", hide = true)]
    http: Option<SocketAddr>,

    /// Where the last message is written
    #[arg(long, value_name = "FILE", hide = true, default_value = TERMINATION_FILE)]
    termination: PathBuf,

    /// A folder for what is made [default: warpforge in the folder for temporary files]
    #[arg(long, value_name = "DIR", hide = true)]
    work: Option<PathBuf>,

    /// Where the run's volumes are mounted
    #[arg(long, value_name = "DIR", hide = true, default_value = "/data")]
    data: PathBuf,

    /// Seconds that the object store may do nothing before it is given up
    #[arg(long, value_name = "SECONDS", hide = true, default_value_t = 300)]
    store_patience: u64,

    /// Seconds that peers may take to come
    #[arg(long, value_name = "SECONDS", hide = true, default_value_t = 600)]
    peers_patience: u64,

    /// Where the kernel counts processes that it killed for want of memory
    #[arg(long, value_name = "FILE", hide = true, default_value = "/sys/fs/cgroup/memory.events")]
    memory_events: PathBuf,
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    let variable = |name: &str| context.environment.get(name);
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, HTTP_PORT));
    let options = Options {
        program: std::env::current_exe().context("this program's own file is not known")?,
        run_folder: variable(env::RUN_FOLDER).unwrap_or_else(|| FOLDER.to_owned()).into(),
        group: variable(env::GROUP).unwrap_or_default(),
        index: variable(env::INDEX).and_then(|text| text.parse().ok()),
        http: args.http.unwrap_or(everywhere),
        termination: args.termination.clone(),
        work: args.work.clone().unwrap_or_else(|| std::env::temp_dir().join("warpforge")),
        data: args.data.clone(),
        store_patience: Duration::from_secs(args.store_patience),
        peers_patience: Duration::from_secs(args.peers_patience),
        memory_events: args.memory_events.clone(),
        show: |text| {
            // A log that cannot be written is no reason to stop.
            let _ = std::io::stderr().write_all(text);
        },
    };
    let (code, message) = warpforge_agent::run(&options, variable);
    // The exit code must be the message's, whether or not anybody reads this.
    let _ = ui.note(&format!("{}: {}", message.reason, message.message));
    Ok(Exit::of_code(code))
}
