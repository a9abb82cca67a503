//! The report: one structure that holds everything a run has to say, and what it looks like as
//! JSON, as JUnit XML and as a page. The renderers are pure: a report in, text out.

mod html;
mod junit;
mod timeline;
mod training;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judge::{Parity, TensorReport};
use crate::localise::{Layer, Localised};
use crate::tolerance::Tolerances;
use crate::verdict::{Reason, Verdict};
pub use html::html;
pub use junit::junit;
pub use timeline::{Series, Span, Timeline, WATTS};
pub use training::{Attribution, TrainingReport};

/// The form of [`Report`]; a reader that does not know it must not guess.
pub const VERSION: u32 = 1;

/// What a run has to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The form of this file.
    pub version: u32,
    /// What was compared, for people: a model's name, two files.
    pub title: String,
    /// When, in RFC 3339.
    pub created: Option<String>,
    pub verdicts: Verdicts,
    /// Why correctness is what it is, in one sentence.
    pub summary: String,
    /// Everything that speaks against a pass, the gravest first.
    pub reasons: Vec<Reason>,
    /// Elements compared in all.
    pub elements: u64,
    pub tolerances: Tolerances,
    pub golden: SideInfo,
    pub candidate: SideInfo,
    /// Absent if there was none.
    pub oracle: Option<OracleInfo>,
    /// By name.
    pub tensors: Vec<TensorReport>,
    /// In the order of the program; empty if intermediates were not compared.
    pub layers: Vec<Layer>,
    /// The layer it began at.
    pub first_divergence: Option<FirstDivergence>,
    pub timings: Timings,
    pub executed: Executed,
    /// Present if a training was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Box<TrainingReport>>,
    /// What the machine did meanwhile; absent if nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Box<Timeline>>,
    /// Whose data and weights took part, and on what terms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributions: Vec<Attribution>,
    /// By what they are for.
    pub seeds: BTreeMap<String, u64>,
    /// Number formats by where they are used, such as `weights: f32`.
    pub formats: BTreeMap<String, String>,
    /// Versions of what took part.
    pub versions: BTreeMap<String, String>,
    /// The machine, as `warpforge system --json` has it.
    pub system: Option<serde_json::Value>,
}

/// Two questions, two verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdicts {
    pub correctness: Verdict,
    /// Absent if speed was not measured.
    pub performance: Option<Verdict>,
}

/// Where one side's numbers come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideInfo {
    /// A file, a folder or a program, for people.
    pub source: String,
    /// Digest of the program that ran.
    pub program: Option<String>,
    /// Such as `cpu, 2 threads`.
    pub device: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OracleInfo {
    pub source: String,
    /// Whether it evaluated the whole program, layer by layer on golden's inputs, or a sample.
    pub scope: OracleScope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OracleScope {
    Whole,
    Layers,
    Sampled,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FirstDivergence {
    /// Index in `layers`.
    pub layer: usize,
    pub name: String,
    pub module_path: String,
    pub op: String,
    /// Where a program of this one operation, its inputs and both results were written.
    pub repro: Option<String>,
}

/// How long each pass took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    pub golden: Option<Timing>,
    pub candidate: Option<Timing>,
}

/// Nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    pub samples: u64,
    pub median_ns: f64,
    pub min_ns: Option<f64>,
    pub max_ns: Option<f64>,
    /// What happens once: loading, compiling.
    pub prepare_ns: Option<f64>,
}

/// What ran where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Executed {
    /// Operations by backend and name.
    pub operations: BTreeMap<String, BTreeMap<String, u64>>,
    pub fallbacks: Vec<Fallback>,
}

/// An operation that did not run where it was meant to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fallback {
    pub op: String,
    pub count: u64,
    pub from: String,
    pub to: String,
    pub why: String,
}

impl Report {
    /// A report of a comparison; the rest is for the caller to fill in.
    pub fn new(title: impl Into<String>, parity: Parity) -> Self {
        let Parity { verdict, summary, reasons, elements, tolerances, tensors } = parity;
        Self {
            version: VERSION,
            title: title.into(),
            created: None,
            verdicts: Verdicts { correctness: verdict, performance: None },
            summary,
            reasons,
            elements,
            tolerances,
            golden: SideInfo::default(),
            candidate: SideInfo::default(),
            oracle: None,
            tensors,
            layers: Vec::new(),
            first_divergence: None,
            timings: Timings::default(),
            executed: Executed::default(),
            training: None,
            timeline: None,
            attributions: Vec::new(),
            seeds: BTreeMap::new(),
            formats: BTreeMap::new(),
            versions: BTreeMap::new(),
            system: None,
        }
    }

    /// The comparison that it reports.
    pub fn parity(&self) -> Parity {
        Parity {
            verdict: self.verdicts.correctness,
            summary: self.summary.clone(),
            reasons: self.reasons.clone(),
            elements: self.elements,
            tolerances: self.tolerances,
            tensors: self.tensors.clone(),
        }
    }

    /// Adds the layers, and the first divergence if there is one.
    pub fn with_layers(mut self, localised: Localised) -> Self {
        let Localised { layers, first } = localised;
        self.first_divergence = first.and_then(|layer| {
            let found = layers.get(layer)?;
            Some(FirstDivergence {
                layer,
                name: found.name.clone(),
                module_path: found.module_path.clone(),
                op: found.op.clone(),
                repro: None,
            })
        });
        self.layers = layers;
        self
    }

    /// Tensors with the worst first.
    pub fn worst_first(&self) -> Vec<&TensorReport> {
        crate::judge::worst_first(&self.tensors)
    }
}

/// The report as JSON, as its schema has it.
pub fn json(report: &Report) -> String {
    // Only maps with keys that are no text, and types that refuse, can fail here; there are none.
    serde_json::to_string_pretty(report).unwrap_or_default() + "\n"
}

/// The comparison alone, without what the run around it was.
pub fn parity_json(report: &Report) -> String {
    serde_json::to_string_pretty(&report.parity()).unwrap_or_default() + "\n"
}

/// Text inside an element or a quoted attribute, of HTML and of XML.
pub(crate) struct Esc<T>(pub T);

impl<T: std::fmt::Display> std::fmt::Display for Esc<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write as _;
        for c in self.0.to_string().chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(c)?,
                // XML forbids them, and in a page they hide what stands there.
                c if c.is_control()
                    || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}') =>
                {
                    f.write_char('\u{fffd}')?;
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
