//! Seeing to one run: observe, plan, act, until the plan has nothing more to do now.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tokio::time::Instant;
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunStatus, Time};

use crate::act::{self, Error};
use crate::cache::Cache;
use crate::election::Hold;
use crate::events::{Note, events};
use crate::metrics::Metrics;
use crate::observed::{Answer, holds_slot};
use crate::plan::{Action, plan};
use crate::progress::{self, Answers};
use crate::queue::{Key, Queue};
use crate::tell::Teller;

/// How many plans in a row one run may take before others have their turn.
const MOST_STEPS: usize = 8;
/// The longest time between two looks at a run that wants to be looked at: the wall clock may be set
/// anew, and then the time to wait is another.
const LONGEST_SLEEP: Duration = Duration::from_mins(10);
/// How many leaders are asked at once.
const MOST_QUESTIONS: usize = 32;
/// Locks of concurrency groups. Two groups that share one only wait for each other.
const LOCKS: usize = 64;

/// All that seeing to a run takes.
pub struct Context {
    pub client: Client,
    pub cache: Arc<Cache>,
    pub queue: Arc<Queue>,
    pub metrics: Arc<Metrics>,
    pub hold: Arc<Hold>,
    teller: Teller,
    answers: Answers,
    questions: Arc<Semaphore>,
    groups: Vec<Mutex<()>>,
}

impl Context {
    pub fn new(
        client: Client,
        cache: Arc<Cache>,
        queue: Arc<Queue>,
        metrics: Arc<Metrics>,
        hold: Arc<Hold>,
        teller: Teller,
    ) -> Self {
        Self {
            teller,
            client,
            cache,
            queue,
            metrics,
            hold,
            answers: Answers::default(),
            questions: Arc::new(Semaphore::new(MOST_QUESTIONS)),
            groups: (0..LOCKS).map(|_| Mutex::new(())).collect(),
        }
    }

    /// Sees to runs as the queue brings them, until it is closed.
    pub async fn work(self: Arc<Self>) {
        while let Some(uid) = self.queue.take().await {
            let start = Instant::now();
            match self.see_to(&uid).await {
                Ok(()) => self.queue.succeeded(&uid),
                Err(error) => {
                    self.metrics.error(error.kind());
                    tracing::warn!(run = &*uid, kind = error.kind(), %error, "will try again");
                    self.queue.failed(&uid);
                }
            }
            self.metrics.reconciled(start.elapsed());
            self.queue.done(&uid);
        }
    }

    async fn see_to(self: &Arc<Self>, uid: &Key) -> Result<(), Error> {
        for _ in 0..MOST_STEPS {
            match self.step(uid).await? {
                Next::Again => {}
                Next::Wake(at) => {
                    self.queue.add_at(uid, at);
                    return Ok(());
                }
                Next::Wait => return Ok(()),
                Next::Gone => {
                    self.answers.forget(uid);
                    return Ok(());
                }
            }
        }
        self.queue.add(uid);
        Ok(())
    }

    /// One plan.
    async fn step(self: &Arc<Self>, uid: &Key) -> Result<Next, Error> {
        // Who gets the next slot is decided one run at a time, from what is seen to what is stored.
        let group = self.cache.group_wanted(uid);
        let lock = match &group {
            Some(group) => Some(self.lock(group).await),
            None => None,
        };
        let Some((run, mut seen)) = self.cache.observe(uid) else { return Ok(Next::Gone) };
        seen.progress = self.answers.get(uid);
        let namespace = seen.run.namespace.clone();
        let now = Time::from(Timestamp::now());
        let mut next = Next::Wait;
        let actions = plan(&run.spec, &seen, now);
        // One that goes on waiting takes nothing from others.
        let lock = lock.filter(|_| takes_slot(&actions));
        for action in actions {
            if !self.hold.lasts() {
                return Err(Error::NotLeading);
            }
            match action {
                Action::WriteStatus(status) => {
                    self.store(&run, &seen.run.status, &status).await?;
                    next = Next::Again;
                }
                Action::Create(child) => {
                    if let Err(error) = act::create(&self.client, &child, uid).await {
                        self.tell_refusal(&run, &error);
                        return Err(error);
                    }
                }
                Action::Release { job } => act::release(&self.client, &namespace, &job).await?,
                Action::Delete(child) => act::delete(&self.client, &namespace, &child).await?,
                Action::Poll { attempt, pod, ip } => self.ask(uid, attempt, pod, ip),
                Action::DeleteRun => act::delete_run(&self.client, &run).await?,
                Action::Wake(at) => next = Next::Wake(instant(at)),
            }
        }
        drop(lock);
        Ok(next)
    }

    async fn lock(&self, group: &str) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        group.hash(&mut hasher);
        self.groups[hasher.finish() as usize % LOCKS].lock().await
    }

    /// Stores a status, then tells of it.
    async fn store(
        &self,
        run: &BenchmarkRun,
        before: &BenchmarkRunStatus,
        after: &BenchmarkRunStatus,
    ) -> Result<(), Error> {
        let Some(stored) = act::write_status(&self.client, run, after).await? else {
            // Gone; the watch will say so.
            return Ok(());
        };
        self.cache.wrote(stored);
        self.metrics.changed(run, before, after);
        let (namespace, name) = (&run.metadata.namespace, &run.metadata.name);
        let (phase, reason) = (after.phase.name(), &after.reason);
        tracing::info!(namespace, name, phase, reason, "stored");
        for note in events(before, after) {
            self.teller.tell(run, note);
        }
        Ok(())
    }

    /// What the API server refuses to create, a person must learn: quota, policy, a missing
    /// ServiceAccount.
    fn tell_refusal(&self, run: &BenchmarkRun, error: &Error) {
        if matches!(error, Error::Refused { .. } | Error::Taken { .. }) {
            let (reason, text) = ("CreateFailed".to_owned(), error.to_string());
            self.teller.tell(run, Note { warning: true, reason, text });
        }
    }

    /// Asks a leader in the background; its answer has the run looked at again.
    fn ask(self: &Arc<Self>, uid: &Key, attempt: i32, pod: String, ip: String) {
        if !self.answers.ask(uid, attempt) {
            return;
        }
        let (context, uid) = (self.clone(), uid.clone());
        tokio::spawn(async move {
            let Ok(_one) = context.questions.clone().acquire_owned().await else { return };
            match progress::ask(&ip).await {
                Ok(progress) => {
                    let at = Time::from(Timestamp::now());
                    context.answers.put(&uid, Answer { attempt, at, progress });
                    context.queue.add(&uid);
                }
                Err(error) => tracing::debug!(run = &*uid, pod, %error, "no progress"),
            }
        });
    }
}

fn takes_slot(actions: &[Action]) -> bool {
    let stored = actions.iter().find_map(|action| match action {
        Action::WriteStatus(status) => Some(status),
        _ => None,
    });
    stored.is_some_and(|status| holds_slot(status))
}

/// What comes after a plan.
enum Next {
    Again,
    Wake(Instant),
    Wait,
    Gone,
}

/// A moment by the clock of timers.
fn instant(at: Time) -> Instant {
    let now = Timestamp::now();
    let left = i128::from(at.seconds()) * 1000 - i128::from(now.as_millisecond());
    // Just after the full second, which a plan counts in.
    let left = Duration::from_millis(u64::try_from(left + 5).unwrap_or_default());
    Instant::now() + left.min(LONGEST_SLEEP)
}
