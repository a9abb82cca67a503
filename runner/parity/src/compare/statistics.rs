//! What a comparison found, as it is reported.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::partial::Partial;
use super::{Options, Tensor, Values, is_exact, ulp};

/// |candidate − golden| ≤ atol + rtol · |golden|, as `torch.allclose` has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tolerance {
    pub rtol: f64,
    pub atol: f64,
}

impl Tolerance {
    pub const EXACT: Self = Self { rtol: 0.0, atol: 0.0 };

    /// By how much a value may differ from golden's; of NaN and infinity by the least.
    pub fn allows(self, golden: f64) -> f64 {
        let share = self.rtol * golden.abs();
        if share.is_finite() { self.atol + share } else { self.atol }
    }
}

/// A number that JSON may not have: NaN and the infinities are written as text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub f64);

/// Everything about one pair of tensors. Sums and extremes are over elements that are finite on
/// both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statistics {
    /// Elements compared.
    pub count: u64,
    /// Elements outside the tolerance, or not finite and not the same on both sides.
    pub mismatches: u64,
    /// The tolerance that was applied; zero for integers and booleans.
    pub tolerance: Tolerance,
    /// The largest |candidate − golden|.
    pub max_abs: f64,
    pub mean_abs: f64,
    /// Quantiles of |candidate − golden| from a histogram with 16 parts per octave: at most 6.25 %
    /// too large, never too small.
    pub quantiles: Quantiles,
    /// The largest |candidate − golden| / |golden| where golden is not zero.
    pub max_rel: f64,
    /// Root of the mean squared error.
    pub rmse: f64,
    /// ‖candidate − golden‖ / ‖golden‖; none if golden is zero and the candidate is not.
    pub norm_relative: Option<f64>,
    /// Cosine of the angle between the two as vectors; none if one of them is zero.
    pub cosine: Option<f64>,
    /// 10 · log₁₀(‖golden‖² / ‖candidate − golden‖²); none if they are equal.
    pub sqnr_db: Option<f64>,
    /// Root of the mean square of golden.
    pub golden_rms: f64,
    /// The smallest rtol that would pass with this atol; none if no rtol would.
    pub needed_rtol: Option<f64>,
    /// The smallest atol that would pass with this rtol; none if no atol would, because an element
    /// is not finite.
    pub needed_atol: Option<f64>,
    /// The largest error as a multiple of what the tolerance allows at its element; none if that
    /// is nothing, or an element is not finite.
    pub tolerance_used: Option<f64>,
    /// The element that is furthest outside its tolerance or nearest to it; none if all are equal.
    pub worst: Option<Worst>,
    /// Distances in representable values (ulps): 0, 1, 2, 3-4, 5-8 and so on, up to the last
    /// bucket that is not empty.
    pub ulps: Vec<Bucket>,
    pub nonfinite: NonFiniteCounts,
    /// Present if there was an oracle.
    pub oracle: Option<OracleStatistics>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
}

/// Elements whose distance lies between two numbers of representable values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    pub from: u64,
    pub to: u64,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Worst {
    /// Its number in row-major order.
    pub index: u64,
    /// The same by dimension.
    pub coordinates: Vec<u64>,
    /// Of complex elements the modulus.
    pub golden: Number,
    pub candidate: Number,
}

impl Worst {
    /// The element with this number in a tensor of this shape.
    pub(crate) fn at(index: u64, shape: &[usize], golden: Number, candidate: Number) -> Self {
        Self { index, coordinates: coordinates(index, shape), golden, candidate }
    }
}

/// NaN and infinity. They are equal only if both sides have the same in the same place, and count
/// as equal only if golden is expected to have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NonFiniteCounts {
    pub golden_nan: u64,
    pub golden_infinite: u64,
    pub candidate_nan: u64,
    pub candidate_infinite: u64,
    /// Elements where both sides have the same.
    pub same: u64,
    /// Elements where they do not.
    pub different: u64,
}

impl NonFiniteCounts {
    pub fn any(&self) -> bool {
        self.same + self.different > 0
    }
}

/// Both sides against a float64 evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OracleStatistics {
    pub golden_rmse: f64,
    pub candidate_rmse: f64,
    /// Norm-relative errors: ‖side − oracle‖ / ‖oracle‖.
    pub golden_relative: Option<f64>,
    pub candidate_relative: Option<f64>,
    /// One unit in the last place of the tensor's type at the oracle's rms.
    pub ulp: f64,
    /// factor × golden's RMSE + one ulp.
    pub bound: f64,
    /// Whether the candidate's RMSE keeps the bound.
    pub holds: bool,
}

pub(super) fn finish(
    partial: &Partial,
    values: &Values<'_>,
    golden: &Tensor<'_>,
    tolerance: Tolerance,
    options: &Options,
) -> Statistics {
    let (records, bad) = (&partial.records, &partial.nonfinite);
    let finite = partial.finite();
    // Sums over float64 values of absurd size may overflow; JSON has no infinity.
    let mean = |sum: f64| if finite == 0 { 0.0 } else { (sum / finite as f64).min(f64::MAX) };
    let root = |squares: f64| mean(squares).sqrt();
    let different = bad.elements - bad.same;
    let not_finite = if options.expect_nonfinite { different } else { bad.elements };
    // No tolerance makes NaN equal.
    let attainable = |value: f64| Some(value).filter(|v| v.is_finite() && not_finite == 0);
    Statistics {
        count: partial.count,
        mismatches: partial.mismatches + not_finite,
        tolerance,
        max_abs: records.error,
        mean_abs: mean(partial.error),
        quantiles: Quantiles {
            p50: partial.quantile(0.5),
            p90: partial.quantile(0.9),
            p99: partial.quantile(0.99),
            p99_9: partial.quantile(0.999),
        },
        max_rel: records.relative.min(f64::MAX),
        rmse: root(partial.error_squared),
        norm_relative: ratio(partial.error_squared, partial.golden_squared).map(f64::sqrt),
        cosine: cosine(partial),
        sqnr_db: decibels(partial),
        golden_rms: root(partial.golden_squared),
        needed_rtol: attainable(records.rtol),
        needed_atol: attainable(records.atol),
        tolerance_used: attainable(records.used),
        worst: worst(partial, values, golden.shape, options),
        ulps: buckets(partial),
        nonfinite: NonFiniteCounts {
            golden_nan: bad.golden_nan,
            golden_infinite: bad.golden_infinite,
            candidate_nan: bad.candidate_nan,
            candidate_infinite: bad.candidate_infinite,
            same: bad.same,
            different,
        },
        oracle: oracle(partial, golden, options),
    }
}

/// 0 / 0 is no error; anything else over 0 has no meaning.
fn ratio(part: f64, whole: f64) -> Option<f64> {
    match (part, whole) {
        (0.0, 0.0) => Some(0.0),
        (_, 0.0) => None,
        _ => Some(part / whole).filter(|ratio| ratio.is_finite()),
    }
}

fn cosine(partial: &Partial) -> Option<f64> {
    if partial.error_squared == 0.0 && partial.golden_squared > 0.0 {
        return Some(1.0);
    }
    let norms = partial.golden_squared.sqrt() * partial.candidate_squared.sqrt();
    let cosine = partial.dot / norms;
    cosine.is_finite().then(|| cosine.clamp(-1.0, 1.0))
}

fn decibels(partial: &Partial) -> Option<f64> {
    let decibels = 10.0 * (partial.golden_squared / partial.error_squared).log10();
    decibels.is_finite().then_some(decibels)
}

fn worst(
    partial: &Partial,
    values: &Values<'_>,
    shape: &[usize],
    options: &Options,
) -> Option<Worst> {
    let (records, bad) = (&partial.records, &partial.nonfinite);
    let unexpected = bad.same_at.filter(|_| !options.expect_nonfinite);
    // Where the tolerance allows nothing at all, every error is beyond it without measure.
    let by_tolerance = records.used > 0.0 && records.used.is_finite();
    let largest = if by_tolerance { records.used_at } else { records.error_at };
    let finite = (records.error > 0.0).then_some(largest);
    let index = bad.different_at.or(unexpected).or(finite)?;
    let [golden, candidate] = values(index).map(Number);
    Some(Worst { index, coordinates: coordinates(index, shape), golden, candidate })
}

fn coordinates(index: u64, shape: &[usize]) -> Vec<u64> {
    let mut rest = index;
    let mut reversed: Vec<u64> = Vec::with_capacity(shape.len());
    for dim in shape.iter().rev() {
        let dim = (*dim as u64).max(1);
        reversed.push(rest % dim);
        rest /= dim;
    }
    reversed.reverse();
    reversed
}

fn buckets(partial: &Partial) -> Vec<Bucket> {
    let last = partial.buckets.iter().rposition(|count| *count > 0);
    let filled = last.map_or(0, |last| last + 1);
    let bounds = |bucket: usize| match bucket {
        0 => (0, 0),
        1 => (1, 1),
        65 => ((1 << 63) + 1, u64::MAX),
        _ => ((1u64 << (bucket - 2)) + 1, 1 << (bucket - 1)),
    };
    (0..filled)
        .map(|bucket| {
            let (from, to) = bounds(bucket);
            Bucket { from, to, count: partial.buckets[bucket] }
        })
        .collect()
}

fn oracle(partial: &Partial, golden: &Tensor<'_>, options: &Options) -> Option<OracleStatistics> {
    let sums = &partial.oracle;
    if sums.count == 0 || is_exact(golden.dtype) {
        return None;
    }
    let root = |squares: f64| (squares / sums.count as f64).min(f64::MAX).sqrt();
    let (golden_rmse, candidate_rmse) = (root(sums.golden), root(sums.candidate));
    let ulp = ulp(golden.dtype, root(sums.oracle))?;
    let bound = (options.oracle_factor * golden_rmse + ulp).min(f64::MAX);
    Some(OracleStatistics {
        golden_rmse,
        candidate_rmse,
        golden_relative: ratio(sums.golden, sums.oracle).map(f64::sqrt),
        candidate_relative: ratio(sums.candidate, sums.oracle).map(f64::sqrt),
        ulp,
        bound,
        holds: candidate_rmse <= bound,
    })
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            x if x.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            x => serializer.serialize_f64(x),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(x) => Ok(Self(x)),
            Written::Text(text) => match text.as_str() {
                "NaN" => Ok(Self(f64::NAN)),
                "Infinity" => Ok(Self(f64::INFINITY)),
                "-Infinity" => Ok(Self(f64::NEG_INFINITY)),
                _ => Err(serde::de::Error::custom(format!("{text:?} is no number"))),
            },
        }
    }
}

impl JsonSchema for Number {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number, or the text NaN, Infinity or -Infinity.",
            "anyOf": [
                { "type": "number" },
                { "enum": ["NaN", "Infinity", "-Infinity"] },
            ],
        })
    }
}
