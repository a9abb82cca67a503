//! Which place is meant.

use std::path::PathBuf;

use super::BundleError;
use crate::{Credentials, Settings};

/// A folder, or a part of a bucket and what it takes to get there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    Folder(PathBuf),
    Bucket { settings: Settings, credentials: Credentials, prefix: String },
}

impl Location {
    /// Reads `s3://BUCKET/PREFIX`, whose server is given apart and whose credentials are looked up,
    /// or a folder's path.
    pub fn parse(
        text: &str,
        endpoint: Option<String>,
        region: Option<String>,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BundleError> {
        let Some(rest) = text.strip_prefix("s3://") else {
            return if text.is_empty() || text.contains("://") {
                Err(BundleError::Location(text.to_owned()))
            } else {
                Ok(Self::Folder(text.into()))
            };
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(BundleError::Location(text.to_owned()));
        }
        let prefix = prefix.trim_matches('/').to_owned();
        let settings = Settings { endpoint, region, bucket: bucket.to_owned() };
        let credentials = Credentials::from_lookup(lookup)?;
        Ok(Self::Bucket { settings, credentials, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_told_from_a_folder() {
        let parse = |text: &str| Location::parse(text, None, None, |_| Some("key".into()));
        assert_eq!(parse("runs/a").unwrap(), Location::Folder("runs/a".into()));
        let Location::Bucket { settings, prefix, .. } = parse("s3://nightly/a/b/").unwrap() else {
            panic!("a bucket was meant");
        };
        assert_eq!((settings.bucket.as_str(), prefix.as_str()), ("nightly", "a/b"));
        for wrong in ["", "s3://", "s3:///a", "gs://bucket"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let none = Location::parse("s3://nightly", None, None, |_| None).unwrap_err();
        assert!(none.cure().contains("AWS_ACCESS_KEY_ID"), "{none}");
    }
}
