//! A cluster in memory: it stores what plans write and create, runs Jobs as the Job controller and
//! the kubelet would, and lets things go wrong. It also holds plans to their promises, whatever
//! happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use warpforge_operator_api::contract::Progress;
use warpforge_operator_api::status::{BenchmarkRunStatus, ConditionType, Phase};
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunSpec, Time};
use warpforge_operator_controller::children::Child;
use warpforge_operator_controller::events::events;
use warpforge_operator_controller::observed::{
    Answer, ChildId, ChildKind, JobEnd, JobSeen, Observed, PodPhase, PodSeen, ProfileSeen, RunSeen,
    Waiting, claims,
};
use warpforge_operator_controller::plan::{Action, PROGRESS_SECONDS, plan};

use super::{epoch, pod, say};

/// The schema of a run as it is installed. Rules in CEL are the API server's own matter.
static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let (_, crd) = &warpforge_operator_api::crds::crds()[0];
    let schema = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref();
    jsonschema::validator_for(&serde_json::to_value(schema).unwrap()).unwrap()
});

pub struct World {
    pub now: Time,
    pub profile: Option<ProfileSeen>,
    pub runs: Vec<Run>,
    /// Two in three pods start by themselves.
    pub luck: u64,
}

#[derive(Clone, Default)]
pub struct Children {
    pub jobs: BTreeMap<String, (JobSeen, i32)>,
    pub pods: Vec<PodSeen>,
    pub others: BTreeSet<ChildId>,
}

pub struct Run {
    pub spec: BenchmarkRunSpec,
    pub seen: RunSeen,
    pub there: Children,
    /// What the operator's cache shows: it lags, and never goes back.
    pub cache: Children,
    pub progress: Option<Answer>,
    pub gone: bool,
    created: BTreeSet<ChildId>,
    last_progress: Option<Time>,
    pub writes: usize,
}

impl World {
    pub fn new(profile: ProfileSeen, specs: Vec<BenchmarkRunSpec>) -> Self {
        let runs = specs.into_iter().enumerate().map(|(index, spec)| Run {
            spec,
            seen: RunSeen {
                namespace: "team".into(),
                name: format!("run-{index}"),
                uid: format!("uid-{index}"),
                generation: 1,
                // Two of each second, so that UIDs have to decide.
                created: epoch().plus(index as i64 / 2),
                deleting: false,
                status: BenchmarkRunStatus::default(),
            },
            there: Children::default(),
            cache: Children::default(),
            progress: None,
            gone: false,
            created: BTreeSet::new(),
            last_progress: None,
            writes: 0,
        });
        Self { now: epoch().plus(10), profile: Some(profile), runs: runs.collect(), luck: 0 }
    }

    pub fn status(&self, run: usize) -> &BenchmarkRunStatus {
        &self.runs[run].seen.status
    }

    /// The operator's cache catches up.
    pub fn refresh(&mut self) {
        for run in &mut self.runs {
            run.cache = run.there.clone();
        }
    }

    fn objects(&self) -> Vec<BenchmarkRun> {
        let objects = self.runs.iter().filter(|run| !run.gone).map(|run| {
            let mut object = BenchmarkRun::new(&run.seen.name, run.spec.clone());
            object.metadata.namespace = Some(run.seen.namespace.clone());
            object.metadata.uid = Some(run.seen.uid.clone());
            let created = k8s_openapi::jiff::Timestamp::from_second(run.seen.created.seconds());
            object.metadata.creation_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created.unwrap()));
            object.status = Some(run.seen.status.clone());
            object
        });
        objects.collect()
    }

    pub fn observe(&self, index: usize) -> Observed {
        let run = &self.runs[index];
        let group = run.seen.status.resolved.as_ref().and_then(|r| r.concurrency.as_ref());
        let group = group.or(self.profile.as_ref().and_then(|p| p.spec.concurrency.as_ref()));
        let claims = group.map(|group| claims(&self.objects(), &group.group, &run.seen.uid));
        Observed {
            run: run.seen.clone(),
            profile: self.profile.clone(),
            jobs: run.cache.jobs.values().map(|(job, _)| job.clone()).collect(),
            pods: run.cache.pods.clone(),
            others: run.cache.others.clone(),
            claims: claims.unwrap_or_default(),
            progress: run.progress.clone(),
        }
    }

    pub fn plan(&self, run: usize) -> Vec<Action> {
        plan(&self.runs[run].spec, &self.observe(run), self.now)
    }

    /// Plans and does the first `most` actions: the operator may stop anywhere. Returns the plan.
    pub fn reconcile(&mut self, run: usize, most: usize) -> Vec<Action> {
        if self.runs[run].gone {
            return Vec::new();
        }
        let actions = self.plan(run);
        let write = actions.iter().any(|action| matches!(action, Action::WriteStatus(_)));
        assert!(!write || actions.len() == 1, "a status and deeds in one plan");
        for action in actions.iter().take(most) {
            self.act(run, action);
        }
        self.check_slots();
        actions
    }

    fn act(&mut self, index: usize, action: &Action) {
        let now = self.now;
        match action {
            Action::WriteStatus(status) => self.write(index, status),
            Action::Create(child) => self.runs[index].create(child),
            Action::Release { job } => {
                if let Some((job, _)) = self.runs[index].there.jobs.get_mut(job) {
                    job.suspended = false;
                }
            }
            Action::Delete(child) => self.runs[index].delete(child),
            Action::Poll { attempt, .. } => {
                let run = &mut self.runs[index];
                let step = run.progress.as_ref().map_or(0, |last| last.progress.step + 1);
                let progress = Progress {
                    version: 1,
                    pass: warpforge_operator_api::data::Stage::Warpforge,
                    step,
                    steps: 1000,
                    loss: Some(0.5),
                    eta_seconds: None,
                    golden: None,
                };
                run.progress = Some(Answer { attempt: *attempt, at: now, progress });
            }
            Action::DeleteRun => {
                assert!(self.status(index).is_complete(), "only what is finished is deleted");
                let run = &mut self.runs[index];
                run.gone = true;
                run.there = Children::default();
            }
            Action::Wake(at) => assert!(*at > now, "a time to wake that has passed"),
        }
    }

    fn write(&mut self, index: usize, status: &BenchmarkRunStatus) {
        let before = self.runs[index].seen.status.clone();
        assert_ne!(before, *status, "a write that changes nothing");
        assert!(!before.is_complete() || status.is_complete(), "a verdict is taken back");
        if before.is_complete() {
            assert_eq!(before.correctness, status.correctness, "a verdict changes");
        }
        let number = |status: &BenchmarkRunStatus| status.attempt.as_ref().map(|a| a.number);
        if number(&before) != number(status) {
            self.runs[index].last_progress = None;
        }
        if transition(&before) == transition(status) {
            // Progress alone, and not too often.
            let last = self.runs[index].last_progress.replace(self.now);
            assert_ne!(before.progress, status.progress, "a write without a transition");
            let due = last.is_none_or(|last| self.now.since(last) >= PROGRESS_SECONDS);
            assert!(due, "progress is written too often");
        }
        if status.is(ConditionType::Admitted) && !before.is(ConditionType::Admitted) {
            self.check_fifo(index);
        }
        if status.is_complete() {
            assert!(status.correctness.is_some() && status.exit_code.is_some());
            assert!(!status.reason.is_empty() && !status.message.is_empty(), "{status:?}");
            assert_eq!(status.phase, Phase::Complete);
            let told = events(&before, status).iter().filter(|n| n.reason == "Complete").count();
            assert_eq!(told, usize::from(!before.is_complete()), "one Event for the end");
        }
        assert!(status.attempts.len() <= 16 && status.message.chars().count() <= 1024);
        let stored = serde_json::to_value(status).unwrap();
        let object = serde_json::json!({ "spec": self.runs[index].spec, "status": stored });
        if let Err(error) = SCHEMA.validate(&object) {
            panic!("the API server would refuse it: {error} at {}", error.instance_path());
        }
        let read: BenchmarkRunStatus = serde_json::from_value(stored).unwrap();
        assert_eq!(read, *status, "a status that does not survive storage is written for ever");
        self.runs[index].seen.status = read;
        self.runs[index].writes += 1;
    }

    fn check_slots(&self) {
        let holders = self.runs.iter().filter(|run| {
            let status = &run.seen.status;
            !run.gone && status.is(ConditionType::Admitted) && !status.is_complete()
        });
        let limits = holders.clone().filter_map(|run| {
            run.seen.status.resolved.as_ref()?.concurrency.as_ref().map(|group| group.max)
        });
        if let Some(max) = limits.max() {
            assert!(holders.count() as i64 <= i64::from(max), "more runs than slots");
        }
    }

    /// No older run that also waits may be passed over.
    fn check_fifo(&self, index: usize) {
        let own = &self.runs[index];
        if self.profile.as_ref().is_none_or(|profile| profile.spec.concurrency.is_none()) {
            return;
        }
        let before = self.runs.iter().filter(|run| {
            let status = &run.seen.status;
            let waits = status.resolved.is_some()
                && !status.is(ConditionType::Admitted)
                && !status.is_complete();
            waits
                && !run.spec.suspend
                && !run.gone
                && (run.seen.created, &run.seen.uid) < (own.seen.created, &own.seen.uid)
        });
        let max = self.profile.as_ref().unwrap().spec.concurrency.as_ref().unwrap().max;
        assert!((before.count() as i64) < i64::from(max), "an older run was passed over");
    }

    /// Jobs make pods, pods start, Jobs end: one step of the rest of the cluster.
    pub fn tick(&mut self) {
        self.luck = self.luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (now, luck) = (self.now, self.luck);
        for run in &mut self.runs {
            run.tick(now, luck);
        }
    }

    pub fn edit(&mut self, index: usize, edit: impl FnOnce(&mut BenchmarkRunSpec)) {
        let run = &mut self.runs[index];
        let before = run.spec.clone();
        edit(&mut run.spec);
        run.seen.generation += i64::from(run.spec != before);
    }
}

/// What makes a write a transition: all that a person or a program waits for.
fn transition(status: &BenchmarkRunStatus) -> impl PartialEq + use<> {
    let conditions: Vec<_> = status
        .conditions
        .iter()
        .map(|c| (c.type_, c.status, c.reason.clone(), c.observed_generation))
        .collect();
    let attempt = status.attempt.as_ref();
    let attempt = attempt.map(|attempt| (attempt.number, attempt.state, attempt.ending_at));
    let reason = (status.phase, status.reason.clone(), status.observed_generation);
    (reason, conditions, attempt, status.resolved.is_some(), status.attempts.len())
}

impl Run {
    fn create(&mut self, child: &Child) {
        assert!(!self.seen.status.is_complete(), "created after the end: {:?}", child.id());
        assert!(!self.spec.suspend || self.seen.status.phase != Phase::Suspended);
        let id = child.id();
        let exists = self.there.others.contains(&id) || self.there.jobs.contains_key(&id.name);
        if exists {
            // The cache lags, and the API server says so: already there.
            return;
        }
        let first = self.created.insert(id.clone());
        match child {
            Child::Job(job) => {
                assert!(first || !self.was_released(), "created twice: {id:?}");
                let seen = warpforge_operator_controller::observed::job(job, &self.seen.uid);
                let replicas = job.spec.as_ref().unwrap().completions.unwrap();
                self.there.jobs.insert(id.name, (seen.unwrap(), replicas));
            }
            _ => {
                self.there.others.insert(id);
            }
        }
    }

    fn was_released(&self) -> bool {
        self.seen.status.attempt.as_ref().is_some_and(|attempt| attempt.released_at.is_some())
    }

    pub fn delete(&mut self, child: &ChildId) {
        if child.kind == ChildKind::Job {
            if let Some((job, _)) = self.there.jobs.get_mut(&child.name) {
                job.deleting = true;
            }
        } else {
            self.there.others.remove(child);
        }
    }

    fn tick(&mut self, now: Time, luck: u64) {
        // Deleted pods end, but for those on lost nodes; then deleted Jobs go.
        self.there.pods.retain(|pod| !pod.deleting || pod.disruption.is_some());
        let jobs = &mut self.there.jobs;
        let pods = &mut self.there.pods;
        let of =
            |job: &JobSeen, pod: &PodSeen| pod.group == job.group && pod.attempt == job.attempt;
        for (job, replicas) in jobs.values_mut() {
            if job.deleting {
                pods.iter_mut().filter(|pod| of(job, pod)).for_each(|pod| pod.deleting = true);
                continue;
            }
            if job.suspended || job.end.is_some() {
                continue;
            }
            let own = pods.iter().filter(|pod| of(job, pod));
            if own.clone().any(|pod| pod.phase == PodPhase::Failed) {
                job.end = Some(JobEnd::Failed {
                    reason: "BackoffLimitExceeded".into(),
                    message: "Job has reached the specified backoff limit".into(),
                });
                let running = pods.iter_mut().filter(|pod| of(job, pod) && pod.end.is_none());
                running.for_each(|pod| pod.deleting = true);
            } else if own.clone().filter(|pod| pod.phase == PodPhase::Succeeded).count() as i32
                == *replicas
            {
                job.end = Some(JobEnd::Complete);
            } else {
                for index in 0..replicas.unsigned_abs() {
                    if !pods.iter().any(|pod| of(job, pod) && pod.index == index) {
                        pods.push(pod(&job.group, index, job.attempt, "pending", now));
                    }
                }
            }
        }
        jobs.retain(|_, (job, _)| !job.deleting || pods.iter().any(|pod| of(job, pod)));
        for pod in pods.iter_mut() {
            // The scheduler counts nodes anew each time it looks.
            if let Some(Waiting::Unschedulable { message }) = &mut pod.waiting {
                *message = format!("0/{} nodes are available.", luck % 1000);
            }
        }
        let lucky = pods.iter_mut().enumerate().filter(|(index, pod)| {
            pod.phase == PodPhase::Pending
                && pod.waiting.is_none()
                && !pod.deleting
                && !(luck >> (index % 48)).is_multiple_of(3)
        });
        for (_, pod) in lucky {
            pod.node = Some(format!("node-{}", pod.index));
            say(pod, "running");
        }
    }
}
