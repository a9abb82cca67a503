//! The own part of a run beside the other workers' parts.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use warpforge_operator_api::Reason;

use crate::ending::Failure;

/// How long the own part may take to end once another worker's has: what ended it may be the own
/// part's doing, and the other side of that is only on its way. Shorter than the operator waits for
/// the failure to name.
const SETTLING: Duration = Duration::from_secs(10);

/// Does the own part unless another worker is `lost`. A golden that dies here ends the others', whose
/// word of it may come before its own: so the own failure is named wherever there is one, and the
/// loss only where there is none, or where the loss is what the own part failed by.
pub async fn beside<T>(
    own: impl Future<Output = Result<T, Failure>>,
    lost: impl Future<Output = Failure>,
) -> Result<T, Failure> {
    let mut own = pin!(own);
    let lost = tokio::select! {
        biased;
        ended = &mut own => return ended,
        lost = lost => lost,
    };
    match timeout(SETTLING, own).await {
        Ok(Err(failure)) if failure.reason != Reason::PeerLost => Err(failure),
        _ => Err(lost),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const OWN: Reason = Reason::GoldenOutOfMemory;

    /// What is named if both end after so many milliseconds; nothing ends by itself.
    fn named(own: Option<(u64, Result<(), Reason>)>, lost: Option<u64>) -> Result<(), String> {
        let own = async {
            let Some((after, ended)) = own else { return std::future::pending().await };
            sleep(Duration::from_millis(after)).await;
            ended.map_err(|reason| Failure::new(reason, "own"))
        };
        let lost = async {
            let Some(after) = lost else { return std::future::pending().await };
            sleep(Duration::from_millis(after)).await;
            Failure::new(Reason::PeerLost, "lost")
        };
        // The clock moves when everything waits, so that a busy machine changes nothing.
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(beside(own, lost)).map_err(|failure| failure.message)
    }

    #[test]
    fn an_own_failure_is_named_whoever_tells_first() {
        for (own, lost, expected) in [
            (Some((5, Err(OWN))), Some(5), Err("own")),
            (Some((5, Err(OWN))), Some(1), Err("own")),
            (Some((9_000, Err(Reason::InternalError))), Some(0), Err("own")),
            (Some((20_000, Err(OWN))), Some(0), Err("lost")),
            (Some((5, Err(Reason::PeerLost))), Some(1), Err("lost")),
            (Some((5, Ok(()))), Some(1), Err("lost")),
            (Some((1, Ok(()))), Some(5), Ok(())),
            (None, Some(1), Err("lost")),
            (Some((1, Err(OWN))), None, Err("own")),
        ] {
            assert_eq!(named(own, lost), expected.map_err(str::to_owned), "{own:?} {lost:?}");
        }
    }
}
