//! The terminal as the commands see it: where output goes, whether it may be coloured, and how
//! talkative it should be. Commands write to it explicitly; nothing else prints.

use std::io::{self, IsTerminal as _, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::settings::Color;

pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const GREEN: Style = AnsiColor::Green.on_default();
pub const YELLOW: Style = AnsiColor::Yellow.on_default();
pub const RED: Style = AnsiColor::Red.on_default();

/// Standard output and the manners to use on it.
pub struct Ui {
    out: AutoStream<io::StdoutLock<'static>>,
    quiet: bool,
    unicode: bool,
}

impl Ui {
    pub fn new(color: Color, quiet: bool) -> Self {
        let out = AutoStream::new(io::stdout().lock(), color.into());
        Self { out, quiet, unicode: locale_is_utf8() }
    }

    /// The sink for what the command was asked for. Styles are removed where they do not belong.
    pub fn out(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// A remark beside the result: left out with `--quiet`.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        if self.quiet { Ok(()) } else { writeln!(self.out, "{text}") }
    }

    /// Prints a value in the form its schema promises.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        writeln!(self.out, "{text}")
    }

    /// Whether a progress display may be shown (it goes to standard error).
    pub fn shows_progress(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// How many characters fit on a line; a readable number where output is no terminal.
    pub fn width() -> usize {
        let window = rustix::termios::tcgetwinsize(io::stdout()).ok();
        window.map(|size| usize::from(size.ws_col)).filter(|width| *width >= 40).unwrap_or(100)
    }

    /// `fancy` where the locale can show it, else `plain`.
    pub fn glyph(&self, fancy: &'static str, plain: &'static str) -> &'static str {
        if self.unicode { fancy } else { plain }
    }

    /// Hands everything to the operating system, so that a failure is seen and not lost.
    pub fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Standard error with the same rule about colours.
pub fn stderr(color: Color) -> AutoStream<io::Stderr> {
    AutoStream::new(io::stderr(), color.into())
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

fn locale_is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty());
    locale.is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}
