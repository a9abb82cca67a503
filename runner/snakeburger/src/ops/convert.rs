//! Conversions between element types.

use super::elementwise::FQ;
use super::{Arity, Check, Count, Fusion, Infer, OpDef, Scalar, Tolerance};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult, LaneFn, Num, Tensor};
use crate::ir::{Attr, Buffer, DType, Dict, NodeId, dims_compatible};
use crate::text::{Form, Parse, Parser, Printer, Types, form};

payload! {
    /// Converts each element to another type.
    Convert {}
}

impl OpDef for Convert {
    const NAME: &'static str = "stablehlo.convert";
    const FORM: Form = Form::SAME;
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, result) = (c.operand(0), c.result(0));
        c.require(dims_compatible(&operand.dims, &result.dims), "C1", || {
            format!("the operand is {operand}, the result {result}")
        });
        let plain = operand.elem.quant().is_none() && result.elem.quant().is_none();
        c.require(plain, "I1", || {
            "quantized tensors are converted by uniform_quantize and uniform_dequantize".into()
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let ty = cx.result_of(0, operand.dims())?;
        let (from, to) = (operand.storage(), ty.elem.storage());
        if from == to {
            return Ok(vec![operand.clone().into()]);
        }
        let converted = if from.is_float() && to.is_float() {
            let floats = operand.floats();
            Tensor::from_floats(ty, |i| floats[i])
        } else if from.is_bool() && to.is_float() {
            let bytes = operand.data.bytes();
            Tensor::from_floats(ty, |i| f64::from(u8::from(bytes[i] != 0)))
        } else if from.is_int() && from.bits() <= 32 && to.is_float() {
            // Exact in f64, so that they round once.
            let ints = operand.ints();
            Tensor::from_floats(ty, |i| ints[i] as f64)
        } else {
            Tensor::from_nums(ty, |i| operand.get(i).convert_from(from, to))
        };
        Ok(vec![converted.into()])
    }

    fn lane(&self, ins: &[DType], out: DType) -> Option<LaneFn> {
        let from = ins[0];
        Some(Box::new(move |args| args[0].convert_from(from, out)))
    }

    fn fusion(&self) -> Fusion {
        Fusion::Elementwise(Scalar::Convert)
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance::Exact
    }

    derivative!(Rule(derive_convert));
}

impl Num {
    /// The value in another element type, as `convert` defines it: truncation towards zero,
    /// saturation at an integer type's ends, zero for a NaN.
    pub fn convert(self, to: DType) -> Num {
        self.convert_from(DType::S64, to)
    }

    /// As [`Num::convert`] for a value of type `from`: an unsigned 64-bit integer keeps its bits.
    pub fn convert_from(self, from: DType, to: DType) -> Num {
        let to_part = to.part();
        let wide = match self {
            Num::I(value) if to_part.is_float() => {
                let magnitude =
                    if from == DType::U64 { value as u64 } else { value.unsigned_abs() };
                let float = if to_part == DType::F64 {
                    magnitude as f64
                } else {
                    rounded_to_odd(magnitude)
                };
                Num::F(if from != DType::U64 && value < 0 { -float } else { float })
            }
            Num::F(value) if to.is_int() => return Num::I(float_to_int(value, to)),
            Num::C(value) if to.is_int() => return Num::I(float_to_int(value.re, to)),
            // Only the real part of a complex number counts.
            Num::C(value) if !to.is_complex() => Num::F(value.re),
            other => other,
        };
        wide.fit(to)
    }
}

/// An integer as f64 such that rounding it once more, to a narrower type, is the only rounding:
/// what is cut off leaves its trace in the last bit.
fn rounded_to_odd(magnitude: u64) -> f64 {
    let cut = 11u32.saturating_sub(magnitude.leading_zeros());
    let kept = magnitude >> cut;
    let lost = u64::from(kept << cut != magnitude);
    ((kept | lost) << cut) as f64
}

fn float_to_int(value: f64, to: DType) -> i64 {
    let (low, high) = to.int_range();
    let wide = if value.is_nan() { 0 } else { value as i128 };
    wide.clamp(low, high) as i64
}

payload! {
    /// Looks at the same bits as elements of another type.
    BitcastConvert {}
}

impl OpDef for BitcastConvert {
    const NAME: &'static str = "stablehlo.bitcast_convert";
    const FORM: Form = Form::SAME;
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, result) = (c.operand(0), c.result(0));
        let (from, to) = (operand.elem.storage(), result.elem.storage());
        c.require(from.is_complex() == to.is_complex(), "C2", || {
            format!("{operand} and {result}: both or neither must be complex")
        });
        let (from, to) = (i64::from(from.bits()), i64::from(to.bits()));
        let split = |long: &[i64], short: &[i64], wide: i64, narrow: i64| match long.split_last() {
            Some((last, rest)) => {
                dims_compatible(rest, short)
                    && (*last == crate::ir::DYNAMIC || last.checked_mul(narrow) == Some(wide))
            }
            None => false,
        };
        let fits = match to.cmp(&from) {
            std::cmp::Ordering::Equal => dims_compatible(&operand.dims, &result.dims),
            std::cmp::Ordering::Less => split(&result.dims, &operand.dims, from, to),
            std::cmp::Ordering::Greater => split(&operand.dims, &result.dims, to, from),
        };
        c.require(fits, "C1", || format!("the bits of {operand} do not form {result}"));
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let declared = cx.result_ty(0)?;
        let (from, to) = (operand.storage(), declared.elem.storage());
        let mut dims: Vec<i64> = operand.dims().to_vec();
        match to.bits().cmp(&from.bits()) {
            std::cmp::Ordering::Less => dims.push(i64::from(from.bits() / to.bits())),
            std::cmp::Ordering::Greater => drop(dims.pop()),
            std::cmp::Ordering::Equal => {}
        }
        let ty = cx.result_of(0, &dims)?;
        let data = recut(operand.data.bytes(), from, to);
        Ok(vec![Tensor { ty, data }.into()])
    }

    columns!(Move, Exact, Zero);
}

/// Cuts the same bits, least significant first, into elements of another width.
fn recut(bytes: &[u8], from: DType, to: DType) -> Buffer {
    let whole = |dtype: DType| dtype.bits() as usize == dtype.bytes() * 8;
    if whole(from) && whole(to) {
        return Buffer::from_slice(bytes);
    }
    let mut bits: Vec<bool> = Vec::new();
    for element in bytes.chunks_exact(from.bytes()) {
        bits.extend((0..from.bits() as usize).map(|i| element[i / 8] >> (i % 8) & 1 == 1));
    }
    let mut out = Vec::new();
    for chunk in bits.chunks_exact(to.bits() as usize) {
        let value = chunk.iter().rev().fold(0i64, |value, bit| value << 1 | i64::from(*bit));
        let extended = crate::eval::wrap(to, value);
        out.extend_from_slice(&extended.to_le_bytes()[..to.bytes()]);
    }
    Buffer::from_slice(&out)
}

payload! {
    /// Rounds to a format of fewer bits and back.
    ReducePrecision { exponent_bits: i32, mantissa_bits: i32 }
}

impl OpDef for ReducePrecision {
    const NAME: &'static str = "stablehlo.reduce_precision";
    const FORM: Form = Form::Custom { parse: parse_reduce, print: print_reduce };
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let operand = c.operand(0);
        c.require(FQ.allows(&operand.elem), "I1", || format!("{operand} must be {FQ}"));
        c.require(self.exponent_bits >= 1, "C2", || "exponent_bits must be at least 1".into());
        c.require(self.mantissa_bits >= 0, "C3", || "mantissa_bits must not be negative".into());
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        match c.operand(0).elem.quant() {
            Some(_) => Infer::Declared,
            None => Infer::By("C1", vec![c.operand(0).clone().into()]),
        }
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let operand = cx.tensor(0)?;
        let ty = cx.result_of(0, operand.dims())?;
        let values = operand.real_values();
        Ok(vec![Tensor::quantize(ty, |i| self.round(values[i])).into()])
    }

    fn lane(&self, _: &[DType], out: DType) -> Option<LaneFn> {
        let this = self.clone();
        Some(Box::new(move |args| Num::F(this.round(args[0].float())).fit(out)))
    }

    fn fusion(&self) -> Fusion {
        Fusion::Elementwise(Scalar::ReducePrecision)
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance::Exact
    }

    derivative!(Rule(|_, d| d.one(0, |_, g| g)));
}

impl ReducePrecision {
    /// The nearest value with the given mantissa; beyond the exponent's range infinity or zero.
    fn round(&self, x: f64) -> f64 {
        if x.is_nan() && self.mantissa_bits == 0 {
            // Without mantissa bits a NaN's code is the one of infinity.
            return f64::INFINITY.copysign(x);
        }
        if !x.is_finite() || x == 0.0 {
            return x;
        }
        let dropped = 52u32.saturating_sub(self.mantissa_bits.max(0) as u32);
        let mut bits = x.to_bits();
        if dropped > 0 {
            let odd = bits >> dropped & 1;
            bits = (bits + (1 << (dropped - 1)) - 1 + odd) >> dropped << dropped;
        }
        let rounded = f64::from_bits(bits);
        let largest = 1i64 << (self.exponent_bits.clamp(1, 12) - 1);
        let exponent = (rounded.abs().to_bits() >> 52) as i64 - 1023;
        if exponent >= largest {
            f64::INFINITY.copysign(x)
        } else if exponent < 2 - largest {
            0f64.copysign(x)
        } else {
            rounded
        }
    }
}

/// `%x, format = e5m10 : T`.
fn parse_reduce(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp { operands: vec![p.operand()?], ..Default::default() };
    p.cur.expect(",")?;
    p.cur.expect_word("format")?;
    p.cur.expect("=")?;
    let at = p.cur.at;
    let word = p.cur.word("a format such as e5m10")?;
    let parts = word.strip_prefix('e').and_then(|rest| rest.split_once('m'));
    let bits = parts.and_then(|(e, m)| Some((e.parse::<i32>().ok()?, m.parse::<i32>().ok()?)));
    let Some((exponent, mantissa)) = bits else {
        return p.cur.fail_at(at, "expected a format such as e5m10");
    };
    let int = |bits: i32| Attr::Int(i128::from(bits), Some(DType::S32));
    raw.attrs.push(("exponent_bits".into(), int(exponent)));
    raw.attrs.push(("mantissa_bits".into(), int(mantissa)));
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Same)?;
    Ok(raw)
}

fn print_reduce(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push(" ");
    p.values(p.graph().operands(node));
    p.push(", format = ");
    for (letter, name) in [("e", "exponent_bits"), ("m", "mantissa_bits")] {
        p.push(letter);
        if let Some(bits) = form::take(&mut attrs, name) {
            p.short_attr(&bits);
        }
    }
    p.attributes(&attrs);
    form::print_types(p, node, Types::Same);
}

/// Rounds the cotangent to the operand's type.
fn derive_convert(_: &Convert, d: &mut Derive<'_>) -> Derived {
    let dtype = d.e.dtype(d.operand(0));
    d.one(0, |e, g| e.convert(g, dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_rounded_once() {
        // Halfway between two of bf16's numbers but for the last bit, which f64 has no room for.
        let value = (1i64 << 62) + (1 << 54) + 1;
        assert_eq!(Num::I(value).convert(DType::BF16).float(), ((1i64 << 62) + (1 << 55)) as f64);
        assert_eq!(Num::I(-value).convert(DType::BF16).float(), -((1i64 << 62) + (1 << 55)) as f64);
        assert_eq!(Num::I(value).convert(DType::F32).float(), f64::from(value as f32));
        let bits = Num::I(-1).convert_from(DType::U64, DType::F32);
        assert_eq!(bits.float(), f64::from(u64::MAX as f32));
        assert_eq!(Num::C(num_complex::Complex64::new(0.0, 1.0)).convert(DType::I1), Num::B(false));
    }

    #[test]
    fn conversion_to_integers_truncates_and_saturates() {
        let table = [
            (1.9, DType::S8, 1),
            (-1.9, DType::S8, -1),
            (300.0, DType::S8, 127),
            (-300.0, DType::U8, 0),
            (f64::NAN, DType::S32, 0),
            (f64::INFINITY, DType::U64, -1),
        ];
        for (value, dtype, wanted) in table {
            assert_eq!(Num::F(value).convert(dtype), Num::I(wanted), "{value} to {dtype}");
        }
    }

    #[test]
    fn unsigned_integers_become_floats_by_their_value() {
        assert_eq!(Num::I(-1).convert_from(DType::U64, DType::F64), Num::F(2f64.powi(64)));
        assert_eq!(Num::I(-1).convert_from(DType::S64, DType::F64), Num::F(-1.0));
    }

    #[test]
    fn bits_are_cut_from_the_least_significant_end() {
        let cut = recut(&[0xb4], DType::U8, DType::U4);
        assert_eq!(cut.bytes(), &[0x4, 0xb]);
        assert_eq!(recut(&[0x4, 0xb], DType::U4, DType::U8).bytes(), &[0xb4]);
    }
}
