//! A printed program of a training step that is made wrong, text by text. What is asked for and
//! not there ends the test: a fault that changes nothing proves nothing.

use std::ops::Range;

pub struct Program {
    lines: Vec<String>,
}

impl Program {
    pub fn new(text: &str) -> Self {
        Self { lines: text.lines().map(str::to_owned).collect() }
    }

    pub fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    /// The lines of a function, its first and last among them.
    fn function(&self, name: &str) -> Range<usize> {
        let head = format!("@{name}(");
        let start =
            self.lines.iter().position(|line| line.contains(&head) && line.contains("func"));
        let start = start.unwrap_or_else(|| panic!("there is no function {name}"));
        let length = self.lines[start..].iter().position(|line| line == "  }").unwrap();
        start..start + length + 1
    }

    /// Puts one text in another's place, wherever a function has it.
    pub fn change(&mut self, function: &str, from: &str, to: &str) {
        let range = self.function(function);
        let before = self.lines[range.clone()].join("\n");
        assert!(before.contains(from), "{function} has no {from}:\n{before}");
        let after = before.replace(from, to);
        self.lines.splice(range, after.lines().map(str::to_owned));
    }

    /// Kinds and names of arguments (0) or results (1), in order.
    fn slots(&self, side: usize) -> Vec<(&str, &str)> {
        let header = &self.lines[self.function("main").start];
        let (arguments, results) = header.rsplit_once(") -> (").expect("results with attributes");
        let quoted = |text: &'_ str| text.split('"').nth(1).map(str::len);
        let slots = [arguments, results][side].split("warpforge.name = ").skip(1);
        slots
            .map(|slot| {
                let (name, kind) = slot.split_once(", warpforge.kind = ").unwrap();
                let length = quoted(kind).unwrap();
                (&kind[1..=length], name.trim_matches('"'))
            })
            .collect()
    }

    fn place(&self, side: usize, kind: &str, name: &str) -> usize {
        let slots = self.slots(side);
        // Tied parameters have several names.
        let named = |names: &str| names.split(' ').any(|known| known == name);
        let at = slots.iter().position(|(of, names)| *of == kind && named(names));
        at.unwrap_or_else(|| panic!("there is no {kind} {name} among {slots:?}"))
    }

    pub fn argument(&self, kind: &str, name: &str) -> String {
        format!("%arg{}", self.place(0, kind, name))
    }

    /// The names of all results of a kind.
    pub fn names(&self, kind: &str) -> Vec<String> {
        let slots = self.slots(1).into_iter().filter(|(of, _)| *of == kind);
        slots.map(|(_, name)| name.to_owned()).collect()
    }

    fn returned(&self) -> (usize, Vec<&str>, &str) {
        let main = self.function("main");
        let is_return = |at: &usize| self.lines[*at].trim_start().starts_with("func.return ");
        let at = main.rev().find(is_return).expect("the step returns something");
        let line = self.lines[at].trim_start().trim_start_matches("func.return ");
        let (values, types) = line.split_once(" : ").unwrap();
        (at, values.split(", ").collect(), types)
    }

    pub fn result(&self, kind: &str, name: &str) -> String {
        self.returned().1[self.place(1, kind, name)].to_owned()
    }

    pub fn set_result(&mut self, kind: &str, name: &str, value: &str) {
        let place = self.place(1, kind, name);
        let (at, mut values, types) = self.returned();
        values[place] = value;
        self.lines[at] = format!("    func.return {} : {types}", values.join(", "));
    }

    /// The line of the step that makes a value.
    fn made(&self, value: &str) -> usize {
        let value = value.split('#').next().unwrap();
        let heads = [format!("    {value} = "), format!("    {value}:")];
        let makes = |at: &usize| heads.iter().any(|head| self.lines[*at].starts_with(head));
        self.function("main").find(makes).unwrap_or_else(|| panic!("nothing makes {value}"))
    }

    /// What a value is made by, without its place in the model.
    pub fn operation(&self, value: &str) -> &str {
        let line = self.lines[self.made(value)].split(" loc(").next().unwrap();
        line.split_once(" = ").unwrap().1
    }

    /// The values that a value is made from.
    pub fn operands(&self, value: &str) -> Vec<String> {
        let words = self.operation(value).split([' ', ',', '(', ')']);
        words.filter(|word| word.starts_with('%')).map(str::to_owned).collect()
    }

    /// Of one result, or of an argument.
    pub fn ty(&self, value: &str) -> String {
        if value.starts_with("%arg") {
            let header = &self.lines[self.function("main").start];
            let (_, rest) = header.split_once(&format!("{value}: ")).unwrap();
            return rest.split(" {").next().unwrap().to_owned();
        }
        let (_, types) = self.operation(value).rsplit_once(" : ").unwrap();
        let results = types.rsplit_once(" -> ").map_or(types, |(_, results)| results);
        let results: Vec<&str> = results.trim_matches(['(', ')']).split(", ").collect();
        let index = value.split_once('#').map_or(0, |(_, index)| index.parse().unwrap());
        results[index].to_owned()
    }

    /// Makes a value otherwise.
    pub fn remake(&mut self, value: &str, operation: &str) {
        let at = self.made(value);
        self.lines[at] = format!("    {value} = {operation}");
    }

    /// Adds an operation before the one that makes a value; `name` is the new value's.
    pub fn before(&mut self, value: &str, name: &str, operation: &str) {
        let at = if value.starts_with("%arg") {
            self.function("main").start + 1
        } else {
            self.made(value)
        };
        self.lines.insert(at, format!("    {name} = {operation}"));
    }

    /// Adds an operation at the step's end.
    pub fn last(&mut self, name: &str, operation: &str) {
        let at = self.returned().0;
        self.lines.insert(at, format!("    {name} = {operation}"));
    }

    /// The values of the step whose operation has a text in it, in order.
    pub fn all(&self, text: &str) -> Vec<String> {
        let body = &self.lines[self.function("main")][1..];
        let lines = body.iter().filter(|line| line.contains(text) && line.contains(" = "));
        lines.map(|line| line.trim_start().split([' ', ':']).next().unwrap().to_owned()).collect()
    }

    /// Everything but the operation that makes `but` reads one value in another's place.
    pub fn reread(&mut self, old: &str, new: &str, but: &str) {
        let main = self.function("main");
        let but = format!("    {but} = ");
        let mut changed = false;
        for line in &mut self.lines[main.start + 1..main.end] {
            if !line.starts_with(&but) {
                let next = replaced(line, old, new);
                changed |= next != *line;
                *line = next;
            }
        }
        assert!(changed, "nothing reads {old}");
    }
}

/// A text with every use of a value replaced: `%1` is no part of `%12`.
fn replaced(line: &str, old: &str, new: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(old) {
        let (before, after) = (&rest[..at], &rest[at + old.len()..]);
        let whole = !after.starts_with(|c: char| c.is_ascii_alphanumeric());
        out.push_str(before);
        out.push_str(if whole { new } else { old });
        rest = after;
    }
    out + rest
}
