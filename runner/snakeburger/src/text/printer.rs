//! Programs as MLIR text: deterministic, readable, and parsed back to the same program.

use std::fmt::Write;

use super::conv;
use super::cursor::quote;
use super::form::{self, Form};
use crate::ir::{
    Attr, DType, Def, Dict, Func, Graph, Kind, Literal, LocId, Module, NodeId, RegionId, TypeId,
    ValueId, Visibility,
};
use crate::num::format;
use crate::ops;

/// How a program is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintOptions {
    /// Write every operation in the generic form.
    pub generic: bool,
    /// Write `loc(…)` behind operations that have a location.
    pub locations: bool,
}

/// Constants with more elements than this are written as hexadecimal blobs.
const MAX_LISTED: usize = 100;

/// The program as text.
pub fn print(module: &Module, options: PrintOptions) -> String {
    let mut printer = Printer {
        module,
        options,
        out: String::new(),
        indent: 0,
        names: Vec::new(),
        graph: None,
        next: 0,
    };
    printer.whole();
    printer.out
}

/// Writes a program; forms of single operations use its pieces.
pub struct Printer<'m> {
    module: &'m Module,
    options: PrintOptions,
    out: String,
    indent: usize,
    /// The name of each value of the current function, empty if not yet named.
    names: Vec<Name>,
    graph: Option<&'m Graph>,
    next: u32,
}

/// A value's printed name: `%3`, `%3#1` or `%arg3`.
#[derive(Clone, Copy)]
enum Name {
    None,
    Result { number: u32, index: Option<u32> },
    Argument(u32),
}

impl<'m> Printer<'m> {
    pub(crate) fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    pub(crate) fn graph(&self) -> &'m Graph {
        self.graph.expect("operations are printed inside a function")
    }

    pub(crate) fn module(&self) -> &'m Module {
        self.module
    }

    pub(crate) fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
    }

    fn whole(&mut self) {
        self.push("module");
        if let Some(name) = &self.module.name {
            self.push(" ");
            self.symbol(name);
        }
        if !self.module.attrs.is_empty() {
            self.push(" attributes");
            self.attributes(&self.module.attrs);
        }
        self.push(" {");
        self.indent += 1;
        for func in self.module.funcs() {
            self.line();
            self.func(func);
        }
        self.indent -= 1;
        self.line();
        self.push("}\n");
    }

    fn func(&mut self, func: &'m Func) {
        self.push("func.func ");
        self.push(match func.visibility {
            Visibility::Default => "",
            Visibility::Public => "public ",
            Visibility::Private => "private ",
            Visibility::Nested => "nested ",
        });
        self.symbol(&func.name);
        self.push("(");
        self.next = 0;
        self.names = vec![Name::None; func.body.as_ref().map_or(0, Graph::value_count)];
        for (i, ty) in func.arguments.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            if func.body.is_some() {
                self.names[i] = Name::Argument(i as u32);
                let _ = write!(self.out, "%arg{i}: ");
            }
            self.ty(*ty);
            self.attributes(&func.argument_attrs[i]);
        }
        self.push(")");
        self.func_results(func);
        if !func.attrs.is_empty() {
            self.push(" attributes");
            self.attributes(&func.attrs);
        }
        if let Some(graph) = &func.body {
            self.graph = Some(graph);
            self.push(" {");
            self.nodes(Graph::BODY);
            self.push("}");
            self.graph = None;
        }
    }

    fn func_results(&mut self, func: &Func) {
        if func.results.is_empty() {
            return;
        }
        self.push(" -> ");
        let bare = func.results.len() == 1 && func.result_attrs[0].is_empty();
        if !bare {
            self.push("(");
        }
        for (i, ty) in func.results.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            self.ty(*ty);
            self.attributes(&func.result_attrs[i]);
        }
        if !bare {
            self.push(")");
        }
    }

    /// The operations of a region, indented, up to where the closing brace belongs.
    fn nodes(&mut self, region: RegionId) {
        self.indent += 1;
        for node in self.graph().region(region).nodes.clone() {
            self.line();
            self.node(node);
        }
        self.indent -= 1;
        self.line();
    }

    fn node(&mut self, id: NodeId) {
        let graph = self.graph();
        let results: Vec<ValueId> = graph.results(id).collect();
        if !results.is_empty() {
            let number = self.next;
            self.next += 1;
            let _ = write!(self.out, "%{number}");
            if results.len() > 1 {
                let _ = write!(self.out, ":{}", results.len());
            }
            for (i, value) in results.iter().enumerate() {
                let index = (results.len() > 1).then_some(i as u32);
                self.names[value.index()] = Name::Result { number, index };
            }
            self.push(" = ");
        }
        let node = graph.node(id);
        let info = ops::info_of(&node.op);
        let mut attrs = node.op.write();
        if let Some(extra) = &node.extra {
            attrs.extend(extra.iter().cloned());
        }
        match info.form {
            _ if self.options.generic => self.generic(id, info.name, attrs),
            Form::Generic => self.generic(id, info.name, attrs),
            Form::Plain { words, types } => {
                self.push(info.name);
                form::print_plain(self, id, attrs, words, types);
            }
            Form::Custom { print, .. } => {
                self.push(info.name);
                print(self, id, attrs);
            }
        }
        self.location(node.loc);
    }

    fn location(&mut self, loc: LocId) {
        if self.options.locations && loc != LocId::default() {
            let text = self.module.locs.text(loc);
            let _ = write!(self.out, " loc({text})");
        }
    }

    /// Everything of the generic form, the quoted name included.
    pub(crate) fn generic(&mut self, id: NodeId, name: &str, attrs: Dict) {
        let fields = ops::info_of(&self.graph().node(id).op).fields;
        let (own, extra): (Dict, Dict) =
            attrs.into_iter().partition(|(key, _)| fields.contains(&&**key));
        let _ = write!(self.out, "{name:?}(");
        self.values(self.graph().operands(id));
        self.push(")");
        if !own.is_empty() {
            self.push(" <");
            self.dict(&own);
            self.push(">");
        }
        let regions = self.graph().regions(id).to_vec();
        if !regions.is_empty() {
            self.push(" (");
            for (i, region) in regions.iter().enumerate() {
                self.push(if i > 0 { ", " } else { "" });
                self.region(*region, true);
            }
            self.push(")");
        }
        self.attributes(&extra);
        self.push(" : ");
        let (operands, results) = (self.operand_types(id), self.result_types(id));
        self.signature(&operands, &results);
    }

    /// A region in braces; `header` writes its arguments as `^bb0(…):`.
    pub(crate) fn region(&mut self, region: RegionId, header: bool) {
        self.push("{");
        let arguments = self.name_arguments(region);
        if header && !arguments.is_empty() {
            self.line();
            self.push("^bb0(");
            self.typed_values(&arguments);
            self.push("):");
        }
        self.nodes(region);
        self.push("}");
    }

    /// Gives a region's arguments their names.
    pub(crate) fn name_arguments(&mut self, region: RegionId) -> Vec<ValueId> {
        let arguments: Vec<ValueId> = self.graph().arguments(region).collect();
        for value in &arguments {
            if matches!(self.names[value.index()], Name::None) {
                self.names[value.index()] = Name::Argument(value.0);
            }
        }
        arguments
    }

    /// Gives a region's arguments the names of another one's, where the text declares them once.
    pub(crate) fn share_names(&mut self, from: RegionId, to: RegionId) {
        for (from, to) in self.graph().arguments(from).zip(self.graph().arguments(to)) {
            self.names[to.index()] = self.names[from.index()];
        }
    }

    /// `%a: T, %b: U`.
    pub(crate) fn typed_values(&mut self, values: &[ValueId]) {
        for (i, value) in values.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            self.value(*value);
            self.push(": ");
            self.ty(self.graph().ty(*value));
        }
    }

    pub(crate) fn value(&mut self, value: ValueId) {
        let name = self.names[value.index()];
        let _ = match name {
            Name::Result { number, index: None } => write!(self.out, "%{number}"),
            Name::Result { number, index: Some(index) } => write!(self.out, "%{number}#{index}"),
            Name::Argument(number) => write!(self.out, "%arg{number}"),
            // Only a graph that breaks the rule "defined before used" gets here.
            Name::None => match self.graph().def(value) {
                Def::Result(node, i) => write!(self.out, "%undefined_{}_{i}", node.0),
                Def::Argument(region, i) => write!(self.out, "%undefined_arg_{}_{i}", region.0),
            },
        };
    }

    pub(crate) fn values(&mut self, values: &[ValueId]) {
        for (i, value) in values.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            self.value(*value);
        }
    }

    pub(crate) fn ty(&mut self, ty: TypeId) {
        let _ = write!(self.out, "{}", self.module.ty(ty));
    }

    pub(crate) fn types(&mut self, types: &[TypeId]) {
        for (i, ty) in types.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            self.ty(*ty);
        }
    }

    pub(crate) fn operand_types(&self, node: NodeId) -> Vec<TypeId> {
        let graph = self.graph();
        graph.operands(node).iter().map(|value| graph.ty(*value)).collect()
    }

    pub(crate) fn result_types(&self, node: NodeId) -> Vec<TypeId> {
        let graph = self.graph();
        graph.results(node).map(|value| graph.ty(value)).collect()
    }

    pub(crate) fn signature(&mut self, operands: &[TypeId], results: &[TypeId]) {
        self.push("(");
        self.types(operands);
        self.push(") -> ");
        self.result_list(results);
    }

    pub(crate) fn result_list(&mut self, results: &[TypeId]) {
        if let [one] = results {
            return self.ty(*one);
        }
        self.push("(");
        self.types(results);
        self.push(")");
    }

    pub(crate) fn symbol(&mut self, name: &str) {
        let plain = !name.is_empty()
            && !name.as_bytes()[0].is_ascii_digit()
            && name.bytes().all(super::cursor::is_word);
        self.push("@");
        if plain { self.push(name) } else { self.push(&quote(name)) }
    }

    /// ` {…}` if there is anything to put into it.
    pub(crate) fn attributes(&mut self, dict: &Dict) {
        if !dict.is_empty() {
            self.push(" ");
            self.dict(dict);
        }
    }

    fn dict(&mut self, dict: &Dict) {
        self.push("{");
        self.fields(dict);
        self.push("}");
    }

    fn fields(&mut self, dict: &Dict) {
        for (i, (name, attr)) in dict.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            let plain = !name.is_empty() && name.bytes().all(super::cursor::is_word);
            if plain {
                self.push(name)
            } else {
                self.push(&quote(name))
            }
            if *attr != Attr::Unit {
                self.push(" = ");
                self.attr(attr);
            }
        }
    }

    /// An attribute inside a pretty form: lists without a type, keywords without a dialect.
    pub(crate) fn short_attr(&mut self, attr: &Attr) {
        match attr {
            Attr::DenseInts(_, ints) => {
                let _ = write!(self.out, "{ints:?}");
            }
            Attr::Int(value, _) => {
                let _ = write!(self.out, "{value}");
            }
            Attr::Enum { word, .. } => self.push(word),
            Attr::Array(items) => {
                self.push("[");
                for (i, item) in items.iter().enumerate() {
                    self.push(if i > 0 { ", " } else { "" });
                    self.short_attr(item);
                }
                self.push("]");
            }
            other => self.attr(other),
        }
    }

    pub(crate) fn attr(&mut self, attr: &Attr) {
        let _ = match attr {
            Attr::Unit => write!(self.out, "unit"),
            Attr::Bool(value) => write!(self.out, "{value}"),
            Attr::Int(value, None) => write!(self.out, "{value}"),
            Attr::Int(value, Some(dtype)) => write!(self.out, "{value} : {dtype}"),
            Attr::Float(value, dtype) => {
                let dtype = dtype.unwrap_or(DType::F64);
                write!(self.out, "{} : {dtype}", float_text(dtype, *value))
            }
            Attr::Str(text) => write!(self.out, "{}", quote(text)),
            Attr::Symbol(name) => return self.symbol(name),
            Attr::Type(ty) => write!(self.out, "{ty}"),
            Attr::Function(inputs, outputs) => {
                let list = |types: &[crate::ir::Ty]| {
                    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                };
                write!(self.out, "({}) -> ({})", list(inputs), list(outputs))
            }
            Attr::Array(items) => {
                self.push("[");
                for (i, item) in items.iter().enumerate() {
                    self.push(if i > 0 { ", " } else { "" });
                    self.attr(item);
                }
                write!(self.out, "]")
            }
            Attr::DenseInts(dtype, ints) => self.dense_ints(*dtype, ints),
            Attr::DenseFloats(dtype, floats) => {
                let items: Vec<String> = floats.iter().map(|f| float_text(*dtype, *f)).collect();
                write!(self.out, "array<{dtype}: {}>", items.join(", "))
            }
            Attr::Dense(literal) => return self.literal(literal),
            Attr::Dict(dict) => return self.dict(dict),
            Attr::Enum { kind, word } => match kind.split_once('.') {
                Some((_, "result_accuracy_mode")) => write!(self.out, "#{kind}<{word}>"),
                Some((dialect, mnemonic)) => write!(self.out, "#{dialect}<{mnemonic} {word}>"),
                None => write!(self.out, "{word}"),
            },
            Attr::Struct(kind, dict) if &**kind == "stablehlo.conv_raw" => {
                return self.conv(dict);
            }
            Attr::Struct(kind, dict) => {
                let _ = write!(self.out, "#{kind}<");
                self.struct_fields(dict);
                write!(self.out, ">")
            }
            Attr::Opaque(text) => write!(self.out, "{text}"),
        };
    }

    fn struct_fields(&mut self, dict: &Dict) {
        for (i, (name, attr)) in dict.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            self.push(name);
            self.push(" = ");
            match attr {
                Attr::DenseInts(..) | Attr::Int(..) => self.short_attr(attr),
                other => self.attr(other),
            }
        }
    }

    fn dense_ints(&mut self, dtype: DType, ints: &[i64]) -> std::fmt::Result {
        let one = |i: &i64| if dtype == DType::I1 { (*i != 0).to_string() } else { i.to_string() };
        let items: Vec<String> = ints.iter().map(one).collect();
        if items.is_empty() {
            return write!(self.out, "array<{dtype}>");
        }
        write!(self.out, "array<{dtype}: {}>", items.join(", "))
    }

    fn conv(&mut self, dict: &Dict) {
        self.push("#stablehlo.conv<");
        let text = conv::text(dict);
        if text.contains('?') {
            // What the short form cannot say.
            self.push("raw ");
            self.struct_fields(dict);
        } else {
            self.push(&text);
        }
        self.push(">");
    }

    /// `dense<…> : type`.
    pub(crate) fn literal(&mut self, literal: &Literal) {
        self.push("dense<");
        let count = literal.ty.count().unwrap_or(0);
        if literal.splat {
            self.element(literal, 0);
        } else if count > MAX_LISTED {
            self.push("\"0x");
            for byte in literal.data.bytes() {
                let _ = write!(self.out, "{byte:02X}");
            }
            self.push("\"");
        } else if count > 0 {
            self.nested(literal, 0, 0);
        }
        let _ = write!(self.out, "> : {}", literal.ty);
    }

    /// One bracket of a constant; returns the index of the next element.
    fn nested(&mut self, literal: &Literal, dim: usize, mut at: usize) -> usize {
        if dim == literal.ty.rank() {
            self.element(literal, at);
            return at + 1;
        }
        self.push("[");
        for i in 0..literal.ty.dims[dim] {
            self.push(if i > 0 { ", " } else { "" });
            at = self.nested(literal, dim + 1, at);
        }
        self.push("]");
        at
    }

    fn element(&mut self, literal: &Literal, i: usize) {
        let dtype = literal.ty.elem.storage();
        let bytes = literal.element(i);
        match dtype.kind() {
            Kind::Bool => self.push(if bytes[0] == 0 { "false" } else { "true" }),
            Kind::Signed | Kind::Unsigned => {
                let value = crate::ir::int_from_bytes(bytes, dtype.is_signed());
                let _ = match dtype.is_signed() {
                    true => write!(self.out, "{value}"),
                    false => write!(self.out, "{}", value as u64),
                };
            }
            Kind::Float => self.push(&float_bytes_text(dtype, bytes)),
            Kind::Complex => {
                let (re, im) = bytes.split_at(bytes.len() / 2);
                let (re, im) =
                    (float_bytes_text(dtype.part(), re), float_bytes_text(dtype.part(), im));
                let _ = write!(self.out, "({re}, {im})");
            }
        }
    }
}

fn float_bytes_text(dtype: DType, bytes: &[u8]) -> String {
    let mut wide = [0u8; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    let value = match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        narrow => format::decode(narrow, bits as u32),
    };
    if value.is_finite() {
        return float_text(dtype, value);
    }
    // NaNs and infinities have no decimal form; their bits say which one it is.
    format!("0x{bits:0width$X}", width = (dtype.bits() as usize).div_ceil(4))
}

/// The shortest decimal text that reads back as the same value.
pub(crate) fn float_text(dtype: DType, value: f64) -> String {
    if !value.is_finite() {
        return match dtype {
            DType::F32 => format!("0x{:08X}", (value as f32).to_bits()),
            _ => format!("0x{:016X}", value.to_bits()),
        };
    }
    let text = match dtype {
        DType::F64 => format!("{value:?}"),
        _ => format!("{:?}", value as f32),
    };
    // The grammar wants a point before an exponent.
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}
