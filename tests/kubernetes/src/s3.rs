//! A real S3 server (`SeaweedFS`, brought by `cargo xtask setup s3`) where pods reach it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_s3::config::{BehaviorVersion, Builder, Credentials, Region, retry::RetryConfig};

use crate::Cluster;
use crate::address::HOST;
use crate::command;
use crate::error::{Error, Tried};
use crate::part::Part;
use crate::programs::Programs;
use crate::wait::until;

/// Who may do everything, who may only read, and who has a few folders to itself.
pub const WRITER: (&str, &str) = ("writer", "secret-of-the-writer");
pub const READER: (&str, &str) = ("reader", "secret-of-the-reader");
pub const TENANT: (&str, &str) = ("tenant", "secret-of-the-tenant");
/// The tenant's folders: what runs of a namespace of that name use.
const OF_TENANT: [&str; 2] = ["results/runs/tenant/", "results/runs/goldens/tenant/"];

pub const PORT: u16 = 8333;
/// How much it can hold, unless it is full.
const ROOM: &str = "8g";
const PATIENCE: Duration = Duration::from_mins(2);

/// The server, which can be stopped and started; what it holds stays.
pub struct S3 {
    programs: Programs,
    /// Also of the log.
    cluster: PathBuf,
    folder: PathBuf,
    part: Mutex<Option<Part>>,
}

impl S3 {
    /// Starts it and waits until a bucket can be made and written to.
    pub async fn start(cluster: &Cluster) -> Result<Self, Error> {
        let folder = cluster.folder().join("s3");
        fs::create_dir_all(&folder).at("could not make", &folder)?;
        // A disk of its own, which can be full when no other is.
        let size = format!("size={ROOM}");
        command::run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "s3"]).arg(&folder))?;
        let tenant: Vec<_> = ["Read", "Write", "List"]
            .iter()
            .flat_map(|verb| OF_TENANT.map(|folder| format!("{verb}:{folder}*")))
            .collect();
        let identities = serde_json::json!({"identities": [
            {"name": "tenant", "actions": tenant,
             "credentials": [{"accessKey": TENANT.0, "secretKey": TENANT.1}]},
            {"name": "writer", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
             "credentials": [{"accessKey": WRITER.0, "secretKey": WRITER.1}]},
            {"name": "reader", "actions": ["Read", "List"],
             "credentials": [{"accessKey": READER.0, "secretKey": READER.1}]},
        ]});
        let path = folder.join("identities.json");
        fs::write(&path, identities.to_string()).at("could not write", &path)?;
        let s3 = Self {
            programs: cluster.programs().clone(),
            cluster: cluster.folder().to_owned(),
            folder,
            part: Mutex::new(None),
        };
        s3.restart()?;
        s3.make_bucket("ready").await?;
        Ok(s3)
    }

    /// For pods and for the test.
    pub fn endpoint(&self) -> String {
        format!("http://{HOST}:{PORT}")
    }

    /// Ends it at once: connections to it are refused.
    pub fn stop(&self) {
        drop(self.part.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Starts it again with what it held.
    pub fn restart(&self) -> Result<(), Error> {
        self.stop();
        let mut command = self.programs.command(warpforge_tests::installed::s3_server());
        command.args(arguments(&self.folder)).current_dir(&self.folder);
        let part = Part::start(&command, &self.cluster, "s3")?;
        *self.part.lock().unwrap_or_else(PoisonError::into_inner) = Some(part);
        Ok(())
    }

    /// Takes all room that is left away.
    pub fn fill(&self) -> Result<(), Error> {
        // No smaller than what is there, and no larger: nothing more fits.
        let used = command::run(Command::new("du").args(["-sk"]).arg(&self.folder))?;
        let used = used.split_whitespace().next().unwrap_or_default();
        self.resize(&format!("{used}k"))
    }

    /// Gives it room again.
    pub fn empty(&self) -> Result<(), Error> {
        self.resize(ROOM)
    }

    fn resize(&self, size: &str) -> Result<(), Error> {
        let option = format!("remount,size={size}");
        command::run(Command::new("mount").args(["-o", &option]).arg(&self.folder)).map(drop)
    }

    /// Makes a bucket, once the server is up to it.
    pub async fn make_bucket(&self, bucket: &str) -> Result<(), Error> {
        let client = self.client(WRITER);
        until("a bucket", PATIENCE, &self.cluster, async || {
            let made = client.create_bucket().bucket(bucket).send().await;
            // It may have been made by a try whose answer was lost.
            if let Err(error) = made.map_err(aws_sdk_s3::Error::from) {
                let there = matches!(
                    error,
                    aws_sdk_s3::Error::BucketAlreadyOwnedByYou(_)
                        | aws_sdk_s3::Error::BucketAlreadyExists(_)
                );
                if !there {
                    return Err(format!("{error:?}"));
                }
            }
            let key = client.put_object().bucket(bucket).key("ready").send().await;
            key.map(drop).map_err(|error| format!("{error:?}"))
        })
        .await
    }

    /// What lies in a bucket, by key.
    pub async fn keys(&self, bucket: &str, prefix: &str) -> Result<Vec<String>, Error> {
        let client = self.client(WRITER);
        let mut pages =
            client.list_objects_v2().bucket(bucket).prefix(prefix).into_paginator().send();
        let mut keys = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| Error::S3(format!("{error:?}")))?;
            keys.extend(page.contents().iter().filter_map(|one| one.key().map(str::to_owned)));
        }
        Ok(keys)
    }

    /// The SDK itself.
    pub fn client(&self, (id, secret): (&str, &str)) -> aws_sdk_s3::Client {
        let config = Builder::new()
            .behavior_version(BehaviorVersion::latest())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new(id, secret, None, None, "test"))
            .retry_config(RetryConfig::disabled())
            .endpoint_url(self.endpoint())
            .force_path_style(true)
            .build();
        aws_sdk_s3::Client::from_conf(config)
    }
}

fn arguments(folder: &Path) -> Vec<String> {
    let path = folder.display();
    let mut all: Vec<_> = [
        "server",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=256",
        "-volume.max=40",
        "-s3",
        "-s3.autoCreateBucket=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]
    .map(str::to_owned)
    .into();
    all.extend([
        format!("-ip={HOST}"),
        format!("-ip.bind={HOST}"),
        format!("-dir={path}"),
        format!("-s3.config={path}/identities.json"),
        format!("-filer.localSocket={path}/filer.sock"),
        format!("-s3.localSocket={path}/s3.sock"),
        format!("-s3.port={PORT}"),
    ]);
    all
}
