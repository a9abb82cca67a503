//! Operations made of others.

use super::func::Symbol;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::derive::{Derive, Derived};
use crate::eval::{Cx, EvalResult};
use crate::ir::{Attr, AttrValue, Dict, NodeId, TypeId};
use crate::text::{Form, Parse, Parser, Printer, Types, form};

payload! {
    /// Stands for a function of the module that says what it means.
    Composite {
        name: Box<str>,
        composite_attributes: Option<Attributes> = None,
        decomposition: Symbol,
        version: i32 = 0,
    }
}

/// What a composite says about itself; only those who know its name understand it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes(pub Dict);

impl AttrValue for Attributes {
    const EXPECTED: &'static str = "a dictionary such as {n = 2 : i64}";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Dict(dict) => Some(Self(dict.clone())),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::Dict(self.0.clone())
    }
}

impl OpDef for Composite {
    const NAME: &'static str = "stablehlo.composite";
    const FORM: Form = Form::Custom { parse: parse_composite, print: print_composite };
    const ARITY: Arity = Arity {
        operands: Count::AtLeast(0),
        results: Count::AtLeast(0),
        regions: Count::AtLeast(0),
        tensors: false,
    };

    fn check(&self, c: &mut Check<'_>) {
        c.require(is_namespaced(&self.name), "C1", || {
            format!("{:?} is no name of the form dialect.operation", self.name)
        });
        let symbol = &self.decomposition.0;
        let Some(func) = c.module.func(symbol) else {
            return c.fail("C2", format!("there is no function @{symbol}"));
        };
        let types = |ids: &[TypeId]| ids.iter().map(|id| c.module.ty(*id)).collect();
        let (arguments, results): (Vec<_>, Vec<_>) = (types(&func.arguments), types(&func.results));
        c.require(arguments == c.operand_types(), "C3", || {
            format!("the operands' types are not those of @{symbol}")
        });
        c.require(results == c.result_types(), "C4", || {
            format!("the results' types are not those of @{symbol}")
        });
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        match c.module.func(&self.decomposition.0) {
            Some(func) => {
                Infer::Types(func.results.iter().map(|id| c.module.ty(*id).clone()).collect())
            }
            None => Infer::Declared,
        }
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let arguments = (0..cx.operand_count()).map(|i| cx.take(i)).collect::<EvalResult<_>>()?;
        cx.call(&self.decomposition.0, arguments)
    }

    columns!(Opaque, Exact, Rule(derive_composite));
}

/// Words joined by points, at least two, the first starting with a letter.
fn is_namespaced(name: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_$".contains(&b))
    };
    name.contains('.') && name.as_bytes()[0].is_ascii_alphabetic() && name.split('.').all(word)
}

/// `"name" %a, %b {…} ({…}) : (T, U) -> V`.
fn parse_composite(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw = form::RawOp::default();
    raw.attrs.push(("name".into(), Attr::Str(p.cur.string()?)));
    while p.cur.peek() == b'%' {
        raw.operands.push(p.operand()?);
        if !p.cur.eat(",") {
            break;
        }
    }
    if p.cur.peek() == b'(' {
        raw.regions = p.list("(", ")", |p| p.region(&[]))?;
    }
    form::attributes(p, &mut raw)?;
    if p.cur.peek() == b'(' {
        raw.regions = p.list("(", ")", |p| p.region(&[]))?;
    }
    form::parse_types(p, &mut raw, Types::Functional)?;
    Ok(raw)
}

fn print_composite(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push(" ");
    if let Some(name) = form::take(&mut attrs, "name") {
        p.attr(&name);
    }
    p.push(" ");
    p.values(p.graph().operands(node));
    p.attributes(&attrs);
    for (i, region) in p.graph().regions(node).iter().enumerate() {
        p.push(if i > 0 { ", " } else { " (" });
        p.region(*region, true);
    }
    if !p.graph().regions(node).is_empty() {
        p.push(")");
    }
    form::print_types(p, node, Types::Functional);
}

/// By the driver, which knows some composites by name; others as what they are made of.
fn derive_composite(op: &Composite, d: &mut Derive<'_>) -> Derived {
    let none = Dict::new();
    let attributes = op.composite_attributes.as_ref().map_or(&none, |attributes| &attributes.0);
    d.call(&op.name, attributes, &op.decomposition.0)
}
