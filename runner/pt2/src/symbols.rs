//! Sizes that were left open at export: symbols, expressions of them, and the values given to
//! them when a model is loaded.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::{Error, Result};

/// A size: a number, or an expression of symbols.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Known(i64),
    Symbol(Box<str>),
    Add(Vec<Expr>),
    Mul(Vec<Expr>),
    FloorDiv(Box<(Expr, Expr)>),
    Mod(Box<(Expr, Expr)>),
    /// A form that is not evaluated here; later sizes follow from the inputs' anyway.
    Other(Box<str>),
}

impl Expr {
    pub fn known(&self) -> Option<i64> {
        match self {
            Expr::Known(value) => Some(*value),
            _ => None,
        }
    }

    /// The expression with these symbols replaced.
    pub fn bind(&self, values: &BTreeMap<Box<str>, i64>) -> Expr {
        let all = |parts: &[Expr]| parts.iter().map(|part| part.bind(values)).collect::<Vec<_>>();
        let known = |parts: &[Expr]| parts.iter().map(Expr::known).collect::<Option<Vec<_>>>();
        match self {
            Expr::Symbol(name) => {
                values.get(name).map_or_else(|| self.clone(), |v| Expr::Known(*v))
            }
            Expr::Add(parts) => {
                let parts = all(parts);
                let sum = known(&parts)
                    .and_then(|all| all.iter().try_fold(0i64, |sum, n| sum.checked_add(*n)));
                sum.map_or(Expr::Add(parts), Expr::Known)
            }
            Expr::Mul(parts) => {
                let parts = all(parts);
                let product = known(&parts).and_then(|all| {
                    all.iter().try_fold(1i64, |product, n| product.checked_mul(*n))
                });
                product.map_or(Expr::Mul(parts), Expr::Known)
            }
            Expr::FloorDiv(pair) => {
                let pair = (pair.0.bind(values), pair.1.bind(values));
                match (pair.0.known(), pair.1.known()) {
                    (Some(a), Some(b)) if b > 0 => Expr::Known(a.div_euclid(b)),
                    _ => Expr::FloorDiv(Box::new(pair)),
                }
            }
            Expr::Mod(pair) => {
                let pair = (pair.0.bind(values), pair.1.bind(values));
                match (pair.0.known(), pair.1.known()) {
                    (Some(a), Some(b)) if b > 0 => Expr::Known(a.rem_euclid(b)),
                    _ => Expr::Mod(Box::new(pair)),
                }
            }
            other => other.clone(),
        }
    }

    pub(crate) fn symbols<'e>(&'e self, f: &mut dyn FnMut(&'e str)) {
        match self {
            Expr::Symbol(name) => f(name),
            Expr::Add(parts) | Expr::Mul(parts) => parts.iter().for_each(|part| part.symbols(f)),
            Expr::FloorDiv(pair) | Expr::Mod(pair) => {
                pair.0.symbols(f);
                pair.1.symbols(f);
            }
            _ => {}
        }
    }

    /// Reads sympy's constructor notation, as in `Mul(Integer(2), Symbol('s0', integer=True))`.
    pub(crate) fn parse(text: &str) -> Expr {
        let mut rest = text;
        match expr(&mut rest, 0) {
            Some(expr) if rest.trim().is_empty() => expr,
            _ => Expr::Other(text.into()),
        }
    }
}

/// Deeper expressions do not occur; a hostile file shall not overflow the stack.
const DEEPEST: usize = 64;

fn expr(rest: &mut &str, depth: usize) -> Option<Expr> {
    if depth > DEEPEST {
        return None;
    }
    let open = rest.find('(')?;
    let head = rest[..open].trim();
    *rest = &rest[open + 1..];
    match head {
        "Integer" => {
            let close = rest.find(')')?;
            let value = rest[..close].trim().parse().ok()?;
            *rest = &rest[close + 1..];
            Some(Expr::Known(value))
        }
        "Symbol" => {
            let close = rest.find(')')?;
            let name = rest[..close].split(',').next()?.trim().trim_matches(['\'', '"']);
            let name = name.into();
            *rest = &rest[close + 1..];
            Some(Expr::Symbol(name))
        }
        _ => {
            let mut parts = vec![expr(rest, depth + 1)?];
            loop {
                *rest = rest.trim_start();
                if let Some(after) = rest.strip_prefix(')') {
                    *rest = after;
                    break;
                }
                *rest = rest.strip_prefix(',')?;
                parts.push(expr(rest, depth + 1)?);
            }
            match (head.rsplit('.').next()?, parts.len()) {
                ("Add", _) => Some(Expr::Add(parts)),
                ("Mul", _) => Some(Expr::Mul(parts)),
                ("FloorDiv", 2) => {
                    let b = parts.pop()?;
                    Some(Expr::FloorDiv(Box::new((parts.pop()?, b))))
                }
                ("Mod" | "PythonMod", 2) => {
                    let b = parts.pop()?;
                    Some(Expr::Mod(Box::new((parts.pop()?, b))))
                }
                _ => None,
            }
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |parts: &[Expr], sign: &str| {
            parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(sign)
        };
        match self {
            Expr::Known(value) => value.fmt(f),
            Expr::Symbol(name) | Expr::Other(name) => f.write_str(name),
            Expr::Add(parts) => write!(f, "({})", join(parts, "+")),
            Expr::Mul(parts) => f.write_str(&join(parts, "*")),
            Expr::FloorDiv(pair) => write!(f, "{}//{}", pair.0, pair.1),
            Expr::Mod(pair) => write!(f, "{}%{}", pair.0, pair.1),
        }
    }
}

/// A size that was left open at export.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    pub name: Box<str>,
    pub min: Option<i64>,
    pub max: Option<i64>,
    /// What it was when the model was exported.
    pub example: Option<i64>,
    /// The inputs and axes that have this size.
    pub places: Vec<(Box<str>, usize)>,
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let places: Vec<String> =
            self.places.iter().map(|(input, axis)| format!("{input}.{axis}")).collect();
        if !places.is_empty() {
            write!(f, " ({})", places.join(", "))?;
        }
        match (self.min, self.max) {
            (Some(min), Some(max)) => write!(f, " from {min} to {max}")?,
            (Some(min), None) => write!(f, " at least {min}")?,
            (None, Some(max)) => write!(f, " at most {max}")?,
            (None, None) => {}
        }
        match self.example {
            Some(example) => write!(f, ", exported with {example}"),
            None => Ok(()),
        }
    }
}

/// `NAME=SIZE` as it is typed; the name is a symbol's, or an input's and an axis: `x.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimSpec {
    pub name: String,
    pub size: i64,
}

impl std::str::FromStr for DimSpec {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(name, size)| {
            let size = size.trim().parse().ok().filter(|size| *size >= 0)?;
            Some(Self { name: name.trim().to_owned(), size })
        });
        parsed.ok_or_else(|| format!("{text:?} is not of the form NAME=SIZE, such as batch=8"))
    }
}

/// Gives every symbol its value, or says which lack one.
pub(crate) fn assign(symbols: &[Symbol], specs: &[DimSpec]) -> Result<BTreeMap<Box<str>, i64>> {
    let mut values = BTreeMap::new();
    for spec in specs {
        let symbol = find(symbols, &spec.name)?;
        if symbol.min.is_some_and(|min| spec.size < min)
            || symbol.max.is_some_and(|max| spec.size > max)
        {
            return Err(Error::Dims(format!("the size {} is not allowed for {symbol}", spec.size)));
        }
        if let Some(other) = values.insert(symbol.name.clone(), spec.size)
            && other != spec.size
        {
            let message =
                format!("the sizes {other} and {} are both given for {symbol}", spec.size);
            return Err(Error::Dims(message));
        }
    }
    Ok(values)
}

fn find<'s>(symbols: &'s [Symbol], name: &str) -> Result<&'s Symbol> {
    let is_place = |symbol: &&Symbol| {
        symbol.places.iter().any(|(input, axis)| format!("{input}.{axis}") == name)
    };
    let by_name = symbols.iter().find(|symbol| &*symbol.name == name);
    // Export forgets what a `Dim` was called; with one open size, any name can only mean that one.
    let only = || symbols.first().filter(|_| symbols.len() == 1);
    by_name.or_else(|| symbols.iter().find(is_place)).or_else(only).ok_or_else(|| {
        let known: Vec<String> = symbols.iter().map(ToString::to_string).collect();
        let known = if known.is_empty() { "no size".into() } else { known.join("; ") };
        Error::Dims(format!("{name} is no open size of this model; it leaves open: {known}"))
    })
}

/// Refuses a model whose sizes are not all known.
pub(crate) fn unassigned(symbols: &[Symbol], values: &BTreeMap<Box<str>, i64>) -> Result<()> {
    let open: Vec<&Symbol> =
        symbols.iter().filter(|symbol| !values.contains_key(&symbol.name)).collect();
    let Some(first) = open.first() else { return Ok(()) };
    let list: Vec<String> = open.iter().map(ToString::to_string).collect();
    let name = first
        .places
        .first()
        .map_or_else(|| first.name.to_string(), |(input, axis)| format!("{input}.{axis}"));
    let example = first.example.or(first.min).unwrap_or(1);
    Err(Error::Dims(format!(
        "the model leaves sizes open: {}; give each one, as in --dim {name}={example}",
        list.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sympy_notation_is_read_and_evaluated() {
        let text = "Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(-1))";
        let expr = Expr::parse(text);
        assert_eq!(expr.to_string(), "(2*s77+-1)");
        assert_eq!(expr.bind(&BTreeMap::from([("s77".into(), 5)])), Expr::Known(9));
        let floor = Expr::parse("FloorDiv(Symbol('s0'), Integer(4))");
        assert_eq!(floor.bind(&BTreeMap::from([("s0".into(), 11)])), Expr::Known(2));
    }

    #[test]
    fn what_is_not_understood_is_kept_as_text() {
        for text in ["", "Foo(", "Max(Symbol('a'), Symbol('b'))", &"Add(".repeat(100_000)] {
            assert!(matches!(Expr::parse(text), Expr::Other(_)));
        }
    }
}
