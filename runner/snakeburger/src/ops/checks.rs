//! The `check` dialect: expectations that conformance programs state about their results.

use std::sync::Arc;

use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, Num, Tensor, Value, unravel};
use crate::ir::{AttrValue, DType, Dict, Kind, Literal, NodeId, lookup};
use crate::num::format;
use crate::text::form::RawOp;
use crate::text::{Form, Parse, Parser, Printer, Types, form};

/// How close two tensors must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Closeness {
    Equal,
    /// An absolute difference.
    Absolute(f64),
    /// Units in the last place, from at least to at most.
    Ulp(u64, u64),
}

/// What `check.expect_almost_eq` allows unless it says otherwise.
const TOLERANCE: f64 = 1e-4;

/// Compares two tensors; the error names the first element that is off.
pub(crate) fn expect(
    cx: &Cx<'_, '_>,
    found: &Tensor,
    wanted: &Tensor,
    by: Closeness,
) -> EvalResult {
    if found.dims() != wanted.dims() || found.storage() != wanted.storage() {
        return Err(cx.check_failed(format!("found {}, expected {}", found.ty, wanted.ty)));
    }
    let dtype = found.storage();
    let off: Vec<usize> =
        (0..found.count()).filter(|i| !close(dtype, found.get(*i), wanted.get(*i), by)).collect();
    let Some(first) = off.first() else { return Ok(Vec::new()) };
    let (a, b) = (found.get(*first), wanted.get(*first));
    let distance = match by {
        Closeness::Ulp(..) => format!(", {} ulp apart", ulps(dtype, a, b)),
        _ => String::new(),
    };
    Err(cx.check_failed(format!(
        "{} of {} elements differ, first at {:?}: found {}, expected {}{distance}",
        off.len(),
        found.count(),
        unravel(*first, found.dims()),
        a,
        b,
    )))
}

fn close(dtype: DType, a: Num, b: Num, by: Closeness) -> bool {
    if let (Num::C(a), Num::C(b)) = (a, b) {
        let part = dtype.part();
        return close(part, Num::F(a.re), Num::F(b.re), by)
            && close(part, Num::F(a.im), Num::F(b.im), by);
    }
    let (Num::F(x), Num::F(y)) = (a, b) else { return a == b };
    let same = x == y || (x.is_nan() && y.is_nan());
    let finite = x.is_finite() && y.is_finite();
    match by {
        Closeness::Absolute(most) if finite && !same => {
            // As upstream has it: numbers on different sides of zero are never almost equal.
            x.is_sign_negative() == y.is_sign_negative() && (x - y).abs() <= most
        }
        Closeness::Ulp(least, most) if finite => (least..=most).contains(&ulps(dtype, a, b)),
        _ => same,
    }
}

/// The distance of two floats in steps of their format; not finite and unequal is infinitely far.
fn ulps(dtype: DType, a: Num, b: Num) -> u64 {
    if let (Num::C(a), Num::C(b)) = (a, b) {
        let part = dtype.part();
        return ulps(part, Num::F(a.re), Num::F(b.re)).max(ulps(part, Num::F(a.im), Num::F(b.im)));
    }
    let (x, y) = (a.float(), b.float());
    if x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()) {
        return 0;
    }
    if !x.is_finite() || !y.is_finite() {
        return u64::MAX;
    }
    let steps = |x: f64| match dtype {
        DType::F64 => x.abs().to_bits(),
        DType::F32 => u64::from((x.abs() as f32).to_bits()),
        narrow => u64::from(format::encode(narrow, x.abs())),
    };
    let (m, n) = (steps(x), steps(y));
    if x.is_sign_negative() == y.is_sign_negative() { m.abs_diff(n) } else { m + n }
}

const TWO: Arity = Arity::tensors(Count::Exactly(2), 0);
const TOLERANCE_WORD: &[&str] = &["tolerance"];
const ULP_WORDS: &[&str] = &["max_ulp_difference", "min_ulp_difference"];

/// Declares an expectation about two operands.
macro_rules! expectations {
    ($($(#[$meta:meta])* $name:ident $text:literal { $($body:tt)* } $this:ident => $closeness:expr;)*) => {$(
        payload! { $(#[$meta])* $name { $($body)* } }

        impl OpDef for $name {
            const NAME: &'static str = $text;
            const FORM: Form = Form::Custom { parse: parse_pair, print: print_pair };
            const ARITY: Arity = TWO;

            fn check(&self, c: &mut Check<'_>) {
                check_pair(c);
            }

            fn infer(&self, _: &Check<'_>) -> Infer {
                Infer::Types(Vec::new())
            }

            fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
                let $this = self;
                expect(cx, cx.tensor(0)?, cx.tensor(1)?, $closeness)
            }

            columns!(Opaque, Exact, Zero);
        }
    )*};
}

fn check_pair(c: &mut Check<'_>) {
    let (found, wanted) = (c.operand(0), c.operand(1));
    c.require(found.elem == wanted.elem, "", || format!("operands are {found} and {wanted}"));
}

expectations! {
    /// Bit for bit, but for the sign of zero and the kind of NaN.
    ExpectEq "check.expect_eq" {} _this => Closeness::Equal;
    ExpectAlmostEq "check.expect_almost_eq" { tolerance: f64 = TOLERANCE } this => Closeness::Absolute(this.tolerance);
    ExpectClose "check.expect_close" { max_ulp_difference: i64 = 1, min_ulp_difference: i64 = 0 } this =>
        Closeness::Ulp(this.min_ulp_difference as u64, this.max_ulp_difference as u64);
}

/// Declares an expectation about an operand and a constant.
macro_rules! const_expectations {
    ($($(#[$meta:meta])* $name:ident $text:literal { $($body:tt)* } $this:ident => $closeness:expr;)*) => {$(
        payload! { $(#[$meta])* $name { value: Arc<Literal>, $($body)* } }

        impl OpDef for $name {
            const NAME: &'static str = $text;
            const FORM: Form = Form::Custom { parse: parse_const, print: print_const };
            const ARITY: Arity = Arity::tensors(Count::Exactly(1), 0);

            fn check(&self, c: &mut Check<'_>) {
                let (found, wanted) = (c.operand(0), &self.value.ty);
                c.require(found.elem == wanted.elem, "", || format!("{found} is held against {wanted}"));
            }

            fn infer(&self, _: &Check<'_>) -> Infer {
                Infer::Types(Vec::new())
            }

            fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
                let $this = self;
                expect(cx, cx.tensor(0)?, &Tensor::from_literal(&self.value), $closeness)
            }

            columns!(Opaque, Exact, Zero);
        }
    )*};
}

const_expectations! {
    ExpectEqConst "check.expect_eq_const" {} _this => Closeness::Equal;
    ExpectAlmostEqConst "check.expect_almost_eq_const" { tolerance: f64 = TOLERANCE } this => Closeness::Absolute(this.tolerance);
}

/// The keywords of an expectation, in the order they are written.
fn words(info: &'static super::OpInfo) -> &'static [&'static str] {
    if info.fields.contains(&"tolerance") { TOLERANCE_WORD } else { ULP_WORDS }
}

/// `, tolerance = 0.01` and the like. A number here may state its type, and so may what follows.
fn parse_words(p: &mut Parser<'_>, info: &'static super::OpInfo, raw: &mut RawOp) -> Parse<()> {
    while p.cur.eat(",") {
        let Some(word) = words(info).iter().find(|word| p.cur.at_word(word)) else {
            return p.cur.expected(&words(info).join(" or "));
        };
        p.cur.advance(word.len());
        p.cur.expect("=")?;
        let attr = p.plain_number()?;
        raw.attrs.push(((*word).into(), attr));
    }
    Ok(())
}

fn print_words(p: &mut Printer<'_>, attrs: &mut Dict) {
    for word in TOLERANCE_WORD.iter().chain(ULP_WORDS) {
        if let Some(attr) = form::take(attrs, word) {
            p.push(", ");
            p.push(word);
            p.push(" = ");
            p.short_attr(&attr);
        }
    }
}

/// `%x, %y, max_ulp_difference = 3 : T, T`; the second type may be left out.
fn parse_pair(p: &mut Parser<'_>, info: &'static super::OpInfo) -> Parse<RawOp> {
    let mut raw = RawOp { operands: vec![p.operand()?], ..Default::default() };
    p.cur.expect(",")?;
    raw.operands.push(p.operand()?);
    parse_words(p, info, &mut raw)?;
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Operands)?;
    Ok(raw)
}

fn print_pair(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push(" ");
    p.values(p.graph().operands(node));
    print_words(p, &mut attrs);
    p.attributes(&attrs);
    form::print_types(p, node, Types::Operands);
}

/// `%x, dense<…> : T, tolerance = 0.01`.
fn parse_const(p: &mut Parser<'_>, info: &'static super::OpInfo) -> Parse<RawOp> {
    let mut raw = RawOp { operands: vec![p.operand()?], ..Default::default() };
    p.cur.expect(",")?;
    let value = p.attr()?;
    raw.attrs.push(("value".into(), value));
    parse_words(p, info, &mut raw)?;
    form::attributes(p, &mut raw)?;
    Ok(raw)
}

fn print_const(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push(" ");
    p.values(p.graph().operands(node));
    p.push(", ");
    if let Some(value) = form::take(&mut attrs, "value") {
        p.attr(&value);
    }
    print_words(p, &mut attrs);
    p.attributes(&attrs);
}

/// The checks that programs call as `custom_call @check.…`; `None` for any other target.
pub(crate) fn custom_call(cx: &Cx<'_, '_>, target: &str) -> Option<EvalResult> {
    let extra = cx.graph().node(cx.node).extra.as_deref();
    let attr = |name: &str| extra.and_then(|dict| lookup(dict, name));
    let ulp = |name, default| attr(name).and_then(i64::from_attr).unwrap_or(default) as u64;
    let tolerance = |default| attr("tolerance").and_then(f64::from_attr).unwrap_or(default);
    let by = match target {
        "check.expect_eq" | "check.eq" => Closeness::Equal,
        "check.expect_almost_eq" => Closeness::Absolute(tolerance(1e-3)),
        "check.expect_close" => {
            Closeness::Ulp(ulp("min_ulp_difference", 0), ulp("max_ulp_difference", 3))
        }
        _ => return None,
    };
    let run = || {
        let (found, wanted) = (cx.tensor(0)?, cx.tensor(1)?);
        // Programs that only know `check.eq` hold floats of another implementation against ours.
        let by = match (target, found.storage().kind()) {
            ("check.eq", Kind::Float | Kind::Complex) => Closeness::Absolute(TOLERANCE),
            _ => by,
        };
        expect(cx, found, wanted, by)
    };
    let finish = |result: EvalResult| match (result, target) {
        (Ok(_), "check.eq") => Ok(vec![Value::Tensor(Tensor::scalar(DType::I1, Num::B(true)))]),
        (other, _) => other,
    };
    Some(finish(run()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(x: f64, y: f64, by: Closeness) -> bool {
        close(DType::F32, Num::F(x), Num::F(y), by)
    }

    #[test]
    fn almost_equal_is_on_one_side_of_zero() {
        let by = Closeness::Absolute(1e-4);
        assert!(near(1.0, 1.00009, by) && near(-1e-5, -9e-5, by) && near(0.0, -0.0, by));
        assert!(near(f64::NAN, f64::NAN, by) && near(f64::INFINITY, f64::INFINITY, by));
        assert!(!near(1e-5, -1e-5, by) && !near(1.0, 1.0002, by) && !near(1.0, f64::NAN, by));
    }

    #[test]
    fn steps_are_counted_through_zero_and_held_between_both_bounds() {
        let next = f64::from(f32::from_bits(1.0f32.to_bits() + 1));
        let tiny = f64::from(f32::from_bits(1));
        assert!(near(1.0, next, Closeness::Ulp(0, 1)) && near(1.0, next, Closeness::Ulp(1, 1)));
        assert!(near(-tiny, tiny, Closeness::Ulp(2, 2)) && near(0.0, -0.0, Closeness::Ulp(0, 0)));
        assert!(!near(1.0, 1.0, Closeness::Ulp(1, 5)) && !near(1.0, next, Closeness::Ulp(2, 5)));
        let max = f64::from(f32::MAX);
        assert!(!near(max, f64::INFINITY, Closeness::Ulp(0, 1 << 40)));
        assert!(near(f64::NAN, f64::NAN, Closeness::Ulp(1, 1)));
    }
}
