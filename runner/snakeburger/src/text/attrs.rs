//! Attributes and locations in MLIR text.

use std::sync::Arc;

use super::cursor::Parse;
use super::parser::Parser;
use crate::ir::{Attr, DType, Dict, Loc, LocId};

impl<'a> Parser<'a> {
    /// Any attribute.
    pub(crate) fn attr(&mut self) -> Parse<Attr> {
        self.nest(Self::attr_inner)
    }

    fn attr_inner(&mut self) -> Parse<Attr> {
        match self.cur.peek() {
            b'"' => {
                let text = self.cur.string()?;
                self.skip_type_suffix()?;
                Ok(Attr::Str(text))
            }
            b'@' => self.symbol().map(Attr::Symbol),
            b'[' => Ok(Attr::Array(self.list("[", "]", Self::attr)?)),
            b'{' => Ok(Attr::Dict(self.dict()?)),
            b'#' => self.hash_attr(),
            b'(' if self.cur.peek_at(1).is_ascii_digit() => self.sub_axis_attr(),
            b'(' => self.function_type_attr(),
            b'!' => self.ty().map(Attr::Type),
            b'-' | b'+' | b'0'..=b'9' => self.number_attr(),
            _ => self.word_attr(),
        }
    }

    /// `: type` behind a string; only foreign dialects write it.
    fn skip_type_suffix(&mut self) -> Parse<()> {
        if self.cur.peek() == b':' && self.cur.peek_at(1) != b':' {
            self.cur.expect(":")?;
            self.ty()?;
        }
        Ok(())
    }

    fn word_attr(&mut self) -> Parse<Attr> {
        let start = self.cur.at;
        let mut ahead = self.cur;
        match ahead.take_word() {
            "true" => self.take(ahead, Attr::Bool(true)),
            "false" => self.take(ahead, Attr::Bool(false)),
            "unit" => self.take(ahead, Attr::Unit),
            "dense" => {
                self.cur = ahead;
                self.dense().map(|literal| Attr::Dense(Arc::new(literal)))
            }
            "dense_resource" => {
                self.cur = ahead;
                self.dense_resource()
            }
            "array" => {
                self.cur = ahead;
                self.dense_array()
            }
            "loc" => {
                let loc = self.location()?;
                Ok(Attr::Opaque(format!("loc({})", self.module.locs.text(loc)).into()))
            }
            "tensor" | "tuple" | "memref" => self.ty().map(Attr::Type),
            "" => self.cur.expected("an attribute"),
            word if DType::parse(word).is_some() || word == "complex" => {
                let dtype = self.dtype()?;
                Ok(Attr::Opaque(dtype.name().into()))
            }
            word if ahead.peek() == b'<' => {
                // `affine_map<…>` and the like.
                self.cur = ahead;
                self.cur.balanced()?;
                let text = self.cur.text[start..self.cur.at].trim_end();
                debug_assert!(text.starts_with(word));
                Ok(Attr::Opaque(text.into()))
            }
            word => self.take(ahead, Attr::Enum { kind: "".into(), word: word.into() }),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "ends the arms of functions that can fail")]
    fn take(&mut self, ahead: super::cursor::Cursor<'a>, attr: Attr) -> Parse<Attr> {
        self.cur = ahead;
        Ok(attr)
    }

    /// `(1)2`: a part of a mesh axis, behind how much and of what size.
    fn sub_axis_attr(&mut self) -> Parse<Attr> {
        self.cur.expect("(")?;
        let before = self.cur.int64()?;
        self.cur.expect(")")?;
        Ok(Attr::Opaque(format!("({before}){}", self.cur.int64()?).into()))
    }

    fn function_type_attr(&mut self) -> Parse<Attr> {
        let inputs = self.type_list("(", ")")?;
        self.cur.expect("->")?;
        let outputs =
            if self.cur.peek() == b'(' { self.type_list("(", ")")? } else { vec![self.ty()?] };
        Ok(Attr::Function(inputs.into(), outputs.into()))
    }

    /// A number in a form of its own, where a `:` may start the operands' types instead of the
    /// number's.
    pub(crate) fn plain_number(&mut self) -> Parse<Attr> {
        let text = self.cur.number_text();
        let attr = match text.parse::<f64>() {
            _ if !text.contains(['.', 'e', 'E']) => Attr::Int(self.cur.integer()?, None),
            Ok(value) => {
                self.cur.advance(text.len());
                Attr::Float(value, None)
            }
            Err(_) => return self.cur.fail("this number is malformed"),
        };
        let behind = self.cur.text[self.cur.at..].strip_prefix(':').unwrap_or("(").trim_start();
        if !behind.starts_with("tensor") && !behind.starts_with(['(', '{', '!']) {
            self.type_suffix()?;
        }
        Ok(attr)
    }

    fn number_attr(&mut self) -> Parse<Attr> {
        let text = self.cur.number_text();
        let hex = text.contains("0x");
        let start = self.cur.at;
        if hex || !text.contains(['.', 'e', 'E']) {
            let value = self.cur.integer()?;
            let dtype = self.type_suffix()?;
            return match dtype {
                Some(dtype) if dtype.is_float() && hex => {
                    let bits = value as u64;
                    let value = match dtype {
                        DType::F64 => f64::from_bits(bits),
                        DType::F32 => f64::from(f32::from_bits(bits as u32)),
                        narrow => crate::num::format::decode(narrow, bits as u32),
                    };
                    Ok(Attr::Float(value, Some(dtype)))
                }
                Some(dtype) if dtype.is_float() => Ok(Attr::Float(value as f64, Some(dtype))),
                dtype => Ok(Attr::Int(value, dtype)),
            };
        }
        let Ok(value) = text.parse::<f64>() else {
            return self.cur.fail_at(start, "this number is malformed");
        };
        self.cur.advance(text.len());
        Ok(Attr::Float(value, self.type_suffix()?))
    }

    fn type_suffix(&mut self) -> Parse<Option<DType>> {
        if self.cur.peek() != b':' || self.cur.peek_at(1) == b':' {
            return Ok(None);
        }
        // In `array<i64: 1>`-like places no suffix follows; here a `:` always starts a type.
        self.cur.expect(":")?;
        self.dtype().map(Some)
    }

    /// `array<i64: 1, 2>`; the cursor stands behind the word `array`.
    fn dense_array(&mut self) -> Parse<Attr> {
        self.cur.expect("<")?;
        let dtype = self.dtype()?;
        if self.cur.eat(">") {
            return Ok(Attr::DenseInts(dtype, Box::default()));
        }
        self.cur.expect(":")?;
        let mut ints = Vec::new();
        let mut floats = Vec::new();
        loop {
            if self.cur.eat_word("true") {
                ints.push(1);
            } else if self.cur.eat_word("false") {
                ints.push(0);
            } else if dtype.is_float() {
                let text = self.cur.number_text();
                let Ok(value) = text.parse() else { return self.cur.expected("a number") };
                self.cur.advance(text.len());
                floats.push(value);
            } else {
                ints.push(self.cur.int64()?);
            }
            if self.cur.eat(">") {
                break;
            }
            self.cur.expect(",")?;
        }
        Ok(match dtype.is_float() {
            true => Attr::DenseFloats(dtype, floats.into()),
            false => Attr::DenseInts(dtype, ints.into()),
        })
    }

    pub(crate) fn symbol(&mut self) -> Parse<Box<str>> {
        if self.cur.peek() != b'@' {
            return self.cur.expected("a symbol such as @main");
        }
        self.cur.at += 1;
        if self.cur.peek() == b'"' {
            return self.cur.string();
        }
        self.cur.suffix("a name after `@`").map(Into::into)
    }

    /// `{name = attr, …}`.
    pub(crate) fn dict(&mut self) -> Parse<Dict> {
        self.dict_between("{", "}")
    }

    pub(crate) fn dict_between(&mut self, open: &str, close: &str) -> Parse<Dict> {
        self.list(open, close, |p| {
            let start = p.cur.at;
            let name = match p.cur.peek() {
                b'"' => p.cur.string()?,
                _ => p.cur.word("an attribute's name")?.into(),
            };
            let attr = if p.cur.eat("=") { p.attr()? } else { Attr::Unit };
            Ok((start, name, attr))
        })
        .and_then(|items| self.unique(items))
    }

    fn unique(&self, items: Vec<(usize, Box<str>, Attr)>) -> Parse<Dict> {
        let mut dict: Dict = Vec::with_capacity(items.len());
        for (start, name, attr) in items {
            if dict.iter().any(|(other, _)| *other == name) {
                return self.cur.fail_at(start, format!("attribute `{name}` is given twice"));
            }
            dict.push((name, attr));
        }
        Ok(dict)
    }

    /// `#alias`, `#stablehlo<precision DEFAULT>`, `#stablehlo.gather<…>` or a foreign attribute.
    fn hash_attr(&mut self) -> Parse<Attr> {
        let start = self.cur.at;
        self.cur.at += 1;
        let name = self.cur.take_word();
        if self.cur.peek() != b'<' || self.aliases.contains_key(name) {
            return match self.alias(name)? {
                Some(attr) => Ok(attr),
                None if name.contains('.') => Ok(Attr::Opaque(format!("#{name}").into())),
                None => self.cur.fail_at(start, format!("`#{name}` is not defined")),
            };
        }
        match name.split_once('.') {
            None if matches!(name, "stablehlo" | "chlo" | "vhlo" | "mhlo") => self.enum_attr(name),
            Some(("stablehlo", "conv")) => self.conv_attr(),
            Some(("stablehlo" | "chlo", "result_accuracy_mode")) => {
                self.cur.expect("<")?;
                let word = self.cur.word("an accuracy mode")?.into();
                self.cur.expect(">")?;
                Ok(Attr::Enum { kind: name.into(), word })
            }
            Some(("stablehlo" | "chlo", _)) => {
                self.dict_between("<", ">").map(|dict| Attr::Struct(name.into(), dict))
            }
            _ => {
                self.cur.balanced()?;
                Ok(Attr::Opaque(self.cur.text[start..self.cur.at].trim_end().into()))
            }
        }
    }

    /// The `<precision DEFAULT>` of an enumeration's value.
    fn enum_attr(&mut self, dialect: &str) -> Parse<Attr> {
        self.cur.expect("<")?;
        let mnemonic = self.cur.word("an attribute's kind")?;
        let kind = format!("{dialect}.{mnemonic}");
        if self.cur.peek() == b'<' {
            // `#stablehlo<gather<…>>` has fields.
            let dict = self.dict_between("<", ">")?;
            self.cur.expect(">")?;
            return Ok(Attr::Struct(kind.into(), dict));
        }
        let word = self.cur.word("a keyword")?;
        self.cur.expect(">")?;
        Ok(Attr::Enum { kind: kind.into(), word: word.into() })
    }

    /// `loc(…)` if it is next; unknown otherwise or if locations are not wanted.
    pub(crate) fn optional_location(&mut self) -> Parse<LocId> {
        if !self.cur.at_word("loc") {
            return Ok(LocId::default());
        }
        if self.options.drop_locations {
            self.cur.advance(3);
            self.cur.balanced()?;
            return Ok(LocId::default());
        }
        self.location()
    }

    fn location(&mut self) -> Parse<LocId> {
        self.cur.expect_word("loc")?;
        self.cur.expect("(")?;
        let loc = self.location_body()?;
        self.cur.expect(")")?;
        Ok(loc)
    }

    fn location_body(&mut self) -> Parse<LocId> {
        self.nest(Self::location_inner)
    }

    fn location_inner(&mut self) -> Parse<LocId> {
        let loc = match self.cur.peek() {
            b'#' => return self.location_alias(),
            b'"' => self.named_or_file()?,
            _ if self.cur.eat_word("unknown") => Loc::Unknown,
            _ if self.cur.eat_word("callsite") => {
                self.cur.expect("(")?;
                let callee = self.location_body()?;
                self.cur.expect_word("at")?;
                let caller = self.location_body()?;
                self.cur.expect(")")?;
                Loc::CallSite { callee, caller }
            }
            _ if self.cur.eat_word("fused") => {
                if self.cur.peek() == b'<' {
                    self.cur.balanced()?;
                }
                Loc::Fused(self.list("[", "]", Self::location_body)?.into())
            }
            _ => return self.cur.expected("a location"),
        };
        Ok(self.module.locs.intern(loc))
    }

    fn named_or_file(&mut self) -> Parse<Loc> {
        let name = self.cur.string()?;
        if self.cur.eat(":") {
            let line = self.cur.int64()? as u32;
            self.cur.expect(":")?;
            let column = self.cur.int64()? as u32;
            if self.cur.eat_word("to") {
                // A range; where it starts is enough.
                while matches!(self.cur.peek(), b':' | b'0'..=b'9') {
                    self.cur.advance(1);
                }
            }
            return Ok(Loc::File { file: name, line, column });
        }
        if !self.cur.eat("(") {
            return Ok(Loc::Name { name, child: None });
        }
        let child = self.location_body()?;
        self.cur.expect(")")?;
        Ok(Loc::Name { name, child: Some(child) })
    }

    fn location_alias(&mut self) -> Parse<LocId> {
        let start = self.cur.at;
        self.cur.at += 1;
        let name = self.cur.take_word();
        if let Some(loc) = self.loc_aliases.get(name) {
            return Ok(*loc);
        }
        let Some(at) = self.aliases.get(name).copied() else {
            return self.cur.fail_at(start, format!("`#{name}` is not defined"));
        };
        let loc = self.expand(at, Self::location)?;
        self.loc_aliases.insert(name, loc);
        Ok(loc)
    }
}
