//! Types of values, and the table that stores each of them once.

use std::fmt;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::dtype::{DType, Elem};

/// Dimension sizes; almost all tensors have at most six.
pub type Dims = SmallVec<[i64; 6]>;

/// The size of a dimension that is not known statically.
pub const DYNAMIC: i64 = i64::MIN;

/// A ranked tensor type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorTy {
    pub dims: Dims,
    pub elem: Elem,
    /// Upper bounds of dynamic dimensions (`#stablehlo.bounds`), `DYNAMIC` where there is none.
    pub bounds: Option<Box<[i64]>>,
}

impl TensorTy {
    pub fn new(dims: impl IntoIterator<Item = i64>, elem: impl Into<Elem>) -> Self {
        Self { dims: dims.into_iter().collect(), elem: elem.into(), bounds: None }
    }

    pub fn scalar(elem: impl Into<Elem>) -> Self {
        Self::new([], elem)
    }

    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    pub fn is_static(&self) -> bool {
        self.dims.iter().all(|d| *d != DYNAMIC)
    }

    /// Number of elements, if every dimension is known and the product fits.
    pub fn count(&self) -> Option<usize> {
        let mut count = 1usize;
        for dim in &self.dims {
            count = count.checked_mul(usize::try_from(*dim).ok()?)?;
        }
        Some(count)
    }

    /// The same type with other dimensions.
    pub fn with_dims(&self, dims: impl IntoIterator<Item = i64>) -> Self {
        Self::new(dims, self.elem.clone())
    }

    /// The same shape with another element type.
    pub fn with_elem(&self, elem: impl Into<Elem>) -> Self {
        Self { dims: self.dims.clone(), elem: elem.into(), bounds: self.bounds.clone() }
    }

    /// The element type where it is not quantized.
    pub fn dtype(&self) -> Option<DType> {
        self.elem.plain()
    }
}

impl fmt::Display for TensorTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for dim in &self.dims {
            if *dim == DYNAMIC { f.write_str("?x")? } else { write!(f, "{dim}x")? }
        }
        write!(f, "{}", self.elem)?;
        if let Some(bounds) = &self.bounds {
            let show = |b: &i64| if *b == DYNAMIC { "?".into() } else { b.to_string() };
            let bounds: Vec<String> = bounds.iter().map(show).collect();
            write!(f, ", #stablehlo.bounds<{}>", bounds.join(", "))?;
        }
        f.write_str(">")
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    Tensor(TensorTy),
    Token,
    Tuple(Box<[Ty]>),
    /// The result of an asynchronous operation that becomes available later.
    Future(Box<[Ty]>),
    /// `memref<…>`: only custom calls read and write what is inside.
    Buffer(TensorTy),
}

impl Ty {
    pub fn tensor(dims: impl IntoIterator<Item = i64>, elem: impl Into<Elem>) -> Self {
        Ty::Tensor(TensorTy::new(dims, elem))
    }

    pub fn as_tensor(&self) -> Option<&TensorTy> {
        match self {
            Ty::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Whether a value of this type can stand where `other` is declared: equal, but for
    /// dimensions one of the two does not know.
    pub fn compatible(&self, other: &Ty) -> bool {
        match (self, other) {
            (Ty::Tensor(a), Ty::Tensor(b)) => a.elem == b.elem && dims_compatible(&a.dims, &b.dims),
            (Ty::Tuple(a), Ty::Tuple(b)) | (Ty::Future(a), Ty::Future(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.compatible(b))
            }
            _ => self == other,
        }
    }
}

/// Whether two shapes can be the same one at run time.
pub fn dims_compatible(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| dim_compatible(*a, *b))
}

/// Whether two dimension sizes can be the same one at run time.
pub fn dim_compatible(a: i64, b: i64) -> bool {
    a == b || a == DYNAMIC || b == DYNAMIC
}

impl From<TensorTy> for Ty {
    fn from(tensor: TensorTy) -> Self {
        Ty::Tensor(tensor)
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |types: &[Ty]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Ty::Tensor(tensor) => tensor.fmt(f),
            Ty::Token => f.write_str("!stablehlo.token"),
            Ty::Tuple(types) => write!(f, "tuple<{}>", list(types)),
            Ty::Future(types) => write!(f, "!stablehlo.future<{}>", list(types)),
            Ty::Buffer(tensor) => write!(f, "memref{}", &tensor.to_string()["tensor".len()..]),
        }
    }
}

/// A type's place in its module's [`TypeTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// Every distinct type of a module, stored once: a value then costs four bytes for its type.
#[derive(Clone, Debug, Default)]
pub struct TypeTable {
    types: Vec<Ty>,
    ids: FxHashMap<Ty, TypeId>,
}

impl TypeTable {
    pub fn intern(&mut self, ty: Ty) -> TypeId {
        if let Some(id) = self.ids.get(&ty) {
            return *id;
        }
        let id = TypeId(u32::try_from(self.types.len()).expect("fewer than 2^32 types"));
        self.types.push(ty.clone());
        self.ids.insert(ty, id);
        id
    }

    pub fn get(&self, id: TypeId) -> &Ty {
        &self.types[id.0 as usize]
    }
}
