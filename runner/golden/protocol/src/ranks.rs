//! Messages of processes that train one model together, each with its own share of every step's
//! micro-batches. Rank 0 leads: what it is asked for, the others follow, so that whoever drives
//! them has to know no more than how to answer an [`Order`].

use serde::{Deserialize, Serialize};

use crate::message::Precision;

/// Meet the other ranks. Everything after it is done together with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    pub rank: u32,
    /// How many there are.
    pub ranks: u32,
    /// An address of rank 0 that all ranks reach; rank 0 listens there.
    pub host: String,
    pub port: u16,
    /// What all ranks must have in common: ranks that differ in it are refused.
    pub key: String,
    /// How long to wait for another rank: when they meet, and in every exchange.
    pub timeout_seconds: f64,
}

/// What rank 0 is about to do and the others have to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Open the model.
    Open { precision: Precision },
    /// Take the step, with this rank's own micro-batches.
    Step { step: u32, dry: bool },
    /// Rank 0 is done, and so are the others.
    End,
}
