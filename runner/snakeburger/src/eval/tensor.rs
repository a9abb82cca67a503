//! Values at run time: tensors and what else a program can hold.

use std::borrow::Cow;

use num_complex::{Complex32, Complex64};
use rayon::prelude::*;

use super::strided;
use crate::ir::{Buffer, DType, Dims, Kind, Literal, TensorTy, Ty, dims_compatible};
use crate::num::format;

/// One element: the four domains the interpreter computes in. An unsigned integer keeps its bits;
/// a narrow one is sign- or zero-extended as its type says. Floats of every format are held as
/// f64, which represents all of them exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Num {
    B(bool),
    I(i64),
    F(f64),
    C(Complex64),
}

impl Num {
    pub fn bool(self) -> bool {
        match self {
            Num::B(value) => value,
            Num::I(value) => value != 0,
            Num::F(value) => value != 0.0,
            Num::C(value) => value.re != 0.0 || value.im != 0.0,
        }
    }

    /// The value as an integer; a float is truncated.
    pub fn int(self) -> i64 {
        match self {
            Num::B(value) => i64::from(value),
            Num::I(value) => value,
            Num::F(value) => value as i64,
            Num::C(value) => value.re as i64,
        }
    }

    /// The value as a float; a complex number gives its real part.
    pub fn float(self) -> f64 {
        match self {
            Num::B(value) => f64::from(u8::from(value)),
            Num::I(value) => value as f64,
            Num::F(value) => value,
            Num::C(value) => value.re,
        }
    }

    pub fn complex(self) -> Complex64 {
        match self {
            Num::C(value) => value,
            other => Complex64::new(other.float(), 0.0),
        }
    }

    /// The value as elements of `dtype` hold it: rounded or wrapped to the type's width.
    pub fn fit(self, dtype: DType) -> Num {
        match dtype.kind() {
            Kind::Bool => Num::B(self.bool()),
            Kind::Signed | Kind::Unsigned => Num::I(wrap(dtype, self.int())),
            Kind::Float => Num::F(format::round_to(dtype, self.float())),
            Kind::Complex => {
                let part = |x| format::round_to(dtype.part(), x);
                let value = self.complex();
                Num::C(Complex64::new(part(value.re), part(value.im)))
            }
        }
    }
}

impl std::fmt::Display for Num {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Num::B(value) => write!(f, "{value}"),
            Num::I(value) => write!(f, "{value}"),
            Num::F(value) => write!(f, "{value:?}"),
            Num::C(value) => write!(f, "({:?}, {:?})", value.re, value.im),
        }
    }
}

/// Keeps an integer's low bits and extends them as the type's signedness says.
pub fn wrap(dtype: DType, value: i64) -> i64 {
    let unused = 64 - dtype.bits();
    if dtype.is_signed() {
        value << unused >> unused
    } else {
        ((value as u64) << unused >> unused) as i64
    }
}

/// A tensor value; its type is static, whatever the program declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub ty: TensorTy,
    pub data: Buffer,
}

/// A value at run time.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Tensor(Tensor),
    Token,
    Tuple(Vec<Value>),
    /// A finished asynchronous computation: the interpreter runs them at once.
    Future(Vec<Value>),
}

impl Value {
    pub fn ty(&self) -> Ty {
        match self {
            Value::Tensor(tensor) => Ty::Tensor(tensor.ty.clone()),
            Value::Token => Ty::Token,
            Value::Tuple(items) => Ty::Tuple(items.iter().map(Value::ty).collect()),
            Value::Future(items) => Ty::Future(items.iter().map(Value::ty).collect()),
        }
    }

    /// Whether the value can stand where `ty` is declared.
    pub(crate) fn is_a(&self, ty: &Ty) -> bool {
        match (self, ty) {
            (Value::Tensor(tensor), Ty::Tensor(ty)) => {
                tensor.ty.elem == ty.elem && dims_compatible(&tensor.ty.dims, &ty.dims)
            }
            (Value::Token, Ty::Token) => true,
            (Value::Tuple(items), Ty::Tuple(types)) | (Value::Future(items), Ty::Future(types)) => {
                items.len() == types.len()
                    && items.iter().zip(types).all(|(item, ty)| item.is_a(ty))
            }
            _ => self.ty().compatible(ty),
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Value::Tensor(tensor)
    }
}

/// How many elements one task of a parallel loop takes.
const CHUNK: usize = 2048;
/// The same for loops over [`Num`], which is three times as large as a float.
const NUMS: usize = CHUNK / 4;
/// Tensors of at most this many elements are filled without a parallel loop.
const SMALL: usize = 16;

/// Runs `$body` with `$t` standing for the Rust type that stores elements of `$dtype`.
macro_rules! by_storage {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use $crate::ir::DType as D;
        match $dtype {
            D::S2 | D::S4 | D::S8 => {
                type $t = i8;
                $body
            }
            D::S16 => {
                type $t = i16;
                $body
            }
            D::S32 => {
                type $t = i32;
                $body
            }
            D::S64 | D::Index => {
                type $t = i64;
                $body
            }
            D::U16 => {
                type $t = u16;
                $body
            }
            D::U32 => {
                type $t = u32;
                $body
            }
            D::U64 => {
                type $t = u64;
                $body
            }
            _ => {
                type $t = u8;
                $body
            }
        }
    }};
}

pub(crate) use by_storage;

impl Tensor {
    /// A tensor of zeros of a static type.
    pub fn zeros(ty: TensorTy) -> Self {
        let bytes = ty.count().unwrap_or(0) * ty.elem.storage().bytes();
        Self { ty, data: Buffer::zeroed(bytes) }
    }

    pub fn from_literal(literal: &Literal) -> Self {
        if !literal.splat {
            return Self { ty: literal.ty.clone(), data: literal.data.clone() };
        }
        let (ty, element) = (literal.ty.clone(), literal.data.bytes());
        let bytes = ty.count().unwrap_or(0) * ty.elem.storage().bytes();
        Self { ty, data: Buffer::repeated(element, bytes) }
    }

    /// A rank-0 tensor.
    pub fn scalar(dtype: DType, value: Num) -> Self {
        let mut tensor = Self::zeros(TensorTy::scalar(dtype));
        tensor.set(0, value);
        tensor
    }

    /// A tensor whose element `i` in row-major order is `f(i)`, made in parallel.
    pub fn from_nums(ty: TensorTy, f: impl Fn(usize) -> Num + Sync) -> Self {
        if ty.elem.storage().is_float() {
            return Self::from_floats(ty, |i| f(i).float());
        }
        Self::from_num_blocks(ty, &by_block(f))
    }

    fn from_num_blocks(ty: TensorTy, f: Blocks<'_, Num>) -> Self {
        let mut tensor = Self::zeros(ty);
        let dtype = tensor.storage();
        let size = dtype.bytes();
        let run = |start: usize, values: &mut [Num], out: &mut [u8]| {
            f(start, values);
            for (out, value) in out.chunks_exact_mut(size).zip(values) {
                store(dtype, out, *value);
            }
        };
        let count = tensor.count();
        let out = tensor.data.bytes_mut();
        if count <= SMALL {
            run(0, &mut [Num::B(false); SMALL][..count], out);
            return tensor;
        }
        out.par_chunks_mut(size * NUMS).enumerate().for_each(|(block, out)| {
            run(block * NUMS, &mut [Num::B(false); NUMS][..out.len() / size], out);
        });
        tensor
    }

    /// As [`Tensor::from_nums`], for float types; values are rounded to the type.
    pub fn from_floats(ty: TensorTy, f: impl Fn(usize) -> f64 + Sync) -> Self {
        Self::from_float_blocks(ty, &by_block(f))
    }

    fn from_float_blocks(ty: TensorTy, f: Blocks<'_, f64>) -> Self {
        let mut tensor = Self::zeros(ty);
        match tensor.storage() {
            DType::F64 => fill(tensor.data.as_mut_slice::<f64>(), f, |x| x),
            DType::F32 => fill(tensor.data.as_mut_slice::<f32>(), f, |x| x as f32),
            dtype => match dtype.bytes() {
                1 => fill(tensor.data.as_mut_slice::<u8>(), f, |x| format::encode(dtype, x) as u8),
                2 => {
                    fill(tensor.data.as_mut_slice::<u16>(), f, |x| format::encode(dtype, x) as u16)
                }
                _ => fill(tensor.data.as_mut_slice::<u32>(), f, |x| format::encode(dtype, x)),
            },
        }
        tensor
    }

    /// As [`Tensor::from_nums`], for integer types; values are wrapped to the type.
    pub fn from_ints(ty: TensorTy, f: impl Fn(usize) -> i64 + Sync) -> Self {
        Self::from_int_blocks(ty, &by_block(f))
    }

    #[allow(clippy::unnecessary_cast, reason = "one of the storage types is i64 itself")]
    fn from_int_blocks(ty: TensorTy, f: Blocks<'_, i64>) -> Self {
        let mut tensor = Self::zeros(ty);
        let dtype = tensor.storage();
        by_storage!(dtype, T => {
            let narrow = dtype.bits() < 8;
            let out: &mut [T] = tensor.data.as_mut_slice();
            fill(out, f, |x| if narrow { wrap(dtype, x) as T } else { x as T });
        });
        tensor
    }

    pub fn dims(&self) -> &[i64] {
        &self.ty.dims
    }

    pub fn rank(&self) -> usize {
        self.ty.rank()
    }

    pub fn count(&self) -> usize {
        self.data.len() / self.storage().bytes()
    }

    /// The type elements are stored in.
    pub fn storage(&self) -> DType {
        self.ty.elem.storage()
    }

    pub fn get(&self, i: usize) -> Num {
        let size = self.storage().bytes();
        load(self.storage(), &self.data.bytes()[i * size..(i + 1) * size])
    }

    pub fn set(&mut self, i: usize, value: Num) {
        let dtype = self.storage();
        let size = dtype.bytes();
        store(dtype, &mut self.data.bytes_mut()[i * size..(i + 1) * size], value);
    }

    /// All elements of a float tensor as f64.
    pub fn floats(&self) -> Cow<'_, [f64]> {
        let dtype = self.storage();
        match dtype {
            DType::F64 => Cow::Borrowed(self.data.as_slice()),
            DType::F32 => {
                let narrow = self.data.as_slice::<f32>();
                let wide = |x: &f32| f64::from(*x);
                Cow::Owned(match narrow.len() {
                    0..=CHUNK => narrow.iter().map(wide).collect(),
                    _ => narrow.par_iter().with_min_len(CHUNK).map(wide).collect(),
                })
            }
            _ => Cow::Owned(
                (0..self.count())
                    .into_par_iter()
                    .with_min_len(CHUNK)
                    .map(|i| self.get(i).float())
                    .collect(),
            ),
        }
    }

    /// All elements of an integer or boolean tensor, extended to 64 bits.
    #[allow(clippy::unnecessary_cast, reason = "one of the storage types is i64 itself")]
    pub fn ints(&self) -> Cow<'_, [i64]> {
        let dtype = self.storage();
        if dtype.bytes() == 8 && dtype.is_int() {
            return Cow::Borrowed(self.data.as_slice());
        }
        by_storage!(dtype, T => {
            Cow::Owned(self.data.as_slice::<T>().iter().map(|x| *x as i64).collect())
        })
    }

    pub fn complexes(&self) -> Vec<Complex64> {
        (0..self.count()).map(|i| self.get(i).complex()).collect()
    }

    /// The elements as what they stand for: `(stored - zero_point) * scale` if quantized.
    pub fn real_values(&self) -> Cow<'_, [f64]> {
        let Some(quant) = self.ty.elem.quant() else {
            return match self.storage().kind() {
                Kind::Float => self.floats(),
                _ => Cow::Owned((0..self.count()).map(|i| self.get(i).float()).collect()),
            };
        };
        let stored = self.ints();
        let value = |(i, stored): (usize, &i64)| {
            let (scale, zero) = quant.at(self.quant_index(i));
            let scale = format::round_to(quant.expressed, scale);
            format::round_to(quant.expressed, (stored - zero) as f64 * scale)
        };
        Cow::Owned(stored.iter().enumerate().map(value).collect())
    }

    /// The place of element `i` along the quantized dimension.
    fn quant_index(&self, i: usize) -> usize {
        quant_index(&self.ty, i)
    }

    /// A quantized tensor from the values it shall stand for, each step rounded to the expressed
    /// type as the specification's `quantize` has it; a plain float tensor from the values.
    pub fn quantize(ty: TensorTy, f: impl Fn(usize) -> f64 + Sync) -> Self {
        let Some(quant) = ty.elem.quant().cloned() else {
            return Self::from_floats(ty, f);
        };
        let shape = ty.clone();
        let round = |x: f64| format::round_to(quant.expressed, x);
        let (low, high) = (round(quant.storage_min as f64), round(quant.storage_max as f64));
        Self::from_ints(ty, |i| {
            let (scale, zero) = quant.at(quant_index(&shape, i));
            let scaled = round(round(f(i)) / round(scale));
            let shifted = round(scaled + round(zero as f64));
            // A NaN is no number to clamp; converted to an integer it is zero.
            let clamped = match shifted {
                x if x < low => low,
                x if x > high => high,
                x => x,
            };
            let stored = clamped.round_ties_even();
            (stored as i64).max(quant.storage_min).min(quant.storage_max)
        })
    }

    /// The same elements under another shape of the same size.
    pub fn with_dims(mut self, dims: impl IntoIterator<Item = i64>) -> Self {
        self.ty.dims = dims.into_iter().collect();
        self.ty.bounds = None;
        self
    }

    /// The same elements as those of another type that stores them alike.
    pub(crate) fn with_ty(mut self, ty: TensorTy) -> Self {
        self.ty = ty;
        self
    }

    /// Moves elements: element `i` of the result is the source's element `from(i)`, or the
    /// padding's only element where `from` gives none.
    pub fn gather_elements(
        &self,
        dims: impl IntoIterator<Item = i64>,
        padding: Option<&Tensor>,
        from: impl Fn(usize) -> Option<usize> + Sync,
    ) -> Tensor {
        let out = Tensor::zeros(self.ty.with_dims(dims));
        self.gather_blocks(out, padding, &by_block(|i| from(i).unwrap_or(usize::MAX)))
    }

    /// Moves elements by steps: each dimension of the result is a size and the step it makes here.
    pub(crate) fn strided(&self, ty: TensorTy, moves: &[strided::Move]) -> Tensor {
        macro_rules! width {
            ($out:ident, $t:ty) => {
                strided::copy(self.data.as_slice::<$t>(), $out.data.as_mut_slice::<$t>(), moves)
            };
        }
        let mut out = Tensor::zeros(ty);
        match self.storage().bytes() {
            _ if out.data.is_empty() => {}
            1 => width!(out, u8),
            2 => width!(out, u16),
            4 => width!(out, u32),
            8 => width!(out, u64),
            _ => width!(out, [u64; 2]),
        }
        out
    }

    fn gather_blocks(
        &self,
        mut out: Tensor,
        padding: Option<&Tensor>,
        from: Blocks<'_, usize>,
    ) -> Tensor {
        macro_rules! width {
            ($t:ty) => {{
                let source: &[$t] = self.data.as_slice();
                let pad = padding.map(|p| p.data.as_slice::<$t>()[0]);
                let pad = pad.unwrap_or(bytemuck::Zeroable::zeroed());
                fill(out.data.as_mut_slice::<$t>(), from, |j| *source.get(j).unwrap_or(&pad));
            }};
        }
        match self.storage().bytes() {
            1 => width!(u8),
            2 => width!(u16),
            4 => width!(u32),
            8 => width!(u64),
            _ => width!([u64; 2]),
        }
        out
    }
}

fn quant_index(ty: &TensorTy, i: usize) -> usize {
    let Some(axis) = ty.elem.quant().and_then(|quant| quant.axis) else { return 0 };
    let inner = strides(&ty.dims)[axis as usize];
    i / inner.max(1) % (ty.dims[axis as usize].max(1) as usize)
}

/// Makes the values of a block of elements, given the index of the first.
///
/// The loops over blocks are compiled once per storage type and call back through this, instead
/// of once more for every operation.
type Blocks<'a, V> = &'a (dyn Fn(usize, &mut [V]) + Sync);

fn by_block<V>(f: impl Fn(usize) -> V + Sync) -> impl Fn(usize, &mut [V]) + Sync {
    move |start, out| out.iter_mut().enumerate().for_each(|(j, out)| *out = f(start + j))
}

/// Fills a slice in parallel, block by block, from values that are then stored as `T`.
fn fill<T: Send, V: Copy + Default>(
    out: &mut [T],
    values: Blocks<'_, V>,
    store: impl Fn(V) -> T + Sync,
) {
    let run = |start: usize, scratch: &mut [V], out: &mut [T]| {
        values(start, scratch);
        out.iter_mut().zip(scratch).for_each(|(out, value)| *out = store(*value));
    };
    // Scalars are most of what loops compute with: they need no large scratch.
    if out.len() <= SMALL {
        return run(0, &mut [V::default(); SMALL][..out.len()], out);
    }
    out.par_chunks_mut(CHUNK).enumerate().for_each(|(block, out)| {
        run(block * CHUNK, &mut [V::default(); CHUNK][..out.len()], out);
    });
}

fn load(dtype: DType, bytes: &[u8]) -> Num {
    match dtype.kind() {
        Kind::Bool => Num::B(bytes[0] != 0),
        Kind::Signed | Kind::Unsigned => {
            Num::I(crate::ir::int_from_bytes(bytes, dtype.is_signed()))
        }
        Kind::Float => Num::F(load_float(dtype, bytes)),
        Kind::Complex => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            Num::C(Complex64::new(load_float(dtype.part(), re), load_float(dtype.part(), im)))
        }
    }
}

fn load_float(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::F64 => bytemuck::pod_read_unaligned(bytes),
        DType::F32 => f64::from(bytemuck::pod_read_unaligned::<f32>(bytes)),
        narrow => format::decode(narrow, crate::ir::int_from_bytes(bytes, false) as u32),
    }
}

fn store(dtype: DType, out: &mut [u8], value: Num) {
    match dtype {
        DType::I1 => out[0] = u8::from(value.bool()),
        DType::F64 => out.copy_from_slice(&value.float().to_le_bytes()),
        DType::F32 => out.copy_from_slice(&(value.float() as f32).to_le_bytes()),
        DType::C64 => {
            let value = value.complex();
            let narrow = Complex32::new(value.re as f32, value.im as f32);
            out.copy_from_slice(bytemuck::bytes_of(&narrow));
        }
        DType::C128 => out.copy_from_slice(bytemuck::bytes_of(&value.complex())),
        dtype if dtype.is_float() => {
            let code = format::encode(dtype, value.float());
            out.copy_from_slice(&code.to_le_bytes()[..out.len()]);
        }
        dtype => out.copy_from_slice(&wrap(dtype, value.int()).to_le_bytes()[..out.len()]),
    }
}

/// Row-major strides of a static shape.
pub fn strides(dims: &[i64]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        // A shape with a dimension of zero has no elements, however large the others are.
        strides[i - 1] = usize::saturating_mul(strides[i], dims[i].max(0) as usize);
    }
    strides
}

/// The multi-dimensional index of element `i` of a static shape.
pub fn unravel(mut i: usize, dims: &[i64]) -> Dims {
    let mut index = Dims::from_elem(0, dims.len());
    for (place, dim) in index.iter_mut().zip(dims).rev() {
        let dim = (*dim).max(1) as usize;
        *place = (i % dim) as i64;
        i /= dim;
    }
    index
}

/// The element number of a multi-dimensional index within a static shape.
pub fn ravel(index: &[i64], dims: &[i64]) -> usize {
    index.iter().zip(dims).fold(0, |at, (i, dim)| at * *dim as usize + *i as usize)
}
