//! A run that somebody asks for: in a file, or in a few words.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use warpforge_operator_api::data::Workload;
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunSpec};

/// What is said about a run before there is one.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A file with the whole of it.
    pub file: Option<PathBuf>,
    /// In the place of a file: a workload that comes with WarpForge.
    pub workload: Option<String>,
    pub preset: Option<String>,
    pub settings: Vec<(String, String)>,
    /// In the place of what the file says.
    pub profile: Option<String>,
    pub name: Option<String>,
    pub namespace: Option<String>,
}

/// Why a request is none.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("{}: {why}", file.display())]
    File { file: PathBuf, why: String },
    #[error("{}: there is no key {key}", file.display())]
    UnknownKey { file: PathBuf, key: String },
}

impl Request {
    /// The run as it is sent to the API server; `namespace` is for requests that name none.
    pub fn run(&self, namespace: &str) -> Result<BenchmarkRun, RequestError> {
        let mut run = if let Some(file) = &self.file {
            read(file)?
        } else {
            let workload = self.workload.as_ref().map(|name| Workload {
                name: name.clone(),
                preset: self.preset.clone(),
                parameters: self.settings.iter().cloned().collect(),
            });
            BenchmarkRun::new("", BenchmarkRunSpec { workload, ..BenchmarkRunSpec::empty() })
        };
        if let Some(profile) = &self.profile {
            run.spec.profile.clone_from(profile);
        }
        if let Some(name) = &self.name {
            run.metadata.name = Some(name.clone());
        }
        if run.metadata.name.as_ref().is_none_or(String::is_empty) {
            run.metadata.name = None;
            let workload = run.spec.workload.as_ref().map_or("run", |workload| &workload.name);
            let start = workload.to_lowercase().replace(['_', '.'], "-");
            run.metadata.generate_name.get_or_insert_with(|| format!("{start}-"));
        }
        if let Some(namespace) = &self.namespace {
            run.metadata.namespace = Some(namespace.clone());
        }
        run.metadata.namespace.get_or_insert_with(|| namespace.to_owned());
        run.status = None;
        Ok(run)
    }
}

/// A setting as it is typed: NAME=VALUE.
pub fn setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| format!("{text:?} is not NAME=VALUE"))
}

fn read(file: &Path) -> Result<BenchmarkRun, RequestError> {
    let wrong = |why: String| RequestError::File { file: file.to_owned(), why };
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let given: Value = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let run: BenchmarkRun =
        serde_json::from_value(given.clone()).map_err(|error| wrong(error.to_string()))?;
    let understood = serde_json::to_value(&run).map_err(|error| wrong(error.to_string()))?;
    // Metadata has more than this program knows, and the API server checks it.
    match unknown(&given["spec"], &understood["spec"]) {
        Some(key) => {
            let key = format!("spec{key}");
            Err(RequestError::UnknownKey { file: file.to_owned(), key })
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<BenchmarkRun, RequestError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.yaml");
        fs::write(&file, text).unwrap();
        Request { file: Some(file), ..Request::default() }.run("here")
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

    #[test]
    fn what_is_said_beside_a_file_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.yaml");
        let text = "apiVersion: warpforge.dev/v1alpha1\nkind: BenchmarkRun\n\
                    metadata: {name: a, namespace: b}\nspec: {workload: {name: w}}\n";
        fs::write(&file, text).unwrap();
        let mut request = Request { file: Some(file), ..Request::default() };
        let names = |request: &Request| {
            let run = request.run("here").unwrap();
            let metadata = run.metadata;
            (metadata.name, metadata.namespace.unwrap(), run.spec.profile)
        };
        assert_eq!(names(&request), (Some("a".into()), "b".into(), "default".into()));
        request.name = Some("c".into());
        request.namespace = Some("d".into());
        request.profile = Some("e".into());
        assert_eq!(names(&request), (Some("c".into()), "d".into(), "e".into()));
    }

    #[test]
    fn a_workload_without_a_name_gets_one_that_tells_it() {
        let workload = Some("bert_squad.v2".to_owned());
        let run = Request { workload, ..Request::default() }.run("here").unwrap();
        assert_eq!(run.metadata.generate_name.as_deref(), Some("bert-squad-v2-"));
        assert_eq!(run.metadata.namespace.as_deref(), Some("here"));
    }
}
