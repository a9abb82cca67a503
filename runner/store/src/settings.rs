//! What is needed to reach a bucket: public settings, and credentials kept apart from them.

use std::fmt;

use crate::Error;

/// Where the bucket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Address of the server; absent for Amazon's own in `region`.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub bucket: String,
}

/// The region requests are signed for when none is set; servers other than Amazon's accept any.
const DEFAULT_REGION: &str = "us-east-1";

impl Settings {
    pub fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(DEFAULT_REGION)
    }

    /// The server's address for messages.
    pub fn server(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None => format!("Amazon S3 in {}", self.region()),
        }
    }
}

/// The key pair a request is signed with. Its `Debug` form shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) access_key_id: String,
    pub(crate) secret_access_key: String,
    pub(crate) session_token: Option<String>,
}

impl Credentials {
    /// Takes `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` from a look-up
    /// of environment variables; the first two must be there.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let find = |name| lookup(name).filter(|value| !value.is_empty());
        let needed = |name: &'static str| find(name).ok_or(Error::NoCredentials { variable: name });
        Ok(Self {
            access_key_id: needed("AWS_ACCESS_KEY_ID")?,
            secret_access_key: needed("AWS_SECRET_ACCESS_KEY")?,
            session_token: find("AWS_SESSION_TOKEN"),
        })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_half_of_a_key_pair_is_named() {
        let only_id = |name: &str| (name == "AWS_ACCESS_KEY_ID").then(|| "id".to_owned());
        let error = Credentials::from_lookup(only_id).unwrap_err();
        assert_eq!(error.to_string(), "no credentials: AWS_SECRET_ACCESS_KEY is not set");
    }

    #[test]
    fn an_empty_variable_counts_as_absent() {
        assert!(Credentials::from_lookup(|_| Some(String::new())).is_err());
    }

    #[test]
    fn debug_form_hides_the_keys() {
        let credentials = Credentials::from_lookup(|_| Some("hunter2".to_owned())).unwrap();
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
