//! `warpforge-operator submit`: what a schedule's Job runs.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use futures::StreamExt as _;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::Value;
use warpforge_operator_api::data::Workload;
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunSpec, Verdict};

#[derive(Args)]
pub struct Arguments {
    /// The BenchmarkProfile that the run names.
    #[arg(long)]
    profile: Option<String>,
    /// A workload that comes with WarpForge, such as `bert-squad`.
    #[arg(long, required_unless_present = "file", conflicts_with = "file")]
    workload: Option<String>,
    /// The workload's preset.
    #[arg(long, requires = "workload")]
    preset: Option<String>,
    /// A setting of the workload, as NAME=VALUE.
    #[arg(long = "set", requires = "workload", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// A file with a BenchmarkRun.
    #[arg(long, short)]
    file: Option<PathBuf>,
    /// The run's name. Given the name of the Job that this runs in, a second try of that Job follows
    /// the run of the first. Left out: the file's, else one is made up.
    #[arg(long, env = "WARPFORGE_JOB_NAME")]
    name: Option<String>,
    /// The run's namespace. Left out: the file's, else the one this runs in.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Wait for the verdict and end with its exit code.
    #[arg(long)]
    wait: bool,
}

/// What the user, not the program, did wrong.
#[derive(Debug, thiserror::Error)]
pub enum Usage {
    #[error("{0}: {1}")]
    File(String, String),
    #[error("{0}: there is no key {1}")]
    UnknownKey(String, String),
    #[error("the API server refused the run: {0}")]
    Refused(String),
    #[error("there is another run of the name {0}; choose another name, or delete it")]
    Another(String),
}

fn setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| format!("{text:?} is not NAME=VALUE"))
}

pub async fn submit(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::infer().await.context("no cluster is known")?;
    let fallback = config.default_namespace.clone();
    let client = Client::try_from(config).context("the cluster cannot be talked to")?;
    let mut run = requested(&arguments)?;
    let namespace = arguments.namespace.or_else(|| run.metadata.namespace.clone());
    let namespace = namespace.unwrap_or(fallback);
    run.metadata.namespace = Some(namespace.clone());
    let api: Api<BenchmarkRun> = Api::namespaced(client, &namespace);
    let run = create_or_adopt(&api, &run).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{namespace}/{}", run.name_any())?;
    if !arguments.wait {
        return Ok(ExitCode::SUCCESS);
    }
    let code = follow(&api, &run).await?;
    Ok(ExitCode::from(code as u8))
}

/// The run that is asked for.
fn requested(arguments: &Arguments) -> Result<BenchmarkRun, Usage> {
    let mut run = match (&arguments.file, &arguments.workload) {
        (Some(file), _) => read(file)?,
        (None, workload) => {
            let workload = workload.as_ref().map(|name| Workload {
                name: name.clone(),
                preset: arguments.preset.clone(),
                parameters: arguments.settings.iter().cloned().collect::<BTreeMap<_, _>>(),
            });
            BenchmarkRun::new("", BenchmarkRunSpec { workload, ..BenchmarkRunSpec::empty() })
        }
    };
    if let Some(profile) = &arguments.profile {
        run.spec.profile.clone_from(profile);
    }
    if let Some(name) = &arguments.name {
        run.metadata.name = Some(name.clone());
    }
    if run.metadata.name.as_ref().is_none_or(String::is_empty) {
        run.metadata.name = None;
        let workload = run.spec.workload.as_ref().map_or("run", |workload| &workload.name);
        let start = workload.to_lowercase().replace(['_', '.'], "-");
        run.metadata.generate_name.get_or_insert_with(|| format!("{start}-"));
    }
    run.status = None;
    Ok(run)
}

fn read(file: &std::path::Path) -> Result<BenchmarkRun, Usage> {
    let wrong = |error: String| Usage::File(file.display().to_string(), error);
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let given: Value = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let run: BenchmarkRun =
        serde_json::from_value(given.clone()).map_err(|error| wrong(error.to_string()))?;
    let understood = serde_json::to_value(&run).map_err(|error| wrong(error.to_string()))?;
    // Metadata has more than this program knows, and the API server checks it.
    match unknown(&given["spec"], &understood["spec"]) {
        Some(key) => Err(Usage::UnknownKey(file.display().to_string(), format!("spec{key}"))),
        None => Ok(run),
    }
}

/// The path to a key that was given and not understood.
fn unknown(given: &Value, understood: &Value) -> Option<String> {
    match (given, understood) {
        (Value::Object(given), Value::Object(understood)) => {
            given.iter().find_map(|(key, value)| {
                let inner = match understood.get(key) {
                    Some(other) => unknown(value, other)?,
                    // Left out where it is empty, which is the same.
                    None if is_empty(value) => return None,
                    None => String::new(),
                };
                Some(format!(".{key}{inner}"))
            })
        }
        (Value::Array(given), Value::Array(understood)) => {
            given.iter().zip(understood).enumerate().find_map(|(index, (value, other))| {
                unknown(value, other).map(|inner| format!("[{index}]{inner}"))
            })
        }
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Makes the run. One of that name that asks for the same was made by an earlier try.
async fn create_or_adopt(
    api: &Api<BenchmarkRun>,
    run: &BenchmarkRun,
) -> anyhow::Result<BenchmarkRun> {
    let params = PostParams {
        field_manager: Some("warpforge-operator-submit".to_owned()),
        ..PostParams::default()
    };
    loop {
        match api.create(&params, run).await {
            Ok(run) => return Ok(run),
            Err(kube::Error::Api(status)) if status.code == 409 && run.metadata.name.is_some() => {
                // None if it was deleted just now.
                if let Some(there) = api.get_opt(&run.name_any()).await? {
                    if !alike(&there.spec, &run.spec) {
                        return Err(Usage::Another(run.name_any()).into());
                    }
                    tracing::info!(name = run.name_any(), "the run is there already; following it");
                    return Ok(there);
                }
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404 | 422) => {
                return Err(Usage::Refused(status.message).into());
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {
                anyhow::bail!("the run could not be made: {}", status.message);
            }
            Err(error) => {
                tracing::warn!(%error, "the run could not be made; trying again");
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        }
    }
}

/// Whether two runs ask for the same. What may change of a run does not count.
fn alike(one: &BenchmarkRunSpec, other: &BenchmarkRunSpec) -> bool {
    let fixed = |spec: &BenchmarkRunSpec| BenchmarkRunSpec {
        suspend: false,
        ttl_seconds_after_finished: None,
        ..spec.clone()
    };
    fixed(one) == fixed(other)
}

/// Follows the run to its end. Returns its exit code.
async fn follow(api: &Api<BenchmarkRun>, run: &BenchmarkRun) -> anyhow::Result<i32> {
    let name = run.name_any();
    let mut out = std::io::stdout();
    let mut last = String::new();
    let mut states = pin!(watch_object(api.clone(), &name).default_backoff());
    while let Some(state) = states.next().await {
        let now = match state {
            Err(error) => {
                tracing::warn!(%error, "the run cannot be seen; trying again");
                continue;
            }
            Ok(now) => now.filter(|now| now.metadata.uid == run.metadata.uid),
        };
        let Some(now) = now else {
            writeln!(out, "{name}: deleted before it ended")?;
            return Ok(Verdict::Inconclusive.exit_code());
        };
        let Some(status) = now.status else { continue };
        let progress = status.progress.as_ref().map_or("", |progress| &progress.summary);
        let line = format!("{} {} {progress}", status.phase.name(), status.reason);
        if line != last {
            writeln!(out, "{name}: {}", line.trim_end())?;
            last = line;
        }
        if status.is_complete() {
            let correctness = status.correctness.unwrap_or(Verdict::Inconclusive);
            let speed = status.performance.map_or("not judged", Verdict::name);
            writeln!(out, "{name}: Correctness {correctness}, Performance {speed}")?;
            writeln!(out, "{name}: {}", status.message)?;
            if let Some(report) = &status.report {
                writeln!(out, "{name}: {}", report.uri)?;
            }
            return Ok(status.exit_code.unwrap_or(correctness.exit_code()));
        }
    }
    anyhow::bail!("the watch ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<BenchmarkRun, Usage> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.yaml");
        fs::write(&file, text).unwrap();
        read(&file)
    }

    #[test]
    fn a_key_that_is_not_known_is_an_error_that_names_it() {
        let run = "apiVersion: warpforge.dev/v1alpha1\nkind: BenchmarkRun\nmetadata: {name: a}\n";
        let good = format!("{run}spec: {{workload: {{name: bert-squad, parameters: {{}}}}}}\n");
        assert!(read_text(&good).is_ok());
        let bad = format!("{run}spec: {{workers: [{{name: a, vendor: Cpu, gpus: 1}}]}}\n");
        let error = read_text(&bad).unwrap_err().to_string();
        assert!(error.ends_with("there is no key spec.workers[0].gpus"), "{error}");
    }
}
