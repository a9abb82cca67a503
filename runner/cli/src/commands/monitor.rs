//! The monitor beside a measurement, as `benchmark run` and `stress` have it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use warpforge_bench::monitor::{Monitor, Options, Summary};
use warpforge_parity::bundle::write_beside;

use super::benchmark::seconds;
use crate::failure::Misuse;

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Watch the machine's load, power and temperature meanwhile
    #[arg(long)]
    monitor: bool,

    /// How often the monitor looks
    #[arg(
        long, value_name = "SECONDS", default_value = "1.0", value_parser = seconds,
        requires = "monitor"
    )]
    monitor_interval: Duration,

    /// Write all that the monitor saw to PATH
    #[arg(long, value_name = "PATH", requires = "monitor")]
    monitor_output: Option<PathBuf>,
}

/// A monitor at work, and where what it saw goes.
pub struct Watching {
    pub monitor: Monitor,
    output: Option<PathBuf>,
}

impl Args {
    /// Begins to look, if it is to. A file that cannot be written is found before that.
    pub fn start(&self) -> anyhow::Result<Option<Watching>> {
        if let Some(path) = &self.monitor_output {
            write(path, "[]\n")?;
        }
        Ok(self.monitor.then(|| Watching {
            monitor: Monitor::start(Options::every(self.monitor_interval)),
            output: self.monitor_output.clone(),
        }))
    }
}

impl Watching {
    /// Ends it and keeps what it saw.
    pub fn finish(self) -> anyhow::Result<Summary> {
        let timeline = self.monitor.stop();
        if let Some(path) = &self.output {
            write(path, &timeline.json())?;
        }
        Ok(timeline.summary)
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_beside(path, text.as_bytes()).with_context(|| {
        let message = format!("cannot write {}", path.display());
        Misuse::new(message, "choose another with --monitor-output")
    })
}
