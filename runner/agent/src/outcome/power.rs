//! The power that was drawn while a pass ran, as the report has it.
//!
//! The report's own timeline is read, and not the bundle's `timeline.json`: that has times of day
//! only, and what ran when is known in seconds from the run's start, as are the report's points.

use std::iter::once;

use warpforge_parity::performance::Pass;
use warpforge_parity::report::{Series, Span, Timeline, WATTS};

/// How the names of a GPU's figures begin.
const GPU: &str = "GPU ";

/// The mean power of all GPUs together in the time that the report gives to a pass; `None` where
/// nobody saw any. A golden that was brought, or made by another child, was not watched: its power
/// is that of the timing beside Pass 2, if there was one.
pub(super) fn mean_watts(timeline: &Timeline, pass: Pass) -> Option<f64> {
    let within = within(timeline, pass);
    let power = timeline.series.iter().filter(|series| is_power(series));
    // The sum of the means, not the mean of the sums: where one GPU could not be read for a
    // moment, a sum of the others would be too small.
    power.filter_map(|series| mean(series, &within)).reduce(|sum, watts| sum + watts)
}

fn is_power(series: &Series) -> bool {
    series.unit == WATTS && series.name.starts_with(GPU)
}

/// Of each point, whether all that it tells of lies in the pass. A long run's points are means of
/// several looks, the first of which came an interval after the point before; one that begins in
/// one pass and ends in the other says nothing of either.
fn within(timeline: &Timeline, pass: Pass) -> Vec<bool> {
    let spans: Vec<&Span> = timeline.spans.iter().filter(|span| span.pass == Some(pass)).collect();
    let before = once(0.0).chain(timeline.seconds.iter().copied());
    let is_within = |(before, last): (f64, f64)| {
        let first = last.min(before + timeline.interval_seconds);
        // A look tells of the time up to it, as in the monitor's own summaries.
        spans.iter().any(|span| span.from_seconds < first && last <= span.to_seconds)
    };
    before.zip(timeline.seconds.iter().copied()).map(is_within).collect()
}

fn mean(series: &Series, within: &[bool]) -> Option<f64> {
    let points = series.values.iter().zip(within);
    let known: Vec<f64> = points.filter_map(|(value, within)| value.filter(|_| *within)).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Option<f64> = None;

    fn series(name: &str, unit: &str, values: &[Option<f64>]) -> Series {
        Series { name: name.into(), unit: unit.into(), values: values.to_vec() }
    }

    fn span(pass: Option<Pass>, from_seconds: f64, to_seconds: f64) -> Span {
        Span { name: "x".into(), pass, from_seconds, to_seconds }
    }

    fn timeline(seconds: &[f64], series: Vec<Series>, spans: Vec<Span>) -> Timeline {
        Timeline {
            interval_seconds: 1.0,
            seconds: seconds.to_vec(),
            series,
            spans,
            missing: Vec::new(),
            overhead_percent: 0.0,
        }
    }

    fn watts(timeline: &Timeline) -> (Option<f64>, Option<f64>) {
        (mean_watts(timeline, Pass::Golden), mean_watts(timeline, Pass::Warpforge))
    }

    #[test]
    fn power_is_that_of_all_gpus_while_the_pass_ran() {
        let seconds = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        // Golden has the looks at 2, 3 and 7, WarpForge those at 4, 5 and 6.
        let spans = vec![
            span(None, 0.0, 1.5),
            span(Some(Pass::Golden), 1.5, 3.5),
            span(Some(Pass::Warpforge), 3.5, 6.5),
            span(Some(Pass::Golden), 6.5, 7.5),
            span(None, 7.5, 8.5),
        ];
        let all = |values: [f64; 8]| values.map(Some);
        let first =
            series("GPU 0 power", "W", &all([9e3, 100.0, 200.0, 300.0, 400.0, 500.0, 300.0, 9e3]));
        let second =
            series("GPU 1 power", "W", &all([9e3, 10.0, 20.0, 30.0, 40.0, 50.0, 30.0, 9e3]));
        let mut gaps = second.clone();
        gaps.values[1..5].fill(GAP);
        let mut outside = second.clone();
        outside.values[1..7].fill(GAP);
        let load = series("GPU 0", "%", &all([50.0; 8]));
        let other = series("package", "W", &all([50.0; 8]));
        let cases = [
            ("one", vec![first.clone()], (Some(200.0), Some(400.0))),
            ("two", vec![first.clone(), second], (Some(220.0), Some(440.0))),
            ("gaps", vec![first.clone(), gaps], (Some(230.0), Some(450.0))),
            ("none in a pass", vec![first.clone(), outside.clone()], (Some(200.0), Some(400.0))),
            ("only outside", vec![outside], (None, None)),
            ("never read", vec![series("GPU 0 power", "W", &[GAP; 8])], (None, None)),
            ("no power of a GPU", vec![load.clone(), other.clone()], (None, None)),
            ("others beside", vec![load, first, other], (Some(200.0), Some(400.0))),
            ("too few", vec![series("GPU 0 power", "W", &[GAP, Some(7.0)])], (Some(7.0), None)),
            ("no GPU", vec![], (None, None)),
        ];
        for (name, series, wanted) in cases {
            assert_eq!(watts(&timeline(&seconds, series, spans.clone())), wanted, "{name}");
        }
    }

    #[test]
    fn without_points_or_passes_there_is_none() {
        let golden = || vec![span(Some(Pass::Golden), 0.0, 9.0)];
        let power = |values: &[Option<f64>]| vec![series("GPU 0 power", "W", values)];
        assert_eq!(watts(&timeline(&[], power(&[]), golden())), (None, None));
        assert_eq!(watts(&timeline(&[1.0], power(&[Some(5.0)]), vec![])), (None, None));
        assert_eq!(watts(&timeline(&[1.0], power(&[Some(5.0)]), golden())), (Some(5.0), None));
    }

    #[test]
    fn a_look_belongs_to_what_ran_before_it() {
        let spans = vec![span(Some(Pass::Golden), 0.0, 1.0), span(Some(Pass::Warpforge), 1.0, 2.0)];
        let power = vec![series("GPU 0 power", "W", &[Some(100.0), Some(200.0)])];
        assert_eq!(watts(&timeline(&[1.0, 2.0], power, spans)), (Some(100.0), Some(200.0)));
    }

    #[test]
    fn a_point_of_both_passes_counts_for_neither() {
        let spans =
            vec![span(Some(Pass::Golden), 0.5, 6.0), span(Some(Pass::Warpforge), 6.0, 12.0)];
        // Four looks each: at 1 to 4, 5 to 8 and 9 to 12.
        let power = vec![series("GPU 0 power", "W", &[Some(100.0), Some(200.0), Some(300.0)])];
        assert_eq!(watts(&timeline(&[4.0, 8.0, 12.0], power, spans)), (Some(100.0), Some(300.0)));
    }
}
