//! Payloads: an operation's attributes as typed fields, read and written by one macro.

use crate::ir::{AttrError, AttrValue, Dict, lookup};

/// A struct of attributes.
pub trait Payload: Sized + Clone + PartialEq + std::fmt::Debug {
    /// The attributes' names in the text.
    const FIELDS: &'static [&'static str];
    fn read(attrs: &Dict) -> Result<Self, AttrError>;
    /// The attributes that differ from their defaults.
    fn write(&self) -> Dict;
}

/// Reads a required attribute.
pub(crate) fn required<T: AttrValue>(attrs: &Dict, name: &str) -> Result<T, AttrError> {
    let problem = |problem: String| AttrError { name: name.into(), problem };
    match lookup(attrs, name) {
        None => Err(problem(format!("is missing: it must be {}", T::EXPECTED))),
        Some(attr) => T::from_attr(attr).ok_or_else(|| problem(format!("must be {}", T::EXPECTED))),
    }
}

/// Reads an attribute that may be absent.
pub(crate) fn optional<T: AttrValue>(attrs: &Dict, name: &str, default: T) -> Result<T, AttrError> {
    if lookup(attrs, name).is_none() { Ok(default) } else { required(attrs, name) }
}

/// Declares a payload struct. A field with `= default` may be absent from the text and is left
/// out of it when it has that value; the field's name is the attribute's.
macro_rules! payload {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident : $ty:ty $(= $default:expr)?),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::struct_field_names, reason = "fields have the attributes' names")]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl $crate::ops::Payload for $name {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

            #[allow(unused_variables, reason = "a payload without fields reads nothing")]
            fn read(attrs: &$crate::ir::Dict) -> Result<Self, $crate::ir::AttrError> {
                Ok(Self { $($field: payload!(@read attrs, stringify!($field), $ty $(, $default)?),)* })
            }

            #[allow(clippy::vec_init_then_push, reason = "fields come one by one")]
            fn write(&self) -> $crate::ir::Dict {
                #[allow(unused_mut, reason = "a payload without fields writes nothing")]
                let mut dict = $crate::ir::Dict::new();
                $(payload!(@write dict, self.$field, stringify!($field), $ty $(, $default)?);)*
                dict
            }
        }
    };
    (@read $attrs:ident, $name:expr, $ty:ty) => {
        $crate::ops::payload::required::<$ty>($attrs, $name)?
    };
    (@read $attrs:ident, $name:expr, $ty:ty, $default:expr) => {
        $crate::ops::payload::optional::<$ty>($attrs, $name, $default)?
    };
    (@write $dict:ident, $value:expr, $name:expr, $ty:ty) => {
        $dict.push(($name.into(), $crate::ir::AttrValue::to_attr(&$value)))
    };
    (@write $dict:ident, $value:expr, $name:expr, $ty:ty, $default:expr) => {
        let default: $ty = $default;
        if $value != default {
            $dict.push(($name.into(), $crate::ir::AttrValue::to_attr(&$value)));
        }
    };
}

/// Declares an enumeration attribute: its dialect and mnemonic, its words.
macro_rules! enum_attr {
    ($(#[$meta:meta])* $name:ident ($kind:literal, $expected:literal) { $($variant:ident = $word:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($variant),* }

        impl $crate::ir::EnumAttr for $name {
            const KIND: &'static str = $kind;
            const EXPECTED: &'static str = $expected;
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, $name::$variant)),*];
        }
    };
}

/// Declares a struct attribute such as `#stablehlo.gather<…>`: fields as in `payload!`.
macro_rules! struct_attr {
    ($(#[$meta:meta])* $name:ident ($kind:literal, $expected:literal) { $($body:tt)* }) => {
        payload! { $(#[$meta])* $name { $($body)* } }

        impl $crate::ir::AttrValue for $name {
            const EXPECTED: &'static str = $expected;

            fn from_attr(attr: &$crate::ir::Attr) -> Option<Self> {
                match attr {
                    $crate::ir::Attr::Struct(kind, dict) if &**kind == $kind => {
                        <Self as $crate::ops::Payload>::read(dict).ok()
                    }
                    _ => None,
                }
            }

            fn to_attr(&self) -> $crate::ir::Attr {
                $crate::ir::Attr::Struct($kind.into(), $crate::ops::Payload::write(self))
            }
        }
    };
}

/// The derivative's column: a rule, `Zero`, or `Missing` with the reason.
macro_rules! derivative {
    ($derivative:expr) => {
        fn derivative(&self) -> $crate::derive::Derivative<Self> {
            #[allow(unused_imports, reason = "each operation is one of these")]
            use $crate::derive::Derivative::{Missing, Rule, Zero};
            $derivative
        }
    };
}

/// The columns of an operation that is not elementwise: its fusion class, its tolerance and its
/// derivative.
macro_rules! columns {
    ($fusion:ident, $tolerance:ident, $derivative:expr) => {
        fn lane(
            &self,
            _: &[$crate::ir::DType],
            _: $crate::ir::DType,
        ) -> Option<$crate::eval::LaneFn> {
            None
        }

        fn fusion(&self) -> $crate::ops::Fusion {
            $crate::ops::Fusion::$fusion
        }

        fn tolerance(&self) -> $crate::ops::Tolerance {
            $crate::ops::Tolerance::$tolerance
        }

        derivative!($derivative);
    };
}
