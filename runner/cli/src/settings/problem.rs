//! What is wrong with the configuration, shown at the place where it is wrong.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    message: String,
    place: Option<Place>,
    help: Option<String>,
}

/// A stretch of one line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    line: usize,
    column: usize,
    width: usize,
    text: String,
}

/// All mistakes of one configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    /// A mistake without a place in a file.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), place: None, help: None }
    }

    /// A mistake in the bytes `span` of `source`.
    pub fn at(path: PathBuf, source: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let place = Some(Place::new(path, source, span));
        Self { message: message.into(), place, help: None }
    }

    /// The line it is on; what is in no file comes after what is.
    pub fn line(&self) -> usize {
        self.place.as_ref().map_or(usize::MAX, |place| place.line)
    }

    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub fn with_optional_help(self, help: Option<String>) -> Self {
        match help {
            Some(help) => self.with_help(help),
            None => self,
        }
    }
}

impl Place {
    fn new(path: PathBuf, source: &str, span: Range<usize>) -> Self {
        let start = source.floor_char_boundary(span.start);
        let end = source.floor_char_boundary(span.end);
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let text = source[line_start..].lines().next().unwrap_or_default();
        let marked = source[start..end.max(start)].lines().next().unwrap_or_default();
        Self {
            path,
            line: line_of(source, start),
            column: source[line_start..start].chars().count() + 1,
            width: marked.chars().count().max(1),
            text: text.replace('\t', " "),
        }
    }
}

/// The number of the line that holds byte `offset`, from 1.
pub fn line_of(source: &str, offset: usize) -> usize {
    source[..source.floor_char_boundary(offset)].matches('\n').count() + 1
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(place) = &self.place {
            write!(f, "\n{place}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, column, width, text } = self;
        let margin = " ".repeat(line.to_string().len());
        let indent = " ".repeat(column - 1);
        let carets = "^".repeat(*width);
        writeln!(f, "{margin}--> {}:{line}:{column}", path.display())?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{line} | {text}")?;
        write!(f, "{margin} | {indent}{carets}")
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("\n"))
    }
}

impl std::error::Error for Problems {}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_at_the_place() {
        let source = "quiet = true\ncölor = \"pink\"\n";
        let start = source.find("\"pink").unwrap();
        let problem = Problem::at("w.toml".into(), source, start..start + 6, "wrong");
        let expected = "wrong\n --> w.toml:2:9\n  |\n2 | cölor = \"pink\"\n  |         ^^^^^^";
        assert_eq!(problem.to_string(), expected);
    }

    #[test]
    fn survives_a_span_at_the_very_end() {
        let problem = Problem::at("w.toml".into(), "a = ", 4..4, "cut off");
        assert!(problem.to_string().contains("w.toml:1:5"));
    }
}
