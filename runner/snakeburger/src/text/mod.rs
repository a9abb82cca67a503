//! MLIR text: reading it, writing it, and splitting files at `// -----`.

mod attrs;
pub(crate) mod conv;
mod cursor;
mod dense;
pub(crate) mod form;
mod module;
mod names;
mod parser;
mod printer;
mod scope;
mod types;

pub(crate) use cursor::Parse;
pub use form::{Form, Types, Word};
pub use parser::{Options, Parser};
pub use printer::{PrintOptions, Printer, print};

use crate::diag::Diagnostic;
use crate::ir::Module;

/// Parses one program.
pub fn parse(text: &str, options: Options) -> Result<Module, Box<Diagnostic>> {
    if text.as_bytes().starts_with(b"ML\xefR") {
        let message = format!("this is MLIR bytecode, which is not supported: {BYTECODE_CURE}");
        return Err(Box::new(Diagnostic::new(0, message)));
    }
    Parser::new(text, options).file()
}

/// What to do about a portable artifact.
pub const BYTECODE_CURE: &str =
    "convert it to text with `stablehlo-translate --deserialize model.mlirbc -o model.mlir`";

/// The parts of a file between lines `// -----`, each with the number of its first line.
pub fn split(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut first, mut at) = (0, 1, 0);
    for (i, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_end() == "// -----" {
            parts.push((first, &text[start..at]));
            start = at + line.len();
            first = i + 2;
        }
        at += line.len();
    }
    parts.push((first, &text[start..]));
    parts
}
