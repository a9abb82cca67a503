//! A real Prometheus that reads metrics from the cluster's network. Its build knows no Kubernetes:
//! targets are written to a file that it follows.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::Cluster;
use crate::address::HOST;
use crate::error::{Error, Tried};
use crate::part::Part;
use crate::wait::until;

const PORT: u16 = 9090;
const PATIENCE: Duration = Duration::from_mins(1);

pub struct Prometheus {
    folder: PathBuf,
    _part: Part,
}

impl Prometheus {
    /// Starts it with rules (the text of a file of rules; may be empty), and waits until it answers.
    pub async fn start(cluster: &Cluster, rules: &str) -> Result<Self, Error> {
        let folder = cluster.folder().join("prometheus");
        fs::create_dir_all(&folder).at("could not make", &folder)?;
        let mut config = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "scrape_configs": [{
                "job_name": "targets",
                "file_sd_configs": [{ "files": [folder.join("targets.json")],
                                      "refresh_interval": "1s" }],
            }],
        });
        if !rules.is_empty() {
            let path = folder.join("rules.yaml");
            fs::write(&path, rules).at("could not write", &path)?;
            config["rule_files"] = json!([path]);
        }
        let path = folder.join("config.yaml");
        fs::write(&path, config.to_string()).at("could not write", &path)?;
        let programs = cluster.programs();
        let mut command = programs.command(programs.bin("prometheus"));
        command
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={HOST}:{PORT}"))
            .arg("--log.level=warn");
        let part = Part::start(&command, cluster.folder(), "prometheus")?;
        let prometheus = Self { folder, _part: part };
        prometheus.follow(&[])?;
        until("Prometheus", PATIENCE, cluster.folder(), async || {
            prometheus.get("/-/ready").await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        Ok(prometheus)
    }

    /// Reads these from now on: an address with a port, and labels that all its series get.
    pub fn follow(&self, targets: &[(String, Value)]) -> Result<(), Error> {
        let group =
            |(address, labels): &(String, Value)| json!({ "targets": [address], "labels": labels });
        let text = Value::Array(targets.iter().map(group).collect()).to_string();
        // Beside and renamed: it is never read half.
        let (path, new) = (self.folder.join("targets.json"), self.folder.join("targets.new"));
        fs::write(&new, text).at("could not write", &new)?;
        fs::rename(&new, &path).at("could not write", &path)
    }

    /// The result of a query now: series with their labels and values.
    pub async fn query(&self, query: &str) -> Result<Vec<Value>, Error> {
        let escaped: String = query.bytes().map(escape).collect();
        let text = self.get(&format!("/api/v1/query?query={escaped}")).await?;
        let answer: Value =
            serde_json::from_str(&text).map_err(|error| Error::Prometheus(error.to_string()))?;
        match answer["data"]["result"].as_array() {
            Some(series) => Ok(series.clone()),
            None => Err(Error::Prometheus(format!("{query}: {text}"))),
        }
    }

    /// For a browser or another tool.
    pub fn url(&self) -> String {
        format!("http://{HOST}:{PORT}")
    }

    async fn get(&self, path: &str) -> Result<String, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::Prometheus(error.to_string());
        let client: Client<_, Empty<&[u8]>> = Client::builder(TokioExecutor::new()).build_http();
        let url = format!("{}{path}", self.url()).parse().map_err(|error| wrong(&error))?;
        let answer = client.get(url).await.map_err(|error| wrong(&error))?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|error| wrong(&error))?;
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        if status.is_success() { Ok(text) } else { Err(wrong(&format!("{status}: {text}"))) }
    }
}

/// A byte as it stands in a query.
fn escape(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { format!("%{byte:02X}") }
}
