//! The cluster: whether the API server of the chosen context answers.

use std::time::Duration;

use kube::{Client, Config};
use warpforge_bench::capability::Finding;

use super::Limits;
use crate::cluster::{CURE, address, configuration, cure_of, explain};
use crate::commands::Context;

pub fn probe(context: &Context<'_>, limits: Limits) -> Finding {
    super::block_on(async {
        match configuration(context).await {
            Ok(config) => ask(config, limits.answer).await,
            Err(finding) => finding,
        }
    })
}

async fn ask(config: Config, limit: Duration) -> Finding {
    let server = address(&config);
    let namespace = config.default_namespace.clone();
    let answer =
        tokio::time::timeout(limit, async { Client::try_from(config)?.apiserver_version().await });
    match answer.await {
        Ok(Ok(version)) => Finding::works(format!(
            "Kubernetes {} at {server}, namespace \"{namespace}\"",
            version.git_version,
        )),
        Ok(Err(error)) => Finding::broken(explain(&error, &server), cure_of(&error)),
        Err(_) => {
            let detail = format!("{server} did not answer within {:.1} s", limit.as_secs_f64());
            Finding::broken(detail, CURE)
        }
    }
}
