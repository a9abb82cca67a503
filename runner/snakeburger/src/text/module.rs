//! Modules and functions in MLIR text.

use super::cursor::Parse;
use super::parser::Parser;
use crate::ir::{Attr, Dict, Func, TypeId, ValueId, Visibility};

impl<'a> Parser<'a> {
    pub(super) fn module_op(&mut self) -> Parse<()> {
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
    pub(super) fn properties(&mut self) -> Parse<Dict> {
        self.cur.expect("<")?;
        let dict = self.dict()?;
        self.cur.expect(">")?;
        Ok(dict)
    }

    pub(super) fn function(&mut self) -> Parse<()> {
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
        self.start_function();
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
            Some(self.scope.finish())
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
        self.start_function();
        self.cur.expect("(")?;
        let region = self.region(&[])?;
        self.cur.expect(")")?;
        if self.cur.peek() == b'{' {
            attrs.extend(self.dict()?);
        }
        self.cur.expect(":")?;
        self.function_types()?;
        let loc = self.optional_location()?;
        let graph = self.scope.finish();
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
    pub(super) fn parameters(&mut self) -> Parse<(Vec<(&'a str, usize)>, Vec<TypeId>, Vec<Dict>)> {
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
}
