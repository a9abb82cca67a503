//! How an operation looks in text: most forms are data, the rest a pair of functions.
//!
//! A pretty form only decides where operands, attributes and types stand. Both directions go
//! through the same list of named attributes as the generic form, so an operation's payload has
//! one reader and one writer.

use super::cursor::Parse;
use super::parser::Parser;
use super::printer::Printer;
use crate::ir::{Attr, Dict, NodeId, RegionId, TypeId, ValueId};
use crate::ops::OpInfo;

/// An operation as the text has it, before its attributes become a payload.
#[derive(Default)]
pub struct RawOp {
    pub(crate) operands: Vec<ValueId>,
    pub(crate) attrs: Dict,
    pub(crate) regions: Vec<RegionId>,
    pub(crate) results: Vec<TypeId>,
}

/// The text form of an operation.
#[derive(Clone, Copy)]
pub enum Form {
    /// `"name"(%a) <{…}> ({…}) : (…) -> …` and nothing shorter.
    Generic,
    /// `name %a, %b, dims = [0] {…} : types`: operands, then attributes by keyword.
    Plain { words: &'static [Word], types: Types },
    /// A form of its own.
    Custom { parse: ParseFn, print: PrintFn },
}

/// Reads everything behind the operation's name.
pub type ParseFn = fn(&mut Parser<'_>, &'static OpInfo) -> Parse<RawOp>;
/// Writes everything behind the operation's name.
pub type PrintFn = fn(&mut Printer<'_>, NodeId, Dict);

/// A keyword of a plain form: `dims = [0]` is `Word { text: "dims", attr: "broadcast_dimensions" }`.
#[derive(Clone, Copy)]
pub struct Word {
    pub text: &'static str,
    pub attr: &'static str,
}

/// The types at the end of a plain form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Types {
    /// `(T, U) -> V`.
    Functional,
    /// `T` if operands and results are all of one type, else functional.
    Same,
    /// The result's type alone; operand types follow from the operands.
    Result,
    /// `T, U -> V`.
    Arrow,
    /// The operands' types, for operations without results or with the same ones.
    Operands,
    /// `P, T`: the predicate's type and the one of everything else; or functional.
    Select,
}

impl Form {
    /// `op %a, %b : T`.
    pub const SAME: Form = Form::Plain { words: &[], types: Types::Same };
    /// `op %a : (T) -> U`.
    pub const FUNCTIONAL: Form = Form::Plain { words: &[], types: Types::Functional };
    /// `op %a : T -> U`.
    pub const ARROW: Form = Form::Plain { words: &[], types: Types::Arrow };
}

/// Reads an operation in its pretty form; the cursor stands behind its name.
pub(crate) fn parse(p: &mut Parser<'_>, info: &'static OpInfo) -> Parse<RawOp> {
    match info.form {
        Form::Plain { words, types } => parse_plain(p, info, words, types),
        Form::Custom { parse, .. } => parse(p, info),
        Form::Generic => {
            p.cur.fail(format!("`{0}` has only the generic form: \"{0}\"(…)", info.name))
        }
    }
}

pub(crate) fn parse_plain(
    p: &mut Parser<'_>,
    info: &OpInfo,
    words: &'static [Word],
    types: Types,
) -> Parse<RawOp> {
    let mut raw = RawOp::default();
    let parens = p.cur.eat("(");
    loop {
        match p.cur.peek() {
            b'%' => raw.operands.push(p.operand()?),
            b':' | b'{' | b')' => break,
            _ => keyword(p, info, words, &mut raw.attrs)?,
        }
        if !p.cur.eat(",") {
            break;
        }
    }
    if parens {
        p.cur.expect(")")?;
    }
    attributes(p, &mut raw)?;
    parse_types(p, &mut raw, types)?;
    Ok(raw)
}

/// One `word = attribute` or, for a single keyword without a name, a bare attribute.
fn keyword(p: &mut Parser<'_>, info: &OpInfo, words: &[Word], attrs: &mut Dict) -> Parse<()> {
    for word in words {
        if p.cur.at_word(word.text) {
            p.cur.advance(word.text.len());
            p.cur.expect("=")?;
            // A number or a string here has no type of its own: the `:` behind it starts the signature.
            let attr = match p.cur.peek() {
                b'-' | b'0'..=b'9' => Attr::Int(p.cur.integer()?, None),
                b'"' => Attr::Str(p.cur.string()?),
                _ => p.attr()?,
            };
            attrs.push((word.attr.into(), attr));
            return Ok(());
        }
    }
    let names: Vec<String> = words.iter().map(|word| format!("`{} =`", word.text)).collect();
    let what = if names.is_empty() { String::new() } else { format!(" or {}", names.join(" or ")) };
    p.cur.expected(&format!("an operand{what} of {}", info.name))
}

/// An optional `{…}` with further attributes.
pub(crate) fn attributes(p: &mut Parser<'_>, raw: &mut RawOp) -> Parse<()> {
    if p.cur.peek() == b'{' {
        raw.attrs.extend(p.dict()?);
    }
    Ok(())
}

/// The `: types` at the end of a form.
pub(crate) fn parse_types(p: &mut Parser<'_>, raw: &mut RawOp, types: Types) -> Parse<()> {
    let at = p.cur.at;
    p.cur.expect(":")?;
    if p.cur.peek() == b'(' && types != Types::Arrow {
        return p.signature(raw, at);
    }
    match types {
        Types::Functional => return p.cur.expected("a signature such as (tensor<2xf32>) -> …"),
        Types::Same => {
            let ty = p.type_id()?;
            p.check_operand_types(&raw.operands, &vec![ty; raw.operands.len()], at)?;
            raw.results.push(ty);
        }
        Types::Result => {
            if !at_type_end(p) {
                raw.results = type_sequence(p)?;
            }
        }
        Types::Arrow => {
            let operands = if p.cur.peek() == b'(' {
                p.list("(", ")", Parser::type_id)?
            } else {
                type_sequence(p)?
            };
            p.check_operand_types(&raw.operands, &operands, at)?;
            p.cur.expect("->")?;
            raw.results = if p.cur.peek() == b'(' {
                p.list("(", ")", Parser::type_id)?
            } else {
                vec![p.type_id()?]
            };
        }
        Types::Operands => {
            let operands = type_sequence(p)?;
            // One type may stand for all of them.
            let all =
                if operands.len() == 1 { vec![operands[0]; raw.operands.len()] } else { operands };
            p.check_operand_types(&raw.operands, &all, at)?;
        }
        Types::Select => {
            let pair = type_sequence(p)?;
            let [predicate, rest] = pair[..] else {
                return p.cur.fail_at(at, "expected two types: the predicate's and the operands'");
            };
            let mut operands = vec![rest; raw.operands.len()];
            operands[..1.min(raw.operands.len())].fill(predicate);
            p.check_operand_types(&raw.operands, &operands, at)?;
            raw.results.push(rest);
        }
    }
    Ok(())
}

fn at_type_end(p: &Parser<'_>) -> bool {
    !matches!(p.cur.peek(), b't' | b'!' | b'm')
}

pub(crate) fn type_sequence(p: &mut Parser<'_>) -> Parse<Vec<TypeId>> {
    let mut types = vec![p.type_id()?];
    while p.cur.eat(",") {
        types.push(p.type_id()?);
    }
    Ok(types)
}

/// Takes an attribute out of a list by name.
pub(crate) fn take(attrs: &mut Dict, name: &str) -> Option<Attr> {
    let at = attrs.iter().position(|(key, _)| &**key == name)?;
    Some(attrs.remove(at).1)
}

/// Writes a plain form; `attrs` are the payload's and the extra ones.
pub(crate) fn print_plain(
    p: &mut Printer<'_>,
    node: NodeId,
    mut attrs: Dict,
    words: &'static [Word],
    types: Types,
) {
    let mut first = true;
    let separate = |p: &mut Printer<'_>, first: &mut bool| {
        p.push(if *first { " " } else { ", " });
        *first = false;
    };
    for operand in p.graph().operands(node).to_vec() {
        separate(p, &mut first);
        p.value(operand);
    }
    for word in words {
        if let Some(attr) = take(&mut attrs, word.attr) {
            separate(p, &mut first);
            p.push(word.text);
            p.push(" = ");
            p.short_attr(&attr);
        }
    }
    p.attributes(&attrs);
    print_types(p, node, types);
}

/// Writes the `: types` at the end of a form.
pub(crate) fn print_types(p: &mut Printer<'_>, node: NodeId, types: Types) {
    let operands: Vec<TypeId> = p.operand_types(node);
    let results: Vec<TypeId> = p.result_types(node);
    let all_same = |types: &[TypeId]| types.windows(2).all(|pair| pair[0] == pair[1]);
    p.push(" : ");
    match types {
        Types::Same
            if results.len() == 1
                && all_same(&operands)
                && operands.iter().all(|t| *t == results[0]) =>
        {
            p.ty(results[0]);
        }
        Types::Result => p.types(&results),
        Types::Operands => p.types(&operands),
        Types::Arrow => {
            p.types(&operands);
            p.push(" -> ");
            p.result_list(&results);
        }
        Types::Select if results.len() == 1 && operands[1..].iter().all(|t| *t == results[0]) => {
            p.types(&[operands[0], results[0]]);
        }
        _ => p.signature(&operands, &results),
    }
}
