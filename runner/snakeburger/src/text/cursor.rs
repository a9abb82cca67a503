//! Reading a text byte by byte: white space, comments, punctuation, words, numbers, strings.

use std::fmt::Write as _;

use crate::diag::Diagnostic;

pub(crate) type Parse<T> = Result<T, Box<Diagnostic>>;

/// A place in a text, and the ways to move on from it.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        let mut cursor = Self { text, at: 0 };
        cursor.skip_space();
        cursor
    }

    pub fn fail<T>(&self, message: impl Into<String>) -> Parse<T> {
        Err(Box::new(Diagnostic::new(self.at, message)))
    }

    #[expect(clippy::unused_self, reason = "reads like `fail`")]
    pub fn fail_at<T>(&self, at: usize, message: impl Into<String>) -> Parse<T> {
        Err(Box::new(Diagnostic::new(at, message)))
    }

    /// Fails with "expected …, found …".
    pub fn expected<T>(&self, what: &str) -> Parse<T> {
        let found = match self.peek() {
            0 => "the end of the text".to_string(),
            _ => format!("`{}`", self.glimpse()),
        };
        self.fail(format!("expected {what}, found {found}"))
    }

    /// The next few characters, for messages.
    fn glimpse(&self) -> String {
        let rest = &self.text[self.at..];
        let word = self.clone().take_word();
        if word.is_empty() {
            rest.chars().take(1).collect()
        } else {
            word.chars().take(40).collect()
        }
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The byte at the cursor; 0 at the end.
    pub fn peek(&self) -> u8 {
        self.bytes().get(self.at).copied().unwrap_or(0)
    }

    pub fn peek_at(&self, ahead: usize) -> u8 {
        self.bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    pub fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub fn skip_space(&mut self) {
        let bytes = self.bytes();
        loop {
            match bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(b'/') if bytes.get(self.at + 1) == Some(&b'/') => {
                    self.at +=
                        memchr::memchr(b'\n', &bytes[self.at..]).unwrap_or(bytes.len() - self.at);
                }
                _ => return,
            }
        }
    }

    /// Moves past `n` bytes and the space after them.
    pub fn advance(&mut self, n: usize) {
        self.at += n;
        self.skip_space();
    }

    /// Takes a punctuation mark if it is next.
    pub fn eat(&mut self, mark: &str) -> bool {
        let found = self.text[self.at..].starts_with(mark);
        if found {
            self.advance(mark.len());
        }
        found
    }

    pub fn expect(&mut self, mark: &str) -> Parse<()> {
        if self.eat(mark) { Ok(()) } else { self.expected(&format!("`{mark}`")) }
    }

    /// Whether a whole word is next.
    pub fn at_word(&self, word: &str) -> bool {
        self.text[self.at..].starts_with(word) && !is_word(self.peek_at(word.len()))
    }

    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.advance(word.len());
        }
        found
    }

    pub fn expect_word(&mut self, word: &str) -> Parse<()> {
        if self.eat_word(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    /// Takes letters, digits, `_`, `$` and `.`; empty if there are none.
    pub fn take_word(&mut self) -> &'a str {
        let start = self.at;
        let bytes = self.bytes();
        while bytes.get(self.at).is_some_and(|b| is_word(*b)) {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        self.skip_space();
        word
    }

    pub fn word(&mut self, what: &str) -> Parse<&'a str> {
        if !is_word(self.peek()) {
            return self.expected(what);
        }
        Ok(self.take_word())
    }

    /// Takes a name after a sigil (`%0`, `@main`, `^bb0`), which may hold `-` too; for `@` it may
    /// be a string.
    pub fn suffix(&mut self, what: &str) -> Parse<&'a str> {
        let start = self.at;
        let bytes = self.bytes();
        while bytes.get(self.at).is_some_and(|b| is_word(*b) || *b == b'-') {
            self.at += 1;
        }
        if start == self.at {
            return self.expected(what);
        }
        let name = &self.text[start..self.at];
        self.skip_space();
        Ok(name)
    }

    /// A list between marks, separated by commas, possibly empty.
    pub fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close) {
                return Ok(items);
            }
            if !self.eat(",") {
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
    }

    /// A decimal or hexadecimal integer with an optional sign.
    pub fn integer(&mut self) -> Parse<i128> {
        let start = self.at;
        let negative = self.peek() == b'-';
        let mut at = self.at + usize::from(negative || self.peek() == b'+');
        let bytes = self.bytes();
        let hex = bytes.get(at) == Some(&b'0') && bytes.get(at + 1) == Some(&b'x');
        at += if hex { 2 } else { 0 };
        let digits = at;
        let good = |b: &u8| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
        while bytes.get(at).is_some_and(good) {
            at += 1;
        }
        if digits == at {
            return self.expected("an integer");
        }
        let radix = if hex { 16 } else { 10 };
        let Ok(value) = i128::from_str_radix(&self.text[digits..at], radix) else {
            return self.fail("this integer is too large");
        };
        self.at = start;
        self.advance(at - start);
        Ok(if negative { -value } else { value })
    }

    pub fn int64(&mut self) -> Parse<i64> {
        let start = self.at;
        let value = self.integer()?;
        match i64::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => self.fail_at(start, "this integer does not fit into 64 bits"),
        }
    }

    /// The extent of a number at the cursor: digits, a point, an exponent, a sign. Nothing moves.
    pub fn number_text(&self) -> &'a str {
        let bytes = self.bytes();
        let mut at = self.at;
        if matches!(bytes.get(at), Some(b'-' | b'+')) {
            at += 1;
        }
        if bytes.get(at) == Some(&b'0') && bytes.get(at + 1) == Some(&b'x') {
            at += 2;
            while bytes.get(at).is_some_and(u8::is_ascii_hexdigit) {
                at += 1;
            }
            return &self.text[self.at..at];
        }
        while let Some(b) = bytes.get(at) {
            let exponent_sign = matches!(b, b'-' | b'+') && matches!(bytes[at - 1], b'e' | b'E');
            if !(b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E') || exponent_sign) {
                break;
            }
            at += 1;
        }
        &self.text[self.at..at]
    }

    /// A quoted string's raw content, escapes not yet resolved.
    pub fn raw_string(&mut self) -> Parse<&'a str> {
        if self.peek() != b'"' {
            return self.expected("a string");
        }
        let start = self.at + 1;
        let mut at = start;
        loop {
            match memchr::memchr2(b'"', b'\\', &self.bytes()[at..]) {
                None => return self.fail("this string does not end"),
                Some(i) if self.bytes()[at + i] == b'"' => {
                    at += i;
                    break;
                }
                Some(i) => at = (at + i + 2).min(self.text.len()),
            }
        }
        let Some(content) = self.text.get(start..at) else {
            return self.fail("this string is cut inside a character");
        };
        self.at = at + 1;
        self.skip_space();
        Ok(content)
    }

    pub fn string(&mut self) -> Parse<Box<str>> {
        let start = self.at;
        let raw = self.raw_string()?;
        match unescape(raw) {
            Some(text) => Ok(text),
            None => self.fail_at(start, "this string has an escape that is not valid"),
        }
    }

    /// Takes text up to the mark that closes the bracket the cursor stands at, both included.
    pub fn balanced(&mut self) -> Parse<&'a str> {
        let start = self.at;
        let mut depth: Vec<u8> = Vec::new();
        loop {
            let b = self.peek();
            match b {
                0 if self.at_end() => return self.fail_at(start, "this bracket is never closed"),
                b'"' => {
                    self.raw_string()?;
                    continue;
                }
                b'-' if self.peek_at(1) == b'>' => self.at += 1,
                b'<' => depth.push(b'>'),
                b'(' => depth.push(b')'),
                b'[' => depth.push(b']'),
                b'{' => depth.push(b'}'),
                b'>' | b')' | b']' | b'}' if depth.pop() != Some(b) => {
                    return self.fail("this bracket does not match the one that was opened");
                }
                _ => {}
            }
            self.at += 1;
            while !self.text.is_char_boundary(self.at) {
                self.at += 1;
            }
            if depth.is_empty() {
                break;
            }
            if depth.len() > 1000 {
                return self.fail("brackets are nested too deeply");
            }
        }
        let text = &self.text[start..self.at];
        self.skip_space();
        Ok(text)
    }
}

pub(crate) fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.')
}

/// Resolves MLIR's string escapes; `None` if one is malformed.
fn unescape(raw: &str) -> Option<Box<str>> {
    if !raw.contains('\\') {
        return Some(raw.into());
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match bytes.next()? {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            mark @ (b'\\' | b'"') => out.push(mark),
            high => {
                let digit = |b: u8| char::from(b).to_digit(16);
                out.push((digit(high)? * 16 + digit(bytes.next()?)?) as u8);
            }
        }
    }
    // Strings are bytes to MLIR; what is not UTF-8 is kept readable rather than refused.
    Some(String::from_utf8_lossy(&out).into_owned().into())
}

/// Quotes a string the way it is read.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                let _ = write!(out, "\\{:02X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
