//! WordPiece as BERT's uncased models have it, by the `tokenizers` crate.

use std::path::Path;

use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;

use super::Error;

/// A token and the characters it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: u32,
    pub from: u32,
    pub to: u32,
}

#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    pub pad: u32,
    pub cls: u32,
    pub sep: u32,
}

impl Tokenizer {
    /// From a vocabulary's tokens in the order of their numbers, for uncased text.
    pub fn from_vocab<T: AsRef<str>>(tokens: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        let mut vocab = serde_json::Map::new();
        for (token, id) in tokens.into_iter().zip(0u32..) {
            if vocab.insert(token.as_ref().into(), id.into()).is_some() {
                let why = format!("the token {:?} stands in it twice", token.as_ref());
                return Err(Error::Vocabulary(why));
            }
        }
        let model = serde_json::json!({
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocab,
        });
        // Only from text: the type borrows its name.
        let model: WordPiece = serde_json::from_str(&model.to_string()).map_err(other)?;
        let mut inner = tokenizers::Tokenizer::new(model);
        inner.with_normalizer(Some(BertNormalizer::default())).map_err(other)?;
        inner.with_pre_tokenizer(Some(BertPreTokenizer));
        Self::new(inner)
    }

    /// From `vocab.txt`, a token to a line, or `tokenizer.json`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        if path.extension().is_some_and(|extension| extension == "json") {
            let mut inner = tokenizers::Tokenizer::from_file(path)
                .map_err(|error| Error::File { path: path.into(), why: error.to_string() })?;
            // The windows are made here; the file's own truncation would cut them.
            inner.with_padding(None);
            inner.with_truncation(None).map_err(other)?;
            return Self::new(inner).map_err(|error| error.within(path));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Io { path: path.into(), source })?;
        Self::from_vocab(text.lines()).map_err(|error| error.within(path))
    }

    fn new(inner: tokenizers::Tokenizer) -> Result<Self, Error> {
        let id = |token: &str| {
            let missing = || Error::Vocabulary(format!("it has no token {token}"));
            inner.token_to_id(token).ok_or_else(missing)
        };
        let (pad, cls, sep) = (id("[PAD]")?, id("[CLS]")?, id("[SEP]")?);
        id("[UNK]")?;
        Ok(Self { inner, pad, cls, sep })
    }

    /// How many tokens there are.
    pub fn size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// A text's tokens, without any marks around them.
    pub fn tokens(&self, text: &str) -> Result<Vec<Token>, Error> {
        let encoding = self.inner.encode_char_offsets(text, false).map_err(other)?;
        let offsets = encoding.get_offsets().iter();
        let token = |(id, (from, to)): (&u32, &(usize, usize))| Token {
            id: *id,
            from: *from as u32,
            to: *to as u32,
        };
        Ok(encoding.get_ids().iter().zip(offsets).map(token).collect())
    }
}

fn other(error: impl std::fmt::Display) -> Error {
    Error::Vocabulary(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_pieces_with_their_characters() {
        let tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "zoe", "##s", "was", "!"];
        let tokenizer = Tokenizer::from_vocab(tokens).unwrap();
        let found = tokenizer.tokens("Zoë wás there!").unwrap();
        let found: Vec<_> = found.iter().map(|token| (token.id, token.from, token.to)).collect();
        assert_eq!(found, [(4, 0, 3), (6, 4, 7), (1, 8, 13), (7, 13, 14)]);
        assert_eq!(tokenizer.size(), 8);
    }

    #[test]
    fn vocabularies_that_miss_or_repeat_a_token_are_refused() {
        let said = |tokens: &[&str]| Tokenizer::from_vocab(tokens).unwrap_err().to_string();
        assert_eq!(said(&["[PAD]", "[UNK]", "[CLS]"]), "the vocabulary: it has no token [SEP]");
        assert!(said(&["[PAD]", "[PAD]"]).contains("the token \"[PAD]\" stands in it twice"));
    }
}
