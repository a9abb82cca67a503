//! How long a worker may take.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use warpforge_operator_api::Time;
use warpforge_operator_api::contract::RunnerSpec;

/// How long the run's deadline leaves to a worker that starts `now`.
///
/// The deadline is the operator's clock's, and a node's may differ. So a worker reads its own only
/// once, as it starts, and never takes longer than the whole of `runDeadlineSeconds` from there,
/// however slow that clock is. One that is so fast that the deadline has passed is not believed: no
/// worker is started after its deadline. Then, and where no deadline is known, the whole time counts
/// from the start; the operator ends a run that takes too long, whatever its workers think.
pub fn allowed(spec: &RunnerSpec, now: Time) -> Duration {
    let whole = spec.spec.run_deadline_seconds;
    let left = spec.deadline.map(|deadline| deadline.since(now)).filter(|left| *left > 0);
    let seconds = left.map_or(whole, |left| left.min(whole));
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// By this machine's clock.
pub fn now() -> Time {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Time::from_seconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::spec;

    #[test]
    fn a_clock_that_is_wrong_neither_lengthens_the_time_nor_takes_it_all() {
        let mut spec = spec(&serde_json::json!({ "runDeadlineSeconds": 600 }));
        let now = Time::from_seconds(1_700_000_000);
        for (deadline, expected) in
            [(None, 600), (Some(400), 400), (Some(4000), 600), (Some(0), 600), (Some(-50), 600)]
        {
            spec.deadline = deadline.map(|seconds| now.plus(seconds));
            assert_eq!(allowed(&spec, now), Duration::from_secs(expected), "{deadline:?}");
        }
    }
}
