//! The published JSON of SQuAD v1.1.

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use warpforge_pt2::random::Stream;

use super::Error;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dataset {
    pub version: String,
    pub data: Vec<Article>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Article {
    pub title: String,
    pub paragraphs: Vec<Paragraph>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paragraph {
    pub context: String,
    pub qas: Vec<Question>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub id: String,
    pub question: String,
    #[serde(default)]
    pub answers: Vec<Answer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub text: String,
    /// Counted in characters, as the published files have it.
    pub answer_start: usize,
}

impl Dataset {
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Io { path: path.into(), source })?;
        Self::parse(&text).map_err(|error| error.within(path))
    }

    /// Reads and checks: every question has a name of its own and an answer, and every answer
    /// stands where it says.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let set: Self =
            serde_json::from_str(text).map_err(|error| Error::Data(format!("{error}")))?;
        if set.version.starts_with("v2") || set.version.starts_with('2') {
            let why = format!(
                "version {} has questions without answers; version 1.1 is read",
                set.version
            );
            return Err(Error::Data(why));
        }
        set.check()?;
        Ok(set)
    }

    fn check(&self) -> Result<(), Error> {
        let mut seen = HashSet::new();
        for (paragraph, question) in self.questions() {
            let wrong = |why: String| Error::Question { id: question.id.clone(), why };
            if !seen.insert(question.id.as_str()) {
                return Err(wrong("its id stands twice in the file".into()));
            }
            if question.answers.is_empty() {
                return Err(wrong("it has no answer".into()));
            }
            for answer in &question.answers {
                let mut rest = paragraph.context.chars().skip(answer.answer_start);
                if !answer.text.chars().all(|wanted| rest.next() == Some(wanted)) {
                    let why = format!(
                        "its answer {:?} does not stand at character {} of the context",
                        answer.text, answer.answer_start
                    );
                    return Err(wrong(why));
                }
            }
        }
        if seen.is_empty() {
            return Err(Error::Data("it has no questions".into()));
        }
        Ok(())
    }

    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec(self)
            .map_err(|error| Error::File { path: path.into(), why: error.to_string() })?;
        warpforge_parity::bundle::write_beside(path, &text)
            .map_err(|source| Error::Io { path: path.into(), source })
    }

    pub fn paragraphs(&self) -> impl Iterator<Item = &Paragraph> {
        self.data.iter().flat_map(|article| &article.paragraphs)
    }

    /// All questions in the file's order, each with its paragraph.
    pub fn questions(&self) -> impl Iterator<Item = (&Paragraph, &Question)> {
        self.paragraphs().flat_map(|paragraph| paragraph.qas.iter().map(move |qa| (paragraph, qa)))
    }

    /// The same questions about other paragraphs' contexts: what a model still answers here it
    /// does not have from the passage. Contexts move along one random cycle, so that none stays.
    /// For evaluation alone: the answers no longer stand where they say.
    pub fn shuffled_contexts(&self, seed: u64) -> Self {
        let contexts: Vec<&str> = self.paragraphs().map(|p| p.context.as_str()).collect();
        let stream = Stream { seed, step: 0, ordinal: super::batches::ORDINAL };
        let cycle = stream.permutation(contexts.len() as u64);
        let mut from = vec![0; contexts.len()];
        for (at, paragraph) in cycle.iter().enumerate() {
            from[*paragraph as usize] = cycle[(at + 1) % cycle.len()] as usize;
        }
        let mut shuffled = self.clone();
        let paragraphs = shuffled.data.iter_mut().flat_map(|article| &mut article.paragraphs);
        for (paragraph, from) in paragraphs.zip(from) {
            contexts[from].clone_into(&mut paragraph.context);
        }
        shuffled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(context: &str, answer: &str, at: usize) -> String {
        serde_json::json!({"version": "1.1", "data": [{"title": "t", "paragraphs": [{
            "context": context,
            "qas": [{"id": "q1", "question": "?", "answers": [
                {"text": answer, "answer_start": at}
            ]}],
        }]}]})
        .to_string()
    }

    #[test]
    fn answers_are_counted_in_characters() {
        assert!(Dataset::parse(&set("Zoë was née Müller", "Müller", 12)).is_ok());
        let error = Dataset::parse(&set("Zoë was née Müller", "Müller", 14)).unwrap_err();
        let told =
            "question q1: its answer \"Müller\" does not stand at character 14 of the context";
        assert_eq!(error.to_string(), told);
    }

    #[test]
    fn what_is_no_such_set_is_refused() {
        let parse = |text: &str| Dataset::parse(text).unwrap_err().to_string();
        assert!(parse("{").contains("EOF"), "{}", parse("{"));
        assert!(parse(r#"{"version": "v2.0", "data": []}"#).contains("version v2.0"));
        assert!(parse(r#"{"version": "1.1", "data": []}"#).contains("no questions"));
        let question = r#"{"id": "a", "question": "?", "answers": []}"#;
        let text = format!(
            r#"{{"version": "1.1", "data": [{{"title": "", "paragraphs": [
                {{"context": "", "qas": [{question}]}}]}}]}}"#
        );
        assert!(parse(&text).contains("question a: it has no answer"));
        let question =
            r#"{"id": "a", "question": "?", "answers": [{"text": "", "answer_start": 0}]}"#;
        let text = format!(
            r#"{{"version": "1.1", "data": [{{"title": "", "paragraphs": [
                {{"context": "", "qas": [{question}, {question}]}}]}}]}}"#
        );
        assert!(parse(&text).contains("stands twice"));
    }

    #[test]
    fn no_context_stays_where_it_was() {
        let made = crate::squad::generate(1, crate::squad::Size { paragraphs: 40, questions: 40 });
        let shuffled = made.dev.shuffled_contexts(3);
        let mut pairs = made.dev.paragraphs().zip(shuffled.paragraphs());
        assert!(pairs.all(|(a, b)| a.context != b.context && a.qas == b.qas));
    }
}
