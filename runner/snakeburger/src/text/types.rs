//! Types in MLIR text.

use std::sync::Arc;

use smallvec::SmallVec;

use super::cursor::{Cursor, Parse};
use super::parser::Parser;
use crate::ir::{DType, DYNAMIC, Dims, Elem, Quant, TensorTy, Ty, TypeId};

/// The largest rank accepted; real programs stay below ten.
const MAX_RANK: usize = 64;

impl Parser<'_> {
    /// A value type, through a cache keyed by its text: programs repeat a few types endlessly.
    pub(crate) fn type_id(&mut self) -> Parse<TypeId> {
        let start = self.cur.at;
        if let Some(end) = self.type_extent()
            && let Some(id) = self.type_cache.get(&self.cur.text[start..end])
        {
            let id = *id;
            self.cur.advance(end - start);
            return Ok(id);
        }
        let ty = self.ty()?;
        let id = self.module.types.intern(ty);
        let text = self.cur.text[start..self.cur.at].trim_end();
        self.type_cache.insert(text, id);
        Ok(id)
    }

    /// Where a `tensor<…>` at the cursor ends, if it is a simple one.
    fn type_extent(&self) -> Option<usize> {
        let rest = &self.cur.bytes()[self.cur.at..];
        if !rest.starts_with(b"tensor<") {
            return None;
        }
        let mut depth = 0usize;
        for (i, b) in rest.iter().enumerate() {
            match b {
                b'<' => depth += 1,
                b'>' if depth == 1 => return Some(self.cur.at + i + 1),
                b'>' => depth -= 1,
                b'\n' => return None,
                _ => {}
            }
        }
        None
    }

    pub(crate) fn ty(&mut self) -> Parse<Ty> {
        self.nest(Self::ty_inner)
    }

    fn ty_inner(&mut self) -> Parse<Ty> {
        let cur = &mut self.cur;
        if cur.eat_word("tensor") {
            return Ok(Ty::Tensor(self.shaped()?));
        }
        if cur.eat_word("memref") {
            return Ok(Ty::Buffer(self.shaped()?));
        }
        if cur.eat_word("tuple") {
            return Ok(Ty::Tuple(self.type_list("<", ">")?.into()));
        }
        if cur.peek() == b'!' {
            return self.dialect_type();
        }
        cur.expected("a type such as tensor<2x3xf32>")
    }

    fn dialect_type(&mut self) -> Parse<Ty> {
        let start = self.cur.at;
        self.cur.at += 1;
        let name = self.cur.take_word();
        match name {
            "stablehlo.token" | "mhlo.token" => Ok(Ty::Token),
            "stablehlo.future" => Ok(Ty::Future(self.type_list("<", ">")?.into())),
            _ => match self.type_alias(name)? {
                Some(ty) => Ok(ty),
                None => self.cur.fail_at(start, format!("`!{name}` is not a type known here")),
            },
        }
    }

    pub(crate) fn type_list(&mut self, open: &str, close: &str) -> Parse<Vec<Ty>> {
        self.list(open, close, Self::ty)
    }

    /// The `<2x3xf32>` of a tensor or buffer type.
    fn shaped(&mut self) -> Parse<TensorTy> {
        self.cur.expect("<")?;
        let mut dims = Dims::new();
        while let Some(dim) = self.dimension()? {
            dims.push(dim);
            if dims.len() > MAX_RANK {
                return self.cur.fail(format!("more than {MAX_RANK} dimensions"));
            }
        }
        let elem = self.elem()?;
        let mut ty = TensorTy { dims, elem, bounds: None };
        if self.cur.eat(",") {
            ty.bounds = self.encoding(ty.rank())?;
        }
        self.cur.expect(">")?;
        Ok(ty)
    }

    /// One `2x` or `?x`; `None` when the element type begins.
    fn dimension(&mut self) -> Parse<Option<i64>> {
        let cur = &mut self.cur;
        if cur.peek() == b'*' {
            return cur.fail("unranked tensors are not part of StableHLO: give the rank");
        }
        let dim = if cur.eat("?") {
            DYNAMIC
        } else if cur.peek().is_ascii_digit() {
            let start = cur.at;
            let bytes = cur.bytes();
            while bytes.get(cur.at).is_some_and(u8::is_ascii_digit) {
                cur.at += 1;
            }
            match cur.text[start..cur.at].parse() {
                Ok(dim) => dim,
                Err(_) => return cur.fail_at(start, "this dimension does not fit into 64 bits"),
            }
        } else {
            return Ok(None);
        };
        if cur.peek() != b'x' {
            return cur.expected("`x` after a dimension");
        }
        cur.advance(1);
        Ok(Some(dim))
    }

    /// A tensor's encoding: bounds of dynamic dimensions; any other is accepted and dropped.
    fn encoding(&mut self, rank: usize) -> Parse<Option<Box<[i64]>>> {
        if !self.cur.eat("#stablehlo.bounds") && !self.cur.eat("#stablehlo.type_extensions") {
            self.attr()?;
            return Ok(None);
        }
        let start = self.cur.at;
        self.cur.expect("<")?;
        let braces = self.cur.eat("bounds = [");
        let mut bounds = Vec::new();
        while self.cur.peek() != b'>' && self.cur.peek() != b']' {
            bounds.push(if self.cur.eat("?") { DYNAMIC } else { self.cur.int64()? });
            if !self.cur.eat(",") {
                break;
            }
        }
        if braces {
            self.cur.expect("]")?;
        }
        self.cur.expect(">")?;
        if bounds.len() != rank {
            return self.cur.fail_at(start, format!("{} bounds for rank {rank}", bounds.len()));
        }
        Ok(Some(bounds.into()))
    }

    pub(crate) fn elem(&mut self) -> Parse<Elem> {
        if self.cur.eat("!quant.uniform") {
            return Ok(Elem::Quant(Arc::new(self.quant()?)));
        }
        if self.cur.peek() == b'!' {
            let start = self.cur.at;
            self.cur.at += 1;
            let name = self.cur.take_word();
            return match self.elem_alias(name)? {
                Some(elem) => Ok(elem),
                None => self.cur.fail_at(start, format!("`!{name}` is not an element type")),
            };
        }
        self.dtype().map(Elem::Plain)
    }

    pub(crate) fn dtype(&mut self) -> Parse<DType> {
        let start = self.cur.at;
        let word = self.cur.word("an element type such as f32")?;
        if word == "complex" {
            self.cur.expect("<")?;
            let part = self.dtype()?;
            self.cur.expect(">")?;
            return match part.complex_of() {
                Some(complex) => Ok(complex),
                None => self.cur.fail_at(start, "a complex number's parts are f32 or f64"),
            };
        }
        match DType::parse(word) {
            Some(dtype) => Ok(dtype),
            None => self.cur.fail_at(start, format!("`{word}` is not an element type")),
        }
    }

    /// The `<i8<-128:127>:f32:0, {0.1:-30, 0.5}>` of a quantized type.
    fn quant(&mut self) -> Parse<Quant> {
        let start = self.cur.at;
        self.cur.expect("<")?;
        let storage = self.storage_type()?;
        let (low, high) = storage.int_range();
        let (mut storage_min, mut storage_max) = (low as i64, high as i64);
        if self.cur.eat("<") {
            storage_min = self.cur.int64()?;
            self.cur.expect(":")?;
            storage_max = self.cur.int64()?;
            self.cur.expect(">")?;
        }
        self.cur.expect(":")?;
        let expressed = self.dtype()?;
        let axis = if self.cur.eat(":") { Some(self.cur.int64()?) } else { None };
        self.cur.expect(",")?;
        let pairs: SmallVec<[(f64, i64); 4]> = match axis {
            None => SmallVec::from_iter([scale_and_zero(&mut self.cur)?]),
            Some(_) => self.cur.list("{", "}", scale_and_zero)?.into(),
        };
        self.cur.expect(">")?;
        if pairs.is_empty() {
            return self.cur.fail_at(start, "a per-axis quantized type needs a scale");
        }
        Ok(Quant {
            storage,
            storage_min,
            storage_max,
            expressed,
            axis,
            scales: pairs.iter().map(|pair| pair.0).collect(),
            zero_points: pairs.iter().map(|pair| pair.1).collect(),
        })
    }

    /// The storage type of a quantized one: `i8`, `u8` or the long spellings.
    fn storage_type(&mut self) -> Parse<DType> {
        let start = self.cur.at;
        let word = self.cur.word("an integer type")?;
        let long = if word.starts_with('u') && !word.starts_with("ui") {
            word.replacen('u', "ui", 1)
        } else {
            word.to_string()
        };
        match DType::parse(&long).filter(|d| d.is_int() && d.bits() <= 32) {
            Some(dtype) => Ok(dtype),
            None => {
                self.cur.fail_at(start, format!("`{word}` is not a storage type: use i8 or u8"))
            }
        }
    }
}

fn scale_and_zero(cur: &mut Cursor<'_>) -> Parse<(f64, i64)> {
    let text = cur.number_text();
    let Ok(scale) = text.parse::<f64>() else {
        return cur.expected("a scale such as 0.1");
    };
    cur.advance(text.len());
    let zero = if cur.eat(":") { cur.int64()? } else { 0 };
    Ok((scale, zero))
}
