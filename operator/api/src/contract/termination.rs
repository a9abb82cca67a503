//! How a worker ended, in its own words.

use serde::{Deserialize, Serialize};

use crate::contract::{GoldenUse, Report, Results, VERSION};
use crate::data::Stage;
use crate::status::cut;
use crate::{Reason, Verdict};

/// The most bytes of a termination message.
pub const LONGEST: usize = 2048;
/// The longest address of a report that still leaves room for the rest.
const LONGEST_URI: usize = 1024;

/// The termination message: one JSON object. A worker writes one without a verdict when a pass
/// begins, so that what kills it is known to have killed that pass, and the last one when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    pub version: u32,
    /// The code that the process is about to end with; `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correctness: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performance: Option<Verdict>,
    /// A [`Reason`]'s name, or a word of the report's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For a person. Cut off where it is too long.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The pass that was under way, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<Stage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub golden: Option<GoldenUse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Left out where an address takes all the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Results>,
}

/// Why a termination message cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("the worker left no message")]
    Absent,
    #[error("the worker's message is not a whole JSON object: {0}")]
    Json(String),
    #[error("the worker's message has version {0}, and this operator reads version {VERSION}")]
    Version(u32),
    #[error("the worker's message has no result: it ended before it was done")]
    Interim,
    #[error("the worker's message says exit code {says}, and it ended with {ended}")]
    ExitCode { says: i32, ended: i32 },
    #[error(
        "the worker's message says {correctness} with exit code {code}, which is another verdict's"
    )]
    Verdict { correctness: String, code: i32 },
}

impl Termination {
    /// Of a process that is at work.
    pub fn interim(pass: Stage) -> Self {
        Self { pass: Some(pass), ..Self::empty() }
    }

    /// Of a process that ends with a verdict.
    pub fn verdict(correctness: Verdict, reason: &str, message: &str) -> Self {
        Self {
            exit_code: Some(correctness.exit_code()),
            correctness: Some(correctness),
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..Self::empty()
        }
    }

    /// Of a process that ends without one.
    pub fn failure(exit_code: i32, reason: Reason, message: &str) -> Self {
        Self {
            exit_code: Some(exit_code),
            reason: reason.name().to_owned(),
            message: message.to_owned(),
            ..Self::empty()
        }
    }

    fn empty() -> Self {
        Self {
            version: VERSION,
            exit_code: None,
            correctness: None,
            performance: None,
            reason: String::new(),
            message: String::new(),
            pass: None,
            golden: None,
            report: None,
            results: None,
        }
    }

    /// At most [`LONGEST`] bytes of JSON. What is too long is cut in the message for people, never
    /// in the JSON; an address beyond all use is left out, and the message says so; figures that
    /// have no room beside an address, benchmarks' last ones first, are in the report alone.
    pub fn to_json(&self) -> String {
        let mut bounded = self.clone();
        bounded.reason = cut(&self.reason, 64);
        if bounded.report.as_ref().is_some_and(|report| !fits(report)) {
            bounded.report = None;
            bounded.message = format!("(the report's address is too long) {}", self.message);
        }
        while length(&bounded.report) + length(&bounded.results) > LONGEST_URI + 640 {
            // The last benchmarks' figures first, and what is left of them is told.
            let last = bounded.results.as_mut().and_then(|results| results.benchmarks.pop());
            if last.is_none() {
                bounded.results = None;
                break;
            }
        }
        let mut most = bounded.message.chars().count().min(LONGEST);
        loop {
            bounded.message = cut(&bounded.message, most);
            let text = serde_json::to_string(&bounded).unwrap_or_default();
            // Characters that JSON escapes take up to six bytes, so the length that fits is found
            // by trying; without a message everything fits.
            if text.len() <= LONGEST || most == 0 {
                return text;
            }
            most = most.saturating_sub((text.len() - LONGEST).div_ceil(6).max(1));
        }
    }

    /// Reads what a worker left, whatever its exit code.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Unreadable::Absent);
        }
        let mut message: Self =
            serde_json::from_str(text).map_err(|error| Unreadable::Json(error.to_string()))?;
        // A verdict is worth more than the figures beside it.
        message.results = message.results.filter(Results::is_valid);
        message.report = message.report.filter(Report::is_valid);
        match message.version {
            VERSION => Ok(message),
            other => Err(Unreadable::Version(other)),
        }
    }

    /// The last message of a worker that ended with this code. It says the same code, and the code
    /// is the verdict's: Correctness, or the graver Performance where the run asked for that.
    pub fn of_exit(text: &str, ended: i32) -> Result<Self, Unreadable> {
        let message = Self::parse(text)?;
        let says = message.exit_code.ok_or(Unreadable::Interim)?;
        if says != ended {
            return Err(Unreadable::ExitCode { says, ended });
        }
        let Some(correctness) = message.correctness else {
            return match Verdict::of_exit_code(ended) {
                // A worker beside the leader ends with 0 and judges nothing.
                None | Some(Verdict::Inconclusive | Verdict::Skipped | Verdict::Pass) => {
                    Ok(message)
                }
                Some(_) => Err(Unreadable::Verdict { correctness: "nothing".into(), code: ended }),
            };
        };
        let gravest = message.performance.map_or(correctness, |other| other.max(correctness));
        if [correctness.exit_code(), gravest.exit_code()].contains(&ended) {
            Ok(message)
        } else {
            Err(Unreadable::Verdict { correctness: correctness.to_string(), code: ended })
        }
    }
}

fn fits(report: &Report) -> bool {
    length(report) <= LONGEST_URI + 128 && report.uri.len() <= LONGEST_URI
}

fn length(part: &impl Serialize) -> usize {
    serde_json::to_string(part).unwrap_or_default().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Figure, PassResults};

    fn report(uri: &str) -> Report {
        Report { uri: uri.to_owned(), sha256: "0".repeat(64) }
    }

    #[test]
    fn a_long_message_is_cut_and_the_json_stays_whole() {
        for character in ["x", "\u{1}", "é", "\"", "𝄞"] {
            let mut message =
                Termination::verdict(Verdict::Fail, "ValueMismatch", &character.repeat(5000));
            message.report = Some(report(&format!("s3://b/{}", "k".repeat(1000))));
            let text = message.to_json();
            assert!(text.len() <= LONGEST, "{} bytes of {character:?}", text.len());
            assert!(text.len() > LONGEST - 24, "{} bytes of {character:?}", text.len());
            let read = Termination::of_exit(&text, 1).unwrap();
            assert_eq!(read.correctness, Some(Verdict::Fail));
            assert_eq!(read.report, message.report);
            assert!(read.message.ends_with('…'));
        }
    }

    #[test]
    fn figures_go_where_an_address_leaves_room() {
        let mut pass = PassResults {
            throughput: Figure::new(-1.234_56e-300),
            loss: Figure::new(-1.234_56e-300),
            power_watts: Figure::new(-1.234_56e-300),
            ..PassResults::default()
        };
        for number in 0..4 {
            pass.metric(&format!("{number}{}", "m".repeat(31)), -1.234_56e-300);
        }
        let full = Results {
            hardware: "h".repeat(63),
            golden: pass.clone(),
            warpforge: pass,
            ratio: Figure::new(-1.234_56e-300),
            worst_error: Figure::new(-1.234_56e-300),
            fallbacks: Some(i64::MAX),
            benchmarks: Vec::new(),
        };
        for (characters, kept) in [(600, true), (1000, false)] {
            let mut message = Termination::verdict(Verdict::Fail, &"R".repeat(64), &"x".repeat(99));
            message.performance = Some(Verdict::Inconclusive);
            message.golden = Some(GoldenUse::Reused);
            message.report = Some(report(&"k".repeat(characters)));
            message.results = Some(full.clone());
            let text = message.to_json();
            assert!(text.len() <= LONGEST, "{} bytes", text.len());
            let read = Termination::of_exit(&text, 1).unwrap();
            assert_eq!(read.report, message.report);
            assert_eq!(read.results.is_some(), kept, "{characters}: {}", text.len());
        }
    }

    #[test]
    fn of_benchmarks_as_many_figures_are_told_as_there_is_room_for() {
        let mut results = Results { hardware: "h".repeat(63), ..Results::default() };
        for number in 0..16 {
            let metric = "bandwidth[direction=host_to_device,memory=pinned]";
            results.benchmark(&format!("gpu_mem_bandwidth_{number}"), metric, 1.25, "TFLOP/s");
        }
        for (characters, least, most) in [(100, 8, 15), (600, 4, 10), (1000, 0, 5)] {
            let mut message = Termination::verdict(Verdict::Pass, "Measured", &"x".repeat(999));
            message.report = Some(report(&"k".repeat(characters)));
            message.results = Some(results.clone());
            let text = message.to_json();
            assert!(text.len() <= LONGEST, "{} bytes", text.len());
            let read = Termination::of_exit(&text, 0).unwrap();
            let told = read.results.map_or(0, |results| results.benchmarks.len());
            assert!((least..=most).contains(&told), "{characters}: {told}");
        }
    }

    #[test]
    fn an_address_beyond_all_use_is_left_out() {
        for uri in ["k".repeat(3000), "\u{1}".repeat(1000)] {
            let mut message = Termination::verdict(Verdict::Pass, "Agrees", "");
            message.report = Some(report(&uri));
            let read = Termination::of_exit(&message.to_json(), 0).unwrap();
            assert_eq!(read.report, None);
            assert!(read.message.contains("too long"));
        }
    }

    #[test]
    fn what_is_absent_cut_or_contradictory_is_told_apart() {
        let pass = Termination::verdict(Verdict::Pass, "Agrees", "all 12 tensors agree").to_json();
        assert!(Termination::of_exit(&pass, 0).is_ok());
        assert_eq!(Termination::of_exit(" ", 0), Err(Unreadable::Absent));
        let cut = &pass[..pass.len() - 1];
        assert!(matches!(Termination::of_exit(cut, 0), Err(Unreadable::Json(_))));
        let newer = pass.replace("\"version\":1", "\"version\":2");
        assert_eq!(Termination::of_exit(&newer, 0), Err(Unreadable::Version(2)));
        let interim = Termination::interim(Stage::Golden).to_json();
        assert_eq!(Termination::of_exit(&interim, 137), Err(Unreadable::Interim));
        let other = Err(Unreadable::ExitCode { says: 0, ended: 1 });
        assert_eq!(Termination::of_exit(&pass, 1), other);
        let lying = pass.replace("\"exitCode\":0", "\"exitCode\":1");
        assert!(matches!(Termination::of_exit(&lying, 1), Err(Unreadable::Verdict { .. })));
        let broken = pass.replace("\"exitCode\":0", "\"exitCode\":70");
        assert!(matches!(Termination::of_exit(&broken, 70), Err(Unreadable::Verdict { .. })));
        let silent = r#"{"version":1,"exitCode":1}"#;
        assert!(matches!(Termination::of_exit(silent, 1), Err(Unreadable::Verdict { .. })));
    }

    #[test]
    fn performance_may_make_the_exit_code_graver() {
        let mut message = Termination::verdict(Verdict::Pass, "Agrees", "");
        message.performance = Some(Verdict::Fail);
        assert!(Termination::of_exit(&message.to_json(), 0).is_ok());
        message.exit_code = Some(1);
        assert!(Termination::of_exit(&message.to_json(), 1).is_ok());
    }
}
