//! The `check` dialect: expectations that conformance programs state about their results.

use std::sync::Arc;

use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, Num, Tensor, Value, unravel};
use crate::ir::{DType, Dict, Literal, NodeId};
use crate::num::format;
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
    if x == y || (x.is_nan() && y.is_nan()) {
        return true;
    }
    match by {
        Closeness::Equal => false,
        Closeness::Absolute(most) => x.is_finite() && y.is_finite() && (x - y).abs() <= most,
        Closeness::Ulp(least, most) => (least..=most).contains(&ulps(dtype, a, b)),
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

/// Declares an expectation about two operands.
macro_rules! expectations {
    ($($(#[$meta:meta])* $name:ident $text:literal { $($body:tt)* } $this:ident => $closeness:expr;)*) => {$(
        payload! { $(#[$meta])* $name { $($body)* } }

        impl OpDef for $name {
            const NAME: &'static str = $text;
            const FORM: Form = Form::Plain { words: &[], types: Types::Operands };
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

            columns!(Opaque, Exact);
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
    ExpectClose "check.expect_close" { min_ulp_difference: i64 = 0, max_ulp_difference: i64 = 0 } this =>
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

            columns!(Opaque, Exact);
        }
    )*};
}

const_expectations! {
    ExpectEqConst "check.expect_eq_const" {} _this => Closeness::Equal;
    ExpectAlmostEqConst "check.expect_almost_eq_const" { tolerance: f64 = TOLERANCE } this => Closeness::Absolute(this.tolerance);
}

/// `%x, dense<…> : T`.
fn parse_const(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp { operands: vec![p.operand()?], ..Default::default() };
    p.cur.expect(",")?;
    let value = p.attr()?;
    raw.attrs.push(("value".into(), value));
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
    p.attributes(&attrs);
}

/// The checks that programs call as `custom_call @check.…`; `None` for any other target.
pub(crate) fn custom_call(cx: &Cx<'_, '_>, target: &str) -> Option<EvalResult> {
    let by = match target {
        "check.expect_eq" | "check.eq" => Closeness::Equal,
        "check.expect_almost_eq" => Closeness::Absolute(1e-3),
        "check.expect_close" => Closeness::Ulp(0, 3),
        _ => return None,
    };
    let run = || {
        let (found, wanted) = (cx.tensor(0)?, cx.tensor(1)?);
        expect(cx, found, wanted, by)
    };
    let finish = |result: EvalResult| match (result, target) {
        (Ok(_), "check.eq") => Ok(vec![Value::Tensor(Tensor::scalar(DType::I1, Num::B(true)))]),
        (other, _) => other,
    };
    Some(finish(run()))
}
