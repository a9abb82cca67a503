//! `warpforge logs`: what a run's workers say.

use futures::stream::{self, BoxStream};
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use warpforge_operator_client::{Worker, workers};

use super::Context;
use crate::cluster::{Cluster, Namespace};
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::{DIM, Ui};

const EXAMPLES: &str = "\
Examples:
  warpforge logs nightly-28711 --follow
  warpforge logs nightly-28711 --worker cpu-1

A finished run's pods are gone soon after its verdict is stored, and their logs with them; how it
ended is in `warpforge get RUN` and `warpforge report RUN`.";

/// Show what a run's workers say
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[arg(value_name = "RUN")]
    run: String,

    /// Only this worker, such as cpu-0 [default: all of the latest attempt]
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,

    /// Go on with what they say from now on
    #[arg(short, long)]
    follow: bool,

    #[command(flatten)]
    namespace: Namespace,
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    super::block_on(async {
        let cluster = Cluster::connect(context, &args.namespace).await?;
        let run = cluster.run(&args.run).await?;
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let all = workers(&pods, &run).await.map_err(|error| cluster.explained(&error))?;
        let ended = run.status.is_some_and(|status| status.is_complete());
        let chosen = choose(&all, args.worker.as_deref(), ended)?;
        let named = chosen.len() > 1;
        let mut lines = Vec::new();
        for worker in chosen {
            let params = LogParams { follow: args.follow, ..LogParams::default() };
            let read = pods.log_stream(&worker.pod, &params).await;
            let read = read.map_err(|error| cluster.explained(&error))?;
            let prefix =
                if named { format!("{DIM}{}{DIM:#} ", worker.name) } else { String::new() };
            let told = read.lines().map_ok(move |line| format!("{prefix}{line}"));
            lines.push(told.boxed());
        }
        let mut lines: BoxStream<'_, _> = match args.follow {
            true => stream::select_all(lines).boxed(),
            // One after the other: what lies in the past needs no interleaving.
            false => stream::iter(lines).flatten().boxed(),
        };
        while let Some(line) = lines.next().await {
            writeln!(ui.out(), "{}", line?)?;
            if args.follow {
                ui.out().flush()?;
            }
        }
        Ok(Exit::Pass)
    })
}

/// The workers that are asked for, of the latest attempt.
fn choose(all: &[Worker], asked: Option<&str>, ended: bool) -> Result<Vec<Worker>, Misuse> {
    let latest = all.iter().map(|worker| worker.attempt).max();
    let of_attempt: Vec<_> =
        all.iter().filter(|worker| Some(worker.attempt) == latest).cloned().collect();
    if of_attempt.is_empty() {
        return Err(match ended {
            true => Misuse::new(
                "the run has ended, and its pods are gone",
                "how it ended is told by: warpforge get RUN",
            ),
            false => Misuse::new("the run has no workers yet", "see why with: warpforge get RUN"),
        }
        .ending(Exit::Skipped));
    }
    let chosen: Vec<_> = of_attempt
        .iter()
        .filter(|worker| asked.is_none_or(|name| name == worker.name))
        .cloned()
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = of_attempt.iter().map(|worker| worker.name.as_str()).collect();
        let message = format!("there is no worker {}", asked.unwrap_or_default());
        return Err(Misuse::new(message, format!("the workers are: {}", names.join(", "))));
    }
    let started: Vec<_> = chosen.into_iter().filter(|worker| worker.started).collect();
    if started.is_empty() {
        let help = "see what it waits for with: warpforge get RUN";
        return Err(Misuse::new("no container has started yet", help).ending(Exit::Skipped));
    }
    Ok(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(attempt: u32, name: &str, started: bool) -> Worker {
        Worker { attempt, name: name.to_owned(), pod: format!("{name}-{attempt}"), started }
    }

    #[test]
    fn the_latest_attempts_workers_are_meant() {
        let all = [worker(1, "a-0", true), worker(2, "a-0", true), worker(2, "a-1", false)];
        let names = |asked| {
            let chosen = choose(&all, asked, false).map_err(|misuse| misuse.message);
            chosen.map(|chosen| chosen.into_iter().map(|worker| worker.pod).collect::<Vec<_>>())
        };
        assert_eq!(names(None), Ok(vec!["a-0-2".to_owned()]));
        assert_eq!(names(Some("a-1")), Err("no container has started yet".to_owned()));
        assert_eq!(names(Some("b-0")), Err("there is no worker b-0".to_owned()));
        assert!(choose(&[], None, true).unwrap_err().message.contains("has ended"));
        assert!(choose(&[], None, false).unwrap_err().message.contains("no workers yet"));
    }
}
