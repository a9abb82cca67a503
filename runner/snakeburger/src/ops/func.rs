//! Calls and returns.

use super::{Arity, Check, Count, Infer, OpDef};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult};
use crate::ir::{Attr, AttrValue, Dict, NodeId};
use crate::text::{Form, Parse, Parser, Printer, Types, form};

/// Any values in and out.
const ANY: Arity = Arity {
    operands: Count::AtLeast(0),
    results: Count::AtLeast(0),
    regions: Count::Exactly(0),
    tensors: false,
};

/// The name of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol(pub Box<str>);

impl AttrValue for Symbol {
    const EXPECTED: &'static str = "a symbol such as @main";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Symbol(name) => Some(Symbol(name.clone())),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::Symbol(self.0.clone())
    }
}

payload! {
    /// Calls a function of the module.
    Call { callee: Symbol, no_inline: bool = false }
}

impl OpDef for Call {
    const NAME: &'static str = "func.call";
    const FORM: Form = Form::Custom { parse: parse_call, print: print_call };
    const ARITY: Arity = ANY;

    fn check(&self, c: &mut Check<'_>) {
        let Some(func) = c.module.func(&self.callee.0) else {
            return c.fail("", format!("there is no function @{}", self.callee.0));
        };
        let types = |ids: &[crate::ir::TypeId]| ids.iter().map(|id| c.module.ty(*id)).collect();
        let (arguments, results): (Vec<_>, Vec<_>) = (types(&func.arguments), types(&func.results));
        if arguments != c.operand_types() || results != c.result_types() {
            c.fail("", format!("the signature is not the one of @{}", self.callee.0));
        }
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        match c.module.func(&self.callee.0) {
            Some(func) => {
                Infer::Types(func.results.iter().map(|id| c.module.ty(*id).clone()).collect())
            }
            None => Infer::Declared,
        }
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let arguments = (0..cx.operand_count()).map(|i| cx.operand(i).cloned());
        cx.call(&self.callee.0, arguments.collect::<Result<_, _>>()?)
    }

    columns!(Opaque, Exact, Rule(derive_call));
}

fn parse_call(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp::default();
    raw.attrs.push(("callee".into(), Attr::Symbol(p.symbol()?)));
    raw.operands = p.list("(", ")", Parser::operand)?;
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Functional)?;
    Ok(raw)
}

fn print_call(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push(" ");
    if let Some(callee) = form::take(&mut attrs, "callee") {
        p.attr(&callee);
    }
    p.push("(");
    p.values(p.graph().operands(node));
    p.push(")");
    p.attributes(&attrs);
    form::print_types(p, node, Types::Functional);
}

/// A terminator: its operands are what the region yields.
macro_rules! returns {
    ($($(#[$meta:meta])* $name:ident $text:literal;)*) => {$(
        payload! { $(#[$meta])* $name {} }

        impl OpDef for $name {
            const NAME: &'static str = $text;
            const FORM: Form = Form::Custom { parse: parse_return, print: print_return };
            const ARITY: Arity = Arity { results: Count::Exactly(0), ..ANY };

            fn check(&self, _: &mut Check<'_>) {}

            fn infer(&self, _: &Check<'_>) -> Infer {
                Infer::Types(Vec::new())
            }

            fn eval(&self, _: &mut Cx<'_, '_>) -> EvalResult {
                Ok(Vec::new())
            }

            columns!(Opaque, Exact, Zero);
        }
    )*};
}

returns! {
    /// Ends a function.
    FuncReturn "func.return";
    /// Ends a region.
    Return "stablehlo.return";
}

fn parse_return(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp::default();
    form::attributes(p, &mut raw)?;
    while p.cur.peek() == b'%' {
        raw.operands.push(p.operand()?);
        if !p.cur.eat(",") {
            break;
        }
    }
    if !raw.operands.is_empty() {
        let at = p.cur.at;
        p.cur.expect(":")?;
        let types = form::type_sequence(p)?;
        p.check_operand_types(&raw.operands, &types, at)?;
    }
    Ok(raw)
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a form's printer")]
fn print_return(p: &mut Printer<'_>, node: NodeId, attrs: Dict) {
    p.attributes(&attrs);
    let operands = p.graph().operands(node);
    if !operands.is_empty() {
        p.push(" ");
        p.values(operands);
        form::print_types(p, node, Types::Operands);
    }
}

fn derive_call(op: &Call, d: &mut Derive<'_>) -> Derived {
    d.call(&op.callee.0, &Dict::new(), &op.callee.0)
}
