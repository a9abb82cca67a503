//! The marks of SQuAD v1.1, as the published script gives them.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::Dataset;

/// In percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    pub exact_match: f64,
    pub f1: f64,
}

/// Marks predictions by the questions' ids; a question without one counts as wrong.
pub fn score(dataset: &Dataset, predictions: &BTreeMap<String, String>) -> Score {
    let (mut total, mut exact_match, mut sum) = (0u64, 0u64, 0.0);
    for (_, question) in dataset.questions() {
        total += 1;
        let Some(prediction) = predictions.get(&question.id) else { continue };
        let truths = question.answers.iter().map(|answer| answer.text.as_str());
        exact_match += u64::from(truths.clone().any(|truth| exact(prediction, truth)));
        sum += truths.map(|truth| f1(prediction, truth)).fold(0.0, f64::max);
    }
    let percent = |sum: f64| 100.0 * sum / total.max(1) as f64;
    Score { exact_match: percent(exact_match as f64), f1: percent(sum) }
}

pub fn exact(prediction: &str, truth: &str) -> bool {
    normalise(prediction) == normalise(truth)
}

/// The harmonic mean of the shares of words that two texts have in common.
pub fn f1(prediction: &str, truth: &str) -> f64 {
    let (prediction, truth) = (normalise(prediction), normalise(truth));
    let words = |text: &str| text.split_terminator(' ').count() as f64;
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for word in truth.split_terminator(' ') {
        *counts.entry(word).or_default() += 1;
    }
    let mut same = 0u64;
    for word in prediction.split_terminator(' ') {
        if let Some(left) = counts.get_mut(word).filter(|left| **left > 0) {
            *left -= 1;
            same += 1;
        }
    }
    if same == 0 {
        return 0.0;
    }
    let (precision, recall) = (same as f64 / words(&prediction), same as f64 / words(&truth));
    2.0 * precision * recall / (precision + recall)
}

/// Lower case, without punctuation, articles and superfluous blanks.
pub fn normalise(text: &str) -> String {
    let lower = text.to_lowercase();
    let mut bare: String = lower.chars().filter(|c| !c.is_ascii_punctuation()).collect();
    bare.push(' ');
    let (mut words, mut run) = (String::with_capacity(bare.len()), String::new());
    for c in bare.chars() {
        if is_word(c) {
            run.push(c);
            continue;
        }
        // An article ends at anything that belongs to no word, not at blanks alone.
        words.push_str(if matches!(run.as_str(), "a" | "an" | "the") { " " } else { &run });
        run.clear();
        words.push(c);
    }
    words.split(is_blank).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// What Python's `\w` takes for a part of a word.
fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// What Python splits words at.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalisation() {
        for (text, wanted) in [
            ("The  Quick, brown fox!", "quick brown fox"),
            ("an apple a day", "apple day"),
            ("A.", ""),
            ("the-end", "theend"),
            ("a–b", "–b"),
            ("Ärzte\u{a0}the", "ärzte"),
            ("theatre", "theatre"),
        ] {
            assert_eq!(normalise(text), wanted, "{text}");
        }
    }

    #[test]
    fn marks() {
        assert_eq!(f1("12 March 1874", "March 1874"), 0.8);
        assert_eq!(f1("x", "y"), 0.0);
        assert_eq!(f1("a b b", "b b c"), 1.0_f64.min(2.0 * 1.0 * (2.0 / 3.0) / (1.0 + 2.0 / 3.0)));
        assert!(exact("The Fair.", "fair"));
        // As the published script has it: nothing in common, and yet the same.
        assert_eq!((f1("the", "a"), exact("the", "a")), (0.0, true));
    }
}
