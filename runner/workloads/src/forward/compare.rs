//! The three sides held against each other: outputs, what was changed in place, intermediates.

use std::collections::HashMap;
use std::path::Path;

use warpforge_parity::bundle;
use warpforge_parity::compare::{Dtype, Tensor};
use warpforge_parity::file::TensorFile;
use warpforge_parity::judge::{Parity, Settings, TensorReport, judge_pair};
use warpforge_parity::localise::{Bounds, Measured, Node, ToOracle, localise};
use warpforge_parity::report::{OracleInfo, OracleScope, Report};
use warpforge_parity::tolerance::Kind;
use warpforge_parity::verdict::{Reason, Verdict};
use warpforge_pt2::Arg;
use warpforge_snakeburger::ir::{DType, TensorTy};
use warpforge_snakegrinder as snakegrinder;

use super::{BUFFERS, Golden, INPUTS, Prepared, Request, title};
use crate::error::Error;
use crate::isolate::{Isolation, norm_relative, read};
use crate::pass::{self, Options as PassOptions};
use crate::program::{Tap, sources};
use crate::repro;

/// One file of the three sides.
struct Sides {
    golden: Option<TensorFile>,
    candidate: Option<TensorFile>,
    oracle: Option<TensorFile>,
}

impl Sides {
    fn open(out: &Path, name: &str) -> Result<Self, Error> {
        let open = |side: &str| -> Result<Option<TensorFile>, Error> {
            let path = out.join(side).join(name);
            if path.exists() { Ok(Some(TensorFile::open(&path)?)) } else { Ok(None) }
        };
        Ok(Self {
            golden: open(bundle::GOLDEN)?,
            candidate: open(bundle::WARPFORGE)?,
            oracle: open(bundle::ORACLE)?,
        })
    }

    /// Every name of either side, strictly paired.
    fn judge_all(&self, kind: Kind, prefix: &str, settings: &Settings) -> Vec<TensorReport> {
        let names =
            |file: &Option<TensorFile>| file.as_ref().map(TensorFile::names).unwrap_or_default();
        let mut all = names(&self.golden);
        all.extend(names(&self.candidate));
        all.sort_unstable();
        all.dedup();
        all.iter().map(|name| self.judge(name, kind, prefix, settings)).collect()
    }

    fn judge(&self, name: &str, kind: Kind, prefix: &str, settings: &Settings) -> TensorReport {
        let label = format!("{prefix}{name}");
        let [golden, candidate, oracle] = [&self.golden, &self.candidate, &self.oracle]
            .map(|file| file.as_ref().and_then(|file| file.tensor(name)));
        let (golden, candidate) = match (golden, candidate) {
            (Some(golden), Some(candidate)) => (golden, candidate),
            (Some(_), None) => return absent(kind, Reason::MissingTensor { tensor: label }),
            (None, _) => return absent(kind, Reason::ExtraTensor { tensor: label }),
        };
        // Infinity that float64 has too is what the model means, such as a mask's; inside the
        // model golden itself is the witness, as masks overflow on purpose.
        let meant = kind == Kind::Activations
            || oracle.as_ref().is_some_and(|oracle| {
                let count = nonfinite(oracle);
                count > 0 && count == nonfinite(&golden)
            });
        let expect_nonfinite = settings.expect_nonfinite || meant;
        let settings = Settings { expect_nonfinite, ..*settings };
        judge_pair(&label, kind, &golden, &candidate, oracle.as_ref(), &settings)
    }
}

/// How many elements are NaN or infinite.
fn nonfinite(tensor: &Tensor<'_>) -> usize {
    let exponent = |bytes: &[u8], mask: u64| {
        let mut wide = [0u8; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide) & mask == mask
    };
    let (size, mask) = match tensor.dtype {
        Dtype::F64 => (8, 0x7ff0_0000_0000_0000),
        Dtype::F32 => (4, 0x7f80_0000),
        Dtype::BF16 => (2, 0x7f80),
        Dtype::F16 => (2, 0x7c00),
        _ => return 0,
    };
    tensor.data.chunks_exact(size).filter(|bytes| exponent(bytes, mask)).count()
}

/// A tensor that only one side has.
fn absent(kind: Kind, reason: Reason) -> TensorReport {
    TensorReport {
        name: reason.tensor().unwrap_or_default().to_owned(),
        kind,
        dtype: String::new(),
        shape: Vec::new(),
        verdict: reason.verdict(),
        reasons: vec![reason],
        statistics: None,
    }
}

/// Compares what the passes wrote down, and finds the first node that went wrong.
pub(super) fn compare(
    request: &Request,
    prepared: &Prepared,
    golden: &Golden,
) -> Result<Report, Error> {
    let settings = &request.settings;
    if !golden.outcome.own_random.is_empty() {
        let drawn: Vec<&str> = golden.outcome.own_random.keys().map(String::as_str).collect();
        let why = format!(
            "golden drew from libtorch's own generator in {}, which Pass 2 cannot repeat",
            drawn.join(", ")
        );
        let parity = Parity::without_comparison(Reason::Undecided { why }, settings.tolerances);
        return Ok(Report::new(title(request), parity));
    }
    let outputs = Sides::open(&request.out, bundle::OUTPUTS)?;
    let buffers = Sides::open(&request.out, BUFFERS)?;
    let inputs = Sides::open(&request.out, INPUTS)?;
    let mut judged = outputs.judge_all(Kind::Outputs, "", settings);
    // A number among the outputs was fixed at export; golden writes it down all the same.
    let is_number = |name: &str| {
        let output = prepared.model.outputs.iter().find(|output| *output.name == *name);
        output.is_some_and(|output| !matches!(output.arg, Arg::Value(_)))
    };
    judged.retain(|tensor| !is_number(&tensor.name));
    judged.extend(buffers.judge_all(Kind::Weights, "buffers/", settings));
    judged.extend(inputs.judge_all(Kind::Outputs, "inputs/", settings));
    let narrow = narrowest(prepared);
    let forgive = |report: TensorReport| forgive(report, &narrow, settings);
    judged = judged.into_iter().map(forgive).collect();
    let activations = Sides::open(&request.out, &bundle::activations(0))?;
    let taps = &prepared.signature.taps;
    let mut layers = Vec::with_capacity(taps.len());
    for tap in taps {
        let known =
            activations.golden.as_ref().is_some_and(|file| file.tensor(&tap.name).is_some());
        let report = known
            .then(|| activations.judge(&tap.name, Kind::Activations, "activations/", settings))
            .map(forgive);
        layers.push(report);
    }
    judged.extend(layers.iter().flatten().cloned());
    let mut more = Vec::new();
    if golden.outcome.reproduced == Some(false) {
        let why = "golden gave other results when it ran again".into();
        more.push(Reason::UnstableReference { why });
    }
    if golden.has_oracle && request.program.is_none() {
        more.extend(lowering(request, prepared, &outputs)?);
    }
    let parity = Parity::of(judged, more, settings.tolerances);
    let failed = parity.verdict == Verdict::Fail;
    let (nodes, measured) = walk(prepared, &layers);
    let bounds = bounds(prepared, failed);
    let mut isolation = Isolation::new(
        &prepared.module,
        &prepared.model,
        &prepared.inputs,
        &prepared.signature,
        &activations.golden,
        request.seed,
    );
    let localised = localise(&nodes, &measured, &bounds, &mut |node: usize| isolation.error(node));
    let mut report = Report::new(title(request), parity);
    let first = localised.first;
    report = report.with_layers(localised);
    if !failed {
        report.first_divergence = None;
    }
    if let (true, Some(first)) = (failed, first)
        && let Some(found) = &mut report.first_divergence
        && let Some(tap) = taps.get(first)
    {
        found.repro = repro::write(request, &isolation, tap, &activations.candidate)?;
    }
    if golden.has_oracle {
        report.oracle = Some(OracleInfo {
            source: format!("libtorch {} in float64 on the same graph", golden.hello.libtorch),
            scope: OracleScope::Whole,
        });
    }
    Ok(report)
}

/// In float64 the program must give what libtorch gives, to within this share of the norm.
const LOWERING: f64 = 1e-10;

/// Runs the model lowered in float64 and names the outputs that differ from libtorch's.
fn lowering(request: &Request, prepared: &Prepared, outputs: &Sides) -> Result<Vec<Reason>, Error> {
    let wide = prepared.model.widened()?;
    let program = snakegrinder::lower(&wide)?;
    let options = PassOptions { seed: request.seed, step: 0, taps: None };
    let outcome = pass::run(program.module.module(), &wide, &prepared.inputs, &options)?;
    let mut reasons = Vec::new();
    for (name, tensor) in &outcome.outputs {
        let golden = outputs.oracle.as_ref().and_then(|file| read(file, name));
        let relative = golden.and_then(|golden| norm_relative(tensor, &golden));
        if let Some(relative) =
            relative.filter(|relative| relative.is_nan() || *relative > LOWERING)
        {
            reasons.push(Reason::LoweringDiffers { tensor: name.clone(), relative });
        }
    }
    Ok(reasons)
}

/// By the taps' names, the spacing of the narrowest format that a value was computed from. A
/// float32 that comes from bfloat16 carries its rounding.
fn narrowest(prepared: &Prepared) -> HashMap<String, f64> {
    let mut found: HashMap<_, f64> = HashMap::new();
    let Some(graph) = prepared.graph() else { return HashMap::new() };
    let taps = &prepared.signature.taps;
    let mut named = HashMap::new();
    for (tap, from) in taps.iter().zip(sources(graph, taps)) {
        let own = |value| spacing(prepared.module.value_ty(graph, value).as_tensor());
        let before = from.iter().map(|value| found.get(value).copied().unwrap_or(own(*value)));
        let epsilon = before.fold(own(tap.value), f64::max);
        found.insert(tap.value, epsilon);
        named.insert(tap.name.clone(), epsilon);
    }
    named
}

/// The distance of neighbours at one, for formats narrower than float32.
fn spacing(ty: Option<&TensorTy>) -> f64 {
    match ty.map(|ty| ty.elem.storage()) {
        Some(DType::BF16) => 1.0 / 128.0,
        Some(DType::F16) => 1.0 / 1024.0,
        _ => 0.0,
    }
}

/// A tensor as near to the oracle as golden's own error allows has not diverged, even where single
/// elements miss the tolerance: in deep models float32 itself does.
fn forgive(
    mut report: TensorReport,
    narrow: &HashMap<String, f64>,
    settings: &Settings,
) -> TensorReport {
    let Some(all) = &report.statistics else { return report };
    let name = report.name.rsplit('/').next().unwrap_or(&report.name);
    let epsilon = narrow.get(name).copied().unwrap_or(0.0);
    let factor = settings.tolerances.oracle.factor;
    let holds = all.oracle.is_some_and(|oracle| {
        let bound = factor * oracle.golden_rmse + epsilon * all.golden_rms;
        oracle.holds || (report.dtype == "F32" && oracle.candidate_rmse <= bound)
    });
    // Inside the model either proof is enough: most intermediates are judged, and a bound of one
    // ulp beyond golden's own luck is missed by some of them.
    let close = report.kind == Kind::Activations && report.dtype == "F32" && all.mismatches == 0;
    if holds || close {
        report.reasons.retain(|reason| {
            !matches!(reason, Reason::ValueMismatch { .. } if holds)
                && !matches!(reason, Reason::OracleBound { .. } if close || holds)
        });
        let verdicts = report.reasons.iter().map(Reason::verdict).chain([Verdict::Pass]);
        report.verdict = Verdict::gravest(verdicts);
    }
    report
}

/// The program's named values in order, and how far they lie apart.
fn walk(prepared: &Prepared, layers: &[Option<TensorReport>]) -> (Vec<Node>, Vec<Measured>) {
    let taps = &prepared.signature.taps;
    let from = prepared.graph().map(|graph| sources(graph, taps)).unwrap_or_default();
    let names: HashMap<_, _> = taps.iter().map(|tap| (tap.value, tap.name.as_str())).collect();
    let node = |(i, tap): (usize, &Tap)| Node {
        name: tap.name.clone(),
        module_path: tap.module.clone(),
        op: tap.op.clone(),
        inputs: from
            .get(i)
            .map(|values| {
                values
                    .iter()
                    .filter_map(|value| names.get(value))
                    .map(|n| (*n).to_owned())
                    .collect()
            })
            .unwrap_or_default(),
    };
    let measured = layers.iter().map(|layer| {
        let Some(statistics) = layer.as_ref().and_then(|layer| layer.statistics.as_ref()) else {
            return Measured::default();
        };
        let to_oracle = statistics.oracle.and_then(|oracle| {
            Some(ToOracle {
                golden: oracle.golden_relative?,
                candidate: oracle.candidate_relative?,
            })
        });
        // A tensor of zeros has no relative error; equal ones have none at all.
        let equal = (statistics.max_abs == 0.0).then_some(0.0);
        Measured { to_golden: statistics.norm_relative.or(equal), to_oracle }
    });
    (taps.iter().enumerate().map(node).collect(), measured.collect())
}

/// From where on an error is more than rounding, by the narrowest format the program computes in.
fn bounds(prepared: &Prepared, failed: bool) -> Bounds {
    let mut epsilon = f64::from(f32::EPSILON);
    if let Some(graph) = prepared.graph() {
        for tap in &prepared.signature.taps {
            epsilon = epsilon.max(spacing(prepared.module.value_ty(graph, tap.value).as_tensor()));
        }
    }
    // A run that passes has nothing to isolate.
    Bounds { epsilon, isolations: if failed { 256 } else { 0 }, ..Bounds::default() }
}
