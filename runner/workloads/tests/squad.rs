//! Tokenisation, features, answers and marks against transformers and the published code, run by
//! Python in one process; the generated set and texts that are hard to cut.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use warpforge_snakeburger::eval::Tensor;
use warpforge_tests::{installed, root};
use warpforge_workloads::squad::{
    self, Dataset, Feature, Lengths, Limits, Mode, Size, Tokenizer, batch, features, predict, score,
};

struct Case {
    name: &'static str,
    set: Dataset,
    vocab: Vec<String>,
    lengths: Lengths,
}

/// As `logits` of squad.py.
fn logits(rows: usize, length: usize, salt: u64) -> Vec<f32> {
    let mixed = |at: u64| (at + salt).wrapping_mul(2_654_435_761) % 1_000_003;
    (0..(rows * length) as u64).map(|at| mixed(at) as f32 / 1000.0).collect()
}

/// Accents, composed and not, scripts without blanks, punctuation, marks that belong to no word,
/// blanks of all kinds, words too long for the vocabulary, and one that is longer than any.
const NASTY: [(&str, &str, &str); 8] = [
    (
        "Zoë née Müller lived at Ångström’s café in Łódź.",
        "Who lived at the café?",
        "Zoë née Müller",
    ),
    ("e\u{301}cole: the e\u{301}toile shone", "What shone?", "e\u{301}toile"),
    ("東京は日本の首都です。人口は1400万人。", "首都はどこですか", "東京"),
    ("costs $3.50/kg (ca. 40% off!)—really?", "How much?", "$3.50/kg"),
    ("tabs\tand\u{a0}no-break\u{2003}spaces\u{200b}and\u{0} nulls\r\n end", "   what ends?", "end"),
    ("İstanbul’da ǅ ß ﬁ Ω ſ", "ſ?", "ǅ ß"),
    ("emoji 👩‍👩‍👧 and 🇩🇪 flags", "which flags?", "🇩🇪"),
    (
        "x antidisestablishmentarianismantidisestablishmentarianismantidisestablishmentarianismantidises\
      tablishmentarianism y",
        "what stands beside x?",
        "y",
    ),
];

fn nasty() -> Case {
    let mut paragraphs: Vec<Value> = Vec::new();
    let mut add = |context: &str, question: &str, answer: &str| {
        let at = context.find(answer).unwrap();
        let start = context[..at].chars().count();
        paragraphs.push(json!({"context": context, "qas": [{
            "id": format!("n{}", paragraphs.len()),
            "question": question,
            "answers": [{"text": answer, "answer_start": start}, {"text": "the", "answer_start": 0}],
        }]}));
    };
    for (context, question, answer) in NASTY {
        add(&format!("the {context}"), question, answer);
    }
    // Several windows, the answer early, in the middle and late; a question cut short.
    let sentences: Vec<String> =
        (0..120).map(|at| format!("Item {at} is née Müller-{at}.")).collect();
    let long = format!("the {}", sentences.join(" "));
    add(&long, "Who is item 3?", "née Müller-3.");
    add(&long, "Who is item 60?", "née Müller-60");
    add(&long, &"Who is the very last item of all? ".repeat(12), "Müller-119");
    let set = json!({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]});
    let letters = NASTY.iter().flat_map(|(context, question, _)| [*context, *question]);
    let letters: std::collections::BTreeSet<char> = letters
        .flat_map(str::chars)
        .flat_map(char::to_lowercase)
        .filter(|c| !c.is_whitespace() && !c.is_control())
        .chain('a'..='z')
        .chain('0'..='9')
        .collect();
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from);
    let words = ["item", "is", "nee", "muller", "the", "who", "##scape", "caf"].map(String::from);
    let pieces = letters.iter().flat_map(|c| [c.to_string(), format!("##{c}")]);
    let vocab = special.into_iter().chain(words).chain(pieces).collect();
    Case {
        name: "nasty",
        set: Dataset::parse(&set.to_string()).unwrap(),
        vocab,
        lengths: Lengths::REFERENCE,
    }
}

fn numbers(tensor: &Tensor) -> Vec<i64> {
    let bytes = tensor.data.bytes().chunks_exact(8);
    bytes.map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn as_transformers_and_the_published_code_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let made = squad::generate(11, Size { paragraphs: 150, questions: 300 });
    let case = |name, set: &Dataset, max_length, doc_stride| Case {
        name,
        set: set.clone(),
        vocab: made.vocab.clone(),
        lengths: Lengths { max_length, doc_stride, max_question: 16 },
    };
    let nasty_short = Case {
        name: "nasty-short",
        lengths: Lengths { max_length: 64, doc_stride: 20, max_question: 24 },
        ..nasty()
    };
    let cases = [
        case("train", &made.train, 44, 16),
        case("dev", &made.dev, 44, 16),
        // Passages that do not fit, in windows that share much, little and nothing.
        case("windows", &made.train, 32, 4),
        case("apart", &made.train, 24, 128),
        nasty(),
        nasty_short,
    ];
    let mut listed = Vec::new();
    for case in &cases {
        let (data, vocab) = (format!("{}.json", case.name), format!("{}.txt", case.name));
        case.set.write(&folder.path().join(&data)).unwrap();
        fs::write(folder.path().join(&vocab), case.vocab.join("\n")).unwrap();
        let Lengths { max_length, doc_stride, max_question } = case.lengths;
        listed.push(json!({"name": case.name, "data": data, "vocab": vocab,
            "max_length": max_length, "doc_stride": doc_stride, "max_question": max_question}));
    }
    fs::write(folder.path().join("cases.json"), json!(listed).to_string()).unwrap();
    let texts: Vec<&str> = NASTY.iter().flat_map(|row| [row.0, row.1, row.2]).collect();
    fs::write(folder.path().join("texts.json"), json!(texts).to_string()).unwrap();
    let script = root().join("runner/workloads/tests/squad.py");
    let status = installed::python().arg(script).arg(folder.path()).status().unwrap();
    assert!(status.success());
    for case in &cases {
        compare(case, folder.path());
    }
    let wanted = read(folder.path(), "texts");
    for (at, text) in texts.iter().enumerate() {
        assert_eq!(squad::normalise(text), wanted[at]["normal"].as_str().unwrap(), "{text:?}");
        let other = texts[(at + 1) % texts.len()];
        assert_eq!(squad::f1(text, other), wanted[at]["f1"].as_f64().unwrap(), "{text:?}");
    }
}

fn read(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.join(format!("{name}.python.json"))).unwrap()).unwrap()
}

fn compare(case: &Case, folder: &Path) {
    let wanted = read(folder, case.name);
    // Read as a user's file is.
    let set = Dataset::read(&folder.join(format!("{}.json", case.name))).unwrap();
    let tokenizer = Tokenizer::read(&folder.join(format!("{}.txt", case.name))).unwrap();
    let trained = features(&set, &tokenizer, &case.lengths, Mode::Train).unwrap();
    let used = features(&set, &tokenizer, &case.lengths, Mode::Evaluate).unwrap();
    let rows = wanted["features"].as_array().unwrap();
    assert_eq!(trained.len(), rows.len(), "{}", case.name);
    let length = case.lengths.max_length;
    for ((trained, used), row) in trained.iter().zip(&used).zip(rows) {
        let told = || format!("{}: question {}", case.name, trained.question);
        let made = batch([trained], length, tokenizer.pad);
        for name in ["input_ids", "attention_mask", "token_type_ids"] {
            assert_eq!(json!(numbers(&made[name])), row[name], "{} {name}", told());
        }
        assert_eq!(json!(trained.question), row["question"], "{}", told());
        assert_eq!(
            json!([trained.start, trained.end]),
            json!([row["start"], row["end"]]),
            "{}",
            told()
        );
        let offsets = |feature: &Feature| -> Vec<Option<(u32, u32)>> {
            (0..length).map(|at| feature.characters(at)).collect()
        };
        assert_eq!(json!(offsets(used)), row["offsets"], "{}", told());
    }
    let (start, end) = (logits(used.len(), length, 1), logits(used.len(), length, 7919));
    let texts = predict(&set, &used, &start, &end, length, Limits::default()).unwrap();
    assert_eq!(json!(texts), wanted["predictions"], "{}", case.name);
    let marks = score(&set, &texts);
    assert_eq!(json!(marks), wanted["marks"], "{}", case.name);
}

proptest! {
    /// What any measure of agreement must hold to.
    #[test]
    fn marks_agree_with_themselves(a in "[a-zA-Z,.' éß0-9]{0,24}", b in "[a-zA-Z,.' éß0-9]{0,24}") {
        let (normal, f1) = (squad::normalise(&a), squad::f1(&a, &b));
        prop_assert_eq!(&squad::normalise(&normal), &normal);
        prop_assert!((0.0..=1.0).contains(&f1));
        prop_assert_eq!(f1, squad::f1(&b, &a));
        prop_assert_eq!(squad::f1(&a, &a), f64::from(u8::from(!normal.is_empty())));
        if squad::exact(&a, &b) && !normal.is_empty() {
            prop_assert_eq!(f1, 1.0);
        }
        prop_assert_eq!(squad::f1(&format!("The {a}!"), &b), f1);
    }
}
