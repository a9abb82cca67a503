//! Names of children: readable, short enough, and no two the same.

use sha2::{Digest as _, Sha256};

use super::Build;

/// The longest name of a Job: with a dash and an index of up to four digits it is its pod's host
/// name, which is a DNS label.
pub const LONGEST_JOB: usize = 58;
const LONGEST: usize = 63;
/// Hexadecimal digits of the digest: two names of a namespace are alike with a chance of 2^-64.
const DIGITS: usize = 16;

impl Build<'_> {
    pub(super) fn job_name(&self, group: &str) -> String {
        self.name("", &format!("{group}-{}", self.attempt), LONGEST_JOB)
    }

    pub(super) fn config_map_name(&self) -> String {
        self.name("", &format!("run-{}", self.attempt), LONGEST)
    }

    /// Begins with a letter, as a Service's name must and a run's need not.
    pub(super) fn service_name(&self) -> String {
        self.name("wf-", "peers", LONGEST)
    }

    pub(super) fn network_policy_name(&self) -> String {
        self.name("", "net", LONGEST)
    }

    /// As much of the run's name as fits, the part, and a digest of the run's UID and the part. The
    /// digest is never left out: a short name would otherwise equal the cut one of another run.
    fn name(&self, before: &str, part: &str, most: usize) -> String {
        let digest = Sha256::new()
            .chain_update(&self.run.uid)
            .chain_update([0])
            .chain_update(part)
            .finalize();
        let digest = digest.iter().take(8).fold(0_u64, |all, byte| (all << 8) | u64::from(*byte));
        let room = most.saturating_sub(before.len() + part.len() + DIGITS + 2);
        let start: String = self.run.name.chars().map(dashed).take(room).collect();
        let start = start.trim_end_matches('-');
        format!("{before}{start}-{part}-{digest:0DIGITS$x}")
    }
}

/// A run's name may have dots; a label has none.
fn dashed(character: char) -> char {
    if character == '.' { '-' } else { character }
}
