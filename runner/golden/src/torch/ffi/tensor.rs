//! Tensors: handles of libtorch's, and memory that is lent to them.

use std::alloc;
use std::any::Any;
use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::slice_from_raw_parts_mut;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};
use torch_sys::C_tensor;

use super::super::ScalarType;
use super::{Fault, checked, raw};

/// A tensor: a counted reference, so that a clone is another name for the same values.
pub struct Tensor(tch::Tensor);

impl Clone for Tensor {
    fn clone(&self) -> Self {
        Self(self.0.shallow_clone())
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = self.dtype().map_or("nothing", ScalarType::name);
        write!(f, "{dtype} {:?}", self.shape())
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
    #[cfg(test)]
    pub fn tch(&self) -> &tch::Tensor {
        &self.0
    }

    /// A tensor over memory that `owner` keeps alive and unmoved.
    ///
    /// # Safety
    /// `data` must stay valid, and be read and written by nothing else than libtorch, while
    /// `owner` lives.
    unsafe fn over<O: Any + Send + Sync>(
        data: *mut [u8],
        owner: Arc<O>,
        layout: &Layout<'_>,
    ) -> Result<Self, Fault> {
        extern "C" fn release<O>(owner: *mut c_void) {
            // SAFETY: made by `Arc::into_raw` below, and the shim calls this once.
            drop(unsafe { Arc::from_raw(owner.cast_const().cast::<O>()) });
        }
        let (needed, found) = (layout.reach()?, data.len());
        if needed > found {
            return Err(Fault(format!("{layout} takes {needed} bytes, and there are {found}")));
        }
        let owner = Arc::into_raw(owner).cast_mut().cast::<c_void>();
        // SAFETY: shape and strides have equally many numbers and describe memory inside
        // `data`; the owner goes to `release`, which undoes `into_raw` once in any case.
        let raw = checked(|error| unsafe {
            raw::wf_from_blob(
                data.cast(),
                layout.shape.as_ptr(),
                layout.strides.as_ptr(),
                layout.shape.len(),
                layout.dtype.c10() as c_int,
                owner,
                release::<O>,
                error,
            )
        })?;
        // SAFETY: fresh from the shim.
        Ok(unsafe { Self::own(raw) })
    }

    /// A tensor with a copy of these bytes.
    pub fn from_bytes(bytes: &[u8], layout: &Layout<'_>) -> Result<Self, Fault> {
        let memory = Arc::new(Memory::new(bytes.len())?);
        let data = slice_from_raw_parts_mut(memory.start, bytes.len());
        // SAFETY: the memory is at least as large, lives as long as the Arc that is handed
        // over, and is touched by nobody else.
        unsafe {
            bytes.as_ptr().copy_to_nonoverlapping(data.cast(), bytes.len());
            Self::over(data, memory, layout)
        }
    }

    /// A tensor over part of a mapped file, which it keeps mapped; a copy of the part if it
    /// does not begin where libtorch's own memory could.
    pub fn mapped(map: &Mapping, range: Range<usize>, layout: &Layout<'_>) -> Result<Self, Fault> {
        if range.start > range.end || range.end > map.0.len() {
            return Err(Fault(format!("bytes {range:?} of a file of {}", map.0.len())));
        }
        // SAFETY: inside the map, as was just checked. The map is private to this process, and
        // nothing but libtorch touches it.
        unsafe {
            let start = map.0.as_mut_ptr().add(range.start);
            if start.align_offset(ALIGNMENT) == 0 {
                Self::over(slice_from_raw_parts_mut(start, range.len()), Arc::clone(&map.0), layout)
            } else {
                let bytes = std::slice::from_raw_parts(start.cast_const(), range.len());
                Self::from_bytes(bytes, layout)
            }
        }
    }

    /// Operators may give "no tensor" where a tensor is expected.
    pub fn defined(&self) -> bool {
        // SAFETY: a live handle.
        unsafe { raw::wf_tensor_defined(self.raw()) != 0 }
    }

    /// `None` for a tensor that is not defined, or of a type that exported models do not have.
    pub fn dtype(&self) -> Option<ScalarType> {
        // SAFETY: a live handle of a defined tensor.
        let code = self.defined().then(|| unsafe { raw::wf_tensor_dtype(self.raw()) })?;
        ScalarType::ALL.iter().copied().find(|dtype| dtype.c10() == i64::from(code))
    }

    pub fn shape(&self) -> Vec<i64> {
        if !self.defined() {
            return Vec::new();
        }
        // SAFETY: a live handle, and room for as many sizes as it has dimensions.
        unsafe {
            let mut sizes = vec![0; raw::wf_tensor_dims(self.raw())];
            raw::wf_tensor_sizes(self.raw(), sizes.as_mut_ptr());
            sizes
        }
    }

    pub fn require_grad(&self, required: bool) -> Result<(), Fault> {
        // SAFETY: a live handle.
        checked(|error| unsafe { raw::wf_tensor_require_grad(self.raw(), required.into(), error) })
    }

    /// Whether gradients with respect to it, or through it, are recorded.
    pub fn tracked(&self) -> bool {
        // SAFETY: a live handle.
        self.defined() && unsafe { raw::wf_tensor_tracked(self.raw()) != 0 }
    }

    /// Adds the gradients of this scalar to all leaves that it was computed from.
    pub fn backward(&self) -> Result<(), Fault> {
        // SAFETY: a live handle.
        checked(|error| unsafe { raw::wf_tensor_backward(self.raw(), error) })
    }

    /// The gradient that was added up for it, if any was.
    pub fn grad(&self) -> Option<Self> {
        // SAFETY: a live handle; the result is fresh.
        let grad = unsafe { Self::own(raw::wf_tensor_grad(self.raw())) };
        grad.defined().then_some(grad)
    }

    pub fn drop_grad(&self) -> Result<(), Fault> {
        // SAFETY: a live handle.
        checked(|error| unsafe { raw::wf_tensor_drop_grad(self.raw(), error) })
    }

    /// The number that a tensor of one float holds.
    pub fn number(&self) -> Result<f64, Fault> {
        f64::try_from(&self.0).map_err(|error| Fault(error.to_string()))
    }

    /// The values as plain bytes in host memory.
    pub fn host(&self) -> Result<Host, Fault> {
        let Some(dtype) = self.dtype() else {
            return Err(Fault("a tensor of a type that no file can hold".to_owned()));
        };
        // SAFETY: a live handle of a defined tensor; the result is fresh.
        let tensor = unsafe { Self::own(checked(|error| raw::wf_tensor_host(self.raw(), error))?) };
        Ok(Host { dtype, tensor })
    }
}

/// How a tensor lies in its memory.
#[derive(Clone, Debug)]
pub struct Layout<'a> {
    pub dtype: ScalarType,
    pub shape: &'a [i64],
    /// In elements.
    pub strides: Cow<'a, [i64]>,
}

impl fmt::Display for Layout<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

impl<'a> Layout<'a> {
    /// One element after another, the last axis running fastest.
    pub fn dense(dtype: ScalarType, shape: &'a [i64]) -> Self {
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = shape[axis].max(1).saturating_mul(strides[axis]);
        }
        Self { dtype, shape, strides: strides.into() }
    }

    /// How many bytes from the first element's beginning to the last one's end.
    fn reach(&self) -> Result<usize, Fault> {
        let none = || Fault(format!("{self} with strides {:?} is no tensor", self.strides));
        if self.shape.len() != self.strides.len() || self.shape.iter().any(|size| *size < 0) {
            return Err(none());
        }
        if self.shape.contains(&0) {
            return Ok(0);
        }
        let mut steps = self.shape.iter().zip(self.strides.iter());
        let last = steps.try_fold(0_usize, |last, (size, stride)| {
            let step = usize::try_from(*stride).ok()?.checked_mul((*size - 1) as usize)?;
            last.checked_add(step)
        });
        last.and_then(|last| last.checked_add(1)?.checked_mul(self.dtype.bytes())).ok_or_else(none)
    }
}

/// What libtorch aligns its own memory to. Kept as a precaution: a kernel may choose its way
/// by alignment, though linear layers and norms tried with other starts gave the same bits.
const ALIGNMENT: usize = 64;

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

/// Zeroed memory that only libtorch touches.
struct Memory {
    start: *mut u8,
    layout: alloc::Layout,
}

// SAFETY: the memory belongs to it alone, and it never reads or writes it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(bytes: usize) -> Result<Self, Fault> {
        let layout = alloc::Layout::from_size_align(bytes.max(1), ALIGNMENT);
        let layout = layout.map_err(|_| Fault(format!("{bytes} bytes are too many")))?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        if start.is_null() {
            return Err(Fault(format!("there is no memory for {bytes} bytes")));
        }
        Ok(Self { start, layout })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed only here.
        unsafe { alloc::dealloc(self.start, self.layout) };
    }
}

/// A tensor's values in host memory, contiguous and in row order.
pub struct Host {
    pub dtype: ScalarType,
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
            match raw::wf_tensor_bytes(raw) {
                0 => &[],
                count => std::slice::from_raw_parts(raw::wf_tensor_data(raw).cast(), count),
            }
        }
    }
}
