//! The watches that keep the cache up to date, one for each kind.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PartialObjectMeta;
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use warpforge_operator_api::{BenchmarkProfile, BenchmarkRun, labels};

use super::children::Arrival;
use super::{Cache, Watched};
use crate::metrics::Metrics;
use crate::observed::{self, ChildId, ChildKind};
use crate::queue::Key;

/// How many objects are read at a time: a list is held several times over while it is read, and what
/// the largest page took is not given back.
const PAGE: u32 = 50;

/// Which namespaces are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    Namespace(String),
}

impl Scope {
    fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        match self {
            Self::All => Api::all(client.clone()),
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        }
    }
}

/// Starts all watches; they end with the set.
pub fn watch(
    client: &Client,
    scope: &Scope,
    cache: &Arc<Cache>,
    metrics: &Arc<Metrics>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let all = Config::default().page_size(PAGE);
    let own = all.clone().labels(&format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE));
    let follow = Follow { metrics: metrics.clone() };

    let (api, to) = (scope.api::<DeserializeGuard<BenchmarkRun>>(client), cache.clone());
    let lost = cache.clone();
    let lose = move |metadata: &ObjectMeta| {
        lost.run_lost(metadata.uid.as_deref().unwrap_or_default());
    };
    tasks.spawn(follow.clone().whole(
        Watched::Runs,
        (api, all.clone()),
        move |event| to.run_event(event),
        lose,
    ));
    let (api, to) = (Api::<DeserializeGuard<BenchmarkProfile>>::all(client.clone()), cache.clone());
    tasks.spawn(follow.clone().whole(
        Watched::Profiles,
        (api, all.clone()),
        move |event| to.profile_event(event),
        |_| (),
    ));
    let (api, to) = (scope.api::<DeserializeGuard<Job>>(client), cache.clone());
    let take = move |event| {
        if let Some(event) = mapped(event, |job| arrival(job, |run| observed::job(job, run))) {
            to.job_event(event);
        }
    };
    tasks.spawn(follow.clone().whole(Watched::Jobs, (api, own.clone()), take, |_| ()));
    let (api, to) = (scope.api::<DeserializeGuard<Pod>>(client), cache.clone());
    let take = move |event| {
        let event = mapped(event, |pod| {
            arrival(pod, |run| Some((owning_job(pod)?, observed::pod(pod, run)?)))
        });
        if let Some(event) = event {
            to.pod_event(event);
        }
    };
    tasks.spawn(follow.clone().whole(Watched::Pods, (api, own.clone()), take, |_| ()));
    let others = follow.clone().metadata::<ConfigMap>(
        (Watched::ConfigMaps, ChildKind::ConfigMap),
        (scope.api(client), own.clone()),
        cache.clone(),
    );
    tasks.spawn(others);
    let others = follow.clone().metadata::<Service>(
        (Watched::Services, ChildKind::Service),
        (scope.api(client), own.clone()),
        cache.clone(),
    );
    tasks.spawn(others);
    let others = follow.metadata::<NetworkPolicy>(
        (Watched::NetworkPolicies, ChildKind::NetworkPolicy),
        (scope.api(client), own),
        cache.clone(),
    );
    tasks.spawn(others);
    tasks
}

#[derive(Clone)]
struct Follow {
    metrics: Arc<Metrics>,
}

impl Follow {
    /// Follows whole objects. One that this version cannot read, such as a newer operator may have
    /// left, is passed over and does not stop the others.
    async fn whole<K>(
        self,
        kind: Watched,
        (api, config): (Api<DeserializeGuard<K>>, Config),
        mut take: impl FnMut(Event<K>),
        lose: impl Fn(&ObjectMeta),
    ) where
        K: Resource<DynamicType: Default> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        // Who set which field is never looked at, and is a good part of an object.
        let events = watcher(api, config)
            .modify(|object| object.managed_fields_mut().clear())
            .default_backoff();
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if let Some(event) = self.readable(kind, event, &lose) {
                        take(event);
                    }
                }
                Err(error) => self.failed(kind, &error),
            }
        }
    }

    /// Follows what objects are there, without what is in them.
    async fn metadata<K>(
        self,
        (watched, kind): (Watched, ChildKind),
        (api, config): (Api<PartialObjectMeta<K>>, Config),
        cache: Arc<Cache>,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let events = watcher(api, config).default_backoff();
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let seen = |object: &PartialObjectMeta<K>| {
                        arrival(object, |run| child(object, kind, run))
                    };
                    if let Some(event) = mapped(event, seen) {
                        cache.other_event(watched, event);
                    }
                }
                Err(error) => self.failed(watched, &error),
            }
        }
    }

    fn readable<K>(
        &self,
        kind: Watched,
        event: Event<DeserializeGuard<K>>,
        lose: impl Fn(&ObjectMeta),
    ) -> Option<Event<K>>
    where
        K: Resource<DynamicType: Default>,
    {
        let read = |object: DeserializeGuard<K>| match object.0 {
            Ok(object) => Some(object),
            Err(error) => {
                let (name, namespace) = (&error.metadata.name, &error.metadata.namespace);
                tracing::warn!(?kind, ?namespace, ?name, %error, "an object cannot be read");
                self.metrics.error("Unreadable");
                lose(&error.metadata);
                None
            }
        };
        Some(match event {
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
            Event::Apply(object) => Event::Apply(read(object)?),
            Event::InitApply(object) => Event::InitApply(read(object)?),
            Event::Delete(object) => Event::Delete(read(object)?),
        })
    }

    fn failed(&self, kind: Watched, error: &watcher::Error) {
        tracing::warn!(?kind, %error, "a watch was interrupted");
        self.metrics.error("Watch");
    }
}

/// `None` for an object that is of no run.
fn mapped<K, T>(
    event: Event<K>,
    map: impl Fn(&K) -> Option<Arrival<T>>,
) -> Option<Event<Arrival<T>>> {
    Some(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(map(&object)?),
        Event::InitApply(object) => Event::InitApply(map(&object)?),
        Event::Delete(object) => Event::Delete(map(&object)?),
    })
}

fn arrival<K: Resource, T>(object: &K, keep: impl FnOnce(&str) -> Option<T>) -> Option<Arrival<T>> {
    let run = object.labels().get(labels::RUN_UID)?;
    Some(Arrival {
        run: Key::from(run.as_str()),
        namespace: object.namespace()?,
        name: object.meta().name.clone()?,
        kept: keep(run),
    })
}

fn child<K: Resource>(object: &K, kind: ChildKind, run: &str) -> Option<ChildId> {
    let owned = |owner: &OwnerReference| owner.uid == run && owner.controller == Some(true);
    let own = object.owner_references().iter().any(owned);
    let stays = object.meta().deletion_timestamp.is_none();
    (own && stays).then(|| ChildId::new(kind, object.meta().name.clone().unwrap_or_default()))
}

fn owning_job(pod: &Pod) -> Option<String> {
    let owners = pod.metadata.owner_references.iter().flatten();
    let mut jobs = owners.filter(|owner| owner.controller == Some(true) && owner.kind == "Job");
    jobs.next().map(|job| job.name.clone())
}
