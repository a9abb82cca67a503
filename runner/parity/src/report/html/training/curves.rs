//! Lines over steps: both losses, their difference within golden's spread, errors of the
//! teacher-forced steps, throughput of the blocks.

use std::fmt::Write as _;

use super::super::chart::{LEFT, RIGHT, WIDTH, close, line, open, tick_label, ticks};
use super::super::scale::Log;
use crate::performance::{Pass, Performance};
use crate::training::{FreeRun, Quantity, Rule, TrainingParity};
use crate::verdict::Short;

const BOTTOM: f64 = 40.0;

/// Steps from left to right.
struct Steps {
    first: f64,
    last: f64,
}

impl Steps {
    fn of(steps: &[u64]) -> Self {
        let first = steps.first().copied().unwrap_or(0) as f64;
        let last = steps.last().copied().unwrap_or(0) as f64;
        Self { first, last: last.max(first + 1.0) }
    }

    fn x(&self, step: u64) -> f64 {
        LEFT + (step as f64 - self.first) / (self.last - self.first) * (WIDTH - LEFT - RIGHT)
    }

    fn axis(&self, page: &mut String, y: f64) {
        let _ = writeln!(
            page,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>",
            WIDTH - RIGHT
        );
        for tick in ticks(self.first, self.last, 8) {
            let x = self.x(tick as u64);
            // The word stands at the right end.
            if x < WIDTH - RIGHT - 40.0 {
                let _ = writeln!(
                    page,
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
                    y + 18.0
                );
            }
        }
        let _ = writeln!(
            page,
            "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">step</text>",
            WIDTH - RIGHT,
            y + 18.0
        );
    }
}

fn decades(page: &mut String, scale: &Log) {
    for power in scale.ticks() {
        let text = format!("10<tspan class=\"power\" dy=\"-5\">{power}</tspan>");
        tick_label(page, scale.y(10f64.powi(power)), &text);
    }
}

/// Both loss curves, and below them their difference.
pub(super) fn free_run(page: &mut String, run: &FreeRun) {
    if run.steps.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>The free run</h2>\n<p>Loss by step, both passes trained on their own from the same start on the same data.</p>\n");
    losses(page, run);
    let _ = write!(
        page,
        "<p class=\"legend\"><span><i class=\"stroke golden\"></i>golden</span> <span><i \
         class=\"stroke candidate\"></i>candidate</span></p>\n<h3>How far they drift apart</h3>\n\
         <p>Rounding makes two trainings part, slowly at first and then exponentially; {}. The \
         candidate may part as far as golden\u{2019}s own copies do, times a factor for there \
         being few of them; so may its moving average over {} steps, which a small bias would \
         not escape.</p>\n",
        spread_words(run),
        run.window,
    );
    differences(page, run);
    page.push_str(
        "<p class=\"legend\"><span><i class=\"stroke candidate\"></i>candidate \u{2212} golden, \
         by size</span> <span><i class=\"stroke average\"></i>its moving average</span> <span><i \
         class=\"area\"></i>golden\u{2019}s own spread</span> <span><i class=\"stroke \
         bound\"></i>allowed</span></p>\n</section>\n",
    );
}

fn spread_words(run: &FreeRun) -> String {
    match (run.perturbed, run.measured_until) {
        (0, _) | (_, None) => "golden\u{2019}s own spread was not measured".to_owned(),
        (copies, Some(until)) => {
            let last = run.steps.last().copied().unwrap_or(0);
            let end = if until < last {
                format!(" up to step {until}, from where it is extrapolated")
            } else {
                String::new()
            };
            let word = if copies == 1 { "copy" } else { "copies" };
            format!("golden\u{2019}s spread was measured with {copies} perturbed {word}{end}")
        }
    }
}

fn losses(page: &mut String, run: &FreeRun) {
    const HEIGHT: f64 = 300.0;
    let (top, base) = (16.0, HEIGHT - BOTTOM);
    let finite = || run.golden.iter().chain(&run.candidate).map(|n| n.0).filter(|x| x.is_finite());
    let most = finite().fold(0.0, f64::max);
    let least = finite().fold(0.0, f64::min);
    let range = if most > least { most - least } else { 1.0 };
    let y = |value: f64| base - (value - least) / range * (base - top);
    let steps = Steps::of(&run.steps);
    open(page, "Loss by step of both passes", HEIGHT);
    for tick in ticks(least, least + range, 5) {
        tick_label(page, y(tick), &tick.to_string());
    }
    steps.axis(page, base);
    // Golden lies below and is wider, so that it is seen where the two are equal.
    for (class, values) in [("curve golden", &run.golden), ("curve candidate", &run.candidate)] {
        let points = run.steps.iter().zip(values).map(|(s, v)| (steps.x(*s), Some(y(v.0))));
        line(page, class, points);
    }
    close(page);
}

fn differences(page: &mut String, run: &FreeRun) {
    const HEIGHT: f64 = 320.0;
    let (top, base) = (16.0, HEIGHT - BOTTOM);
    let difference = |i: usize| (run.candidate[i].0 - run.golden[i].0).abs();
    let count = run.steps.len();
    let values = (0..count).flat_map(|i| [difference(i), run.allowed[i], run.spread[i]]);
    let scale = Log::of(values, top, base);
    let steps = Steps::of(&run.steps);
    open(page, "Difference of the losses by step, and golden\u{2019}s own spread", HEIGHT);
    decades(page, &scale);
    steps.axis(page, base);
    let mut area = String::new();
    for (i, step) in run.steps.iter().enumerate() {
        let verb = if i == 0 { 'M' } else { 'L' };
        let _ = write!(area, "{verb}{:.1} {:.1}", steps.x(*step), scale.y(run.spread[i]));
    }
    if run.perturbed > 0 {
        let (from, to) = (steps.x(run.steps[0]), steps.x(run.steps[count - 1]));
        let _ =
            writeln!(page, "<path class=\"area\" d=\"{area}L{to:.1} {base}L{from:.1} {base}Z\"/>");
    }
    let at = |i: usize| steps.x(run.steps[i]);
    line(page, "bound", (0..count).map(|i| (at(i), Some(scale.y(run.allowed[i])))));
    line(
        page,
        "curve candidate thin",
        (0..count).map(|i| (at(i), Some(difference(i)).filter(|d| *d > 0.0).map(|d| scale.y(d)))),
    );
    line(
        page,
        "curve average",
        (0..count).map(|i| {
            (at(i), Some(run.smoothed[i].0.abs()).filter(|d| *d > 0.0).map(|d| scale.y(d)))
        }),
    );
    for i in (0..count).filter(|i| {
        let difference = difference(*i);
        difference > run.allowed[*i] || difference.is_nan()
    }) {
        let _ = writeln!(
            page,
            "<circle class=\"originates\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>step {}: \
             difference {}, allowed {}</title></circle>",
            at(i),
            scale.y(difference(i)),
            run.steps[i],
            Short(difference(i)),
            Short(run.allowed[i]),
        );
    }
    if let Some(until) =
        run.measured_until.filter(|until| Some(until) != run.steps.last().as_ref().copied())
    {
        let x = steps.x(until);
        let _ = writeln!(
            page,
            "<line class=\"until\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{base}\"/><text \
             x=\"{:.1}\" y=\"{}\">spread extrapolated \u{2192}</text>",
            x + 6.0,
            base - 8.0,
        );
    }
    close(page);
}

/// The largest error of each quantity at each teacher-forced step.
pub(super) fn by_step(page: &mut String, parity: &TrainingParity) {
    const HEIGHT: f64 = 300.0;
    const SHOWN: [(Quantity, &str); 3] = [
        (Quantity::Activations, "activations"),
        (Quantity::Gradients, "gradients"),
        (Quantity::Weights, "weights"),
    ];
    let all: Vec<u64> = parity.forced.iter().map(|step| step.step).collect();
    if all.is_empty() {
        return;
    }
    let series = SHOWN.map(|(quantity, class)| {
        let points: Vec<(u64, f64, f64)> = parity
            .at_steps(quantity)
            .filter_map(|(step, found)| {
                let real = found.tensors.iter().filter(|t| t.rule != Rule::Noise);
                let worst = real.clone().filter_map(|t| t.relative).reduce(f64::max)?;
                let own = real.filter_map(|t| t.golden_to_oracle).fold(0.0, f64::max);
                Some((step, worst, own))
            })
            .collect();
        (class, points)
    });
    let (top, base) = (16.0, HEIGHT - BOTTOM);
    let bound = parity.bounds.gradient_relative;
    let values = series.iter().flat_map(|(_, points)| points.iter().map(|p| p.1)).chain([bound]);
    let scale = Log::of(values, top, base);
    page.push_str(
        "<section>\n<h2>Error by teacher-forced step</h2>\n<p>The largest relative error \
         \u{2016}a\u{2212}b\u{2016}/\u{2016}b\u{2016} among the tensors of each quantity. It \
         should neither grow over the training nor come near the bound of gradients.</p>\n",
    );
    open(page, "Relative error by teacher-forced step", HEIGHT);
    decades(page, &scale);
    let steps = Steps::of(&all);
    steps.axis(page, base);
    let y = scale.y(bound);
    let _ = writeln!(page, "<path class=\"bound\" d=\"M{LEFT} {y:.1}L{} {y:.1}\"/>", WIDTH - RIGHT);
    for (class, points) in &series {
        let place = |p: &(u64, f64, f64)| (steps.x(p.0), Some(scale.y(p.1)));
        line(page, &format!("curve {class}"), points.iter().map(place));
        for point in points {
            let (x, y) = (steps.x(point.0), scale.y(point.1));
            let _ = writeln!(
                page,
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{class} at \
                 step {}: {}; golden\u{2019}s own error {}</title></circle>",
                point.0,
                Short(point.1),
                Short(point.2),
            );
        }
    }
    close(page);
    page.push_str("<p class=\"legend\">");
    for (class, points) in &series {
        if !points.is_empty() {
            let _ = write!(page, "<span><i class=\"stroke {class}\"></i>{class}</span> ");
        }
    }
    page.push_str(
        "<span><i class=\"stroke bound\"></i>bound of gradients</span></p>\n</section>\n",
    );
}

/// Throughput of the blocks, in the order in which they ran.
pub(super) fn blocks(page: &mut String, performance: &Performance) {
    const HEIGHT: f64 = 150.0;
    let passes = [(Pass::Golden, &performance.golden), (Pass::Warpforge, &performance.candidate)];
    let most = passes.iter().flat_map(|(_, p)| &p.samples).copied().fold(0.0, f64::max);
    let count = passes.iter().map(|(_, p)| p.samples.len()).max().unwrap_or(0);
    if most <= 0.0 || count < 2 {
        return;
    }
    let (top, base) = (14.0, HEIGHT - 26.0);
    open(page, "Throughput of the blocks", HEIGHT);
    for tick in ticks(0.0, most, 3) {
        tick_label(page, base - tick / most * (base - top), &tick.to_string());
    }
    let _ = writeln!(
        page,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{base}\" y2=\"{base}\"/>",
        WIDTH - RIGHT
    );
    let slot = ((WIDTH - LEFT - RIGHT) / count as f64).min(90.0);
    for (pass, throughput) in passes {
        let (class, shift) = match pass {
            Pass::Golden => ("golden", 0.12),
            Pass::Warpforge => ("candidate", 0.5),
        };
        for (i, rate) in throughput.samples.iter().enumerate() {
            let height = rate / most * (base - top);
            let _ = writeln!(
                page,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
                 height=\"{height:.1}\" rx=\"1.5\"><title>block {}: {} {}</title></rect>",
                LEFT + (i as f64 + shift) * slot,
                base - height,
                slot * 0.36,
                i + 1,
                Short(*rate),
                super::Esc(&performance.unit),
            );
        }
    }
    let _ = writeln!(
        page,
        "<text class=\"tick\" x=\"{LEFT}\" y=\"{}\">blocks in the order they ran, {}</text>",
        HEIGHT - 6.0,
        super::Esc(&performance.unit)
    );
    close(page);
    page.push_str(
        "<p class=\"legend\"><span><i class=\"stroke golden\"></i>golden</span> <span><i \
         class=\"stroke candidate\"></i>candidate</span></p>\n",
    );
}
