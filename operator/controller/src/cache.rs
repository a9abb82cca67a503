//! What the cluster holds of all runs, kept up to date by watches and read by the run's UID. Children
//! are kept as the plain data that plans are made from, not as whole objects. Every change has the
//! runs that it concerns looked at.

mod children;
mod runs;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::runtime::watcher::Event;
use tokio::sync::watch as channel;
use warpforge_operator_api::{BenchmarkProfile, BenchmarkRun};

use crate::observed::{self, ChildId, JobSeen, Observed, PodSeen, ProfileSeen, holds_slot};
use crate::queue::{Key, Queue};
use children::Children;
use runs::Runs;

pub use watch::{Scope, watch};

pub struct Cache {
    state: Mutex<State>,
    queue: Arc<Queue>,
    /// Which kinds have been listed once.
    listed: channel::Sender<u32>,
}

#[derive(Default)]
struct State {
    runs: Runs,
    profiles: HashMap<String, ProfileSeen>,
    /// The list of profiles under way.
    profiles_listed: HashMap<String, ProfileSeen>,
    jobs: Children<JobSeen>,
    /// With the name of the Job that owns it.
    pods: Children<(String, PodSeen)>,
    others: [Children<ChildId>; 3],
}

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    Runs,
    Profiles,
    Jobs,
    Pods,
    ConfigMaps,
    Services,
    NetworkPolicies,
}

impl Watched {
    const ALL: [Self; 7] = [
        Self::Runs,
        Self::Profiles,
        Self::Jobs,
        Self::Pods,
        Self::ConfigMaps,
        Self::Services,
        Self::NetworkPolicies,
    ];

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl Cache {
    pub fn new(queue: Arc<Queue>) -> Self {
        Self { state: Mutex::default(), queue, listed: channel::Sender::new(0) }
    }

    /// Waits until all kinds have been listed: before that, what is not seen may well be there.
    pub async fn ready(&self) {
        let all = Watched::ALL.iter().fold(0, |all, kind| all | kind.bit());
        // The sender lives as long as `self`.
        let _ = self.listed.subscribe().wait_for(|listed| *listed == all).await;
    }

    pub fn is_ready(&self) -> bool {
        Watched::ALL.iter().all(|kind| *self.listed.borrow() & kind.bit() != 0)
    }

    fn listed(&self, kind: Watched) {
        self.listed.send_modify(|listed| *listed |= kind.bit());
    }

    /// The run, and all that is seen of it but its progress.
    pub fn observe(&self, uid: &Key) -> Option<(Arc<BenchmarkRun>, Observed)> {
        let state = self.state();
        let run = state.runs.get(uid)?.clone();
        let seen = observed::run(&run)?;
        let namespace = seen.namespace.clone();
        let jobs: Vec<_> = state.jobs.of(uid, &namespace).cloned().collect();
        // Labels are anyone's to set: a worker is a pod of one of the run's own Jobs. One that is
        // about to go may have outlived its Job, and still hold its devices.
        let owned = |(owner, pod): &&(String, PodSeen)| {
            pod.deleting || jobs.iter().any(|job| job.name == *owner)
        };
        let pods = state.pods.of(uid, &namespace).filter(owned).map(|(_, pod)| pod.clone());
        let pods = pods.collect();
        let profile = state.profiles.get(&run.spec.profile).cloned();
        let group = state.group(&run);
        let claims = group.map(|group| state.runs.claims(&group, uid)).unwrap_or_default();
        let others = state.others.iter().flat_map(|kind| kind.of(uid, &namespace)).cloned();
        let others = others.collect();
        Some((run, Observed { run: seen, profile, jobs, pods, others, claims, progress: None }))
    }

    /// The concurrency group in which the run has yet to get a slot.
    pub fn group_wanted(&self, uid: &Key) -> Option<String> {
        let state = self.state();
        state.group(state.runs.get(uid)?)
    }

    /// A run as the API server has just returned it: newer than what the watch has brought so far.
    pub fn wrote(&self, run: BenchmarkRun) {
        self.state().runs.wrote(run, &self.queue);
    }

    /// Reads all runs there are.
    pub fn each_run(&self, read: impl FnMut(&BenchmarkRun)) {
        self.state().runs.all().for_each(read);
    }

    fn run_event(&self, event: Event<BenchmarkRun>) {
        let done = matches!(event, Event::InitDone);
        self.state().runs.event(event, &self.queue);
        if done {
            self.listed(Watched::Runs);
        }
    }

    /// Takes a run out that can no longer be read: what is known of it is out of date.
    fn run_lost(&self, uid: &str) {
        self.state().runs.lose(&Key::from(uid), &self.queue);
    }

    fn profile_event(&self, event: Event<BenchmarkProfile>) {
        let mut state = self.state();
        let changed = match event {
            Event::Init => {
                state.profiles_listed.clear();
                return;
            }
            Event::InitApply(profile) => {
                let seen = profile_seen(profile);
                state.profiles_listed.extend(seen.map(|seen| (seen.name.clone(), seen)));
                return;
            }
            Event::InitDone => {
                state.profiles = std::mem::take(&mut state.profiles_listed);
                self.listed(Watched::Profiles);
                state.profiles.keys().cloned().collect()
            }
            Event::Apply(profile) => {
                let Some(seen) = profile_seen(profile) else { return };
                let name = seen.name.clone();
                state.profiles.insert(name.clone(), seen);
                vec![name]
            }
            Event::Delete(profile) => {
                state.profiles.remove(&profile.metadata.name.unwrap_or_default());
                return;
            }
        };
        for uid in changed.iter().flat_map(|name| state.runs.waiting_for(name)) {
            self.queue.add(&uid);
        }
    }

    fn job_event(&self, event: Event<children::Arrival<JobSeen>>) {
        let done = self.state().jobs.event(event, &self.queue);
        if done {
            self.listed(Watched::Jobs);
        }
    }

    fn pod_event(&self, event: Event<children::Arrival<(String, PodSeen)>>) {
        let done = self.state().pods.event(event, &self.queue);
        if done {
            self.listed(Watched::Pods);
        }
    }

    fn other_event(&self, kind: Watched, event: Event<children::Arrival<ChildId>>) {
        let index = match kind {
            Watched::ConfigMaps => 0,
            Watched::Services => 1,
            _ => 2,
        };
        let done = self.state().others[index].event(event, &self.queue);
        if done {
            self.listed(kind);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn group(&self, run: &BenchmarkRun) -> Option<String> {
        let status = run.status.as_ref();
        let over = |status: &&warpforge_operator_api::BenchmarkRunStatus| {
            holds_slot(status) || status.is_complete()
        };
        if status.as_ref().is_some_and(over) {
            return None;
        }
        let slots = match status.and_then(|status| status.resolved.as_ref()) {
            Some(resolved) => resolved.concurrency.as_ref(),
            None => self.profiles.get(&run.spec.profile)?.spec.concurrency.as_ref(),
        };
        slots.map(|slots| slots.group.clone())
    }
}

fn profile_seen(profile: BenchmarkProfile) -> Option<ProfileSeen> {
    Some(ProfileSeen {
        name: profile.metadata.name?,
        uid: profile.metadata.uid?,
        generation: profile.metadata.generation.unwrap_or_default(),
        spec: profile.spec,
    })
}
