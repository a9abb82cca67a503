//! One bucket, reached over HTTP.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{BehaviorVersion, Builder, Region};
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
            .timeout_config(TimeoutConfig::builder().operation_timeout(limit).build())
            .retry_config(RetryConfig::disabled());
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
            Err(error) => Err(Error::from_sdk(&error, &self.settings, self.limit)),
        }
    }
}
