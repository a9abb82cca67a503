//! `warpforge watch`: runs as they go on.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use futures::StreamExt as _;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use kube::ResourceExt as _;
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunStatus};
use warpforge_operator_client::{Change, line, watch};

use super::Context;
use super::submit::follow;
use crate::cluster::{Cluster, Scope};
use crate::exit::Exit;
use crate::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  warpforge watch
  warpforge watch nightly-28711 && echo passed

With a run's name it ends with that run, and with its verdict's exit code; without one it goes on
until it is interrupted. Where output is no terminal, every change is a line.";

/// Follow runs of the cluster, with their progress
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Only this run, until it ends
    #[arg(value_name = "RUN")]
    run: Option<String>,

    #[command(flatten)]
    scope: Scope,
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    super::block_on(async {
        let cluster = Cluster::connect(context, &args.scope.namespace).await?;
        if let Some(name) = &args.run {
            let run = cluster.run(name).await?;
            return follow(&cluster, &run, ui).await;
        }
        let api = cluster.runs_of(&args.scope);
        // A cluster that cannot be asked at all is an error at once, not a silence.
        api.list(&kube::api::ListParams::default().limit(1))
            .await
            .map_err(|error| cluster.explained(&error))?;
        let mut view: Box<dyn View> = match std::io::stdout().is_terminal() {
            true => Box::new(Bars::default()),
            false => Box::new(Lines { ui, last: BTreeMap::new() }),
        };
        let mut changes = std::pin::pin!(watch(api));
        while let Some(change) = changes.next().await {
            match change {
                Change::Here(run) => view.here(&name(&run, args.scope.all_namespaces), &run)?,
                Change::Gone(run) => view.gone(&name(&run, args.scope.all_namespaces))?,
                Change::Listed => {}
                Change::Nothing(error) => view.note(&format!("nothing can be seen: {error}"))?,
            }
        }
        Ok(Exit::Inconclusive)
    })
}

fn name(run: &BenchmarkRun, with_namespace: bool) -> String {
    match run.namespace().filter(|_| with_namespace) {
        Some(namespace) => format!("{namespace}/{}", run.name_any()),
        None => run.name_any(),
    }
}

/// How runs are shown.
trait View {
    fn here(&mut self, name: &str, run: &BenchmarkRun) -> std::io::Result<()>;
    fn gone(&mut self, name: &str) -> std::io::Result<()>;
    fn note(&mut self, text: &str) -> std::io::Result<()>;
}

/// What is told of a run in a line.
fn told(run: &BenchmarkRun) -> String {
    let Some(status) = &run.status else { return "Pending".to_owned() };
    match status.correctness {
        Some(correctness) => {
            let speed = status.performance.map(|speed| format!(", Performance {speed}"));
            let reason = &status.reason;
            format!("Correctness {correctness}{}: {reason}", speed.unwrap_or_default())
        }
        None => line(status),
    }
}

/// Every change a line, for logs and programs.
struct Lines<'a> {
    ui: &'a mut Ui,
    last: BTreeMap<String, String>,
}

impl View for Lines<'_> {
    fn here(&mut self, name: &str, run: &BenchmarkRun) -> std::io::Result<()> {
        let text = told(run);
        if self.last.get(name) == Some(&text) {
            return Ok(());
        }
        writeln!(self.ui.out(), "{name}: {text}")?;
        self.ui.out().flush()?;
        self.last.insert(name.to_owned(), text);
        Ok(())
    }

    fn gone(&mut self, name: &str) -> std::io::Result<()> {
        self.last.remove(name);
        writeln!(self.ui.out(), "{name}: deleted")?;
        self.ui.out().flush()
    }

    fn note(&mut self, text: &str) -> std::io::Result<()> {
        self.ui.note(text)?;
        self.ui.out().flush()
    }
}

/// A table that is drawn again in its place, a bar for each run.
#[derive(Default)]
struct Bars {
    all: MultiProgress,
    runs: BTreeMap<String, ProgressBar>,
}

impl View for Bars {
    fn here(&mut self, name: &str, run: &BenchmarkRun) -> std::io::Result<()> {
        let bar = self.runs.entry(name.to_owned()).or_insert_with(|| {
            let bar = self.all.add(ProgressBar::new(1));
            let style = ProgressStyle::with_template("{prefix:32!} {bar:24} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(name.to_owned());
            bar
        });
        let status = run.status.as_ref();
        let (step, steps) = match status.and_then(|status| status.progress.as_ref()) {
            _ if status.is_some_and(BenchmarkRunStatus::is_complete) => (1, 1),
            Some(progress) => (progress.step.unsigned_abs(), progress.steps.unsigned_abs()),
            None => (0, 1),
        };
        bar.set_length(steps.max(1));
        bar.set_position(step);
        let progress = status.and_then(|status| status.progress.as_ref());
        let eta = progress.filter(|_| step < steps).and_then(|progress| progress.eta_seconds);
        let eta = eta.map(|seconds| format!(", {seconds} s to go")).unwrap_or_default();
        bar.set_message(format!("{}{eta}", told(run)));
        bar.tick();
        Ok(())
    }

    fn gone(&mut self, name: &str) -> std::io::Result<()> {
        if let Some(bar) = self.runs.remove(name) {
            self.all.remove(&bar);
        }
        Ok(())
    }

    fn note(&mut self, text: &str) -> std::io::Result<()> {
        self.all.println(text)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Result;
    use std::sync::{Arc, Mutex};

    use indicatif::{ProgressDrawTarget, TermLike};
    use serde_json::{Value, json};

    use super::*;

    /// A terminal that keeps what is written since its lines were last cleared.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Screen {
        fn write(&self, text: &str) {
            self.0.lock().unwrap().push_str(text);
        }

        fn taken(&self) -> String {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            120
        }

        fn move_cursor_up(&self, _: usize) -> Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> Result<()> {
            self.write(text);
            self.write("\n");
            Ok(())
        }

        fn write_str(&self, text: &str) -> Result<()> {
            self.write(text);
            Ok(())
        }

        fn clear_line(&self) -> Result<()> {
            Ok(())
        }

        fn flush(&self) -> Result<()> {
            Ok(())
        }
    }

    fn of_status(status: &Value) -> BenchmarkRun {
        serde_json::from_value(json!({
            "metadata": { "name": "a" },
            "spec": { "workload": { "name": "bert-squad" } },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_terminal_shows_a_bar_for_each_run() {
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let mut bars = Bars { all: MultiProgress::with_draw_target(target), runs: BTreeMap::new() };
        // Of the bar that was drawn last for a name, at the end of its column.
        let filled = |text: &str, name: &str| {
            let (_, bar) = text.rsplit_once(name).unwrap_or_else(|| panic!("no {name}: {text}"));
            bar.chars().take(60).filter(|part| *part == '\u{2588}').count()
        };
        let running = json!({ "phase": "Running", "progress": {
            "summary": "Warpforge 30/60", "pass": "Warpforge", "step": 30, "steps": 60, "etaSeconds": 90,
            "updatedAt": "2026-01-01T00:00:00Z" } });
        bars.here("half", &of_status(&running)).unwrap();
        let text = screen.taken();
        assert!(text.contains(", 90 s to go"), "{text}");
        assert_eq!(filled(&text, "half"), 12, "{text}");
        let ended = json!({ "type": "Complete", "status": "True", "reason": "Agrees",
                            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let complete = json!({ "phase": "Complete", "correctness": "Pass", "reason": "Agrees",
                               "conditions": [ended] });
        bars.here("done", &of_status(&complete)).unwrap();
        let text = screen.taken();
        assert!(text.contains("Correctness Pass: Agrees"), "{text}");
        assert_eq!((filled(&text, "half"), filled(&text, "done")), (12, 24), "{text}");
        bars.gone("half").unwrap();
        screen.taken();
        bars.note("nothing can be seen").unwrap();
        let text = screen.taken();
        assert!(text.contains("nothing can be seen") && !text.contains("half"), "{text}");
    }
}
