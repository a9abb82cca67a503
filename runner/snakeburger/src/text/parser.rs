//! Modules, functions, regions and operations in MLIR text.

use rustc_hash::FxHashMap;

use super::cursor::{Cursor, Parse};
use super::form::{self, RawOp};
use crate::ir::{
    Attr, Dict, Elem, Func, Graph, LocId, Module, NewNode, RegionId, Ty, TypeId, ValueId,
    Visibility,
};
use crate::ops::{self, OpInfo};

/// What the parser keeps and what it allows.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Skip `loc(…)` instead of keeping it.
    pub drop_locations: bool,
    /// How deep regions, types and attributes may nest.
    pub max_depth: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { drop_locations: false, max_depth: 200 }
    }
}

/// Reads a program; forms of single operations use its pieces.
pub struct Parser<'a> {
    pub(crate) cur: Cursor<'a>,
    pub(crate) module: Module,
    pub(crate) options: Options,
    pub(crate) type_cache: FxHashMap<&'a str, TypeId>,
    /// Where each `#name = …` has its definition.
    pub(crate) aliases: FxHashMap<&'a str, usize>,
    pub(crate) loc_aliases: FxHashMap<&'a str, LocId>,
    type_aliases: FxHashMap<&'a str, usize>,
    resources: FxHashMap<&'a str, (&'a str, usize)>,
    depth: u32,
    expansions: u32,
    scope: Scope<'a>,
}

/// How often aliases may be expanded in one text: aliases of aliases could double without end.
const MAX_EXPANSIONS: u32 = 1 << 20;

/// The function being parsed.
#[derive(Default)]
struct Scope<'a> {
    graph: Graph,
    names: FxHashMap<&'a str, (ValueId, u32)>,
    /// Names in the order of definition, so that a region's own can be forgotten at its end.
    defined: Vec<&'a str>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, options: Options) -> Self {
        Self {
            cur: Cursor::new(text),
            module: Module::default(),
            options,
            type_cache: FxHashMap::default(),
            aliases: FxHashMap::default(),
            loc_aliases: FxHashMap::default(),
            type_aliases: FxHashMap::default(),
            resources: FxHashMap::default(),
            depth: 0,
            expansions: 0,
            scope: Scope::default(),
        }
    }

    /// Guards recursion: text decides how deep it goes, the stack must not.
    pub(crate) fn nest<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= self.options.max_depth {
            return self.cur.fail(format!("nested deeper than {} levels", self.options.max_depth));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    pub(crate) fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        self.cur.expect(open)?;
        let mut items = Vec::new();
        if self.cur.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.cur.eat(close) {
                return Ok(items);
            }
            if !self.cur.eat(",") {
                return self.cur.expected(&format!("`,` or `{close}`"));
            }
        }
    }

    /// The whole text: one module, or functions that form one.
    pub(crate) fn file(mut self) -> Parse<Module> {
        if self.cur.text.len() > u32::MAX as usize {
            return self.cur.fail("texts of 4 GiB and more are not supported");
        }
        self.find_aliases();
        self.find_resources()?;
        self.skip_definitions()?;
        if self.cur.at_word("module")
            || self.cur.at_word("builtin.module")
            || self.cur.text[self.cur.at..].starts_with("\"builtin.module\"")
        {
            self.module_op()?;
            self.skip_definitions()?;
        } else {
            while !self.cur.at_end() {
                self.function()?;
                self.skip_definitions()?;
            }
        }
        if !self.cur.at_end() {
            return self.cur.expected("the end of the text");
        }
        Ok(self.module)
    }

    /// Notes where aliases are defined; printers put some of them behind their first use.
    fn find_aliases(&mut self) {
        for start in
            std::iter::once(0).chain(memchr::memchr_iter(b'\n', self.cur.bytes()).map(|i| i + 1))
        {
            let sigil = self.cur.bytes().get(start);
            if !matches!(sigil, Some(b'#' | b'!')) {
                continue;
            }
            let mut cur = Cursor { text: self.cur.text, at: start + 1 };
            let name = cur.take_word();
            if name.is_empty() || !cur.eat("=") {
                continue;
            }
            let table =
                if sigil == Some(&b'#') { &mut self.aliases } else { &mut self.type_aliases };
            table.insert(name, cur.at);
        }
    }

    /// Moves past alias definitions and the resource section, all of which were read already.
    fn skip_definitions(&mut self) -> Parse<()> {
        loop {
            match self.cur.peek() {
                b'#' => {
                    self.cur.at += 1;
                    self.cur.take_word();
                    self.cur.expect("=")?;
                    if self.cur.at_word("loc") {
                        self.cur.advance(3);
                        self.cur.balanced()?;
                    } else {
                        self.attr()?;
                    }
                }
                b'!' => {
                    self.cur.at += 1;
                    self.cur.take_word();
                    self.cur.expect("=")?;
                    if self.cur.eat("!quant.uniform") {
                        self.cur.balanced()?;
                    } else {
                        self.ty()?;
                    }
                }
                b'{' if self.cur.eat("{-#") => {
                    match memchr::memmem::find(&self.cur.bytes()[self.cur.at..], b"#-}") {
                        Some(end) => self.cur.advance(end + 3),
                        None => return self.cur.fail("expected `#-}` after the resources"),
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// Reads `{-# dialect_resources: { builtin: { name: "0x…" } } #-}` at the end of the text.
    fn find_resources(&mut self) -> Parse<()> {
        let Some(start) = memchr::memmem::rfind(self.cur.bytes(), b"{-#") else {
            return Ok(());
        };
        let mut cur = Cursor { text: self.cur.text, at: start };
        cur.advance(3);
        while !cur.at_end() && !cur.text[cur.at..].starts_with("#-}") {
            if cur.peek() == b'"' {
                cur.raw_string()?;
                continue;
            }
            let name = cur.take_word();
            if name.is_empty() {
                cur.advance(1);
                while !cur.text.is_char_boundary(cur.at) {
                    cur.at += 1;
                }
            } else if cur.eat(":") && cur.peek() == b'"' {
                let at = cur.at;
                self.resources.insert(name, (cur.raw_string()?, at));
            }
        }
        Ok(())
    }

    /// `dense_resource<name> : type`; the cursor stands behind the first word.
    pub(crate) fn dense_resource(&mut self) -> Parse<Attr> {
        self.cur.expect("<")?;
        let start = self.cur.at;
        let name = self.cur.word("a resource's name")?;
        self.cur.expect(">")?;
        self.cur.expect(":")?;
        let Ty::Tensor(ty) = self.ty()? else {
            return self.cur.fail_at(start, "a resource has a tensor type");
        };
        let Some((text, at)) = self.resources.get(name).copied() else {
            return self.cur.fail_at(start, format!("there is no resource `{name}` in this file"));
        };
        // The first four bytes are the blob's alignment.
        match super::dense::unhex(text) {
            Some(bytes) if bytes.len() >= 4 => {
                self.blob(ty, &bytes[4..], at).map(|literal| Attr::Dense(literal.into()))
            }
            _ => self.cur.fail_at(at, "expected a string of the form \"0x…\" in hex digits"),
        }
    }

    /// The attribute an alias stands for.
    pub(crate) fn alias(&mut self, name: &str) -> Parse<Option<Attr>> {
        let at = self.aliases.get(name).copied();
        at.map(|at| self.expand(at, Self::attr)).transpose()
    }

    pub(crate) fn type_alias(&mut self, name: &str) -> Parse<Option<Ty>> {
        let at = self.type_aliases.get(name).copied();
        at.map(|at| self.expand(at, Self::ty)).transpose()
    }

    pub(crate) fn elem_alias(&mut self, name: &str) -> Parse<Option<Elem>> {
        let at = self.type_aliases.get(name).copied();
        at.map(|at| self.expand(at, |p| p.nest(Self::elem))).transpose()
    }

    /// Parses at an alias's definition and comes back.
    pub(crate) fn expand<T>(
        &mut self,
        at: usize,
        parse: impl FnOnce(&mut Self) -> Parse<T>,
    ) -> Parse<T> {
        self.expansions += 1;
        if self.expansions > MAX_EXPANSIONS {
            return self.cur.fail("aliases are expanded too often: they may refer to each other");
        }
        let back = std::mem::replace(&mut self.cur.at, at);
        let parsed = parse(self)?;
        self.cur.at = back;
        Ok(parsed)
    }

    fn module_op(&mut self) -> Parse<()> {
        if self.cur.eat("\"builtin.module\"") {
            return self.generic_module();
        }
        self.cur.take_word();
        if self.cur.peek() == b'@' {
            self.module.name = Some(self.symbol()?);
        }
        if self.cur.eat_word("attributes") {
            self.module.attrs = self.dict()?;
        }
        self.cur.expect("{")?;
        while !self.cur.eat("}") {
            self.function()?;
        }
        self.optional_location()?;
        Ok(())
    }

    /// `"builtin.module"() <{sym_name = "m"}> ({ … }) {…} : () -> ()`.
    fn generic_module(&mut self) -> Parse<()> {
        self.cur.expect("(")?;
        self.cur.expect(")")?;
        let mut attrs = Dict::new();
        if self.cur.peek() == b'<' {
            attrs.extend(self.properties()?);
        }
        self.cur.expect("(")?;
        self.cur.expect("{")?;
        if self.cur.peek() == b'^' {
            self.cur.at += 1;
            self.cur.suffix("a block's name")?;
            self.cur.expect(":")?;
        }
        while !self.cur.eat("}") {
            self.function()?;
        }
        self.cur.expect(")")?;
        if self.cur.peek() == b'{' {
            attrs.extend(self.dict()?);
        }
        self.cur.expect(":")?;
        self.function_types()?;
        self.optional_location()?;
        for (name, attr) in attrs {
            match attr {
                Attr::Str(text) if &*name == "sym_name" => self.module.name = Some(text),
                attr => self.module.attrs.push((name, attr)),
            }
        }
        Ok(())
    }

    /// `<{…}>`: an operation's own attributes in the generic form.
    fn properties(&mut self) -> Parse<Dict> {
        self.cur.expect("<")?;
        let dict = self.dict()?;
        self.cur.expect(">")?;
        Ok(dict)
    }

    fn function(&mut self) -> Parse<()> {
        let offset = self.cur.at as u32;
        if self.cur.eat("\"func.func\"") {
            return self.generic_function(offset);
        }
        if !self.cur.eat_word("func.func") && !self.cur.eat_word("func") {
            return self.cur.expected("`func.func`");
        }
        let visibility = match () {
            () if self.cur.eat_word("public") => Visibility::Public,
            () if self.cur.eat_word("private") => Visibility::Private,
            () if self.cur.eat_word("nested") => Visibility::Nested,
            () => Visibility::Default,
        };
        let name_at = self.cur.at;
        let name = self.symbol()?;
        self.scope = Scope::default();
        let (names, arguments, argument_attrs) = self.parameters()?;
        let (results, result_attrs) = self.function_results()?;
        let attrs = if self.cur.eat_word("attributes") { self.dict()? } else { Dict::new() };
        let body = if self.cur.eat("{") {
            let region = self.scope.graph.new_region(&arguments);
            let values: Vec<ValueId> = self.scope.graph.arguments(region).collect();
            for ((name, at), value) in names.iter().zip(values) {
                self.define(name, *at, value, 1)?;
            }
            self.operations(region)?;
            Some(std::mem::take(&mut self.scope.graph))
        } else {
            None
        };
        let loc = self.optional_location()?;
        let func = Func {
            name,
            visibility,
            arguments,
            results,
            argument_attrs,
            result_attrs,
            attrs,
            loc,
            offset,
            body,
        };
        self.add_function(func, name_at)
    }

    fn add_function(&mut self, func: Func, at: usize) -> Parse<()> {
        match self.module.add(func) {
            Ok(()) => Ok(()),
            Err(func) => self.cur.fail_at(at, format!("function @{} is defined twice", func.name)),
        }
    }

    /// `"func.func"() <{function_type = …, sym_name = …}> ({ … }) : () -> ()`.
    fn generic_function(&mut self, offset: u32) -> Parse<()> {
        self.cur.expect("(")?;
        self.cur.expect(")")?;
        let mut attrs = Dict::new();
        if self.cur.peek() == b'<' {
            attrs.extend(self.properties()?);
        }
        self.scope = Scope::default();
        self.cur.expect("(")?;
        let region = self.region(&[])?;
        self.cur.expect(")")?;
        if self.cur.peek() == b'{' {
            attrs.extend(self.dict()?);
        }
        self.cur.expect(":")?;
        self.function_types()?;
        let loc = self.optional_location()?;
        let graph = std::mem::take(&mut self.scope.graph);
        let arguments: Vec<TypeId> = graph.arguments(region).map(|v| graph.ty(v)).collect();
        let mut func = Func {
            name: "".into(),
            visibility: Visibility::Default,
            argument_attrs: vec![Dict::new(); arguments.len()],
            arguments,
            results: Vec::new(),
            result_attrs: Vec::new(),
            attrs: Dict::new(),
            loc,
            offset,
            body: Some(graph),
        };
        for (name, attr) in attrs {
            self.function_attr(&mut func, &name, attr);
        }
        func.result_attrs.resize(func.results.len(), Dict::new());
        self.add_function(func, offset as usize)
    }

    fn function_attr(&mut self, func: &mut Func, name: &str, attr: Attr) {
        let dicts = |items: Vec<Attr>| {
            let dict = |item| if let Attr::Dict(dict) = item { dict } else { Dict::new() };
            items.into_iter().map(dict).collect()
        };
        match (name, attr) {
            ("sym_name", Attr::Str(text)) => func.name = text,
            ("sym_visibility", Attr::Str(text)) => {
                func.visibility = match &*text {
                    "private" => Visibility::Private,
                    "nested" => Visibility::Nested,
                    _ => Visibility::Public,
                }
            }
            ("function_type", Attr::Function(_, results)) => {
                func.results = results.into_iter().map(|ty| self.module.types.intern(ty)).collect();
            }
            ("arg_attrs", Attr::Array(items)) => func.argument_attrs = dicts(items),
            ("res_attrs", Attr::Array(items)) => func.result_attrs = dicts(items),
            (name, attr) => func.attrs.push((name.into(), attr)),
        }
    }

    /// `(%a: type {attrs} loc(…), …)`, or types alone in a declaration.
    #[expect(clippy::type_complexity, reason = "three lists of one length, used once")]
    fn parameters(&mut self) -> Parse<(Vec<(&'a str, usize)>, Vec<TypeId>, Vec<Dict>)> {
        let (mut names, mut types, mut attrs) = (Vec::new(), Vec::new(), Vec::new());
        self.list("(", ")", |p| {
            if p.cur.peek() == b'%' {
                let at = p.cur.at;
                p.cur.at += 1;
                names.push((p.cur.suffix("a value's name")?, at));
                p.cur.expect(":")?;
            }
            types.push(p.type_id()?);
            attrs.push(if p.cur.peek() == b'{' { p.dict()? } else { Dict::new() });
            p.optional_location()?;
            Ok(())
        })?;
        Ok((names, types, attrs))
    }

    fn function_results(&mut self) -> Parse<(Vec<TypeId>, Vec<Dict>)> {
        if !self.cur.eat("->") {
            return Ok((Vec::new(), Vec::new()));
        }
        if self.cur.peek() != b'(' {
            return Ok((vec![self.type_id()?], vec![Dict::new()]));
        }
        let items = self.list("(", ")", |p| {
            let ty = p.type_id()?;
            Ok((ty, if p.cur.peek() == b'{' { p.dict()? } else { Dict::new() }))
        })?;
        Ok(items.into_iter().unzip())
    }

    fn define(&mut self, name: &'a str, at: usize, first: ValueId, count: u32) -> Parse<()> {
        if self.scope.names.insert(name, (first, count)).is_some() {
            return self.cur.fail_at(at, format!("%{name} is defined twice"));
        }
        self.scope.defined.push(name);
        Ok(())
    }

    /// `%name` or `%name#1`.
    pub(crate) fn operand(&mut self) -> Parse<ValueId> {
        let at = self.cur.at;
        if self.cur.peek() != b'%' {
            return self.cur.expected("a value such as %0");
        }
        self.cur.at += 1;
        let name = self.cur.suffix("a value's name")?;
        let index = if self.cur.eat("#") { self.cur.int64()? } else { 0 };
        match self.scope.names.get(name) {
            None => self.cur.fail_at(at, format!("%{name} is not defined here")),
            Some((first, count)) if (0..i64::from(*count)).contains(&index) => {
                Ok(ValueId(first.0 + index as u32))
            }
            Some((_, count)) => {
                self.cur.fail_at(at, format!("%{name} has {count} results, there is no #{index}"))
            }
        }
    }

    /// `%name: type`, possibly with a location, as regions' arguments are declared.
    pub(crate) fn typed_name(&mut self) -> Parse<(&'a str, usize, TypeId)> {
        let (name, at) = self.value_name()?;
        self.cur.expect(":")?;
        let ty = self.type_id()?;
        self.optional_location()?;
        Ok((name, at, ty))
    }

    /// The name of a value to be defined, and where it stands.
    pub(crate) fn value_name(&mut self) -> Parse<(&'a str, usize)> {
        let at = self.cur.at;
        if self.cur.peek() != b'%' {
            return self.cur.expected("a value such as %0");
        }
        self.cur.at += 1;
        Ok((self.cur.suffix("a value's name")?, at))
    }

    /// The name of an operation, bare.
    pub(crate) fn operation_name(&mut self) -> Parse<&'static OpInfo> {
        let at = self.cur.at;
        let name = self.cur.word("an operation")?;
        self.op_info(name, at)
    }

    /// A region that takes two values of a type and yields the operation applied to them.
    pub(crate) fn binary_region(&mut self, info: &'static OpInfo, ty: TypeId) -> Parse<RegionId> {
        let at = self.cur.at;
        let region = self.scope.graph.new_region(&[ty, ty]);
        let operands = self.scope.graph.arguments(region).collect();
        let raw = RawOp { operands, results: vec![ty], ..RawOp::default() };
        self.push(region, info, raw, LocId::default(), at, &[])?;
        let last = self.scope.graph.terminator(region);
        let operands = last.map(|node| self.scope.graph.results(node).collect());
        let raw = RawOp { operands: operands.unwrap_or_default(), ..RawOp::default() };
        let end = self.op_info("stablehlo.return", at)?;
        self.push(region, end, raw, LocId::default(), at, &[])?;
        Ok(region)
    }

    pub(crate) fn value_type(&self, value: ValueId) -> TypeId {
        self.scope.graph.ty(value)
    }

    /// A region in braces. Arguments given by the caller come with names (the pretty forms of
    /// `reduce` and `while`); otherwise a `^bb0(…):` header declares them.
    pub(crate) fn region(&mut self, given: &[(&'a str, usize, TypeId)]) -> Parse<RegionId> {
        self.nest(|p| p.region_inner(given))
    }

    fn region_inner(&mut self, given: &[(&'a str, usize, TypeId)]) -> Parse<RegionId> {
        self.cur.expect("{")?;
        let mut header = Vec::new();
        if self.cur.peek() == b'^' {
            self.cur.at += 1;
            self.cur.suffix("a block's name")?;
            if self.cur.peek() == b'(' {
                let (names, types, _) = self.parameters()?;
                header = names.into_iter().zip(types).map(|((n, at), ty)| (n, at, ty)).collect();
            }
            self.cur.expect(":")?;
        }
        let arguments = if header.is_empty() { given } else { &header };
        let types: Vec<TypeId> = arguments.iter().map(|(_, _, ty)| *ty).collect();
        let outer = self.scope.defined.len();
        let region = self.scope.graph.new_region(&types);
        let values: Vec<ValueId> = self.scope.graph.arguments(region).collect();
        for ((name, at, _), value) in arguments.iter().zip(values) {
            self.define(name, *at, value, 1)?;
        }
        self.operations(region)?;
        for name in self.scope.defined.drain(outer..) {
            self.scope.names.remove(name);
        }
        Ok(region)
    }

    /// Operations up to the closing brace, which is taken.
    fn operations(&mut self, region: RegionId) -> Parse<()> {
        while !self.cur.eat("}") {
            if self.cur.peek() == b'^' {
                return self.cur.fail("a second block: StableHLO regions have exactly one");
            }
            self.operation(region)?;
        }
        Ok(())
    }

    fn operation(&mut self, region: RegionId) -> Parse<()> {
        let offset = self.cur.at;
        let names = self.result_names()?;
        let name_at = self.cur.at;
        let (info, raw) = if self.cur.peek() == b'"' {
            let name = self.cur.raw_string()?;
            let info = self.op_info(name, name_at)?;
            (info, self.generic_op()?)
        } else {
            let name = self.cur.word("an operation")?;
            let info = self.op_info(name, name_at)?;
            (info, form::parse(self, info)?)
        };
        let loc = self.optional_location()?;
        let results: u32 = names.iter().map(|(_, _, count)| count).sum();
        if names.is_empty() && !raw.results.is_empty() {
            // Allowed by MLIR: results nobody names.
        } else if results as usize != raw.results.len() {
            let message =
                format!("{} names {results} results but yields {}", info.name, raw.results.len());
            return self.cur.fail_at(offset, message);
        }
        self.push(region, info, raw, loc, offset, &names)
    }

    fn push(
        &mut self,
        region: RegionId,
        info: &'static OpInfo,
        raw: RawOp,
        loc: LocId,
        offset: usize,
        names: &[(&'a str, usize, u32)],
    ) -> Parse<()> {
        let op = match (info.read)(&raw.attrs) {
            Ok(op) => op,
            Err(error) => {
                let message =
                    format!("{}: attribute `{}` {}", info.name, error.name, error.problem);
                return self.cur.fail_at(offset, message);
            }
        };
        let extra: Dict =
            raw.attrs.into_iter().filter(|(name, _)| !info.fields.contains(&&**name)).collect();
        let node = self.scope.graph.push(
            region,
            NewNode {
                op,
                operands: &raw.operands,
                results: &raw.results,
                regions: &raw.regions,
                loc,
                offset: offset as u32,
                extra: (!extra.is_empty()).then(|| Box::new(extra)),
            },
        );
        let mut first = self.scope.graph.results(node).next().map_or(0, |v| v.0);
        for (name, at, count) in names {
            self.define(name, *at, ValueId(first), *count)?;
            first += count;
        }
        Ok(())
    }

    fn op_info(&self, name: &str, at: usize) -> Parse<&'static OpInfo> {
        if let Some(info) = ops::info(name) {
            return Ok(info);
        }
        let near = ops::nearest(name).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        self.cur.fail_at(at, format!("`{name}` is not an operation known here{near}"))
    }

    /// `%a, %b:2 =`.
    fn result_names(&mut self) -> Parse<Vec<(&'a str, usize, u32)>> {
        let mut names = Vec::new();
        if self.cur.peek() != b'%' {
            return Ok(names);
        }
        loop {
            let at = self.cur.at;
            if self.cur.peek() != b'%' {
                return self.cur.expected("a value such as %0");
            }
            self.cur.at += 1;
            let name = self.cur.suffix("a value's name")?;
            let mut count = 1;
            if self.cur.eat(":") {
                let n = self.cur.int64()?;
                count = match u32::try_from(n) {
                    Ok(count @ 1..=65536) => count,
                    _ => return self.cur.fail_at(at, format!("{n} is no number of results")),
                };
            }
            names.push((name, at, count));
            if self.cur.eat("=") {
                return Ok(names);
            }
            self.cur.expect(",")?;
        }
    }

    /// Everything behind the quoted name of a generic operation.
    fn generic_op(&mut self) -> Parse<RawOp> {
        let mut raw = RawOp { operands: self.list("(", ")", Self::operand)?, ..RawOp::default() };
        if self.cur.peek() == b'<' {
            raw.attrs = self.properties()?;
        }
        if self.cur.peek() == b'(' {
            raw.regions = self.list("(", ")", |p| p.region(&[]))?;
        }
        if self.cur.peek() == b'{' {
            for (name, attr) in self.dict()? {
                if !raw.attrs.iter().any(|(other, _)| *other == name) {
                    raw.attrs.push((name, attr));
                }
            }
        }
        let at = self.cur.at;
        self.cur.expect(":")?;
        self.signature(&mut raw, at)?;
        Ok(raw)
    }

    /// `(operand types) -> result types`.
    pub(crate) fn function_types(&mut self) -> Parse<(Vec<TypeId>, Vec<TypeId>)> {
        let operands = self.list("(", ")", Self::type_id)?;
        self.cur.expect("->")?;
        let results = if self.cur.peek() == b'(' {
            self.list("(", ")", Self::type_id)?
        } else {
            vec![self.type_id()?]
        };
        Ok((operands, results))
    }

    /// Reads a functional signature and holds its operand types against the operands.
    pub(crate) fn signature(&mut self, raw: &mut RawOp, at: usize) -> Parse<()> {
        let (types, results) = self.function_types()?;
        self.check_operand_types(&raw.operands, &types, at)?;
        raw.results = results;
        Ok(())
    }

    pub(crate) fn check_operand_types(
        &self,
        operands: &[ValueId],
        types: &[TypeId],
        at: usize,
    ) -> Parse<()> {
        if operands.len() != types.len() {
            let message = format!("{} operands but {} operand types", operands.len(), types.len());
            return self.cur.fail_at(at, message);
        }
        for (i, (operand, declared)) in operands.iter().zip(types).enumerate() {
            let actual = self.value_type(*operand);
            if actual != *declared {
                let message = format!(
                    "operand {i} has type {}, but the signature says {}",
                    self.module.ty(actual),
                    self.module.ty(*declared)
                );
                return self.cur.fail_at(at, message);
            }
        }
        Ok(())
    }
}
