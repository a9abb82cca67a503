//! The boundary to C++: the shim's functions and the safe types made of them. Everything that
//! crosses is owned on one side: values and tensors are fresh handles that are freed here,
//! messages are copied and freed, and exceptions were turned into messages on the other side.

#![expect(unsafe_code, reason = "calling C++ is unsafe by nature; each call says why it is right")]

mod context;
mod tensor;
mod value;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;

use torch_sys::C_tensor;

use super::Fault;

pub use context::{Autocast, Context, GradMode};
pub use tensor::{Host, Layout, Mapping, Tensor};
pub use value::Op;

/// `c10::IValue`.
#[repr(C)]
struct RawValue([u8; 0]);

/// `c10::OperatorHandle`.
#[repr(C)]
struct RawOp([u8; 0]);

#[repr(C)]
#[derive(Clone, Copy)]
struct RawAutocast {
    enabled: c_int,
    dtype: c_int,
    cache: c_int,
}

type Error = *mut *mut c_char;

unsafe extern "C" {
    safe fn wf_version() -> u64;
    fn wf_text_free(text: *mut c_char);
    safe fn wf_none() -> *mut RawValue;
    safe fn wf_bool(value: c_int) -> *mut RawValue;
    safe fn wf_int(value: i64) -> *mut RawValue;
    safe fn wf_double(value: f64) -> *mut RawValue;
    safe fn wf_complex(re: f64, im: f64) -> *mut RawValue;
    fn wf_string(text: *const c_char, length: usize) -> *mut RawValue;
    fn wf_tensor(tensor: *const C_tensor) -> *mut RawValue;
    fn wf_device(text: *const c_char, length: usize, error: Error) -> *mut RawValue;
    fn wf_list(items: *const *mut RawValue, count: usize) -> *mut RawValue;
    fn wf_value_free(value: *mut RawValue);
    fn wf_kind(value: *const RawValue) -> c_int;
    fn wf_as_bool(value: *const RawValue, error: Error) -> c_int;
    fn wf_as_int(value: *const RawValue, error: Error) -> i64;
    fn wf_as_double(value: *const RawValue, error: Error) -> f64;
    fn wf_as_complex(value: *const RawValue, re: *mut f64, im: *mut f64);
    fn wf_as_text(value: *const RawValue) -> *mut c_char;
    fn wf_as_tensor(value: *const RawValue) -> *mut C_tensor;
    fn wf_list_length(value: *const RawValue) -> usize;
    fn wf_list_item(value: *const RawValue, index: usize) -> *mut RawValue;
    fn wf_type_name(value: *const RawValue) -> *mut c_char;
    fn wf_op_find(name: *const c_char, overload: *const c_char, error: Error) -> *const RawOp;
    fn wf_op_parameters(op: *const RawOp) -> usize;
    fn wf_op_results(op: *const RawOp) -> usize;
    fn wf_op_parameter_name(op: *const RawOp, index: usize) -> *const c_char;
    fn wf_op_parameter_default(op: *const RawOp, index: usize) -> *mut RawValue;
    fn wf_op_random(op: *const RawOp) -> c_int;
    fn wf_op_schema(op: *const RawOp) -> *mut c_char;
    fn wf_op_call(
        op: *const RawOp,
        arguments: *const *const RawValue,
        results: *mut *mut RawValue,
        error: Error,
    ) -> c_int;
    fn wf_all_ops(error: Error) -> *mut c_char;
    fn wf_configure(threads: c_int, tf32: c_int, error: Error);
    safe fn wf_threads() -> c_int;
    fn wf_cuda_devices(error: Error) -> c_int;
    fn wf_cuda_synchronize(device: c_int, error: Error);
    safe fn wf_grad_enabled() -> c_int;
    safe fn wf_grad_set(enabled: c_int);
    fn wf_autocast_enter(
        device: *const c_char,
        wanted: RawAutocast,
        before: *mut RawAutocast,
        error: Error,
    );
    fn wf_autocast_leave(device: *const c_char, before: RawAutocast, error: Error);
    fn wf_from_blob(
        data: *mut c_void,
        sizes: *const i64,
        strides: *const i64,
        dims: usize,
        dtype: c_int,
        owner: *mut c_void,
        release: extern "C" fn(*mut c_void),
        error: Error,
    ) -> *mut C_tensor;
    fn wf_tensor_defined(tensor: *const C_tensor) -> c_int;
    fn wf_tensor_dtype(tensor: *const C_tensor) -> c_int;
    fn wf_tensor_dims(tensor: *const C_tensor) -> usize;
    fn wf_tensor_sizes(tensor: *const C_tensor, sizes: *mut i64);
    fn wf_tensor_same_storage(a: *const C_tensor, b: *const C_tensor) -> c_int;
    fn wf_tensor_require_grad(tensor: *const C_tensor, required: c_int, error: Error);
    fn wf_tensor_host(tensor: *const C_tensor, error: Error) -> *mut C_tensor;
    fn wf_tensor_data(tensor: *const C_tensor) -> *const c_void;
    fn wf_tensor_bytes(tensor: *const C_tensor) -> usize;
}

/// Copies and frees a message of the shim's.
///
/// # Safety
/// `text` must be a string that the shim allocated, and is not used afterwards.
unsafe fn take_text(text: *mut c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        wf_text_free(text);
        copy
    }
}

/// Makes a call that reports through an error pointer.
fn checked<R>(call: impl FnOnce(Error) -> R) -> Result<R, Fault> {
    let mut message = null_mut();
    let result = call(&raw mut message);
    if message.is_null() {
        return Ok(result);
    }
    // SAFETY: the shim left a message that it allocated, for the caller to free.
    Err(Fault(unsafe { take_text(message) }))
}

fn c_text(text: &str) -> Result<CString, Fault> {
    CString::new(text).map_err(|_| Fault(format!("{text:?} holds a zero byte")))
}
