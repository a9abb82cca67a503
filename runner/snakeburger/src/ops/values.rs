//! Values as they are: barriers, tuples, tokens, futures.

use super::{Arity, Check, Count, Infer, OpDef};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult, Value};
use crate::ir::{Attr, Dict, NodeId, Ty, TypeId};
use crate::text::{Form, Parse, Parser, Printer, Types, form};

/// Any values in and out.
const VALUES: Arity = Arity {
    operands: Count::AtLeast(0),
    results: Count::AtLeast(0),
    regions: Count::Exactly(0),
    tensors: false,
};

/// Any values in, one out.
const ONE: Arity = Arity { results: Count::Exactly(1), ..VALUES };

fn owned(types: &[&Ty]) -> Vec<Ty> {
    types.iter().map(|ty| (*ty).clone()).collect()
}

fn operands(cx: &mut Cx<'_, '_>) -> EvalResult {
    (0..cx.operand_count()).map(|i| cx.take(i)).collect()
}

/// Requires these to be the results' types.
fn check_results(c: &mut Check<'_>, constraint: &str, wanted: &[Ty]) {
    let found = c.result_types().len();
    c.require(found == wanted.len(), constraint, || {
        format!("there are {found} results, there must be {}", wanted.len())
    });
    for (i, ty) in wanted.iter().enumerate() {
        c.result_is(i, constraint, ty);
    }
}

payload! {
    /// Its operands, all of them computed before anything that uses one.
    OptimizationBarrier {}
}

impl OpDef for OptimizationBarrier {
    const NAME: &'static str = "stablehlo.optimization_barrier";
    const FORM: Form = Form::Custom { parse: parse_barrier, print: print_barrier };
    const ARITY: Arity = VALUES;

    fn check(&self, c: &mut Check<'_>) {
        let types = owned(c.operand_types());
        check_results(c, "C1", &types);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(owned(c.operand_types()))
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        operands(cx)
    }

    columns!(Opaque, Exact, Rule(derive_barrier));
}

/// ` {…} %a, %b : T, U`, or `()` without operands.
fn parse_barrier(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp::default();
    form::attributes(p, &mut raw)?;
    if p.cur.eat("(") {
        p.cur.expect(")")?;
        return Ok(raw);
    }
    raw.operands.push(p.operand()?);
    while p.cur.eat(",") {
        raw.operands.push(p.operand()?);
    }
    form::attributes(p, &mut raw)?;
    let at = p.cur.at;
    p.cur.expect(":")?;
    raw.results = form::type_sequence(p)?;
    p.check_operand_types(&raw.operands, &raw.results, at)?;
    Ok(raw)
}

#[expect(clippy::needless_pass_by_value, reason = "all forms share one signature")]
fn print_barrier(p: &mut Printer<'_>, node: NodeId, attrs: Dict) {
    p.attributes(&attrs);
    let operands = p.graph().operands(node);
    if operands.is_empty() {
        return p.push("()");
    }
    p.push(" ");
    p.values(operands);
    form::print_types(p, node, Types::Operands);
}

payload! {
    /// Several values as one.
    Tuple {}
}

impl OpDef for Tuple {
    const NAME: &'static str = "stablehlo.tuple";
    const FORM: Form = Form::Plain { words: &[], types: Types::Result };
    const ARITY: Arity = ONE;

    fn check(&self, c: &mut Check<'_>) {
        let wanted = Ty::Tuple(owned(c.operand_types()).into());
        c.result_is(0, "C1", &wanted);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(vec![Ty::Tuple(owned(c.operand_types()).into())])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        Ok(vec![Value::Tuple(operands(cx)?)])
    }

    columns!(Opaque, Exact, Missing("has no rule; use values of their own"));
}

payload! {
    /// One value of a tuple.
    GetTupleElement { index: i32 }
}

impl GetTupleElement {
    fn element<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(usize::try_from(self.index).ok()?)
    }
}

impl OpDef for GetTupleElement {
    const NAME: &'static str = "stablehlo.get_tuple_element";
    const FORM: Form = Form::Custom { parse: parse_element, print: print_element };
    const ARITY: Arity = Arity { operands: Count::Exactly(1), ..ONE };

    fn check(&self, c: &mut Check<'_>) {
        let operand = c.operand_types()[0];
        let Ty::Tuple(items) = operand else {
            return c.fail("I1", format!("the operand is {operand}, not a tuple"));
        };
        match self.element(items) {
            None => c.fail("C1", format!("there is no element {} in {operand}", self.index)),
            Some(ty) => c.result_is(0, "C2", ty),
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        match c.operand_types()[0] {
            Ty::Tuple(items) => Infer::Types(self.element(items).cloned().into_iter().collect()),
            _ => Infer::Declared,
        }
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        match cx.operand(0)? {
            Value::Tuple(items) => match self.element(items) {
                Some(value) => Ok(vec![value.clone()]),
                None => Err(cx.error(format!("there is no element {}", self.index))),
            },
            other => Err(cx.error(format!("the operand is {}, not a tuple", other.ty()))),
        }
    }

    columns!(Opaque, Exact, Missing("has no rule; use values of their own"));
}

/// `%t[0] : (tuple<T>) -> T`.
fn parse_element(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp { operands: vec![p.operand()?], ..form::RawOp::default() };
    p.cur.expect("[")?;
    raw.attrs.push(("index".into(), Attr::Int(p.cur.integer()?, None)));
    p.cur.expect("]")?;
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Functional)?;
    Ok(raw)
}

fn print_element(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push(" ");
    p.values(p.graph().operands(node));
    p.push("[");
    if let Some(index) = form::take(&mut attrs, "index") {
        p.short_attr(&index);
    }
    p.push("]");
    p.attributes(&attrs);
    form::print_types(p, node, Types::Functional);
}

payload! {
    /// Comes after everything its operands come after.
    AfterAll {}
}

impl OpDef for AfterAll {
    const NAME: &'static str = "stablehlo.after_all";
    const FORM: Form = Form::SAME;
    const ARITY: Arity = ONE;

    fn check(&self, c: &mut Check<'_>) {
        for (i, ty) in c.operand_types().to_vec().into_iter().enumerate() {
            c.require(*ty == Ty::Token, "I1", || format!("operand {i} is {ty}, not a token"));
        }
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Types(vec![Ty::Token])
    }

    fn eval(&self, _: &mut Cx<'_, '_>) -> EvalResult {
        Ok(vec![Value::Token])
    }

    columns!(Opaque, Exact, Zero);
}

payload! {
    /// A token to start with.
    CreateToken {}
}

impl OpDef for CreateToken {
    const NAME: &'static str = "stablehlo.create_token";
    const FORM: Form = Form::Plain { words: &[], types: Types::Result };
    const ARITY: Arity = Arity { operands: Count::Exactly(0), ..ONE };

    fn check(&self, _: &mut Check<'_>) {}

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Types(vec![Ty::Token])
    }

    fn eval(&self, _: &mut Cx<'_, '_>) -> EvalResult {
        Ok(vec![Value::Token])
    }

    columns!(Opaque, Exact, Zero);
}

/// The operations that may run asynchronously.
const ASYNCHRONOUS: [&str; 9] = [
    "stablehlo.all_reduce",
    "stablehlo.all_gather",
    "stablehlo.all_to_all",
    "stablehlo.collective_permute",
    "stablehlo.reduce_scatter",
    "stablehlo.collective_broadcast",
    "stablehlo.slice",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
];

payload! {
    /// Starts an operation whose results are waited for later. The interpreter does not wait.
    AsyncStart {}
}

impl OpDef for AsyncStart {
    const NAME: &'static str = "stablehlo.async_start";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity { regions: Count::Exactly(1), ..ONE };

    fn check(&self, c: &mut Check<'_>) {
        let graph = c.graph;
        let region = c.regions()[0];
        let [inner, _] = graph.region(region).nodes[..] else {
            return c.fail("C1", "the body must hold one operation and a return");
        };
        let name = graph.node(inner).op.name();
        c.require(ASYNCHRONOUS.contains(&name), "C2", || format!("{name} cannot be asynchronous"));
        let arguments: Vec<_> = graph.arguments(region).collect();
        let given = graph.operands(c.node);
        // The body may name the operands themselves or take them as its arguments.
        let same = if arguments.is_empty() {
            graph.operands(inner) == given
        } else {
            let types = |values: &[crate::ir::ValueId]| -> Vec<TypeId> {
                values.iter().map(|value| graph.ty(*value)).collect()
            };
            graph.operands(inner) == arguments && types(&arguments) == types(given)
        };
        c.require(same, "C3", || format!("the operands are not those of {name} in the body"));
        let wanted = Ty::Future(owned(&c.region(0).results).into());
        c.result_is(0, "C4", &wanted);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(vec![Ty::Future(owned(&c.region(0).results).into())])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let region = cx.region_id(0)?;
        let takes = cx.graph().arguments(region).len();
        let arguments = (0..takes).map(|i| cx.operand(i).cloned()).collect::<EvalResult<_>>()?;
        Ok(vec![Value::Future(cx.region(0, arguments)?)])
    }

    columns!(Opaque, Exact, Missing("runs elsewhere"));
}

payload! {
    /// Waits for the results of an asynchronous operation.
    AsyncDone {}
}

impl OpDef for AsyncDone {
    const NAME: &'static str = "stablehlo.async_done";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity { operands: Count::Exactly(1), ..VALUES };

    fn check(&self, c: &mut Check<'_>) {
        match c.operand_types()[0] {
            Ty::Future(types) => check_results(c, "C1", types),
            other => c.fail("I1", format!("the operand is {other}, not a future")),
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        match c.operand_types()[0] {
            Ty::Future(types) => Infer::Types(types.to_vec()),
            _ => Infer::Declared,
        }
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        match cx.take(0)? {
            Value::Future(results) => Ok(results),
            other => Err(cx.error(format!("the operand is {}, not a future", other.ty()))),
        }
    }

    columns!(Opaque, Exact, Missing("runs elsewhere"));
}

#[expect(clippy::unnecessary_wraps, reason = "rules are of one type")]
fn derive_barrier(_: &OptimizationBarrier, d: &mut Derive<'_>) -> Derived {
    for i in 0..d.operands().len() {
        if let (true, Some(g)) = (d.wants(i), d.cotangent(i)) {
            d.give(i, g);
        }
    }
    Ok(())
}
