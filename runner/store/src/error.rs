//! Everything that can go wrong with the bucket, in words a person can act on.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::time::Duration;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::Settings;

/// Why the bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no credentials: {variable} is not set")]
    NoCredentials { variable: &'static str },
    #[error("{server} refused the connection")]
    Refused { server: String },
    #[error("the host name of {server} cannot be resolved")]
    UnknownHost { server: String },
    #[error("no secure connection to {server}: {reason}")]
    Tls { server: String, reason: String },
    #[error("{server} did not answer within {:.1} s", limit.as_secs_f64())]
    TimedOut { server: String, limit: Duration },
    #[error("connection to {server} failed: {reason}")]
    Connection { server: String, reason: String },
    #[error("{server} has no bucket \"{bucket}\"")]
    NoSuchBucket { server: String, bucket: String },
    #[error("{server} denied access to bucket \"{bucket}\"")]
    AccessDenied { server: String, bucket: String },
    #[error("{server} lets these credentials write to bucket \"{bucket}\", and not delete from it")]
    NotDeletable { server: String, bucket: String },
    #[error("bucket \"{bucket}\" is in another region{}", actual.as_ref().map(|r| format!(": {r}")).unwrap_or_default())]
    OtherRegion { bucket: String, actual: Option<String> },
    #[error("{server} answered HTTP {status} to a request about bucket \"{bucket}\"")]
    Unexpected { server: String, bucket: String, status: u16 },
    #[error("{server} has no room left for bucket \"{bucket}\"")]
    Full { server: String, bucket: String },
    #[error("{server} has no object \"{key}\" in bucket \"{bucket}\"")]
    NoSuchObject { server: String, bucket: String, key: String },
    #[error("what arrived at {server} is not what was sent: {reason}")]
    Damaged { server: String, reason: String },
    #[error("the request could not be built: {reason}")]
    Request { reason: String },
}

impl Error {
    /// What a person can do about it.
    pub fn cure(&self) -> String {
        match self {
            Self::NoCredentials { .. } => {
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment".into()
            }
            Self::Refused { .. } | Self::TimedOut { .. } | Self::Connection { .. } => {
                "check that the store runs and that store.endpoint names its address and port"
                    .into()
            }
            Self::UnknownHost { .. } => "check the host name in store.endpoint".into(),
            Self::Tls { .. } => "check that store.endpoint should be https and that its \
                                 certificate is trusted (SSL_CERT_FILE adds an authority)"
                .into(),
            Self::NoSuchBucket { bucket, .. } => {
                format!("create bucket \"{bucket}\" or correct store.bucket")
            }
            Self::AccessDenied { bucket, .. } => {
                format!("check the credentials, and that they may list bucket \"{bucket}\"")
            }
            Self::NotDeletable { bucket, .. } => {
                format!("let them delete objects of bucket \"{bucket}\", or replace nothing there")
            }
            Self::Full { bucket, .. } => {
                format!("remove old objects of bucket \"{bucket}\", or raise its quota")
            }
            Self::NoSuchObject { .. } => "check the name; it may have been removed".into(),
            Self::Damaged { .. } => {
                "try again; if it stays so, something on the way changes data".into()
            }
            Self::OtherRegion { actual: Some(region), .. } => {
                format!("set store.region to {region}")
            }
            Self::OtherRegion { actual: None, .. } => "correct store.region".into(),
            Self::Unexpected { .. } | Self::Request { .. } => {
                "check store.endpoint, store.region and store.bucket".into()
            }
        }
    }

    /// What an answer, or the want of one, means. `key` is the object that was asked for.
    pub(crate) fn from_sdk<E>(
        error: &SdkError<E>,
        settings: &Settings,
        limit: Duration,
        key: Option<&str>,
    ) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        if let Some(response) = error.raw_response() {
            let region = response.headers().get("x-amz-bucket-region").map(str::to_owned);
            let status = response.status().as_u16();
            return Self::from_status(status, error.code(), region, settings, key);
        }
        let server = settings.server();
        match error {
            SdkError::TimeoutError(_) => Self::TimedOut { server, limit },
            SdkError::DispatchFailure(failure) if failure.is_timeout() => {
                Self::TimedOut { server, limit }
            }
            SdkError::ConstructionFailure(_) => Self::Request { reason: root_cause(error) },
            _ => Self::from_connection(error, server),
        }
    }

    fn from_status(
        status: u16,
        code: Option<&str>,
        actual: Option<String>,
        settings: &Settings,
        key: Option<&str>,
    ) -> Self {
        let (server, bucket) = (settings.server(), settings.bucket.clone());
        match (status, code) {
            (_, Some("NoSuchBucket")) => Self::NoSuchBucket { server, bucket },
            (_, Some("BadDigest" | "XAmzContentChecksumMismatch" | "InvalidDigest")) => {
                Self::Damaged { server, reason: "its digest is another".to_owned() }
            }
            // Amazon's buckets are never full; these are what others say.
            (507, _) | (_, Some("QuotaExceeded" | "XMinioStorageFull" | "InsufficientStorage")) => {
                Self::Full { server, bucket }
            }
            (301 | 307, _) => Self::OtherRegion { bucket, actual },
            (400, _) if actual.as_deref().is_some_and(|region| region != settings.region()) => {
                Self::OtherRegion { bucket, actual }
            }
            (401 | 403, _) => Self::AccessDenied { server, bucket },
            (404, _) => match key {
                Some(key) => Self::NoSuchObject { server, bucket, key: key.to_owned() },
                None => Self::NoSuchBucket { server, bucket },
            },
            _ => Self::Unexpected { server, bucket, status },
        }
    }

    pub(crate) fn from_connection(error: &(dyn StdError + 'static), server: String) -> Self {
        let reason = root_cause(error);
        let is = |kind| {
            chain(error)
                .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
                .any(|cause| cause.kind() == kind)
        };
        if is(ErrorKind::ConnectionRefused) {
            Self::Refused { server }
        } else if chain(error).any(|cause| cause.to_string().contains("dns error")) {
            Self::UnknownHost { server }
        } else if chain(error).any(is_tls) {
            Self::Tls { server, reason }
        } else {
            Self::Connection { server, reason }
        }
    }
}

fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

/// Whether this is the TLS library's error, or an I/O error that wraps it: those hide what they
/// wrap from the chain of sources.
fn is_tls(cause: &(dyn StdError + 'static)) -> bool {
    let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    cause.is::<rustls::Error>() || wrapped.is_some_and(|inner| is_tls(inner))
}

pub(crate) fn root_cause(error: &(dyn StdError + 'static)) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}
