//! Why a run is where it is: one row for each reason, with the sentence a person reads.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Verdict;

/// What a reason is about, which decides where it may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A run on its way: conditions only.
    Way,
    /// The request itself is wrong: the run ends Invalid.
    Request,
    /// Something failed under the run. A failure rule may name it; without one the run ends
    /// Inconclusive.
    Failure,
}

macro_rules! reasons {
    ($($kind:ident { $($name:ident = $text:literal: $sentence:literal,)* })*) => {
        /// Why a run waits, failed or ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[doc = $sentence] $name,)*)* }

        impl Reason {
            pub const ALL: &[Self] = &[$($(Self::$name,)*)*];

            /// As it stands in status, rules, metrics and the termination message.
            pub fn name(self) -> &'static str {
                match self { $($(Self::$name => $text,)*)* }
            }

            /// What it means, for a person.
            pub fn sentence(self) -> &'static str {
                match self { $($(Self::$name => $sentence,)*)* }
            }

            pub fn kind(self) -> Kind {
                match self { $($(Self::$name => Kind::$kind,)*)* }
            }
        }
    };
}

reasons! {
    Way {
        Accepted = "Accepted": "The request and its profile were merged; the result is in status.resolved.",
        WaitingForProfile = "WaitingForProfile": "The profile does not exist yet.",
        WaitingForSlot = "WaitingForSlot": "Other runs of the concurrency group came first.",
        WaitingForQueue = "WaitingForQueue": "Kueue has not admitted the run yet.",
        SlotGranted = "SlotGranted": "The run has its place among those that may run at once.",
        Suspended = "Suspended": "spec.suspend is true.",
        Starting = "Starting": "The workers are being created.",
        Retrying = "Retrying": "The last attempt failed and another one is made.",
        WorkersRunning = "WorkersRunning": "All workers are running.",
        GoldenReused = "GoldenReused": "A stored golden of the same key is used.",
        GoldenMade = "GoldenMade": "The golden pass has run.",
        GoldenSkipped = "GoldenSkipped": "The run was asked to do without a golden.",
        Finished = "Finished": "The run has ended.",
        Compared = "Compared": "Both passes were compared.",
        Measured = "Measured": "The benchmarks have run.",
    }
    Request {
        ProfileNotFound = "ProfileNotFound": "The profile did not appear within the pending deadline.",
        Refused = "Refused": "The profile does not allow what the run asks for.",
        ConfigurationRejected = "ConfigurationRejected": "The runner could not make sense of its configuration.",
    }
    Failure {
        OutOfMemory = "OutOfMemory": "A worker used more memory than its limit and was killed.",
        GoldenOutOfMemory = "GoldenOutOfMemory": "The golden pass used more memory than the worker's limit and was killed.",
        Evicted = "Evicted": "A worker was evicted from its node.",
        Preempted = "Preempted": "A worker had to make room for one of higher priority, or Kueue took back the run's admission.",
        NodeLost = "NodeLost": "A worker's node was lost.",
        DeviceLost = "DeviceLost": "The node no longer had the devices that a worker was scheduled for.",
        ImagePullFailed = "ImagePullFailed": "A worker's image could not be pulled.",
        ContainerNotStarted = "ContainerNotStarted": "A worker's container could not be started; a secret, volume or command may be missing.",
        Unschedulable = "Unschedulable": "No node had room for a worker within the pending deadline.",
        QueueDeadlineExceeded = "QueueDeadlineExceeded": "Neither a slot nor Kueue's admission came within the time allowed for waiting.",
        QueuedApart = "QueuedApart": "Kueue queued the run's worker groups one by one, though they can only start together; the namespace has a queue named default.",
        PendingDeadlineExceeded = "PendingDeadlineExceeded": "The workers were not all running within the pending deadline.",
        RunDeadlineExceeded = "RunDeadlineExceeded": "The run took longer than its deadline.",
        RunnerLost = "RunnerLost": "A worker ended without saying how.",
        PeerLost = "PeerLost": "A worker lost the connection to another.",
        ResultContradicts = "ResultContradicts": "A worker's exit code and its last message do not agree.",
        ChildrenDeleted = "ChildrenDeleted": "A Job or pod of the run was deleted by someone else.",
        Interrupted = "Interrupted": "A worker was told to stop before it was done.",
        WorkerFailed = "WorkerFailed": "A worker failed and gave a reason this version of the operator does not know.",
        InternalError = "InternalError": "The runner failed by a fault of its own.",
        GoldenMissing = "GoldenMissing": "The run may not make a golden, and no stored one has its key.",
        UploadFailed = "UploadFailed": "The results could not be stored.",
        PreflightFailed = "PreflightFailed": "A worker's machine does not have what the run needs.",
        DriverMissing = "PreflightFailed/DriverMissing": "A worker found no working GPU driver.",
        GpuCountDiffers = "PreflightFailed/GpuCountDiffers": "A worker sees another number of GPUs than it was given.",
        RdmaMissing = "PreflightFailed/RdmaMissing": "A worker found no RDMA device.",
        MemlockTooLow = "PreflightFailed/MemlockTooLow": "A worker may not lock enough memory for RDMA.",
        DiskTooSmall = "PreflightFailed/DiskTooSmall": "A worker has too little free disk space.",
        StoreNotWritable = "PreflightFailed/StoreNotWritable": "A worker cannot write to the object store.",
        PeersNotFound = "PreflightFailed/PeersNotFound": "A worker could not find its peers by name.",
        DataMissing = "PreflightFailed/DataMissing": "A worker did not find the data or weights that the run names.",
    }
}

impl Reason {
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.name() == name)
    }

    /// The part before the slash: what a condition's reason and a metric's label may be.
    pub fn family(self) -> &'static str {
        self.name().split('/').next().unwrap_or_default()
    }

    /// Whether a rule that names `self` is about `other`: the same, or one of its family.
    pub fn covers(self, other: Self) -> bool {
        self == other || self.name() == other.family()
    }

    /// The verdict of a run that this ends, unless a rule says otherwise.
    pub fn verdict(self) -> Verdict {
        match self.kind() {
            Kind::Request => Verdict::Invalid,
            Kind::Way | Kind::Failure => Verdict::Inconclusive,
        }
    }

    /// Whether it may follow from another worker's failure, which then is the one to name.
    pub fn may_be_consequence(self) -> bool {
        matches!(
            self,
            Self::RunnerLost
                | Self::PeerLost
                | Self::ChildrenDeleted
                | Self::Interrupted
                | Self::PeersNotFound
                | Self::InternalError
                | Self::WorkerFailed
                | Self::ResultContradicts
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&name).ok_or_else(|| de::Error::custom(format!("unknown reason {name:?}")))
    }
}

/// The schema of a failure rule's reasons: those that a rule can be about.
impl JsonSchema for Reason {
    fn schema_name() -> Cow<'static, str> {
        "Reason".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let failures = Self::ALL.iter().filter(|reason| reason.kind() == Kind::Failure);
        let names: Vec<_> = failures.map(|reason| reason.name()).collect();
        json_schema!({ "type": "string", "enum": names, "maxLength": 64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_camel_case_and_sentences_end() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for reason in Reason::ALL {
            let (name, sentence) = (reason.name(), reason.sentence());
            assert!(name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_uppercase()));
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '/'), "{name}");
            assert!(sentence.ends_with('.') && sentence.len() <= 160, "{sentence}");
            assert_eq!(Reason::parse(name), Some(*reason));
            assert!(Reason::parse(reason.family()).is_some(), "{name} has no family");
        }
    }

    #[test]
    fn a_family_covers_its_members() {
        assert!(Reason::PreflightFailed.covers(Reason::RdmaMissing));
        assert!(!Reason::RdmaMissing.covers(Reason::PreflightFailed));
        assert!(!Reason::RdmaMissing.covers(Reason::DriverMissing));
        assert!(Reason::Evicted.covers(Reason::Evicted));
    }
}
