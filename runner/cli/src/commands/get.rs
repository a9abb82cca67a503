//! `warpforge get`: runs of the cluster, as a table or one in full.

use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use warpforge_operator_api::contract::{Figure, Results};
use warpforge_operator_api::data::Pass;
use warpforge_operator_api::status::ConditionStatus;
use warpforge_operator_api::{BenchmarkRun, BenchmarkRunStatus, Verdict};

use super::Context;
use crate::cluster::{Cluster, Scope};
use crate::exit::Exit;
use crate::table::{self, Cell};
use crate::ui::{BOLD, DIM, GREEN, RED, Ui, YELLOW};

/// How many runs are asked for at a time.
const PAGE: u32 = 500;

const EXAMPLES: &str = "\
Examples:
  warpforge get
  warpforge get --all-namespaces
  warpforge get nightly-28711
  warpforge get --json | jq '.[].status.correctness'";

/// Show runs of the cluster and what became of them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// One run, in full
    #[arg(value_name = "RUN")]
    run: Option<String>,

    #[command(flatten)]
    scope: Scope,

    /// Print the objects as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, context: &Context<'_>, ui: &mut Ui) -> anyhow::Result<Exit> {
    super::block_on(async {
        let cluster = Cluster::connect(context, &args.scope.namespace).await?;
        if let Some(name) = &args.run {
            let run = cluster.run(name).await?;
            if args.json {
                ui.json(&run)?;
            } else {
                show(&run, ui)?;
            }
            return Ok(Exit::Pass);
        }
        let api = cluster.runs_of(&args.scope);
        let mut runs = list(&api).await.map_err(|error| cluster.explained(&error))?;
        runs.sort_by_key(|run| {
            (run.metadata.creation_timestamp.as_ref().map(|time| time.0), run.name_any())
        });
        if args.json {
            ui.json(&runs)?;
        } else if runs.is_empty() {
            let place = match args.scope.all_namespaces {
                true => "in the cluster".to_owned(),
                false => format!("in namespace {}", cluster.namespace),
            };
            ui.note(&format!("there are no runs {place}"))?;
        } else {
            table(&runs, args.scope.all_namespaces, ui)?;
        }
        Ok(Exit::Pass)
    })
}

async fn list(api: &Api<BenchmarkRun>) -> Result<Vec<BenchmarkRun>, kube::Error> {
    let mut runs = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        runs.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(runs),
        }
    }
}

fn table(runs: &[BenchmarkRun], all: bool, ui: &mut Ui) -> std::io::Result<()> {
    let heads = ["NAME", "WORKLOAD", "PHASE", "CORRECTNESS", "PERFORMANCE", "PROGRESS", "AGE"];
    let heads = heads.into_iter().map(|head| Cell::styled(head, DIM));
    let namespace = |text: &str| all.then(|| Cell::from(text));
    let mut rows: Vec<Vec<Cell>> = vec![namespace("NAMESPACE").into_iter().chain(heads).collect()];
    for run in runs {
        let status = run.status.clone().unwrap_or_default();
        let progress = status.progress.as_ref().filter(|_| !status.is_complete());
        let cells = [
            Cell::styled(run.name_any(), BOLD),
            status.subject.clone().into(),
            status.phase.name().into(),
            verdict(status.correctness),
            verdict(status.performance),
            progress.map_or(String::new(), |progress| progress.summary.clone()).into(),
            age(run).into(),
        ];
        let place = run.namespace().unwrap_or_default();
        rows.push(namespace(&place).into_iter().chain(cells).collect());
    }
    table::write(ui.out(), 0, &rows)
}

/// A verdict as a cell; nothing where there is none.
pub fn verdict(verdict: Option<Verdict>) -> Cell {
    let Some(verdict) = verdict else { return "".into() };
    let style = match verdict {
        Verdict::Pass => GREEN,
        Verdict::Fail | Verdict::Invalid => RED,
        Verdict::Inconclusive | Verdict::Skipped => YELLOW,
    };
    Cell::styled(verdict.name(), style)
}

fn age(run: &BenchmarkRun) -> String {
    let Some(created) = &run.metadata.creation_timestamp else { return String::new() };
    span(Timestamp::now().duration_since(created.0).as_secs())
}

/// Seconds in their largest unit: `42s`, `7m`, `3h`, `5d`.
fn span(seconds: i64) -> String {
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let unit = units.iter().find(|(length, _)| seconds >= 2 * length);
    unit.map_or(format!("{seconds}s"), |(length, name)| format!("{}{name}", seconds / length))
}

fn show(run: &BenchmarkRun, ui: &mut Ui) -> std::io::Result<()> {
    let status = run.status.clone().unwrap_or_default();
    let (name, place) = (run.name_any(), run.namespace().unwrap_or_default());
    writeln!(ui.out(), "{BOLD}{name}{BOLD:#} in namespace {place}, {} old", age(run))?;
    let mut rows: Vec<(&str, Cell)> = vec![("workload", status.subject.clone().into())];
    rows.push(("phase", warpforge_operator_client::line(&status).into()));
    for (label, judged) in
        [("correctness", status.correctness), ("performance", status.performance)]
    {
        if judged.is_some() {
            rows.push((label, verdict(judged)));
        }
    }
    let width = Ui::width().saturating_sub(16).max(40);
    let message = table::wrap(&status.message, width);
    rows.extend(
        message
            .into_iter()
            .enumerate()
            .map(|(line, text)| (if line == 0 { "message" } else { "" }, text.into())),
    );
    rows.extend(figures(&status).into_iter().map(|(label, text)| (label, text.into())));
    rows.extend(status.report.iter().map(|report| ("report", report.uri.clone().into())));
    for ended in &status.attempts {
        let node = ended.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        rows.push(("attempt", format!("{}: {}{node}", ended.number, ended.reason).into()));
    }
    for condition in &status.conditions {
        let mark = match condition.status {
            ConditionStatus::True => "yes",
            ConditionStatus::False => "no",
            ConditionStatus::Unknown => "unknown",
        };
        let text = format!("{:?}: {mark}, {}", condition.type_, condition.reason);
        rows.push(("condition", Cell::styled(text, DIM)));
    }
    let rows: Vec<Vec<Cell>> =
        rows.into_iter().map(|(label, cell)| vec![Cell::styled(label, DIM), cell]).collect();
    table::write(ui.out(), 2, &rows)
}

/// What was measured, a line for each quantity.
fn figures(status: &BenchmarkRunStatus) -> Vec<(&'static str, String)> {
    let Some(results) = &status.results else { return Vec::new() };
    let mut lines = Vec::new();
    let mut both = |label: &'static str, unit: &str, of: &dyn Fn(Pass) -> Option<Figure>| {
        let [golden, ours] = [Pass::Golden, Pass::Warpforge].map(of);
        let text = |figure: Option<Figure>| {
            figure.and_then(|figure| figure.value()).map_or("-".to_owned(), number)
        };
        if golden.is_some() || ours.is_some() {
            lines
                .push((label, format!("golden {}{unit}, ours {}{unit}", text(golden), text(ours))));
        }
    };
    both("speed", " samples/s", &|pass| results.of(pass).throughput.clone());
    both("loss", "", &|pass| results.of(pass).loss.clone());
    both("power", " W", &|pass| results.of(pass).power_watts.clone());
    for metric in metrics(results) {
        let value = |pass| results.of(pass).metrics.get(metric).and_then(Figure::value);
        let text = |pass| value(pass).map_or("-".to_owned(), number);
        let (golden, ours) = (text(Pass::Golden), text(Pass::Warpforge));
        lines.push(("metric", format!("{metric}: golden {golden}, ours {ours}")));
    }
    let one = |figure: &Option<Figure>| figure.as_ref().and_then(Figure::value).map(number);
    lines.extend(one(&results.ratio).map(|ratio| ("ratio", format!("{ratio} × golden"))));
    let error = one(&results.worst_error);
    lines.extend(error.map(|error| ("worst error", format!("{error} of what is allowed"))));
    for figure in &results.benchmarks {
        let value = figure.value.value().map_or("-".to_owned(), number);
        let text = format!("{}: {value} {} ({})", figure.name, figure.unit, figure.metric);
        lines.push(("benchmark", text));
    }
    lines
}

fn metrics(results: &Results) -> Vec<&str> {
    let both = results.golden.metrics.keys().chain(results.warpforge.metrics.keys());
    let mut names: Vec<&str> = both.map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A number as a person reads it: four digits, and no more zeros than needed.
fn number(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if !(1e-3..1e6).contains(&magnitude) {
        format!("{value:.3e}")
    } else {
        let whole = magnitude.log10().floor() as i32 + 1;
        let places = usize::try_from((4 - whole).max(0)).unwrap_or(0);
        let text = format!("{value:.places$}");
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (96.963_5, "96.96"),
            (3863.2, "3863"),
            (123_456.0, "123456"),
            (0.359, "0.359"),
            (2.0, "2"),
            (-0.012_345, "-0.01235"),
            (1.5e-7, "1.500e-7"),
            (2.5e9, "2.500e9"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn spans_have_one_unit() {
        let cases = [(0, "0s"), (119, "119s"), (120, "2m"), (7_199, "119m"), (200_000, "2d")];
        for (seconds, text) in cases {
            assert_eq!(span(seconds), text);
        }
    }
}
