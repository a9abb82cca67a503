//! libtorch as the rest of this crate sees it: values, tensors, any operator by its name, and
//! the state around the calls. All `unsafe` of the crate is in [`ffi`].

mod ffi;
mod ops;
#[cfg(test)]
mod tests;

pub use ffi::{Alias, Autocast, Context, GradMode, Group, Layout, Mapping, Op, Store, Tensor};
pub use ops::Library;
pub use warpforge_pt2::ScalarType;

/// What libtorch says went wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

/// Anything an operator takes or gives.
#[derive(Clone, Debug)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
    Str(String),
    /// `cpu`, `cuda:0`.
    Device(String),
    Tensor(Tensor),
    /// Lists and tuples alike.
    List(Vec<Value>),
}

impl Value {
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    pub fn float(&self) -> Option<f64> {
        match *self {
            Self::Float(value) => Some(value),
            Self::Int(value) => Some(value as f64),
            Self::Bool(value) => Some(f64::from(value)),
            _ => None,
        }
    }

    pub fn int(&self) -> Option<i64> {
        match *self {
            Self::Int(value) => Some(value),
            Self::Bool(value) => Some(i64::from(value)),
            _ => None,
        }
    }

    pub fn bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            Self::Int(value) => Some(value != 0),
            _ => None,
        }
    }

    /// A word for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "an int",
            Self::Float(_) => "a float",
            Self::Complex(..) => "a complex number",
            Self::Str(_) => "a string",
            Self::Device(_) => "a device",
            Self::Tensor(_) => "a tensor",
            Self::List(_) => "a list",
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<&Tensor> for Value {
    fn from(tensor: &Tensor) -> Self {
        Self::Tensor(tensor.clone())
    }
}

impl From<&[Tensor]> for Value {
    fn from(tensors: &[Tensor]) -> Self {
        Self::List(tensors.iter().map(Self::from).collect())
    }
}

impl From<&Vec<Tensor>> for Value {
    fn from(tensors: &Vec<Tensor>) -> Self {
        Self::from(&tensors[..])
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<ScalarType> for Value {
    fn from(dtype: ScalarType) -> Self {
        Self::Int(dtype.c10())
    }
}

impl From<&[i64]> for Value {
    fn from(values: &[i64]) -> Self {
        Self::List(values.iter().map(|value| Self::Int(*value)).collect())
    }
}
