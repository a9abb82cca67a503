//! Files that a request names: in a volume of the run, or in the object store.

use std::path::PathBuf;

use warpforge_operator_api::data::{Data, S3};

use super::{Refusal, refuse};

/// Where volumes are mounted.
pub const DATA: &str = "/data";

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Below the folder that volumes are mounted in.
    Volume(String),
    /// In the store that results go to.
    Object { bucket: String, key: String },
}

impl Source {
    /// Reads `data://CLAIM/PATH` or `s3://BUCKET/KEY`. The operator has held both against the
    /// profile; what would lead out of a volume is refused here once more.
    pub fn parse(at: &str, uri: &str, data: &Data, store: Option<&S3>) -> Result<Self, Refusal> {
        let (scheme, path) = uri.split_once("://").unwrap_or(("", uri));
        if !["data", "s3"].contains(&scheme) {
            return refuse(at, format!("{uri} is neither data://CLAIM/PATH nor s3://BUCKET/KEY"));
        }
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let climbs = path.split('/').any(|part| part == "." || part == "..");
        if climbs || first.is_empty() || (rest.is_empty() && scheme == "s3") {
            return refuse(at, format!("{uri} names no file"));
        }
        match scheme {
            "data" if data.volume_claims.iter().any(|claim| claim.name == first) => {
                Ok(Self::Volume(path.to_owned()))
            }
            "data" => refuse(at, format!("{uri} names no volume of data.volumeClaims")),
            _ if store.is_some() => {
                Ok(Self::Object { bucket: first.to_owned(), key: rest.to_owned() })
            }
            _ => refuse(at, format!("{uri} is in an object store, and artifacts names none")),
        }
    }

    /// As an argument or in a message.
    pub fn place(&self) -> String {
        match self {
            Self::Volume(path) => format!("{DATA}/{path}"),
            Self::Object { bucket, key } => format!("s3://{bucket}/{key}"),
        }
    }

    /// The file's own name.
    pub fn file_name(&self) -> PathBuf {
        let (Self::Volume(path) | Self::Object { key: path, .. }) = self;
        path.rsplit('/').next().unwrap_or_default().into()
    }
}
