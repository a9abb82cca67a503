//! Products of matrices by hipBLASLt. Written after its headers, and compiled; it has not run on
//! such hardware so far.

#![expect(unsafe_code, reason = "hipBLASLt's calls are unsafe by nature")]

use std::ffi::{c_int, c_void};
use std::mem::size_of_val;
use std::ptr;

use super::api::{ALGORITHMS, Arithmetic, Done, Plan, Shape, WORKSPACE, failed};
use super::format::{BF16, E4M3, E4M3_FNUZ, F16, F32, Format};
use super::hip::functions;
use crate::dynlib::{Fault, Library};
use crate::suite::Unable;

type Handle = *mut c_void;

functions!(Blas {
    create: "hipblasLtCreate" (*mut Handle);
    destroy: "hipblasLtDestroy" (Handle);
    description_create: "hipblasLtMatmulDescCreate" (*mut Handle, c_int, c_int);
    description_set: "hipblasLtMatmulDescSetAttribute" (Handle, c_int, *const c_void, usize);
    description_destroy: "hipblasLtMatmulDescDestroy" (Handle);
    layout_create: "hipblasLtMatrixLayoutCreate" (*mut Handle, c_int, u64, u64, i64);
    layout_destroy: "hipblasLtMatrixLayoutDestroy" (Handle);
    preference_create: "hipblasLtMatmulPreferenceCreate" (*mut Handle);
    preference_set: "hipblasLtMatmulPreferenceSetAttribute" (Handle, c_int, *const c_void, usize);
    preference_destroy: "hipblasLtMatmulPreferenceDestroy" (Handle);
    heuristic: "hipblasLtMatmulAlgoGetHeuristic" (
        Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Found, *mut c_int
    );
    matmul: "hipblasLtMatmul" (
        Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle,
        *const c_void, *const c_void, Handle, *mut c_void, Handle, *const Algorithm,
        *mut c_void, usize, Handle
    );
});

const LIBRARY: &[&str] =
    &["libhipblaslt.so", "libhipblaslt.so.1", "libhipblaslt.so.0", "/opt/rocm/lib/libhipblaslt.so"];

/// `HIPBLASLT_MATMUL_DESC_TRANSA` and `HIPBLASLT_MATMUL_DESC_TRANSB`.
const TRANSPOSE: [c_int; 2] = [0, 1];
/// `HIPBLAS_OP_N` and `HIPBLAS_OP_T`.
const TRANSPOSED: [i32; 2] = [111, 112];
/// `HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`.
const MOST_WORKSPACE: c_int = 1;
/// `HIPBLAS_COMPUTE_32F` and `HIPBLAS_COMPUTE_32F_FAST_TF32`.
const COMPUTE_FULL: c_int = 2;
const COMPUTE_TF32: c_int = 6;

/// `hipDataType` by format.
const TYPES: [(Format, c_int); 5] = [(F32, 0), (F16, 2), (BF16, 14), (E4M3, 28), (E4M3_FNUZ, 1000)];

/// `hipblasLtMatmulAlgo_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Algorithm {
    data: [u64; 2],
    most_workspace: usize,
}

/// `hipblasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Found {
    algorithm: Algorithm,
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

pub(super) struct Multiplication {
    blas: Blas,
    handle: Handle,
    description: Handle,
    operand: Handle,
    product: Handle,
    algorithms: Vec<Algorithm>,
    queue: Handle,
    workspace: u64,
}

// SAFETY: a handle may be used by one thread after another.
unsafe impl Send for Multiplication {}

fn done(call: &str, status: c_int) -> Done {
    if status == 0 { Ok(()) } else { Err(failed(call, format!("status {status}"))) }
}

fn data_type(format: Format) -> c_int {
    let found = TYPES.iter().find(|(candidate, _)| *candidate == format);
    found.map_or_else(|| unreachable!("no type for {format:?}"), |(_, found)| *found)
}

fn load() -> Done<Blas> {
    let library = Library::open_any(LIBRARY).map_err(|fault| {
        Unable::Missing(format!("hipBLASLt cannot be used ({fault}): install ROCm's libraries"))
    })?;
    // SAFETY: this is hipBLASLt, and hipblaslt.h declares the functions so.
    unsafe { Blas::load(&library) }.map_err(|fault| Unable::Failed(fault.to_string()))
}

impl Multiplication {
    /// # Safety
    /// The queue and the workspace outlive it.
    pub unsafe fn new(shape: &Shape, queue: Handle, workspace: u64) -> Done<Self> {
        let none = ptr::null_mut();
        let mut new = Self {
            blas: load()?,
            handle: none,
            description: none,
            operand: none,
            product: none,
            algorithms: Vec::new(),
            queue,
            workspace,
        };
        // SAFETY: the handle is written where it is asked for.
        done("hipblasLtCreate", unsafe { (new.blas.create)(&raw mut new.handle) })?;
        new.describe(shape)?;
        new.algorithms = new.find()?;
        Ok(new)
    }

    fn describe(&mut self, shape: &Shape) -> Done {
        let compute = match shape.arithmetic {
            Arithmetic::Full => COMPUTE_FULL,
            Arithmetic::Tf32 => COMPUTE_TF32,
        };
        let (n, blas) = (shape.size as u64, self.blas);
        let layout = |to: *mut Handle, format| {
            // SAFETY: the handle is written where it is asked for.
            let status = unsafe { (blas.layout_create)(to, data_type(format), n, n, n as i64) };
            done("hipblasLtMatrixLayoutCreate", status)
        };
        layout(&raw mut self.operand, shape.operand)?;
        layout(&raw mut self.product, shape.product)?;
        // SAFETY: the handle is written where it is asked for.
        let status = unsafe {
            (blas.description_create)(&raw mut self.description, compute, data_type(F32))
        };
        done("hipblasLtMatmulDescCreate", status)?;
        let [second, first] = shape.across;
        for (attribute, transposed) in TRANSPOSE.into_iter().zip([!first, second]) {
            let operation = TRANSPOSED[usize::from(transposed)];
            let (value, size) = (ptr::from_ref(&operation).cast(), size_of_val(&operation));
            // SAFETY: the description was just made; the attribute is an int32_t.
            let status =
                unsafe { (blas.description_set)(self.description, attribute, value, size) };
            done("hipblasLtMatmulDescSetAttribute", status)?;
        }
        Ok(())
    }

    fn find(&self) -> Done<Vec<Algorithm>> {
        let mut preference = ptr::null_mut();
        // SAFETY: the handle is written where it is asked for.
        let status = unsafe { (self.blas.preference_create)(&raw mut preference) };
        done("hipblasLtMatmulPreferenceCreate", status)?;
        // SAFETY: the preference exists until it is destroyed here.
        unsafe {
            let found = self.ask(preference);
            (self.blas.preference_destroy)(preference);
            found
        }
    }

    /// # Safety
    /// The preference exists.
    unsafe fn ask(&self, preference: Handle) -> Done<Vec<Algorithm>> {
        let (value, size) = (ptr::from_ref(&WORKSPACE).cast(), size_of_val(&WORKSPACE));
        let (mut found, mut count) = ([Found::default(); ALGORITHMS], 0);
        // SAFETY: the caller's promise; the attribute is a size_t.
        let status = unsafe { (self.blas.preference_set)(preference, MOST_WORKSPACE, value, size) };
        done("hipblasLtMatmulPreferenceSetAttribute", status)?;
        // SAFETY: all descriptions exist, and there is room for as many results as are asked for.
        let status = unsafe {
            (self.blas.heuristic)(
                self.handle,
                self.description,
                self.operand,
                self.operand,
                self.product,
                self.product,
                preference,
                ALGORITHMS as c_int,
                found.as_mut_ptr(),
                &raw mut count,
            )
        };
        done("hipblasLtMatmulAlgoGetHeuristic", status)?;
        let found = found.into_iter().take(count as usize).filter(|one| one.state == 0);
        Ok(found.map(|one| one.algorithm).collect())
    }
}

impl Plan for Multiplication {
    fn algorithms(&self) -> usize {
        self.algorithms.len()
    }

    unsafe fn multiply(&self, algorithm: usize, a: u64, b: u64, c: u64) -> Done {
        let (one, zero) = (1.0_f32, 0.0_f32);
        // Column by column, as cuBLASLt: the operands are exchanged.
        // SAFETY: the caller's promise for the addresses; the rest belongs to `self`.
        let status = unsafe {
            (self.blas.matmul)(
                self.handle,
                self.description,
                ptr::from_ref(&one).cast(),
                b as *const c_void,
                self.operand,
                a as *const c_void,
                self.operand,
                ptr::from_ref(&zero).cast(),
                c as *const c_void,
                self.product,
                c as *mut c_void,
                self.product,
                &raw const self.algorithms[algorithm],
                self.workspace as *mut c_void,
                WORKSPACE,
                self.queue,
            )
        };
        done("hipblasLtMatmul", status)
    }
}

impl Drop for Multiplication {
    fn drop(&mut self) {
        // SAFETY: these are ours alone, and null where making them failed.
        unsafe {
            for layout in [self.operand, self.product] {
                if !layout.is_null() {
                    (self.blas.layout_destroy)(layout);
                }
            }
            if !self.description.is_null() {
                (self.blas.description_destroy)(self.description);
            }
            if !self.handle.is_null() {
                (self.blas.destroy)(self.handle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As hipblaslt.h lays them out: sixteen bytes, a size, a size, two words, four words.
    #[test]
    fn structures_have_the_headers_sizes() {
        assert_eq!(size_of::<Algorithm>(), 24);
        assert_eq!(size_of::<Found>(), 56);
        assert_eq!(std::mem::offset_of!(Found, state), 32);
    }

    #[test]
    fn functions_are_named_as_the_library_names_them() {
        assert!(Blas::NAMES.iter().all(|name| name.starts_with("hipblasLt")));
    }
}
