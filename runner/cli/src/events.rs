//! What a command says of itself to the program that started it: a line of JSON for every stage,
//! and one for a failure (`--events FILE`).

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use rustix::process::{Signal, set_parent_process_death_signal};
use warpforge_agent::event::{Blame, Event};
use warpforge_operator_api::data::Stage;
use warpforge_workloads::training::Pass as Side;
use warpforge_workloads::{Error, forward, training};

use crate::exit::Exit;
use crate::failure::Misuse;
use crate::settings::Problems;

/// A file that takes the lines, if somebody wants them.
#[derive(Debug, Default)]
pub struct Events(Option<RefCell<File>>);

impl Events {
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        // Whoever reads them is the one this process works for.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self(Some(RefCell::new(file))))
    }

    pub fn say(&self, event: &Event) {
        let Some(file) = &self.0 else { return };
        let Ok(mut line) = serde_json::to_string(event) else { return };
        line.push('\n');
        // Progress that cannot be shown is no reason to stop what it is about.
        let _ = file.borrow_mut().write_all(line.as_bytes());
    }

    pub fn training(&self, stage: &training::Stage) {
        use training::Stage as S;
        let event = match *stage {
            // Timed blocks are short and in turn: whoever follows need not hear of each.
            S::Loading | S::Comparing | S::Measuring { pass: Some(_) } => return,
            S::Training { pass, step, steps, loss } => {
                Event::Step { pass: of(pass), step, steps, loss: Some(loss) }
            }
            S::Noise { step, steps, .. } => {
                Event::Step { pass: Stage::Golden, step, steps, loss: None }
            }
            S::Forced { pass, .. } => Event::Pass { pass: of(pass) },
            S::Evaluating { pass, batch, batches } => Event::Step {
                pass: of(pass),
                step: batch as u32,
                steps: batches as u32,
                loss: None,
            },
            S::Measuring { pass: None } => Event::Pass { pass: Stage::Warpforge },
        };
        self.say(&event);
    }

    pub fn forward(&self, stage: &forward::Stage) {
        use forward::Stage as S;
        self.say(&match *stage {
            S::Loading | S::Comparing => return,
            S::Golden { node, nodes, .. } => Event::Step {
                pass: Stage::Golden,
                step: node as u32,
                steps: nodes as u32,
                loss: None,
            },
            S::Program => Event::Pass { pass: Stage::Warpforge },
        });
    }

    /// So many benchmarks are done.
    pub fn suite(&self, done: usize, all: usize) {
        let (step, steps) = (done as u32, all as u32);
        self.say(&Event::Step { pass: Stage::Suite, step, steps, loss: None });
    }

    pub fn failed(&self, error: &anyhow::Error, exit: Exit) {
        let mut message: Vec<String> = Vec::new();
        let help = error.downcast_ref::<Misuse>().map(|misuse| misuse.help.clone());
        for part in error.chain().map(ToString::to_string).chain(help) {
            // Some errors repeat their cause in their own words.
            if !message.last().is_some_and(|last| last.contains(&part)) {
                message.push(part);
            }
        }
        let message = message.join("; ");
        self.say(&Event::Failed { exit: exit as i32, blame: blame(error, exit), message });
    }
}

fn of(side: Side) -> Stage {
    match side {
        Side::Golden | Side::Oracle => Stage::Golden,
        Side::WarpForge => Stage::Warpforge,
    }
}

fn blame(error: &anyhow::Error, exit: Exit) -> Blame {
    if let Some(misuse) = error.downcast_ref::<Misuse>() {
        return misuse.blame.unwrap_or(match exit {
            Exit::Usage => Blame::Request,
            Exit::Skipped => Blame::Data,
            _ => Blame::Internal,
        });
    }
    match error.downcast_ref::<Error>() {
        Some(Error::Golden(golden)) if golden.was_killed() => Blame::GoldenKilled,
        _ if error.is::<Problems>() => Blame::Request,
        _ => Blame::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_blamed_on_what_it_is_about() {
        let misuse = |exit| anyhow::Error::from(Misuse::new("a", "b").ending(exit));
        let late = Misuse::new("a", "b").ending(Exit::Inconclusive).blaming(Blame::Deadline);
        for (error, exit, expected) in [
            (misuse(Exit::Usage), Exit::Usage, Blame::Request),
            (misuse(Exit::Skipped), Exit::Skipped, Blame::Data),
            (misuse(Exit::Inconclusive), Exit::Inconclusive, Blame::Internal),
            (late.into(), Exit::Inconclusive, Blame::Deadline),
            (anyhow::anyhow!("lost"), Exit::Internal, Blame::Internal),
        ] {
            assert_eq!(blame(&error, exit), expected, "{error}");
        }
    }
}
