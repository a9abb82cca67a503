//! What a run measured, in numbers that a graph can show.

use std::collections::{BTreeMap, BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::data::Pass;

/// The most metrics of a pass. A termination message has little room.
pub const METRICS: usize = 4;
/// The most benchmarks that a figure is told of, for the same reason.
pub const BENCHMARKS: usize = 16;

/// The figures of a run's report. They are in the worker's last message, too, so that the operator
/// can tell of them without any right to read the object store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// The class of the hardware that speed was measured on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub hardware: String,
    /// Of the pass by PyTorch itself.
    #[serde(default, skip_serializing_if = "PassResults::is_empty")]
    pub golden: PassResults,
    /// Of the pass by WarpForge.
    #[serde(default, skip_serializing_if = "PassResults::is_empty")]
    pub warpforge: PassResults,
    /// WarpForge's throughput as a multiple of golden's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Figure>,
    /// The largest error of a comparison as a multiple of what is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_error: Option<Figure>,
    /// Operations that did not run where they should have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub fallbacks: Option<i64>,
    /// Of a suite's benchmarks, the figure that stands for each; the report has all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = BENCHMARKS))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub benchmarks: Vec<BenchmarkFigure>,
}

/// The figure that stands for a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BenchmarkFigure {
    /// The benchmark.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Which of its figures.
    #[schemars(length(max = 63))]
    pub metric: String,
    /// The median of its samples.
    pub value: Figure,
    /// What it is counted in.
    #[schemars(length(max = 16))]
    pub unit: String,
}

impl BenchmarkFigure {
    fn is_valid(&self) -> bool {
        let fits = |text: &str, most| text.chars().count() <= most;
        fits(&self.name, 63)
            && fits(&self.metric, 63)
            && fits(&self.unit, 16)
            && self.value.is_valid()
    }
}

/// The figures of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassResults {
    /// Samples a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Figure>,
    /// The loss of the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Figure>,
    /// Mean power of all devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<Figure>,
    /// F1, exact match and the like.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "metrics")]
    pub metrics: BTreeMap<String, Figure>,
}

fn metrics(generator: &mut SchemaGenerator) -> Schema {
    bounds::map(METRICS as u32, &generator.subschema_for::<Figure>())
}

/// A finite number as text: the API conventions allow no floats, which clients would round each in
/// its own way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figure(String);

impl Figure {
    /// Six digits of it; `None` for what is not finite.
    pub fn new(value: f64) -> Option<Self> {
        value.is_finite().then(|| Self(format!("{value:.5e}")))
    }

    /// Whether it is what [`new`](Self::new) writes, or as short and as plain.
    fn is_valid(&self) -> bool {
        let plain = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        // Rust also reads `.5` and `5.`, which the definition's pattern does not let through.
        let edges = self.0.trim_start_matches('-');
        let whole = edges.starts_with(|c: char| c.is_ascii_digit())
            && edges.ends_with(|c: char| c.is_ascii_digit())
            && !edges.contains(".e")
            && !edges.contains(".E");
        self.0.len() <= 32 && self.0.chars().all(plain) && whole && self.value().is_some()
    }

    /// `None` where an object holds what this version does not understand.
    pub fn value(&self) -> Option<f64> {
        self.0.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

impl JsonSchema for Figure {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Figure".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?$",
            "maxLength": 32,
        })
    }
}

impl PassResults {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn figures(&self) -> impl Iterator<Item = &Figure> {
        let own = [&self.throughput, &self.loss, &self.power_watts];
        own.into_iter().flatten().chain(self.metrics.values())
    }

    /// Notes a metric, if there is room and it is a number.
    pub fn metric(&mut self, name: &str, value: f64) {
        let fits = self.metrics.len() < METRICS && name.len() <= 32;
        if let Some(figure) = Figure::new(value).filter(|_| fits) {
            self.metrics.insert(name.to_owned(), figure);
        }
    }
}

impl Results {
    /// Whether a status may hold them: they come from a pod, and one that breaks a bound would keep
    /// the verdict from being stored.
    pub fn is_valid(&self) -> bool {
        let figures = [&self.ratio, &self.worst_error].into_iter().flatten();
        let passes = [&self.golden, &self.warpforge];
        self.hardware.chars().count() <= 63
            && self.fallbacks.is_none_or(|count| count >= 0)
            && figures.chain(passes.iter().flat_map(|pass| pass.figures())).all(Figure::is_valid)
            && passes.iter().all(|pass| pass.metrics.len() <= METRICS)
            && passes.iter().all(|pass| pass.metrics.keys().all(|name| name.len() <= 32))
            && self.benchmarks.len() <= BENCHMARKS
            && self.benchmarks.iter().all(BenchmarkFigure::is_valid)
            && self.tells_each_once()
    }

    /// A list that is keyed by name holds every name once.
    fn tells_each_once(&self) -> bool {
        let names: BTreeSet<_> = self.benchmarks.iter().map(|figure| &figure.name).collect();
        names.len() == self.benchmarks.len()
    }

    /// Notes a benchmark's figure, if there is room and it is a number.
    pub fn benchmark(&mut self, name: &str, metric: &str, value: f64, unit: &str) {
        let Some(value) = Figure::new(value) else { return };
        let (name, metric, unit) = (name.to_owned(), metric.to_owned(), unit.to_owned());
        let known = self.benchmarks.iter().any(|figure| figure.name == name);
        let figure = BenchmarkFigure { name, metric, value, unit };
        if !known && self.benchmarks.len() < BENCHMARKS && figure.is_valid() {
            self.benchmarks.push(figure);
        }
    }

    pub fn of(&self, pass: Pass) -> &PassResults {
        match pass {
            Pass::Golden => &self.golden,
            Pass::Warpforge => &self.warpforge,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_a_short_number_that_reads_back() {
        for value in [0.0, -1.5, 96.963_501_498_501_5, 1e-300, f64::MIN, f64::MAX, 3863.0] {
            let figure = Figure::new(value).unwrap();
            assert!(figure.0.len() <= 14, "{}", figure.0);
            let read = figure.value().unwrap();
            assert!((read - value).abs() <= value.abs() * 1e-5, "{value} became {read}");
        }
        assert_eq!(Figure::new(f64::NAN).or(Figure::new(f64::INFINITY)), None);
    }

    #[test]
    fn what_a_status_cannot_hold_is_found() {
        let figure = |text: &str| Some(Figure(text.to_owned()));
        for text in ["1", "-1.5", "9.69635e1", "0.00000e0", "1e-300"] {
            let results = Results { ratio: figure(text), ..Results::default() };
            assert!(results.is_valid(), "{text}");
        }
        for text in ["NaN", "inf", "", "1.", ".5", "+1", "1e", "1.e5", "0x1", "1 ", "--1"] {
            let mut results = Results::default();
            results.golden.loss = figure(text);
            assert!(!results.is_valid(), "{text}");
        }
        assert!(!Results { hardware: "h".repeat(64), ..Results::default() }.is_valid());
        assert!(!Results { fallbacks: Some(-1), ..Results::default() }.is_valid());
        let mut results = Results::default();
        for number in 0..=METRICS {
            results.golden.metrics.insert(number.to_string(), Figure("1".to_owned()));
        }
        assert!(!results.is_valid());
    }

    #[test]
    fn of_benchmarks_only_what_fits_is_told_and_each_once() {
        let mut results = Results::default();
        for number in 0..2 * BENCHMARKS {
            results.benchmark(&format!("b{number}"), "bandwidth", f64::NAN, "GB/s");
            results.benchmark(&format!("b{number}"), "bandwidth", 1.0, &"u".repeat(17));
            results.benchmark(&format!("b{number}"), "bandwidth", 1.0, "GB/s");
            results.benchmark(&format!("b{number}"), "iops", 1.0, "IOPS");
        }
        assert_eq!(results.benchmarks.len(), BENCHMARKS);
        assert!(results.is_valid());
        results.benchmarks[1] = results.benchmarks[0].clone();
        assert!(!results.is_valid());
    }

    #[test]
    fn there_is_room_for_so_many_metrics() {
        let mut pass = PassResults::default();
        for number in 0..10 {
            pass.metric(&format!("m{number}"), f64::from(number));
        }
        pass.metric(&"x".repeat(33), 1.0);
        assert_eq!(pass.metrics.len(), METRICS);
    }
}
