//! Errors along the program: a point per operation, on a logarithmic scale.

use std::fmt::Write as _;

use super::super::{Esc, Report};
use super::scale::Log;
use crate::localise::{Effect, Layer};
use crate::verdict::Short;

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 96.0;
/// More labels would not be readable.
const MOST_GROUPS: usize = 10;

pub(super) fn plot(page: &mut String, report: &Report) {
    let layers = &report.layers;
    if layers.iter().all(|layer| layer.error_out.is_none()) {
        return;
    }
    let against = if layers.iter().any(|layer| layer.error_to_oracle.is_some()) {
        "the float64 oracle"
    } else {
        "golden"
    };
    let _ = write!(
        page,
        "<section>\n<h2>Error by layer</h2>\n<p>Each point is one operation of the program, in \
         the order they run: its relative error \u{2016}a\u{2212}b\u{2016}/\u{2016}b\u{2016} \
         against {against}, on a logarithmic scale.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Error by layer\">\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        Esc(description(report)),
    );
    let chart = Chart::new(layers);
    chart.grid(page);
    chart.groups(page, layers);
    chart.line(page, "noise", |layer| layer.golden_to_oracle.map(|n| n.0));
    chart.line(page, "bound", |layer| layer.bound.map(|n| n.0));
    chart.line(page, "trend", |layer| layer.error_out.map(|n| n.0));
    chart.first(page, report);
    chart.points(page);
    page.push_str("</svg>\n</div>\n");
    legend(page, layers);
    page.push_str("</section>\n");
}

/// For those who cannot see the picture.
fn description(report: &Report) -> String {
    let errors = report.layers.iter().filter_map(|layer| layer.error_out);
    let largest = errors.map(|n| n.0).fold(0.0, f64::max);
    let first = report.first_divergence.as_ref().map_or_else(
        || "no operation diverges".to_owned(),
        |first| format!("the first divergence is at {}", first.module_path),
    );
    format!(
        "Relative errors of {} operations, at most {}; {first}.",
        report.layers.len(),
        Short(largest)
    )
}

struct Chart<'a> {
    layers: &'a [Layer],
    scale: Log,
}

impl<'a> Chart<'a> {
    fn new(layers: &'a [Layer]) -> Self {
        let values = layers.iter().flat_map(|layer| {
            [layer.error_out, layer.bound, layer.golden_to_oracle].into_iter().flatten()
        });
        let scale = Log::of(values.map(|n| n.0), TOP, HEIGHT - BOTTOM);
        Self { layers, scale }
    }

    fn x(&self, number: usize) -> f64 {
        LEFT + (number as f64 + 0.5) * (WIDTH - LEFT - RIGHT) / self.layers.len() as f64
    }

    fn grid(&self, page: &mut String) {
        for power in self.scale.ticks() {
            let y = self.scale.y(10f64.powi(power));
            let _ = writeln!(
                page,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">10<tspan \
                 class=\"power\" dy=\"-5\">{power}</tspan></text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0,
            );
        }
        let y = HEIGHT - BOTTOM;
        let _ = writeln!(
            page,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/><text \
             class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">0</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
        );
    }

    /// Parts of the model as bands below the axis.
    fn groups(&self, page: &mut String, layers: &[Layer]) {
        let half = (WIDTH - LEFT - RIGHT) / layers.len() as f64 / 2.0;
        for (i, group) in groups(layers).iter().enumerate() {
            let (from, to) = (self.x(group.from) - half, self.x(group.to) + half);
            let (y, class) = (HEIGHT - BOTTOM, if i % 2 == 0 { "even" } else { "odd" });
            let middle = f64::midpoint(from, to);
            let _ = writeln!(
                page,
                "<rect class=\"band {class}\" x=\"{from:.1}\" y=\"{y}\" width=\"{:.1}\" \
                 height=\"6\"/><text class=\"group\" text-anchor=\"end\" \
                 transform=\"translate({:.1} {}) rotate(-32)\">{}<title>{}</title></text>",
                to - from,
                middle + 4.0,
                y + 20.0,
                Esc(shortened_to(&group.label, room(middle))),
                Esc(&group.path),
            );
        }
    }

    fn line(&self, page: &mut String, class: &str, value: impl Fn(&Layer) -> Option<f64>) {
        let mut path = String::new();
        for (number, layer) in self.layers.iter().enumerate() {
            if let Some(value) = value(layer) {
                let verb = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{verb}{:.1} {:.1}", self.x(number), self.scale.y(value));
            }
        }
        if !path.is_empty() {
            let _ = writeln!(page, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }

    fn first(&self, page: &mut String, report: &Report) {
        let Some(first) = &report.first_divergence else { return };
        let x = self.x(first.layer);
        let (anchor, beside) = if x > WIDTH / 2.0 { ("end", x - 7.0) } else { ("start", x + 7.0) };
        let _ = writeln!(
            page,
            "<line class=\"first\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/><text \
             class=\"first-label\" x=\"{beside:.1}\" y=\"{}\" text-anchor=\"{anchor}\">first \
             divergence: {}</text>",
            TOP - 14.0,
            HEIGHT - BOTTOM,
            TOP - 6.0,
            Esc(shortened_to(&first.module_path, 60)),
        );
    }

    fn points(&self, page: &mut String) {
        let radius = if self.layers.len() > 400 { 2.0 } else { 3.5 };
        for (number, layer) in self.layers.iter().enumerate() {
            let Some(error) = layer.error_out else { continue };
            let _ = writeln!(
                page,
                "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}</title>\
                 </circle>",
                layer.effect.name(),
                self.x(number),
                self.scale.y(error.0),
                Esc(title(layer)),
            );
        }
    }
}

fn title(layer: &Layer) -> String {
    let mut text = format!("{}\n{} ({})", layer.module_path, layer.name, layer.op);
    let mut line = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            let _ = write!(text, "\n{name}: {}", Short(value));
        }
    };
    line("to golden", layer.error_to_golden.map(|n| n.0));
    line("to the oracle", layer.error_to_oracle.map(|n| n.0));
    line("golden to the oracle", layer.golden_to_oracle.map(|n| n.0));
    line("coming in", Some(layer.error_in.0));
    line("on golden\u{2019}s inputs", layer.isolated_error.map(|n| n.0));
    let _ = write!(text, "\n{}", layer.effect.name());
    text
}

fn legend(page: &mut String, layers: &[Layer]) {
    page.push_str("<p class=\"legend\">");
    for effect in [Effect::Agrees, Effect::Originates, Effect::Amplifies, Effect::Inherits] {
        let count = layers.iter().filter(|layer| layer.effect == effect).count();
        if count > 0 {
            let name = effect.name();
            let _ = write!(page, "<span><i class=\"dot {name}\"></i>{name} ({count})</span> ");
        }
    }
    if layers.iter().any(|layer| layer.golden_to_oracle.is_some()) {
        page.push_str("<span><i class=\"stroke noise\"></i>golden\u{2019}s own error</span> ");
    }
    page.push_str("<span><i class=\"stroke bound\"></i>bound</span></p>\n");
}

struct Group {
    from: usize,
    to: usize,
    path: String,
    /// The part of the path that is not common to all.
    label: String,
}

/// Runs of operations of the same part of the model, as deep as there are not too many.
fn groups(layers: &[Layer]) -> Vec<Group> {
    let mut chosen = Vec::new();
    for depth in 1..=8 {
        let runs = runs(layers, depth);
        if runs.len() > MOST_GROUPS {
            break;
        }
        chosen = runs;
    }
    let common = common_prefix(&chosen);
    for group in &mut chosen {
        let parts: Vec<&str> = group.path.split('.').skip(common).collect();
        group.label = parts.join(".");
    }
    chosen
}

fn runs(layers: &[Layer], depth: usize) -> Vec<Group> {
    let mut runs: Vec<Group> = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let path: Vec<&str> = layer.module_path.split('.').take(depth).collect();
        let path = path.join(".");
        match runs.last_mut() {
            Some(last) if last.path == path => last.to = number,
            _ => runs.push(Group { from: number, to: number, path, label: String::new() }),
        }
    }
    runs
}

/// How many components all paths begin with, leaving each at least one.
fn common_prefix(groups: &[Group]) -> usize {
    let Some(first) = groups.first() else { return 0 };
    let first: Vec<&str> = first.path.split('.').collect();
    let shared = |group: &Group| {
        let parts: Vec<&str> = group.path.split('.').collect();
        let same = first.iter().zip(&parts).take_while(|(a, b)| a == b).count();
        same.min(parts.len() - 1)
    };
    groups.iter().map(shared).min().unwrap_or(0)
}

/// How many characters of a label fit to the left of its place.
fn room(middle: f64) -> usize {
    ((middle / 6.2) as usize).clamp(6, 20)
}

/// The end of a long path says more than its beginning.
fn shortened_to(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let tail: String = text.chars().skip(length - most + 1).collect();
    format!("\u{2026}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Number;

    fn layer(path: &str) -> Layer {
        Layer {
            name: String::new(),
            module_path: path.to_owned(),
            op: String::new(),
            effect: Effect::Agrees,
            error_in: Number(0.0),
            error_out: None,
            bound: None,
            error_to_golden: None,
            error_to_oracle: None,
            golden_to_oracle: None,
            isolated_error: None,
        }
    }

    #[test]
    fn groups_are_as_deep_as_is_readable_and_drop_what_all_share() {
        let paths: Vec<String> =
            (0..8).flat_map(|i| ["a", "b"].map(|p| format!("bert.encoder.{i}.{p}"))).collect();
        let layers: Vec<Layer> = paths.iter().map(|path| layer(path)).collect();
        let found = groups(&layers);
        assert_eq!(found.len(), 8);
        assert_eq!((found[3].label.as_str(), found[3].from, found[3].to), ("3", 6, 7));
        assert_eq!(shortened_to("a.very.long.path", 9), "\u{2026}ong.path");
        assert_eq!((room(10.0), room(900.0)), (6, 20));
        assert_eq!(groups(&[layer("")]).len(), 1);
    }
}
