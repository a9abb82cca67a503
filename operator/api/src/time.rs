//! A moment, to the second, as Kubernetes writes it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in whole seconds. Fractions would not survive the way through the API server, and a
/// status that differs from what was written would be written again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

impl Time {
    /// Seconds since the epoch, held to what RFC 3339 can say.
    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.clamp(Timestamp::MIN.as_second() + 1, Timestamp::MAX.as_second()))
    }

    pub fn seconds(self) -> i64 {
        self.0
    }

    pub fn plus(self, seconds: i64) -> Self {
        Self::from_seconds(self.0.saturating_add(seconds))
    }

    /// Seconds from an earlier moment to this one; negative if it is later.
    pub fn since(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }

    fn timestamp(self) -> Timestamp {
        // The constructors hold it within range.
        Timestamp::from_second(self.0).unwrap_or_default()
    }
}

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        // Floor, also before the epoch.
        let fraction = SignedDuration::from_nanos(i64::from(timestamp.subsec_nanosecond()));
        Self::from_seconds(timestamp.as_second() - i64::from(fraction.is_negative()))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timestamp().fmt(f)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Timestamp::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_kubernetes_does_and_read_back() {
        let time = Time::from_seconds(1_700_000_000);
        let text = serde_json::to_string(&time).unwrap();
        assert_eq!(text, "\"2023-11-14T22:13:20Z\"");
        assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), time);
        let fraction: Time = serde_json::from_str("\"2023-11-14T22:13:20.9+00:00\"").unwrap();
        assert_eq!(fraction, time);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let end = Time::from_seconds(i64::MAX).plus(i64::MAX);
        assert!(end.to_string().starts_with("9999"));
        assert_eq!(end.plus(1), end);
        assert!(Time::from_seconds(i64::MIN).to_string().starts_with('-'));
    }
}
