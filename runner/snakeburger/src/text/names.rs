//! What a text names outside of its functions: attribute and type aliases, resources.

use super::cursor::{Cursor, Parse};
use super::parser::Parser;
use crate::ir::{Attr, Elem, Ty};

/// How often aliases may be expanded in one text: aliases of aliases could double without end.
const MAX_EXPANSIONS: u32 = 1 << 20;

impl Parser<'_> {
    /// Notes where aliases are defined; printers put some of them behind their first use.
    pub(super) fn find_aliases(&mut self) {
        for start in
            std::iter::once(0).chain(memchr::memchr_iter(b'\n', self.cur.bytes()).map(|i| i + 1))
        {
            let sigil = self.cur.bytes().get(start);
            if !matches!(sigil, Some(b'#' | b'!')) {
                continue;
            }
            let mut cur = Cursor { text: self.cur.text, at: start + 1 };
            let name = cur.take_word();
            if name.is_empty() || !cur.eat("=") {
                continue;
            }
            let table =
                if sigil == Some(&b'#') { &mut self.aliases } else { &mut self.type_aliases };
            table.insert(name, cur.at);
        }
    }

    /// Moves past alias definitions and the resource section, all of which were read already.
    pub(super) fn skip_definitions(&mut self) -> Parse<()> {
        loop {
            match self.cur.peek() {
                b'#' => {
                    self.cur.at += 1;
                    self.cur.take_word();
                    self.cur.expect("=")?;
                    if self.cur.at_word("loc") {
                        self.cur.advance(3);
                        self.cur.balanced()?;
                    } else {
                        self.attr()?;
                    }
                }
                b'!' => {
                    self.cur.at += 1;
                    self.cur.take_word();
                    self.cur.expect("=")?;
                    if self.cur.eat("!quant.uniform") {
                        self.cur.balanced()?;
                    } else {
                        self.ty()?;
                    }
                }
                b'{' if self.cur.eat("{-#") => {
                    match memchr::memmem::find(&self.cur.bytes()[self.cur.at..], b"#-}") {
                        Some(end) => self.cur.advance(end + 3),
                        None => return self.cur.fail("expected `#-}` after the resources"),
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// Reads `{-# dialect_resources: { builtin: { name: "0x…" } } #-}` at the end of the text.
    pub(super) fn find_resources(&mut self) -> Parse<()> {
        let Some(start) = memchr::memmem::rfind(self.cur.bytes(), b"{-#") else {
            return Ok(());
        };
        let mut cur = Cursor { text: self.cur.text, at: start };
        cur.advance(3);
        while !cur.at_end() && !cur.text[cur.at..].starts_with("#-}") {
            if cur.peek() == b'"' {
                cur.raw_string()?;
                continue;
            }
            let name = cur.take_word();
            if name.is_empty() {
                cur.advance(1);
                while !cur.text.is_char_boundary(cur.at) {
                    cur.at += 1;
                }
            } else if cur.eat(":") && cur.peek() == b'"' {
                let at = cur.at;
                self.resources.insert(name, (cur.raw_string()?, at));
            }
        }
        Ok(())
    }

    /// `dense_resource<name> : type`; the cursor stands behind the first word.
    pub(crate) fn dense_resource(&mut self) -> Parse<Attr> {
        self.cur.expect("<")?;
        let start = self.cur.at;
        let name = self.cur.word("a resource's name")?;
        self.cur.expect(">")?;
        self.cur.expect(":")?;
        let Ty::Tensor(ty) = self.ty()? else {
            return self.cur.fail_at(start, "a resource has a tensor type");
        };
        let Some((text, at)) = self.resources.get(name).copied() else {
            return self.cur.fail_at(start, format!("there is no resource `{name}` in this file"));
        };
        // The first four bytes are the blob's alignment.
        match super::dense::unhex(text) {
            Some(bytes) if bytes.len() >= 4 => {
                self.blob(ty, &bytes[4..], at).map(|literal| Attr::Dense(literal.into()))
            }
            _ => self.cur.fail_at(at, "expected a string of the form \"0x…\" in hex digits"),
        }
    }

    /// The attribute an alias stands for.
    pub(crate) fn alias(&mut self, name: &str) -> Parse<Option<Attr>> {
        let at = self.aliases.get(name).copied();
        at.map(|at| self.expand(at, Self::attr)).transpose()
    }

    pub(crate) fn type_alias(&mut self, name: &str) -> Parse<Option<Ty>> {
        let at = self.type_aliases.get(name).copied();
        at.map(|at| self.expand(at, Self::ty)).transpose()
    }

    pub(crate) fn elem_alias(&mut self, name: &str) -> Parse<Option<Elem>> {
        let at = self.type_aliases.get(name).copied();
        at.map(|at| self.expand(at, |p| p.nest(Self::elem))).transpose()
    }

    /// Parses at an alias's definition and comes back.
    pub(crate) fn expand<T>(
        &mut self,
        at: usize,
        parse: impl FnOnce(&mut Self) -> Parse<T>,
    ) -> Parse<T> {
        self.expansions += 1;
        if self.expansions > MAX_EXPANSIONS {
            return self.cur.fail("aliases are expanded too often: they may refer to each other");
        }
        let back = std::mem::replace(&mut self.cur.at, at);
        let parsed = parse(self)?;
        self.cur.at = back;
        Ok(parsed)
    }
}
