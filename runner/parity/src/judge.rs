//! From two sides to a verdict: tensors are paired by name, compared, and held to the tolerance of
//! their kind.

use std::collections::BTreeSet;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bundle::Side;
use crate::compare::{CompareError, Options, Statistics, Tensor, compare, is_reduced};
use crate::tolerance::{Kind, Tolerances};
use crate::verdict::{Reason, Verdict};

/// What two sides are held to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    pub tolerances: Tolerances,
    /// Golden is expected to hold NaN or infinity.
    pub expect_nonfinite: bool,
}

/// One tensor and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TensorReport {
    pub name: String,
    pub kind: Kind,
    /// Golden's element type, as safetensors names it; the candidate's if golden lacks the tensor.
    pub dtype: String,
    pub shape: Vec<usize>,
    pub verdict: Verdict,
    /// Why it is not a pass.
    pub reasons: Vec<Reason>,
    /// Absent if the sides could not be compared.
    pub statistics: Option<Statistics>,
}

/// The outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parity {
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub summary: String,
    /// Everything that speaks against a pass, the gravest first.
    pub reasons: Vec<Reason>,
    /// Elements compared in all.
    pub elements: u64,
    pub tolerances: Tolerances,
    /// By name.
    pub tensors: Vec<TensorReport>,
}

/// Compares everything two sides have. The oracle may lack tensors; those are judged without it.
pub fn judge(
    golden: &Side,
    candidate: &Side,
    oracle: Option<&Side>,
    settings: &Settings,
) -> Parity {
    let names: BTreeSet<&str> = golden.names().chain(candidate.names()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let judged = names.par_iter().map(|name| {
        let oracle = oracle.and_then(|side| side.entry(name)).map(|(_, tensor)| tensor);
        match (golden.entry(name), candidate.entry(name)) {
            (Some((entry, golden)), Some((_, candidate))) => {
                judge_pair(name, entry.kind, &golden, &candidate, oracle.as_ref(), settings)
            }
            (Some((entry, golden)), None) => {
                let reason = Reason::MissingTensor { tensor: (*name).to_owned() };
                TensorReport::new(name, entry.kind, &golden, vec![reason], None)
            }
            (None, found) => {
                let reason = Reason::ExtraTensor { tensor: (*name).to_owned() };
                let nothing = Tensor { dtype: crate::compare::Dtype::U8, shape: &[0], data: &[] };
                let (kind, tensor) =
                    found.map_or((Kind::Outputs, nothing), |(entry, tensor)| (entry.kind, tensor));
                TensorReport::new(name, kind, &tensor, vec![reason], None)
            }
        }
    });
    Parity::of(judged.collect(), Vec::new(), settings.tolerances)
}

/// Compares one pair.
pub fn judge_pair(
    name: &str,
    kind: Kind,
    golden: &Tensor<'_>,
    candidate: &Tensor<'_>,
    oracle: Option<&Tensor<'_>>,
    settings: &Settings,
) -> TensorReport {
    let options = Options {
        tolerance: settings.tolerances.of(kind),
        oracle_factor: settings.tolerances.oracle.factor,
        expect_nonfinite: settings.expect_nonfinite,
    };
    let mut reasons = Vec::new();
    let tensor = || name.to_owned();
    let mut compared = compare(golden, candidate, oracle, &options);
    if let Some(oracle) = oracle
        && let Err(error @ (CompareError::Oracle(_) | CompareError::Shape { .. })) = &compared
        && golden.shape == candidate.shape
    {
        let why =
            format!("the oracle cannot be used ({:?} {:?}): {error}", oracle.dtype, oracle.shape);
        reasons.push(Reason::OracleUnusable { tensor: tensor(), why });
        compared = compare(golden, candidate, None, &options);
    }
    let statistics = match compared {
        Ok(statistics) => {
            reasons.extend(reasons_of(name, golden, &statistics, settings));
            Some(statistics)
        }
        Err(error) => {
            reasons.push(refusal(name, error));
            None
        }
    };
    TensorReport::new(name, kind, golden, reasons, statistics)
}

fn refusal(name: &str, error: CompareError) -> Reason {
    let tensor = name.to_owned();
    match error {
        CompareError::Shape { golden, other: candidate } => {
            Reason::ShapeDiffers { tensor, golden, candidate }
        }
        CompareError::Dtype { golden, candidate } => Reason::DtypeDiffers {
            tensor,
            golden: format!("{golden:?}"),
            candidate: format!("{candidate:?}"),
        },
        CompareError::Unsupported(dtype) => {
            Reason::UnsupportedDtype { tensor, dtype: format!("{dtype:?}") }
        }
        error @ (CompareError::Size { .. } | CompareError::Oracle(_)) => {
            Reason::Unreadable { path: tensor, why: format!("{name}: {error}") }
        }
    }
}

fn reasons_of(
    name: &str,
    golden: &Tensor<'_>,
    statistics: &Statistics,
    settings: &Settings,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let (tensor, worst) = (|| name.to_owned(), &statistics.worst);
    let counts = statistics.nonfinite;
    let not_finite = counts.different + if settings.expect_nonfinite { 0 } else { counts.same };
    if not_finite > 0 {
        reasons.push(Reason::NonFinite { tensor: tensor(), counts, worst: worst.clone() });
    }
    // Formats that cannot hold the tolerance are judged by the oracle where there is one.
    let by_oracle = is_reduced(golden.dtype) && statistics.oracle.is_some();
    let mismatches = statistics.mismatches - not_finite;
    if mismatches > 0 && !by_oracle {
        // The worst element is the one that is not finite, if there is one.
        let worst = worst.clone().filter(|_| not_finite == 0);
        reasons.push(Reason::ValueMismatch {
            tensor: tensor(),
            mismatches,
            count: statistics.count,
            max_abs: statistics.max_abs,
            worst,
        });
    }
    if let Some(oracle) = statistics.oracle.filter(|oracle| !oracle.holds) {
        reasons.push(Reason::OracleBound {
            tensor: tensor(),
            candidate_rmse: oracle.candidate_rmse,
            bound: oracle.bound,
        });
    }
    reasons
}

impl TensorReport {
    fn new(
        name: &str,
        kind: Kind,
        tensor: &Tensor<'_>,
        reasons: Vec<Reason>,
        statistics: Option<Statistics>,
    ) -> Self {
        let verdicts = reasons.iter().map(Reason::verdict).chain([Verdict::Pass]);
        Self {
            name: name.to_owned(),
            kind,
            dtype: format!("{:?}", tensor.dtype),
            shape: tensor.shape.to_vec(),
            verdict: Verdict::gravest(verdicts),
            reasons,
            statistics,
        }
    }

    /// What to sort by, so that the worst comes first: the verdict, then the share of the
    /// tolerance that is used up.
    pub fn badness(&self) -> (Verdict, f64) {
        let used = |statistics: &Statistics| statistics.tolerance_used.unwrap_or(f64::INFINITY);
        (self.verdict, self.statistics.as_ref().map_or(f64::INFINITY, used))
    }
}

impl Parity {
    /// Sums up tensors, and reasons that belong to none of them.
    pub fn of(tensors: Vec<TensorReport>, more: Vec<Reason>, tolerances: Tolerances) -> Self {
        let elements =
            tensors.iter().filter_map(|t| Some(t.statistics.as_ref()?.count)).sum::<u64>();
        // Sides that were held against each other and do not fit have been compared; names that
        // only one side has, or tensors without elements, have not.
        let alone = |reason: &Reason| {
            matches!(reason, Reason::MissingTensor { .. } | Reason::ExtraTensor { .. })
        };
        let mut of_tensors = tensors.iter().flat_map(|tensor| &tensor.reasons);
        let confronted = elements > 0 || of_tensors.any(|reason| !alone(reason));
        let mut reasons = more;
        if !confronted && reasons.is_empty() {
            reasons.push(Reason::NothingCompared);
        }
        let sorted = worst_first(&tensors).into_iter();
        reasons.extend(sorted.flat_map(|tensor| tensor.reasons.iter().cloned()));
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.verdict()));
        let verdicts = reasons.iter().map(Reason::verdict).chain([Verdict::Pass]);
        let verdict = Verdict::gravest(verdicts);
        let summary = summary(verdict, &reasons, &tensors, elements);
        Self { verdict, summary, reasons, elements, tolerances, tensors }
    }

    /// A verdict without a comparison: a side that cannot be read, a golden that is missing.
    pub fn without_comparison(reason: Reason, tolerances: Tolerances) -> Self {
        Self::of(Vec::new(), vec![reason], tolerances)
    }

    /// Tensors with the worst first.
    pub fn worst_first(&self) -> Vec<&TensorReport> {
        worst_first(&self.tensors)
    }
}

pub(crate) fn worst_first(tensors: &[TensorReport]) -> Vec<&TensorReport> {
    let mut sorted: Vec<&TensorReport> = tensors.iter().collect();
    sorted.sort_by(|a, b| {
        let ((a_verdict, a_used), (b_verdict, b_used)) = (a.badness(), b.badness());
        b_verdict.cmp(&a_verdict).then(b_used.total_cmp(&a_used)).then(a.name.cmp(&b.name))
    });
    sorted
}

fn summary(
    verdict: Verdict,
    reasons: &[Reason],
    tensors: &[TensorReport],
    elements: u64,
) -> String {
    let Some(first) = reasons.first() else {
        let many = |count: u64, what: &str| match count {
            1 => format!("1 {what}"),
            count => format!("{} {what}s", grouped(count)),
        };
        let verb = if tensors.len() == 1 { "agrees" } else { "agree" };
        let (tensors, elements) = (many(tensors.len() as u64, "tensor"), many(elements, "element"));
        return format!("{tensors} with {elements} {verb} within tolerance.");
    };
    let bad = tensors.iter().filter(|tensor| tensor.verdict == verdict).count();
    if bad > 1 {
        format!("{first}; {bad} of {} tensors do not pass.", tensors.len())
    } else {
        format!("{first}.")
    }
}

/// 1234567 as "1 234 567", with a thin space that does not break.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && digits.len() > 4 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Dtype;

    fn pair(golden: &[f32], candidate: &[f32], oracle: Option<&[f64]>) -> TensorReport {
        let bytes = |side: &[f32]| side.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let (g, c, shape) = (bytes(golden), bytes(candidate), [golden.len()]);
        let o: Vec<u8> = oracle.unwrap_or(&[]).iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensor = |data, dtype| Tensor { dtype, shape: &shape, data };
        let oracle = oracle.map(|_| tensor(&o, Dtype::F64));
        let (g, c) = (tensor(&g, Dtype::F32), tensor(&c, Dtype::F32));
        judge_pair("t", Kind::Outputs, &g, &c, oracle.as_ref(), &Settings::default())
    }

    fn labels(report: &TensorReport) -> Vec<&'static str> {
        report.reasons.iter().map(Reason::label).collect()
    }

    #[test]
    fn each_problem_is_its_own_reason() {
        assert!(pair(&[1.0, 2.0], &[1.0, 2.000_001], None).reasons.is_empty());
        assert_eq!(labels(&pair(&[1.0], &[1.1], None)), ["ValueMismatch"]);
        assert_eq!(labels(&pair(&[1.0], &[f32::NAN], None)), ["NonFinite"]);
        assert_eq!(
            labels(&pair(&[1.0, 1.0], &[f32::NAN, 2.0], None)),
            ["NonFinite", "ValueMismatch"]
        );
        // Within the tolerance, and still further from the truth than golden is.
        let found = pair(&[1.0; 4], &[1.0001; 4], Some(&[1.0; 4]));
        assert_eq!(labels(&found), ["OracleBound"]);
        assert_eq!(found.verdict, Verdict::Fail);
    }

    #[test]
    fn reduced_precision_is_judged_by_the_oracle_where_there_is_one() {
        let [g, c] = [0x3f80u16, 0x3f81].map(u16::to_le_bytes);
        let oracle = 1.0039f64.to_le_bytes();
        let tensor = |data, dtype| Tensor { dtype, shape: &[1], data };
        let judged = |oracle: Option<&Tensor<'_>>| {
            let (g, c) = (tensor(&g, Dtype::BF16), tensor(&c, Dtype::BF16));
            judge_pair("t", Kind::Outputs, &g, &c, oracle, &Settings::default())
        };
        assert_eq!(labels(&judged(None)), ["ValueMismatch"]);
        assert!(judged(Some(&tensor(&oracle, Dtype::F64))).reasons.is_empty());
        let unusable = judged(Some(&tensor(&[1; 8], Dtype::I64)));
        assert_eq!(labels(&unusable), ["OracleUnusable", "ValueMismatch"]);
        assert_eq!(unusable.verdict, Verdict::Invalid);
    }

    #[test]
    fn nothing_compared_is_invalid() {
        let of = |tensors| Parity::of(tensors, Vec::new(), Tolerances::default());
        assert_eq!(of(Vec::new()).verdict, Verdict::Invalid);
        // A tensor without elements is no comparison either.
        assert_eq!(of(vec![pair(&[], &[], None)]).reasons, [Reason::NothingCompared]);
        let good = of(vec![pair(&[1.0], &[1.0], None)]);
        assert_eq!(good.verdict, Verdict::Pass);
        assert_eq!(good.summary, "1 tensor with 1 element agrees within tolerance.");
    }

    #[test]
    fn a_missing_golden_is_skipped() {
        let (what, cure) = ("golden needs libtorch".into(), "cargo xtask setup golden".into());
        let what = Reason::Absent { what, cure };
        let found = Parity::without_comparison(what, Tolerances::default());
        assert_eq!(found.verdict, Verdict::Skipped);
        assert_eq!(found.summary, "golden needs libtorch (cargo xtask setup golden).");
    }

    #[test]
    fn the_worst_tensor_comes_first() {
        let mut tensors = vec![
            pair(&[1.0], &[1.0], None),
            pair(&[1.0], &[1.0005], None),
            pair(&[1.0], &[2.0], None),
        ];
        for (tensor, name) in tensors.iter_mut().zip(["equal", "near", "far"]) {
            tensor.name = name.to_owned();
        }
        let parity = Parity::of(tensors, Vec::new(), Tolerances::default());
        let order: Vec<&str> = parity.worst_first().iter().map(|t| t.name.as_str()).collect();
        assert_eq!(order, ["far", "near", "equal"]);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([1, 9999, 12_345].map(grouped), ["1", "9999", "12\u{202f}345"]);
    }
}
