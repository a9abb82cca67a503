//! Question answering in the form of SQuAD v1.1: the data, what a model is fed of it, and how its
//! answers are marked.
//!
//! [`Dataset`] is the published JSON; [`Tokenizer`] cuts text into WordPiece tokens; [`features`]
//! makes the windows a model sees; [`batches`] hands them out in an order both passes share, made
//! ahead in the background; [`predict`] turns logits into texts and [`score`] marks them as the
//! published script does. [`generate`] writes a small set of the same form, for which nothing has
//! to be fetched.

mod batches;
mod dataset;
mod features;
mod generate;
mod metric;
mod predict;
mod tokenizer;
mod vocabulary;

pub use batches::{Batch, Batches, batch, batches, order, sample};
pub use dataset::{Answer, Article, Dataset, Paragraph, Question};
pub use features::{Feature, Lengths, Mode, features};
pub use generate::{Generated, Size, generate};
pub use metric::{Score, exact, f1, normalise, score};
pub use predict::{Limits, predict};
pub use tokenizer::Tokenizer;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = path.display())]
    Io {
        path: std::path::PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path}: {why}", path = path.display())]
    File { path: std::path::PathBuf, why: String },
    #[error("the data set: {0}")]
    Data(String),
    #[error("the vocabulary: {0}")]
    Vocabulary(String),
    #[error("question {id}: {why}")]
    Question { id: String, why: String },
    #[error("{0}")]
    Lengths(String),
    #[error("{0}")]
    Logits(String),
}

impl Error {
    /// Says in which file it was.
    fn within(self, path: &std::path::Path) -> Self {
        match self {
            Error::Io { .. } | Error::File { .. } => self,
            other => Error::File { path: path.into(), why: other.to_string() },
        }
    }
}
