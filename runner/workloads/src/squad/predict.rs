//! From logits to texts: the best span over all windows of a question.

use std::collections::BTreeMap;

use super::{Dataset, Error, Feature, Question};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many first and last tokens of a window are tried.
    pub n_best: usize,
    /// In tokens.
    pub max_answer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { n_best: 20, max_answer: 30 }
    }
}

/// The answers by the questions' ids. The logits are those of `features` in their order, `length`
/// numbers for each, padding included.
pub fn predict(
    dataset: &Dataset,
    features: &[Feature],
    start: &[f32],
    end: &[f32],
    length: usize,
    limits: Limits,
) -> Result<BTreeMap<String, String>, Error> {
    let wanted = features.len() * length;
    if start.len() != wanted || end.len() != wanted || length == 0 {
        return Err(Error::Logits(format!(
            "{} windows of {length} tokens have {wanted} logits, but {} and {} are given",
            features.len(),
            start.len(),
            end.len()
        )));
    }
    let questions: Vec<_> = dataset.questions().collect();
    let mut best: Vec<Option<(f32, (u32, u32))>> = vec![None; questions.len()];
    let rows = features.iter().zip(start.chunks_exact(length).zip(end.chunks_exact(length)));
    for (feature, (start, end)) in rows {
        let Some(best) = best.get_mut(feature.question) else {
            let why = format!("there is no question {}", feature.question);
            return Err(Error::Logits(why));
        };
        let ends = highest(end, limits.n_best);
        for first in highest(start, limits.n_best) {
            for last in &ends {
                let (Some(from), Some(to)) = (feature.characters(first), feature.characters(*last))
                else {
                    continue;
                };
                if *last < first || last - first + 1 > limits.max_answer {
                    continue;
                }
                let score = start[first] + end[*last];
                // Of equals the one found first.
                if best.is_none_or(|(known, _)| score > known) {
                    *best = Some((score, (from.0, to.1)));
                }
            }
        }
    }
    let text = |((paragraph, question), best): (&(&super::Paragraph, &Question), _)| {
        let (_, (from, to)): (f32, (u32, u32)) = Option::unwrap_or_default(best);
        let characters = paragraph.context.chars();
        let text = characters.skip(from as usize).take((to - from) as usize).collect();
        (question.id.clone(), text)
    };
    Ok(questions.iter().zip(best).map(text).collect())
}

/// The places of the highest numbers, the highest first, and of equals the last first.
fn highest(numbers: &[f32], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..numbers.len()).collect();
    places.sort_by(|a, b| numbers[*b].total_cmp(&numbers[*a]).then(b.cmp(a)));
    places.truncate(count);
    places
}
