//! Text in aligned columns.

use std::io::{self, Write};

use anstyle::Style;

/// One cell: its text and how it looks.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Writes rows with every column as wide as its widest cell and two spaces between columns.
pub fn write(out: &mut dyn Write, indent: usize, rows: &[Vec<Cell>]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column| rows.iter().filter_map(|row| row.get(column)).map(Cell::width).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        write!(out, "{:indent$}", "")?;
        for (column, cell) in row.iter().enumerate() {
            let Cell { text, style } = cell;
            write!(out, "{style}{text}{style:#}")?;
            if column + 1 < row.len() {
                write!(out, "{:1$}", "", widths[column] - cell.width() + 2)?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Breaks text between words into lines of at most `width` characters; a longer word stands alone.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensible is", 4), ["incomprehensible", "is"]);
        assert!(wrap("", 4).is_empty());
    }

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_space() {
        let rows = [vec!["a".into(), "b".into()], vec!["long".into(), Cell::from("c")]];
        let mut out = anstream::StripStream::new(Vec::new());
        write(&mut out, 1, &rows).unwrap();
        assert_eq!(String::from_utf8(out.into_inner()).unwrap(), " a     b\n long  c\n");
    }
}
