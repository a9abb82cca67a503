//! `warpforge-operator`: the operator itself (`run`), the definitions of its resources (`crds`), and
//! what schedules call to have a run made and to wait for its verdict (`submit`).

mod run;
mod submit;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;
use warpforge_operator_api::crds::{crds, to_yaml};
use warpforge_operator_api::verdict::exit;

#[derive(Parser)]
#[command(name = "warpforge-operator", version, about = "Runs BenchmarkRuns on a cluster")]
struct Cli {
    /// How the log is written.
    #[arg(long, global = true, env = "WARPFORGE_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// What is logged: a level, or levels by part, such as `info,kube=debug`.
    #[arg(long, global = true, env = "WARPFORGE_LOG", default_value = "info")]
    log: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// See to the cluster's runs.
    Run(run::Arguments),
    /// Print the definitions of BenchmarkRun and BenchmarkProfile.
    Crds,
    /// Have a run made, and with --wait end with its verdict's exit code: 0 pass, 1 fail,
    /// 3 inconclusive, 4 skipped, 5 invalid.
    Submit(submit::Arguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match start(cli) {
        Ok(code) => code,
        Err(error) => {
            // Nothing is left to tell it to if standard error is closed.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            let usage = submit::is_usage(&error);
            ExitCode::from(if usage { exit::USAGE } else { exit::INTERNAL } as u8)
        }
    }
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_new(&cli.log).with_context(|| format!("--log {}", cli.log))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match cli.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    match cli.command {
        Command::Crds => print_crds().map(|()| ExitCode::SUCCESS),
        Command::Run(arguments) => runtime()?.block_on(run::run(arguments)),
        Command::Submit(arguments) => runtime()?.block_on(submit::submit(arguments)),
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the runtime could not be started")
}

fn print_crds() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for (_, crd) in crds() {
        writeln!(out, "---\n{}", to_yaml(&crd)?.trim_end())?;
    }
    Ok(())
}
