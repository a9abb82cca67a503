//! The leader: golden, passes, verdict, upload.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use warpforge_operator_api::contract::{GoldenUse, Termination};
use warpforge_operator_api::data::Stage;
use warpforge_operator_api::{Reason, Verdict};
use warpforge_parity::bundle::{GOLDEN, REPORT_JSON};
use warpforge_store::BundleError;

use crate::agent::Worker;
use crate::beside::beside;
use crate::bundle::upload_failed;
use crate::child::Ended;
use crate::ending::Failure;
use crate::golden::{self, Stored};
use crate::rendezvous::Leader;
use crate::request::{Files, Passes, Source, Step, Subject, arguments};
use crate::{outcome, places};

/// How long other ranks may take to end once this one has.
const TOGETHER: Duration = Duration::from_mins(1);

pub(crate) async fn lead(worker: &Worker, passes: &Passes) -> Result<Termination, Failure> {
    let lead = Lead::new(worker, passes);
    if worker.ranks.ranks.len() == 1 {
        return lead.run().await;
    }
    let mut peers = Leader::gather(&worker.ranks, worker.hello(), worker.patience()).await?;
    let ended = lead.run_together(&mut peers).await?;
    peers.end().await;
    Ok(ended)
}

struct Lead<'a> {
    worker: &'a Worker,
    passes: &'a Passes,
    /// The bundle that is made.
    out: PathBuf,
    files: Files,
}

impl<'a> Lead<'a> {
    fn new(worker: &'a Worker, passes: &'a Passes) -> Self {
        Self { worker, passes, out: worker.bundle_folder(), files: Files::default() }
    }

    fn golden_folder(&self) -> PathBuf {
        self.out.join(GOLDEN)
    }

    async fn run(mut self) -> Result<Termination, Failure> {
        self.fetch().await?;
        let (mut golden, mut first) = (GoldenUse::Made, Stage::Golden);
        if self.passes.keeps_golden() {
            let (used, stored) = self.settle_golden().await?;
            if !self.passes.golden.second_pass {
                return Ok(self.golden_alone(used, stored));
            }
            (golden, first) = (used, Stage::Warpforge);
            self.worker.starter.state.lock().settle_golden(golden);
        }
        let ended = self.worker.starter.run(&self.arguments(Step::Whole), first).await?;
        let mut message = self.verdict(&ended)?;
        // What is skipped for want of libtorch had none.
        message.golden = (message.correctness != Some(Verdict::Skipped)).then_some(golden);
        message.report = self.worker.store_bundle(REPORT_JSON).await?;
        Ok(message)
    }

    /// Brings what lies in the object store; volumes are there already.
    async fn fetch(&mut self) -> Result<(), Failure> {
        if let Subject::Model { source, inputs, .. } = &self.passes.subject {
            self.files.model = Some(self.bring(source, "model").await?);
            for (number, source) in inputs.iter().enumerate() {
                let path = self.bring(source, &format!("inputs-{number}")).await?;
                self.files.inputs.push(path);
            }
        }
        if let Some(program) = &self.passes.program {
            self.files.program = Some(self.bring(program, "program").await?);
        }
        Ok(())
    }

    async fn bring(&self, source: &Source, folder: &str) -> Result<PathBuf, Failure> {
        let missing = |why: String| {
            let message = format!("{} cannot be had: {why}", source.place());
            Failure::new(Reason::DataMissing, message)
        };
        let Some(artifacts) = &self.worker.artifacts else {
            return self.in_volume(source);
        };
        match source {
            Source::Volume(_) => self.in_volume(source),
            Source::Object { .. } => {
                let folder = self.worker.options.work.join("files").join(folder);
                std::fs::create_dir_all(&folder).map_err(|error| missing(error.to_string()))?;
                let path = folder.join(source.file_name());
                let fetched = artifacts.fetch(source, &path).await;
                fetched.map_err(|error| missing(error.to_string()))?;
                Ok(path)
            }
        }
    }

    fn in_volume(&self, source: &Source) -> Result<PathBuf, Failure> {
        match source {
            Source::Volume(path) => Ok(self.worker.options.data.join(path)),
            Source::Object { .. } => {
                let message = format!("{} cannot be had without artifacts", source.place());
                Err(Failure::new(Reason::DataMissing, message))
            }
        }
    }

    fn arguments(&self, step: Step) -> Vec<OsString> {
        let (limit, vendor) = (self.worker.time_left(), self.worker.own.vendor);
        arguments(self.passes, &self.files, step, &self.out, limit, vendor)
    }

    /// A golden that several ranks make, or find; Pass 2 does not follow.
    async fn run_together(&self, peers: &mut Leader) -> Result<Termination, Failure> {
        let looking = async {
            // What is made on the way to the key is not golden's.
            let folder = self.worker.options.work.join("key");
            let arguments = self.worker.golden_arguments(self.passes, &folder, Step::Key)?;
            self.find_golden(&arguments).await
        };
        let (key, stored) = beside(Box::pin(looking), peers.lost()).await?;
        if let Stored::Brought(name) = stored {
            return Ok(self.golden_alone(GoldenUse::Reused, Some(name)));
        }
        peers.go();
        let folder = self.golden_folder();
        let arguments = self.worker.golden_arguments(self.passes, &folder, Step::Golden)?;
        let making = self.worker.starter.succeed(&arguments, Stage::Golden);
        beside(making, peers.lost()).await?;
        peers.all_done(TOGETHER).await?;
        let name = self.keep_golden(&key, stored == Stored::Damaged).await?;
        Ok(self.golden_alone(GoldenUse::Made, name))
    }

    /// Brings a stored golden of the same key, or has one made and stores it.
    async fn settle_golden(&self) -> Result<(GoldenUse, Option<String>), Failure> {
        let wanted = self.passes.golden;
        let (key, stored) = self.find_golden(&self.arguments(Step::Key)).await?;
        if let Stored::Brought(name) = stored {
            return Ok((GoldenUse::Reused, Some(name)));
        }
        if !wanted.may_make {
            let message = format!("no usable golden has the key {key}");
            return Err(Failure::new(Reason::GoldenMissing, message));
        }
        self.worker.starter.succeed(&self.arguments(Step::Golden), Stage::Golden).await?;
        let name = self.keep_golden(&key, stored == Stored::Damaged).await?;
        Ok((GoldenUse::Made, name))
    }

    /// Asks a child for golden's key, and the store for what has it.
    async fn find_golden(&self, arguments: &[OsString]) -> Result<(String, Stored), Failure> {
        let Worker { starter, artifacts, spec, .. } = self.worker;
        let ended = starter.run(arguments, self.passes.first_stage()).await?;
        let Some(key) = ended.key.clone().filter(|_| ended.succeeded()) else {
            return Err(ended.failure());
        };
        let stored = match artifacts {
            Some(artifacts) if self.passes.golden.may_reuse => {
                let (places, folder) = (&spec.spec.goldens, self.golden_folder());
                golden::bring(artifacts, places, &key, &folder).await?
            }
            _ => Stored::Absent,
        };
        Ok((key, stored))
    }

    /// Stores golden's folder; `instead`: in the place of whatever is there.
    async fn keep_golden(&self, key: &str, instead: bool) -> Result<Option<String>, Failure> {
        let Some(artifacts) = &self.worker.artifacts else { return Ok(None) };
        let name = places::golden(&self.worker.spec.spec.goldens.write, key);
        let instead = instead || self.passes.replaces_golden();
        let folder = self.golden_folder();
        let stored = if instead {
            artifacts.replace(&name, &folder).await
        } else {
            artifacts.put(&name, &folder).await
        };
        match stored {
            // Another run of the same was faster.
            Ok(_) | Err(BundleError::Exists { .. }) => Ok(Some(name)),
            Err(error) => Err(upload_failed("the golden", &error)),
        }
    }

    /// The end of a run that has a golden and stops there: nothing was compared.
    fn golden_alone(&self, used: GoldenUse, stored: Option<String>) -> Termination {
        let reason = match used {
            GoldenUse::Reused => Reason::GoldenReused,
            GoldenUse::Made | GoldenUse::Skipped => Reason::GoldenMade,
        };
        let place = stored.map(|name| format!(" It is stored as {name}.")).unwrap_or_default();
        let text = format!("{}{place} Nothing was compared.", reason.sentence());
        Termination {
            golden: Some(used),
            results: Some(outcome::golden_results(&self.golden_folder())),
            ..Termination::verdict(Verdict::Skipped, reason.name(), &text)
        }
    }

    /// What the report of the last child says.
    fn verdict(&self, ended: &Ended) -> Result<Termination, Failure> {
        let judged = ended.code().filter(|code| Verdict::of_exit_code(*code).is_some());
        let Some(code) = judged.filter(|_| self.out.join(REPORT_JSON).is_file()) else {
            return Err(ended.failure());
        };
        Ok(outcome::message(&outcome::read(&self.out)?, code))
    }
}
