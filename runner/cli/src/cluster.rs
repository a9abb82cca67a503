//! The cluster that the settings name, and how a failure to reach it is told.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Api, Client, Config};
use warpforge_bench::capability::Finding;
use warpforge_operator_api::BenchmarkRun;

use crate::commands::Context;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::settings::PathList;

pub const CURE: &str = "check that the cluster runs and that the kubeconfig names its address";

/// Which namespace is meant.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Namespace {
    /// The namespace [default: the settings', else the kubeconfig's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// Which namespaces' runs are meant.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Scope {
    #[command(flatten)]
    pub namespace: Namespace,

    /// Runs of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["run", "namespace"])]
    pub all_namespaces: bool,
}

/// The cluster, ready to be asked.
pub struct Cluster {
    pub client: Client,
    /// The address for messages.
    pub server: String,
    pub namespace: String,
}

impl Cluster {
    pub async fn connect(context: &Context<'_>, asked: &Namespace) -> anyhow::Result<Self> {
        let config = configuration(context).await.map_err(|found| {
            Misuse::new(found.detail, found.cure.unwrap_or_default()).ending(Exit::Inconclusive)
        })?;
        let server = address(&config);
        let namespace = asked.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| explained(&error, &server))?;
        Ok(Self { client, server, namespace })
    }

    pub fn runs(&self) -> Api<BenchmarkRun> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The runs of a namespace, or of all.
    pub fn runs_of(&self, scope: &Scope) -> Api<BenchmarkRun> {
        match scope.all_namespaces {
            true => Api::all(self.client.clone()),
            false => self.runs(),
        }
    }

    /// A run by its name.
    pub async fn run(&self, name: &str) -> anyhow::Result<BenchmarkRun> {
        let run = self.runs().get_opt(name).await.map_err(|error| self.explained(&error))?;
        run.ok_or_else(|| {
            let message =
                format!("there is no BenchmarkRun {name} in namespace {}", self.namespace);
            Misuse::new(message, "list them with: warpforge get --all-namespaces").into()
        })
    }

    pub fn explained(&self, error: &kube::Error) -> anyhow::Error {
        explained(error, &self.server)
    }
}

fn explained(error: &kube::Error, server: &str) -> anyhow::Error {
    let cure = match error {
        kube::Error::Api(status) if status.code == 404 => {
            "install WarpForge in the cluster: helm install warpforge charts/warpforge"
        }
        error => cure_of(error),
    };
    Misuse::new(explain(error, server), cure).ending(Exit::Inconclusive).into()
}

pub fn address(config: &Config) -> String {
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

/// The kubeconfig's context, or else the service account of the pod this runs in.
pub async fn configuration(context: &Context<'_>) -> Result<Config, Finding> {
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

pub fn explain(error: &kube::Error, server: &str) -> String {
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

pub fn cure_of(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 401 => "renew the credentials in the kubeconfig",
        kube::Error::Api(status) if status.code == 403 => {
            "ask for that right, or use a context of the kubeconfig that has it"
        }
        _ => CURE,
    }
}

fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}
