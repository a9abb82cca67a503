//! Gradients by parameter and teacher-forced step: a cell for each, darker the nearer to its bound.

use std::fmt::Write as _;

use super::super::super::Esc;
use crate::training::{Quantity, Rule, TensorAt, TrainingParity};
use crate::verdict::{Short, Verdict};

const WIDTH: f64 = 920.0;
const ROW: f64 = 17.0;
const LEFT: f64 = 376.0;
const TOP: f64 = 26.0;
/// More rows than fit a screen are of no use; the worst are kept.
const MOST_ROWS: usize = 64;
/// Shades below the bound.
const SHADES: i32 = 6;

pub(super) fn heat(page: &mut String, parity: &TrainingParity) {
    let steps: Vec<_> =
        parity.at_steps(Quantity::Gradients).filter(|(_, f)| !f.tensors.is_empty()).collect();
    let mut names: Vec<&str> = Vec::new();
    for (_, found) in &steps {
        for tensor in &found.tensors {
            if !names.contains(&tensor.name.as_str()) {
                names.push(&tensor.name);
            }
        }
    }
    if names.is_empty() {
        return;
    }
    let cell = |name: &str, at: usize| steps[at].1.tensors.iter().find(|t| t.name == name);
    let total = names.len();
    if total > MOST_ROWS {
        let worst = |name: &str| {
            let cells = (0..steps.len()).filter_map(|at| cell(name, at));
            cells.map(level).fold(f64::NEG_INFINITY, f64::max)
        };
        let mut levels: Vec<f64> = names.iter().map(|name| worst(name)).collect();
        levels.sort_by(|a, b| b.total_cmp(a));
        let least = levels[MOST_ROWS - 1];
        names.retain(|name| worst(name) >= least);
        names.truncate(MOST_ROWS);
    }
    page.push_str(
        "<section id=\"gradients\">\n<h2>Gradients by parameter</h2>\n<p>Each cell is one parameter\u{2019}s \
         gradient at one teacher-forced step: the darker, the nearer its distance from golden is \
         to what is allowed, by powers of ten. Gradients that are zero but for rounding (~), such \
         as an attention key\u{2019}s bias, are judged by their size.</p>\n",
    );
    let width = ((WIDTH - LEFT - 110.0) / steps.len() as f64).min(96.0);
    let height = TOP + ROW * names.len() as f64 + 6.0;
    let _ = write!(
        page,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Gradients by \
         parameter\">\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Relative \
         gradient error of {} parameters at {} steps\">\n",
        names.len(),
        steps.len(),
    );
    for (at, (step, _)) in steps.iter().enumerate() {
        let x = LEFT + (at as f64 + 0.5) * width;
        let _ = writeln!(
            page,
            "<text class=\"tick\" x=\"{x:.1}\" y=\"16\" text-anchor=\"middle\">step {step}</text>"
        );
    }
    let _ = writeln!(
        page,
        "<text class=\"tick\" x=\"{:.1}\" y=\"16\" text-anchor=\"end\">largest</text>",
        LEFT + width * steps.len() as f64 + 74.0
    );
    for (row, name) in names.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let _ = writeln!(
            page,
            "<text class=\"name\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
            LEFT - 10.0,
            y + ROW - 5.0,
            Esc(shortened(name)),
            Esc(name),
        );
        for (at, (step, _)) in steps.iter().enumerate() {
            if let Some(tensor) = cell(name, at) {
                draw(page, tensor, *step, LEFT + at as f64 * width, y, width);
            }
        }
        let cells = (0..steps.len()).filter_map(|at| cell(name, at));
        let largest = cells.filter_map(|t| t.relative).reduce(f64::max);
        let _ = writeln!(
            page,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT + width * steps.len() as f64 + 74.0,
            y + ROW - 5.0,
            largest.map_or("\u{2013}".to_owned(), |x| Short(x).to_string()),
        );
    }
    page.push_str("</svg>\n</div>\n");
    legend(page, total - names.len());
    page.push_str("</section>\n");
}

/// How many powers of ten below the bound; zero and more is outside.
fn level(tensor: &TensorAt) -> f64 {
    match (tensor.verdict, tensor.used) {
        (Verdict::Pass, Some(used)) => used.log10().min(-1e-9),
        (Verdict::Pass, None) => f64::NEG_INFINITY,
        _ => 1.0,
    }
}

fn draw(page: &mut String, tensor: &TensorAt, step: u64, x: f64, y: f64, width: f64) {
    let level = level(tensor);
    let class = if level >= 0.0 {
        "over".to_owned()
    } else {
        format!("heat-{}", (f64::from(SHADES) + level).clamp(0.0, f64::from(SHADES - 1)) as i32)
    };
    let short = |value: Option<f64>| value.map_or("none".to_owned(), |x| Short(x).to_string());
    let mut about = format!(
        "{}\nstep {step}: relative distance {}, {} of what is allowed\ngolden to float64 {}, \
         candidate to float64 {}",
        tensor.name,
        short(tensor.relative),
        tensor.used.map_or("more than all".to_owned(), |used| format!("{} %", Short(100.0 * used))),
        short(tensor.golden_to_oracle),
        short(tensor.candidate_to_oracle),
    );
    if tensor.left_out > 0 {
        let _ = write!(about, "\n{} elements left out as noise", tensor.left_out);
    }
    if tensor.rule == Rule::Noise {
        about.push_str("\nzero but for rounding: judged by its size");
    }
    let _ = write!(
        page,
        "<g><title>{}</title><rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
         height=\"{:.1}\" rx=\"2\"/>",
        Esc(about),
        x + 1.0,
        y + 1.0,
        width - 2.0,
        ROW - 2.0,
    );
    if tensor.rule == Rule::Noise && level < 0.0 {
        let _ = write!(
            page,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">~</text>",
            x + width / 2.0,
            y + ROW - 4.0
        );
    }
    page.push_str("</g>\n");
}

fn legend(page: &mut String, hidden: usize) {
    page.push_str("<p class=\"legend\"><span>share of what is allowed:</span> ");
    for shade in 0..SHADES {
        let power = shade - SHADES;
        let below = if shade == 0 { "below " } else { "" };
        let power = if shade == 0 { power + 1 } else { power };
        let _ = write!(
            page,
            "<span><i class=\"cell heat-{shade}\"></i><span>{below}10<sup>{power}</sup></span></span> "
        );
    }
    page.push_str("<span><i class=\"cell over\"></i>outside</span></p>\n");
    if hidden > 0 {
        let _ = writeln!(
            page,
            "<p>{hidden} more parameters, none of them worse, are in report.json.</p>"
        );
    }
}

/// The end of a long name says more than its beginning.
fn shortened(name: &str) -> String {
    const MOST: usize = 51;
    let length = name.chars().count();
    if length <= MOST {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(length - MOST + 1).collect();
    format!("\u{2026}{tail}")
}
