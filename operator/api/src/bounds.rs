//! Schemas of values with bounds. The API server charges a validation rule by the largest value
//! its type admits, so every list, map and string has a largest size.

use schemars::{Schema, SchemaGenerator, json_schema};

/// A name as Kubernetes has it for objects: labels separated by dots.
pub const DNS_SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A single label of such a name.
pub const DNS_LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The name of an extended resource, such as `nvidia.com/gpu`.
pub const QUALIFIED_NAME: &str = r"^([-a-z0-9.]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
/// An environment variable's name.
pub const VARIABLE: &str = r"^[A-Za-z_][A-Za-z0-9_]*$";
/// A word such as `bert-squad` or `batch_size`.
pub const WORD: &str = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
/// A URI without spaces, control characters, or a name and password.
pub const URI: &str = r"^[a-z][a-z0-9+.-]*://[^\s@\\]+$";
/// An image reference without spaces.
pub const IMAGE: &str = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$";
/// Lower-case hexadecimal SHA-256.
pub const SHA256: &str = r"^[0-9a-f]{64}$";

/// At most `COUNT` texts of at most `LENGTH` characters, by keys of at most 317, as the longest
/// label has.
pub fn texts<const COUNT: u32, const LENGTH: u32>(_: &mut SchemaGenerator) -> Schema {
    map(COUNT, &json_schema!({ "type": "string", "maxLength": LENGTH }))
}

/// At most 16 quantities by the resource's name.
pub fn quantities(generator: &mut SchemaGenerator) -> Schema {
    map(16, &generator.subschema_for::<crate::quantity::Quantity>())
}

/// At most so many values.
pub fn map(count: u32, value: &Schema) -> Schema {
    // OpenAPI in Kubernetes has no bound for keys but a rule.
    json_schema!({
        "type": "object",
        "maxProperties": count,
        "additionalProperties": value,
        "x-kubernetes-validations": [
            { "rule": "self.all(key, key.size() <= 317)", "message": "a key is longer than 317 characters" },
        ],
    })
}
