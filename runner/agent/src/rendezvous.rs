//! How the workers of a run find each other and notice when one is lost. Rank 0 listens, the others
//! connect and say who they are; a stranger, or a worker of another attempt, is refused. The
//! connections stay: a worker that is gone is silent.

mod follower;
mod leader;
mod line;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use warpforge_operator_api::contract::RunnerSpec;

pub use follower::Follower;
pub use leader::Leader;

/// How often a connection shows that it lives.
const BEAT: Duration = Duration::from_secs(5);
/// How long it may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// How long one who connects may take to say who it is.
const GREETING: Duration = Duration::from_secs(10);

/// Who connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    pub uid: String,
    pub attempt: i32,
    pub rank: u32,
}

impl Hello {
    pub fn of(spec: &RunnerSpec, rank: u32) -> Self {
        let RunnerSpec { version, run, attempt, .. } = spec;
        Self { version: *version, uid: run.uid.clone(), attempt: *attempt, rank }
    }
}

/// One line, either way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Hello(Hello),
    Refused(String),
    Welcome,
    Go,
    Alive,
    /// The peer's part is done.
    Done,
    /// The peer's part has failed.
    Failed(String),
    /// The run is over, well or not.
    End,
}

/// Why one who connects is not let in, if so. `own` is the leader's own greeting.
fn refusal(own: &Hello, hello: &Hello, ranks: usize, taken: &[u32]) -> Option<String> {
    if hello.version != own.version {
        return Some(format!("version {}, and not {}", hello.version, own.version));
    }
    if hello.uid != own.uid {
        return Some(format!("a worker of the run {}, and not of {}", hello.uid, own.uid));
    }
    if hello.attempt != own.attempt {
        return Some(format!("a worker of attempt {}, and not {}", hello.attempt, own.attempt));
    }
    if hello.rank == own.rank || hello.rank as usize >= ranks {
        return Some(format!("there is no rank {} to fill", hello.rank));
    }
    taken.contains(&hello.rank).then(|| format!("rank {} is here already", hello.rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_worker_of_this_attempt_is_let_in_and_once() {
        let own = Hello { version: 1, uid: "u".into(), attempt: 2, rank: 0 };
        let peer = Hello { rank: 1, ..own.clone() };
        assert_eq!(refusal(&own, &peer, 3, &[2]), None);
        for wrong in [
            Hello { version: 2, ..peer.clone() },
            Hello { uid: "other".into(), ..peer.clone() },
            Hello { attempt: 1, ..peer.clone() },
            Hello { rank: 0, ..peer.clone() },
            Hello { rank: 3, ..peer.clone() },
            Hello { rank: 2, ..peer },
        ] {
            assert!(refusal(&own, &wrong, 3, &[2]).is_some(), "{wrong:?}");
        }
    }
}
