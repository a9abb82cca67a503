//! The folder that becomes the run's bundle.

use std::path::PathBuf;

use warpforge_operator_api::Reason;
use warpforge_operator_api::contract::Report;
use warpforge_store::BundleError;

use crate::agent::Worker;
use crate::ending::Failure;
use crate::places;

impl Worker {
    pub fn bundle_folder(&self) -> PathBuf {
        self.options.work.join("bundle")
    }

    /// Stores the bundle, where there is a store; then the address of its `report` is known.
    pub async fn store_bundle(&self, report: &str) -> Result<Option<Report>, Failure> {
        let Some(artifacts) = &self.artifacts else { return Ok(None) };
        let name = places::bundle(&self.spec);
        let stored = artifacts.put(&name, &self.bundle_folder()).await;
        let manifest = stored.map_err(|error| upload_failed("the bundle", &error))?;
        let Some(file) = manifest.files.get(report) else {
            let message = format!("the bundle has no {report}");
            return Err(Failure::new(Reason::UploadFailed, message));
        };
        let uri = places::file(&artifacts.s3, &name, report);
        Ok(Some(Report { uri, sha256: file.sha256.clone() }))
    }
}

pub fn upload_failed(what: &str, error: &BundleError) -> Failure {
    Failure::new(Reason::UploadFailed, format!("{what}: {error}; {}", error.cure()))
}
