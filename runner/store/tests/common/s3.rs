//! A real S3 server (`SeaweedFS`, brought by `cargo xtask setup s3`) on the loopback.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use warpforge_store::{Credentials, Location, ObjectStore, Settings};
use warpforge_tests::installed;

use super::block_on;

/// Who may do everything, and who may only read.
pub const WRITER: (&str, &str) = ("writer", "secret-of-the-writer");
pub const READER: (&str, &str) = ("reader", "secret-of-the-reader");

/// Runs until this process is no more, however it ends: then its input does too. Killed, because
/// the server would take ten seconds to say goodbye, and there is nothing it could lose.
const TIED: &str = r#""$0" "$@" & read gone; kill -9 $!; wait; rm -rf "$FOLDER""#;

pub struct S3 {
    _server: Child,
    folder: PathBuf,
    pub endpoint: String,
}

impl S3 {
    /// Starts it and waits until it answers.
    pub fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let identities = serde_json::json!({"identities": [
            {"name": "writer", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
             "credentials": [{"accessKey": WRITER.0, "secretKey": WRITER.1}]},
            {"name": "reader", "actions": ["Read", "List"],
             "credentials": [{"accessKey": READER.0, "secretKey": READER.1}]},
        ]});
        let config = folder.path().join("identities.json");
        fs::write(&config, identities.to_string()).unwrap();
        let ports = free_ports(8);
        let path = folder.path().display();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let server = Command::new("sh")
            .args(["-c", TIED])
            .arg(installed::s3_server())
            .env("FOLDER", folder.path())
            .args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"])
            .args(["-master.volumeSizeLimitMB=256", "-volume.max=20", "-s3"])
            .args(["-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0"])
            .arg(format!("-dir={path}"))
            .arg(format!("-s3.config={}", config.display()))
            .arg(format!("-filer.localSocket={path}/filer.sock"))
            .arg(format!("-s3.localSocket={path}/s3.sock"))
            .arg(format!("-master.port={}", ports[0]))
            .arg(format!("-master.port.grpc={}", ports[1]))
            .arg(format!("-volume.port={}", ports[2]))
            .arg(format!("-volume.port.grpc={}", ports[3]))
            .arg(format!("-filer.port={}", ports[4]))
            .arg(format!("-filer.port.grpc={}", ports[5]))
            .arg(format!("-s3.port={}", ports[6]))
            .arg(format!("-s3.port.grpc={}", ports[7]))
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let folder = folder.keep();
        let s3 =
            Self { _server: server, folder, endpoint: format!("http://127.0.0.1:{}", ports[6]) };
        s3.wait();
        s3
    }

    /// Until a bucket can be made and written to.
    fn wait(&self) {
        let until = Instant::now() + Duration::from_secs(90);
        loop {
            match self.make_bucket("ready") {
                Ok(()) => return,
                Err(error) => {
                    let log = || fs::read_to_string(self.folder.join("log")).unwrap();
                    assert!(Instant::now() < until, "no S3 server ({error}):\n{}", log());
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    pub fn make_bucket(&self, bucket: &str) -> Result<(), String> {
        let client = self.client(WRITER);
        block_on(async {
            let made = client.create_bucket().bucket(bucket).send().await;
            made.map_err(|error| format!("{error:?}"))?;
            let key = client.put_object().bucket(bucket).key("ready").send().await;
            key.map(drop).map_err(|error| format!("{error:?}"))
        })
    }

    /// From now on nobody may delete anything below a prefix; writing goes on as before.
    pub fn keep(&self, bucket: &str, prefix: &str) {
        let policy = serde_json::json!({"Version": "2012-10-17", "Statement": [{
            "Sid": "keep", "Effect": "Deny", "Principal": "*", "Action": ["s3:DeleteObject"],
            "Resource": [format!("arn:aws:s3:::{bucket}/{prefix}/*")],
        }]});
        let client = self.client(WRITER);
        block_on(async {
            let put = client.put_bucket_policy().bucket(bucket).policy(policy.to_string());
            put.send().await.unwrap();
            let until = Instant::now() + Duration::from_secs(30);
            let key = format!("{prefix}/deleted");
            while client.delete_object().bucket(bucket).key(&key).send().await.is_ok() {
                assert!(Instant::now() < until, "{bucket}/{prefix} lets things be deleted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }

    pub fn settings(&self, bucket: &str) -> Settings {
        let endpoint = Some(self.endpoint.clone());
        Settings { endpoint, region: None, bucket: bucket.to_owned() }
    }

    pub fn location(&self, bucket: &str, prefix: &str, who: (&str, &str)) -> Location {
        let settings = self.settings(bucket);
        Location::Bucket { settings, credentials: credentials(who), prefix: prefix.to_owned() }
    }

    pub fn check(&self, bucket: &str, who: (&str, &str)) -> Result<(), warpforge_store::Error> {
        let limit = Duration::from_secs(20);
        block_on(ObjectStore::connect(self.settings(bucket), credentials(who), limit).check())
    }

    /// The SDK itself, to look at and to damage what is stored.
    pub fn client(&self, who: (&str, &str)) -> aws_sdk_s3::Client {
        let config = aws_sdk_s3::config::Builder::new()
            .behavior_version(aws_sdk_s3::config::BehaviorVersion::latest())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .region(aws_sdk_s3::config::Region::new("us-east-1"))
            .credentials_provider(aws_sdk_s3::config::Credentials::new(
                who.0, who.1, None, None, "test",
            ))
            .retry_config(aws_sdk_s3::config::retry::RetryConfig::disabled())
            .endpoint_url(&self.endpoint)
            .force_path_style(true)
            .build();
        aws_sdk_s3::Client::from_conf(config)
    }
}

pub fn credentials((id, secret): (&str, &str)) -> Credentials {
    let lookup = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some(id.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(secret.to_owned()),
        _ => None,
    };
    Credentials::from_lookup(lookup).unwrap()
}

/// Held together, so that they differ.
fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
