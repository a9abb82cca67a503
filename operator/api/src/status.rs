//! A run's status: where it is, how it ended, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{GoldenUse, Report, Results};
use crate::data::Stage;
use crate::{Reason, Resolved, Time, Verdict};

/// Where the run is, how it ended, and why. The operator alone writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkRunStatus {
    /// The spec's generation that this status is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Where the run is, in a word.
    #[serde(default)]
    pub phase: Phase,
    /// What is run, in a few characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub subject: String,
    /// Whether both passes agree; of a suite, whether the benchmarks ran and their results are
    /// right. Set once the run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correctness: Option<Verdict>,
    /// Whether it is fast enough; of a suite, whether its figures are steady enough to be
    /// believed. Set once the run has ended, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performance: Option<Verdict>,
    /// Why the run waits, or why it ended as it did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub reason: String,
    /// The same for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// The exit code that `warpforge-operator submit --wait` ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The steps on the way: Resolved, Admitted, `GoldenReady`, Running, Validated, Complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// How far it is, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressSeen>,
    /// The attempt under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// Attempts that ended, the last 16 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["number"]))]
    pub attempts: Vec<EndedAttempt>,
    /// How often a failure rule has started the workers again.
    #[serde(default)]
    pub restarts: i32,
    /// Nodes that further attempts keep away from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub excluded_nodes: Vec<String>,
    /// Since when the run waits for a slot, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<Time>,
    /// When the run was let in, and its deadline began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// The report in the object store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// What was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Results>,
    /// The request merged with its profile, taken once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Resolved>,
}

/// Where a run is, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Not looked at, or its profile is not there.
    #[default]
    Pending,
    /// Waiting for a slot, or for Kueue.
    Queued,
    /// Held back by spec.suspend.
    Suspended,
    /// Workers are being created, scheduled and started.
    Starting,
    /// All workers run.
    Running,
    /// Ended, with a verdict.
    Complete,
}

impl Phase {
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Queued,
        Self::Suspended,
        Self::Starting,
        Self::Running,
        Self::Complete,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Queued => "Queued",
            Self::Suspended => "Suspended",
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Complete => "Complete",
        }
    }
}

/// A step on a run's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which one.
    #[serde(rename = "type")]
    pub type_: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in a word.
    #[schemars(length(max = 64), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Why, for a person.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Since when it holds or does not.
    pub last_transition_time: Time,
    /// The spec's generation that it is about.
    #[serde(default)]
    pub observed_generation: i64,
}

/// The steps on a run's way, in order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ConditionType {
    /// Request and profile were merged.
    Resolved,
    /// The run has a slot.
    Admitted,
    /// A golden is there to compare with.
    GoldenReady,
    /// All workers run.
    Running,
    /// The passes were compared, or the benchmarks ran, and that was decided.
    Validated,
    /// The run has ended.
    Complete,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// How far the run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressSeen {
    /// The pass and step, such as `Golden 120/500`, or `Suite 3/10`.
    #[schemars(length(max = 64))]
    pub summary: String,
    /// The pass under way, or Suite.
    pub pass: Stage,
    /// Its step, from 0.
    pub step: i64,
    /// All its steps.
    pub steps: i64,
    /// The loss of the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub loss: Option<String>,
    /// How long it will still take, as the runner guesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<i64>,
    /// When this was noted.
    pub updated_at: Time,
}

/// The attempt under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Counted from 1; part of its Jobs' names.
    pub number: i32,
    /// How far its workers are.
    pub state: AttemptState,
    /// When it began.
    pub started_at: Time,
    /// Before this, no workers are created: a failed attempt is not repeated at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// When its workers were let go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Time>,
    /// When all of them ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_at: Option<Time>,
    /// When a worker ended and the others were given a moment to say why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending_at: Option<Time>,
    /// What becomes of the golden, once the runner has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub golden: Option<GoldenUse>,
}

/// How far an attempt's workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttemptState {
    /// Being created, suspended.
    Creating,
    /// Let go together.
    Released,
    /// All of them ran at the same time.
    Running,
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedAttempt {
    /// Counted from 1.
    pub number: i32,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// Why.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// The same for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub message: String,
    /// The worker it is about, such as `cpu-0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub worker: Option<String>,
    /// That worker's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// That worker's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

impl BenchmarkRunStatus {
    pub fn condition(&self, type_: ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    pub fn is(&self, type_: ConditionType) -> bool {
        let condition = self.condition(type_);
        condition.is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Whether the verdict is stored: nothing of the run is made after that.
    pub fn is_complete(&self) -> bool {
        self.is(ConditionType::Complete)
    }

    pub fn reason(&self) -> Option<Reason> {
        Reason::parse(&self.reason)
    }
}

/// At most so many characters, the last of them an ellipsis where something was cut off.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
