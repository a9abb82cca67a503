//! Diagnostics: what is wrong, where, and a picture of the line.

use std::fmt;

/// A problem found in a program's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Byte offset into the text; `None` for a program that was built, not parsed.
    pub offset: Option<usize>,
    /// What is wrong and, where it helps, what was expected.
    pub message: String,
}

impl Diagnostic {
    pub fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset: Some(offset), message: message.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

/// A text with its name, to show diagnostics in.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
    /// Line number of the text's first line: more than 1 for a part of a split file.
    pub first_line: usize,
}

/// The longest part of a source line that is shown; constants can make lines of megabytes.
const SHOWN: usize = 120;

impl<'a> Source<'a> {
    pub fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text, first_line: 1 }
    }

    /// Line and column, both from 1; a column counts characters.
    pub fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = self.before(offset);
        let line = before.bytes().filter(|b| *b == b'\n').count() + self.first_line;
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        (line, before[start..].chars().count() + 1)
    }

    fn before(&self, offset: usize) -> &'a str {
        let mut end = offset.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        &self.text[..end]
    }

    /// The diagnostic as a person reads it: `file:line:column: error: …` and the line with a caret.
    pub fn render(&self, diagnostic: &Diagnostic) -> String {
        let Some(offset) = diagnostic.offset else {
            return format!("{}: error: {}", self.name, diagnostic.message);
        };
        let (line, column) = self.line_column(offset);
        let start = self.before(offset).rfind('\n').map_or(0, |i| i + 1);
        let rest = &self.text[start..];
        let text = rest[..rest.find('\n').unwrap_or(rest.len())].trim_end();
        let number = line.to_string();
        let (shown, caret) = window(text, column - 1);
        format!(
            "{}:{line}:{column}: error: {}\n {number} | {shown}\n {} | {}^",
            self.name,
            diagnostic.message,
            " ".repeat(number.len()),
            " ".repeat(caret),
        )
    }
}

/// The part of a line around a column that fits on a screen, and the column within it.
fn window(line: &str, column: usize) -> (String, usize) {
    let clean = |c: char| if c == '\t' { ' ' } else { c };
    let length = line.chars().count();
    if length <= SHOWN {
        return (line.chars().map(clean).collect(), column);
    }
    let skip = column.saturating_sub(SHOWN / 2).min(length - SHOWN / 2);
    let part: String = line.chars().skip(skip).take(SHOWN).map(clean).collect();
    let (dots, shift) = if skip > 0 { ("… ", 2) } else { ("", 0) };
    (format!("{dots}{part} …"), column - skip + shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_shows_its_line_and_points_at_the_column() {
        let source = Source::new("a.mlir", "one\n\ttwo three\n");
        let shown = source.render(&Diagnostic::new(9, "expected four"));
        assert_eq!(shown, "a.mlir:2:6: error: expected four\n 2 |  two three\n   |      ^");
    }

    #[test]
    fn a_long_line_is_cut_around_the_column() {
        let text = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let source = Source::new("a.mlir", &text);
        let shown = source.render(&Diagnostic::new(500, "here"));
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].chars().count() < 140, "{shown}");
        let at = lines[2].chars().position(|c| c == '^').unwrap();
        assert_eq!(lines[1].chars().nth(at), Some('X'));
    }
}
