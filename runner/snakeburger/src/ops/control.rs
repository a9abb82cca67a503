//! Control flow: loops and choices.

use super::control_grad;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, Value};
use crate::ir::{DType, Dict, NodeId, TensorTy, Ty};
use crate::text::{Form, Parse, Parser, Printer, form};

/// Any values out.
const CHOICE: Arity = Arity {
    operands: Count::Exactly(1),
    results: Count::AtLeast(0),
    regions: Count::Exactly(2),
    tensors: false,
};

fn same_types(a: &[&Ty], b: &[&Ty]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.compatible(b))
}

fn list(types: &[&Ty]) -> String {
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    format!("({})", types.join(", "))
}

payload! {
    /// Repeats its second region while the first one says so.
    While {}
}

impl OpDef for While {
    const NAME: &'static str = "stablehlo.while";
    const FORM: Form = Form::Custom { parse: parse_while, print: print_while };
    const ARITY: Arity = Arity { operands: Count::AtLeast(0), ..CHOICE };

    fn check(&self, c: &mut Check<'_>) {
        let types: Vec<Ty> = c.operand_types().iter().map(|ty| (*ty).clone()).collect();
        c.region_is(0, "C1", &types, &[TensorTy::scalar(DType::I1).into()]);
        c.region_is(1, "C2", &types, &types);
        let results = c.result_types().to_vec();
        let operands = c.operand_types().to_vec();
        c.require(same_types(&results, &operands), "C3", || {
            format!("the operands are {}, the results {}", list(&operands), list(&results))
        });
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(c.operand_types().iter().map(|ty| (*ty).clone()).collect())
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let mut state: Vec<Value> =
            (0..cx.operand_count()).map(|i| cx.take(i)).collect::<EvalResult<_>>()?;
        loop {
            cx.interpreter.check_time()?;
            let goes_on = match &cx.region(0, state.clone())?[..] {
                [Value::Tensor(tensor)] if tensor.rank() == 0 => tensor.get(0).bool(),
                _ => return Err(cx.error("the condition does not yield one truth value")),
            };
            if !goes_on {
                return Ok(state);
            }
            state = cx.region(1, state)?;
        }
    }

    columns!(Opaque, Exact, Rule(control_grad::of_while));
}

/// `(%a = %x, %b = %y) : T, U attributes {…} cond {…} do {…}`.
fn parse_while(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp::default();
    let names = p.list("(", ")", |p| {
        let name = p.value_name()?;
        p.cur.expect("=")?;
        Ok((name, p.operand()?))
    })?;
    raw.operands = names.iter().map(|(_, operand)| *operand).collect();
    let at = p.cur.at;
    if p.cur.eat(":") {
        raw.results = form::type_sequence(p)?;
    }
    p.check_operand_types(&raw.operands, &raw.results, at)?;
    if p.cur.eat_word("attributes") {
        raw.attrs = p.dict()?;
    }
    let arguments: Vec<_> =
        names.iter().zip(&raw.results).map(|(((name, at), _), ty)| (*name, *at, *ty)).collect();
    for word in ["cond", "do"] {
        p.cur.expect_word(word)?;
        raw.regions.push(p.region(&arguments)?);
    }
    Ok(raw)
}

#[expect(clippy::needless_pass_by_value, reason = "all forms share one signature")]
fn print_while(p: &mut Printer<'_>, node: NodeId, attrs: Dict) {
    let operands = p.graph().operands(node);
    let [cond, body] = *p.graph().regions(node) else { return };
    let arguments = p.name_arguments(cond);
    p.share_names(cond, body);
    p.push("(");
    for (i, (argument, operand)) in arguments.iter().zip(operands).enumerate() {
        p.push(if i > 0 { ", " } else { "" });
        p.value(*argument);
        p.push(" = ");
        p.value(*operand);
    }
    p.push(")");
    if !operands.is_empty() {
        form::print_types(p, node, crate::text::Types::Operands);
    }
    if !attrs.is_empty() {
        p.push(" attributes");
        p.attributes(&attrs);
    }
    p.line();
    p.push("cond ");
    p.region(cond, false);
    p.push(" do ");
    p.region(body, false);
}

/// The constraints on branches: no arguments, the same results, those of the operation.
fn check_branches(c: &mut Check<'_>, [inputs, same, results]: [&str; 3]) {
    let found = c.result_types().to_vec();
    let first = c.region(0).results;
    for i in 0..c.regions().len() {
        let branch = c.region(i);
        c.require(branch.arguments.is_empty(), inputs, || {
            format!("branch {i} takes {}, it must take nothing", list(&branch.arguments))
        });
        c.require(same_types(&branch.results, &first), same, || {
            format!("branch {i} yields {}, branch 0 {}", list(&branch.results), list(&first))
        });
    }
    c.require(same_types(&found, &first), results, || {
        format!("the results are {}, the branches yield {}", list(&found), list(&first))
    });
}

fn branch_types(c: &Check<'_>) -> Infer {
    Infer::Types(c.region(0).results.into_iter().cloned().collect())
}

payload! {
    /// One of two regions.
    If {}
}

impl OpDef for If {
    const NAME: &'static str = "stablehlo.if";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = CHOICE;

    fn check(&self, c: &mut Check<'_>) {
        let pred = c.operand_types()[0];
        c.require(pred.compatible(&TensorTy::scalar(DType::I1).into()), "I1", || {
            format!("pred is {pred}, it must be tensor<i1>")
        });
        check_branches(c, ["C1", "C2", "C3"]);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        branch_types(c)
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let branch = usize::from(!cx.tensor(0)?.get(0).bool());
        cx.region(branch, Vec::new())
    }

    columns!(Opaque, Exact, Rule(control_grad::of_branches));
}

payload! {
    /// One of many regions.
    Case {}
}

impl OpDef for Case {
    const NAME: &'static str = "stablehlo.case";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity { regions: Count::AtLeast(0), ..CHOICE };

    fn check(&self, c: &mut Check<'_>) {
        let index = c.operand_types()[0];
        c.require(index.compatible(&TensorTy::scalar(DType::S32).into()), "I1", || {
            format!("index is {index}, it must be tensor<i32>")
        });
        if c.regions().is_empty() {
            return c.fail("C1", "there is no branch");
        }
        check_branches(c, ["C2", "C3", "C4"]);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        branch_types(c)
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let branches = cx.graph().regions(cx.node).len();
        let index = usize::try_from(cx.tensor(0)?.get(0).int()).unwrap_or(usize::MAX);
        cx.region(index.min(branches.saturating_sub(1)), Vec::new())
    }

    columns!(Opaque, Exact, Rule(control_grad::of_branches));
}
