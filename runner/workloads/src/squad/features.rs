//! What a model is fed: `[CLS] question [SEP] window of the context [SEP]`, padded to one length.
//!
//! As in BERT's own recipe, a context too long for one window is seen through several, whose
//! starts lie `doc_stride` tokens apart.

use rayon::prelude::*;

use super::tokenizer::Token;
use super::{Dataset, Error, Paragraph, Question, Tokenizer};

/// How long things may be, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    pub max_length: usize,
    pub doc_stride: usize,
    pub max_question: usize,
}

impl Lengths {
    /// BERT's own recipe for SQuAD.
    pub const REFERENCE: Self = Self { max_length: 384, doc_stride: 128, max_question: 64 };

    fn check(self) -> Result<(), Error> {
        // One token of context at least, beside the three marks.
        if self.max_length < self.max_question + 4 || self.doc_stride == 0 {
            return Err(Error::Lengths(format!(
                "{} tokens do not hold a question of {} and a context; doc stride {}",
                self.max_length, self.max_question, self.doc_stride
            )));
        }
        Ok(())
    }
}

/// What features are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With the first answer's place.
    Train,
    /// With the characters every token stands for.
    Evaluate,
}

/// One window. Kept without its padding: a large set fits into memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The question's place in the data set.
    pub question: usize,
    pub ids: Vec<u32>,
    /// The first token of the context.
    pub context: usize,
    /// The answer's first and last token; 0, the mark `[CLS]`, where the window does not hold it.
    pub start: u32,
    pub end: u32,
    /// The characters of the context's tokens, from `context` on; in [`Mode::Evaluate`] alone.
    pub offsets: Vec<(u32, u32)>,
}

impl Feature {
    /// The characters a token stands for, if it is one of the context.
    pub fn characters(&self, token: usize) -> Option<(u32, u32)> {
        self.offsets.get(token.checked_sub(self.context)?).copied()
    }
}

/// The windows of all questions, in the data set's order.
pub fn features(
    dataset: &Dataset,
    tokenizer: &Tokenizer,
    lengths: &Lengths,
    mode: Mode,
) -> Result<Vec<Feature>, Error> {
    lengths.check()?;
    let mut next = 0;
    let numbered: Vec<(usize, &Paragraph)> = dataset
        .paragraphs()
        .map(|paragraph| {
            next += paragraph.qas.len();
            (next - paragraph.qas.len(), paragraph)
        })
        .collect();
    let of = |(first, paragraph): &(usize, &Paragraph)| -> Result<Vec<Feature>, Error> {
        let context = tokenizer.tokens(&paragraph.context)?;
        let mut made = Vec::new();
        for (at, question) in paragraph.qas.iter().enumerate() {
            windows(first + at, question, &context, tokenizer, lengths, mode, &mut made)?;
        }
        Ok(made)
    };
    let made: Result<Vec<_>, Error> = numbered.par_iter().map(of).collect();
    Ok(made?.into_iter().flatten().collect())
}

fn windows(
    index: usize,
    question: &Question,
    context: &[Token],
    tokenizer: &Tokenizer,
    lengths: &Lengths,
    mode: Mode,
    made: &mut Vec<Feature>,
) -> Result<(), Error> {
    // Of the questions, some begin with many blanks.
    let mut asked = tokenizer.tokens(question.question.trim_start())?;
    asked.truncate(lengths.max_question);
    let room = lengths.max_length - asked.len() - 3;
    let mut from = 0;
    loop {
        let window = &context[from..context.len().min(from + room)];
        let mut ids = Vec::with_capacity(asked.len() + window.len() + 3);
        ids.push(tokenizer.cls);
        ids.extend(asked.iter().map(|token| token.id));
        ids.push(tokenizer.sep);
        let start = ids.len();
        ids.extend(window.iter().map(|token| token.id));
        ids.push(tokenizer.sep);
        let mut feature =
            Feature { question: index, ids, context: start, start: 0, end: 0, offsets: Vec::new() };
        match mode {
            Mode::Train => {
                if let Some((first, last)) = place(question, window) {
                    feature.start = (start + first) as u32;
                    feature.end = (start + last) as u32;
                }
            }
            Mode::Evaluate => {
                feature.offsets = window.iter().map(|token| (token.from, token.to)).collect();
            }
        }
        made.push(feature);
        if from + window.len() == context.len() {
            return Ok(());
        }
        from += window.len().min(lengths.doc_stride);
    }
}

/// The first answer's first and last token in a window that holds all of it: the last token that
/// begins no later than the answer, and the first that ends no earlier.
fn place(question: &Question, window: &[Token]) -> Option<(usize, usize)> {
    let answer = question.answers.first()?;
    let from = answer.answer_start as u32;
    let to = from + answer.text.chars().count() as u32;
    let (first, last) = (window.first()?, window.last()?);
    if first.from > from || last.to < to {
        return None;
    }
    let first = window.partition_point(|token| token.from <= from) - 1;
    let last = window.partition_point(|token| token.to < to);
    Some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::squad::{Answer, Article};

    fn one(context: &str, question: &str, answer: &str) -> Dataset {
        let answer_start = context.find(answer).unwrap();
        let answers = vec![Answer { text: answer.into(), answer_start }];
        let qas = vec![Question { id: "q".into(), question: question.into(), answers }];
        let paragraphs = vec![Paragraph { context: context.into(), qas }];
        Dataset { version: "1.1".into(), data: vec![Article { title: "t".into(), paragraphs }] }
    }

    fn tokenizer() -> Tokenizer {
        let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d", "e", "f", "g", "h"];
        Tokenizer::from_vocab(words).unwrap()
    }

    #[test]
    fn windows_overlap_and_those_without_the_answer_point_at_the_first_mark() {
        let set = one("a b c d e f g h", "  a b c", "f g");
        let lengths = Lengths { max_length: 9, doc_stride: 2, max_question: 2 };
        let made = features(&set, &tokenizer(), &lengths, Mode::Train).unwrap();
        let ids: Vec<&[u32]> = made.iter().map(|feature| &feature.ids[..]).collect();
        // Two tokens of the question are left of three, and four of the context fit.
        assert_eq!(ids[0], [2, 4, 5, 3, 4, 5, 6, 7, 3]);
        assert_eq!(ids[1], [2, 4, 5, 3, 6, 7, 8, 9, 3]);
        assert_eq!(ids[2], [2, 4, 5, 3, 8, 9, 10, 11, 3]);
        let places: Vec<_> = made.iter().map(|feature| (feature.start, feature.end)).collect();
        assert_eq!(places, [(0, 0), (0, 0), (5, 6)]);
    }

    #[test]
    fn a_stride_longer_than_a_window_leaves_nothing_out() {
        let set = one("a b c d e f g h", "a", "h");
        let lengths = Lengths { max_length: 7, doc_stride: 128, max_question: 1 };
        let made = features(&set, &tokenizer(), &lengths, Mode::Evaluate).unwrap();
        let seen: Vec<(u32, u32)> = made.iter().flat_map(|f| f.offsets.clone()).collect();
        assert_eq!(seen, (0..8).map(|i| (2 * i, 2 * i + 1)).collect::<Vec<_>>());
        assert_eq!(made[1].characters(3), Some((6, 7)));
        assert_eq!((made[1].characters(2), made[1].characters(6)), (None, None));
    }

    #[test]
    fn lengths_that_hold_nothing_are_refused() {
        let set = one("a", "a", "a");
        let lengths = Lengths { max_length: 64, doc_stride: 128, max_question: 64 };
        let error = features(&set, &tokenizer(), &lengths, Mode::Train).unwrap_err().to_string();
        assert!(error.contains("64 tokens do not hold a question of 64"), "{error}");
    }
}
