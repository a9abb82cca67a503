//! One bucket, reached over HTTP.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{BehaviorVersion, Builder, Region};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};

use crate::{Credentials, Error, Settings};

/// A client for one bucket. Making it sends nothing.
#[derive(Clone, Debug)]
pub struct ObjectStore {
    client: Client,
    settings: Settings,
    limit: Duration,
}

impl ObjectStore {
    /// A client whose every request ends, answered or not, within `limit`.
    pub fn connect(settings: Settings, credentials: Credentials, limit: Duration) -> Self {
        let timeouts = TimeoutConfig::builder().operation_timeout(limit).build();
        Self::with(settings, credentials, limit, timeouts, RetryConfig::disabled())
    }

    /// A client for moving data: each attempt has its own limit, and several are made.
    pub fn patient(settings: Settings, credentials: Credentials) -> Self {
        let limit = Duration::from_mins(2);
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(10))
            .operation_attempt_timeout(limit)
            .build();
        let retries = RetryConfig::standard().with_max_attempts(4);
        Self::with(settings, credentials, limit, timeouts, retries)
    }

    fn with(
        settings: Settings,
        credentials: Credentials,
        limit: Duration,
        timeouts: TimeoutConfig,
        retries: RetryConfig,
    ) -> Self {
        let http = aws_smithy_http_client::Builder::new()
            .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
            .build_https();
        let mut config = Builder::new()
            .behavior_version(BehaviorVersion::latest())
            .http_client(http)
            .region(Region::new(settings.region().to_owned()))
            .credentials_provider(aws_sdk_s3::config::Credentials::new(
                credentials.access_key_id,
                credentials.secret_access_key,
                credentials.session_token,
                None,
                "warpforge",
            ))
            .timeout_config(timeouts)
            .retry_config(retries);
        if let Some(endpoint) = &settings.endpoint {
            // Stores other than Amazon's seldom have a host name for every bucket.
            config = config.endpoint_url(endpoint).force_path_style(true);
        }
        Self { client: Client::from_conf(config.build()), settings, limit }
    }

    /// Asks the server whether the bucket exists and may be used.
    pub async fn check(&self) -> Result<(), Error> {
        let request = self.client.head_bucket().bucket(&self.settings.bucket);
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.error(&error, None)),
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn error<E>(&self, error: &SdkError<E>, key: Option<&str>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        Error::from_sdk(error, &self.settings, self.limit, key)
    }
}
