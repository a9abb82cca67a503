//! The cluster: whether the API server of the chosen context answers.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use warpforge_bench::capability::Finding;

use super::Limits;
use crate::commands::Context;
use crate::settings::PathList;

const CURE: &str = "check that the cluster runs and that the kubeconfig names its address";

pub fn probe(context: &Context<'_>, limits: Limits) -> Finding {
    super::block_on(async {
        match configuration(context).await {
            Ok(config) => ask(config, limits.answer).await,
            Err(finding) => finding,
        }
    })
}

/// The kubeconfig's context, or else the service account of the pod this runs in.
async fn configuration(context: &Context<'_>) -> Result<Config, Finding> {
    let mut config = if let Some(paths) = &context.settings().kubeconfig.value {
        from_files(context, paths).await?
    } else {
        of_pod(context)?
    };
    if let Some(namespace) = &context.settings().namespace.value {
        config.default_namespace.clone_from(namespace);
    }
    Ok(config)
}

fn of_pod(context: &Context<'_>) -> Result<Config, Finding> {
    if context.environment.get("KUBERNETES_SERVICE_HOST").is_none() {
        let cure = "point KUBECONFIG or cluster.kubeconfig at a cluster's kubeconfig";
        return Err(Finding::missing("no kubeconfig, and not inside a cluster", cure));
    }
    Config::incluster_env().map_err(|error| {
        let cure = "mount the service account's token into the pod";
        Finding::broken(format!("the pod's own account cannot be used: {error}"), cure)
    })
}

async fn from_files(context: &Context<'_>, paths: &PathList) -> Result<Config, Finding> {
    let source = &context.settings().kubeconfig.source;
    let present: Vec<_> = paths.0.iter().filter(|path| path.exists()).collect();
    let merged = present.iter().map(|path| read(path)).reduce(|all, next| {
        all?.merge(next?).map_err(|error| Finding::broken(error.to_string(), CURE))
    });
    let kubeconfig = merged.unwrap_or_else(|| {
        let names: Vec<_> = paths.0.iter().map(|path| path.display().to_string()).collect();
        let detail =
            format!("cluster.kubeconfig ({source}) names {}: no such file", names.join(":"));
        Err(Finding::missing(detail, "correct the path, or fetch the cluster's kubeconfig"))
    })?;
    let known = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect::<Vec<_>>();
    let options = KubeConfigOptions {
        context: context.settings().context.value.clone(),
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| unusable(&error, &known))
}

fn read(path: &PathBuf) -> Result<Kubeconfig, Finding> {
    Kubeconfig::read_from(path).map_err(|error| {
        let path = path.display();
        let detail = match error {
            // The parser quotes the text around a mistake, and that text holds credentials.
            KubeconfigError::Parse(_) => format!("{path} is not a valid kubeconfig"),
            KubeconfigError::ReadConfig(reason, _) => format!("{path} cannot be read: {reason}"),
            other => format!("{path}: {other}"),
        };
        Finding::broken(
            detail,
            format!("see what is wrong with: kubectl config view --kubeconfig {path}"),
        )
    })
}

fn unusable(error: &KubeconfigError, known: &[String]) -> Finding {
    let cure = format!("set cluster.context to one of: {}", known.join(", "));
    match error {
        KubeconfigError::LoadContext(name) => {
            Finding::broken(format!("the kubeconfig has no context \"{name}\""), cure)
        }
        KubeconfigError::CurrentContextNotSet => {
            Finding::broken("the kubeconfig has no current context", cure)
        }
        other => Finding::broken(format!("the kubeconfig cannot be used: {other}"), CURE),
    }
}

async fn ask(config: Config, limit: Duration) -> Finding {
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
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

fn explain(error: &kube::Error, server: &str) -> String {
    let is = |kind| {
        chain(error)
            .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
            .any(|cause| cause.kind() == kind)
    };
    match error {
        kube::Error::Api(status) => {
            format!("{server} answered HTTP {}: {}", status.code, status.message)
        }
        kube::Error::SerdeError(_) => format!("{server} answered, but not as Kubernetes does"),
        _ if is(ErrorKind::ConnectionRefused) => format!("{server} refused the connection"),
        _ => {
            let root = chain(error).last().map(ToString::to_string).unwrap_or_default();
            format!("connection to {server} failed: {root}")
        }
    }
}

fn cure_of(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
            "renew the credentials in the kubeconfig"
        }
        _ => CURE,
    }
}

fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}
