//! Attributes as the text has them, and their way into and out of typed fields.
//!
//! Only the parser and the printer handle [`Attr`] values: an operation's own attributes become
//! fields of its payload through [`AttrValue`] as soon as they are read.

use std::sync::Arc;

use super::dtype::DType;
use super::literal::Literal;
use super::ty::Ty;

/// A list of named attributes, in the order of the text.
pub type Dict = Vec<(Box<str>, Attr)>;

/// A fixed list of integers in a payload.
pub type Ints = Box<[i64]>;

/// An attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    Unit,
    Bool(bool),
    Int(i128, Option<DType>),
    Float(f64, Option<DType>),
    Str(Box<str>),
    Symbol(Box<str>),
    Type(Ty),
    Function(Box<[Ty]>, Box<[Ty]>),
    Array(Vec<Attr>),
    /// `array<i64: 1, 2>`.
    DenseInts(DType, Ints),
    /// `array<f32: 1.0>`.
    DenseFloats(DType, Box<[f64]>),
    /// `dense<…> : tensor<…>`.
    Dense(Arc<Literal>),
    Dict(Dict),
    /// `#stablehlo<precision DEFAULT>` has the kind `stablehlo.precision`; a bare keyword has none.
    Enum {
        kind: Box<str>,
        word: Box<str>,
    },
    /// `#stablehlo.gather<offset_dims = [0], …>`: its kind `stablehlo.gather` and its fields.
    Struct(Box<str>, Dict),
    /// An attribute of a dialect unknown here, kept as it was written.
    Opaque(Box<str>),
}

/// Why an attribute could not become a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrError {
    /// The attribute's name.
    pub name: String,
    /// What is wrong with it, in words that continue "attribute `name` …".
    pub problem: String,
}

/// Looks an attribute up by name.
pub fn lookup<'a>(dict: &'a Dict, name: &str) -> Option<&'a Attr> {
    dict.iter().find(|(key, _)| &**key == name).map(|(_, attr)| attr)
}

/// A field type of a payload, readable from and writable as an attribute.
pub trait AttrValue: Sized {
    /// What the text must hold, for error messages: "an integer", "a list of integers".
    const EXPECTED: &'static str;
    fn from_attr(attr: &Attr) -> Option<Self>;
    fn to_attr(&self) -> Attr;
}

/// An attribute whose value is one of a few keywords.
pub trait EnumAttr: Copy + PartialEq + 'static {
    /// The attribute's dialect and mnemonic: `stablehlo.precision` of `#stablehlo<precision …>`.
    const KIND: &'static str;
    const EXPECTED: &'static str;
    const WORDS: &'static [(&'static str, Self)];

    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("?", |(word, _)| word)
    }

    fn from_word(text: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
    }
}

impl<E: EnumAttr> AttrValue for E {
    const EXPECTED: &'static str = E::EXPECTED;

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Enum { word, .. } | Attr::Str(word) => E::from_word(word),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::Enum { kind: E::KIND.into(), word: self.word().into() }
    }
}

impl AttrValue for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Bool(value) => Some(*value),
            Attr::Unit => Some(true),
            Attr::Int(value @ (0 | 1), Some(DType::I1)) => Some(*value == 1),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::Bool(*self)
    }
}

impl AttrValue for i64 {
    const EXPECTED: &'static str = "an integer";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Int(value, _) => i64::try_from(*value).ok(),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::Int(i128::from(*self), Some(DType::S64))
    }
}

impl AttrValue for i32 {
    const EXPECTED: &'static str = "a 32-bit integer";

    fn from_attr(attr: &Attr) -> Option<Self> {
        i64::from_attr(attr).and_then(|value| i32::try_from(value).ok())
    }

    fn to_attr(&self) -> Attr {
        Attr::Int(i128::from(*self), Some(DType::S32))
    }
}

/// A float attribute of type f32, such as a normalisation's epsilon.
impl AttrValue for f32 {
    const EXPECTED: &'static str = "a number";

    fn from_attr(attr: &Attr) -> Option<Self> {
        f64::from_attr(attr).map(|value| value as f32)
    }

    fn to_attr(&self) -> Attr {
        Attr::Float(f64::from(*self), Some(DType::F32))
    }
}

impl AttrValue for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Float(value, _) => Some(*value),
            Attr::Int(value, _) => Some(*value as f64),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::Float(*self, Some(DType::F64))
    }
}

impl AttrValue for Box<str> {
    const EXPECTED: &'static str = "a string";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Str(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::Str(self.clone())
    }
}

impl AttrValue for Ints {
    const EXPECTED: &'static str = "a list of integers";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::DenseInts(_, ints) => Some(ints.clone()),
            Attr::Array(items) => items.iter().map(i64::from_attr).collect(),
            Attr::Dense(literal) if literal.ty.rank() <= 1 => literal.ints().map(Into::into),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::DenseInts(DType::S64, self.clone())
    }
}

/// `array<i1: true, false>`.
impl AttrValue for Box<[bool]> {
    const EXPECTED: &'static str = "a list of booleans";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::DenseInts(DType::I1, ints) => Some(ints.iter().map(|i| *i != 0).collect()),
            Attr::Array(items) => items.iter().map(bool::from_attr).collect(),
            Attr::Dense(literal) => Some(literal.ints()?.iter().map(|i| *i != 0).collect()),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::DenseInts(DType::I1, self.iter().map(|b| i64::from(*b)).collect())
    }
}

impl AttrValue for Arc<Literal> {
    const EXPECTED: &'static str = "a constant such as dense<1.0> : tensor<2xf32>";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Dense(literal) => Some(literal.clone()),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::Dense(self.clone())
    }
}

/// Any attribute, for fields whose content is not this crate's business.
impl AttrValue for Attr {
    const EXPECTED: &'static str = "an attribute";

    fn from_attr(attr: &Attr) -> Option<Self> {
        Some(attr.clone())
    }

    fn to_attr(&self) -> Attr {
        self.clone()
    }
}

impl<T: AttrValue> AttrValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_attr(attr: &Attr) -> Option<Self> {
        T::from_attr(attr).map(Some)
    }

    /// Never asked of an absent value: the payload's writer leaves it out.
    fn to_attr(&self) -> Attr {
        self.as_ref().map_or(Attr::Unit, AttrValue::to_attr)
    }
}

impl<T: AttrValue> AttrValue for Vec<T> {
    const EXPECTED: &'static str = "a list";

    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Array(items) => items.iter().map(T::from_attr).collect(),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        Attr::Array(self.iter().map(T::to_attr).collect())
    }
}
