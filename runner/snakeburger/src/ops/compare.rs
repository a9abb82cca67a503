//! Comparisons and choices between elements.

use std::cmp::Ordering;

use rayon::prelude::*;

use super::elementwise::{And, B, Maximum, Minimum, Or, Row, TASK};
use super::elementwise_grad::parts;
use super::{Arity, Check, Count, Fusion, Infer, OpDef, Scalar, Tolerance};
use crate::build::{Emitter, Fold, V};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalError, EvalResult, LaneFn, Num, Tensor};
use crate::ir::{DType, Dict, EnumAttr, Kind, NodeId, TensorTy, dims_compatible};
use crate::text::{Form, Parse, Parser, Printer, Types, form};

enum_attr! {
    /// Which relation is tested.
    Direction ("stablehlo.comparison_direction", "EQ, NE, GE, GT, LE or LT") {
        Eq = "EQ", Ne = "NE", Ge = "GE", Gt = "GT", Le = "LE", Lt = "LT",
    }
}

enum_attr! {
    /// How elements are compared.
    CompareType ("stablehlo.comparison_type", "FLOAT, TOTALORDER, SIGNED or UNSIGNED") {
        NoType = "NOTYPE", Float = "FLOAT", TotalOrder = "TOTALORDER", Signed = "SIGNED",
        Unsigned = "UNSIGNED",
    }
}

impl Direction {
    /// Whether the relation holds for operands in this order; `None` when one is a NaN.
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Direction::Eq => order == Some(Ordering::Equal),
            Direction::Ne => order != Some(Ordering::Equal),
            Direction::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            Direction::Gt => order == Some(Ordering::Greater),
            Direction::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Direction::Lt => order == Some(Ordering::Less),
        }
    }
}

payload! {
    /// Compares elements.
    Compare { comparison_direction: Direction, compare_type: Option<CompareType> = None }
}

impl Compare {
    fn order(&self, x: Num, y: Num, dtype: DType) -> Option<Ordering> {
        match (x, y) {
            (Num::I(x), Num::I(y)) if dtype.is_unsigned() => (x as u64).partial_cmp(&(y as u64)),
            (Num::I(x), Num::I(y)) => x.partial_cmp(&y),
            (Num::F(x), Num::F(y)) if self.compare_type == Some(CompareType::TotalOrder) => {
                Some(x.total_cmp(&y))
            }
            (Num::C(x), Num::C(y)) => match x.re.partial_cmp(&y.re) {
                Some(Ordering::Equal) => x.im.partial_cmp(&y.im),
                order => order,
            },
            (Num::B(x), Num::B(y)) => x.partial_cmp(&y),
            (x, y) => x.float().partial_cmp(&y.float()),
        }
    }

    /// The comparison of tensors of one shape.
    pub(crate) fn tensor(&self, lhs: &Tensor, rhs: &Tensor, ty: TensorTy) -> Tensor {
        let holds = |order| Num::B(self.comparison_direction.holds(order));
        if lhs.ty.elem.quant().is_some() {
            let (x, y) = (lhs.real_values(), rhs.real_values());
            return Tensor::from_nums(ty, |i| holds(x[i].partial_cmp(&y[i])));
        }
        let dtype = lhs.storage();
        // Nothing but f32 is what models are made of.
        if dtype == DType::F32 && self.compare_type != Some(CompareType::TotalOrder) {
            return match self.comparison_direction {
                Direction::Eq => relation(lhs, rhs, ty, |x, y| x == y),
                Direction::Ne => relation(lhs, rhs, ty, |x, y| x != y),
                Direction::Ge => relation(lhs, rhs, ty, |x, y| x >= y),
                Direction::Gt => relation(lhs, rhs, ty, |x, y| x > y),
                Direction::Le => relation(lhs, rhs, ty, |x, y| x <= y),
                Direction::Lt => relation(lhs, rhs, ty, |x, y| x < y),
            };
        }
        Tensor::from_nums(ty, |i| holds(self.order(lhs.get(i), rhs.get(i), dtype)))
    }

    fn expected_types(elem: &crate::ir::Elem) -> &'static [CompareType] {
        match elem.plain().map(DType::kind) {
            Some(Kind::Signed) => &[CompareType::Signed],
            Some(Kind::Unsigned | Kind::Bool) => &[CompareType::Unsigned],
            Some(Kind::Float) => &[CompareType::Float, CompareType::TotalOrder],
            Some(Kind::Complex) => &[CompareType::Float],
            None => &[CompareType::Float, CompareType::Signed, CompareType::Unsigned],
        }
    }
}

impl OpDef for Compare {
    const NAME: &'static str = "stablehlo.compare";
    const FORM: Form = Form::Custom { parse: parse_compare, print: print_compare };
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (lhs, rhs) = (c.operand(0), c.operand(1));
        c.require(lhs.elem.expressed() == rhs.elem.expressed(), "C1", || {
            format!("operands are {lhs} and {rhs}")
        });
        c.require(dims_compatible(&lhs.dims, &rhs.dims), "C2", || {
            format!("operands are {lhs} and {rhs}")
        });
        if let Some(ty) = self.compare_type.filter(|ty| *ty != CompareType::NoType) {
            let allowed = Self::expected_types(&lhs.elem);
            c.require(allowed.contains(&ty), "C3", || {
                format!("compare_type {} does not fit {lhs}", ty.word())
            });
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::By("C2", vec![c.operand(0).with_elem(DType::I1).into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
        same_shape(cx, lhs, rhs)?;
        let ty = cx.result_of(0, lhs.dims())?;
        Ok(vec![self.tensor(lhs, rhs, ty).into()])
    }

    fn lane(&self, ins: &[DType], _: DType) -> Option<LaneFn> {
        let (this, dtype) = (self.clone(), ins[0]);
        Some(Box::new(move |args| {
            Num::B(this.comparison_direction.holds(this.order(args[0], args[1], dtype)))
        }))
    }

    fn fusion(&self) -> Fusion {
        Fusion::Elementwise(Scalar::Compare)
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance::Exact
    }

    derivative!(Zero);
}

/// Whether a relation holds between elements of f32.
fn relation(
    lhs: &Tensor,
    rhs: &Tensor,
    ty: TensorTy,
    holds: impl Fn(f32, f32) -> bool + Sync,
) -> Tensor {
    let (x, y): (&[f32], &[f32]) = (lhs.data.as_slice(), rhs.data.as_slice());
    let mut out = Tensor::zeros(ty);
    let rows = out.data.bytes_mut().par_chunks_mut(TASK);
    rows.zip(x.par_chunks(TASK)).zip(y.par_chunks(TASK)).for_each(|((out, x), y)| {
        for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
            *out = u8::from(holds(*x, *y));
        }
    });
    out
}

fn same_shape(cx: &Cx<'_, '_>, x: &Tensor, y: &Tensor) -> Result<(), EvalError> {
    if x.dims() == y.dims() {
        Ok(())
    } else {
        Err(cx.error(format!("{} and {} differ in shape", x.ty, y.ty)))
    }
}

/// `LT, %a, %b, SIGNED : (T, T) -> tensor<i1>`.
fn parse_compare(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp::default();
    raw.attrs.push(("comparison_direction".into(), p.attr()?));
    p.cur.expect(",")?;
    raw.operands.push(p.operand()?);
    p.cur.expect(",")?;
    raw.operands.push(p.operand()?);
    if p.cur.eat(",") {
        raw.attrs.push(("compare_type".into(), p.attr()?));
    }
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Functional)?;
    Ok(raw)
}

fn print_compare(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push(" ");
    if let Some(direction) = form::take(&mut attrs, "comparison_direction") {
        p.short_attr(&direction);
    }
    p.push(", ");
    p.values(p.graph().operands(node));
    if let Some(ty) = form::take(&mut attrs, "compare_type") {
        p.push(", ");
        p.short_attr(&ty);
    }
    p.attributes(&attrs);
    form::print_types(p, node, Types::Functional);
}

payload! {
    /// Takes each element from one of two tensors.
    Select {}
}

impl OpDef for Select {
    const NAME: &'static str = "stablehlo.select";
    const FORM: Form = Form::Plain { words: &[], types: Types::Select };
    const ARITY: Arity = Arity::tensors(Count::Exactly(3), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (pred, on_true, on_false) = (c.operand(0), c.operand(1), c.operand(2));
        c.require(B.allows(&pred.elem), "I1", || format!("the predicate is {pred}"));
        c.require(pred.rank() == 0 || dims_compatible(&pred.dims, &on_true.dims), "C1", || {
            format!("the predicate is {pred}, the operands {on_true}")
        });
        let same = dims_compatible(&on_true.dims, &on_false.dims)
            && on_true.elem.expressed() == on_false.elem.expressed();
        c.require(same, "C2", || format!("operands are {on_true} and {on_false}"));
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        like(c, "C2", c.operand(1))
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (pred, on_true, on_false) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
        same_shape(cx, on_true, on_false)?;
        if pred.rank() > 0 {
            same_shape(cx, pred, on_true)?;
        }
        let ty = cx.result_of(0, on_true.dims())?;
        let choice: &[u8] = pred.data.as_slice();
        if ty.elem.quant().is_some() {
            let (x, y) = (on_true.real_values(), on_false.real_values());
            let chosen = |i: usize| choice[if pred.rank() == 0 { 0 } else { i }] != 0;
            return Ok(vec![Tensor::quantize(ty, |i| if chosen(i) { x[i] } else { y[i] }).into()]);
        }
        if pred.rank() == 0 {
            let chosen = cx.take_tensor(if choice[0] == 0 { 2 } else { 1 })?;
            return Ok(vec![chosen.with_ty(ty).into()]);
        }
        // Written over what is there if the choice is false.
        let mut out = cx.take_tensor(2)?.with_ty(ty);
        let (pred, on_true) = (cx.tensor(0)?, cx.tensor(1)?);
        match out.storage().bytes() {
            1 => choose::<u8>(pred, on_true, &mut out),
            2 => choose::<u16>(pred, on_true, &mut out),
            4 => choose::<u32>(pred, on_true, &mut out),
            8 => choose::<u64>(pred, on_true, &mut out),
            _ => choose::<[u64; 2]>(pred, on_true, &mut out),
        }
        Ok(vec![out.into()])
    }

    fn lane(&self, _: &[DType], _: DType) -> Option<LaneFn> {
        Some(Box::new(|args| if args[0].bool() { args[1] } else { args[2] }))
    }

    fn fusion(&self) -> Fusion {
        Fusion::Elementwise(Scalar::Select)
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance::Exact
    }

    derivative!(Rule(derive_select));
}

/// Writes the elements that are chosen over those that are there.
fn choose<T: bytemuck::Pod + Send + Sync>(choice: &Tensor, chosen: &Tensor, out: &mut Tensor) {
    let (choice, chosen): (&[u8], &[T]) = (choice.data.as_slice(), chosen.data.as_slice());
    let rows = out.data.as_mut_slice::<T>().par_chunks_mut(TASK);
    let rows = rows.zip(choice.par_chunks(TASK)).zip(chosen.par_chunks(TASK));
    rows.for_each(|((out, choice), chosen)| {
        for ((out, choice), chosen) in out.iter_mut().zip(choice).zip(chosen) {
            // Both are read, so that this is a blend and no branch.
            *out = if *choice == 0 { *out } else { *chosen };
        }
    });
}

/// The type of one operand; quantization parameters are the result's own.
fn like(c: &Check<'_>, constraint: &'static str, ty: &TensorTy) -> Infer {
    let elem = if ty.elem.quant().is_some() { &c.result(0).elem } else { &ty.elem };
    Infer::By(constraint, vec![ty.with_elem(elem.clone()).into()])
}

payload! {
    /// Keeps each element between a minimum and a maximum.
    Clamp {}
}

impl Clamp {
    const MIN: Row = Minimum::ROW;
    const MAX: Row = Maximum::ROW;

    fn num(low: Num, x: Num, high: Num, dtype: DType) -> Num {
        Self::MIN.num(&[Self::MAX.num(&[x, low], dtype), high], dtype)
    }
}

impl OpDef for Clamp {
    const NAME: &'static str = "stablehlo.clamp";
    const FORM: Form = Form::SAME;
    const ARITY: Arity = Arity::tensors(Count::Exactly(3), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (min, operand, max) = (c.operand(0), c.operand(1), c.operand(2));
        for (number, name, bound) in [("C1", "min", min), ("C2", "max", max)] {
            let fits = bound.rank() == 0 || dims_compatible(&bound.dims, &operand.dims);
            c.require(fits, number, || format!("{name} is {bound}, the operand {operand}"));
            c.require(bound.elem.expressed() == operand.elem.expressed(), "C3", || {
                format!("{name} is {bound}, the operand {operand}")
            });
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        like(c, "C4", c.operand(1))
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (min, operand, max) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
        for bound in [min, max] {
            if bound.rank() > 0 {
                same_shape(cx, bound, operand)?;
            }
        }
        let ty = cx.result_of(0, operand.dims())?;
        let at = |t: &Tensor, i: usize| if t.rank() == 0 { 0 } else { i };
        if ty.elem.quant().is_some() {
            let (low, x, high) = (min.real_values(), operand.real_values(), max.real_values());
            let clamp = |i| low[at(min, i)].max(x[i]).min(high[at(max, i)]);
            return Ok(vec![Tensor::quantize(ty, clamp).into()]);
        }
        let dtype = operand.storage();
        let clamp = |i| Self::num(min.get(at(min, i)), operand.get(i), max.get(at(max, i)), dtype);
        Ok(vec![Tensor::from_nums(ty, clamp).into()])
    }

    fn lane(&self, ins: &[DType], _: DType) -> Option<LaneFn> {
        let dtype = ins[1];
        Some(Box::new(move |args| Self::num(args[0], args[1], args[2], dtype)))
    }

    fn fusion(&self) -> Fusion {
        Fusion::Elementwise(Scalar::Clamp)
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance::Exact
    }

    derivative!(Rule(derive_clamp));
}

payload! {
    /// A complex number from its parts.
    Complex {}
}

impl OpDef for Complex {
    const NAME: &'static str = "stablehlo.complex";
    const FORM: Form = Form::Plain { words: &[], types: Types::Result };
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (lhs, rhs) = (c.operand(0), c.operand(1));
        let part = lhs.dtype().and_then(DType::complex_of);
        c.require(part.is_some(), "I1", || format!("{lhs} must hold f32 or f64"));
        let same = lhs.elem == rhs.elem && dims_compatible(&lhs.dims, &rhs.dims);
        c.require(same, "C1", || format!("operands are {lhs} and {rhs}"));
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let lhs = c.operand(0);
        match lhs.dtype().and_then(DType::complex_of) {
            Some(complex) => Infer::By("C2", vec![lhs.with_elem(complex).into()]),
            None => Infer::Declared,
        }
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
        same_shape(cx, lhs, rhs)?;
        let ty = cx.result_of(0, lhs.dims())?;
        let (re, im) = (lhs.floats(), rhs.floats());
        let number = |i: usize| Num::C(num_complex::Complex64::new(re[i], im[i]));
        Ok(vec![Tensor::from_nums(ty, number).into()])
    }

    fn lane(&self, _: &[DType], _: DType) -> Option<LaneFn> {
        let number = |args: &[Num]| num_complex::Complex64::new(args[0].float(), args[1].float());
        Some(Box::new(move |args| Num::C(number(args))))
    }

    fn fusion(&self) -> Fusion {
        Fusion::Elementwise(Scalar::Complex)
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance::Exact
    }

    derivative!(Rule(derive_complex));
}

/// Zero where the other side was taken, whatever the cotangent is there.
fn derive_select(_: &Select, d: &mut Derive<'_>) -> Derived {
    let chosen = d.operand(0);
    d.one(1, |e, g| e.where_else_zero(chosen, g))?;
    d.one(2, |e, g| e.where_then_zero(chosen, g))
}

/// The bounds themselves pass.
fn derive_clamp(_: &Clamp, d: &mut Derive<'_>) -> Derived {
    let x = d.operand(1);
    let dims = d.e.dims(x);
    let bounds = [d.operand(0), d.operand(2)];
    let scalar = bounds.map(|bound| d.e.rank(bound) == 0);
    let [low, high] = bounds.map(|bound| d.e.broadcast_to(bound, &dims));
    d.one(1, |e, g| {
        let (above, below) = (e.compare(Direction::Ge, x, low), e.compare(Direction::Le, x, high));
        let inside = e.same(And {}, &[above, below]);
        e.where_else_zero(inside, g)
    })?;
    let whole = |e: &mut Emitter, g: V, scalar: bool| {
        let axes: Vec<usize> = if scalar { (0..e.rank(g)).collect() } else { Vec::new() };
        e.reduce(g, Fold::Add, &axes)
    };
    d.one(0, |e, g| {
        let (under, sane) = (e.compare(Direction::Lt, x, low), e.compare(Direction::Lt, low, high));
        let taken = e.same(And {}, &[under, sane]);
        let g = e.where_else_zero(taken, g);
        whole(e, g, scalar[0])
    })?;
    d.one(2, |e, g| {
        let (over, odd) = (e.compare(Direction::Gt, x, high), e.compare(Direction::Lt, high, low));
        let taken = e.same(Or {}, &[over, odd]);
        let g = e.where_else_zero(taken, g);
        whole(e, g, scalar[1])
    })
}

fn derive_complex(_: &Complex, d: &mut Derive<'_>) -> Derived {
    d.one(0, |e, g| parts(e, g).0)?;
    d.one(1, |e, g| parts(e, g).1)
}
