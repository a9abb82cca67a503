//! Tensors: handles of libtorch's, and memory that is lent to them.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::slice_from_raw_parts_mut;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};
use torch_sys::C_tensor;

use super::super::DType;
use super::{
    Fault, checked, wf_from_blob, wf_tensor_bytes, wf_tensor_data, wf_tensor_defined,
    wf_tensor_dims, wf_tensor_dtype, wf_tensor_host, wf_tensor_require_grad,
    wf_tensor_same_storage, wf_tensor_sizes,
};

/// A tensor: a counted reference, so that a clone is another name for the same values.
pub struct Tensor(tch::Tensor);

impl Clone for Tensor {
    fn clone(&self) -> Self {
        Self(self.0.shallow_clone())
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}", self.dtype(), self.shape())
    }
}

impl Tensor {
    /// # Safety
    /// `raw` must be a tensor that nothing else frees.
    pub(super) unsafe fn own(raw: *mut C_tensor) -> Self {
        // SAFETY: the caller's promise; tch frees it as the shim allocated it, by C++ `delete`.
        Self(unsafe { tch::Tensor::from_ptr(raw) })
    }

    pub(super) fn raw(&self) -> *const C_tensor {
        self.0.as_ptr()
    }

    /// tch's view of it, for what has a method there.
    pub fn tch(&self) -> &tch::Tensor {
        &self.0
    }

    /// A contiguous tensor over memory that `owner` keeps alive and unmoved. It must be
    /// writable, as in-place operators write to it, and aligned for the element type.
    ///
    /// # Safety
    /// `data` must stay valid, and be read and written by nothing else than libtorch, while
    /// `owner` lives.
    unsafe fn over<O: Any + Send + Sync>(
        data: *mut [u8],
        owner: Arc<O>,
        dtype: DType,
        shape: &[i64],
    ) -> Result<Self, Fault> {
        extern "C" fn release<O>(owner: *mut c_void) {
            // SAFETY: made by `Arc::into_raw` below, and the shim calls this once.
            drop(unsafe { Arc::from_raw(owner.cast_const().cast::<O>()) });
        }
        let needed = bytes_of(dtype, shape)?;
        if needed != data.len() {
            let found = data.len();
            return Err(Fault(format!("{dtype:?}{shape:?} takes {needed} bytes, not {found}")));
        }
        if data.cast::<u8>().align_offset(dtype.size()) != 0 {
            return Err(Fault(format!("the memory is not aligned for {dtype:?}")));
        }
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis].max(1);
        }
        let owner = Arc::into_raw(owner).cast_mut().cast::<c_void>();
        // SAFETY: shape and strides have `shape.len()` numbers and describe memory inside
        // `data`; the owner goes to `release`, which undoes `into_raw` once in any case.
        let raw = checked(|error| unsafe {
            wf_from_blob(
                data.cast(),
                shape.as_ptr(),
                strides.as_ptr(),
                shape.len(),
                dtype.code(),
                owner,
                release::<O>,
                error,
            )
        })?;
        // SAFETY: fresh from the shim.
        Ok(unsafe { Self::own(raw) })
    }

    /// A contiguous tensor with these bytes, kept in memory aligned for any element type.
    pub fn from_bytes(bytes: &[u8], dtype: DType, shape: &[i64]) -> Result<Self, Fault> {
        let words = Arc::new(Words::new(bytes.len().div_ceil(8)));
        let data = slice_from_raw_parts_mut(words.0.cast::<u8>(), bytes.len());
        // SAFETY: the words are at least as many bytes, live as long as the Arc that is handed
        // over, and are touched by nobody else.
        unsafe {
            bytes.as_ptr().copy_to_nonoverlapping(data.cast(), bytes.len());
            Self::over(data, words, dtype, shape)
        }
    }

    /// A tensor over part of a mapped file, which it keeps mapped. The part is copied if it is
    /// not aligned for the element type.
    pub fn mapped(
        map: &Mapping,
        range: Range<usize>,
        dtype: DType,
        shape: &[i64],
    ) -> Result<Self, Fault> {
        if range.start > range.end || range.end > map.0.len() {
            return Err(Fault(format!("bytes {range:?} of a file of {}", map.0.len())));
        }
        // SAFETY: inside the map, as was just checked. The map is private to this process, and
        // nothing but libtorch touches it.
        unsafe {
            let start = map.0.as_mut_ptr().add(range.start);
            if start.align_offset(dtype.size()) == 0 {
                let data = slice_from_raw_parts_mut(start, range.len());
                Self::over(data, Arc::clone(&map.0), dtype, shape)
            } else {
                let bytes = std::slice::from_raw_parts(start.cast_const(), range.len());
                Self::from_bytes(bytes, dtype, shape)
            }
        }
    }

    /// Operators may give "no tensor" where a tensor is expected.
    pub fn defined(&self) -> bool {
        // SAFETY: a live handle.
        unsafe { wf_tensor_defined(self.raw()) != 0 }
    }

    /// `None` for a tensor that is not defined, or of a type that no file can hold.
    pub fn dtype(&self) -> Option<DType> {
        // SAFETY: a live handle of a defined tensor.
        self.defined().then(|| unsafe { wf_tensor_dtype(self.raw()) }).and_then(DType::from_code)
    }

    pub fn shape(&self) -> Vec<i64> {
        if !self.defined() {
            return Vec::new();
        }
        // SAFETY: a live handle, and room for as many sizes as it has dimensions.
        unsafe {
            let mut sizes = vec![0; wf_tensor_dims(self.raw())];
            wf_tensor_sizes(self.raw(), sizes.as_mut_ptr());
            sizes
        }
    }

    pub fn elements(&self) -> usize {
        self.shape().iter().product::<i64>() as usize
    }

    /// Whether the two are views of the same memory.
    pub fn shares_memory(&self, other: &Self) -> bool {
        // SAFETY: live handles.
        self.defined()
            && other.defined()
            && unsafe { wf_tensor_same_storage(self.raw(), other.raw()) != 0 }
    }

    pub fn require_grad(&self, required: bool) -> Result<(), Fault> {
        // SAFETY: a live handle.
        checked(|error| unsafe { wf_tensor_require_grad(self.raw(), required.into(), error) })
    }

    /// The values as plain bytes in host memory.
    pub fn host(&self) -> Result<Host, Fault> {
        let Some(dtype) = self.dtype() else {
            return Err(Fault("a tensor of a type that no file can hold".to_owned()));
        };
        // SAFETY: a live handle of a defined tensor; the result is fresh.
        let tensor = unsafe { Self::own(checked(|error| wf_tensor_host(self.raw(), error))?) };
        Ok(Host { dtype, tensor })
    }
}

fn bytes_of(dtype: DType, shape: &[i64]) -> Result<usize, Fault> {
    let sizes = shape.iter().map(|size| usize::try_from(*size).ok());
    let count = sizes.fold(Some(dtype.size()), |count, size| count?.checked_mul(size?));
    count.ok_or_else(|| Fault(format!("{shape:?} is no shape")))
}

/// A file in memory. What in-place operators write stays in this process.
#[derive(Clone)]
pub struct Mapping(Arc<MmapRaw>);

impl Mapping {
    pub fn open(file: &File) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        // A copy is made of pages that are written to, which are few: none are reserved.
        // SAFETY: only libtorch sees the bytes, as numbers that may have any value; somebody
        // who rewrites the file meanwhile gets wrong results, as with any reader.
        let map = unsafe { options.no_reserve_swap().map_copy(file) }?;
        Ok(Self(Arc::new(map.into())))
    }

    /// How many tensors use it.
    #[cfg(test)]
    pub fn users(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

/// Zeroed memory, aligned for any element type, that only libtorch touches.
struct Words(*mut [u64]);

// SAFETY: the memory belongs to it alone, and it never reads or writes it.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    fn new(count: usize) -> Self {
        Self(Box::into_raw(vec![0; count].into_boxed_slice()))
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`, and freed only here.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// A tensor's values in host memory, contiguous and in row order.
pub struct Host {
    pub dtype: DType,
    tensor: Tensor,
}

impl Host {
    pub fn shape(&self) -> Vec<i64> {
        self.tensor.shape()
    }

    /// What is there now: an in-place operator on the original may change it, unless the
    /// original was on a device or not contiguous.
    pub fn bytes(&self) -> &[u8] {
        let raw = self.tensor.raw();
        // SAFETY: a contiguous tensor in host memory of that many bytes, alive as long as
        // `self`; this crate runs operators on one thread, and not while it reads.
        unsafe {
            match wf_tensor_bytes(raw) {
                0 => &[],
                count => std::slice::from_raw_parts(wf_tensor_data(raw).cast(), count),
            }
        }
    }
}
