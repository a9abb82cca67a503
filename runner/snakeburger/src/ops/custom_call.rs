//! Calls of things outside the program.

use super::{Arity, Check, Count, Infer, OpDef, checks};
use crate::eval::{Cx, EvalError, EvalResult};
use crate::ir::{Attr, Dict, NodeId};
use crate::text::{Form, Parse, Parser, Printer, Types, form};

payload! {
    /// An operation the implementation defines by name.
    CustomCall {
        call_target_name: Box<str>,
        has_side_effect: bool = false,
        backend_config: Option<Attr> = None,
        api_version: i32 = 1,
        called_computations: Option<Attr> = None,
        operand_layouts: Option<Attr> = None,
        result_layouts: Option<Attr> = None,
        output_operand_aliases: Option<Attr> = None,
    }
}

impl OpDef for CustomCall {
    const NAME: &'static str = "stablehlo.custom_call";
    const FORM: Form = Form::Custom { parse: parse_custom, print: print_custom };
    const ARITY: Arity = Arity {
        operands: Count::AtLeast(0),
        results: Count::AtLeast(0),
        regions: Count::Exactly(0),
        tensors: false,
    };

    fn check(&self, _: &mut Check<'_>) {}

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        match checks::custom_call(cx, &self.call_target_name) {
            Some(result) => result,
            None => Err(EvalError::unsupported(format!(
                "stablehlo.custom_call: the target @{} is not known",
                self.call_target_name
            ))),
        }
    }

    columns!(Opaque, Exact, Missing("is opaque"));
}

/// `@target(%a, %b) {…} : (T, U) -> V`.
fn parse_custom(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp::default();
    raw.attrs.push(("call_target_name".into(), Attr::Str(p.symbol()?)));
    raw.operands = p.list("(", ")", Parser::operand)?;
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Functional)?;
    Ok(raw)
}

fn print_custom(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push(" ");
    if let Some(Attr::Str(target)) = form::take(&mut attrs, "call_target_name") {
        p.symbol(&target);
    }
    p.push("(");
    p.values(p.graph().operands(node));
    p.push(")");
    p.attributes(&attrs);
    form::print_types(p, node, Types::Functional);
}
