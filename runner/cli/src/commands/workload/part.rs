//! Golden's key, or golden alone, of what `warpforge run` is told: for a worker on a cluster, which
//! looks for a stored golden first and stores the one it makes before Pass 2 begins.

use std::path::Path;

use warpforge_agent::event::{Blame, Event};
use warpforge_bench::system::snapshot;
use warpforge_workloads::Error;
use warpforge_workloads::training::both::{self, Request};
use warpforge_workloads::training::golden;

use super::super::run::{explain, progress};
use super::show_stage;
use crate::events::Events;
use crate::exit::Exit;
use crate::failure::Misuse;
use crate::ui::Ui;

/// How much of a run is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Golden's key is said.
    Key,
    /// Golden's folder is made.
    Golden,
    All,
}

#[derive(Debug, clap::Args)]
pub struct GoldenPart {
    /// Say the key that golden would have, and stop
    #[arg(long, hide = true, conflicts_with = "golden_only")]
    golden_key: bool,

    /// Make golden's folder, and stop
    #[arg(long, hide = true)]
    golden_only: bool,
}

impl GoldenPart {
    pub fn part(&self) -> Part {
        match (self.golden_key, self.golden_only) {
            (true, _) => Part::Key,
            (_, true) => Part::Golden,
            _ => Part::All,
        }
    }
}

pub fn of_golden(
    request: &Request<'_>,
    folder: &Path,
    part: Part,
    events: &Events,
    ui: &mut Ui,
) -> anyhow::Result<Exit> {
    let key = golden::key(request.plan, request.task, &request.determining).map_err(explain)?;
    events.say(&Event::Key { key: key.clone() });
    if part == Part::Key {
        writeln!(ui.out(), "{key}")?;
        return Ok(Exit::Pass);
    }
    let bar = progress(ui);
    let system = serde_json::to_value(snapshot()).ok();
    let made = both::make_golden(request, folder, system.as_ref(), &mut |stage| {
        events.training(&stage);
        show_stage(&bar, &stage);
    });
    bar.finish_and_clear();
    made.map_err(|error| match error {
        Error::Golden(golden) if golden.is_missing() => {
            let help = "cargo xtask setup golden, or a runner image with it";
            let missing = Misuse::new(format!("golden needs libtorch: {golden}"), help);
            missing.ending(Exit::Skipped).blaming(Blame::Machine).into()
        }
        error => explain(error),
    })?;
    ui.note(&format!("golden's results are in {}", folder.display()))?;
    Ok(Exit::Pass)
}
