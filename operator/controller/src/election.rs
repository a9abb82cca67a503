//! Which of several replicas is at work: the one that holds a Lease and keeps renewing it. Clocks of
//! machines may differ, so no time in the Lease is ever compared with the own clock: another's hold
//! has ended when its record has not changed for as long as it lasts, by the own clock alone; the own
//! hold has ended when no renewal succeeded for less than that.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Whose Lease it is, and how long a hold lasts.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub namespace: String,
    pub lease: String,
    /// No two processes have the same, not even the same pod's after a restart.
    pub identity: String,
    pub terms: Terms,
}

/// How long a hold lasts.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// After this without a change, others take over.
    pub hold: Duration,
    /// After this without a renewal, the holder stops. Less than `hold`, so that it has stopped
    /// before anyone else begins.
    pub give_up: Duration,
    /// How often the Lease is renewed or looked at.
    pub every: Duration,
}

impl Terms {
    /// With a hold of so many seconds.
    pub fn of_seconds(hold: u32) -> Self {
        let hold = Duration::from_secs(u64::from(hold.max(2)));
        Self { hold, give_up: hold * 2 / 3, every: hold / 7 }
    }
}

/// Why the Lease could not be had or kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the Lease was not renewed for {0:?}")]
    Late(Duration),
    #[error("{0} took the Lease")]
    Taken(String),
}

/// What was last seen of the Lease, and since when by the own clock.
struct Sighting {
    record: Option<LeaseSpec>,
    since: Instant,
}

/// Until when the Lease is surely held. A process that was stopped for a while asks before it
/// writes: its timers have not told it yet.
#[derive(Debug)]
pub struct Hold {
    until: Mutex<Instant>,
}

impl Hold {
    pub fn until(until: Instant) -> Self {
        Self { until: Mutex::new(until) }
    }

    pub fn lasts(&self) -> bool {
        Instant::now() < self.end()
    }

    fn end(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extend(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

pub struct Election {
    api: Api<Lease>,
    candidate: Candidate,
}

impl Election {
    pub fn new(client: Client, candidate: Candidate) -> Self {
        Self { api: Api::namespaced(client, &candidate.namespace), candidate }
    }

    /// Waits until the Lease is held.
    pub async fn acquire(&self) -> Hold {
        let mut sighting: Option<Sighting> = None;
        loop {
            let asked = Instant::now();
            match timeout(self.candidate.terms.give_up, self.attempt(&mut sighting)).await {
                Ok(Ok(true)) => return Hold::until(asked + self.candidate.terms.give_up),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the Lease could not be asked for"),
                Err(_) => tracing::warn!("the API server did not answer about the Lease"),
            }
            sleep(self.candidate.terms.every).await;
        }
    }

    /// Whether the Lease is held now.
    async fn attempt(&self, sighting: &mut Option<Sighting>) -> Result<bool, kube::Error> {
        let Some(lease) = self.api.get_opt(&self.candidate.lease).await? else {
            return written(self.create().await);
        };
        let record = lease.spec.clone();
        let now = Instant::now();
        if sighting.as_ref().is_none_or(|seen| seen.record != record) {
            *sighting = Some(Sighting { record: record.clone(), since: now });
        }
        let since = sighting.as_ref().map_or(now, |seen| seen.since);
        let record = record.unwrap_or_default();
        let held = record.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty());
        // The holder stops by its own terms, which may be others than ours.
        let theirs = record.lease_duration_seconds.unwrap_or_default().unsigned_abs();
        let hold = self.candidate.terms.hold.max(Duration::from_secs(u64::from(theirs)));
        if held && now.duration_since(since) < hold {
            return Ok(false);
        }
        written(self.replace(lease, true).await)
    }

    /// Keeps the Lease until it is lost.
    pub async fn keep(&self, hold: &Hold) -> Error {
        let Terms { give_up, every, .. } = self.candidate.terms;
        loop {
            sleep(every).await;
            let asked = Instant::now();
            // Not even tried once it is too late: a renewal would hide that others were at work.
            if !hold.lasts() {
                return Error::Late(give_up);
            }
            match timeout_at(hold.end(), self.renew()).await {
                Ok(Ok(None)) => hold.extend(asked + give_up),
                Ok(Ok(Some(other))) => return Error::Taken(other),
                Ok(Err(error)) => tracing::warn!(%error, "the Lease could not be renewed"),
                Err(_) => return Error::Late(give_up),
            }
        }
    }

    /// Renews the Lease; the holder, if it is another by now.
    async fn renew(&self) -> Result<Option<String>, kube::Error> {
        let lease = self.api.get(&self.candidate.lease).await?;
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        let holder = holder.unwrap_or_default();
        if holder != self.candidate.identity {
            return Ok(Some(holder));
        }
        self.replace(lease, false).await.map(|_| None)
    }

    /// Lets others begin at once.
    pub async fn release(&self) {
        let released = async {
            let mut lease = self.api.get(&self.candidate.lease).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.candidate.identity) {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                self.api.replace(&self.candidate.lease, &PostParams::default(), &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        match timeout(Duration::from_secs(3), released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the Lease could not be released"),
            Err(_) => tracing::warn!("the Lease could not be released in time"),
        }
    }

    async fn create(&self) -> Result<Lease, kube::Error> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.candidate.lease.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(self.record(None)),
        };
        self.api.create(&PostParams::default(), &lease).await
    }

    /// Writes the own record. The API server refuses if the Lease is no longer the one that was
    /// seen, since its resourceVersion goes along.
    async fn replace(&self, mut lease: Lease, takeover: bool) -> Result<Lease, kube::Error> {
        let before = lease.spec.take().unwrap_or_default();
        let mut record = self.record(Some(&before));
        if takeover {
            record.lease_transitions = Some(before.lease_transitions.unwrap_or_default() + 1);
            record.acquire_time = record.renew_time.clone();
        }
        lease.spec = Some(record);
        self.api.replace(&self.candidate.lease, &PostParams::default(), &lease).await
    }

    fn record(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.candidate.identity.clone()),
            lease_duration_seconds: Some(self.candidate.terms.hold.as_secs() as i32),
            acquire_time: before.map_or(Some(now.clone()), |before| before.acquire_time.clone()),
            renew_time: Some(now),
            lease_transitions: Some(
                before.and_then(|before| before.lease_transitions).unwrap_or_default(),
            ),
            ..LeaseSpec::default()
        }
    }
}

/// Whether a write succeeded: someone else may have been quicker.
fn written(result: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
