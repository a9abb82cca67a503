//! What charts have in common: their width, round numbers beside them, and lines.

use std::fmt::Write as _;

pub(super) const WIDTH: f64 = 920.0;
pub(super) const LEFT: f64 = 58.0;
pub(super) const RIGHT: f64 = 14.0;

/// Round numbers between two, at most about so many.
pub(super) fn ticks(from: f64, to: f64, most: usize) -> Vec<f64> {
    let rough = (to - from) / most as f64;
    let unit = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * unit).into_iter().find(|s| *s >= rough);
    let step = step.unwrap_or(10.0 * unit);
    if !step.is_finite() || step <= 0.0 {
        return Vec::new();
    }
    let first = (from / step).ceil() as i64;
    let tick = |i: i64| i as f64 * step;
    (first..first + 4 * most as i64).map(tick).take_while(|x| *x <= to * (1.0 + 1e-9)).collect()
}

/// A line through points; where one has no height, it is broken.
pub(super) fn line(
    page: &mut String,
    class: &str,
    points: impl Iterator<Item = (f64, Option<f64>)>,
) {
    let mut path = String::new();
    let mut down = false;
    for (x, y) in points {
        if let Some(y) = y.filter(|y| y.is_finite()) {
            let _ = write!(path, "{}{x:.1} {y:.1}", if down { 'L' } else { 'M' });
        }
        down = y.is_some_and(f64::is_finite);
    }
    if !path.is_empty() {
        let _ = writeln!(page, "<path class=\"{class}\" d=\"{path}\"/>");
    }
}

pub(super) fn open(page: &mut String, label: &str, height: f64) {
    let _ = write!(
        page,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n<svg \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\">\n"
    );
}

pub(super) fn close(page: &mut String) {
    page.push_str("</svg>\n</div>\n");
}

pub(super) fn tick_label(page: &mut String, y: f64, text: &str) {
    let _ = writeln!(
        page,
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text \
         class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
        WIDTH - RIGHT,
        LEFT - 8.0,
        y + 4.0,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 239.0, 8), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(ticks(0.0, 3.7, 5), [0.0, 1.0, 2.0, 3.0]);
        assert!(ticks(0.0, 0.0, 5).is_empty());
        assert!(ticks(0.0, 1e9, 8).len() <= 9);
    }
}
