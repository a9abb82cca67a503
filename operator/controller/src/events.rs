//! What is told about a run's change, as Events. They follow from the two statuses alone and are
//! sent once the new one is stored, so that no Event tells of what did not happen.

use warpforge_operator_api::status::{BenchmarkRunStatus, ConditionType, Phase};
use warpforge_operator_api::{Reason, Verdict};

/// An Event to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// `Warning`, or else `Normal`.
    pub warning: bool,
    /// What happened, in a word.
    pub reason: String,
    /// The same for a person.
    pub text: String,
}

/// What a change of status has to tell.
pub fn events(before: &BenchmarkRunStatus, after: &BenchmarkRunStatus) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut tell = |warning: bool, reason: &str, text: String| {
        notes.push(Note { warning, reason: reason.to_owned(), text });
    };
    let becomes = |condition| after.is(condition) && !before.is(condition);
    if becomes(ConditionType::Resolved) {
        let profile = after.resolved.as_ref().map_or("", |resolved| &resolved.profile.name);
        tell(false, "Resolved", format!("Merged with the profile {profile}."));
    }
    let phase = (after.phase != before.phase).then_some(after.phase);
    if let Some(Phase::Queued | Phase::Suspended) = phase {
        tell(false, &after.reason, after.message.clone());
    }
    if becomes(ConditionType::Admitted) {
        tell(false, "Admitted", Reason::SlotGranted.sentence().to_owned());
    }
    let last = |status: &BenchmarkRunStatus| status.attempts.last().map(|ended| ended.number);
    if let Some(ended) = after.attempts.last().filter(|_| last(after) != last(before))
        && !after.is_complete()
        && ended.reason != Reason::Suspended.name()
    {
        let text = format!("Attempt {} ended: {} {}", ended.number, ended.reason, ended.message);
        tell(true, "Retrying", text);
    }
    if phase == Some(Phase::Running) {
        tell(false, "Running", Reason::WorkersRunning.sentence().to_owned());
    }
    if becomes(ConditionType::Complete) {
        let verdict = after.correctness.map_or("unknown", Verdict::name);
        let speed = after.performance.map_or("not judged", Verdict::name);
        let text = format!(
            "Correctness {verdict}, Performance {speed}: {} {}",
            after.reason, after.message
        );
        tell(after.correctness != Some(Verdict::Pass), "Complete", text);
    }
    notes
}
