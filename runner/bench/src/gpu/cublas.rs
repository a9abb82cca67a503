//! Products of matrices by cuBLASLt, the library behind PyTorch's own.

#![expect(unsafe_code, reason = "cuBLASLt's calls are unsafe by nature")]

use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of_val};
use std::ptr;

use cudarc::cublaslt::result::{self as lt, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtHandle_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t as Attribute, cublasLtMatmulHeuristicResult_t,
    cublasLtMatmulPreferenceAttributes_t as Preference, cublasLtMatrixLayout_t,
    cudaDataType_t as DataType, cudaStream_t,
};
use cudarc::driver::sys::CUstream;

use super::api::{ALGORITHMS, Arithmetic, Done, Plan, Shape, WORKSPACE, failed};
use super::format::{BF16, E4M3, F16, F32, Format};
use crate::dynlib;
use crate::suite::Unable;

const LIBRARY: &[&str] =
    &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"];

/// `CUBLAS_OP_N` and `CUBLAS_OP_T`.
const TRANSPOSED: [i32; 2] = [0, 1];
/// Sums that are split over blocks and added as they come would differ in their last bits.
const NO_SPLIT_SUMS: u32 = 0;

pub(super) struct Multiplication {
    handle: cublasLtHandle_t,
    description: cublasLtMatmulDesc_t,
    operand: cublasLtMatrixLayout_t,
    product: cublasLtMatrixLayout_t,
    algorithms: Vec<cublasLtMatmulHeuristicResult_t>,
    queue: cudaStream_t,
    workspace: u64,
}

// SAFETY: a handle may be used by one thread after another.
unsafe impl Send for Multiplication {}

fn done<T>(call: &str, result: Result<T, CublasError>) -> Done<T> {
    result.map_err(|error| failed(call, format!("{:?}", error.0)))
}

fn data_type(format: Format) -> Done<DataType> {
    const TYPES: [(Format, DataType); 4] = [
        (F32, DataType::CUDA_R_32F),
        (BF16, DataType::CUDA_R_16BF),
        (F16, DataType::CUDA_R_16F),
        (E4M3, DataType::CUDA_R_8F_E4M3),
    ];
    let found = TYPES.iter().find(|(candidate, _)| *candidate == format);
    found.map(|(_, found)| *found).ok_or_else(|| failed("cuBLASLt", format!("no type {format:?}")))
}

impl Multiplication {
    /// # Safety
    /// The queue and the workspace outlive it.
    pub unsafe fn new(shape: &Shape, queue: CUstream, workspace: u64) -> Done<Self> {
        if let Err(fault) = dynlib::present(LIBRARY) {
            return Err(Unable::Missing(format!(
                "cuBLASLt cannot be used ({fault}): install CUDA's libraries, or name their \
                 folder in LD_LIBRARY_PATH"
            )));
        }
        let mut new = Self {
            handle: done("cublasLtCreate", lt::create_handle())?,
            description: ptr::null_mut(),
            operand: ptr::null_mut(),
            product: ptr::null_mut(),
            algorithms: Vec::new(),
            queue: queue.cast(),
            workspace,
        };
        new.describe(shape)?;
        new.algorithms = new.find()?;
        Ok(new)
    }

    fn describe(&mut self, shape: &Shape) -> Done {
        let compute = match shape.arithmetic {
            Arithmetic::Full => Compute::CUBLAS_COMPUTE_32F,
            Arithmetic::Tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
        };
        let description = lt::create_matmul_desc(compute, DataType::CUDA_R_32F);
        self.description = done("cublasLtMatmulDescCreate", description)?;
        // Column by column, and with the operands exchanged: see `multiply`.
        let [second, first] = shape.across;
        let operations = [!first, second].map(|transposed| TRANSPOSED[usize::from(transposed)]);
        self.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &operations[0])?;
        self.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &operations[1])?;
        if shape.operand == E4M3 {
            self.set(Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &1_i8)?;
        }
        let layout = |format| {
            let n = shape.size as u64;
            let layout = lt::create_matrix_layout(data_type(format)?, n, n, n as i64);
            done("cublasLtMatrixLayoutCreate", layout)
        };
        self.operand = layout(shape.operand)?;
        self.product = layout(shape.product)?;
        Ok(())
    }

    fn set<T>(&self, attribute: Attribute, value: &T) -> Done {
        let (place, size) = (ptr::from_ref(value).cast(), size_of_val(value));
        // SAFETY: the description exists, and cuBLASLt checks the size against the attribute's.
        let result =
            unsafe { lt::set_matmul_desc_attribute(self.description, attribute, place, size) };
        done("cublasLtMatmulDescSetAttribute", result)
    }

    fn find(&self) -> Done<Vec<cublasLtMatmulHeuristicResult_t>> {
        let preference = done("cublasLtMatmulPreferenceCreate", lt::create_matmul_pref())?;
        // SAFETY: the preference exists until it is destroyed below; the values have the types
        // that cublasLt.h gives these attributes.
        unsafe {
            let found = Self::prefer(preference).and_then(|()| self.ask(preference));
            let _ = lt::destroy_matmul_pref(preference);
            found
        }
    }

    /// # Safety
    /// The preference exists.
    unsafe fn prefer(preference: sys::cublasLtMatmulPreference_t) -> Done {
        let bytes = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let sums = Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;
        // SAFETY: the caller's promise; the first is a size_t, the second a uint32_t.
        let result = unsafe {
            let (value, size) = (ptr::from_ref(&WORKSPACE).cast(), size_of_val(&WORKSPACE));
            lt::set_matmul_pref_attribute(preference, bytes, value, size).and_then(|()| {
                let (value, size) = (ptr::from_ref(&NO_SPLIT_SUMS).cast(), 4);
                lt::set_matmul_pref_attribute(preference, sums, value, size)
            })
        };
        done("cublasLtMatmulPreferenceSetAttribute", result)
    }

    /// # Safety
    /// The preference exists.
    unsafe fn ask(
        &self,
        preference: sys::cublasLtMatmulPreference_t,
    ) -> Done<Vec<cublasLtMatmulHeuristicResult_t>> {
        let mut found =
            [const { MaybeUninit::<cublasLtMatmulHeuristicResult_t>::uninit() }; ALGORITHMS];
        let mut count = 0;
        // SAFETY: all descriptions exist, and there is room for as many results as are asked for.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                self.description,
                self.operand,
                self.operand,
                self.product,
                self.product,
                preference,
                ALGORITHMS as i32,
                found.as_mut_ptr().cast(),
                &raw mut count,
            )
        };
        done("cublasLtMatmulAlgoGetHeuristic", status.result())?;
        // SAFETY: cuBLASLt has written the first `count`.
        let found = found[..count as usize].iter().map(|one| unsafe { one.assume_init() });
        Ok(found.filter(|one| one.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS).collect())
    }
}

impl Plan for Multiplication {
    fn algorithms(&self) -> usize {
        self.algorithms.len()
    }

    unsafe fn multiply(&self, algorithm: usize, a: u64, b: u64, c: u64) -> Done {
        let (one, zero) = (1.0_f32, 0.0_f32);
        // cuBLASLt counts column by column: there our rows are columns, and the product, which it
        // would leave transposed, comes out row by row with the operands exchanged.
        // SAFETY: the caller's promise for the addresses; the rest belongs to `self`.
        let result = unsafe {
            lt::matmul(
                self.handle,
                self.description,
                ptr::from_ref(&one).cast(),
                ptr::from_ref(&zero).cast(),
                b as *const c_void,
                self.operand,
                a as *const c_void,
                self.operand,
                c as *const c_void,
                self.product,
                c as *mut c_void,
                self.product,
                &raw const self.algorithms[algorithm].algo,
                self.workspace as *mut c_void,
                WORKSPACE,
                self.queue,
            )
        };
        done("cublasLtMatmul", result)
    }
}

impl Drop for Multiplication {
    fn drop(&mut self) {
        // SAFETY: these are ours alone, and null where making them failed.
        unsafe {
            for layout in [self.operand, self.product] {
                if !layout.is_null() {
                    let _ = lt::destroy_matrix_layout(layout);
                }
            }
            if !self.description.is_null() {
                let _ = lt::destroy_matmul_desc(self.description);
            }
            let _ = lt::destroy_handle(self.handle);
        }
    }
}
