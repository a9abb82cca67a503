//! Operators' schemas: which arguments there are, in which order, and what stands for one that
//! was left out.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The schemas of every operator in the table, as PyTorch prints them, one a line.
const TEXT: &str = include_str!("schemas.txt");

/// One argument of an operator.
#[derive(Debug, PartialEq, Eq)]
pub struct Formal {
    pub name: &'static str,
    pub ty: &'static str,
    pub default: Option<&'static str>,
}

/// An operator's arguments.
#[derive(Debug)]
pub struct Schema {
    pub formals: Vec<Formal>,
}

/// Looks a schema up by `aten::name` and overload.
pub fn find(name: &str, overload: &str) -> Option<&'static Schema> {
    static ALL: LazyLock<HashMap<&str, Vec<(&str, Schema)>>> = LazyLock::new(|| {
        let mut all: HashMap<&str, Vec<(&str, Schema)>> = HashMap::new();
        for ((name, overload), schema) in TEXT.lines().filter_map(parse) {
            all.entry(name).or_default().push((overload, schema));
        }
        all
    });
    ALL.get(name)?.iter().find(|(known, _)| *known == overload).map(|(_, schema)| schema)
}

/// `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
fn parse(line: &'static str) -> Option<((&'static str, &'static str), Schema)> {
    let (head, rest) = line.split_once('(')?;
    let (name, overload) = head.split_once('.').unwrap_or((head, ""));
    let (arguments, _) = rest.rsplit_once(") -> ")?;
    let formals = split(arguments).into_iter().filter(|text| *text != "*").map(formal).collect();
    Some(((name, overload), Schema { formals }))
}

/// Splits at commas outside brackets and quotes.
fn split(text: &'static str) -> Vec<&'static str> {
    let (mut depth, mut quoted, mut start) = (0, false, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

fn formal(text: &'static str) -> Formal {
    let (declared, default) = match text.split_once('=') {
        Some((declared, default)) => (declared, Some(default)),
        None => (text, None),
    };
    let (ty, name) = declared.rsplit_once(' ').unwrap_or(("", declared));
    Formal { name, ty, default }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_defaults() {
        let text = "aten::gelu(Tensor(a!) self, *, int[2] stride=[1, 2], str approximate=\"none\") -> Tensor";
        let ((name, overload), schema) = parse(text).unwrap();
        assert_eq!((name, overload), ("aten::gelu", ""));
        let defaults: Vec<_> = schema.formals.iter().map(|f| (f.name, f.ty, f.default)).collect();
        assert_eq!(
            defaults,
            [
                ("self", "Tensor(a!)", None),
                ("stride", "int[2]", Some("[1, 2]")),
                ("approximate", "str", Some("\"none\"")),
            ]
        );
    }

    /// A row that cannot be lowered for want of a schema would be found only when a model has it.
    #[test]
    fn every_operator_of_the_table_has_a_schema() {
        let known: std::collections::HashSet<&str> =
            TEXT.lines().filter_map(|line| line.split(['(', '.']).next()).collect();
        let own = crate::aten::names().filter(|name| name.starts_with("aten::"));
        let missing: Vec<_> = own.filter(|name| !known.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
