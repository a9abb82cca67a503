//! What the tests of the plan share: a profile, requests, and words for pods and plans, so that a
//! row of a table is a line that a person can read.

#![allow(dead_code, reason = "each test uses its own part")]

pub mod world;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use warpforge_operator_api::contract::Termination;
use warpforge_operator_api::data::{Stage, Workload};
use warpforge_operator_api::policy::{FailureAction, FailureMatch, FailurePolicy, FailureRule};
use warpforge_operator_api::profile::{BenchmarkProfileSpec, Concurrency, Images};
use warpforge_operator_api::status::AttemptState;
use warpforge_operator_api::workers::{Vendor, WorkerGroup};
use warpforge_operator_api::{BenchmarkRunSpec, BenchmarkRunStatus, Reason, Time, Verdict};
use warpforge_operator_controller::observed::{
    Disruption, Observed, PodEnd, PodPhase, PodSeen, ProfileSeen, RunSeen, Waiting,
};
use warpforge_operator_controller::plan::Action;

pub const UID: &str = "8c6cb1a2-0000-4000-8000-000000000001";

/// When runs of the tests are made.
pub fn epoch() -> Time {
    Time::from_seconds(1_800_000_000)
}

pub fn profile() -> ProfileSeen {
    let mut spec = BenchmarkProfileSpec::default();
    spec.defaults.images = Images {
        cpu: Some("registry.example.org/runner-cpu:1".into()),
        nvidia: Some("registry.example.org/runner-cuda:1".into()),
        amd: Some("registry.example.org/runner-rocm:1".into()),
    };
    spec.defaults.pending_deadline_seconds = 600;
    spec.defaults.run_deadline_seconds = 3600;
    ProfileSeen { name: "default".into(), uid: "p-1".into(), generation: 1, spec }
}

pub fn slots(max: i32) -> Concurrency {
    Concurrency { group: "lab".into(), max, wait_deadline_seconds: 7200 }
}

/// A run of two workers, one in each of two groups.
pub fn request() -> BenchmarkRunSpec {
    let name = "bert-squad".to_owned();
    BenchmarkRunSpec {
        workload: Some(Workload { name, preset: Some("tiny".into()), parameters: [].into() }),
        workers: vec![WorkerGroup::new("a", Vendor::Cpu), WorkerGroup::new("b", Vendor::Nvidia)],
        ..BenchmarkRunSpec::empty()
    }
}

/// `Retry on OutOfMemory,NodeLost; FailRun on 70`
pub fn rules(text: &str, max_restarts: i32) -> FailurePolicy {
    let rule = |text: &str| {
        let (action, on) = text.trim().split_once(" on ").unwrap();
        let action = match action {
            "FailRun" => FailureAction::FailRun,
            "Retry" => FailureAction::Retry,
            "RetryExcludingNode" => FailureAction::RetryExcludingNode,
            "Ignore" => FailureAction::Ignore,
            "Inconclusive" => FailureAction::Inconclusive,
            other => panic!("no action {other}"),
        };
        let (codes, reasons): (Vec<_>, Vec<_>) =
            on.split(',').partition(|part| part.parse::<i32>().is_ok());
        let when = FailureMatch {
            exit_codes: codes.iter().map(|code| code.parse().unwrap()).collect(),
            reasons: reasons.iter().map(|name| Reason::parse(name).unwrap()).collect(),
        };
        FailureRule { when, action }
    };
    let rules = text.split(';').filter(|rule| !rule.trim().is_empty()).map(rule).collect();
    FailurePolicy { max_restarts, rules }
}

pub fn seen(status: BenchmarkRunStatus) -> Observed {
    Observed {
        run: RunSeen {
            namespace: "team".into(),
            name: "nightly".into(),
            uid: UID.into(),
            generation: 1,
            created: epoch(),
            deleting: false,
            status,
        },
        profile: Some(profile()),
        jobs: Vec::new(),
        pods: Vec::new(),
        others: BTreeSet::new(),
        claims: Vec::new(),
        progress: None,
    }
}

/// A pod in a few words: `running`, `oom golden`, `exit 1 Fail`, `exit 3 - UploadFailed`, ...
pub fn pod(group: &str, index: u32, attempt: i32, words: &str, created: Time) -> PodSeen {
    let mut pod = PodSeen {
        name: format!("{group}-{index}-{attempt}"),
        group: group.into(),
        attempt,
        index,
        phase: PodPhase::Pending,
        created,
        node: Some(format!("node-{group}")),
        ip: Some("10.0.0.9".into()),
        deleting: false,
        gated: false,
        waiting: None,
        disruption: None,
        end: None,
    };
    say(&mut pod, words);
    pod
}

/// Has something happen to a pod.
pub fn say(pod: &mut PodSeen, words: &str) {
    let end = |exit_code: Option<i32>, text: String| PodEnd {
        exit_code,
        out_of_memory: false,
        not_started: false,
        text,
        at: None,
    };
    let fail = |pod: &mut PodSeen, ended: PodEnd| {
        pod.phase = if ended.exit_code == Some(0) { PodPhase::Succeeded } else { PodPhase::Failed };
        pod.waiting = None;
        pod.end = Some(ended);
    };
    let words: Vec<_> = words.split(' ').collect();
    match words[..] {
        ["pending"] => pod.node = None,
        ["gated"] => pod.gated = true,
        ["running"] => {
            pod.phase = PodPhase::Running;
            pod.waiting = None;
        }
        // The worker outlived its pass and says so; its container is marked all the same.
        ["oom", "told"] => {
            let text = Termination::failure(3, Reason::GoldenOutOfMemory, "").to_json();
            fail(pod, PodEnd { out_of_memory: true, ..end(Some(3), text) });
        }
        ["oom", ..] => {
            let pass = if words.len() > 1 { Stage::Golden } else { Stage::Warpforge };
            let text = Termination::interim(pass).to_json();
            fail(pod, PodEnd { out_of_memory: true, ..end(Some(137), text) });
        }
        ["starterror"] => fail(pod, PodEnd { not_started: true, ..end(Some(128), String::new()) }),
        ["evicted"] => {
            pod.disruption = Some(Disruption::Evicted);
            fail(pod, end(None, String::new()));
        }
        ["preempted"] => {
            pod.disruption = Some(Disruption::Preempted);
            fail(pod, end(Some(143), String::new()));
        }
        ["nodelost"] => {
            pod.disruption = Some(Disruption::NodeLost);
            pod.deleting = true;
        }
        ["devicelost"] => {
            pod.disruption = Some(Disruption::DeviceLost);
            fail(pod, end(None, String::new()));
        }
        ["deleted"] => pod.deleting = true,
        ["image"] => {
            pod.waiting = Some(Waiting::ImagePull { image: "x:1".into(), hopeless: false });
        }
        ["image", "hopeless"] => {
            pod.waiting = Some(Waiting::ImagePull { image: "x y".into(), hopeless: true });
        }
        ["notstarted"] => {
            pod.waiting = Some(Waiting::NotStarted {
                reason: "CreateContainerConfigError".into(),
                message: "secret \"s3\" not found".into(),
            });
        }
        ["unschedulable"] => {
            pod.node = None;
            pod.waiting =
                Some(Waiting::Unschedulable { message: "0/2 nodes are available.".into() });
        }
        ["killed", code] => fail(pod, end(Some(code.parse().unwrap()), String::new())),
        ["cut", code] => {
            let code = code.parse().unwrap();
            let text = Termination::failure(code, Reason::InternalError, "cut off").to_json();
            fail(pod, end(Some(code), text[..text.len() - 3].to_owned()));
        }
        // `exit CODE VERDICT REASON`: the message says all three.
        ["exit", code, verdict, ref reason @ ..] => {
            let code = code.parse().unwrap();
            let correctness = Verdict::ALL.into_iter().find(|other| other.name() == verdict);
            let text = Termination {
                exit_code: Some(code),
                correctness,
                reason: reason.join(" "),
                message: "in its own words".into(),
                ..Termination::interim(Stage::Warpforge)
            };
            fail(pod, end(Some(code), text.to_json()));
        }
        ref other => panic!("no pod {other:?}"),
    }
}

/// A plan in a few words.
pub fn words(plan: &[Action], now: Time) -> String {
    let words = plan.iter().map(|action| match action {
        Action::WriteStatus(status) => status_words(status),
        Action::Create(child) => format!("create {:?}", child.id().kind),
        Action::Release { .. } => "release".to_owned(),
        Action::Delete(child) => format!("delete {:?}", child.kind),
        Action::Poll { pod, .. } => format!("poll {pod}"),
        Action::DeleteRun => "delete run".to_owned(),
        Action::Wake(at) => format!("wake +{}", at.since(now)),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn status_words(status: &BenchmarkRunStatus) -> String {
    let mut words = format!("{} {}", status.phase.name(), status.reason);
    if let Some(verdict) = status.correctness {
        let _ = write!(words, " {verdict} exit {}", status.exit_code.unwrap());
    }
    if let Some(attempt) = &status.attempt {
        let state = match attempt.state {
            AttemptState::Creating => "creating",
            AttemptState::Released => "released",
            AttemptState::Running => "running",
        };
        let _ = write!(words, " #{} {state}", attempt.number);
        if attempt.ending_at.is_some() {
            words += " ending";
        }
    }
    if !status.excluded_nodes.is_empty() {
        let _ = write!(words, " not on {}", status.excluded_nodes.join(","));
    }
    words
}
