//! Constants in MLIR text: `dense<…>` as lists, splats and hexadecimal blobs, `dense_resource<…>`.

use super::cursor::Parse;
use super::parser::Parser;
use crate::ir::{Buffer, DType, Kind, Literal, TensorTy, Ty};
use crate::num::format;

/// The most elements a constant may have when it is written as a list.
pub(crate) const MAX_ELEMENTS: usize = 1 << 36;

impl Parser<'_> {
    /// `dense<…> : tensor<…>`; the cursor stands behind the word `dense`.
    pub(crate) fn dense(&mut self) -> Parse<Literal> {
        self.cur.expect("<")?;
        let body = self.cur.at;
        self.skip_dense_body()?;
        self.cur.expect(">")?;
        self.cur.expect(":")?;
        let ty = self.constant_type()?;
        let end = std::mem::replace(&mut self.cur.at, body);
        let literal = self.dense_body(ty)?;
        if self.cur.peek() != b'>' {
            return self.cur.expected("`>` at the end of the constant");
        }
        self.cur.at = end;
        Ok(literal)
    }

    fn constant_type(&mut self) -> Parse<TensorTy> {
        let start = self.cur.at;
        match self.ty()? {
            Ty::Tensor(ty) if ty.count().is_some_and(|n| n < MAX_ELEMENTS) => Ok(ty),
            Ty::Tensor(ty) if ty.is_static() => {
                self.cur.fail_at(start, "this constant is too large")
            }
            _ => self.cur.fail_at(start, "a constant has a tensor type of known shape"),
        }
    }

    /// Moves to the `>` that ends the body: its type, which says how to read it, comes after.
    fn skip_dense_body(&mut self) -> Parse<()> {
        let start = self.cur.at;
        if self.cur.peek() == b'"' {
            self.cur.raw_string()?;
            return Ok(());
        }
        loop {
            let rest = &self.cur.bytes()[self.cur.at..];
            match memchr::memchr2(b'>', b'/', rest) {
                None => return self.cur.fail_at(start, "this constant does not end"),
                Some(i) if rest[i] == b'>' => {
                    self.cur.at += i;
                    return Ok(());
                }
                Some(i) => {
                    let line = memchr::memchr(b'\n', &rest[i..]).unwrap_or(rest.len() - i);
                    self.cur.at += i + line;
                }
            }
        }
    }

    fn dense_body(&mut self, ty: TensorTy) -> Parse<Literal> {
        match self.cur.peek() {
            b'"' => self.hex_body(ty),
            b'[' | b'>' => self.list_body(ty),
            _ => {
                let mut element = Vec::with_capacity(16);
                self.element(ty.elem.storage(), &mut element)?;
                Ok(splat(ty, &element))
            }
        }
    }

    fn list_body(&mut self, ty: TensorTy) -> Parse<Literal> {
        let dtype = ty.elem.storage();
        // Reserve only what the text can fill: a two-byte element needs two characters at least.
        let most = ty.count().unwrap_or(0).min(self.cur.text.len() - self.cur.at);
        let mut out = Vec::with_capacity(most * dtype.bytes());
        if self.cur.peek() == b'[' {
            let dims = ty.dims.clone();
            self.nested(&dims, dtype, &mut out)?;
        }
        if out.len() != ty.count().unwrap_or(0) * dtype.bytes() {
            return self.cur.fail(format!("this constant has no elements, its type is {ty}"));
        }
        if ty.count() == Some(1) {
            return Ok(splat(ty, &out));
        }
        Ok(Literal { ty, data: Buffer::from_slice(&out), splat: false })
    }

    /// One bracket of the list; `dims` is what is left of the shape.
    fn nested(&mut self, dims: &[i64], dtype: DType, out: &mut Vec<u8>) -> Parse<()> {
        let start = self.cur.at;
        let Some((dim, rest)) = dims.split_first() else {
            return self.cur.fail("this list is nested deeper than its type has dimensions");
        };
        self.cur.expect("[")?;
        let mut count = 0i64;
        while !self.cur.eat("]") {
            if count > 0 {
                self.cur.expect(",")?;
            }
            if rest.is_empty() {
                self.element(dtype, out)?
            } else {
                self.nested(rest, dtype, out)?
            }
            count += 1;
        }
        // An empty list stands for an empty tensor whatever the dimensions behind it are.
        if count != *dim {
            let message = format!("this list has {count} elements, its type says {dim}");
            return self.cur.fail_at(start, message);
        }
        Ok(())
    }

    /// One element, appended in its stored form.
    fn element(&mut self, dtype: DType, out: &mut Vec<u8>) -> Parse<()> {
        match dtype.kind() {
            Kind::Complex => {
                self.cur.expect("(")?;
                self.float(dtype.part(), out)?;
                self.cur.expect(",")?;
                self.float(dtype.part(), out)?;
                self.cur.expect(")")
            }
            Kind::Float => self.float(dtype, out),
            Kind::Bool if self.cur.eat_word("true") => push(out, &[1]),
            Kind::Bool if self.cur.eat_word("false") => push(out, &[0]),
            _ => self.int(dtype, out),
        }
    }

    fn int(&mut self, dtype: DType, out: &mut Vec<u8>) -> Parse<()> {
        let start = self.cur.at;
        let value = self.cur.integer()?;
        // A signless integer may be written as the unsigned number with the same bits.
        let (low, _) = dtype.int_range();
        let high = (1i128 << dtype.bits()) - 1;
        if value < low || value > high {
            return self.cur.fail_at(start, format!("{value} does not fit into {dtype}"));
        }
        let unused = 64 - dtype.bits();
        let bits = value as i64;
        let stored = if dtype.is_signed() { bits << unused >> unused } else { bits };
        push(out, &stored.to_le_bytes()[..dtype.bytes()])
    }

    fn float(&mut self, dtype: DType, out: &mut Vec<u8>) -> Parse<()> {
        let text = self.cur.number_text();
        if text.starts_with("0x") || text.starts_with("-0x") {
            return self.float_bits(dtype, out);
        }
        let Ok(value) = text.parse::<f64>() else {
            return self.cur.expected("a number");
        };
        self.cur.advance(text.len());
        push_float(dtype, value, out);
        Ok(())
    }

    fn float_bits(&mut self, dtype: DType, out: &mut Vec<u8>) -> Parse<()> {
        let start = self.cur.at;
        let bits = self.cur.integer()?;
        if bits < 0 || bits >> dtype.bits() != 0 {
            return self.cur.fail_at(start, format!("{bits:#x} has more bits than {dtype}"));
        }
        push(out, &(bits as u64).to_le_bytes()[..dtype.bytes()])
    }

    fn hex_body(&mut self, ty: TensorTy) -> Parse<Literal> {
        let start = self.cur.at;
        let Some(bytes) = unhex(self.cur.raw_string()?) else {
            return self.cur.fail_at(start, "expected a string of the form \"0x…\" in hex digits");
        };
        self.blob(ty, &bytes, start)
    }

    /// A constant from its bytes in row-major order; one element is a splat.
    pub(crate) fn blob(&mut self, ty: TensorTy, bytes: &[u8], start: usize) -> Parse<Literal> {
        let dtype = ty.elem.storage();
        let count = ty.count().unwrap_or(0);
        let whole = count * dtype.bytes();
        if dtype == DType::I1 && bytes.len() == count.div_ceil(8) && bytes.len() != count {
            let unpacked: Vec<u8> = (0..count).map(|i| bytes[i / 8] >> (i % 8) & 1).collect();
            return Ok(Literal { ty, data: Buffer::from_slice(&unpacked), splat: false });
        }
        if bytes.len() == whole && count != 1 {
            let mut data = Buffer::from_slice(bytes);
            if dtype == DType::I1 {
                data.bytes_mut().iter_mut().for_each(|b| *b = u8::from(*b != 0));
            }
            return Ok(Literal { ty, data, splat: false });
        }
        if bytes.len() == dtype.bytes() {
            let one = [u8::from(bytes[0] != 0)];
            return Ok(splat(ty, if dtype == DType::I1 { &one } else { bytes }));
        }
        let message = format!("{} bytes for {ty}, which has {whole}", bytes.len());
        self.cur.fail_at(start, message)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "ends the arms of functions that can fail")]
fn push(out: &mut Vec<u8>, bytes: &[u8]) -> Parse<()> {
    out.extend_from_slice(bytes);
    Ok(())
}

/// Appends a float in its stored form, rounded to nearest.
pub(crate) fn push_float(dtype: DType, value: f64, out: &mut Vec<u8>) {
    match dtype {
        DType::F64 => out.extend_from_slice(&value.to_le_bytes()),
        DType::F32 => out.extend_from_slice(&(value as f32).to_le_bytes()),
        narrow => {
            let code = format::encode(narrow, value);
            out.extend_from_slice(&code.to_le_bytes()[..narrow.bytes()]);
        }
    }
}

fn splat(ty: TensorTy, element: &[u8]) -> Literal {
    if ty.count() == Some(0) {
        return Literal { ty, data: Buffer::zeroed(0), splat: false };
    }
    Literal { ty, data: Buffer::from_slice(element), splat: true }
}

/// Decodes `0x…`.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    const TABLE: [u8; 256] = {
        let mut table = [0xff; 256];
        let mut i = 0;
        while i < 16 {
            table[b"0123456789abcdef"[i] as usize] = i as u8;
            table[b"0123456789ABCDEF"[i] as usize] = i as u8;
            i += 1;
        }
        table
    };
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?.as_bytes();
    if digits.len() % 2 != 0 {
        return None;
    }
    let mut bad = 0u8;
    let decode = |pair: &[u8]| {
        let (high, low) = (TABLE[pair[0] as usize], TABLE[pair[1] as usize]);
        bad |= high | low;
        high << 4 | low
    };
    let bytes: Vec<u8> = digits.chunks_exact(2).map(decode).collect();
    (bad < 16).then_some(bytes)
}
