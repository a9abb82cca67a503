//! Amounts: resources as Kubernetes counts them, and numbers that no float may round.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A resource's amount, such as `500m`, `2` or `16Gi`, kept as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quantity(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an amount such as 500m, 2 or 16Gi")]
pub struct NotAQuantity(String);

/// What Kubernetes accepts, less signs: a negative amount of a resource means nothing.
const QUANTITY: &str = r"^[0-9]+(\.[0-9]*)?([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$";

impl Quantity {
    pub fn new(text: impl Into<String>) -> Result<Self, NotAQuantity> {
        let quantity = Self(text.into());
        match quantity.nanos() {
            Some(_) => Ok(quantity),
            None => Err(NotAQuantity(quantity.0)),
        }
    }

    /// A whole number of units: bytes, processors or devices.
    pub fn whole(count: u64) -> Self {
        Self(count.to_string())
    }

    pub fn gibibytes(count: u64) -> Self {
        Self(format!("{count}Gi"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The amount in billionths, for comparison; `None` if it is none or beyond all resources.
    pub fn nanos(&self) -> Option<i128> {
        let unit = self.0.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.0.len());
        let (number, unit) = self.0.split_at(unit);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || whole.len() > 24 || fraction.len() > 9 {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let (base, power): (i128, u32) = match unit {
            "" => (10, 9),
            "n" => (10, 0),
            "u" => (10, 3),
            "m" => (10, 6),
            "k" => (10, 12),
            "M" => (10, 15),
            "G" => (10, 18),
            "T" => (10, 21),
            "P" => (10, 24),
            "E" => (10, 27),
            "Ki" => (1024, 1),
            "Mi" => (1024, 2),
            "Gi" => (1024, 3),
            "Ti" => (1024, 4),
            "Pi" => (1024, 5),
            "Ei" => (1024, 6),
            _ => {
                let exponent: i32 = unit.strip_prefix(['e', 'E'])?.parse().ok()?;
                (10, u32::try_from(exponent.checked_add(9)?).ok()?)
            }
        };
        let scale = base.checked_pow(power)?;
        let scale = if base == 1024 { scale.checked_mul(1_000_000_000)? } else { scale };
        // Rounded up, as Kubernetes does with what it cannot represent.
        let divisor = 10_i128.checked_pow(fraction.len() as u32)?;
        let scaled = digits.checked_mul(scale)?;
        Some(scaled.checked_add(divisor - 1)? / divisor)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(i64),
            Text(String),
        }
        // An object in the cluster may hold what this version does not understand; whether it is
        // an amount is asked where it is compared.
        Ok(match Written::deserialize(deserializer)? {
            Written::Number(number) => Self(number.to_string()),
            Written::Text(text) => Self(text),
        })
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": QUANTITY,
            "maxLength": 32,
            "minimum": 0,
        })
    }
}

/// A number of a tolerance or a threshold, such as `1e-4` or `0.93`, written as text: the API
/// conventions allow no floats in a spec, which clients would round each in its own way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decimal(pub String);

impl Decimal {
    pub fn value(&self) -> Option<f64> {
        self.0.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

impl JsonSchema for Decimal {
    fn schema_name() -> Cow<'static, str> {
        "Decimal".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?$",
            "maxLength": 32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> Option<i128> {
        Quantity(text.to_owned()).nanos()
    }

    #[test]
    fn amounts_are_compared_whatever_their_unit() {
        for (less, more) in [
            ("500m", "1"),
            ("999Mi", "1Gi"),
            ("1G", "1Gi"),
            ("1.5Gi", "1537Mi"),
            ("1e3", "1001"),
            ("100u", "1m"),
            ("0", "1n"),
        ] {
            assert!(nanos(less).unwrap() < nanos(more).unwrap(), "{less} < {more}");
        }
        for (one, other) in [("1.5", "1500m"), ("1Ki", "1024"), ("1.", "1"), ("2E3", "2k")] {
            assert_eq!(nanos(one), nanos(other), "{one} = {other}");
        }
    }

    #[test]
    fn what_is_no_amount_is_none() {
        for text in ["", "-1", "1x", "Gi", "1 ", "1e", "1e99", "9999999999999999999999999", "1GiB"]
        {
            assert_eq!(nanos(text), None, "{text:?}");
        }
    }

    #[test]
    fn numbers_and_texts_are_read() {
        let read = |text| serde_json::from_str::<Quantity>(text).unwrap().0;
        assert_eq!(read("2"), "2");
        assert_eq!(read("\"2Gi\""), "2Gi");
        // One object that cannot be read would keep the operator from seeing all others.
        assert_eq!(nanos(&read("-2")), None);
    }
}
