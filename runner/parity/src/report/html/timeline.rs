//! The machine over time, a chart for each unit, with the two passes as bands behind the lines.

use std::fmt::Write as _;

use super::super::{Esc, Report, Series, Span, Timeline};
use super::chart::{LEFT, RIGHT, WIDTH, close, line, open, tick_label, ticks};
use crate::performance::Pass;
use crate::verdict::Short;

const HEIGHT: f64 = 190.0;
const TOP: f64 = 26.0;
const BASE: f64 = HEIGHT - 30.0;
/// So many strokes can be told apart.
const STROKES: usize = 6;
/// The width of a letter of a band's name, roughly.
const LETTER: f64 = 7.0;

pub(super) fn plot(page: &mut String, report: &Report) {
    let Some(timeline) = report.timeline.as_deref().filter(|t| !t.seconds.is_empty()) else {
        return;
    };
    let _ = writeln!(
        page,
        "<section>\n<h2>The machine meanwhile</h2>\n<p>Seen every {}\u{a0}s, at a cost of \
         {:.2}\u{a0}% of one core. Processors and GPUs are shown as a whole, whoever uses them; the \
         bands are the times in which a pass ran.</p>",
        timeline.interval_seconds, timeline.overhead_percent,
    );
    for unit in units(timeline) {
        chart(page, timeline, unit);
    }
    if !timeline.missing.is_empty() {
        let _ = writeln!(page, "<p>Not recorded: {}.</p>", Esc(timeline.missing.join("; ")));
    }
    page.push_str("</section>\n");
}

/// The units, in the order in which they first come.
fn units(timeline: &Timeline) -> Vec<&str> {
    let mut units: Vec<&str> = Vec::new();
    for series in &timeline.series {
        if !units.contains(&series.unit.as_str()) {
            units.push(&series.unit);
        }
    }
    units
}

/// Seconds from left to right.
struct Time(f64);

impl Time {
    /// From the run's start to the last thing that is known of it.
    fn of(timeline: &Timeline) -> Self {
        let ends = timeline.spans.iter().map(|span| span.to_seconds);
        let known = timeline.seconds.iter().copied().chain(ends).filter(|s| s.is_finite());
        Self(known.fold(0.0, f64::max).max(1e-3))
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (seconds / self.0).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }
}

fn chart(page: &mut String, timeline: &Timeline, unit: &str) {
    let shown: Vec<&Series> = timeline.series.iter().filter(|s| s.unit == unit).collect();
    let values = shown.iter().flat_map(|series| &series.values).flatten().copied();
    let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    // A share is of a hundred, however little there was of it.
    let most = if unit == "%" { 100.0 } else { most.max(1e-9) };
    let names: Vec<&str> = shown.iter().map(|series| series.name.as_str()).collect();
    let label = format!("{} over time, in {unit}", names.join(", "));
    open(page, &Esc(label).to_string(), HEIGHT);
    let time = Time::of(timeline);
    for span in &timeline.spans {
        band(page, &time, span);
    }
    let y = |value: f64| BASE - (value / most).clamp(0.0, 1.0) * (BASE - TOP);
    for tick in ticks(0.0, most, 4) {
        tick_label(page, y(tick), &format!("{tick}\u{a0}{}", Esc(unit)));
    }
    axis(page, &time);
    for (i, series) in shown.iter().enumerate() {
        let points = timeline.seconds.iter().zip(&series.values);
        let points = points.map(|(seconds, value)| (time.x(*seconds), value.map(y)));
        line(page, &format!("curve s{}", i % STROKES), points);
    }
    close(page);
    legend(page, &names);
}

fn band(page: &mut String, time: &Time, span: &Span) {
    let Some(class) = span.pass.map(class) else { return };
    let (from, to) = (time.x(span.from_seconds), time.x(span.to_seconds));
    let _ = writeln!(
        page,
        "<rect class=\"span {class}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" \
         height=\"{}\"><title>{}, {}\u{a0}s</title></rect>",
        (to - from).max(0.5),
        BASE - TOP,
        Esc(&span.name),
        Short(span.to_seconds - span.from_seconds),
    );
    if to - from > LETTER * span.name.chars().count() as f64 {
        let _ = writeln!(
            page,
            "<text class=\"tick\" x=\"{from:.1}\" y=\"{}\">{}</text>",
            TOP - 7.0,
            Esc(&span.name)
        );
    }
}

fn class(pass: Pass) -> &'static str {
    match pass {
        Pass::Golden => "golden",
        Pass::Warpforge => "candidate",
    }
}

fn axis(page: &mut String, time: &Time) {
    let end = WIDTH - RIGHT;
    let _ = writeln!(
        page,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{BASE}\" y2=\"{BASE}\"/>"
    );
    for tick in ticks(0.0, time.0, 8) {
        let _ = writeln!(
            page,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}\u{a0}s</text>",
            time.x(tick).min(end - 14.0),
            BASE + 18.0,
            // Three times a tenth is three tenths.
            (tick * 1e6).round() / 1e6,
        );
    }
}

fn legend(page: &mut String, names: &[&str]) {
    page.push_str("<p class=\"legend\">");
    for (i, name) in names.iter().enumerate() {
        let stroke = i % STROKES;
        let _ = write!(page, "<span><i class=\"stroke s{stroke}\"></i>{}</span> ", Esc(name));
    }
    page.push_str(
        "<span><i class=\"area golden\"></i>golden runs</span> <span><i class=\"area \
         candidate\"></i>candidate runs</span></p>\n",
    );
}
