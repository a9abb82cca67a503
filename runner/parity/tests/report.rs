//! The report in its three forms: faithful as JSON, well-formed as XML, and a page into which no
//! name can smuggle anything.

mod sample;
mod synthetic;
mod trained;

use warpforge_parity::judge::{Parity, Settings};
use warpforge_parity::report::{Report, html, json, junit};
use warpforge_parity::verdict::{Reason, Verdict};

#[test]
fn json_reads_back_as_the_same_report() {
    for report in [sample::failing(), sample::passing(), sample::hostile()] {
        let back: Report = serde_json::from_str(&json(&report)).unwrap();
        assert!(back == report, "the JSON lost something");
    }
}

#[test]
fn junit_has_a_case_per_tensor() {
    insta::assert_snapshot!("junit", junit(&sample::failing()));
}

#[test]
fn junit_of_nothing_is_no_success() {
    let parity = Parity::of(Vec::new(), Vec::new(), Settings::default().tolerances);
    assert_eq!(parity.verdict, Verdict::Invalid);
    let xml = junit(&Report::new("empty", parity));
    assert!(xml.contains("tests=\"1\"") && xml.contains("errors=\"1\""), "{xml}");
    let what = Reason::Absent { what: "libtorch".into(), cure: "set it up".into() };
    let skipped = Parity::without_comparison(what, Settings::default().tolerances);
    assert!(junit(&Report::new("x", skipped)).contains("skipped=\"1\""));
}

/// Every `<` in the text opens a tag that the page's own code writes.
fn tags(text: &str) -> std::collections::BTreeSet<String> {
    let name = |rest: &str| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/!?".contains(c)));
        rest[..end.unwrap_or(rest.len())].to_owned()
    };
    text.split('<').skip(1).map(name).collect()
}

#[test]
fn hostile_names_stay_text() {
    let (page, plain) = (html(&sample::hostile()), html(&sample::failing()));
    assert_eq!(tags(&page), tags(&plain));
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1}'));
    let xml = junit(&sample::hostile());
    assert!(!xml.contains("<script") && !xml.contains('\u{1}'));
    assert!(page.matches('"').count() % 2 == 0);
}

#[test]
fn the_page_stands_alone_and_says_the_verdict_first() {
    let page = html(&sample::failing());
    for outside in ["http://", "https://", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "the page holds {outside}");
    }
    assert!(page.contains("<html lang=\"en\">") && page.contains("Content-Security-Policy"));
    let verdict = page.find("<strong>Fail</strong>").unwrap();
    let first_heading = page.find("<h2>").unwrap();
    assert!(verdict < first_heading);
    for part in [
        "Where it first diverged",
        "bert.encoder.layer.2.intermediate.act",
        "Error by layer",
        "How far apart",
        "Tensors",
        "Timings",
        "The machine meanwhile",
        "What ran where",
        "How it was judged",
        "System",
        "warpforge hlo run run-17/repro/gelu_23.mlir",
    ] {
        assert!(page.contains(part), "the page lacks {part}");
    }
}

#[test]
fn the_machine_is_drawn_a_chart_for_each_unit_with_the_passes_behind_the_lines() {
    let mut report = sample::passing();
    let page = html(&report);
    let section = |page: &str| {
        let rest = page.split_once("<h2>The machine meanwhile</h2>")?.1;
        Some(rest.split_once("</section>")?.0.to_owned())
    };
    let drawn = section(&page).unwrap();
    assert_eq!(drawn.matches("<svg").count(), 2, "one of percent, one of watts");
    assert_eq!(drawn.matches("class=\"span golden\"").count(), 4);
    assert_eq!(drawn.matches("class=\"span candidate\"").count(), 2);
    assert!(drawn.contains("CPU, memory over time, in %"), "{drawn}");
    assert!(drawn.contains("Not recorded: CPU temperature: no sensor of a processor."));
    assert!(drawn.contains("golden in float64, 8.00\u{a0}s"), "{drawn}");
    // A point that could not be read breaks the line instead of lying on the axis.
    let lines: Vec<&str> = drawn.lines().filter(|l| l.contains("class=\"curve s0\"")).collect();
    assert!(lines[0].contains("d=\"M") && lines[0].matches('L').count() == 57, "{}", lines[0]);

    if let Some(timeline) = &mut report.timeline {
        timeline.seconds.clear();
    }
    assert!(section(&html(&report)).is_none(), "nothing was seen");
    report.timeline = None;
    assert!(section(&html(&report)).is_none());
    assert!(!json(&report).contains("timeline"), "what was not recorded is left out");
}

#[test]
fn the_smallest_report_has_a_page_too() {
    let parity = Parity::of(Vec::new(), Vec::new(), Settings::default().tolerances);
    let page = html(&Report::new("nothing", parity));
    assert!(page.contains("<strong>Invalid</strong>") && page.contains("Nothing was compared."));
}

#[test]
fn a_training_has_its_page_its_cases_and_survives_json() {
    use synthetic::Fault;
    let report = trained::report(Some(Fault::GradientScale));
    let back: Report = serde_json::from_str(&json(&report)).unwrap();
    assert!(back == report, "the JSON lost something");
    let page = html(&report);
    for outside in ["http://", "https://", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "the page holds {outside}");
    }
    for part in [
        "Where it went wrong first",
        "What was compared",
        "The free run",
        "How far they drift apart",
        "Metrics",
        "Error by teacher-forced step",
        "Gradients by parameter",
        "The optimiser alone",
        "Tensors that do not pass",
        "Speed and memory",
        "Reported, not judged",
        "Data and weights",
        "CC0-1.0",
        "How it was judged",
    ] {
        assert!(page.contains(part), "the page lacks {part}");
    }
    let xml = junit(&report);
    assert!(xml.contains("<testcase name=\"gradients at step 30\""));
    assert!(
        xml.contains("<testcase name=\"f1\" classname=\"parity.training.metrics\"></testcase>")
    );
    assert!(!xml.contains("\"comparison\""), "every reason belongs to a case");
    let good = junit(&trained::report(None));
    assert!(good.contains("failures=\"0\" errors=\"0\" skipped=\"0\""), "{good}");
}

#[test]
fn hostile_names_of_a_training_stay_text() {
    use synthetic::Fault;
    let text = json(&trained::report(Some(Fault::GradientScale)));
    let attack = serde_json::to_string(sample::HOSTILE).unwrap();
    let attack = attack.trim_matches('"');
    let text = ["qa_outputs.bias", "exact_match", "generated-squad", "samples/s", "test"]
        .into_iter()
        .fold(text, |text, name| text.replace(name, attack));
    let text = text.replace("layer.1.attention.self.query.weight", attack);
    let report: Report = serde_json::from_str(&text).unwrap();
    let page = html(&report);
    assert_eq!(tags(&page), tags(&html(&trained::report(Some(Fault::GradientScale)))));
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains('\u{202e}'));
    assert!(page.matches('"').count().is_multiple_of(2));
    assert!(!junit(&report).contains("<script"));
}
