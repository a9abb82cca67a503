//! Who is who among a run's workers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::workers::Vendor;

/// All workers of an attempt, by rank. Rank 0 leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RankMap {
    pub version: u32,
    /// The port at which rank 0 waits for the others.
    pub port: u16,
    pub ranks: Vec<Rank>,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rank {
    pub rank: u32,
    pub group: String,
    /// Within the group.
    pub index: u32,
    /// The name it has in the cluster's DNS.
    pub host: String,
    pub vendor: Vendor,
    pub gpus: u32,
}

impl RankMap {
    /// The worker of a group by its index.
    pub fn find(&self, group: &str, index: u32) -> Option<&Rank> {
        self.ranks.iter().find(|rank| rank.group == group && rank.index == index)
    }
}
