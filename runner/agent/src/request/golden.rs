//! What passes and policy together mean for the golden.

use warpforge_operator_api::Resolved;
use warpforge_operator_api::data::Pass;
use warpforge_operator_api::policy::GoldenPolicy;

use super::{Refusal, refuse};

/// What is done about the golden, and whether Pass 2 follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Golden {
    /// A stored one of the same key may be used.
    pub may_reuse: bool,
    /// One may be made.
    pub may_make: bool,
    pub second_pass: bool,
}

/// `kept`: golden has a key.
pub(super) fn of(run: &Resolved, kept: bool) -> Result<Golden, Refusal> {
    let asks = |pass| run.passes.contains(&pass);
    let (first, second) = (asks(Pass::Golden), asks(Pass::Warpforge));
    let policy = run.golden_policy;
    if policy == GoldenPolicy::Skip {
        let why = "Skip: Pass 2 starts from golden's state, and cannot do without yet";
        return refuse("goldenPolicy", why);
    }
    let golden = match (first, second, policy) {
        (false, false, _) => return refuse("passes", "there is none to compute"),
        (false, true, GoldenPolicy::Refresh | GoldenPolicy::Only) => {
            let why = format!("{policy:?} makes a golden, and passes leaves Golden out");
            return refuse("goldenPolicy", why);
        }
        (_, _, GoldenPolicy::Only) => {
            Golden { may_reuse: false, may_make: true, second_pass: false }
        }
        _ => Golden {
            may_reuse: policy == GoldenPolicy::Reuse,
            may_make: first,
            second_pass: second,
        },
    };
    let both = golden.may_make && golden.second_pass;
    if !kept && !both {
        let why = "a forward run computes both passes: its golden is not kept apart";
        return refuse("passes", why);
    }
    if !golden.second_pass && run.artifacts.is_none() {
        return refuse("artifacts", "a golden alone has to be stored, and there is no store");
    }
    Ok(golden)
}
