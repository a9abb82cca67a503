//! A WordPiece vocabulary of a text: frequent words whole, all others in pieces.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Paragraph;

/// A word that stands in one paragraph of so many, or its questions, is kept whole.
const WHOLE: usize = 40;
/// Two pieces that follow one another in so many words become one.
const PAIRS: usize = 4;

/// The tokens in the order of their numbers, `size` of them. Pieces are found by joining the most
/// frequent pair again and again; words are counted once each, so that what many words are made
/// of is joined and a single word, however frequent, is not.
pub fn build(paragraphs: &[Paragraph], size: usize) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for paragraph in paragraphs {
        let questions = paragraph.qas.iter().map(|question| question.question.as_str());
        let texts = questions.chain([paragraph.context.as_str()]);
        for word in texts.flat_map(words).collect::<BTreeSet<_>>() {
            *counts.entry(word).or_default() += 1;
        }
    }
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from);
    let letters: BTreeSet<String> = counts.keys().flat_map(|word| split(word)).collect();
    let mut tokens: Vec<String> = special.into_iter().chain(letters).collect();
    let whole = |(word, count): &(&String, &usize)| {
        word.chars().count() <= 2 || **count * WHOLE >= paragraphs.len()
    };
    let (kept, rare): (Vec<_>, Vec<_>) = counts.iter().partition(whole);
    tokens.extend(kept.into_iter().map(|(word, _)| word.clone()));
    let mut known: BTreeSet<String> = BTreeSet::new();
    tokens.retain(|token| known.insert(token.clone()));
    let mut pieces = Pieces::new(rare.into_iter().map(|(word, _)| word.as_str()));
    while tokens.len() < size {
        let Some(joined) = pieces.join() else { break };
        if known.insert(joined.clone()) {
            tokens.push(joined);
        }
    }
    tokens.truncate(size);
    let unused = (0..size - tokens.len()).map(|number| format!("[unused{number}]"));
    tokens.extend(unused.collect::<Vec<_>>());
    tokens
}

/// Lower-case words, and each mark of punctuation as one of its own.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    for c in text.to_lowercase().chars() {
        if c.is_alphanumeric() {
            word.push(c);
            continue;
        }
        found.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
        found.extend(Some(c.to_string()).filter(|_| !c.is_whitespace()));
    }
    found.extend(Some(word).filter(|word| !word.is_empty()));
    found
}

/// A word's letters, those after the first marked as such.
fn split(word: &str) -> Vec<String> {
    let letter = |(at, c): (usize, char)| if at == 0 { c.to_string() } else { format!("##{c}") };
    word.chars().enumerate().map(letter).collect()
}

/// Words as rows of pieces, each piece by its number.
struct Pieces {
    names: Vec<String>,
    words: Vec<Vec<u32>>,
}

impl Pieces {
    fn new<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut names = Vec::new();
        let mut number = |piece: String| {
            *numbers.entry(piece).or_insert_with_key(|piece| {
                names.push(piece.clone());
                names.len() as u32 - 1
            })
        };
        let words = words.map(|word| split(word).into_iter().map(&mut number).collect()).collect();
        Self { names, words }
    }

    fn name(&self, piece: u32) -> &str {
        &self.names[piece as usize]
    }

    /// Joins the most frequent pair if it is frequent enough, of equals the first in the
    /// alphabet, and says what it became.
    fn join(&mut self) -> Option<String> {
        let mut counts: HashMap<(u32, u32), usize> = HashMap::new();
        for pair in self.words.iter().flat_map(|word| word.windows(2)) {
            *counts.entry((pair[0], pair[1])).or_default() += 1;
        }
        let names = |(left, right): (u32, u32)| (self.name(left), self.name(right));
        let better = |a: &((u32, u32), usize), b: &((u32, u32), usize)| {
            a.1.cmp(&b.1).then_with(|| names(b.0).cmp(&names(a.0)))
        };
        let (pair, count) = counts.into_iter().max_by(better)?;
        if count < PAIRS {
            return None;
        }
        let (left, right) = names(pair);
        let joined = format!("{left}{}", right.trim_start_matches('#'));
        let number = self.names.len() as u32;
        self.names.push(joined.clone());
        for word in &mut self.words {
            let mut at = 0;
            while at + 1 < word.len() {
                if (word[at], word[at + 1]) == pair {
                    word[at] = number;
                    word.remove(at + 1);
                }
                at += 1;
            }
        }
        Some(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_words_are_made_of_becomes_a_piece() {
        let text = "Marburg, Norburg, Kelburg and Torburg; Marham.";
        let tokens = build(&[Paragraph { context: text.into(), qas: Vec::new() }], 100);
        // One paragraph: every word is frequent.
        assert!(tokens.contains(&"marburg".to_owned()));
        let rare: Vec<Paragraph> = (0..100)
            .map(|at| Paragraph {
                context: if at == 0 { text.into() } else { "and".into() },
                qas: Vec::new(),
            })
            .collect();
        let tokens = build(&rare, 100);
        assert!(tokens.contains(&"##burg".to_owned()) && tokens.contains(&"and".to_owned()));
        assert!(!tokens.contains(&"marburg".to_owned()));
        assert_eq!(tokens.len(), 100);
        assert!(tokens[99].starts_with("[unused"));
        assert_eq!(tokens.iter().collect::<BTreeSet<_>>().len(), 100);
    }
}
