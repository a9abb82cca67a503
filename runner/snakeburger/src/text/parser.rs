//! Regions and operations in MLIR text, and what all parts of the parser share.

use rustc_hash::FxHashMap;

use super::cursor::{Cursor, Parse};
use super::form::{self, RawOp};
use super::scope::{self, Scope};
use crate::ir::{Dict, LocId, Module, NewNode, RegionId, TypeId, ValueId};
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
    pub(super) type_aliases: FxHashMap<&'a str, usize>,
    pub(super) resources: FxHashMap<&'a str, (&'a str, usize)>,
    depth: u32,
    pub(super) expansions: u32,
    pub(super) scope: Scope<'a>,
    /// Up to where lines were counted to reserve memory for functions.
    counted_to: usize,
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
            counted_to: 0,
        }
    }

    /// Starts a function's scope with room for as many operations as its text can hold.
    pub(super) fn start_function(&mut self) {
        let rest = &self.cur.text[self.cur.at..];
        let mut lines = 0;
        // A text is counted once, however its functions are spelled.
        if self.cur.at >= self.counted_to {
            let len = memchr::memmem::find(rest.as_bytes(), b"func.func").unwrap_or(rest.len());
            self.counted_to = self.cur.at + len;
            lines = scope::count_operations(&rest[..len]);
        }
        self.scope = Scope::with_room(lines);
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

    pub(super) fn define(
        &mut self,
        name: &'a str,
        at: usize,
        first: ValueId,
        count: u32,
    ) -> Parse<()> {
        match self.scope.define(name, first, count) {
            true => Ok(()),
            false => self.cur.fail_at(at, format!("%{name} is defined twice")),
        }
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
        match self.scope.find(name) {
            None => self.cur.fail_at(at, format!("%{name} is not defined here")),
            Some((first, count)) if (0..i64::from(count)).contains(&index) => {
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
        let outer = self.scope.enter();
        let region = self.scope.graph.new_region(&types);
        let values: Vec<ValueId> = self.scope.graph.arguments(region).collect();
        for ((name, at, _), value) in arguments.iter().zip(values) {
            self.define(name, *at, value, 1)?;
        }
        self.operations(region)?;
        self.scope.leave(outer);
        Ok(region)
    }

    /// Operations up to the closing brace, which is taken.
    pub(super) fn operations(&mut self, region: RegionId) -> Parse<()> {
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
