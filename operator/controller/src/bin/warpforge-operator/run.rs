//! `warpforge-operator run`.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use warpforge_operator_controller::cache::Scope;
use warpforge_operator_controller::election::{Candidate, Terms};
use warpforge_operator_controller::operator::{Settings, operate};

#[derive(Args)]
pub struct Arguments {
    /// The namespace of the Lease that replicas agree by. Left out: the operator's own.
    #[arg(long, env = "WARPFORGE_NAMESPACE")]
    namespace: Option<String>,
    /// The Lease's name.
    #[arg(long, default_value = "warpforge-operator")]
    lease_name: String,
    /// How long another replica waits before it takes over from one that is silent.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(2..=600))]
    lease_seconds: u32,
    /// This replica's name, such as its pod's.
    #[arg(long, env = "POD_NAME", default_value = "warpforge-operator")]
    identity: String,
    /// Where /metrics, /healthz and /readyz are served.
    #[arg(long, default_value = "0.0.0.0:8080")]
    metrics_address: SocketAddr,
    /// See to runs of this namespace only.
    #[arg(long)]
    watch_namespace: Option<String>,
    /// How many runs are seen to at once.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::infer().await.context("no cluster is known")?;
    let namespace = arguments.namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).context("the cluster cannot be talked to")?;
    let settings = Settings {
        candidate: Candidate {
            namespace,
            lease: arguments.lease_name,
            identity: format!("{}_{:016x}", arguments.identity, unique()),
            terms: Terms::of_seconds(arguments.lease_seconds),
        },
        scope: arguments.watch_namespace.map_or(Scope::All, Scope::Namespace),
        address: arguments.metrics_address,
        workers: usize::from(arguments.workers),
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("told to stop");
    };
    operate(client, settings, stop).await?;
    Ok(ExitCode::SUCCESS)
}

/// Tells this process from every other, also from the same pod's before a restart.
fn unique() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now()))
}
