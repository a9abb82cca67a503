//! How far the run is, from what the children say: for `/progress`, `/metrics` and the message
//! that is left behind should this process be killed.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use warpforge_operator_api::contract::{GoldenUse, Progress, VERSION};
use warpforge_operator_api::data::Stage;

use crate::event::Event;

/// What the worker does.
#[derive(Clone, Debug)]
pub struct State {
    progress: Progress,
    /// When and at which step the present counting began.
    since: Option<(Instant, u32)>,
    rate: Option<f64>,
}

impl State {
    pub fn new(pass: Stage) -> Self {
        let progress = Progress {
            version: VERSION,
            pass,
            step: 0,
            steps: 0,
            loss: None,
            eta_seconds: None,
            golden: None,
        };
        Self { progress, since: None, rate: None }
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    pub fn settle_golden(&mut self, golden: GoldenUse) {
        self.progress.golden = Some(golden);
    }

    /// Takes in what a child said at a time.
    pub fn take(&mut self, event: &Event, at: Instant) {
        match event {
            Event::Pass { pass } => self.enter(*pass),
            Event::Step { pass, step, steps, loss } => {
                let same = (*pass, *steps) == (self.progress.pass, self.progress.steps);
                // The same pass may count anew: another run of it from the start.
                let onward = same && *step >= self.progress.step;
                if !onward || self.since.is_none() {
                    self.enter(*pass);
                    self.since = Some((at, *step));
                }
                self.progress.step = *step;
                self.progress.steps = *steps;
                self.progress.loss = loss.filter(|loss| loss.is_finite());
                self.estimate(at);
            }
            Event::Key { .. } | Event::Failed { .. } => {}
        }
    }

    fn enter(&mut self, pass: Stage) {
        let golden = self.progress.golden;
        *self = Self::new(pass);
        self.progress.golden = golden;
    }

    fn estimate(&mut self, at: Instant) {
        let Some((since, first)) = self.since else { return };
        let (taken, done) = ((at - since).as_secs_f64(), self.progress.step.saturating_sub(first));
        if taken > 0.0 && done > 0 {
            let rate = f64::from(done) / taken;
            let left = f64::from(self.progress.steps.saturating_sub(self.progress.step));
            self.rate = Some(rate);
            self.progress.eta_seconds = Some((left / rate).min(f64::from(u32::MAX)) as u32);
        }
    }

    /// As Prometheus reads it. `workload` and the worker's name are bounded by the run's schema.
    pub fn metrics(&self, workload: &str, worker: &str) -> String {
        let Progress { pass, step, steps, loss, eta_seconds, .. } = &self.progress;
        let labels = format!(
            "{{workload=\"{}\",worker=\"{}\",pass=\"{}\"}}",
            escaped(workload),
            escaped(worker),
            pass.label()
        );
        let rows = [
            ("step", "Steps that the pass has taken.", Some(f64::from(*step))),
            ("steps", "Steps that the pass has in all.", Some(f64::from(*steps))),
            ("loss", "The loss of the last step.", *loss),
            ("steps_per_second", "Steps a second since the pass began to count.", self.rate),
            ("eta_seconds", "Seconds until the pass is done.", eta_seconds.map(f64::from)),
        ];
        let mut text = String::new();
        for (name, help, value) in rows {
            let Some(value) = value else { continue };
            let name = format!("warpforge_runner_{name}");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
            let _ = writeln!(text, "{name}{labels} {value}");
        }
        text
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The state, as all parts of the agent see it.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<State>>);

impl Shared {
    pub fn new(pass: Stage) -> Self {
        Self(Arc::new(Mutex::new(State::new(pass))))
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn step(pass: Stage, step: u32) -> Event {
        Event::Step { pass, step, steps: 100, loss: Some(0.25) }
    }

    #[test]
    fn the_time_left_follows_from_the_steps_taken() {
        let (mut state, start) = (State::new(Stage::Golden), Instant::now());
        state.take(&step(Stage::Golden, 10), start);
        assert_eq!(state.progress().eta_seconds, None);
        state.take(&step(Stage::Golden, 20), start + Duration::from_secs(5));
        assert_eq!(state.progress().eta_seconds, Some(40));
        let text = state.metrics("bert-squad/\"x\"", "cpu-0");
        assert!(text.contains("warpforge_runner_steps_per_second{workload=\"bert-squad/\\\"x\\\"\",worker=\"cpu-0\",pass=\"golden\"} 2\n"), "{text}");
    }

    #[test]
    fn another_pass_counts_anew_and_golden_stays_settled() {
        let (mut state, start) = (State::new(Stage::Golden), Instant::now());
        state.settle_golden(GoldenUse::Reused);
        state.take(&step(Stage::Golden, 90), start);
        state.take(&Event::Pass { pass: Stage::Warpforge }, start + Duration::from_secs(1));
        let progress = state.progress();
        assert_eq!((progress.pass, progress.step, progress.loss), (Stage::Warpforge, 0, None));
        assert_eq!(progress.golden, Some(GoldenUse::Reused));
        state.take(&step(Stage::Warpforge, 1), start + Duration::from_secs(2));
        assert_eq!((state.progress().step, state.progress().eta_seconds), (1, None));
        assert!(!state.metrics("w", "cpu-0").contains("eta"));
    }
}
