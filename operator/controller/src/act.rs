//! What a plan says, done to the cluster.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunStatus, GROUP, VERSION};

use crate::children::Child;
use crate::observed::{ChildId, ChildKind};

/// In whose name fields are set.
pub const MANAGER: &str = "warpforge-operator";
/// How long the API server may take to answer.
const LIMIT: Duration = Duration::from_secs(15);

/// Why a run could not be seen to. What is left to do is done at the next try.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what}: {source}")]
    Api { what: String, source: kube::Error },
    #[error("{what}: the API server refused it: {message}")]
    Refused { what: String, message: String },
    #[error("{what}: it has changed since it was read")]
    Changed { what: String },
    #[error("{what}: an object of this name belongs to someone else")]
    Taken { what: String },
    #[error("{what}: no answer within {LIMIT:?}")]
    Late { what: String },
    #[error("the Lease ran out")]
    NotLeading,
}

impl Error {
    /// The variant's name, as a metric's label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Api { .. } => "Api",
            Self::Refused { .. } => "Refused",
            Self::Changed { .. } => "Changed",
            Self::Taken { .. } => "Taken",
            Self::Late { .. } => "Late",
            Self::NotLeading => "NotLeading",
        }
    }

    fn of(what: impl Into<String>, error: kube::Error) -> Self {
        let what = what.into();
        match error {
            kube::Error::Api(status) if status.code == 409 => Self::Changed { what },
            kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422) => {
                Self::Refused { what, message: status.message }
            }
            source => Self::Api { what, source },
        }
    }
}

/// An answer, `None` if there is no such object (any more).
async fn call<T>(
    what: impl Fn() -> String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Option<T>, Error> {
    match tokio::time::timeout(LIMIT, request).await {
        Err(_) => Err(Error::Late { what: what() }),
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
        Ok(Err(error)) => Err(Error::of(what(), error)),
    }
}

/// Stores a status in place of that of `run`, if `run` is still the newest. Returns the run as it is
/// then; `None` if it is gone.
pub async fn write_status(
    client: &Client,
    run: &BenchmarkRun,
    status: &BenchmarkRunStatus,
) -> Result<Option<BenchmarkRun>, Error> {
    let name = run.name_any();
    let api: Api<BenchmarkRun> =
        Api::namespaced(client.clone(), &run.namespace().unwrap_or_default());
    let patch = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "BenchmarkRun",
        "metadata": {
            "name": name,
            "uid": run.metadata.uid,
            "resourceVersion": run.metadata.resource_version,
        },
        "status": status,
    });
    let params = PatchParams::apply(MANAGER).force();
    let what = || format!("storing the status of {name}");
    call(what, api.patch_status(&name, &params, &Patch::Apply(patch))).await
}

/// Creates a child of the run with this UID. One that is already there is the run's own, or an error.
pub async fn create(client: &Client, child: &Child, run: &str) -> Result<(), Error> {
    match child {
        Child::Job(child) => create_one(client, child.as_ref(), run).await,
        Child::ConfigMap(child) => create_one(client, child.as_ref(), run).await,
        Child::Service(child) => create_one(client, child.as_ref(), run).await,
        Child::NetworkPolicy(child) => create_one(client, child.as_ref(), run).await,
    }
}

/// Created, not applied: what is already there has gone on, and a Job would be suspended again.
async fn create_one<K>(client: &Client, child: &K, run: &str) -> Result<(), Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let name = child.name_any();
    let api: Api<K> = Api::namespaced(client.clone(), &child.namespace().unwrap_or_default());
    let what = || format!("creating {} {name}", K::kind(&()));
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    match call(what, api.create(&params, child)).await {
        Err(Error::Changed { what: creating }) => {
            let there = call(what, api.get_metadata(&name)).await?;
            let own = there
                .is_none_or(|there| there.owner_references().iter().any(|owner| owner.uid == run));
            if own { Ok(()) } else { Err(Error::Taken { what: creating }) }
        }
        // The namespace is gone, and the run with it.
        created => created.map(|_| ()),
    }
}

/// Lets a Job's pods go.
pub async fn release(client: &Client, namespace: &str, job: &str) -> Result<(), Error> {
    let api: Api<Job> = Api::namespaced(client.clone(), namespace);
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "spec": { "suspend": false } }));
    let what = || format!("letting go Job {job}");
    call(what, api.patch_metadata(job, &params, &patch)).await.map(|_| ())
}

/// Deletes a child, and what belongs to it.
pub async fn delete(client: &Client, namespace: &str, child: &ChildId) -> Result<(), Error> {
    match child.kind {
        ChildKind::Job => delete_one::<Job>(client, namespace, &child.name).await,
        ChildKind::ConfigMap => delete_one::<ConfigMap>(client, namespace, &child.name).await,
        ChildKind::Service => delete_one::<Service>(client, namespace, &child.name).await,
        ChildKind::NetworkPolicy => {
            delete_one::<NetworkPolicy>(client, namespace, &child.name).await
        }
    }
}

async fn delete_one<K>(client: &Client, namespace: &str, name: &str) -> Result<(), Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    // A Job's own default would leave its pods behind.
    let params = DeleteParams::background();
    let what = || format!("deleting {} {name}", K::kind(&()));
    call(what, api.delete(name, &params)).await.map(|_| ())
}

/// Deletes the run itself, if it is still as it was seen.
pub async fn delete_run(client: &Client, run: &BenchmarkRun) -> Result<(), Error> {
    let name = run.name_any();
    let api: Api<BenchmarkRun> =
        Api::namespaced(client.clone(), &run.namespace().unwrap_or_default());
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions {
            uid: run.metadata.uid.clone(),
            resource_version: run.metadata.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    call(|| format!("deleting {name}"), api.delete(&name, &params)).await.map(|_| ())
}
